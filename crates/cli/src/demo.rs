//! `fairstream demo`: employers, fair and unfair, invented and watched, without any argument.

use std::sync::{Arc, Mutex, PoisonError};

use fairstream_core::{
    Columns, Kind, Pipeline, Position, RunEnd, RunOptions, Selection, Sink, SinkError, SourceContext,
    SourceRequest, StopToken, Time, Value, VerdictBatch,
};
use fairstream_fairness::{FairnessFile, Judge};
use fairstream_scenarios::{Groups, Hiring};

use crate::args::EngineKind;
use crate::chart::{Chart, Line};
use crate::interrupt::Interrupt;
use crate::progress::grouped;
use crate::{Outcome, load, print, run, standings};

/// The fairness files that they are watched with: by the rule of the paper, and with a guarantee.
const FILES: [(&str, &str); 2] = [
    ("specs/hiring.toml", include_str!("../../../specs/hiring.toml")),
    ("specs/guarantee/hiring.toml", include_str!("../../../specs/guarantee/hiring.toml")),
];

const APPLICANTS: u64 = 1000;
/// Employers of each kind.
const EMPLOYERS: u64 = 10;
/// The probability to be accepted.
const UNFAIR: [(&str, f64); 2] = [("M", 0.5), ("F", 0.2)];
const FAIR: [(&str, f64); 2] = [("M", 0.5), ("F", 0.5)];

pub(crate) fn demo() -> anyhow::Result<Outcome> {
    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    interrupt.start();
    let [map, guarantee] = FILES;
    let first = watch(map, UNFAIR, 1, Selection::Changes, &stop)?;
    let mut rows = String::new();
    for (kind, accept) in [("fair", FAIR), ("unfair", UNFAIR)] {
        let mut cells = Vec::new();
        for file in [map, guarantee] {
            let first = |seed| {
                watch(file, accept, seed, Selection::Alarms, &stop).map(|watched| watched.chart.first_alarm())
            };
            let alarms: anyhow::Result<Vec<Option<Time>>> = (1..=EMPLOYERS).map(first).collect();
            cells.push(raised(alarms?));
        }
        let employers = format!("{EMPLOYERS} {kind} employers (M {}, F {})", accept[0].1, accept[1].1);
        rows += &format!("  {employers:<38} {:<27} {}\n", cells[0], cells[1]);
    }
    let (drawn, standings) = (first.chart.draw(), first.standings);
    print(&format!(
        "An employer decides on {APPLICANTS} applications. Men are accepted with probability 0.5, women with 0.2:\n\
         that is how these events were invented. The monitor sees the events alone.\n\n\
         {drawn}\n\
         Estimated acceptance rates (F: women, M: men) over time. An alarm is raised when they differ by\n\
         more than 0.1.\n\
         {standings}\n\
         That rule is quick, and cries wolf: it is looked at so often that chance alone raises alarms. With a\n\
         guarantee, no more than 5 % of fair employers ever raise one. Both, on {EMPLOYERS} employers of each kind, with\n\
         {APPLICANTS} applications each:\n\n  \
         {:<38} {:<27} {}\n{rows}\n\
         What was watched and how is one page each, specs/hiring.toml and specs/guarantee/hiring.toml. To do the\n\
         same step by step:\n\n  \
         fairstream generate hiring --applicants {APPLICANTS} --to events.csv\n  \
         fairstream run specs/hiring.toml events.csv\n  \
         fairstream run specs/guarantee/hiring.toml events.csv\n\n\
         And with your own data:  fairstream init DATA.csv\n",
        "employers with an alarm", "rule = \"map\"", "guarantee"
    ))?;
    if interrupt.happened() {
        return Ok(Outcome::Interrupted);
    }
    crate::note("The exit code is 1, because something is unfair.");
    Ok(Outcome::Violated)
}

/// How many raised an alarm, and after how many applicants, who come one a minute.
fn raised(mut alarms: Vec<Option<Time>>) -> String {
    alarms.sort_by_key(|alarm| alarm.unwrap_or(Time(i64::MAX)));
    let count = alarms.iter().flatten().count();
    match alarms.get(count / 2).copied().flatten().filter(|_| count > 0) {
        None => format!("{count}"),
        Some(median) => {
            let applicants = u64::try_from(median.0 / 60_000_000_000).unwrap_or_default();
            format!("{count}, median at {}", grouped(applicants))
        }
    }
}

/// What was seen of an employer.
struct Watched {
    chart: Chart,
    standings: String,
}

fn watch(
    (path, text): (&str, &str),
    accept: [(&'static str, f64); 2],
    seed: u64,
    select: Selection,
    stop: &StopToken,
) -> anyhow::Result<Watched> {
    let (compiled, spec) = load::compile(&FairnessFile::parse(path, text)?, &[])?;
    let estimate =
        compiled.streams().first().and_then(|streams| streams.estimate.clone()).unwrap_or_default();
    let request = SourceRequest {
        location: "hiring".to_owned(),
        wanted: spec.wanted().to_vec(),
        context: SourceContext { stop: stop.clone(), ..SourceContext::default() },
        ..SourceRequest::default()
    };
    let employer = Hiring { applicants: APPLICANTS, seed, accept: Groups::new(accept), ..Hiring::default() };
    let sources = vec![employer.source(&request)?];
    let columns = Columns::bind(&request.wanted, &sources)?;
    let judge = Arc::new(Mutex::new(Judge::new(compiled.rules().to_vec())));
    let chart = Arc::new(Mutex::new(Chart::default()));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Charting { estimate, select, chart: Arc::clone(&chart) })];
    let engine = run::build(spec, EngineKind::Compiled, false, Some((compiled, Arc::clone(&judge))), None);
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let report = Pipeline { sources, columns, engine, sinks, options }.run();
    if let Some(error) = report.error {
        return Err(error.into());
    }
    let chart = std::mem::take(&mut *chart.lock().unwrap_or_else(PoisonError::into_inner));
    let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Watched { chart, standings: standings::describe(&judge, "", str::to_owned) })
}

/// Draws the estimates of groups, and alarms.
struct Charting {
    estimate: String,
    select: Selection,
    chart: Arc<Mutex<Chart>>,
}

impl Sink for Charting {
    fn name(&self) -> &str {
        "chart"
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let mut chart = self.chart.lock().unwrap_or_else(PoisonError::into_inner);
        for verdict in batch.iter() {
            match (verdict.kind, verdict.value) {
                (Kind::Alarm, _) => chart.alarms.push((verdict.time, None)),
                (Kind::Clear, _) => {
                    if let Some(alarm) = chart.alarms.last_mut() {
                        alarm.1 = Some(verdict.time);
                    }
                }
                (Kind::Value, Some(Value::Float(value))) if verdict.stream == self.estimate => {
                    let name = verdict.instance.unwrap_or_default().trim_matches(['[', ']', '"']);
                    let known = chart.lines.iter().position(|line| line.name == name);
                    let index = known.unwrap_or_else(|| {
                        chart.lines.push(Line { name: name.to_owned(), points: Vec::new() });
                        chart.lines.len() - 1
                    });
                    chart.lines[index].points.push((verdict.time, value));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
        Ok(())
    }
}
