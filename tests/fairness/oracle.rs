//! The oracle: the same estimates in plain Rust, at every check, from the whole list of rows. No streams, no
//! state.

use std::collections::BTreeMap;

use super::draw::{DrawnPrior, Plan};

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) time: i64,
    pub(crate) id: Option<u64>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) gender: Option<&'static str>,
    pub(crate) region: Option<i64>,
    pub(crate) place: Option<&'static str>,
    pub(crate) score: Option<i64>,
    pub(crate) other: Option<u64>,
}

/// Values of a stream: for each instance, times and values.
pub(crate) type Series = BTreeMap<String, Vec<(i64, f64)>>;

#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) rates: Vec<ExpectedRate>,
    /// Final trials in the order in which they became final, as far as checks have counted them.
    pub(crate) trials: Vec<FinalTrial>,
    /// `TIME INSTANCE`, in order, for each rate.
    pub(crate) triggers: Vec<Vec<String>>,
    /// `TIME raised|cleared INSTANCE`, in order, for each rate.
    pub(crate) alarms: Vec<Vec<String>>,
}

/// A trial that is final.
#[derive(Clone, Debug)]
pub(crate) struct FinalTrial {
    pub(crate) ended: i64,
    /// The index of the check that counts it.
    pub(crate) check: usize,
    pub(crate) group: String,
    pub(crate) stratum: String,
    /// What it adds to the numerator and the denominator of each rate.
    pub(crate) adds: Vec<(f64, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct ExpectedRate {
    pub(crate) numerator: Series,
    pub(crate) denominator: Series,
    pub(crate) pending: Series,
    pub(crate) estimate: Series,
    pub(crate) gap: Series,
    pub(crate) gap_in: Series,
}

/// Time and rows of a check.
#[derive(Clone, Copy)]
struct Check {
    time: i64,
    /// Number of rows before the check.
    rows: usize,
}

struct Trial {
    key: u64,
    /// Index of the row that opened it.
    first: usize,
    opened: i64,
    group: String,
    stratum: String,
    gender: &'static str,
    region: i64,
    /// The check that counts it, and the first row that can open another trial of the key.
    counted: Option<(Check, usize)>,
}

fn checks(plan: &Plan, rows: &[Row], until: i64) -> Vec<Check> {
    match plan.period {
        None => (0..rows.len()).flat_map(|index| row_checks(plan, rows, index)).collect(),
        // A tick follows the rows of the same time.
        Some(period) => (1..=until / period)
            .map(|tick| tick * period)
            .map(|time| Check { time, rows: rows.iter().filter(|row| row.time <= time).count() })
            .collect(),
    }
}

/// The checks of a row without a period: after it; and with a horizon, before the first row of each time.
fn row_checks(plan: &Plan, rows: &[Row], index: usize) -> impl Iterator<Item = Check> {
    let time = rows[index].time;
    let is_new = index == 0 || rows[index - 1].time < time;
    let before = plan.horizon.is_some_and(|horizon| horizon > 0) && is_new;
    let before = before.then_some(Check { time, rows: index });
    before.into_iter().chain([Check { time, rows: index + 1 }])
}

fn opens(plan: &Plan, row: &Row) -> bool {
    row.id.is_some()
        && row.gender.is_some()
        && (!plan.two_groups || row.region.is_some())
        && (!plan.has_strata || row.place.is_some())
        && (!plan.opens || row.kind == Some("open"))
}

fn trials(plan: &Plan, rows: &[Row], checks: &[Check]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(key) = row.id.filter(|_| opens(plan, row)) else { continue };
        let open = trials.iter().rev().find(|trial| trial.key == key);
        // Another trial opens only after the previous one has been counted.
        if open.is_some_and(|trial| trial.counted.is_none_or(|(_, next)| index < next)) {
            continue;
        }
        let (gender, region) = (row.gender.unwrap(), row.region.unwrap_or(0));
        let group = if plan.two_groups { format!("\"{gender}\",{region}") } else { format!("\"{gender}\"") };
        let stratum =
            row.place.filter(|_| plan.has_strata).map(|place| format!("\"{place}\"")).unwrap_or_default();
        let counted = plan.horizon.filter(|horizon| *horizon > 0).and_then(|horizon| {
            let end = row.time + horizon;
            // What is due at the time of a row is due after the row, and before a tick.
            let over =
                |check: &&Check| if plan.period.is_some() { check.time >= end } else { check.time > end };
            checks.iter().find(|check| over(check) && check.rows > index).map(|check| (*check, check.rows))
        });
        trials.push(Trial { key, first: index, opened: row.time, group, stratum, gender, region, counted });
    }
    trials
}

/// A trial with the rows that are known at a check.
struct Known<'a> {
    plan: &'a Plan,
    trial: &'a Trial,
    rows: &'a [Row],
}

impl Known<'_> {
    /// The rows of the trial, by its key in a column.
    fn of(&self, key: impl Fn(&Row) -> Option<u64>) -> impl Iterator<Item = &Row> {
        let end = self.plan.horizon.map_or(i64::MAX, |horizon| self.trial.opened + horizon);
        let own = self.trial.key;
        let most = if self.plan.horizon == Some(0) { 1 } else { usize::MAX };
        let rows = self.rows.iter().skip(self.trial.first).take(most);
        rows.filter(move |row| row.time <= end && key(row) == Some(own))
    }

    fn high(&self) -> Option<i64> {
        self.of(|row| row.id).find(|row| row.score.is_some_and(|score| score > 5)).map(|row| row.time)
    }

    fn later(&self) -> Option<i64> {
        if self.plan.horizon == Some(0) {
            return self
                .of(|row| row.id)
                .find(|row| row.other.is_some_and(|other| other < 3))
                .map(|row| row.time);
        }
        let bound = self.plan.within.map_or(i64::MAX, |within| self.trial.opened + within);
        self.of(|row| row.other).find(|row| row.time <= bound).map(|row| row.time)
    }

    fn ended(&self) -> bool {
        self.of(|row| row.id).any(|row| row.kind == Some("end") || row.kind == Some("stop"))
    }

    fn score(&self) -> Option<i64> {
        self.of(|row| row.id).find_map(|row| row.score)
    }

    /// Whether the case was submitted again with another group after its decision, and whether that decision
    /// differs.
    fn asked_again(&self) -> (bool, bool) {
        let two = self.plan.two_groups;
        let mut first = None;
        let (mut again, mut changed) = (false, false);
        for row in self.of(|row| row.id) {
            let (Some(gender), Some(score)) = (row.gender, row.score) else { continue };
            if two && row.region.is_none() {
                continue;
            }
            let same = gender == self.trial.gender && (!two || row.region == Some(self.trial.region));
            match first {
                None if same => first = Some(score > 5),
                Some(decision) if !same => {
                    again = true;
                    changed |= decision != (score > 5);
                }
                _ => {}
            }
        }
        (again, changed)
    }

    /// The contribution of the trial to numerator and denominator of each rate.
    fn adds(&self) -> Vec<(f64, u64)> {
        let (high, later) = (self.high().is_some(), self.later().is_some());
        let share = |of: bool, given: bool| (f64::from(u8::from(of && given)), u64::from(given));
        let given = self.plan.given.is_none_or(|wanted| self.ended() == wanted);
        let mean = |value: Option<f64>| match value.filter(|_| given) {
            Some(value) => (self.plan.range.map_or(value, |(low, high)| value.clamp(low, high)), 1),
            None => (0.0, 0),
        };
        match self.plan.metric {
            "demographic-parity" | "conditional-statistical-parity" | "disparate-impact" => {
                vec![share(later, true)]
            }
            "equalized-odds" => vec![share(high, later), share(high, !later)],
            "equal-opportunity" => vec![share(high, later)],
            "predictive-equality" => vec![share(high, !later)],
            "predictive-parity" => vec![share(later, high)],
            "probability" => vec![share(high && !later, given)],
            "mean-difference" => vec![mean(self.score().map(|score| score as f64))],
            "delay" => {
                // Whole numbers with a window, so that no order of adding changes a sum.
                let is_whole = self.plan.opens || self.plan.window.is_some();
                let from = if is_whole { self.high() } else { Some(self.trial.opened) };
                let unit = if is_whole { 1.0 } else { 60.0 };
                let delay = self.later().zip(from).map(|(to, from)| (to - from) as f64 / unit);
                vec![mean(delay)]
            }
            "counterfactual-fairness" => {
                let (again, changed) = self.asked_again();
                vec![share(changed, again)]
            }
            other => panic!("no metric {other}"),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    numerator: f64,
    denominator: u64,
    pending: u64,
}

pub(crate) fn expected(plan: &Plan, rows: &[Row], until: i64) -> Expected {
    let checks = checks(plan, rows, until);
    let trials = trials(plan, rows, &checks);
    let count = if plan.metric == "equalized-odds" { 2 } else { 1 };
    let mut expected = Expected::default();
    for rate in 0..count {
        let mut of_rate = ExpectedRate::default();
        let (mut triggers, mut alarms) = (Vec::new(), Vec::new());
        let mut standing: BTreeMap<String, bool> = BTreeMap::new();
        for check in &checks {
            let sums = sums(plan, rows, &trials, *check, &checks, rate);
            one_check(plan, rows, *check, &sums, &mut of_rate, &mut triggers, &mut alarms, &mut standing);
        }
        expected.rates.push(of_rate);
        expected.triggers.push(triggers);
        expected.alarms.push(alarms);
    }
    expected.trials = final_trials(plan, rows, &trials, &checks);
    expected
}

fn final_trials(plan: &Plan, rows: &[Row], trials: &[Trial], checks: &[Check]) -> Vec<FinalTrial> {
    let Some(horizon) = plan.horizon else { return Vec::new() };
    let of = |trial: &Trial| {
        let counts = |check: &Check| match trial.counted {
            Some((at, _)) => check.time == at.time && check.rows == at.rows,
            None => horizon == 0 && check.rows > trial.first,
        };
        let check = checks.iter().position(counts)?;
        let known = Known { plan, trial, rows: &rows[..checks[check].rows] };
        let (group, stratum) = (format!("[{}]", trial.group), trial.stratum.clone());
        Some(FinalTrial { ended: trial.opened + horizon, check, group, stratum, adds: known.adds() })
    };
    // Trials are in the order of opening, which is that of ending too.
    trials.iter().filter_map(of).collect()
}

/// When a trial was counted, if it is final.
fn counted_at(plan: &Plan, trial: &Trial, checks: &[Check]) -> Option<i64> {
    match plan.horizon? {
        0 => checks.iter().find(|check| check.rows > trial.first).map(|check| check.time),
        _ => trial.counted.map(|(check, _)| check.time),
    }
}

/// Whether a trial that was counted at a time has left the window at a check. The window begins so many steps before the
/// last end of a step: a check of a period ends one, and an event comes before an end at its own time.
fn has_left(plan: &Plan, counted: i64, now: i64) -> bool {
    let Some(window) = plan.window else { return false };
    let Some(period) = plan.period else {
        // In hundredths of the window.
        let began = (now * 100 - 1).div_euclid(window) - 100;
        return began > 0 && counted * 100 <= began * window;
    };
    // 400 steps at most, and without a remainder if there are still enough of them then.
    let checks = window / period;
    let least = (1..).find(|size| size * 400 >= checks).unwrap();
    let size = (least..=4 * least).find(|size| checks % size == 0).unwrap_or(least);
    let steps = (1..).find(|steps| steps * size >= checks).unwrap();
    let began = now / (size * period) - steps;
    began > 0 && counted <= began * size * period
}

/// The sums of each stratum and group at a check.
fn sums(
    plan: &Plan,
    rows: &[Row],
    trials: &[Trial],
    check: Check,
    checks: &[Check],
    rate: usize,
) -> BTreeMap<(String, String), Sums> {
    let mut sums: BTreeMap<(String, String), Sums> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.first < check.rows) {
        let sums = sums.entry((trial.stratum.clone(), trial.group.clone())).or_default();
        let counts = match plan.horizon {
            None | Some(0) => true,
            Some(_) => trial.counted.is_some_and(|(at, _)| {
                at.time < check.time || (at.time == check.time && at.rows <= check.rows)
            }),
        };
        let counted = counts.then(|| counted_at(plan, trial, checks)).flatten();
        if counted.is_some_and(|counted| has_left(plan, counted, check.time)) {
            continue;
        }
        if counts {
            let known = Known { plan, trial, rows: &rows[..check.rows] };
            let (numerator, denominator) = known.adds()[rate];
            sums.numerator += numerator;
            sums.denominator += denominator;
        } else {
            sums.pending += 1;
        }
    }
    sums
}

#[allow(clippy::too_many_arguments, reason = "one step of a loop")]
fn one_check(
    plan: &Plan,
    rows: &[Row],
    check: Check,
    sums: &BTreeMap<(String, String), Sums>,
    of_rate: &mut ExpectedRate,
    triggers: &mut Vec<String>,
    alarms: &mut Vec<String>,
    standing: &mut BTreeMap<String, bool>,
) {
    let push = |series: &mut Series, instance: String, value: f64| {
        series.entry(instance).or_default().push((check.time, value));
    };
    let last_score = rows[..check.rows].iter().rev().find_map(|row| row.score).unwrap_or(5);
    let prior = match (plan.prior, plan.metric) {
        (DrawnPrior::Number(number), _) => number,
        (DrawnPrior::OfScores, _) => last_score as f64 / 10.0,
        (DrawnPrior::Default, "counterfactual-fairness") => 0.0,
        // The rate of all groups of the stratum, below.
        (DrawnPrior::Default, _) => f64::NAN,
    };
    let pooled = |stratum: &str| {
        let of_stratum = || sums.iter().filter(|((other, _), _)| other == stratum).map(|(_, sums)| sums);
        let trials: u64 = of_stratum().map(|sums| sums.denominator).sum();
        let positives: f64 = of_stratum().map(|sums| sums.numerator).sum();
        if trials == 0 { 0.5 } else { positives / trials as f64 }
    };
    let mut strata: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for ((stratum, group), sums) in sums {
        let comma = if plan.has_strata { "," } else { "" };
        let instance = format!("[{group}{comma}{stratum}]");
        push(&mut of_rate.numerator, instance.clone(), sums.numerator);
        push(&mut of_rate.denominator, instance.clone(), sums.denominator as f64);
        push(&mut of_rate.pending, instance.clone(), sums.pending as f64);
        let compared = strata.entry(stratum).or_default();
        if plan.confidence > 0.0 || sums.denominator > 0 {
            let denominator = sums.denominator as f64 + plan.confidence;
            let prior = if prior.is_nan() { pooled(stratum) } else { prior };
            let estimate = (sums.numerator + prior * plan.confidence) / denominator;
            push(&mut of_rate.estimate, instance, estimate);
            if sums.denominator >= plan.min_trials {
                compared.push((group, estimate));
            }
        }
    }
    let is_ratio = plan.metric == "disparate-impact";
    let mut worst: f64 = if is_ratio { 1.0 } else { 0.0 };
    for (stratum, estimates) in &strata {
        let most = estimates.iter().map(|(_, of)| *of).fold(f64::NEG_INFINITY, f64::max);
        let least = estimates.iter().map(|(_, of)| *of).fold(f64::INFINITY, f64::min);
        let gap = match plan.metric {
            _ if plan.reference_group().is_some() => gap_beside(plan, estimates),
            "disparate-impact" if estimates.is_empty() || most <= 0.0 => 1.0,
            "disparate-impact" => least / most,
            _ if estimates.is_empty() => 0.0,
            "counterfactual-fairness" => most,
            _ => most - least,
        };
        let instance = if plan.has_strata { format!("[{stratum}]") } else { String::new() };
        if plan.has_strata {
            push(&mut of_rate.gap_in, instance.clone(), gap);
        }
        worst = if is_ratio { worst.min(gap) } else { worst.max(gap) };
        let violated = if is_ratio { gap < plan.tolerance } else { gap > plan.tolerance };
        let cleared = if is_ratio { gap >= plan.clear } else { gap <= plan.clear };
        if violated {
            triggers.push(format!("{} {instance}", check.time));
        }
        let stands = standing.entry((*stratum).to_owned()).or_default();
        if violated && !*stands || cleared && *stands {
            *stands = !*stands;
            let word = if *stands { "raised" } else { "cleared" };
            alarms.push(format!("{} {word} {instance}", check.time));
        }
    }
    push(&mut of_rate.gap, String::new(), worst);
}

/// The gap, or ratio, of the group that is furthest from the reference.
fn gap_beside(plan: &Plan, estimates: &[(&str, f64)]) -> f64 {
    let reference = plan.reference_group().unwrap();
    let own = estimates.iter().find(|(group, _)| *group == reference).map(|(_, estimate)| *estimate);
    let others = || estimates.iter().filter(|(group, _)| *group != reference).map(|(_, estimate)| *estimate);
    match (plan.metric, own) {
        ("disparate-impact", Some(own)) => others()
            .map(|other| if own == other { 1.0 } else { own.min(other) / own.max(other) })
            .fold(1.0, f64::min),
        ("disparate-impact", None) => 1.0,
        (_, Some(own)) => others().map(|other| (own - other).abs()).fold(0.0, f64::max),
        (_, None) => 0.0,
    }
}
