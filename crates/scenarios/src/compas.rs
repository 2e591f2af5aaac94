//! COMPAS: ProPublica's `compas-scores.csv` as events. A row of the file is a person, with a screening and, if
//! they re-offended, an offence.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::DataType;
use csv::{ReaderBuilder, StringRecord};
use fairstream_core::{
    Adapter, Cause, OptionDoc, RejectedRow, Source, SourceError, SourceRequest, StopToken, Time, TimeFormat,
    TimeReader, nearest,
};
use fairstream_files::{Filled, Input};

use crate::course::{Course, Scene};
use crate::scenario::{Begun, Scenario};

/// The people of the file whose score and outcome are known, as events in order of time.
#[derive(Clone, Debug)]
pub struct Compas {
    origin: String,
    group: String,
    events: Vec<(Time, Event)>,
    groups: Vec<String>,
    left_out: LeftOut,
}

/// Number of rows that were left out, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<&'static str, u64>);

impl LeftOut {
    /// Reasons, and the number of rows that were left out for each. A row is counted once, for the first reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Total number of rows that were left out.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

pub(crate) const SCENARIO: Scenario = Scenario {
    adapter: Adapter {
        name: "compas",
        about: "screenings and offences from ProPublica's compas-scores.csv",
        extensions: &[],
        options: &[OptionDoc::new("group", "race", "the column that says which group a person belongs to")],
    },
    details: "\
SCORES is ProPublica's compas-scores.csv, with all of its columns or at least id,
compas_screening_date, race, decile_score, is_recid and r_offense_date; of two columns with one name
the first is read. Rows without a score or an outcome are counted and left out.

Events, in order of time (dates):
  time,SCREEN,id,group,score          a person is screened
  time,RECIDIVISM,id,,                a person commits an offence after that

Examples:
  fairstream generate compas compas-scores.csv --to events.csv
  fairstream generate compas compas-scores.csv --group sex --to by-sex.csv",
    file: Some("SCORES"),
    time_format: TimeFormat::Date,
    columns: &[
        ("event", DataType::Utf8),
        ("id", DataType::Int64),
        ("group", DataType::Utf8),
        ("score", DataType::Int64),
    ],
    begin: |_, request| {
        let group = request.options.text("group").unwrap_or("race");
        let compas = Compas::open(&request.location, group, &request.context.stop)?;
        let remarks = compas.left_out.by_reason();
        let remarks = remarks.map(|(reason, count)| {
            let rows = if count == 1 { "row" } else { "rows" };
            format!("left out: {count} {rows} of {} {reason}", compas.origin)
        });
        let remarks = remarks.collect();
        Ok(Begun { source: compas.source(request)?, remarks })
    },
};

impl Compas {
    /// Reads a file, or standard input for `-`; `.gz` and `.zst` are decompressed. `group` is the column with the
    /// group of a person, such as `race`.
    ///
    /// # Errors
    /// It cannot be read, lacks a column, or has an invalid row; the error names row, column and reason.
    pub fn open(location: &str, group: &str, stop: &StopToken) -> Result<Compas, SourceError> {
        let origin = if location == "-" { "standard input" } else { location };
        let failed = |cause: Cause| SourceError::Open { origin: origin.to_owned(), cause };
        let mut input = Input::open(location, stop).map_err(|error| failed(error.into()))?;
        let mut bytes = Vec::new();
        loop {
            match input.fill(&mut bytes, None).map_err(|error| failed(error.into()))? {
                Filled::More | Filled::NotYet => {}
                Filled::End => break,
                // A part of the file must not pass for the whole.
                Filled::Stopped => return Err(failed("it was stopped before it was read".into())),
            }
        }
        Compas::read(origin, &bytes, group)
    }

    /// Parses the text of a file, which messages call `origin`.
    ///
    /// # Errors
    /// As of [`open`](Compas::open).
    pub fn read(origin: &str, text: &[u8], group: &str) -> Result<Compas, SourceError> {
        let failed = |cause: Cause| SourceError::Open { origin: origin.to_owned(), cause };
        // The CSV reader removes the UTF-8 byte order mark.
        let mut reader = ReaderBuilder::new().from_reader(text);
        let header = reader.headers().map_err(|error| failed(error.into()))?.clone();
        let columns = CompasColumns::find(&header, group).map_err(|reason| failed(reason.into()))?;
        let mut compas = Compas {
            origin: origin.to_owned(),
            group: group.to_owned(),
            events: Vec::new(),
            groups: Vec::new(),
            left_out: LeftOut::default(),
        };
        let mut record = StringRecord::new();
        loop {
            let bad = |row: u64, column: Option<&str>, reason: String| SourceError::BadRow {
                origin: origin.to_owned(),
                bad: RejectedRow { row, column: column.map(str::to_owned), reason },
            };
            match reader.read_record(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(bad(line_of(&error, &reader), None, reason_of(&error))),
            }
            let row = record.position().map_or(0, csv::Position::line);
            match columns.person(&record).map_err(|(column, reason)| bad(row, Some(column), reason))? {
                Ok(person) => compas.add(person),
                Err(reason) => *compas.left_out.0.entry(reason).or_default() += 1,
            }
        }
        // Screenings precede offences of the same day; otherwise the order is that of the file.
        compas.events.sort_by_key(|(time, event)| (*time, matches!(event, Event::Offence { .. })));
        Ok(compas)
    }

    fn add(&mut self, person: Person<'_>) {
        let known = self.groups.iter().position(|group| group == person.group);
        let group = known.unwrap_or_else(|| {
            self.groups.push(person.group.to_owned());
            self.groups.len() - 1
        });
        let Person { id, score, .. } = person;
        self.events.push((person.screened, Event::Screening { id, group, score }));
        self.events.extend(person.offence.map(|time| (time, Event::Offence { id })));
    }

    /// Number of rows that were left out, and why.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// The events, with the requested columns. The location and options of the request are ignored.
    ///
    /// # Errors
    /// The position of the request is not one of these events.
    pub fn source(self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let identity = format!("compas {} by {}, {} events", self.origin, self.group, self.events.len());
        let course = Screenings { events: self.events.into_iter(), groups: self.groups };
        let columns = SCENARIO.columns();
        let running = Scene::new(&self.origin, &identity, course, columns, SCENARIO.time_format, request)?;
        Ok(Box::new(running))
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Screening { id: i64, group: usize, score: i64 },
    Offence { id: i64 },
}

struct Screenings {
    events: std::vec::IntoIter<(Time, Event)>,
    groups: Vec<String>,
}

impl Course for Screenings {
    type Event = Event;

    fn next_event(&mut self) -> Option<(Time, Event)> {
        self.events.next()
    }

    fn columns(&self, events: &[(Time, Event)]) -> Vec<ArrayRef> {
        let name = events.iter().map(|(_, event)| match event {
            Event::Screening { .. } => "SCREEN",
            Event::Offence { .. } => "RECIDIVISM",
        });
        let id = events.iter().map(|(_, event)| match event {
            Event::Screening { id, .. } | Event::Offence { id } => *id,
        });
        let group = events.iter().map(|(_, event)| match event {
            Event::Screening { group, .. } => Some(self.groups[*group].as_str()),
            Event::Offence { .. } => None,
        });
        let score = events.iter().map(|(_, event)| match event {
            Event::Screening { score, .. } => Some(*score),
            Event::Offence { .. } => None,
        });
        vec![
            Arc::new(StringArray::from_iter_values(name)),
            Arc::new(Int64Array::from_iter_values(id)),
            Arc::new(group.collect::<StringArray>()),
            Arc::new(score.collect::<Int64Array>()),
        ]
    }
}

/// A row of the file.
struct Person<'a> {
    id: i64,
    group: &'a str,
    score: i64,
    screened: Time,
    offence: Option<Time>,
}

/// Indices and names of the columns.
struct CompasColumns<'a> {
    id: (&'a str, usize),
    screened: (&'a str, usize),
    group: (&'a str, usize),
    score: (&'a str, usize),
    known: (&'a str, usize),
    offence: (&'a str, usize),
}

/// A column with an invalid value, and the reason.
type CompasFault<'a> = (&'a str, String);

impl<'a> CompasColumns<'a> {
    fn find(header: &StringRecord, group: &'a str) -> Result<CompasColumns<'a>, String> {
        let mut missing = Vec::new();
        let mut find = |name: &'a str| {
            let place = header.iter().position(|column| column.trim() == name);
            if place.is_none() {
                let near = nearest(name, header.iter());
                missing.push(match near {
                    Some(near) => format!("`{name}` (did you mean `{near}`?)"),
                    None => format!("`{name}`"),
                });
            }
            (name, place.unwrap_or_default())
        };
        let columns = CompasColumns {
            id: find("id"),
            screened: find("compas_screening_date"),
            group: find(group),
            score: find("decile_score"),
            known: find("is_recid"),
            offence: find("r_offense_date"),
        };
        match missing.as_slice() {
            [] => Ok(columns),
            [one] => Err(format!("it has no column {one}")),
            _ => Err(format!("it has no columns {}", missing.join(", "))),
        }
    }

    /// The person of a row, or the reason to leave them out.
    fn person<'r>(
        &self,
        record: &'r StringRecord,
    ) -> Result<Result<Person<'r>, &'static str>, CompasFault<'a>> {
        let field = |(_, place): (&str, usize)| record.get(place).unwrap_or_default().trim();
        let number = |column: (&'a str, usize)| -> Result<Option<i64>, CompasFault<'a>> {
            match field(column) {
                "" => Ok(None),
                text => {
                    text.parse().map(Some).map_err(|_| (column.0, format!("`{text}` is not a whole number")))
                }
            }
        };
        let date = |column: (&'a str, usize)| -> Result<Option<Time>, CompasFault<'a>> {
            match field(column) {
                "" => Ok(None),
                text => {
                    let time = TimeReader::new(TimeFormat::Date).read(text);
                    time.map(Some).map_err(|error| (column.0, error.to_string()))
                }
            }
        };
        let id = number(self.id)?.ok_or_else(|| (self.id.0, "there is no id".to_owned()))?;
        let (score, known) = (number(self.score)?, number(self.known)?);
        let (screened, offence) = (date(self.screened)?, date(self.offence)?);
        let Some(screened) = screened else { return Ok(Err("without a date of screening")) };
        let Some(score @ 1..) = score else { return Ok(Err("without a score")) };
        if score > 10 {
            return Err((self.score.0, format!("`{score}` is not a score from 1 to 10")));
        }
        let offence = match (known, offence) {
            (Some(0), None) => None,
            (Some(0), Some(_)) => {
                let reason = "there is a date of an offence, but is_recid is 0".to_owned();
                return Err((self.offence.0, reason));
            }
            (Some(1), Some(offence)) if offence < screened => {
                return Ok(Err("whose offence is dated before the screening"));
            }
            (Some(1), Some(offence)) => Some(offence),
            (Some(1), None) => return Ok(Err("whose offence has no date")),
            (Some(-1) | None, _) => return Ok(Err("without a known outcome")),
            (Some(other), _) => return Err((self.known.0, format!("`{other}` is not 0, 1 or -1"))),
        };
        let group = field(self.group);
        if group.is_empty() {
            return Ok(Err("without a group"));
        }
        Ok(Ok(Person { id, group, score, screened, offence }))
    }
}

/// The line of a record that cannot be parsed.
fn line_of(error: &csv::Error, reader: &csv::Reader<&[u8]>) -> u64 {
    error.position().unwrap_or_else(|| reader.position()).line()
}

fn reason_of(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} fields, but there are {expected_len} column names")
        }
        csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    }
}
