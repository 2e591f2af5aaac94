//! Counts the rows that reach the engine, by what they have in the columns that open trials.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fairstream_core::EventBatch;

use crate::judge::{RowCounts, SeenColumn};
use crate::{BoundInput, Compiled, InputOrigin};

/// Counts rows.
#[derive(Debug)]
pub(super) struct RowCounter {
    /// Columns that can refer to a trial; a new trial has its key in the first. Empty if each row is a trial.
    keys: Vec<BoundInput>,
    groups: Vec<BoundInput>,
    /// For each comparison, the indices of its groups.
    combinations: Vec<Vec<usize>>,
    /// Columns that the condition of an opening reads.
    opens: Vec<BoundInput>,
    /// Whether every row with a key and groups is a trial that the first rate counts.
    are_trials: bool,
}

/// Examples of values are taken from so many rows.
const ROWS_WITH_EXAMPLES: u64 = 10_000;

impl RowCounter {
    pub(super) fn new(compiled: &Compiled) -> RowCounter {
        let file = compiled.file();
        let column = |name: &String| {
            let is_it = |input: &&BoundInput| matches!(&input.origin, InputOrigin::Column(of) if of == name);
            compiled.inputs().iter().find(is_it).cloned()
        };
        let group = |name: &String| {
            let is_it = |input: &&BoundInput| matches!(&input.origin, InputOrigin::Groups { name: of, .. } if of == name);
            compiled.inputs().iter().find(is_it).cloned().or_else(|| column(name))
        };
        let names = file.group_columns();
        let index = |name: &String| names.iter().position(|known| known == name);
        let combinations = file.combinations();
        RowCounter {
            keys: file.key_columns().iter().filter_map(column).collect(),
            groups: names.iter().filter_map(group).collect(),
            combinations: combinations.iter().map(|names| names.iter().filter_map(index).collect()).collect(),
            are_trials: file.is_every_row_counted(),
            opens: file.columns_of_opens().iter().filter_map(column).collect(),
        }
    }

    /// Adds the rows of a batch: as the source gave them, and with the inputs of the engine.
    pub(super) fn count(
        &self,
        source: &EventBatch,
        events: &EventBatch,
        counts: &mut RowCounts,
    ) -> Result<(), ArrowError> {
        let array = |input: &BoundInput| events.rows.column_by_name(&input.stream);
        let keys: Vec<&ArrayRef> = self.keys.iter().filter_map(array).collect();
        let groups: Vec<&ArrayRef> = self.groups.iter().filter_map(array).collect();
        let opens: Vec<&ArrayRef> = self.opens.iter().filter_map(array).collect();
        // The values that groups are made from.
        let values: Vec<&ArrayRef> = self
            .groups
            .iter()
            .filter_map(|group| match &group.origin {
                InputOrigin::Groups { column, .. } => source.rows.column_by_name(&column.name),
                _ => array(group),
            })
            .collect();
        let rows = events.len();
        let all = || BooleanBuffer::new_set(rows);
        let none = || BooleanBuffer::new_unset(rows);
        let valid = |column: &ArrayRef| column.nulls().map_or_else(all, |nulls| nulls.inner().clone());
        let all_valid =
            |columns: &[&ArrayRef]| columns.iter().fold(all(), |rows, column| &rows & &valid(column));
        let has_own_key = keys.first().map_or_else(all, |key| valid(key));
        let has_any_key = keys.iter().fold(none(), |rows, key| &rows | &valid(key));
        let has_groups = all_valid(&groups);
        let is_excepted = groups
            .iter()
            .zip(&values)
            .fold(none(), |rows, (group, value)| &rows | &(&valid(value) & &!&valid(group)));
        let is_compared = self.combinations.iter().fold(none(), |rows, combination| {
            let of: Vec<&ArrayRef> =
                combination.iter().filter_map(|group| groups.get(*group).copied()).collect();
            &rows | &all_valid(&of)
        });
        let count = |rows: &BooleanBuffer| rows.count_set_bits() as u64;
        if !keys.is_empty() {
            counts.without_key += rows as u64 - count(&has_any_key);
        }
        counts.without_group += count(&(&has_own_key & &!&all_valid(&values)));
        counts.excepted += count(&(&has_own_key & &is_excepted));
        counts.not_compared += count(&(&has_own_key & &!&has_groups));
        counts.complete += count(&(&(&has_own_key & &all_valid(&opens)) & &is_compared));
        let key = self.keys.first();
        let inputs = || key.into_iter().chain(&self.groups).chain(&self.opens);
        if counts.columns.is_empty() {
            let named =
                |input: &BoundInput| SeenColumn { name: input.name().to_owned(), ..SeenColumn::default() };
            counts.columns = inputs().map(named).collect();
            counts.are_trials = self.are_trials;
            counts.key = key.map(|key| key.name().to_owned());
            counts.groups = self.groups.iter().map(|group| group.name().to_owned()).collect();
        }
        for (seen, input) in counts.columns.iter_mut().zip(inputs()) {
            let Some(column) = array(input) else { continue };
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
