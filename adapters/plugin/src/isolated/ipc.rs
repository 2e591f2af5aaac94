//! Schemas and batches as Arrow IPC streams. What is read may have been written by anything: sizes are checked before
//! memory is allocated for them, and values before they are used.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::root_as_message;
use arrow::ipc::writer::StreamWriter;
use fairstream_core::catch_panic;

/// A schema, as a stream without batches.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    writer.finish()?;
    writer.into_inner()
}

/// A batch, as a stream of its own.
pub(super) fn batch_bytes(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    writer.into_inner()
}

/// Reads a schema: the first message of a stream.
pub(super) fn read_schema(bytes: &[u8]) -> Result<SchemaRef, String> {
    let (metadata, _) = extent(bytes)?;
    guarded(|| {
        let message = root_as_message(metadata).map_err(|error| error.to_string())?;
        let schema = message.header_as_schema().ok_or("there is no schema")?;
        try_fb_to_schema(schema).map(Arc::new).map_err(said)
    })
}

/// Reads the batch of a stream, which has to have this schema.
pub(super) fn read_batch(bytes: Vec<u8>, schema: &Schema) -> Result<RecordBatch, String> {
    refuse_compression(&bytes)?;
    let found = read_schema(&bytes)?;
    if found.fields() != schema.fields() {
        return Err("it has other columns than were announced".to_owned());
    }
    guarded(|| {
        let (mut decoder, mut bytes) = (StreamDecoder::new(), Buffer::from_vec(bytes));
        while !bytes.is_empty() {
            if let Some(batch) = decoder.decode(&mut bytes).map_err(said)? {
                for column in batch.columns() {
                    column.to_data().validate_full().map_err(said)?;
                }
                let batch = batch.with_schema(Arc::new(schema.clone())).map_err(said)?;
                return Ok(batch);
            }
        }
        Err("there is no batch".to_owned())
    })
}

fn said(error: ArrowError) -> String {
    error.to_string()
}

fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_panic(read).unwrap_or_else(Err)
}

/// The metadata of the first message, and the end of its body.
fn extent(bytes: &[u8]) -> Result<(&[u8], usize), String> {
    let cut = || "a message is cut off".to_owned();
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied()).ok_or_else(cut);
    let at = if number(0)? == [0xff; 4] { 4 } else { 0 };
    let length = usize::try_from(i32::from_le_bytes(number(at)?)).map_err(|_| cut())?;
    let metadata = bytes.get(at + 4..).and_then(|rest| rest.get(..length)).ok_or_else(cut)?;
    let body_at = at + 4 + length;
    if metadata.is_empty() {
        return Ok((metadata, body_at));
    }
    let message = root_as_message(metadata).map_err(|error| format!("a message cannot be read: {error}"))?;
    let end = usize::try_from(message.bodyLength()).ok().and_then(|body| body.checked_add(body_at));
    Ok((metadata, end.filter(|end| *end <= bytes.len()).ok_or_else(cut)?))
}

/// Workers compress nothing. A compressed buffer says how large it will be, and Arrow allocates that.
fn refuse_compression(mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() {
        let (metadata, end) = extent(bytes)?;
        if metadata.is_empty() {
            return Ok(());
        }
        let message = root_as_message(metadata).map_err(|error| error.to_string())?;
        let rows = message
            .header_as_record_batch()
            .or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
        if rows.is_some_and(|rows| rows.compression().is_some()) {
            return Err("a batch is compressed".to_owned());
        }
        bytes = &bytes[end..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter((0..100).map(|n| (n % 3 > 0).then(|| n.to_string()))));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true)]).unwrap()
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let batch = batch();
        assert_eq!(read_schema(&schema_bytes(&batch.schema()).unwrap()), Ok(batch.schema()));
        let bytes = batch_bytes(&batch).unwrap();
        assert_eq!(read_batch(bytes.clone(), &batch.schema()), Ok(batch.clone()));
        let other = Schema::new(vec![batch.schema().field(0).clone()]);
        assert!(read_batch(bytes, &other).is_err_and(|reason| reason.contains("other columns")));
    }

    /// Whatever is changed, there is an error or a valid batch, and no panic.
    #[test]
    fn damaged_bytes_are_errors_or_valid_batches() {
        let schema = batch().schema();
        let bytes = batch_bytes(&batch()).unwrap();
        for at in 0..bytes.len() {
            let _ = read_batch(bytes[..at].to_vec(), &schema);
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(batch) = read_batch(damaged, &schema) {
                    assert_eq!(batch.schema(), schema);
                }
            }
        }
        for garbage in
            [&b""[..], b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"not a stream at all"]
        {
            assert!(read_schema(garbage).is_err() && read_batch(garbage.to_vec(), &schema).is_err());
        }
    }
}
