//! `fairstream demo`: an unfair employer, invented and watched, without any argument.

use std::sync::{Arc, Mutex, PoisonError};

use fairstream_core::{
    Columns, Kind, Pipeline, Position, RunEnd, RunOptions, Selection, Sink, SinkError, SourceContext,
    SourceRequest, StopToken, Value, VerdictBatch,
};
use fairstream_fairness::{FairnessFile, Judge};
use fairstream_scenarios::Hiring;

use crate::args::EngineKind;
use crate::chart::{Chart, Line};
use crate::interrupt::Interrupt;
use crate::{Outcome, load, print, run, standings};

/// The fairness file that it is watched with.
const FILE: &str = include_str!("../../../specs/hiring.toml");

const APPLICANTS: u64 = 1000;

pub(crate) fn demo() -> anyhow::Result<Outcome> {
    let file = FairnessFile::parse("specs/hiring.toml", FILE)?;
    let (compiled, spec) = load::compile(&file, &[])?;
    let estimate = compiled.streams().first().map(|streams| streams.estimate.clone()).unwrap_or_default();
    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    let request = SourceRequest {
        location: "hiring".to_owned(),
        wanted: spec.wanted().to_vec(),
        context: SourceContext { stop: stop.clone(), ..SourceContext::default() },
        ..SourceRequest::default()
    };
    let employer = Hiring { applicants: APPLICANTS, ..Hiring::default() };
    let sources = vec![employer.source(&request)?];
    let columns = Columns::bind(&request.wanted, &sources)?;
    let judge = Arc::new(Mutex::new(Judge::new(compiled.rules().to_vec())));
    let chart = Arc::new(Mutex::new(Chart::default()));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Charting { estimate, chart: Arc::clone(&chart) })];
    let engine = run::build(spec, EngineKind::Compiled, false, Some((compiled, Arc::clone(&judge))), None);
    let options = RunOptions { stop, ..RunOptions::default() };

    interrupt.start();
    let report = Pipeline { sources, columns, engine, sinks, options }.run();
    if let Some(error) = report.error {
        return Err(error.into());
    }
    let drawn = chart.lock().unwrap_or_else(PoisonError::into_inner).draw();
    let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
    let standings = standings::describe(&judge, "", str::to_owned);
    print(&format!(
        "An employer decides on {APPLICANTS} applications. Men are accepted with probability 0.5, women with 0.2:\n\
         that is how these events were invented. The monitor sees the events alone.\n\n\
         {drawn}\n\
         Estimated acceptance rates (F: women, M: men) over time. An alarm is raised when they differ by\n\
         more than 0.1.\n\
         {standings}\n\
         What was watched and how is one page, specs/hiring.toml. To do the same step by step:\n\n  \
         fairstream generate hiring --applicants {APPLICANTS} --to events.csv\n  \
         fairstream run specs/hiring.toml events.csv\n\n\
         And with your own data:  fairstream init DATA.csv\n"
    ))?;
    if interrupt.happened() {
        return Ok(Outcome::Interrupted);
    }
    match report.counts.alarms {
        0 => Ok(Outcome::NothingViolated),
        _ => {
            crate::note("The exit code is 1, because something is unfair.");
            Ok(Outcome::Violated)
        }
    }
}

/// Draws the estimates of groups, and alarms.
struct Charting {
    estimate: String,
    chart: Arc<Mutex<Chart>>,
}

impl Sink for Charting {
    fn name(&self) -> &str {
        "chart"
    }

    fn wants(&self) -> Selection {
        Selection::Changes
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
