//! Runs fairness files and records all verdicts.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use fairstream_core::{
    Columns, EventBatch, Kind, Pipeline, Position, RunEnd, RunOptions, Selection, Sink, SinkError,
    SourceContext, SourceFactory, SourceRequest, Time, Value, VerdictBatch,
};
use fairstream_csv::CsvSources;
use fairstream_engine::Specification;
use fairstream_fairness::{Compiled, FairnessFile, Judge, JudgedEngine, RateStreams, Standing};

use super::oracle::{Row, Series};
use crate::support::{BuildFor, line};

/// The recorded verdicts, by metric.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) rtlola: String,
    pub(crate) streams: Vec<RateStreams>,
    pub(crate) values: HashMap<String, Series>,
    pub(crate) triggers: Vec<Vec<String>>,
    pub(crate) alarms: Vec<Vec<String>>,
    /// The final state of each rate.
    pub(crate) standings: Vec<Standing>,
    /// All verdicts as text.
    pub(crate) lines: Vec<String>,
    /// Every alarm: its stream, time and message.
    pub(crate) messages: Vec<(String, Time, String)>,
    /// Every trial that was counted, if trials are final.
    pub(crate) evidence: Vec<EventBatch>,
}

/// The rows as CSV.
pub(crate) fn csv(rows: &[Row]) -> String {
    let mut text = String::from("time,id,kind,gender,region,place,score,other\n");
    fn shown<T: ToString>(value: &Option<T>) -> String {
        value.as_ref().map(ToString::to_string).unwrap_or_default()
    }
    for row in rows {
        let Row { time, id, kind, gender, region, place, score, other } = row;
        let fields =
            [shown(id), shown(kind), shown(gender), shown(region), shown(place), shown(score), shown(other)];
        writeln!(text, "{time},{}", fields.join(",")).unwrap();
    }
    text
}

/// Compiles a valid fairness file.
pub(crate) fn compile(toml: &str) -> (Compiled, Specification) {
    let file = FairnessFile::parse("test.toml", toml).unwrap_or_else(|error| panic!("{error}"));
    let compiled = file.compile(&[]).unwrap_or_else(|error| panic!("{error}"));
    let spec = parse(&compiled);
    (compiled, spec)
}

fn parse(compiled: &Compiled) -> Specification {
    Specification::parse("test.lola", compiled.rtlola())
        .unwrap_or_else(|error| panic!("{error}\n{}", compiled.rtlola()))
}

/// Runs a fairness file on CSV text, with batches of that size.
pub(crate) fn observe(
    toml: &str,
    csv: &str,
    until: Time,
    build: BuildFor,
    max_rows: usize,
    select: Selection,
) -> Observed {
    let (compiled, spec) = compile(toml);
    observe_compiled(&compiled, &spec, csv, until, build, max_rows, select)
}

/// The same with only alarms selected, on the text without estimates.
pub(crate) fn observe_alarms(
    toml: &str,
    csv: &str,
    until: Time,
    build: BuildFor,
    max_rows: usize,
) -> Observed {
    let compiled = compile(toml).0.for_alarms().unwrap_or_else(|error| panic!("{error}"));
    let spec = parse(&compiled);
    observe_compiled(&compiled, &spec, csv, until, build, max_rows, Selection::Alarms)
}

fn observe_compiled(
    compiled: &Compiled,
    spec: &Specification,
    csv: &str,
    until: Time,
    build: BuildFor,
    max_rows: usize,
    select: Selection,
) -> Observed {
    let judge = Judge::new(compiled.rules().to_vec());
    let context =
        SourceContext { max_rows: NonZeroUsize::new(max_rows).unwrap(), ..SourceContext::default() };
    let (mut observed, judge) = judged(compiled, spec, judge, csv, until, build, context, select);
    observed.standings = judge.standings();
    observed
}

/// Runs a compiled fairness file with a judge. Returns the verdicts and the final state of the judge.
#[allow(clippy::too_many_arguments, reason = "the arguments are independent, and there are two callers")]
pub(crate) fn judged(
    compiled: &Compiled,
    spec: &Specification,
    judge: Judge,
    csv: &str,
    until: Time,
    build: BuildFor,
    context: SourceContext,
    select: Selection,
) -> (Observed, Judge) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.csv");
    std::fs::write(&path, csv).unwrap();
    let wanted = compiled.columns();
    let request = SourceRequest {
        location: path.to_str().unwrap().to_owned(),
        wanted: wanted.clone(),
        context,
        ..SourceRequest::default()
    };
    let sources = vec![CsvSources.open(&request).unwrap()];
    let columns = Columns::bind(&wanted, &sources).unwrap();
    let judge = Arc::new(Mutex::new(judge));
    let asked = Arc::clone(&judge);
    let evidence: Arc<Mutex<Vec<EventBatch>>> = Arc::default();
    let engine = {
        let evidence = Arc::clone(&evidence);
        let (compiled, spec) = (compiled.clone(), spec.clone());
        Box::new(move |start| {
            let names: Vec<&str> = spec.wanted().iter().map(|column| column.name.as_str()).collect();
            let engine = JudgedEngine::new(build(&spec, start)?, &compiled, &names, judge)?;
            if !compiled.is_final() {
                return Ok(Box::new(engine) as Box<_>);
            }
            let sink = move |batch| {
                evidence.lock().unwrap().push(batch);
                Ok(())
            };
            Ok(Box::new(engine.with_evidence(&compiled, start, Box::new(sink), None)?) as Box<_>)
        })
    };
    let observer = Observer::new(compiled, spec, select);
    let observed = Arc::clone(&observer.observed);
    let options = RunOptions { until: Some(until), ..RunOptions::default() };
    let report = Pipeline { sources, columns, engine, sinks: vec![Box::new(observer)], options }.run();
    assert!(report.error.is_none(), "{:?}\n{csv}\n{}", report.error, compiled.rtlola());
    let mut observed = std::mem::take(&mut *observed.lock().unwrap());
    observed.evidence = std::mem::take(&mut *evidence.lock().unwrap());
    observed.rtlola = compiled.rtlola().to_owned();
    observed.streams = compiled.streams().to_vec();
    let judge = asked.lock().unwrap().clone();
    (observed, judge)
}

/// A sink that sorts verdicts by metric.
struct Observer {
    select: Selection,
    observed: Arc<Mutex<Observed>>,
    /// The triggers in order: one for each rate.
    triggers: BTreeMap<String, usize>,
    alarms: BTreeMap<String, usize>,
}

impl Observer {
    fn new(compiled: &Compiled, spec: &Specification, select: Selection) -> Observer {
        let rates = || compiled.rules().iter().flat_map(|rule| &rule.rates);
        let triggers = spec
            .mir()
            .triggers
            .iter()
            .enumerate()
            .map(|(index, trigger)| (spec.mir().output(trigger.output_reference).name.clone(), index));
        let alarms = rates().enumerate().map(|(index, rate)| (rate.stream.clone(), index)).collect();
        let count = rates().count();
        let observed = Observed {
            triggers: vec![Vec::new(); count],
            alarms: vec![Vec::new(); count],
            ..Observed::default()
        };
        Observer { select, observed: Arc::new(Mutex::new(observed)), triggers: triggers.collect(), alarms }
    }
}

impl Sink for Observer {
    fn name(&self) -> &str {
        "observer"
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let mut observed = self.observed.lock().unwrap();
        for verdict in batch.iter() {
            observed.lines.push(format!("{} {}", line(&verdict), verdict.message.unwrap_or_default()));
            let seconds = verdict.time.0 / 1_000_000_000;
            let instance = verdict.instance.unwrap_or_default().to_owned();
            match (verdict.kind, verdict.value) {
                (Kind::Value, Some(value)) => {
                    let number = match value {
                        Value::UInt(number) => number as f64,
                        Value::Float(number) => number,
                        _ => continue,
                    };
                    let series = observed.values.entry(verdict.stream.to_owned()).or_default();
                    series.entry(instance).or_default().push((seconds, number));
                }
                (Kind::Trigger, _) => {
                    let rate = self.triggers[verdict.stream];
                    observed.triggers[rate].push(format!("{seconds} {instance}"));
                }
                (Kind::Alarm | Kind::Clear, _) => {
                    let word = if verdict.kind == Kind::Alarm { "raised" } else { "cleared" };
                    if verdict.kind == Kind::Alarm {
                        let message = verdict.message.unwrap_or_default().to_owned();
                        observed.messages.push((verdict.stream.to_owned(), verdict.time, message));
                    }
                    observed.alarms[self.alarms[verdict.stream]].push(format!("{seconds} {word} {instance}"));
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
