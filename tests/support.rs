//! Shared by several tests: sources and sinks in memory, verdicts as text.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use fairstream_core::{
    Columns, Engine, EngineError, Kind, MemoryState, Pipeline, Position, RunEnd, RunOptions, RunReport,
    Selection, Sink, SinkError, Source, SourceContext, SourceFactory, SourceRequest, Time, Value, Verdict,
    VerdictBatch,
};
use fairstream_csv::CsvSources;
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};
use fairstream_json::JsonSources;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent").to_owned()
}

/// The command, with an environment that makes its output independent of the user.
pub(crate) fn fairstream() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairstream-under-test"));
    command.env("RUST_BACKTRACE", "1").env("NO_COLOR", "1").env("COLUMNS", "100");
    // No fairness file is trusted but by a test.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Replaces the time of a run, which varies: `in 0.1 s` of a summary becomes `in … s`.
pub(crate) fn without_seconds(text: &str) -> String {
    let blur = |line: &str| match line.split_once(" in ") {
        Some((before, after)) if line.contains("event") => match after.split_once(" s") {
            Some((_, after)) => format!("{before} in … s{after}"),
            None => line.to_owned(),
        },
        _ => line.to_owned(),
    };
    text.lines().map(|line| blur(line) + "\n").collect()
}

/// A verdict in the notation of conformance cases.
pub(crate) fn line(verdict: &Verdict<'_>) -> String {
    let what = match (verdict.kind, verdict.value) {
        (Kind::Trigger, _) => format!("! {}", verdict.message.unwrap_or_default()),
        (Kind::Value, Some(Value::Text(value))) => format!("= {value:?}"),
        (Kind::Value, Some(value)) => format!("= {value}"),
        (kind, _) => kind.name().to_owned(),
    };
    format!("{} {}{} {what}", verdict.time.for_people(), verdict.stream, verdict.instance.unwrap_or_default())
}

/// The verdicts that reached a [`Collect`] sink.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) lines: Vec<String>,
    pub(crate) end: Option<RunEnd>,
    /// Number of lines at each flush.
    pub(crate) flushed: Vec<usize>,
}

/// A sink that collects verdicts.
#[derive(Clone, Debug)]
pub(crate) struct Collect {
    pub(crate) select: Selection,
    pub(crate) collected: Arc<Mutex<Collected>>,
}

impl Collect {
    pub(crate) fn new(select: Selection) -> Collect {
        Collect { select, collected: Arc::default() }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.collected.lock().unwrap().lines.clone()
    }
}

impl Sink for Collect {
    fn name(&self) -> &str {
        "memory"
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        self.collected.lock().unwrap().lines.extend(batch.iter().map(|verdict| line(&verdict)));
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        let mut collected = self.collected.lock().unwrap();
        let lines = collected.lines.len();
        collected.flushed.push(lines);
        Ok(None)
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        self.collected.lock().unwrap().end = Some(end.clone());
        Ok(())
    }
}

/// Opens files of CSV or JSON lines for a specification, in batches of that size.
pub(crate) fn sources(spec: &Specification, paths: &[PathBuf], max_rows: usize) -> Vec<Box<dyn Source>> {
    let open = |path: &PathBuf| {
        let request = SourceRequest {
            location: path.to_str().unwrap().to_owned(),
            wanted: spec.wanted().to_vec(),
            context: SourceContext {
                max_rows: NonZeroUsize::new(max_rows).unwrap(),
                ..SourceContext::default()
            },
            ..SourceRequest::default()
        };
        let is_json = path.extension().is_some_and(|ending| ending == "jsonl");
        if is_json { JsonSources.open(&request).unwrap() } else { CsvSources.open(&request).unwrap() }
    };
    paths.iter().map(open).collect()
}

/// Builds an engine for a specification, with a clock that starts at that time.
pub(crate) type BuildFor = fn(&Specification, Time) -> Result<Box<dyn Engine>, EngineError>;

/// All engines, by name: the reference engine first.
pub(crate) const ENGINES: [(&str, BuildFor); 3] =
    [("reference", reference), ("compiled", compiled), ("interpreted", interpreted)];

/// With handlers for likely events from the start, and for others from their second event on.
pub(crate) fn compiled(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(CompiledEngine::new(spec, start)?.compile_after(1)))
}

/// With handlers from the second event of each shape on, but none before the first event.
pub(crate) fn warming_up(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(CompiledEngine::new(spec, start)?.compile_after(1).without_precompiling()))
}

/// Without machine code.
pub(crate) fn interpreted(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(CompiledEngine::new(spec, start)?.compile_after(0).without_precompiling()))
}

pub(crate) fn reference(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(ReferenceEngine::new(spec, start)?))
}

/// Runs the default engine.
pub(crate) fn run(
    spec: &Specification,
    sources: Vec<Box<dyn Source>>,
    sinks: Vec<Box<dyn Sink>>,
    options: RunOptions,
) -> RunReport {
    run_on(compiled, spec, sources, sinks, options)
}

/// Runs an engine.
pub(crate) fn run_on(
    build: BuildFor,
    spec: &Specification,
    sources: Vec<Box<dyn Source>>,
    sinks: Vec<Box<dyn Sink>>,
    options: RunOptions,
) -> RunReport {
    let columns = Columns::bind(spec.wanted(), &sources).unwrap();
    let spec = spec.clone();
    let engine = Box::new(move |start| build(&spec, start));
    Pipeline { sources, columns, engine, sinks, options }.run()
}

/// State as it comes back from files: documents as text, tables as Arrow IPC.
pub(crate) fn through_bytes(state: &MemoryState) -> MemoryState {
    let through = |batches: &Vec<RecordBatch>| {
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        let bytes = writer.into_inner().unwrap();
        StreamReader::try_new(bytes.as_slice(), None).unwrap().map(Result::unwrap).collect()
    };
    let tables = state.tables.iter().map(|(name, batches)| (name.clone(), through(batches)));
    MemoryState { documents: state.documents.clone(), tables: tables.collect() }
}

/// State from a folder: documents are `NAME.json`, tables `NAME.arrow`.
pub(crate) fn read_state(folder: &Path) -> MemoryState {
    fn visit(folder: &Path, prefix: &str, state: &mut MemoryState) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap());
            if path.is_dir() {
                visit(&path, &format!("{name}/"), state);
            } else if path.extension().is_some_and(|ending| ending == "json") {
                state.documents.insert(name, std::fs::read_to_string(&path).unwrap());
            } else if path.extension().is_some_and(|ending| ending == "arrow") {
                let reader = FileReader::try_new(std::fs::File::open(&path).unwrap(), None).unwrap();
                state.tables.insert(name, reader.map(Result::unwrap).collect());
            }
        }
    }
    let mut state = MemoryState::default();
    visit(folder, "", &mut state);
    state
}

/// Writes state to such a folder, in place of what is there.
pub(crate) fn write_state(state: &MemoryState, folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    let place = |name: &str, ending: &str| {
        let path = folder.join(format!("{name}.{ending}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (name, document) in &state.documents {
        std::fs::write(place(name, "json"), document).unwrap();
    }
    for (name, batches) in &state.tables {
        let file = std::fs::File::create(place(name, "arrow")).unwrap();
        let mut writer = FileWriter::try_new(file, &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
}
