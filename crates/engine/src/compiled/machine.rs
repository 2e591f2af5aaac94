//! Runs programs.

use std::cmp::Ordering;
use std::fmt::Write;

use rtlola_frontend::mir::{ArithLogOp, Type};
use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, MathematicalOps};

use super::code::{FormatPart, Op, Slow, Unary};
use super::fault::Fault;
use super::fold::Part;
use super::layout::{Leaf, inner, whole_range, width};
use super::plan::{Plan, ScanPlan};
use super::scalar::{Scalar, decimal, decimal_words, number};
use super::state::State;
use super::strings::Strings;
use super::words::copy;

/// A program failed at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) program: usize,
    pub(super) at: usize,
    pub(super) fault: Fault,
}

/// Runs a program to its end; whether it yields.
pub(super) fn run(plan: &Plan, state: &mut State, program: usize) -> Result<bool, Failure> {
    let ops = plan.programs[program].ops.as_slice();
    let mut at = 0;
    loop {
        match steps(plan, state, ops, &mut at) {
            Ok(Stop::End) => return Ok(false),
            Ok(Stop::Yield) => return Ok(true),
            Ok(Stop::Rare) => rare(plan, state, ops[at - 1]),
            Err(fault) => Err(fault),
        }
        .map_err(|fault| Failure { program, at: at - 1, fault })?;
    }
}

/// Why a run of steps stops.
enum Stop {
    End,
    Yield,
    /// At an operation that is done elsewhere.
    Rare,
}

/// Runs operations; `next` is the one after the last that was run.
#[inline(always)]
fn steps(plan: &Plan, state: &mut State, ops: &[Op], next: &mut usize) -> Result<Stop, Fault> {
    let State { frame, families, tallies, current, present, .. } = state;
    let frame = frame.as_mut_slice();
    let mut at = *next;
    macro_rules! word {
        ($slot:expr) => {
            frame[*$slot as usize]
        };
    }
    macro_rules! stop {
        ($with:expr) => {{
            *next = at;
            return $with;
        }};
    }
    macro_rules! checked {
        ($value:expr, $fault:expr) => {
            match $value {
                Some(value) => value,
                None => stop!(Err($fault)),
            }
        };
    }
    macro_rules! whole {
        ($a:expr, $b:expr, $to:expr, $method:ident) => {
            word!($to) = checked!(word!($a).$method(word!($b)), Fault::Overflow)
        };
    }
    macro_rules! signed {
        ($a:expr, $b:expr, $to:expr, $method:ident) => {{
            let value = word!($a).cast_signed().$method(word!($b).cast_signed());
            word!($to) = checked!(value, Fault::Overflow).cast_unsigned()
        }};
    }
    macro_rules! float {
        ($a:expr, $b:expr, $to:expr, $operator:tt) => {{
            let value = f64::from_bits(word!($a)) $operator f64::from_bits(word!($b));
            if value.is_nan() {
                stop!(Err(Fault::NotANumber));
            }
            word!($to) = value.to_bits();
        }};
    }
    macro_rules! compare {
        ($a:expr, $b:expr, $to:expr, $read:expr, $operator:tt) => {
            word!($to) = u64::from($read(word!($a)) $operator $read(word!($b)))
        };
    }
    while let Some(op) = ops.get(at) {
        at += 1;
        match op {
            Op::Jump { to } => at = *to as usize,
            Op::JumpUnless { flag, to } => {
                if word!(flag) == 0 {
                    at = *to as usize;
                }
            }
            Op::JumpIf { flag, to } => {
                if word!(flag) != 0 {
                    at = *to as usize;
                }
            }
            Op::JumpUnlessSame { a, b, to } => {
                if word!(a) != word!(b) {
                    at = *to as usize;
                }
            }
            Op::JumpUnlessActive { activation, to } => {
                if !plan.activations[*activation as usize].holds(*present) {
                    at = *to as usize;
                }
            }
            Op::Yield => stop!(Ok(Stop::Yield)),
            Op::Copy { from, to } => word!(to) = word!(from),
            Op::CopyMany { from, to, count } => {
                frame.copy_within(*from as usize..(*from + *count) as usize, *to as usize);
            }
            Op::Or { flag, a, b, to } => {
                word!(to) = if word!(flag) != 0 { word!(a) } else { word!(b) };
            }
            Op::Require { flag } => {
                if word!(flag) == 0 {
                    stop!(Err(Fault::NoValue));
                }
            }
            Op::AddU { a, b, to } => whole!(a, b, to, checked_add),
            Op::SubU { a, b, to } => whole!(a, b, to, checked_sub),
            Op::MulU { a, b, to } => whole!(a, b, to, checked_mul),
            Op::AddI { a, b, to } => signed!(a, b, to, checked_add),
            Op::SubI { a, b, to } => signed!(a, b, to, checked_sub),
            Op::MulI { a, b, to } => signed!(a, b, to, checked_mul),
            Op::AddF { a, b, to } => float!(a, b, to, +),
            Op::SubF { a, b, to } => float!(a, b, to, -),
            Op::MulF { a, b, to } => float!(a, b, to, *),
            Op::DivF { a, b, to } => float!(a, b, to, /),
            Op::DivU { a, b, to } => {
                word!(to) = checked!(word!(a).checked_div(word!(b)), Fault::DividedByZero);
            }
            Op::DivI { a, b, to } => {
                if word!(b) == 0 {
                    stop!(Err(Fault::DividedByZero));
                }
                signed!(a, b, to, checked_div);
            }
            Op::Same { a, b, to } => word!(to) = u64::from(word!(a) == word!(b)),
            Op::EqF { a, b, to } => compare!(a, b, to, f64::from_bits, ==),
            Op::LtU { a, b, to } => word!(to) = u64::from(word!(a) < word!(b)),
            Op::LeU { a, b, to } => word!(to) = u64::from(word!(a) <= word!(b)),
            Op::LtI { a, b, to } => compare!(a, b, to, u64::cast_signed, <),
            Op::LeI { a, b, to } => compare!(a, b, to, u64::cast_signed, <=),
            Op::LtF { a, b, to } => compare!(a, b, to, f64::from_bits, <),
            Op::LeF { a, b, to } => compare!(a, b, to, f64::from_bits, <=),
            Op::Not { a, to } => word!(to) = word!(a) ^ 1,
            Op::UIntToFloat { a, to } => word!(to) = (word!(a) as f64).to_bits(),
            Op::IntToFloat { a, to } => word!(to) = (word!(a).cast_signed() as f64).to_bits(),
            Op::KeyFloat { a, to } => word!(to) = (f64::from_bits(word!(a)) + 0.0).to_bits(),
            Op::Hold { stream, key, to } => {
                let plan = &plan.streams[*stream as usize];
                let instances = &families[plan.family].instances;
                let key = &frame[*key as usize..*key as usize + plan.param_width];
                let value = instances.find(key).and_then(|slot| instances.latest(slot, plan.member));
                put(frame, *to, value);
            }
            Op::Sync { stream, key, to } => {
                let plan = &plan.streams[*stream as usize];
                let instances = &families[plan.family].instances;
                let key = &frame[*key as usize..*key as usize + plan.param_width];
                let slot = checked!(instances.find(key), Fault::NoInstance);
                let value = checked!(instances.latest(slot, plan.member), Fault::NoValue);
                copy(value, &mut frame[*to as usize..*to as usize + value.len()]);
            }
            Op::Own { family, member, to } => {
                let value = families[*family as usize].instances.latest(*current, *member as usize);
                put(frame, *to, value);
            }
            Op::OwnSync { family, member, to } => {
                let value = families[*family as usize].instances.latest(*current, *member as usize);
                let value = checked!(value, Fault::NoValue);
                copy(value, &mut frame[*to as usize..*to as usize + value.len()]);
            }
            Op::PastOfOwn { family, member, back, to } => {
                let instances = &families[*family as usize].instances;
                put(frame, *to, instances.past(*current, *member as usize, *back as usize - 1));
            }
            Op::Tally { tally, measure, key, to } => {
                let (plan, tally) = (&plan.tallies[*tally as usize], &tallies[*tally as usize]);
                let group = tally.find(&frame[*key as usize..*key as usize + plan.places.len()]);
                match tally.value(group, *measure as usize, plan.measures[*measure as usize]) {
                    Ok(value) => put_scalar(frame, *to, value),
                    Err(fault) => stop!(Err(fault)),
                }
            }
            Op::Get { .. }
            | Op::Fresh { .. }
            | Op::Past { .. }
            | Op::PastOfCell { .. }
            | Op::Count { .. }
            | Op::Window { .. }
            | Op::Scan { .. }
            | Op::KeyDecimal { .. }
            | Op::Slow { .. } => stop!(Ok(Stop::Rare)),
        }
    }
    stop!(Ok(Stop::End))
}

/// A flag, and a value if there is one.
#[inline(always)]
fn put(frame: &mut [u64], to: u32, value: Option<&[u64]>) {
    let to = to as usize;
    frame[to] = u64::from(value.is_some());
    if let Some(value) = value {
        copy(value, &mut frame[to + 1..to + 1 + value.len()]);
    }
}

#[inline(always)]
fn put_scalar(frame: &mut [u64], to: u32, value: Option<Scalar>) {
    let to = to as usize;
    frame[to] = u64::from(value.is_some());
    match value {
        Some(value @ Scalar::Decimal(_)) => value.write(&mut frame[to + 1..to + 3]),
        Some(value) => value.write(&mut frame[to + 1..to + 2]),
        None => {}
    }
}

#[inline(never)]
fn rare(plan: &Plan, state: &mut State, op: Op) -> Result<(), Fault> {
    match op {
        Op::Get { stream, key, to } | Op::Fresh { stream, key, to } | Op::Past { stream, key, to, .. } => {
            let plan = &plan.streams[stream as usize];
            let instances = &state.families[plan.family].instances;
            let slot = instances.find(&state.frame[key as usize..key as usize + plan.param_width]);
            let fresh = slot.filter(|slot| instances.fresh(*slot, plan.member) == state.instant);
            match op {
                Op::Fresh { .. } => state.frame[to as usize] = u64::from(fresh.is_some()),
                Op::Past { back, .. } => {
                    let slot = slot.ok_or(Fault::NoInstance)?;
                    let back = back as usize - usize::from(fresh.is_none());
                    put(&mut state.frame, to, instances.past(slot, plan.member, back));
                }
                _ => put(&mut state.frame, to, fresh.and_then(|slot| instances.latest(slot, plan.member))),
            }
        }
        Op::Count { stream, key, to } => {
            let stream = stream as usize;
            let of = &plan.streams[stream];
            let slot = match key {
                None => Some(state.current),
                Some(key) => {
                    let key = &state.frame[key as usize..key as usize + of.param_width];
                    state.families[of.family].instances.find(key)
                }
            };
            let value = match slot {
                Some(slot) => state.count(plan, stream, slot)?,
                None => None,
            };
            put(&mut state.frame, to, value.as_ref().map(std::slice::from_ref));
        }
        Op::PastOfCell { cell: number, back, to } => {
            let number = number as usize;
            let cell = match plan.inputs.get(number) {
                Some(cell) => cell,
                None => match &plan.streams[number - plan.inputs.len()].cell {
                    Some(cell) => cell,
                    None => return Err(Fault::NoValue),
                },
            };
            let back = back as usize - usize::from(state.frame[cell.fresh as usize] == 0);
            let value = state.cell_past(cell, number, back).map(<[u64]>::to_vec);
            put(&mut state.frame, to, value.as_deref());
        }
        Op::Window { window, key, to } => {
            let windows = &plan.windows[window as usize];
            let (slot, key) = match windows.target {
                None => (Some(0), &[][..]),
                Some(target) => {
                    let target = &plan.streams[target];
                    let key = &state.frame[key as usize..key as usize + target.param_width];
                    (state.families[target.family].instances.find(key), key)
                }
            };
            let (since, strings) = (state.reader_since(), &state.strings);
            let value = state.windows[window as usize].read(windows, slot, key, since, state.now, strings)?;
            put_scalar(&mut state.frame, to, value);
        }
        Op::Scan { scan, to } => {
            let value = scan_instances(plan, state, &plan.scans[scan as usize])?;
            put_scalar(&mut state.frame, to, value);
        }
        Op::KeyDecimal { a, to } => {
            let words = decimal_words(decimal(&state.frame[a as usize..]).normalize());
            copy(&words, &mut state.frame[to as usize..to as usize + 2]);
        }
        Op::Slow { slow } => slow_step(&plan.slow[slow as usize], state)?,
        _ => return Err(Fault::Internal),
    }
    Ok(())
}

fn scan_instances(plan: &Plan, state: &mut State, scan: &ScanPlan) -> Result<Option<Scalar>, Fault> {
    let (family, member) = (plan.streams[scan.target].family, plan.streams[scan.target].member);
    let instances = &state.families[family].instances;
    let mut slots: Vec<u32> = if scan.only_fresh {
        state.streams[scan.target].valued.clone()
    } else {
        instances.live_slots().collect()
    };
    slots.sort_unstable_by_key(|slot| instances.born(*slot));
    let mut whole: Option<Part> = None;
    for slot in slots {
        if let Some(condition) = scan.condition {
            let params = state.families[family].instances.params(slot);
            let lambda = scan.lambda as usize;
            state.frame[lambda..lambda + params.len()].copy_from_slice(params);
            if !run(plan, state, condition).map_err(|failure| failure.fault)? {
                continue;
            }
        }
        let Some(value) = state.families[family].instances.latest(slot, member) else { continue };
        let part = scan.fold.part(value, state.now);
        whole = Some(match whole {
            Some(whole) => scan.fold.join(whole, part, &state.strings)?,
            None => part,
        });
    }
    let value = scan.fold.result(whole)?;
    if let (Some(value), Some((signed, bits))) = (value, scan.range) {
        in_range(value, signed, bits)?;
    }
    Ok(value)
}

fn in_range(value: Scalar, signed: bool, bits: u8) -> Result<(), Fault> {
    let (low, high) = whole_range(signed, bits);
    let inside = match value {
        Scalar::UInt(value) => i64::try_from(value).is_ok_and(|value| value <= high),
        Scalar::Int(value) => (low..=high).contains(&value),
        _ => true,
    };
    if inside { Ok(()) } else { Err(Fault::OutOfRange { signed, bits }) }
}

fn slow_step(slow: &Slow, state: &mut State) -> Result<(), Fault> {
    let frame = &mut state.frame;
    let read = |frame: &[u64], slot: u32, leaf: Leaf| Scalar::read(&frame[slot as usize..], leaf);
    let write = |frame: &mut [u64], slot: u32, value: Scalar| {
        let words = if matches!(value, Scalar::Decimal(_)) { 2 } else { 1 };
        value.write(&mut frame[slot as usize..slot as usize + words]);
    };
    match slow {
        Slow::Unary { operation, leaf, a, to } => {
            let value = unary(*operation, read(frame, *a, *leaf))?;
            write(frame, *to, value);
        }
        Slow::Binary { operation, leaf, right, a, b, to } => {
            let value = binary(*operation, read(frame, *a, *leaf), read(frame, *b, *right))?;
            write(frame, *to, value);
        }
        Slow::Compare { operation, leaf, a, b, to } => {
            let order = match leaf {
                Leaf::Text | Leaf::Bytes => {
                    let strings = &state.strings;
                    strings.bytes(frame[*a as usize]).cmp(strings.bytes(frame[*b as usize]))
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
        Slow::Convert { from, into, a, to } => {
            let value = convert(read(frame, *a, *from), *into)?;
            write(frame, *to, value);
        }
        Slow::Range { leaf, signed, bits, a } => in_range(read(frame, *a, *leaf), *signed, *bits)?,
        Slow::Round { factor, a, to } => {
            let value = f64::from_bits(frame[*a as usize]);
            let value = number((value * factor).round() / factor)?;
            write(frame, *to, value);
        }
        Slow::Matches { regex, a, to } => {
            let found = regex.is_match(state.strings.text(frame[*a as usize]));
            frame[*to as usize] = u64::from(found);
        }
        Slow::BytesMatch { regex, a, to } => {
            let found = regex.is_match(state.strings.bytes(frame[*a as usize]));
            frame[*to as usize] = u64::from(found);
        }
        Slow::ByteAt { a, index, to } => {
            let bytes = state.strings.bytes(frame[*a as usize]);
            let index = usize::try_from(frame[*index as usize]).ok();
            let byte = index.and_then(|index| bytes.get(index)).map(|byte| u64::from(*byte));
            put(frame, *to, byte.as_ref().map(std::slice::from_ref));
        }
        Slow::Format { pieces, parts, to } => {
            let mut text = pieces.first().cloned().unwrap_or_default();
            for (part, piece) in parts.iter().zip(pieces.iter().skip(1)) {
                format_part(&mut text, part, frame, &state.strings);
                text.push_str(piece);
            }
            frame[*to as usize] = state.strings.intern(text.as_bytes());
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

fn format_part(text: &mut String, part: &FormatPart, frame: &[u64], strings: &Strings) {
    if part.flag.is_some_and(|flag| frame[flag as usize] == 0) {
        text.push_str("None");
        return;
    }
    let words = &frame[part.base as usize..];
    show(text, inner(&part.ty), words, strings);
}

/// A value as messages show it.
pub(super) fn show(text: &mut String, ty: &Type, words: &[u64], strings: &Strings) {
    // Writing to a string cannot fail.
    let _ = match ty {
        Type::Bool => write!(text, "{}", words[0] != 0),
        Type::UInt(_) => write!(text, "{}", words[0]),
        Type::Int(_) => write!(text, "{}", words[0].cast_signed()),
        Type::Float(_) => write!(text, "{}", f64::from_bits(words[0])),
        Type::Fixed(_) | Type::UFixed(_) => write!(text, "{}", decimal(words)),
        Type::String => {
            text.push_str(strings.text(words[0]));
            Ok(())
        }
        Type::Bytes => strings.bytes(words[0]).iter().try_for_each(|byte| write!(text, "{byte:02X}")),
        Type::Tuple(parts) => {
            text.push('(');
            let mut at = 0;
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                show(text, part, &words[at..], strings);
                at += width(part);
            }
            text.push(')');
            Ok(())
        }
        Type::Option(inner) => {
            if words[0] == 0 {
                text.push_str("None");
            } else {
                show(text, inner, &words[1..], strings);
            }
            Ok(())
        }
        Type::Function { .. } => Ok(()),
    };
}
