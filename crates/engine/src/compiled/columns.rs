//! Typed columns → words, a batch at a time.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use rust_decimal::Decimal;

use super::scalar::decimal_words;
use super::strings::Strings;

/// The values of an input in a batch of events.
#[derive(Default)]
pub(super) struct Column {
    /// For each row whether there is a value, ...
    is_there: Vec<bool>,
    /// ... and its words.
    words: Vec<[u64; 2]>,
    /// Whether they are numbers of strings.
    pub(super) is_interned: bool,
    /// The first row that cannot be read, and why.
    wrong: Option<(usize, String)>,
}

impl Column {
    /// Takes in the values of a batch.
    pub(super) fn decode(&mut self, array: &ArrayRef, strings: &mut Strings) {
        self.clear();
        self.is_interned = matches!(array.data_type(), DataType::Utf8 | DataType::Binary);
        match array.nulls() {
            Some(nulls) => self.is_there.extend(nulls.iter()),
            None => self.is_there.resize(array.len(), true),
        }
        match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean().values();
                self.words.extend(values.iter().map(|value| [u64::from(value), 0]));
            }
            DataType::Int8 => self.signed::<Int8Type>(array),
            DataType::Int16 => self.signed::<Int16Type>(array),
            DataType::Int32 => self.signed::<Int32Type>(array),
            DataType::Int64 => self.signed::<Int64Type>(array),
            DataType::UInt8 => self.unsigned::<UInt8Type>(array),
            DataType::UInt16 => self.unsigned::<UInt16Type>(array),
            DataType::UInt32 => self.unsigned::<UInt32Type>(array),
            DataType::UInt64 => self.unsigned::<UInt64Type>(array),
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                self.words.extend(values.iter().map(|value| [value.to_bits(), 0]));
                let is_wrong = |row: &usize| self.is_there[*row] && values[*row].is_nan();
                let wrong = (0..values.len()).find(is_wrong);
                self.wrong = wrong.map(|row| (row, "NaN is not a number".to_owned()));
            }
            DataType::Decimal128(_, scale) => self.decimals(array.as_primitive(), *scale),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                self.texts(|row| array.value(row).as_bytes(), strings);
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                self.texts(|row| array.value(row), strings);
            }
            // Batches whose columns are of other types are refused before.
            _ => self.is_there.fill(false),
        }
    }

    pub(super) fn clear(&mut self) {
        self.is_there.clear();
        self.words.clear();
        self.wrong = None;
    }

    /// The words of a row; `None` where it is silent.
    ///
    /// # Errors
    /// What is wrong with the value: it is NaN, or has too many digits.
    #[inline]
    pub(super) fn read(&self, row: usize) -> Result<Option<[u64; 2]>, String> {
        match &self.wrong {
            Some((wrong, reason)) if *wrong == row => Err(reason.clone()),
            _ if self.is_there[row] => Ok(Some(self.words[row])),
            _ => Ok(None),
        }
    }

    /// Every value there is.
    pub(super) fn values(&self) -> impl Iterator<Item = &[u64; 2]> {
        self.words.iter().zip(&self.is_there).filter(|(_, is_there)| **is_there).map(|(words, _)| words)
    }

    fn signed<T: ArrowPrimitiveType<Native: Into<i64>>>(&mut self, array: &ArrayRef) {
        let values = array.as_primitive::<T>().values();
        self.words.extend(values.iter().map(|value| [(*value).into().cast_unsigned(), 0]));
    }

    fn unsigned<T: ArrowPrimitiveType<Native: Into<u64>>>(&mut self, array: &ArrayRef) {
        let values = array.as_primitive::<T>().values();
        self.words.extend(values.iter().map(|value| [(*value).into(), 0]));
    }

    fn texts<'a>(&mut self, value: impl Fn(usize) -> &'a [u8], strings: &mut Strings) {
        for (row, is_there) in self.is_there.iter().enumerate() {
            self.words.push(if *is_there { [strings.intern(value(row)), 0] } else { [0; 2] });
        }
    }

    fn decimals(&mut self, array: &PrimitiveArray<Decimal128Type>, scale: i8) {
        for (row, value) in array.values().iter().enumerate() {
            let value = u32::try_from(scale).map_err(|error| error.to_string()).and_then(|scale| {
                Decimal::try_from_i128_with_scale(*value, scale).map_err(|e| e.to_string())
            });
            self.words.push(match value {
                Ok(value) => decimal_words(value.normalize()),
                Err(reason) => {
                    if self.is_there[row] && self.wrong.is_none() {
                        self.wrong = Some((row, reason));
                    }
                    [0; 2]
                }
            });
        }
    }
}
