//! One typed column, filled by parsing texts, or with numbers and bytes directly.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int8Builder,
    Int16Builder, Int32Builder, Int64Builder, StringBuilder, UInt8Builder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef};

use crate::tuple::Parts;

/// Builds one column.
pub struct Column {
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
    Tuple(Parts),
}

/// Runs the same code on any builder.
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
            Builder::Tuple($builder) => $run,
        }
    };
}

impl Column {
    /// A column of that type; `None` if specifications cannot read it.
    pub fn new(data_type: &DataType) -> Option<Column> {
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
            DataType::Struct(fields) => Builder::Tuple(Parts::new(fields)?),
            _ => return None,
        };
        Some(Column { data_type: data_type.clone(), builder })
    }

    /// Type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether a text is appended unchanged, without parsing.
    pub fn is_text(&self) -> bool {
        matches!(self.builder, Builder::Text(_))
    }

    /// Parses a text and appends the value.
    ///
    /// # Errors
    /// The reason why the text cannot be parsed. In this case a null has been appended, as by
    /// [`append_null`](Column::append_null).
    pub fn append(&mut self, text: &str) -> Result<(), String> {
        if let Builder::Text(values) = &mut self.builder {
            values.append_value(text);
            return Ok(());
        }
        let word = text.trim_ascii();
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
            Builder::Float(values) => float(word).map(|value| values.append_value(value)),
            Builder::Decimal(values, precision, scale) => {
                let value = parse_decimal::<Decimal128Type>(word, *precision, *scale);
                value.ok().map(|value| values.append_value(value))
            }
            Builder::Bytes(values) => hexadecimal(word).map(|value| values.append_value(value)),
            Builder::Text(_) | Builder::Tuple(_) => None,
        };
        self.or_null(read, word)
    }

    /// Appends an integer to a column of integers.
    ///
    /// # Errors
    /// As for [`append`](Column::append).
    pub fn append_whole(&mut self, value: u64) -> Result<(), String> {
        match self.try_whole(value) {
            Some(()) => Ok(()),
            None => self.or_null(None, &value.to_string()),
        }
    }

    fn try_whole(&mut self, value: u64) -> Option<()> {
        match &mut self.builder {
            Builder::Int8(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::Int16(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::Int32(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::Int64(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::UInt8(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::UInt16(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::UInt32(values) => value.try_into().ok().map(|value| values.append_value(value)),
            Builder::UInt64(values) => {
                values.append_value(value);
                Some(())
            }
            _ => None,
        }
    }

    /// Fast path of [`append`](Column::append): appends a number that is written in digits alone to a column of
    /// integers. Returns whether it did; if not, nothing is appended.
    #[inline]
    pub fn append_digits(&mut self, word: &[u8]) -> bool {
        self.data_type.is_integer()
            && fairstream_core::digits(word).is_some_and(|value| self.try_whole(value).is_some())
    }

    /// Appends a boolean to a column of booleans.
    ///
    /// # Errors
    /// As for [`append`](Column::append).
    pub fn append_bool(&mut self, value: bool) -> Result<(), String> {
        match &mut self.builder {
            Builder::Bool(values) => {
                values.append_value(value);
                Ok(())
            }
            _ => self.or_null(None, &value.to_string()),
        }
    }

    /// Appends bytes. In a column of text, invalid UTF-8 is replaced by `�`.
    ///
    /// # Errors
    /// As for [`append`](Column::append).
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        match &mut self.builder {
            Builder::Bytes(values) => values.append_value(bytes),
            Builder::Text(values) => values.append_value(String::from_utf8_lossy(bytes)),
            _ => return self.or_null(None, &String::from_utf8_lossy(bytes)),
        }
        Ok(())
    }

    /// Number of parts of a tuple; `None` if this is not a column of tuples.
    pub fn parts(&self) -> Option<usize> {
        if let Builder::Tuple(parts) = &self.builder { Some(parts.count()) } else { None }
    }

    /// Appends a tuple: calls `append` with the column and the index of each part.
    ///
    /// # Errors
    /// As for [`append`](Column::append): this is no column of tuples, or a part could not be appended.
    pub fn append_tuple(
        &mut self,
        append: impl FnMut(usize, &mut Column) -> Result<(), String>,
    ) -> Result<(), String> {
        match &mut self.builder {
            Builder::Tuple(parts) => parts.append(append),
            _ => self.or_null(None, "a tuple"),
        }
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        on_builder!(self, builder => builder.append_null());
    }

    /// Number of values, nulls included.
    pub(crate) fn len(&mut self) -> usize {
        on_builder!(self, builder => builder.len())
    }

    /// Returns the column so far, and begins an empty one.
    pub fn finish(&mut self) -> ArrayRef {
        on_builder!(self, builder => Arc::new(builder.finish()))
    }

    /// Appends a null if the text could not be parsed, and returns the reason.
    fn or_null(&mut self, read: Option<()>, word: &str) -> Result<(), String> {
        read.ok_or_else(|| {
            self.append_null();
            self.reason(word)
        })
    }

    fn reason(&self, word: &str) -> String {
        let is_number = |text: &str| text.parse::<f64>().is_ok();
        let is_huge = |text: &str| text.parse::<f64>().is_ok_and(|value| value.abs() >= 2_f64.powi(64));
        let hint = match &self.data_type {
            DataType::Boolean => " (write true or false)",
            DataType::Binary => " (write pairs of hexadecimal digits)",
            DataType::Struct(_) => " (write an array)",
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64
                if word.starts_with('-') =>
            {
                " (it is negative)"
            }
            DataType::Float64 | DataType::Decimal128(..) if is_number(word) => " (it is out of range)",
            data_type if data_type.is_integer() && word.parse::<i128>().is_ok() => " (it is out of range)",
            data_type if data_type.is_integer() && is_huge(word) => " (it is out of range)",
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

/// Parses a float. Values out of range are refused; infinity must be written as such.
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

/// Name of a type in specifications.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "a Bool".to_owned(),
        DataType::Utf8 => "a String".to_owned(),
        DataType::Binary => "Bytes".to_owned(),
        DataType::Decimal128(..) => "a fixed-point number".to_owned(),
        DataType::Struct(parts) => {
            let bare = |part: &FieldRef| {
                let name = type_name(part.data_type());
                let name = name.strip_prefix("an ").or(name.strip_prefix("a ")).unwrap_or(&name);
                name.to_owned()
            };
            format!("a ({})", parts.iter().map(bare).collect::<Vec<_>>().join(", "))
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => format!("an {data_type}"),
        _ => format!("a {data_type}"),
    }
}

/// Truncates a text for messages.
pub fn shortened(text: &str) -> String {
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
    use proptest::prelude::*;

    /// The value of a text, or the reason why it cannot be parsed.
    fn read(data_type: &DataType, text: &str) -> String {
        let mut column = Column::new(data_type).unwrap();
        match column.append(text) {
            Err(reason) => reason,
            Ok(()) => array_value_to_string(&column.finish(), 0).unwrap(),
        }
    }

    proptest! {
        /// The fast path gives the same value as parsing, or does nothing.
        #[test]
        fn digits_are_read_as_texts_are(text in "[0-9]{0,21}|[0-9+ .-]{0,4}") {
            for data_type in [DataType::UInt8, DataType::Int64, DataType::UInt64, DataType::Utf8] {
                let mut column = Column::new(&data_type).unwrap();
                if column.append_digits(text.as_bytes()) {
                    prop_assert_eq!(array_value_to_string(&column.finish(), 0).unwrap(), read(&data_type, &text));
                } else {
                    prop_assert_eq!(column.len(), 0);
                }
            }
        }
    }

    #[test]
    fn texts_are_read_as_the_specification_says() {
        for (data_type, field, expected) in [
            (DataType::Int64, " -5 ", "-5"),
            (DataType::Int64, "5.0", "`5.0` is not an Int64 (it is not a whole number)"),
            (DataType::UInt64, "18446744073709551615", "18446744073709551615"),
            (
                DataType::UInt64,
                "18446744073709551616",
                "`18446744073709551616` is not a UInt64 (it is out of range)",
            ),
            (DataType::Utf8, "  ", "  "),
            (DataType::Utf8, "", ""),
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
            assert_eq!(read(&data_type, field), expected, "{data_type} {field:?}");
        }
    }
}
