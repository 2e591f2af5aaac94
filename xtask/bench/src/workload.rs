//! Workloads: a specification, its events, and the hand-written loop for it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use fairstream_core::Time;
use fairstream_engine::Specification;

use crate::hand::{Checks, HandLoop, Hiring, HiringLookup, Horizon, Odds, Seminar};
use crate::monitor::{Monitor, Monitored};
use crate::screenings::Published;
use crate::trace::Trace;
use crate::{admissions, screenings};

/// Names of workloads, as arguments of `--only`.
pub const NAMES: [&str; 6] = ["hiring", "hiring-lookup", "seminar", "compas-deadline", "compas", PAPER_ODDS];

/// The published COMPAS data under the specification of the paper, which counts the days of every person.
pub const PAPER_ODDS: &str = "compas-days";

/// Names of workloads whose events are generated, in any number.
pub fn invented() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| !["compas", PAPER_ODDS].contains(name))
}

/// Variants with one check a day instead of one at every event.
pub const DAILY: [&str; 2] = ["hiring-daily", "seminar-daily"];

pub struct Workload {
    pub name: &'static str,
    pub task: Task,
    /// The specification that the engines evaluate.
    pub spec: Specification,
    /// Path of the specification, for systems that read it themselves.
    pub file: PathBuf,
    trace: Box<dyn Fn(u64) -> Trace>,
}

/// The question that a workload answers.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Demographic parity, of people or of events.
    Hiring { by_event: bool, daily: bool },
    /// Conditional parity.
    Seminar { daily: bool },
    /// Equalized odds, once a day.
    Odds(Horizon),
}

impl Task {
    /// When checks take place, on a clock that starts at `start`.
    pub fn checks(self, start: Time) -> Checks {
        match self {
            Task::Hiring { daily: false, .. } | Task::Seminar { daily: false } => Checks::EveryEvent,
            _ => Checks::daily(start),
        }
    }
}

impl Workload {
    /// The workload of that name with generated events; `None` if there is none.
    pub fn invented(name: &str) -> anyhow::Result<Option<Workload>> {
        let hiring = |by_event, daily| Task::Hiring { by_event, daily };
        let (seminar, odds) = (|daily| Task::Seminar { daily }, Task::Odds(Horizon::Exact));
        let specs = Path::new("specs/rtlola");
        let ours = Path::new("xtask/bench/specs");
        let of = |name, folder: &Path, file: &str, task, trace: fn(u64) -> Trace| {
            Workload::new(name, &folder.join(file), task, trace)
        };
        let workload = match name {
            "hiring" => of("hiring", specs, "hiring.lola", hiring(false, false), admissions::hiring),
            "hiring-lookup" => {
                of("hiring-lookup", specs, "hiring_lookup.lola", hiring(true, false), admissions::hiring)
            }
            "hiring-daily" => {
                of("hiring-daily", ours, "hiring_daily.lola", hiring(false, true), admissions::hiring)
            }
            "seminar" => of("seminar", specs, "seminar.lola", seminar(false), admissions::seminar),
            "seminar-daily" => {
                of("seminar-daily", ours, "seminar_daily.lola", seminar(true), admissions::seminar)
            }
            "compas-deadline" => {
                of("compas-deadline", specs, "compas_deadline.lola", odds, screenings::invented)
            }
            _ => return Ok(None),
        };
        workload.map(Some)
    }

    /// The workload of that name with the published COMPAS data; `None` if there is none.
    pub fn published(name: &str, people: Rc<Published>) -> anyhow::Result<Option<Workload>> {
        let trace = move |first| people.trace(first);
        let (name, file, horizon) = match name {
            "compas" => ("compas", "compas_deadline.lola", Horizon::Exact),
            PAPER_ODDS => (PAPER_ODDS, "compas.lola", Horizon::Ticks),
            _ => return Ok(None),
        };
        Workload::new(name, &Path::new("specs/rtlola").join(file), Task::Odds(horizon), trace).map(Some)
    }

    fn new(
        name: &'static str,
        file: &Path,
        task: Task,
        trace: impl Fn(u64) -> Trace + 'static,
    ) -> anyhow::Result<Workload> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let spec = Specification::parse(&file.to_string_lossy(), &text)?;
        Ok(Workload { name, task, spec, file, trace: Box::new(trace) })
    }

    /// The events of `trials` trials.
    pub fn trace(&self, trials: u64) -> Trace {
        (self.trace)(trials)
    }

    /// The hand-written loop.
    pub fn by_hand(&self, start: Time) -> Box<dyn Monitor> {
        let checks = self.task.checks(start);
        let by_hand: Box<dyn HandLoop> = match self.task {
            Task::Hiring { by_event: false, .. } => Box::new(Hiring::new(checks)),
            Task::Hiring { by_event: true, .. } => Box::new(HiringLookup::new(checks)),
            Task::Seminar { .. } => Box::new(Seminar::new(checks)),
            Task::Odds(horizon) => Box::new(Odds::new(horizon, start)),
        };
        Box::new(by_hand)
    }

    pub fn compiled(&self, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
        Ok(Box::new(Monitored::compiled(&self.spec, start)?))
    }

    pub fn reference(&self, start: Time) -> anyhow::Result<Box<dyn Monitor>> {
        Ok(Box::new(Monitored::reference(&self.spec, start)?))
    }
}
