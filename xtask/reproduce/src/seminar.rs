//! Seminar places: which κ and ε distinguish algorithms that keep the rates of groups equal from those that do
//! not.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use arrow::datatypes::SchemaRef;
use fairstream_core::{EventBatch, Source, SourceError};
use fairstream_fairness::{Grid, Sweep, SweepCell};
use fairstream_report::{HeatMap, Shading};
use fairstream_scenarios::{Algorithm, Seminar};

use crate::Extent;
use crate::page::{Finding, Outcome, grouped, table};
use crate::subject::Subject;

const ALGORITHMS: [(&str, &str); 4] = [
    ("First Come First Served", "first-come-first-served"),
    ("Randomize", "randomize"),
    ("Qualification", "qualification"),
    ("EqualGender", "equal-gender"),
];
const RANDOMIZE: usize = 1;
const EQUAL_GENDER: usize = 3;

/// Sweeps over `seeds` runs, on every core; if `first` is given, over only that number of first events of each.
fn sweep(
    subject: &Subject,
    setup: &Seminar,
    grid: &Grid,
    seeds: u64,
    first: Option<NonZeroUsize>,
) -> anyhow::Result<Sweep> {
    let empty = Sweep::new(subject.compiled.rules(), grid.clone());
    let (next, total) = (AtomicU64::new(1), Mutex::new(anyhow::Ok(empty.clone())));
    let work = || -> anyhow::Result<Sweep> {
        let mut sweep = empty.clone();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
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

fn triggers(sweep: &Sweep) -> Vec<f64> {
    sweep.cells(0, 0).unwrap_or_default().iter().map(|cell: &SweepCell| cell.triggers as f64).collect()
}

fn at(sweep: &Sweep, kappa: f64, epsilon: f64) -> anyhow::Result<u64> {
    let grid = sweep.grid();
    let place = |axis: &[f64], number: f64| axis.iter().position(|other| *other == number);
    let (row, column) = (place(grid.confidences(), kappa), place(grid.tolerances(), epsilon));
    let (row, column) =
        row.zip(column).with_context(|| format!("κ = {kappa}, ε = {epsilon} is not tried"))?;
    let cells = sweep.cells(0, 0).context("nothing was swept")?;
    Ok(cells[row * grid.tolerances().len() + column].triggers)
}

/// A count, with its difference from the paper's if the number of scenarios is the same.
fn against_paper(count: u64, paper: u64, seeds: u64) -> String {
    const OF_THE_PAPER: u64 = 2000;
    if seeds != OF_THE_PAPER {
        return format!("{} in {} scenarios instead of 2,000", grouped(count), grouped(seeds));
    }
    format!("{} ({:+.0} %)", grouped(count), (count as f64 / paper as f64 - 1.0) * 100.0)
}

fn ratio(one: u64, other: u64) -> String {
    match (one, other) {
        (0, 0) => "neither has any".to_owned(),
        (one, 0) => format!("{} against none", grouped(one)),
        (one, other) => {
            format!("{:.1} × ({} against {})", one as f64 / other as f64, grouped(one), grouped(other))
        }
    }
}

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let subject = Subject::of("seminar.toml", &[])?;
    let seeds = extent.seminar_seeds;
    let hundredths = |from: u32, to: u32, step: usize, unit: f64| -> Vec<f64> {
        (from..=to).step_by(step).map(|number| f64::from(number) / unit).collect()
    };
    let grid = Grid::new(hundredths(10, 100, 2, 1.0), hundredths(50, 200, 5, 1000.0))?;
    let setup = |algorithm: &str, base: &Seminar| -> anyhow::Result<Seminar> {
        let algorithm = algorithm.parse::<Algorithm>().map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Seminar { algorithm, ..base.clone() })
    };
    let base = Seminar::default();
    let mut sweeps = Vec::new();
    for (_, algorithm) in ALGORITHMS {
        sweeps.push(sweep(&subject, &setup(algorithm, &base)?, &grid, seeds, None)?);
    }
    let contrast = |kappa, epsilon| -> anyhow::Result<String> {
        Ok(ratio(at(&sweeps[RANDOMIZE], kappa, epsilon)?, at(&sweeps[EQUAL_GENDER], kappa, epsilon)?))
    };
    let equal = at(&sweeps[EQUAL_GENDER], 54.0, 0.085)?;
    let mut rows = Vec::new();
    for ((name, _), sweep) in ALGORITHMS.iter().zip(&sweeps) {
        let cells =
            [(30.0, 0.1), (54.0, 0.085), (80.0, 0.1)].map(|(kappa, epsilon)| at(sweep, kappa, epsilon));
        let cells: Result<Vec<u64>, _> = cells.into_iter().collect();
        rows.push([vec![(*name).to_owned()], cells?.into_iter().map(grouped).collect()].concat());
    }
    // Variants of what the paper does not specify about its generator.
    let mut variants = Vec::new();
    for (seminars, places) in [(1, 50), (2, 25), (5, 10), (10, 5)] {
        let base = Seminar { seminars, places, ..Seminar::default() };
        let [random, equal] = [RANDOMIZE, EQUAL_GENDER].map(|index| {
            setup(ALGORITHMS[index].1, &base).and_then(|setup| sweep(&subject, &setup, &grid, seeds, None))
        });
        let (random, equal) = (random?, equal?);
        let cells = [
            against_paper(at(&equal, 54.0, 0.085)?, 1031, seeds),
            ratio(at(&random, 80.0, 0.1)?, at(&equal, 80.0, 0.1)?),
            ratio(at(&random, 30.0, 0.1)?, at(&equal, 30.0, 0.1)?),
        ];
        variants.push([vec![format!("{seminars} × {places}")], cells.to_vec()].concat());
    }
    // Results of the default scenario, which was fixed before the paper's figures were known. A variant that
    // happens to be closer must not replace it here.
    let findings = vec![
        Finding::new("EqualGender, κ = 54, ε = 0.085: triggers", "1,031", against_paper(equal, 1031, seeds)),
        Finding::new("Randomize against EqualGender, κ = 80, ε = 0.1", "187 ×", contrast(80.0, 0.1)?),
        Finding::new("Randomize against EqualGender, κ = 30, ε = 0.1", "about 6 ×", contrast(30.0, 0.1)?),
    ];
    // EqualGender assigns places when all 100 students have applied: the events before are only applications.
    let applications = NonZeroUsize::new(usize::try_from(base.applicants)?);
    let before = sweep(&subject, &setup(ALGORITHMS[EQUAL_GENDER].1, &base)?, &grid, seeds, applications)?;
    let details = format!(
        "Triggers of all four:\n\n{}\nThe paper's generator is not public: the numbers of seminars and places, \
         the sizes of groups, and the times of applications and decisions are our choice, and change the \
         counts. To measure the effect, four splits of the same 50 places were tried afterwards, and all of them are shown. \
         A split that is closer to the paper than another need not be the one that the paper used:\n\n{}\nA person who has \
         applied and still waits counts as not accepted. Therefore a seminar for which more people of one group apply has \
         a gap before any place is assigned, the same under every algorithm that waits for the end of the term, and no \
         allocation can avoid that: of the {} triggers of EqualGender at κ = 54, ε = 0.085, {} are of that kind; of the {} at \
         κ = 30, ε = 0.1 it is {}. They count on both sides of our contrasts, and bring them closer to 1.",
        table(&["algorithm", "κ = 30, ε = 0.1", "κ = 54, ε = 0.085", "κ = 80, ε = 0.1"], rows),
        table(
            &[
                "seminars × places",
                "EqualGender at κ = 54, ε = 0.085",
                "contrast at κ = 80, ε = 0.1",
                "contrast at κ = 30, ε = 0.1",
            ],
            variants
        ),
        grouped(equal),
        grouped(at(&before, 54.0, 0.085)?),
        grouped(at(&sweeps[EQUAL_GENDER], 30.0, 0.1)?),
        grouped(at(&before, 30.0, 0.1)?),
    );
    let map = |title: String, description: String, values: Vec<f64>, legend: &str, marks| HeatMap {
        title,
        description,
        x: "tolerance ε".to_owned(),
        columns: grid.tolerances().to_vec(),
        y: "confidence κ".to_owned(),
        rows: grid.confidences().to_vec(),
        values,
        legend: legend.to_owned(),
        shading: Shading::Logarithmic,
        marks,
    };
    let mut figures = Vec::new();
    for ((name, file), sweep) in ALGORITHMS.iter().zip(&sweeps) {
        let counts = triggers(sweep);
        let shows = format!(
            "Triggers of {name} fall with κ and with ε, from {} at κ = 10, ε = 0.05 to {} at κ = 100, ε = 0.2.",
            counts.first().copied().unwrap_or_default(),
            counts.last().copied().unwrap_or_default()
        );
        let marks = if *name == "EqualGender" {
            vec![(0.085, 54.0, format!("{} (paper: 1,031)", grouped(equal)))]
        } else {
            Vec::new()
        };
        let map = map(format!("{name}: triggers in {seeds} runs"), shows.clone(), counts, "triggers", marks);
        figures.push((format!("seminar-{file}.svg"), map.svg(), shows));
    }
    let [random, equal] = [RANDOMIZE, EQUAL_GENDER].map(|index| triggers(&sweeps[index]));
    let contrasts: Vec<f64> = random.iter().zip(&equal).map(|(random, equal)| random / equal).collect();
    let shows =
        "Ratio of the triggers of Randomize to those of EqualGender, for each κ and ε; infinite where only \
                 Randomize has any."
            .to_owned();
    let marks = [(0.1, 30.0), (0.1, 80.0)].map(|(epsilon, kappa)| (epsilon, kappa, format!("κ = {kappa}")));
    let title = "Randomize against EqualGender".to_owned();
    let contrast = map(title, shows.clone(), contrasts, "times as many", marks.to_vec());
    figures.push(("seminar-contrast.svg".to_owned(), contrast.svg(), shows));
    Ok(Outcome {
        setting: format!(
            "{} scenarios of 100 applicants each, with places assigned by each of four algorithms. Conditional \
             statistical parity within a seminar, γ = 0.5 (`specs/seminar.toml`), for κ from 10 to 100 and ε from \
             0.05 to 0.2. A trigger is an event at which a seminar's gap is above ε; 5 seminars with 10 places each, \
             men and women with the same distribution.",
            grouped(seeds)
        ),
        findings,
        details,
        figures,
        ..Outcome::default()
    })
}
