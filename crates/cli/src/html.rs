//! The sink for those who read reports: one HTML page, written at the end of a run.

use std::sync::{Arc, Mutex, PoisonError};

use fairstream_core::{
    Adapter, Counters, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest, VerdictBatch,
};
use fairstream_fairness::{Compiled, Judge};

use crate::report::{Subject, page};

/// Opens HTML sinks.
#[derive(Clone, Default)]
pub(crate) struct HtmlSinks {
    /// What the report is of; nothing if the specification is not a fairness file.
    run: Option<Arc<Run>>,
}

/// A run that is reported on.
pub(crate) struct Run {
    pub(crate) judge: Arc<Mutex<Judge>>,
    pub(crate) compiled: Compiled,
    pub(crate) counters: Arc<Counters>,
    pub(crate) subject: Subject,
}

pub(crate) const NAME: &str = "html";

impl HtmlSinks {
    pub(crate) fn new(run: Option<Run>) -> HtmlSinks {
        HtmlSinks { run: run.map(Arc::new) }
    }
}

impl SinkFactory for HtmlSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: NAME,
            about: "a report: one page with the verdict, rates over time, numbers and the specification",
            extensions: &["html", "htm"],
            options: &[],
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let location = request.location.clone();
        let Some(run) = &self.run else {
            let reason =
                "a report is about groups, which a fairness file names; this is an RTLola specification";
            return Err(SinkError::Open { sink: location, cause: reason.into() });
        };
        // Whether it can be written is known before the run, not after it.
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&location);
        file.map_err(|error| SinkError::Open { sink: location.clone(), cause: error.into() })?;
        Ok(Box::new(Html { location, run: Arc::clone(run) }))
    }
}

struct Html {
    location: String,
    run: Arc<Run>,
}

impl Sink for Html {
    fn name(&self) -> &str {
        &self.location
    }

    fn wants(&self) -> Selection {
        Selection::Alarms
    }

    fn write(&mut self, _batch: &VerdictBatch) -> Result<(), SinkError> {
        // The judge knows more than its verdicts say.
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let Run { judge, compiled, counters, subject } = &*self.run;
        let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
        let html = page(&judge, compiled, &counters.now(), subject, *end == RunEnd::Complete).html();
        std::fs::write(&self.location, html)
            .map_err(|error| SinkError::Write { sink: self.location.clone(), cause: error.into() })
    }
}
