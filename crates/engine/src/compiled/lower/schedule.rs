//! Schedules the tasks of a plan: at events, at ticks of global clocks, and by the timers of instances.

use rtlola_frontend::mir::{ActivationCondition, PacingType, StreamReference};

use super::PlanBuilder;
use crate::clock::period;
use crate::compiled::ir::op::Activation;
use crate::compiled::ir::plan::{InstanceTimer, Pacing, Task};

impl PlanBuilder<'_> {
    /// Sorts spawns, evaluations and closes into events, clocks and instance timers. Closes come last.
    pub(super) fn schedule(&mut self) {
        let mut tasks: Vec<(usize, Task, &Pacing)> = Vec::new();
        for (index, family) in self.plan.families.iter().enumerate() {
            let spawn = family.spawn.iter().map(|spawn| &spawn.pacing);
            tasks.extend(spawn.map(|pacing| (family.spawn_layer, Task::Spawn(index), pacing)));
        }
        for (index, stream) in self.plan.streams.iter().enumerate() {
            tasks.push((stream.eval_layer, Task::Evaluate(index), &stream.eval.pacing));
        }
        for (index, family) in self.plan.families.iter().enumerate() {
            let close = family.close.iter().map(|close| &close.pacing);
            tasks.extend(close.map(|pacing| (usize::MAX, Task::Close(index), pacing)));
        }
        let (mut at_event, mut local_evaluations) = (Vec::new(), Vec::new());
        for (layer, task, pacing) in tasks {
            match (pacing, task) {
                (Pacing::Event(_), task) => at_event.push((layer, task)),
                (Pacing::Local(period), Task::Evaluate(stream)) => local_evaluations.push((stream, *period)),
                (Pacing::Local(_), _) => {}
                (Pacing::Global(period), task) => {
                    match self.plan.clocks.iter_mut().find(|(known, _)| known == period) {
                        Some((_, tasks)) => tasks.push(task),
                        None => self.plan.clocks.push((*period, vec![task])),
                    }
                }
            }
        }
        at_event.sort_by_key(|(layer, _)| *layer);
        self.plan.at_event = at_event.into_iter().map(|(_, task)| task).collect();
        local_evaluations.into_iter().for_each(|(stream, period)| self.add_instance_timer(stream, period));
    }

    /// Adds a stream that clocks of its instances evaluate to the timer of its family and period.
    fn add_instance_timer(&mut self, stream: usize, period: u64) {
        let family = self.plan.streams[stream].family;
        let is_it = |instance_timer: &&mut InstanceTimer| {
            (instance_timer.family, instance_timer.period) == (family, period)
        };
        match self.plan.instance_timers.iter_mut().find(is_it) {
            Some(instance_timer) => instance_timer.streams.push(stream),
            None => {
                self.plan.families[family].instance_timers.push(self.plan.instance_timers.len());
                self.plan.instance_timers.push(InstanceTimer { family, period, streams: vec![stream] });
            }
        }
    }
}

/// Lowers a pacing.
pub(super) fn pacing(of: &PacingType) -> Pacing {
    let nanos = || period(of).map_or(u64::MAX, |period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
    match of {
        PacingType::GlobalPeriodic(_) => Pacing::Global(nanos()),
        PacingType::LocalPeriodic(_) => Pacing::Local(nanos()),
        PacingType::Event(condition) => Pacing::Event(activation(condition)),
        PacingType::Constant => Pacing::Event(Activation::Always),
    }
}

fn activation(condition: &ActivationCondition) -> Activation {
    match condition {
        ActivationCondition::True => Activation::Always,
        ActivationCondition::Stream(StreamReference::In(input)) => Activation::All(1 << input),
        // Activation conditions name inputs only; this one never holds.
        ActivationCondition::Stream(StreamReference::Out(_)) => Activation::Or(Vec::new()),
        ActivationCondition::Conjunction(parts) => {
            let parts: Vec<Activation> = parts.iter().map(activation).collect();
            let masks = parts.iter().map(|part| match part {
                Activation::All(mask) => Some(*mask),
                _ => None,
            });
            match masks.collect::<Option<Vec<u128>>>() {
                Some(masks) => Activation::All(masks.into_iter().fold(0, |all, mask| all | mask)),
                None => Activation::And(parts),
            }
        }
        ActivationCondition::Disjunction(parts) => Activation::Or(parts.iter().map(activation).collect()),
    }
}
