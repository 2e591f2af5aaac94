//! The page: sections with tables "paper | here", and figures beside it.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
pub(crate) use fairstream_report::grouped;

use crate::{Experiment, Extent};

/// What an experiment came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why it could not be run, if so.
    pub skipped: Option<String>,
    /// What was done, in a paragraph.
    pub setting: String,
    /// What the paper says, and what came out here.
    pub findings: Vec<Finding>,
    /// More, as Markdown.
    pub details: String,
    /// File names and texts of figures, and what they show.
    pub figures: Vec<(String, String, String)>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is compared.
    pub what: String,
    /// What was published.
    pub paper: String,
    /// What came out.
    pub here: String,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, paper: impl Into<String>, here: impl Into<String>) -> Finding {
        Finding { what: what.into(), paper: paper.into(), here: here.into() }
    }
}

/// The page as it grows.
pub struct Page {
    text: String,
    figures: Vec<(String, String)>,
}

impl Page {
    /// A page with nothing but its head.
    pub fn new(extent: Extent) -> Page {
        let mut text = String::from(
            "# The paper, reproduced\n\n*Stream-Based Monitoring of Algorithmic Fairness* (TACAS 2025), run with \
             fairstream: what the paper says beside what comes out here. All numbers are of the run that wrote \
             this page; the same version writes the same page.\n",
        );
        if extent == Extent::QUICK {
            text += "\n**Quick**: a few seeds, to see that it works. The numbers mean little.\n";
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

/// The value below which this share of sorted values lies; `None` if there are none.
pub(crate) fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}
