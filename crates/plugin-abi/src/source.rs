//! A source behind the C ABI.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray, UInt32Array, UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use fairstream_core::{
    EventBatch, Position, RejectedRow, Source, SourceContext, SourceFactory, SourceRequest, StopToken,
    TimeRange, WantedColumn, catch_panic,
};

use crate::abi::{Error, Progress, RawSource, Str, code};
use crate::export::{options, written};
use crate::guard::{Failure, guarded};

/// The columns that precede those of the source.
pub const ROW_COLUMNS: [(&str, DataType); 4] = [
    ("_time", DataType::Int64),
    ("_row", DataType::UInt64),
    ("_error", DataType::Utf8),
    ("_column", DataType::Utf8),
];

/// Private data of an open source.
struct OpenedSource {
    shared: Arc<Mutex<Shared>>,
    stop: StopToken,
    /// Borrowed by the host until its next call.
    resume: Mutex<Vec<u8>>,
}

/// State that the stream and the source share.
struct Shared {
    source: Box<dyn Source>,
    end: Position,
    dropped: u64,
    is_relative: bool,
}

/// Opens a source of a factory for a host.
///
/// # Safety
/// The arguments are those of `open_source` in the header.
#[allow(clippy::too_many_arguments, reason = "the header has as many")]
pub unsafe fn open_source(
    factory: &dyn SourceFactory,
    options_json: Str,
    wanted: *const FFI_ArrowSchema,
    max_rows: u64,
    max_age_ms: u64,
    resume: Str,
    stream: *mut FFI_ArrowArrayStream,
    out: *mut RawSource,
    error: *mut Error,
) -> i32 {
    let open = || {
        // SAFETY: the host lends all of these for the call.
        let (options, wanted, resume) =
            unsafe { (options(options_json)?, wanted.as_ref(), resume.bytes().unwrap_or_default()) };
        let wanted = wanted.ok_or_else(|| Failure::new(code::BAD_DATA, "there is no schema"))?;
        let wanted =
            Schema::try_from(wanted).map_err(|error| Failure::new(code::BAD_DATA, error.to_string()))?;
        let stop = StopToken::default();
        let at_least_one = |rows: u64| usize::try_from(rows).ok().and_then(NonZeroUsize::new);
        let context = SourceContext {
            stop: stop.clone(),
            max_rows: at_least_one(max_rows).unwrap_or(SourceContext::default().max_rows),
            max_age: Duration::from_millis(max_age_ms),
            ..SourceContext::default()
        };
        let (location, options) = options;
        let request = SourceRequest {
            location,
            others: Vec::new(),
            options,
            wanted: wanted
                .fields()
                .iter()
                .map(|field| WantedColumn::new(field.name(), field.data_type().clone()))
                .collect(),
            // The host leaves out rows outside the monitored time range.
            time_range: TimeRange::default(),
            resume: written::read(resume)?,
            context,
        };
        let source = factory.open(&request)?;
        let end = request.resume.unwrap_or_default();
        let schema = row_schema(&source.schema());
        let shared = Arc::new(Mutex::new(Shared { source, end, dropped: 0, is_relative: false }));
        let reader = SourceStream { shared: Arc::clone(&shared), schema };
        let opened = Box::new(OpenedSource { shared, stop, resume: Mutex::default() });
        // SAFETY: the host provides both to be filled.
        unsafe {
            stream.write(FFI_ArrowArrayStream::new(Box::new(reader)));
            out.write(RawSource {
                progress: Some(progress),
                acknowledge: Some(acknowledge),
                cancel: Some(cancel),
                release: Some(release),
                private_data: Box::into_raw(opened).cast(),
                ..RawSource::CLOSED
            });
        }
        Ok(())
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, open) }
}

fn row_schema(schema: &SchemaRef) -> SchemaRef {
    let row = ROW_COLUMNS.into_iter().map(|(name, data_type)| Field::new(name, data_type, true));
    let own = schema.fields().iter().map(|field| field.as_ref().clone());
    Arc::new(Schema::new(row.chain(own).collect::<Vec<_>>()))
}

/// The batches of a source as an Arrow stream.
struct SourceStream {
    shared: Arc<Mutex<Shared>>,
    schema: SchemaRef,
}

impl Iterator for SourceStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = catch_panic(|| {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let batch = shared.source.next_batch()?;
            if let Some(batch) = &batch {
                shared.end = batch.end.clone();
                shared.dropped += batch.dropped;
                shared.is_relative = batch.relative;
            }
            Ok::<_, Failure>(batch)
        });
        // A zero in a message would end the C string.
        let failed =
            |message: String| Some(Err(ArrowError::ExternalError(message.replace('\0', "␀").into())));
        match next {
            Ok(Ok(Some(batch))) => match rows(batch, &self.schema) {
                Ok(rows) => Some(Ok(rows)),
                Err(error) => failed(error.to_string()),
            },
            Ok(Ok(None)) => None,
            Ok(Err(Failure { message, .. })) => failed(message),
            Err(panic) => failed(format!("it panicked: {panic}")),
        }
    }
}

impl RecordBatchReader for SourceStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Valid and rejected rows together, in the order of their numbers.
fn rows(batch: EventBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let mut rejected = batch.rejected.iter().peekable();
    let mut places: Vec<(Option<u32>, Option<&RejectedRow>)> = Vec::new();
    for (index, number) in (0..).zip(batch.row_numbers.iter()) {
        while let Some(bad) = rejected.next_if(|bad| bad.row < *number) {
            places.push((None, Some(bad)));
        }
        places.push((Some(index), None));
    }
    places.extend(rejected.map(|bad| (None, Some(bad))));
    let number = |place: &(Option<u32>, Option<&RejectedRow>)| match *place {
        (Some(index), _) => batch.row_numbers[index as usize],
        (None, bad) => bad.map_or(0, |bad| bad.row),
    };
    let time = |index: Option<u32>| index.map_or(0, |index| batch.times[index as usize]);
    let times: Int64Array = places.iter().map(|(index, _)| Some(time(*index))).collect();
    let numbers: UInt64Array = places.iter().map(|place| Some(number(place))).collect();
    let errors: StringArray = places.iter().map(|(_, bad)| bad.map(|bad| bad.reason.as_str())).collect();
    let faulty: StringArray =
        places.iter().map(|(_, bad)| bad.and_then(|bad| bad.column.as_deref())).collect();
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(times), Arc::new(numbers), Arc::new(errors), Arc::new(faulty)];
    if batch.rejected.is_empty() {
        columns.extend(batch.rows.columns().iter().map(Arc::clone));
    } else {
        let indices: UInt32Array = places.iter().map(|(index, _)| *index).collect();
        for column in batch.rows.columns() {
            columns.push(take(column, &indices, None)?);
        }
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// # Safety
/// The host has received it from `open_source` and has not released it.
unsafe fn opened<'a>(source: *mut RawSource) -> &'a OpenedSource {
    // SAFETY: `open_source` stored a box of this type there, and only `release` removes it. Until then only shared
    // references exist, as `cancel` may be called at any time.
    unsafe { &*(*source).private_data.cast::<OpenedSource>() }
}

unsafe extern "C" fn progress(source: *mut RawSource, out: *mut Progress, error: *mut Error) -> i32 {
    let report = || {
        // SAFETY: the host has received it from `open_source`.
        let opened = unsafe { opened(source) };
        let mut shared = opened.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut resume = opened.resume.lock().unwrap_or_else(PoisonError::into_inner);
        *resume = written::of(&shared.end);
        let progress = Progress {
            rows: shared.end.rows,
            dropped: std::mem::take(&mut shared.dropped),
            is_relative: shared.is_relative.into(),
            resume: Str::of(&resume),
        };
        // SAFETY: the host provides it to be filled.
        unsafe { out.write(progress) };
        Ok(())
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, report) }
}

unsafe extern "C" fn acknowledge(source: *mut RawSource, _rows: u64, resume: Str, error: *mut Error) -> i32 {
    let acknowledge = || {
        // SAFETY: the host has received it from `open_source`, and lends the bytes.
        let (opened, resume) = unsafe { (opened(source), resume.bytes().unwrap_or_default()) };
        let Some(through) = written::read(resume)? else { return Ok(()) };
        let mut shared = opened.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(shared.source.acknowledge(&through)?)
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, acknowledge) }
}

unsafe extern "C" fn cancel(source: *mut RawSource) {
    // SAFETY: the host has received it from `open_source`.
    let opened = unsafe { opened(source) };
    let _ = catch_panic(|| opened.stop.stop());
}

unsafe extern "C" fn release(source: *mut RawSource) {
    // SAFETY: this is the only and last call of the host with this source.
    let opened = unsafe { Box::from_raw((*source).private_data.cast::<OpenedSource>()) };
    let _ = catch_panic(|| drop(opened));
    // SAFETY: the struct still belongs to the host, which can detect a second call by this.
    unsafe { (*source).release = None };
}
