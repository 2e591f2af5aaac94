//! Hiring: applicants who are independent of each other. Each is accepted with the probability of their group,
//! some time after they applied. A rejection is no event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, StringArray, UInt64Array};
use arrow::datatypes::DataType;
use fairstream_core::{
    Adapter, BadOption, OptionDoc, Options, Source, SourceError, SourceRequest, Time, TimeFormat,
};

use crate::course::{Course, Scene};
use crate::groups::{Groups, Shares, bad};
use crate::random::Random;
use crate::scenario::{Begun, SEED, Scenario, duration, step, whole};

/// Applicants for jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Hiring {
    /// Number of applicants.
    pub applicants: u64,
    /// The same seed gives the same events.
    pub seed: u64,
    /// Probability of acceptance of each group; this also defines the groups.
    pub accept: Groups,
    /// Relative number of applicants of each group; 1 for groups that are not named.
    pub share: Groups,
    /// The time from one application to the next.
    pub every: Duration,
    /// The time from an application to its acceptance. Applicants who wait for it are kept in memory.
    pub delay: Duration,
}

/// The unfair setting of the paper: every second man and every fifth woman is accepted.
impl Default for Hiring {
    fn default() -> Hiring {
        Hiring {
            applicants: 1000,
            seed: 1,
            accept: Groups::new([("M", 0.5), ("F", 0.2)]),
            share: Groups::default(),
            every: Duration::from_secs(60),
            delay: Duration::from_secs(30),
        }
    }
}

pub(crate) const SCENARIO: Scenario = Scenario {
    adapter: Adapter {
        name: "hiring",
        about: "applicants for jobs; each group is accepted with its own probability",
        extensions: &[],
        options: &[
            OptionDoc::new("applicants", "1000", "how many apply"),
            SEED,
            OptionDoc::new(
                "accept",
                "M=0.5,F=0.2",
                "the groups, and the probability to be accepted for each",
            ),
            OptionDoc::new(
                "share",
                "",
                "how many of each group apply, in proportion, as in `M=3,F=1`; else all alike",
            ),
            OptionDoc::new("every", "1m", "the time from one application to the next"),
            OptionDoc::new("delay", "30s", "the time from an application to its acceptance"),
        ],
    },
    details: "\
Events, in order of time (seconds):
  time,id,gender,          somebody applies
  time,,,accepted          the one with this id is accepted; nobody is told of a rejection

Examples:
  fairstream generate hiring --applicants 1000 --seed 7 --to events.csv
      unfair, as in the paper: every second man and every fifth woman is accepted
  fairstream generate hiring --accept M=0.5,F=0.5 --to fair.csv
      fair
  fairstream generate hiring --accept A=0.3,B=0.3,C=0.2 --share A=10,B=5,C=1
      three groups of different size, on standard output",
    file: None,
    time_format: TimeFormat::Relative,
    columns: &[("id", DataType::UInt64), ("gender", DataType::Utf8), ("accepted", DataType::UInt64)],
    begin: |_, request| {
        let read = Hiring::read(&request.options);
        let source = read.map_err(refused).and_then(|hiring| hiring.source(request))?;
        Ok(Begun { source, remarks: Vec::new() })
    },
};

fn refused(bad: BadOption) -> SourceError {
    SourceError::Option { origin: "hiring".to_owned(), bad }
}

impl Hiring {
    fn read(options: &Options) -> Result<Hiring, BadOption> {
        let default = Hiring::default();
        Ok(Hiring {
            applicants: whole(options, "applicants", 1, default.applicants)?,
            seed: whole(options, "seed", 0, default.seed)?,
            accept: options.parse("accept", default.accept)?,
            share: options.parse("share", default.share)?,
            every: duration(options, "every", default.every)?,
            delay: duration(options, "delay", default.delay)?,
        })
    }

    /// The events, with the requested columns. The location and options of the request are ignored.
    ///
    /// # Errors
    /// The setup is invalid, for example a probability above 1 or an unknown group.
    pub fn source(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let course = self.begin().map_err(refused)?;
        let name = format!("hiring (seed {})", self.seed);
        let columns = SCENARIO.columns();
        let running =
            Scene::new(&name, &format!("{self:?}"), course, columns, SCENARIO.time_format, request)?;
        Ok(Box::new(running))
    }

    fn begin(&self) -> Result<Applications, BadOption> {
        self.accept.check("accept", 0.0..=1.0)?;
        if self.share != Groups::default() {
            self.share.check("share", 0.0..=f64::INFINITY)?;
        }
        let shares = self.share.for_each("share", &self.accept, 1.0)?;
        Ok(Applications {
            random: Random::new(self.seed),
            names: self.accept.names().map(str::to_owned).collect(),
            accept: self.accept.numbers().collect(),
            shares: Shares::new(&shares).ok_or_else(|| bad("share", &self.share, "somebody has to apply"))?,
            applicants: self.applicants,
            applied: 0,
            every: step(self.every, self.applicants, self.delay)?,
            delay: self.delay,
            waiting: VecDeque::new(),
        })
    }
}

struct Applications {
    random: Random,
    names: Vec<String>,
    accept: Vec<f64>,
    shares: Shares,
    applicants: u64,
    applied: u64,
    every: i64,
    delay: Duration,
    /// Applicants who will be accepted, and when.
    waiting: VecDeque<(Time, u64)>,
}

enum HiringStep {
    Applied { id: u64, group: usize },
    Accepted { id: u64 },
}

impl Course for Applications {
    type Event = HiringStep;

    fn next_event(&mut self) -> Option<(Time, HiringStep)> {
        let application = (self.applied < self.applicants).then(|| {
            // `step` has checked that this is within the range of times.
            Time((self.applied + 1).cast_signed().saturating_mul(self.every))
        });
        if let Some((due, id)) = self.waiting.front().copied()
            && application.is_none_or(|application| due <= application)
        {
            self.waiting.pop_front();
            return Some((due, HiringStep::Accepted { id }));
        }
        let time = application?;
        self.applied += 1;
        let (id, group) = (self.applied, self.shares.draw(&mut self.random));
        if self.random.chance(self.accept[group]) {
            self.waiting.push_back((time.saturating_add(self.delay), id));
        }
        Some((time, HiringStep::Applied { id, group }))
    }

    fn columns(&self, events: &[(Time, HiringStep)]) -> Vec<ArrayRef> {
        let id = events.iter().map(|(_, step)| match step {
            HiringStep::Applied { id, .. } => Some(*id),
            HiringStep::Accepted { .. } => None,
        });
        let gender = events.iter().map(|(_, step)| match step {
            HiringStep::Applied { group, .. } => Some(self.names[*group].as_str()),
            HiringStep::Accepted { .. } => None,
        });
        let accepted = events.iter().map(|(_, step)| match step {
            HiringStep::Applied { .. } => None,
            HiringStep::Accepted { id } => Some(*id),
        });
        vec![
            Arc::new(id.collect::<UInt64Array>()),
            Arc::new(gender.collect::<StringArray>()),
            Arc::new(accepted.collect::<UInt64Array>()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_does_not_grow_with_the_applicants() {
        let hiring = Hiring { applicants: 1_000_000, delay: Duration::from_secs(600), ..Hiring::default() };
        let mut course = hiring.begin().unwrap();
        let mut most = 0;
        while course.next_event().is_some() {
            most = most.max(course.waiting.len());
        }
        assert_eq!(course.applied, 1_000_000);
        // Ten minutes of applications, one a minute.
        assert!(most <= 11 && course.waiting.capacity() <= 16, "{most}");
    }
}
