//! Rows from a plugin in this process.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use fairstream_core::{Cause, Position, SourceError, SourceRequest, catch_panic};
use fairstream_plugin_abi::abi::{self, Error, Progress, RawSource, Str};

use crate::check::import;
use crate::library::{Library, json, message};
use crate::rows::{PluginRows, RowProgress, Trouble};

/// The rows of a plugin that this process has loaded.
pub(crate) struct LoadedRows {
    schema: Schema,
    /// Declared before the handle, so that it is released first.
    stream: PluginStream,
    handle: Arc<Handle>,
}

impl LoadedRows {
    /// Opens the source of a plugin. A stop of the request's context cancels it.
    ///
    /// # Errors
    /// The plugin has no source, or it cannot be opened.
    pub(crate) fn open(library: &Library, request: &SourceRequest) -> Result<LoadedRows, SourceError> {
        let origin = request.location.clone();
        let failed = |cause: Cause| SourceError::Open { origin: origin.clone(), cause };
        let (Some(open), Some(offer)) = (library.open_source, &library.source) else {
            return Err(failed("it offers a sink, not a source".into()));
        };
        let bad_option = |bad| SourceError::Option { origin: origin.clone(), bad };
        offer.check(&request.options, &[]).map_err(bad_option)?;
        let wanted =
            FFI_ArrowSchema::try_from(&wanted_schema(request)).map_err(|error| failed(error.into()))?;
        let options = json(&request.options);
        let resume = request.resume.as_ref().map_or(&[][..], |position| &position.resume);
        let max_age = u64::try_from(request.context.max_age.as_millis()).unwrap_or(u64::MAX);
        let mut raw = Box::new(RawSource::CLOSED);
        let (mut stream, mut error) = (FFI_ArrowArrayStream::empty(), Error::NONE);
        // SAFETY: all borrowed arguments outlive the call, and the output structs are ours.
        let code = unsafe {
            open(
                Str::of(options.as_bytes()),
                &raw const wanted,
                request.context.max_rows.get() as u64,
                max_age,
                Str::of(resume),
                &raw mut stream,
                &raw mut *raw,
                &raw mut error,
            )
        };
        if code != abi::code::OK {
            return Err(failed(message(&mut error, code).into()));
        }
        let broken = |reason: String| SourceError::Broken { origin: origin.clone(), reason };
        if raw.size < size_of::<RawSource>() {
            let (size, expected) = (raw.size, size_of::<RawSource>());
            return Err(broken(format!("its FairstreamSource has {size} bytes, and {expected} are needed")));
        }
        if raw.release.is_none() || raw.progress.is_none() || stream.get_next().is_none() {
            return Err(broken("a function is missing that the header asks for".to_owned()));
        }
        let handle = Arc::new(Handle(Mutex::new(Some(raw))));
        let mut stream = PluginStream(stream);
        let schema = stream.schema().map_err(broken)?;
        let weak = Arc::downgrade(&handle);
        request.context.stop.on_stop(move || {
            if let Some(handle) = weak.upgrade() {
                handle.cancel();
            }
        });
        Ok(LoadedRows { schema, stream, handle })
    }

    /// The schema of the batches, as the plugin declares it.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// The wanted columns of a request.
pub(crate) fn wanted_schema(request: &SourceRequest) -> Schema {
    let fields = request.wanted.iter().map(|wanted| Field::new(&wanted.name, wanted.data_type.clone(), true));
    Schema::new(fields.collect::<Vec<_>>())
}

impl PluginRows for LoadedRows {
    fn next(&mut self) -> Result<Option<RecordBatch>, Trouble> {
        self.stream.next(&self.schema)
    }

    fn progress(&mut self) -> Result<RowProgress, Trouble> {
        let (mut progress, mut error) = (Progress::NONE, Error::NONE);
        let broken = |reason: &str| Trouble::Broken(reason.to_owned());
        let reported = self.handle.with(|raw, functions| {
            let report = functions.progress.ok_or_else(|| broken("it has no `progress`"))?;
            // SAFETY: the source is open, and the output structs are ours.
            let code = unsafe { report(raw, &raw mut progress, &raw mut error) };
            if code != abi::code::OK {
                return Err(Trouble::Failed(message(&mut error, code)));
            }
            // SAFETY: the bytes live until the next call on the source.
            let resume = unsafe { progress.resume.bytes() };
            let resume = resume.ok_or_else(|| broken("its position is not there"))?;
            Ok(RowProgress {
                end: Position { rows: progress.rows, resume: resume.into() },
                dropped: progress.dropped,
                is_relative: progress.is_relative != 0,
            })
        });
        reported.unwrap_or_else(|| Err(broken("it is closed")))
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), Trouble> {
        let mut error = Error::NONE;
        let code = self.handle.with(|raw, functions| match functions.acknowledge {
            None => abi::code::OK,
            // SAFETY: the source is open, and all borrowed arguments outlive the call.
            Some(acknowledge) => unsafe {
                acknowledge(raw, through.rows, Str::of(&through.resume), &raw mut error)
            },
        });
        match code.unwrap_or(abi::code::OK) {
            abi::code::OK => Ok(()),
            code => Err(Trouble::Failed(message(&mut error, code))),
        }
    }
}

impl Drop for LoadedRows {
    fn drop(&mut self) {
        // The stream is released first, as the header requires.
        self.stream.0 = FFI_ArrowArrayStream::empty();
        self.handle.release();
    }
}

/// The plugin's struct of an open source. Any thread may cancel it.
struct Handle(Mutex<Option<Box<RawSource>>>);

// SAFETY: the contract permits use from any thread, by one thread at a time; only `cancel` may be called
// concurrently.
unsafe impl Send for Handle {}
// SAFETY: as above; shared use is behind the lock, or is `cancel`.
unsafe impl Sync for Handle {}

impl Handle {
    fn cancel(&self) {
        let mut raw = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raw) = raw.as_mut()
            && let Some(cancel) = raw.cancel
        {
            // SAFETY: it has not been released; `cancel` may be called at any time.
            unsafe { cancel(&raw mut **raw) };
        }
    }

    fn with<T>(&self, work: impl FnOnce(*mut RawSource, &RawSource) -> T) -> Option<T> {
        let mut raw = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raw.as_mut().map(|raw| {
            let pointer = &raw mut **raw;
            work(pointer, raw)
        })
    }

    fn release(&self) {
        let raw = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut raw) = raw
            && let Some(release) = raw.release
        {
            // SAFETY: this is the only call of `release`, and the last use of the struct.
            unsafe { release(&raw mut *raw) };
        }
    }
}

/// The batches of an open source.
struct PluginStream(FFI_ArrowArrayStream);

// SAFETY: the contract permits use from any thread, by one thread at a time.
unsafe impl Send for PluginStream {}

impl PluginStream {
    fn schema(&mut self) -> Result<Schema, String> {
        let Some(get_schema) = self.0.get_schema() else { return Err("its stream has no schema".to_owned()) };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: both structs are ours and outlive the call.
        let code = unsafe { get_schema(&raw mut self.0, &raw mut schema) };
        if code != 0 {
            return Err(self.last_error(code));
        }
        let read = catch_panic(|| Schema::try_from(&schema));
        let read = read.map_err(|panic| format!("its schema is none: {panic}"))?;
        read.map_err(|error| format!("its schema is none: {error}"))
    }

    /// The next batch; `None` at the end.
    fn next(&mut self, schema: &Schema) -> Result<Option<RecordBatch>, Trouble> {
        let Some(get_next) = self.0.get_next() else { return Ok(None) };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: both structs are ours and outlive the call.
        let code = unsafe { get_next(&raw mut self.0, &raw mut array) };
        if code != 0 {
            return Err(Trouble::Failed(self.last_error(code)));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: the stream has just filled it.
        let batch = unsafe { import(array, schema) };
        batch.map(Some).map_err(|reason| Trouble::Broken(format!("it gives {reason}")))
    }

    fn last_error(&mut self, code: i32) -> String {
        let unknown = || format!("it gives no reason (code {code})");
        let Some(get_last_error) = self.0.get_last_error() else { return unknown() };
        // SAFETY: the stream is ours, and its text lives until the next call on it.
        let text = unsafe { get_last_error(&raw mut self.0) };
        if text.is_null() {
            return unknown();
        }
        // SAFETY: the Arrow C stream interface guarantees that the text ends with a zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
