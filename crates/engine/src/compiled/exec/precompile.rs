//! Predicts frequent event shapes and timer sets, so that their handlers are compiled before the first event. The
//! prediction assumes that inputs which a specification reads together occur together.

use crate::compiled::ir::op::Activation;
use crate::compiled::ir::plan::{Pacing, Plan, Task};
use crate::compiled::ir::step::DueTimer;

/// How many event shapes get a handler before the first event.
const PRECOMPILED_SHAPES: usize = 4;

/// The likely timer sets: each clock by itself, all instance timers together, and both together where deadlines fall on
/// ticks, as they do where times are dates. Timers that the deadline loop runs need no handler of their own.
pub(super) fn likely_timer_sets(plan: &Plan, has_deadline_loop: bool) -> Vec<Vec<DueTimer>> {
    let clocks: Vec<DueTimer> = (0..plan.clocks.len()).map(DueTimer::Clock).collect();
    let instance_timers: Vec<DueTimer> =
        (0..plan.instance_timers.len()).map(DueTimer::InstanceTimer).collect();
    let needs_handler = |timer: &DueTimer| match timer {
        _ if !has_deadline_loop => true,
        DueTimer::Clock(clock) => !plan.is_skippable(*clock),
        DueTimer::InstanceTimer(_) => false,
    };
    let fall_on_ticks = |(period, _): &&(u64, Vec<Task>)| {
        let mut periods = plan.instance_timers.iter().map(|timer| timer.period);
        !instance_timers.is_empty() && periods.all(|deadline| deadline.is_multiple_of(*period))
    };
    let together: Vec<Vec<DueTimer>> = (clocks.iter().zip(&plan.clocks))
        .filter(|(_, clock)| fall_on_ticks(clock))
        .map(|(clock, _)| [&[*clock], instance_timers.as_slice()].concat())
        .collect();
    let mut sets: Vec<Vec<DueTimer>> = clocks.into_iter().map(|clock| vec![clock]).collect();
    sets.push(instance_timers);
    sets.retain(|set| set.first().is_some_and(needs_handler));
    sets.extend(together);
    sets
}

/// The input masks of likely events: first those that are not part of a larger mask, then the others; within each, the
/// larger first.
pub(super) fn likely_shapes(plan: &Plan) -> Vec<u128> {
    let families = plan.families.iter();
    let spawns = families.clone().filter_map(|family| family.spawn.as_ref().map(|spawn| &spawn.pacing));
    let closes = families.filter_map(|family| family.close.as_ref().map(|close| &close.pacing));
    let evaluations = plan.streams.iter().map(|stream| &stream.eval.pacing);
    let mut together: Vec<u128> = Vec::new();
    for pacing in spawns.chain(closes).chain(evaluations) {
        if let Pacing::Event(when) = pacing {
            together.extend(alternatives(when));
        }
    }
    together.retain(|inputs| *inputs != 0);
    // Masks that share an input are likely to occur together.
    for inputs in together.clone() {
        together.push(linked(&together, inputs));
    }
    together.sort_unstable();
    together.dedup();
    let is_part = |inputs: &u128| together.iter().any(|all| all != inputs && all & inputs == *inputs);
    let mut likely: Vec<(bool, u32, u128)> =
        together.iter().map(|inputs| (is_part(inputs), u128::BITS - inputs.count_ones(), *inputs)).collect();
    likely.sort_unstable();
    likely.truncate(PRECOMPILED_SHAPES);
    likely.into_iter().map(|(_, _, inputs)| inputs).collect()
}

/// The union of all masks that are connected to `inputs` by shared inputs.
fn linked(sets: &[u128], inputs: u128) -> u128 {
    let all = sets.iter().filter(|set| *set & inputs != 0).fold(inputs, |all, set| all | set);
    if all == inputs { all } else { linked(sets, all) }
}

/// The minimal masks that satisfy an activation condition, up to 16 of them.
fn alternatives(activation: &Activation) -> Vec<u128> {
    const FEW: usize = 16;
    let mut sets: Vec<u128> = match activation {
        Activation::Always => vec![0],
        Activation::All(mask) => vec![*mask],
        Activation::Or(parts) => parts.iter().flat_map(alternatives).collect(),
        Activation::And(parts) => parts.iter().fold(vec![0], |sets, part| {
            let more = alternatives(part);
            smallest(sets.iter().flat_map(|set| more.iter().map(move |other| set | other)).collect())
        }),
    };
    sets = smallest(sets);
    sets.truncate(FEW);
    sets
}

/// The masks that contain no other mask.
fn smallest(mut sets: Vec<u128>) -> Vec<u128> {
    sets.sort_unstable();
    sets.dedup();
    let all = sets.clone();
    sets.retain(|set| !all.iter().any(|other| other != set && other & set == *other));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Specification;
    use crate::compiled::lower::compile;

    fn likely_in(name: &str) -> Vec<Vec<String>> {
        let path = format!("{}/../../specs/rtlola/{name}.lola", env!("CARGO_MANIFEST_DIR"));
        let spec = Specification::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap();
        let names = |inputs: u128| {
            let is_in = |(at, _): &(usize, _)| inputs >> at & 1 != 0;
            spec.wanted().iter().enumerate().filter(is_in).map(|(_, input)| input.name.clone()).collect()
        };
        likely_shapes(&compile(&spec).unwrap()).into_iter().map(names).collect()
    }

    #[test]
    fn whole_applications_and_acceptances_come_first() {
        assert_eq!(likely_in("hiring")[..2], [vec!["id", "gender"], vec!["accepted"]]);
        assert_eq!(likely_in("seminar")[..2], [vec!["id", "gender", "seminar"], vec!["accepted"]]);
    }

    #[test]
    fn an_offence_is_likely_beside_a_screening() {
        let screening = vec!["event", "id", "group", "score"];
        assert_eq!(likely_in("compas_deadline")[..2], [screening.clone(), vec!["event", "id"]]);
        let by_days = likely_in("compas");
        assert_eq!(by_days[0], screening);
        assert!(by_days.contains(&vec!["event".to_owned(), "id".to_owned()]), "{by_days:?}");
    }
}
