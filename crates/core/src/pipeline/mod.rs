//! The threads between sources, engine and sinks: one for each source, one for the engine, one
//! for each sink, with bounded channels in between.
//!
//! The path of a row: [`read`] (policy for bad rows, reordering) → [`merge`] → [`evaluate`] → [`write`].

mod acks;
mod checkpoint;
mod counters;
mod evaluate;
mod jumps;
mod merge;
mod progress;
mod read;
mod reorder;
mod run_state;
mod wall_clock;
mod write;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

pub use checkpoint::{
    Checkpoint, CheckpointStore, Checkpointing, Companion, CompanionAnswer, Continuation, EvaluatedCounts,
};
pub use counters::{Counters, RunCounts};
pub use jumps::JumpLimit;
pub use progress::{ReadCounts, SourceProgress};
pub use wall_clock::{ClockMode, SystemClock, TimeOptions, WallClock};

use crate::source_files::Origin;
use crate::{
    BadRowPolicy, BuildEngine, Columns, EngineError, RejectedRow, RunEnd, Selection, Sink, SinkError, Source,
    SourceError, StateError, StopToken, Time,
};
use checkpoint::CheckpointTaker;
use counters::count;
use evaluate::Evaluation;
use merge::{Merge, OnLate};
use read::SourceReader;
use reorder::ReorderBuffer;
use run_state::RunState;
use write::SinkWriter;

/// Sources, an engine and sinks, ready to run.
pub struct Pipeline {
    /// Sources of events. They are merged by time; rows of equal time are in the order of the sources.
    pub sources: Vec<Box<dyn Source>>,
    /// The columns that the engine reads, bound to these sources.
    pub columns: Columns,
    /// Builds the engine.
    pub engine: BuildEngine,
    /// Sinks for verdicts.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Options of the run.
    pub options: RunOptions,
}

/// Called with the reason of a failure when a sink keeps the run from ending.
pub type OnWait = Arc<dyn Fn(&str) + Send + Sync>;

/// Called with a sentence that the user should read during the run.
pub type OnNote = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Capacity of the channels between threads, in batches. A larger one evens out the load, a smaller one saves
    /// memory.
    pub capacity: NonZeroUsize,
    /// Maximum number of verdicts in a batch.
    pub max_verdicts: usize,
    /// Events before this are dropped, and the clock starts here.
    pub since: Option<Time>,
    /// Events after this are dropped, and after the last event the clock advances to here.
    pub until: Option<Time>,
    /// Allowed lateness of events.
    pub reorder: Duration,
    /// How far a row may be ahead of the one before.
    pub jumps: JumpLimit,
    /// How time passes between events.
    pub times: TimeOptions,
    /// Policy for bad rows.
    pub bad_rows: BadRowPolicy,
    /// Requests an orderly stop.
    pub stop: StopToken,
    /// Counters that are updated during the run, for progress displays.
    pub counters: Arc<Counters>,
    /// Called at most once, 5 s after a failure, if a sink still keeps the run from ending.
    pub on_wait: Option<OnWait>,
    /// Called with warnings about the input.
    pub on_note: Option<OnNote>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            capacity: NonZeroUsize::MIN.saturating_add(3),
            max_verdicts: 8192,
            since: None,
            until: None,
            reorder: Duration::ZERO,
            jumps: JumpLimit::default(),
            times: TimeOptions { mode: ClockMode::Events, ..TimeOptions::default() },
            bad_rows: BadRowPolicy::default(),
            stop: StopToken::default(),
            counters: Arc::default(),
            on_wait: None,
            on_note: None,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct RunReport {
    /// How the run ended.
    pub end: RunEnd,
    /// The failure, if there was one.
    pub error: Option<RunError>,
    /// Final counts.
    pub counts: RunCounts,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A source failed, or a row of it is bad.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An event cannot be evaluated.
    #[error("{origin}: {bad}")]
    Event {
        /// Name of the source.
        origin: String,
        /// Which row and why.
        bad: RejectedRow,
    },
    /// The engine failed otherwise.
    #[error(transparent)]
    Engine(EngineError),
    /// The engine panicked.
    #[error("the engine stopped working: {0}")]
    EnginePanicked(String),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}; a run needs one for each input and output, and one more")]
    Thread(String),
    /// A sink failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A checkpoint could not be kept.
    #[error("a checkpoint could not be kept: {0}")]
    Checkpoint(String),
    /// The run cannot continue where a checkpoint stands.
    #[error("cannot continue from the checkpoint: {0}")]
    Resume(StateError),
}

impl Pipeline {
    /// Runs until the sources end, a stop is requested or a component fails. Returns when every thread has ended and
    /// every sink is finished.
    pub fn run(self) -> RunReport {
        self.run_with(None, None)
    }

    /// The same with checkpoints, from where an earlier run has come to, if there was one. Sources and sinks have been
    /// opened at the positions of its last checkpoint.
    pub fn run_with_checkpoints(
        self,
        checkpointing: Checkpointing,
        continuation: Option<Continuation>,
    ) -> RunReport {
        self.run_with(Some(checkpointing), continuation)
    }

    fn run_with(self, checkpointing: Option<Checkpointing>, continuation: Option<Continuation>) -> RunReport {
        let Pipeline { sources, columns, engine, sinks, options } = self;
        let shared =
            Arc::new(RunState::new(options.stop.clone(), Arc::clone(&options.counters), sinks.len()));
        let capacity = options.capacity.get();
        let selection = sinks.iter().map(|sink| sink.wants()).max().unwrap_or(Selection::Triggers);
        let origin =
            |source: &dyn Source| Origin { name: source.name().to_owned(), files: source.source_files() };
        let origins: Vec<Origin> = sources.iter().map(|source| origin(&**source)).collect();
        let is_live: Vec<bool> = sources.iter().map(|source| source.is_live()).collect();
        let mut progress = vec![SourceProgress::default(); sources.len()];
        if let Some(continuation) = &continuation {
            progress.clone_from_slice(&continuation.sources);
            options.counters.resume(&continuation.counts());
        }
        let (running, done) = bounded::<()>(0);

        let mut source_threads = Vec::new();
        let mut messages = Vec::new();
        for (index, source) in sources.into_iter().enumerate() {
            let (out, received) = bounded(capacity);
            messages.push(received);
            let mut reader = SourceReader {
                index,
                origin: origins[index].clone(),
                is_live: is_live[index],
                source,
                columns: columns.clone(),
                reorder: ReorderBuffer::new(options.reorder),
                rows: ReadCounts::default(),
                evaluated: 0,
                jumps: options.jumps,
                on_note: options.on_note.clone(),
                since: options.since,
                until: options.until,
                bad_rows: options.bad_rows.clone(),
                out,
                done: done.clone(),
                shared: Arc::clone(&shared),
            };
            reader.resume(&progress[index]);
            match thread::Builder::new().spawn(move || reader.run()) {
                Ok(thread) => source_threads.push(thread),
                Err(error) => shared.fail(RunError::Thread(error.to_string())),
            }
        }
        let mut sink_threads = Vec::new();
        let mut senders = Vec::new();
        for (index, sink) in sinks.into_iter().enumerate() {
            let (sender, messages) = bounded(capacity);
            senders.push(sender);
            let (name, wants) = (sink.name().to_owned(), sink.wants());
            let writer = SinkWriter { index, name, wants, sink, messages, shared: Arc::clone(&shared) };
            match thread::Builder::new().spawn(move || writer.run()) {
                Ok(thread) => sink_threads.push(thread),
                Err(error) => shared.fail(RunError::Thread(error.to_string())),
            }
        }
        let count = sink_threads.len();
        let start = |checkpointing| {
            CheckpointTaker::start(checkpointing, count, Arc::clone(&shared), options.on_note.clone())
        };
        let checkpoints = checkpointing.map(start).transpose().unwrap_or_else(|error| {
            shared.fail(RunError::Thread(error.to_string()));
            None
        });
        let is_timed = options.times.mode != ClockMode::Events || is_live.len() > 1;
        let ticks = options.times.ticks(checkpoints.is_some() || (is_timed && is_live.contains(&true)));
        let inputs = messages.into_iter().zip(is_live).zip(progress);
        let inputs = inputs.map(|((messages, is_live), progress)| (messages, is_live, progress)).collect();
        let on_late = reject_late(origins.clone(), options.bad_rows.clone(), Arc::clone(&shared));
        let evaluation = Evaluation {
            merge: Merge::new(inputs, options.times.clone(), ticks, Arc::clone(&shared.wall), on_late),
            origins,
            build: engine,
            senders,
            selection,
            max_verdicts: options.max_verdicts,
            since: options.since,
            until: options.until,
            checkpoints,
            settled: Vec::new(),
            continuation,
            on_note: options.on_note.clone(),
            shared: Arc::clone(&shared),
        };
        match thread::Builder::new().stack_size(ENGINE_STACK).spawn(move || evaluation.run()) {
            // Every thread catches its own panics and reports them to `shared`.
            Ok(engine_thread) => drop(engine_thread.join()),
            Err(error) => shared.fail(RunError::Thread(error.to_string())),
        }
        wait_for_sinks(sink_threads, &shared, options.on_wait.as_ref());
        drop(running);
        for thread in source_threads {
            let _ = thread.join();
        }
        shared.report()
    }
}

/// Applies the policy for bad rows to those that come too late to be merged.
fn reject_late(origins: Vec<Origin>, policy: BadRowPolicy, shared: Arc<RunState>) -> OnLate {
    Box::new(move |source, events, row, reason| {
        count(&shared.counters.late, 1);
        count(&shared.counters.rejected, 1);
        let bad = RejectedRow { row: events.row_numbers[row], column: None, reason };
        policy.apply(source, origins[source].place(bad))
    })
}

/// Stack size of the engine's thread. Engines evaluate nested expressions by recursion; untouched pages cost nothing.
const ENGINE_STACK: usize = 256 << 20;

/// Time after a failure before `on_wait` is called.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for the sinks without a limit. If the run has failed, `on_wait` is called meanwhile, so that a blocked sink
/// does not hide the failure.
fn wait_for_sinks(threads: Vec<JoinHandle<()>>, shared: &RunState, on_wait: Option<&OnWait>) {
    let mut over_since = None;
    let mut notified = false;
    for thread in threads {
        while !thread.is_finished() {
            if shared.is_over()
                && over_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
                && !notified
            {
                notified = true;
                if let (Some(on_wait), RunEnd::Failed(reason)) = (on_wait, shared.end()) {
                    on_wait(&reason);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}
