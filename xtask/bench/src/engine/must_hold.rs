//! Requirements on the measurements, and whether they hold.

use std::fmt;

use crate::contestant::{COMPILED, HAND, REFERENCE};
use bench::measure::{Measurement, find};
use bench::workload::{PAPER_ODDS, invented};

/// Workload and trials at which the compiled engine is compared with the reference engine.
pub(crate) const REFERENCE_AT: (&str, u64) = ("hiring", 10_000);

/// One requirement: a line of the last table.
pub(crate) struct Requirement {
    pub(crate) what: String,
    /// The measured value; `None` if it was not measured.
    pub(crate) measured: Option<f64>,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Requirement {
    /// Whether the requirement holds; `None` if it was not measured.
    pub(crate) fn holds(&self) -> Option<bool> {
        self.measured.map(|measured| match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtLeast(bound) => write!(f, "≥ {bound}"),
            Bound::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

/// All requirements, with the measured values.
pub(crate) fn requirements(measured: &[Measurement]) -> Vec<Requirement> {
    let mut all = Vec::new();
    for workload in invented() {
        let cost = |trials| find(measured, workload, trials, COMPILED).map(Measurement::median);
        all.push(Requirement {
            what: format!("{workload}: cost per event at 10^7 trials / at 10^4"),
            measured: cost(10_000_000).zip(cost(10_000)).map(|(large, small)| large / small),
            bound: Bound::AtMost(3.0),
        });
    }
    // Excludes the specification that counts days, which is measured against the reference engine only: a loop can
    // wait for a deadline instead.
    let is_like = |measurement: &&Measurement| measurement.workload != PAPER_ODDS;
    for hand in measured.iter().filter(|measurement| measurement.system == HAND).filter(is_like) {
        let compiled = find(measured, hand.workload, hand.trials, COMPILED);
        all.push(Requirement {
            what: format!("{}, {} trials: speed / that of the hand-written loop", hand.workload, hand.trials),
            measured: compiled.map(|compiled| hand.median() / compiled.median()),
            bound: Bound::AtLeast(0.33),
        });
    }
    let (workload, trials) = REFERENCE_AT;
    all.push(Requirement {
        what: format!("{workload}, {trials} trials: speed / that of the reference engine"),
        measured: over_reference(measured, workload, trials),
        bound: Bound::AtLeast(5_000.0),
    });
    // The largest number of people that the reference engine completed.
    let compas = measured
        .iter()
        .rfind(|one| one.workload == PAPER_ODDS && one.system == REFERENCE && one.last().ended)
        .map(|one| one.trials);
    all.push(Requirement {
        what: match compas {
            Some(people) => format!("{PAPER_ODDS}, {people} trials: speed / that of the reference engine"),
            None => format!("{PAPER_ODDS}: speed / that of the reference engine"),
        },
        measured: compas.and_then(|people| over_reference(measured, PAPER_ODDS, people)),
        bound: Bound::AtLeast(200.0),
    });
    for workload in ["hiring", "hiring-lookup"] {
        all.push(Requirement {
            what: format!("{workload}: bytes per open trial"),
            measured: bytes_per_trial(measured, workload, COMPILED),
            bound: Bound::AtMost(200.0),
        });
    }
    all
}

/// Speed relative to the reference engine. If that was stopped at the time limit, its cost per event is that of
/// the events it completed: the first, which are the cheapest.
pub(crate) fn over_reference(measured: &[Measurement], workload: &str, trials: u64) -> Option<f64> {
    let reference = find(measured, workload, trials, REFERENCE)?;
    Some(reference.median() / find(measured, workload, trials, COMPILED)?.median())
}

/// Bytes that a system keeps per applicant, at the largest size. No trial of these workloads ever ends.
pub(crate) fn bytes_per_trial(measured: &[Measurement], workload: &str, system: &str) -> Option<f64> {
    let largest = measured.iter().rfind(|one| one.workload == workload && one.system == system)?;
    largest.last().ended.then(|| largest.last().live_bytes as f64 / largest.trials as f64)
}
