//! Lowers the evaluation of a stream: its program, the access paths to its instances, and its dependencies.

use rtlola_frontend::mir::{
    Expression, InstanceSelection, Offset, OutputStream, StreamAccessKind, StreamReference, Type,
    WindowReference,
};

use super::access::{Read, conjuncts, pins, reads};
use super::counter::{needed_instance, thresholds};
use super::expression::{ExprSite, Operand};
use super::schedule::pacing;
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::width;
use crate::compiled::ir::op::{FrameSlot, Op};
use crate::compiled::ir::plan::{ClausePlan, Dependent, EvalPlan, Pacing, Path, Reader, Route, Selector};

impl PlanBuilder<'_> {
    /// Plans the evaluation of a stream.
    pub(super) fn plan_stream(&mut self, index: usize) -> Result<(), Unsupported> {
        self.stream = index;
        let mir = self.mir;
        let counter = self.plan.streams[index].eval.counter;
        let eval = self.plan_eval(&mir.outputs[index])?;
        self.plan.streams[index].eval = EvalPlan { counter, ..eval };
        Ok(())
    }

    fn plan_eval(&mut self, output: &OutputStream) -> Result<EvalPlan, Unsupported> {
        let eval_pacing = pacing(&output.eval.eval_pacing);
        // The word before the result takes the flag of an aggregate that is written there directly.
        let result = self.reserve(1 + width(&output.ty)) + 1;
        let mut clauses = Vec::new();
        for clause in &output.eval.clauses {
            let activation = match pacing(&clause.pacing) {
                Pacing::Event(activation) if clause.pacing != output.eval.eval_pacing => {
                    self.plan.activations.push(activation);
                    Some(self.plan.activations.len() - 1)
                }
                _ => None,
            };
            let path = match &clause.condition {
                Some(condition) => self.path(condition, ExprSite::Eval)?,
                None => None,
            };
            clauses.push(ClausePlan { activation, path });
        }
        let guard = self.guarded_conjuncts(output, &clauses).map(|parts| (self.reserve(1), parts));
        let condition = output.eval.clauses.first().and_then(|clause| clause.condition.as_ref());
        let spawn_guard =
            guard.zip(condition).map(|((_, parts), condition)| self.write_spawn_guard(condition, parts));
        let spawn_guard = spawn_guard.transpose()?;
        let activations: Vec<Option<usize>> = clauses.iter().map(|clause| clause.activation).collect();
        let program = self.write_program(ExprSite::Eval, |builder| {
            builder.result_flag = Some(result - 1);
            if let Some((slot, _)) = guard {
                let no = builder.constant_word(0);
                builder.emit(Op::Copy { from: no, to: slot });
            }
            for (clause, activation) in output.eval.clauses.iter().zip(activations) {
                let mut leave = Vec::new();
                if let Some(activation) = activation {
                    builder.emit(Op::JumpUnlessActive { activation: activation as u32, to: 0 });
                    leave.push(builder.ops.len() - 1);
                }
                if let Some(condition) = &clause.condition {
                    for (number, part) in conjuncts(condition).into_iter().enumerate() {
                        if guard.is_some_and(|(_, parts)| parts == number) {
                            builder.set_guard(guard);
                        }
                        leave.extend(builder.unless(part)?);
                        if let Some((stream, parameters)) = needed_instance(part) {
                            let family = builder.plan.streams[stream].family;
                            builder.known_instances.push((family, parameters.to_vec()));
                        }
                    }
                }
                builder.set_guard(guard.filter(|(_, parts)| {
                    clause.condition.as_ref().is_some_and(|condition| conjuncts(condition).len() == *parts)
                }));
                builder.value_into(&clause.expression, Operand { flag: None, base: result })?;
                builder.emit(Op::Yield);
                builder.land(&leave);
                builder.known_instances.clear();
            }
            Ok(())
        })?;
        Ok(EvalPlan {
            pacing: eval_pacing,
            program,
            result,
            clauses,
            incremental: false,
            reads_itself: false,
            guard: guard.map(|(slot, _)| slot),
            spawn_guard,
            counter: None,
            thresholds: Vec::new(),
            windows: Vec::new(),
        })
    }

    /// Emits the operation that sets the guard.
    fn set_guard(&mut self, guard: Option<(FrameSlot, usize)>) {
        if let Some((slot, _)) = guard {
            let yes = self.constant_word(1);
            self.emit(Op::Copy { from: yes, to: slot });
        }
    }

    /// How many conjuncts at the start of a stream's condition form its guard: those whose reads are known and do not
    /// change by themselves while the guard does not hold; as the stream is not evaluated then, it may read its own previous
    /// value. `None` if the stream needs no guard, because its instances have an access path or its
    /// evaluation is incremental as a whole, or if not even the first conjunct qualifies.
    fn guarded_conjuncts(&self, output: &OutputStream, clauses: &[ClausePlan]) -> Option<usize> {
        let stream = self.stream;
        let [clause] = output.eval.clauses.as_slice() else { return None };
        let is_scanned = clauses.iter().all(|clause| clause.path.is_none() && clause.activation.is_none());
        let condition = clause.condition.as_ref()?;
        if !is_scanned || matches!(pacing(&clause.pacing), Pacing::Local(_)) || output.params.is_empty() {
            return None;
        }
        let everything = clause.condition.iter().chain([&clause.expression]);
        if !self.shows_freshness(output) && self.all_reads(stream, everything).is_some() {
            return None;
        }
        let is_guard = |part: &&Expression| {
            let reads = self.all_reads(stream, std::iter::once(*part));
            let may_change = |read: &Read| read.changes_by_itself() && *read != Read::Itself;
            reads.is_some_and(|reads| !reads.is_empty() && !reads.iter().any(may_change))
        };
        let parts = conjuncts(condition);
        let count = parts.iter().take_while(|part| is_guard(part)).count();
        (count > 0).then_some(count)
    }

    /// The access path to the instances that a condition can hold for; `None` if it pins no parameter.
    pub(super) fn path(
        &mut self,
        condition: &Expression,
        site: ExprSite,
    ) -> Result<Option<Path>, Unsupported> {
        let pins = pins(condition);
        if pins.is_empty() {
            return Ok(None);
        }
        let stream = self.stream;
        let params: Vec<usize> = pins.iter().map(|(param, _)| *param).collect();
        let key_words = self.param_words(stream, params.iter().copied());
        let in_frame = match pins.as_slice() {
            [(_, expression)] => self.key_in_frame(expression),
            _ => None,
        };
        let (key, program) = match in_frame {
            Some(key) => (key, None),
            None => {
                let key = self.reserve(key_words.len());
                (key, Some(self.key_program(&pins, key, site)?))
            }
        };
        let names = &self.plan.streams[stream].param_names;
        let pinned = params.iter().map(|param| names[*param].clone()).collect();
        let route = if params.len() == self.plan.streams[stream].params.len() {
            Route::Lookup
        } else {
            Route::Index(self.add_index(stream, key_words))
        };
        Ok(Some(Path { program, key, route, pinned }))
    }

    /// Writes the program that computes the key of an access path.
    fn key_program(
        &mut self,
        pins: &[(usize, Expression)],
        key: FrameSlot,
        site: ExprSite,
    ) -> Result<usize, Unsupported> {
        self.write_program(site, |builder| {
            // The key may be computed from absent values: the condition of the instances it finds is evaluated anyway.
            builder.lenient = true;
            let mut at = key;
            for (_, expression) in pins {
                builder.key_part(expression, at)?;
                at += width(&expression.ty) as FrameSlot;
            }
            builder.lenient = false;
            builder.emit(Op::Yield);
            Ok(())
        })
    }

    /// Decides whether a stream is evaluated incrementally, that is only after a change of something that it reads, and
    /// registers it as a dependent of its reads. Of a stream with a guard only the reads of the guard count.
    pub(super) fn plan_incremental_evaluation(&mut self, index: usize) {
        self.stream = index;
        let mir = self.mir;
        let output = &mir.outputs[index];
        let stream = &self.plan.streams[index];
        let is_scanned = stream.eval.clauses.iter().any(|clause| clause.path.is_none());
        if stream.eval.guard.is_some()
            && let Some(guarded) = self.guarded_conjuncts(output, &stream.eval.clauses.clone())
            && let Some(condition) = &output.eval.clauses[0].condition
        {
            for part in conjuncts(condition).into_iter().take(guarded) {
                for read in self.all_reads(index, std::iter::once(part)).unwrap_or_default() {
                    self.register_dependent(index, Reader::Stream(index), &read);
                }
                self.add_thresholds(index, part);
            }
            let spawn_guard = self.plan.streams[index].eval.spawn_guard;
            self.plan.streams[index].eval.spawn_guard =
                spawn_guard.filter(|program| self.only_reads(*program));
            return;
        }
        let one_pacing = stream.eval.clauses.iter().all(|clause| clause.activation.is_none());
        let is_local = matches!(stream.eval.pacing, Pacing::Local(_));
        if !is_scanned || !one_pacing || is_local || self.shows_freshness(output) {
            return;
        }
        let clauses = output.eval.clauses.iter();
        let parts = clauses.flat_map(|clause| clause.condition.iter().chain([&clause.expression]));
        if let Some(reads) = self.all_reads(index, parts) {
            self.plan.streams[index].eval.incremental = true;
            self.plan.streams[index].eval.reads_itself = reads.contains(&Read::Itself);
            reads.iter().for_each(|read| self.register_dependent(index, Reader::Stream(index), read));
            for clause in &output.eval.clauses {
                clause
                    .condition
                    .iter()
                    .chain([&clause.expression])
                    .for_each(|part| self.add_thresholds(index, part));
            }
        }
    }

    /// Writes a program that yields if the first `parts` conjuncts of a condition hold.
    fn write_spawn_guard(&mut self, condition: &Expression, parts: usize) -> Result<usize, Unsupported> {
        self.write_program(ExprSite::Eval, |builder| {
            let mut leave = Vec::new();
            for part in conjuncts(condition).into_iter().take(parts) {
                leave.extend(builder.unless(part)?);
            }
            builder.emit(Op::Yield);
            builder.land(&leave);
            Ok(())
        })
    }

    /// Whether a program only reads and compares values, so that it can run at any time.
    fn only_reads(&self, program: usize) -> bool {
        let counter = |stream: usize| self.plan.streams[stream].eval.counter;
        self.plan.programs[program].only_reads(|stream| counter(stream).is_some_and(|it| it.always_fits()))
    }

    /// Adds the ticks at which an expression changes to the thresholds of the counters that it reads.
    fn add_thresholds(&mut self, stream: usize, expression: &Expression) {
        for target in 0..self.plan.streams.len() {
            if let Some(counter) = self.plan.streams[target]
                .eval
                .counter
                .filter(|_| target != stream || self.site == ExprSite::Close)
            {
                let thresholds = thresholds(expression, target, &counter).unwrap_or_default();
                let known = &mut self.plan.streams[target].eval.thresholds;
                known.extend(thresholds);
                known.sort_unstable();
                known.dedup();
            }
        }
    }

    /// Decides whether the close condition of a family is checked incrementally, and registers the family as a dependent
    /// of the condition's reads.
    pub(super) fn plan_incremental_close(&mut self, family: usize) {
        let mir = self.mir;
        let first = self.plan.families[family].members[0];
        if let (Some(close), Some(condition)) =
            (&self.plan.families[family].close, &mir.outputs[first].close.condition)
            && close.path.is_none()
            && !matches!(close.pacing, Pacing::Local(_))
            && let Some(reads) = self.all_reads(first, std::iter::once(condition))
            && !reads.iter().any(Read::changes_by_itself)
        {
            let is_checked_at_spawn = self.only_reads(close.program);
            if let Some(close) = &mut self.plan.families[family].close {
                close.incremental = true;
                close.is_checked_at_spawn = is_checked_at_spawn;
            }
            reads.iter().for_each(|read| self.register_dependent(first, Reader::Family(family), read));
            self.site = ExprSite::Close;
            self.add_thresholds(first, condition);
            self.site = ExprSite::Eval;
        }
    }

    /// What expressions of a stream read; `None` if the value of one may change without a change of what it reads.
    fn all_reads<'a>(
        &self,
        stream: usize,
        expressions: impl Iterator<Item = &'a Expression>,
    ) -> Option<Vec<Read>> {
        let mut all = Vec::new();
        for expression in expressions {
            let found = reads(self.mir, stream, expression)?;
            for read in &found {
                // A counter changes at every tick. Its reader must have thresholds, the few ticks that matter to it.
                if let Read::Instance(target, _) | Read::Any(target) = read
                    && let Some(counter) = &self.plan.streams[*target].eval.counter
                {
                    thresholds(expression, *target, counter)?;
                }
            }
            all.extend(found);
        }
        Some(all)
    }

    /// Whether an access or a window can distinguish a value that was computed again from one that was only kept.
    fn shows_freshness(&self, output: &OutputStream) -> bool {
        let windows = output.aggregated_by.iter().any(|(_, _, window)| match window {
            WindowReference::Sliding(_) | WindowReference::Discrete(_) => true,
            WindowReference::Instance(_) => matches!(
                self.mir.instance_aggregation(*window).selection,
                InstanceSelection::Fresh | InstanceSelection::FilteredFresh { .. }
            ),
        });
        let accesses = output.accessed_by.iter().any(|(reader, accesses)| {
            accesses.iter().any(|(_, kind)| match kind {
                StreamAccessKind::Get | StreamAccessKind::Fresh => true,
                StreamAccessKind::Offset(Offset::Past(1)) => *reader != output.reference,
                StreamAccessKind::Offset(_) => true,
                _ => false,
            })
        });
        windows || accesses
    }

    /// Registers a reader as a dependent of what it reads.
    fn register_dependent(&mut self, stream: usize, reader: Reader, read: &Read) {
        let dependent = |selector: Selector| Dependent { reader, selector };
        let dependents = match read {
            Read::Itself => return,
            Read::Window(window) => {
                let window = self.windows[*window];
                add_dependent(&mut self.plan.windows[window].dependents, dependent(Selector::All));
                self.plan.streams[stream].eval.windows.push(window);
                return;
            }
            Read::Whole(StreamReference::In(input)) => {
                add_dependent(&mut self.plan.input_dependents[*input], dependent(Selector::All));
                return;
            }
            Read::Whole(StreamReference::Out(target)) => (*target, dependent(Selector::All)),
            Read::Any(target) => (*target, dependent(Selector::All)),
            Read::Instance(target, own) => {
                let types: Vec<Type> = self.plan.streams[*target].params.clone();
                let same_family = self.plan.streams[*target].family == self.plan.streams[stream].family;
                let selector = if same_family && own.iter().enumerate().all(|(index, own)| index == *own) {
                    Selector::Slot
                } else {
                    self.selector(stream, own, &types)
                };
                (*target, dependent(selector))
            }
            Read::Aggregation(aggregation, key) => {
                let window = &self.mir.instance_aggregations[*aggregation];
                let Some((grouped, aggregate)) = self.grouped.get(aggregation).copied() else {
                    let target = window.target.out_ix();
                    add_dependent(&mut self.plan.streams[target].dependents, dependent(Selector::All));
                    return;
                };
                let selector = match key {
                    Some(own) => {
                        let params = &self.plan.streams[stream].params;
                        let types: Vec<Type> = own.iter().map(|param| params[*param].clone()).collect();
                        self.selector(stream, own, &types)
                    }
                    None => Selector::All,
                };
                add_dependent(&mut self.plan.grouped[grouped].dependents[aggregate], dependent(selector));
                return;
            }
        };
        let (target, dependent) = dependents;
        add_dependent(&mut self.plan.streams[target].dependents, dependent);
    }

    /// Selects the instances whose parameters `own` are, in this order, the components of a key of these types.
    fn selector(&mut self, stream: usize, own: &[usize], types: &[Type]) -> Selector {
        let mut at = 0;
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for (param, ty) in own.iter().zip(types) {
            parts.push((*param, (at..at + width(ty)).collect()));
            at += width(ty);
        }
        parts.sort();
        let from: Vec<usize> = parts.iter().flat_map(|(_, words)| words.clone()).collect();
        if own.len() == self.plan.streams[stream].params.len() {
            return Selector::Instance(from);
        }
        let key_words = self.param_words(stream, parts.iter().map(|(param, _)| *param));
        Selector::Index(self.add_index(stream, key_words), from)
    }
}

fn add_dependent(dependents: &mut Vec<Dependent>, dependent: Dependent) {
    if !dependents.contains(&dependent) {
        dependents.push(dependent);
    }
}
