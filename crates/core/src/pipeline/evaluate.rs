//! The engine's thread: merges, evaluates, hands verdicts to every sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendTimeoutError, Sender};

use super::acks::Through;
use super::checkpoint::{CheckpointTaker, Continuation, EvaluatedCounts};
use super::counters::count;
use super::merge::{Merge, MergeStep, Merged};
use super::progress::SourceProgress;
use super::run_state::RunState;
use super::write::SinkMessage;
use super::{OnNote, RunCounts, RunError};
use crate::source_files::Origin;
use crate::{
    BatchSink, BuildEngine, Cancelled, Engine, EngineError, EventBatch, Kind, RejectedRow, Selection,
    StateChange, StateError, Subscription, Time, VerdictBatch, VerdictBatcher, VerdictSink, catch_panic,
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
    pub(super) checkpoints: Option<CheckpointTaker>,
    /// How far the sources have been evaluated.
    pub(super) settled: Vec<SourceProgress>,
    /// Where an earlier run has come to.
    pub(super) continuation: Option<Continuation>,
    pub(super) on_note: Option<OnNote>,
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
        let mut running = self.resume()?;
        while let Some(step) = self.merge.next() {
            let is_whole = match step? {
                MergeStep::Rows(merged) => self.feed(&mut running, &merged)?,
                MergeStep::Tick => self.let_time_pass(&mut running)?,
            };
            if !is_whole {
                return Ok(());
            }
            self.settled = self.merge.progress();
            self.report_progress();
            if self.checkpoints.as_ref().is_some_and(CheckpointTaker::is_due) {
                self.take_checkpoint(running.as_mut(), self.settled.clone())?;
            }
        }
        // Before the clock runs on: events that are added to the input later continue from here.
        self.take_checkpoint(running.as_mut(), self.merge.progress())?;
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

    /// Feeds rows to the engine. `false` if some were left out because the run has to stop.
    fn feed(&mut self, running: &mut Option<Running>, merged: &Merged) -> Result<bool, RunError> {
        let Some(first) = merged.events.times.first() else { return Ok(true) };
        let running = match running {
            Some(running) => running,
            none => none.insert(self.start(self.clock_start(Time(*first), merged.events.relative))?),
        };
        let fed =
            running.feed(&merged.events, &self.shared).map_err(|error| self.name_event(error, merged))?;
        let before = std::mem::replace(&mut self.settled, self.merge.progress());
        if fed == merged.events.len() {
            return Ok(true);
        }
        // The rows that have been fed are the next ones behind where the sources were before.
        let has_late_rows =
            |(before, now): (&SourceProgress, &SourceProgress)| now.rows.late > before.rows.late;
        if !before.iter().zip(&self.settled).any(has_late_rows) {
            let mut progress = before;
            for row in 0..fed {
                progress[merged.sources.as_ref().map_or(0, |sources| sources[row])].ahead += 1;
            }
            self.take_checkpoint(Some(running), progress)?;
        }
        Ok(false)
    }

    /// Lets the clock of the machine decide what is due, where it decides. `false` if the run has to stop.
    fn let_time_pass(&mut self, running: &mut Option<Running>) -> Result<bool, RunError> {
        // The clock begins with the first event.
        let Some(time) = running.as_ref().and_then(|_| self.merge.wall_time()) else { return Ok(true) };
        let time = self.until.map_or(time, |until| until.min(time));
        if running.as_ref().is_none_or(|running| time <= running.reached) {
            return Ok(true);
        }
        while let Some(merged) = self.merge.rows_until(time)? {
            if !self.feed(running, &merged)? {
                return Ok(false);
            }
        }
        // Of one source alone, later rows have been evaluated as well.
        if let Some(running) = running.as_mut().filter(|running| running.reached < time) {
            running.advance(time, &self.shared)?;
        }
        Ok(true)
    }

    /// Continues where an earlier run has come to.
    fn resume(&mut self) -> Result<Option<Running>, RunError> {
        let Some(Continuation { engine, on_change, evaluated, .. }) = self.continuation.take() else {
            return Ok(None);
        };
        self.merge.resume(evaluated.reached, evaluated.passed);
        let Some(state) = engine else { return Ok(None) };
        let start = evaluated.reached.unwrap_or(Time(0));
        let mut engine = self.build(start)?;
        let changes = engine.resume(&*state, on_change).map_err(RunError::Resume)?;
        drop(state);
        for StateChange { part, how } in changes {
            self.on_note.iter().for_each(|on_note| on_note(&format!("changed: {part} {how}")));
        }
        self.begin(engine, start).map(Some)
    }

    /// Takes a checkpoint, if any are taken.
    fn take_checkpoint(
        &mut self,
        running: Option<&mut Running>,
        progress: Vec<SourceProgress>,
    ) -> Result<(), RunError> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        let cannot = |error: StateError| RunError::Checkpoint(error.to_string());
        let engine = match running {
            Some(running) => {
                running.flush()?;
                Some(running.engine.capture().map_err(cannot)?)
            }
            None => None,
        };
        let RunCounts { evaluated: rows, verdicts, triggers, alarms, reached, .. } =
            self.shared.counters.now();
        let passed = self.merge.passed();
        let evaluated = EvaluatedCounts { rows, verdicts, triggers, alarms, reached, passed };
        let (senders, shared) = (&self.senders, &self.shared);
        let taken = checkpoints.take(engine, progress, evaluated, |answer| {
            for sender in senders {
                let _ = send(sender, SinkMessage::Barrier(answer.clone()), shared);
            }
        });
        taken.map_err(|error| RunError::Checkpoint(error.to_string()))
    }

    /// Where the clock starts: periodic streams are due a period after it.
    fn clock_start(&self, first: Time, relative: bool) -> Time {
        self.since.unwrap_or(if relative { first.min(Time(0)) } else { first })
    }

    fn build(&mut self, start: Time) -> Result<Box<dyn Engine>, RunError> {
        let refused: BuildEngine = Box::new(|_| Err(EngineError::Build("it was built already".to_owned())));
        let build = std::mem::replace(&mut self.build, refused);
        build(start).map_err(RunError::Engine)
    }

    fn start(&mut self, start: Time) -> Result<Running, RunError> {
        let engine = self.build(start)?;
        self.begin(engine, start)
    }

    fn begin(&self, mut engine: Box<dyn Engine>, reached: Time) -> Result<Running, RunError> {
        let sinks =
            Sinks { senders: self.senders.clone(), shared: Arc::clone(&self.shared), is_running_out: false };
        let verdicts = VerdictBatcher::new(engine.streams(), self.max_verdicts, sinks);
        engine.prepare(&Subscription::new(self.selection)).map_err(RunError::Engine)?;
        Ok(Running { engine, verdicts, reached, pieces: PieceSize::FIRST })
    }

    /// Informs the sinks that every verdict on the events up to there has been sent.
    fn report_progress(&self) {
        if self.checkpoints.is_some() {
            // What is acknowledged is what a checkpoint covers.
            return;
        }
        let through: Through = self.settled.iter().map(|source| source.position.clone()).collect();
        for sender in &self.senders {
            let _ = send(sender, SinkMessage::Through(Arc::clone(&through)), &self.shared);
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
    /// Feeds a batch, in pieces, and returns the number of rows: fewer than all if the run has to stop.
    fn feed(&mut self, events: &EventBatch, shared: &RunState) -> Result<usize, RunError> {
        let mut first = 0;
        while first < events.len() {
            if shared.is_overdue() {
                self.flush()?;
                return Ok(first);
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
        Ok(events.len())
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

    /// Lets time pass without an event.
    fn advance(&mut self, time: Time, shared: &RunState) -> Result<(), RunError> {
        self.evaluate(|engine, verdicts| engine.advance(time, verdicts))?;
        self.flush()?;
        self.reached = time;
        shared.counters.reach(time);
        Ok(())
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
