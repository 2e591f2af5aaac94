//! The worker's side: loads one plugin, and does for it what is asked on standard input.

use std::fs::File;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use arrow::ipc::reader::StreamReader;
use fairstream_core::{
    RunEnd, Selection, Sink, SinkRequest, SourceContext, SourceRequest, StopToken, VerdictBatch, WantedColumn,
};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::frame::{EndOfRun, OpenRequest, PluginName, Tag, WireError, WireFrame, WirePosition};
use super::ipc;
use crate::library::Library;
use crate::loaded::LoadedRows;
use crate::rows::{PluginRows, Trouble};
use crate::sink;

/// A worker cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("this process serves a plugin, and is started by fairstream alone: {0}")]
pub struct WorkerFailure(String);

impl From<io::Error> for WorkerFailure {
    fn from(error: io::Error) -> WorkerFailure {
        WorkerFailure(error.to_string())
    }
}

/// How long a plugin may take to be released once the pipe has ended.
const RELEASE: Duration = Duration::from_secs(1);

/// Serves one plugin until its host closes it. `end` ends this process at once, whatever the plugin does: it is called when
/// the host is gone.
///
/// To be called first of all in a process that does nothing else. Standard input and output are taken over: what the plugin
/// prints goes to standard error.
///
/// # Errors
/// The process was not started by a host.
pub fn serve(end: impl FnOnce() + Send + 'static) -> Result<(), WorkerFailure> {
    let (input, output) = take_pipes()?;
    let mut input = BufReader::new(input);
    let first = WireFrame::read(&mut input)?.filter(|frame| frame.tag == Tag::Open);
    let first = first.ok_or_else(|| WorkerFailure("nothing is asked of it".to_owned()))?;
    let request: OpenRequest = first.value().map_err(WorkerFailure)?;
    let wanted = if request.is_sink { None } else { WireFrame::read(&mut input)? };
    let stop = StopToken::default();
    let (queue, requests) = sync_channel(4);
    let cancel = stop.clone();
    thread::Builder::new().spawn(move || {
        let mut is_closing = false;
        while let Ok(Some(frame)) = WireFrame::read(&mut input) {
            is_closing |= frame.tag == Tag::Close;
            if frame.tag == Tag::Cancel {
                cancel.stop();
            } else if queue.send(frame).is_err() {
                break;
            }
        }
        if is_closing {
            thread::sleep(RELEASE);
        }
        end();
    })?;
    limit_memory(request.max_memory)?;
    Worker { requests, output }.serve(request, wanted, stop)
}

/// The pipes to the host. The plugin finds an empty standard input, and standard error in place of standard output.
fn take_pipes() -> io::Result<(File, File)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input.into(), output.into()))
}

/// Limits how much memory the process can map in addition to what it has, and leaves no core file behind.
fn limit_memory(bytes: u64) -> io::Result<()> {
    let limit = |bytes: u64| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Core, limit(0))?;
    setrlimit(Resource::As, limit(bytes.saturating_add(mapped_bytes())))?;
    Ok(())
}

/// What the process has mapped; 0 where the system does not say.
fn mapped_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

struct Worker {
    requests: Receiver<WireFrame>,
    output: File,
}

impl Worker {
    fn serve(
        mut self,
        request: OpenRequest,
        wanted: Option<WireFrame>,
        stop: StopToken,
    ) -> Result<(), WorkerFailure> {
        let library = match Library::load(Path::new(&request.path)) {
            Ok(library) => library,
            Err(error) => return self.fail(&WireError::Failed(error.to_string())),
        };
        match wanted {
            None => self.serve_sink(&library, request),
            Some(wanted) => self.serve_source(&library, request, &wanted, stop),
        }
    }

    fn serve_source(
        &mut self,
        library: &Library,
        request: OpenRequest,
        wanted: &WireFrame,
        stop: StopToken,
    ) -> Result<(), WorkerFailure> {
        let wanted = ipc::read_schema(&wanted.bytes).map_err(WorkerFailure)?;
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            WantedColumn::new(field.name(), field.data_type().clone())
        };
        let max_rows = usize::try_from(request.max_rows).ok().and_then(NonZeroUsize::new);
        let request = SourceRequest {
            location: request.path,
            options: request.options.into_iter().collect(),
            wanted: wanted.fields().iter().map(column).collect(),
            resume: request.resume.and_then(WirePosition::position),
            context: SourceContext {
                stop,
                max_rows: max_rows.unwrap_or(NonZeroUsize::MAX),
                max_age: Duration::from_millis(request.max_age_ms),
                // The interface of plugins bounds batches by rows alone.
                ..SourceContext::default()
            },
            ..SourceRequest::default()
        };
        let mut rows = match LoadedRows::open(library, &request) {
            Ok(rows) => rows,
            Err(error) => return self.fail(&error.into()),
        };
        let columns = ipc::schema_bytes(rows.schema()).map_err(|error| WorkerFailure(error.to_string()))?;
        self.opened(library)?;
        self.write(&WireFrame { tag: Tag::Columns, bytes: columns })?;
        while let Ok(frame) = self.requests.recv() {
            match frame.tag {
                Tag::Next => self.next(&mut rows)?,
                Tag::Acknowledge => {
                    let through: WirePosition = frame.value().map_err(WorkerFailure)?;
                    match rows.acknowledge(&through.position().unwrap_or_default()) {
                        Ok(()) => self.write(&WireFrame::empty(Tag::Done))?,
                        Err(trouble) => self.fail(&trouble.into())?,
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Sends the next batch and the position after it.
    fn next(&mut self, rows: &mut LoadedRows) -> Result<(), WorkerFailure> {
        let next = rows.next().and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let bytes = ipc::batch_bytes(&batch).map_err(|error| Trouble::Broken(error.to_string()))?;
            let frame = WireFrame { tag: Tag::Batch, bytes };
            frame.length().map_err(|reason| Trouble::Broken(format!("it gives {reason}")))?;
            Ok(Some((frame, rows.progress())))
        });
        match next {
            Err(trouble) => self.fail(&trouble.into()),
            Ok(None) => self.write(&WireFrame::empty(Tag::End)),
            Ok(Some((frame, progress))) => {
                self.write(&frame)?;
                match progress {
                    Err(trouble) => self.fail(&trouble.into()),
                    Ok(progress) => {
                        let position = WirePosition {
                            dropped: progress.dropped,
                            is_relative: progress.is_relative,
                            ..WirePosition::of(&progress.end)
                        };
                        self.write(&WireFrame::json(Tag::Position, &position))
                    }
                }
            }
        }
    }

    fn serve_sink(&mut self, library: &Library, request: OpenRequest) -> Result<(), WorkerFailure> {
        let request = SinkRequest {
            location: request.path,
            options: request.options.into_iter().collect(),
            // What is written has been selected by the host.
            select: Selection::default(),
            resume: request.resume.and_then(WirePosition::position),
        };
        let mut sink = match sink::open(library, &request) {
            Ok(sink) => Some(sink),
            Err(error) => return self.fail(&error.into()),
        };
        self.opened(library)?;
        while let Ok(frame) = self.requests.recv() {
            let Some(open) = sink.as_mut() else { break };
            let done = match frame.tag {
                Tag::Write => open.write(&verdicts(&frame.bytes)?).map(|()| WireFrame::empty(Tag::Done)),
                Tag::Flush => open.flush().map(|position| {
                    let position = position.as_ref().map(WirePosition::of).unwrap_or_default();
                    WireFrame::json(Tag::Position, &position)
                }),
                Tag::Finish => {
                    let end: EndOfRun = frame.value().map_err(WorkerFailure)?;
                    let end: RunEnd = end.run_end();
                    let finished = sink.take().map_or(Ok(()), |sink: Box<dyn Sink>| sink.finish(&end));
                    finished.map(|()| WireFrame::empty(Tag::Done))
                }
                _ => break,
            };
            match done {
                Ok(answer) => self.write(&answer)?,
                Err(error) => self.fail(&error.into())?,
            }
        }
        Ok(())
    }

    fn opened(&mut self, library: &Library) -> Result<(), WorkerFailure> {
        let Library { name, version, .. } = library.clone();
        self.write(&WireFrame::json(Tag::Opened, &PluginName { name, version }))
    }

    fn fail(&mut self, error: &WireError) -> Result<(), WorkerFailure> {
        self.write(&WireFrame::json(Tag::Error, error))
    }

    fn write(&mut self, frame: &WireFrame) -> Result<(), WorkerFailure> {
        frame.write(&mut self.output).map_err(WorkerFailure::from)
    }
}

impl From<Trouble> for WireError {
    fn from(trouble: Trouble) -> WireError {
        match trouble {
            Trouble::Failed(reason) => WireError::Failed(reason),
            Trouble::Broken(reason) => WireError::Broken(reason),
        }
    }
}

/// The verdicts of the host, which is believed.
fn verdicts(bytes: &[u8]) -> Result<VerdictBatch, WorkerFailure> {
    let mut reader = StreamReader::try_new(bytes, None).map_err(|error| WorkerFailure(error.to_string()))?;
    let rows = reader.next().and_then(Result::ok);
    rows.and_then(VerdictBatch::new).ok_or_else(|| WorkerFailure("a batch without verdicts".to_owned()))
}
