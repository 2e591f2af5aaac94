//! How instances close, and what follows when they end.
//!
//! An instance that closes is there until the end of its instant, as others may read it. Where nobody is told of it, the
//! reaction that lets it close ends it as well, as its last steps.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

use super::super::lane::{Home, Lane};
use super::super::plan::ClosePlan;
use super::super::state::Dirty;
use super::super::tally::{LISTED, USED};
use super::evaluation::dirty_family;
use super::groups::is_flat;
use super::program::{Instance, Run};
use super::reaction::Scribe;
use super::{Context, calls};

/// The instances of a family that end with this instant: their slots, and how many there are.
pub(super) struct Ending {
    family: usize,
    slots: Variable,
    count: Variable,
}

impl<'e> Scribe<'e, '_> {
    /// How a family closes, if that can be written.
    pub(super) fn closes_simply(&self, family: usize) -> Option<&'e ClosePlan> {
        let plan = &self.evaluator.plan.families[family];
        let is_simple = plan.is_parameterised && !plan.knows_its_spawn;
        plan.close.as_ref().filter(|close| is_simple && close.remembers)
    }

    /// The instances of a family whose close condition must be looked at.
    pub(super) fn close(&mut self, family: usize, close: &ClosePlan) {
        let ending = self.ends_simply(family).then(|| self.nobody_ends(family));
        let [some, done] = [(); 2].map(|()| self.writer.builder.create_block());
        let at = dirty_family(family);
        let families = self.writer.load(I64, self.writer.context, offset_of!(Context, families));
        let count = self.writer.load(I32, families, at + offset_of!(Dirty, count));
        let all = self.writer.load(I8, families, at + offset_of!(Dirty, all));
        let wide = self.writer.builder.ins().uextend(I32, all);
        let any = self.writer.builder.ins().bor(count, wide);
        let fork = self.writer.fork();
        self.writer.builder.ins().brif(any, some, &[], done, &[]);
        self.writer.go_on(some);
        let number = self.writer.call(calls::list_closing as *const u8, &[family as u64]);
        let slots = self.writer.load(I64, self.writer.context, offset_of!(Context, listed));
        if let Some(ending) = &ending {
            self.writer.builder.def_var(ending.slots, slots);
        }
        self.each(slots, number, |scribe, slot| {
            let instance = scribe.writer.instance(family, slot);
            let [yields, ends] = [(); 2].map(|()| scribe.writer.builder.create_block());
            let fork = scribe.writer.fork();
            scribe.close_condition(family, close, instance, [yields, ends]);
            scribe.writer.resume(yields, &fork);
            match &ending {
                Some(ending) => scribe.add(ending, slot),
                None => {
                    let number = scribe.writer.number(family as u64);
                    scribe.writer.call_with(calls::close as *const u8, &[number, slot]);
                }
            }
            scribe.writer.builder.ins().jump(ends, &[]);
            scribe.writer.resume(ends, &fork);
        });
        self.writer.builder.ins().jump(done, &[]);
        self.writer.resume(done, &fork);
        self.ending.extend(ending);
    }

    /// Ends the instances that close. Who reads others is gone before they are, most often, and need not look again.
    pub(super) fn end_instances(&mut self) {
        for Ending { family, slots, count } in std::mem::take(&mut self.ending).into_iter().rev() {
            let [slots, count] = [slots, count].map(|variable| self.writer.builder.use_var(variable));
            self.each(slots, count, |scribe, slot| {
                let instance = scribe.writer.instance(family, slot);
                for member in &scribe.evaluator.plan.families[family].members {
                    if let Some(lane) = &scribe.evaluator.lanes[*member] {
                        scribe.end(*member, lane, instance);
                    }
                }
                scribe.leave(family, instance);
            });
            let plan = &self.evaluator.plan.families[family];
            if !plan.chimes.is_empty() {
                self.writer.when(count, |writer| {
                    let number = writer.number(family as u64);
                    writer.call_with(calls::stop_clocks as *const u8, &[number, count]);
                });
            }
        }
    }

    /// Whether instances of a family can end without a call: nobody is told of it, and all that counts their values is
    /// words.
    fn ends_simply(&self, family: usize) -> bool {
        let Scribe { evaluator, .. } = self;
        let is_simple = |member: &usize| {
            let measures = |tally: usize| evaluator.plan.tallies[tally].measures.iter();
            let is_word = |lane: &Lane| lane.tallies.iter().all(|feed| measures(feed.tally).all(is_flat));
            !evaluator.tells[*member] && evaluator.lanes[*member].as_ref().is_some_and(is_word)
        };
        // Closes that have clocks of their own come after this, and may read who ends.
        evaluator.local_closes.is_empty() && evaluator.plan.families[family].members.iter().all(is_simple)
    }

    fn nobody_ends(&mut self, family: usize) -> Ending {
        let builder = &mut self.writer.builder;
        let [slots, count] = [(); 2].map(|()| builder.declare_var(I64));
        let none = builder.ins().iconst(I64, 0);
        builder.def_var(slots, none);
        builder.def_var(count, none);
        Ending { family, slots, count }
    }

    /// Lists a slot among those that end, in the place of one that has been looked at.
    fn add(&mut self, ending: &Ending, slot: Value) {
        let [slots, count] =
            [ending.slots, ending.count].map(|variable| self.writer.builder.use_var(variable));
        let at = self.writer.builder.ins().ishl_imm(count, 2);
        let at = self.writer.builder.ins().iadd(slots, at);
        let slot = self.writer.builder.ins().ireduce(I32, slot);
        self.writer.store(slot, at, 0);
        let more = self.writer.builder.ins().iadd_imm(count, 1);
        self.writer.builder.def_var(ending.count, more);
    }

    /// What [`Lane::end`] does.
    fn end(&mut self, stream: usize, lane: &'e Lane, instance: Instance) {
        let Home::Slot { state, value } = lane.home else { return };
        if lane.tallies.is_empty() && lane.left.is_empty() {
            return;
        }
        let flags = self.writer.load(I64, instance.words, 8 * state);
        let values = self.writer.builder.ins().ushr_imm(flags, 32);
        let way = self.writer.part(values);
        let old = self.writer.load(I64, instance.words, 8 * value);
        for (number, feed) in lane.tallies.iter().enumerate() {
            let which = (stream as u64) << 32 | number as u64;
            let (changed, members) = self.writer.leave(feed, which, instance, old);
            let group = changed.first().map(|changed| changed.group);
            self.mark_all_readers(feed, changed);
            if let Some(group) = group {
                self.tidy(feed.tally, group, members);
            }
        }
        lane.left.iter().for_each(|watch| self.mark(stream, watch, Some(instance)));
        self.writer.meet(way);
    }

    /// A group may have no members left.
    fn tidy(&mut self, tally: usize, group: Value, members: Value) {
        let is_empty = self.writer.builder.ins().icmp_imm(IntCC::Equal, members, 0);
        let used = self.writer.load(I64, group, 8 * USED);
        let listed = self.writer.builder.ins().band_imm(used, LISTED.cast_signed());
        let is_new = self.writer.builder.ins().icmp_imm(IntCC::Equal, listed, 0);
        let is_empty = self.writer.builder.ins().band(is_empty, is_new);
        self.writer.when(is_empty, |writer| {
            let number = writer.number(tally as u64);
            writer.call_with(calls::tidy as *const u8, &[number, group]);
        });
    }

    /// Looks whether an instance closes.
    pub(super) fn close_condition(
        &mut self,
        family: usize,
        close: &ClosePlan,
        instance: Instance,
        [yields, ends]: [cranelift_codegen::ir::Block; 2],
    ) {
        let (plan, stream) = (&self.evaluator.plan, self.evaluator.first_member(family));
        self.load_parameters(plan.streams[stream].own, plan.families[family].param_width, instance);
        self.writer.program(Run { stream, program: close.program, instance: Some(instance) }, yields, ends);
    }
}
