//! Sources from plugins in a process of their own.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fairstream_core::{Adapter, BadOption, Position, Source, SourceError, SourceFactory, SourceRequest};

use super::frame::{OpenRequest, Tag, WireError, WireFrame, WirePosition};
use super::process::{NoAnswer, WorkerProcess};
use super::{Isolation, WorkerCommand, ipc};
use crate::PluginSources;
use crate::loaded::wanted_schema;
use crate::rows::{PluginRows, RowProgress, Trouble};
use crate::source::checked;

/// Opens the sources of plugins, each in a worker that this command starts.
#[derive(Clone, Debug)]
pub struct IsolatedSources {
    /// The command.
    pub worker: WorkerCommand,
}

impl SourceFactory for IsolatedSources {
    fn adapter(&self) -> Adapter {
        PluginSources.adapter()
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let mut request = request.clone();
        let isolation = Isolation::limits(&mut request.options).map_err(|bad| request.refuse(bad))?;
        open(&self.worker, isolation, &request)
    }
}

/// Opens the source of a plugin in a worker.
pub(crate) fn open(
    command: &WorkerCommand,
    isolation: Isolation,
    request: &SourceRequest,
) -> Result<Box<dyn Source>, SourceError> {
    let wanted = ipc::schema_bytes(&wanted_schema(request)).map_err(|error| request.cannot_open(error))?;
    let stop = request.context.stop.clone();
    let worker = WorkerProcess::start(command, isolation, stop);
    let mut worker = worker.map_err(|error| {
        request.cannot_open(format!(
            "a process for it cannot be started by {}: {error}",
            command.program.display()
        ))
    })?;
    let asked = OpenRequest {
        path: request.location.clone(),
        options: request.options.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        max_rows: request.context.max_rows.get() as u64,
        max_age_ms: u64::try_from(request.context.max_age.as_millis()).unwrap_or(u64::MAX),
        resume: request.resume.as_ref().map(WirePosition::of),
        ..OpenRequest::default()
    };
    let schema = ask_to_open(&mut worker, asked, wanted).map_err(|no_answer| match no_answer {
        NoAnswer::Refused(WireError::Broken(reason)) => {
            SourceError::Broken { origin: request.location.clone(), reason }
        }
        NoAnswer::Refused(WireError::Option { key, hint }) => request.refuse(BadOption::Key { key, hint }),
        NoAnswer::Refused(error) => request.cannot_open(error.to_string()),
        NoAnswer::Gone(reason) => request.cannot_open(reason),
        NoAnswer::Stopped => request.cannot_open("a stop was requested before it was open"),
    })?;
    let name = format!("{} ({} {})", request.location, worker.plugin.name, worker.plugin.version);
    let of_rows = schema.as_ref().clone();
    checked(
        Box::new(IsolatedRows { worker, schema, progress: RowProgress::default() }),
        of_rows,
        name,
        request,
    )
}

const OPENING: &str = "while it was opened";
const READING: &str = "while it was asked for rows";
const ACKNOWLEDGING: &str = "while rows were acknowledged";

/// Opens the plugin. Returns the columns that it announces.
fn ask_to_open(
    worker: &mut WorkerProcess,
    asked: OpenRequest,
    wanted: Vec<u8>,
) -> Result<SchemaRef, NoAnswer> {
    worker.open(asked, Some(wanted))?;
    let frame = worker.expect(&[Tag::Opened], OPENING)?;
    worker.plugin = worker.value(&frame, OPENING)?;
    let frame = worker.expect(&[Tag::Columns], OPENING)?;
    ipc::read_schema(&frame.bytes).map_err(|reason| worker.misunderstood(OPENING, &reason))
}

/// The rows of a plugin in a worker.
struct IsolatedRows {
    worker: WorkerProcess,
    schema: SchemaRef,
    /// After the last batch.
    progress: RowProgress,
}

impl IsolatedRows {
    fn ask(&mut self) -> Result<Option<RecordBatch>, NoAnswer> {
        self.worker.send(WireFrame::empty(Tag::Next))?;
        let frame = self.worker.expect(&[Tag::Batch, Tag::End], READING)?;
        if frame.tag == Tag::End {
            return Ok(None);
        }
        let batch = ipc::read_batch(frame.bytes, &self.schema);
        let batch = batch.map_err(|reason| self.worker.misunderstood(READING, &reason))?;
        let frame = self.worker.expect(&[Tag::Position], READING)?;
        let position: WirePosition = self.worker.value(&frame, READING)?;
        let WirePosition { dropped, is_relative, .. } = position;
        let end = position.position().unwrap_or_default();
        self.progress = RowProgress { end, dropped, is_relative };
        Ok(Some(batch))
    }
}

impl PluginRows for IsolatedRows {
    fn next(&mut self) -> Result<Option<RecordBatch>, Trouble> {
        match self.ask() {
            Ok(batch) => Ok(batch),
            Err(NoAnswer::Stopped) => Ok(None),
            Err(NoAnswer::Gone(reason)) => Err(Trouble::Failed(reason)),
            Err(NoAnswer::Refused(error)) => Err(error.into()),
        }
    }

    fn progress(&mut self) -> Result<RowProgress, Trouble> {
        Ok(self.progress.clone())
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), Trouble> {
        let request = WireFrame::json(Tag::Acknowledge, &WirePosition::of(through));
        let asked = self.worker.send(request).and_then(|()| self.worker.expect(&[Tag::Done], ACKNOWLEDGING));
        match asked {
            Ok(_) | Err(NoAnswer::Stopped) => Ok(()),
            Err(NoAnswer::Gone(reason)) => Err(Trouble::Failed(reason)),
            Err(NoAnswer::Refused(error)) => Err(error.into()),
        }
    }
}

impl From<WireError> for Trouble {
    fn from(error: WireError) -> Trouble {
        match error {
            WireError::Broken(reason) => Trouble::Broken(reason),
            other => Trouble::Failed(other.to_string()),
        }
    }
}
