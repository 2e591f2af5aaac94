//! Events in, verdicts out: the traits that adapters and engines implement, the batches that
//! travel between them, and the threaded [`Pipeline`] that runs them.
//!
//! ```text
//!  source threads              engine thread                   sink threads
//!  Source::next_batch ─▶ merge by time ─▶ Engine::feed ─▶ VerdictBatch ─▶ Sink::write
//!          ▲      bounded channel             bounded channels              │
//!          └──────────────────── acknowledge(position) ◀── Sink::flush ─────┘
//! ```
//!
//! This crate knows no file format and no specification language: adapters bring the one, engines
//! the other.

mod adapter;
mod bad_rows;
mod batch;
mod column_aliases;
mod column_values;
mod columns;
#[cfg(feature = "compliance")]
pub mod compliance;
mod end_of_input;
mod engine;
mod escape;
mod event_writer;
mod json_array;
mod nearest;
mod panics;
mod pipeline;
mod position;
mod sink;
mod source;
mod source_files;
mod state;
mod state_table;
mod stop;
mod subscription;
mod time;
mod time_pattern;
mod time_range;
mod verdict;
mod verdict_batcher;
mod verdict_columns;
mod verdict_sink;
mod visible;
mod written_time;

pub use adapter::{ANY_OPTION, Adapter, BadOption, OptionDoc, Options};
pub use bad_rows::{BadRowPolicy, RejectedRow, ReportBadRow};
pub use batch::EventBatch;
pub use column_aliases::ColumnAliases;
pub use column_values::ColumnValues;
pub use columns::{Columns, Mismatches, WantedColumn};
pub use end_of_input::EndOfInput;
pub use engine::{BuildEngine, Engine, EngineError};
pub use escape::{escape, unescape, unescape_only};
pub use event_writer::{EventWriter, EventWriterFactory, EventWriterRequest};
pub use json_array::{inside_array, next_element};
pub use nearest::nearest;
pub use panics::catch_panic;
pub use pipeline::{
    Checkpoint, CheckpointStore, Checkpointing, ClockMode, Companion, CompanionAnswer, Continuation,
    Counters, EvaluatedCounts, JumpLimit, OnNote, OnWait, Pipeline, ReadCounts, RunCounts, RunError,
    RunOptions, RunReport, SourceProgress, SystemClock, TimeOptions, WallClock,
};
pub use position::Position;
pub use sink::{RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest};
pub use source::{Source, SourceContext, SourceError, SourceFactory, SourceRequest, columns_of};
pub use source_files::SourceFiles;
pub use state::{
    CapturedState, MemoryState, OnChange, StateChange, StateError, StateReader, StateRows, StateWriter,
};
pub use state_table::{StateCell, StateCellType, StateTableWriter, TableColumns, read_table};
pub use stop::StopToken;
pub use subscription::Subscription;
pub use time::{
    BadDuration, BadTime, ROW_ORDER, ROW_ORDER_ONLY, Time, TimeFormat, TimeReader, digits, parse_duration,
    written_duration,
};
pub use time_pattern::TimePattern;
pub use time_range::TimeRange;
pub use verdict::{Kind, Value, Verdict, VerdictBatch, verdict_schema};
pub use verdict_batcher::{BatchSink, VerdictBatcher};
pub use verdict_sink::{Cancelled, Instance, VerdictRef, VerdictSink};
pub use visible::{brief, visible, visible_lines};
pub use written_time::WrittenTime;

/// The cause behind an error: sendable, so that it can cross the pipeline's threads.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;
