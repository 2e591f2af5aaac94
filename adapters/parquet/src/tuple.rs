//! Tuples from struct columns and from lists of a fixed length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt64Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::convert::{ConversionRule, Misfit, apply};

/// The values as tuples whose parts are converted by these rules, null where a part does not fit or is missing,
/// and the rows where that is so.
pub(crate) fn tuples(
    rules: &[ConversionRule],
    values: &ArrayRef,
    wanted: &DataType,
) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let DataType::Struct(fields) = wanted else { return Ok((Arc::clone(values), Vec::new())) };
    let found = parts(values, rules.len())?;
    let mut nulls = values.logical_nulls();
    let (mut columns, mut misfits) = (Vec::with_capacity(rules.len()), Vec::new());
    for (index, ((rule, field), found)) in rules.iter().zip(fields).zip(&found).enumerate() {
        let (column, unfit) = apply(rule, found, field.data_type())?;
        let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let number = index + 1;
        let unfit = unfit.into_iter().filter(|(row, _)| is_there(*row));
        misfits.extend(unfit.map(|(row, reason)| (row, format!("part {number}: {reason}"))));
        if let Some(absent) = found.logical_nulls() {
            let absent = (0..values.len()).filter(|row| is_there(*row) && absent.is_null(*row));
            misfits.extend(absent.map(|row| (row, format!("part {number} of the tuple is null"))));
        }
        columns.push(column);
    }
    for column in &columns {
        nulls = NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref());
    }
    misfits.sort_by_key(|(row, _)| *row);
    misfits.dedup_by_key(|(row, _)| *row);
    Ok((Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?), misfits))
}

/// The parts, each as a separate column.
fn parts(values: &ArrayRef, count: usize) -> Result<Vec<ArrayRef>, ArrowError> {
    if let Some(columns) = values.as_struct_opt() {
        return Ok(columns.columns().to_vec());
    }
    let Some(list) = values.as_fixed_size_list_opt() else {
        return Ok(vec![new_null_array(values.data_type(), values.len()); count]);
    };
    let part = |index: usize| {
        let places = (0..values.len()).map(|row| (row * count + index) as u64);
        take(list.values(), &UInt64Array::from_iter_values(places), None)
    };
    (0..count).map(part).collect()
}
