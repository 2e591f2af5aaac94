//! Error messages for a missing time column, and for one whose times cannot be read.

use fairstream_core::{BadTime, nearest};

use crate::shortened;

/// There is no time column `name` among these columns; suggests others.
pub fn no_time_column(name: &str, columns: &[String]) -> String {
    const USUAL_TIMES: [&str; 6] = ["timestamp", "ts", "date", "datetime", "event_time", "created_at"];
    let usual = |column: &&str| USUAL_TIMES.iter().any(|usual| column.eq_ignore_ascii_case(usual));
    let all = || columns.iter().map(String::as_str);
    let hint = match all().find(usual).or_else(|| nearest(name, all())) {
        Some(near) => format!("`--time {near}`, perhaps"),
        None => "say which with `--time COLUMN`".to_owned(),
    };
    let names: Vec<String> = columns.iter().map(|name| format!("`{}`", shortened(name))).collect();
    format!(
        "there is no column `{name}` that says when a row happened; {hint}, or take rows in their order with \
         `--time row` (columns: {})",
        names.join(", ")
    )
}

/// The time of the first row, which could not be read, and further times that could not be either.
#[derive(Debug)]
pub struct FirstTime {
    refused: BadTime,
    others: Vec<String>,
    /// Number of rows that have been searched.
    rows: usize,
}

impl FirstTime {
    /// Number of rows that are searched for examples.
    pub const ROWS: usize = 64;
    /// Number of further times that are shown.
    const SHOWN: usize = 2;

    /// The error of the first time.
    pub fn new(refused: BadTime) -> FirstTime {
        FirstTime { refused, others: Vec::new(), rows: 1 }
    }

    /// Adds the time of a later bad row, if it could not be read and the search goes on.
    pub fn add(&mut self, refused: Option<BadTime>) {
        if !self.wants_more() {
            return;
        }
        self.rows += 1;
        let is_new = |bad: &BadTime| {
            bad.text() != self.refused.text() && !self.others.iter().any(|known| known == bad.text())
        };
        if let Some(bad) = refused.filter(|bad| self.others.len() < Self::SHOWN && is_new(bad)) {
            self.others.push(bad.text().to_owned());
        }
    }

    /// Ends the search, as a time can be read.
    pub fn end(&mut self) {
        self.rows = Self::ROWS;
    }

    /// Whether more rows should be searched.
    pub fn wants_more(&self) -> bool {
        self.others.len() < Self::SHOWN && self.rows < Self::ROWS
    }

    /// The error with examples and formats.
    pub fn reason(&self) -> String {
        let others: Vec<String> = self.others.iter().map(|other| shortened(other)).collect();
        self.refused.with_examples(&others)
    }
}
