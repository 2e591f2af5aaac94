//! Updates of grouped aggregates when an instance has another value.

use super::bytecode::run;
use super::cx::Cx;
use super::error::EvalError;
use super::propagate::{ChangeSource, mark_dependents, mark_resolved, with_words};
use crate::compiled::ir::plan::Plan;
use crate::compiled::ir::update_rule::{GroupUpdate, UpdateRule, ValueLocation};
use crate::compiled::store::aggregate::group::KEY;
use crate::compiled::store::state::Store;
use crate::compiled::store::words::set;

impl GroupUpdate {
    /// Replaces a value in its group, and marks the dependents of the aggregates that may have changed. The group.
    #[inline(always)]
    pub(super) fn apply(
        &self,
        plan: &Plan,
        store: &mut Store,
        family: usize,
        slot: u32,
        old: Option<u64>,
        new: Option<u64>,
    ) -> usize {
        let (group, changed) = self.count(plan, store, family, slot, old, new);
        self.mark_changed(plan, store, group, changed);
        group
    }

    fn mark_changed(&self, plan: &Plan, store: &mut Store, group: usize, mut changed: u64) {
        while changed != 0 {
            let dependents = &self.dependents[changed.trailing_zeros() as usize];
            changed &= changed - 1;
            mark_resolved(store, plan, dependents, ChangeSource::Group { grouped: self.grouped, group });
        }
    }

    /// Replaces a value in its group: the group, and a bit for each aggregate that may have changed.
    #[inline(always)]
    fn count(
        &self,
        plan: &Plan,
        store: &mut Store,
        family: usize,
        slot: u32,
        old: Option<u64>,
        new: Option<u64>,
    ) -> (usize, u64) {
        let group = self.group(plan, store, family, slot);
        let [old, new] = [&old, &new].map(|word| word.as_ref().map(std::slice::from_ref));
        let aggregates = &plan.grouped[self.grouped].aggregates;
        (group, store.grouped[self.grouped].change(group, slot, old, new, aggregates))
    }

    /// The group of an instance, created if need be.
    #[inline(always)]
    fn group(&self, plan: &Plan, store: &mut Store, family: usize, slot: u32) -> usize {
        let words = store.families[family].instances.words(slot);
        let word = |at: &usize| words[*at];
        with_words(&self.key_words, word, |key| {
            store.grouped[self.grouped].group(key, &plan.grouped[self.grouped].aggregates)
        })
    }
}

impl UpdateRule {
    /// An instance closes: its value leaves its groups.
    pub(super) fn end(&self, plan: &Plan, store: &mut Store, slot: u32) {
        let ValueLocation::Slot { state, value } = self.location else { return };
        let words = store.families[self.family].instances.words(slot);
        if words[state] >> 32 == 0 {
            return;
        }
        let old = Some(words[value]);
        for update in &self.groups {
            let group = update.apply(plan, store, self.family, slot, old, None);
            store.grouped[update.grouped].retire_if_empty(group);
        }
        let source = ChangeSource::Instance { family: self.family, slot };
        mark_resolved(store, plan, &self.dependents_on_close, source);
    }
}

/// A group that a runtime call has found, for machine code.
pub(crate) struct FoundGroup {
    pub(crate) grouped: usize,
    pub(crate) group: usize,
    /// A bit for each aggregate that may have changed.
    pub(crate) changed: u64,
}

impl Cx<'_> {
    /// Replaces a value in group update `number` of a stream; its dependents are for the caller to mark.
    pub(crate) fn update_group(
        &mut self,
        (stream, number): (usize, usize),
        slot: u32,
        old: Option<u64>,
        new: u64,
    ) -> Option<FoundGroup> {
        let rule = self.plan.rules[stream].as_ref()?;
        let update = &rule.groups[number];
        let (group, changed) = update.count(self.plan, self.store, rule.family, slot, old, Some(new));
        self.store.grouped[update.grouped].cache(group);
        Some(FoundGroup { grouped: update.grouped, group, changed })
    }

    /// Finds the group of an instance for group update `number` of a stream, created if need be.
    pub(crate) fn find_group(&mut self, (stream, number): (usize, usize), slot: u32) -> Option<FoundGroup> {
        let rule = self.plan.rules[stream].as_ref()?;
        let update = &rule.groups[number];
        let group = update.group(self.plan, self.store, rule.family, slot);
        self.store.grouped[update.grouped].cache(group);
        Some(FoundGroup { grouped: update.grouped, group, changed: 0 })
    }

    /// Finds the instance that reads a group and never closes, and caches its slot in word `cached` from the end of the
    /// group; 0 if there is none yet, else the slot plus one.
    pub(crate) fn find_reader(
        &mut self,
        family: usize,
        key_words: &[usize],
        (grouped, group): (usize, usize),
        cached: usize,
    ) -> u64 {
        let Store { families, grouped: all, .. } = &mut *self.store;
        let words = all[grouped].words_mut(group);
        let instances = &families[family].instances;
        let found = with_words(key_words, |at| words[KEY + *at], |key| instances.find(key));
        let slot = found.map_or(0, |slot| u64::from(slot) + 1);
        let at = words.len() - cached;
        words[at] = slot;
        slot
    }

    /// Updates all grouped aggregates over a stream, by the general path. The value before is in the scratch, if `had`;
    /// the new one is stored, if `has`.
    pub(super) fn update_groups(
        &mut self,
        stream: usize,
        slot: u32,
        had: bool,
        has: bool,
    ) -> Result<(), Box<EvalError>> {
        let Cx { plan, store, scratch, .. } = self;
        let stream_plan = &plan.streams[stream];
        for number in &stream_plan.grouped {
            let grouped_plan = &plan.grouped[*number];
            if let Some(filter) = grouped_plan.filter {
                let lambda = grouped_plan.lambda as usize;
                let params = store.families[stream_plan.family].instances.params(slot);
                store.frame[lambda..lambda + params.len()].copy_from_slice(params);
                let counts =
                    run(plan, store, filter).map_err(|error| EvalError::in_program(stream, error))?;
                if !counts {
                    continue;
                }
            }
            let Store { families, grouped, .. } = &mut **store;
            let instances = &families[stream_plan.family].instances;
            let params = instances.params(slot);
            let new = if has { instances.latest(slot, stream_plan.member) } else { None };
            let grouped = &mut grouped[*number];
            let group = match grouped_plan.key_words.as_slice() {
                [] => grouped.group(&[], &grouped_plan.aggregates),
                [at] => grouped.group(&[params[*at]], &grouped_plan.aggregates),
                words => {
                    scratch.key.clear();
                    scratch.key.extend(words.iter().map(|at| params[*at]));
                    grouped.group(&scratch.key, &grouped_plan.aggregates)
                }
            };
            let old = had.then_some(scratch.old.as_slice());
            let mut changed = grouped.change(group, slot, old, new, &grouped_plan.aggregates);
            if changed == 0 && has {
                continue;
            }
            set(&mut scratch.key, grouped.key(group));
            if !has {
                grouped.retire_if_empty(group);
            }
            while changed != 0 {
                let dependents = &grouped_plan.dependents[changed.trailing_zeros() as usize];
                changed &= changed - 1;
                mark_dependents(store, plan, dependents, ChangeSource::Key(&scratch.key));
            }
        }
        Ok(())
    }
}
