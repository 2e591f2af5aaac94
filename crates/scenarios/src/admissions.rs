//! Admissions to the University of California, Berkeley, in autumn 1973: the six largest departments.
//!
//! Fewer of all women than of all men were admitted; in most departments it was the reverse, because women applied
//! more to departments that admit few. After Bickel, Hammel and O'Connell, *Sex Bias in Graduate Admissions*,
//! Science 187 (1975); counts as in Freedman, Pisani and Purves, *Statistics*.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, StringArray, UInt64Array};
use arrow::datatypes::DataType;
use fairstream_core::{
    Adapter, BadOption, OptionDoc, Options, Source, SourceError, SourceRequest, Time, TimeFormat,
};

use crate::course::{Course, Scene};
use crate::random::Random;
use crate::scenario::{Begun, SEED, Scenario, duration, step, whole};

/// A department, and how many it admitted and rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Department {
    /// Its letter.
    pub name: &'static str,
    /// Men admitted and rejected.
    pub men: [u64; 2],
    /// Women admitted and rejected.
    pub women: [u64; 2],
}

/// The published table.
pub const BERKELEY_1973: [Department; 6] = [
    Department { name: "A", men: [512, 313], women: [89, 19] },
    Department { name: "B", men: [353, 207], women: [17, 8] },
    Department { name: "C", men: [120, 205], women: [202, 391] },
    Department { name: "D", men: [138, 279], women: [131, 244] },
    Department { name: "E", men: [53, 138], women: [94, 299] },
    Department { name: "F", men: [22, 351], women: [24, 317] },
];

/// Applicants for graduate studies, as in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admissions {
    /// Number of people that are drawn with the frequencies of the table; `None` for the people of the table, each
    /// once.
    pub applicants: Option<u64>,
    /// The same seed gives the same events.
    pub seed: u64,
    /// The time from one applicant to the next.
    pub every: Duration,
}

impl Default for Admissions {
    fn default() -> Admissions {
        Admissions { applicants: None, seed: 1, every: Duration::from_secs(60) }
    }
}

pub(crate) const SCENARIO: Scenario = Scenario {
    adapter: Adapter {
        name: "admissions",
        about: "graduate admissions to Berkeley in 1973, from the published table",
        extensions: &[],
        options: &[
            OptionDoc::new("applicants", "", "draw so many from the table; else the 4,526 of it, each once"),
            SEED,
            OptionDoc::new("every", "1m", "the time from one applicant to the next"),
        ],
    },
    details: "\
Of all women fewer were admitted than of all men; within departments hardly (Simpson's paradox).

Events, in random order, with times in seconds:
  time,id,gender,department,admitted          an applicant, and whether they were admitted

Examples:
  fairstream generate admissions --to berkeley.csv
      the 4,526 people of the six largest departments, each once
  fairstream generate admissions --applicants 1000000 --seed 7 --to many.csv
      a million with the same frequencies",
    file: None,
    time_format: TimeFormat::Relative,
    columns: &[
        ("id", DataType::UInt64),
        ("gender", DataType::Utf8),
        ("department", DataType::Utf8),
        ("admitted", DataType::Boolean),
    ],
    begin: |_, request| {
        let read = Admissions::read(&request.options);
        let source = read.map_err(refused).and_then(|admissions| admissions.source(request))?;
        Ok(Begun { source, remarks: Vec::new() })
    },
};

fn refused(bad: BadOption) -> SourceError {
    SourceError::Option { origin: "admissions".to_owned(), bad }
}

impl Admissions {
    fn read(options: &Options) -> Result<Admissions, BadOption> {
        let default = Admissions::default();
        let applicants = match options.text("applicants") {
            None => None,
            Some(_) => Some(whole(options, "applicants", 1, 1)?),
        };
        Ok(Admissions {
            applicants,
            seed: whole(options, "seed", 0, default.seed)?,
            every: duration(options, "every", default.every)?,
        })
    }

    /// The events, with the requested columns. The location and options of the request are ignored.
    ///
    /// # Errors
    /// The time range is too small for the number of applicants.
    pub fn source(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let course = self.begin().map_err(refused)?;
        let name = format!("admissions (seed {})", self.seed);
        let columns = SCENARIO.columns();
        let running =
            Scene::new(&name, &format!("{self:?}"), course, columns, SCENARIO.time_format, request)?;
        Ok(Box::new(running))
    }

    fn begin(&self) -> Result<Applicants, BadOption> {
        let cells: Vec<(Applicant, u64)> = BERKELEY_1973
            .iter()
            .flat_map(|department| {
                let cell = |gender, admitted| Applicant { gender, department: department.name, admitted };
                let [men, women] = [department.men, department.women];
                [
                    (cell("M", true), men[0]),
                    (cell("M", false), men[1]),
                    (cell("F", true), women[0]),
                    (cell("F", false), women[1]),
                ]
            })
            .collect();
        let total = cells.iter().map(|(_, count)| count).sum();
        let applicants = self.applicants.unwrap_or(total);
        Ok(Applicants {
            random: Random::new(self.seed),
            cells,
            total,
            put_back: self.applicants.is_some(),
            applicants,
            applied: 0,
            every: step(self.every, applicants, Duration::ZERO)?,
        })
    }
}

#[derive(Clone, Copy)]
struct Applicant {
    gender: &'static str,
    department: &'static str,
    admitted: bool,
}

/// People drawn from the table.
struct Applicants {
    random: Random,
    /// Number of people of each kind that can still be drawn.
    cells: Vec<(Applicant, u64)>,
    total: u64,
    put_back: bool,
    applicants: u64,
    applied: u64,
    every: i64,
}

impl Course for Applicants {
    type Event = (u64, Applicant);

    fn next_event(&mut self) -> Option<(Time, (u64, Applicant))> {
        if self.applied == self.applicants {
            return None;
        }
        self.applied += 1;
        let mut drawn = self.random.below(self.total);
        let (applicant, count) =
            self.cells.iter_mut().find(|(_, count)| match drawn.checked_sub(*count) {
                None => true,
                Some(rest) => {
                    drawn = rest;
                    false
                }
            })?;
        if !self.put_back {
            *count -= 1;
            self.total -= 1;
        }
        // `step` has checked that this is within the range of times.
        let time = Time(self.applied.cast_signed().saturating_mul(self.every));
        Some((time, (self.applied, *applicant)))
    }

    fn columns(&self, events: &[(Time, (u64, Applicant))]) -> Vec<ArrayRef> {
        let applicants = || events.iter().map(|(_, (_, applicant))| applicant);
        vec![
            Arc::new(UInt64Array::from_iter_values(events.iter().map(|(_, (id, _))| *id))),
            Arc::new(StringArray::from_iter_values(applicants().map(|applicant| applicant.gender))),
            Arc::new(StringArray::from_iter_values(applicants().map(|applicant| applicant.department))),
            Arc::new(applicants().map(|applicant| Some(applicant.admitted)).collect::<BooleanArray>()),
        ]
    }
}
