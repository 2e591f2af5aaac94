//! Simulated systems, fair and unfair, one decision after another.

use fairstream_guarantee::FairSet;
use fairstream_scenarios::Random;

/// A decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) group: usize,
    pub(super) value: f64,
    /// In nanoseconds.
    pub(super) time: i64,
}

/// A system whose decisions are monitored.
pub(super) struct System {
    pub(super) name: String,
    /// The rates that count as fair.
    pub(super) fair: FairSet,
    /// Whether values are numbers between 0 and 1, rather than 0 or 1.
    pub(super) are_numbers: bool,
    /// Begins a run.
    pub(super) begin: Box<dyn Fn() -> Decide + Sync>,
}

/// Makes the decision with a number, from 0, of one run.
pub(super) type Decide = Box<dyn FnMut(&mut Random, u64) -> Decision>;

/// Differences up to 0.1 are fair.
pub(super) const TOLERANCE: FairSet = FairSet::Difference(0.1);

/// An hour, in nanoseconds.
pub(super) const HOUR: f64 = 3_600e9;

impl System {
    /// A system that remembers nothing.
    fn of(
        name: impl Into<String>,
        fair: FairSet,
        decide: impl Fn(&mut Random, u64) -> Decision + Copy + Sync + 'static,
    ) -> System {
        System { name: name.into(), fair, are_numbers: false, begin: Box::new(move || Box::new(decide)) }
    }

    /// A system without times that matter: draws group and rate.
    fn drawn(
        name: impl Into<String>,
        fair: FairSet,
        draw: impl Fn(&mut Random, u64) -> (usize, f64) + Clone + Sync + 'static,
    ) -> System {
        let begin = move || -> Decide {
            let draw = draw.clone();
            Box::new(move |random, number| {
                let (group, rate) = draw(random, number);
                Decision { group, value: outcome(random, rate), time: 0 }
            })
        };
        System { name: name.into(), fair, are_numbers: false, begin: Box::new(begin) }
    }

    /// Groups in random order, each with its share and its rate.
    pub(super) fn mixed(name: impl Into<String>, fair: FairSet, groups: Vec<(f64, f64)>) -> System {
        System::drawn(name, fair, move |random, _| chosen(random, &groups))
    }

    /// Groups of the same size.
    pub(super) fn even(name: impl Into<String>, fair: FairSet, rates: &[f64]) -> System {
        let groups = rates.iter().map(|rate| (1.0 / rates.len() as f64, *rate)).collect();
        System::mixed(name, fair, groups)
    }

    /// Two groups of the same size with these means, of numbers that are uniform around them with a standard deviation.
    pub(super) fn numbers(name: impl Into<String>, means: [f64; 2], deviation: f64) -> System {
        let decide = move |random: &mut Random, _: u64| {
            let group = usize::from(random.chance(0.5));
            let off = (random.fraction() * 2.0 - 1.0) * deviation * 3.0_f64.sqrt();
            Decision { group, value: (means[group] + off).clamp(0.0, 1.0), time: 0 }
        };
        System { are_numbers: true, ..System::of(name, TOLERANCE, decide) }
    }

    /// Two groups that alternate.
    pub(super) fn in_turn(name: &str, rates: [f64; 2]) -> System {
        System::drawn(name, TOLERANCE, move |_, number| {
            let group = usize::from(number % 2 == 1);
            (group, rates[group])
        })
    }

    /// A system whose rates are different after a number of decisions. Groups have the same size.
    pub(super) fn changed(name: impl Into<String>, at: u64, before: Vec<f64>, after: Vec<f64>) -> System {
        System::drawn(name, TOLERANCE, move |random, number| {
            let rates = if number < at { &before } else { &after };
            let group = (random.fraction() * rates.len() as f64) as usize;
            (group, rates[group.min(rates.len() - 1)])
        })
    }

    /// A system whose base rate and whose mix of two groups follow the time of day, by so much, with a gap between the
    /// groups that is the same at every instant.
    pub(super) fn daily(name: impl Into<String>, fair: FairSet, a_day: f64, sway: Sway, gap: f64) -> System {
        let decide = move |random: &mut Random, number: u64| {
            let day = number as f64 / a_day;
            let phase = sway.phase(day.fract());
            let group = usize::from(random.chance(0.5 + sway.mix * phase));
            // The group that comes when rates are high has the higher one, so that the time of day adds to the gap; it hides a
            // negative one.
            let side = if group == 1 { 0.5 } else { -0.5 };
            let value = outcome(random, 0.5 + sway.base * phase + side * gap);
            Decision { group, value, time: (day * 24.0 * HOUR) as i64 }
        };
        System::of(name, fair, decide)
    }
}

/// How far the base rate and the mix of groups follow the time of day.
#[derive(Clone, Copy)]
pub(super) struct Sway {
    pub(super) base: f64,
    pub(super) mix: f64,
    /// Whether they jump between two values, as at a change of shifts.
    pub(super) in_shifts: bool,
}

impl Sway {
    fn phase(self, of_day: f64) -> f64 {
        match self.in_shifts {
            true if of_day < 0.5 => 1.0,
            true => -1.0,
            false => (of_day * std::f64::consts::TAU).sin(),
        }
    }
}

/// 1 with this probability, and 0 otherwise.
pub(super) fn outcome(random: &mut Random, rate: f64) -> f64 {
    f64::from(u8::from(random.chance(rate)))
}

/// One of these groups, each with its share and its rate.
fn chosen(random: &mut Random, groups: &[(f64, f64)]) -> (usize, f64) {
    let mut left = random.fraction();
    let found = groups.iter().position(|(share, _)| {
        left -= share;
        left < 0.0
    });
    let group = found.unwrap_or(groups.len() - 1);
    (group, groups[group].1)
}

/// The systems of the first table: fair, at the edge of the tolerance, and unfair to a larger and a smaller degree.
pub(super) fn four() -> [System; 4] {
    [
        System::in_turn("fair: 0.5, 0.5", [0.5, 0.5]),
        System::in_turn("edge: 0.5, 0.4", [0.5, 0.4]),
        System::in_turn("unfair: 0.5, 0.2", [0.5, 0.2]),
        System::in_turn("unfair: 0.5, 0.35", [0.5, 0.35]),
    ]
}

/// Fair systems, most of them at the edge of the tolerance, where false alarms are most likely.
pub(super) fn fair() -> Vec<System> {
    let difference = FairSet::Difference;
    let four_fifths = FairSet::Ratio(0.8);
    let mut systems = vec![
        System::even("equal: 0.5, 0.5", TOLERANCE, &[0.5, 0.5]),
        System::even("edge: 0.5, 0.4", TOLERANCE, &[0.5, 0.4]),
        System::even("edge: 0.9, 0.8", TOLERANCE, &[0.9, 0.8]),
        System::even("edge, rare: 0.11, 0.01", TOLERANCE, &[0.11, 0.01]),
        System::even("equal and rare: 0.02, 0.02, tolerance 0.01", difference(0.01), &[0.02, 0.02]),
        System::even("equal, tolerance 0: 0.5, 0.5", difference(0.0), &[0.5, 0.5]),
        System::even("equal, tolerance 0: 0.01, 0.01", difference(0.0), &[0.01, 0.01]),
        System::mixed("edge, groups of 99 % and 1 %", TOLERANCE, vec![(0.99, 0.5), (0.01, 0.4)]),
        System::mixed("edge, groups of 90 % and 10 %", TOLERANCE, vec![(0.9, 0.5), (0.1, 0.4)]),
        System::even("edge of the four-fifths rule: 0.5, 0.4", four_fifths, &[0.5, 0.4]),
        System::even("edge of the four-fifths rule, three groups", four_fifths, &[0.5, 0.4, 0.4]),
        System::even("edge of an upper bound: 0.1, 0.1", FairSet::Highest(0.1), &[0.1, 0.1]),
    ];
    for groups in [3, 5, 10, 20] {
        let mut rates = vec![0.5; groups];
        rates[0] = 0.4;
        systems.push(System::even(format!("edge, {groups} groups: 0.4, the others 0.5"), TOLERANCE, &rates));
    }
    for period in [400, 4000] {
        let name = format!("edge at all times, rates and mix drift with a period of {period}");
        systems.push(System::drawn(name, TOLERANCE, move |random, number| {
            // A triangle wave: the higher the rates, the larger the share of the first group.
            let phase = (number % period) as f64 / (period / 2) as f64;
            let height = if phase < 1.0 { phase } else { 2.0 - phase };
            let (rate, share) = (0.2 + 0.5 * height, 0.1 + 0.8 * height);
            chosen(random, &[(share, rate + 0.1), (1.0 - share, rate)])
        }));
    }
    systems.push(System::drawn(
        "edge, the second group comes after 5,000 decisions",
        TOLERANCE,
        |random, number| {
            let group = usize::from(number >= 5000 && random.chance(0.5));
            (group, [0.5, 0.4][group])
        },
    ));
    systems.push(System::numbers("edge of means: 0.5, 0.4, deviation 0.11", [0.5, 0.4], 0.11));
    systems.push(System::numbers("edge of means: 0.5, 0.4, deviation 0.23", [0.5, 0.4], 0.23));
    systems
}

/// Systems that break a condition, each with the condition.
pub(super) fn broken() -> Vec<(&'static str, System)> {
    let mut systems = Vec::new();
    for times in [2, 3, 5] {
        let name = format!("edge, every person has {times} trials in a row with the same outcome");
        let begin = move || -> Decide {
            let mut last = Decision { group: 0, value: 0.0, time: 0 };
            Box::new(move |random, number| {
                if number % times == 0 {
                    let group = usize::from(random.chance(0.5));
                    last = Decision { group, value: outcome(random, [0.5, 0.4][group]), time: 0 };
                }
                last
            })
        };
        systems.push((
            "trials are independent",
            System { name, fair: TOLERANCE, are_numbers: false, begin: Box::new(begin) },
        ));
    }
    for tolerance in [0.0, 0.02] {
        let name = format!(
            "equal, tolerance {tolerance}; after a positive outcome the next is of the second group with 80 %"
        );
        let begin = move || -> Decide {
            let mut was_positive = false;
            Box::new(move |random, _| {
                let group = usize::from(random.chance(if was_positive { 0.8 } else { 0.5 }));
                let value = outcome(random, 0.5);
                was_positive = value > 0.0;
                Decision { group, value, time: 0 }
            })
        };
        let fair = FairSet::Difference(tolerance);
        systems.push((
            "groups do not depend on outcomes in the same block",
            System { name, fair, are_numbers: false, begin: Box::new(begin) },
        ));
    }
    systems.push((
        "rates do not change within a block together with the mix",
        System::drawn(
            "0.6 while the first group comes, 0.3 while the second does, ten in turn",
            TOLERANCE,
            |_, number| {
                let group = usize::from(number % 20 >= 10);
                (group, [0.6, 0.3][group])
            },
        ),
    ));
    systems
}
