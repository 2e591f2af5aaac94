//! The projection onto a fair set is fair, and no other fair point is closer.

use fairstream_guarantee::FairSet;
use proptest::prelude::*;

use crate::fair_set;

fn groups() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let group = (0.005..0.995_f64, prop_oneof![Just(0.0), (1..30_u32).prop_map(f64::from)]);
    prop::collection::vec(group, 2..5).prop_map(|groups| groups.into_iter().unzip())
}

/// Σ weight · KL(rate ‖ point).
fn distance(rates: &[f64], weights: &[f64], points: &[f64]) -> f64 {
    let part = |one: f64, other: f64| one * (one / other).ln();
    let of = |((rate, weight), point): ((&f64, &f64), &f64)| match *weight {
        0.0 => 0.0,
        weight => weight * (part(*rate, *point) + part(1.0 - rate, 1.0 - point)),
    };
    rates.iter().zip(weights).zip(points).map(of).sum()
}

fn weighted<T: Copy>(values: &[T], weights: &[f64]) -> Vec<T> {
    values.iter().zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(value, _)| *value).collect()
}

/// Steps of the grid in each direction.
const STEPS: usize = 40;

fn step(index: usize) -> f64 {
    (index as f64 + 0.5) / STEPS as f64
}

/// Every point of the grid over the rates of so many groups.
fn grid(groups: usize) -> impl Iterator<Item = Vec<f64>> {
    (0..STEPS.pow(groups as u32))
        .map(move |index| (0..groups).map(|group| step(index / STEPS.pow(group as u32) % STEPS)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// No point of a grid over the fair set, for up to three groups, is closer than the projection.
    #[test]
    fn no_point_of_a_grid_is_nearer(fair in fair_set(), (rates, weights) in groups()) {
        let (rates, weights) = (&rates[..rates.len().min(3)], &weights[..weights.len().min(3)]);
        let nearest = fair.project(rates, weights);
        let least = distance(rates, weights, &nearest);
        for point in grid(rates.len()) {
            if fair.contains(&point) {
                prop_assert!(distance(rates, weights, &point) >= least - 1e-9, "{:?} is nearer than {:?}", point, nearest);
            }
        }
    }

    #[test]
    fn the_nearest_point_is_fair(fair in fair_set(), (rates, weights) in groups()) {
        let nearest = weighted(&fair.project(&rates, &weights), &weights);
        let looser = match fair {
            FairSet::Difference(most) => FairSet::Difference(most + 1e-12),
            FairSet::Ratio(least) => FairSet::Ratio(least - 1e-12),
            FairSet::Highest(most) => FairSet::Highest(most),
        };
        prop_assert!(looser.contains(&nearest), "{:?}", nearest);
        if fair.contains(&weighted(&rates, &weights)) {
            prop_assert_eq!(nearest, weighted(&rates, &weights), "what is fair is its own nearest point");
        }
    }

    /// What the proof needs: no fair point lies beyond the projection.
    #[test]
    fn every_fair_point_is_behind_the_nearest(
        fair in fair_set(), (rates, weights) in groups(), other in prop::collection::vec(0.0..1.0_f64, 5),
    ) {
        let nearest = fair.project(&rates, &weights);
        let other = fair.project(&other[..rates.len()].iter().map(|rate| rate.clamp(0.001, 0.999)).collect::<Vec<_>>(), &vec![1.0; rates.len()]);
        let mut sum = 0.0;
        for group in (0..rates.len()).filter(|group| weights[*group] > 0.0 && rates[*group] != nearest[*group]) {
            let (q, r, theta) = (rates[group], nearest[group], other[group]);
            if r > 0.0 {
                sum += weights[group] * (theta - r) * (q - r) / (r * (1.0 - r));
            }
        }
        prop_assert!(sum <= 1e-7, "{} for {:?}", sum, other);
    }

    /// Fair sets are convex for any number of groups: every point between two fair points is fair.
    #[test]
    fn between_fair_points_all_are_fair(
        fair in fair_set(), one in prop::collection::vec(0.001..0.999_f64, 5), other in prop::collection::vec(0.001..0.999_f64, 5), part in 0.0..1.0_f64,
    ) {
        let weights = [1.0; 5];
        let (one, other) = (fair.project(&one, &weights), fair.project(&other, &weights));
        let between: Vec<f64> = one.iter().zip(&other).map(|(one, other)| one + (other - one) * part).collect();
        let looser = match fair {
            FairSet::Difference(most) => FairSet::Difference(most + 1e-12),
            FairSet::Ratio(least) => FairSet::Ratio(least - 1e-12),
            FairSet::Highest(most) => FairSet::Highest(most + 1e-12),
        };
        prop_assert!(looser.contains(&between));
    }

    /// Beside a reference group: no point of a grid whose rates are fair beside that of the reference is closer. Where
    /// the reference is not among the rates, its rate is any on the grid.
    #[test]
    fn no_point_of_a_grid_is_nearer_beside_a_reference(
        fair in comparing(), (rates, weights) in groups(), reference in prop::option::of(0..3_usize),
    ) {
        let (rates, weights) = (&rates[..rates.len().min(3)], &weights[..weights.len().min(3)]);
        let reference = reference.filter(|index| *index < rates.len());
        let nearest = fair.project_to(rates, weights, reference);
        let least = distance(rates, weights, &nearest);
        for point in grid(rates.len()) {
            let is_fair = match reference {
                Some(reference) => fair.contains_around(&point, point[reference]),
                None => (0..STEPS).any(|center| fair.contains_around(&point, step(center))),
            };
            if is_fair {
                prop_assert!(distance(rates, weights, &point) >= least - 1e-9, "{:?} is nearer than {:?}", point, nearest);
            }
        }
    }

    /// The projection beside a reference group is fair; what is fair already stays as it is.
    #[test]
    fn the_nearest_point_is_fair_beside_a_reference(
        fair in comparing(), (rates, weights) in groups(), reference in 0..5_usize,
    ) {
        let reference = reference % rates.len();
        let nearest = fair.project_to(&rates, &weights, Some(reference));
        if weights[reference] > 0.0 {
            let looser = looser(fair);
            prop_assert!(looser.contains_around(&weighted(&nearest, &weights), nearest[reference]), "{:?}", nearest);
            if fair.contains_around(&weighted(&rates, &weights), rates[reference]) {
                prop_assert_eq!(weighted(&nearest, &weights), weighted(&rates, &weights));
            }
        } else {
            // Without trials of the reference, every two rates may be apart from it in opposite directions.
            let others = weighted(&nearest, &weights);
            let twice = match fair {
                FairSet::Difference(most) => FairSet::Difference(2.0 * most + 1e-12),
                FairSet::Ratio(least) => FairSet::Ratio(least * least - 1e-12),
                FairSet::Highest(most) => FairSet::Highest(most),
            };
            prop_assert!(twice.contains(&others), "{:?}", others);
            prop_assert_eq!(weighted(&fair.project_to(&rates, &weights, None), &weights), others);
        }
    }

    /// What the proof needs, beside a reference group: no fair point lies beyond the projection.
    #[test]
    fn every_fair_point_beside_a_reference_is_behind_the_nearest(
        fair in comparing(), (rates, weights) in groups(), reference in 0..5_usize,
        other in prop::collection::vec(0.001..0.999_f64, 5),
    ) {
        let reference = reference % rates.len();
        let nearest = fair.project_to(&rates, &weights, Some(reference));
        let other = fair.project_to(&other[..rates.len()], &vec![1.0; rates.len()], Some(reference));
        let mut sum = 0.0;
        for group in (0..rates.len()).filter(|group| weights[*group] > 0.0 && rates[*group] != nearest[*group]) {
            let (q, r, theta) = (rates[group], nearest[group], other[group]);
            sum += weights[group] * (theta - r) * (q - r) / (r * (1.0 - r));
        }
        prop_assert!(sum <= 1e-7, "{} for {:?}", sum, other);
    }
}

/// Fair sets that compare groups.
fn comparing() -> impl Strategy<Value = FairSet> {
    fair_set().prop_filter("an upper bound has no reference", |fair| !matches!(fair, FairSet::Highest(_)))
}

fn looser(fair: FairSet) -> FairSet {
    match fair {
        FairSet::Difference(most) => FairSet::Difference(most + 1e-12),
        FairSet::Ratio(least) => FairSet::Ratio(least - 1e-12),
        FairSet::Highest(most) => FairSet::Highest(most),
    }
}

/// By hand: two groups of equal weight are apart from the reference by more than 0.1, in opposite directions. By symmetry
/// the reference stays at 0.5, and each of them moves to where it is 0.1 apart.
#[test]
fn a_symmetric_projection() {
    let nearest = FairSet::Difference(0.1).project_to(&[0.8, 0.5, 0.2], &[10.0, 3.0, 10.0], Some(1));
    let expected = [0.6, 0.5, 0.4];
    assert!(nearest.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{nearest:?}");
    // The two are apart by more than 0.1, but neither from the reference.
    let rates = [0.59, 0.5, 0.41];
    assert_eq!(FairSet::Difference(0.1).project_to(&rates, &[1.0; 3], Some(1)), rates);
    assert_ne!(FairSet::Difference(0.1).project(&rates, &[1.0; 3]), rates);
}
