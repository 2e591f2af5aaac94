//! What is done before the first event: machine code for events that are likely to come, and memory for those who come
//! with them. What a specification asks for together, comes together.

use crate::compiled::exec::instant::Evaluator;
use crate::compiled::ir::op::Activation;
use crate::compiled::ir::plan::{FamilyPlan, Pacing, Plan};
use crate::compiled::jit::Handler;
use crate::compiled::store::huge_vec::PrefaultedRegion;
use crate::compiled::store::state::State;

/// For so many kinds of events machine code is written before there are any, and so many pages are touched.
const SOME: usize = 4;

impl Evaluator {
    /// Writes machine code for events that are likely to come, and has memory ready for them.
    pub(crate) fn prepare(&mut self) {
        if self.compile_after > 0 {
            self.precompile_shapes();
        }
        self.move_into();
    }

    fn precompile_shapes(&mut self) {
        for inputs in likely(&self.plan) {
            self.find_shape(inputs);
            let mut shape = std::mem::take(&mut self.shapes[self.now]);
            shape.handler = Handler::new(self, inputs, &shape.steps);
            self.shapes[self.now] = shape;
        }
        self.precompile_timer_sets();
    }

    /// Lets people have memory that has been touched, as far as it goes, for themselves and for their clocks.
    fn move_into(&mut self) {
        let families = 0..self.plan.families.len();
        let is_large =
            |family: &usize| self.plan.families[*family].is_parameterised && !self.plan.is_met_again(*family);
        let families: Vec<usize> = families.filter(is_large).collect();
        if families.is_empty() {
            return;
        }
        let Some(mut region) = PrefaultedRegion::new((families.len() + 1).min(SOME)) else { return };
        let share = region.left() / families.len();
        let State { families: states, streams, instance_timers, .. } = &mut self.state;
        for family in families {
            let FamilyPlan { members, instance_timers: own, .. } = &self.plan.families[family];
            let thresholds: usize = members.iter().map(|member| streams[*member].thresholds.len()).sum();
            let instances = &mut states[family].instances;
            let slots = instances.move_into(&mut region, share, own.len() + thresholds);
            own.iter()
                .for_each(|instance_timer| instance_timers[*instance_timer].move_into(&mut region, slots));
            let thresholds = |member: &usize| {
                streams[*member].thresholds.iter_mut().for_each(|wake| wake.move_into(&mut region, slots))
            };
            members.iter().for_each(thresholds);
        }
        self.places.slots_moved = true;
        self.places.clocks_moved = true;
    }
}

/// The inputs of events that are likely to come: those that are asked for together and not with others, then those
/// that are asked for with others, the more the likelier.
fn likely(plan: &Plan) -> Vec<u128> {
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
    // What some ask for and what others do, if there is an input that both ask for, comes together.
    for inputs in together.clone() {
        together.push(linked(&together, inputs));
    }
    together.sort_unstable();
    together.dedup();
    let is_part = |inputs: &u128| together.iter().any(|all| all != inputs && all & inputs == *inputs);
    let mut likely: Vec<(bool, u32, u128)> =
        together.iter().map(|inputs| (is_part(inputs), u128::BITS - inputs.count_ones(), *inputs)).collect();
    likely.sort_unstable();
    likely.truncate(SOME);
    likely.into_iter().map(|(_, _, inputs)| inputs).collect()
}

/// The inputs of all sets that lead from one to the next by an input that both have.
fn linked(sets: &[u128], inputs: u128) -> u128 {
    let all = sets.iter().filter(|set| *set & inputs != 0).fold(inputs, |all, set| all | set);
    if all == inputs { all } else { linked(sets, all) }
}

/// The smallest sets of inputs each of which is enough, as far as they are a few.
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

/// Those that have no other as a part.
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
        likely(&compile(&spec).unwrap()).into_iter().map(names).collect()
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
