//! Sinks from plugins.

use std::path::Path;

use arrow::array::{Array, StructArray};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use fairstream_core::{
    Adapter, Cause, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest, VerdictBatch,
    verdict_schema,
};
use fairstream_plugin_abi::abi::{self, Error, Progress, RawSink, Str};

use crate::isolated::{self, Isolation, WorkerCommand};
use crate::library::{Library, json, message};

/// Opens the sinks of plugins.
#[derive(Clone, Copy, Debug)]
pub struct PluginSinks;

impl SinkFactory for PluginSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "plugin",
            about: "a sink from a shared library, whose path is the location",
            extensions: &[],
            options: &isolated::OPTIONS,
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let mut request = request.clone();
        let isolation = Isolation::of(&mut request.options)
            .map_err(|bad| SinkError::Option { sink: request.location.clone(), bad })?;
        let failed = |cause: Cause| SinkError::Open { sink: request.location.clone(), cause };
        match isolation {
            #[cfg(unix)]
            Some(isolation) => {
                let worker = WorkerCommand::this_executable().map_err(|error| failed(error.into()))?;
                isolated::sink::open(&worker, isolation, &request)
            }
            #[cfg(not(unix))]
            Some(_) => Err(failed(isolated::ONLY_UNIX.into())),
            None => {
                let library = Library::load(Path::new(&request.location));
                open(&library.map_err(|error| failed(error.into()))?, &request)
            }
        }
    }
}

/// Opens the sink of a plugin in this process.
///
/// # Errors
/// The plugin has no sink, or it cannot be opened.
pub fn open(library: &Library, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
    let failed = |cause: Cause| SinkError::Open { sink: request.location.clone(), cause };
    let (Some(open), Some(offer)) = (library.open_sink, &library.sink) else {
        return Err(failed("it offers a source, not a sink".into()));
    };
    let bad_option = |bad| SinkError::Option { sink: request.location.clone(), bad };
    offer.check(&request.options, &["select"]).map_err(bad_option)?;
    let schema =
        FFI_ArrowSchema::try_from(verdict_schema().as_ref()).map_err(|error| failed(error.into()))?;
    let options = json(&request.options);
    let resume = request.resume.as_ref().map_or(&[][..], |position| &position.resume);
    let (mut raw, mut error) = (Box::new(RawSink::CLOSED), Error::NONE);
    // SAFETY: all borrowed arguments outlive the call, and the output structs are ours.
    let code = unsafe {
        open(Str::of(options.as_bytes()), &raw const schema, Str::of(resume), &raw mut *raw, &raw mut error)
    };
    if code != abi::code::OK {
        return Err(failed(message(&mut error, code).into()));
    }
    if raw.size < size_of::<RawSink>() {
        let (size, expected) = (raw.size, size_of::<RawSink>());
        return Err(failed(
            format!("it is broken: its FairstreamSink has {size} bytes, and {expected} are needed").into(),
        ));
    }
    let name = format!("{} ({} {})", request.location, library.name, library.version);
    Ok(Box::new(PluginSink { name, select: request.select, raw }))
}

struct PluginSink {
    name: String,
    select: Selection,
    raw: Box<RawSink>,
}

// SAFETY: the contract permits use from any thread, by one thread at a time.
unsafe impl Send for PluginSink {}

impl PluginSink {
    fn result(&self, code: i32, error: &mut Error) -> Result<(), SinkError> {
        let sink = self.name.clone();
        match code {
            abi::code::OK => Ok(()),
            abi::code::HUNG_UP => {
                let _ = message(error, code);
                Err(SinkError::HungUp { sink })
            }
            code => Err(SinkError::Write { sink, cause: message(error, code).into() }),
        }
    }

    fn missing(&self, what: &str) -> SinkError {
        SinkError::Write {
            sink: self.name.clone(),
            cause: format!("it is broken: it has no `{what}`").into(),
        }
    }
}

impl Sink for PluginSink {
    fn name(&self) -> &str {
        &self.name
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let Some(write) = self.raw.write else { return Err(self.missing("write")) };
        let mut array = FFI_ArrowArray::new(&StructArray::from(batch.rows().clone()).to_data());
        let mut error = Error::NONE;
        // SAFETY: the sink is open; the call takes ownership of the batch, so it must not be dropped here.
        let code = unsafe { write(&raw mut *self.raw, &raw mut array, &raw mut error) };
        std::mem::forget(array);
        self.result(code, &mut error)
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        let Some(flush) = self.raw.flush else { return Err(self.missing("flush")) };
        let (mut progress, mut error) = (Progress::NONE, Error::NONE);
        // SAFETY: the sink is open, and the output structs are ours.
        let code = unsafe { flush(&raw mut *self.raw, &raw mut progress, &raw mut error) };
        self.result(code, &mut error)?;
        // SAFETY: the bytes live until the next call on the sink.
        let resume = unsafe { progress.resume.bytes() }.filter(|resume| !resume.is_empty());
        Ok(resume.map(|resume| Position { rows: progress.rows, resume: resume.into() }))
    }

    fn finish(mut self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let Some(finish) = self.raw.finish else { return Err(self.missing("finish")) };
        let (end, reason) = match end {
            RunEnd::Complete => (abi::run_end::COMPLETE, ""),
            RunEnd::Stopped => (abi::run_end::STOPPED, ""),
            RunEnd::Failed(reason) => (abi::run_end::FAILED, reason.as_str()),
        };
        let mut error = Error::NONE;
        // SAFETY: the sink is open, and all borrowed arguments outlive the call.
        let code = unsafe { finish(&raw mut *self.raw, end, Str::of(reason.as_bytes()), &raw mut error) };
        self.result(code, &mut error)
    }
}

impl Drop for PluginSink {
    fn drop(&mut self) {
        if let Some(release) = self.raw.release {
            // SAFETY: this is the only call of `release`, and the last call on the sink.
            unsafe { release(&raw mut *self.raw) };
        }
    }
}
