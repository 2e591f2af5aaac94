//! The threads between sources, engine and sinks: one for each source, one for the engine, one
//! for each sink, with bounded channels in between.
//!
//! A row's way: [`read`] (policy for bad rows, order) → [`merge`] → [`evaluate`] → [`write`].

mod acks;
mod counters;
mod evaluate;
mod merge;
mod read;
mod reorder;
mod run_state;
mod write;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

pub use counters::{Counters, RunCounts};

use crate::source_files::Origin;
use crate::{
    BadRowPolicy, BuildEngine, Columns, EngineError, RejectedRow, RunEnd, Selection, Sink, SinkError, Source,
    SourceError, StopToken, Time,
};
use evaluate::Evaluation;
use merge::Merge;
use read::SourceReader;
use reorder::ReorderBuffer;
use run_state::RunState;
use write::SinkWriter;

/// Sources, an engine and sinks, ready to run.
pub struct Pipeline {
    /// Where events come from; merged by time, ties in this order.
    pub sources: Vec<Box<dyn Source>>,
    /// The columns that the engine reads, bound to these sources.
    pub columns: Columns,
    /// Builds the engine.
    pub engine: BuildEngine,
    /// Where verdicts go.
    pub sinks: Vec<Box<dyn Sink>>,
    /// How to run them.
    pub options: RunOptions,
}

/// Told why the run has failed when it cannot end because a sink does not.
pub type OnWait = Arc<dyn Fn(&str) + Send + Sync>;

/// How to run a pipeline.
#[derive(Clone)]
pub struct RunOptions {
    /// Batches that may wait between two threads. More even out the work, fewer save memory.
    pub capacity: NonZeroUsize,
    /// Verdicts in one batch at most.
    pub max_verdicts: usize,
    /// Events before this are left out, and the clock starts here.
    pub since: Option<Time>,
    /// Events after this are left out, and after the last event the clock runs on to here.
    pub until: Option<Time>,
    /// How much later than its successors an event may come.
    pub reorder: Duration,
    /// What a bad row means.
    pub bad_rows: BadRowPolicy,
    /// Ends the run in good order.
    pub stop: StopToken,
    /// RunCounts as the run goes on; for progress displays.
    pub counters: Arc<Counters>,
    /// Called at most once, a few seconds after a failure, if a sink still keeps the run from
    /// ending: somebody who waits for it should know.
    pub on_wait: Option<OnWait>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            capacity: NonZeroUsize::MIN.saturating_add(3),
            max_verdicts: 8192,
            since: None,
            until: None,
            reorder: Duration::ZERO,
            bad_rows: BadRowPolicy::default(),
            stop: StopToken::default(),
            counters: Arc::default(),
            on_wait: None,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub end: RunEnd,
    /// What ended it, if it failed.
    pub error: Option<RunError>,
    /// What was counted.
    pub counts: RunCounts,
}

/// What ended a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A source failed, or a row of it is bad.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An event cannot be evaluated.
    #[error("{origin}: {bad}")]
    Event {
        /// What the user called the source.
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
    /// A sink failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl Pipeline {
    /// Runs until the sources end, somebody stops it or a part fails. Returns when every thread
    /// has ended and every sink is finished.
    pub fn run(self) -> RunReport {
        let Pipeline { sources, columns, engine, sinks, options } = self;
        let shared =
            Arc::new(RunState::new(options.stop.clone(), Arc::clone(&options.counters), sinks.len()));
        let capacity = options.capacity.get();
        let selection = sinks.iter().map(|sink| sink.wants()).max().unwrap_or(Selection::Triggers);
        let origin =
            |source: &dyn Source| Origin { name: source.name().to_owned(), files: source.source_files() };
        let origins: Vec<Origin> = sources.iter().map(|source| origin(&**source)).collect();
        let (running, done) = bounded::<()>(0);

        let mut source_threads = Vec::new();
        let mut messages = Vec::new();
        for (index, source) in sources.into_iter().enumerate() {
            let (out, received) = bounded(capacity);
            messages.push(received);
            let reader = SourceReader {
                index,
                origin: origins[index].clone(),
                source,
                columns: columns.clone(),
                reorder: ReorderBuffer::new(options.reorder),
                since: options.since,
                until: options.until,
                bad_rows: options.bad_rows.clone(),
                out,
                done: done.clone(),
                shared: Arc::clone(&shared),
            };
            source_threads.push(thread::spawn(move || reader.run()));
        }
        let mut sink_threads = Vec::new();
        let mut outlets = Vec::new();
        for (index, sink) in sinks.into_iter().enumerate() {
            let (outlet, messages) = bounded(capacity);
            outlets.push(outlet);
            let (name, wants) = (sink.name().to_owned(), sink.wants());
            let writer = SinkWriter { index, name, wants, sink, messages, shared: Arc::clone(&shared) };
            sink_threads.push(thread::spawn(move || writer.run()));
        }
        let evaluation = Evaluation {
            merge: Merge::new(messages),
            origins,
            build: engine,
            outlets,
            selection,
            max_verdicts: options.max_verdicts,
            since: options.since,
            until: options.until,
            shared: Arc::clone(&shared),
        };
        match thread::Builder::new().stack_size(ENGINE_STACK).spawn(move || evaluation.run()) {
            // Every thread catches its own panics and reports them to `shared`.
            Ok(engine_thread) => drop(engine_thread.join()),
            Err(error) => shared.fail(RunError::EnginePanicked(error.to_string())),
        }
        wait_for_sinks(sink_threads, &shared, options.on_wait.as_ref());
        drop(running);
        for thread in source_threads {
            let _ = thread.join();
        }
        shared.report()
    }
}

/// Engines evaluate nested expressions by recursion. Memory that is not touched costs nothing.
const ENGINE_STACK: usize = 256 << 20;

/// How long a sink may take to finish once the run has failed, before somebody is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// A slow sink gets all the time it needs. But one that is stuck must not hide the failure of
/// another part: that is told meanwhile.
fn wait_for_sinks(threads: Vec<JoinHandle<()>>, shared: &RunState, on_wait: Option<&OnWait>) {
    let mut over_since = None;
    let mut told = false;
    for thread in threads {
        while !thread.is_finished() {
            if shared.is_over() && over_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE && !told {
                told = true;
                if let (Some(on_wait), RunEnd::Failed(reason)) = (on_wait, shared.end()) {
                    on_wait(&reason);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}
