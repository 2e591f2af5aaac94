//! What is run: a specification, its events, and the same by hand.

use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use fairstream_core::Time;
use fairstream_engine::Specification;

use crate::contestant::{Contestant, Monitor, Monitored};
use crate::hand::{HandLoop, Hiring, HiringLookup, Horizon, Odds, Seminar};
use crate::screenings::Published;
use crate::trace::Trace;
use crate::{admissions, screenings};

/// The names of workloads, as `--only` takes them.
pub(crate) const NAMES: [&str; 5] = ["hiring", "hiring-lookup", "seminar", "compas-deadline", "compas"];

pub(crate) struct Workload {
    pub(crate) name: &'static str,
    spec: Specification,
    trace: Box<dyn Fn(u64) -> Trace>,
    by_hand: fn(Time) -> Box<dyn HandLoop>,
}

impl Workload {
    /// The workload of that name with events that are invented; `None` if there is none.
    pub(crate) fn invented(name: &str) -> anyhow::Result<Option<Workload>> {
        Ok(Some(match name {
            "hiring" => {
                Workload::new("hiring", "hiring.lola", admissions::hiring, |_| Box::new(Hiring::default()))?
            }
            "hiring-lookup" => {
                Workload::new("hiring-lookup", "hiring_lookup.lola", admissions::hiring, |_| {
                    Box::new(HiringLookup::default())
                })?
            }
            "seminar" => Workload::new("seminar", "seminar.lola", admissions::seminar, |_| {
                Box::new(Seminar::default())
            })?,
            "compas-deadline" => {
                Workload::new("compas-deadline", "compas_deadline.lola", screenings::invented, |start| {
                    Box::new(Odds::new(Horizon::Exact, start))
                })?
            }
            _ => return Ok(None),
        }))
    }

    /// The published COMPAS data.
    pub(crate) fn published(people: Rc<Published>) -> anyhow::Result<Workload> {
        let trace = move |first| people.trace(first);
        Workload::new("compas", "compas.lola", trace, |start| Box::new(Odds::new(Horizon::Ticks, start)))
    }

    fn new(
        name: &'static str,
        file: &str,
        trace: impl Fn(u64) -> Trace + 'static,
        by_hand: fn(Time) -> Box<dyn HandLoop>,
    ) -> anyhow::Result<Workload> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/rtlola").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let spec = Specification::parse(file, &text)?;
        Ok(Workload { name, spec, trace: Box::new(trace), by_hand })
    }

    /// The events of so many trials.
    pub(crate) fn trace(&self, trials: u64) -> Trace {
        (self.trace)(trials)
    }

    pub(crate) fn monitor(&self, who: Contestant, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
        Ok(match who {
            Contestant::Hand => Box::new((self.by_hand)(start)),
            Contestant::Compiled => Box::new(Monitored::compiled(&self.spec, start)?),
            Contestant::Reference => Box::new(Monitored::reference(&self.spec, start)?),
        })
    }
}
