//! What came out: a page, figures and numbers. Written after every workload, so that a run that is broken off leaves what
//! it has measured.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::Options;
use crate::compare::{Comparison, Missing};
use crate::end_to_end::EndToEnd;
use crate::page;
use crate::rivals::Rival;

/// The page, in the folder of results.
pub(crate) const PAGE: &str = "benchmarks.md";

/// What is known of a run before anything is measured.
pub(crate) struct Results<'a> {
    pub(crate) options: &'a Options,
    pub(crate) rivals: &'a [Rival],
    /// Who cannot be run here.
    pub(crate) missing: Missing,
    /// Of an earlier run.
    pub(crate) baseline: Option<Value>,
    pub(crate) load_before: Option<String>,
}

/// How far a run has come.
#[derive(Clone, Copy)]
pub(crate) enum Reached<'a> {
    /// The end of a workload.
    Workload,
    /// Its own end, with the command as a whole if that was asked for.
    End(Option<&'a EndToEnd>),
}

impl Results<'_> {
    /// Writes all files, and gives the text of the page.
    pub(crate) fn write(&self, comparison: &Comparison, reached: Reached<'_>) -> anyhow::Result<String> {
        let mut machine = bench::machine::describe();
        machine["load_before"] = self.load_before.clone().into();
        machine["load_after"] = bench::machine::load().into();
        let missing: Missing = self.missing.iter().chain(&comparison.missing).cloned().collect();
        let whole = match reached {
            Reached::Workload => None,
            Reached::End(whole) => whole,
        };
        let text = self.page(comparison, reached, &machine, &missing);
        let mut figures = String::new();
        for (name, svg) in page::figures(&comparison.measured, self.rivals) {
            figures += &format!("\n![{name}]({name})\n");
            write(&self.options.out.join(name), &svg)?;
        }
        let mut json = page::json(comparison, &missing);
        json["machine"] = machine;
        json["quick"] = self.options.quick.into();
        json["complete"] = matches!(reached, Reached::End(_)).into();
        json["end_to_end"] = whole.map_or(Value::Null, EndToEnd::json);
        write(&self.options.out.join("results.json"), &format!("{json:#}\n"))?;
        write(&self.options.out.join(PAGE), &(text.clone() + &figures))?;
        Ok(text)
    }

    fn page(
        &self,
        comparison: &Comparison,
        reached: Reached<'_>,
        machine: &Value,
        missing: &Missing,
    ) -> String {
        let Comparison { measured, versions, .. } = comparison;
        let mut text = format!("# Benchmarks\n\n{}", self.head(reached, machine));
        text += &page::headline(measured, self.rivals);
        text += &page::tables(measured, self.rivals);
        if let Reached::End(Some(whole)) = reached {
            text += &whole.page();
        }
        text += "\n## Who is compared, and how\n\n";
        let is_measured = |rival: &&Rival| measured.iter().any(|one| one.who == rival.name);
        for rival in self.rivals.iter().filter(is_measured) {
            let version = versions.iter().find(|(name, _)| name == rival.name);
            let version = version.map_or(String::new(), |(_, version)| format!(" {version}"));
            text += &format!("- **{}**{version}: {}.\n", rival.name, rival.about);
        }
        text += "\nNot measured:\n\n";
        for (name, reason) in missing {
            text += &format!("- **{name}**: {reason}.\n");
        }
        if let Some(baseline) = &self.baseline {
            text += &page::against(baseline, measured);
        }
        text
    }

    fn head(&self, reached: Reached<'_>, machine: &Value) -> String {
        let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
        let quick = if self.options.quick { " **Quick: the numbers mean little.**" } else { "" };
        let unfinished = match reached {
            Reached::Workload => " **Unfinished: the run goes on, or was broken off.**",
            Reached::End(_) => "",
        };
        format!(
            "Everybody ran on the same events in one run and said the same, or there would be no page. The median of up to \
             {} runs, ± half of what lies between the quickest and the slowest; a peer is stopped after {} s \
             (`>`), and not run on more trials if it was, or would be even at half the cost a trial, or would \
             need too much memory (`–`).{quick}{unfinished}\n\n{}, {} cores, load {} before and {} after; {}, commit {}{}.\n",
            self.options.runs,
            self.options.limit.as_secs(),
            text("cpu"),
            machine["cores"],
            text("load_before"),
            text("load_after"),
            text("rustc"),
            text("commit").chars().take(10).collect::<String>(),
            if machine["uncommitted_changes"] == true { " with changes" } else { "" },
        )
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
