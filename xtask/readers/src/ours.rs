//! Our sources, alone and with an engine behind them.

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
const PORTS: &str = include_str!("../../../examples/port-scan/scan.lola");

fn factory(format: &str) -> Box<dyn SourceFactory> {
    match format {
        "csv" => Box::new(fairstream_csv::CsvSources),
        "jsonl" => Box::new(fairstream_json::JsonSources),
        "parquet" => Box::new(fairstream_parquet::ParquetSources),
        "arrow" => Box::new(fairstream_parquet::ArrowSources),
        _ => Box::new(fairstream_pcap::PcapSources),
    }
}

/// What is monitored: demographic parity, or of packets who tries many ports.
#[derive(Clone)]
struct Subject {
    spec: Specification,
    fairness: Option<Compiled>,
    wanted: Vec<WantedColumn>,
}

fn subject(format: &str) -> anyhow::Result<Subject> {
    if format == "pcap" {
        let spec = Specification::parse("scan.lola", PORTS)?;
        return Ok(Subject { wanted: spec.wanted().to_vec(), spec, fairness: None });
    }
    // Alarms are what is read, and the command evaluates no more then.
    let fairness = FairnessFile::parse("hiring.toml", HIRING)?.compile(&[])?.for_alarms()?;
    let spec = Specification::parse("hiring.lola", fairness.rtlola())?;
    let mut wanted = spec.wanted().to_vec();
    wanted.retain(|column| Some(column.name.as_str()) != fairness.clock());
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

pub(crate) fn contestants(format: &'static str, path: &Path) -> anyhow::Result<[Contestant; 2]> {
    let (alone, behind) = (path.to_owned(), path.to_owned());
    // What is monitored is read once, before anybody looks at the clock.
    let (wanted, subject) = (subject(format)?.wanted, subject(format)?);
    Ok([
        Contestant::new("fairstream, source alone", Kind::Source, move || {
            read_columns(format, &alone, &wanted)
        }),
        Contestant::new("fairstream, with engine and judge", Kind::Engine, move || {
            evaluate(format, &behind, subject.clone())
        }),
    ])
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

/// A whole run, whose verdicts are forgotten.
fn evaluate(format: &str, path: &Path, subject: Subject) -> anyhow::Result<usize> {
    let Subject { spec, fairness, wanted } = subject;
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
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Nowhere)];
    let report = Pipeline { sources, columns, engine, sinks, options: RunOptions::default() }.run();
    match report.error {
        Some(error) => Err(error.into()),
        None => Ok(usize::try_from(report.counts.evaluated)?),
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn name(&self) -> &str {
        "nowhere"
    }

    fn wants(&self) -> Selection {
        Selection::Alarms
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
