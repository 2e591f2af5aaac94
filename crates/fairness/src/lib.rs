//! The fairness file: a TOML file that defines fairness metrics. This crate parses and checks it, compiles it to RTLola
//! text and describes it in sentences. The judge turns the counts of each check into estimates and alarms, and a sweep
//! evaluates other parameters on the same counts. Does no input or output, and evaluates no stream: an engine does
//! that.
//!
//! ```
//! use fairstream_fairness::FairnessFile;
//!
//! let file = FairnessFile::parse("hiring.toml", r#"
//!     [events.columns]
//!     id = "UInt64"
//!     gender = "String"
//!     accepted = "UInt64"
//!     [trial]
//!     key = "id"
//!     group = "gender"
//!     [indicators]
//!     accepted = { when = "true", key = "accepted" }
//!     [[fairness]]
//!     metric = "demographic-parity"
//!     decision = "accepted"
//!     tolerance = 0.1
//!     rule = "map"
//! "#)?;
//! let compiled = file.compile(&[])?;
//! assert!(compiled.rtlola().contains("trigger demographic_parity_gap > 0.1"));
//!
//! let error = FairnessFile::parse("hiring.toml", "[trail]").unwrap_err().to_string();
//! assert!(error.contains("did you mean `trial`?"), "{error}");
//! # Ok::<(), fairstream_fairness::FileError>(())
//! ```

mod compile;
mod evidence;
mod explain;
mod expression;
mod file;
mod group;
mod guarantee;
mod history;
mod judge;
mod judged;
mod metric;
mod problem;
mod propose;
mod reference;
mod sample;
mod sweep;
mod table;
mod unit;
mod window;

pub use compile::{BoundInput, Compiled, InputOrigin, JudgedStreams, RateStreams};
pub use evidence::{
    AlarmTrials, ChainHead, EvidenceReader, EvidenceSink, KeyHash, Replay, ReplayedAlarm, ShortSecret,
    WrongEvidence, evidence_schema,
};
pub use explain::Description;
pub use fairstream_guarantee::{Interval, Outcome};
pub use file::{Endpoint, EventColumn, FairnessFile};
pub use group::Grouping;
pub use guarantee::{Every, Guarantee, Promise};
pub use history::{AlarmSpan, Curve, History, RateHistory};
pub use judge::{
    AlarmBasis, AlarmChange, AlarmDetails, AlarmedGroup, Assessment, Counts, EvidenceNumbers, GroupStanding,
    ImpactRatio, Judge, RowCounts, Rule, RuleRate, SeenColumn, Standing, StandingOutline, StrataAssessment,
    by_column, compare_values, significant, significant_exp, when,
};
pub use judged::JudgedEngine;
pub use metric::{Comparison, MetricKind};
pub use problem::{FileError, Problem};
pub use propose::{CaseRows, NoProposal, Proposal, TableSample};
pub use sample::{ColumnSample, column_types};
pub use sweep::{BadGrid, Grid, Sweep, SweepCell, SweptRun};
pub use unit::Unit;
pub use window::RollingWindow;
