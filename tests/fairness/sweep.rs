//! A sweep gives for each confidence and tolerance what a run of a file with these gives.

use fairstream_core::{Selection, SourceContext, Time};
use fairstream_fairness::{Grid, Judge, Sweep, SweepCell};
use proptest::prelude::*;

use super::draw::{DrawnPrior, Plan, plan, rows};
use super::oracle::Row;
use super::run::{compile, csv, judged, observe};
use crate::support::compiled;

/// Sweeps over the rows once, and then runs the file for every pair of the grid.
fn check(plan: &Plan, rows: &[Row]) -> Result<(), TestCaseError> {
    let (csv, until) = (csv(rows), Time(plan.until(rows) * 1_000_000_000));
    let (file, spec) = compile(&plan.toml());
    // A file with a prior and a confidence of 0 is refused.
    let confidences = if plan.prior == DrawnPrior::Default { vec![0.0, 2.5, 7.0] } else { vec![2.5, 7.0] };
    let is_ratio = plan.metric == "disparate-impact";
    let tolerances = if is_ratio { vec![0.5, 0.8, 1.0] } else { vec![0.0, 0.1, 0.25] };
    let mut sweep = Sweep::new(file.rules(), Grid::new(confidences, tolerances).unwrap());
    let judge = Judge::new(file.rules().to_vec()).with_sweep(sweep.begin());
    let context = SourceContext::default();
    let (_, mut judge) = judged(&file, &spec, judge, &csv, until, compiled, context, Selection::Alarms);
    sweep.add(judge.end_sweep().unwrap());

    let rule = &file.rules()[0];
    let grid = sweep.grid().clone();
    let mut place = 0;
    for kappa in grid.confidences() {
        for epsilon in grid.tolerances() {
            let clear = rule.at(*kappa, *epsilon).clear;
            let one = Plan { confidence: *kappa, tolerance: *epsilon, clear, ..plan.clone() };
            let observed = observe(&one.toml(), &csv, until, compiled, 8192, Selection::Triggers);
            for rate in 0..rule.rates.len() {
                let triggers = observed.triggers[rate].len() as u64;
                let alarms =
                    observed.alarms[rate].iter().filter(|alarm| alarm.contains("raised")).count() as u64;
                let expected = SweepCell { triggers, alarms, runs_with_alarm: u64::from(alarms > 0) };
                let found = sweep.cells(0, rate).unwrap()[place];
                prop_assert_eq!(found, expected, "rate {}\n{}\n{}", rate, one.toml(), csv);
            }
            place += 1;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_parity(plan in plan("demographic-parity"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_equalized_odds(plan in plan("equalized-odds"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_ratios(plan in plan("disparate-impact"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_means(plan in plan("mean-difference"), rows in rows()) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_flips(plan in plan("counterfactual-fairness"), rows in rows()) {
        check(&plan, &rows)?;
    }
}
