//! Deadlines of instances, and thresholds of tick counters: pushes them at spawn, retires them at close.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::expr::SlotRef;
use super::runtime_calls;
use super::steps::StepEmitter;
use super::value_cache::Invalidation;
use super::vm_context::{LAST_POSITION, QUEUE_HEADER, RING, VmContext};
use crate::compiled::ir::counter::TickCounter;
use crate::compiled::store::deadline_queue::{Deadline, QueueHeader, STALE_LIMIT};
use crate::compiled::store::state::Store;

/// A deadline to be pushed.
struct NewDeadline {
    /// The offset of its queue from the context, as in [`VmOffsets::queue`](super::vm_context::VmOffsets::queue).
    queue: usize,
    /// When it is due, in the unit of the queue: nanoseconds, or ticks of a counter.
    due: Value,
    /// When it is due, in nanoseconds.
    time: Value,
}

impl StepEmitter<'_, '_> {
    /// Arms the timers of an instance, as in [`Cx::arm_timers`](crate::compiled::exec::cx::Cx::arm_timers), for a
    /// family whose close has no deadlines.
    pub(super) fn arm_timers(&mut self, family: usize, slot: Value, generation: Value) {
        let plan = &self.plan;
        let instance_timers = plan.families[family].instance_timers.as_slice();
        if instance_timers.is_empty() {
            return;
        }
        let now = self.expr.load_from_store(offset_of!(Store, now));
        let deadline = |instance_timer: &usize| {
            let due = self.expr.add_saturating(now, plan.instance_timers[*instance_timer].period);
            NewDeadline { queue: self.expr.offsets.queue(*instance_timer), due, time: due }
        };
        let deadlines: Vec<NewDeadline> = instance_timers.iter().map(deadline).collect();
        self.push_deadlines(&deadlines, [slot, generation], |emitter| {
            let family = emitter.expr.iconst(family as u64);
            emitter.expr.call_with(runtime_calls::arm_timers as *const u8, &[family, slot, generation]);
        });
    }

    /// Starts the counters and windows of an instance, as in
    /// [`Cx::start_members`](crate::compiled::exec::cx::Cx::start_members).
    pub(super) fn start_members(&mut self, family: usize, instance: SlotRef, generation: Value) {
        let plan = self.plan;
        let members = plan.families[family].members.iter();
        let counters: Vec<(usize, TickCounter)> = members
            .filter(|member| self.counter_dependents(**member).is_some())
            .filter_map(|member| Some((*member, plan.streams[*member].eval.counter?)))
            .collect();
        let call = |emitter: &mut Self| {
            let family = emitter.expr.iconst(family as u64);
            emitter
                .expr
                .call_keeping_idle(runtime_calls::start_members as *const u8, &[family, instance.slot]);
        };
        if self.must_call_start_members(family, &counters) {
            call(self);
            return self.expr.invalidate(Invalidation::Addresses);
        }
        let mut deadlines = Vec::new();
        for (stream, counter) in counters {
            let ticks = self.expr.ticks(stream, counter.period);
            self.expr.store(ticks, instance.words, 8 * plan.streams[stream].member.value());
            for (number, after) in plan.streams[stream].eval.thresholds.iter().enumerate() {
                let due = self.expr.builder.ins().iadd_imm(ticks, after.cast_signed());
                let period = self.expr.iconst(counter.period);
                let time = self.expr.builder.ins().imul(due, period);
                deadlines.push(NewDeadline {
                    queue: self.expr.offsets.threshold_queue(plan, stream, number),
                    due,
                    time,
                });
            }
        }
        self.push_deadlines(&deadlines, [instance.slot, generation], call);
    }

    /// Pushes deadlines of one instance if all their queues have room; otherwise emits `full` in a cold block.
    fn push_deadlines(
        &mut self,
        deadlines: &[NewDeadline],
        [slot, generation]: [Value; 2],
        full: impl FnOnce(&mut Self),
    ) {
        if deadlines.is_empty() {
            return;
        }
        let [push, call, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(call);
        let layout = |deadline: &NewDeadline| {
            let [ring, last, header] =
                [RING, LAST_POSITION, QUEUE_HEADER].map(|at| self.expr.context_word(deadline.queue + at));
            [ring, last, header, self.expr.load(I64, header, offset_of!(QueueHeader, count))]
        };
        let layouts: Vec<[Value; 4]> = deadlines.iter().map(layout).collect();
        let mut has_room = self.expr.iconst8(1);
        for [_, last, _, count] in &layouts {
            // An empty ring has -1 as its last position.
            let is_full = self.expr.builder.ins().icmp(IntCC::SignedGreaterThan, *count, *last);
            let is_not_full = self.expr.builder.ins().bxor_imm(is_full, 1);
            has_room = self.expr.builder.ins().band(has_room, is_not_full);
        }
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(has_room, push, &[], call, &[]);
        self.expr.switch_to_saved(call, &saved);
        full(self);
        self.expr.invalidate(Invalidation::Addresses);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_successor(push);
        let idle_until = self.expr.load(I64, self.expr.context, offset_of!(VmContext, idle_until));
        let mut soonest = self.expr.load(I64, idle_until, 0);
        for (deadline, [ring, last, header, count]) in deadlines.iter().zip(layouts) {
            soonest = self.expr.builder.ins().umin(soonest, deadline.time);
            let first = self.expr.load(I64, header, offset_of!(QueueHeader, first));
            let position = self.expr.builder.ins().iadd(first, count);
            let position = self.expr.builder.ins().band(position, last);
            let at = self.expr.builder.ins().imul_imm(position, size_of::<Deadline>() as i64);
            let address = self.expr.builder.ins().iadd(ring, at);
            self.expr.store(deadline.due, address, offset_of!(Deadline, at));
            self.expr.store(generation, address, offset_of!(Deadline, generation));
            let slot = self.expr.builder.ins().ireduce(I32, slot);
            self.expr.store(slot, address, offset_of!(Deadline, slot));
            self.increment(header, offset_of!(QueueHeader, count));
            let next = self.expr.load(I64, header, offset_of!(QueueHeader, next));
            let next = self.expr.builder.ins().umin(next, deadline.due);
            self.expr.store(next, header, offset_of!(QueueHeader, next));
        }
        self.expr.store(soonest, idle_until, 0);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// Counts the deadlines of `ended` instances as stale, as in
    /// [`DeadlineQueue::retire`](crate::compiled::store::deadline_queue::DeadlineQueue::retire). Once more than
    /// [`STALE_LIMIT`] may be, a runtime call in a cold block removes them.
    pub(super) fn retire_deadlines(&mut self, family: usize, ended: Value) {
        let queues = self.queues_of(family);
        let mut are_many = None;
        for queue in &queues {
            let header = self.expr.context_word(queue + QUEUE_HEADER);
            let recently_stale = self.expr.load(I64, header, offset_of!(QueueHeader, recently_stale));
            let recently_stale = self.expr.builder.ins().iadd(recently_stale, ended);
            let exceeds_limit = self.expr.builder.ins().icmp_imm(
                IntCC::UnsignedGreaterThan,
                recently_stale,
                STALE_LIMIT as i64,
            );
            are_many = Some(match are_many {
                Some(others) => self.expr.builder.ins().bor(exceeds_limit, others),
                None => exceeds_limit,
            });
        }
        let Some(are_many) = are_many else { return };
        let [few, many, done] = [(); 3].map(|()| self.expr.builder.create_block());
        self.expr.builder.set_cold_block(many);
        let saved = self.expr.save_state();
        self.expr.builder.ins().brif(are_many, many, &[], few, &[]);
        self.expr.switch_to_saved(many, &saved);
        let number = self.expr.iconst(family as u64);
        self.expr.call_with(runtime_calls::retire_deadlines as *const u8, &[number, ended]);
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(few, &saved);
        for queue in &queues {
            let header = self.expr.context_word(queue + QUEUE_HEADER);
            for at in [offset_of!(QueueHeader, stale), offset_of!(QueueHeader, recently_stale)] {
                let before = self.expr.load(I64, header, at);
                let after = self.expr.builder.ins().iadd(before, ended);
                self.expr.store(after, header, at);
            }
        }
        self.expr.builder.ins().jump(done, &[]);
        self.expr.switch_to_saved(done, &saved);
    }

    /// The deadline queues with entries of the instances of a family, as offsets from the context.
    fn queues_of(&self, family: usize) -> Vec<usize> {
        let (plan, offsets) = (self.plan, self.expr.offsets);
        let members = plan.families[family].members.iter();
        let counters = members.filter(|member| self.counter_dependents(**member).is_some());
        let thresholds = counters.flat_map(|stream| {
            let numbers = 0..plan.streams[*stream].eval.thresholds.len();
            numbers.map(|number| offsets.threshold_queue(plan, *stream, number))
        });
        plan.families[family]
            .instance_timers
            .iter()
            .map(|instance_timer| offsets.queue(*instance_timer))
            .chain(thresholds)
            .collect()
    }
}

impl StepEmitter<'_, '_> {
    /// Whether a runtime call must start the members: a window needs more than its word in the slot to be zero, or the
    /// time of a threshold may exceed 63 bits.
    fn must_call_start_members(&self, family: usize, counters: &[(usize, TickCounter)]) -> bool {
        let needs_call = |window: &usize| {
            let window = &self.plan.windows[*window];
            window.last_decisive.is_none() || window.outlasts
        };
        let has_such_window = |member: &usize| self.plan.streams[*member].windows.iter().any(needs_call);
        let is_out_of_range = |(stream, counter): &(usize, TickCounter)| {
            let exceeds =
                |after: &u64| i64::try_from(u128::from(*after) * u128::from(counter.period)).is_err();
            self.plan.streams[*stream].eval.thresholds.iter().any(exceeds)
        };
        self.plan.families[family].members.iter().any(has_such_window) || counters.iter().any(is_out_of_range)
    }
}
