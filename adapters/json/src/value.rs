//! Values as JSON.

use std::io::{self, Write};

use fairstream_core::Value;

/// Writes a value. Numbers that JSON lacks are strings.
pub(crate) fn write(out: &mut Vec<u8>, value: Value<'_>) -> io::Result<()> {
    match value {
        Value::Float(value) if value.is_finite() => Ok(serde_json::to_writer(out, &value)?),
        Value::Float(value) => write!(out, "\"{value}\""),
        Value::Text(value) => string(out, value),
        value => write!(out, "{value}"),
    }
}

/// Writes a text in quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}
