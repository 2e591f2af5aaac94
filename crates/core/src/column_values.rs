//! Access to a column of events value by value, for formats that write rows.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;

use crate::Value;

/// The values of a column.
#[derive(Clone, Debug)]
pub struct ColumnValues(TypedArray);

#[derive(Clone, Debug)]
enum TypedArray {
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float64Array),
    Text(StringArray),
}

impl ColumnValues {
    /// The values of a column, converted to the types of [`Value`].
    ///
    /// # Errors
    /// The type of the column cannot be converted.
    pub fn of(column: &ArrayRef) -> Result<ColumnValues, ArrowError> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let cast = |data_type| cast_with_options(column, &data_type, &strict);
        Ok(ColumnValues(match column.data_type() {
            DataType::Boolean => TypedArray::Bool(column.as_boolean().clone()),
            data_type if data_type.is_signed_integer() => {
                TypedArray::Int(cast(DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            data_type if data_type.is_unsigned_integer() => {
                TypedArray::UInt(cast(DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
            }
            data_type if data_type.is_floating() => {
                TypedArray::Float(cast(DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Binary => {
                let digits =
                    |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                TypedArray::Text(column.as_binary::<i32>().iter().map(|bytes| bytes.map(digits)).collect())
            }
            _ => TypedArray::Text(cast(DataType::Utf8)?.as_string::<i32>().clone()),
        }))
    }

    /// The value in a row; `None` for null.
    pub fn at(&self, row: usize) -> Option<Value<'_>> {
        fn get<'a, A: Array, V>(array: &'a A, row: usize, value: impl Fn(&'a A) -> V) -> Option<V> {
            array.is_valid(row).then(|| value(array))
        }
        match &self.0 {
            TypedArray::Bool(values) => get(values, row, |values| Value::Bool(values.value(row))),
            TypedArray::Int(values) => get(values, row, |values| Value::Int(values.value(row))),
            TypedArray::UInt(values) => get(values, row, |values| Value::UInt(values.value(row))),
            TypedArray::Float(values) => get(values, row, |values| Value::Float(values.value(row))),
            TypedArray::Text(values) => get(values, row, |values| Value::Text(values.value(row))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Decimal128Array, Int8Array};

    use super::*;

    fn read(column: impl Array + 'static) -> Vec<String> {
        let (rows, cells) = (column.len(), ColumnValues::of(&(Arc::new(column) as ArrayRef)).unwrap());
        (0..rows).map(|row| cells.at(row).map_or("∅".to_owned(), |value| value.to_string())).collect()
    }

    #[test]
    fn values_are_what_a_source_would_read_again() {
        assert_eq!(read(Int8Array::from(vec![Some(-5), None])), ["-5", "∅"]);
        assert_eq!(read(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
        assert_eq!(read(BooleanArray::from(vec![None, Some(true)])), ["∅", "true"]);
        assert_eq!(read(BinaryArray::from_vec(vec![&[0, 255]])), ["00ff"]);
        assert_eq!(read(StringArray::from(vec!["a", ""])), ["a", ""]);
        let fixed = Decimal128Array::from(vec![150]).with_precision_and_scale(28, 2).unwrap();
        assert_eq!(read(fixed), ["1.50"]);
    }
}
