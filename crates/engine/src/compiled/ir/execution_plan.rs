//! A plan together with what follows from it and from the subscription. Immutable once the engine is prepared.

use std::ops::Deref;

use super::plan::{Cell, Pacing, Plan, Route, StreamPlan};
use super::update_rule::{CounterDependents, Emission, UpdateRule, has_follow_up};

/// A plan that is specialised for a subscription.
pub(crate) struct ExecutionPlan {
    plan: Plan,
    /// For each stream.
    pub(crate) emission: Vec<Emission>,
    /// For each stream: the fast path, if it can take one.
    pub(crate) rules: Vec<Option<UpdateRule>>,
    /// For each stream: whether an evaluation has consequences other than those of a new value.
    pub(crate) has_follow_up: Vec<bool>,
    /// The streams that are tick counters.
    pub(crate) counters: Vec<usize>,
    /// For each stream; used where it is a counter that is computed on read.
    pub(crate) counter_dependents: Vec<CounterDependents>,
    /// The families whose close has a deadline for each instance.
    pub(crate) local_closes: Vec<usize>,
    pub(crate) indexed_inputs: Vec<IndexedInput>,
}

/// An index in which values of inputs are looked up, so that its entries can be prefetched.
#[derive(Debug)]
pub(crate) struct IndexedInput {
    pub(crate) inputs: Vec<usize>,
    pub(crate) family: usize,
    pub(crate) route: Route,
}

impl Deref for ExecutionPlan {
    type Target = Plan;

    #[inline(always)]
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl ExecutionPlan {
    pub(crate) fn new(plan: Plan, emission_of: impl Fn(usize, &StreamPlan) -> Emission) -> ExecutionPlan {
        let streams = || plan.streams.iter().enumerate();
        let emission: Vec<Emission> = streams().map(|(index, stream)| emission_of(index, stream)).collect();
        let rule = |(index, stream): (usize, &StreamPlan)| UpdateRule::new(&plan, stream, emission[index]);
        let is_local = |pacing: &Pacing| matches!(pacing, Pacing::Local(_));
        let closes = plan.families.iter().map(|family| family.close.as_ref());
        let closes = closes.map(|close| close.is_some_and(|close| is_local(&close.pacing)));
        ExecutionPlan {
            rules: streams().map(rule).collect(),
            has_follow_up: streams().map(|(index, stream)| has_follow_up(stream, emission[index])).collect(),
            counters: indices(plan.streams.iter().map(|stream| stream.eval.counter.is_some())),
            counter_dependents: streams().map(|(_, stream)| CounterDependents::new(&plan, stream)).collect(),
            local_closes: indices(closes),
            indexed_inputs: indexed_inputs(&plan),
            emission,
            plan,
        }
    }
}

fn indices(flags: impl Iterator<Item = bool>) -> Vec<usize> {
    flags.enumerate().filter(|(_, flag)| *flag).map(|(index, _)| index).collect()
}

fn indexed_inputs(plan: &Plan) -> Vec<IndexedInput> {
    let mut all: Vec<IndexedInput> = Vec::new();
    for stream in &plan.streams {
        for path in stream.eval.clauses.iter().filter_map(|clause| clause.path.as_ref()) {
            let family = &plan.families[stream.family];
            let words = match path.route {
                Route::Lookup => family.param_width,
                Route::Index(index) => family.indexes[index].len(),
            };
            let is_key = |input: &Cell| input.value == path.key && input.width == 1;
            let Some(input) = plan.inputs.iter().position(is_key).filter(|_| words == 1) else { continue };
            let (family, route) = (stream.family, path.route);
            match all.iter_mut().find(|known| (known.family, known.route) == (family, route)) {
                Some(known) if known.inputs.contains(&input) => {}
                Some(known) => known.inputs.push(input),
                None => all.push(IndexedInput { inputs: vec![input], family, route }),
            }
        }
    }
    all
}
