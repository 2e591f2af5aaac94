//! Counts the rows that reach the engine, by what they have in the columns that open trials.

use arrow::array::{Array, ArrayRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fairstream_core::EventBatch;

use crate::Compiled;
use crate::judge::{RowCounts, SeenColumn};

/// Counts rows.
#[derive(Debug)]
pub(super) struct RowCounter {
    /// Columns that can refer to a trial; a new trial has its key in the first.
    keys: Vec<String>,
    groups: Vec<String>,
    /// Columns that a row needs to open a trial.
    opening: Vec<String>,
}

/// Examples of values are taken from so many rows.
const ROWS_WITH_EXAMPLES: u64 = 10_000;

impl RowCounter {
    pub(super) fn new(compiled: &Compiled) -> RowCounter {
        let file = compiled.file();
        RowCounter { keys: file.key_columns(), groups: file.group_columns(), opening: file.opening_columns() }
    }

    /// Adds the rows of a batch.
    pub(super) fn count(&self, events: &EventBatch, counts: &mut RowCounts) -> Result<(), ArrowError> {
        let column = |name: &String| events.rows.column_by_name(name);
        let keys: Vec<&ArrayRef> = self.keys.iter().filter_map(column).collect();
        let groups: Vec<&ArrayRef> = self.groups.iter().filter_map(column).collect();
        let opening: Vec<&ArrayRef> = self.opening.iter().filter_map(column).collect();
        let rows = events.len();
        let has_nulls = |columns: &[&ArrayRef]| columns.iter().any(|column| column.null_count() > 0);
        if has_nulls(&keys) || has_nulls(&groups) || has_nulls(&opening) {
            for row in 0..rows {
                let has_key = keys.iter().any(|key| key.is_valid(row));
                let has_group = groups.iter().all(|group| group.is_valid(row));
                counts.without_key += u64::from(!has_key);
                let has_own_key = keys.first().is_some_and(|key| key.is_valid(row));
                counts.without_group += u64::from(has_own_key && !has_group);
                counts.complete += u64::from(opening.iter().all(|column| column.is_valid(row)));
            }
        } else {
            counts.complete += rows as u64;
        }
        if counts.columns.is_empty() {
            let named = |name: &String| SeenColumn { name: name.clone(), ..SeenColumn::default() };
            counts.columns = self.opening.iter().map(named).collect();
        }
        for seen in &mut counts.columns {
            let Some(column) = column(&seen.name) else { continue };
            seen.present += (column.len() - column.null_count()) as u64;
            if counts.rows < ROWS_WITH_EXAMPLES {
                add_examples(column, &mut seen.examples)?;
            }
        }
        counts.rows += rows as u64;
        Ok(())
    }
}

fn add_examples(column: &ArrayRef, examples: &mut Vec<String>) -> Result<(), ArrowError> {
    let texts = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
    for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
        if examples.len() == SeenColumn::EXAMPLES {
            break;
        }
        let text = texts.value(row).to_string();
        if !examples.contains(&text) {
            examples.push(text);
        }
    }
    Ok(())
}
