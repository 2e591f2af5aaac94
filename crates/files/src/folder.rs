//! Files that are read row by row, as one source: merged by time, or one after another where rows are taken in their
//! order or sorted later.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef};
use fairstream_core::{
    Cause, EndOfInput, EventBatch, Position, RejectedRow, Source, SourceError, SourceFiles, SourceRequest,
    TimeFormat, WantedColumn,
};

use crate::{
    Chunk, DataFile, FilesPosition, Fingerprint, FirstTime, Gathering, Heads, RowSource, Rows, SORT, Segment,
    partition_value, repeated_value,
};

/// Opens one file.
type OpenSingle<R> = fn(&SourceRequest) -> Result<RowSource<R>, SourceError>;

/// Files that are read as one source.
pub struct Folder<R> {
    /// The request for the folder or pattern.
    request: SourceRequest,
    open_file: OpenSingle<R>,
    /// Sorted by path.
    files: Vec<DataFile>,
    source_files: SourceFiles,
    schema: SchemaRef,
    /// For each requested column whether a file has it.
    is_present: Vec<bool>,
    offers: Vec<String>,
    time_format: TimeFormat,
    /// Whether rows are taken in their order.
    is_by_row: bool,
    /// First time and index of each file, sorted.
    schedule: Vec<(i64, usize)>,
    /// Those of `schedule` that have not been opened yet.
    waiting: VecDeque<(i64, usize)>,
    open: BTreeMap<usize, OpenRows<R>>,
    heads: Heads,
    /// A segment that did not fit into the last batch.
    pending: Option<Segment>,
    /// For each open file the number of rows that have been returned.
    behind: BTreeMap<usize, u64>,
    /// Fingerprint of the files that have been opened.
    fingerprint: Fingerprint,
    rows: u64,
    relative: bool,
    end: EndOfInput,
}

/// The rows of an open file.
struct OpenRows<R> {
    source: RowSource<R>,
    /// Number of rows that were returned before, and are skipped.
    skip: u64,
    columns: Vec<FoundColumn>,
}

/// Where a column of the folder is in a file.
enum FoundColumn {
    /// A column of its rows.
    Inside(usize),
    /// The value of a partition.
    Everywhere(ArrayRef),
    Nowhere,
}

/// Row numbers of a file begin at a multiple of this. The number of lines of a file is not known before it has been
/// read, and no file has as many.
const LINES: u64 = 1 << 40;

/// Maximum number of open files.
const MAX_OPEN: usize = 256;

/// Time of a file whose first time is not known: it is opened first.
const NEVER: i64 = i64::MIN;

impl<R: Rows> Folder<R> {
    /// Opens files as one source. The first time of each is read, which decides when it is opened.
    ///
    /// # Errors
    /// A file cannot be opened, or the position is not of these files.
    pub fn open(
        request: &SourceRequest,
        files: Vec<DataFile>,
        open_file: OpenSingle<R>,
    ) -> Result<Folder<R>, SourceError> {
        let time_format = request.options.parse("time_format", TimeFormat::Auto);
        let mut folder = Folder {
            time_format: time_format.map_err(|bad| request.refuse(bad))?,
            request: request.clone(),
            open_file,
            source_files: SourceFiles::new(files.iter().map(|file| (file.name(), LINES))),
            files,
            schema: Arc::new(Schema::empty()),
            is_present: Vec::new(),
            offers: Vec::new(),
            is_by_row: false,
            schedule: Vec::new(),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            heads: Heads::default(),
            pending: None,
            behind: BTreeMap::new(),
            fingerprint: Fingerprint::default(),
            rows: 0,
            relative: false,
            end: EndOfInput::default(),
        };
        let place =
            request.resume.as_ref().map(|position| (position.rows, FilesPosition::read(&position.resume)));
        if let Some((_, Some(place))) = &place {
            folder.time_format = place.time_format.clone();
        }
        folder.look_at_files()?;
        match place {
            None => {}
            Some((rows, Some(place))) => folder.go_to(rows, place)?,
            Some((_, None)) => return Err(request.cannot_open("the position is not one of several files")),
        }
        Ok(folder)
    }

    /// Reads the columns and the first time of every file.
    fn look_at_files(&mut self) -> Result<(), SourceError> {
        let is_sorted_later =
            self.request.options.parse(SORT.name, false).map_err(|bad| self.request.refuse(bad))?;
        let mut fields: Vec<Option<Field>> = vec![None; self.request.wanted.len()];
        let mut knows_columns = true;
        for index in 0..self.files.len() {
            if self.request.context.stop.is_stopped() {
                break;
            }
            let (mut source, columns) = self.open_rows(index, FirstTime::ROWS)?;
            for ((field, wanted), column) in fields.iter_mut().zip(&self.request.wanted).zip(&columns) {
                if !matches!(column, FoundColumn::Nowhere) {
                    *field = Some(Field::new(&wanted.name, wanted.data_type.clone(), true));
                }
            }
            let offers = source.offers();
            knows_columns &= !offers.is_empty();
            let partitions = self.files[index].partitions.iter().map(|(name, _)| name.clone());
            for name in offers.into_iter().chain(partitions) {
                if !self.offers.contains(&name) {
                    self.offers.push(name);
                }
            }
            if index > 0 && source.is_by_row() != self.is_by_row {
                let name = self.files[index].name();
                let cause = "some files have a column `row` with the time, and others have none; name another \
                             with `--time`";
                return Err(SourceError::Open { origin: name, cause: cause.into() });
            }
            self.is_by_row = source.is_by_row();
            let first = if self.is_by_row || is_sorted_later {
                // One file after another.
                i64::MAX
            } else {
                source.first_time(FirstTime::ROWS)?.map_or(NEVER, |time| time.0)
            };
            if self.time_format == TimeFormat::Auto {
                self.time_format = source.time_format().clone();
            }
            self.schedule.push((first, index));
        }
        if !knows_columns {
            self.offers.clear();
        }
        self.is_present = fields.iter().map(Option::is_some).collect();
        self.schema = Arc::new(Schema::new(fields.into_iter().flatten().collect::<Vec<_>>()));
        self.schedule.sort_unstable();
        self.waiting = self.schedule.iter().copied().collect();
        Ok(())
    }

    /// Opens a file, and finds every requested column in it.
    fn open_rows(
        &self,
        index: usize,
        max_rows: usize,
    ) -> Result<(RowSource<R>, Vec<FoundColumn>), SourceError> {
        let file = &self.files[index];
        let failed = |cause: Cause| SourceError::Open { origin: file.name(), cause };
        let path = file.path.to_str().ok_or_else(|| failed("its name is not UTF-8".into()))?;
        let mut request = SourceRequest { location: path.to_owned(), resume: None, ..self.request.clone() };
        request.context.max_rows =
            request.context.max_rows.min(NonZeroUsize::new(max_rows).unwrap_or(NonZeroUsize::MIN));
        if self.time_format != TimeFormat::Auto {
            request.options.set("time_format", self.time_format.name());
        }
        let partition = |wanted: &WantedColumn| {
            file.partitions.iter().rev().find(|(name, _)| name == &wanted.name).map(|(_, value)| value)
        };
        let mut source = (self.open_file)(&request)?;
        if source.offers().is_empty() && request.wanted.iter().any(|wanted| partition(wanted).is_some()) {
            // Whether rows have a column is unknown beforehand, so that of the folder is used.
            request.wanted.retain(|wanted| partition(wanted).is_none());
            source = (self.open_file)(&request)?;
        }
        let own = source.schema();
        let columns = self.request.wanted.iter().map(|wanted| {
            Ok(match (own.index_of(&wanted.name), partition(wanted)) {
                (Ok(place), _) => FoundColumn::Inside(place),
                (Err(_), Some(value)) => {
                    FoundColumn::Everywhere(partition_value(wanted, value.as_deref()).map_err(failed)?)
                }
                (Err(_), None) => FoundColumn::Nowhere,
            })
        });
        let columns = columns.collect::<Result<_, SourceError>>()?;
        Ok((source, columns))
    }

    /// Resumes at a position of an earlier run.
    fn go_to(&mut self, rows: u64, place: FilesPosition) -> Result<(), SourceError> {
        let failed = |text: &str| Err(self.request.cannot_open(text));
        let opened: Vec<(i64, usize)> = self.schedule.iter().take(place.opened).copied().collect();
        for (_, index) in &opened {
            self.fingerprint.add(&self.files[*index].name(), &[]);
        }
        if opened.len() != place.opened || self.fingerprint != place.fingerprint {
            return failed("the files are not those that were read before");
        }
        let mut open = Vec::new();
        for (rank, behind) in &place.open {
            match opened.get(*rank) {
                Some((_, index)) => open.push((*index, *behind)),
                None => return failed("the position is not one of these files"),
            }
        }
        self.waiting.drain(..place.opened);
        self.rows = rows;
        for (index, behind) in open {
            self.open_file(index, behind)?;
        }
        Ok(())
    }

    /// Opens a file for the rows after `behind`, and adds its first rows to the merge.
    fn open_file(&mut self, index: usize, behind: u64) -> Result<(), SourceError> {
        /// Large enough for fast reading, and small enough for many open files.
        const CHUNK: usize = 8192;
        if self.open.len() >= MAX_OPEN {
            let cause =
                format!("more than {MAX_OPEN} files overlap in time; `--sort` reads them one after another");
            return Err(SourceError::Open { origin: self.files[index].name(), cause: cause.into() });
        }
        let (mut source, columns) = self.open_rows(index, CHUNK)?;
        if self.is_by_row {
            // Rows that are taken in their order are counted through all files.
            source.count_from(self.rows.saturating_sub(behind));
        }
        let columns = columns.into_iter().zip(&self.is_present).filter(|(_, is_present)| **is_present);
        let columns = columns.map(|(column, _)| column).collect();
        self.open.insert(index, OpenRows { source, skip: behind, columns });
        self.behind.insert(index, behind);
        self.refill(index)
    }

    /// Adds the next rows of an open file to the merge.
    fn refill(&mut self, index: usize) -> Result<(), SourceError> {
        let before = index as u64 * LINES;
        while let Some(open) = self.open.get_mut(&index) {
            let Some(events) = open.source.next_batch()? else {
                if self.request.context.stop.is_stopped() {
                    // It may go on.
                    return Ok(());
                }
                if open.skip > 0 {
                    let cause = "it is shorter than it was when it was read before";
                    return Err(SourceError::Open { origin: self.files[index].name(), cause: cause.into() });
                }
                self.open.remove(&index);
                self.behind.remove(&index);
                return Ok(());
            };
            self.relative |= events.relative;
            let origin = || self.files[index].name();
            let chunk = open.chunk(&events, before, &self.schema);
            let chunk =
                chunk.map_err(|cause| SourceError::Broken { origin: origin(), reason: cause.to_string() })?;
            if !chunk.times.is_empty() {
                self.heads.offer(index, chunk);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds rows to a batch until it is full; `false` if there are no more.
    fn gather(&mut self, batch: &mut Gathering) -> Result<bool, SourceError> {
        let max_rows = self.request.context.max_rows.get();
        while batch.rows() < max_rows {
            if self.request.context.stop.is_stopped() {
                return Ok(true);
            }
            let next = self.waiting.front().copied();
            let segment = match self.pending.take() {
                Some(segment) => Some(segment),
                None => self.heads.take(max_rows - batch.rows(), next),
            };
            match (segment, next) {
                (Some(segment), _) => {
                    let (index, rows, last) = (segment.input, segment.rows() as u64, segment.last);
                    if let Err(segment) = batch.add(segment) {
                        self.pending = Some(segment);
                        return Ok(true);
                    }
                    self.rows += rows;
                    *self.behind.entry(index).or_default() += rows;
                    if last {
                        self.refill(index)?;
                    }
                }
                (None, Some((_, index))) => {
                    self.waiting.pop_front();
                    self.fingerprint.add(&self.files[index].name(), &[]);
                    self.open_file(index, 0)?;
                }
                (None, None) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn position(&self) -> Position {
        let opened = self.schedule.len() - self.waiting.len();
        let ranks: BTreeMap<usize, usize> =
            self.schedule[..opened].iter().enumerate().map(|(rank, (_, index))| (*index, rank)).collect();
        let open = self.behind.iter().filter_map(|(index, behind)| Some((*ranks.get(index)?, *behind)));
        let place = FilesPosition {
            opened,
            fingerprint: self.fingerprint,
            time_format: self.time_format.clone(),
            open: open.collect(),
        };
        Position { rows: self.rows, resume: place.written().into() }
    }
}

impl<R> OpenRows<R> {
    /// The rows of a batch in the schema of the folder, rejected ones included, without those that are skipped.
    fn chunk(&mut self, events: &EventBatch, before: u64, schema: &SchemaRef) -> Result<Chunk, Cause> {
        let len = events.len() + events.rejected.len();
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX).min(len);
        self.skip -= skip as u64;
        let mut rejected: Vec<(usize, RejectedRow)> = Vec::new();
        let (mut times, mut numbers, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let (mut good, mut bad) = (0, events.rejected.iter().peekable());
        for index in 0..len {
            let is_bad =
                bad.peek().is_some_and(|bad| events.row_numbers.get(good).is_none_or(|row| bad.row < *row));
            match bad.next_if(|_| is_bad) {
                Some(bad) => {
                    times.push(NEVER);
                    numbers.push(before + bad.row);
                    places.push(None);
                    if let Some(index) = index.checked_sub(skip) {
                        rejected.push((index, RejectedRow { row: before + bad.row, ..bad.clone() }));
                    }
                }
                None => {
                    times.push(events.times[good]);
                    numbers.push(before + events.row_numbers[good]);
                    places.push(u32::try_from(good).ok());
                    good += 1;
                }
            }
        }
        let is_whole = events.rejected.is_empty() && skip == 0;
        let places = UInt32Array::from(places.split_off(skip));
        let columns = schema.fields().iter().zip(&self.columns).map(|(field, column)| {
            Ok(match column {
                FoundColumn::Inside(place) => {
                    let values = events.rows.column(*place);
                    if is_whole { Arc::clone(values) } else { take(values, &places, None)? }
                }
                FoundColumn::Everywhere(value) => repeated_value(value, len - skip)?,
                FoundColumn::Nowhere => new_null_array(field.data_type(), len - skip),
            })
        });
        let columns = columns.collect::<Result<Vec<_>, Cause>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(len - skip));
        Ok(Chunk {
            rows: RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?,
            times: times.split_off(skip).into(),
            numbers: numbers.split_off(skip).into(),
            rejected,
        })
    }
}

impl<R: Rows> Source for Folder<R> {
    fn name(&self) -> &str {
        &self.request.location
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.offers.clone()
    }

    fn source_files(&self) -> SourceFiles {
        self.source_files.clone()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.end.end_if_stopped(&self.request.context.stop) {
            return self.end.take_result();
        }
        let mut batch = Gathering::default();
        match self.gather(&mut batch) {
            Ok(true) => {}
            Ok(false) => self.end.end(),
            Err(error) => self.end.fail(error),
        }
        if batch.rows() == 0 && self.end.has_ended() {
            return self.end.take_result();
        }
        let events = batch.finish(&self.schema, self.position());
        let mut events = events.map_err(|error| SourceError::Read {
            origin: self.request.location.clone(),
            row: self.rows,
            cause: error.into(),
        })?;
        events.relative = self.relative;
        Ok(Some(events))
    }
}
