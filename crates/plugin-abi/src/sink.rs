//! A sink behind the C ABI.

use arrow::array::{RecordBatch, StructArray};
use arrow::datatypes::Schema;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use fairstream_core::{RunEnd, Sink, SinkFactory, SinkRequest, VerdictBatch, catch_panic, verdict_schema};

use crate::abi::{Error, Progress, RawSink, Str, code, run_end};
use crate::export::{options, written};
use crate::guard::{Failure, guarded};

/// Private data of an open sink.
struct OpenedSink {
    /// `None` once it is finished.
    sink: Option<Box<dyn Sink>>,
    schema: FFI_ArrowSchema,
    /// Borrowed by the host until its next call.
    resume: Vec<u8>,
}

/// Opens a sink of a factory for a host.
///
/// # Safety
/// The arguments are those of `open_sink` in the header.
pub unsafe fn open_sink(
    factory: &dyn SinkFactory,
    options_json: Str,
    verdicts: *const FFI_ArrowSchema,
    resume: Str,
    out: *mut RawSink,
    error: *mut Error,
) -> i32 {
    let open = || {
        // SAFETY: the host lends all of these for the call.
        let ((location, mut options), verdicts, resume) =
            unsafe { (options(options_json)?, verdicts.as_ref(), resume.bytes().unwrap_or_default()) };
        let schema = verdicts.and_then(|schema| Schema::try_from(schema).ok());
        if schema.is_none_or(|schema| schema.fields() != verdict_schema().fields()) {
            let message = "the verdicts of this host have other columns than those it was built for";
            return Err(Failure::new(code::UNSUPPORTED, message));
        }
        let select = options.take("select").unwrap_or_default();
        let select = select.parse().unwrap_or_default();
        let request = SinkRequest { location, options, select, resume: written::read(resume)? };
        let sink = factory.open(&request)?;
        let schema = FFI_ArrowSchema::try_from(verdict_schema().as_ref())
            .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        let opened = Box::new(OpenedSink { sink: Some(sink), schema, resume: Vec::new() });
        // SAFETY: the host provides it to be filled.
        unsafe {
            out.write(RawSink {
                write: Some(write),
                flush: Some(flush),
                finish: Some(finish),
                release: Some(release),
                private_data: Box::into_raw(opened).cast(),
                ..RawSink::CLOSED
            });
        }
        Ok(())
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, open) }
}

/// # Safety
/// The host has received it from `open_sink` and has not released it.
unsafe fn opened<'a>(sink: *mut RawSink) -> &'a mut OpenedSink {
    // SAFETY: `open_sink` stored a box of this type there, and only `release` removes it.
    unsafe { &mut *(*sink).private_data.cast::<OpenedSink>() }
}

fn gone() -> Failure {
    Failure::new(code::INTERNAL, "the sink is finished already")
}

unsafe extern "C" fn write(sink: *mut RawSink, batch: *mut FFI_ArrowArray, error: *mut Error) -> i32 {
    let write = || {
        // SAFETY: the host has received the sink from `open_sink`, and moves the batch here.
        let (opened, batch) = unsafe { (opened(sink), FFI_ArrowArray::from_raw(batch)) };
        // SAFETY: the host guarantees that it has the schema that was passed to `open_sink`.
        let data = unsafe { from_ffi(batch, &opened.schema) };
        let data = data.map_err(|error| Failure::new(code::BAD_DATA, error.to_string()))?;
        let rows = RecordBatch::from(StructArray::from(data));
        let rows = rows.with_schema(verdict_schema()).ok().and_then(VerdictBatch::new);
        let rows = rows.ok_or_else(|| Failure::new(code::BAD_DATA, "the batch has no verdicts in it"))?;
        Ok(opened.sink.as_mut().ok_or_else(gone)?.write(&rows)?)
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, write) }
}

unsafe extern "C" fn flush(sink: *mut RawSink, out: *mut Progress, error: *mut Error) -> i32 {
    let flush = || {
        // SAFETY: the host has received it from `open_sink`.
        let opened = unsafe { opened(sink) };
        let position = opened.sink.as_mut().ok_or_else(gone)?.flush()?;
        opened.resume = position.as_ref().map(written::of).unwrap_or_default();
        let rows = position.map_or(0, |position| position.rows);
        // SAFETY: the host provides it to be filled.
        unsafe { out.write(Progress { rows, resume: Str::of(&opened.resume), ..Progress::NONE }) };
        Ok(())
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, flush) }
}

unsafe extern "C" fn finish(sink: *mut RawSink, end: i32, reason: Str, error: *mut Error) -> i32 {
    let finish = || {
        // SAFETY: the host has received it from `open_sink`, and lends the text.
        let (opened, reason) = unsafe { (opened(sink), reason.text().unwrap_or_default()) };
        let end = match end {
            run_end::COMPLETE => RunEnd::Complete,
            run_end::STOPPED => RunEnd::Stopped,
            _ => RunEnd::Failed(reason.to_owned()),
        };
        Ok(opened.sink.take().ok_or_else(gone)?.finish(&end)?)
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, finish) }
}

unsafe extern "C" fn release(sink: *mut RawSink) {
    // SAFETY: this is the only and last call of the host with this sink.
    let opened = unsafe { Box::from_raw((*sink).private_data.cast::<OpenedSink>()) };
    let _ = catch_panic(|| drop(opened));
    // SAFETY: the struct still belongs to the host, which can detect a second call by this.
    unsafe { (*sink).release = None };
}
