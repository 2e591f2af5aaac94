//! The steps of an event → machine code.

use std::mem::offset_of;

use cranelift_codegen::Context as Compilation;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, Value};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::super::code::Slot;
use super::super::instances::PARAMS;
use super::super::instant::{Evaluator, Failed, Reach, Step};
use super::super::lane::{Home, Lane, Watch};
use super::super::plan::{Path, Route};
use super::super::state::{Dirty, StreamState};
use super::memory::Code;
use super::program::{Instance, Run, Writer, is_native};
use super::{Context, calls};

/// What is done at an event with certain inputs, as machine code.
pub(in super::super) struct Reaction {
    code: Code,
    /// Steps that it has done for it.
    _steps: Box<[Step]>,
}

impl Reaction {
    /// `None` if there can be no machine code here.
    pub(in super::super) fn new(evaluator: &Evaluator, present: u128, steps: &[Step]) -> Option<Reaction> {
        let steps: Box<[Step]> = steps.into();
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").ok()?;
        flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).ok()?;
        let triple = "x86_64-unknown-linux-gnu".parse().ok()?;
        let isa = cranelift_codegen::isa::lookup(triple).ok()?.finish(settings::Flags::new(flags)).ok()?;
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(AbiParam::new(I64));
        signature.returns.push(AbiParam::new(I64));
        let mut compilation =
            Compilation::for_function(Function::with_name_signature(UserFuncName::default(), signature));
        let mut shared = FunctionBuilderContext::new();
        write(evaluator, present, &steps, FunctionBuilder::new(&mut compilation.func, &mut shared));
        let compiled = compilation.compile(&*isa, &mut ControlPlane::default()).ok()?;
        // Nothing has been asked for that would have to be put in by a linker.
        if !compiled.buffer.relocs().is_empty() {
            return None;
        }
        let code = Code::new(compiled.code_buffer()).ok()?;
        Some(Reaction { code, _steps: steps })
    }
}

impl Evaluator {
    /// Everything that an event leads to for which there is a reaction.
    pub(in super::super) fn react(&mut self, reaction: &Reaction) -> Result<(), Box<Failed>> {
        self.find_slots();
        let entry = reaction.code.entry();
        let evaluator: *mut Evaluator = self;
        // SAFETY: the code was written for the plan of this evaluator and for what it tells at present. All its
        // pointers come from the one to the evaluator, which nobody else uses before the code returns.
        let failed = unsafe {
            let mut context = Context {
                evaluator,
                frame: (*evaluator).state.frame.as_mut_ptr(),
                streams: (*evaluator).state.streams.as_mut_ptr(),
                slots: (*evaluator).slots.as_ptr(),
            };
            entry(&raw mut context) != 0
        };
        match self.failed.take() {
            Some(reason) if failed => Err(reason),
            _ => Ok(()),
        }
    }
}

fn write(evaluator: &Evaluator, present: u128, steps: &[Step], mut builder: FunctionBuilder<'_>) {
    let (start, failed) = (builder.create_block(), builder.create_block());
    builder.append_block_params_for_function_params(start);
    builder.set_cold_block(failed);
    builder.switch_to_block(start);
    let context = builder.block_params(start)[0];
    let mut writer = Writer::new(builder, &evaluator.plan, present, [context; 3], failed);
    writer.frame = writer.load(I64, context, offset_of!(Context, frame));
    writer.streams = writer.load(I64, context, offset_of!(Context, streams));
    let mut scribe = Scribe { evaluator, writer, fresh: Vec::new() };
    steps.iter().for_each(|step| scribe.step(step));
    let Scribe { mut writer, fresh, .. } = scribe;
    // What is of this instant is not of the next.
    let zero = writer.number(0);
    fresh.into_iter().for_each(|slot| writer.put(slot, zero));
    writer.builder.ins().return_(&[zero]);
    writer.builder.switch_to_block(failed);
    let one = writer.number(1);
    writer.builder.ins().return_(&[one]);
    writer.builder.seal_all_blocks();
    writer.builder.finalize();
}

/// Writes steps.
struct Scribe<'e, 'f> {
    evaluator: &'e Evaluator,
    writer: Writer<'e, 'f>,
    /// Places of the frame that say that something is of this instant.
    fresh: Vec<Slot>,
}

impl<'e> Scribe<'e, '_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Spawn(family) => {
                let failed = self.writer.call(calls::spawn as *const u8, &[*family as u64]);
                self.writer.check(failed);
            }
            Step::Evaluate(stream, reach) => match (self.lane(*stream), reach) {
                (Some(lane), Reach::Changed) if matches!(lane.home, Home::Cell { .. }) => {
                    self.changed_cell(*stream, lane);
                }
                (Some(lane), Reach::Changed) if !lane.repeats => self.changed_instance(*stream, lane, step),
                (Some(lane), Reach::Paths(clauses)) => match self.path(*stream, clauses) {
                    Some(path) => self.candidate(*stream, lane, path, step),
                    None => self.call_step(step),
                },
                _ => self.call_step(step),
            },
            Step::Close(..) => self.call_step(step),
        }
    }

    /// How a stream is evaluated, if that can be written.
    fn lane(&self, stream: usize) -> Option<&'e Lane> {
        let plan = &self.evaluator.plan;
        let lane = self.evaluator.lanes[stream].as_ref()?;
        let family = matches!(lane.home, Home::Slot { .. }).then_some(lane.family);
        let lives = family.is_some() || plan.families[lane.family].spawn.is_none();
        (lives && is_native(plan, lane.program, family)).then_some(lane)
    }

    /// The path of the only clause, if there is one that can be written.
    fn path(&self, stream: usize, clauses: &[usize]) -> Option<&'e Path> {
        let plan = &self.evaluator.plan;
        let [clause] = clauses else { return None };
        let path = plan.streams[stream].eval.clauses[*clause].path.as_ref()?;
        path.program.is_none_or(|program| is_native(plan, program, None)).then_some(path)
    }

    fn call_step(&mut self, step: &Step) {
        let failed = self.writer.call(calls::step as *const u8, &[&raw const *step as u64]);
        self.writer.check(failed);
    }

    /// A stream without instances, if something has changed that it reads.
    fn changed_cell(&mut self, stream: usize, lane: &'e Lane) {
        let [evaluate, done] = [(); 2].map(|()| self.writer.builder.create_block());
        let at = dirty(stream) + offset_of!(Dirty, all);
        let is_due = self.writer.load(I8, self.writer.streams, at);
        self.writer.builder.ins().brif(is_due, evaluate, &[], done, &[]);
        self.writer.builder.switch_to_block(evaluate);
        let no = self.writer.byte(0);
        self.writer.store(no, self.writer.streams, at);
        self.evaluate(stream, lane, None);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
        if lane.repeats {
            let [tell, done] = [(); 2].map(|()| self.writer.builder.create_block());
            let holds =
                self.writer.load(I8, self.writer.streams, of(stream) + offset_of!(StreamState, holds));
            self.writer.builder.ins().brif(holds, tell, &[], done, &[]);
            self.writer.builder.switch_to_block(tell);
            self.writer.call(calls::tell_again as *const u8, &[stream as u64]);
            self.writer.builder.ins().jump(done, &[]);
            self.writer.builder.switch_to_block(done);
        }
    }

    /// The instance for which something has changed that it reads, if there is one. Several are left to Rust.
    fn changed_instance(&mut self, stream: usize, lane: &'e Lane, step: &Step) {
        let [some, several, one, marked, evaluate, done] =
            [(); 6].map(|()| self.writer.builder.create_block());
        self.writer.builder.set_cold_block(several);
        let Home::Slot { state, .. } = lane.home else { return };
        let dirty = dirty(stream);
        let count = self.writer.load(I32, self.writer.streams, dirty + offset_of!(Dirty, count));
        let all = self.writer.load(I8, self.writer.streams, dirty + offset_of!(Dirty, all));
        let wide = self.writer.builder.ins().uextend(I32, all);
        let any = self.writer.builder.ins().bor(count, wide);
        self.writer.builder.ins().brif(any, some, &[], done, &[]);
        self.writer.builder.switch_to_block(some);
        let is_one = self.writer.builder.ins().icmp_imm(IntCC::Equal, count, 1);
        let not_all = self.writer.builder.ins().icmp_imm(IntCC::Equal, all, 0);
        let is_only = self.writer.builder.ins().band(is_one, not_all);
        self.writer.builder.ins().brif(is_only, one, &[], several, &[]);
        self.writer.builder.switch_to_block(several);
        self.call_step(step);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(one);
        let none = self.writer.half(0);
        self.writer.store(none, self.writer.streams, dirty + offset_of!(Dirty, count));
        let slot = self.writer.load(I32, self.writer.streams, dirty + offset_of!(Dirty, first));
        let slot = self.writer.builder.ins().uextend(I64, slot);
        let instance = self.instance(lane.family, slot);
        let born = self.writer.load(I64, instance.words, 0);
        self.writer.builder.ins().brif(born, marked, &[], done, &[]);
        self.writer.builder.switch_to_block(marked);
        let flags = self.writer.load(I64, instance.words, 8 * state);
        let is_marked = self.writer.builder.ins().band_imm(flags, calls::EVALUATE.cast_signed());
        let others = self.writer.builder.ins().band_imm(flags, !calls::EVALUATE.cast_signed());
        self.writer.store(others, instance.words, 8 * state);
        self.writer.builder.ins().brif(is_marked, evaluate, &[], done, &[]);
        self.writer.builder.switch_to_block(evaluate);
        self.evaluate(stream, lane, Some(instance));
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    /// The instance that a path leads to, if there is one. Several are left to Rust.
    fn candidate(&mut self, stream: usize, lane: &'e Lane, path: &Path, step: &Step) {
        if let Some(program) = path.program {
            let next = self.writer.builder.create_block();
            self.writer.program(Run { stream, program, instance: None }, next, next);
            self.writer.builder.switch_to_block(next);
        }
        let route = match path.route {
            Route::Lookup => calls::LOOKUP,
            Route::Index(number) => number as u64,
        };
        let slot = self.writer.call(calls::find as *const u8, &[lane.family as u64, route, path.key.into()]);
        let [some, several, one, done] = [(); 4].map(|()| self.writer.builder.create_block());
        self.writer.builder.set_cold_block(several);
        let is_none = self.writer.builder.ins().icmp_imm(IntCC::Equal, slot, calls::NONE.cast_signed());
        self.writer.builder.ins().brif(is_none, done, &[], some, &[]);
        self.writer.builder.switch_to_block(some);
        let are_several =
            self.writer.builder.ins().icmp_imm(IntCC::Equal, slot, calls::SEVERAL.cast_signed());
        self.writer.builder.ins().brif(are_several, several, &[], one, &[]);
        self.writer.builder.switch_to_block(several);
        self.call_step(step);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(one);
        let instance = self.instance(lane.family, slot);
        self.evaluate(stream, lane, Some(instance));
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    fn instance(&mut self, family: usize, slot: Value) -> Instance {
        let slots = self.writer.load(I64, self.writer.context, offset_of!(Context, slots));
        let first = self.writer.load(I64, slots, 8 * family);
        let stride = self.evaluator.plan.families[family].stride;
        let at = self.writer.builder.ins().imul_imm(slot, 8 * stride as i64);
        let words = self.writer.builder.ins().iadd(first, at);
        Instance { slot, words }
    }

    /// What [`Evaluator::evaluate_one`] does.
    fn evaluate(&mut self, stream: usize, lane: &'e Lane, instance: Option<Instance>) {
        if let Some(instance) = instance {
            for at in 0..lane.params {
                let word = self.writer.load(I64, instance.words, 8 * (PARAMS + at));
                self.writer.put(lane.own + at as Slot, word);
            }
        }
        let [yields, ends, done] = [(); 3].map(|()| self.writer.builder.create_block());
        self.writer.program(Run { stream, program: lane.program, instance }, yields, ends);
        match (lane.home, instance) {
            (Home::Cell { present, fresh, value }, _) => {
                self.writer.builder.switch_to_block(yields);
                self.push_cell(stream, lane, [present, fresh, value]);
                self.writer.builder.ins().jump(done, &[]);
                self.writer.builder.switch_to_block(ends);
                self.holds(stream, lane, None, false);
                self.again(stream, lane, None, [false, false]);
            }
            (Home::Slot { state, value }, Some(instance)) => {
                self.writer.builder.switch_to_block(yields);
                self.push_instance(stream, lane, instance, [state, value]);
                self.writer.builder.ins().jump(done, &[]);
                self.writer.builder.switch_to_block(ends);
                let flags = self.writer.load(I64, instance.words, 8 * state);
                let others = self.writer.builder.ins().band_imm(flags, !calls::HOLDS.cast_signed());
                self.writer.store(others, instance.words, 8 * state);
                self.held(stream, lane, instance, flags, false);
                self.again(stream, lane, Some(instance), [false, false]);
            }
            (Home::Slot { .. }, None) => {}
        }
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    /// A stream without instances has a value.
    fn push_cell(&mut self, stream: usize, lane: &'e Lane, [present, fresh, value]: [Slot; 3]) {
        let [changed, same, done] = [(); 3].map(|()| self.writer.builder.create_block());
        let new = self.writer.word(lane.result);
        let (had, old) = (self.writer.word(present), self.writer.word(value));
        self.holds(stream, lane, None, true);
        let one = self.writer.number(1);
        if !lane.remembers {
            self.writer.put(fresh, one);
        }
        let had = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
        let is_old = self.writer.builder.ins().icmp(IntCC::Equal, old, new);
        let is_same = self.writer.builder.ins().band(had, is_old);
        self.writer.builder.ins().brif(is_same, same, &[], changed, &[]);
        self.writer.builder.switch_to_block(changed);
        self.writer.put(present, one);
        self.writer.put(fresh, one);
        self.writer.put(value, new);
        self.fresh.push(fresh);
        lane.watchers.iter().for_each(|watch| self.mark(stream, watch, None));
        self.again(stream, lane, None, [true, true]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(same);
        self.again(stream, lane, None, [true, false]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    /// An instance has a value.
    fn push_instance(
        &mut self,
        stream: usize,
        lane: &'e Lane,
        instance: Instance,
        [state, value]: [usize; 2],
    ) {
        let [changed, same, done] = [(); 3].map(|()| self.writer.builder.create_block());
        let new = self.writer.word(lane.result);
        let flags = self.writer.load(I64, instance.words, 8 * state);
        let old = self.writer.load(I64, instance.words, 8 * value);
        let now = self.writer.builder.ins().bor_imm(flags, (calls::HOLDS | 1 << 32).cast_signed());
        self.writer.store(now, instance.words, 8 * state);
        self.writer.store(new, instance.words, 8 * value);
        self.held(stream, lane, instance, flags, true);
        let had = self.writer.builder.ins().ushr_imm(flags, 32);
        let has_old = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, had, 0);
        let is_old = self.writer.builder.ins().icmp(IntCC::Equal, old, new);
        let is_same = self.writer.builder.ins().band(has_old, is_old);
        self.writer.builder.ins().brif(is_same, same, &[], changed, &[]);
        self.writer.builder.switch_to_block(changed);
        for number in 0..lane.tallies.len() {
            let which = self.writer.number((stream as u64) << 32 | number as u64);
            let arguments = [which, instance.slot, had, old, new];
            let failed = self.writer.call_with(calls::change as *const u8, &arguments);
            self.writer.check(failed);
        }
        lane.watchers.iter().for_each(|watch| self.mark(stream, watch, Some(instance)));
        self.again(stream, lane, Some(instance), [true, true]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(same);
        self.again(stream, lane, Some(instance), [true, false]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    /// Notes whether a stream without instances holds a value.
    fn holds(&mut self, stream: usize, lane: &Lane, instance: Option<Instance>, yields: bool) {
        let at = of(stream) + offset_of!(StreamState, holds);
        let held = self.writer.load(I8, self.writer.streams, at);
        let now = self.writer.byte(yields.into());
        self.writer.store(now, self.writer.streams, at);
        if lane.repeats {
            let is_other = self.writer.builder.ins().icmp_imm(IntCC::NotEqual, held, i64::from(yields));
            self.hold_if(stream, is_other, instance, yields);
        }
    }

    /// The same for an instance, whose flags were these.
    fn held(&mut self, stream: usize, lane: &Lane, instance: Instance, flags: Value, yields: bool) {
        if lane.repeats {
            let held = self.writer.builder.ins().band_imm(flags, calls::HOLDS.cast_signed());
            let condition = if yields { IntCC::Equal } else { IntCC::NotEqual };
            let is_other = self.writer.builder.ins().icmp_imm(condition, held, 0);
            self.hold_if(stream, is_other, Some(instance), yields);
        }
    }

    fn hold_if(&mut self, stream: usize, is_other: Value, instance: Option<Instance>, yields: bool) {
        let [hold, done] = [(); 2].map(|()| self.writer.builder.create_block());
        self.writer.builder.ins().brif(is_other, hold, &[], done, &[]);
        self.writer.builder.switch_to_block(hold);
        let arguments =
            [self.writer.number(stream as u64), self.slot(instance), self.writer.number(yields.into())];
        self.writer.call_with(calls::hold as *const u8, &arguments);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }

    /// What an evaluation means for the next: whether it gave a value, and whether another one.
    fn again(
        &mut self,
        stream: usize,
        lane: &Lane,
        instance: Option<Instance>,
        [yields, changed]: [bool; 2],
    ) {
        if lane.has_more {
            let outcome = if yields { calls::YIELDS } else { 0 } | if changed { calls::CHANGED } else { 0 };
            let arguments =
                [self.writer.number(stream as u64), self.slot(instance), self.writer.number(outcome)];
            self.writer.call_with(calls::look_again as *const u8, &arguments);
        }
    }

    fn slot(&mut self, instance: Option<Instance>) -> Value {
        match instance {
            Some(instance) => instance.slot,
            None => self.writer.number(0),
        }
    }

    /// Who reads a stream must look again.
    fn mark(&mut self, stream: usize, watch: &'e Watch, instance: Option<Instance>) {
        match (watch, instance) {
            (Watch::All(reader), _) => {
                let yes = self.writer.byte(1);
                self.writer.store(yes, self.writer.streams, dirty(*reader) + offset_of!(Dirty, all));
            }
            (Watch::Slot { stream: reader, at }, Some(instance)) => self.mark_slot(*reader, *at, instance),
            (Watch::Slot { .. }, None) => {}
            (Watch::One { stream: reader, place, .. }, instance) => {
                let word = match instance {
                    Some(instance) => self.writer.load(I64, instance.words, 8 * (PARAMS + place)),
                    None => self.writer.number(0),
                };
                let reader = self.writer.number(*reader as u64);
                self.writer.call_with(calls::mark_word as *const u8, &[reader, word]);
            }
            (Watch::Other(watcher), instance) => {
                let watcher = self.writer.number(&raw const *watcher as u64);
                let arguments = [watcher, self.writer.number(stream as u64), self.slot(instance)];
                self.writer.call_with(calls::tell_watcher as *const u8, &arguments);
            }
        }
    }

    /// The instance of a stream in the same slot must look again.
    fn mark_slot(&mut self, reader: usize, at: usize, instance: Instance) {
        let [mark, first, other, done] = [(); 4].map(|()| self.writer.builder.create_block());
        self.writer.builder.set_cold_block(other);
        let flags = self.writer.load(I64, instance.words, 8 * at);
        let is_marked = self.writer.builder.ins().band_imm(flags, calls::EVALUATE.cast_signed());
        self.writer.builder.ins().brif(is_marked, done, &[], mark, &[]);
        self.writer.builder.switch_to_block(mark);
        let flags = self.writer.builder.ins().bor_imm(flags, calls::EVALUATE.cast_signed());
        self.writer.store(flags, instance.words, 8 * at);
        let dirty = dirty(reader);
        let count = self.writer.load(I32, self.writer.streams, dirty + offset_of!(Dirty, count));
        let all = self.writer.load(I8, self.writer.streams, dirty + offset_of!(Dirty, all));
        let wide = self.writer.builder.ins().uextend(I32, all);
        let any = self.writer.builder.ins().bor(count, wide);
        self.writer.builder.ins().brif(any, other, &[], first, &[]);
        self.writer.builder.switch_to_block(first);
        let one = self.writer.half(1);
        self.writer.store(one, self.writer.streams, dirty + offset_of!(Dirty, count));
        let slot = self.writer.builder.ins().ireduce(I32, instance.slot);
        self.writer.store(slot, self.writer.streams, dirty + offset_of!(Dirty, first));
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(other);
        let number = self.writer.number(reader as u64);
        self.writer.call_with(calls::mark as *const u8, &[number, instance.slot]);
        self.writer.builder.ins().jump(done, &[]);
        self.writer.builder.switch_to_block(done);
    }
}

/// Where the state of a stream is.
fn of(stream: usize) -> usize {
    stream * size_of::<StreamState>()
}

/// Where it says which instances must be evaluated again.
fn dirty(stream: usize) -> usize {
    of(stream) + offset_of!(StreamState, evaluate)
}
