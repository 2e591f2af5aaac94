//! The judge: counts → estimates, alarms raised and cleared. Knows nothing of streams; its whole state can
//! be written down.

mod hearing;
mod standing;
pub(crate) mod words;

use std::collections::BTreeMap;

use fairstream_core::Time;
use serde::{Deserialize, Serialize};

pub use hearing::Assessment;
pub use standing::{GroupStanding, Standing};
pub use words::significant;

use self::hearing::{Hearing, Turn};
use crate::sweep::SweptRun;
use crate::{Comparison, Guarantee, History, Promise, Unit};

/// What is judged, and how: a metric without its streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// How groups are held against each other.
    pub comparison: Comparison,
    /// Beyond this an alarm is raised.
    pub tolerance: f64,
    /// At this it is cleared.
    pub clear: f64,
    /// A group with fewer trials is not compared.
    pub min_trials: u64,
    /// γ, unless it is told with the counts.
    pub prior: f64,
    /// κ.
    pub confidence: f64,
    /// The columns whose values are groups.
    pub groups: Vec<String>,
    /// The columns whose values are strata.
    pub strata: Vec<String>,
    /// Whether trials wait before they count.
    pub has_horizon: bool,
    /// What is promised of false alarms; `None`: an alarm is the gap of the estimates, as in the paper.
    pub guarantee: Option<Guarantee>,
    /// Where numbers are cut off, if it is a mean of such.
    pub range: Option<(f64, f64)>,
    /// What is estimated; equalized odds estimates two rates.
    pub rates: Vec<RuleRate>,
}

/// One estimate for each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRate {
    /// The name of its alarms.
    pub stream: String,
    /// What people call it.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// What it is measured in, if it is a delay.
    pub unit: Option<Unit>,
    /// Whether it is a mean of numbers and not a share of trials.
    pub is_mean: bool,
}

/// What is known of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// S of A and B, or the sum of a number.
    pub numerator: f64,
    /// S of B: the trials that count.
    pub denominator: u64,
    /// Trials that still wait.
    pub pending: u64,
    /// γ, if it is not the rule's.
    pub prior: Option<f64>,
}

impl Counts {
    /// The MAP estimate; `None` if there is neither a trial nor a prior.
    pub fn estimate(&self, rule: &Rule) -> Option<f64> {
        let (gamma, kappa) = (self.prior.unwrap_or(rule.prior), rule.confidence);
        if self.denominator == 0 && kappa == 0.0 {
            return None;
        }
        // As the compiled text has it, so that both round alike.
        let denominator = self.denominator as f64;
        Some(if kappa == 0.0 {
            self.numerator / denominator
        } else {
            (self.numerator + gamma * kappa) / (denominator + kappa)
        })
    }

    fn has_evidence(&self, rule: &Rule) -> bool {
        self.denominator >= rule.min_trials
    }
}

/// What changed at a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The rate's index, of the rule that was checked.
    pub rate: usize,
    /// In which stratum, as a JSON array; empty if there are none.
    pub stratum: String,
    /// Whether an alarm was raised, or cleared.
    pub raised: bool,
    /// The gap, ratio or highest rate.
    pub gap: f64,
    /// The whole in a sentence.
    pub message: String,
}

/// Decides from counts alone whether groups are treated differently.
#[derive(Clone, Debug)]
pub struct Judge {
    rules: Vec<Rule>,
    /// For each rule, for each rate: the strata.
    state: Vec<Vec<BTreeMap<String, Stratum>>>,
    raised: u64,
    /// Who tries other confidences and tolerances on the same counts.
    sweep: Option<SweptRun>,
    /// How rates moved, if somebody wants to know.
    history: Option<History>,
}

/// The groups of a stratum, and the alarm that stands there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Stratum {
    /// By their values, as a JSON array.
    groups: BTreeMap<String, Counts>,
    /// Whether counts have come since the last check.
    is_new: bool,
    alarm: Option<Alarm>,
    /// How often an alarm was raised here.
    raised: u64,
    /// From the first check on, if there is a guarantee.
    hearing: Option<Hearing>,
}

/// Where a trial that is counted now goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Docket {
    /// The block, if there is a guarantee.
    pub block: Option<u64>,
    /// The alarm of its rate and stratum that it counts towards, from 1 on: the one that stands, or else the next;
    /// `None` if one stands for ever.
    pub alarm: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Alarm {
    /// Nanoseconds since 1970.
    since: i64,
}

/// What can be written down and read back.
#[derive(Serialize, Deserialize)]
struct State {
    state: Vec<Vec<BTreeMap<String, Stratum>>>,
    raised: u64,
}

/// A judge's state does not belong to these rules, or is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the judge's state is of other rules, or damaged")]
pub struct BadState;

impl Judge {
    /// A judge who has seen nothing.
    pub fn new(rules: Vec<Rule>) -> Judge {
        let state = rules.iter().map(|rule| vec![BTreeMap::new(); rule.rates.len()]).collect();
        Judge { rules, state, raised: 0, sweep: None, history: None }
    }

    /// Lets a run of a sweep over the same rules see every check. It is not among what is
    /// [saved](Judge::save): a sweep is of a run as a whole.
    #[must_use]
    pub fn with_sweep(mut self, sweep: SweptRun) -> Judge {
        self.sweep = Some(sweep);
        self
    }

    /// Ends the sweep, if there was one: what the run came to.
    pub fn end_sweep(&mut self) -> Option<SweptRun> {
        self.sweep.take()
    }

    /// Lets the judge remember how rates moved. It is not among what is [saved](Judge::save) either.
    #[must_use]
    pub fn with_history(mut self) -> Judge {
        self.history = Some(History::default());
        self
    }

    /// How rates moved, if they were to be remembered.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// What is judged.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How many alarms have been raised.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// The counts of a group, to be changed. They are looked at when the rule is checked next. Groups and
    /// strata are JSON arrays of their values.
    pub fn counts(&mut self, rule: usize, rate: usize, stratum: &str, group: &str) -> Option<&mut Counts> {
        let strata = self.state.get_mut(rule)?.get_mut(rate)?;
        if !strata.contains_key(stratum) {
            strata.insert(stratum.to_owned(), Stratum::default());
        }
        let stratum = strata.get_mut(stratum)?;
        stratum.is_new = true;
        if !stratum.groups.contains_key(group) {
            stratum.groups.insert(group.to_owned(), Counts::default());
        }
        stratum.groups.get_mut(group)
    }

    /// The strata of a rate with counts that the next check will look at.
    pub fn strata_to_check(&self, rule: usize, rate: usize) -> impl Iterator<Item = &str> {
        let strata = self.state.get(rule).and_then(|rates| rates.get(rate));
        strata.into_iter().flatten().filter(|(_, stratum)| stratum.is_new).map(|(name, _)| name.as_str())
    }

    /// Judges one rate of a rule, at a time: alarms that are raised or cleared.
    pub fn check(&mut self, rule: usize, rate: usize, time: Time) -> Vec<Change> {
        let sweep = self.sweep.as_mut().map(|sweep| (sweep, rule));
        let (mut history, number) = (self.history.as_mut(), rule);
        let Some((rule, strata)) = self.rules.get(rule).zip(self.state.get_mut(rule)) else {
            return Vec::new();
        };
        let Some((of_rate, strata)) = rule.rates.get(rate).zip(strata.get_mut(rate)) else {
            return Vec::new();
        };
        if let Some((sweep, rule)) = sweep {
            let changed = strata.iter().filter(|(_, stratum)| stratum.is_new);
            sweep.check(rule, rate, changed.map(|(name, stratum)| (name, &stratum.groups)));
        }
        let mut places = match rule.guarantee {
            Some(_) => strata.values().filter(|stratum| stratum.hearing.is_some()).count() as u64,
            None => 0,
        };
        let mut changes = Vec::new();
        for (name, stratum) in strata.iter_mut().filter(|(_, stratum)| stratum.is_new) {
            stratum.is_new = false;
            if let Some(history) = &mut history {
                let estimates = stratum.groups.iter();
                let estimates = estimates.map(|(group, counts)| (group.as_str(), counts.estimate(rule)));
                let finding = Finding::of(rule, &stratum.groups);
                history.note((number, rate, name), time, &finding, estimates);
            }
            let stands = stratum.alarm.is_some();
            let turn = if rule.guarantee.is_some() {
                if stratum.groups.values().all(|counts| counts.denominator == 0) {
                    continue;
                }
                let hearing = stratum.hearing.get_or_insert_with(|| {
                    places += 1;
                    Hearing::new(places - 1)
                });
                hearing.check(rule, &stratum.groups, stands)
            } else {
                rule.turn(Finding::of(rule, &stratum.groups).gap, stands)
            };
            let raised = match turn {
                Turn::Stay => continue,
                Turn::Raise => true,
                Turn::Clear => false,
            };
            let finding = Finding::of(rule, &stratum.groups);
            let since = stratum.alarm.take().map(|alarm| Time(alarm.since));
            let evidence = stratum.hearing.as_ref();
            let evidence = evidence.and_then(|hearing| Some((hearing.e_value(), hearing.threshold(rule)?)));
            let message = words::change(rule, of_rate, name, &finding, evidence, since);
            if let Some(history) = &mut history {
                let trials = stratum.groups.values().map(|counts| counts.denominator).sum();
                history.turn((number, rate, name), time, raised, trials);
            }
            if raised {
                stratum.alarm = Some(Alarm { since: time.0 });
                stratum.raised += 1;
                self.raised += 1;
            }
            changes.push(Change { rate, stratum: name.clone(), raised, gap: finding.gap, message });
        }
        changes
    }

    /// Where a trial goes that the next check of a rate counts in a stratum.
    pub fn docket(&self, rule: usize, rate: usize, stratum: &str) -> Docket {
        let guarantee = self.rules.get(rule).and_then(|rule| rule.guarantee);
        let state = self.state.get(rule).and_then(|rates| rates.get(rate)?.get(stratum));
        let stands = state.is_some_and(|stratum| stratum.alarm.is_some());
        let raised = state.map_or(0, |stratum| stratum.raised);
        let is_over = stands && guarantee.is_some_and(|of| matches!(of.promise, Promise::Ever(_)));
        let hearing = state.and_then(|stratum| stratum.hearing.as_ref());
        Docket {
            block: guarantee.map(|_| hearing.map_or(1, Hearing::block)),
            alarm: (!is_over).then_some(if stands { raised } else { raised + 1 }),
        }
    }

    /// How the evidence of a rate stands in a stratum: `None` without a guarantee, or before the first check.
    pub fn assess(&self, rule: usize, rate: usize, stratum: &str) -> Option<Assessment> {
        let state = self.state.get(rule)?.get(rate)?.get(stratum)?;
        Some(state.hearing.as_ref()?.assess(self.rules.get(rule)?, &state.groups, state.alarm.is_some()))
    }

    /// Everything that the judge knows, as bytes.
    ///
    /// # Errors
    /// Only if there is no memory left for them.
    pub fn save(&self) -> Result<Vec<u8>, BadState> {
        let state = State { state: self.state.clone(), raised: self.raised };
        postcard::to_stdvec(&state).map_err(|_| BadState)
    }

    /// Goes on from what was saved.
    ///
    /// # Errors
    /// It is of other rules, or damaged; the judge is as before.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), BadState> {
        let State { state, raised } = postcard::from_bytes(bytes).map_err(|_| BadState)?;
        let shape = |state: &[Vec<BTreeMap<String, Stratum>>]| state.iter().map(Vec::len).collect::<Vec<_>>();
        if shape(&state) != shape(&self.state) {
            return Err(BadState);
        }
        (self.state, self.raised) = (state, raised);
        Ok(())
    }
}

impl Rule {
    /// The paper's rule, with an end.
    fn turn(&self, gap: f64, stands: bool) -> Turn {
        match stands {
            false if self.is_violated(gap) => Turn::Raise,
            true if self.is_cleared(gap) => Turn::Clear,
            _ => Turn::Stay,
        }
    }

    pub(crate) fn is_violated(&self, gap: f64) -> bool {
        match self.comparison {
            Comparison::Ratio => gap < self.tolerance,
            Comparison::Difference | Comparison::Highest => gap > self.tolerance,
        }
    }

    pub(crate) fn is_cleared(&self, gap: f64) -> bool {
        match self.comparison {
            Comparison::Ratio => gap >= self.clear,
            Comparison::Difference | Comparison::Highest => gap <= self.clear,
        }
    }
}

/// The groups that are furthest apart, and how far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding<'a> {
    pub(crate) gap: f64,
    pub(crate) highest: Option<Found<'a>>,
    pub(crate) lowest: Option<Found<'a>>,
}

/// A group, its counts and its estimate.
pub(crate) type Found<'a> = (&'a str, Counts, f64);

impl<'a> Finding<'a> {
    pub(crate) fn of(rule: &Rule, groups: &'a BTreeMap<String, Counts>) -> Finding<'a> {
        let compared = groups
            .iter()
            .filter(|(_, counts)| counts.has_evidence(rule))
            .filter_map(|(group, counts)| Some((group.as_str(), *counts, counts.estimate(rule)?)));
        let (mut highest, mut lowest): (Option<Found<'_>>, Option<Found<'_>>) = (None, None);
        for one in compared {
            if highest.is_none_or(|(_, _, most)| one.2 > most) {
                highest = Some(one);
            }
            if lowest.is_none_or(|(_, _, least)| one.2 < least) {
                lowest = Some(one);
            }
        }
        let (most, least) = (highest.map(|(_, _, most)| most), lowest.map(|(_, _, least)| least));
        let gap = match (rule.comparison, most, least) {
            (Comparison::Ratio, Some(most), Some(least)) if most > 0.0 => least / most,
            (Comparison::Ratio, ..) => 1.0,
            (Comparison::Difference, Some(most), Some(least)) => most - least,
            (Comparison::Highest, Some(most), _) => most,
            (Comparison::Difference | Comparison::Highest, ..) => 0.0,
        };
        Finding { gap, highest, lowest }
    }
}

#[cfg(test)]
mod tests;
