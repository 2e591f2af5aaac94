//! Reads record batches of Arrow IPC, from a file or from a stream.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::{FileReader, StreamDecoder};
use fairstream_core::{Cause, StopToken};
use fairstream_files::{Filled, Input};

use crate::claims::{Listed, first_message};
use crate::file::guarded;
use crate::path::ColumnPath;

/// Record batches, one after another.
pub(crate) struct Ipc {
    name: String,
    kind: IpcKind,
}

enum IpcKind {
    /// The file format, whose footer lists the batches.
    File {
        path: String,
        reader: Box<FileReader<File>>,
        listed: Box<Listed>,
        /// Index of the next batch.
        next: usize,
    },
    Stream(Box<Stream>),
}

struct Stream {
    input: Input,
    decoder: StreamDecoder,
    /// Bytes that have been read; those before `decoded` have been decoded.
    bytes: Vec<u8>,
    decoded: usize,
    /// A batch that was decoded together with the schema.
    first: Option<RecordBatch>,
    schema: SchemaRef,
}

/// Result of waiting for a record batch.
pub(crate) enum NextMessage {
    Rows(RecordBatch),
    /// The deadline passed before the batch was complete.
    NotYet,
    End,
}

/// Result of decoding a message.
enum Decoded {
    Rows(RecordBatch),
    /// A schema, a dictionary, or the end of the stream.
    Other,
    /// The message is incomplete.
    NotYet,
}

const FILE_MARK: &[u8] = b"ARROW1";

impl Ipc {
    /// Opens a path, or standard input for `-`, and waits for the schema.
    pub(crate) fn open(location: &str, stop: &StopToken) -> Result<Ipc, Cause> {
        let path = Path::new(location);
        if path.is_dir() {
            return Err("it is a folder; name the files in it, each as an input of its own".into());
        }
        if location != "-" && path.metadata()?.is_file() {
            let mut start = Vec::new();
            File::open(path)?.take(8).read_to_end(&mut start)?;
            if start.starts_with(FILE_MARK) {
                let (reader, listed) = open_file(location, None)?;
                let (reader, listed) = (Box::new(reader), Box::new(listed));
                let kind = IpcKind::File { path: location.to_owned(), reader, listed, next: 0 };
                return Ok(Ipc { name: location.to_owned(), kind });
            }
        }
        let input = Input::open(location, stop)?;
        let name = input.name().to_owned();
        Ok(Ipc { name, kind: IpcKind::Stream(Box::new(Stream::begin(input)?)) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        match &self.kind {
            IpcKind::File { reader, .. } => reader.schema(),
            IpcKind::Stream(stream) => SchemaRef::clone(&stream.schema),
        }
    }

    /// Restricts reading to the columns of these paths, where the format permits.
    pub(crate) fn project<'a>(&mut self, paths: impl Iterator<Item = &'a ColumnPath>) -> Result<(), Cause> {
        let schema = self.schema();
        let IpcKind::File { path, reader, listed, .. } = &mut self.kind else { return Ok(()) };
        let roots = paths.filter_map(|path| path.names.first());
        let mut places: Vec<usize> = roots.filter_map(|root| schema.index_of(root).ok()).collect();
        places.sort_unstable();
        places.dedup();
        if places.is_empty() && !schema.fields().is_empty() {
            // A batch without columns would not say how many rows it has.
            places.push(0);
        }
        (**reader, **listed) = open_file(path, Some(places))?;
        Ok(())
    }

    /// Skips that many batches.
    pub(crate) fn skip(&mut self, batches: u64) -> Result<(), Cause> {
        const SHORTER: &str = "it is shorter than it was when it was read before";
        if let IpcKind::File { reader, listed, next, .. } = &mut self.kind {
            let batches = usize::try_from(batches)?;
            *next = batches;
            if batches > reader.num_batches() {
                return Err(SHORTER.into());
            }
            if batches == reader.num_batches() {
                // There is no batch to seek to: the last one is read and discarded.
                if let Some(last) = batches.checked_sub(1) {
                    listed.check_batch(last)?;
                    reader.set_index(last)?;
                    reader.next().transpose()?;
                }
                return Ok(());
            }
            return Ok(reader.set_index(batches)?);
        }
        for _ in 0..batches {
            let NextMessage::Rows(_) = self.next(None)? else { return Err(SHORTER.into()) };
        }
        Ok(())
    }

    /// The next batch. Waits for it, but not past the deadline.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<NextMessage, Cause> {
        match &mut self.kind {
            IpcKind::File { reader, listed, next, .. } => {
                listed.check_batch(*next)?;
                *next += 1;
                Ok(match guarded(|| reader.next().transpose())? {
                    Some(rows) => NextMessage::Rows(rows),
                    None => NextMessage::End,
                })
            }
            IpcKind::Stream(stream) => stream.next(deadline),
        }
    }
}

impl Stream {
    fn begin(input: Input) -> Result<Stream, Cause> {
        let mut stream = Stream {
            input,
            decoder: StreamDecoder::new(),
            bytes: Vec::new(),
            decoded: 0,
            first: None,
            schema: SchemaRef::new(arrow::datatypes::Schema::empty()),
        };
        while stream.bytes.len() < 8 {
            match stream.input.fill(&mut stream.bytes, None)? {
                Filled::More | Filled::NotYet => {}
                Filled::End | Filled::Stopped => break,
            }
        }
        check_start(&stream.bytes)?;
        loop {
            let decoded = stream.decode().map_err(|error| format!("it is not an Arrow stream: {error}"))?;
            let is_missing = matches!(decoded, Decoded::NotYet);
            if let Decoded::Rows(rows) = decoded {
                stream.first = Some(rows);
            }
            if let Some(schema) = stream.decoder.schema() {
                stream.schema = schema;
                return Ok(stream);
            }
            if is_missing && stream.fill(None)? != Filled::More {
                return Err("it ends before it says which columns it has".into());
            }
        }
    }

    /// Decodes the next message, once it is complete and its declared sizes have been checked.
    fn decode(&mut self) -> Result<Decoded, Cause> {
        let rest = &self.bytes[self.decoded..];
        let Some(message) = first_message(rest)? else { return Ok(Decoded::NotYet) };
        message.check(rest)?;
        // Copied to an aligned buffer.
        let mut bytes = Buffer::from(rest[..message.end()].to_vec());
        self.decoded += message.end();
        let decoder = &mut self.decoder;
        let rows = guarded(|| decoder.decode(&mut bytes))?;
        Ok(rows.map_or(Decoded::Other, Decoded::Rows))
    }

    /// Reads more bytes. Decoded bytes are dropped.
    fn fill(&mut self, deadline: Option<Instant>) -> Result<Filled, Cause> {
        self.bytes.drain(..std::mem::take(&mut self.decoded));
        Ok(self.input.fill(&mut self.bytes, deadline)?)
    }

    fn next(&mut self, deadline: Option<Instant>) -> Result<NextMessage, Cause> {
        if let Some(rows) = self.first.take() {
            return Ok(NextMessage::Rows(rows));
        }
        loop {
            match self.decode()? {
                Decoded::Rows(rows) => return Ok(NextMessage::Rows(rows)),
                Decoded::Other => continue,
                Decoded::NotYet => {}
            }
            match self.fill(deadline)? {
                Filled::More => {}
                Filled::NotYet => return Ok(NextMessage::NotYet),
                Filled::Stopped => return Ok(NextMessage::End),
                Filled::End => {
                    let decoder = &mut self.decoder;
                    let is_whole = self.decoded == self.bytes.len() && guarded(|| decoder.finish()).is_ok();
                    return if is_whole {
                        Ok(NextMessage::End)
                    } else {
                        Err("it is cut off in the middle of a batch".into())
                    };
                }
            }
        }
    }
}

fn open_file(path: &str, columns: Option<Vec<usize>>) -> Result<(FileReader<File>, Listed), Cause> {
    let damaged = |cause: Cause| -> Cause {
        format!("its footer is missing or damaged, so it may be cut off: {cause}").into()
    };
    let mut listed = Listed::of(File::open(path)?)?;
    listed.as_mut().map_or(Ok(()), Listed::check_dictionaries)?;
    let file = File::open(path)?;
    let reader = guarded(|| FileReader::try_new(file, columns)).map_err(damaged)?;
    let listed = listed.ok_or_else(|| damaged("what it lists cannot be read".into()))?;
    Ok((reader, listed))
}

/// Refuses input that does not begin like Arrow IPC.
fn check_start(start: &[u8]) -> Result<(), Cause> {
    /// Before version 0.15, a stream began with the length of its schema.
    const LONGEST_SCHEMA: u32 = 16 << 20;
    let Some(mark) = start.first_chunk::<4>() else {
        return Err(if start.is_empty() { "it is empty" } else { "it is not an Arrow file or stream" }.into());
    };
    if start.starts_with(FILE_MARK) {
        return Err("it is an Arrow file, which cannot be read from a pipe; send a stream".into());
    }
    match mark {
        b"FEA1" => Err("it is Feather version 1, which is not read; write version 2".into()),
        b"PAR1" => Err("it is a Parquet file; write `parquet:` in front of it".into()),
        mark if *mark == [0xff; 4] || u32::from_le_bytes(*mark) < LONGEST_SCHEMA => Ok(()),
        _ => Err("it is not an Arrow file or stream".into()),
    }
}
