//! The fairstream sources, alone and with an engine.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use fairstream_core::{
    Columns, Engine, Pipeline, Position, RunEnd, RunOptions, Selection, Sink, SinkError, SourceFactory,
    SourceRequest, VerdictBatch, WantedColumn,
};
use fairstream_engine::{CompiledEngine, Specification};
use fairstream_fairness::{Compiled, FairnessFile, Judge, JudgedEngine};

use crate::measure::{Contestant, Kind};

const HIRING: &str = include_str!("../../../specs/hiring.toml");
const PAPER: &str = include_str!("../../../specs/rtlola/hiring.lola");
const PORTS: &str = include_str!("../../../examples/port-scan/scan.lola");
/// Counts rows by gender, so that the state of the engine does not grow with the number of rows.
const ROWS: &str = r#"
input gender : String
output rows(g) spawn with gender eval when gender = g with rows(g).last(or: 0) + 1
trigger @gender rows.aggregate(over_instances: all, using: sum) = 0 "never"
"#;

fn factory(format: &str) -> Box<dyn SourceFactory> {
    match format {
        "csv" => Box::new(fairstream_csv::CsvSources),
        "jsonl" => Box::new(fairstream_json::JsonSources),
        "parquet" => Box::new(fairstream_parquet::ParquetSources),
        "arrow" => Box::new(fairstream_parquet::ArrowSources),
        _ => Box::new(fairstream_pcap::PcapSources),
    }
}

/// The specification that is monitored: demographic parity, or port scans for packets.
#[derive(Clone)]
struct Subject {
    spec: Specification,
    fairness: Option<Compiled>,
    wanted: Vec<WantedColumn>,
}

/// An RTLola specification, of which only triggers are selected.
fn in_rtlola(text: &str) -> anyhow::Result<Subject> {
    let spec = Specification::parse("monitored.lola", text)?;
    Ok(Subject { wanted: spec.wanted().to_vec(), spec, fairness: None })
}

fn subject(format: &str) -> anyhow::Result<Subject> {
    if format == "pcap" {
        return in_rtlola(PORTS);
    }
    // Only alarms are selected, so the command evaluates no more than these need.
    let fairness = FairnessFile::parse("hiring.toml", HIRING)?.compile(&[])?.for_alarms()?;
    let spec = Specification::parse("hiring.lola", fairness.rtlola())?;
    let wanted = fairness.columns();
    Ok(Subject { spec, fairness: Some(fairness), wanted })
}

fn request(format: &str, path: &Path, wanted: &[WantedColumn]) -> SourceRequest {
    let mut request = SourceRequest {
        location: path.to_string_lossy().into_owned(),
        wanted: wanted.to_vec(),
        ..SourceRequest::default()
    };
    if format == "pcap" {
        request.options.set("local_network", "10.0.0.0/8");
    }
    request
}

pub(crate) fn contestants(format: &'static str, path: &Path) -> anyhow::Result<Vec<Contestant>> {
    // The specification is parsed once, before the time is taken.
    let (wanted, alone) = (subject(format)?.wanted, path.to_owned());
    let mut contestants = vec![Contestant::new("fairstream, source alone", Kind::Source, move || {
        read_columns(format, &alone, &wanted)
    })];
    let mut with_engine = |name, subject: Subject| {
        let path = path.to_owned();
        let read = move || evaluate(format, &path, subject.clone());
        contestants.push(Contestant::new(name, Kind::Engine, read));
    };
    if format == "pcap" {
        with_engine("fairstream, with engine", subject(format)?);
    } else {
        with_engine("fairstream, with engine: hiring.lola", in_rtlola(PAPER)?);
        with_engine("fairstream, with engine and judge: hiring.toml", subject(format)?);
    }
    Ok(contestants)
}

/// Counts the rows of Parquet files by gender, with an engine.
pub(crate) fn count_rows(path: &Path) -> anyhow::Result<usize> {
    evaluate("parquet", path, in_rtlola(ROWS)?)
}

/// Reads the columns that are monitored.
pub(crate) fn read(format: &str, path: &Path) -> anyhow::Result<usize> {
    read_columns(format, path, &subject(format)?.wanted)
}

fn read_columns(format: &str, path: &Path, wanted: &[WantedColumn]) -> anyhow::Result<usize> {
    let mut source = factory(format).open(&request(format, path, wanted))?;
    let mut rows = 0;
    while let Some(batch) = source.next_batch()? {
        if let Some(bad) = batch.rejected.first() {
            return Err(anyhow!("{bad}"));
        }
        rows += batch.len();
    }
    Ok(rows)
}

/// A whole run, whose verdicts are discarded.
fn evaluate(format: &str, path: &Path, subject: Subject) -> anyhow::Result<usize> {
    let Subject { spec, fairness, wanted } = subject;
    let selection = if fairness.is_some() { Selection::Alarms } else { Selection::Triggers };
    let sources = vec![factory(format).open(&request(format, path, &wanted))?];
    let columns = Columns::bind(&wanted, &sources)?;
    let engine = Box::new(move |start| {
        let engine: Box<dyn Engine> = Box::new(CompiledEngine::new(&spec, start)?);
        let Some(fairness) = fairness else { return Ok(engine) };
        let names: Vec<&str> = spec.wanted().iter().map(|column| column.name.as_str()).collect();
        let judge = Arc::new(Mutex::new(Judge::new(fairness.rules().to_vec())));
        let judged: Box<dyn Engine> = Box::new(JudgedEngine::new(engine, &fairness, &names, judge)?);
        Ok(judged)
    });
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Nowhere(selection))];
    let report = Pipeline { sources, columns, engine, sinks, options: RunOptions::default() }.run();
    match report.error {
        Some(error) => Err(error.into()),
        None => Ok(usize::try_from(report.counts.evaluated)?),
    }
}

/// A sink that discards verdicts.
struct Nowhere(Selection);

impl Sink for Nowhere {
    fn name(&self) -> &str {
        "nowhere"
    }

    fn wants(&self) -> Selection {
        self.0
    }

    fn write(&mut self, _: &VerdictBatch) -> Result<(), SinkError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, _: &RunEnd) -> Result<(), SinkError> {
        Ok(())
    }
}
