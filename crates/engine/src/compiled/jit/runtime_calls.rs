//! What machine code has done for it in Rust.
//!
//! Every function here is called by a reaction only, with the context that it was given: its evaluator is there, and
//! nobody else uses it meanwhile. Numbers of streams, families and slots are those of its plan and state.

use super::VmContext;
use crate::compiled::exec::bytecode::{Failure, hold as hold_into, rare, read_group, sync as sync_into};
use crate::compiled::exec::instant::{Evaluator, Failed, Step};
use crate::compiled::exec::propagate::{Changed, mark_dependents, with_words};
use crate::compiled::exec::update_rule::{GroupUpdate, ResolvedDependent, mark_resolved};
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::aggregate::group::{GroupedAggregate, KEY};
use crate::compiled::store::slab::{InstanceSlab, Member, flag};
use crate::compiled::store::state::{DirtySet, FamilyState, State};

/// There is no such slot.
pub(super) const NONE: u64 = u64::MAX;

/// # Safety
/// As the module says.
unsafe fn evaluator<'a>(context: *mut VmContext) -> &'a mut Evaluator {
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
pub(super) unsafe extern "sysv64" fn step(context: *mut VmContext, step: *const Step) -> u64 {
    // SAFETY: as the module says; the reaction that is running owns the step.
    let (evaluator, step) = unsafe { (evaluator(context), &*step) };
    let done = evaluator.step(step);
    evaluator.refresh_addresses();
    status(evaluator, done)
}

/// Spawns the instance of a family whose parameters are in their place; its slot plus one, or 0 if it is there.
pub(super) unsafe extern "sysv64" fn spawn(context: *mut VmContext, family: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let slot = evaluator.spawn_key(family as usize);
    evaluator.refresh_addresses();
    slot.map_or(0, |slot| u64::from(slot) + 1)
}

/// An input has a value, to be remembered beside others or counted in a window.
pub(super) unsafe extern "sysv64" fn accept(context: *mut VmContext, input: u64) -> u64 {
    // SAFETY: as the module says.
    let (evaluator, row) = unsafe { (evaluator(context), (*context).row) };
    let done = evaluator.accept(input as usize, row);
    status(evaluator, done)
}

/// An input has another value.
pub(super) unsafe extern "sysv64" fn mark_input_dependents(context: *mut VmContext, input: u64) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    mark_dependents(state, plan, &plan.input_dependents[input as usize], Changed::Whole);
    0
}

/// The instance of a family with a key in the frame.
pub(super) unsafe extern "sysv64" fn find(context: *mut VmContext, family: u64, key: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let width = evaluator.plan.families[family as usize].param_width;
    let key = &evaluator.state.frame[key as usize..][..width];
    evaluator.state.families[family as usize].instances.find(key).map_or(NONE, u64::from)
}

/// An instance has another value: the tally counts it. A bit for each measure that may be another one; the group is
/// in the context. `which` is the stream and the number of its tally.
pub(super) unsafe extern "sysv64" fn count(
    context: *mut VmContext,
    which: u64,
    slot: u64,
    had: u64,
    old: u64,
    new: u64,
) -> u64 {
    let old = (had != 0).then_some(old);
    // SAFETY: as the module says.
    unsafe {
        update_grouped(context, which, |group_update, plan, state, family| {
            group_update.count(plan, state, family, slot as u32, old, Some(new))
        })
    }
}

/// Finds the group that an instance belongs to, which is new if need be; it is in the context.
pub(super) unsafe extern "sysv64" fn group(context: *mut VmContext, which: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe {
        update_grouped(context, which, |group_update, plan, state, family| {
            (group_update.group(plan, state, family, slot as u32), 0)
        })
    }
}

/// Has something done with a tally of a stream, which comes to a group and a number.
///
/// # Safety
/// As the module says.
unsafe fn update_grouped(
    context: *mut VmContext,
    which: u64,
    tell: impl FnOnce(&GroupUpdate, &Plan, &mut State, usize) -> (usize, u64),
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let Evaluator { plan, state, rules, places, .. } = evaluator;
    let (stream, number) = split(which);
    let Some(rule) = &rules[stream] else { return 0 };
    let group_update = &rule.grouped[number];
    let of = |grouped: &mut GroupedAggregate| [grouped.address(), grouped.places_address()];
    let before = of(&mut state.grouped[group_update.grouped]);
    let (group, number) = tell(group_update, plan, state, rule.family);
    let grouped = &mut state.grouped[group_update.grouped];
    grouped.remember(group);
    let found = grouped.words_mut(group).as_mut_ptr();
    places.groups_moved |= of(grouped) != before;
    evaluator.refresh_addresses();
    // SAFETY: as the module says.
    unsafe { (*context).found = found };
    number
}

fn split(which: u64) -> (usize, usize) {
    ((which >> 32) as usize, which as u32 as usize)
}

/// The slot, plus one, of the instance that reads a group and never goes away, which is kept with the group; 0 if it is
/// not there yet. `group` says where its words are.
pub(super) unsafe extern "sysv64" fn find_reader(
    context: *mut VmContext,
    dependent: *const ResolvedDependent,
    grouped: u64,
    group: usize,
) -> u64 {
    // SAFETY: as the module says; the lane of a stream owns the watcher, and is not replaced meanwhile.
    let (Evaluator { state, .. }, dependent) = unsafe { (evaluator(context), &*dependent) };
    let ResolvedDependent::Instance { family, places, kept: Some(kept), .. } = dependent else { return 0 };
    let (instances, grouped) = (&state.families[*family].instances, &mut state.grouped[grouped as usize]);
    let group = grouped.number(group);
    let words = grouped.words_mut(group);
    let found = with_words(places, |place| words[KEY + *place], |key| instances.find(key));
    let slot = found.map_or(0, |slot| u64::from(slot) + 1);
    let at = words.len() - kept;
    words[at] = slot;
    slot
}

/// Somebody must look again because a group has changed.
pub(super) unsafe extern "sysv64" fn mark_group_dependent(
    context: *mut VmContext,
    dependent: *const ResolvedDependent,
    grouped: u64,
    group: usize,
) -> u64 {
    // SAFETY: as the module says; the lane of a stream owns the watcher, and is not replaced meanwhile.
    let (Evaluator { plan, state, .. }, dependent) = unsafe { (evaluator(context), &*dependent) };
    let grouped = grouped as usize;
    let group = state.grouped[grouped].number(group);
    mark_resolved(plan, state, std::slice::from_ref(dependent), Changed::Group { grouped, group });
    0
}

/// An instance must be evaluated again, and is not the only one, or all are.
pub(super) unsafe extern "sysv64" fn mark(context: *mut VmContext, stream: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let instances = &state.families[plan.streams[stream as usize].family].instances;
    state.streams[stream as usize].evaluate.push(slot as u32, instances);
    0
}

/// The close condition of an instance must be looked at, and not only its own, or all.
pub(super) unsafe extern "sysv64" fn mark_close(context: *mut VmContext, family: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    let family = &mut unsafe { evaluator(context) }.state.families[family as usize];
    family.close.push(slot as u32, &family.instances);
    0
}

/// Lists the instances of a stream that may have to be evaluated again; those that must are marked. How many they are.
pub(super) unsafe extern "sysv64" fn list_changed(context: *mut VmContext, stream: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { list(context, stream as usize, DirtySet::list) }
}

/// Lists the instances of a stream that must be evaluated again, and marks them no more. How many they are.
pub(super) unsafe extern "sysv64" fn take_changed(context: *mut VmContext, stream: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { list(context, stream as usize, DirtySet::take) }
}

/// # Safety
/// As the module says.
unsafe fn list(
    context: *mut VmContext,
    stream: usize,
    how: fn(&mut DirtySet, &mut InstanceSlab, Member, u64, &mut Vec<u32>),
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let Evaluator { plan, state, listed, .. } = evaluator;
    let of = &plan.streams[stream];
    let instances = &mut state.families[of.family].instances;
    how(&mut state.streams[stream].evaluate, instances, of.member, flag::EVALUATE, listed);
    // SAFETY: as the module says.
    unsafe { show_listed(context, evaluator) }
}

/// Says where those are that were listed, and how many.
///
/// # Safety
/// As the module says.
unsafe fn show_listed(context: *mut VmContext, evaluator: &mut Evaluator) -> u64 {
    // SAFETY: as the module says.
    unsafe { (*context).listed = evaluator.listed.as_mut_ptr() };
    evaluator.listed.len() as u64
}

/// A counter ticks: lists the instances whose readers must look again. How many they are.
pub(super) unsafe extern "sysv64" fn tick(context: *mut VmContext, stream: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    evaluator.list_crossed(stream as usize);
    // SAFETY: as the module says.
    unsafe { show_listed(context, evaluator) }
}

/// Lists the instances of a family whose close condition may have to be looked at. The list is theirs until the
/// end of the instant.
pub(super) unsafe extern "sysv64" fn list_closing(context: *mut VmContext, family: u64) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { state, places, .. } = unsafe { evaluator(context) };
    let FamilyState { instances, close, .. } = &mut state.families[family as usize];
    let slots = &mut places.closing[family as usize];
    close.list(instances, instances.first_member(), flag::CLOSE, slots);
    // SAFETY: as the module says.
    unsafe { (*context).listed = slots.as_mut_ptr() };
    slots.len() as u64
}

/// An instance that has ended leaves its slot.
pub(super) unsafe extern "sysv64" fn leave(context: *mut VmContext, family: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    let state = &mut unsafe { evaluator(context) }.state;
    state.families[family as usize].instances.close(slot as u32);
    0
}

/// The clocks of so many instances that have ended stop.
pub(super) unsafe extern "sysv64" fn stop_clocks(context: *mut VmContext, family: u64, ended: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.stop_clocks(family as usize, ended as usize);
    0
}

/// A group of a tally has no members left.
pub(super) unsafe extern "sysv64" fn tidy(context: *mut VmContext, grouped: u64, group: usize) -> u64 {
    // SAFETY: as the module says.
    let grouped = &mut unsafe { evaluator(context) }.state.grouped[grouped as usize];
    grouped.tidy(grouped.number(group));
    0
}

/// An instance closes at the end of this instant.
pub(super) unsafe extern "sysv64" fn close(context: *mut VmContext, family: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.is_closing(family as usize, slot as u32);
    0
}

/// Whether there is nothing to tell of this instant, and nothing to end.
pub(super) unsafe extern "sysv64" fn is_quiet(context: *mut VmContext) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.is_quiet().into()
}

/// Starts the counters and windows of an instance.
pub(super) unsafe extern "sysv64" fn begin(context: *mut VmContext, family: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    evaluator.begin(family as usize, slot as u32);
    evaluator.refresh_addresses();
    0
}

/// The windows over an instance that ends can be read for a time.
pub(super) unsafe extern "sysv64" fn end_windows(context: *mut VmContext, stream: u64, slot: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.end_windows(stream as usize, slot as u32);
    0
}

/// Starts the clocks of an instance.
pub(super) unsafe extern "sysv64" fn arm_timers(
    context: *mut VmContext,
    family: u64,
    slot: u64,
    generation: u64,
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    evaluator.arm_timers(family as usize, slot as u32, generation);
    evaluator.refresh_addresses();
    0
}

/// Somebody else must look again because a stream has changed.
pub(super) unsafe extern "sysv64" fn mark_dependent(
    context: *mut VmContext,
    dependent: *const ResolvedDependent,
    stream: u64,
    slot: u64,
) -> u64 {
    // SAFETY: as the module says; the lane of a stream owns the watcher, and is not replaced meanwhile.
    let (Evaluator { plan, state, .. }, dependent) = unsafe { (evaluator(context), &*dependent) };
    let of = &plan.streams[stream as usize];
    let changed = match of.cell {
        Some(_) => Changed::Whole,
        None => Changed::Instance { family: of.family, slot: slot as u32 },
    };
    mark_resolved(plan, state, std::slice::from_ref(dependent), changed);
    0
}

/// Somebody holds a value, or no longer does.
pub(super) unsafe extern "sysv64" fn hold(
    context: *mut VmContext,
    stream: u64,
    slot: u64,
    yields: u64,
) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.hold(stream as usize, slot as u32, yields != 0);
    0
}

/// What an evaluation means for the next; `outcome` is whether it gave a value, and whether another one.
pub(super) unsafe extern "sysv64" fn reschedule_self(
    context: *mut VmContext,
    stream: u64,
    slot: u64,
    outcome: u64,
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    evaluator.reschedule_self(stream as usize, slot as u32, outcome & YIELDS != 0, outcome & CHANGED != 0);
    0
}

pub(super) const YIELDS: u64 = 1;
pub(super) const CHANGED: u64 = 2;

pub(super) unsafe extern "sysv64" fn emit_held_values(context: *mut VmContext, stream: u64) -> u64 {
    // SAFETY: as the module says.
    unsafe { evaluator(context) }.emit_held_values(stream as usize);
    0
}

/// What a tally says, into the frame.
pub(super) unsafe extern "sysv64" fn read_grouped(
    context: *mut VmContext,
    grouped: u64,
    aggregate: u64,
    key: u64,
    to: u64,
) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let (plan, grouped) = (&plan.grouped[grouped as usize], &mut state.grouped[grouped as usize]);
    let group = grouped.find(&state.frame[key as usize..][..plan.places.len()]);
    group.into_iter().for_each(|group| grouped.remember(group));
    fault(read_group(plan, grouped, group, aggregate as usize, &mut state.frame, to as u16))
}

/// The value of an instance, into the frame.
pub(super) unsafe extern "sysv64" fn read_instance(
    context: *mut VmContext,
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
    context: *mut VmContext,
    stream: u64,
    key: u64,
    to: u64,
) -> u64 {
    // SAFETY: as the module says.
    let Evaluator { plan, state, .. } = unsafe { evaluator(context) };
    let plan = &plan.streams[stream as usize];
    fault(sync_into(plan, &mut state.frame, &state.families, key as u16, to as u16))
}

/// Runs an operation that has no machine code: `at` is the program and the place in it.
pub(super) unsafe extern "sysv64" fn run_rare(
    context: *mut VmContext,
    stream: u64,
    at: u64,
    slot: u64,
) -> u64 {
    // SAFETY: as the module says.
    let evaluator = unsafe { evaluator(context) };
    let (program, at) = split(at);
    evaluator.state.current = slot as u32;
    let done = rare(&evaluator.plan, &mut evaluator.state, evaluator.plan.programs[program].ops[at]);
    let failed = |fault| Failed::new(stream as usize, Failure { program, at, fault });
    status(evaluator, done.map_err(failed))
}

/// A program failed: `at` is the program and the place in it.
pub(super) unsafe extern "sysv64" fn fail(context: *mut VmContext, stream: u64, at: u64, number: u64) -> u64 {
    let fault = FAULTS.get(number as usize - 1).copied().unwrap_or(Fault::Internal);
    let (program, at) = split(at);
    let failure = Failure { program, at, fault };
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
