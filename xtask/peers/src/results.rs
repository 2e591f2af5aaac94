//! Writes the page, the figures and the JSON. They are written after every workload, so that an interrupted run
//! leaves what it has measured.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::Options;
use crate::compare::{Comparison, Missing};
use crate::end_to_end::EndToEnd;
use crate::page;
use crate::rivals::Rival;

/// Name of the page in the folder of results.
pub(crate) const PAGE: &str = "benchmarks.md";

/// What is known of a run before anything is measured.
pub(crate) struct Results<'a> {
    pub(crate) options: &'a Options,
    pub(crate) rivals: &'a [Rival],
    /// Systems that cannot be run here.
    pub(crate) missing: Missing,
    /// The `results.json` of an earlier run.
    pub(crate) baseline: Option<Value>,
    pub(crate) load_before: Option<String>,
}

/// Progress of a run.
#[derive(Clone, Copy)]
pub(crate) enum Reached<'a> {
    /// A workload has been completed.
    Workload,
    /// The run has been completed, with the measurements of the whole command if they were requested.
    End(Option<&'a EndToEnd>),
}

impl Results<'_> {
    /// Writes all files, and returns the text of the page.
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
        text += "\n## Systems, and how each is run\n\n";
        let is_measured = |rival: &&Rival| measured.iter().any(|one| one.system == rival.name);
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
        let quick = if self.options.quick {
            " **A quick run: too few and too short runs for reliable numbers.**"
        } else {
            ""
        };
        let unfinished = match reached {
            Reached::Workload => " **Incomplete: the run is still in progress or was interrupted.**",
            Reached::End(_) => "",
        };
        format!(
            "All systems ran on the same events in one run, in rotation, and gave the same verdicts; a difference is an error. \
             The tables have the median of up to {} runs, ± half the range between the fastest and the slowest. `>` is a lower \
             bound: the peer was stopped after {} s. `–` means that the peer was stopped at a smaller size, would be stopped even \
             if a trial cost half as much, or would need too much memory.{quick}{unfinished}\n\n\
             {}, {} cores, load {} before and {} after; {}, commit {}{}.\n",
            self.options.runs,
            self.options.limit.as_secs(),
            text("cpu"),
            machine["cores"],
            text("load_before"),
            text("load_after"),
            text("rustc"),
            text("commit").chars().take(10).collect::<String>(),
            if machine["uncommitted_changes"] == true { " with uncommitted changes" } else { "" },
        )
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
