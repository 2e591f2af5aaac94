//! Runs operations that are too rare for an opcode of their own: decimals, text, functions, casts.

use std::cmp::Ordering;

use rtlola_frontend::mir::ArithLogOp;
use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, MathematicalOps};

use crate::compiled::exec::bytecode::put;
use crate::compiled::exec::format::format_part;
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::layout::{Leaf, whole_range};
use crate::compiled::ir::op::{FrameSlot, RareOp, Unary};
use crate::compiled::ir::scalar::{Scalar, number};
use crate::compiled::store::state::Store;

/// Fails if an integer does not fit a type of so many bits.
pub(crate) fn in_range(value: Scalar, signed: bool, bits: u8) -> Result<(), Fault> {
    let (low, high) = whole_range(signed, bits);
    let inside = match value {
        Scalar::UInt(value) => i64::try_from(value).is_ok_and(|value| value <= high),
        Scalar::Int(value) => (low..=high).contains(&value),
        _ => true,
    };
    if inside { Ok(()) } else { Err(Fault::OutOfRange { signed, bits }) }
}

/// Runs a rare operation on the frame.
pub(crate) fn run_rare_op(rare: &RareOp, store: &mut Store) -> Result<(), Fault> {
    let frame = &mut *store.frame;
    let read = |frame: &[u64], slot: FrameSlot, leaf: Leaf| Scalar::read(&frame[slot as usize..], leaf);
    let write = |frame: &mut [u64], slot: FrameSlot, value: Scalar| {
        let words = if matches!(value, Scalar::Decimal(_)) { 2 } else { 1 };
        value.write(&mut frame[slot as usize..slot as usize + words]);
    };
    match rare {
        RareOp::Unary { operation, leaf, a, to } => {
            let value = unary(*operation, read(frame, *a, *leaf))?;
            write(frame, *to, value);
        }
        RareOp::Binary { operation, leaf, right, a, b, to } => {
            let value = binary(*operation, read(frame, *a, *leaf), read(frame, *b, *right))?;
            write(frame, *to, value);
        }
        RareOp::Compare { operation, leaf, a, b, to } => {
            let order = match leaf {
                Leaf::Text | Leaf::Bytes => {
                    let interner = &store.interner;
                    interner.bytes(frame[*a as usize]).cmp(interner.bytes(frame[*b as usize]))
                }
                _ => read(frame, *a, *leaf).order(read(frame, *b, *leaf)),
            };
            frame[*to as usize] = u64::from(match operation {
                ArithLogOp::Eq => order == Ordering::Equal,
                ArithLogOp::Lt => order == Ordering::Less,
                ArithLogOp::Ge => order != Ordering::Less,
                _ => order != Ordering::Greater,
            });
        }
        RareOp::Convert { from, into, a, to } => {
            let value = convert(read(frame, *a, *from), *into)?;
            write(frame, *to, value);
        }
        RareOp::Range { leaf, signed, bits, a } => in_range(read(frame, *a, *leaf), *signed, *bits)?,
        RareOp::Round { factor, a, to } => {
            let value = f64::from_bits(frame[*a as usize]);
            let value = number((value * factor).round() / factor)?;
            write(frame, *to, value);
        }
        RareOp::Matches { regex, a, to } => {
            let found = regex.is_match(store.interner.text(frame[*a as usize]));
            frame[*to as usize] = u64::from(found);
        }
        RareOp::BytesMatch { regex, a, to } => {
            let found = regex.is_match(store.interner.bytes(frame[*a as usize]));
            frame[*to as usize] = u64::from(found);
        }
        RareOp::ByteAt { a, index, to } => {
            let bytes = store.interner.bytes(frame[*a as usize]);
            let index = usize::try_from(frame[*index as usize]).ok();
            let byte = index.and_then(|index| bytes.get(index)).map(|byte| u64::from(*byte));
            put(frame, *to, byte.as_ref().map(std::slice::from_ref));
        }
        RareOp::Format { pieces, parts, to } => {
            let mut text = pieces.first().cloned().unwrap_or_default();
            for (part, piece) in parts.iter().zip(pieces.iter().skip(1)) {
                format_part(&mut text, part, frame, &store.interner);
                text.push_str(piece);
            }
            frame[*to as usize] = store.interner.intern(text.as_bytes());
        }
    }
    Ok(())
}

fn unary(operation: Unary, value: Scalar) -> Result<Scalar, Fault> {
    if let Scalar::Decimal(value) = value {
        let result = match operation {
            Unary::Neg => Some(-value),
            Unary::Abs => Some(value.abs()),
            Unary::Sqrt => return Scalar::Decimal(value).sqrt(),
            Unary::Sin => value.checked_sin(),
            Unary::Cos => value.checked_cos(),
            Unary::Tan => value.checked_tan(),
            _ => None,
        };
        return result.map(Scalar::Decimal).ok_or(Fault::DecimalOverflow);
    }
    let float = |function: fn(f64) -> f64| number(function(value.to_f64()));
    match operation {
        Unary::Neg => value.neg(),
        Unary::Abs => match value {
            Scalar::Int(value) => value.checked_abs().map(Scalar::Int).ok_or(Fault::Overflow),
            value => number(value.to_f64().abs()),
        },
        Unary::BitNot => Ok(match value {
            Scalar::UInt(value) => Scalar::UInt(!value),
            Scalar::Int(value) => Scalar::Int(!value),
            other => other,
        }),
        Unary::Sqrt => float(f64::sqrt),
        Unary::Sin => float(f64::sin),
        Unary::Cos => float(f64::cos),
        Unary::Tan => float(f64::tan),
        Unary::Asin => float(f64::asin),
        Unary::Acos => float(f64::acos),
        Unary::Atan => float(f64::atan),
    }
}

fn binary(operation: ArithLogOp, a: Scalar, b: Scalar) -> Result<Scalar, Fault> {
    let bits = |uint: fn(u64, u64) -> u64| match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => {
            Scalar::Int(uint(a.cast_unsigned(), b.cast_unsigned()).cast_signed())
        }
        (Scalar::UInt(a), Scalar::UInt(b)) => Scalar::UInt(uint(a, b)),
        (Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(uint(u64::from(a), u64::from(b)) != 0),
        _ => a,
    };
    let by = || match b {
        Scalar::UInt(by) => u32::try_from(by).ok().filter(|by| *by < 64).ok_or(Fault::ShiftTooFar),
        Scalar::Int(by) => u32::try_from(by).ok().filter(|by| *by < 64).ok_or(Fault::ShiftTooFar),
        _ => Err(Fault::ShiftTooFar),
    };
    match operation {
        ArithLogOp::Add => a.add(b),
        ArithLogOp::Sub => a.sub(b),
        ArithLogOp::Mul => a.mul(b),
        ArithLogOp::Div => a.div(b),
        ArithLogOp::Rem => a.rem(b),
        ArithLogOp::Pow => a.pow(b),
        ArithLogOp::BitAnd => Ok(bits(|a, b| a & b)),
        ArithLogOp::BitOr => Ok(bits(|a, b| a | b)),
        ArithLogOp::BitXor => Ok(bits(|a, b| a ^ b)),
        ArithLogOp::Shl => Ok(match a {
            Scalar::Int(a) => Scalar::Int(a << by()?),
            Scalar::UInt(a) => Scalar::UInt(a << by()?),
            other => other,
        }),
        ArithLogOp::Shr => Ok(match a {
            Scalar::Int(a) => Scalar::Int(a >> by()?),
            Scalar::UInt(a) => Scalar::UInt(a >> by()?),
            other => other,
        }),
        _ => Ok(a),
    }
}

fn convert(value: Scalar, into: Leaf) -> Result<Scalar, Fault> {
    Ok(match (value, into) {
        (Scalar::UInt(value), Leaf::Int) => {
            Scalar::Int(i64::try_from(value).map_err(|_| Fault::TooLargeForInt)?)
        }
        (Scalar::Int(value), Leaf::UInt) => Scalar::UInt(u64::try_from(value).map_err(|_| Fault::Negative)?),
        (Scalar::Float(value), Leaf::UInt) if value <= -1.0 => return Err(Fault::Negative),
        (Scalar::Float(value), Leaf::UInt) if value < 18_446_744_073_709_551_616.0 => {
            Scalar::UInt(value as u64)
        }
        (Scalar::Float(value), Leaf::Int)
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) =>
        {
            Scalar::Int(value as i64)
        }
        (Scalar::Float(_), Leaf::UInt | Leaf::Int) => return Err(Fault::TooLargeForInt),
        (Scalar::Float(value), Leaf::Decimal) => {
            Scalar::Decimal(Decimal::try_from(value).map_err(|_| Fault::DecimalOverflow)?)
        }
        (Scalar::UInt(value), Leaf::Decimal) => Scalar::Decimal(value.into()),
        (Scalar::Int(value), Leaf::Decimal) => Scalar::Decimal(value.into()),
        (Scalar::Decimal(value), Leaf::Int) => {
            Scalar::Int(value.round().to_i64().ok_or(Fault::TooLargeForInt)?)
        }
        (Scalar::Decimal(value), Leaf::UInt) => {
            let rounded = value.round();
            if rounded.is_sign_negative() && !rounded.is_zero() {
                return Err(Fault::Negative);
            }
            Scalar::UInt(rounded.to_u64().ok_or(Fault::TooLargeForInt)?)
        }
        (value, Leaf::Float) => number(value.to_f64())?,
        (value, _) => value,
    })
}
