//! The bytecode interpreter.

use super::cx::Cx;
use super::error::ProgramError;
use crate::compiled::exec::rare_ops::{in_range, run_rare_op};
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::op::{FRAME_SIZE, FrameSlot, Op};
use crate::compiled::ir::plan::{GroupedPlan, Plan, ScanPlan, StreamPlan};
use crate::compiled::ir::scalar::{Scalar, decimal, decimal_words};
use crate::compiled::store::aggregate::fold::Partial;
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::state::{FamilyState, Store};
use crate::compiled::store::words::copy;

/// Runs a program; whether it yields.
pub(crate) fn run(plan: &Plan, store: &mut Store, program: usize) -> Result<bool, ProgramError> {
    run_inline(plan, store, program)
}

/// Runs a program; whether it yields. Inlined, for the callers that run most programs.
#[inline(always)]
pub(crate) fn run_inline(plan: &Plan, store: &mut Store, program: usize) -> Result<bool, ProgramError> {
    let ops = plan.programs[program].ops.as_slice();
    let mut at = 0;
    loop {
        match steps(plan, store, ops, &mut at) {
            Ok(Halt::End) => return Ok(false),
            Ok(Halt::Yield) => return Ok(true),
            Ok(Halt::Rare) => run_rare(plan, store, ops[at - 1]),
            Err(fault) => Err(fault),
        }
        .map_err(|fault| ProgramError { program, at: at - 1, fault })?;
    }
}

/// Why the interpreter loop stops.
enum Halt {
    /// The program has ended without a yield.
    End,
    Yield,
    /// The last operation is one that [`run_rare`] runs, out of line.
    Rare,
}

/// The interpreter loop: runs operations from `next` on, and leaves there the index after the last one.
#[inline(always)]
fn steps(plan: &Plan, store: &mut Store, ops: &[Op], next: &mut usize) -> Result<Halt, Fault> {
    let Store { frame, families, grouped: all_grouped, current, present, .. } = store;
    let frame: &mut [u64; FRAME_SIZE] = frame;
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
            Op::Yield => stop!(Ok(Halt::Yield)),
            Op::Copy { from, to } => word!(to) = word!(from),
            Op::CopyMany { from, to, count } => {
                let from = *from as usize;
                frame.copy_within(from..from + *count as usize, *to as usize);
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
                hold(&plan.streams[*stream as usize], frame, families, *key, *to);
            }
            Op::Sync { stream, key, to } => {
                if let Err(fault) = sync(&plan.streams[*stream as usize], frame, families, *key, *to) {
                    stop!(Err(fault));
                }
            }
            Op::Own { stream, to } => {
                let plan = &plan.streams[*stream as usize];
                let value = families[plan.family].instances.latest(*current, plan.member);
                put(frame, *to, value);
            }
            Op::OwnSync { stream, to } => {
                let plan = &plan.streams[*stream as usize];
                let value = families[plan.family].instances.latest(*current, plan.member);
                let value = checked!(value, Fault::NoValue);
                copy(value, &mut frame[*to as usize..*to as usize + value.len()]);
            }
            Op::PastOfOwn { stream, back, to } => {
                let plan = &plan.streams[*stream as usize];
                let instances = &families[plan.family].instances;
                put(frame, *to, instances.past(*current, plan.member, *back as usize - 1));
            }
            Op::Aggregate { grouped, aggregate, key, to } => {
                let (plan, grouped) = (&plan.grouped[*grouped as usize], &all_grouped[*grouped as usize]);
                let group = grouped.find(&frame[*key as usize..][..plan.key_words.len()]);
                if let Err(fault) = read_group(plan, grouped, group, *aggregate as usize, frame, *to) {
                    stop!(Err(fault));
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
            | Op::Rare { .. } => stop!(Ok(Halt::Rare)),
        }
    }
    stop!(Ok(Halt::End))
}

/// Single operations, which machine code calls. The caller reports faults.
impl Cx<'_> {
    /// Reads an aggregate into the frame, behind a flag, and enters its group into the lookup cache.
    pub(crate) fn read_aggregate(
        &mut self,
        grouped: usize,
        aggregate: usize,
        key: FrameSlot,
        to: FrameSlot,
    ) -> Result<(), Fault> {
        let of = &self.plan.grouped[grouped];
        let Store { grouped: all, frame, .. } = &mut *self.store;
        let grouped = &mut all[grouped];
        let group = grouped.find(&frame[key as usize..][..of.key_words.len()]);
        group.into_iter().for_each(|group| grouped.cache(group));
        read_group(of, grouped, group, aggregate, frame, to)
    }

    /// Reads the value of an instance into the frame, behind a flag.
    pub(crate) fn read_instance(&mut self, stream: usize, key: FrameSlot, to: FrameSlot) {
        hold(&self.plan.streams[stream], &mut self.store.frame, &self.store.families, key, to);
    }

    /// Reads the value of an instance that must exist into the frame.
    pub(crate) fn need_instance(
        &mut self,
        stream: usize,
        key: FrameSlot,
        to: FrameSlot,
    ) -> Result<(), Fault> {
        sync(&self.plan.streams[stream], &mut self.store.frame, &self.store.families, key, to)
    }

    /// Runs one operation of a program for the instance in a slot.
    pub(crate) fn run_op(&mut self, program: usize, at: usize, slot: u32) -> Result<(), Fault> {
        self.store.current = slot;
        run_rare(self.plan, self.store, self.plan.programs[program].ops[at])
    }
}

/// Writes the latest value of the instance with a key to the frame, behind a flag.
#[inline(always)]
fn hold(
    plan: &StreamPlan,
    frame: &mut [u64; FRAME_SIZE],
    families: &[FamilyState],
    key: FrameSlot,
    to: FrameSlot,
) {
    let instances = &families[plan.family].instances;
    let key = &frame[key as usize..key as usize + plan.param_width];
    let value = instances.find(key).and_then(|slot| instances.latest(slot, plan.member));
    put(frame, to, value);
}

/// Writes the latest value of the instance with a key to the frame. Fails if there is none.
#[inline(always)]
fn sync(
    plan: &StreamPlan,
    frame: &mut [u64; FRAME_SIZE],
    families: &[FamilyState],
    key: FrameSlot,
    to: FrameSlot,
) -> Result<(), Fault> {
    let instances = &families[plan.family].instances;
    let key = &frame[key as usize..key as usize + plan.param_width];
    let slot = instances.find(key).ok_or(Fault::NoInstance)?;
    let value = instances.latest(slot, plan.member).ok_or(Fault::NoValue)?;
    copy(value, &mut frame[to as usize..to as usize + value.len()]);
    Ok(())
}

/// Writes an aggregate of a group, or of no members if there is no group, to the frame, behind a flag.
#[inline(always)]
fn read_group(
    plan: &GroupedPlan,
    grouped: &GroupedAggregate,
    group: Option<usize>,
    aggregate: usize,
    frame: &mut [u64; FRAME_SIZE],
    to: FrameSlot,
) -> Result<(), Fault> {
    let kind = plan.aggregates[aggregate];
    if let Some(word) = group.and_then(|group| grouped.word(group, aggregate, kind)) {
        frame[to as usize] = 1;
        frame[to as usize + 1] = word;
        return Ok(());
    }
    put_scalar(frame, to, grouped.value(group, aggregate, kind)?);
    Ok(())
}

/// Writes a flag, and a value if there is one.
#[inline(always)]
pub(crate) fn put(frame: &mut [u64], to: FrameSlot, value: Option<&[u64]>) {
    let to = to as usize;
    frame[to] = u64::from(value.is_some());
    if let Some(value) = value {
        copy(value, &mut frame[to + 1..to + 1 + value.len()]);
    }
}

/// Writes a flag, and a scalar if there is one.
#[inline(always)]
fn put_scalar(frame: &mut [u64], to: FrameSlot, value: Option<Scalar>) {
    let to = to as usize;
    frame[to] = u64::from(value.is_some());
    match value {
        Some(value @ Scalar::Decimal(_)) => value.write(&mut frame[to + 1..to + 3]),
        Some(value) => value.write(&mut frame[to + 1..to + 2]),
        None => {}
    }
}

/// Runs an operation that the interpreter loop leaves out. Out of line, so that the loop stays small.
#[inline(never)]
fn run_rare(plan: &Plan, store: &mut Store, op: Op) -> Result<(), Fault> {
    match op {
        Op::Get { stream, key, to } | Op::Fresh { stream, key, to } | Op::Past { stream, key, to, .. } => {
            let plan = &plan.streams[stream as usize];
            let instances = &store.families[plan.family].instances;
            let slot = instances.find(&store.frame[key as usize..key as usize + plan.param_width]);
            let fresh = slot.filter(|slot| instances.fresh(*slot, plan.member) == store.instant);
            match op {
                Op::Fresh { .. } => store.frame[to as usize] = u64::from(fresh.is_some()),
                Op::Past { back, .. } => {
                    let slot = slot.ok_or(Fault::NoInstance)?;
                    let back = back as usize - usize::from(fresh.is_none());
                    put(&mut *store.frame, to, instances.past(slot, plan.member, back));
                }
                _ => put(&mut *store.frame, to, fresh.and_then(|slot| instances.latest(slot, plan.member))),
            }
        }
        Op::Count { stream, key, to } => {
            let stream = stream as usize;
            let of = &plan.streams[stream];
            let slot = match key {
                None => Some(store.current),
                Some(key) => {
                    let key = &store.frame[key as usize..key as usize + of.param_width];
                    store.families[of.family].instances.find(key)
                }
            };
            let value = match slot {
                Some(slot) => store.count(plan, stream, slot)?,
                None => None,
            };
            put(&mut *store.frame, to, value.as_ref().map(std::slice::from_ref));
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
            let back = back as usize - usize::from(store.frame[cell.fresh as usize] == 0);
            let value = store.cell_past(cell, number, back).map(<[u64]>::to_vec);
            put(&mut *store.frame, to, value.as_deref());
        }
        Op::Window { window, key, to } => {
            let windows = &plan.windows[window as usize];
            let (slot, key) = match windows.target {
                None => (Some(0), &[][..]),
                Some(target) => {
                    let target = &plan.streams[target];
                    let key = &store.frame[key as usize..key as usize + target.param_width];
                    (store.families[target.family].instances.find(key), key)
                }
            };
            let (since, interner) = (store.reader_spawn(), &store.interner);
            let value = match (&windows.last_decisive, windows.target, slot) {
                (Some(last_decisive), Some(target), Some(slot)) => {
                    let instances = &store.families[plan.streams[target].family].instances;
                    Some(last_decisive.result(instances.words(slot), store.now))
                }
                _ => store.windows[window as usize].read(windows, slot, key, since, store.now, interner)?,
            };
            put_scalar(&mut *store.frame, to, value);
        }
        Op::Scan { scan, to } => {
            let value = scan_instances(plan, store, &plan.scans[scan as usize])?;
            put_scalar(&mut *store.frame, to, value);
        }
        Op::KeyDecimal { a, to } => {
            let words = decimal_words(decimal(&store.frame[a as usize..]).normalize());
            copy(&words, &mut store.frame[to as usize..to as usize + 2]);
        }
        Op::Rare { rare } => run_rare_op(&plan.rare_ops[rare as usize], store)?,
        _ => return Err(Fault::Internal),
    }
    Ok(())
}

/// Folds the values of the instances that a scan selects, in the order of spawn.
fn scan_instances(plan: &Plan, store: &mut Store, scan: &ScanPlan) -> Result<Option<Scalar>, Fault> {
    let (family, member) = (plan.streams[scan.target].family, plan.streams[scan.target].member);
    let instances = &store.families[family].instances;
    let mut slots: Vec<u32> = if scan.only_fresh {
        store.streams[scan.target].valued.clone()
    } else {
        instances.live_slots().collect()
    };
    slots.sort_unstable_by_key(|slot| instances.generation(*slot));
    let mut whole: Option<Partial> = None;
    for slot in slots {
        if let Some(condition) = scan.condition {
            let params = store.families[family].instances.params(slot);
            let lambda = scan.lambda as usize;
            store.frame[lambda..lambda + params.len()].copy_from_slice(params);
            if !run(plan, store, condition).map_err(|error| error.fault)? {
                continue;
            }
        }
        let Some(value) = store.families[family].instances.latest(slot, member) else { continue };
        let partial = scan.fold.partial_of(value, store.now);
        whole = Some(match whole {
            Some(whole) => scan.fold.join(whole, partial, &store.interner)?,
            None => partial,
        });
    }
    let value = scan.fold.result(whole)?;
    if let (Some(value), Some((signed, bits))) = (value, scan.range) {
        in_range(value, signed, bits)?;
    }
    Ok(value)
}
