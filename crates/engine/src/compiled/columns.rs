//! Typed columns → words.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use rust_decimal::Decimal;

use super::scalar::decimal_words;
use super::strings::Strings;

/// A column of a batch.
pub(super) enum Column<'a> {
    Bool(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt8(&'a UInt8Array),
    UInt16(&'a UInt16Array),
    UInt32(&'a UInt32Array),
    UInt64(&'a UInt64Array),
    Float64(&'a Float64Array),
    Decimal(&'a Decimal128Array, u32),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
}

impl<'a> Column<'a> {
    pub(super) fn of(array: &'a ArrayRef) -> Option<Column<'a>> {
        Some(match array.data_type() {
            DataType::Boolean => Column::Bool(array.as_boolean()),
            DataType::Int8 => Column::Int8(array.as_primitive::<Int8Type>()),
            DataType::Int16 => Column::Int16(array.as_primitive::<Int16Type>()),
            DataType::Int32 => Column::Int32(array.as_primitive::<Int32Type>()),
            DataType::Int64 => Column::Int64(array.as_primitive::<Int64Type>()),
            DataType::UInt8 => Column::UInt8(array.as_primitive::<UInt8Type>()),
            DataType::UInt16 => Column::UInt16(array.as_primitive::<UInt16Type>()),
            DataType::UInt32 => Column::UInt32(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => Column::UInt64(array.as_primitive::<UInt64Type>()),
            DataType::Float64 => Column::Float64(array.as_primitive::<Float64Type>()),
            DataType::Decimal128(_, scale) => {
                Column::Decimal(array.as_primitive::<Decimal128Type>(), u32::try_from(*scale).ok()?)
            }
            DataType::Utf8 => Column::Text(array.as_string::<i32>()),
            DataType::Binary => Column::Bytes(array.as_binary::<i32>()),
            _ => return None,
        })
    }

    /// The words of a row; `None` where it is silent.
    ///
    /// # Errors
    /// What is wrong with the value: it is NaN, or has too many digits.
    #[inline]
    pub(super) fn read(
        &self,
        row: usize,
        strings: &mut Strings,
    ) -> Result<Option<([u64; 2], usize)>, String> {
        macro_rules! word {
            ($array:expr, $value:ident => $word:expr) => {{
                if $array.is_null(row) {
                    return Ok(None);
                }
                let $value = $array.value(row);
                ([$word, 0], 1)
            }};
        }
        Ok(Some(match self {
            Column::Bool(array) => word!(array, value => u64::from(value)),
            Column::Int8(array) => word!(array, value => i64::from(value).cast_unsigned()),
            Column::Int16(array) => word!(array, value => i64::from(value).cast_unsigned()),
            Column::Int32(array) => word!(array, value => i64::from(value).cast_unsigned()),
            Column::Int64(array) => word!(array, value => value.cast_unsigned()),
            Column::UInt8(array) => word!(array, value => u64::from(value)),
            Column::UInt16(array) => word!(array, value => u64::from(value)),
            Column::UInt32(array) => word!(array, value => u64::from(value)),
            Column::UInt64(array) => word!(array, value => value),
            Column::Float64(array) => word!(array, value => {
                if value.is_nan() {
                    return Err("NaN is not a number".to_owned());
                }
                value.to_bits()
            }),
            Column::Text(array) => word!(array, value => strings.intern(value.as_bytes())),
            Column::Bytes(array) => word!(array, value => strings.intern(value)),
            Column::Decimal(array, scale) => {
                if array.is_null(row) {
                    return Ok(None);
                }
                let value = Decimal::try_from_i128_with_scale(array.value(row), *scale);
                let value = value.map_err(|error| error.to_string())?;
                (decimal_words(value.normalize()), 2)
            }
        }))
    }
}
