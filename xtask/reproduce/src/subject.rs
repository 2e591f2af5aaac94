//! A fairness file under study, and the evaluation of events under it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type};
use fairstream_core::{
    Cancelled, Engine, EventBatch, Kind, Selection, Source, SourceRequest, Subscription, Time, Value,
    VerdictBatch, VerdictBatcher,
};
use fairstream_engine::{CompiledEngine, Specification};
use fairstream_fairness::{Compiled, FairnessFile, Judge, JudgedEngine, Sweep};

/// A fairness file, ready to run.
pub(crate) struct Subject {
    pub(crate) compiled: Compiled,
    spec: Specification,
}

/// A value of a stream that is followed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) time: Time,
    /// Index of the stream in the list of followed streams.
    pub(crate) stream: usize,
    /// The values of its parameters.
    pub(crate) instance: Vec<String>,
    pub(crate) value: f64,
}

/// A trial that was counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedTrial {
    /// The stream of the alarms of its rate.
    pub(crate) rate: String,
    pub(crate) group: String,
    pub(crate) value: f64,
    /// When it became final.
    pub(crate) ended: Time,
}

/// The result of a run with a judge.
#[derive(Clone)]
pub(crate) struct Judged {
    /// Streams and times.
    pub(crate) alarms: Vec<(String, Time)>,
    /// The e-value over time, by the title of the rate and the stratum.
    pub(crate) evidence: BTreeMap<String, Vec<(Time, f64)>>,
    /// The threshold of each metric, in its first stratum.
    pub(crate) thresholds: Vec<f64>,
    pub(crate) judge: Judge,
}

impl Subject {
    /// A file of `specs/`, with parts of its text replaced.
    pub(crate) fn of(name: &str, changes: &[(&str, &str)]) -> anyhow::Result<Subject> {
        let path = root()?.join("specs").join(name);
        let mut text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for (from, to) in changes {
            if !text.contains(from) {
                bail!("{name} does not say `{from}` any more");
            }
            text = text.replace(from, to);
        }
        Subject::parse(name, &text)
    }

    /// A fairness file from its text.
    pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<Subject> {
        Subject::compiled(name, FairnessFile::parse(name, text)?.compile(&[])?)
    }

    /// The same without the streams that only verdicts other than alarms need.
    pub(crate) fn for_alarms(&self) -> anyhow::Result<Subject> {
        Subject::compiled("alarms", self.compiled.for_alarms()?)
    }

    fn compiled(name: &str, compiled: Compiled) -> anyhow::Result<Subject> {
        let spec = Specification::parse(name, compiled.rtlola())?;
        Ok(Subject { compiled, spec })
    }

    /// The request to a source of events.
    pub(crate) fn request(&self) -> SourceRequest {
        SourceRequest { wanted: self.compiled.columns(), ..SourceRequest::default() }
    }

    /// Evaluates the events and takes down every value of some streams, in order.
    pub(crate) fn follow(&self, source: &mut dyn Source, streams: &[&str]) -> anyhow::Result<Vec<Sample>> {
        let mut samples = Vec::new();
        let names: Vec<String> = streams.iter().map(|&stream| stream.to_owned()).collect();
        let read = |batch: VerdictBatch| {
            let values = batch.iter().filter(|verdict| verdict.kind == Kind::Value);
            samples.extend(values.filter_map(|verdict| {
                let value = match verdict.value? {
                    Value::Float(value) => value,
                    Value::UInt(value) => value as f64,
                    _ => return None,
                };
                let stream = names.iter().position(|name| name == verdict.stream)?;
                let instance = serde_json::from_str(verdict.instance.unwrap_or("[]")).unwrap_or_default();
                Some(Sample { time: verdict.time, stream, instance, value })
            }));
            Ok(())
        };
        let begin = |start| {
            let engine: Box<dyn Engine> = Box::new(CompiledEngine::new(&self.spec, start)?);
            let index = |stream: &&str| engine.streams().iter().position(|name| name == stream);
            let followed: Option<Vec<usize>> = streams.iter().map(index).collect();
            let followed = followed.with_context(|| format!("one of {streams:?} is no stream"))?;
            let subscription =
                Subscription::everything().with_changes_of(&followed, &followed).without_triggers();
            Ok((engine, subscription))
        };
        self.evaluate(source, begin, read)?;
        Ok(samples)
    }

    /// Evaluates the events with a judge. Returns the alarms, the evidence and the final state of the judge.
    pub(crate) fn judge(&self, source: &mut dyn Source) -> anyhow::Result<Judged> {
        let judge = Arc::new(Mutex::new(Judge::new(self.compiled.rules().to_vec())));
        let names: BTreeMap<String, String> = self
            .compiled
            .streams()
            .iter()
            .filter_map(|streams| {
                let rate = self.compiled.rules().get(streams.metric)?.rates.get(streams.rate)?;
                Some((streams.judged.as_ref()?.e_value.clone(), rate.title.clone()))
            })
            .collect();
        let mut alarms = Vec::new();
        let mut evidence: BTreeMap<String, Vec<(Time, f64)>> = BTreeMap::new();
        let read = {
            |batch: VerdictBatch| {
                for verdict in batch.iter() {
                    match (verdict.kind, verdict.value, names.get(verdict.stream)) {
                        (Kind::Alarm, ..) => alarms.push((verdict.stream.to_owned(), verdict.time)),
                        (Kind::Value, Some(Value::Float(value)), Some(title)) => {
                            let name = format!("{title}{}", verdict.instance.unwrap_or_default());
                            evidence.entry(name).or_default().push((verdict.time, value));
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
        };
        let begin = |start| Ok((self.judged(start, &judge)?, Subscription::everything()));
        self.evaluate(source, begin, read)?;
        let judge = judge.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rules = self.compiled.rules().iter();
        let thresholds = rules.filter_map(|rule| Some(1.0 / rule.hypothesis(0)?.level)).collect();
        Ok(Judged { alarms, evidence, thresholds, judge })
    }

    /// Evaluates the events with a judge. Returns whether any alarm is raised.
    pub(crate) fn raises_alarm(&self, source: &mut dyn Source) -> anyhow::Result<bool> {
        let judge = Arc::new(Mutex::new(Judge::new(self.compiled.rules().to_vec())));
        let mut is_raised = false;
        let begin = |start| Ok((self.judged_in_brief(start, &judge)?, Subscription::new(Selection::Alarms)));
        self.evaluate(source, begin, |batch| {
            is_raised |= batch.iter().any(|verdict| verdict.kind == Kind::Alarm);
            Ok(())
        })?;
        Ok(is_raised)
    }

    /// The trials that are counted, in the order in which they become final.
    pub(crate) fn trials(&self, source: &mut dyn Source) -> anyhow::Result<Vec<CountedTrial>> {
        let judge = Arc::new(Mutex::new(Judge::new(self.compiled.rules().to_vec())));
        let trials: Arc<Mutex<Vec<CountedTrial>>> = Arc::default();
        let recorded = Arc::clone(&trials);
        let record = move |batch: EventBatch| {
            let mut trials = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            trials.extend(counted(&batch));
            Ok(())
        };
        let begin = |start| {
            let engine = self.judged_engine(CompiledEngine::new(&self.spec, start)?, &judge)?;
            let engine = engine.with_evidence(&self.compiled, start, Box::new(record), None)?;
            Ok((Box::new(engine) as Box<dyn Engine>, Subscription::new(Selection::Alarms)))
        };
        self.evaluate(source, begin, |_| Ok(()))?;
        let trials = std::mem::take(&mut *trials.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(trials)
    }

    /// Evaluates the events as one run of a sweep.
    pub(crate) fn sweep(&self, source: &mut dyn Source, sweep: &mut Sweep) -> anyhow::Result<()> {
        let judge = Judge::new(self.compiled.rules().to_vec()).with_sweep(sweep.begin());
        let judge = Arc::new(Mutex::new(judge));
        let begin = |start| Ok((self.judged_in_brief(start, &judge)?, Subscription::new(Selection::Alarms)));
        self.evaluate(source, begin, |_| Ok(()))?;
        let ended = judge.lock().unwrap_or_else(PoisonError::into_inner).end_sweep();
        ended.into_iter().for_each(|ended| sweep.add(ended));
        Ok(())
    }

    /// An engine for the file, whose counts go to `judge`.
    fn judged(&self, start: Time, judge: &Arc<Mutex<Judge>>) -> anyhow::Result<Box<dyn Engine>> {
        self.with_judge(CompiledEngine::new(&self.spec, start)?, judge)
    }

    /// The same for few events: without machine code, which takes longer to compile than it saves.
    fn judged_in_brief(&self, start: Time, judge: &Arc<Mutex<Judge>>) -> anyhow::Result<Box<dyn Engine>> {
        let engine = CompiledEngine::new(&self.spec, start)?;
        self.with_judge(engine.compile_after(0).without_precompiling(), judge)
    }

    fn with_judge(
        &self,
        engine: CompiledEngine,
        judge: &Arc<Mutex<Judge>>,
    ) -> anyhow::Result<Box<dyn Engine>> {
        Ok(Box::new(self.judged_engine(engine, judge)?))
    }

    fn judged_engine(
        &self,
        engine: CompiledEngine,
        judge: &Arc<Mutex<Judge>>,
    ) -> anyhow::Result<JudgedEngine> {
        let names: Vec<&str> = self.spec.wanted().iter().map(|column| column.name.as_str()).collect();
        Ok(JudgedEngine::new(Box::new(engine), &self.compiled, &names, Arc::clone(judge))?)
    }

    /// Evaluates all events; `read` receives the verdicts.
    fn evaluate(
        &self,
        source: &mut dyn Source,
        begin: impl FnOnce(Time) -> anyhow::Result<(Box<dyn Engine>, Subscription)>,
        read: impl FnMut(VerdictBatch) -> Result<(), Cancelled>,
    ) -> anyhow::Result<()> {
        let Some(mut events) = source.next_batch()? else { bail!("{} has no events", source.name()) };
        let first = events.time(0);
        let (mut engine, subscription) = begin(if events.relative { first.min(Time(0)) } else { first })?;
        engine.prepare(&subscription)?;
        let mut verdicts = VerdictBatcher::new(engine.streams(), 4096, read);
        let mut last = first;
        loop {
            last = if events.is_empty() { last } else { events.time(events.len() - 1) };
            engine.feed(&events, &mut verdicts)?;
            match source.next_batch()? {
                Some(more) => events = more,
                None => break,
            }
        }
        engine.advance(last, &mut verdicts)?;
        Ok(verdicts.flush()?)
    }
}

/// The trials of a batch of evidence.
fn counted(batch: &EventBatch) -> Vec<CountedTrial> {
    let text = |name: &str| Some(batch.rows.column_by_name(name)?.as_string::<i32>().clone());
    let columns = || {
        let values = batch.rows.column_by_name("value")?.as_primitive::<Float64Type>().clone();
        let ended = batch.rows.column_by_name("ended")?.as_primitive::<Int64Type>().clone();
        Some((text("kind")?, text("metric")?, text("group")?, values, ended))
    };
    let Some((kinds, metrics, groups, values, ended)) = columns() else { return Vec::new() };
    let trial = |row: usize| CountedTrial {
        rate: metrics.value(row).to_owned(),
        group: groups.value(row).to_owned(),
        value: values.value(row),
        ended: Time(ended.value(row)),
    };
    (0..batch.len()).filter(|row| kinds.value(*row) == "trial").map(trial).collect()
}

/// The root of the repository.
pub(crate) fn root() -> anyhow::Result<&'static Path> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).context("no workspace around the experiments")
}
