//! Conversion from the types of files to those of specifications. A value that does not fit is a rejected row; a
//! type that cannot be converted is refused before anything is read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Date32Type, Date64Type, Decimal128Type, Float64Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use fairstream_files::{Column, shortened, type_name};

use crate::tuple::tuples;

/// Conversion from one type to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    rule: ConversionRule,
    wanted: DataType,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConversionRule {
    /// The type is the requested one.
    Same,
    /// All values are null.
    Nothing,
    /// Dictionary keys with values of this type.
    Dictionary(DataType, Box<ConversionRule>),
    /// Numbers to numbers and texts to texts, where they fit.
    Cast,
    /// Floats that are integers.
    Whole,
    /// Decimals to the nearest float.
    Nearest,
    /// By formatting the value and parsing it again.
    Written,
    /// Bytes that are UTF-8.
    Text,
    /// Days since 1970.
    Days,
    /// Nanoseconds: since 1970, of a day or of a duration.
    Nanos,
    /// A timestamp as RFC 3339.
    Instant,
    /// The fields of a struct, or the values of a list of fixed length, as the parts of a tuple.
    Parts(Vec<ConversionRule>),
}

/// A value that does not fit: its row, and the reason.
pub(crate) type Misfit = (usize, String);

impl Conversion {
    /// `None` if values of type `found` cannot be read as `wanted`.
    pub(crate) fn new(found: &DataType, wanted: &DataType) -> Option<Conversion> {
        Some(Conversion { rule: rule(found, wanted)?, wanted: wanted.clone() })
    }

    /// The converted values, null where they do not fit, and the rows that do not fit.
    ///
    /// # Errors
    /// The values exceed the capacity of a column.
    pub(crate) fn apply(&self, values: &ArrayRef) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
        apply(&self.rule, values, &self.wanted)
    }
}

fn rule(found: &DataType, wanted: &DataType) -> Option<ConversionRule> {
    if found == wanted {
        return Some(ConversionRule::Same);
    }
    if let DataType::Dictionary(_, values) = found {
        return rule(values, wanted)
            .map(|rule| ConversionRule::Dictionary((**values).clone(), Box::new(rule)));
    }
    let number = |data_type: &DataType| data_type.is_integer() || data_type.is_floating();
    let decimal = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
        )
    };
    let text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        )
    };
    Some(match (found, wanted) {
        (DataType::Null, _) => ConversionRule::Nothing,
        (found, DataType::Utf8) if text(found) => ConversionRule::Cast,
        (found, DataType::Boolean) if text(found) => ConversionRule::Written,
        (found, DataType::Utf8) if bytes(found) => ConversionRule::Text,
        (found, DataType::Binary) if bytes(found) => ConversionRule::Cast,
        (found, wanted) if found.is_integer() && (number(wanted) || decimal(wanted)) => ConversionRule::Cast,
        (found, wanted) if found.is_floating() && wanted.is_integer() => ConversionRule::Whole,
        (found, DataType::Float64) if found.is_floating() => ConversionRule::Cast,
        (found, wanted) if found.is_floating() && decimal(wanted) => ConversionRule::Written,
        (found, DataType::Float64) if decimal(found) => ConversionRule::Nearest,
        (found, wanted) if decimal(found) && decimal(wanted) => ConversionRule::Cast,
        (found, wanted) if decimal(found) && wanted.is_integer() => ConversionRule::Written,
        (DataType::Date32 | DataType::Date64, DataType::Utf8) => ConversionRule::Cast,
        (DataType::Date32 | DataType::Date64, wanted) if wanted.is_integer() => ConversionRule::Days,
        (DataType::Timestamp(..), DataType::Utf8) => ConversionRule::Instant,
        (DataType::Time32(_) | DataType::Time64(_), DataType::Utf8) => ConversionRule::Cast,
        (
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_),
            DataType::Int64 | DataType::UInt64,
        ) => ConversionRule::Nanos,
        (found, DataType::Struct(parts)) => {
            let found: Vec<&DataType> = match found {
                DataType::Struct(columns) => columns.iter().map(|column| column.data_type()).collect(),
                DataType::FixedSizeList(item, length) => {
                    vec![item.data_type(); usize::try_from(*length).ok()?]
                }
                _ => return None,
            };
            let rules = found.iter().zip(parts).map(|(found, part)| rule(found, part.data_type()));
            let rules = rules.collect::<Option<Vec<ConversionRule>>>()?;
            return (found.len() == parts.len()).then_some(ConversionRule::Parts(rules));
        }
        _ => return None,
    })
}

pub(crate) fn apply(
    rule: &ConversionRule,
    values: &ArrayRef,
    wanted: &DataType,
) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let fitting = |values: ArrayRef| Ok((values, Vec::new()));
    match rule {
        ConversionRule::Same => fitting(Arc::clone(values)),
        ConversionRule::Nothing => fitting(new_null_array(wanted, values.len())),
        ConversionRule::Dictionary(plain, rule) => apply(rule, &lenient(values, plain)?, wanted),
        ConversionRule::Cast => checked(values, lenient(values, wanted)?, wanted),
        ConversionRule::Text => {
            let plain = lenient(values, &DataType::Binary)?;
            let cast = lenient(&plain, wanted)?;
            let misfit = |row| (row, "it is not UTF-8 text".to_owned());
            let misfits = lost(&plain, &cast).into_iter().map(misfit).collect();
            Ok((cast, misfits))
        }
        ConversionRule::Whole => {
            let floats = lenient(values, &DataType::Float64)?;
            let cast = lenient(&floats, wanted)?;
            let floats: &Float64Array = floats.as_primitive();
            let is_misfit = |row: &usize| {
                floats.is_valid(*row) && (floats.value(*row).fract() != 0.0 || cast.is_null(*row))
            };
            let mut column = None;
            let mut reason = |row: usize| -> String {
                let text = floats.value(row).to_string();
                let column = column.get_or_insert_with(|| Column::new(wanted));
                match column.as_mut().map(|column| column.append(&text)) {
                    Some(Err(reason)) => reason,
                    _ => out_of_range(&text, wanted),
                }
            };
            let misfits = (0..floats.len()).filter(is_misfit).map(|row| (row, reason(row))).collect();
            Ok((cast, misfits))
        }
        ConversionRule::Nearest => nearest(values).map(|values| (values, Vec::new())),
        ConversionRule::Written => written(values, wanted),
        ConversionRule::Days => {
            let days: Int64Array = match values.data_type() {
                DataType::Date32 => values.as_primitive::<Date32Type>().unary(i64::from),
                _ => values.as_primitive::<Date64Type>().unary(|millis| millis.div_euclid(86_400_000)),
            };
            let days: ArrayRef = Arc::new(days);
            checked(&days, lenient(&days, wanted)?, wanted)
        }
        ConversionRule::Nanos => {
            let nanos: ArrayRef = Arc::new(nanoseconds(values)?);
            let fit = lenient(&nanos, wanted)?;
            checked(values, fit, wanted)
        }
        ConversionRule::Instant => {
            let DataType::Timestamp(unit, zone) = values.data_type() else {
                return fitting(Arc::clone(values));
            };
            let zone = zone.as_ref().map(|_| "+00:00".into());
            let utc = lenient(values, &DataType::Timestamp(*unit, zone))?;
            checked(&utc, lenient(&utc, wanted)?, wanted)
        }
        ConversionRule::Parts(rules) => tuples(rules, values, wanted),
    }
}

/// Values of another type, null where they do not fit.
fn lenient(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if values.data_type() == wanted {
        return Ok(Arc::clone(values));
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(values, wanted, &options);
    if cast.is_ok() || *wanted != DataType::Utf8 {
        return cast;
    }
    // One timestamp that is out of range would leave the whole column without text, so rows are converted one by
    // one.
    let one = |row| {
        let cast = cast_with_options(&values.slice(row, 1), wanted, &options);
        cast.unwrap_or_else(|_| new_null_array(wanted, 1))
    };
    let each: Vec<ArrayRef> = (0..values.len()).map(one).collect();
    concat(&each.iter().map(|value| &**value).collect::<Vec<_>>())
}

/// Rows that had a value before the conversion and are null after it.
fn lost(before: &ArrayRef, after: &ArrayRef) -> Vec<usize> {
    if after.null_count() == before.logical_null_count() {
        return Vec::new();
    }
    let nulls = before.logical_nulls();
    let was_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    (0..after.len()).filter(|row| after.is_null(*row) && was_valid(*row)).collect()
}

fn checked(
    before: &ArrayRef,
    after: ArrayRef,
    wanted: &DataType,
) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let misfit = |row| (row, out_of_range(&shown(before, row), wanted));
    let misfits = lost(before, &after).into_iter().map(misfit).collect();
    Ok((after, misfits))
}

/// A value for messages: timestamps in UTC, whatever their zone.
pub(crate) fn shown(values: &ArrayRef, row: usize) -> String {
    let value = values.slice(row, 1);
    let value = match value.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            lenient(&value, &DataType::Timestamp(*unit, Some("+00:00".into()))).unwrap_or(value)
        }
        _ => value,
    };
    // A value out of range may have no text.
    array_value_to_string(&value, 0).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "it".to_owned())
}

fn out_of_range(text: &str, wanted: &DataType) -> String {
    let hint =
        if wanted.is_unsigned_integer() && text.starts_with('-') { "negative" } else { "out of range" };
    format!("`{}` is not {} (it is {hint})", shortened(text), type_name(wanted))
}

/// Decimals as the nearest floats, which is the result of parsing their digits.
fn nearest(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    const EXACT: i128 = 1 << 53;
    if let DataType::Decimal128(_, scale @ 0..=22) = values.data_type() {
        let unit = 10_f64.powi(i32::from(*scale));
        let decimals = values.as_primitive::<Decimal128Type>();
        if decimals.values().iter().all(|value| value.abs() < EXACT) {
            // Both operands are exact, so the quotient is rounded once.
            return Ok(Arc::new(decimals.unary::<_, Float64Type>(|value| value as f64 / unit)));
        }
    }
    let texts = lenient(values, &DataType::Utf8)?;
    let floats: Float64Array =
        texts.as_string::<i32>().iter().map(|text| text.and_then(|text| text.parse().ok())).collect();
    Ok(Arc::new(floats))
}

/// Parses the formatted values.
fn written(values: &ArrayRef, wanted: &DataType) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let mut column = Column::new(wanted)
        .ok_or_else(|| ArrowError::CastError(format!("text cannot be read as {wanted}")))?;
    let mut misfits = Vec::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            column.append_null();
            continue;
        }
        let text = array_value_to_string(values, row)?;
        let text = match text.split_once('.') {
            Some((whole, fraction))
                if wanted != &DataType::Boolean && fraction.bytes().all(|digit| digit == b'0') =>
            {
                whole
            }
            _ => text.as_str(),
        };
        if let Err(reason) = column.append(text) {
            misfits.push((row, reason));
        }
    }
    Ok((column.finish(), misfits))
}

/// Times and durations of any unit in nanoseconds; null where they are too large.
pub(crate) fn nanoseconds(values: &ArrayRef) -> Result<Int64Array, ArrowError> {
    let unit = match values.data_type() {
        DataType::Timestamp(unit, _)
        | DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Duration(unit) => *unit,
        other => return Err(ArrowError::CastError(format!("{other} is no time"))),
    };
    let plain = match values.data_type() {
        DataType::Time32(_) => lenient(&lenient(values, &DataType::Int32)?, &DataType::Int64)?,
        _ => lenient(values, &DataType::Int64)?,
    };
    let plain = plain.as_primitive::<Int64Type>();
    Ok(match nanos_of(unit) {
        1 => plain.clone(),
        factor => scaled(plain, factor),
    })
}

/// Each value times `factor`; null where that is too large.
pub(crate) fn scaled<T: ArrowPrimitiveType<Native: Into<i64>>>(
    values: &PrimitiveArray<T>,
    factor: i64,
) -> Int64Array {
    let limit = i64::MAX / factor;
    // Checking all values first is faster than checking each during multiplication.
    if values.values().iter().all(|value| (-limit..=limit).contains(&(*value).into())) {
        return values.unary(|value| value.into() * factor);
    }
    values.unary_opt(|value| value.into().checked_mul(factor))
}

/// Nanoseconds per unit.
pub(crate) fn nanos_of(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
