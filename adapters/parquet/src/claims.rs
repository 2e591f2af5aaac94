//! Checks the sizes that Arrow IPC messages declare before memory is allocated for them: arrow-rs allocates the
//! declared size of a compressed buffer, and the process is aborted if that is too large.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{Block, Message, RecordBatch, root_as_footer, root_as_message};
use fairstream_core::Cause;

/// Maximum size of a batch in bytes, once it is decompressed: that is how much memory it takes.
const MOST: i64 = 512 << 20;

/// The extent of a message in the bytes of a stream.
pub(crate) struct Framed {
    /// Start of the metadata; then the start of the body and the end of the message.
    metadata: usize,
    body: usize,
    end: usize,
}

/// The first message of the bytes; `None` if it is incomplete.
pub(crate) fn first_message(bytes: &[u8]) -> Result<Option<Framed>, Cause> {
    let length = |at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied());
    // Since version 0.15, a continuation marker precedes the length.
    let at = if length(0) == Some([0xff; 4]) { 4 } else { 0 };
    let Some(length) = length(at) else { return Ok(None) };
    let length = usize::try_from(i32::from_le_bytes(length))
        .map_err(|_| "a message says that its length is negative")?;
    let (metadata, body) = (at + 4, at + 4 + length);
    let Some(header) = bytes.get(metadata..body) else { return Ok(None) };
    if header.is_empty() {
        return Ok(Some(Framed { metadata, body, end: body }));
    }
    let rest = usize::try_from(message(header)?.bodyLength()).ok().and_then(|rest| rest.checked_add(body));
    let end = rest.ok_or("a message says that it is longer than anything")?;
    Ok((bytes.len() >= end).then_some(Framed { metadata, body, end }))
}

impl Framed {
    /// End of the message.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Checks the declared sizes.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), Cause> {
        let (metadata, body) = (&bytes[self.metadata..self.body], &bytes[self.body..self.end]);
        if metadata.is_empty() {
            return Ok(());
        }
        check(metadata, |at| Ok(body.get(at..).and_then(|bytes| bytes.first_chunk().copied())))
    }
}

/// The messages of a file, as listed in its footer.
pub(crate) struct Listed {
    file: File,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Listed {
    /// Reads the footer of a file; `None` if it is damaged, which the reader of the file reports in detail.
    pub(crate) fn of(mut file: File) -> Result<Option<Listed>, Cause> {
        const END: u64 = 10;
        let length = file.metadata()?.len();
        let Some(before) = length.checked_sub(END) else { return Ok(None) };
        let mut end = [0; END as usize];
        file.seek(SeekFrom::Start(before))?;
        file.read_exact(&mut end)?;
        let Some(begin) = read_footer_length(end).ok().and_then(|footer| before.checked_sub(footer as u64))
        else {
            return Ok(None);
        };
        let mut footer = Vec::new();
        file.seek(SeekFrom::Start(begin))?;
        Read::by_ref(&mut file).take(before - begin).read_to_end(&mut footer)?;
        let Ok(footer) = root_as_footer(&footer) else { return Ok(None) };
        let (dictionaries, batches) = (footer.dictionaries(), footer.recordBatches());
        let (dictionaries, batches) =
            (dictionaries.iter().flatten().copied().collect(), batches.iter().flatten().copied().collect());
        Ok(Some(Listed { file, dictionaries, batches }))
    }

    /// Checks the declared sizes of dictionaries.
    pub(crate) fn check_dictionaries(&mut self) -> Result<(), Cause> {
        (0..self.dictionaries.len())
            .try_for_each(|index| check_block(&mut self.file, &self.dictionaries[index]))
    }

    /// Checks the declared sizes of a batch.
    pub(crate) fn check_batch(&mut self, index: usize) -> Result<(), Cause> {
        self.batches.get(index).map_or(Ok(()), |block| check_block(&mut self.file, block))
    }
}

fn check_block(file: &mut File, block: &Block) -> Result<(), Cause> {
    let begin = u64::try_from(block.offset())?;
    let (metadata, body) = (u64::try_from(block.metaDataLength())?, u64::try_from(block.bodyLength())?);
    let end = begin.checked_add(metadata).and_then(|end| end.checked_add(body));
    if end.is_none_or(|end| file.metadata().is_ok_and(|meta| meta.len() < end)) {
        return Err("a batch says that it goes on behind the end".into());
    }
    let mut header = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    Read::by_ref(file).take(metadata).read_to_end(&mut header)?;
    let header = header.strip_prefix(&[0xff; 4]).unwrap_or(&header);
    check(header.get(4..).unwrap_or_default(), |at| {
        let mut start = [0; 8];
        file.seek(SeekFrom::Start(begin + metadata + at as u64))?;
        Ok(file.read_exact(&mut start).is_ok().then_some(start))
    })
}

fn message(metadata: &[u8]) -> Result<Message<'_>, Cause> {
    root_as_message(metadata).map_err(|error| format!("a message cannot be read: {error}").into())
}

/// Checks every buffer of a message. `start` returns the bytes at an offset of its body, if there are any.
fn check(
    metadata: &[u8],
    mut start: impl FnMut(usize) -> Result<Option<[u8; 8]>, Cause>,
) -> Result<(), Cause> {
    let message = message(metadata)?;
    let rows: Option<RecordBatch<'_>> = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let Some(rows) = rows.filter(|rows| rows.compression().is_some()) else { return Ok(()) };
    let mut sum = 0_i64;
    for buffer in rows.buffers().iter().flatten().filter(|buffer| buffer.length() > 0) {
        let at = usize::try_from(buffer.offset()).map_err(|_| "a buffer begins before its batch")?;
        let claimed = start(at)?.map_or(0, i64::from_le_bytes);
        // A negative size stands for a buffer that is not compressed.
        sum = sum.saturating_add(claimed.max(0));
        if sum > MOST {
            return Err(format!(
                "a compressed batch or dictionary says that it is at least {sum} bytes when it is decompressed, more than \
                 the {MOST} that are read: it is damaged, or should be written in smaller batches"
            )
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::ipc::CompressionType;
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1000).map(|number| number % 7)));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|_| "the same")));
        RecordBatch::try_from_iter([("number", numbers), ("text", texts)]).unwrap()
    }

    fn options(compression: Option<CompressionType>) -> IpcWriteOptions {
        IpcWriteOptions::default().try_with_compression(compression).unwrap()
    }

    fn stream(compression: Option<CompressionType>) -> Vec<u8> {
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch().schema(), options(compression)).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    /// Checks every message of a stream. Returns their number.
    fn check_all(mut bytes: &[u8]) -> Result<usize, String> {
        let mut messages = 0;
        while let Some(framed) = first_message(bytes).map_err(|error| error.to_string())? {
            framed.check(bytes).map_err(|error| error.to_string())?;
            bytes = &bytes[framed.end()..];
            messages += 1;
        }
        Ok(messages)
    }

    #[test]
    fn what_was_written_may_be_read() {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let bytes = stream(compression);
            // The schema, the batch, and the end.
            assert_eq!(check_all(&bytes), Ok(3));
            assert_eq!(StreamReader::try_new(bytes.as_slice(), None).unwrap().count(), 1);
            for end in 0..bytes.len() {
                assert!(check_all(&bytes[..end]).is_ok_and(|messages| messages < 3), "cut at {end}");
            }
        }
    }

    /// Sets each 8-byte number in a stream and a file to a huge value in turn: where it is the declared size of a
    /// buffer, it is refused.
    #[test]
    fn enormous_claims_are_refused() {
        let compression = Some(CompressionType::ZSTD);
        let bytes = stream(compression);
        let enormous = |bytes: &[u8], at: usize| {
            let mut changed = bytes.to_vec();
            changed[at..at + 8].copy_from_slice(&(1_i64 << 45).to_le_bytes());
            changed
        };
        let refused =
            |changed: &[u8]| check_all(changed).is_err_and(|reason| reason.contains("compressed batch"));
        let places = (0..bytes.len() - 8).filter(|at| refused(&enormous(&bytes, *at)));
        // Numbers have a buffer of values; texts have offsets and bytes. There are no null buffers.
        assert!(places.count() >= 3);

        let mut writer =
            FileWriter::try_new_with_options(Vec::new(), &batch().schema(), options(compression)).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap();
        let bytes = writer.into_inner().unwrap();
        let check_file = |bytes: &[u8]| -> Result<(), Cause> {
            let mut file = tempfile::tempfile()?;
            file.write_all(bytes)?;
            let mut listed = Listed::of(file)?.ok_or("no footer")?;
            listed.check_dictionaries()?;
            listed.check_batch(0)
        };
        check_file(&bytes).unwrap();
        let places = (0..bytes.len() - 8).filter(|at| {
            check_file(&enormous(&bytes, *at))
                .is_err_and(|error| error.to_string().contains("compressed batch"))
        });
        assert!(places.count() >= 3);
    }
}
