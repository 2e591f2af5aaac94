//! What monitored rows had in the columns that open trials: how many rows are in no trial, and why.

use serde::{Deserialize, Serialize};

/// Counts over all rows that were monitored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// Number of rows.
    pub rows: u64,
    /// Rows without any key: they belong to no trial.
    pub without_key: u64,
    /// Rows with the key of a trial, without a group: they open no trial, or not one of every comparison.
    pub without_group: u64,
    /// Rows whose groups are among those that the file leaves out: they open no trial, or not one of every comparison.
    pub excepted: u64,
    /// Rows with the key of a trial that are not in every comparison, for either reason.
    pub not_compared: u64,
    /// Rows that have every column that a row needs to open a trial.
    pub complete: u64,
    /// Whether each of the `complete` rows is a trial that the first rate counts, unless an earlier row has its key.
    pub are_trials: bool,
    /// The column with the key of a trial; `None` if each row is a trial.
    pub key: Option<String>,
    /// The columns with groups.
    pub groups: Vec<String>,
    /// The columns that a row needs to open a trial.
    pub columns: Vec<SeenColumn>,
}

/// What was seen of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenColumn {
    /// Its name.
    pub name: String,
    /// Number of rows with a value.
    pub present: u64,
    /// A few different values from the first rows.
    pub examples: Vec<String>,
}

impl SeenColumn {
    /// Maximum number of examples.
    pub(crate) const EXAMPLES: usize = 3;

    /// `` `sex`: 12 of 20 rows have a value, such as "F", "M" ``
    fn in_words(&self, rows: u64) -> String {
        let SeenColumn { name, present, examples } = self;
        let such_as = match examples.as_slice() {
            [] => String::new(),
            examples => {
                let quoted: Vec<String> = examples.iter().map(|value| format!("{value:?}")).collect();
                format!(", such as {}", quoted.join(", "))
            }
        };
        match *present {
            0 => format!("`{name}`: no row has a value"),
            present if present == rows => format!("`{name}`: every row has a value{such_as}"),
            present => format!("`{name}`: {present} of {rows} rows have a value{such_as}"),
        }
    }
}

impl RowCounts {
    /// A line for each column that a row needs to open a trial.
    pub fn columns_in_words(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.in_words(self.rows)).collect()
    }
}
