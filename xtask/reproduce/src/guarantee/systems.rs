//! Simulated systems, fair and unfair, one decision after another.

use fairstream_guarantee::FairSet;
use fairstream_scenarios::Random;

/// A system whose decisions are monitored.
#[derive(Clone, Copy)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// The rates that count as fair.
    pub(super) fair: FairSet,
    /// The group and the outcome of a decision, by its number.
    pub(super) decide: fn(&mut Random, u64) -> (usize, f64),
}

const TOLERANCE: FairSet = FairSet::Difference(0.1);

fn outcome(random: &mut Random, rate: f64) -> f64 {
    f64::from(u8::from(random.chance(rate)))
}

/// Two groups that alternate.
fn in_turn(random: &mut Random, step: u64, rates: [f64; 2]) -> (usize, f64) {
    let group = usize::from(step % 2 == 1);
    (group, outcome(random, rates[group]))
}

/// Groups in random order, each with its share.
fn mixed<const N: usize>(random: &mut Random, groups: [(f64, f64); N]) -> (usize, f64) {
    let mut left = random.fraction();
    let chosen = groups.iter().position(|(share, _)| {
        left -= share;
        left < 0.0
    });
    let group = chosen.unwrap_or(N - 1);
    (group, outcome(random, groups[group].1))
}

/// The systems of the table: fair, at the edge of the tolerance, and unfair to a larger and a smaller degree.
pub(super) const FOUR: [System; 4] = [
    System {
        name: "fair: 0.5, 0.5",
        fair: TOLERANCE,
        decide: |random, step| in_turn(random, step, [0.5, 0.5]),
    },
    System {
        name: "edge: 0.5, 0.4",
        fair: TOLERANCE,
        decide: |random, step| in_turn(random, step, [0.5, 0.4]),
    },
    System {
        name: "unfair: 0.5, 0.2",
        fair: TOLERANCE,
        decide: |random, step| in_turn(random, step, [0.5, 0.2]),
    },
    System {
        name: "unfair: 0.5, 0.35",
        fair: TOLERANCE,
        decide: |random, step| in_turn(random, step, [0.5, 0.35]),
    },
];

/// Fair systems, most of them at the edge of the tolerance, where false alarms are most likely.
pub(super) const FAIR: [System; 11] = [
    FOUR[0],
    FOUR[1],
    System {
        name: "edge, groups in random order",
        fair: TOLERANCE,
        decide: |random, _| mixed(random, [(0.5, 0.5), (0.5, 0.4)]),
    },
    System {
        name: "edge, rare: 0.11, 0.01",
        fair: TOLERANCE,
        decide: |random, _| mixed(random, [(0.5, 0.11), (0.5, 0.01)]),
    },
    System {
        name: "equal and rare: 0.02, 0.02, tolerance 0.01",
        fair: FairSet::Difference(0.01),
        decide: |random, _| mixed(random, [(0.5, 0.02), (0.5, 0.02)]),
    },
    System {
        name: "edge, groups of 90 % and 10 %",
        fair: TOLERANCE,
        decide: |random, _| mixed(random, [(0.9, 0.5), (0.1, 0.4)]),
    },
    System {
        name: "edge at all times, rates and mix drift",
        fair: TOLERANCE,
        decide: |random, step| {
            // A triangle wave: the higher the rates, the larger the share of the first group.
            let phase = (step % 4000) as f64 / 2000.0;
            let height = if phase < 1.0 { phase } else { 2.0 - phase };
            let (rate, share) = (0.2 + 0.5 * height, 0.1 + 0.8 * height);
            mixed(random, [(share, rate + 0.1), (1.0 - share, rate)])
        },
    },
    System {
        name: "edge, three groups: 0.5, 0.45, 0.4",
        fair: TOLERANCE,
        decide: |random, _| mixed(random, [(0.4, 0.5), (0.3, 0.45), (0.3, 0.4)]),
    },
    System {
        name: "edge of the four-fifths rule: 0.5, 0.4",
        fair: FairSet::Ratio(0.8),
        decide: |random, _| mixed(random, [(0.5, 0.5), (0.5, 0.4)]),
    },
    System {
        name: "edge of the four-fifths rule, three groups: 0.5, 0.4, 0.4",
        fair: FairSet::Ratio(0.8),
        decide: |random, _| mixed(random, [(0.4, 0.5), (0.3, 0.4), (0.3, 0.4)]),
    },
    System {
        name: "edge of means: scores of 0 to 10, means 5 and 4, tolerance 1",
        fair: TOLERANCE,
        decide: |random, _| {
            let group = usize::from(random.chance(0.5));
            let mean = if group == 0 { 0.5 } else { 0.4 };
            // Uniform around the mean, and as wide as the range permits.
            (group, mean + (random.fraction() * 2.0 - 1.0) * 0.4)
        },
    },
];

/// A system that the guarantee does not cover, though at no time are people treated differently.
pub(super) const BROKEN: [System; 1] = [System {
    name: "rates change within a block, and the mix with them: 0.6 while the first group comes, 0.3 while the second does",
    fair: TOLERANCE,
    decide: |random, step| {
        let group = usize::from(step % 20 >= 10);
        (group, outcome(random, if group == 0 { 0.6 } else { 0.3 }))
    },
}];
