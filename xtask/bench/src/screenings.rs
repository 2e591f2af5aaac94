//! Screenings and offences: generated ones in the shape of COMPAS, and the published ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use fairstream_core::Time;

use crate::random::{Random, scatter};
use crate::trace::Trace;

pub const DAY: i64 = 86_400_000_000_000;
/// Time after a screening within which an offence counts.
pub const HORIZON: i64 = 730 * DAY;

#[derive(Clone)]
enum Record {
    Screen { id: i64, group: Arc<str>, score: i64 },
    Recidivism(i64),
}

fn columns(events: &[(Time, Record)]) -> Vec<(&'static str, ArrayRef)> {
    let event = events.iter().map(|(_, record)| match record {
        Record::Screen { .. } => "SCREEN",
        Record::Recidivism(_) => "RECIDIVISM",
    });
    let id = events.iter().map(|(_, record)| match record {
        Record::Screen { id, .. } | Record::Recidivism(id) => *id,
    });
    let screened = events.iter().map(|(_, record)| match record {
        Record::Screen { group, score, .. } => Some((&**group, *score)),
        Record::Recidivism(_) => None,
    });
    vec![
        ("event", Arc::new(StringArray::from_iter_values(event))),
        ("id", Arc::new(Int64Array::from_iter_values(id))),
        ("group", Arc::new(StringArray::from_iter(screened.clone().map(|screened| screened.map(|s| s.0))))),
        ("score", Arc::new(Int64Array::from_iter(screened.map(|screened| screened.map(|s| s.1))))),
    ]
}

/// Generated people: screenings over three years, at any time of day. One of two groups is rated high risk more
/// often, whether or not its members re-offend.
pub fn invented(trials: u64) -> Trace {
    const SPAN: i64 = 1095 * DAY;
    let start = Time(15_706 * DAY);
    let groups: [Arc<str>; 2] = ["Blue".into(), "Green".into()];
    let mut random = Random::new(trials);
    let mut time = start.0;
    let step = (SPAN as u64 / trials).max(1);
    let screenings = (0..trials).map(move |number| {
        // Steps are uniform between 0 and 2, so they are 1 on average; a factor slightly below 1 keeps them within
        // the span.
        time += (random.below(step * 2) as f64 * 0.99) as i64;
        let id = scatter(number) as i64;
        let group = random.below(2) as usize;
        let offence = random.chance(0.3).then(|| time + DAY + random.below(900 * DAY as u64) as i64);
        let high = match (groups[group].as_ref(), offence.is_some()) {
            ("Blue", true) => 0.65,
            (_, true) => 0.5,
            ("Blue", false) => 0.4,
            (_, false) => 0.25,
        };
        let score = if random.chance(high) { 7 + random.below(4) } else { 1 + random.below(6) };
        let screen = Record::Screen { id, group: Arc::clone(&groups[group]), score: score as i64 };
        (Time(time), screen, offence.map(|time| (Time(time), id)))
    });
    let end = Time(start.0 + SPAN + HORIZON + DAY);
    let events = InOrder { screenings: screenings.peekable(), offences: BinaryHeap::new() };
    Trace::new(start, Some(end), events.take_while(move |(time, _)| *time <= end), columns)
}

/// Time of the screening, the screening, and the offence that followed, if any.
type Person = (Time, Record, Option<(Time, i64)>);

/// Merges screenings in order of time and the offences that follow them into events in order of time.
struct InOrder<I: Iterator<Item = Person>> {
    screenings: std::iter::Peekable<I>,
    offences: BinaryHeap<Reverse<(Time, i64)>>,
}

impl<I: Iterator<Item = Person>> Iterator for InOrder<I> {
    type Item = (Time, Record);

    fn next(&mut self) -> Option<(Time, Record)> {
        let screened = self.screenings.peek().map(|(time, ..)| *time);
        let offended = self.offences.peek().map(|Reverse((time, _))| *time);
        if let Some(offended) = offended
            && screened.is_none_or(|screened| offended < screened)
        {
            return self.offences.pop().map(|Reverse((_, id))| (offended, Record::Recidivism(id)));
        }
        let (time, screen, offence) = self.screenings.next()?;
        self.offences.extend(offence.map(Reverse));
        Some((time, screen))
    }
}

/// The people of the published COMPAS file.
pub struct Published {
    /// Sorted by screening.
    people: Vec<Person>,
}

impl Published {
    /// Path of the file, if it exists: the value of `FAIRSTREAM_COMPAS`, or beside the checkout.
    pub fn find() -> Result<PathBuf, PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = std::env::var_os("FAIRSTREAM_COMPAS")
            .map_or_else(|| root.join("../shared/data/compas-scores.csv"), |path| root.join(path));
        if path.is_file() { Ok(path) } else { Err(path) }
    }

    /// Reads the file. People without a score, and people whose outcome is unknown, are left out.
    pub fn read(path: &Path) -> anyhow::Result<Published> {
        let mut reader = csv::Reader::from_path(path)?;
        let header = reader.headers()?.clone();
        let column = |name: &str| {
            header.iter().position(|column| column == name).with_context(|| format!("no column {name}"))
        };
        let (id, screened, group) = (column("id")?, column("compas_screening_date")?, column("race")?);
        let (score, known, offence) =
            (column("decile_score")?, column("is_recid")?, column("r_offense_date")?);
        let mut people = Vec::new();
        for record in reader.records() {
            let record = record?;
            let (id, score): (i64, i64) = (record[id].parse()?, record[score].parse()?);
            if score < 0 || &record[known] == "-1" {
                continue;
            }
            let offence = (!record[offence].is_empty()).then(|| record[offence].parse()).transpose()?;
            let screen = Record::Screen { id, group: record[group].into(), score };
            people.push((record[screened].parse()?, screen, offence.map(|time| (time, id))));
        }
        people.sort_by_key(|(time, ..)| *time);
        Ok(Published { people })
    }

    #[allow(clippy::len_without_is_empty, reason = "a published table is never empty")]
    pub fn len(&self) -> u64 {
        self.people.len() as u64
    }

    /// The events of the first `people` people, with a clock that runs until the last of their trials has been
    /// counted.
    pub fn trace(&self, people: u64) -> Trace {
        let people: Vec<_> = self.people.iter().take(people as usize).cloned().collect();
        let start = people.first().map_or(Time(0), |(time, ..)| *time);
        let end = people.last().map_or(start, |(time, ..)| Time(time.0 + HORIZON));
        let events = InOrder { screenings: people.into_iter().peekable(), offences: BinaryHeap::new() };
        Trace::new(start, Some(end), events.take_while(move |(time, _)| *time <= end), columns)
    }
}
