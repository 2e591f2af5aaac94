//! Explains a plan in words: how instances are reached, and what costs grow with their number.

use crate::compiled::CompiledEngine;
use crate::compiled::ir::aggregate::Aggregate;
use crate::compiled::ir::plan::{ClosePlan, Pacing, Path, Plan, Route, StreamPlan};
use crate::compiled::store::slab::InstanceSlab;

/// How a stream is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its name, with its parameters.
    pub stream: String,
    /// What is done at an event or a deadline, one short sentence each.
    pub steps: Vec<String>,
    /// Work whose cost grows with the number of instances, and the reason for it.
    pub warnings: Vec<String>,
}

impl CompiledEngine {
    /// How each stream is evaluated, in the order of the specification.
    pub fn explain(&self) -> Vec<Explanation> {
        let plan = self.executor.plan();
        plan.streams.iter().enumerate().map(|(index, stream)| explain(plan, index, stream)).collect()
    }
}

fn explain(plan: &Plan, index: usize, stream: &StreamPlan) -> Explanation {
    let family = &plan.families[stream.family];
    let mut steps = Vec::new();
    let mut warnings = Vec::new();
    let is_first = family.members.first() == Some(&index);
    match (is_first, family.members.as_slice()) {
        (true, [_, others @ ..]) if !others.is_empty() => {
            steps.push(format!("shares its slots with {}", names(plan, others)));
        }
        (false, [first, ..]) => steps.push(format!("shares the slots of {}", names(plan, &[*first]))),
        _ => {}
    }
    evaluation(stream, &mut steps, &mut warnings);
    if let Some(close) = family.close.as_ref().filter(|_| is_first) {
        closing(stream, close, &mut steps, &mut warnings);
    }
    for grouped in stream.grouped.iter().map(|grouped| &plan.grouped[*grouped]) {
        let aggregates: Vec<&str> =
            grouped.aggregates.iter().map(|aggregate| aggregate_name(*aggregate)).collect();
        let key = if grouped.key_names.is_empty() {
            String::new()
        } else {
            format!(" for each {}", grouped.key_names.join(", "))
        };
        let filter = grouped.filter_text.as_ref().map(|text| format!(" where {text}")).unwrap_or_default();
        steps.push(format!("kept up to date over its instances{key}{filter}: {}", aggregates.join(", ")));
    }
    for scan in plan.scans.iter().filter(|scan| scan.reader == index) {
        let target = &plan.streams[scan.target].name;
        if scan.only_fresh {
            steps.push(format!("aggregates over the instances of `{target}` that have a new value"));
        } else {
            warnings.push(format!("scans every instance of `{target}`: {}", scan.reason));
        }
    }
    if stream.is_parameterised() && is_first {
        steps.push(format!("{} bytes an instance", bytes(plan, stream.family)));
    }
    let stream = if stream.param_names.is_empty() {
        stream.name.clone()
    } else {
        format!("{}({})", stream.name, stream.param_names.join(", "))
    };
    Explanation { stream, steps, warnings }
}

fn evaluation(stream: &StreamPlan, steps: &mut Vec<String>, warnings: &mut Vec<String>) {
    let paths: Vec<Option<&Path>> = stream.eval.clauses.iter().map(|clause| clause.path.as_ref()).collect();
    if matches!(stream.eval.pacing, Pacing::Local(_)) {
        steps.push("evaluated by the clock of each instance".to_owned());
    } else if stream.is_parameterised() && paths.iter().all(Option::is_some) {
        for path in paths.into_iter().flatten() {
            let step = format!("evaluated {}", reached(path));
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    } else if stream.eval.counter.is_some() {
        steps.push(
            "computed on read from elapsed ticks; evaluated at each tick only if its values are verdicts"
                .to_owned(),
        );
    } else if stream.eval.guard.is_some() {
        steps.push(
            "evaluated for an instance only while its first condition holds, which is checked again \
             when something that it reads has changed"
                .to_owned(),
        );
    } else if stream.eval.incremental {
        let selector = if stream.is_parameterised() { "for an instance " } else { "" };
        steps.push(format!("evaluated again {selector}only when something that it reads has changed"));
    } else if stream.is_parameterised() {
        warnings.push(
            "evaluates every instance each time: no condition such as `input = parameter` selects some"
                .to_owned(),
        );
    } else {
        steps.push("evaluated each time".to_owned());
    }
}

fn closing(stream: &StreamPlan, close: &ClosePlan, steps: &mut Vec<String>, warnings: &mut Vec<String>) {
    if matches!(close.pacing, Pacing::Local(_)) {
        steps.push("closed by the clock of each instance".to_owned());
    } else if !stream.is_parameterised() {
    } else if let Some(path) = &close.path {
        steps.push(format!("closed {}", reached(path)));
    } else if close.incremental {
        steps.push("its close condition is checked only when something that it reads has changed".to_owned());
    } else {
        warnings.push("checks the close condition of every instance each time".to_owned());
    }
}

/// How an access path finds instances.
fn reached(path: &Path) -> String {
    match path.route {
        Route::Lookup => format!("by one lookup of {}", path.pinned.join(", ")),
        Route::Index(_) => format!("by an index over {}", path.pinned.join(", ")),
    }
}

fn names(plan: &Plan, streams: &[usize]) -> String {
    let names: Vec<String> =
        streams.iter().map(|stream| format!("`{}`", plan.streams[*stream].name)).collect();
    names.join(", ")
}

/// Bytes of a slot of a family with its index entries, without the free capacity of slab and indexes.
fn bytes(plan: &Plan, family: usize) -> usize {
    let plan_of = &plan.families[family];
    InstanceSlab::new(plan_of.param_width, plan_of.stride, &plan_of.indexes).slot_bytes()
}

fn aggregate_name(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Count => "count",
        Aggregate::All => "forall",
        Aggregate::Any => "exists",
        Aggregate::Min(_) => "min",
        Aggregate::Max(_) => "max",
        Aggregate::Sum(_) => "sum",
        Aggregate::Average(_) => "avg",
        Aggregate::Variance => "var",
        Aggregate::Deviation => "sd",
        Aggregate::Covariance => "cov",
    }
}
