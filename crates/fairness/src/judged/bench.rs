//! Where the judge sits: what the inner engine says goes past him on its way to whoever reads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairstream_core::{Closed, Hearer, Instance, Kind, Said, Selection, Time, Value, VerdictBatch, Verdicts};

use super::desk::{Desk, Index};
use crate::compile::CountRole;
use crate::evidence::EvidenceRecorder;
use crate::{Assessment, Judge, Outcome};

/// What a stream of the inner engine tells of a rate.
pub(super) struct Route {
    pub(super) metric: usize,
    pub(super) rate: usize,
    pub(super) tells: CountRole,
    /// How many of its parameters are the group; the rest is the stratum.
    pub(super) groups: usize,
    /// The groups that it has told of.
    pub(super) index: Index,
}

/// Where the judge sits: between the inner engine and whoever reads.
pub(super) struct Bench {
    pub(super) judge: Arc<Mutex<Judge>>,
    /// For each stream of the inner engine what it tells.
    pub(super) routes: Vec<Vec<Route>>,
    pub(super) desk: Desk,
    /// For each rule the index of its first rate's stream.
    pub(super) alarms: Vec<usize>,
    /// For each metric and rate with a guarantee the index of the first of its streams.
    pub(super) judged: HashMap<(usize, usize), usize>,
    /// Who takes down trials.
    pub(super) trail: Option<EvidenceRecorder>,
    /// Lent for the time of a call.
    pub(super) out: Option<Verdicts>,
    /// Kept for its memory.
    pub(super) label: String,
}

/// The reader's verdicts, lent to the bench until this is dropped: also if the engine panics.
pub(super) struct Loan<'a> {
    bench: &'a RefCell<Bench>,
    out: &'a mut Verdicts,
}

impl<'a> Loan<'a> {
    pub(super) fn new(bench: &'a RefCell<Bench>, out: &'a mut Verdicts) -> Loan<'a> {
        let nobody = Verdicts::new(&[], Selection::Alarms, 1, |_: VerdictBatch| Ok(()));
        bench.borrow_mut().out = Some(std::mem::replace(out, nobody));
        Loan { bench, out }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Ok(mut bench) = self.bench.try_borrow_mut()
            && let Some(lent) = bench.out.take()
        {
            *self.out = lent;
        }
    }
}

/// The inner engine's end of the bench.
pub(super) struct Seat(pub(super) Rc<RefCell<Bench>>);

impl Hearer for Seat {
    fn hear(&mut self, said: &Said<'_>) -> Result<(), Closed> {
        self.0.borrow_mut().hear(said)
    }

    fn is_open(&self) -> bool {
        self.0.borrow().out.as_ref().is_none_or(|out| out.check().is_ok())
    }
}

impl Bench {
    pub(super) fn judge(&self) -> MutexGuard<'_, Judge> {
        open(&self.judge)
    }

    /// Hands on what there is: counts to the judge, so that whoever asks him hears of all; and evidence.
    pub(super) fn flush(&mut self) -> Result<(), Closed> {
        if !self.desk.is_empty() {
            self.desk.hand_over(&mut open(&self.judge));
        }
        self.trail.as_mut().map_or(Ok(()), EvidenceRecorder::flush)
    }

    /// Forgets what the engine called its instances: it goes on from somewhere else.
    pub(super) fn forget(&mut self) {
        self.desk.clear();
        self.routes.iter_mut().flatten().for_each(|route| route.index.clear());
    }

    fn hear(&mut self, said: &Said<'_>) -> Result<(), Closed> {
        if let Some(out) = &mut self.out {
            out.say(said)?;
        }
        if let Some(trail) = &mut self.trail {
            trail.observe(said);
        }
        let (Kind::Value, Some(value)) = (said.kind, said.value) else { return Ok(()) };
        let Some(routes) = self.routes.get_mut(said.stream) else { return Ok(()) };
        let mut bells = None;
        for (number, route) in routes.iter_mut().enumerate() {
            if route.tells == CountRole::Check {
                bells = bells.or(Some(number));
                continue;
            }
            let instance = said.instance.unwrap_or(&"[]");
            let sheet = route.index.find(instance, &mut self.label).or_else(|| {
                meet(route, instance, &self.judge, &mut self.desk, self.trail.as_mut(), &mut self.label)
            });
            if let Some(sheet) = sheet {
                self.desk.note(sheet, route.tells, value);
            }
        }
        match bells {
            None => Ok(()),
            Some(first) => self.ring(said.stream, first, said.time),
        }
    }

    /// The rates whose bell a stream is are to be judged now.
    fn ring(&mut self, stream: usize, first: usize, time: Time) -> Result<(), Closed> {
        let mut judge = open(&self.judge);
        self.desk.hand_over(&mut judge);
        for &Route { metric, rate, tells, .. } in &self.routes[stream][first..] {
            if tells != CountRole::Check {
                continue;
            }
            if let Some(trail) = &mut self.trail {
                trail.check(&judge, (metric, rate), time)?;
            }
            let mut out = self.out.as_mut();
            let judged = self.judged.get(&(metric, rate)).copied();
            let judged =
                judged.filter(|first| out.as_ref().is_some_and(|out| out.wants(Kind::Value, *first)));
            let assessed: Vec<String> = match judged {
                Some(_) => judge.strata_to_check(metric, rate).map(str::to_owned).collect(),
                None => Vec::new(),
            };
            let changes = judge.check(metric, rate, time);
            if assessed.is_empty() && changes.is_empty() {
                continue;
            }
            let has_strata = judge.rules().get(metric).is_some_and(|rule| !rule.strata.is_empty());
            let assessed: Vec<(String, Assessment)> = assessed
                .into_iter()
                .filter_map(|stratum| judge.assess(metric, rate, &stratum).map(|of| (stratum, of)))
                .collect();
            // Whoever reads may ask the judge how things stand before taking more.
            drop(judge);
            for (stratum, assessment) in &assessed {
                if let (Some(out), Some(first)) = (&mut out, judged) {
                    let instance = has_strata.then_some(stratum.as_str());
                    say(out, time, first, instance, stratum, assessment)?;
                }
            }
            if let (Some(out), Some(first)) = (out, self.alarms.get(metric)) {
                for change in changes {
                    let instance = has_strata.then_some(change.stratum.as_str());
                    let (stream, gap) = (first + change.rate, Value::Float(change.gap));
                    if change.raised {
                        out.alarm(time, stream, instance, gap, &change.message)?;
                    } else {
                        out.clear(time, stream, instance, gap, &change.message)?;
                    }
                }
            }
            judge = open(&self.judge);
        }
        Ok(())
    }
}

fn open(judge: &Mutex<Judge>) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream tells of a group for the first time: a sheet for it.
fn meet(
    route: &mut Route,
    instance: &dyn Instance,
    judge: &Mutex<Judge>,
    desk: &mut Desk,
    trail: Option<&mut EvidenceRecorder>,
    label: &mut String,
) -> Option<usize> {
    label.clear();
    instance.label(label);
    let (group, stratum) = split(label, route.groups);
    let mut judge = open(judge);
    let place = judge.slot(route.metric, route.rate, &stratum, &group)?;
    let sheet = desk.add(place, &judge);
    route.index.enter(instance, label, sheet);
    if let Some(trail) = trail {
        trail.register_group((route.metric, route.rate), &stratum, &group);
    }
    Some(sheet)
}

/// Says how the evidence stands, in the order of [`JudgedStreams::all`](crate::JudgedStreams).
fn say(
    out: &mut Verdicts,
    time: Time,
    first: usize,
    instance: Option<&str>,
    stratum: &str,
    assessment: &Assessment,
) -> Result<(), Closed> {
    for (group, interval) in &assessment.groups {
        let group = joined(group, stratum);
        out.value(time, first, Some(&group), Value::Float(interval.low))?;
        out.value(time, first + 1, Some(&group), Value::Float(interval.high))?;
    }
    if let Some(gap) = assessment.gap {
        out.value(time, first + 2, instance, Value::Float(gap.low))?;
        out.value(time, first + 3, instance, Value::Float(gap.high))?;
    }
    out.value(time, first + 4, instance, Value::Float(assessment.e_value))?;
    if let Some(p_value) = assessment.p_value {
        out.value(time, first + 5, instance, Value::Float(p_value))?;
    }
    if let Outcome::NotYet { further: Some(further) } = assessment.outcome {
        out.value(time, first + 6, instance, Value::UInt(further))?;
    }
    out.value(time, first + 7, instance, Value::UInt(assessment.small_groups))?;
    out.value(time, first + 8, instance, Value::Text(assessment.verdict()))
}

/// Two JSON arrays as one.
fn joined(one: &str, other: &str) -> String {
    let inside = |array: &str| array.trim_start_matches('[').trim_end_matches(']').to_owned();
    let parts: Vec<String> =
        [inside(one), inside(other)].into_iter().filter(|part| !part.is_empty()).collect();
    format!("[{}]", parts.join(","))
}

/// The parameters of an instance, a JSON array, taken apart: the first so many, and the rest.
fn split(instance: &str, groups: usize) -> (String, String) {
    let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap_or_default();
    let text = |values: &[serde_json::Value]| serde_json::Value::from(values.to_vec()).to_string();
    let (group, stratum) = values.split_at(groups.min(values.len()));
    (text(group), text(stratum))
}
