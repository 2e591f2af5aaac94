//! Checks a store that was read back against the plan, before anything uses it. Machine code and the data structures use
//! slots, positions and counts without bounds checks of their own.

use super::aggregate::group::{GroupMember, GroupedAggregate};
use super::state::Store;
use crate::compiled::ir::layout::{Leaf, Member};
use crate::compiled::ir::plan::{Cell, Plan};

impl Store {
    /// Validates a store that was deserialised, and builds what is not serialised.
    ///
    /// # Errors
    /// It is not of this plan, or contradicts itself.
    pub(crate) fn restore(&mut self, plan: &Plan) -> Result<(), &'static str> {
        self.validate(plan)?;
        self.interner.rebuild_table();
        self.families.iter_mut().for_each(|family| family.instances.rebuild());
        for (grouped, of) in self.grouped.iter_mut().zip(&plan.grouped) {
            grouped.rebuild(of.readers(plan).len());
        }
        (self.present, self.current, self.reader_spawn) = (0, 0, [0; 2]);
        Ok(())
    }

    fn validate(&self, plan: &Plan) -> Result<(), &'static str> {
        let lengths = [
            (self.past.len(), plan.inputs.len() + plan.streams.len()),
            (self.families.len(), plan.families.len()),
            (self.streams.len(), plan.streams.len()),
            (self.grouped.len(), plan.grouped.len()),
            (self.windows.len(), plan.windows.len()),
            (self.instance_timers.len(), plan.instance_timers.len()),
        ];
        if lengths.iter().any(|(found, expected)| found != expected) {
            return Err("it is of another plan");
        }
        self.interner.validate(&plan.string_constants)?;
        self.validate_frame(plan)?;
        self.validate_families(plan)?;
        self.validate_streams(plan)?;
        for (timer, of) in self.instance_timers.iter().zip(&plan.instance_timers) {
            timer.validate(self.slots(plan, of.family))?;
        }
        for number in 0..plan.grouped.len() {
            self.validate_group(plan, number)?;
        }
        for (windows, of) in self.windows.iter().zip(&plan.windows) {
            windows.validate(of, self.now)?;
        }
        Ok(())
    }

    /// How many slots a family has; one without parameters stands for the family itself.
    fn slots(&self, plan: &Plan, family: usize) -> u32 {
        if plan.families[family].is_parameterised { self.families[family].instances.slots() } else { 1 }
    }

    fn validate_frame(&self, plan: &Plan) -> Result<(), &'static str> {
        if self.frame.used() != plan.frame.len() {
            return Err("the frame has another size");
        }
        let is_constant = |slot: &u16| self.frame[*slot as usize] == plan.frame[*slot as usize];
        if !plan.constants.iter().all(is_constant) {
            return Err("constants have other values");
        }
        let outputs = plan.streams.iter().map(|stream| stream.cell.as_ref());
        let cells = plan.inputs.iter().map(Some).chain(outputs);
        for (cell, past) in cells.zip(&self.past) {
            let Some(Cell { present, fresh, value, width, leaves, depth }) = cell else { continue };
            past.validate(*width, depth.saturating_sub(1))?;
            if self.frame[*present as usize] > 1 || self.frame[*fresh as usize] != 0 {
                return Err("a stream has flags that do not exist, or is in the middle of an instant");
            }
            check_floats(leaves, &self.frame[*value as usize..])?;
            past.values(*width).try_for_each(|words| check_floats(leaves, words))?;
        }
        Ok(())
    }

    fn validate_families(&self, plan: &Plan) -> Result<(), &'static str> {
        for (index, (state, of)) in self.families.iter().zip(&plan.families).enumerate() {
            let members: Vec<Member> = of.members.iter().map(|member| plan.streams[*member].member).collect();
            state.instances.validate(of.param_width, of.stride, &of.indexes, &members)?;
            if !of.is_parameterised && state.instances.slots() > 0 {
                return Err("a stream without parameters has instances");
            }
            if of.spawn.is_none() && !state.alive {
                return Err("a stream that always exists does not");
            }
            state.close_dirty.validate(state.instances.slots())?;
            state.close_deadlines.validate(self.slots(plan, index))?;
            for slot in state.instances.live_slots() {
                for stream in of.members.iter().map(|member| &plan.streams[*member]) {
                    let mut values = state.instances.values(slot, stream.member);
                    values.try_for_each(|words| check_floats(&stream.value_leaves, words))?;
                }
            }
        }
        Ok(())
    }

    fn validate_streams(&self, plan: &Plan) -> Result<(), &'static str> {
        for (state, of) in self.streams.iter().zip(&plan.streams) {
            let instances = &self.families[of.family].instances;
            state.dirty.validate(instances.slots())?;
            let counter = of.eval.counter.filter(|_| state.is_computed_on_read);
            let thresholds = if counter.is_some() { of.eval.thresholds.len() } else { 0 };
            if state.is_computed_on_read != counter.is_some() || state.threshold_timers.len() != thresholds {
                return Err("a stream that is no counter counts ticks");
            }
            state.threshold_timers.iter().try_for_each(|timer| timer.validate(instances.slots()))?;
            if let Some(counter) = counter {
                let ticks = state.ticks(counter.period, self.now, self.instant);
                if instances.live_slots().any(|slot| instances.spawn_tick(slot, of.member) > ticks) {
                    return Err("an instance was spawned in the future");
                }
            }
        }
        Ok(())
    }

    fn validate_group(&self, plan: &Plan, number: usize) -> Result<(), &'static str> {
        let (grouped, of): (&GroupedAggregate, _) = (&self.grouped[number], &plan.grouped[number]);
        let target = &plan.streams[of.target];
        let instances = &self.families[target.family].instances;
        let key = |slot: u32| of.key_words.iter().map(|at| instances.params(slot)[*at]).collect::<Vec<u64>>();
        let member = |slot: u32| {
            let value = instances.latest(slot, target.member)?;
            Some(GroupMember { slot, key: key(slot), value })
        };
        let members: Vec<GroupMember<'_>> = instances.live_slots().filter_map(member).collect();
        let members = of.filter.is_none().then_some(members.as_slice());
        grouped.validate(&of.aggregates, of.readers(plan).len(), of.key_words.len(), members)
    }
}

/// # Errors
/// A word that is a float is NaN: no operation gives one.
fn check_floats(leaves: &[(usize, Leaf)], words: &[u64]) -> Result<(), &'static str> {
    let is_nan = |(at, leaf): &(usize, Leaf)| *leaf == Leaf::Float && f64::from_bits(words[*at]).is_nan();
    if leaves.iter().any(is_nan) { Err("a value is not a number") } else { Ok(()) }
}
