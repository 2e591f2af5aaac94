//! The view model of the live view: a sample of the judge and the counters.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairstream_core::{Counters, RunCounts};
use fairstream_fairness::{Comparison, Judge, Rule, Standing, StandingOutline, when};

use crate::progress::{counted, found, grouped};

/// Samples a run.
pub(crate) struct RunSampler {
    title: String,
    counters: Arc<Counters>,
    judge: Option<Arc<Mutex<Judge>>>,
    start: Instant,
    /// Recent numbers of evaluated events, from which the throughput is computed.
    late: VecDeque<(Instant, u64)>,
}

/// A sample of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ViewModel {
    pub(super) title: String,
    pub(super) elapsed: Duration,
    pub(super) counts: RunCounts,
    pub(super) is_judged: bool,
    /// Whether times are numbers of rows.
    pub(super) by_rows: bool,
    pub(super) per_second: u64,
    /// Number of trials that wait for their horizon; `None` without horizons.
    pub(super) open_trials: Option<u64>,
    /// Rates in every stratum, those with alarms first.
    pub(super) rates: Vec<RateModel>,
    /// Number of rates that are left out.
    pub(super) left_out: usize,
}

/// A rate in a stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RateModel {
    pub(super) title: String,
    /// When the active alarm was raised, as text.
    pub(super) alarm: Option<String>,
    pub(super) raised: u64,
    /// The verdict of the test, if there is a guarantee.
    pub(super) verdict: Option<&'static str>,
    /// The gap and the tolerance, as text.
    pub(super) gap: String,
    /// The gap over time.
    pub(super) trend: Vec<f64>,
    /// The estimate below which a group is beyond the tolerance.
    pub(super) limit: Option<f64>,
    /// The estimate above which a group is beyond the tolerance, beside a reference group.
    pub(super) upper_limit: Option<f64>,
    pub(super) groups: Vec<GroupModel>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GroupModel {
    pub(super) name: String,
    pub(super) estimate: Option<f64>,
    pub(super) shown: String,
    /// The counts behind the estimate, as text.
    pub(super) basis: String,
}

/// Maximum number of rates in a sample.
const RATES: usize = 100;
/// Period over which the throughput is averaged.
const LATE: Duration = Duration::from_secs(2);

impl RunSampler {
    pub(crate) fn new(
        title: String,
        counters: Arc<Counters>,
        judge: Option<Arc<Mutex<Judge>>>,
    ) -> RunSampler {
        RunSampler { title, counters, judge, start: Instant::now(), late: VecDeque::new() }
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, now: Instant) -> ViewModel {
        let counts = self.counters.now();
        let mut model = ViewModel {
            title: self.title.clone(),
            elapsed: now.duration_since(self.start),
            per_second: self.per_second(now, counts.evaluated),
            is_judged: self.judge.is_some(),
            counts,
            ..ViewModel::default()
        };
        let Some(judge) = &self.judge else { return model };
        let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outlines = judge.outlines();
        model.by_rows = judge.by_rows();
        let waits = judge.rules().iter().any(|rule| rule.has_horizon);
        model.open_trials = waits.then(|| open_trials(&outlines));
        model.left_out = outlines.len().saturating_sub(RATES);
        outlines.sort_by_key(|outline| (outline.alarm.is_none(), outline.raised == 0));
        outlines.truncate(RATES);
        let standings = outlines.iter().filter_map(|outline| judge.standing(outline));
        model.rates = standings.map(|standing| rate_model(&judge, &standing)).collect();
        model
    }

    fn per_second(&mut self, now: Instant, evaluated: u64) -> u64 {
        self.late.push_back((now, evaluated));
        while self.late.len() > 2 && self.late.get(1).is_some_and(|(time, _)| now - *time > LATE) {
            self.late.pop_front();
        }
        let (since, before) = self.late.front().copied().unwrap_or((self.start, 0));
        let (since, before) = if since == now { (self.start, 0) } else { (since, before) };
        ((evaluated - before) as f64 / now.duration_since(since).as_secs_f64().max(1e-9)) as u64
    }
}

impl ViewModel {
    /// The sample as one line, for output without a screen.
    pub(super) fn line(&self) -> String {
        let mut parts = vec![self.progress()];
        for rate in self.rates.iter().take(3) {
            parts.push(format!("{}: {}, {}", rate.title, rate.gap, rate.state()));
        }
        let more = self.left_out + self.rates.len().saturating_sub(3);
        if more > 0 {
            parts.push(format!("{} more", grouped(more as u64)));
        }
        parts.join(" | ")
    }

    /// The progress of the run.
    pub(super) fn progress(&self) -> String {
        let ViewModel { counts, per_second, .. } = self;
        let mut text = format!("{}  {}/s", counted(counts.evaluated, "event"), grouped(*per_second));
        if let Some(reached) = counts.reached {
            text += &format!("  reached {}", when(reached, self.by_rows));
        }
        if let Some(open) = self.open_trials {
            text += &format!("  {}", counted(open, "open trial"));
        }
        if counts.rejected > 0 {
            text += &format!("  {}", counted(counts.rejected, "bad row"));
        }
        format!("{text}  {}", found(counts, self.is_judged))
    }
}

impl RateModel {
    /// The state of the alarm, or the verdict.
    pub(super) fn state(&self) -> String {
        match (&self.alarm, self.raised, self.verdict) {
            (Some(since), ..) => format!("ALARM since {since}"),
            (None, 0, Some(verdict)) => verdict.to_owned(),
            (None, 0, None) => "no alarm".to_owned(),
            (None, raised, _) => format!("cleared; {} earlier", counted(raised, "alarm")),
        }
    }
}

/// Number of open trials. All rates count the same trials, but one with strata may miss some, so the maximum is taken.
fn open_trials(outlines: &[StandingOutline<'_>]) -> u64 {
    let mut of_rates: Vec<((usize, usize), u64)> = Vec::new();
    for outline in outlines {
        match of_rates.iter_mut().find(|(index, _)| *index == outline.rate_index) {
            Some((_, sum)) => *sum += outline.pending,
            None => of_rates.push((outline.rate_index, outline.pending)),
        }
    }
    of_rates.into_iter().map(|(_, sum)| sum).max().unwrap_or_default()
}

fn rate_model(judge: &Judge, standing: &Standing) -> RateModel {
    let (rule, rate) = standing.rate_index;
    let rate_history = judge.history().and_then(|history| history.rate(rule, rate, &standing.stratum_key));
    let rule = &judge.rules()[rule];
    let groups = standing.groups.iter().map(|group| GroupModel {
        name: group.group.clone(),
        estimate: group.estimate.filter(|_| group.has_evidence),
        shown: group.compared().to_owned(),
        basis: match (standing.is_mean, group.has_evidence) {
            (_, false) => format!("{}, too few", counted(group.denominator, "trial")),
            (true, true) => counted(group.denominator, "trial"),
            (false, true) => {
                format!("{} of {}", grouped(group.numerator as u64), grouped(group.denominator))
            }
        },
    });
    let groups: Vec<GroupModel> = groups.collect();
    let reference = standing.groups.iter().find(|group| group.is_reference && group.has_evidence);
    let reference = reference.and_then(|group| group.estimate);
    let highest = groups.iter().filter_map(|group| group.estimate).fold(f64::NEG_INFINITY, f64::max);
    RateModel {
        title: standing.title.clone(),
        alarm: standing.alarm.map(|since| rule.when(since)),
        raised: standing.raised,
        verdict: standing.assessment.as_ref().map(|assessment| assessment.verdict()),
        gap: gap(rule, standing.gap),
        trend: rate_history
            .map(|rate_history| rate_history.gap.points().into_iter().map(|(_, gap)| gap).collect())
            .unwrap_or_default(),
        limit: match rule.reference {
            None => limit(rule, highest).filter(|limit| limit.is_finite()),
            Some(_) => reference.and_then(|rate| limit(rule, rate)),
        },
        upper_limit: reference.and_then(|rate| upper_limit(rule, rate)),
        groups,
    }
}

fn gap(rule: &Rule, gap: Option<f64>) -> String {
    let Some(gap) = gap else { return "nothing to compare yet".to_owned() };
    let tolerance = rule.tolerance;
    match rule.comparison {
        Comparison::Difference => format!("gap {gap:.3} of {tolerance} allowed"),
        Comparison::Ratio => format!("ratio {gap:.3}, {tolerance} or more allowed"),
        Comparison::Highest => format!("highest {gap:.3} of {tolerance} allowed"),
    }
}

fn upper_limit(rule: &Rule, reference: f64) -> Option<f64> {
    match rule.comparison {
        Comparison::Difference => Some(reference + rule.tolerance),
        Comparison::Ratio => Some(reference / rule.tolerance).filter(|limit| limit.is_finite()),
        Comparison::Highest => None,
    }
}

fn limit(rule: &Rule, highest: f64) -> Option<f64> {
    match rule.comparison {
        Comparison::Difference => Some(highest - rule.tolerance),
        Comparison::Ratio => Some(highest * rule.tolerance),
        Comparison::Highest => Some(rule.tolerance),
    }
}
