//! Writes values as JSON.

use std::io::{self, Write};

use fairstream_core::Value;

/// Writes a value. Numbers that JSON cannot represent are written as strings.
pub(crate) fn write(out: &mut Vec<u8>, value: Value<'_>) -> io::Result<()> {
    match value {
        Value::Float(value) if value.is_finite() => serde_json::to_writer(out, &value)?,
        Value::Float(value) => write!(out, "\"{value}\"")?,
        Value::Text(value) => string(out, value)?,
        Value::Int(value) => serde_json::to_writer(out, &value)?,
        Value::UInt(value) => serde_json::to_writer(out, &value)?,
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Json(value) => out.extend_from_slice(value.as_bytes()),
    }
    Ok(())
}

/// Writes a text as a JSON string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return Ok(());
    }
    Ok(serde_json::to_writer(out, text)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_those_of_serde_json(text in any::<String>(), plain in "[ -~é]{0,12}") {
            for text in [text, plain] {
                let mut written = Vec::new();
                string(&mut written, &text).unwrap();
                prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }

        #[test]
        fn values_are_read_back(int: i64, uint: u64, float: f64, bool: bool) {
            let shown = |value: Value<'_>| {
                let mut written = Vec::new();
                write(&mut written, value).unwrap();
                String::from_utf8(written).unwrap()
            };
            prop_assert_eq!(shown(Value::Int(int)).parse(), Ok(int));
            prop_assert_eq!(shown(Value::UInt(uint)).parse(), Ok(uint));
            prop_assert_eq!(shown(Value::Bool(bool)).parse(), Ok(bool));
            prop_assert_eq!(shown(Value::Float(float)).trim_matches('"').parse(), Ok(float));
        }
    }
}
