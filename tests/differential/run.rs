//! One case: a specification and a trace, evaluated by the reference engine and by another one.

use fairstream_core::{
    Engine, EngineError, Selection, Subscription, Time, VerdictBatch, VerdictBatcher, catch_panic,
};
use fairstream_engine::{Specification, VerifyingEngine, first_difference};

use super::draft::{Draft, Input};
use super::known::{is_misjudged, may_overflow_decimals, may_overflow_later};
use super::random::Random;
use super::trace::Trace;
use crate::support::{BuildFor, reference};

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) inputs: Vec<Input>,
    pub(super) declarations: Vec<String>,
    pub(super) trace: Trace,
    /// Start of the clock, in nanoseconds since 1970.
    pub(super) start: i64,
    /// Seed of the division into batches.
    pub(super) cuts: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Agree,
    /// The engines agree, and fail at the same event or deadline.
    FailAlike,
    /// The reference engine cannot be built, or failed; up to there they agree.
    GaveUp(String),
    Differ(String),
}

/// The verdicts of an engine, and its failure.
struct Observed {
    verdicts: Vec<VerdictBatch>,
    failure: Option<Failure>,
}

struct Failure {
    /// Number of events that had been evaluated.
    events: usize,
    place: String,
    reason: String,
}

/// Why a specification is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// The frontend does not accept it.
    Refused,
    /// The interpreter is known to be wrong about it.
    Misjudged,
}

impl Case {
    pub(super) fn spec(&self) -> String {
        let (inputs, declarations) = (self.inputs.clone(), self.declarations.clone());
        Draft { inputs, declarations, ..Draft::default() }.text()
    }

    pub(super) fn parse(&self) -> Result<Specification, LeftOut> {
        let text = self.spec();
        let spec = Specification::parse("generated", &text).map_err(|_| LeftOut::Refused)?;
        // The frontend accepts `a()` as an instance of `a(p)`; the interpreter then reads another stream.
        let mut outputs = spec.mir().outputs.iter().filter(|output| !output.params.is_empty());
        let is_vague = outputs.any(|output| text.contains(&format!("{}()", output.name)));
        if is_vague || is_misjudged(&spec) { Err(LeftOut::Misjudged) } else { Ok(spec) }
    }

    /// Engines may skip what is not selected, so only some cases select everything.
    fn selection(&self) -> Selection {
        if self.cuts.is_multiple_of(2) { Selection::Changes } else { Selection::Triggers }
    }

    /// Compares the reference engine with `other`.
    pub(super) fn run(&self, spec: &Specification, other: BuildFor) -> Outcome {
        let mut random = Random::new(self.cuts);
        if random.chance(20) {
            return self.verify(spec, other);
        }
        let expected = self.observe(spec, reference, &mut random);
        let is_own_fault = |failure: &&Failure| {
            let overflows = failure.reason.contains("overflows") && may_overflow_decimals(spec);
            is_own_fault(&failure.reason) || overflows
        };
        if let Some(failure) = expected.failure.as_ref().filter(is_own_fault) {
            let mut shorter = self.clone();
            shorter.trace.events.truncate(failure.events);
            shorter.trace.until = i64::MIN;
            if shorter.trace.events.len() == self.trace.events.len() && self.trace.until == i64::MIN {
                return Outcome::GaveUp(failure.reason.clone());
            }
            return match shorter.run(spec, other) {
                Outcome::Agree => Outcome::GaveUp(failure.reason.clone()),
                outcome => outcome,
            };
        }
        let found = self.observe(spec, other, &mut random);
        let difference = first_difference(("compiled", &found.verdicts), ("reference", &expected.verdicts));
        let reason = |observed: &Observed| observed.failure.as_ref().map(|failure| failure.reason.clone());
        // Where the interpreter wraps, saturates or does not check, the compiled engine stops; its verdicts up to
        // there must be the same.
        let ends = |name: &str| {
            difference.as_ref().is_none_or(|text| text.contains(&format!("{name} says nothing more")))
        };
        if reason(&found).is_some_and(|reason| is_stricter(&reason)) && ends("compiled") {
            return Outcome::FailAlike;
        }
        let overflows =
            |observed: &Observed| reason(observed).is_some_and(|reason| reason.contains("overflows"));
        let may_part = may_overflow_later(spec) && (ends("compiled") || ends("reference"));
        if overflows(&found) && overflows(&expected) && may_part {
            return Outcome::FailAlike;
        }
        if let Some(difference) = difference {
            let failures = [("compiled", &found.failure), ("reference", &expected.failure)];
            let failed = failures.iter().filter_map(|(name, failure)| {
                failure
                    .as_ref()
                    .map(|failure| format!("; {name} fails {}: {}", failure.place, failure.reason))
            });
            return Outcome::Differ(difference + &failed.collect::<String>());
        }
        match (found.failure, expected.failure) {
            (None, None) => Outcome::Agree,
            (Some(found), Some(expected)) if found.place == expected.place => Outcome::FailAlike,
            (found, expected) => {
                let fails = |name: &str, failure: Option<Failure>| match failure {
                    Some(failure) => format!("{name} fails {}: {}", failure.place, failure.reason),
                    None => format!("{name} does not fail"),
                };
                Outcome::Differ(format!("{}; {}", fails("compiled", found), fails("reference", expected)))
            }
        }
    }

    /// The same with the engine that compares two engines.
    fn verify(&self, spec: &Specification, other: BuildFor) -> Outcome {
        let start = Time(self.start);
        let (other, reference) = match (other(spec, start), reference(spec, start)) {
            (Ok(other), Ok(reference)) => (other, reference),
            (_, Err(error)) => return Outcome::GaveUp(error.to_string()),
            (Err(error), _) => return Outcome::Differ(error.to_string()),
        };
        let engine = VerifyingEngine::new([("compiled", other), ("reference", reference)], start);
        let observed =
            self.feed(spec, Box::new(engine.expect("the same streams")), &mut Random::new(self.cuts));
        match observed.failure.map(|failure| failure.reason) {
            Some(reason) if reason.contains("the interpreter stopped working") => Outcome::GaveUp(reason),
            Some(reason)
                if reason.contains("only reference fails")
                    && reason.contains("overflows")
                    && may_overflow_decimals(spec) =>
            {
                Outcome::GaveUp(reason)
            }
            Some(reason) if is_stricter(&reason) => Outcome::FailAlike,
            Some(reason) if reason.contains("overflows") && may_overflow_later(spec) => Outcome::FailAlike,
            Some(reason) if reason.contains("the engines differ") || is_own_fault(&reason) => {
                Outcome::Differ(reason)
            }
            Some(_) => Outcome::FailAlike,
            None => Outcome::Agree,
        }
    }

    /// The verdicts of the reference engine, with a clock that starts at zero.
    pub(super) fn expected(&self, spec: &Specification) -> Vec<VerdictBatch> {
        Case { start: 0, cuts: 0, ..self.clone() }.observe(spec, reference, &mut Random::new(0)).verdicts
    }

    /// The verdicts of an engine, with the events divided into batches at random.
    fn observe(&self, spec: &Specification, build: BuildFor, random: &mut Random) -> Observed {
        let failed = |reason: String| Observed {
            verdicts: Vec::new(),
            failure: Some(Failure { events: 0, place: "at the start".to_owned(), reason }),
        };
        match catch_panic(|| build(spec, Time(self.start))) {
            Ok(Ok(engine)) => self.feed(spec, engine, random),
            Ok(Err(error)) => failed(format!("the interpreter stopped working: {error}")),
            Err(panic) => failed(format!("it panicked: {panic}")),
        }
    }

    fn feed(&self, spec: &Specification, mut engine: Box<dyn Engine>, random: &mut Random) -> Observed {
        let mut out = VerdictBatcher::new(engine.streams(), 1000, Vec::new());
        let mut done = 0;
        let mut failure = failed(0, catch_panic(|| engine.prepare(&Subscription::new(self.selection()))));
        while done < self.trace.events.len() && failure.is_none() {
            let to = (done + 1 + random.below(12)).min(self.trace.events.len());
            let batch = self.trace.batch(done, to, spec.wanted(), self.start);
            failure = failed(done, catch_panic(|| engine.feed(&batch, &mut out)));
            done = to;
        }
        let last = self.trace.events.last().map_or(0, |event| event.time);
        if failure.is_none() && self.trace.until >= last {
            let until = Time(self.start + self.trace.until * 1_000_000);
            failure = failed(done, catch_panic(|| engine.advance(until, &mut out)));
        }
        Observed { verdicts: out.drain(), failure }
    }
}

/// The failure of a call after `done` events.
fn failed(done: usize, result: Result<Result<(), EngineError>, String>) -> Option<Failure> {
    match result {
        Ok(Ok(())) => None,
        Ok(Err(EngineError::Event { index, reason, .. })) => {
            let events = done + index;
            Some(Failure { events, place: format!("at event {}", events + 1), reason })
        }
        Ok(Err(EngineError::Deadline { time, before, reason })) => {
            let events = done + before.unwrap_or_default();
            let place = format!("at the deadline {} after {events} events", time.for_people());
            Some(Failure { events, place, reason })
        }
        Ok(Err(error)) => {
            Some(Failure { events: done, place: "somewhere".to_owned(), reason: error.to_string() })
        }
        Err(panic) => {
            let reason = format!("it panicked: {panic}");
            Some(Failure { events: done, place: "in a batch".to_owned(), reason })
        }
    }
}

/// Whether the compiled engine failed where the interpreter is documented to continue.
fn is_stricter(reason: &str) -> bool {
    const REASONS: [&str; 3] =
        ["too large for a whole number of 64 bits", "cannot become an unsigned one", "the range of its type"];
    REASONS.iter().any(|words| reason.contains(words))
}

/// Whether an engine failed for a reason that is not in the events.
fn is_own_fault(reason: &str) -> bool {
    reason.starts_with("the interpreter stopped working") || reason.starts_with("it panicked")
}
