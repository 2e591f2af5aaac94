//! State that outlives a program: what an engine remembers of the events so far, as named documents and tables.
//!
//! State is logical. It is said in names and types of the specification and never in those of a program's memory, so that
//! it can be read by later versions, by other tools, and by engines that evaluate in another way.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

/// Where state is written to.
pub trait StateWriter {
    /// Writes a document, which is one JSON value.
    ///
    /// # Errors
    /// It could not be written.
    fn document(&mut self, name: &str, json: &str) -> Result<(), StateError>;

    /// Appends rows to a table. The first rows, of which there may be none, begin it; all have the same schema.
    ///
    /// # Errors
    /// They could not be written.
    fn rows(&mut self, table: &str, rows: &RecordBatch) -> Result<(), StateError>;
}

/// The rows of a table, batch by batch.
pub type StateRows<'a> = Box<dyn Iterator<Item = Result<RecordBatch, StateError>> + 'a>;

/// Where state is read from.
pub trait StateReader {
    /// A document; `None` if there is none of this name.
    ///
    /// # Errors
    /// It could not be read.
    fn document(&self, name: &str) -> Result<Option<String>, StateError>;

    /// A table; `None` if there is none of this name.
    ///
    /// # Errors
    /// It could not be read.
    fn table(&self, name: &str) -> Result<Option<StateRows<'_>>, StateError>;
}

/// A copy of state as it was at one moment, which another thread writes while the engine goes on.
pub trait CapturedState: Send {
    /// Writes it.
    ///
    /// # Errors
    /// It could not be written completely.
    fn write(self: Box<Self>, to: &mut dyn StateWriter) -> Result<(), StateError>;
}

/// What happens to state that a changed specification does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// Nothing is restored, and the error lists what has changed.
    #[default]
    Refuse,
    /// What is unchanged is restored, and the rest begins anew.
    CarryOver,
}

/// Something of a specification that has no state to be restored, or whose state belongs to something else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateChange {
    /// What it is, such as "stream `accepted`".
    pub part: String,
    /// How it differs, as the end of a sentence that begins with the part: "is new".
    pub how: String,
}

/// State cannot be captured, written, read or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The engine has no state that could be captured.
    #[error("this engine cannot write down its state; the compiled engine can: leave `--engine` out")]
    Unsupported,
    /// A version of this program wrote it that is too new.
    #[error("the state has version {found}, and this program reads up to version {known}; use a newer one")]
    Version {
        /// The version of the state.
        found: u64,
        /// The newest that is known.
        known: u64,
    },
    /// It was written for another specification.
    #[error("the specification has changed since: {}", listed(.0))]
    Changed(Vec<StateChange>),
    /// Some of it is missing or contradicts the rest.
    #[error("the state is damaged: {0}")]
    Damaged(String),
    /// It could not be written or read.
    #[error("{0}")]
    Io(String),
}

fn listed(changes: &[StateChange]) -> String {
    let sentences: Vec<String> =
        changes.iter().map(|change| format!("{} {}", change.part, change.how)).collect();
    sentences.join("; ")
}

/// State in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryState {
    /// JSON, by name.
    pub documents: BTreeMap<String, String>,
    /// Batches of rows, by name.
    pub tables: BTreeMap<String, Vec<RecordBatch>>,
}

impl MemoryState {
    /// Writes captured state to memory.
    ///
    /// # Errors
    /// It could not be written completely.
    pub fn of(captured: Box<dyn CapturedState>) -> Result<MemoryState, StateError> {
        let mut state = MemoryState::default();
        captured.write(&mut state)?;
        Ok(state)
    }
}

impl StateWriter for MemoryState {
    fn document(&mut self, name: &str, json: &str) -> Result<(), StateError> {
        self.documents.insert(name.to_owned(), json.to_owned());
        Ok(())
    }

    fn rows(&mut self, table: &str, rows: &RecordBatch) -> Result<(), StateError> {
        self.tables.entry(table.to_owned()).or_default().push(rows.clone());
        Ok(())
    }
}

impl StateReader for MemoryState {
    fn document(&self, name: &str) -> Result<Option<String>, StateError> {
        Ok(self.documents.get(name).cloned())
    }

    fn table(&self, name: &str) -> Result<Option<StateRows<'_>>, StateError> {
        Ok(self
            .tables
            .get(name)
            .map(|batches| -> StateRows<'_> { Box::new(batches.iter().cloned().map(Ok)) }))
    }
}
