//! Sources from plugins.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use fairstream_core::{
    Adapter, Cause, EventBatch, Position, RejectedRow, Source, SourceError, SourceFactory, SourceRequest,
    catch_panic,
};
use fairstream_plugin_abi::ROW_COLUMNS;
use fairstream_plugin_abi::abi::{self, Error, Progress, RawSource, Str};

use crate::check::import;
use crate::library::{Library, WHATEVER_IT_TAKES, json, message};

/// Opens the sources of plugins.
#[derive(Clone, Copy, Debug)]
pub struct PluginSources;

impl SourceFactory for PluginSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "plugin",
            about: "a source from a shared library, whose path is the location",
            extensions: &[],
            options: &[WHATEVER_IT_TAKES],
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let origin = request.location.clone();
        let failed = |cause: Cause| SourceError::Open { origin: origin.clone(), cause };
        let library = Library::load(Path::new(&request.location)).map_err(|error| failed(error.into()))?;
        open(&library, request)
    }
}

/// Opens the source of a plugin.
///
/// # Errors
/// The plugin has no source, or it cannot be opened.
pub fn open(library: &Library, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
    let origin = request.location.clone();
    let failed = |cause: Cause| SourceError::Open { origin: origin.clone(), cause };
    let (Some(open), Some(offer)) = (library.open_source, &library.source) else {
        return Err(failed("it offers a sink, not a source".into()));
    };
    let bad_option = |bad| SourceError::Option { origin: origin.clone(), bad };
    offer.check(&request.options, &[]).map_err(bad_option)?;
    let fields = request.wanted.iter().map(|wanted| Field::new(&wanted.name, wanted.data_type.clone(), true));
    let wanted = Schema::new(fields.collect::<Vec<_>>());
    let wanted = FFI_ArrowSchema::try_from(&wanted).map_err(|error| failed(error.into()))?;
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
    let schema = stream.schema().and_then(|schema| check_schema(schema, request)).map_err(broken)?;
    let weak = Arc::downgrade(&handle);
    request.context.stop.on_stop(move || {
        if let Some(handle) = weak.upgrade() {
            handle.cancel();
        }
    });
    let is_own = |field: &&Arc<Field>| !ROW_COLUMNS.iter().any(|(name, _)| field.name() == name);
    let own: Vec<Arc<Field>> = schema.fields().iter().filter(is_own).cloned().collect();
    Ok(Box::new(PluginSource {
        name: format!("{origin} ({} {})", library.name, library.version),
        row_schema: Arc::new(schema),
        schema: Arc::new(Schema::new(own)),
        stream,
        handle,
        last_row: 0,
        end: request.resume.clone().unwrap_or_default(),
        ended: false,
        request: request.clone(),
    }))
}

fn check_schema(schema: Schema, request: &SourceRequest) -> Result<Schema, String> {
    for (index, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if schema.fields().iter().take(index).any(|other| other.name() == name) {
            return Err(format!("it gives a column `{name}` twice"));
        }
        let of_rows = ROW_COLUMNS.iter().find(|(known, _)| name == known).map(|(_, data_type)| data_type);
        let wanted = request.wanted.iter().find(|wanted| wanted.name == *name);
        match of_rows.or(wanted.map(|wanted| &wanted.data_type)) {
            None => return Err(format!("it gives a column `{name}`, which was not requested")),
            Some(data_type) if data_type != field.data_type() => {
                return Err(format!(
                    "its column `{name}` is {}, but {data_type} is wanted",
                    field.data_type()
                ));
            }
            Some(_) => {}
        }
    }
    match ["_time", "_row"].into_iter().find(|name| schema.index_of(name).is_err()) {
        Some(name) => Err(format!("it gives no column `{name}`")),
        None => Ok(schema),
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
        unsafe { import(array, schema) }.map(Some).map_err(Trouble::Broken)
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

/// Why there is no batch.
enum Trouble {
    /// The plugin returned an error.
    Failed(String),
    /// The plugin returned an invalid batch.
    Broken(String),
}

struct PluginSource {
    name: String,
    /// Schema of the plugin's batches, and of the returned batches.
    row_schema: SchemaRef,
    schema: SchemaRef,
    /// Declared before the handle, so that it is released first.
    stream: PluginStream,
    handle: Arc<Handle>,
    last_row: u64,
    end: Position,
    ended: bool,
    request: SourceRequest,
}

impl PluginSource {
    fn broken(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Broken { origin: self.name.clone(), reason: reason.into() }
    }

    fn cannot_read(&self, reason: String) -> SourceError {
        SourceError::Read { origin: self.name.clone(), row: self.last_row, cause: reason.into() }
    }

    /// The progress that the plugin reports.
    fn progress(&self) -> Result<(Position, u64, bool), SourceError> {
        let (mut progress, mut error) = (Progress::NONE, Error::NONE);
        let reported = self.handle.with(|raw, functions| {
            let Some(report) = functions.progress else { return Err(self.broken("it has no `progress`")) };
            // SAFETY: the source is open, and the output structs are ours.
            let code = unsafe { report(raw, &raw mut progress, &raw mut error) };
            if code != abi::code::OK {
                return Err(self.cannot_read(message(&mut error, code)));
            }
            // SAFETY: the bytes live until the next call on the source.
            let resume = unsafe { progress.resume.bytes() };
            let resume = resume.ok_or_else(|| self.broken("its position is not there"))?;
            Ok((
                Position { rows: progress.rows, resume: resume.into() },
                progress.dropped,
                progress.is_relative != 0,
            ))
        });
        reported.unwrap_or_else(|| Err(self.broken("it is closed")))
    }

    /// Converts a plugin's batch to events.
    fn events(&mut self, batch: &RecordBatch) -> Result<EventBatch, SourceError> {
        let none: ArrayRef = new_null_array(&DataType::Utf8, batch.num_rows());
        let column = |name: &str| batch.column_by_name(name).unwrap_or(&none);
        let (times, numbers) =
            (column("_time").as_primitive::<Int64Type>(), column("_row").as_primitive::<UInt64Type>());
        let (errors, faulty) = (column("_error").as_string::<i32>(), column("_column").as_string::<i32>());
        if batch.num_rows() > self.request.context.max_rows.get() {
            return Err(self
                .broken(format!("it gives a batch of {} rows, more than were asked for", batch.num_rows())));
        }
        if numbers.null_count() > 0
            || (0..batch.num_rows()).any(|row| times.is_null(row) && errors.is_null(row))
        {
            return Err(self.broken("it gives a row without a time or a number"));
        }
        for number in numbers.values() {
            if *number <= self.last_row && self.last_row > 0 {
                return Err(self.broken(format!("it gives row {number} after row {}", self.last_row)));
            }
            self.last_row = *number;
        }
        let rejected = (0..batch.num_rows()).filter(|row| errors.is_valid(*row)).map(|row| RejectedRow {
            row: numbers.value(row),
            column: faulty.is_valid(row).then(|| faulty.value(row).to_owned()),
            reason: errors.value(row).to_owned(),
        });
        let rejected: Vec<RejectedRow> = rejected.collect();
        let own: Vec<ArrayRef> =
            self.schema.fields().iter().map(|field| Arc::clone(column(field.name()))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let cut = |error: arrow::error::ArrowError| self.broken(error.to_string());
        let mut rows =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), own, &options).map_err(cut)?;
        let (mut times, mut numbers) = (times.values().clone(), numbers.values().clone());
        if !rejected.is_empty() {
            let good: BooleanArray = (0..batch.num_rows()).map(|row| Some(errors.is_null(row))).collect();
            rows = filter_record_batch(&rows, &good).map_err(cut)?;
            times = times
                .iter()
                .zip(&good)
                .filter(|(_, good)| *good == Some(true))
                .map(|(time, _)| *time)
                .collect();
            numbers =
                numbers.iter().zip(&good).filter(|(_, good)| *good == Some(true)).map(|(n, _)| *n).collect();
        }
        let (end, dropped, relative) = self.progress()?;
        self.end = end;
        let mut events = EventBatch::new(rows, times, numbers, self.end.clone());
        (events.rejected, events.dropped, events.relative) = (rejected, dropped, relative);
        Ok(events)
    }
}

impl Source for PluginSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.ended {
            return Ok(None);
        }
        let schema = Arc::clone(&self.row_schema);
        let next = self.stream.next(&schema);
        let batch = match next {
            Ok(Some(batch)) => self.events(&batch).map(Some),
            Ok(None) => Ok(None),
            Err(Trouble::Failed(reason)) => Err(self.cannot_read(reason)),
            Err(Trouble::Broken(reason)) => Err(self.broken(format!("it gives {reason}"))),
        };
        self.ended = !matches!(batch, Ok(Some(_)));
        batch
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
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
            code => Err(self.cannot_read(message(&mut error, code))),
        }
    }
}

impl Drop for PluginSource {
    fn drop(&mut self) {
        // The stream is released first, as the header requires.
        self.stream.0 = FFI_ArrowArrayStream::empty();
        self.handle.release();
    }
}
