//! The document of an engine: everything but its instances. The names of the fields are the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::Definition;

/// The version that is written, and the newest that is read.
pub(super) const VERSION: u64 = 1;

/// What is read before anything else.
#[derive(Deserialize)]
pub(super) struct DocumentVersion {
    pub(super) version: u64,
}

/// Times are nanoseconds since 1970, or since the start of the trace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EngineDocument {
    pub(super) version: u64,
    /// When the clock started.
    pub(super) start: i64,
    /// Everything that is due up to and at this time has been evaluated.
    pub(super) evaluated: i64,
    /// How many events and deadlines there have been.
    pub(super) instants: u64,
    /// Inputs, then outputs, in the order of the specification.
    pub(super) streams: Vec<StreamDocument>,
    /// Streams whose instances are one table.
    pub(super) families: Vec<FamilyDocument>,
    /// Windows over instances that have closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) closed_windows: Vec<TableOf>,
    /// Sums of decimals over instances, whose scale depends on members that have gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sums: Vec<TableOf>,
}

/// A stream, and what it remembers if it has no parameters.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StreamDocument {
    #[serde(flatten)]
    pub(super) definition: Definition,
    /// Whether every instance is dirty, or the stream without parameters.
    #[serde(default)]
    pub(super) dirty: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<CellDocument>,
}

/// What an input, or a stream without parameters, remembers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CellDocument {
    /// The values that are stored, the latest first.
    pub(super) values: Vec<Value>,
    /// The entries of the windows over it, the earliest first, by the name of the window.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) windows: BTreeMap<String, Vec<Value>>,
    /// Whether its latest evaluation gave a value.
    #[serde(default)]
    pub(super) holds: bool,
    /// How it was spawned, unless it always exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spawn: Option<SpawnDocument>,
}

/// The life of a stream that is spawned without parameters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SpawnDocument {
    /// Whether it exists.
    pub(super) exists: bool,
    /// How often it was spawned.
    pub(super) spawns: u64,
    /// When it was spawned last, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spawned: Option<i64>,
    /// The instant of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spawn_instant: Option<u64>,
    /// When its clocks are due, by the names that columns of deadlines have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) deadlines: BTreeMap<String, Option<i64>>,
    /// Whether its close condition must be checked.
    #[serde(default)]
    pub(super) close_dirty: bool,
}

/// Streams that are spawned and closed together.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FamilyDocument {
    pub(super) table: String,
    pub(super) streams: Vec<String>,
    /// How many instances were ever spawned.
    pub(super) spawned: u64,
    /// How many there are: the rows of the table.
    pub(super) instances: usize,
    /// Whether the close condition of every instance must be checked.
    #[serde(default)]
    pub(super) close_dirty: bool,
}

/// A table, and what it is of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TableOf {
    pub(super) table: String,
    pub(super) rows: usize,
    pub(super) stream: String,
    pub(super) of: String,
}
