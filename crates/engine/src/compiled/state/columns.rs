//! Values as columns of tables: words of a type → Arrow, and back. What is read back is checked, since machine code relies
//! on words that fit their type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, StringArray,
    StructArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use rtlola_frontend::mir::{FixedTy, FloatTy, IntTy, Type, UIntTy};
use rust_decimal::Decimal;

use crate::compiled::ir::layout::{Leaf, narrow, whole_range, width};
use crate::compiled::ir::scalar::{decimal, decimal_words};
use crate::compiled::store::interner::{Interner, StringsCopy};

/// The column type of the values of a type. Decimals are text, which keeps their trailing zeros. An option is null if it is
/// none; where a value may be absent altogether, an option is a struct with the field `value`.
pub(super) fn data_type(ty: &Type, may_be_absent: bool) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int(_) => DataType::Int64,
        Type::UInt(_) => DataType::UInt64,
        Type::Float(_) => DataType::Float64,
        Type::String | Type::Fixed(_) | Type::UFixed(_) => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::Tuple(parts) => DataType::Struct(part_fields(parts)),
        Type::Option(inner) if may_be_absent => DataType::Struct(option_fields(inner)),
        Type::Option(inner) => data_type(inner, true),
        Type::Function { .. } => DataType::Null,
    }
}

fn part_fields(parts: &[Type]) -> Fields {
    let part = |(index, part): (usize, &Type)| {
        Field::new(index.to_string(), data_type(part, false), matches!(part, Type::Option(_)))
    };
    parts.iter().enumerate().map(part).collect()
}

fn option_fields(inner: &Type) -> Fields {
    Fields::from(vec![Field::new("value", data_type(inner, true), true)])
}

/// The type whose only leaf is this one.
pub(super) fn type_of(leaf: Leaf) -> Type {
    match leaf {
        Leaf::Bool | Leaf::Present => Type::Bool,
        Leaf::UInt => Type::UInt(UIntTy::UInt64),
        Leaf::Int => Type::Int(IntTy::Int64),
        Leaf::Float => Type::Float(FloatTy::Float64),
        Leaf::Text => Type::String,
        Leaf::Bytes => Type::Bytes,
        Leaf::Decimal => Type::Fixed(FixedTy::Fixed64_32),
    }
}

/// A column of values, of which some may be absent.
pub(super) fn encode(
    ty: &Type,
    may_be_absent: bool,
    values: &[Option<&[u64]>],
    strings: &StringsCopy,
) -> Result<ArrayRef, ArrowError> {
    let words = || values.iter().map(|value| value.map(|words| words[0]));
    Ok(match ty {
        Type::Bool => Arc::new(words().map(|word| word.map(|word| word != 0)).collect::<BooleanArray>()),
        Type::Int(_) => Arc::new(words().map(|word| word.map(u64::cast_signed)).collect::<Int64Array>()),
        Type::UInt(_) => Arc::new(words().collect::<UInt64Array>()),
        Type::Float(_) => Arc::new(words().map(|word| word.map(f64::from_bits)).collect::<Float64Array>()),
        Type::String => {
            let text = |number| std::str::from_utf8(strings.bytes(number)).unwrap_or_default();
            Arc::new(words().map(|word| word.map(text)).collect::<StringArray>())
        }
        Type::Bytes => {
            Arc::new(words().map(|word| word.map(|word| strings.bytes(word))).collect::<BinaryArray>())
        }
        Type::Fixed(_) | Type::UFixed(_) => {
            let texts = values.iter().map(|value| value.map(|words| decimal(words).to_string()));
            Arc::new(texts.collect::<StringArray>())
        }
        Type::Tuple(parts) => {
            let mut at = 0;
            let mut columns = Vec::with_capacity(parts.len());
            for part in parts {
                let values: Vec<Option<&[u64]>> =
                    values.iter().map(|value| value.map(|words| &words[at..])).collect();
                columns.push(encode(part, false, &values, strings)?);
                at += width(part);
            }
            structs(part_fields(parts), columns, values)?
        }
        Type::Option(inner) => {
            let inner_value = |value: &Option<_>| {
                let words: &[u64] = (*value)?;
                (words[0] != 0).then(|| &words[1..])
            };
            let inner_values: Vec<Option<&[u64]>> = values.iter().map(inner_value).collect();
            let column = encode(inner, true, &inner_values, strings)?;
            if may_be_absent { structs(option_fields(inner), vec![column], values)? } else { column }
        }
        Type::Function { .. } => arrow::array::new_null_array(&DataType::Null, values.len()),
    })
}

fn structs(
    fields: Fields,
    columns: Vec<ArrayRef>,
    values: &[Option<&[u64]>],
) -> Result<ArrayRef, ArrowError> {
    let nulls = NullBuffer::from_iter(values.iter().map(Option::is_some));
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, Some(nulls), values.len())?))
}

/// A column of lists: so many of the items belong to each row.
pub(super) fn lists(
    item: Field,
    items: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<ArrayRef, ArrowError> {
    let mut end = 0_i32;
    let mut ends = vec![0];
    for length in lengths {
        let more = i32::try_from(length).ok().and_then(|length| end.checked_add(length));
        end = more.ok_or(ArrowError::OffsetOverflowError(length))?;
        ends.push(end);
    }
    Ok(Arc::new(ListArray::try_new(Arc::new(item), OffsetBuffer::new(ends.into()), items, None)?))
}

/// The item of a list of values of a type.
pub(super) fn item(ty: &Type) -> Field {
    Field::new("item", data_type(ty, false), matches!(ty, Type::Option(_)))
}

/// A column that is read value by value.
pub(super) struct ValueReader {
    values: TypedColumn,
    /// If the type is an integer of fewer than 64 bits: its least and its greatest value.
    range: Option<(i64, i64)>,
    allows_nan: bool,
}

enum TypedColumn {
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float64Array),
    Text(StringArray),
    Bytes(BinaryArray),
    Decimal(StringArray),
    Tuple(Vec<ValueReader>, StructArray),
    /// The inner values, how many words each has, and where the option itself may be absent the structs around them.
    Option(Box<ValueReader>, usize, Option<StructArray>),
}

impl ValueReader {
    /// # Errors
    /// The column is not of the type.
    pub(super) fn new(column: &ArrayRef, ty: &Type, may_be_absent: bool) -> Result<ValueReader, String> {
        let expected = data_type(ty, may_be_absent);
        let found = column.data_type();
        // Whether fields can be null is checked value by value.
        if !found.equals_datatype(&expected) && !matches!(expected, DataType::Struct(_)) {
            return Err(format!("a column has the type {found} instead of {expected}"));
        }
        let parts = |count: usize| match column.as_struct_opt() {
            Some(parts) if parts.num_columns() == count => Ok(parts.clone()),
            _ => Err(format!("a column has the type {found} instead of {expected}")),
        };
        let values = match ty {
            Type::Bool => TypedColumn::Bool(column.as_boolean().clone()),
            Type::Int(_) => TypedColumn::Int(column.as_primitive::<Int64Type>().clone()),
            Type::UInt(_) => TypedColumn::UInt(column.as_primitive::<UInt64Type>().clone()),
            Type::Float(_) => TypedColumn::Float(column.as_primitive::<Float64Type>().clone()),
            Type::String => TypedColumn::Text(column.as_string().clone()),
            Type::Bytes => TypedColumn::Bytes(column.as_binary().clone()),
            Type::Fixed(_) | Type::UFixed(_) => TypedColumn::Decimal(column.as_string().clone()),
            Type::Tuple(types) => {
                let structs = parts(types.len())?;
                let parts = types.iter().zip(structs.columns());
                let parts = parts.map(|(ty, column)| ValueReader::new(column, ty, false));
                TypedColumn::Tuple(parts.collect::<Result<_, _>>()?, structs)
            }
            Type::Option(inner) if may_be_absent => {
                let structs = parts(1)?;
                let value = ValueReader::new(structs.column(0), inner, true)?;
                TypedColumn::Option(Box::new(value), width(inner), Some(structs))
            }
            Type::Option(inner) => {
                TypedColumn::Option(Box::new(ValueReader::new(column, inner, true)?), width(inner), None)
            }
            Type::Function { .. } => return Err("a column is of a type that no stream has".to_owned()),
        };
        let range = narrow(ty).map(|(signed, bits)| whole_range(signed, bits));
        Ok(ValueReader { values, range, allows_nan: false })
    }

    /// Accepts floats that are not a number, which no value is, but which a part of an aggregate may be.
    pub(super) fn allowing_nan(self) -> ValueReader {
        ValueReader { allows_nan: true, ..self }
    }

    /// Appends the words of the value in a row; `false` if it is absent.
    ///
    /// # Errors
    /// The value is none of the type.
    pub(super) fn read(
        &self,
        row: usize,
        words: &mut Vec<u64>,
        interner: &mut Interner,
    ) -> Result<bool, String> {
        let is_there = match &self.values {
            TypedColumn::Bool(column) => column.is_valid(row),
            TypedColumn::Int(column) => column.is_valid(row),
            TypedColumn::UInt(column) => column.is_valid(row),
            TypedColumn::Float(column) => column.is_valid(row),
            TypedColumn::Text(column) | TypedColumn::Decimal(column) => column.is_valid(row),
            TypedColumn::Bytes(column) => column.is_valid(row),
            TypedColumn::Tuple(_, structs) => structs.is_valid(row),
            TypedColumn::Option(_, _, structs) => {
                structs.as_ref().is_none_or(|structs| structs.is_valid(row))
            }
        };
        if !is_there {
            return Ok(false);
        }
        match &self.values {
            TypedColumn::Bool(column) => words.push(u64::from(column.value(row))),
            TypedColumn::Int(column) => {
                let value = column.value(row);
                self.check(value)?;
                words.push(value.cast_unsigned());
            }
            TypedColumn::UInt(column) => {
                let value = column.value(row);
                if self.range.is_some() {
                    self.check(i64::try_from(value).unwrap_or(i64::MAX))?;
                }
                words.push(value);
            }
            TypedColumn::Float(column) if self.allows_nan => words.push(column.value(row).to_bits()),
            TypedColumn::Float(column) => words.push(float_word(column.value(row))?),
            TypedColumn::Text(column) => words.push(interner.intern(column.value(row).as_bytes())),
            TypedColumn::Bytes(column) => words.push(interner.intern(column.value(row))),
            TypedColumn::Decimal(column) => words.extend(parse_decimal(column.value(row))?),
            TypedColumn::Tuple(parts, _) => {
                for part in parts {
                    if !part.read(row, words, interner)? {
                        return Err("a part of a tuple is missing".to_owned());
                    }
                }
            }
            TypedColumn::Option(inner, width, _) => {
                let flag = words.len();
                words.push(1);
                if !inner.read(row, words, interner)? {
                    words[flag] = 0;
                    words.resize(flag + 1 + width, 0);
                }
            }
        }
        Ok(true)
    }

    fn check(&self, value: i64) -> Result<(), String> {
        match self.range {
            Some((least, most)) if value < least || value > most => {
                Err(format!("{value} is outside of the range of its type"))
            }
            _ => Ok(()),
        }
    }
}

/// # Errors
/// It is not a number: no operation gives one.
pub(super) fn float_word(value: f64) -> Result<u64, String> {
    if value.is_nan() { Err("a value is not a number".to_owned()) } else { Ok(value.to_bits()) }
}

pub(super) fn parse_decimal(text: &str) -> Result<[u64; 2], String> {
    let value = Decimal::from_str_exact(text).map_err(|_| format!("`{text}` is not a decimal"))?;
    // A negative zero, which parsing may lose.
    let is_lost = text.starts_with('-') && !value.is_sign_negative();
    Ok(decimal_words(if is_lost { -value } else { value }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ty() -> impl Strategy<Value = Type> {
        let leaf = prop_oneof![
            Just(Type::Bool),
            Just(Type::Int(IntTy::Int8)),
            Just(Type::Int(IntTy::Int64)),
            Just(Type::UInt(UIntTy::UInt64)),
            Just(Type::Float(FloatTy::Float64)),
            Just(Type::String),
            Just(Type::Bytes),
            Just(Type::Fixed(FixedTy::Fixed64_32)),
        ];
        leaf.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..3).prop_map(Type::Tuple),
                inner.prop_map(|inner| Type::Option(Box::new(inner))),
            ]
        })
    }

    /// Words of a value, from random numbers.
    fn words(ty: &Type, random: &mut impl Iterator<Item = u64>, interner: &mut Interner, to: &mut Vec<u64>) {
        let number = random.next().unwrap();
        match ty {
            Type::Bool => to.push(number % 2),
            Type::Int(IntTy::Int8) => to.push((number as i8 as i64).cast_unsigned()),
            Type::Float(_) => {
                let special = [f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 0.1, f64::MAX];
                let value = special.get(number as usize % 9).copied().unwrap_or(f64::from_bits(number));
                to.push(if value.is_nan() { 0 } else { value.to_bits() });
            }
            Type::String => to.push(interner.intern(format!("text {}", number % 5).as_bytes())),
            Type::Bytes => to.push(interner.intern(&(number % 7).to_le_bytes()[..number as usize % 8])),
            Type::Fixed(_) => {
                let value = Decimal::from_i128_with_scale(
                    i128::from(number.cast_signed()) % 1000,
                    number as u32 % 20,
                );
                to.extend(decimal_words(if number.is_multiple_of(11) { -Decimal::new(0, 2) } else { value }));
            }
            Type::Tuple(parts) => parts.iter().for_each(|part| words(part, random, interner, to)),
            Type::Option(inner) if number.is_multiple_of(3) => to.resize(to.len() + 1 + width(inner), 0),
            Type::Option(inner) => {
                to.push(1);
                words(inner, random, interner, to);
            }
            _ => to.push(number),
        }
    }

    proptest! {
        #[test]
        fn values_come_back_as_they_were(
            ty in ty(),
            numbers in prop::collection::vec(any::<u64>(), 100),
            present in prop::collection::vec(any::<bool>(), 1..6),
            may_be_absent in any::<bool>(),
        ) {
            let (mut interner, mut random) = (Interner::default(), numbers.into_iter().cycle());
            let rows: Vec<Option<Vec<u64>>> = present.iter().map(|is_there| {
                (*is_there || !may_be_absent).then(|| {
                    let mut to = Vec::new();
                    words(&ty, &mut random, &mut interner, &mut to);
                    to
                })
            }).collect();
            let values: Vec<Option<&[u64]>> = rows.iter().map(Option::as_deref).collect();
            let column = encode(&ty, may_be_absent, &values, &interner.copy()).unwrap();
            prop_assert_eq!(column.data_type(), &data_type(&ty, may_be_absent));
            let reader = ValueReader::new(&column, &ty, may_be_absent).unwrap();
            for (row, expected) in rows.iter().enumerate() {
                let mut found = Vec::new();
                let is_there = reader.read(row, &mut found, &mut interner).unwrap();
                prop_assert_eq!(is_there.then_some(&found), expected.as_ref());
            }
        }
    }

    #[test]
    fn what_does_not_fit_its_type_is_refused() {
        let refuses = |column: ArrayRef, ty: &Type| {
            let reader = ValueReader::new(&column, ty, true);
            reader.and_then(|reader| reader.read(0, &mut Vec::new(), &mut Interner::default())).is_err()
        };
        assert!(refuses(Arc::new(Int64Array::from(vec![200])), &Type::Int(IntTy::Int8)));
        assert!(refuses(Arc::new(UInt64Array::from(vec![u64::MAX])), &Type::UInt(UIntTy::UInt32)));
        assert!(refuses(Arc::new(Float64Array::from(vec![f64::NAN])), &Type::Float(FloatTy::Float64)));
        assert!(refuses(Arc::new(StringArray::from(vec!["one"])), &Type::Fixed(FixedTy::Fixed64_32)));
        assert!(refuses(Arc::new(StringArray::from(vec!["1"])), &Type::Int(IntTy::Int64)));
        assert!(!refuses(Arc::new(Int64Array::from(vec![-128])), &Type::Int(IntTy::Int8)));
    }
}
