//! Steps: what is done at an event or a deadline, in which order, and for which instances.

use super::op::Activation;
use super::plan::{Pacing, Plan, StreamPlan, Task};

/// One step of an instant.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Spawns an instance of a family, if its spawn condition holds.
    Spawn(usize),
    /// Evaluates instances of a stream.
    Evaluate(usize, Target),
    /// Checks the close condition of instances of a family.
    Close(usize, Target),
}

/// The instances that a step is done for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Every instance, or those in the dirty set where the evaluation is incremental or guarded.
    All,
    /// Those in the dirty set, and those whose held value is emitted each time.
    Dirty,
    /// Those that the access paths of these clauses find.
    Lookup(Vec<usize>),
    /// Those whose deadline in this instance timer has expired.
    Expired(usize),
}

/// A timer that is due at a time, by its index in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueTimer {
    /// A clock that starts with the monitor ticks.
    Clock(usize),
    /// Deadlines of instances expire.
    InstanceTimer(usize),
}

impl Plan {
    /// The steps of an event with these inputs.
    pub(crate) fn steps_of_event(&self, inputs: u128) -> Vec<Step> {
        let holds = |pacing: &Pacing| matches!(pacing, Pacing::Event(when) if when.holds(inputs));
        let is_due = |task: &&Task| match **task {
            Task::Spawn(family) => {
                self.families[family].spawn.as_ref().is_some_and(|spawn| holds(&spawn.pacing))
            }
            Task::Evaluate(stream) => holds(&self.streams[stream].eval.pacing),
            Task::Close(family) => {
                self.families[family].close.as_ref().is_some_and(|close| holds(&close.pacing))
            }
        };
        self.at_event.iter().filter(is_due).map(|task| self.step_of(*task, inputs)).collect()
    }

    /// The steps at a time when these timers are due, layer by layer. Within a layer ticks come before the deadlines of
    /// instances, which come stream by stream.
    pub(crate) fn steps_of_timers(&self, due: &[DueTimer]) -> Vec<Step> {
        let mut steps: Vec<(usize, Option<usize>, Step)> = Vec::new();
        for timer in due {
            match *timer {
                DueTimer::Clock(clock) => {
                    let tasks = self.clocks[clock].1.iter();
                    steps.extend(tasks.map(|task| (self.layer(*task), None, self.step_of(*task, 0))));
                }
                DueTimer::InstanceTimer(timer) => {
                    let streams = self.instance_timers[timer].streams.iter();
                    steps.extend(streams.map(|stream| {
                        let layer = self.streams[*stream].eval_layer;
                        (layer, Some(*stream), Step::Evaluate(*stream, Target::Expired(timer)))
                    }));
                }
            }
        }
        steps.sort_by_key(|(layer, stream, _)| (*layer, *stream));
        steps.into_iter().map(|(_, _, step)| step).collect()
    }

    fn layer(&self, task: Task) -> usize {
        match task {
            Task::Spawn(family) => self.families[family].spawn_layer,
            Task::Evaluate(stream) => self.streams[stream].eval_layer,
            Task::Close(_) => usize::MAX,
        }
    }

    fn step_of(&self, task: Task, inputs: u128) -> Step {
        match task {
            Task::Spawn(family) => Step::Spawn(family),
            Task::Evaluate(stream) => Step::Evaluate(stream, self.target(&self.streams[stream], inputs)),
            Task::Close(family) => {
                let plan = &self.families[family];
                let has_path = plan.close.as_ref().is_some_and(|close| close.path.is_some());
                let target =
                    if has_path && plan.is_parameterised { Target::Lookup(Vec::new()) } else { Target::All };
                Step::Close(family, target)
            }
        }
    }

    /// The access paths of the active clauses, if each of them has one.
    fn target(&self, stream: &StreamPlan, inputs: u128) -> Target {
        if stream.eval.incremental && stream.eval.counter.is_none() {
            return Target::Dirty;
        }
        let mut paths = Vec::new();
        for (index, clause) in stream.eval.clauses.iter().enumerate() {
            let when = clause.activation.map_or(&Activation::Always, |at| &self.activations[at]);
            match &clause.path {
                _ if !when.holds(inputs) => {}
                Some(_) if stream.is_parameterised() => paths.push(index),
                _ => return Target::All,
            }
        }
        Target::Lookup(paths)
    }

    /// Whether an empty dirty set is enough to know that a tick of a clock changes and emits nothing.
    pub(crate) fn is_skippable(&self, clock: usize) -> bool {
        self.clocks[clock].1.iter().all(|task| match *task {
            Task::Spawn(_) => false,
            Task::Evaluate(stream) => self.streams[stream].eval.incremental,
            Task::Close(family) => {
                let plan = &self.families[family];
                plan.is_parameterised && plan.close.as_ref().is_some_and(|close| close.incremental)
            }
        })
    }
}
