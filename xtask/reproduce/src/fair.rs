//! The files that `fairstream init` proposes, on simulated data: how many systems raise an alarm although they are fair,
//! and how many if they are not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{EventBatch, Position, Source, SourceError};
use fairstream_fairness::{ColumnSample, Proposal, TableSample};
use fairstream_scenarios::Random;

use crate::Extent;
use crate::page::{Finding, Outcome, grouped, percent, table};
use crate::statistics::interval;
use crate::subject::Subject;

/// A simulated system: how far the rates of its two sexes differ.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    apart: f64,
}

const KINDS: [Kind; 3] = [
    Kind { name: "fair: equal rates", apart: 0.0 },
    Kind { name: "fair: rates differ by 0.1, the tolerance", apart: 0.1 },
    Kind { name: "unfair: rates differ by 0.3", apart: 0.3 },
];

/// The rate of the sex with the lower one is uniform between these, if the other stays below.
const RATES: (f64, f64) = (0.02, 0.98);
/// The share of the smaller sex is log-uniform between these, so that small groups are not rare.
const SHARES: (f64, f64) = (0.01, 0.5);
/// The number of rows is log-uniform from this to that of the extent, so that short tables are not rare.
const FEWEST_ROWS: f64 = 200.0;
/// The values of an attribute that decides nothing, with their shares. Half of the systems have it.
const ORIGINS: [(&str, f64); 3] = [("north", 0.75), ("south", 0.2), ("east", 0.05)];

/// What is in the place of the guarantee that is proposed; the first is the file as proposed.
const RULES: [(&str, Option<&str>); 3] = [
    ("as proposed", None),
    ("`rule = \"map\"`", Some("rule = \"map\"")),
    (
        "`rule = \"map\"`, `prior = 0.5`, `confidence = 24`",
        Some("rule = \"map\"\nprior = 0.5\nconfidence = 24"),
    ),
];

/// A table with one case a row.
struct Cases {
    sexes: Vec<&'static str>,
    origins: Option<Vec<&'static str>>,
    accepted: Vec<bool>,
}

fn between(random: &mut Random, (low, high): (f64, f64)) -> f64 {
    low + (high - low) * random.fraction()
}

fn log_uniform(random: &mut Random, (low, high): (f64, f64)) -> f64 {
    between(random, (low.ln(), high.ln())).exp()
}

impl Cases {
    fn draw(kind: Kind, seed: u64, most_rows: u64) -> Cases {
        let mut random = Random::new(seed);
        let rows = log_uniform(&mut random, (FEWEST_ROWS, most_rows as f64)).round() as usize;
        let share = log_uniform(&mut random, SHARES);
        let low = between(&mut random, (RATES.0, RATES.1 - kind.apart));
        let mut rates = [("M", low), ("F", low + kind.apart)];
        if random.chance(0.5) {
            rates = [("M", low + kind.apart), ("F", low)];
        }
        let has_origins = random.chance(0.5);
        let mut cases = Cases { sexes: Vec::new(), origins: None, accepted: Vec::new() };
        let mut origins = Vec::new();
        for _ in 0..rows {
            let (sex, rate) = rates[usize::from(random.chance(share))];
            cases.sexes.push(sex);
            cases.accepted.push(random.chance(rate));
            let mut left = random.fraction();
            let origin = ORIGINS.iter().find(|(_, share)| {
                left -= share;
                left < 0.0
            });
            origins.push(origin.map_or(ORIGINS[0].0, |(name, _)| *name));
        }
        cases.origins = has_origins.then_some(origins);
        cases
    }

    /// Number of rows of the smaller sex.
    fn smaller(&self) -> usize {
        let men = self.sexes.iter().filter(|sex| **sex == "M").count();
        men.min(self.sexes.len() - men)
    }

    /// What `fairstream init` reads of it.
    fn sample(&self) -> TableSample {
        let column = |name: &str, values: &mut dyn Iterator<Item = &str>| {
            let mut sample = ColumnSample::new(name, None);
            values.for_each(|value| sample.add(Some(value)));
            sample
        };
        let mut columns = vec![column("sex", &mut self.sexes.iter().copied())];
        if let Some(origins) = &self.origins {
            columns.push(column("ethnicity", &mut origins.iter().copied()));
        }
        let decided = |accepted: &bool| if *accepted { "true" } else { "false" };
        columns.push(column("accepted", &mut self.accepted.iter().map(decided)));
        TableSample { columns, is_sorted: true, ..TableSample::default() }
    }

    /// The rows with these columns, in their order and in one batch.
    fn source(&self, wanted: &[String]) -> anyhow::Result<OneBatch> {
        let text = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for name in wanted {
            let (data_type, array) = match name.as_str() {
                "sex" => (DataType::Utf8, text(&self.sexes)),
                "ethnicity" => (DataType::Utf8, text(self.origins.as_deref().unwrap_or_default())),
                "accepted" => {
                    (DataType::Boolean, Arc::new(BooleanArray::from(self.accepted.clone())) as ArrayRef)
                }
                other => bail!("no table has a column `{other}`"),
            };
            fields.push(Field::new(name, data_type, true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let rows = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        let numbers: Vec<u64> = (1..=self.sexes.len() as u64).collect();
        let times: Vec<i64> = (0..self.sexes.len() as i64).map(|row| row * 1_000_000_000).collect();
        let mut events = EventBatch::new(rows, times, numbers, Position::default());
        events.relative = true;
        Ok(OneBatch { schema, events: Some(events) })
    }
}

struct OneBatch {
    schema: SchemaRef,
    events: Option<EventBatch>,
}

impl Source for OneBatch {
    fn name(&self) -> &str {
        "simulated table"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        Ok(self.events.take())
    }
}

/// What happened to a system.
#[derive(Clone, Copy)]
struct Watched {
    smaller: usize,
    /// Whether it raised an alarm by each of [`RULES`]; `None` if no file is proposed, as all rows are of one sex.
    alarms: Option<[bool; RULES.len()]>,
}

/// The compiled files by their text: tables with the same columns have the same file.
#[derive(Default)]
struct Subjects(Mutex<BTreeMap<String, Arc<Subject>>>);

impl Subjects {
    fn subject(&self, toml: &str) -> anyhow::Result<Arc<Subject>> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(subject) = known().get(toml) {
            return Ok(Arc::clone(subject));
        }
        let subject = Arc::new(Subject::parse("proposal.toml", toml)?.for_alarms()?);
        known().insert(toml.to_owned(), Arc::clone(&subject));
        Ok(subject)
    }
}

fn watch(cases: &Cases, subjects: &Subjects) -> anyhow::Result<Watched> {
    let smaller = cases.smaller();
    let proposal = match Proposal::guess(cases.sample()) {
        Ok(proposal) => proposal,
        // There is nothing to compare, or only the decisions.
        Err(_) if smaller == 0 => return Ok(Watched { smaller, alarms: None }),
        Err(error) => return Err(error.into()),
    };
    let proposed = proposal.toml();
    let guarantee = proposed.lines().find(|line| line.starts_with("guarantee "));
    let guarantee = guarantee.context("the proposal has no guarantee any more")?;
    let mut alarms = [false; RULES.len()];
    for (alarm, (_, rule)) in alarms.iter_mut().zip(RULES) {
        let toml = rule.map_or_else(|| proposed.clone(), |rule| proposed.replace(guarantee, rule));
        let subject = subjects.subject(&toml)?;
        let wanted: Vec<String> = subject.request().wanted.into_iter().map(|column| column.name).collect();
        *alarm = subject.raises_alarm(&mut cases.source(&wanted)?)?;
    }
    Ok(Watched { smaller, alarms: Some(alarms) })
}

/// Every system of a kind, on two threads.
fn watch_all(kind: Kind, systems: u64, most_rows: u64) -> anyhow::Result<Vec<Watched>> {
    let (next, all) = (AtomicU64::new(1), Mutex::new(anyhow::Ok(Vec::new())));
    let subjects = Subjects::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > systems {
                return;
            }
            let watched = watch(&Cases::draw(kind, seed, most_rows), &subjects);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *all, watched) {
                (Ok(all), Ok(watched)) => all.push(watched),
                (all, Err(error)) => {
                    *all = Err(error.context(format!("system {seed}")));
                    return;
                }
                (Err(_), Ok(_)) => return,
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How many of these raised an alarm by a rule.
fn raised(watched: &[Watched], rule: usize) -> String {
    let count = watched.iter().filter(|one| one.alarms.is_some_and(|alarms| alarms[rule])).count();
    if watched.is_empty() {
        return "-".to_owned();
    }
    let (low, high) = interval(count, watched.len());
    let share = count as f64 / watched.len() as f64;
    format!(
        "{} of {}: {} ({} to {})",
        grouped(count as u64),
        grouped(watched.len() as u64),
        percent(share),
        percent(low),
        percent(high)
    )
}

/// Rows of the smaller group from which on a difference of 0.3 should be found.
const ENOUGH: usize = 200;

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let systems = extent.fair_systems;
    let (mut rows, mut findings, mut without_file) = (Vec::new(), Vec::new(), 0);
    let row = |name: String, watched: &[Watched]| {
        let cells = (0..RULES.len()).map(|rule| raised(watched, rule));
        std::iter::once(name).chain(cells).collect::<Vec<String>>()
    };
    for kind in KINDS {
        let watched = watch_all(kind, systems, extent.fair_rows)?;
        without_file += watched.iter().filter(|one| one.alarms.is_none()).count();
        rows.push(row(kind.name.to_owned(), &watched));
        let is_fair = kind.name.starts_with("fair");
        if is_fair {
            let promise = "at most 5 %";
            findings.push(Finding::new(kind.name, promise, raised(&watched, 0)));
            continue;
        }
        let (many, few): (Vec<Watched>, Vec<Watched>) =
            watched.into_iter().partition(|one| one.smaller >= ENOUGH);
        findings.push(Finding::new(
            format!("{}, {ENOUGH} or more rows of the smaller group", kind.name),
            "-",
            raised(&many, 0),
        ));
        rows.push(row(format!("of these, {ENOUGH} or more rows of the smaller group"), &many));
        rows.push(row("of these, fewer".to_owned(), &few));
    }
    let head: Vec<&str> =
        std::iter::once("systems that raise an alarm").chain(RULES.map(|(name, _)| name)).collect();
    let details = format!(
        "In brackets the Clopper-Pearson interval with a confidence of 95 %.\n\n{}\nOf {} tables, {} had no file: all rows \
         were of one sex, and there was no other attribute. They count as tables without an alarm.",
        table(&head, rows),
        grouped(KINDS.len() as u64 * systems),
        grouped(without_file as u64),
    );
    Ok(Outcome {
        setting: format!(
            "Not an experiment of the paper. {} simulated tables of each kind, with one case a row, from a seed each: 200 to {} \
             rows (log-uniform), a smaller sex of 1 % to 50 % (log-uniform), rates uniform between 0.02 and 0.98; half of the \
             tables have another attribute with three values, which decides nothing. For each, the file is made as \
             `fairstream init` makes it, and run. Beside it the same file with the rule of the paper in place of the guarantee: \
             with its default prior, and with a fixed one.",
            grouped(systems),
            grouped(extent.fair_rows)
        ),
        findings,
        details,
        ..Outcome::default()
    })
}
