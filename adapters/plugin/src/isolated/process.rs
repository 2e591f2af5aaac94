//! A worker as a process: started, asked with a limit on time, and ended. No worker outlives its source or sink.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairstream_core::StopToken;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::de::DeserializeOwned;

use super::frame::{OpenRequest, PluginName, Tag, WireError, WireFrame};
use super::{Isolation, WorkerCommand};

/// How long a plugin may take to be released, and to end after it was cancelled. A source that is stopped has a second.
const GRACE: Duration = Duration::from_millis(700);
/// How often a wait looks whether a stop was requested.
const LOOK: Duration = Duration::from_millis(50);
/// The longest timeout, so that a deadline can be computed.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// The process groups of the workers that have not been waited for.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every worker of this process at once: for a program that is about to exit without dropping its sources and sinks.
pub fn end_workers() {
    for group in groups().iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

/// A worker.
pub(super) struct WorkerProcess {
    child: Child,
    group: Pid,
    /// `None` once it has been ended.
    requests: Option<SyncSender<WireFrame>>,
    answers: Receiver<io::Result<Option<WireFrame>>>,
    isolation: Isolation,
    stop: StopToken,
    /// When it was told that a stop was requested.
    cancelled: Option<Instant>,
    /// The plugin, once it is open.
    pub(super) plugin: PluginName,
}

/// Why a worker gave no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It did not end in time after a stop was requested.
    Stopped,
    /// It is not there any more, for this reason.
    Gone(String),
    /// The plugin returned an error.
    Refused(WireError),
}

impl WorkerProcess {
    /// Starts a worker.
    pub(super) fn start(
        command: &WorkerCommand,
        isolation: Isolation,
        stop: StopToken,
    ) -> io::Result<WorkerProcess> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: a Ctrl-C is for this process, which then stops it in good order; and what the plugin
            // starts is ended with it.
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(group), Some(input), Some(output)) = (pid, child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process without a number or pipes"));
        };
        groups().push(group);
        let (requests, queue) = sync_channel(4);
        let (answer, answers) = sync_channel(1);
        let started = thread::Builder::new().name("to plugin".to_owned()).spawn(move || send(&queue, input));
        let started = started.and_then(|_| {
            let receive = move || receive(output, &answer);
            thread::Builder::new().name("from plugin".to_owned()).spawn(receive)
        });
        let requests = Some(requests);
        let (cancelled, plugin) = (None, PluginName::default());
        let worker = WorkerProcess { child, group, requests, answers, isolation, stop, cancelled, plugin };
        // If a thread could not be started, dropping the worker ends its process.
        started.map(|_| worker)
    }

    /// Asks for the plugin to be opened.
    pub(super) fn open(&mut self, request: OpenRequest, columns: Option<Vec<u8>>) -> Result<(), NoAnswer> {
        let max_memory = self.isolation.max_memory.0;
        self.send(WireFrame::json(Tag::Open, &OpenRequest { max_memory, ..request }))?;
        columns.map_or(Ok(()), |bytes| self.send(WireFrame { tag: Tag::Columns, bytes }))
    }

    /// Sends a request. It is written by another thread, so this does not wait for the worker to read it.
    ///
    /// That the worker reads no more requests is no error here: the last that it wrote says why it ended, and is read
    /// where an answer is expected.
    pub(super) fn send(&mut self, frame: WireFrame) -> Result<(), NoAnswer> {
        match self.requests.as_ref().map(|requests| requests.try_send(frame)) {
            Some(Ok(()) | Err(TrySendError::Disconnected(_))) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(self.gone("while it was sent more than it read", None)),
            None => Err(self.over()),
        }
    }

    /// Waits for an answer of one of these kinds, or an error. `doing` completes the sentence that begins with what went
    /// wrong.
    pub(super) fn expect(&mut self, wanted: &[Tag], doing: &str) -> Result<WireFrame, NoAnswer> {
        let frame = self.answer(doing)?;
        match frame.tag {
            Tag::Error => Err(NoAnswer::Refused(self.value(&frame, doing)?)),
            tag if wanted.contains(&tag) => Ok(frame),
            tag => Err(self.misunderstood(doing, &format!("a frame of the kind {tag:?}"))),
        }
    }

    /// The value in an answer.
    pub(super) fn value<T: DeserializeOwned>(
        &mut self,
        frame: &WireFrame,
        doing: &str,
    ) -> Result<T, NoAnswer> {
        frame.value().map_err(|reason| self.misunderstood(doing, &reason))
    }

    fn answer(&mut self, doing: &str) -> Result<WireFrame, NoAnswer> {
        if self.requests.is_none() {
            return Err(self.over());
        }
        let began = Instant::now();
        let deadline = began + self.isolation.timeout.min(LONGEST);
        loop {
            if self.stop.is_stopped() && self.cancelled.is_none() {
                self.cancelled = Some(Instant::now());
                self.send(WireFrame::empty(Tag::Cancel))?;
            }
            // What is asked after a stop, such as to acknowledge the last rows, has its own time.
            let soon = |cancelled: Instant| deadline.min(cancelled.max(began) + GRACE);
            let deadline = self.cancelled.map_or(deadline, soon);
            let wait = deadline.saturating_duration_since(Instant::now()).min(LOOK);
            match self.answers.recv_timeout(wait) {
                Ok(Ok(Some(frame))) => return Ok(frame),
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => return Err(self.gone(doing, None)),
                Ok(Err(error)) => return Err(self.gone(doing, Some(&error))),
                // Looked at last, so that an answer that came while this process was suspended counts.
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    self.end(Duration::ZERO);
                    return Err(match self.cancelled {
                        Some(_) => NoAnswer::Stopped,
                        None => NoAnswer::Gone(format!(
                            "its process gave no answer for {:?} {doing}, and was ended; `timeout` allows for more",
                            self.isolation.timeout
                        )),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Why nothing can be asked of a worker that has been ended.
    fn over(&self) -> NoAnswer {
        match self.cancelled {
            Some(_) => NoAnswer::Stopped,
            None => NoAnswer::Gone("its process has ended".to_owned()),
        }
    }

    /// An answer that no request has is the end of a worker.
    pub(super) fn misunderstood(&mut self, doing: &str, reason: &str) -> NoAnswer {
        self.end(Duration::ZERO);
        NoAnswer::Gone(format!(
            "its process answered with what is no answer {doing} ({reason}), and was ended"
        ))
    }

    /// Ends what is left of a worker whose pipe has ended or is damaged, and says why.
    fn gone(&mut self, doing: &str, error: Option<&io::Error>) -> NoAnswer {
        if let Some(error) = error.filter(|error| error.kind() == io::ErrorKind::InvalidData) {
            return self.misunderstood(doing, &error.to_string());
        }
        NoAnswer::Gone(match self.end(GRACE).map(|status| (status.signal(), status.code())) {
            None => format!("its process closed its pipe {doing}, and was ended"),
            Some((None, code)) => {
                format!("its process ended by itself, with exit code {}, {doing}", code.unwrap_or_default())
            }
            Some((Some(signal), _)) => format!(
                "its process was ended by {} {doing}; it may take {} of memory, and `max_memory` allows for more",
                signal_name(signal),
                self.isolation.max_memory
            ),
        })
    }

    /// Releases the plugin, and ends the process.
    fn close(&mut self) {
        if self.requests.is_some() {
            let grace = if self.send(WireFrame::empty(Tag::Close)).is_ok() { GRACE } else { Duration::ZERO };
            self.end(grace);
        }
    }

    /// Waits so long for the process to end, then ends it and all of its group. Returns its status if it ended by itself.
    fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        // The thread that writes ends, and with it the pipe.
        self.requests.take()?;
        let deadline = Instant::now() + grace;
        let exited = || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            !matches!(waitid(WaitId::Pid(self.group), options), Ok(None))
        };
        let mut has_ended = exited();
        while !has_ended && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
            has_ended = exited();
        }
        // It has not been waited for, so no other process has its number.
        let _ = kill_process_group(self.group, Signal::KILL);
        groups().retain(|group| *group != self.group);
        let status = self.child.wait().ok();
        status.filter(|_| has_ended)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.close();
    }
}

fn signal_name(signal: i32) -> String {
    let name = match Signal::from_named_raw(signal) {
        Some(Signal::SEGV) => "SIGSEGV (an access to memory that it does not have)",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::TERM) => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// Writes requests until there are no more, or the worker is gone, which is noticed where its answers are read.
fn send(requests: &Receiver<WireFrame>, mut input: ChildStdin) {
    for frame in requests {
        if frame.write(&mut input).is_err() {
            break;
        }
    }
}

/// Reads answers until the pipe ends or is damaged. One is read ahead at most.
fn receive(mut output: ChildStdout, answers: &SyncSender<io::Result<Option<WireFrame>>>) {
    loop {
        let frame = WireFrame::read(&mut output);
        let is_last = !matches!(frame, Ok(Some(_)));
        if answers.send(frame).is_err() || is_last {
            break;
        }
    }
}
