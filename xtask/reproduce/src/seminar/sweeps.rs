//! Sweeps over many scenarios on every core, and what they counted.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use arrow::datatypes::SchemaRef;
use fairstream_core::{EventBatch, Source, SourceError};
use fairstream_fairness::{Grid, Sweep, SweepCell};
use fairstream_report::{HeatMap, Shading};
use fairstream_scenarios::{Algorithm, Seminar};

use crate::page::grouped;
use crate::subject::Subject;

pub(super) const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("First Come First Served", Algorithm::FirstComeFirstServed),
    ("Randomize", Algorithm::Randomize),
    ("Qualification", Algorithm::Qualification),
    ("EqualGender", Algorithm::EqualGender),
];
const RANDOMIZE: usize = 1;
const EQUAL_GENDER: usize = 3;

/// A pair of κ and ε.
pub(super) type Point = (f64, f64);

/// Where the paper says how many triggers EqualGender has.
pub(super) const OF_EQUAL_GENDER: Point = (54.0, 0.085);
/// Where the paper says how many times as many Randomize has.
pub(super) const HIGH: Point = (80.0, 0.1);
/// The same for a lower confidence.
pub(super) const LOW: Point = (30.0, 0.1);

/// A fairness file, the scenarios that it is run on, and the pairs that are tried.
pub(super) struct Study {
    pub(super) subject: Subject,
    pub(super) grid: Grid,
    /// Scenarios have the seeds from 1 to this.
    pub(super) seeds: u64,
}

impl Study {
    /// The pairs of the paper: κ from 10 to 100 and ε from 0.05 to 0.2.
    pub(super) fn grid() -> anyhow::Result<Grid> {
        let steps = |from: u32, to: u32, step: usize, unit: f64| -> Vec<f64> {
            (from..=to).step_by(step).map(|number| f64::from(number) / unit).collect()
        };
        Ok(Grid::new(steps(10, 100, 2, 1.0), steps(50, 200, 5, 1000.0))?)
    }

    /// Only the pairs for which the paper has numbers.
    pub(super) fn points() -> anyhow::Result<Grid> {
        let (confidences, tolerances) = [OF_EQUAL_GENDER, HIGH, LOW].into_iter().unzip();
        Ok(Grid::new(confidences, tolerances)?)
    }

    /// Runs all four algorithms.
    pub(super) fn run(&self, base: &Seminar) -> anyhow::Result<Counted> {
        let sweeps = ALGORITHMS.map(|(_, algorithm)| {
            let setup = Seminar { algorithm, ..base.clone() };
            self.sweep(&setup, None)
        });
        let sweeps: anyhow::Result<Vec<Sweep>> = sweeps.into_iter().collect();
        // EqualGender assigns places when all have applied: the events before are only applications.
        let applications = NonZeroUsize::new(usize::try_from(base.applicants)?);
        let equal = Seminar { algorithm: ALGORITHMS[EQUAL_GENDER].1, ..base.clone() };
        Ok(Counted { sweeps: sweeps?, before: self.sweep(&equal, applications)?, seeds: self.seeds })
    }

    /// Sweeps over all scenarios; if `first` is given, over only that number of first events of each.
    fn sweep(&self, setup: &Seminar, first: Option<NonZeroUsize>) -> anyhow::Result<Sweep> {
        let subject = &self.subject;
        let empty = Sweep::new(subject.compiled.rules(), self.grid.clone());
        let (next, total) = (AtomicU64::new(1), Mutex::new(anyhow::Ok(empty.clone())));
        let work = || -> anyhow::Result<Sweep> {
            let mut sweep = empty.clone();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > self.seeds {
                    return Ok(sweep);
                }
                let seminar = Seminar { seed, ..setup.clone() };
                let mut request = subject.request();
                let Some(rows) = first else {
                    subject.sweep(&mut *seminar.source(&request)?, &mut sweep)?;
                    continue;
                };
                request.context.max_rows = rows;
                let source = seminar.source(&request)?;
                subject.sweep(&mut FirstBatch { source, is_read: false }, &mut sweep)?;
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    let done = work();
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match (&mut *total, done) {
                        (Ok(total), Ok(sweep)) => total.merge(&sweep),
                        (total, Err(error)) => *total = Err(error),
                        (Err(_), Ok(_)) => {}
                    }
                });
            }
        });
        total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A source that ends after its first batch.
struct FirstBatch {
    source: Box<dyn Source>,
    is_read: bool,
}

impl Source for FirstBatch {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if std::mem::replace(&mut self.is_read, true) { Ok(None) } else { self.source.next_batch() }
    }
}

/// The triggers of all algorithms.
pub(super) struct Counted {
    /// One for each of [`ALGORITHMS`].
    sweeps: Vec<Sweep>,
    /// EqualGender until the last application.
    before: Sweep,
    seeds: u64,
}

impl Counted {
    /// The triggers of EqualGender.
    pub(super) fn equal_gender(&self, point: Point) -> anyhow::Result<u64> {
        at(&self.sweeps[EQUAL_GENDER], point)
    }

    /// Those of them that are before the first place is assigned.
    pub(super) fn before_places(&self, point: Point) -> anyhow::Result<u64> {
        at(&self.before, point)
    }

    /// The triggers of EqualGender, with their difference from the paper's if the number of scenarios is the same.
    pub(super) fn against_paper(&self) -> anyhow::Result<String> {
        const PAPER: f64 = 1031.0;
        const SCENARIOS: u64 = 2000;
        let count = self.equal_gender(OF_EQUAL_GENDER)?;
        if self.seeds != SCENARIOS {
            return Ok(format!("{} in {} scenarios instead of 2,000", grouped(count), grouped(self.seeds)));
        }
        Ok(format!("{} ({:+.0} %)", grouped(count), (count as f64 / PAPER - 1.0) * 100.0))
    }

    /// How many times as many triggers Randomize has as EqualGender.
    pub(super) fn contrast(&self, point: Point) -> anyhow::Result<String> {
        Ok(match (at(&self.sweeps[RANDOMIZE], point)?, self.equal_gender(point)?) {
            (0, 0) => "neither has any".to_owned(),
            (one, 0) => format!("{} against none", grouped(one)),
            (one, other) => {
                let ratio = one as f64 / other as f64;
                format!("{ratio:.1} × ({} against {})", grouped(one), grouped(other))
            }
        })
    }

    /// A row for each algorithm: its triggers at these points.
    pub(super) fn rows(&self, points: &[Point]) -> anyhow::Result<Vec<Vec<String>>> {
        let named = ALGORITHMS.iter().zip(&self.sweeps);
        let row = |((name, _), sweep): (&(&str, Algorithm), &Sweep)| {
            let counts = points.iter().map(|point| Ok(grouped(at(sweep, *point)?)));
            std::iter::once(Ok((*name).to_owned())).chain(counts).collect()
        };
        named.map(row).collect()
    }

    /// A heat map of each algorithm. `of` describes the metric and the prior; names of files begin with `prefix`.
    pub(super) fn maps(
        &self,
        of: &str,
        prefix: &str,
        mark: &str,
    ) -> anyhow::Result<Vec<(String, String, String)>> {
        let mut figures = Vec::new();
        for (index, ((name, algorithm), sweep)) in ALGORITHMS.iter().zip(&self.sweeps).enumerate() {
            let counts = triggers(sweep);
            let shows = format!(
                "{of}: triggers of {name} fall with κ and with ε, from {} at κ = 10, ε = 0.05 to {} at κ = 100, ε = 0.2.",
                counts.first().copied().unwrap_or_default(),
                counts.last().copied().unwrap_or_default()
            );
            let mut marks = Vec::new();
            if index == EQUAL_GENDER {
                let (kappa, epsilon) = OF_EQUAL_GENDER;
                let count = grouped(self.equal_gender(OF_EQUAL_GENDER)?);
                marks.push((epsilon, kappa, format!("{count}{mark}")));
            }
            let title = format!("{name}: triggers in {} runs", self.seeds);
            let map = heat_map(sweep.grid(), title, &shows, counts, "triggers", marks);
            figures.push((format!("{prefix}-{}.svg", algorithm.name()), map.svg(), shows));
        }
        Ok(figures)
    }

    /// A heat map of the contrast.
    pub(super) fn contrast_map(&self, of: &str, prefix: &str) -> (String, String, String) {
        let [random, equal] = [RANDOMIZE, EQUAL_GENDER].map(|index| triggers(&self.sweeps[index]));
        let ratios: Vec<f64> = random.iter().zip(&equal).map(|(random, equal)| random / equal).collect();
        let shows = format!(
            "{of}: the ratio of the triggers of Randomize to those of EqualGender, for each κ and ε; infinite where only \
             Randomize has any."
        );
        let marks = [LOW, HIGH].map(|(kappa, epsilon)| (epsilon, kappa, format!("κ = {kappa}")));
        let title = "Randomize against EqualGender".to_owned();
        let grid = self.sweeps[RANDOMIZE].grid();
        let map = heat_map(grid, title, &shows, ratios, "times as many", marks.to_vec());
        (format!("{prefix}-contrast.svg"), map.svg(), shows)
    }
}

fn heat_map(
    grid: &Grid,
    title: String,
    shows: &str,
    values: Vec<f64>,
    legend: &str,
    marks: Vec<(f64, f64, String)>,
) -> HeatMap {
    HeatMap {
        title,
        description: shows.to_owned(),
        x: "tolerance ε".to_owned(),
        columns: grid.tolerances().to_vec(),
        y: "confidence κ".to_owned(),
        rows: grid.confidences().to_vec(),
        values,
        legend: legend.to_owned(),
        shading: Shading::Logarithmic,
        marks,
    }
}

fn triggers(sweep: &Sweep) -> Vec<f64> {
    sweep.cells(0, 0).unwrap_or_default().iter().map(|cell: &SweepCell| cell.triggers as f64).collect()
}

fn at(sweep: &Sweep, (kappa, epsilon): Point) -> anyhow::Result<u64> {
    let grid = sweep.grid();
    let place = |axis: &[f64], number: f64| axis.iter().position(|other| *other == number);
    let (row, column) = (place(grid.confidences(), kappa), place(grid.tolerances(), epsilon));
    let (row, column) =
        row.zip(column).with_context(|| format!("κ = {kappa}, ε = {epsilon} is not tried"))?;
    let cells = sweep.cells(0, 0).context("nothing was swept")?;
    Ok(cells[row * grid.tolerances().len() + column].triggers)
}
