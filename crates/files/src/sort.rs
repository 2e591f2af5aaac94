//! External merge sort of a source by time. The source is read to its end first; rows that do not fit into memory
//! are written to a temporary folder, as sorted runs.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use fairstream_core::{
    Cause, EventBatch, OptionDoc, Position, RejectedRow, Source, SourceContext, SourceError, SourceFiles,
};

use crate::merge::{Chunk, Gathering, Heads};

/// The option of every source that sorts it.
pub const SORT: OptionDoc = OptionDoc {
    name: "sort",
    default: "false",
    help: "`true` puts rows in order of time first; not for input that does not end",
};

/// Returns the rows of another source in order of time; rows of equal time keep their order.
pub struct Sorted {
    inner: Box<dyn Source>,
    context: SourceContext,
    schema: SchemaRef,
    /// Maximum bytes in memory before a sorted run is written.
    memory: usize,
    /// Rows that have been read and belong to no run yet.
    unsorted: Vec<RecordBatch>,
    bytes: usize,
    parts: Vec<Part>,
    folder: Option<tempfile::TempDir>,
    written: usize,
    /// The merge of all runs, once all rows have been read.
    heads: Option<Heads>,
    relative: bool,
    given: Given,
    /// Rows that were returned before the position, and are not returned again.
    skip: Given,
    failure: Option<SourceError>,
    ended: bool,
}

/// Number of rows that have been returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Given {
    rejected: u64,
    good: u64,
}

/// A sorted run of rows.
enum Part {
    Memory(std::vec::IntoIter<RecordBatch>),
    Folder(Box<StreamReader<BufReader<File>>>),
}

/// Maximum bytes in memory before a sorted run is written.
const MEMORY: usize = 64 << 20;
/// Maximum number of runs that are merged at once.
const MAX_PARTS: usize = 64;
/// Rows of a run that are in memory while it is merged.
const CHUNK: usize = 4096;

/// Number of bytes after which they have fewer.
const CHUNK_BYTES: usize = 1 << 20;
/// Time after which an empty batch is returned while the input is being read.
const PATIENCE: Duration = Duration::from_millis(500);

impl Sorted {
    /// Sorts a source, from the beginning or from a position of an earlier run; in both cases the source itself is
    /// at its beginning.
    ///
    /// # Errors
    /// The position is not from a sorted source.
    pub fn new(
        inner: Box<dyn Source>,
        context: SourceContext,
        resume: Option<&Position>,
    ) -> Result<Sorted, SourceError> {
        Sorted::with_memory(inner, context, resume, MEMORY)
    }

    /// Sorts a source in runs of at most `memory` bytes.
    ///
    /// # Errors
    /// As [`Sorted::new`].
    pub fn with_memory(
        inner: Box<dyn Source>,
        context: SourceContext,
        resume: Option<&Position>,
        memory: usize,
    ) -> Result<Sorted, SourceError> {
        let skip = match resume {
            None => Given::default(),
            Some(position) => Given::read(&position.resume).ok_or_else(|| SourceError::Open {
                origin: inner.name().to_owned(),
                cause: "the position is not one of a sorted source".into(),
            })?,
        };
        let mut fields: Vec<Field> = inner.schema().fields().iter().map(|field| (**field).clone()).collect();
        fields.push(Field::new("time", DataType::Int64, false));
        fields.push(Field::new("row", DataType::UInt64, false));
        Ok(Sorted {
            schema: Arc::new(Schema::new(fields)),
            inner,
            context,
            memory,
            unsorted: Vec::new(),
            bytes: 0,
            parts: Vec::new(),
            folder: None,
            written: 0,
            heads: None,
            relative: false,
            given: Given::default(),
            skip,
            failure: None,
            ended: false,
        })
    }

    /// Reads more rows. Rejected rows are returned at once; the others are kept for sorting.
    fn read(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && !self.context.stop.is_stopped() {
            match self.inner.next_batch() {
                Ok(Some(events)) => {
                    self.relative |= events.relative;
                    let (dropped, rejected) = (events.dropped, events.rejected.clone());
                    self.keep(events).map_err(|cause| self.failed(cause))?;
                    let rejected = self.not_yet_given(rejected);
                    if dropped > 0 || !rejected.is_empty() {
                        let mut batch = self.nothing();
                        (batch.dropped, batch.rejected) = (dropped, rejected);
                        return Ok(Some(batch));
                    }
                }
                Ok(None) => {
                    self.turn().map_err(|cause| self.failed(cause))?;
                    return Ok(None);
                }
                Err(error) => {
                    // The rows before the error are returned first.
                    self.failure = Some(error);
                    self.turn().map_err(|cause| self.failed(cause))?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(self.nothing()))
    }

    fn nothing(&self) -> EventBatch {
        let rows = RecordBatch::new_empty(self.inner.schema());
        EventBatch::new(rows, vec![], vec![], self.given.position())
    }

    fn failed(&self, cause: Cause) -> SourceError {
        let folder = std::env::temp_dir();
        let cause =
            format!("it cannot be sorted by way of {}: {cause}; set TMPDIR to another", folder.display());
        SourceError::Read {
            origin: self.inner.name().to_owned(),
            row: self.given.good + self.given.rejected,
            cause: cause.into(),
        }
    }

    fn not_yet_given(&mut self, rejected: Vec<RejectedRow>) -> Vec<RejectedRow> {
        let known = self.skip.rejected.saturating_sub(self.given.rejected);
        self.given.rejected += rejected.len() as u64;
        rejected.into_iter().skip(usize::try_from(known).unwrap_or(usize::MAX)).collect()
    }

    fn keep(&mut self, events: EventBatch) -> Result<(), Cause> {
        if events.is_empty() {
            return Ok(());
        }
        let rows = self.with_times(&events)?;
        let size = |column: &ArrayRef| column.to_data().get_slice_memory_size();
        self.bytes += rows.columns().iter().map(size).sum::<Result<usize, _>>()?;
        self.unsorted.push(rows);
        if self.bytes >= self.memory {
            let part = self.sort()?;
            self.put_away(part)?;
        }
        Ok(())
    }

    fn with_times(&self, events: &EventBatch) -> Result<RecordBatch, ArrowError> {
        let mut columns = events.rows.columns().to_vec();
        columns.push(Arc::new(Int64Array::new(events.times.clone(), None)));
        columns.push(Arc::new(UInt64Array::new(events.row_numbers.clone(), None)));
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }

    /// Sorts the rows that have been read.
    fn sort(&mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        let bytes = std::mem::take(&mut self.bytes);
        let batches = std::mem::take(&mut self.unsorted);
        let mut places = Vec::new();
        for (batch, rows) in batches.iter().enumerate() {
            let times = times(rows);
            places.extend(times.values().iter().enumerate().map(|(row, time)| (*time, batch, row)));
        }
        places.sort_unstable();
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        let gather = |places: &[(i64, usize, usize)]| {
            let places: Vec<(usize, usize)> = places.iter().map(|(_, batch, row)| (*batch, *row)).collect();
            arrow::compute::interleave_record_batch(&batches, &places)
        };
        let row_bytes = bytes / places.len().max(1);
        let chunk = (CHUNK_BYTES / row_bytes.max(1)).clamp(1, CHUNK);
        places.chunks(chunk).map(gather).collect()
    }

    /// Writes a run to disk; if there are too many, merges them into one.
    fn put_away(&mut self, part: Vec<RecordBatch>) -> Result<(), Cause> {
        let part = self.write(part.into_iter().map(Ok))?;
        self.parts.push(part);
        if self.parts.len() == MAX_PARTS {
            let mut all = Merging::new(std::mem::take(&mut self.parts), Arc::clone(&self.schema))?;
            let part = self.write(std::iter::from_fn(|| all.next().transpose()))?;
            self.parts.push(part);
        }
        Ok(())
    }

    fn write(&mut self, batches: impl Iterator<Item = Result<RecordBatch, Cause>>) -> Result<Part, Cause> {
        let folder = match &self.folder {
            Some(folder) => folder,
            None => self.folder.insert(tempfile::Builder::new().prefix("fairstream-sort-").tempdir()?),
        };
        let path = folder.path().join(self.written.to_string());
        self.written += 1;
        let mut writer = StreamWriter::try_new(BufWriter::new(File::create(&path)?), &self.schema)?;
        for batch in batches {
            writer.write(&batch?)?;
        }
        writer.finish()?;
        let file = File::open(&path)?;
        // The open file keeps it alive. On systems that cannot remove an open file, it is removed with the folder.
        let _ = std::fs::remove_file(&path);
        Ok(Part::Folder(Box::new(StreamReader::try_new(BufReader::new(file), None)?)))
    }

    /// Switches from reading to merging.
    fn turn(&mut self) -> Result<(), Cause> {
        let rest = self.sort()?;
        self.parts.push(Part::Memory(rest.into_iter()));
        let mut heads = Heads::default();
        for (index, part) in self.parts.iter_mut().enumerate() {
            part.offer(index, &mut heads)?;
        }
        self.heads = Some(heads);
        Ok(())
    }

    fn give(&mut self) -> Result<Option<EventBatch>, Cause> {
        let Some(heads) = &mut self.heads else { return Ok(None) };
        loop {
            let skipped = self.skip.good.saturating_sub(self.given.good);
            let wanted = match usize::try_from(skipped).unwrap_or(usize::MAX) {
                0 => self.context.max_rows.get(),
                skipped => skipped.min(CHUNK),
            };
            let mut batch = Gathering::default();
            gather(heads, &mut self.parts, &mut batch, (wanted, self.context.max_bytes.get()))?;
            self.given.good += batch.rows() as u64;
            if batch.rows() == 0 {
                return Ok(None);
            }
            if skipped == 0 {
                let mut events = batch.finish(&self.inner.schema(), self.given.position())?;
                events.relative = self.relative;
                return Ok(Some(events));
            }
        }
    }
}

fn times(rows: &RecordBatch) -> &Int64Array {
    rows.column(rows.num_columns() - 2).as_primitive::<Int64Type>()
}

/// Adds that many rows to a batch, or fewer if they have more than that many bytes.
fn gather(
    heads: &mut Heads,
    parts: &mut [Part],
    batch: &mut Gathering,
    (wanted, bytes): (usize, usize),
) -> Result<(), Cause> {
    while batch.rows() < wanted
        && batch.bytes() < bytes
        && let Some(segment) = heads.take(wanted - batch.rows(), None)
    {
        let (index, last) = (segment.input, segment.last);
        // No row is rejected, so rows of all runs can be mixed.
        let _ = batch.add(segment);
        if last && let Some(part) = parts.get_mut(index) {
            part.offer(index, heads)?;
        }
    }
    Ok(())
}

impl Part {
    /// Adds its next rows to the merge.
    fn offer(&mut self, index: usize, heads: &mut Heads) -> Result<(), Cause> {
        let rows = match self {
            Part::Memory(batches) => batches.next(),
            Part::Folder(reader) => reader.next().transpose()?,
        };
        let Some(rows) = rows else { return Ok(()) };
        let own = rows.num_columns() - 2;
        let fields: Vec<Field> =
            rows.schema_ref().fields()[..own].iter().map(|field| (**field).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let columns = rows.columns()[..own].to_vec();
        heads.offer(
            index,
            Chunk {
                times: times(&rows).values().clone(),
                numbers: rows.column(own + 1).as_primitive::<UInt64Type>().values().clone(),
                rows: RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?,
                rejected: Vec::new(),
            },
        );
        Ok(())
    }
}

/// Merges runs into one.
struct Merging {
    parts: Vec<Part>,
    heads: Heads,
    schema: SchemaRef,
}

impl Merging {
    fn new(mut parts: Vec<Part>, schema: SchemaRef) -> Result<Merging, Cause> {
        let mut heads = Heads::default();
        for (index, part) in parts.iter_mut().enumerate() {
            part.offer(index, &mut heads)?;
        }
        Ok(Merging { parts, heads, schema })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Cause> {
        let mut batch = Gathering::default();
        gather(&mut self.heads, &mut self.parts, &mut batch, (CHUNK, CHUNK_BYTES))?;
        if batch.rows() == 0 {
            return Ok(None);
        }
        let own = self.schema.fields().len() - 2;
        let fields: Vec<Field> = self.schema.fields()[..own].iter().map(|field| (**field).clone()).collect();
        let events = batch.finish(&Arc::new(Schema::new(fields)), Position::default())?;
        let mut columns = events.rows.columns().to_vec();
        columns.push(Arc::new(Int64Array::new(events.times, None)));
        columns.push(Arc::new(UInt64Array::new(events.row_numbers, None)));
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }
}

const MARK: &[u8; 6] = b"sorted";

impl Given {
    fn position(self) -> Position {
        let resume = [&MARK[..], &self.rejected.to_le_bytes(), &self.good.to_le_bytes()].concat();
        Position { rows: self.rejected + self.good, resume: resume.into() }
    }

    fn read(bytes: &[u8]) -> Option<Given> {
        let (rejected, bytes) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
        let good = bytes.try_into().ok()?;
        Some(Given { rejected: u64::from_le_bytes(*rejected), good: u64::from_le_bytes(good) })
    }
}

impl Source for Sorted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn offers(&self) -> Vec<String> {
        self.inner.offers()
    }

    fn source_files(&self) -> SourceFiles {
        self.inner.source_files()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.ended || self.context.stop.is_stopped() {
            self.ended = true;
            return Ok(None);
        }
        if self.heads.is_none()
            && let Some(events) = self.read()?
        {
            return Ok(Some(events));
        }
        match self.give().map_err(|cause| self.failed(cause))? {
            Some(events) => Ok(Some(events)),
            None => {
                self.ended = true;
                self.failure.take().map_or(Ok(None), Err)
            }
        }
    }
}
