//! Medians over all inputs, which are read once for that before the run.

use anyhow::bail;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Float64Type};
use fairstream_core::{ROW_ORDER_ONLY, SourceRequest, WantedColumn};
use fairstream_fairness::FairnessFile;

use crate::registry::{self, Address};
use crate::sample;

/// Sets the medians that a fairness file wants. Inputs that cannot be read twice are left alone: then compiling says
/// what is missing.
pub(crate) fn set(file: &mut FairnessFile, inputs: &[Address]) -> anyhow::Result<()> {
    if inputs.is_empty() || inputs.iter().any(|input| input.location == "-") {
        return Ok(());
    }
    let columns: Vec<String> = file.medians().into_iter().map(str::to_owned).collect();
    for column in columns {
        let mut values = Vec::new();
        for input in inputs {
            read(input, &column, &mut values)?;
        }
        let Some(median) = median(&mut values) else { bail!("no row has a number in `{column}`") };
        file.set_median(&column, median);
    }
    Ok(())
}

/// Adds the numbers of a column.
fn read(input: &Address, column: &str, values: &mut Vec<f64>) -> anyhow::Result<()> {
    let kind = registry::source_for(input)?;
    let mut options = sample::without_waiting(input.options.clone());
    if sample::takes_time(&*kind) {
        options.set("time", ROW_ORDER_ONLY);
    }
    let mut source = kind.open(&SourceRequest {
        location: input.location.clone(),
        options,
        wanted: vec![WantedColumn::new(column, DataType::Float64)],
        ..SourceRequest::default()
    })?;
    while let Some(batch) = source.next_batch()? {
        let numbers = batch.rows.column_by_name(column);
        let numbers = numbers.and_then(|numbers| numbers.as_primitive_opt::<Float64Type>());
        values.extend(numbers.into_iter().flatten().flatten().filter(|number| !number.is_nan()));
    }
    Ok(())
}

/// The number in the middle, or the mean of the two in the middle.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    if values.is_empty() {
        return None;
    }
    let (below, &mut high, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let low = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    Some(low.map_or(high, |low| low + (high - low) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_values_are_on_either_side() {
        for (mut values, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![4.0, 1.0], Some(2.5)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(&mut values), expected);
        }
    }
}
