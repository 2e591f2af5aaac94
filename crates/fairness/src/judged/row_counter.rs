//! Counts the rows that reach the engine, by what they have in the columns that open trials.

use arrow::array::{Array, ArrayRef};
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
        let has_nulls = |columns: &[&ArrayRef]| columns.iter().any(|column| column.null_count() > 0);
        if has_nulls(&keys) || has_nulls(&groups) || has_nulls(&opens) {
            for row in 0..rows {
                let is_valid = |column: &&ArrayRef| column.is_valid(row);
                let has_own_key = keys.first().is_none_or(is_valid);
                let has_group = groups.iter().all(is_valid);
                let has_value = values.iter().all(is_valid);
                counts.without_key += u64::from(!keys.is_empty() && !keys.iter().any(is_valid));
                counts.without_group += u64::from(has_own_key && !has_value);
                let is_excepted =
                    groups.iter().zip(&values).any(|(group, value)| is_valid(value) && !is_valid(group));
                counts.excepted += u64::from(has_own_key && is_excepted);
                counts.not_compared += u64::from(has_own_key && !has_group);
                let is_compared =
                    |combination: &Vec<usize>| combination.iter().all(|group| is_valid(&groups[*group]));
                let opens_trial =
                    has_own_key && opens.iter().all(is_valid) && self.combinations.iter().any(is_compared);
                counts.complete += u64::from(opens_trial);
            }
        } else {
            counts.complete += rows as u64;
        }
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
