//! Runs two engines side by side and compares their verdicts. Never decides which of them is right.

mod compare;

use fairstream_core::{
    Engine, EngineError, EventBatch, Subscription, Time, VerdictBatch, VerdictBatcher, VerdictSink,
};

pub use compare::first_difference;

use crate::lifecycle::Lifecycle;

/// Evaluates everything twice, and stops where two engines differ: in a verdict, in the order of verdicts, or in whether
/// there is an error.
///
/// Rows are fed one by one, and long gaps are cut into steps, so that a difference is found at the row or the deadline
/// where it arises, and the verdicts that are buffered stay few. A verdict is emitted once both engines have emitted it.
pub struct VerifyingEngine {
    first: Side,
    second: Side,
    /// Everything that is due up to and at this time has been evaluated.
    evaluated: Time,
    /// How far the clocks advance at once, in nanoseconds.
    step: i64,
    lifecycle: Lifecycle,
}

/// One of the two engines.
struct Side {
    name: String,
    engine: Box<dyn Engine>,
    verdicts: VerdictBatcher<Vec<VerdictBatch>>,
}

/// Steps are shortened while one gives more verdicts than this.
const VERDICTS_A_STEP: usize = 10_000;

impl VerifyingEngine {
    /// Compares two engines for the same specification whose clocks start at `start`. Each comes with its name in messages
    /// about differences.
    ///
    /// # Errors
    /// They do not have the same streams.
    pub fn new(
        [first, second]: [(&str, Box<dyn Engine>); 2],
        start: Time,
    ) -> Result<VerifyingEngine, EngineError> {
        if first.1.streams() != second.1.streams() {
            let (first, second) = (first.1.streams().join(", "), second.1.streams().join(", "));
            let reason = format!("the engines differ in their streams: {first}; {second}");
            return Err(EngineError::Build(reason));
        }
        Ok(VerifyingEngine {
            first: Side::new(first),
            second: Side::new(second),
            evaluated: Time(start.0.saturating_sub(1)),
            step: 1_000_000,
            lifecycle: Lifecycle::default(),
        })
    }

    /// Runs `work` on both engines, compares their verdicts, and emits those that are wanted; gives how many there were. An
    /// error that both have is returned as it is; a difference becomes an error through `differ`.
    fn both(
        &mut self,
        work: impl Fn(&mut Side) -> Result<(), EngineError>,
        differ: impl FnOnce(String) -> EngineError,
        out: &mut dyn VerdictSink,
    ) -> Result<usize, EngineError> {
        let results = (work(&mut self.first), work(&mut self.second));
        let (first, second) = (self.first.verdicts.drain(), self.second.verdicts.drain());
        let only = |name: &str, error: EngineError| {
            let reason = match error {
                EngineError::Event { reason, .. } | EngineError::Deadline { reason, .. } => reason,
                other => other.to_string(),
            };
            format!("only {name} fails: {reason}")
        };
        let (names, batches) = ((&self.first.name, &self.second.name), (&first, &second));
        let (difference, error) = match results {
            (Err(error), Ok(())) => (Some(only(names.0, error)), None),
            (Ok(()), Err(error)) => (Some(only(names.1, error)), None),
            (first, _) => (first_difference((names.0, batches.0), (names.1, batches.1)), first.err()),
        };
        if let Some(difference) = difference {
            return Err(differ(format!("the engines differ: {difference}")));
        }
        let mut verdicts = 0;
        for verdict in first.iter().flat_map(VerdictBatch::iter) {
            let names = self.first.engine.streams();
            let stream = names.iter().position(|name| name == verdict.stream).unwrap_or_default();
            if self.lifecycle.wants(verdict.kind, stream) {
                out.repeat(&verdict, stream)?;
            }
            verdicts += 1;
        }
        error.map_or(Ok(verdicts), Err)
    }

    /// Advances both clocks to `time`, in steps that become longer while there are few verdicts. `event` is the row that
    /// waits for it.
    fn run_clocks(
        &mut self,
        time: Time,
        event: Option<usize>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        while self.evaluated < time {
            let next = Time(self.evaluated.0.saturating_add(self.step)).min(time);
            let differ = |reason| EngineError::Deadline { time: next, before: event, reason };
            let advance = |side: &mut Side| side.engine.advance(next, &mut side.verdicts);
            let verdicts = self.both(advance, differ, out).map_err(|error| match error {
                EngineError::Deadline { time, reason, .. } => {
                    EngineError::Deadline { time, before: event, reason }
                }
                other => other,
            })?;
            self.evaluated = next;
            self.step =
                if verdicts > VERDICTS_A_STEP { (self.step / 8).max(1) } else { self.step.saturating_mul(2) };
            out.check()?;
        }
        Ok(())
    }
}

impl Side {
    fn new((name, engine): (&str, Box<dyn Engine>)) -> Side {
        let verdicts = VerdictBatcher::new(engine.streams(), VERDICTS_A_STEP, Vec::new());
        Side { name: name.to_owned(), engine, verdicts }
    }
}

impl Engine for VerifyingEngine {
    fn streams(&self) -> &[String] {
        self.first.engine.streams()
    }

    /// Both engines are prepared to emit everything, so that everything is compared.
    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.lifecycle.prepare(subscription)?;
        self.first.engine.prepare(&Subscription::everything())?;
        self.second.engine.prepare(&Subscription::everything())
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        for index in 0..events.len() {
            self.run_clocks(Time(events.time(index).0.saturating_sub(1)), Some(index), out)?;
            let mut row = EventBatch::new(
                events.rows.slice(index, 1),
                events.times.slice(index, 1),
                events.row_numbers.slice(index, 1),
                events.end.clone(),
            );
            row.relative = events.relative;
            let differ = |reason| EngineError::Event { index: 0, column: None, reason };
            let feed = |side: &mut Side| side.engine.feed(&row, &mut side.verdicts);
            self.both(feed, differ, out).map_err(|error| match error {
                EngineError::Event { column, reason, .. } => EngineError::Event { index, column, reason },
                EngineError::Deadline { time, reason, .. } => {
                    EngineError::Deadline { time, before: Some(index), reason }
                }
                other => other,
            })?;
        }
        self.lifecycle.succeed();
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        self.run_clocks(time, None, out)?;
        self.lifecycle.succeed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use fairstream_core::{Cancelled, Position, Selection};

    use super::*;
    use crate::{ReferenceEngine, Specification};

    const SPEC: &str = "input a : Int64\n\
        output sum := sum.last(or: 0) + a\n\
        output half @2s := cast<Int64, Float64>(a.hold(or: 0)) / 2.0\n\
        trigger sum > 8 \"much\"";

    fn reference(spec: &str) -> Box<dyn Engine> {
        Box::new(ReferenceEngine::new(&Specification::parse("spec", spec).unwrap(), Time(0)).unwrap())
    }

    /// Feeds rows `(second, a)`, and advances the clock to `until`; gives the verdicts and the error.
    fn run(other: &str, rows: &[(i64, i64)], until: i64) -> (Vec<String>, Option<EngineError>) {
        const SECOND: i64 = 1_000_000_000;
        let engines = [("compiled", reference(other)), ("reference", reference(SPEC))];
        let mut engine = VerifyingEngine::new(engines, Time(0)).unwrap();
        engine.prepare(&Subscription::new(Selection::Triggers)).unwrap();
        let mut out = VerdictBatcher::new(engine.streams(), 7, Vec::new());
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let column = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
        let batch = EventBatch::new(
            RecordBatch::try_new(schema.into(), vec![column]).unwrap(),
            rows.iter().map(|row| row.0 * SECOND).collect::<Vec<_>>(),
            vec![0; rows.len()],
            Position::default(),
        );
        let error =
            engine.feed(&batch, &mut out).and_then(|()| engine.advance(Time(until * SECOND), &mut out));
        let line =
            |verdict: fairstream_core::Verdict<'_>| format!("{} {}", verdict.time.0 / SECOND, verdict.stream);
        (out.drain().iter().flat_map(VerdictBatch::iter).map(line).collect(), error.err())
    }

    #[test]
    fn verdicts_that_both_engines_emit_are_emitted() {
        let (lines, error) = run(SPEC, &[(1, 4), (1, 5), (7, 1)], 20);
        assert_eq!((lines, error), (vec!["1 trigger_0".to_owned(), "7 trigger_0".to_owned()], None));
    }

    #[test]
    fn a_different_value_ends_the_run_at_its_row() {
        let (lines, error) = run(&SPEC.replace("+ a", "+ a % 5"), &[(1, 4), (2, 14), (3, 5), (4, 1)], 9);
        let reason = "the engines differ: at 2s in `sum`, compiled says 8, reference says 18".to_owned();
        assert_eq!(error, Some(EngineError::Event { index: 1, column: None, reason }));
        assert!(lines.is_empty());
    }

    #[test]
    fn a_difference_at_a_deadline_names_it() {
        let other = SPEC.replace("2.0", "4.0");
        let (_, error) = run(&other, &[(1, 4), (7, 5)], 9);
        assert!(
            matches!(&error, Some(EngineError::Deadline { before: Some(1), reason, .. })
            if reason.contains("at 2s in `half`, compiled says 1, reference says 2")),
            "{error:?}"
        );
        let (_, error) = run(&other, &[(1, 4)], 9);
        assert!(matches!(error, Some(EngineError::Deadline { before: None, .. })), "{error:?}");
    }

    #[test]
    fn a_failure_of_one_is_a_difference_and_one_of_both_is_not() {
        let other = SPEC.replace("+ a\n", "+ 8 / a * a / 8 * a\n");
        let (lines, error) = run(&other, &[(1, 8), (2, 8), (3, 0)], 9);
        assert!(
            matches!(&error, Some(EngineError::Event { index: 2, reason, .. })
            if reason.contains("only compiled fails: a whole number is divided by zero")),
            "{error:?}"
        );
        assert_eq!(lines, ["2 trigger_0"]);
        let (_, error) = run(SPEC, &[(1, 8), (2, i64::MAX)], 9);
        assert!(
            matches!(&error, Some(EngineError::Event { index: 1, reason, .. })
            if reason.starts_with("a whole number overflows")),
            "{error:?}"
        );
    }

    #[test]
    fn a_long_gap_is_cut_into_steps() {
        let mut engine =
            VerifyingEngine::new([("one", reference(SPEC)), ("two", reference(SPEC))], Time(0)).unwrap();
        let mut batches = 0;
        let mut out = VerdictBatcher::new(engine.streams(), 100, |_| {
            batches += 1;
            if batches == 30 { Err(Cancelled) } else { Ok(()) }
        });
        engine.prepare(&Subscription::everything()).unwrap();
        // This would not return if 292 years were evaluated before the first verdict is emitted.
        assert_eq!(engine.advance(Time(i64::MAX), &mut out), Err(EngineError::Cancelled(Cancelled)));
    }

    #[test]
    fn engines_with_other_streams_are_refused() {
        let engines = [("one", reference(SPEC)), ("two", reference("input a : Int64\noutput b := a"))];
        assert!(matches!(VerifyingEngine::new(engines, Time(0)), Err(EngineError::Build(_))));
    }
}
