//! The experiments of *Stream-Based Monitoring of Algorithmic Fairness* (TACAS 2025), run again: published results
//! beside reproduced ones, with figures. Every number on the page is from the run that wrote it.

mod admissions;
mod compas;
mod fair;
mod guarantee;
mod hiring;
mod page;
mod seminar;
mod statistics;
mod subject;

pub use page::{Finding, Outcome, Page};

/// The size of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Runs of each hiring process.
    pub hiring_seeds: u64,
    /// Runs of each seminar algorithm.
    pub seminar_seeds: u64,
    /// Random orders in which the same people apply.
    pub admissions_seeds: u64,
    /// Runs of each system that is monitored with a guarantee.
    pub guarantee_runs: u64,
    /// Simulated tables of each kind for which a file is proposed.
    pub fair_systems: u64,
    /// Maximum number of rows of such a table.
    pub fair_rows: u64,
}

impl Extent {
    /// The size in the paper.
    pub const FULL: Extent = Extent {
        hiring_seeds: 1000,
        seminar_seeds: 2000,
        admissions_seeds: 20,
        guarantee_runs: 4000,
        fair_systems: 1000,
        fair_rows: 20_000,
    };
    /// A size that only tests that the experiments run.
    pub const QUICK: Extent = Extent {
        hiring_seeds: 20,
        seminar_seeds: 20,
        admissions_seeds: 2,
        guarantee_runs: 20,
        fair_systems: 20,
        fair_rows: 2000,
    };
}

/// An experiment.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Title of its section.
    pub title: &'static str,
    /// Runs the experiment.
    pub run: fn(Extent) -> anyhow::Result<Outcome>,
}

/// All experiments.
pub const EXPERIMENTS: [Experiment; 6] = [
    Experiment { name: "hiring", title: "Hiring: fair and unfair", run: hiring::run },
    Experiment { name: "seminar", title: "Seminar places: the choice of κ and ε", run: seminar::run },
    Experiment { name: "compas", title: "COMPAS: equalized odds of a risk score", run: compas::run },
    Experiment { name: "admissions", title: "Admissions: Simpson's paradox", run: admissions::run },
    Experiment { name: "guarantee", title: "Alarms with a guarantee", run: guarantee::run },
    Experiment { name: "fair", title: "Proposed files on fair systems", run: fair::run },
];
