//! Sinks from plugins in a process of their own.

use fairstream_core::{
    Adapter, BadOption, Cause, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest,
    StopToken, VerdictBatch,
};

use super::frame::{EndOfRun, OpenRequest, Tag, WireError, WireFrame, WirePosition};
use super::process::{NoAnswer, WorkerProcess};
use super::{Isolation, WorkerCommand, ipc};
use crate::PluginSinks;

/// Opens the sinks of plugins, each in a worker that this command starts.
#[derive(Clone, Debug)]
pub struct IsolatedSinks {
    /// The command.
    pub worker: WorkerCommand,
}

impl SinkFactory for IsolatedSinks {
    fn adapter(&self) -> Adapter {
        PluginSinks.adapter()
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let mut request = request.clone();
        let isolation = Isolation::limits(&mut request.options)
            .map_err(|bad| SinkError::Option { sink: request.location.clone(), bad })?;
        open(&self.worker, isolation, &request)
    }
}

/// Opens the sink of a plugin in a worker.
pub(crate) fn open(
    command: &WorkerCommand,
    isolation: Isolation,
    request: &SinkRequest,
) -> Result<Box<dyn Sink>, SinkError> {
    let sink = || request.location.clone();
    let failed = |cause: Cause| SinkError::Open { sink: sink(), cause };
    // A sink takes what is left when a run is stopped, so no stop cancels it.
    let worker = WorkerProcess::start(command, isolation, StopToken::default());
    let mut worker = worker.map_err(|error| {
        let program = command.program.display();
        failed(format!("a process for it cannot be started by {program}: {error}").into())
    })?;
    let asked = OpenRequest {
        path: request.location.clone(),
        is_sink: true,
        options: request.options.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        resume: request.resume.as_ref().map(WirePosition::of),
        ..OpenRequest::default()
    };
    let opened = ask_to_open(&mut worker, asked);
    opened.map_err(|no_answer| match no_answer {
        NoAnswer::Refused(WireError::Option { key, hint }) => {
            SinkError::Option { sink: sink(), bad: BadOption::Key { key, hint } }
        }
        NoAnswer::Refused(WireError::HungUp) => SinkError::HungUp { sink: sink() },
        NoAnswer::Refused(error) => failed(error.to_string().into()),
        NoAnswer::Gone(reason) => failed(reason.into()),
        NoAnswer::Stopped => failed("a stop was requested before it was open".into()),
    })?;
    let name = format!("{} ({} {})", request.location, worker.plugin.name, worker.plugin.version);
    Ok(Box::new(IsolatedSink { name, select: request.select, worker }))
}

fn ask_to_open(worker: &mut WorkerProcess, asked: OpenRequest) -> Result<(), NoAnswer> {
    worker.open(asked, None)?;
    let frame = worker.expect(&[Tag::Opened], OPENING)?;
    worker.plugin = worker.value(&frame, OPENING)?;
    Ok(())
}

const OPENING: &str = "while it was opened";
const WRITING: &str = "while it was given verdicts";
const FLUSHING: &str = "while it was flushed";
const FINISHING: &str = "while it was finished";

/// The sink of a plugin in a worker.
struct IsolatedSink {
    name: String,
    select: Selection,
    worker: WorkerProcess,
}

impl IsolatedSink {
    fn ask(&mut self, request: WireFrame, wanted: Tag, doing: &str) -> Result<WireFrame, SinkError> {
        let asked = self.worker.send(request).and_then(|()| self.worker.expect(&[wanted], doing));
        asked.map_err(|no_answer| self.error(no_answer))
    }

    fn error(&self, no_answer: NoAnswer) -> SinkError {
        let sink = self.name.clone();
        let cause = match no_answer {
            NoAnswer::Refused(WireError::HungUp) => return SinkError::HungUp { sink },
            NoAnswer::Refused(error) => error.to_string(),
            NoAnswer::Gone(reason) => reason,
            NoAnswer::Stopped => "a stop was requested".to_owned(),
        };
        SinkError::Write { sink, cause: cause.into() }
    }
}

impl Sink for IsolatedSink {
    fn name(&self) -> &str {
        &self.name
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let failed = |cause: Cause| SinkError::Write { sink: self.name.clone(), cause };
        let bytes = ipc::batch_bytes(batch.rows()).map_err(|error| failed(error.into()))?;
        let frame = WireFrame { tag: Tag::Write, bytes };
        frame.length().map_err(|reason| failed(reason.into()))?;
        self.ask(frame, Tag::Done, WRITING).map(|_| ())
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        let frame = self.ask(WireFrame::empty(Tag::Flush), Tag::Position, FLUSHING)?;
        let position: Result<WirePosition, NoAnswer> = self.worker.value(&frame, FLUSHING);
        position.map(WirePosition::position).map_err(|no_answer| self.error(no_answer))
    }

    fn finish(mut self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        self.ask(WireFrame::json(Tag::Finish, &EndOfRun::of(end)), Tag::Done, FINISHING).map(|_| ())
    }
}
