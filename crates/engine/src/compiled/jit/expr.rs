//! Emits the bytecode of expressions, and the basic instructions that all emitters use.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I8, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Inst, InstBuilder, MemFlags, SigRef, Signature, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::float_range::FloatRange;
use super::grouping::is_read_inline;
use super::lookup::Spawned;
use super::runtime_calls;
use super::value_cache::{CacheState, DeadStores, Invalidation, ValueCache};
use super::vm_context::VmContext;
use super::vm_context::VmOffsets;
use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::layout::Member;
use crate::compiled::ir::op::{FrameSlot, Op};
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::aggregate::group::GroupedAggregate;
use crate::compiled::store::state::{FamilyState, Store, WHOLE};

/// The most words that the value of an aggregate has.
const MAX_AGGREGATE_WORDS: usize = 2;

/// Values of up to this many words are copied word by word, wider ones by a runtime call.
pub(super) const MAX_INLINE_WORDS: usize = 8;

/// Emits instructions of one function, and caches the values of words.
pub(super) struct ExprEmitter<'p, 'f> {
    pub(super) builder: FunctionBuilder<'f>,
    pub(super) plan: &'p Plan,
    /// The grouped aggregates, for the layout of their groups.
    pub(super) grouped: &'p [GroupedAggregate],
    /// The families, for the layout of their slots.
    pub(super) families: &'p [FamilyState],
    /// For each stream, whether it is a tick counter that is computed on read.
    pub(super) computed_on_read: Vec<bool>,
    /// For each family, the instance that its spawn step has spawned or found.
    pub(super) spawned: Vec<Option<Spawned>>,
    /// The inputs of the event; 0 at ticks and deadlines.
    pub(super) present: u128,
    /// The argument of the function: the address of the context.
    pub(super) context: Value,
    /// Where the context has the addresses of data structures.
    pub(super) offsets: VmOffsets,
    /// The address of the frame.
    pub(super) frame: Value,
    /// The address of the states of streams.
    pub(super) streams: Value,
    /// What is cached at the current point.
    pub(super) cache: ValueCache,
    /// Every invalidation so far, in the order of emission.
    pub(super) invalidations: Vec<Invalidation>,
    pub(super) dead_stores: DeadStores,
    /// Returns from the function with an error.
    pub(super) failed: Block,
    /// Signatures of runtime calls, by their number of arguments.
    signatures: [Option<SigRef>; 7],
}

/// A conditional expression whose branches only copy a word. It becomes a branchless select.
struct Select {
    flag: FrameSlot,
    a: FrameSlot,
    b: FrameSlot,
    to: FrameSlot,
}

impl Select {
    const OPS: usize = 4;

    /// Matches the four operations of such an expression, unless something else jumps into them.
    fn at(ops: &[Op], at: usize) -> Option<Select> {
        let [
            Op::JumpUnless { flag, to: otherwise },
            Op::Copy { from: a, to },
            Op::Jump { to: done },
            Op::Copy { from: b, to: also },
        ] = *ops.get(at..at + Select::OPS)?
        else {
            return None;
        };
        let is_select = to == also && otherwise as usize == at + 3 && done as usize == at + Select::OPS;
        let inside = at + 1..at + Select::OPS;
        let jumps = ops.iter().filter_map(target).filter(|to| inside.contains(to)).count();
        (is_select && jumps == 1).then_some(Select { flag, a, b, to })
    }
}

/// The jump targets of a program. Jumps only go forward.
struct Labels {
    /// The cache at the start of the program, which holds at every label.
    entry: CacheState,
    /// For each operation that is a target, its block, and the cache at each jump to it.
    blocks: Vec<Option<(Block, Vec<CacheState>)>>,
}

impl Labels {
    /// The block of a label, which gets one more predecessor.
    fn add_predecessor(&mut self, to: u32, state: CacheState) -> Option<Block> {
        let (block, predecessors) = self.blocks[to as usize].as_mut()?;
        predecessors.push(state);
        Some(*block)
    }
}

/// The slot of an instance.
#[derive(Clone, Copy)]
pub(super) struct SlotRef {
    /// Its number.
    pub(super) slot: Value,
    /// The address of its words.
    pub(super) words: Value,
}

/// A run of a program, for a stream and possibly an instance of it.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) stream: usize,
    pub(super) program: usize,
    pub(super) instance: Option<SlotRef>,
}

impl<'p, 'f> ExprEmitter<'p, 'f> {
    pub(super) fn new(
        builder: FunctionBuilder<'f>,
        (plan, state): (&'p Plan, &'p Store),
        present: u128,
        [context, frame, streams]: [Value; 3],
        failed: Block,
    ) -> ExprEmitter<'p, 'f> {
        ExprEmitter {
            builder,
            plan,
            grouped: &state.grouped,
            families: &state.families,
            computed_on_read: state.streams.iter().map(|stream| stream.is_computed_on_read).collect(),
            spawned: vec![None; plan.families.len()],
            present,
            context,
            offsets: VmOffsets::new(plan),
            frame,
            streams,
            cache: ValueCache::default(),
            invalidations: Vec::new(),
            dead_stores: DeadStores::new(plan),
            failed,
            signatures: [None; 7],
        }
    }

    /// Emits a program, which continues at `yields` or at `ends`. The state of the cache where it yields, or at its
    /// start if it yields in several places.
    pub(super) fn emit_program(&mut self, run: Run, yields: Block, ends: Block) -> CacheState {
        let mut at_yield = Vec::new();
        let plan = self.plan;
        let ops = plan.programs[run.program].ops.as_slice();
        let mut labels = Labels { entry: self.save_state(), blocks: vec![None; ops.len() + 1] };
        for to in ops.iter().filter_map(target) {
            labels.blocks[to].get_or_insert_with(|| (self.builder.create_block(), Vec::new()));
        }
        let mut is_reachable = true;
        let mut fused_until = 0;
        for (at, op) in ops.iter().enumerate() {
            if at < fused_until {
                continue;
            }
            is_reachable |= self.bind_label(&mut labels, at, is_reachable);
            if !is_reachable {
                continue;
            }
            if let Some(select) = Select::at(ops, at) {
                self.emit_select(&select);
                fused_until = at + Select::OPS;
                continue;
            }
            is_reachable = match op {
                Op::Yield => {
                    at_yield.push(self.save_state());
                    self.builder.ins().jump(yields, &[]);
                    false
                }
                Op::Jump { to } => {
                    if let Some(to) = labels.add_predecessor(*to, self.save_state()) {
                        self.builder.ins().jump(to, &[]);
                    }
                    false
                }
                Op::JumpUnlessActive { activation, to } => {
                    let holds = plan.activations[*activation as usize].holds(self.present);
                    match labels.blocks[*to as usize].is_some() && !holds {
                        true => {
                            if let Some(to) = labels.add_predecessor(*to, self.save_state()) {
                                self.builder.ins().jump(to, &[]);
                            }
                            false
                        }
                        false => true,
                    }
                }
                Op::JumpUnless { flag, to } | Op::JumpIf { flag, to } => {
                    let flag = self.load_slot(*flag);
                    let to = labels.add_predecessor(*to, self.save_state());
                    self.branch(matches!(op, Op::JumpIf { .. }), flag, to);
                    true
                }
                Op::JumpUnlessSame { a, b, to } => {
                    let same = self.compare(IntCC::Equal, *a, *b);
                    let to = labels.add_predecessor(*to, self.save_state());
                    self.branch(false, same, to);
                    true
                }
                op => {
                    self.emit_op(run, at, op);
                    true
                }
            };
        }
        if self.bind_label(&mut labels, ops.len(), is_reachable) || is_reachable {
            self.builder.ins().jump(ends, &[]);
        }
        if at_yield.len() == 1 { at_yield.remove(0) } else { labels.entry }
    }

    /// The condition is unpredictable, so the word is selected without branching.
    fn emit_select(&mut self, select: &Select) {
        let [flag, a, b] = [select.flag, select.a, select.b].map(|slot| self.load_slot(slot));
        let word = self.builder.ins().select(flag, a, b);
        self.store_slot(select.to, word);
    }

    /// Continues at the label of an operation; whether it has one. The label keeps the cache of its only predecessor,
    /// or that of the start of the program.
    fn bind_label(&mut self, labels: &mut Labels, at: usize, is_reachable: bool) -> bool {
        let Some((block, mut predecessors)) = labels.blocks[at].take() else { return false };
        if is_reachable {
            predecessors.push(self.save_state());
            self.builder.ins().jump(block, &[]);
        }
        let saved = if predecessors.len() == 1 { &predecessors[0] } else { &labels.entry };
        self.switch_to_saved(block, saved);
        true
    }

    /// A word times a constant, by a shift if that is a power of two.
    pub(super) fn scale(&mut self, word: Value, factor: usize) -> Value {
        match factor.is_power_of_two() {
            true => self.builder.ins().ishl_imm(word, i64::from(factor.trailing_zeros())),
            false => self.builder.ins().imul_imm(word, factor as i64),
        }
    }

    /// Branches to a block if a condition is `when`, and continues otherwise.
    fn branch(&mut self, when: bool, condition: Value, to: Option<Block>) {
        let Some(to) = to else { return };
        let next = self.builder.create_block();
        let (then, otherwise) = if when { (to, next) } else { (next, to) };
        self.builder.ins().brif(condition, then, &[], otherwise, &[]);
        self.switch_to_successor(next);
    }

    /// Emits an operation that is no jump.
    fn emit_op(&mut self, run: Run, at: usize, op: &Op) {
        let fail = |fault| (run, at, fault);
        match *op {
            Op::Copy { from, to } => {
                let word = self.load_slot(from);
                self.store_slot(to, word);
            }
            Op::CopyMany { from, to, count } => {
                // Source and destination may overlap, so all words are loaded before the first is stored.
                let words: Vec<Value> = (0..count as FrameSlot).map(|at| self.load_slot(from + at)).collect();
                (to..).zip(words).for_each(|(to, word)| self.store_slot(to, word));
            }
            Op::Or { flag, a, b, to } => {
                let (flag, a, b) = (self.load_slot(flag), self.load_slot(a), self.load_slot(b));
                let word = self.builder.ins().select(flag, a, b);
                self.store_slot(to, word);
            }
            Op::Require { flag } => {
                let flag = self.load_slot(flag);
                self.fail_unless(flag, fail(Fault::NoValue));
            }
            Op::AddU { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                let sum = ins.ins().iadd(a, b);
                (sum, ins.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, sum, a))
            }),
            Op::SubU { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                (ins.ins().isub(a, b), ins.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, a, b))
            }),
            Op::MulU { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                let high = ins.ins().umulhi(a, b);
                (ins.ins().imul(a, b), ins.ins().icmp_imm(IntCC::Equal, high, 0))
            }),
            Op::AddI { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                let sum = ins.ins().iadd(a, b);
                let (one, other) = (ins.ins().bxor(a, sum), ins.ins().bxor(b, sum));
                let both = ins.ins().band(one, other);
                (sum, ins.ins().icmp_imm(IntCC::SignedGreaterThanOrEqual, both, 0))
            }),
            Op::SubI { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                let difference = ins.ins().isub(a, b);
                let (one, other) = (ins.ins().bxor(a, b), ins.ins().bxor(a, difference));
                let both = ins.ins().band(one, other);
                (difference, ins.ins().icmp_imm(IntCC::SignedGreaterThanOrEqual, both, 0))
            }),
            Op::MulI { a, b, to } => self.checked_integer(a, b, to, fail(Fault::Overflow), |ins, a, b| {
                let (high, product) = (ins.ins().smulhi(a, b), ins.ins().imul(a, b));
                let sign = ins.ins().sshr_imm(product, 63);
                (product, ins.ins().icmp(IntCC::Equal, high, sign))
            }),
            Op::DivU { a, b, to } => {
                let (a, b) = (self.load_slot(a), self.load_slot(b));
                self.fail_unless(b, fail(Fault::DividedByZero));
                let word = self.builder.ins().udiv(a, b);
                self.store_slot(to, word);
            }
            Op::DivI { a, b, to } => {
                let (a, b) = (self.load_slot(a), self.load_slot(b));
                self.fail_unless(b, fail(Fault::DividedByZero));
                let is_above_min = self.builder.ins().icmp_imm(IntCC::NotEqual, a, i64::MIN);
                let is_not_minus_one = self.builder.ins().icmp_imm(IntCC::NotEqual, b, -1);
                let fits = self.builder.ins().bor(is_above_min, is_not_minus_one);
                self.fail_unless(fits, fail(Fault::Overflow));
                let word = self.builder.ins().sdiv(a, b);
                self.store_slot(to, word);
            }
            Op::AddF { a, b, to } => {
                let range = self.float_ranges(a, b).and_then(|(a, b)| a.add(b));
                self.checked_float(a, b, to, (range, fail(Fault::NotANumber)), |ins, a, b| {
                    ins.ins().fadd(a, b)
                })
            }
            Op::SubF { a, b, to } => {
                let range = self.float_ranges(a, b).and_then(|(a, b)| a.sub(b));
                self.checked_float(a, b, to, (range, fail(Fault::NotANumber)), |ins, a, b| {
                    ins.ins().fsub(a, b)
                })
            }
            Op::MulF { a, b, to } => {
                let range = self.float_ranges(a, b).and_then(|(a, b)| a.mul(b));
                self.checked_float(a, b, to, (range, fail(Fault::NotANumber)), |ins, a, b| {
                    ins.ins().fmul(a, b)
                })
            }
            Op::DivF { a, b, to } => {
                let range = self.float_ranges(a, b).and_then(|(a, b)| a.div(b));
                self.checked_float(a, b, to, (range, fail(Fault::NotANumber)), |ins, a, b| {
                    ins.ins().fdiv(a, b)
                })
            }
            Op::Same { a, b, to } => self.store_comparison(IntCC::Equal, a, b, to),
            Op::LtU { a, b, to } => self.store_comparison(IntCC::UnsignedLessThan, a, b, to),
            Op::LeU { a, b, to } => self.store_comparison(IntCC::UnsignedLessThanOrEqual, a, b, to),
            Op::LtI { a, b, to } => self.store_comparison(IntCC::SignedLessThan, a, b, to),
            Op::LeI { a, b, to } => self.store_comparison(IntCC::SignedLessThanOrEqual, a, b, to),
            Op::EqF { a, b, to } => self.store_float_comparison(FloatCC::Equal, a, b, to),
            Op::LtF { a, b, to } => self.store_float_comparison(FloatCC::LessThan, a, b, to),
            Op::LeF { a, b, to } => self.store_float_comparison(FloatCC::LessThanOrEqual, a, b, to),
            Op::Not { a, to } => {
                let word = self.load_slot(a);
                let word = self.builder.ins().bxor_imm(word, 1);
                self.store_slot(to, word);
            }
            Op::UIntToFloat { a, to } => {
                let word = self.load_slot(a);
                let float = self.builder.ins().fcvt_from_uint(F64, word);
                self.store_slot(to, float);
                self.cache_range(to, FloatRange::of_uint());
            }
            Op::IntToFloat { a, to } => {
                let word = self.load_slot(a);
                let float = self.builder.ins().fcvt_from_sint(F64, word);
                self.store_slot(to, float);
                self.cache_range(to, FloatRange::of_int());
            }
            Op::KeyFloat { a, to } => {
                let (float, zero) = (self.load_float(a), self.builder.ins().f64const(0.0));
                let float = self.builder.ins().fadd(float, zero);
                self.store_slot(to, float);
            }
            Op::Hold { stream, key, to } => self.read_hold(stream, key, to),
            Op::Sync { stream, key, to } => {
                let arguments = [stream.into(), key.into(), to.into()];
                self.flush_for_runtime(key, self.plan.streams[stream as usize].param_width);
                let fault = self.call(runtime_calls::need_instance as *const u8, &arguments);
                self.invalidate_words(to, self.plan.streams[stream as usize].width);
                self.fail_if_fault(run, at, fault);
            }
            Op::Aggregate { grouped, aggregate, key, to } => {
                let [done, otherwise] = [(); 2].map(|()| self.builder.create_block());
                let [flag, word] = [(); 2].map(|()| self.builder.append_block_param(done, I64));
                let saved = self.save_state();
                let position = [grouped as usize, aggregate as usize];
                let is_word = is_read_inline(self.plan.grouped[position[0]].aggregates[position[1]]);
                if is_word {
                    self.read_word(position, key, [done, otherwise]);
                } else {
                    self.builder.ins().jump(otherwise, &[]);
                }
                self.switch_to_saved(otherwise, &saved);
                let arguments = [grouped.into(), aggregate.into(), key.into(), to.into()];
                self.flush_for_runtime(key, self.plan.grouped[position[0]].key_words.len());
                let fault = self.call(runtime_calls::read_aggregate as *const u8, &arguments);
                self.invalidate_words(to, 1 + MAX_AGGREGATE_WORDS);
                self.fail_if_fault(run, at, fault);
                let words = [to, to + 1].map(|at| BlockArg::from(self.reload(at)));
                self.builder.ins().jump(done, &words);
                self.switch_to_saved(done, &saved);
                if is_word {
                    self.store_slot(to, flag);
                    self.store_slot(to + 1, word);
                }
            }
            Op::Own { stream, to } => self.read_own(run, stream, 0, to),
            Op::PastOfOwn { stream, back, to } => self.read_own(run, stream, back as usize - 1, to),
            Op::OwnSync { stream, to } => {
                let member = self.plan.streams[stream as usize].member;
                let has = self.has_value(run, member, 0);
                self.fail_unless(has, fail(Fault::NoValue));
                self.copy_value(run, stream, 0, to);
            }
            Op::Count { stream, key, to } if self.read_counter(run, stream as usize, key, to) => {}
            Op::Window { window, key, to } if self.read_window((run, at), window as usize, key, to) => {}
            _ => {
                self.flush_all_for_runtime();
                let failed = self.call_run_op(run, at);
                self.invalidate(Invalidation::AllWords);
                self.return_if_failed(failed);
            }
        }
    }

    /// Runs an operation by a runtime call; not 0 if it failed.
    pub(super) fn call_run_op(&mut self, run: Run, at: usize) -> Value {
        let slot = match run.instance {
            Some(instance) => instance.slot,
            None => self.iconst(WHOLE.into()),
        };
        let arguments = [self.iconst(run.stream as u64), self.location(run, at), slot];
        self.call_with(runtime_calls::run_op as *const u8, &arguments)
    }

    /// Stores a flag, and the value of the instance with a key if it exists and has one.
    fn read_hold(&mut self, stream: u32, key: FrameSlot, to: FrameSlot) {
        let plan = &self.plan.streams[stream as usize];
        if !self.plan.families[plan.family].indexes.is_empty() || plan.width > MAX_INLINE_WORDS {
            self.flush_for_runtime(key, plan.param_width);
            self.call(runtime_calls::read_instance as *const u8, &[stream.into(), key.into(), to.into()]);
            self.invalidate_words(to, 1 + plan.width);
            return;
        }
        let read = |expr: &mut Self, instance: SlotRef| {
            let run = Run { stream: stream as usize, program: 0, instance: Some(instance) };
            let mut found = vec![expr.has_value(run, plan.member, 0)];
            let from = plan.member.value();
            found.extend((from..from + plan.width).map(|at| expr.slot_word(run, at)));
            found
        };
        let words = self
            .read_by_key(plan.family, key, 1 + plan.width, read, |expr| vec![expr.iconst(0); 1 + plan.width]);
        // Without a value the flag is 0, and nothing reads the words behind it.
        (to..).zip(words).for_each(|(to, word)| self.store_slot(to, word));
    }

    /// Stores a flag, and an earlier value of the current instance if there is one.
    fn read_own(&mut self, run: Run, stream: u32, back: usize, to: FrameSlot) {
        let member = self.plan.streams[stream as usize].member;
        let has = self.has_value(run, member, back);
        self.store_slot(to, has);
        // Without a value the flag is 0, and nothing reads the words behind it.
        self.copy_value(run, stream, back, to + 1);
    }

    /// Whether the instance of a run has more than `back` values, as a word.
    fn has_value(&mut self, run: Run, member: Member, back: usize) -> Value {
        let state = self.slot_word(run, member.state());
        let count = self.builder.ins().ushr_imm(state, 32);
        let has = self.builder.ins().icmp_imm(IntCC::UnsignedGreaterThan, count, back as i64);
        self.builder.ins().uextend(I64, has)
    }

    /// Copies an earlier value of the instance of a run into the frame.
    fn copy_value(&mut self, run: Run, stream: u32, back: usize, to: FrameSlot) {
        let stream = &self.plan.streams[stream as usize];
        let from = stream.member.value() + back * stream.width;
        for (at, to) in (from..from + stream.width).zip(to..) {
            let word = self.slot_word(run, at);
            self.store_slot(to, word);
        }
    }

    /// A word of the slot of the instance.
    fn slot_word(&mut self, run: Run, at: usize) -> Value {
        match run.instance {
            Some(instance) => self.load(I64, instance.words, 8 * at),
            // Only programs of instances have operations that read slots.
            None => self.builder.ins().iconst(I64, 0),
        }
    }

    /// Stores the result of integer arithmetic. `compute` gives the result, and whether it is in range.
    fn checked_integer(
        &mut self,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
        fail: (Run, usize, Fault),
        compute: impl Fn(&mut FunctionBuilder<'f>, Value, Value) -> (Value, Value),
    ) {
        let (a, b) = (self.load_slot(a), self.load_slot(b));
        let (word, fits) = compute(&mut self.builder, a, b);
        self.fail_unless(fits, fail);
        self.store_slot(to, word);
    }

    /// Stores the result of float arithmetic, with a check for NaN unless its range is known.
    fn checked_float(
        &mut self,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
        (range, fail): (Option<FloatRange>, (Run, usize, Fault)),
        compute: impl Fn(&mut FunctionBuilder<'f>, Value, Value) -> Value,
    ) {
        let (a, b) = (self.load_float(a), self.load_float(b));
        let float = compute(&mut self.builder, a, b);
        if range.is_none() {
            let is_number = self.builder.ins().fcmp(FloatCC::Equal, float, float);
            self.fail_unless(is_number, fail);
        }
        self.store_slot(to, float);
        range.into_iter().for_each(|range| self.cache_range(to, range));
    }

    fn compare(&mut self, condition: IntCC, a: FrameSlot, b: FrameSlot) -> Value {
        let (a, b) = (self.load_slot(a), self.load_slot(b));
        self.builder.ins().icmp(condition, a, b)
    }

    fn store_comparison(&mut self, condition: IntCC, a: FrameSlot, b: FrameSlot, to: FrameSlot) {
        let holds = self.compare(condition, a, b);
        let holds = self.builder.ins().uextend(I64, holds);
        self.store_slot(to, holds);
    }

    fn store_float_comparison(&mut self, condition: FloatCC, a: FrameSlot, b: FrameSlot, to: FrameSlot) {
        let (a, b) = (self.load_float(a), self.load_float(b));
        let holds = self.builder.ins().fcmp(condition, a, b);
        let holds = self.builder.ins().uextend(I64, holds);
        self.store_slot(to, holds);
    }

    pub(super) fn load(&mut self, ty: Type, from: Value, at: usize) -> Value {
        self.builder.ins().load(ty, MemFlags::trusted(), from, at as i32)
    }

    pub(super) fn store(&mut self, value: Value, to: Value, at: usize) -> Inst {
        self.builder.ins().store(MemFlags::trusted(), value, to, at as i32)
    }

    /// A constant word.
    pub(super) fn iconst(&mut self, number: u64) -> Value {
        self.builder.ins().iconst(I64, number.cast_signed())
    }

    /// A constant byte.
    pub(super) fn iconst8(&mut self, number: i64) -> Value {
        self.builder.ins().iconst(I8, number)
    }

    /// Makes a runtime call with constants.
    pub(super) fn call(&mut self, function: *const u8, numbers: &[u64]) -> Value {
        let values: Vec<Value> = numbers.iter().map(|number| self.iconst(*number)).collect();
        self.call_with(function, &values)
    }

    /// Makes a runtime call with values. At events it may have marked something dirty that is evaluated at ticks, so
    /// `idle_until` is set to 0 afterwards.
    pub(super) fn call_with(&mut self, function: *const u8, values: &[Value]) -> Value {
        let result = self.call_keeping_idle(function, values);
        if self.present != 0 && !self.plan.clocks.is_empty() {
            let idle_until = self.load(I64, self.context, offset_of!(VmContext, idle_until));
            let always = self.iconst(0);
            self.store(always, idle_until, 0);
        }
        result
    }

    /// Makes a runtime call that marks nothing dirty, or lowers `idle_until` itself.
    pub(super) fn call_keeping_idle(&mut self, function: *const u8, values: &[Value]) -> Value {
        let count = values.len() + 1;
        let signature = match self.signatures[count] {
            Some(signature) => signature,
            None => {
                let mut signature = Signature::new(CallConv::SystemV);
                signature.params = vec![AbiParam::new(I64); count];
                signature.returns.push(AbiParam::new(I64));
                let signature = self.builder.import_signature(signature);
                self.signatures[count] = Some(signature);
                signature
            }
        };
        let address = self.iconst(function as u64);
        let arguments: Vec<Value> = std::iter::once(self.context).chain(values.iter().copied()).collect();
        let call = self.builder.ins().call_indirect(signature, address, &arguments);
        let result = self.builder.inst_results(call)[0];
        let has_panicked = self.load(I64, self.context, offset_of!(VmContext, has_panicked));
        self.return_if_failed(has_panicked);
        result
    }

    /// Returns from the handler with an error if a word is not 0.
    pub(super) fn return_if_failed(&mut self, failed: Value) {
        let next = self.builder.create_block();
        self.builder.ins().brif(failed, self.failed, &[], next, &[]);
        self.switch_to_successor(next);
    }

    /// Fails with a fault unless a condition holds.
    fn fail_unless(&mut self, holds: Value, (run, at, fault): (Run, usize, Fault)) {
        let (next, otherwise) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(otherwise);
        self.builder.ins().brif(holds, next, &[], otherwise, &[]);
        let saved = self.save_state();
        self.switch_to_successor(otherwise);
        let fault = self.iconst(runtime_calls::code(fault));
        self.fail(run, at, fault);
        self.switch_to_saved(next, &saved);
    }

    /// Fails if the code of a fault is not 0.
    fn fail_if_fault(&mut self, run: Run, at: usize, fault: Value) {
        let (next, otherwise) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(otherwise);
        self.builder.ins().brif(fault, otherwise, &[], next, &[]);
        let saved = self.save_state();
        self.switch_to_successor(otherwise);
        self.fail(run, at, fault);
        self.switch_to_saved(next, &saved);
    }

    /// The program and the position of an operation in it, in one word.
    fn location(&mut self, run: Run, at: usize) -> Value {
        self.iconst(runtime_calls::pack(run.program, at))
    }

    /// Reports a fault, and returns from the handler.
    fn fail(&mut self, run: Run, at: usize, fault: Value) {
        let stream = self.iconst(run.stream as u64);
        let at = self.location(run, at);
        self.call_with(runtime_calls::fail as *const u8, &[stream, at, fault]);
        self.builder.ins().jump(self.failed, &[]);
    }
}

/// The operation that a jump leads to.
fn target(op: &Op) -> Option<usize> {
    match op {
        Op::Jump { to }
        | Op::JumpUnless { to, .. }
        | Op::JumpIf { to, .. }
        | Op::JumpUnlessSame { to, .. }
        | Op::JumpUnlessActive { to, .. } => Some(*to as usize),
        _ => None,
    }
}
