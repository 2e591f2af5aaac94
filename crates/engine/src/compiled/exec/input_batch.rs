//! Decodes the typed columns of a batch to words.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use rust_decimal::Decimal;

use crate::compiled::ir::scalar::decimal_words;
use crate::compiled::store::interner::Interner;

/// The inputs of a batch of events.
#[derive(Default)]
pub(crate) struct InputBatch {
    columns: Vec<InputColumn>,
    /// For each row a bit for every input that has a value.
    present: Vec<u128>,
    /// The first row that cannot be decoded, its column, and the reason.
    bad: Option<(usize, usize, String)>,
}

impl InputBatch {
    /// Replaces the contents by the columns of a batch.
    pub(crate) fn decode(&mut self, arrays: &[ArrayRef], rows: usize, interner: &mut Interner) {
        self.clear();
        self.columns.resize_with(arrays.len(), InputColumn::default);
        let everywhere = arrays.iter().enumerate().filter(|(_, array)| array.nulls().is_none());
        self.present.resize(rows, everywhere.fold(0, |bits, (input, _)| bits | 1 << input));
        for (input, (column, array)) in self.columns.iter_mut().zip(arrays).enumerate() {
            column.decode(array, interner);
            if let Some(nulls) = array.nulls() {
                mark_present(&mut self.present, nulls, input);
            }
            if let Some((row, reason)) = column.bad.take()
                && self.bad.as_ref().is_none_or(|(first, _, _)| row < *first)
            {
                self.bad = Some((row, input, reason));
            }
        }
    }

    /// Drops the contents, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(InputColumn::clear);
        self.present.clear();
        self.bad = None;
    }

    /// The number of rows.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// The inputs that have a value in a row, a bit for each.
    #[inline(always)]
    pub(crate) fn inputs(&self, row: usize) -> u128 {
        self.present[row]
    }

    /// For each row the inputs that have a value.
    #[inline(always)]
    pub(crate) fn all_inputs(&self) -> &[u128] {
        &self.present
    }

    /// The words of an input in a row where it has a value.
    #[inline(always)]
    pub(crate) fn value(&self, input: usize, row: usize) -> &[u64] {
        self.columns[input].read(row)
    }

    /// The words of an input in all rows.
    #[inline(always)]
    pub(crate) fn words(&self, input: usize) -> &[u64] {
        self.columns[input].words()
    }

    pub(crate) fn columns(&self) -> &[InputColumn] {
        &self.columns
    }

    /// The first row that cannot be decoded.
    pub(crate) fn first_bad(&self) -> Option<usize> {
        self.bad.as_ref().map(|(row, _, _)| *row)
    }

    /// If a row cannot be decoded: its column, and the reason, which is a NaN or a decimal with too many digits.
    #[inline]
    pub(crate) fn bad_at(&self, row: usize) -> Option<(usize, &str)> {
        let bad = self.bad.as_ref().filter(|(bad, _, _)| *bad == row);
        bad.map(|(_, column, reason)| (*column, reason.as_str()))
    }
}

/// Sets the bit of an input in the rows where it has a value.
fn mark_present(rows: &mut [u128], nulls: &NullBuffer, input: usize) {
    const HALF: usize = 64;
    let bit = 1_u64 << (input % HALF);
    if input < HALF {
        for_each_valid(Some(nulls), rows.len(), |row| rows[row] |= u128::from(bit));
    } else {
        for_each_valid(Some(nulls), rows.len(), |row| rows[row] |= u128::from(bit) << HALF);
    }
}

/// Calls `each` for every one of `rows` rows that has a value. Which rows have one is unpredictable, so the loop iterates
/// over the set bits of the validity mask instead of branching on each row.
#[inline(always)]
fn for_each_valid(nulls: Option<&NullBuffer>, rows: usize, mut each: impl FnMut(usize)) {
    const BITS: usize = u64::BITS as usize;
    let chunks = nulls.map(|nulls| nulls.inner().bit_chunks());
    let mut chunks = chunks.as_ref().map(|chunks| chunks.iter_padded());
    for first in (0..rows).step_by(BITS) {
        let mut valid = match &mut chunks {
            Some(chunks) => chunks.next().unwrap_or(0),
            None => u64::MAX >> BITS.saturating_sub(rows - first),
        };
        while valid != 0 {
            each(first + valid.trailing_zeros() as usize);
            valid &= valid - 1;
        }
    }
}

/// The values of an input in a batch of events.
#[derive(Default)]
pub(crate) struct InputColumn {
    /// The validity mask; `None` if every row has a value.
    nulls: Option<NullBuffer>,
    /// The buffer of the batch, shared without a copy, if its values are words already.
    borrowed: Option<ScalarBuffer<u64>>,
    /// The words of each row, if there is no borrowed buffer.
    converted: Vec<u64>,
    /// Words of a value.
    width: usize,
    /// The first row that cannot be decoded, and the reason.
    bad: Option<(usize, String)>,
}

impl InputColumn {
    /// Decodes a column of a batch.
    fn decode(&mut self, array: &ArrayRef, interner: &mut Interner) {
        self.nulls = array.nulls().cloned();
        self.width = width(array.data_type());
        self.borrowed = words_of(array);
        if self.borrowed.is_some() {
            self.note_nan(array);
        } else {
            self.converted.resize(array.len() * self.width, 0);
            self.decode_at(0, array, interner);
        }
    }

    /// The words of all rows.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[u64] {
        self.borrowed.as_deref().unwrap_or(&self.converted)
    }

    /// Whether a row has a value.
    #[inline(always)]
    fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// Decodes values, or components of them, into the words from `at` on of each row.
    fn decode_at(&mut self, at: usize, array: &ArrayRef, interner: &mut Interner) {
        match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean().values();
                self.put(at, values.iter().map(u64::from));
            }
            DataType::Int8 => self.signed::<Int8Type>(at, array),
            DataType::Int16 => self.signed::<Int16Type>(at, array),
            DataType::Int32 => self.signed::<Int32Type>(at, array),
            DataType::Int64 => self.signed::<Int64Type>(at, array),
            DataType::UInt8 => self.unsigned::<UInt8Type>(at, array),
            DataType::UInt16 => self.unsigned::<UInt16Type>(at, array),
            DataType::UInt32 => self.unsigned::<UInt32Type>(at, array),
            DataType::UInt64 => self.unsigned::<UInt64Type>(at, array),
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                self.put(at, values.iter().map(|value| value.to_bits()));
                self.note_nan(array);
            }
            DataType::Decimal128(_, scale) => self.decimals(at, array.as_primitive(), *scale),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                self.texts(at, array.value_offsets(), array.value_data(), interner);
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                self.texts(at, array.value_offsets(), array.value_data(), interner);
            }
            DataType::Struct(_) => {
                let mut at = at;
                for part in array.as_struct().columns() {
                    self.decode_at(at, part, interner);
                    at += width(part.data_type());
                }
            }
            // The engine refuses batches with columns of other types before they are decoded.
            _ => {}
        }
    }

    /// Notes the first row whose float is NaN, which is not a value.
    fn note_nan(&mut self, array: &ArrayRef) {
        let Some(floats) = array.as_primitive_opt::<Float64Type>() else { return };
        let is_bad = |(row, value): &(usize, &f64)| value.is_nan() && self.is_valid(*row);
        if let Some((row, _)) = floats.values().iter().enumerate().find(is_bad) {
            self.note_bad(row, "NaN is not a number".to_owned());
        }
    }

    fn clear(&mut self) {
        self.nulls = None;
        self.borrowed = None;
        self.converted.clear();
        self.bad = None;
    }

    /// The words of a row that has a value.
    #[inline]
    pub(crate) fn read(&self, row: usize) -> &[u64] {
        match self.width {
            1 => std::slice::from_ref(&self.words()[row]),
            width => &self.words()[row * width..][..width],
        }
    }

    /// For machine code, while the batch is loaded: the address of the words of the first row.
    pub(crate) fn address(&self) -> usize {
        self.words().as_ptr().expose_provenance()
    }

    /// The values of the rows that have one.
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u64]> {
        let rows = self.words().len() / self.width.max(1);
        (0..rows).filter(|row| self.is_valid(*row)).map(|row| self.read(row))
    }

    /// Writes one word of each row.
    #[inline]
    fn put(&mut self, at: usize, words: impl Iterator<Item = u64>) {
        if self.width == 1 {
            self.converted.iter_mut().zip(words).for_each(|(to, word)| *to = word);
        } else {
            let rows = self.converted.chunks_exact_mut(self.width.max(1));
            rows.zip(words).for_each(|(row, word)| row[at] = word);
        }
    }

    fn signed<T: ArrowPrimitiveType<Native: Into<i64>>>(&mut self, at: usize, array: &ArrayRef) {
        let values = array.as_primitive::<T>().values();
        self.put(at, values.iter().map(|value| (*value).into().cast_unsigned()));
    }

    fn unsigned<T: ArrowPrimitiveType<Native: Into<u64>>>(&mut self, at: usize, array: &ArrayRef) {
        let values = array.as_primitive::<T>().values();
        self.put(at, values.iter().map(|value| (*value).into()));
    }

    /// Interns the strings of rows that have one. The strings are concatenated in `texts` and begin at `offsets`.
    fn texts(&mut self, at: usize, offsets: &[i32], texts: &[u8], interner: &mut Interner) {
        let (converted, width) = (&mut self.converted, self.width);
        for_each_valid(self.nulls.as_ref(), offsets.len().saturating_sub(1), |row| {
            let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
            converted[row * width + at] = interner.intern_from(texts, from, to - from);
        });
    }

    fn decimals(&mut self, at: usize, array: &PrimitiveArray<Decimal128Type>, scale: i8) {
        for (row, value) in array.values().iter().enumerate() {
            let value = u32::try_from(scale).map_err(|error| error.to_string()).and_then(|scale| {
                Decimal::try_from_i128_with_scale(*value, scale).map_err(|e| e.to_string())
            });
            match value {
                Ok(value) => {
                    let first = row * self.width + at;
                    self.converted[first..first + 2].copy_from_slice(&decimal_words(value.normalize()));
                }
                Err(reason) if self.is_valid(row) => self.note_bad(row, reason),
                Err(_) => {}
            }
        }
    }

    /// Records a row that cannot be decoded, unless an earlier one is recorded.
    fn note_bad(&mut self, row: usize, reason: String) {
        if self.bad.as_ref().is_none_or(|(first, _)| row < *first) {
            self.bad = Some((row, reason));
        }
    }
}

/// The buffer of a column whose values are words as they are, without a copy.
fn words_of(array: &ArrayRef) -> Option<ScalarBuffer<u64>> {
    let words = match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().values().inner(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().inner(),
        DataType::Float64 => array.as_primitive::<Float64Type>().values().inner(),
        _ => return None,
    };
    Some(ScalarBuffer::from(words.clone()))
}

/// Words of a value of a column; equal to [`layout::width`](crate::compiled::ir::layout::width) of its RTLola type.
fn width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal128(..) => 2,
        DataType::Struct(parts) => parts.iter().map(|part| width(part.data_type())).sum(),
        _ => 1,
    }
}
