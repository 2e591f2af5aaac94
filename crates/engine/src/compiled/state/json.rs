//! Values as JSON: words of a type → JSON, and back. Floats are numbers with the shortest digits that stand for them;
//! infinities are the texts `inf` and `-inf`. Decimals are text, and bytes are hexadecimal text.

use std::fmt::Write;

use rtlola_frontend::mir::Type;
use serde_json::Value;

use super::columns::{float_word, parse_decimal};
use crate::compiled::ir::layout::{narrow, whole_range, width};
use crate::compiled::ir::scalar::decimal;
use crate::compiled::store::interner::{Interner, StringsCopy};

/// A value as JSON. An option is null if it is none; an option within an option is an array.
pub(super) fn to_json(ty: &Type, words: &[u64], strings: &StringsCopy) -> Value {
    match ty {
        Type::Bool => (words[0] != 0).into(),
        Type::Int(_) => words[0].cast_signed().into(),
        Type::UInt(_) => words[0].into(),
        Type::Float(_) => {
            let value = f64::from_bits(words[0]);
            if value.is_finite() { value.into() } else { value.to_string().into() }
        }
        Type::String => String::from_utf8_lossy(strings.bytes(words[0])).into(),
        Type::Bytes => {
            let mut text = String::new();
            for byte in strings.bytes(words[0]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            text.into()
        }
        Type::Fixed(_) | Type::UFixed(_) => decimal(words).to_string().into(),
        Type::Tuple(parts) => {
            let mut at = 0;
            let part = |part: &Type| {
                let from = at;
                at += width(part);
                to_json(part, &words[from..], strings)
            };
            parts.iter().map(part).collect()
        }
        Type::Option(_) if words[0] == 0 => Value::Null,
        Type::Option(inner) => {
            let value = to_json(inner, &words[1..], strings);
            if matches!(**inner, Type::Option(_)) { vec![value].into() } else { value }
        }
        Type::Function { .. } => Value::Null,
    }
}

/// Appends the words of a value.
///
/// # Errors
/// The value is none of the type.
pub(super) fn from_json(
    ty: &Type,
    value: &Value,
    words: &mut Vec<u64>,
    interner: &mut Interner,
) -> Result<(), String> {
    let wrong = || format!("`{value}` is not a value of type {ty}");
    let in_range = |value: i64| {
        narrow(ty).is_none_or(|(signed, bits)| {
            let (least, most) = whole_range(signed, bits);
            (least..=most).contains(&value)
        })
    };
    match ty {
        Type::Bool => words.push(value.as_bool().ok_or_else(wrong)?.into()),
        Type::Int(_) => {
            words.push(value.as_i64().filter(|value| in_range(*value)).ok_or_else(wrong)?.cast_unsigned());
        }
        Type::UInt(_) => {
            let is_in_range = |value: &u64| narrow(ty).is_none() || i64::try_from(*value).is_ok_and(in_range);
            words.push(value.as_u64().filter(is_in_range).ok_or_else(wrong)?);
        }
        Type::Float(_) => {
            let float = match value.as_str() {
                Some("inf") => Some(f64::INFINITY),
                Some("-inf") => Some(f64::NEG_INFINITY),
                _ => value.as_f64(),
            };
            words.push(float_word(float.ok_or_else(wrong)?)?);
        }
        Type::String => words.push(interner.intern(value.as_str().ok_or_else(wrong)?.as_bytes())),
        Type::Bytes => {
            let text = value.as_str().filter(|text| text.is_ascii()).ok_or_else(wrong)?;
            let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
            words.push(interner.intern(&bytes.ok_or_else(wrong)?));
        }
        Type::Fixed(_) | Type::UFixed(_) => {
            words.extend(parse_decimal(value.as_str().ok_or_else(wrong)?)?);
        }
        Type::Tuple(parts) => {
            let values = value.as_array().filter(|values| values.len() == parts.len()).ok_or_else(wrong)?;
            for (part, value) in parts.iter().zip(values) {
                from_json(part, value, words, interner)?;
            }
        }
        Type::Option(inner) if value.is_null() => words.resize(words.len() + 1 + width(inner), 0),
        Type::Option(inner) => {
            words.push(1);
            match (&**inner, value.as_array().map(Vec::as_slice)) {
                (Type::Option(_), Some([value])) => from_json(inner, value, words, interner)?,
                (Type::Option(_), _) => return Err(wrong()),
                _ => from_json(inner, value, words, interner)?,
            }
        }
        Type::Function { .. } => return Err(wrong()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rtlola_frontend::mir::{FloatTy, IntTy, UIntTy};

    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let mut interner = Interner::default();
        let text = interner.intern("ä \"".as_bytes());
        let bytes = interner.intern(&[0, 255]);
        let option = |inner: &Type| Type::Option(Box::new(inner.clone()));
        let (float, int, uint) =
            (Type::Float(FloatTy::Float64), Type::Int(IntTy::Int64), Type::UInt(UIntTy::UInt64));
        let nested = option(&option(&int));
        let cases: Vec<(Type, Vec<u64>, &str)> = vec![
            (float.clone(), vec![0.1_f64.to_bits()], "0.1"),
            (float.clone(), vec![(-0.0_f64).to_bits()], "-0.0"),
            (float.clone(), vec![5e-324_f64.to_bits()], "5e-324"),
            (float.clone(), vec![9.000_000_000_000_002e-5_f64.to_bits()], "0.00009000000000000002"),
            (float, vec![f64::NEG_INFINITY.to_bits()], "\"-inf\""),
            (uint, vec![u64::MAX], "18446744073709551615"),
            (int.clone(), vec![i64::MIN.cast_unsigned()], "-9223372036854775808"),
            (Type::Tuple(vec![Type::String, Type::Bytes]), vec![text, bytes], "[\"ä \\\"\",\"00ff\"]"),
            (option(&int), vec![0, 0], "null"),
            (option(&int), vec![1, 7], "7"),
            (nested.clone(), vec![1, 0, 0], "[null]"),
            (nested, vec![0, 0, 0], "null"),
        ];
        for (ty, words, expected) in cases {
            let written = to_json(&ty, &words, &interner.copy()).to_string();
            let same: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), same, "{written}");
            let mut found = Vec::new();
            from_json(&ty, &serde_json::from_str(&written).unwrap(), &mut found, &mut interner).unwrap();
            assert_eq!(found, words, "{written}");
        }
    }

    #[test]
    fn what_does_not_fit_its_type_is_refused() {
        let refuses = |text: &str, ty: &Type| {
            let value = serde_json::from_str(text).unwrap();
            from_json(ty, &value, &mut Vec::new(), &mut Interner::default()).is_err()
        };
        for text in ["200", "1.5", "\"1\"", "null", "[1]"] {
            assert!(refuses(text, &Type::Int(IntTy::Int8)), "{text}");
        }
        for text in ["\"f\"", "\"zz\"", "\"ä\"", "7"] {
            assert!(refuses(text, &Type::Bytes), "{text}");
        }
        assert!(refuses("\"NaN\"", &Type::Float(FloatTy::Float64)));
        assert!(refuses("[1]", &Type::Tuple(vec![Type::Bool, Type::Bool])));
    }
}
