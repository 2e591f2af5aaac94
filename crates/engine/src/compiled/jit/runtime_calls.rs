//! Runtime calls: what machine code has done in Rust, because it is rare or long.
//!
//! Every call is made by a handler, with the context that the handler was given and with numbers of streams, families,
//! slots and groups that come from its plan and store. A panic never crosses machine code: it becomes an error, the
//! handler checks [`VmContext::has_panicked`] after every call and returns.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::vm_context::VmContext;
use crate::compiled::exec::error::{EvalError, ProgramError};
use crate::compiled::exec::executor::Executor;
use crate::compiled::exec::grouping::FoundGroup;
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::step::Step;
use crate::compiled::ir::update_rule::ResolvedDependent;
use crate::compiled::store::slab::flag;

/// There is no such slot.
pub(super) const NO_SLOT: u64 = u64::MAX;

/// What a runtime call works on.
struct Call<'a> {
    executor: &'a mut Executor,
    context: *mut VmContext,
}

/// Declares runtime calls. Each takes the context and words, and gives a word. `$call` is what the body works on.
macro_rules! runtime_calls {
    ($($(#[$attribute:meta])* fn $name:ident($call:ident $(, $argument:ident)*) $body:block)*) => {
        $(
            $(#[$attribute])*
            ///
            /// # Safety
            /// Only a handler may call it, with the context that it was given and arguments as its emitter wrote them.
            pub(super) unsafe extern "sysv64" fn $name(context: *mut VmContext $(, $argument: u64)*) -> u64 {
                let run = |$call: &mut Call<'_>| $body;
                // SAFETY: the obligations of `guarded` are this function's own.
                unsafe { guarded(stringify!($name), context, run) }
            }
        )*
    };
}

/// Runs a call; a panic becomes an error.
///
/// # Safety
/// `context` must be one that [`VmContextBuffer::bind`](super::vm_context::VmContextBuffer::bind) wrote for an executor
/// that still exists, and that nothing else uses during the call.
#[inline(always)]
unsafe fn guarded(
    name: &'static str,
    context: *mut VmContext,
    run: impl FnOnce(&mut Call<'_>) -> u64,
) -> u64 {
    // SAFETY: the caller guarantees that the executor exists and is not used otherwise: the handler, which was given
    // `&mut Executor`, is suspended in this call.
    let executor = unsafe { &mut *(*context).executor };
    let mut call = Call { executor, context };
    let result = catch_unwind(AssertUnwindSafe(|| {
        inject_panic(name);
        run(&mut call)
    }));
    match result {
        Ok(result) => {
            call.executor.absorb_deadlines();
            result
        }
        Err(panic) => {
            call.panicked(name, &*panic);
            0
        }
    }
}

#[cfg(not(test))]
#[inline(always)]
fn inject_panic(_: &'static str) {}

#[cfg(test)]
thread_local! {
    /// The runtime call that panics, and after how many calls.
    pub(super) static PANIC_IN: std::cell::Cell<Option<(&'static str, u32)>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
fn inject_panic(name: &'static str) {
    match PANIC_IN.get() {
        Some((panics, 0)) if panics == name => panic!("injected into {name}"),
        Some((panics, left)) if panics == name => PANIC_IN.set(Some((panics, left - 1))),
        _ => {}
    }
}

impl Call<'_> {
    /// Stores an error; 1 if there is one.
    fn status(&mut self, done: Result<(), Box<EvalError>>) -> u64 {
        match done {
            Ok(()) => 0,
            Err(error) => {
                // SAFETY: `failure` points to a field of the `Jit` whose handler is running, which nothing else uses.
                unsafe { *(*self.context).failure = Some(error) };
                1
            }
        }
    }

    #[cold]
    fn panicked(&mut self, name: &'static str, panic: &(dyn std::any::Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
        self.status(Err(EvalError::panicked(format!("{text} (in `{name}`)"))));
        // SAFETY: the context is valid for the call, by the contract of `guarded`.
        unsafe { (*self.context).has_panicked = 1 };
    }

    /// Something may have moved in memory: machine code gets new addresses.
    fn refresh(&mut self) {
        // SAFETY: `buffer` points to the buffer that owns the context, a field of the `Jit` whose handler is running. The
        // handler holds no reference into it, and reads it again after the call.
        let buffer = unsafe { &mut *(*self.context).buffer };
        buffer.refresh(self.executor);
    }

    /// Writes the address of the listed slots, and returns how many there are.
    fn show_listed(&mut self) -> u64 {
        let mut cx = self.executor.cx();
        let listed = cx.listed();
        // SAFETY: the context is valid for the call, by the contract of `guarded`.
        unsafe { (*self.context).listed = listed.as_mut_ptr() };
        listed.len() as u64
    }

    /// Says where the words of a group are, and gives machine code new addresses if groups have moved.
    fn show_group(&mut self, moves: u64, found: Option<FoundGroup>) -> u64 {
        let Some(FoundGroup { grouped, group, changed }) = found else { return 0 };
        let grouped = &mut self.executor.store_mut().grouped[grouped];
        let has_moved = grouped.moves() != moves;
        // SAFETY: the context is valid for the call, by the contract of `guarded`.
        unsafe { (*self.context).group = grouped.words_mut(group).as_mut_ptr() };
        if has_moved {
            self.refresh();
        }
        changed
    }

    /// How often the groups of a stream's group update have moved.
    fn group_moves(&self, (stream, number): (usize, usize)) -> u64 {
        let rule = self.executor.plan().rules[stream].as_ref();
        rule.map_or(0, |rule| self.executor.store().grouped[rule.groups[number].grouped].moves())
    }

    /// A dependent by its address.
    fn dependent(&self, address: u64) -> &'static ResolvedDependent {
        // SAFETY: emitters take addresses of dependents from the plan alone, which the running handler keeps alive and
        // which is never changed. The result does not outlive the call.
        unsafe { &*std::ptr::with_exposed_provenance::<ResolvedDependent>(address as usize) }
    }
}

/// Two numbers in one word.
pub(super) fn pack(high: usize, low: usize) -> u64 {
    (high as u64) << 32 | low as u64
}

fn unpack(word: u64) -> (usize, usize) {
    ((word >> 32) as usize, word as u32 as usize)
}

/// Bits of an outcome: whether an evaluation gave a value, and whether it differs from the one before.
pub(super) const YIELDS: u64 = 1;
pub(super) const CHANGED: u64 = 2;

runtime_calls! {
    /// Interprets a step.
    fn step(call, step) {
        // SAFETY: emitters take addresses of steps from those that the running handler owns, and which are never changed.
        let step = unsafe { &*std::ptr::with_exposed_provenance::<Step>(step as usize) };
        let done = call.executor.cx().run_step(step);
        call.refresh();
        call.status(done)
    }

    /// Spawns the instance whose parameters are in the frame: its slot plus one, or 0 if it exists.
    fn spawn(call, family) {
        let slot = call.executor.cx().spawn_key(family as usize);
        call.refresh();
        slot.map_or(0, |slot| u64::from(slot) + 1)
    }

    /// Stores the value of an input that has a history or windows.
    fn accept_input(call, input) {
        // SAFETY: the context is valid for the call, by the contract of `guarded`.
        let row = unsafe { (*call.context).row };
        let (mut cx, batch) = call.executor.cx_and_batch();
        let done = cx.accept_input(input as usize, batch, row);
        call.status(done)
    }

    /// Marks the dependents of an input.
    fn mark_input_dependents(call, input) {
        call.executor.cx().mark_input_dependents(input as usize);
        0
    }

    /// Finds the instance of a family with a key in the frame.
    fn find(call, family, key) {
        let width = call.executor.plan().families[family as usize].param_width;
        let store = call.executor.store();
        let key = &store.frame[key as usize..][..width];
        store.families[family as usize].instances.find(key).map_or(NO_SLOT, u64::from)
    }

    /// Replaces a value in a group: a bit for each aggregate that may have changed; the group is in the context. `update`
    /// is the stream and the number of its group update.
    fn update_group(call, update, slot, had, old, new) {
        let update = unpack(update);
        let moves = call.group_moves(update);
        let found = call.executor.cx().update_group(update, slot as u32, (had != 0).then_some(old), new);
        call.show_group(moves, found)
    }

    /// Finds the group of an instance, created if need be; it is in the context.
    fn find_group(call, update, slot) {
        let update = unpack(update);
        let moves = call.group_moves(update);
        let found = call.executor.cx().find_group(update, slot as u32);
        call.show_group(moves, found)
    }

    /// Finds the instance that reads a group and never closes: its slot plus one, which is cached with the group, or 0 if
    /// it does not exist yet. `group` is the address of the group's words.
    fn find_reader(call, dependent, grouped, group) {
        let ResolvedDependent::Instance { family, key_words, cached: Some(cached), .. } =
            call.dependent(dependent)
        else {
            return 0;
        };
        let number = call.executor.store().grouped[grouped as usize].number(group as usize);
        call.executor.cx().find_reader(*family, key_words, (grouped as usize, number), *cached)
    }

    /// Marks a dependent of a group, which is given by the address of its words.
    fn mark_group_dependent(call, dependent, grouped, group) {
        let number = call.executor.store().grouped[grouped as usize].number(group as usize);
        let dependent = call.dependent(dependent);
        call.executor.cx().mark_group_dependent(dependent, grouped as usize, number);
        0
    }

    /// Marks a dependent of a stream, or of an instance of it.
    fn mark_dependent(call, dependent, stream, slot) {
        let dependent = call.dependent(dependent);
        call.executor.cx().mark_dependent(dependent, stream as usize, slot as u32);
        0
    }

    /// Lists an instance in a dirty set that is full, or in which all are dirty.
    fn push_dirty(call, stream, slot) {
        call.executor.cx().push_dirty(stream as usize, slot as u32);
        0
    }

    /// The same for the close condition of a family.
    fn push_dirty_close(call, family, slot) {
        call.executor.cx().push_dirty_close(family as usize, slot as u32);
        0
    }

    /// Lists the instances of a dirty set, whose flags stay set; how many there are.
    fn list_dirty(call, stream) {
        call.executor.cx().list_dirty(stream as usize);
        call.show_listed()
    }

    /// Lists the instances of a dirty set, and clears their flags; how many there are.
    fn take_dirty(call, stream) {
        call.executor.cx().take_dirty(stream as usize);
        call.show_listed()
    }

    /// A tick of a counter: lists the instances for which it crosses a threshold; how many there are.
    fn list_crossed(call, stream) {
        call.executor.cx().list_crossed(stream as usize);
        call.show_listed()
    }

    /// Lists the instances whose close condition is dirty; how many there are. The list belongs to the family until the
    /// end of the instant.
    fn list_dirty_closes(call, family) {
        let family = family as usize;
        // SAFETY: `buffer` is the buffer of the running handler, which holds no reference into it.
        let slots = unsafe { &mut (&mut (*(*call.context).buffer).closing)[family] };
        let state = &mut call.executor.store_mut().families[family];
        let at = state.instances.first_state();
        state.close_dirty.list(&mut state.instances, at, flag::CLOSE_DIRTY, slots);
        // SAFETY: the context is valid for the call, by the contract of `guarded`.
        unsafe { (*call.context).listed = slots.as_mut_ptr() };
        slots.len() as u64
    }

    /// Frees the slot of an instance that has ended.
    fn free_slot(call, family, slot) {
        call.executor.cx().free_slot(family as usize, slot as u32);
        0
    }

    /// The deadlines of some instances that have ended are stale.
    fn retire_deadlines(call, family, ended) {
        call.executor.cx().retire_deadlines(family as usize, ended as usize);
        0
    }

    /// A group has no members left.
    fn retire_group(call, grouped, group) {
        let grouped = &mut call.executor.store_mut().grouped[grouped as usize];
        grouped.retire_if_empty(grouped.number(group as usize));
        0
    }

    /// An instance closes at the end of this instant.
    fn mark_closing(call, family, slot) {
        call.executor.cx().mark_closing(family as usize, slot as u32);
        0
    }

    /// Whether the instant has nothing to emit and nothing to end.
    fn is_quiet(call) {
        call.executor.is_quiet().into()
    }

    /// Starts the counters and windows of an instance.
    fn start_members(call, family, slot) {
        call.executor.cx().start_members(family as usize, slot as u32);
        call.refresh();
        0
    }

    /// Keeps the windows over an instance that ends.
    fn close_windows(call, stream, slot) {
        call.executor.cx().close_windows(stream as usize, slot as u32);
        0
    }

    /// Arms the timers of an instance.
    fn arm_timers(call, family, slot, generation) {
        call.executor.cx().arm_timers(family as usize, slot as u32, generation);
        call.refresh();
        0
    }

    /// An instance holds a value from now on, or no longer does.
    fn set_holder(call, stream, slot, holds) {
        call.executor.cx().set_holder(stream as usize, slot as u32, holds != 0);
        0
    }

    /// What an evaluation means for the next one; `outcome` is [`YIELDS`] and [`CHANGED`].
    fn reschedule_self(call, stream, slot, outcome) {
        let (yields, changed) = (outcome & YIELDS != 0, outcome & CHANGED != 0);
        call.executor.cx().reschedule_self(stream as usize, slot as u32, yields, changed);
        0
    }

    /// Emits the values that are held.
    fn emit_held_values(call, stream) {
        call.executor.cx().emit_held_values(stream as usize);
        0
    }

    /// Reads an aggregate into the frame; the code of a fault, or 0.
    fn read_aggregate(call, grouped, aggregate, key, to) {
        let mut cx = call.executor.cx();
        fault(cx.read_aggregate(grouped as usize, aggregate as usize, key as u16, to as u16))
    }

    /// Reads the value of an instance into the frame, behind a flag.
    fn read_instance(call, stream, key, to) {
        call.executor.cx().read_instance(stream as usize, key as u16, to as u16);
        0
    }

    /// Reads the value of an instance that must exist into the frame; the code of a fault, or 0.
    fn need_instance(call, stream, key, to) {
        fault(call.executor.cx().need_instance(stream as usize, key as u16, to as u16))
    }

    /// Runs an operation of the bytecode; `location` is the program and the position in it.
    fn run_op(call, stream, location, slot) {
        let (program, at) = unpack(location);
        let done = call.executor.cx().run_op(program, at, slot as u32);
        let error = |fault| EvalError::in_program(stream as usize, ProgramError { program, at, fault });
        call.status(done.map_err(error))
    }

    /// A program has failed; `location` is the program and the position in it, `code` that of the fault.
    fn fail(call, stream, location, code) {
        let fault = FAULTS.get(code as usize - 1).copied().unwrap_or(Fault::Internal);
        let (program, at) = unpack(location);
        call.status(Err(EvalError::in_program(stream as usize, ProgramError { program, at, fault })))
    }
}

/// The faults of operations that are compiled.
const FAULTS: [Fault; 6] = [
    Fault::Overflow,
    Fault::DividedByZero,
    Fault::NotANumber,
    Fault::NoInstance,
    Fault::NoValue,
    Fault::DecimalOverflow,
];

/// The code of a fault; 0 if there is none.
fn fault(done: Result<(), Fault>) -> u64 {
    done.map_or_else(code, |()| 0)
}

pub(super) fn code(fault: Fault) -> u64 {
    FAULTS.iter().position(|known| *known == fault).map_or(FAULTS.len(), |at| at) as u64 + 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::datatypes::{Field, Schema};
    use fairstream_core::{
        Cancelled, Engine, EngineError, EventBatch, Position, Selection, Subscription, Time, VerdictRef,
        VerdictSink,
    };

    use super::PANIC_IN;
    use crate::Specification;
    use crate::compiled::CompiledEngine;

    const SECOND: i64 = 1_000_000_000;

    /// With all changes emitted and a new id in each row, every row makes each call of [`CALLS`] exactly once.
    const SPEC: &str = "input id : Int64\n\
        output seen(i) : Int64\n  spawn with id\n  eval @id when id = i with i\n\
        output largest @id := seen.aggregate(over_instances: all, using: max).defaults(to: 0)\n\
        output ids @1Hz := seen.aggregate(over_instances: all, using: count)\n";
    const CALLS: [&str; 4] = ["spawn", "update_group", "reschedule_self", "emit_held_values"];

    struct Discard;

    impl VerdictSink for Discard {
        fn emit(&mut self, _: &VerdictRef<'_>) -> Result<(), Cancelled> {
            Ok(())
        }
    }

    /// An engine that interprets the first event or tick, and runs a handler from the second on.
    fn engine() -> (Specification, CompiledEngine) {
        let spec = Specification::parse("panics", SPEC).unwrap();
        let engine = CompiledEngine::new(&spec, Time(0)).unwrap();
        let mut engine = engine.without_precompiling().compile_after(1);
        engine.prepare(&Subscription::new(Selection::Changes)).unwrap();
        (spec, engine)
    }

    /// Rows with these ids, a nanosecond apart.
    fn events(spec: &Specification, ids: std::ops::Range<i64>, first: i64) -> EventBatch {
        let wanted = &spec.wanted()[0];
        let schema = Schema::new(vec![Field::new(&wanted.name, wanted.data_type.clone(), true)]);
        let times: Vec<i64> = (first..).take(ids.clone().count()).collect();
        let numbers: Vec<u64> = ids.clone().map(|id| id as u64).collect();
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        let rows = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        EventBatch::new(rows, times, numbers, Position::default())
    }

    /// Runs something while call `name` panics after `calls` calls.
    fn with_panic<T>(name: &'static str, calls: u32, run: impl FnOnce() -> T) -> T {
        PANIC_IN.set(Some((name, calls)));
        let result = run();
        PANIC_IN.set(None);
        result
    }

    fn is_refused(engine: &mut CompiledEngine, events: &EventBatch) -> bool {
        matches!(engine.feed(events, &mut Discard), Err(EngineError::Misused(_)))
    }

    #[test]
    fn a_panic_in_a_runtime_call_names_the_row() {
        for name in CALLS {
            for calls in [0, 3, 7] {
                let (spec, mut engine) = engine();
                let batch = events(&spec, 0..20, 1);
                match with_panic(name, calls, || engine.feed(&batch, &mut Discard)) {
                    Err(EngineError::Event { index, column: None, reason }) => {
                        assert_eq!(index, calls as usize + 1, "{name}");
                        assert!(reason.contains(&format!("injected into {name}")), "{reason}");
                    }
                    other => panic!("{name} after {calls} calls: {other:?}"),
                }
                assert!(is_refused(&mut engine, &events(&spec, 20..21, 100)), "{name}");
            }
        }
    }

    #[test]
    fn a_panic_at_a_deadline_names_its_time() {
        for is_before_row in [false, true] {
            let (spec, mut engine) = engine();
            engine.feed(&events(&spec, 0..3, 1), &mut Discard).unwrap();
            let later = events(&spec, 3..4, 9 * SECOND);
            let result = with_panic("emit_held_values", 1, || match is_before_row {
                true => engine.feed(&later, &mut Discard),
                false => engine.advance(Time(9 * SECOND), &mut Discard),
            });
            match result {
                Err(EngineError::Deadline { time, before, reason }) => {
                    assert_eq!((time, before), (Time(3 * SECOND), is_before_row.then_some(0)));
                    assert!(reason.contains("injected into emit_held_values"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
            assert!(is_refused(&mut engine, &later));
        }
    }
}
