//! Differential testing: random specifications and traces, on which every engine must give the verdicts of the
//! reference engine. It does not define what is correct: the conformance cases do.
//!
//! `FAIRSTREAM_FUZZ_CASES=20000 cargo test -p fairstream-tests the_engines_agree -- --nocapture` runs more cases,
//! `FAIRSTREAM_FUZZ_SEED=…` repeats a seed. A difference is shrunk and written to a file among the conformance
//! cases.

mod access;
mod draft;
mod expression;
mod features;
mod horizons;
mod known;
mod life;
mod pacing;
mod random;
mod report;
mod run;
mod shapes;
mod shrink;
mod specification;
mod state;
mod trace;
mod types;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use fairstream_core::{
    Engine, EngineError, EventBatch, Subscription, Time, Value, Verdict, VerdictBatch, VerdictBatcher,
    VerdictSink,
};
use fairstream_engine::Specification;

use self::random::Random;
use self::run::{Case, LeftOut, Outcome};
use crate::conformance::check;
use crate::support::{BuildFor, compiled, interpreted, reference, warming_up};

/// Number of cases by outcome.
#[derive(Default)]
struct CaseCounts {
    cases: usize,
    /// Generated specifications that the frontend refused.
    refused: usize,
    /// Generated specifications that the interpreter is known to evaluate wrongly.
    misjudged: usize,
    /// Cases that end with an error caused by the events.
    failed: usize,
    /// Cases in which the interpreter failed, by the location of the failure.
    gave_up: BTreeMap<String, usize>,
}

impl CaseCounts {
    fn gave_up(&self) -> usize {
        self.gave_up.values().sum()
    }

    /// Panics where too many cases compared nothing, because the reference engine gave up.
    ///
    /// It gave up on 7.5 % of 20,000 cases. The limit is seven standard deviations of 200 cases above
    /// this, so that no seed exceeds it by chance.
    fn require_a_reference(&self) {
        assert!(self.gave_up() * 5 <= self.cases, "the reference engine gives up too often");
    }
}

/// A valid case, and the reasons why the drafts before it were left out.
fn generate(seed: u64, number: usize) -> (Case, Specification, Vec<LeftOut>) {
    let mut random = Random::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(number as u64));
    let mut random = Random::new(random.next());
    let mut left_out = Vec::new();
    loop {
        let draft = specification::draft(&mut random);
        let trace = trace::Trace::random(&draft.inputs, &mut random);
        let start = if random.chance(70) { 0 } else { 1_376_460_000_000_000_000 };
        let (inputs, declarations) = (draft.inputs, draft.declarations);
        let case = Case { inputs, declarations, trace, start, cuts: random.next() };
        match case.parse() {
            Ok(spec) => return (case, spec, left_out),
            Err(reason) => left_out.push(reason),
        }
        assert!(left_out.len() < 1000, "the frontend accepts nothing:\n{}", case.spec());
    }
}

/// Runs `cases` cases on all cores. Returns one on which the engines differ, with the difference.
fn search(
    seed: u64,
    cases: usize,
    engine: BuildFor,
    counts: &Mutex<CaseCounts>,
) -> Option<(usize, Case, String)> {
    let found = Mutex::new(None);
    let next = AtomicUsize::new(0);
    let work = || {
        while found.lock().unwrap().is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cases {
                return;
            }
            let (case, spec, left_out) = generate(seed, number);
            let outcome = case.run(&spec, engine);
            let mut counts = counts.lock().unwrap();
            counts.cases += 1;
            let refused = left_out.iter().filter(|reason| **reason == LeftOut::Refused).count();
            counts.refused += refused;
            counts.misjudged += left_out.len() - refused;
            match outcome {
                Outcome::Agree => {}
                Outcome::FailAlike => counts.failed += 1,
                Outcome::GaveUp(reason) => {
                    let place = reason.rsplit('(').next().unwrap_or_default();
                    *counts.gave_up.entry(place.trim_end_matches(')').to_owned()).or_default() += 1;
                }
                Outcome::Differ(difference) => *found.lock().unwrap() = Some((number, case, difference)),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap()
}

/// Shrinks a case to what the difference needs.
fn cut_down(case: Case, engine: BuildFor) -> Case {
    let differs = |case: &Case| match case.parse() {
        Ok(spec) => matches!(case.run(&spec, engine), Outcome::Differ(_)),
        Err(_) => false,
    };
    shrink::shrink(case, differs)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn the_engines_agree() {
    must_agree(compiled, 250);
}

#[test]
fn the_engines_agree_while_handlers_come_late() {
    must_agree(warming_up, 150);
}

#[test]
fn the_engines_agree_without_machine_code() {
    must_agree(interpreted, 100);
}

#[expect(clippy::print_stdout, reason = "the number of cases is part of the output of the test")]
fn must_agree(engine: BuildFor, cases: usize) {
    let new_seed =
        SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64) % 1_000_000_000;
    let cases = number("FAIRSTREAM_FUZZ_CASES").map_or(cases, |cases| cases as usize);
    let seeds = match number("FAIRSTREAM_FUZZ_SEED") {
        Some(seed) => vec![seed],
        None => vec![1, new_seed],
    };
    let counts = Mutex::new(CaseCounts::default());
    let began = Instant::now();
    for seed in seeds {
        if let Some((number, case, difference)) = search(seed, cases, engine, &counts) {
            let case = cut_down(case, engine);
            let path = report::write(&case, seed, number, &difference);
            panic!(
                "the engines differ on case {number} of seed {seed}: {difference}\n\
                 cut down, in {}:\n{}\n{}",
                path.display(),
                case.spec(),
                case.trace.text(),
            );
        }
    }
    let counts = counts.into_inner().unwrap();
    println!(
        "{} cases in {:.1} s (seed {new_seed}); {} refused by the frontend, {} misjudged; {} end with an error; the reference gave up on {}: {:#?}",
        counts.cases,
        began.elapsed().as_secs_f64(),
        counts.refused,
        counts.misjudged,
        counts.failed,
        counts.gave_up(),
        counts.gave_up,
    );
    let drafts = counts.cases + counts.refused + counts.misjudged;
    assert!(counts.refused * 10 <= drafts * 3, "the frontend refuses too much");
    assert!(counts.misjudged * 4 <= drafts, "too much is left out as misjudged");
    assert!(counts.failed * 10 <= counts.cases, "too many cases end early");
    counts.require_a_reference();
}

/// Gives the verdicts of the reference engine, but replaces every 7 by an 8.
struct Forgetful(Box<dyn Engine>);

fn forgetful(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(Forgetful(reference(spec, start)?)))
}

impl Forgetful {
    fn retell(
        &mut self,
        out: &mut dyn VerdictSink,
        work: impl FnOnce(&mut dyn Engine, &mut dyn VerdictSink) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut emitted = VerdictBatcher::new(self.0.streams(), 100, Vec::new());
        let result = work(&mut *self.0, &mut emitted);
        for verdict in emitted.drain().iter().flat_map(VerdictBatch::iter) {
            let stream = self.0.streams().iter().position(|name| name == verdict.stream).unwrap();
            let value = verdict.value.map(|value| if value == Value::Int(7) { Value::Int(8) } else { value });
            out.repeat(&Verdict { value, ..verdict }, stream)?;
        }
        result
    }
}

impl Engine for Forgetful {
    fn streams(&self) -> &[String] {
        self.0.streams()
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.0.prepare(subscription)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.retell(out, |engine, out| engine.feed(events, out))
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.retell(out, |engine, out| engine.advance(time, out))
    }
}

#[test]
fn an_engine_that_errs_is_found_and_its_case_cut_down() {
    let (_, case, difference) = search(1, 200, forgetful, &Mutex::default()).expect("a difference");
    assert!(difference.contains("8, reference says 7"), "{difference}");
    let case = cut_down(case, forgetful);
    let (spec, csv) = (case.spec(), case.trace.text());
    assert!(case.declarations.len() <= 2 && case.trace.events.len() <= 3, "{spec}\n{csv}");
    let text = report::toml(&case, 1, 2, &difference);
    assert!(text.contains("= 7"), "{text}");
    // The written file is a conformance case, and distinguishes the engines.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    check(file.path(), "reference", reference).unwrap();
    check(file.path(), "forgetful", forgetful).unwrap_err();
}
