//! One typed column, filled field by field.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int8Builder,
    Int16Builder, Int32Builder, Int64Builder, StringBuilder, UInt8Builder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::datatypes::{DataType, Decimal128Type};

/// How fields are written.
#[derive(Clone, Debug)]
pub(crate) struct Notation {
    /// A field with this text has no value.
    pub(crate) null: String,
    /// Whether an empty field of a string column is the empty string instead of no value.
    pub(crate) empty_is_value: bool,
    /// Whether numbers have a decimal comma.
    pub(crate) decimal_comma: bool,
}

impl Notation {
    /// A number as Rust writes it; unreadable if it has a point although it should have a comma.
    pub(crate) fn with_point<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match self.decimal_comma {
            true if word.contains([',', '.']) => word.replace('.', "?").replace(',', ".").into(),
            _ => word.into(),
        }
    }
}

/// Builds one column.
pub(crate) struct Column {
    data_type: DataType,
    builder: Builder,
}

enum Builder {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float(Float64Builder),
    Decimal(Decimal128Builder, u8, i8),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// Runs the same code on whatever builder there is.
macro_rules! on_builder {
    ($self:expr, $builder:ident => $run:expr) => {
        match &mut $self.builder {
            Builder::Bool($builder) => $run,
            Builder::Int8($builder) => $run,
            Builder::Int16($builder) => $run,
            Builder::Int32($builder) => $run,
            Builder::Int64($builder) => $run,
            Builder::UInt8($builder) => $run,
            Builder::UInt16($builder) => $run,
            Builder::UInt32($builder) => $run,
            Builder::UInt64($builder) => $run,
            Builder::Float($builder) => $run,
            Builder::Decimal($builder, _, _) => $run,
            Builder::Text($builder) => $run,
            Builder::Bytes($builder) => $run,
        }
    };
}

impl Column {
    /// A column of that type; `None` if text cannot be read as one.
    pub(crate) fn new(data_type: &DataType) -> Option<Column> {
        let builder = match data_type {
            DataType::Boolean => Builder::Bool(Default::default()),
            DataType::Int8 => Builder::Int8(Default::default()),
            DataType::Int16 => Builder::Int16(Default::default()),
            DataType::Int32 => Builder::Int32(Default::default()),
            DataType::Int64 => Builder::Int64(Default::default()),
            DataType::UInt8 => Builder::UInt8(Default::default()),
            DataType::UInt16 => Builder::UInt16(Default::default()),
            DataType::UInt32 => Builder::UInt32(Default::default()),
            DataType::UInt64 => Builder::UInt64(Default::default()),
            DataType::Float64 => Builder::Float(Default::default()),
            DataType::Decimal128(precision, scale) => Builder::Decimal(
                Decimal128Builder::new().with_data_type(data_type.clone()),
                *precision,
                *scale,
            ),
            DataType::Utf8 => Builder::Text(Default::default()),
            DataType::Binary => Builder::Bytes(Default::default()),
            _ => return None,
        };
        Some(Column { data_type: data_type.clone(), builder })
    }

    /// Appends what the field says. On an error the column is one shorter than its neighbours;
    /// [`append_null`](Column::append_null) makes up for it.
    pub(crate) fn append(&mut self, field: &[u8], notation: &Notation) -> Result<(), String> {
        let is_text = matches!(self.builder, Builder::Text(_));
        if (field.is_empty() && !(is_text && notation.empty_is_value))
            || (!notation.null.is_empty() && field == notation.null.as_bytes())
        {
            self.append_null();
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(field) else {
            return Err(format!("`{}` is not UTF-8", shortened(&String::from_utf8_lossy(field))));
        };
        let word = text.trim_ascii();
        if word.is_empty() && !is_text {
            self.append_null();
            return Ok(());
        }
        let read = match &mut self.builder {
            Builder::Bool(values) => boolean(word).map(|value| values.append_value(value)),
            Builder::Int8(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::Int16(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::Int32(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::Int64(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::UInt8(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::UInt16(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::UInt32(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::UInt64(values) => word.parse().ok().map(|value| values.append_value(value)),
            Builder::Float(values) => {
                float(&notation.with_point(word)).map(|value| values.append_value(value))
            }
            Builder::Decimal(values, precision, scale) => {
                let word = notation.with_point(word);
                let value = parse_decimal::<Decimal128Type>(&word, *precision, *scale);
                value.ok().map(|value| values.append_value(value))
            }
            Builder::Text(values) => {
                values.append_value(text);
                Some(())
            }
            Builder::Bytes(values) => hexadecimal(word).map(|value| values.append_value(value)),
        };
        read.ok_or_else(|| self.reason(word, notation))
    }

    /// Appends no value.
    pub(crate) fn append_null(&mut self) {
        on_builder!(self, builder => builder.append_null());
    }

    /// How many values there are, nulls included.
    pub(crate) fn len(&mut self) -> usize {
        on_builder!(self, builder => builder.len())
    }

    /// The column so far; the next one starts empty.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        on_builder!(self, builder => Arc::new(builder.finish()))
    }

    fn reason(&self, word: &str, notation: &Notation) -> String {
        let is_number = |text: &str| text.parse::<f64>().is_ok();
        let hint = match &self.data_type {
            DataType::Boolean => " (write true or false)",
            DataType::Binary => " (write pairs of hexadecimal digits)",
            DataType::Float64 | DataType::Decimal128(..)
                if !notation.decimal_comma && word.contains(',') && is_number(&word.replace(',', ".")) =>
            {
                " (a decimal comma? append `?decimal=,` to the input)"
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64
                if word.starts_with('-') =>
            {
                " (it is negative)"
            }
            DataType::Float64 | DataType::Decimal128(..) if is_number(&notation.with_point(word)) => {
                " (it is out of range)"
            }
            data_type if data_type.is_integer() && word.parse::<i128>().is_ok() => " (it is out of range)",
            data_type if data_type.is_integer() && is_number(word) => " (it is not a whole number)",
            _ => "",
        };
        format!("`{}` is not {}{hint}", shortened(word), type_name(&self.data_type))
    }
}

fn boolean(word: &str) -> Option<bool> {
    if word.eq_ignore_ascii_case("true") || word == "1" {
        Some(true)
    } else if word.eq_ignore_ascii_case("false") || word == "0" {
        Some(false)
    } else {
        None
    }
}

/// A float; not one that is too large, unless it says that it is infinite.
fn float(word: &str) -> Option<f64> {
    let value: f64 = word.parse().ok()?;
    (value.is_finite() || !word.ends_with(|last: char| last.is_ascii_digit() || last == '.')).then_some(value)
}

fn hexadecimal(word: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = word.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// A type as specifications call it.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "a Bool".to_owned(),
        DataType::Binary => "Bytes".to_owned(),
        DataType::Decimal128(..) => "a fixed-point number".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => format!("an {data_type}"),
        _ => format!("a {data_type}"),
    }
}

/// Enough of a text to recognise it by.
pub(crate) fn shortened(text: &str) -> String {
    const ENOUGH: usize = 60;
    if text.chars().nth(ENOUGH).is_none() {
        return text.to_owned();
    }
    text.chars().take(ENOUGH).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::util::display::array_value_to_string;

    /// What a field is read as: its value, `∅` for none, or the reason why it cannot be read.
    fn read(data_type: DataType, field: &str, decimal_comma: bool) -> String {
        let notation = Notation { null: "#".to_owned(), empty_is_value: false, decimal_comma };
        let mut column = Column::new(&data_type).unwrap();
        match column.append(field.as_bytes(), &notation) {
            Err(reason) => reason,
            Ok(()) => {
                let array = column.finish();
                if array.is_null(0) { "∅".to_owned() } else { array_value_to_string(&array, 0).unwrap() }
            }
        }
    }

    #[test]
    fn fields_are_read_as_the_specification_says() {
        for (data_type, field, expected) in [
            (DataType::Int64, " -5 ", "-5"),
            (DataType::Int64, "", "∅"),
            (DataType::Int64, "  ", "∅"),
            (DataType::Int64, "#", "∅"),
            (DataType::Int64, "5.0", "`5.0` is not an Int64 (it is not a whole number)"),
            (DataType::UInt64, "18446744073709551615", "18446744073709551615"),
            (
                DataType::UInt64,
                "18446744073709551616",
                "`18446744073709551616` is not a UInt64 (it is out of range)",
            ),
            (DataType::Utf8, "  ", "  "),
            (DataType::Utf8, "", "∅"),
            (DataType::Boolean, "True", "true"),
            (DataType::Boolean, "0", "false"),
            (DataType::Boolean, "yes", "`yes` is not a Bool (write true or false)"),
            (DataType::Float64, "-inf", "-inf"),
            (DataType::Float64, "1e400", "`1e400` is not a Float64 (it is out of range)"),
            (DataType::Decimal128(28, 18), "0.1", "0.100000000000000000"),
            (
                DataType::Decimal128(28, 18),
                "99999999999",
                "`99999999999` is not a fixed-point number (it is out of range)",
            ),
            (DataType::Binary, "00fF", "00ff"),
            (DataType::Binary, "0", "`0` is not Bytes (write pairs of hexadecimal digits)"),
        ] {
            assert_eq!(read(data_type.clone(), field, false), expected, "{data_type} {field:?}");
        }
        for (field, expected) in [
            ("12,5", "12.5"),
            ("12", "12.0"),
            ("1.500", "`1.500` is not a Float64"),
            ("1.234,5", "`1.234,5` is not a Float64"),
        ] {
            assert_eq!(read(DataType::Float64, field, true), expected, "{field:?}");
        }
    }
}
