//! The engine's thread: merges, evaluates, hands verdicts to every sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendTimeoutError, Sender};

use super::RunError;
use super::acks::Through;
use super::counters::count;
use super::merge::{Merge, Merged};
use super::run_state::RunState;
use super::write::SinkMessage;
use crate::source_files::Origin;
use crate::{
    BatchSink, BuildEngine, Cancelled, Engine, EngineError, EventBatch, Kind, RejectedRow, Selection,
    Subscription, Time, VerdictBatch, VerdictBatcher, VerdictSink, catch_panic,
};

pub(super) struct Evaluation {
    pub(super) merge: Merge,
    pub(super) origins: Vec<Origin>,
    pub(super) build: BuildEngine,
    pub(super) senders: Vec<Sender<SinkMessage>>,
    pub(super) selection: Selection,
    pub(super) max_verdicts: usize,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
    pub(super) shared: Arc<RunState>,
}

/// An engine that has started, and where it writes.
struct Running {
    engine: Box<dyn Engine>,
    verdicts: VerdictBatcher<Sinks>,
    reached: Time,
    pieces: PieceSize,
}

/// How many rows are evaluated before the engine's thread looks again whether it should stop. Nearly always a whole
/// batch; where a row takes long, so few that the thread looks several times a second.
#[derive(Clone, Copy, Debug)]
struct PieceSize(usize);

impl PieceSize {
    /// For the first rows, whose cost is unknown.
    const FIRST: PieceSize = PieceSize(16);
    const SHORT: Duration = Duration::from_millis(25);
    const LONG: Duration = Duration::from_millis(100);

    fn adapt(&mut self, rows: usize, took: Duration) {
        if took > PieceSize::LONG {
            self.0 = (rows / 2).max(1);
        } else if took < PieceSize::SHORT && rows == self.0 {
            self.0 = self.0.saturating_mul(4);
        }
    }
}

impl Evaluation {
    pub(super) fn run(self) {
        let shared = Arc::clone(&self.shared);
        // Kept until the end is settled: the sinks finish when the last sender is gone.
        let senders = self.senders.clone();
        match catch_panic(|| self.evaluate()).unwrap_or_else(|panic| Err(RunError::EnginePanicked(panic))) {
            // The reason for the cancellation was reported where it arose.
            Err(RunError::Engine(EngineError::Cancelled(_)))
                if shared.is_over() || shared.stop.is_stopped() => {}
            Err(error) => shared.fail(error),
            Ok(()) => {}
        }
        shared.settle_end();
        drop(senders);
    }

    fn evaluate(mut self) -> Result<(), RunError> {
        let mut running = None;
        while let Some(merged) = self.merge.next() {
            let merged = merged?;
            if let Some(first) = merged.events.times.first() {
                let running = match &mut running {
                    Some(running) => running,
                    none => none.insert(self.start(self.clock_start(Time(*first), merged.events.relative))?),
                };
                let is_whole = running
                    .feed(&merged.events, &self.shared)
                    .map_err(|error| self.name_event(error, &merged))?;
                if !is_whole {
                    return Ok(());
                }
            }
            self.report_progress(&merged.through);
        }
        if self.shared.stop.is_stopped() {
            return Ok(());
        }
        if running.is_none()
            && let Some(since) = self.since
        {
            running = Some(self.start(since)?);
        }
        running.map_or(Ok(()), |mut running| running.run_out(self.until, &self.shared))
    }

    /// Where the clock starts: periodic streams are due a period after it.
    fn clock_start(&self, first: Time, relative: bool) -> Time {
        self.since.unwrap_or(if relative { first.min(Time(0)) } else { first })
    }

    fn start(&mut self, start: Time) -> Result<Running, RunError> {
        let refused: BuildEngine = Box::new(|_| Err(EngineError::Build("it was built already".to_owned())));
        let build = std::mem::replace(&mut self.build, refused);
        let mut engine = build(start).map_err(RunError::Engine)?;
        let sinks =
            Sinks { senders: self.senders.clone(), shared: Arc::clone(&self.shared), is_running_out: false };
        let verdicts = VerdictBatcher::new(engine.streams(), self.max_verdicts, sinks);
        engine.prepare(&Subscription::new(self.selection)).map_err(RunError::Engine)?;
        Ok(Running { engine, verdicts, reached: start, pieces: PieceSize::FIRST })
    }

    /// Informs the sinks that every verdict on the events up to there has been sent.
    fn report_progress(&self, through: &Through) {
        for sender in &self.senders {
            let _ = send(sender, SinkMessage::Through(Arc::clone(through)), &self.shared);
        }
    }

    /// From the index in a batch to the row of a source.
    fn name_event(&self, error: RunError, merged: &Merged) -> RunError {
        let RunError::Engine(EngineError::Event { index, column, reason }) = error else { return error };
        let source = merged.sources.as_ref().and_then(|sources| sources.get(index)).unwrap_or(&0);
        match (self.origins.get(*source), merged.events.row_numbers.get(index)) {
            (Some(origin), Some(row)) => {
                let (origin, bad) = origin.place(RejectedRow { row: *row, column, reason });
                RunError::Event { origin, bad }
            }
            _ => RunError::Engine(EngineError::Event { index, column, reason }),
        }
    }
}

impl Running {
    /// Feeds a batch, in pieces. `false` if the rest of it was left out because the run has to stop.
    fn feed(&mut self, events: &EventBatch, shared: &RunState) -> Result<bool, RunError> {
        let mut first = 0;
        while first < events.len() {
            if shared.is_overdue() {
                self.flush()?;
                return Ok(false);
            }
            let rows = self.pieces.0.min(events.len() - first);
            let begin = Instant::now();
            self.feed_piece(&events.slice(first, rows), shared).map_err(|error| behind(error, first))?;
            let took = begin.elapsed();
            self.pieces.adapt(rows, took);
            first += rows;
            // Verdicts go out by batches of events, but do not wait for rows that take long.
            if first == events.len() || took > PieceSize::SHORT {
                self.flush()?;
            }
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.verdicts.flush().map_err(|cancelled| RunError::Engine(cancelled.into()))
    }

    fn feed_piece(&mut self, events: &EventBatch, shared: &RunState) -> Result<(), RunError> {
        let fed = self.evaluate(|engine, verdicts| engine.feed(events, verdicts));
        let evaluated = match &fed {
            Ok(()) => events.len(),
            Err(RunError::Engine(EngineError::Event { index, .. })) => *index,
            Err(RunError::Engine(EngineError::Deadline { before, .. })) => before.unwrap_or(0),
            Err(_) => 0,
        };
        count(&shared.counters.evaluated, evaluated);
        if let Some(last) = events.times[..evaluated].last() {
            self.reached = self.reached.max(Time(*last));
            shared.counters.reach(self.reached);
        }
        fed
    }

    /// Hands out the verdicts also when the engine fails or panics: those on the events before the
    /// one at fault stand, however the events were cut into batches.
    fn evaluate(
        &mut self,
        evaluate: impl FnOnce(&mut dyn Engine, &mut dyn VerdictSink) -> Result<(), EngineError>,
    ) -> Result<(), RunError> {
        let evaluated = catch_panic(|| evaluate(&mut *self.engine, &mut self.verdicts));
        if !matches!(evaluated, Ok(Ok(()))) {
            self.flush()?;
        }
        evaluated.map_err(RunError::EnginePanicked)?.map_err(RunError::Engine)
    }

    /// After the last event the clock runs on to the end of the monitored span; in steps, so that
    /// one sees how far it has come.
    fn run_out(&mut self, until: Option<Time>, shared: &RunState) -> Result<(), RunError> {
        const STEPS: i64 = 1000;
        self.verdicts.batches().is_running_out = true;
        let end = until.map_or(self.reached, |until| until.max(self.reached));
        let step = end.0.saturating_sub(self.reached.0) / STEPS + 1;
        loop {
            let time = self.reached;
            self.evaluate(|engine, verdicts| engine.advance(time, verdicts))?;
            self.flush()?;
            shared.counters.reach(time);
            if time == end {
                return Ok(());
            }
            self.reached = Time(time.0.saturating_add(step)).min(end);
        }
    }
}

/// From an index in a piece to that in its batch.
fn behind(error: RunError, first: usize) -> RunError {
    RunError::Engine(match error {
        RunError::Engine(EngineError::Event { index, column, reason }) => {
            EngineError::Event { index: first + index, column, reason }
        }
        RunError::Engine(EngineError::Deadline { time, before, reason }) => {
            EngineError::Deadline { time, before: before.map(|before| first + before), reason }
        }
        error => return error,
    })
}

/// Every sink's end of the engine.
struct Sinks {
    senders: Vec<Sender<SinkMessage>>,
    shared: Arc<RunState>,
    /// Whether the input has ended and only the clock runs on.
    is_running_out: bool,
}

impl BatchSink for Sinks {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Cancelled> {
        if self.shared.is_over() {
            return Err(Cancelled);
        }
        count(&self.shared.counters.verdicts, batch.len());
        count(&self.shared.counters.triggers, batch.count(Kind::Trigger));
        count(&self.shared.counters.alarms, batch.count(Kind::Alarm));
        self.senders
            .iter()
            .try_for_each(|sender| send(sender, SinkMessage::Verdicts(batch.clone()), &self.shared))
    }

    /// After a request to stop, rows that have been read are still evaluated for a moment; the time after them is not.
    fn check(&self) -> Result<(), Cancelled> {
        let is_stopped = self.is_running_out && self.shared.stop.is_stopped();
        if is_stopped || self.shared.is_overdue() || self.shared.is_over() { Err(Cancelled) } else { Ok(()) }
    }
}

/// Waits for the sink, but not if the run has failed elsewhere meanwhile.
fn send(sender: &Sender<SinkMessage>, mut message: SinkMessage, shared: &RunState) -> Result<(), Cancelled> {
    loop {
        message = match sender.send_timeout(message, Duration::from_millis(100)) {
            // A sink that is gone has told `shared` why.
            Ok(()) | Err(SendTimeoutError::Disconnected(_)) => return Ok(()),
            Err(SendTimeoutError::Timeout(_)) if shared.is_over() => return Err(Cancelled),
            Err(SendTimeoutError::Timeout(message)) => message,
        };
    }
}
