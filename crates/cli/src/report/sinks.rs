//! Report sinks: written once, at the end of a run.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fairstream_core::{
    Adapter, Cause, Counters, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest,
    VerdictBatch,
};
use fairstream_fairness::{Compiled, Judge};

use super::figure::sheet;
use super::{PageData, Subject};

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// A page with text, tables and figures.
    Html,
    /// The figures only.
    Svg,
    /// The final state, for machines.
    Summary,
}

/// Opens sinks of one format.
#[derive(Clone)]
pub(crate) struct ReportSinks {
    format: ReportFormat,
    /// The run to report on; `None` if the specification is not a fairness file.
    run: Option<Arc<ReportedRun>>,
}

/// A run that is reported on.
pub(crate) struct ReportedRun {
    pub(crate) judge: Arc<Mutex<Judge>>,
    pub(crate) compiled: Compiled,
    pub(crate) counters: Arc<Counters>,
    pub(crate) subject: Subject,
}

/// The names of all report sinks.
pub(crate) const NAMES: [&str; 3] = [HTML, SVG, SUMMARY];
pub(super) const HTML: &str = "html";
const SVG: &str = "svg";
const SUMMARY: &str = "summary";

impl ReportSinks {
    pub(crate) fn new(format: ReportFormat, run: Option<Arc<ReportedRun>>) -> ReportSinks {
        ReportSinks { format, run }
    }
}

impl SinkFactory for ReportSinks {
    fn adapter(&self) -> Adapter {
        match self.format {
            ReportFormat::Html => Adapter {
                name: HTML,
                about: "a report: one page with the verdict, rates over time, numbers and the specification",
                extensions: &["html", "htm"],
                options: &[],
            },
            ReportFormat::Svg => Adapter {
                name: SVG,
                about: "figures: rates over time with what the tolerance allows, and alarms",
                extensions: &["svg"],
                options: &[],
            },
            ReportFormat::Summary => Adapter {
                name: SUMMARY,
                about: "the final state for machines, as JSON or TOML: every metric, group and alarm with its numbers",
                extensions: &["json", "toml"],
                options: &[],
            },
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let location = request.location.clone();
        let Some(run) = &self.run else {
            let reason = match self.format {
                ReportFormat::Summary => {
                    "a summary is about groups, which a fairness file names; this is an RTLola specification, whose verdicts \
                     go to `jsonl:PATH`"
                }
                ReportFormat::Html | ReportFormat::Svg => {
                    "a report is about groups, which a fairness file names; this is an RTLola specification"
                }
            };
            return Err(SinkError::Open { sink: location, cause: reason.into() });
        };
        // A report that cannot be written is an error before the run, not after it.
        fairstream_files::check_replaceable(Path::new(&location))
            .map_err(|error| SinkError::Open { sink: location.clone(), cause: error.into() })?;
        Ok(Box::new(Report { location, format: self.format, run: Arc::clone(run) }))
    }
}

struct Report {
    location: String,
    format: ReportFormat,
    run: Arc<ReportedRun>,
}

impl Sink for Report {
    fn name(&self) -> &str {
        &self.location
    }

    fn wants(&self) -> Selection {
        Selection::Alarms
    }

    fn write(&mut self, _batch: &VerdictBatch) -> Result<(), SinkError> {
        // The report is written from the judge, not from verdicts.
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let ReportedRun { judge, compiled, counters, subject } = &*self.run;
        let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &counters.now();
        let failed = |cause: Cause| SinkError::Write { sink: self.location.clone(), cause };
        let is_complete = *end == RunEnd::Complete;
        let data = PageData { judge: &judge, compiled, counts, subject, is_complete };
        let text = match self.format {
            ReportFormat::Svg => sheet(compiled.file().title(), &judge, counts).svg(),
            ReportFormat::Html => data.page().html(),
            ReportFormat::Summary if self.location.to_lowercase().ends_with(".toml") => {
                toml::to_string(&data.summary()).map_err(|error| failed(error.into()))?
            }
            ReportFormat::Summary => {
                let json = serde_json::to_string_pretty(&data.summary());
                json.map_err(|error| failed(error.into()))? + "\n"
            }
        };
        fairstream_files::replace(Path::new(&self.location), text.as_bytes())
            .map_err(|error| failed(error.into()))
    }
}
