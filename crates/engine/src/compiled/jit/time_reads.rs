//! Reads of the clock: tick counters, and windows that are stored as [one word](LastDecisive).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::dirty::stream_offset;
use super::expr::{ExprEmitter, Run, SlotRef};
use super::vm_context::VmContext;
use crate::compiled::ir::counter::TickCounter;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::window::LastDecisive;
use crate::compiled::store::state::{Store, StreamState};

/// Magic-number division: the quotient of a number below 2⁶³ is the upper half of its product with `factor`, shifted
/// right by `shift`. The divisor must not be a power of two.
struct MagicDivisor {
    factor: u64,
    shift: u32,
}

impl MagicDivisor {
    fn new(divisor: u64) -> MagicDivisor {
        // The divisor lies between 2^(bits - 1) and 2^bits. Rounding 2^(63 + bits) / divisor up adds less than 1, so the
        // product with a number below 2⁶³ grows by less than 2⁶³: too little to reach the next quotient.
        let bits = u64::BITS - divisor.leading_zeros();
        let factor = (1_u128 << (63 + bits)) / u128::from(divisor) + 1;
        MagicDivisor { factor: factor as u64, shift: bits - 1 }
    }
}

impl ExprEmitter<'_, '_> {
    /// Loads a word of the store, such as the time of this instant.
    pub(super) fn load_from_store(&mut self, at: usize) -> Value {
        let store = self.load(I64, self.context, offset_of!(VmContext, store));
        self.load(I64, store, at)
    }

    /// The bucket of a window that the current time belongs to, as in
    /// [`bucket`](crate::compiled::store::window::bucketed::bucket).
    fn current_bucket(&mut self, size: u64) -> Value {
        let now = self.load_from_store(offset_of!(Store, now));
        let has_begun = self.builder.ins().icmp_imm(IntCC::NotEqual, now, 0);
        let has_begun = self.builder.ins().uextend(I64, has_begun);
        let before = self.builder.ins().isub(now, has_begun);
        let full = self.divide(before, size);
        self.builder.ins().iadd(full, has_begun)
    }

    /// Divides a time by a constant other than 0: by a shift, or by magic-number division. Times of 2⁶³ and more take a
    /// cold block with a division instruction.
    pub(super) fn divide(&mut self, time: Value, by: u64) -> Value {
        if by.is_power_of_two() {
            return self.builder.ins().ushr_imm(time, i64::from(by.trailing_zeros()));
        }
        let [near, far, done] = [(); 3].map(|()| self.builder.create_block());
        self.builder.set_cold_block(far);
        let quotient = self.builder.append_block_param(done, I64);
        let is_far = self.builder.ins().icmp_imm(IntCC::SignedLessThan, time, 0);
        let saved = self.save_state();
        self.builder.ins().brif(is_far, far, &[], near, &[]);
        self.switch_to_saved(far, &saved);
        let divisor = self.iconst(by);
        let by_division = self.builder.ins().udiv(time, divisor);
        self.builder.ins().jump(done, &[by_division.into()]);
        self.switch_to_saved(near, &saved);
        let MagicDivisor { factor, shift } = MagicDivisor::new(by);
        let factor = self.iconst(factor);
        let high = self.builder.ins().umulhi(time, factor);
        let by_product = self.builder.ins().ushr_imm(high, i64::from(shift));
        self.builder.ins().jump(done, &[by_product.into()]);
        self.switch_to_saved(done, &saved);
        quotient
    }

    /// Enters a new value of an instance into a window: a decisive one replaces the stored bucket.
    pub(super) fn accept_window(&mut self, window: &LastDecisive, instance: SlotRef, value: Value) {
        let decides = self.builder.ins().icmp_imm(IntCC::Equal, value, i64::from(window.decides));
        let (at, size) = (8 * window.at, window.size);
        self.emit_if(decides, |expr| {
            let bucket = expr.current_bucket(size);
            let word = expr.builder.ins().iadd_imm(bucket, 1);
            expr.store(word, instance.words, at);
        });
    }

    /// Stores a flag, and the value of a window over the instance with a key. `false`, without emitting anything, if
    /// the window or the family is not simple enough.
    pub(super) fn read_window(
        &mut self,
        (run, at): (Run, usize),
        window: usize,
        key: FrameSlot,
        to: FrameSlot,
    ) -> bool {
        let plan = &self.plan.windows[window];
        let (Some(last_decisive), Some(target)) = (plan.last_decisive, plan.target) else { return false };
        let family = self.plan.streams[target].family;
        if !self.plan.families[family].indexes.is_empty() {
            return false;
        }
        let read = |expr: &mut Self, instance: SlotRef| {
            let word = expr.load(I64, instance.words, 8 * last_decisive.at);
            let bucket = expr.current_bucket(last_decisive.size);
            let after = expr.builder.ins().isub(bucket, word);
            let age = expr.builder.ins().iadd_imm(after, 1);
            let count = expr.iconst(last_decisive.count);
            let is_recent = expr.builder.ins().icmp(IntCC::UnsignedLessThan, age, count);
            let has_decided = expr.builder.ins().icmp_imm(IntCC::NotEqual, word, 0);
            let is_inside = expr.builder.ins().band(is_recent, has_decided);
            let value = expr.builder.ins().bxor_imm(is_inside, i64::from(!last_decisive.decides));
            vec![expr.builder.ins().uextend(I64, value)]
        };
        // The instance may have closed: a runtime call reads the windows that outlast it.
        let width = self.plan.streams[target].param_width;
        let value = self.read_by_key(family, key, 1, read, |expr| {
            expr.flush_for_runtime(key, width);
            let failed = expr.call_run_op(run, at);
            expr.invalidate_words(to, 2);
            expr.return_if_failed(failed);
            vec![expr.reload(to + 1)]
        });
        let present = self.iconst(1);
        self.store_slot(to, present);
        self.store_slot(to + 1, value[0]);
        true
    }

    /// Stores a flag, and the value of a counter: of the instance with a key, or of the current one. `false`, without
    /// emitting anything, if a runtime call must read it.
    pub(super) fn read_counter(
        &mut self,
        run: Run,
        stream: usize,
        key: Option<FrameSlot>,
        to: FrameSlot,
    ) -> bool {
        let plan = &self.plan.streams[stream];
        let Some(counter) =
            plan.eval.counter.filter(|counter| self.computed_on_read[stream] && counter.always_fits())
        else {
            return false;
        };
        let Some(key) = key else {
            let Some(instance) = run.instance else { return false };
            let [has, value] = self.counter_value(stream, &counter, instance);
            self.store_slot(to, has);
            self.store_slot(to + 1, value);
            return true;
        };
        if !self.plan.families[plan.family].indexes.is_empty() {
            return false;
        }
        let words = self.read_by_key(
            plan.family,
            key,
            2,
            |expr, instance| expr.counter_value(stream, &counter, instance).to_vec(),
            |expr| vec![expr.iconst(0); 2],
        );
        (to..).zip(words).for_each(|(to, word)| self.store_slot(to, word));
        true
    }

    /// How many ticks of its clock a counter has seen, as in [`StreamState::ticks`].
    pub(super) fn ticks(&mut self, stream: usize, period: u64) -> Value {
        let now = self.load_from_store(offset_of!(Store, now));
        let instant = self.load_from_store(offset_of!(Store, instant));
        let last_tick_instant =
            self.load(I64, self.streams, stream_offset(stream) + offset_of!(StreamState, last_tick_instant));
        // A tick at this very instant counts once the step of the counter has run.
        let is_later = self.builder.ins().icmp(IntCC::NotEqual, last_tick_instant, instant);
        let is_past = self.builder.ins().icmp_imm(IntCC::NotEqual, now, 0);
        let less = self.builder.ins().band(is_later, is_past);
        let less = self.builder.ins().uextend(I64, less);
        let until = self.builder.ins().isub(now, less);
        self.divide(until, period)
    }

    /// Whether an instance of a counter has a value, and the value, as in [`Store::count`].
    fn counter_value(&mut self, stream: usize, counter: &TickCounter, instance: SlotRef) -> [Value; 2] {
        let ticks = self.ticks(stream, counter.period);
        let spawned = self.load(I64, instance.words, 8 * self.plan.streams[stream].member.value());
        let since = self.builder.ins().isub(ticks, spawned);
        let has = self.builder.ins().icmp_imm(IntCC::NotEqual, since, 0);
        let has = self.builder.ins().uextend(I64, has);
        let step = self.iconst(counter.step as u64);
        let more = self.builder.ins().imul(since, step);
        let before = self.iconst((counter.first - counter.step) as u64);
        [has, self.builder.ins().iadd(before, more)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quotient(number: u64, divisor: u64) -> u64 {
        let MagicDivisor { factor, shift } = MagicDivisor::new(divisor);
        ((u128::from(number) * u128::from(factor)) >> 64) as u64 >> shift
    }

    proptest! {
        #[test]
        fn multiplication_divides(number in 0..1_u64 << 63, divisor in 3..=u64::MAX, bits in 0..62_u32) {
            let divisor = (divisor >> bits).max(3);
            prop_assume!(!divisor.is_power_of_two());
            for number in [number, number / divisor * divisor, (number / divisor * divisor).saturating_sub(1)] {
                prop_assert_eq!(quotient(number, divisor), number / divisor);
            }
            let last = (1 << 63) - 1;
            prop_assert_eq!(quotient(last, divisor), last / divisor);
        }
    }
}
