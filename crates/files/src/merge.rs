//! Merges rows of several inputs by time. Rows of equal time keep the order of the inputs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{concat_batches, filter_record_batch, interleave_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use fairstream_core::{EventBatch, Position, RejectedRow, SourceContext};

/// The next rows of an input. Rejected rows are included, with arbitrary values.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// All rows.
    pub rows: RecordBatch,
    /// Time of each row. A rejected row has the smallest time, so that it directly follows its predecessor.
    pub times: ScalarBuffer<i64>,
    /// Number of each row.
    pub numbers: ScalarBuffer<u64>,
    /// Index and error of each rejected row, in order.
    pub rejected: Vec<(usize, RejectedRow)>,
}

impl Chunk {
    /// Mean size of a row in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
        let bytes: usize = self.rows.columns().iter().map(bytes).sum();
        bytes / self.times.len().max(1)
    }
}

/// The current chunk of each input, and the number of its rows that have been merged.
#[derive(Debug, Default)]
pub struct Heads {
    /// Min-heap of the time of the next row of each input.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    chunks: HashMap<usize, Head>,
}

/// The current chunk of an input.
#[derive(Debug)]
struct Head {
    chunk: Arc<Chunk>,
    /// Number of rows that have been merged.
    next: usize,
    /// Mean size of a row in bytes.
    row_bytes: usize,
}

/// Consecutive rows of one input in the merge.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Index of the input.
    pub input: usize,
    chunk: Arc<Chunk>,
    start: usize,
    end: usize,
    row_bytes: usize,
    /// Whether these are the last rows of the current chunk of the input.
    pub last: bool,
}

impl Segment {
    /// Number of rows, rejected ones included.
    pub fn rows(&self) -> usize {
        self.end - self.start
    }

    /// Number of the last row.
    pub fn last_number(&self) -> u64 {
        self.chunk.numbers[self.end - 1]
    }

    fn rejected(&self) -> &[(usize, RejectedRow)] {
        let all = &self.chunk.rejected;
        let from = |row: usize| all.partition_point(|(index, _)| *index < row);
        &all[from(self.start)..from(self.end)]
    }
}

impl Heads {
    /// Provides the next rows of an input that has no current chunk. An empty chunk is ignored.
    pub fn offer(&mut self, input: usize, chunk: Chunk) {
        if let Some(first) = chunk.times.first() {
            self.next.push(Reverse((*first, input)));
            let row_bytes = chunk.row_bytes();
            self.chunks.insert(input, Head { chunk: Arc::new(chunk), next: 0, row_bytes });
        }
    }

    /// Whether no input has a current chunk.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// The next rows, at most `limit`, as long as time and input are below `before`. `None` if there are none.
    /// Every input that has not ended must have a current chunk.
    pub fn take(&mut self, limit: usize, before: Option<(i64, usize)>) -> Option<Segment> {
        let Reverse((time, input)) = *self.next.peek()?;
        if before.is_some_and(|before| (time, input) >= before) {
            return None;
        }
        self.next.pop();
        let other = self.next.peek().map(|Reverse(next)| *next);
        let bound = [before, other].into_iter().flatten().min();
        let Head { chunk, next, row_bytes } = self.chunks.get_mut(&input)?;
        let row_bytes = *row_bytes;
        let rest = &chunk.times[*next..];
        let rest = &rest[..rest.len().min(limit)];
        let rows = match bound {
            None => rest.len(),
            Some(bound) => 1 + rest[1..].iter().take_while(|time| (**time, input) < bound).count(),
        };
        let (start, end) = (*next, *next + rows);
        let last = end == chunk.times.len();
        if !last {
            self.next.push(Reverse((chunk.times[end], input)));
            *next = end;
            return Some(Segment { input, chunk: Arc::clone(chunk), start, end, row_bytes, last });
        }
        let Head { chunk, .. } = self.chunks.remove(&input)?;
        Some(Segment { input, chunk, start, end, row_bytes, last })
    }
}

/// Segments that are gathered into a batch.
#[derive(Debug, Default)]
pub struct Gathering {
    segments: Vec<Segment>,
    rows: usize,
    bytes: usize,
    mixed: bool,
    rejected: bool,
}

impl Gathering {
    /// Number of rows, rejected ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Size of the rows in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a source with these limits returns the batch.
    pub fn is_full(&self, context: &SourceContext) -> bool {
        self.rows >= context.max_rows.get() || self.bytes >= context.max_bytes.get()
    }

    /// Adds the rows that follow. They are returned if they must go into the next batch: a batch can mix rows of
    /// several inputs only if no row is rejected.
    ///
    /// # Errors
    /// The rows, if they cannot be added.
    pub fn add(&mut self, segment: Segment) -> Result<(), Segment> {
        let rejected = self.rejected || !segment.rejected().is_empty();
        let mixed = self.mixed || self.segments.last().is_some_and(|last| last.input != segment.input);
        if rejected && mixed {
            return Err(segment);
        }
        (self.rejected, self.mixed) = (rejected, mixed);
        self.rows += segment.rows();
        self.bytes += segment.rows() * segment.row_bytes;
        self.segments.push(segment);
        Ok(())
    }

    /// Builds the batch, which ends at that position.
    ///
    /// # Errors
    /// The values exceed the capacity of a column.
    pub fn finish(self, schema: &SchemaRef, end: Position) -> Result<EventBatch, ArrowError> {
        let rows = self.gather(schema)?;
        let (times, numbers) = match self.segments.as_slice() {
            [Segment { chunk, start, end, .. }] => {
                let len = end - start;
                (chunk.times.slice(*start, len), chunk.numbers.slice(*start, len))
            }
            segments => {
                let (mut times, mut numbers) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
                for Segment { chunk, start, end, .. } in segments {
                    times.extend_from_slice(&chunk.times[*start..*end]);
                    numbers.extend_from_slice(&chunk.numbers[*start..*end]);
                }
                (times.into(), numbers.into())
            }
        };
        if !self.rejected {
            return Ok(EventBatch::new(rows, times, numbers, end));
        }
        let mut good = vec![true; self.rows];
        let mut rejected = Vec::new();
        let mut before = 0;
        for segment in &self.segments {
            for (index, bad) in segment.rejected() {
                good[before + index - segment.start] = false;
                rejected.push(bad.clone());
            }
            before += segment.rows();
        }
        let kept = || (0..good.len()).filter(|index| good[*index]);
        let times: Vec<i64> = kept().map(|index| times[index]).collect();
        let numbers: Vec<u64> = kept().map(|index| numbers[index]).collect();
        let rows = filter_record_batch(&rows, &BooleanArray::from(good.clone()))?;
        let mut events = EventBatch::new(rows, times, numbers, end);
        events.rejected = rejected;
        Ok(events)
    }

    fn gather(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        /// If runs of rows are shorter than this on average, copying them one by one is cheaper.
        const STRETCH: usize = 16;
        if schema.fields().is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
            return RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options);
        }
        if let [segment] = self.segments.as_slice() {
            return Ok(segment.chunk.rows.slice(segment.start, segment.rows()));
        }
        if self.segments.len() * STRETCH <= self.rows {
            let slice = |segment: &Segment| segment.chunk.rows.slice(segment.start, segment.rows());
            return concat_batches(schema, &self.segments.iter().map(slice).collect::<Vec<_>>());
        }
        let mut chunks: Vec<&RecordBatch> = Vec::new();
        let mut known = HashMap::new();
        let mut places = Vec::with_capacity(self.rows);
        for Segment { chunk, start, end, .. } in &self.segments {
            let place = *known.entry(Arc::as_ptr(chunk)).or_insert_with(|| {
                chunks.push(&chunk.rows);
                chunks.len() - 1
            });
            places.extend((*start..*end).map(|row| (place, row)));
        }
        interleave_record_batch(&chunks, &places)
    }
}
