//! Files that are read row by row, as one source: merged by time, or one after another where rows are taken in their
//! order or sorted later.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef};
use fairstream_core::{
    BadOption, Cause, EventBatch, RejectedRow, Source, SourceContext, SourceError, SourceFiles,
    SourceRequest, TimeFormat, WantedColumn,
};

use crate::{
    Chunk, DataFile, FOLLOW, FileMerge, FilesPosition, Fingerprint, FirstTime, MergedFiles, NextRows,
    RowSource, Rows, SORT, Segment, partition_value, repeated_value, title_of,
};

/// Opens one file.
type OpenSingle<R> = fn(&SourceRequest) -> Result<RowSource<R>, SourceError>;

/// Files that are read row by row. [`Folder::open`] merges them.
pub struct Folder<R> {
    name: String,
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
    open: BTreeMap<usize, OpenRows<R>>,
    relative: bool,
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

/// Maximum number of open files. Each has blocks of half a megabyte in memory.
const MAX_OPEN: usize = 128;

/// Maximum number of bytes of a chunk of a file, of which many may be open.
const CHUNK_BYTES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

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
    ) -> Result<FileMerge<Folder<R>>, SourceError> {
        if let Some(value) = request.options.text(FOLLOW.name) {
            return Err(request.refuse(BadOption::Value {
                key: FOLLOW.name.to_owned(),
                value: value.to_owned(),
                reason: "only one file can be followed; a folder is read again when the run is started again"
                    .to_owned(),
            }));
        }
        let place = request.resume.as_ref().and_then(|position| FilesPosition::read(&position.resume));
        let time_format = match place {
            Some(place) => place.time_format,
            None => {
                request.options.parse("time_format", TimeFormat::Auto).map_err(|bad| request.refuse(bad))?
            }
        };
        let mut folder = Folder {
            time_format,
            name: title_of(request),
            request: request.clone(),
            open_file,
            source_files: SourceFiles::new(files.iter().map(|file| (file.name(), LINES))),
            files,
            schema: Arc::new(Schema::empty()),
            is_present: Vec::new(),
            offers: Vec::new(),
            is_by_row: false,
            open: BTreeMap::new(),
            relative: false,
        };
        let schedule = folder.look_at_files()?;
        FileMerge::open(folder, schedule, request.resume.as_ref())
    }

    /// Reads the columns and the first time of every file.
    fn look_at_files(&mut self) -> Result<Vec<(i64, usize)>, SourceError> {
        let mut schedule = Vec::new();
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
            schedule.push((first, index));
        }
        if !knows_columns {
            self.offers.clear();
        }
        self.is_present = fields.iter().map(Option::is_some).collect();
        self.schema = Arc::new(Schema::new(fields.into_iter().flatten().collect::<Vec<_>>()));
        Ok(schedule)
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
        let mut request = SourceRequest {
            location: path.to_owned(),
            others: Vec::new(),
            resume: None,
            wanted: self.request.wanted.clone(),
            options: self.request.options.clone(),
            time_range: self.request.time_range,
            context: self.request.context.clone(),
        };
        request.context.max_bytes = request.context.max_bytes.min(CHUNK_BYTES);
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

impl<R: Rows> MergedFiles for Folder<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn offers(&self) -> Vec<String> {
        self.offers.clone()
    }

    fn source_files(&self) -> SourceFiles {
        self.source_files.clone()
    }

    fn context(&self) -> &SourceContext {
        &self.request.context
    }

    fn time_format(&self) -> &TimeFormat {
        &self.time_format
    }

    fn is_relative(&self) -> bool {
        self.relative
    }

    fn add_to(&self, file: usize, fingerprint: &mut Fingerprint) {
        fingerprint.add(&self.files[file].name(), &[]);
    }

    fn open(&mut self, file: usize, behind: u64, merged: u64) -> Result<(), SourceError> {
        /// Large enough for fast reading, and small enough for many open files.
        const CHUNK: usize = 8192;
        let (mut source, columns) = self.open_rows(file, CHUNK)?;
        if self.is_by_row {
            // Rows that are taken in their order are counted through all files.
            source.count_from(merged.saturating_sub(behind));
        }
        let columns = columns.into_iter().zip(&self.is_present).filter(|(_, is_present)| **is_present);
        let columns = columns.map(|(column, _)| column).collect();
        self.open.insert(file, OpenRows { source, skip: behind, columns });
        Ok(())
    }

    fn next_rows(&mut self, file: usize, _behind: u64) -> Result<NextRows, SourceError> {
        let Some(open) = self.open.get_mut(&file) else { return Ok(NextRows::End) };
        let origin = || self.files[file].name();
        let Some(events) = open.source.next_batch()? else {
            if self.request.context.stop.is_stopped() {
                // It may go on.
                return Ok(NextRows::NotYet);
            }
            if open.skip > 0 {
                let cause = "it is shorter than it was when it was read before";
                return Err(SourceError::Open { origin: origin(), cause: cause.into() });
            }
            return Ok(NextRows::End);
        };
        self.relative |= events.relative;
        let chunk = open.chunk(&events, file as u64 * LINES, &self.schema);
        chunk
            .map(NextRows::Rows)
            .map_err(|cause| SourceError::Broken { origin: origin(), reason: cause.to_string() })
    }

    fn behind(&self, behind: u64, segment: &Segment) -> Option<u64> {
        Some(behind + segment.rows() as u64)
    }

    fn close(&mut self, file: usize) {
        self.open.remove(&file);
    }

    fn has_room(&self, _file: usize) -> bool {
        self.open.len() <= MAX_OPEN
    }
}
