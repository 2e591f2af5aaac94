//! Where the judge sits: what the inner engine says goes past him on its way to whoever reads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairstream_core::{Closed, Kind, Outlet, Selection, Time, Value, Verdict, VerdictBatch, Verdicts};

use crate::compile::{Route, Tells};
use crate::evidence::Trail;
use crate::{Assessment, Judge, Outcome};

/// For each stream of the inner engine its index and what it tells, by its name.
pub(super) type Routes = HashMap<String, (usize, Vec<Route>)>;

/// Streams that tell nothing yet.
pub(super) fn no_routes(streams: &[String]) -> Routes {
    streams.iter().enumerate().map(|(index, name)| (name.clone(), (index, Vec::new()))).collect()
}

/// Where the judge sits: between the inner engine and whoever reads.
pub(super) struct Bench {
    pub(super) judge: Arc<Mutex<Judge>>,
    /// For each stream of the inner engine what it tells, by its name.
    pub(super) routes: Routes,
    /// For each rule the index of its first rate's stream.
    pub(super) alarms: Vec<usize>,
    /// For each metric and rate with a guarantee the index of the first of its streams.
    pub(super) judged: HashMap<(usize, usize), usize>,
    /// Who takes down trials.
    pub(super) trail: Option<Trail>,
    /// Lent for the time of a call.
    pub(super) out: Option<Verdicts>,
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

impl Outlet for Seat {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Closed> {
        let bench = &mut *self.0.borrow_mut();
        batch.iter().try_for_each(|verdict| bench.hear(&verdict))
    }

    fn is_open(&self) -> bool {
        self.0.borrow().out.as_ref().is_none_or(|out| out.check().is_ok())
    }
}

impl Bench {
    pub(super) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on the evidence that there is.
    pub(super) fn flush(&mut self) -> Result<(), Closed> {
        self.trail.as_mut().map_or(Ok(()), Trail::flush)
    }

    fn hear(&mut self, verdict: &Verdict<'_>) -> Result<(), Closed> {
        let Some((stream, routes)) = self.routes.get(verdict.stream) else { return Ok(()) };
        if let Some(out) = &mut self.out {
            out.repeat(verdict, *stream)?;
        }
        if let Some(trail) = &mut self.trail {
            trail.hear(verdict);
        }
        let (Kind::Value, Some(value)) = (verdict.kind, verdict.value) else { return Ok(()) };
        for route in routes {
            let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
            let rate = (route.metric, route.rate);
            if route.tells != Tells::Check {
                let (group, stratum) = split(verdict.instance.unwrap_or("[]"), route.groups);
                let Some(counts) = judge.counts(route.metric, route.rate, &stratum, &group) else { continue };
                match (route.tells, value) {
                    (Tells::Numerator, Value::UInt(value)) => counts.numerator = value as f64,
                    (Tells::Numerator, Value::Float(value)) => counts.numerator = value,
                    (Tells::Denominator, Value::UInt(value)) => counts.denominator = value,
                    (Tells::Pending, Value::UInt(value)) => counts.pending = value,
                    (Tells::Prior, Value::Float(value)) => counts.prior = Some(value),
                    _ => {}
                }
                if let Some(trail) = &mut self.trail {
                    trail.meet(rate, &stratum, &group);
                }
                continue;
            }
            if let Some(trail) = &mut self.trail {
                trail.check(&judge, rate, verdict.time)?;
            }
            let mut out = self.out.as_mut();
            let judged = self.judged.get(&rate).copied();
            let judged =
                judged.filter(|first| out.as_ref().is_some_and(|out| out.wants(Kind::Value, *first)));
            let assessed: Vec<String> = match judged {
                Some(_) => judge.strata_to_check(route.metric, route.rate).map(str::to_owned).collect(),
                None => Vec::new(),
            };
            let changes = judge.check(route.metric, route.rate, verdict.time);
            let has_strata = judge.rules().get(route.metric).is_some_and(|rule| !rule.strata.is_empty());
            for stratum in assessed {
                let assessment = judge.assess(route.metric, route.rate, &stratum);
                if let (Some(out), Some(first), Some(assessment)) = (&mut out, judged, assessment) {
                    let instance = has_strata.then_some(stratum.as_str());
                    say(out, verdict.time, first, instance, &stratum, &assessment)?;
                }
            }
            drop(judge);
            let (Some(out), Some(first)) = (out, self.alarms.get(route.metric)) else { continue };
            for change in changes {
                let instance = has_strata.then_some(change.stratum.as_str());
                let (stream, gap) = (first + change.rate, Value::Float(change.gap));
                if change.raised {
                    out.alarm(verdict.time, stream, instance, gap, &change.message)?;
                } else {
                    out.clear(verdict.time, stream, instance, gap, &change.message)?;
                }
            }
        }
        Ok(())
    }
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
