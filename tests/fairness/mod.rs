//! Fairness files, compared with calculations without streams: random events, random files, every value at every
//! check, on every engine.

mod columns;
mod draw;
mod equivalence;
mod guarantee;
mod messages;
mod oracle;
mod plans;
mod prior;
mod reference;
mod run;
mod state;
mod sweep;
mod weigh;

use fairstream_core::{Selection, Time};
use proptest::prelude::*;

use self::draw::{Plan, plan, rows};
use self::oracle::{Expected, Row, Series, expected};
use self::run::{Observed, csv, observe, observe_alarms};
use crate::support::{BuildFor, compiled, interpreted, reference};

/// Runs every engine on the rows under the plan, and compares all verdicts with the calculation.
fn check(plan: &Plan, rows: &[Row]) -> Result<(), TestCaseError> {
    let toml = plan.toml();
    let csv = csv(rows);
    let until = plan.until(rows);
    let expected = expected(plan, rows, until);
    let until = Time(until * 1_000_000_000);
    let failed = |name: &str, difference: String, observed: &Observed| {
        TestCaseError::fail(format!("{name}: {difference}\n{toml}\n{csv}\n{}", observed.rtlola))
    };
    for (name, build) in [("reference", reference as BuildFor), ("interpreted", interpreted)] {
        let observed = observe(&toml, &csv, until, build, 8192, Selection::Changes);
        compare(&expected, &observed)
            .and_then(|()| guarantee::compare_evidence(plan, &expected, &observed))
            .map_err(|difference| failed(name, difference, &observed))?;
    }
    // A narrower selection gives the same selected verdicts, though the engine then emits less to the judge.
    for select in [Selection::Triggers, Selection::Alarms] {
        let observed = observe(&toml, &csv, until, compiled, 8192, select);
        let compared = match select {
            Selection::Alarms => Ok(()),
            _ => compare_triggers(&expected, &observed),
        };
        compared
            .and_then(|()| compare_alarms(&expected, &observed))
            .map_err(|difference| failed(&format!("{select:?}"), difference, &observed))?;
    }
    // With only alarms selected, the text without estimates gives the same alarms, messages and evidence.
    let whole = observe(&toml, &csv, until, interpreted, 8192, Selection::Alarms);
    let observed = observe_alarms(&toml, &csv, until, compiled, 8192);
    let compared = match observed.lines == whole.lines && observed.standings == whole.standings {
        true => guarantee::compare_evidence(plan, &expected, &observed),
        false => Err(format!("alarms alone\n  expected {:?}\n  observed {:?}", whole.lines, observed.lines)),
    };
    compared.map_err(|difference| failed("alarms alone", difference, &observed))?;
    Ok(())
}

fn compare(expected: &Expected, observed: &Observed) -> Result<(), String> {
    compare_values(expected, observed)?;
    compare_triggers(expected, observed)?;
    compare_alarms(expected, observed)
}

fn compare_values(expected: &Expected, observed: &Observed) -> Result<(), String> {
    for (index, rate) in expected.rates.iter().enumerate() {
        let streams = &observed.streams[index];
        let mut named = vec![
            (&streams.numerator, &rate.numerator),
            (&streams.denominator, &rate.denominator),
            (&streams.gap, &rate.gap),
        ];
        named.extend(streams.estimate.iter().map(|stream| (stream, &rate.estimate)));
        named.extend(streams.pending.iter().map(|stream| (stream, &rate.pending)));
        named.extend(streams.gap_in.iter().map(|stream| (stream, &rate.gap_in)));
        for (stream, expected) in named {
            let observed = observed.values.get(stream).cloned().unwrap_or_default();
            let same = expected.len() == observed.len()
                && expected.iter().zip(&observed).all(|((instance, values), (other, observed))| {
                    let close = |one: &(i64, f64), other: &(i64, f64)| {
                        one.0 == other.0 && (one.1 - other.1).abs() <= 1e-9 * one.1.abs().max(1.0)
                    };
                    instance == other
                        && values.len() == observed.len()
                        && values.iter().zip(observed).all(|(one, other)| close(one, other))
                });
            if !same {
                return Err(format!("`{stream}`\n  expected {expected:?}\n  observed {observed:?}"));
            }
        }
    }
    Ok(())
}

fn compare_triggers(expected: &Expected, observed: &Observed) -> Result<(), String> {
    // The order of instances of one trigger follows the first trials of strata, which another test checks.
    let sorted = |triggers: &[Vec<String>]| {
        let mut triggers = triggers.to_vec();
        triggers.iter_mut().for_each(|of_rate| of_rate.sort());
        triggers
    };
    if sorted(&expected.triggers) != sorted(&observed.triggers) {
        return Err(format!(
            "triggers\n  expected {:?}\n  observed {:?}",
            expected.triggers, observed.triggers
        ));
    }
    Ok(())
}

/// Compares alarms, and the final state of every group.
fn compare_alarms(expected: &Expected, observed: &Observed) -> Result<(), String> {
    if expected.alarms != observed.alarms {
        return Err(format!("alarms\n  expected {:?}\n  observed {:?}", expected.alarms, observed.alarms));
    }
    let last = |series: &Series| -> Vec<f64> {
        series.values().filter_map(|values| values.last().map(|(_, value)| *value)).collect()
    };
    let sorted = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let groups = || observed.standings.iter().flat_map(|standing| &standing.groups);
    let stand = sorted(groups().map(|group| group.denominator as f64).collect());
    let counted = sorted(expected.rates.iter().flat_map(|rate| last(&rate.denominator)).collect());
    let wait = sorted(groups().map(|group| group.pending as f64).collect());
    let pending = sorted(expected.rates.iter().flat_map(|rate| last(&rate.pending)).collect());
    if stand != counted || wait != pending {
        return Err(format!(
            "standings\n  expected {counted:?}, {pending:?}\n  observed {stand:?}, {wait:?}"
        ));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn demographic_parity(plan in plan("demographic-parity"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn conditional_statistical_parity(plan in plan("conditional-statistical-parity"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn equalized_odds(plan in plan("equalized-odds"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn equal_opportunity(plan in plan("equal-opportunity"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn predictive_equality(plan in plan("predictive-equality"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn predictive_parity(plan in plan("predictive-parity"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn disparate_impact(plan in plan("disparate-impact"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn probability(plan in plan("probability"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn mean_difference_of_a_number(plan in plan("mean-difference"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn mean_difference_of_a_delay(plan in plan("delay"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn counterfactual_fairness(plan in plan("counterfactual-fairness"), rows in rows()) {
        check(&plan, &rows)?;
    }

    /// Windows of several hundred checks, which move in steps of several.
    #[test]
    fn long_windows(
        plan in plan("demographic-parity"), rows in rows(), window in 220..420_i64, events in any::<bool>(),
    ) {
        let period = (!events).then_some(2);
        let horizon = plan.horizon.or(Some(1));
        let plan = Plan { period, horizon, window: Some(window * 4), ..plan };
        let stretch = |row: Row| Row { time: row.time * 150, ..row };
        check(&plan, &rows.into_iter().map(stretch).collect::<Vec<Row>>())?;
    }

    /// The division into batches changes nothing, alarms included.
    #[test]
    fn batches_change_nothing(
        plan in plan("equalized-odds"), rows in rows(), size in 1..9_usize, has_window in any::<bool>(),
    ) {
        let horizon = if has_window { plan.horizon.or(Some(1)) } else { plan.horizon };
        let window = has_window.then(|| plan.window.unwrap_or(3 * plan.period.unwrap_or(1)));
        let plan = Plan { horizon, window: window.or(plan.window), ..plan };
        let (toml, csv, until) = (plan.toml(), csv(&rows), Time(plan.until(&rows) * 1_000_000_000));
        let whole = observe(&toml, &csv, until, compiled, 8192, Selection::Changes);
        let pieces = observe(&toml, &csv, until, compiled, size, Selection::Changes);
        prop_assert_eq!(whole.lines, pieces.lines);
    }
}

/// Ensures that in the cases above trials leave windows, and that alarms are raised and cleared when nothing else happens.
#[test]
fn trials_that_leave_are_among_what_is_compared() {
    use arrow::array::AsArray;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut left, mut changes) = ([0, 0], [0, 0]);
    for _ in 0..400 {
        let plan = plan("demographic-parity").new_tree(&mut runner).unwrap().current();
        let rows = rows().new_tree(&mut runner).unwrap().current();
        if plan.window.is_none() {
            continue;
        }
        let (csv, until) = (csv(&rows), Time(plan.until(&rows) * 1_000_000_000));
        let observed = observe(&plan.toml(), &csv, until, compiled, 8192, Selection::Alarms);
        let paced = usize::from(plan.period.is_some());
        for batch in &observed.evidence {
            let kinds = batch.rows.column_by_name("kind").unwrap().as_string::<i32>();
            for row in (0..batch.len()).filter(|row| kinds.value(*row) == "left") {
                let time = format!("{} ", batch.time(row).0 / 1_000_000_000);
                left[paced] += 1;
                changes[paced] += observed.alarms[0].iter().filter(|alarm| alarm.starts_with(&time)).count();
            }
        }
    }
    assert!(left.iter().all(|checks| *checks > 10), "trials left at {left:?} checks");
    assert!(changes.iter().all(|changes| *changes > 2), "and {changes:?} of them changed an alarm");
}
