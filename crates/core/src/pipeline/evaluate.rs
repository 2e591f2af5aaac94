//! The engine's thread: merges, evaluates, hands verdicts to every sink.

use std::rc::Rc;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::RunError;
use super::counters::count;
use super::ledger::Through;
use super::merge::{Merge, Merged};
use super::shared::Shared;
use super::write::Parcel;
use crate::{
    BuildEngine, Closed, Engine, EngineError, EventBatch, RejectedRow, Selection, Time, VerdictBatch,
    Verdicts, catch_panic,
};

pub(super) struct Evaluation {
    pub(super) merge: Merge,
    /// The sources' names.
    pub(super) origins: Vec<String>,
    pub(super) build: BuildEngine,
    pub(super) outlets: Vec<Sender<Parcel>>,
    pub(super) selection: Selection,
    pub(super) max_verdicts: usize,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
    pub(super) shared: Arc<Shared>,
}

/// An engine that has started, and where it writes.
struct Running {
    engine: Box<dyn Engine>,
    verdicts: Verdicts,
    reached: Time,
}

impl Evaluation {
    pub(super) fn run(self) {
        let shared = Arc::clone(&self.shared);
        let outlets = self.outlets.clone();
        match catch_panic(|| self.evaluate()) {
            Ok(Ok(())) | Ok(Err(RunError::Engine(EngineError::Closed(Closed)))) => {}
            Ok(Err(error)) => shared.fail(error),
            Err(reason) => shared.fail(RunError::EnginePanicked(reason)),
        }
        // Settled before the sinks see that there is nothing more to come.
        let _ = shared.end();
        drop(outlets);
    }

    fn evaluate(mut self) -> Result<(), RunError> {
        let mut running = None;
        while let Some(merged) = self.merge.next() {
            let merged = merged?;
            if let Some(first) = merged.events.times.first() {
                let running = match &mut running {
                    Some(running) => running,
                    none => none.insert(self.start(self.since.unwrap_or(Time(*first).clock_start()))?),
                };
                running
                    .feed(&merged.events, &self.shared)
                    .map_err(|error| self.name_event(error, &merged))?;
            }
            self.tell_through(&merged.through);
        }
        if !self.shared.stop.is_stopped() {
            if running.is_none()
                && let Some(since) = self.since
            {
                running = Some(self.start(since)?);
            }
            if let Some(running) = &mut running {
                running.run_out(self.until, &self.shared)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, start: Time) -> Result<Running, RunError> {
        let refused: BuildEngine = Box::new(|_| Err(EngineError::Build("it was built already".to_owned())));
        let build = std::mem::replace(&mut self.build, refused);
        let engine = build(start).map_err(RunError::Engine)?;
        let shared = Arc::clone(&self.shared);
        let outlets: Rc<[Sender<Parcel>]> = self.outlets.as_slice().into();
        let verdicts = Verdicts::new(engine.streams(), self.selection, self.max_verdicts, move |batch| {
            hand_out(&batch, &outlets, &shared)
        });
        Ok(Running { engine, verdicts, reached: start })
    }

    /// Every verdict on the events up to there has been handed out.
    fn tell_through(&self, through: &Through) {
        for outlet in &self.outlets {
            // A sink that is gone has told `shared` why.
            let _ = outlet.send(Parcel::Through(Arc::clone(through)));
        }
    }

    /// From the index in a batch to the row of a source.
    fn name_event(&self, error: RunError, merged: &Merged) -> RunError {
        match error {
            RunError::Engine(EngineError::Event { index, column, reason }) => {
                let source = merged.sources.as_ref().and_then(|sources| sources.get(index)).unwrap_or(&0);
                let row = merged.events.row_numbers.get(index).copied().unwrap_or_default();
                let origin = self.origins.get(*source).cloned().unwrap_or_default();
                RunError::Event { origin, bad: RejectedRow { row, column, reason } }
            }
            error => error,
        }
    }
}

impl Running {
    fn feed(&mut self, events: &EventBatch, shared: &Shared) -> Result<(), RunError> {
        let fed = self.evaluate(|engine, verdicts| engine.feed(events, verdicts));
        if let Err(RunError::Engine(EngineError::Event { index, .. })) = &fed {
            count(&shared.counters.evaluated, *index);
        }
        fed?;
        self.reached = self.reached.max(events.times.last().map_or(self.reached, |last| Time(*last)));
        count(&shared.counters.evaluated, events.len());
        shared.counters.reach(self.reached);
        Ok(())
    }

    /// Hands out the verdicts also when the engine fails or panics: those on the events before the
    /// one at fault stand, however the events were cut into batches.
    fn evaluate(
        &mut self,
        evaluate: impl FnOnce(&mut dyn Engine, &mut Verdicts) -> Result<(), EngineError>,
    ) -> Result<(), RunError> {
        let evaluated = catch_panic(|| evaluate(&mut *self.engine, &mut self.verdicts));
        self.verdicts.flush().map_err(|closed| RunError::Engine(closed.into()))?;
        evaluated.map_err(RunError::EnginePanicked)?.map_err(RunError::Engine)
    }

    /// After the last event the clock runs on to the end of the monitored span. In steps, so that
    /// somebody who does not want to wait for it can stop it.
    fn run_out(&mut self, until: Option<Time>, shared: &Shared) -> Result<(), RunError> {
        const STEPS: i64 = 1000;
        let end = until.map_or(self.reached, |until| until.max(self.reached));
        let step = end.0.saturating_sub(self.reached.0) / STEPS + 1;
        while !shared.stop.is_stopped() {
            let time = self.reached;
            self.evaluate(|engine, verdicts| engine.advance(time, verdicts))?;
            shared.counters.reach(self.reached);
            if self.reached == end {
                break;
            }
            self.reached = Time(self.reached.0.saturating_add(step)).min(end);
        }
        Ok(())
    }
}

fn hand_out(batch: &VerdictBatch, outlets: &[Sender<Parcel>], shared: &Shared) -> Result<(), Closed> {
    if shared.is_over() {
        return Err(Closed);
    }
    count(&shared.counters.verdicts, batch.len());
    count(&shared.counters.triggers, batch.triggers());
    for outlet in outlets {
        let _ = outlet.send(Parcel::Verdicts(batch.clone()));
    }
    Ok(())
}
