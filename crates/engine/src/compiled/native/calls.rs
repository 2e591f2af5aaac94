//! What machine code has done for it in Rust.
//!
//! Every function here is called by a reaction only, with the context that it was given: its evaluator is there, and
//! nobody else uses it meanwhile. Numbers of streams, families and slots are those of its plan and state.

use super::super::fault::Fault;
use super::super::instances::flag;
use super::super::instant::{Evaluator, Failed, Step};
use super::super::lane::mark_one;
use super::super::machine::{Failure, hold as hold_into, read_tally as read_tally_into, sync as sync_into};
use super::super::notify::{Changed, notify};
use super::super::plan::Watcher;
use super::Context;

/// There is no such slot.
pub(super) const NONE: u64 = u64::MAX;
/// There are several.
pub(super) const SEVERAL: u64 = u64::MAX - 1;
/// Where a route is not an index.
pub(super) const LOOKUP: u64 = u64::MAX;

/// # Safety
/// As the module says.
unsafe fn evaluator<'a>(context: *mut Context) -> &'a mut Evaluator {
    // SAFETY: as the module says.
    unsafe { &mut *(*context).evaluator }
}

fn status(evaluator: &mut Evaluator, done: Result<(), Box<Failed>>) -> u64 {
    match done {
        Ok(()) => 0,
        Err(failed) => {
            evaluator.failed = Some(failed);
            1
        }
    }
}

/// Does a step that has no machine code.
pub(super) unsafe extern "sysv64" fn step(context: *mut Context, step: *const Step) -> u64 {
    // SAFETY: as the module says; the reaction that is running owns the step.
    let (evaluator, step) = unsafe { (evaluator(context), &*step) };
    let done = evaluator.step(step);
    moved(context, evaluator);
    status(evaluator, done)
}

pub(super) unsafe extern "sysv64" fn spawn(context: *mut Context, family: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let done = evaluator.spawn(family as usize);
    moved(context, evaluator);
    status(evaluator, done)
}

/// Slots may be somewhere else now.
fn moved(context: *mut Context, evaluator: &mut Evaluator) {
    evaluator.find_slots();
    // SAFETY: as the module says.
    unsafe { (*context).slots = evaluator.slots.as_ptr() };
}

/// The instance of a family that a route leads to, with a key in the frame.
pub(super) unsafe extern "sysv64" fn find(context: *mut Context, family: u64, route: u64, key: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let (family, key) = (family as usize, key as usize);
    let instances = &evaluator.state.families[family].instances;
    let plan = &evaluator.plan.families[family];
    if route == LOOKUP {
        let key = &evaluator.state.frame[key..key + plan.param_width];
        return instances.find(key).map_or(NONE, u64::from);
    }
    let index = route as usize;
    let key = &evaluator.state.frame[key..key + plan.indexes[index].len()];
    match instances.first(index, key) {
        None => NONE,
        Some(slot) if instances.next(index, slot).is_none() => slot.into(),
        Some(_) => SEVERAL,
    }
}

/// An instance has another value: the tally hears of it. `which` is the stream and the number of its tally.
pub(super) unsafe extern "sysv64" fn change(
    context: *mut Context,
    which: u64,
    slot: u64,
    had: u64,
    old: u64,
    new: u64,
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let (stream, number) = ((which >> 32) as usize, which as u32 as usize);
    let Evaluator { plan, state, lanes, .. } = evaluator;
    let Some(lane) = &lanes[stream] else { return 0 };
    let old = (had != 0).then_some(old);
    let done = lane.tallies[number].change(plan, state, lane.family, slot as u32, old, new);
    status(evaluator, done.map_err(|fault| Failed::outside(stream, fault)))
}

/// An instance must be evaluated again, and is not the only one, or all are.
pub(super) unsafe extern "sysv64" fn mark(context: *mut Context, stream: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let instances = &state.families[plan.streams[stream as usize].family].instances;
    state.streams[stream as usize].evaluate.push(slot as u32, instances);
    0
}

/// The instance must be evaluated again whose only parameter is a word.
pub(super) unsafe extern "sysv64" fn mark_word(context: *mut Context, stream: u64, word: u64) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let of = &plan.streams[stream as usize];
    mark_one(state, stream as usize, of.family, of.member.state(), word);
    0
}

/// Somebody else must look again because a stream has changed.
pub(super) unsafe extern "sysv64" fn tell_watcher(
    context: *mut Context,
    watcher: *const Watcher,
    stream: u64,
    slot: u64,
) -> u64 {
    // SAFETY: as the module says; the lane of a stream owns the watcher, and is not replaced meanwhile.
    let (Evaluator { plan, state, .. }, watcher) = unsafe { (evaluator(context), &*watcher) };
    let of = &plan.streams[stream as usize];
    let changed = match of.cell {
        Some(_) => Changed::Whole,
        None => Changed::Instance { family: of.family, slot: slot as u32 },
    };
    notify(state, plan, std::slice::from_ref(watcher), changed);
    0
}

/// Somebody holds a value, or no longer does.
pub(super) unsafe extern "sysv64" fn hold(context: *mut Context, stream: u64, slot: u64, yields: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.hold(stream as usize, slot as u32, yields != 0);
    0
}

/// What an evaluation means for the next; `outcome` is whether it gave a value, and whether another one.
pub(super) unsafe extern "sysv64" fn look_again(
    context: *mut Context,
    stream: u64,
    slot: u64,
    outcome: u64,
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    evaluator.look_again(stream as usize, slot as u32, outcome & YIELDS != 0, outcome & CHANGED != 0);
    0
}

pub(super) const YIELDS: u64 = 1;
pub(super) const CHANGED: u64 = 2;

pub(super) unsafe extern "sysv64" fn tell_again(context: *mut Context, stream: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.tell_again(stream as usize);
    0
}

/// What a tally says, into the frame.
pub(super) unsafe extern "sysv64" fn read_tally(
    context: *mut Context,
    tally: u64,
    measure: u64,
    key: u64,
    to: u64,
) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let (plan, tally) = (&plan.tallies[tally as usize], &state.tallies[tally as usize]);
    fault(read_tally_into(plan, tally, &mut state.frame, measure as usize, key as u16, to as u16))
}

/// The value of an instance, into the frame.
pub(super) unsafe extern "sysv64" fn read_instance(
    context: *mut Context,
    stream: u64,
    key: u64,
    to: u64,
) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    hold_into(&plan.streams[stream as usize], &mut state.frame, &state.families, key as u16, to as u16);
    0
}

/// The value of an instance that must be there, into the frame.
pub(super) unsafe extern "sysv64" fn need_instance(
    context: *mut Context,
    stream: u64,
    key: u64,
    to: u64,
) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let plan = &plan.streams[stream as usize];
    fault(sync_into(plan, &mut state.frame, &state.families, key as u16, to as u16))
}

/// A program failed: `at` is the program and the place in it.
pub(super) unsafe extern "sysv64" fn fail(context: *mut Context, stream: u64, at: u64, number: u64) -> u64 {
    let fault = FAULTS.get(number as usize - 1).copied().unwrap_or(Fault::Internal);
    let failure = Failure { program: (at >> 32) as usize, at: at as u32 as usize, fault };
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.failed = Some(Failed::new(stream as usize, failure));
    1
}

/// The faults of programs that have machine code.
const FAULTS: [Fault; 6] = [
    Fault::Overflow,
    Fault::DividedByZero,
    Fault::NotANumber,
    Fault::NoInstance,
    Fault::NoValue,
    Fault::DecimalOverflow,
];

/// A fault as a number; 0 if there is none.
fn fault(done: Result<(), Fault>) -> u64 {
    done.map_or_else(number, |()| 0)
}

pub(super) fn number(fault: Fault) -> u64 {
    FAULTS.iter().position(|known| *known == fault).map_or(FAULTS.len(), |at| at) as u64 + 1
}

/// Where in the state of an instance it says that it must be evaluated, and that it holds a value.
pub(super) const EVALUATE: u64 = flag::EVALUATE;
pub(super) const HOLDS: u64 = flag::HOLDS;
