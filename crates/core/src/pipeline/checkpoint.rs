//! Checkpoints: consistent cuts through sources, engine and sinks.
//!
//! Between two batches, the engine's thread copies the state of the engine and sends a barrier to every sink and every
//! [`Companion`]. Each makes durable what came before the barrier, and answers with its position. The committing thread
//! collects these, and gives everything to the [`CheckpointStore`] at once. Sources are acknowledged what both of the last two
//! checkpoints cover.
//!
//! ```text
//!  engine   ── events ──┃── events ──▶      ┃ cut: state copied, positions of sources
//!  sinks    ── verdicts ────┃── verdicts ─▶  ┃ barrier: flushed, position
//!  commit                       ▲ state, positions of sources and sinks, counts: one checkpoint
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::acks::Through;
use super::progress::SourceProgress;
use super::run_state::RunState;
use super::{OnNote, RunCounts, RunError};
use crate::{CapturedState, Cause, OnChange, Position, StateReader, Time, catch_panic};

/// Keeps checkpoints.
pub trait CheckpointStore: Send {
    /// Keeps a checkpoint durably, and the one before. When it returns an error, the one before stands.
    ///
    /// # Errors
    /// The checkpoint could not be kept.
    fn commit(&mut self, checkpoint: Checkpoint) -> Result<(), Cause>;
}

/// A consistent cut: what continues from it gives the verdicts that follow it, and no others.
pub struct Checkpoint {
    /// The state of the engine; `None` before the first event.
    pub engine: Option<Box<dyn CapturedState>>,
    /// How far each source has been evaluated.
    pub sources: Vec<SourceProgress>,
    /// The position of each sink; `None` for one that cannot be taken up again.
    pub sinks: Vec<Option<Position>>,
    /// The answer of each companion.
    pub companions: Vec<String>,
    /// What has been evaluated.
    pub evaluated: EvaluatedCounts,
}

/// What has been evaluated up to a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvaluatedCounts {
    /// Rows.
    pub rows: u64,
    /// Verdicts sent to the sinks.
    pub verdicts: u64,
    /// Verdicts that are violated triggers.
    pub triggers: u64,
    /// Verdicts that raise an alarm.
    pub alarms: u64,
    /// Event time reached.
    pub reached: Option<Time>,
    /// Up to where the clock of the machine has passed, so that earlier events come too late.
    pub passed: Option<Time>,
}

/// An output that is no sink, such as evidence, and is part of checkpoints.
pub trait Companion: Send {
    /// Called on the engine's thread at a cut. Returns what makes durable everything that was written before, on another
    /// thread, and gives what is needed to continue from there.
    ///
    /// # Errors
    /// The output has failed.
    fn barrier(&mut self) -> Result<CompanionAnswer, Cause>;
}

/// The answer of a companion to a barrier, for which the committing thread waits.
pub type CompanionAnswer = Box<dyn FnOnce() -> Result<String, Cause> + Send>;

/// How checkpoints are taken, and where a run continues.
pub struct Checkpointing {
    /// Where they are kept.
    pub store: Box<dyn CheckpointStore>,
    /// How much time is between two of them.
    pub every: Duration,
    /// Outputs beside the sinks.
    pub companions: Vec<Box<dyn Companion>>,
}

/// Where a run continues that an earlier one has begun.
pub struct Continuation {
    /// The state of the engine; `None` if there was no event before.
    pub engine: Option<Box<dyn StateReader + Send>>,
    /// What happens to state that a changed specification does not fit.
    pub on_change: OnChange,
    /// How far each source was evaluated. They have been opened at these positions.
    pub sources: Vec<SourceProgress>,
    /// What was evaluated.
    pub evaluated: EvaluatedCounts,
}

impl Continuation {
    /// The counts of a run that continues here.
    pub(super) fn counts(&self) -> RunCounts {
        let EvaluatedCounts { rows, verdicts, triggers, alarms, reached, .. } = self.evaluated;
        let counts =
            RunCounts { evaluated: rows, verdicts, triggers, alarms, reached, ..RunCounts::default() };
        self.sources.iter().fold(counts, |counts, source| RunCounts {
            read: counts.read + source.rows.read,
            rejected: counts.rejected + source.rows.rejected,
            dropped: counts.dropped + source.rows.dropped,
            late: counts.late + source.rows.late,
            outside: counts.outside + source.rows.outside,
            ..counts
        })
    }
}

/// The answer of a sink: its index and its position.
pub(super) type SinkAnswer = (usize, Option<Position>);

/// A cut on its way to the store.
struct PendingCut {
    checkpoint: Checkpoint,
    answers: Receiver<SinkAnswer>,
    companions: Vec<CompanionAnswer>,
    through: Through,
}

/// Decides when a checkpoint is taken, and hands it to the committing thread.
pub(super) struct CheckpointTaker {
    every: Duration,
    /// When the last was taken. The first is taken as soon as there is something to keep.
    last: Option<Instant>,
    companions: Vec<Box<dyn Companion>>,
    cuts: Option<Sender<PendingCut>>,
    is_busy: Arc<AtomicBool>,
    committing: Option<JoinHandle<()>>,
    sinks: usize,
}

impl CheckpointTaker {
    /// Starts the committing thread.
    pub(super) fn start(
        checkpointing: Checkpointing,
        sinks: usize,
        shared: Arc<RunState>,
        on_note: Option<OnNote>,
    ) -> std::io::Result<CheckpointTaker> {
        let Checkpointing { store, every, companions } = checkpointing;
        let (cuts, received) = bounded(1);
        let is_busy = Arc::new(AtomicBool::new(false));
        let committer =
            Committer { store, is_busy: Arc::clone(&is_busy), shared, on_note, failed: None, covered: None };
        let committing = thread::Builder::new().name("checkpoints".to_owned());
        let committing = Some(committing.spawn(move || committer.run(&received))?);
        let (last, cuts) = (None, Some(cuts));
        Ok(CheckpointTaker { every, last, companions, cuts, is_busy, committing, sinks })
    }

    /// Whether it is time for a checkpoint, and the one before has been kept.
    pub(super) fn is_due(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= self.every) && !self.is_busy.load(Ordering::Acquire)
    }

    /// Takes a checkpoint of this state. `send_barriers` sends a barrier to every sink.
    pub(super) fn take(
        &mut self,
        engine: Option<Box<dyn CapturedState>>,
        sources: Vec<SourceProgress>,
        evaluated: EvaluatedCounts,
        send_barriers: impl FnOnce(&Sender<SinkAnswer>),
    ) -> Result<(), Cause> {
        self.last = Some(Instant::now());
        let (answer, answers) = bounded(self.sinks.max(1));
        send_barriers(&answer);
        let companions =
            self.companions.iter_mut().map(|companion| companion.barrier()).collect::<Result<_, _>>()?;
        let through = sources.iter().map(|source| source.position.clone()).collect();
        let sinks = vec![None; self.sinks];
        let checkpoint = Checkpoint { engine, sources, sinks, companions: Vec::new(), evaluated };
        self.is_busy.store(true, Ordering::Release);
        if let Some(cuts) = &self.cuts {
            // The committing thread is there as long as this is.
            let _ = cuts.send(PendingCut { checkpoint, answers, companions, through });
        }
        Ok(())
    }
}

impl Drop for CheckpointTaker {
    /// Waits until the last checkpoint has been kept.
    fn drop(&mut self) {
        self.cuts = None;
        if let Some(committing) = self.committing.take() {
            let _ = committing.join();
        }
    }
}

/// The committing thread.
struct Committer {
    store: Box<dyn CheckpointStore>,
    is_busy: Arc<AtomicBool>,
    shared: Arc<RunState>,
    on_note: Option<OnNote>,
    /// Why the last checkpoint could not be kept.
    failed: Option<String>,
    /// What the last checkpoint covers.
    covered: Option<Through>,
}

impl Committer {
    fn run(mut self, cuts: &Receiver<PendingCut>) {
        for cut in cuts {
            let through = Arc::clone(&cut.through);
            let kept = catch_panic(|| self.commit(cut)).unwrap_or_else(|panic| Err(panic.into()));
            match kept {
                Ok(true) => {
                    // Two checkpoints are kept, and a run may continue from the older one.
                    if let Some(before) = self.covered.replace(through) {
                        self.shared.acks.record_everywhere(&before);
                    }
                    if self.failed.take().is_some() {
                        self.note("checkpoints are kept again");
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    if self.failed.is_none() {
                        self.note(&format!(
                            "warning: a checkpoint could not be kept: {error}; the one before stands, and the next is tried as usual"
                        ));
                    }
                    self.failed = Some(error.to_string());
                }
            }
            self.is_busy.store(false, Ordering::Release);
        }
        if let Some(reason) = self.failed {
            self.shared.fail(RunError::Checkpoint(reason));
        }
    }

    /// Whether the cut is complete: a sink that has failed has no position.
    fn commit(&mut self, cut: PendingCut) -> Result<bool, Cause> {
        let PendingCut { mut checkpoint, answers, companions, .. } = cut;
        for (sink, position) in answers {
            if let Some(known) = checkpoint.sinks.get_mut(sink) {
                *known = position;
            }
        }
        checkpoint.companions = companions.into_iter().map(|answer| answer()).collect::<Result<_, _>>()?;
        if self.shared.is_over() {
            return Ok(false);
        }
        self.store.commit(checkpoint)?;
        Ok(true)
    }

    fn note(&self, text: &str) {
        if let Some(on_note) = &self.on_note {
            on_note(text);
        }
    }
}
