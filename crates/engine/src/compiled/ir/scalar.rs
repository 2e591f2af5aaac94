//! A single value with its type at run time, for operations that are too rare to be worth a typed path.

use std::cmp::Ordering;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, MathematicalOps};

use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::layout::Leaf;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    UInt(u64),
    Int(i64),
    Float(f64),
    Decimal(Decimal),
    /// The number of an interned text or byte string.
    Text(u64),
}

impl Scalar {
    /// Reads the value that begins at the first of the words.
    pub(crate) fn read(words: &[u64], leaf: Leaf) -> Scalar {
        match leaf {
            Leaf::Bool | Leaf::Present => Scalar::Bool(words[0] != 0),
            Leaf::UInt => Scalar::UInt(words[0]),
            Leaf::Int => Scalar::Int(words[0].cast_signed()),
            Leaf::Float => Scalar::Float(f64::from_bits(words[0])),
            Leaf::Text | Leaf::Bytes => Scalar::Text(words[0]),
            Leaf::Decimal => Scalar::Decimal(decimal(words)),
        }
    }

    /// Writes the value to `out`, which has exactly as many words as the value.
    pub(crate) fn write(self, out: &mut [u64]) {
        match self {
            Scalar::Bool(value) => out[0] = u64::from(value),
            Scalar::UInt(value) | Scalar::Text(value) => out[0] = value,
            Scalar::Int(value) => out[0] = value.cast_unsigned(),
            Scalar::Float(value) => out[0] = value.to_bits(),
            Scalar::Decimal(value) => out.copy_from_slice(&decimal_words(value)),
        }
    }

    /// A whole number in the type of this value.
    pub(crate) fn whole(self, value: u32) -> Scalar {
        match self {
            Scalar::UInt(_) => Scalar::UInt(value.into()),
            Scalar::Int(_) => Scalar::Int(value.into()),
            Scalar::Float(_) => Scalar::Float(value.into()),
            Scalar::Decimal(_) => Scalar::Decimal(value.into()),
            other => other,
        }
    }

    pub(crate) fn zero(leaf: Leaf) -> Scalar {
        Scalar::read(&[0, 0], leaf)
    }

    pub(crate) fn add(self, other: Scalar) -> Result<Scalar, Fault> {
        self.combine(other, u64::checked_add, i64::checked_add, |a, b| a + b, Decimal::checked_add)
    }

    pub(crate) fn sub(self, other: Scalar) -> Result<Scalar, Fault> {
        self.combine(other, u64::checked_sub, i64::checked_sub, |a, b| a - b, Decimal::checked_sub)
    }

    pub(crate) fn mul(self, other: Scalar) -> Result<Scalar, Fault> {
        self.combine(other, u64::checked_mul, i64::checked_mul, |a, b| a * b, Decimal::checked_mul)
    }

    pub(crate) fn div(self, other: Scalar) -> Result<Scalar, Fault> {
        if other.is_whole_zero() {
            return Err(Fault::DividedByZero);
        }
        self.combine(other, u64::checked_div, i64::checked_div, |a, b| a / b, Decimal::checked_div)
    }

    pub(crate) fn rem(self, other: Scalar) -> Result<Scalar, Fault> {
        if other.is_whole_zero() {
            return Err(Fault::DividedByZero);
        }
        self.combine(other, u64::checked_rem, i64::checked_rem, |a, b| a % b, Decimal::checked_rem)
    }

    /// Exponents beyond 32 bits are reduced where the base is -1, 0 or 1, and overflow otherwise.
    pub(crate) fn pow(self, exponent: Scalar) -> Result<Scalar, Fault> {
        let power = |exponent: u64| u32::try_from(exponent).map_err(|_| Fault::Overflow);
        match (self, exponent) {
            (Scalar::UInt(a), Scalar::UInt(b)) => {
                let small = if a <= 1 { u32::from(b > 0) } else { power(b)? };
                a.checked_pow(small).map(Scalar::UInt).ok_or(Fault::Overflow)
            }
            (Scalar::Int(a), Scalar::Int(b)) => {
                let b = u64::try_from(b).map_err(|_| Fault::NegativeExponent)?;
                let parity = if b == 0 { 0 } else { 2 - (b % 2) as u32 };
                let small = if (-1..=1).contains(&a) { parity } else { power(b)? };
                a.checked_pow(small).map(Scalar::Int).ok_or(Fault::Overflow)
            }
            (Scalar::Float(a), Scalar::Float(b)) => number(a.powf(b)),
            (Scalar::Float(a), Scalar::Int(b)) => {
                number(i32::try_from(b).map_or_else(|_| a.powf(b as f64), |b| a.powi(b)))
            }
            (Scalar::Decimal(a), Scalar::Decimal(b)) => {
                a.checked_powd(b).map(Scalar::Decimal).ok_or(Fault::DecimalOverflow)
            }
            _ => Err(Fault::Internal),
        }
    }

    pub(crate) fn neg(self) -> Result<Scalar, Fault> {
        match self {
            Scalar::Int(value) => value.checked_neg().map(Scalar::Int).ok_or(Fault::Overflow),
            Scalar::Float(value) => Ok(Scalar::Float(-value)),
            Scalar::Decimal(value) => Ok(Scalar::Decimal(-value)),
            other => Ok(other),
        }
    }

    pub(crate) fn sqrt(self) -> Result<Scalar, Fault> {
        match self {
            Scalar::Decimal(value) => value.sqrt().map(Scalar::Decimal).ok_or(Fault::NotANumber),
            other => number(other.to_f64().sqrt()),
        }
    }

    /// The order of two values of the same type that are no text.
    pub(crate) fn order(self, other: Scalar) -> Ordering {
        match (self, other) {
            (Scalar::UInt(a), Scalar::UInt(b)) => a.cmp(&b),
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(&b),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Scalar::Decimal(a), Scalar::Decimal(b)) => a.cmp(&b),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        }
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::UInt(value) | Scalar::Text(value) => value as f64,
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
            Scalar::Decimal(value) => value.to_f64().unwrap_or(f64::NAN),
        }
    }

    /// Whether this is a zero by which division is an error. Floats divide to infinity.
    fn is_whole_zero(self) -> bool {
        match self {
            Scalar::UInt(value) => value == 0,
            Scalar::Int(value) => value == 0,
            Scalar::Decimal(value) => value.is_zero(),
            _ => false,
        }
    }

    /// Applies the operation of the type that both values have.
    fn combine(
        self,
        other: Scalar,
        uint: impl Fn(u64, u64) -> Option<u64>,
        int: impl Fn(i64, i64) -> Option<i64>,
        float: impl Fn(f64, f64) -> f64,
        fixed: impl Fn(Decimal, Decimal) -> Option<Decimal>,
    ) -> Result<Scalar, Fault> {
        match (self, other) {
            (Scalar::UInt(a), Scalar::UInt(b)) => uint(a, b).map(Scalar::UInt).ok_or(Fault::Overflow),
            (Scalar::Int(a), Scalar::Int(b)) => int(a, b).map(Scalar::Int).ok_or(Fault::Overflow),
            (Scalar::Float(a), Scalar::Float(b)) => number(float(a, b)),
            (Scalar::Decimal(a), Scalar::Decimal(b)) => {
                fixed(a, b).map(Scalar::Decimal).ok_or(Fault::DecimalOverflow)
            }
            _ => Err(Fault::Internal),
        }
    }
}

/// A float that is not NaN.
pub(crate) fn number(value: f64) -> Result<Scalar, Fault> {
    if value.is_nan() { Err(Fault::NotANumber) } else { Ok(Scalar::Float(value)) }
}

/// The decimal in the first two words.
pub(crate) fn decimal(words: &[u64]) -> Decimal {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_le_bytes());
    bytes[8..].copy_from_slice(&words[1].to_le_bytes());
    Decimal::deserialize(bytes)
}

/// The words of a decimal, the low one first.
pub(crate) fn decimal_words(value: Decimal) -> [u64; 2] {
    let bits = u128::from_le_bytes(value.serialize());
    [bits as u64, (bits >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_whole_numbers() {
        let int = |a: i64, b: i64| Scalar::Int(a).pow(Scalar::Int(b));
        assert_eq!(int(-1, 4_000_000_001), Ok(Scalar::Int(-1)));
        assert_eq!(int(-1, 4_000_000_002), Ok(Scalar::Int(1)));
        assert_eq!(int(0, 0), Ok(Scalar::Int(1)));
        assert_eq!(int(0, 9), Ok(Scalar::Int(0)));
        assert_eq!(int(3, 7), Ok(Scalar::Int(2187)));
        assert_eq!(int(2, 63), Err(Fault::Overflow));
        assert_eq!(int(2, -1), Err(Fault::NegativeExponent));
        assert_eq!(Scalar::UInt(1).pow(Scalar::UInt(u64::MAX)), Ok(Scalar::UInt(1)));
        assert_eq!(Scalar::UInt(0).pow(Scalar::UInt(u64::MAX)), Ok(Scalar::UInt(0)));
    }

    #[test]
    fn a_decimal_survives_as_two_words() {
        for text in ["0", "-12.50", "79228162514264337593543950335", "0.0000000000000000000000000001"] {
            let value: Decimal = text.parse().unwrap();
            assert_eq!(decimal(&decimal_words(value)).to_string(), text);
        }
    }
}
