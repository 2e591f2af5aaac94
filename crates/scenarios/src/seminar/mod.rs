//! Seminar places: in each term, students apply for one seminar each, and an algorithm assigns the places. The
//! time of application and the qualification may differ between groups, which makes algorithms unfair that depend
//! on the one or the other.

mod allocation;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::DataType;
use fairstream_core::{
    Adapter, BadOption, OptionDoc, Options, Source, SourceError, SourceRequest, Time, TimeFormat,
};

pub use self::allocation::Algorithm;
use self::allocation::{Allocation, Candidate};
use crate::course::{Course, Scene};
use crate::groups::{Groups, Shares, bad};
use crate::random::Random;
use crate::scenario::{Begun, SEED, Scenario, duration, step, whole};

/// Applicants for places in seminars.
#[derive(Clone, Debug, PartialEq)]
pub struct Seminar {
    /// Number of applicants in all terms.
    pub applicants: u64,
    /// The same seed gives the same events.
    pub seed: u64,
    /// The allocation algorithm.
    pub algorithm: Algorithm,
    /// Number of seminars; each applicant chooses one, independent of their group.
    pub seminars: u32,
    /// Number of places of each seminar in every term.
    pub places: u32,
    /// Number of applicants per term; they are kept in memory until its end.
    pub term: u32,
    /// The groups, and their relative numbers of applicants.
    pub share: Groups,
    /// The part of a term that passes before the first application of a group: 0 for groups that are not named,
    /// below 1.
    pub late: Groups,
    /// The mean qualification of a group, in points from 0 to 100: 60 for groups that are not named.
    pub qualification: Groups,
    /// The standard deviation of qualifications.
    pub spread: f64,
    /// The time from one application to the next, on average; a second at least.
    pub every: Duration,
}

/// Two groups with the same distribution.
impl Default for Seminar {
    fn default() -> Seminar {
        Seminar {
            applicants: 100,
            seed: 1,
            algorithm: Algorithm::FirstComeFirstServed,
            seminars: 5,
            places: 10,
            term: 100,
            share: Groups::new([("M", 1.0), ("F", 1.0)]),
            late: Groups::default(),
            qualification: Groups::default(),
            spread: 15.0,
            every: Duration::from_secs(60),
        }
    }
}

const MEAN: f64 = 60.0;

/// Maximum number of seminars, places and applicants of a term, which are kept in memory.
const MOST: u32 = 1_000_000;

pub(crate) const SCENARIO: Scenario = Scenario {
    adapter: Adapter {
        name: "seminar",
        about: "applicants for places in seminars, given out by one of four algorithms",
        extensions: &[],
        options: &[
            OptionDoc::new("applicants", "100", "how many apply, in all terms together"),
            SEED,
            OptionDoc::new(
                "algorithm",
                "first-come-first-served",
                "how places are given out; or `randomize`, `qualification`, `equal-gender`",
            ),
            OptionDoc::new("seminars", "5", "how many seminars there are; everybody applies for one"),
            OptionDoc::new("places", "10", "how many places each seminar has, every term"),
            OptionDoc::new("term", "100", "how many apply in a term"),
            OptionDoc::new("share", "M=1,F=1", "the groups, and how many of each apply, in proportion"),
            OptionDoc::new(
                "late",
                "",
                "who applies late, as in `F=0.5`: not before half of the term is over",
            ),
            OptionDoc::new(
                "qualification",
                "",
                "the mean of a group, in points of 100, as in `M=65`; else 60",
            ),
            OptionDoc::new("spread", "15", "the standard deviation of the qualification"),
            OptionDoc::new(
                "every",
                "1m",
                "the time from one application to the next, on average; at least 1s",
            ),
        ],
    },
    details: "\
Algorithms:
  first-come-first-served  a place at once, as long as there are any
  randomize                at the end of the term, by lot
  qualification            at the end of the term, the best first
  equal-gender             at the end of the term, each place to the group whose share of accepted
                           applications in that seminar, over all terms, is the smallest

Groups differ in nothing but their size unless you say so: `--late` is what makes
first-come-first-served unfair, `--qualification` what makes qualification unfair.

Events, in order of time (seconds):
  time,id,gender,qualification,seminar,          somebody applies
  time,,,,seminar,accepted                       the one with this id gets a place

Examples:
  fairstream generate seminar --algorithm equal-gender --seed 7 --to events.csv
  fairstream generate seminar --late F=0.5 --to unfair.csv
      women apply in the second half of the term, when many places are gone
  fairstream generate seminar --algorithm qualification --qualification M=70 --applicants 10000
      100 terms in which men are better qualified, on standard output",
    file: None,
    time_format: TimeFormat::Relative,
    columns: &[
        ("id", DataType::UInt64),
        ("gender", DataType::Utf8),
        ("qualification", DataType::Int64),
        ("seminar", DataType::Utf8),
        ("accepted", DataType::UInt64),
    ],
    begin: |_, request| {
        let read = Seminar::read(&request.options);
        let source = read.map_err(refused).and_then(|seminar| seminar.source(request))?;
        Ok(Begun { source, remarks: Vec::new() })
    },
};

fn refused(bad: BadOption) -> SourceError {
    SourceError::Option { origin: "seminar".to_owned(), bad }
}

impl Seminar {
    fn read(options: &Options) -> Result<Seminar, BadOption> {
        let default = Seminar::default();
        Ok(Seminar {
            applicants: whole(options, "applicants", 1, default.applicants)?,
            seed: whole(options, "seed", 0, default.seed)?,
            algorithm: options.parse("algorithm", default.algorithm)?,
            seminars: whole(options, "seminars", 1, default.seminars)?,
            places: whole(options, "places", 1, default.places)?,
            term: whole(options, "term", 1, default.term)?,
            share: options.parse("share", default.share)?,
            late: options.parse("late", default.late)?,
            qualification: options.parse("qualification", default.qualification)?,
            spread: options.parse("spread", default.spread)?,
            every: duration(options, "every", default.every)?,
        })
    }

    /// The events, with the requested columns. The location and options of the request are ignored.
    ///
    /// # Errors
    /// The setup is invalid, for example no seminar or an unknown group.
    pub fn source(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let course = self.begin().map_err(refused)?;
        let name = format!("seminar (seed {})", self.seed);
        let columns = SCENARIO.columns();
        let running =
            Scene::new(&name, &format!("{self:?}"), course, columns, SCENARIO.time_format, request)?;
        Ok(Box::new(running))
    }

    fn begin(&self) -> Result<Terms, BadOption> {
        for (key, count) in [("seminars", self.seminars), ("places", self.places), ("term", self.term)] {
            if !(1..=MOST).contains(&count) {
                return Err(bad(key, count, format!("it has to be between 1 and {MOST}")));
            }
        }
        if self.every < Duration::from_secs(1) {
            return Err(bad("every", format!("{:?}", self.every), "it has to be a second at least"));
        }
        if !(self.spread.is_finite() && self.spread >= 0.0) {
            return Err(bad("spread", self.spread, "it has to be a number from 0 on"));
        }
        self.share.check("share", 0.0..=f64::INFINITY)?;
        for (key, groups, range) in
            [("late", &self.late, 0.0..=0.999), ("qualification", &self.qualification, 0.0..=100.0)]
        {
            if *groups != Groups::default() {
                groups.check(key, range)?;
            }
        }
        let shares: Vec<f64> = self.share.numbers().collect();
        // Times are whole seconds: one for each application, one for each decision, one between terms.
        let rest = Duration::from_secs(self.applicants.saturating_mul(3));
        let every = step(self.every, self.applicants, rest)?;
        let mut random = Random::new(self.seed);
        Ok(Terms {
            lots: Random::new(random.next()),
            random,
            groups: self.share.names().map(str::to_owned).collect(),
            names: (1..=self.seminars).map(|number| format!("S{number}")).collect(),
            shares: Shares::new(&shares).ok_or_else(|| bad("share", &self.share, "somebody has to apply"))?,
            late: self.late.for_each("late", &self.share, 0.0)?,
            qualification: self.qualification.for_each("qualification", &self.share, MEAN)?,
            spread: self.spread,
            term: u64::from(self.term),
            every: u64::try_from(every).unwrap_or_default(),
            left: self.applicants,
            next_id: 1,
            now: 0,
            allocation: Allocation::new(self.algorithm, self.seminars, self.places, shares.len()),
            happening: Vec::new(),
        })
    }
}

const SECOND: u64 = 1_000_000_000;

/// Terms, one after another.
struct Terms {
    random: Random,
    /// Random numbers of the algorithm only, so that the same people apply under every algorithm.
    lots: Random,
    groups: Vec<String>,
    names: Vec<String>,
    shares: Shares,
    late: Vec<f64>,
    qualification: Vec<f64>,
    spread: f64,
    term: u64,
    every: u64,
    /// Number of applications still to come.
    left: u64,
    next_id: u64,
    /// End of the last term.
    now: u64,
    allocation: Allocation,
    /// The events of this term, the last first.
    happening: Vec<(Time, SeminarStep)>,
}

#[derive(Clone, Copy)]
enum SeminarStep {
    Applied(Candidate),
    Accepted { id: u64, seminar: u32 },
}

impl Terms {
    /// Generates the events of a term.
    fn begin_term(&mut self) {
        let count = self.term.min(self.left);
        let length = count.saturating_mul(self.every);
        let mut applicants: Vec<(u64, Candidate)> = (0..count)
            .map(|_| {
                let group = self.shares.draw(&mut self.random);
                let late = (self.late[group] * length as f64) as u64;
                let arrival = late + self.random.below(length - late);
                let points = self.qualification[group] + self.spread * self.random.deviation();
                let seminar = self.random.below(self.names.len() as u64) as u32;
                let qualification = points.round().clamp(0.0, 100.0) as i64;
                (arrival, Candidate { id: 0, group, qualification, seminar })
            })
            .collect();
        applicants.sort_by_key(|(arrival, _)| *arrival);

        let start = self.now;
        self.allocation.begin_term();
        for (arrival, mut applicant) in applicants {
            // At whole seconds, one after another; an immediate acceptance follows half a second later.
            self.now = ((start + arrival) / SECOND * SECOND).max(self.now + SECOND);
            applicant.id = self.next_id;
            self.next_id += 1;
            self.happening.push((at(self.now), SeminarStep::Applied(applicant)));
            if self.allocation.apply(applicant) {
                let step = SeminarStep::Accepted { id: applicant.id, seminar: applicant.seminar };
                self.happening.push((at(self.now + SECOND / 2), step));
            }
        }
        let end = self.now.max((start + length) / SECOND * SECOND);
        for (number, applicant) in (1..).zip(self.allocation.end_term(&mut self.lots)) {
            let step = SeminarStep::Accepted { id: applicant.id, seminar: applicant.seminar };
            self.happening.push((at(end + number * SECOND), step));
        }
        // The next term begins after the time of all decisions, also if they were made earlier.
        self.now = end + (count + 1) * SECOND;
        self.happening.reverse();
        self.left -= count;
    }
}

/// `begin` has checked that everything is within the range of times.
fn at(nanos: u64) -> Time {
    Time(i64::try_from(nanos).unwrap_or(i64::MAX))
}

impl Course for Terms {
    type Event = SeminarStep;

    fn next_event(&mut self) -> Option<(Time, SeminarStep)> {
        if self.happening.is_empty() && self.left > 0 {
            self.begin_term();
        }
        self.happening.pop()
    }

    fn columns(&self, events: &[(Time, SeminarStep)]) -> Vec<ArrayRef> {
        let applicants = || {
            events.iter().map(|(_, step)| match step {
                SeminarStep::Applied(applicant) => Some(applicant),
                SeminarStep::Accepted { .. } => None,
            })
        };
        let group = |applicant: &Candidate| self.groups[applicant.group].as_str();
        let seminar = events.iter().map(|(_, step)| match step {
            SeminarStep::Applied(Candidate { seminar, .. }) | SeminarStep::Accepted { seminar, .. } => {
                Some(self.names[*seminar as usize].as_str())
            }
        });
        let accepted = events.iter().map(|(_, step)| match step {
            SeminarStep::Applied(_) => None,
            SeminarStep::Accepted { id, .. } => Some(*id),
        });
        vec![
            Arc::new(applicants().map(|applicant| Some(applicant?.id)).collect::<UInt64Array>()),
            Arc::new(applicants().map(|applicant| applicant.map(group)).collect::<StringArray>()),
            Arc::new(applicants().map(|applicant| Some(applicant?.qualification)).collect::<Int64Array>()),
            Arc::new(seminar.collect::<StringArray>()),
            Arc::new(accepted.collect::<UInt64Array>()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_term() {
        for algorithm in Algorithm::ALL {
            let seminar = Seminar { applicants: 300_000, algorithm, ..Seminar::default() };
            let mut course = seminar.begin().unwrap();
            let mut most = 0;
            while course.next_event().is_some() {
                most = most.max(course.happening.capacity());
            }
            assert_eq!(course.next_id, 300_001);
            // A hundred applications and at most fifty places; vectors grow by doubling.
            assert!(most <= 256, "{algorithm:?}: {most}");
        }
    }
}
