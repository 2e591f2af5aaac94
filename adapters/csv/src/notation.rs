//! The notation of fields: null values and the decimal separator.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use fairstream_core::{Time, TimeReader};
use fairstream_files::{Column, ENCODING_HINT, shortened};

/// The notation of fields.
#[derive(Clone, Debug)]
pub(crate) struct Notation {
    /// A field with this text is null.
    pub(crate) null: String,
    /// Whether an empty field of a string column is the empty string instead of null.
    pub(crate) empty_is_value: bool,
    /// Whether numbers have a decimal comma.
    pub(crate) decimal_comma: bool,
}

impl Notation {
    /// Converts a number to a decimal point. The result is unreadable if the number has a point although it should
    /// have a comma.
    pub(crate) fn with_point<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match self.decimal_comma {
            true if word.contains([',', '.']) => word.replace('.', "?").replace(',', ".").into(),
            _ => word.into(),
        }
    }

    /// Reads a field as a time.
    pub(crate) fn time(&self, field: &[u8], reader: &mut TimeReader) -> Result<Time, String> {
        let text =
            std::str::from_utf8(field).map_err(|_| format!("the time is not UTF-8 {ENCODING_HINT}"))?;
        if text.trim_ascii().is_empty() {
            return Err("there is no time".to_owned());
        }
        // Dates and times of day have the same points in both notations.
        let is_number = text.bytes().filter(|byte| b",.".contains(byte)).count() <= 1
            && text.trim_ascii().bytes().all(|byte| byte.is_ascii_digit() || b",.+-eE".contains(&byte));
        let text = if is_number { self.with_point(text) } else { text.into() };
        reader.read(&text).map_err(|error| error.to_string())
    }

    /// Appends the value of a field to a column. After an error the column may have a null for it or nothing.
    pub(crate) fn append(&self, field: &[u8], column: &mut Column) -> Result<(), String> {
        if (field.is_empty() && !(column.is_text() && self.empty_is_value))
            || (!self.null.is_empty() && field == self.null.as_bytes())
        {
            column.append_null();
            return Ok(());
        }
        if column.append_digits(field) {
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(field) else {
            return Err(format!(
                "`{}` is not UTF-8 {ENCODING_HINT}",
                shortened(&String::from_utf8_lossy(field))
            ));
        };
        if column.is_text() {
            return column.append(text);
        }
        let word = text.trim_ascii();
        if word.is_empty() {
            column.append_null();
            return Ok(());
        }
        let has_decimals = matches!(column.data_type(), DataType::Float64 | DataType::Decimal128(..));
        let written = if has_decimals { self.with_point(word) } else { word.into() };
        column.append(&written).map_err(|reason| {
            if has_decimals && self.decimal_comma {
                // The message must quote the text as it is written in the input.
                reason.replacen(&shortened(&written), &shortened(word), 1)
            } else if has_decimals && word.contains(',') && word.replace(',', ".").parse::<f64>().is_ok() {
                reason + " (a decimal comma? append `?decimal=,` to the input)"
            } else {
                reason
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::util::display::array_value_to_string;

    /// The value of a field, `∅` for null, or the reason why it cannot be read.
    fn read(data_type: &DataType, field: &str, decimal_comma: bool) -> String {
        let notation = Notation { null: "#".to_owned(), empty_is_value: false, decimal_comma };
        let mut column = Column::new(data_type).unwrap();
        match notation.append(field.as_bytes(), &mut column) {
            Err(reason) => reason,
            Ok(()) => {
                let array = column.finish();
                if array.is_null(0) { "∅".to_owned() } else { array_value_to_string(&array, 0).unwrap() }
            }
        }
    }

    #[test]
    fn an_empty_field_has_no_value() {
        for (data_type, field, expected) in [
            (DataType::Int64, "", "∅"),
            (DataType::Int64, "  ", "∅"),
            (DataType::Int64, "#", "∅"),
            (DataType::Int64, " 7 ", "7"),
            (DataType::Utf8, "", "∅"),
            (DataType::Utf8, "  ", "  "),
        ] {
            assert_eq!(read(&data_type, field, false), expected, "{data_type} {field:?}");
        }
    }

    #[test]
    fn decimals_stand_behind_a_point_or_a_comma_as_the_options_say() {
        for (field, decimal_comma, expected) in [
            ("12,5", true, "12.5"),
            ("12", true, "12.0"),
            ("1.500", true, "`1.500` is not a Float64"),
            ("1.234,5", true, "`1.234,5` is not a Float64"),
            ("12,5", false, "`12,5` is not a Float64 (a decimal comma? append `?decimal=,` to the input)"),
        ] {
            assert_eq!(read(&DataType::Float64, field, decimal_comma), expected, "{field:?}");
        }
    }
}
