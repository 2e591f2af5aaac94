//! Guaranteed alarms and their evidence: compared with a calculation from the counts of the oracle, and recomputed
//! from the written evidence.

use std::collections::BTreeMap;

use fairstream_core::{Selection, Time};
use fairstream_fairness::{EvidenceReader, Replay};
use proptest::prelude::*;

use super::draw::{DrawnPrior, Plan, guaranteed, rows, unfair_rows, very_unfair_rows};
use super::oracle::{Expected, ExpectedRate, Row, expected};
use super::run::{Observed, csv, observe};
use super::weigh::weigh;
use crate::support::{BuildFor, compiled, interpreted, reference};

/// Compares all verdicts of a run with a guarantee with the counts of the oracle.
pub(crate) fn check(plan: &Plan, rows: &[Row]) -> Result<(), TestCaseError> {
    let (toml, csv, until) = (plan.toml(), csv(rows), plan.until(rows));
    let expected = expected(plan, rows, until);
    for (name, build) in [("reference", reference as BuildFor), ("interpreted", interpreted)] {
        let observed = observe(&toml, &csv, Time(until * 1_000_000_000), build, 8192, Selection::Changes);
        super::compare_values(&expected, &observed)
            .and_then(|()| compare_guarantee(plan, &expected, &observed))
            .and_then(|()| compare_evidence(plan, &expected, &observed))
            .map_err(|error| {
                TestCaseError::fail(format!("{name}: {error}\n{toml}\n{csv}\n{}", observed.rtlola))
            })?;
    }
    Ok(())
}

fn compare_guarantee(plan: &Plan, expected: &Expected, observed: &Observed) -> Result<(), String> {
    let times =
        |rate: &ExpectedRate| -> Vec<i64> { rate.gap.values().flatten().map(|(time, _)| *time).collect() };
    let checks: Vec<Vec<i64>> = expected.rates.iter().map(times).collect();
    let weighed = weigh(plan, plan.guarantee.unwrap(), &expected.trials, &checks);
    if weighed.closest < 1e-6 {
        return Ok(());
    }
    for (rate, (streams, weighed)) in observed.streams.iter().zip(&weighed.rates).enumerate() {
        if weighed.alarms != observed.alarms[rate] {
            return Err(format!(
                "alarms\n  expected {:?}\n  observed {:?}",
                weighed.alarms, observed.alarms[rate]
            ));
        }
        let none = super::Series::new();
        let e_values = observed.values.get(&streams.judged.as_ref().unwrap().e_value).unwrap_or(&none);
        for (stratum, values) in e_values {
            // An engine may omit checks without new counts; every emitted value must be correct, and the last must
            // be the final one.
            let should = &weighed.evidence[stratum];
            let is_right =
                |(time, value): &(i64, f64)| should.iter().any(|(at, log)| at == time && same(*log, *value));
            let last = values.last().zip(should.last()).is_some_and(|(one, other)| same(other.1, one.1));
            if !values.iter().all(is_right) || !last {
                return Err(format!("evidence of {stratum}\n  expected {should:?}\n  observed {values:?}"));
            }
        }
        if e_values.len() != weighed.evidence.len() {
            return Err(format!("evidence of {:?}, expected {:?}", e_values.keys(), weighed.evidence.keys()));
        }
    }
    Ok(())
}

/// Whether an e-value is the one with that logarithm, to nine digits of the logarithm.
fn same(log: f64, e_value: f64) -> bool {
    let observed = e_value.ln();
    (log - observed).abs() <= 1e-9 * log.abs().max(1.0) || log > 700.0 && observed > 700.0
}

/// The written evidence adds up to the counts, and leads to every alarm with the same message.
pub(crate) fn compare_evidence(plan: &Plan, expected: &Expected, observed: &Observed) -> Result<(), String> {
    if plan.horizon.is_none() {
        return Ok(());
    }
    let mut recount = Replay::default();
    let mut sums: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for batch in &observed.evidence {
        recount.add(batch).map_err(|error| error.to_string())?;
        let column = |name: &str| batch.rows.column_by_name(name).unwrap().clone();
        let text = |name: &str, row: usize| {
            arrow::array::AsArray::as_string::<i32>(&column(name)).value(row).to_owned()
        };
        for row in (0..batch.len()).filter(|row| text("kind", *row) == "trial") {
            let values = column("value");
            let values: &arrow::array::Float64Array = arrow::array::AsArray::as_primitive(&values);
            let (group, stratum) = (text("group", row), text("stratum", row));
            let instance = format!("{},{}", &group[..group.len() - 1], &stratum[1..]).replace(",]", "]");
            let sum = sums.entry((text("metric", row), instance)).or_default();
            *sum = (sum.0 + 1.0, sum.1 + values.value(row));
        }
    }
    // With a window, the counts are of some of the trials; the alarms below are recomputed from those.
    let counted = if plan.window.is_some() { &[][..] } else { &expected.rates[..] };
    for (rate, of_rate) in counted.iter().enumerate() {
        let metric = metric_name(plan, rate);
        for (instance, values) in &of_rate.denominator {
            let (_, trials) = values.last().unwrap();
            let (_, sum) = of_rate.numerator[instance].last().unwrap();
            let written = sums.remove(&(metric.clone(), instance.clone())).unwrap_or_default();
            if written.0 != *trials || (written.1 - sum).abs() > 1e-6 {
                return Err(format!("evidence of {metric}{instance}: {written:?}, counted {trials} {sum}"));
            }
        }
    }
    if !sums.is_empty() && plan.window.is_none() {
        return Err(format!("evidence of unknown trials: {sums:?}"));
    }
    for (metric, time, message) in &observed.messages {
        if plan.prior == DrawnPrior::OfScores && plan.guarantee.is_none() {
            continue;
        }
        let recomputed = match recount.alarm(metric, *time, message, true) {
            Ok(recounted) => recounted.message,
            // Estimates do not decide alarms with a guarantee, but they are reported.
            Err(_) if plan.prior == DrawnPrior::OfScores => continue,
            Err(error) => return Err(format!("{error}\n  {message}")),
        };
        if recomputed != *message {
            return Err(format!("recomputed\n  {recomputed}\n  {message}"));
        }
    }
    Ok(())
}

fn metric_name(plan: &Plan, rate: usize) -> String {
    let name = if plan.metric == "delay" { "mean-difference" } else { plan.metric };
    let name = name.replace('-', "_");
    match (plan.metric, rate) {
        ("equalized-odds", 0) => format!("{name}_true_positive"),
        ("equalized-odds", _) => format!("{name}_false_positive"),
        _ => name,
    }
}

/// Rows with any number of alarms.
fn families() -> impl Strategy<Value = Vec<Row>> {
    prop_oneof![rows(), unfair_rows(), very_unfair_rows()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_parity(plan in guaranteed("demographic-parity"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_parity_in_strata(plan in guaranteed("conditional-statistical-parity"), rows in families()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_equalized_odds(plan in guaranteed("equalized-odds"), rows in families()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_ratios(plan in guaranteed("disparate-impact"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_means(plan in guaranteed("mean-difference"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_delays(plan in guaranteed("delay"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_flips(plan in guaranteed("counterfactual-fairness"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    /// The division into batches changes neither verdicts nor evidence.
    #[test]
    fn batches_change_nothing(plan in guaranteed("equalized-odds"), rows in unfair_rows(), size in 1..9_usize) {
        let (toml, csv, until) = (plan.toml(), csv(&rows), Time(plan.until(&rows) * 1_000_000_000));
        let whole = observe(&toml, &csv, until, compiled, 8192, Selection::Changes);
        let pieces = observe(&toml, &csv, until, compiled, size, Selection::Changes);
        prop_assert_eq!(&whole.lines, &pieces.lines);
        prop_assert_eq!(evidence(&whole), evidence(&pieces));
        // A narrower selection gives the same alarms and the same evidence.
        let alarms = observe(&toml, &csv, until, compiled, size, Selection::Alarms);
        prop_assert_eq!(&whole.messages, &alarms.messages);
        prop_assert_eq!(evidence(&whole), evidence(&alarms));
    }
}

/// Rows of evidence as text, independent of batches.
fn evidence(observed: &Observed) -> Vec<String> {
    let options = arrow::util::display::FormatOptions::default();
    let mut lines = Vec::new();
    for batch in &observed.evidence {
        assert_eq!(batch.rows.num_columns(), EvidenceReader::wanted().len());
        let columns: Vec<_> = batch
            .rows
            .columns()
            .iter()
            .map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.len() {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            lines.push(format!("{} {}", batch.time(row).0, values.join(" ")));
        }
    }
    lines
}

/// Ensures that the cases above include alarms, and several that share a promise, of either kind.
#[test]
fn alarms_are_among_what_is_compared() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut raised, mut together) = (0, [0, 0]);
    for run in 0..60 {
        let (plan, rows) = match run % 2 {
            0 => (guaranteed("demographic-parity").boxed(), unfair_rows().boxed()),
            _ => (guaranteed("equalized-odds").boxed(), very_unfair_rows().boxed()),
        };
        let plan = plan.new_tree(&mut runner).unwrap().current();
        let rows = rows.new_tree(&mut runner).unwrap().current();
        let until = Time(plan.until(&rows) * 1_000_000_000);
        let observed = observe(&plan.toml(), &csv(&rows), until, compiled, 8192, Selection::Alarms);
        let alarms = observed.alarms.iter().flatten().filter(|alarm| alarm.contains("raised")).count();
        raised += alarms;
        let guarantee = plan.guarantee.unwrap();
        if alarms > 1 && !guarantee.is_detector() {
            together[usize::from(guarantee.are_discoveries)] += 1;
        }
    }
    assert!(raised > 20, "{raised} raised");
    assert!(together.iter().all(|runs| *runs > 2), "several alarms in {together:?} runs");
}
