//! Runs deadlines of instances and ticks of clocks one after another, without leaving machine code in between.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::dirty::stream_offset;
use super::runtime_calls;
use super::steps::StepEmitter;
use super::vm_context::{LAST_POSITION, QUEUE_HEADER, RING, VmContext};
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::layout::GENERATION;
use crate::compiled::ir::plan::{Reader, Task};
use crate::compiled::ir::step::{Step, Target};
use crate::compiled::ir::update_rule::{UpdateRule, ValueLocation};
use crate::compiled::store::deadline_queue::{Deadline, QueueHeader};
use crate::compiled::store::holder_set::HolderSet;
use crate::compiled::store::state::{Store, StreamState};

/// The words of a deadline queue that the loop needs.
struct QueueFront {
    /// The address of the ring.
    ring: Value,
    /// The last position of the ring, which is also the mask of positions.
    last: Value,
    /// The address of the header.
    header: Value,
    /// The position of the first deadline.
    first: Value,
    /// How many deadlines there are.
    count: Value,
    /// The address of the first deadline.
    due: Value,
}

/// When something is due next.
struct NextDue {
    /// The earliest of all deadlines and ticks.
    at: Value,
    /// The earliest deadline.
    first_deadline: Value,
    /// The first deadline of each instance timer.
    deadlines: Vec<Value>,
    /// The next tick of each clock.
    ticks: Vec<Value>,
    /// The time up to which the loop runs.
    until: Value,
}

/// Whether deadlines of instances emit nothing, and can be run without runtime calls for whole steps.
pub(super) fn is_supported(plan: &ExecutionPlan, steps: &[Step]) -> bool {
    let is_simple = |rule: &UpdateRule| {
        !rule.emits_held && !rule.has_follow_up && matches!(rule.location, ValueLocation::Slot { .. })
    };
    let is_step = |step: &Step| match step {
        Step::Evaluate(stream, Target::Expired(_)) => plan.rules[*stream].as_ref().is_some_and(is_simple),
        _ => false,
    };
    let families = plan.instance_timers.iter().map(|timer| &plan.families[timer.family]);
    steps.iter().all(is_step) && families.into_iter().all(|family| family.is_parameterised)
}

impl StepEmitter<'_, '_> {
    /// Emits the loop. It runs what is due up to the time in the context, within the budget, and stores in `idle_until`
    /// when something is due next.
    ///
    /// It returns early, with the rest untouched, at what only the runtime can do: several timers at one time, several
    /// instances of one timer, an instance that has ended, a clock whose ticks cannot be skipped, or an instant with
    /// verdicts to emit.
    pub(super) fn deadline_loop(&mut self, at_deadlines: &[Step], at_ticks: &[Vec<Step>]) {
        let [head, idle, due, run, leave] = [(); 5].map(|()| self.expr.builder.create_block());
        self.expr.builder.ins().jump(head, &[]);
        self.expr.switch_with_empty_cache(head);
        let next = self.load_next_due();
        let saved = self.expr.save_state();
        let is_due = self.expr.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, next.at, next.until);
        self.expr.builder.ins().brif(is_due, due, &[], idle, &[]);

        self.expr.switch_to_saved(idle, &saved);
        self.set_idle_and_leave(next.at, leave);

        self.expr.switch_to_saved(due, &saved);
        let context = self.expr.context;
        let budget = self.expr.load(I64, context, offset_of!(VmContext, budget));
        self.expr.builder.ins().brif(budget, run, &[], leave, &[]);
        self.expr.switch_to_successor(run);
        let less = self.expr.builder.ins().iadd_imm(budget, -1);
        self.expr.store(less, context, offset_of!(VmContext, budget));
        for (clock, steps) in at_ticks.iter().enumerate() {
            let tick = self.expr.builder.create_block();
            let other = self.expr.builder.create_block();
            let saved = self.expr.save_state();
            let is_first = self.expr.builder.ins().icmp(IntCC::Equal, next.ticks[clock], next.at);
            self.expr.builder.ins().brif(is_first, tick, &[], other, &[]);
            self.expr.switch_to_successor(tick);
            if self.plan.is_skippable(clock) {
                self.leave_unless_alone(clock, &next, leave);
                self.run_tick(clock, &next, steps, [head, leave]);
            } else {
                self.expr.builder.ins().jump(leave, &[]);
            }
            self.expr.switch_to_saved(other, &saved);
        }
        self.run_deadlines(&next, at_deadlines, [head, leave]);
        self.expr.switch_with_empty_cache(leave);
    }

    /// Nothing is due before a time: stores it and leaves the loop.
    fn set_idle_and_leave(&mut self, until: Value, leave: Block) {
        let idle_until = self.expr.load(I64, self.expr.context, offset_of!(VmContext, idle_until));
        self.expr.store(until, idle_until, 0);
        self.expr.builder.ins().jump(leave, &[]);
    }

    /// Loads when something is due next.
    fn load_next_due(&mut self) -> NextDue {
        let context = self.expr.context;
        let mut first_deadline = self.expr.iconst(u64::MAX);
        let mut deadlines = Vec::new();
        for number in 0..self.plan.instance_timers.len() {
            let header = self.expr.context_word(self.expr.offsets.queue(number) + QUEUE_HEADER);
            let at = self.expr.load(I64, header, offset_of!(QueueHeader, next));
            first_deadline = self.expr.builder.ins().umin(first_deadline, at);
            deadlines.push(at);
        }
        let ticks = self.expr.load(I64, context, offset_of!(VmContext, ticks));
        let clocks = 0..self.plan.clocks.len();
        let ticks: Vec<Value> = clocks.map(|clock| self.expr.load(I64, ticks, 8 * clock)).collect();
        let mut at = first_deadline;
        for tick in &ticks {
            at = self.expr.builder.ins().umin(at, *tick);
        }
        NextDue {
            at,
            first_deadline,
            deadlines,
            ticks,
            until: self.expr.load(I64, context, offset_of!(VmContext, until)),
        }
    }

    /// Leaves the loop if something else is due at the same time as a clock, as its steps may come in between.
    fn leave_unless_alone(&mut self, clock: usize, next: &NextDue, leave: Block) {
        let mut others: Vec<Value> = next.ticks.clone();
        others[clock] = next.first_deadline;
        for other in others {
            let alone = self.expr.builder.create_block();
            let is_same_time = self.expr.builder.ins().icmp(IntCC::Equal, other, next.at);
            self.expr.builder.ins().brif(is_same_time, leave, &[], alone, &[]);
            self.expr.switch_to_successor(alone);
        }
    }

    /// Runs a tick. If all its tasks are idle, so are its later ticks, until something else is due or an event
    /// [lowers](Self::lower_idle_until) `idle_until`: all of them are skipped at once.
    fn run_tick(&mut self, clock: usize, next: &NextDue, steps: &[Step], [head, leave]: [Block; 2]) {
        let (period, tasks) = &self.plan.clocks[clock];
        let [work, skip] = [(); 2].map(|()| self.expr.builder.create_block());
        let is_active = self.is_active(tasks);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(is_active, work, &[], skip, &[]);

        self.expr.switch_to_successor(skip);
        let others = next.ticks.iter().enumerate().filter(|(other, _)| *other != clock);
        let mut other = next.first_deadline;
        for (_, tick) in others {
            other = self.expr.builder.ins().umin(other, *tick);
        }
        let end = self.expr.builder.ins().iadd_imm(next.until, 1);
        let then = self.expr.builder.ins().umin(other, end);
        let after = self.first_tick_from(then, next.at, *period);
        self.store_tick(clock, after);
        let idle = self.expr.builder.create_block();
        let is_over = self.expr.builder.ins().icmp(IntCC::UnsignedGreaterThan, other, next.until);
        self.expr.builder.ins().brif(is_over, idle, &[], head, &[]);
        self.expr.switch_to_successor(idle);
        self.set_idle_and_leave(other, leave);

        self.expr.switch_to_saved(work, &saved);
        let after = self.expr.add_saturating(next.at, *period);
        self.store_tick(clock, after);
        self.start_instant(next.at);
        steps.iter().for_each(|step| self.emit_step(step));
        self.end_closing();
        self.clear_fresh();
        // Code after this tick is reached from elsewhere too, where these values are not defined.
        self.expr.spawned.fill(None);
        let is_quiet = self.expr.call(runtime_calls::is_quiet as *const u8, &[]);
        self.expr.builder.ins().brif(is_quiet, head, &[], leave, &[]);
    }

    /// The first tick of a clock at or after a time. `tick` is one before it, usually the last: only if ticks were
    /// skipped does it take a division.
    fn first_tick_from(&mut self, time: Value, tick: Value, period: u64) -> Value {
        let [far, done] = [(); 2].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(far);
        let from = self.expr.builder.append_block_param(done, I64);
        let saved = self.expr.save_state();
        let after = self.expr.add_saturating(tick, period);
        let is_next = self.expr.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, after, time);
        self.expr.builder.ins().brif(is_next, done, &[after.into()], far, &[]);
        self.expr.switch_to_saved(far, &saved);
        let before = self.expr.builder.ins().iadd_imm(time, -1);
        let number = self.expr.divide(before, period);
        let length = self.expr.iconst(period);
        let start = self.expr.builder.ins().imul(number, length);
        let after = self.expr.add_saturating(start, period);
        self.expr.builder.ins().jump(done, &[after.into()]);
        self.expr.switch_to_saved(done, &saved);
        from
    }

    /// Stores the next tick of a clock.
    fn store_tick(&mut self, clock: usize, tick: Value) {
        let ticks = self.expr.load(I64, self.expr.context, offset_of!(VmContext, ticks));
        self.expr.store(tick, ticks, 8 * clock);
    }

    /// Not 0 if one of these tasks may change or emit something.
    fn is_active(&mut self, tasks: &[Task]) -> Value {
        let mut activity = self.expr.iconst(0);
        for task in tasks {
            let reader = match *task {
                Task::Evaluate(stream) => Reader::Stream(stream),
                Task::Close(family) | Task::Spawn(family) => Reader::Family(family),
            };
            let dirty_word = self.dirty_word(reader);
            activity = self.expr.builder.ins().bor(activity, dirty_word);
            // Held values are emitted at every tick. Without a rule, that is assumed.
            if let Task::Evaluate(stream) = *task
                && !self.plan.emission[stream].is_companion
                && self.plan.rules[stream].as_ref().is_none_or(|rule| rule.emits_held)
            {
                let current_holders = stream_offset(stream)
                    + offset_of!(StreamState, current_holders)
                    + offset_of!(HolderSet, count);
                let current_holders = self.expr.load(I64, self.expr.streams, current_holders);
                activity = self.expr.builder.ins().bor(activity, current_holders);
            }
        }
        activity
    }

    /// Starts an instant at a time.
    fn start_instant(&mut self, now: Value) {
        let store = self.expr.load(I64, self.expr.context, offset_of!(VmContext, store));
        self.expr.store(now, store, offset_of!(Store, now));
        let instant = self.expr.load(I64, store, offset_of!(Store, instant));
        let instant = self.expr.builder.ins().iadd_imm(instant, 1);
        self.expr.store(instant, store, offset_of!(Store, instant));
    }

    /// Runs the deadlines at a time, of at most one instance for each timer.
    fn run_deadlines(&mut self, next: &NextDue, steps: &[Step], [head, leave]: [Block; 2]) {
        // All timers are examined before the first queue is changed, so that the loop can still be left.
        let fronts: Vec<QueueFront> =
            (0..next.deadlines.len()).map(|instance_timer| self.load_front(instance_timer)).collect();
        let due: Vec<(Value, Value)> = fronts
            .iter()
            .enumerate()
            .map(|(instance_timer, front)| self.single_due_slot(instance_timer, front, next, leave))
            .collect();
        for (instance_timer, (front, (is_due, slot))) in fronts.iter().zip(&due).enumerate() {
            self.requeue(instance_timer, front, next.at, [*is_due, *slot]);
        }
        self.start_instant(next.at);
        for step in steps {
            let Step::Evaluate(stream, Target::Expired(instance_timer)) = step else { continue };
            let Some(rule) = &self.plan.rules[*stream] else { continue };
            let (is_due, slot) = due[*instance_timer];
            let region = self.expr.begin_if(is_due);
            let instance = self.expr.instance(rule.family, slot);
            self.evaluate(*stream, rule, Some(instance));
            self.expr.end_if(region);
        }
        self.expr.builder.ins().jump(head, &[]);
    }

    /// Loads the words of a deadline queue.
    fn load_front(&mut self, instance_timer: usize) -> QueueFront {
        let offsets = self.expr.offsets;
        let [ring, last, header] = [RING, LAST_POSITION, QUEUE_HEADER]
            .map(|at| self.expr.context_word(offsets.queue(instance_timer) + at));
        let [first, count] = [offset_of!(QueueHeader, first), offset_of!(QueueHeader, count)]
            .map(|at| self.expr.load(I64, header, at));
        let due = self.deadline_address(ring, last, first);
        QueueFront { ring, last, header, first, count, due }
    }

    /// The address of a position in a ring, modulo its size.
    fn deadline_address(&mut self, ring: Value, last: Value, position: Value) -> Value {
        let position = self.expr.builder.ins().band(position, last);
        let at = self.expr.builder.ins().imul_imm(position, size_of::<Deadline>() as i64);
        self.expr.builder.ins().iadd(ring, at)
    }

    /// Whether a timer is due, and the slot of its instance. Continues at `otherwise` if several instances are due, or
    /// if the instance has ended.
    fn single_due_slot(
        &mut self,
        instance_timer: usize,
        front: &QueueFront,
        next: &NextDue,
        otherwise: Block,
    ) -> (Value, Value) {
        let family = self.plan.instance_timers[instance_timer].family;
        let [examine, done] = [(); 2].map(|()| self.expr.builder.create_block());
        let slot = self.expr.builder.append_block_param(done, I64);
        let is_due = self.expr.builder.ins().icmp(IntCC::Equal, next.deadlines[instance_timer], next.at);
        let saved = self.expr.save_state();
        let no_slot = self.expr.iconst(0);
        self.expr.builder.ins().brif(is_due, examine, &[], done, &[no_slot.into()]);
        self.expr.switch_to_successor(examine);
        let number = self.expr.load(I32, front.due, offset_of!(Deadline, slot));
        let number = self.expr.builder.ins().uextend(I64, number);
        let instance = self.expr.instance(family, number);
        let generation = self.expr.load(I64, instance.words, 8 * GENERATION);
        let expected = self.expr.load(I64, front.due, offset_of!(Deadline, generation));
        let is_live = self.expr.builder.ins().icmp(IntCC::Equal, generation, expected);
        // Where there is no second deadline, its position holds an arbitrary one, possibly the first.
        let second = self.expr.builder.ins().iadd_imm(front.first, 1);
        let second = self.deadline_address(front.ring, front.last, second);
        let at = self.expr.load(I64, second, offset_of!(Deadline, at));
        let is_later = self.expr.builder.ins().icmp(IntCC::NotEqual, at, next.at);
        let is_only = self.expr.builder.ins().icmp_imm(IntCC::Equal, front.count, 1);
        let is_only = self.expr.builder.ins().bor(is_only, is_later);
        let is_supported = self.expr.builder.ins().band(is_live, is_only);
        self.expr.builder.ins().brif(is_supported, done, &[number.into()], otherwise, &[]);
        self.expr.switch_to_saved(done, &saved);
        (is_due, slot)
    }

    /// Moves the first deadline to the end of its queue, one period later, if it is due.
    fn requeue(
        &mut self,
        instance_timer: usize,
        front: &QueueFront,
        next: Value,
        [is_due, slot]: [Value; 2],
    ) {
        let region = self.expr.begin_if(is_due);
        let generation = self.expr.load(I64, front.due, offset_of!(Deadline, generation));
        let at = self.expr.add_saturating(next, self.plan.instance_timers[instance_timer].period);
        let end = self.expr.builder.ins().iadd(front.first, front.count);
        let due = self.deadline_address(front.ring, front.last, end);
        self.expr.store(at, due, offset_of!(Deadline, at));
        self.expr.store(generation, due, offset_of!(Deadline, generation));
        let slot = self.expr.builder.ins().ireduce(I32, slot);
        self.expr.store(slot, due, offset_of!(Deadline, slot));
        let first = self.expr.builder.ins().iadd_imm(front.first, 1);
        let first = self.expr.builder.ins().band(first, front.last);
        self.expr.store(first, front.header, offset_of!(QueueHeader, first));
        let due = self.deadline_address(front.ring, front.last, first);
        let at = self.expr.load(I64, due, offset_of!(Deadline, at));
        self.expr.store(at, front.header, offset_of!(QueueHeader, next));
        self.expr.end_if(region);
    }
}
