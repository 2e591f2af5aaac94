//! Guaranteed alarms and their evidence: compared with a calculation from the counts of the oracle, and recomputed
//! from the written evidence.

use std::collections::BTreeMap;

use fairstream_core::{Selection, Time};
use fairstream_fairness::{EvidenceReader, Replay};
use proptest::prelude::*;

use super::draw::{DrawnGuarantee, DrawnPrior, Plan, guaranteed, rows, unfair_rows};
use super::oracle::{Expected, Row, expected};
use super::run::{Observed, csv, observe};
use crate::support::{BuildFor, compiled, interpreted, reference};

/// A group's trials and positives, scaled to the range.
type Counts = (f64, f64);

/// The expected result from the counts of the oracle: the logarithm of the evidence at each check of each stratum,
/// and alarms.
#[derive(Debug, Default)]
struct Weighed {
    evidence: BTreeMap<String, Vec<(i64, f64)>>,
    alarms: Vec<String>,
    /// Smallest distance of the evidence from a threshold: a difference by rounding is not an error.
    closest: f64,
}

/// The fair rates closest to these, by a grid search over windows that is refined step by step.
fn nearest(plan: &Plan, beliefs: &[f64], trials: &[f64]) -> Vec<f64> {
    let width = plan.range.map_or(1.0, |(low, high)| high - low);
    let window = |low: f64| match plan.metric {
        "disparate-impact" => (low, if plan.tolerance > 0.0 { (low / plan.tolerance).min(1.0) } else { 1.0 }),
        "counterfactual-fairness" => (0.0, plan.tolerance),
        _ => (low, (low + plan.tolerance / width).min(1.0)),
    };
    let cut = |low: f64| -> Vec<f64> {
        let (low, high) = window(low);
        beliefs.iter().map(|belief| belief.max(low).min(high.max(low))).collect()
    };
    let distance = |low: f64| -> f64 {
        let part = |one: f64, other: f64| if one > 0.0 { one * (one.ln() - other.ln()) } else { 0.0 };
        let of = |((belief, trials), fair): ((&f64, &f64), f64)| {
            trials * (part(*belief, fair) + part(1.0 - belief, 1.0 - fair))
        };
        beliefs.iter().zip(trials).zip(cut(low)).map(of).sum()
    };
    let (mut from, mut to) = (0.0, 1.0);
    for _ in 0..60 {
        let step = (to - from) / 20.0;
        let best = (0..=20)
            .map(|index| from + step * f64::from(index))
            .map(|low| (low, distance(low)))
            .filter(|(_, distance)| !distance.is_nan())
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let best = best.unwrap().0;
        (from, to) = ((best - step).max(0.0), (best + step).min(1.0));
    }
    cut((from + to) / 2.0)
}

/// The same beside a reference group, whose rate is searched; `own` is its index, unless it has no trials.
fn nearest_beside(plan: &Plan, own: Option<usize>, beliefs: &[f64], trials: &[f64]) -> Vec<f64> {
    let width = plan.range.map_or(1.0, |(low, high)| high - low);
    let fair = |rate: f64| -> Vec<f64> {
        let of = |(index, belief): (usize, &f64)| match plan.metric {
            _ if own == Some(index) => rate,
            "disparate-impact" if plan.tolerance > 0.0 => {
                belief.max(rate * plan.tolerance).min(rate / plan.tolerance)
            }
            "disparate-impact" => *belief,
            _ => belief.max(rate - plan.tolerance / width).min(rate + plan.tolerance / width),
        };
        beliefs.iter().enumerate().map(of).collect()
    };
    let distance = |rate: f64| -> f64 {
        let part = |one: f64, other: f64| one * (one.ln() - other.ln());
        let of = |((belief, trials), fair): ((&f64, &f64), f64)| match fair == *belief {
            true => 0.0,
            false => trials * (part(*belief, fair) + part(1.0 - belief, 1.0 - fair)),
        };
        beliefs.iter().zip(trials).zip(fair(rate)).map(of).sum()
    };
    // What is fair already stays as it is.
    if let Some(rate) = own.map(|own| beliefs[own]).filter(|rate| distance(*rate) == 0.0) {
        return fair(rate);
    }
    let (mut from, mut to) = (0.0, 1.0);
    for _ in 0..60 {
        let step = (to - from) / 20.0;
        let best = (0..=20)
            .map(|index| from + step * f64::from(index))
            .map(|rate| (rate, distance(rate)))
            .filter(|(_, distance)| !distance.is_nan())
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let best = best.unwrap().0;
        (from, to) = ((best - step).max(0.0), (best + step).min(1.0));
    }
    fair((from + to) / 2.0)
}

/// Computes the evidence from the counts of one rate.
fn weigh(plan: &Plan, guarantee: DrawnGuarantee, expected: &Expected, rate: usize) -> Weighed {
    let of_rate = &expected.rates[rate];
    let mut weighed = Weighed { closest: f64::INFINITY, ..Weighed::default() };
    let checks = of_rate.gap.values().next().map_or(0, Vec::len);
    // For each stratum and group the number of checks before its first count, and its counts since.
    let series = |numbers: &super::Series, instance: &str, check: usize| {
        let values = &numbers[instance];
        check.checked_sub(checks - values.len()).map(|index| values[index])
    };
    let groups = if plan.two_groups { 2 } else { 1 };
    let split = |instance: &str| {
        let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap();
        let text = |values: &[serde_json::Value]| serde_json::Value::from(values.to_vec()).to_string();
        (text(&values[groups..]), text(&values[..groups]))
    };
    let instances: BTreeMap<(String, String), &str> =
        of_rate.denominator.keys().map(|instance| (split(instance), instance.as_str())).collect();
    let strata: Vec<String> = {
        let mut strata: Vec<String> = instances.keys().map(|(stratum, _)| stratum.clone()).collect();
        strata.dedup();
        strata
    };
    let reference = plan.reference_group().map(|group| format!("[{group}]"));
    let mut places: Vec<String> = Vec::new();
    #[derive(Default)]
    struct State {
        cut: BTreeMap<String, Counts>,
        known: BTreeMap<String, Counts>,
        log: f64,
        stands: bool,
    }
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    for check in 0..checks {
        for stratum in &strata {
            let mut now: BTreeMap<String, Counts> = BTreeMap::new();
            let mut time = 0;
            for ((_, group), instance) in instances.iter().filter(|((of, _), _)| of == stratum) {
                let Some((at, trials)) = series(&of_rate.denominator, instance, check) else { continue };
                let Some((_, sum)) = series(&of_rate.numerator, instance, check) else { continue };
                time = at;
                let sum = plan.range.map_or(sum, |(low, high)| (sum - low * trials) / (high - low));
                if trials > 0.0 {
                    now.insert(group.clone(), (trials, sum));
                }
            }
            if now.is_empty() {
                continue;
            }
            if !places.contains(stratum) {
                places.push(stratum.clone());
            }
            let place = places.iter().position(|known| known == stratum).unwrap() as u64;
            let shares = match guarantee.strata {
                _ if !plan.has_strata => 1.0,
                Some(strata) if place >= strata => f64::INFINITY,
                Some(strata) => strata as f64,
                None => ((place + 1) * (place + 2)) as f64,
            };
            let shares = shares * expected.rates.len() as f64;
            let threshold = shares
                * if guarantee.is_detector() {
                    guarantee.promise / guarantee.block as f64
                } else {
                    1.0 / guarantee.promise
                };
            let state = states.entry(stratum.clone()).or_default();
            let new: BTreeMap<String, Counts> = now
                .iter()
                .map(|(group, (trials, sum))| {
                    let (before, sum_before) = state.cut.get(group).copied().unwrap_or_default();
                    (group.clone(), (trials - before, sum - sum_before))
                })
                .filter(|(_, (trials, _))| *trials > 0.0)
                .collect();
            let total: f64 = new.values().map(|(trials, _)| trials).sum();
            if total >= guarantee.block as f64 && threshold.is_finite() {
                let compared: Vec<(&String, &Counts)> =
                    new.iter().filter(|(group, _)| now[*group].0 >= plan.min_trials as f64).collect();
                let beliefs: Vec<f64> = compared
                    .iter()
                    .map(|(group, _)| state.known.get(*group).copied().unwrap_or_default())
                    .map(|(trials, sum)| (sum + 1.0) / (trials + 2.0))
                    .collect();
                let trials: Vec<f64> = compared.iter().map(|(_, (trials, _))| *trials).collect();
                let fair = match &reference {
                    None => nearest(plan, &beliefs, &trials),
                    Some(own)
                        if now.get(own).is_some_and(|(trials, _)| *trials >= plan.min_trials as f64) =>
                    {
                        let own = compared.iter().position(|(group, _)| *group == own);
                        nearest_beside(plan, own, &beliefs, &trials)
                    }
                    Some(_) => beliefs.clone(),
                };
                let mut log = if guarantee.is_detector() { state.log.max(0.0) } else { state.log };
                for (index, (_, (trials, sum))) in compared.iter().enumerate() {
                    let (q, r) = (beliefs[index], fair[index]);
                    if *sum > 0.0 {
                        log += sum * (q / r).ln();
                    }
                    if trials - sum > 1e-12 {
                        log += (trials - sum) * ((1.0 - q) / (1.0 - r)).ln();
                    }
                }
                state.log = log;
                let kept = if guarantee.is_detector() { 9.0 / (9.0 + total) } else { 1.0 };
                state.known.values_mut().for_each(|known| *known = (known.0 * kept, known.1 * kept));
                for (group, (trials, sum)) in &new {
                    let known = state.known.entry(group.clone()).or_default();
                    *known = (known.0 + trials, known.1 + sum);
                }
                state.cut = now;
                weighed.closest = weighed.closest.min((log - threshold.ln()).abs());
                let clears = guarantee.is_detector() && state.stands && {
                    let compared = state.known.iter().filter(|(group, (trials, _))| {
                        *trials >= 1.0
                            && state.cut.get(*group).is_some_and(|cut| cut.0 >= plan.min_trials as f64)
                    });
                    let rates: Vec<(&String, f64)> = compared
                        .map(|(group, (trials, sum))| (group, (sum + 1.0) / (trials + 2.0)))
                        .collect();
                    let own = rates
                        .iter()
                        .find(|(group, _)| Some(*group) == reference.as_ref())
                        .map(|(_, rate)| *rate);
                    let rates: Vec<f64> = rates.into_iter().map(|(_, rate)| rate).collect();
                    let most = rates.iter().copied().fold(0.0, f64::max);
                    let least = rates.iter().copied().fold(1.0, f64::min);
                    let width = plan.range.map_or(1.0, |(low, high)| high - low);
                    let beyond = match plan.metric {
                        _ if reference.is_some() => rates
                            .iter()
                            .zip(std::iter::repeat(own))
                            .filter_map(|(rate, own)| Some((*rate, own?)))
                            .map(|(rate, own)| match plan.metric {
                                "disparate-impact" => plan.tolerance * own.max(rate) - own.min(rate),
                                _ => (own - rate).abs() - plan.tolerance / width,
                            })
                            .fold(f64::NEG_INFINITY, f64::max),
                        "disparate-impact" => plan.tolerance * most - least,
                        "counterfactual-fairness" => most - plan.tolerance,
                        _ => most - least - plan.tolerance / width,
                    };
                    weighed.closest = weighed.closest.min(beyond.abs());
                    rates.is_empty() || beyond <= 0.0
                };
                if clears {
                    state.log = 0.0;
                }
                if !state.stands && log > threshold.ln() + 1e-9 || clears {
                    state.stands = !state.stands;
                    let word = if state.stands { "raised" } else { "cleared" };
                    let instance = if plan.has_strata { stratum.as_str() } else { "" };
                    weighed.alarms.push(format!("{time} {word} {instance}"));
                }
            }
            let instance = if plan.has_strata { stratum.clone() } else { String::new() };
            weighed.evidence.entry(instance).or_default().push((time, state.log));
        }
    }
    weighed
}

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
    for (rate, streams) in observed.streams.iter().enumerate() {
        let weighed = weigh(plan, plan.guarantee.unwrap(), expected, rate);
        if weighed.closest < 1e-6 {
            continue;
        }
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
            let is_right = |(time, value): &(i64, f64)| {
                should.iter().any(|(at, log)| at == time && same(log.exp(), *value))
            };
            let last =
                values.last().zip(should.last()).is_some_and(|(one, other)| same(other.1.exp(), one.1));
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

fn same(one: f64, other: f64) -> bool {
    one == other || (one - other).abs() <= 1e-5 * one.abs().max(other.abs())
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
    for (rate, of_rate) in expected.rates.iter().enumerate() {
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
    if !sums.is_empty() {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_parity(plan in guaranteed("demographic-parity"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_parity_in_strata(plan in guaranteed("conditional-statistical-parity"), rows in prop_oneof![rows(), unfair_rows()]) {
        check(&plan, &rows)?;
    }

    #[test]
    fn of_equalized_odds(plan in guaranteed("equalized-odds"), rows in prop_oneof![rows(), unfair_rows()]) {
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

/// Ensures that the cases above include alarms.
#[test]
fn alarms_are_among_what_is_compared() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut raised = 0;
    for _ in 0..60 {
        let plan = guaranteed("demographic-parity").new_tree(&mut runner).unwrap().current();
        let rows = unfair_rows().new_tree(&mut runner).unwrap().current();
        let until = Time(plan.until(&rows) * 1_000_000_000);
        let observed = observe(&plan.toml(), &csv(&rows), until, compiled, 8192, Selection::Alarms);
        raised += observed.alarms.iter().flatten().filter(|alarm| alarm.contains("raised")).count();
    }
    assert!(raised > 5, "{raised} raised");
}
