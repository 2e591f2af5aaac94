//! Converts columns to values of the interpreter, and those to JSON and to values of verdicts.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use rtlola_interpreter::Value;
use rust_decimal::Decimal;

/// The value in a row of a column, of one of the types that a specification can want.
///
/// # Errors
/// The value is NaN, or too large for the interpreter.
pub(crate) fn read(column: &ArrayRef, row: usize) -> Result<Value, String> {
    if column.is_null(row) {
        return Ok(Value::None);
    }
    Ok(match column.data_type() {
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        DataType::Int8 => Value::Signed(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Value::Signed(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Signed(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Signed(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Value::Unsigned(column.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Value::Unsigned(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Value::Unsigned(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Value::Unsigned(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            Value::try_from(value).map_err(|_| "NaN is not a number".to_owned())?
        }
        DataType::Decimal128(_, scale) => {
            let digits = column.as_primitive::<Decimal128Type>().value(row);
            let scale = u32::try_from(*scale).unwrap_or_default();
            let value =
                Decimal::try_from_i128_with_scale(digits, scale).map_err(|error| error.to_string())?;
            Value::Decimal(value.normalize())
        }
        DataType::Utf8 => Value::Str(column.as_string::<i32>().value(row).into()),
        DataType::Binary => Value::Bytes(column.as_binary::<i32>().value(row).into()),
        DataType::Struct(_) => {
            let parts = column.as_struct().columns().iter();
            Value::Tuple(parts.map(|part| read(part, row)).collect::<Result<_, _>>()?)
        }
        other => return Err(format!("the engine does not read {other}")),
    })
}

/// The parameters of an instance as a JSON array.
pub(crate) fn instance(parameters: &[Value]) -> String {
    let mut out = String::new();
    json_array(&mut out, parameters);
    out
}

fn json_array(out: &mut String, values: &[Value]) {
    out.push('[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json(out, value);
    }
    out.push(']');
}

fn json(out: &mut String, value: &Value) {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(_) | Value::Unsigned(_) | Value::Signed(_) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value}");
        }
        Value::Float(value) => json_float(out, value.into_inner()),
        Value::Tuple(values) => json_array(out, values),
        Value::Str(_) | Value::Bytes(_) | Value::Decimal(_) => json_text(out, &value.to_string()),
    }
}

/// Appends a float as JSON. Infinities become text, because JSON has none.
pub(crate) fn json_float(out: &mut String, value: f64) {
    if value.is_finite() {
        let _ = write!(out, "{}", serde_json::Value::from(value));
    } else {
        json_text(out, &value.to_string());
    }
}

/// Appends a text as a JSON string.
pub(crate) fn json_text(out: &mut String, text: &str) {
    // Most texts need no escape.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        let _ = write!(out, "{}", serde_json::Value::from(text));
    }
}

/// Calls `then` with the value as verdicts carry it.
pub(crate) fn with_verdict_value<T>(value: &Value, then: impl FnOnce(fairstream_core::Value<'_>) -> T) -> T {
    use fairstream_core::Value as Out;
    match value {
        Value::Bool(value) => then(Out::Bool(*value)),
        Value::Unsigned(value) => then(Out::UInt(*value)),
        Value::Signed(value) => then(Out::Int(*value)),
        Value::Float(value) => then(Out::Float(value.into_inner())),
        Value::Str(value) => then(Out::Text(value)),
        Value::Tuple(values) => then(Out::Json(&instance(values))),
        Value::None => then(Out::Json("null")),
        Value::Bytes(_) | Value::Decimal(_) => then(Out::Text(&value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_as_json_has_them(text in "[\\x00-\\x7f\u{e4}\u{2028}\"\\\\]{0,12}") {
            let mut written = String::new();
            json_text(&mut written, &text);
            prop_assert_eq!(written, serde_json::Value::from(text).to_string());
        }
    }
}
