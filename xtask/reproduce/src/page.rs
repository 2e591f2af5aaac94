//! The page: sections with tables "paper | here", and figures.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
pub(crate) use fairstream_report::grouped;

use crate::{Experiment, Extent};

/// Result of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The reason if it could not be run.
    pub skipped: Option<String>,
    /// A paragraph on the setting.
    pub setting: String,
    /// Published and reproduced results.
    pub findings: Vec<Finding>,
    /// Further results, as Markdown.
    pub details: String,
    /// For each figure: file name, SVG, and a description.
    pub figures: Vec<(String, String, String)>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The quantity that is compared.
    pub what: String,
    /// The published result.
    pub paper: String,
    /// The reproduced result.
    pub here: String,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, paper: impl Into<String>, here: impl Into<String>) -> Finding {
        Finding { what: what.into(), paper: paper.into(), here: here.into() }
    }
}

/// The page and its figures so far.
pub struct Page {
    text: String,
    figures: Vec<(String, String)>,
}

impl Page {
    /// A page with only its head.
    pub fn new(extent: Extent) -> Page {
        let mut text = String::from(
            "# The paper, reproduced\n\n*Stream-Based Monitoring of Algorithmic Fairness* (TACAS 2025), run with \
             fairstream: the published results beside the reproduced ones. All numbers are from the run that wrote \
             this page; the same version writes the same page.\n",
        );
        if extent == Extent::QUICK {
            text += "\n**Quick**: a few seeds, to check that the experiments run. The numbers are not reliable.\n";
        }
        Page { text, figures: Vec::new() }
    }

    /// Adds a section.
    pub fn add(&mut self, experiment: &Experiment, outcome: Outcome) {
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n## {}\n\n{}", experiment.title, outcome.setting);
        if let Some(reason) = &outcome.skipped {
            let _ = writeln!(text, "\n**Skipped**: {reason}");
        }
        if !outcome.findings.is_empty() {
            let rows = outcome
                .findings
                .iter()
                .map(|Finding { what, paper, here }| vec![what.clone(), paper.clone(), here.clone()]);
            *text += "\n";
            *text += &table(&["", "paper", "here"], rows);
        }
        if !outcome.details.is_empty() {
            let _ = writeln!(text, "\n{}", outcome.details.trim_end());
        }
        for (name, svg, shows) in outcome.figures {
            let _ = writeln!(text, "\n![{shows}]({name})");
            self.figures.push((name, svg));
        }
    }

    /// The page as Markdown.
    pub fn markdown(&self) -> &str {
        &self.text
    }

    /// Writes the page and its figures into a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let files = self.figures.iter().map(|(name, svg)| (name.as_str(), svg.as_str()));
        for (name, text) in files.chain([("reproduce.md", self.text.as_str())]) {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// A table in Markdown.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let rule: Vec<String> = header.iter().map(|_| "---".to_owned()).collect();
    let mut text = line(&header) + &line(&rule);
    rows.into_iter().for_each(|row| text += &line(&row));
    text
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The quantile of sorted values; `None` if there are none.
pub(crate) fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}
