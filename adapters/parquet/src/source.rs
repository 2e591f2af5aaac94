//! The Parquet source: one or more files, merged by time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    Adapter, Cause, EndOfInput, EventBatch, OptionDoc, Position, ROW_ORDER, ROW_ORDER_ONLY, Source,
    SourceContext, SourceError, SourceFactory, SourceFiles, SourceRequest, TimeFormat, WantedColumn,
    columns_of,
};
use fairstream_files::{
    DataFile, FilesPosition, Fingerprint, FirstTime, Gathering, Heads, SORT, Segment, data_files,
};

use crate::binding::{is_by_row, offers};
use crate::file::{FileOutline, FileReader, OpenFile};
use crate::moments::{Moments, NEVER};
use crate::spill::{Spill, Spilled};

/// Opens Parquet sources.
#[derive(Clone, Copy, Debug)]
pub struct ParquetSources;

pub(crate) const OPTIONS: &[OptionDoc] = &[
    OptionDoc::new(
        "time",
        "time",
        "the column that says when a row happened; `row` takes rows in their order",
    ),
    OptionDoc::new(
        "time_format",
        "auto",
        "of numbers and texts: auto, iso, rfc3339, date, s, ms, us, ns, relative, or a pattern such as %d.%m.%Y",
    ),
];

impl SourceFactory for ParquetSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "parquet",
            about: "a file, all below a folder, or a pattern as in 'lake/**/*.parquet'; folders named `date=2026-01-01` are \
                    columns, `a.b` is `b` inside `a`",
            extensions: &["parquet"],
            options: OPTIONS,
        }
    }

    fn columns(&self, request: &SourceRequest) -> Result<Vec<WantedColumn>, SourceError> {
        let failed = |cause: Cause| request.cannot_open(cause);
        let files = data_files(&request.location, &["parquet"]).map_err(failed)?;
        let Some(first) = files.first() else { return columns_of(self, request) };
        // The files of a folder are read in one type. The first of them says which.
        let location = first.path.to_string_lossy().into_owned();
        let mut columns = columns_of(self, &SourceRequest { location, ..request.clone() })?;
        for name in self.open(&SourceRequest { wanted: Vec::new(), ..request.clone() })?.offers() {
            if !columns.iter().any(|column| column.name == name) {
                // A column that folders are named by.
                columns.push(WantedColumn::new(name, DataType::Utf8));
            }
        }
        Ok(columns)
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let location = &request.location;
        let bad_option = |bad| request.refuse(bad);
        let failed = |cause: Cause| request.cannot_open(cause);
        let format = request.options.parse("time_format", TimeFormat::Auto).map_err(bad_option)?;
        let place = request.resume.as_ref().and_then(|position| FilesPosition::read(&position.resume));
        let format = place.map_or(format, |place| place.time_format);
        let mut lake = Lake {
            name: location.clone(),
            time: Some(request.options.text("time").unwrap_or("time").to_owned()),
            wanted: request.wanted.clone(),
            moments: Moments::new(format),
            context: request.context.clone(),
            schema: Arc::new(Schema::empty()),
            offers: Vec::new(),
            files: Vec::new(),
            source_files: SourceFiles::default(),
            waiting: VecDeque::new(),
            schedule: Vec::new(),
            open: BTreeMap::new(),
            spilling: VecDeque::new(),
            heads: Heads::default(),
            pending: None,
            behind: BTreeMap::new(),
            fingerprint: Fingerprint::default(),
            rows: 0,
            end: EndOfInput::default(),
        };
        if location == "-" {
            return Err(failed(
                "Parquet cannot be read from a pipe; name a file, or send `arrow:-` a stream".into(),
            ));
        }
        let files = data_files(location, &["parquet"]).map_err(failed)?;
        lake.look_at(files)?;
        lake.schedule(request)?;
        if let Some(position) = &request.resume {
            lake.go_to(position)?;
        }
        Ok(Box::new(lake))
    }
}

/// Files that are read as one source.
struct Lake {
    name: String,
    /// `None` if rows are taken in their order.
    time: Option<String>,
    wanted: Vec<WantedColumn>,
    moments: Moments,
    context: SourceContext,
    schema: SchemaRef,
    offers: Vec<String>,
    /// Sorted by path.
    files: Vec<FileOutline>,
    source_files: SourceFiles,
    /// First time and index of the files that have rows to be read, sorted.
    schedule: Vec<(i64, usize)>,
    /// Those of `schedule` that have not been opened yet.
    waiting: VecDeque<(i64, usize)>,
    open: BTreeMap<usize, Rows>,
    /// Files that have been opened and are being spilled to disk.
    spilling: VecDeque<(usize, FileReader, Option<Spill>)>,
    heads: Heads,
    /// A segment that did not fit into the last batch.
    pending: Option<Segment>,
    /// For each open file the number of rows that have been returned.
    behind: BTreeMap<usize, u64>,
    /// Fingerprint of the files that have been opened.
    fingerprint: Fingerprint,
    rows: u64,
    end: EndOfInput,
}

/// Source of the rows of an open file.
enum Rows {
    /// The file itself.
    File(Box<FileReader>),
    /// Rows that were spilled to disk, and the error that followed them.
    Spilled(Spilled, Option<SourceError>),
}

/// Maximum number of columns of open files. Each has one or two pages of a megabyte in memory.
const MAX_COLUMNS: usize = 128;

/// Time after which an empty batch is returned while files are being spilled.
const PATIENCE: Duration = Duration::from_millis(500);

impl Lake {
    /// Reads every footer: columns, number of rows, and range of times.
    fn look_at(&mut self, files: Vec<DataFile>) -> Result<(), SourceError> {
        // The user has named a folder or a pattern, so messages must name the file.
        let parts = files.iter().any(|file| file.name() != self.name);
        let mut fields: Vec<Option<Field>> = vec![None; self.wanted.len()];
        let mut before = 0;
        if self.is_by_row(&files)? {
            (self.time, self.moments) = (None, Moments::new(TimeFormat::Relative));
        }
        for file in files {
            if self.context.stop.is_stopped() {
                break;
            }
            let name = file.name();
            let failed = |cause: Cause| SourceError::Open { origin: name.clone(), cause };
            let open = OpenFile::open(&file).map_err(failed)?;
            let binding = open.bind(&file, &self.wanted, self.time.as_deref()).map_err(failed)?;
            if parts && let Some(unfit) = binding.unfit() {
                return Err(failed(unfit.into()));
            }
            open.check_codecs(&binding).map_err(failed)?;
            for (field, own) in fields.iter_mut().zip(binding.fields()) {
                *field = field.take().or(own);
            }
            for name in offers(open.schema(), Some(&file)) {
                if !self.offers.contains(&name) {
                    self.offers.push(name);
                }
            }
            let is_auto = *self.moments.format() == TimeFormat::Auto;
            if (is_auto || self.files.is_empty()) && binding.has_written_times() {
                let limit = if is_auto { usize::MAX } else { FirstTime::ROWS };
                open.peek(&binding, &mut self.moments, limit).map_err(failed)?;
            }
            let groups = open.groups(&binding, &self.moments, before);
            let rows = groups.iter().map(|group| group.rows).sum();
            self.files.push(FileOutline { file, rows, groups, before });
            before += rows;
        }
        self.schema = Arc::new(Schema::new(fields.into_iter().flatten().collect::<Vec<_>>()));
        if parts {
            self.source_files =
                SourceFiles::new(self.files.iter().map(|outline| (outline.file.name(), outline.rows)));
        }
        Ok(())
    }

    /// Whether rows are taken in their order: no file has a column that is called so.
    fn is_by_row(&self, files: &[DataFile]) -> Result<bool, SourceError> {
        let time = self.time.as_deref().unwrap_or_default();
        if time != ROW_ORDER {
            return Ok(time == ROW_ORDER_ONLY);
        }
        for file in files {
            let open =
                OpenFile::open(file).map_err(|cause| SourceError::Open { origin: file.name(), cause })?;
            if !is_by_row(time, [(&**open.schema(), file.partitions.as_slice())]) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Determines the order in which files are opened.
    fn schedule(&mut self, request: &SourceRequest) -> Result<(), SourceError> {
        let several = self.files.len() > 1;
        let unordered = request
            .options
            .parse(SORT.name, false)
            .map_err(|bad| SourceError::Option { origin: self.name.clone(), bad })?;
        for index in 0..self.files.len() {
            self.files[index].prune(&request.time_range);
            let outline = &self.files[index];
            if outline.groups.is_empty() {
                continue;
            }
            let first = match outline.first_time() {
                // One file after another, as the caller sorts the rows.
                _ if unordered => i64::MAX,
                Some(first) => first,
                None if several => self.first_row(outline)?,
                None => NEVER,
            };
            self.schedule.push((first, index));
        }
        self.schedule.sort_unstable();
        self.waiting = self.schedule.iter().copied().collect();
        Ok(())
    }

    /// The time of a file's first row, which is its first time if statistics have none: a file is in order of
    /// time.
    fn first_row(&self, outline: &FileOutline) -> Result<i64, SourceError> {
        let failed = |cause| SourceError::Open { origin: outline.file.name(), cause };
        let open = OpenFile::open(&outline.file).map_err(failed)?;
        let binding = open.bind(&outline.file, &self.wanted, self.time.as_deref()).map_err(failed)?;
        let first = open.peek(&binding, &mut self.moments.clone(), usize::MAX).map_err(failed)?;
        Ok(first.unwrap_or(NEVER))
    }

    fn go_to(&mut self, position: &Position) -> Result<(), SourceError> {
        let name = self.name.clone();
        let failed = |cause: Cause| SourceError::Open { origin: name.clone(), cause };
        let place = FilesPosition::read(&position.resume).ok_or("the position is not one of Parquet files");
        let FilesPosition { opened, fingerprint, open, .. } = place.map_err(|text| failed(text.into()))?;
        let opened_before: Vec<(i64, usize)> = self.schedule.iter().take(opened).copied().collect();
        for (_, index) in &opened_before {
            self.files[*index].add_to(&mut self.fingerprint);
        }
        if opened_before.len() != opened || self.fingerprint != fingerprint {
            return Err(failed(
                "the files are not those that were read before, or `--since` or `--until` is another".into(),
            ));
        }
        for (rank, behind) in open {
            let Some((_, index)) = opened_before.get(rank) else {
                return Err(failed("the position is not one of these files".into()));
            };
            self.open_file(*index, behind)?;
        }
        self.waiting.drain(..opened);
        self.rows = position.rows;
        Ok(())
    }

    /// Opens a file, and adds its first rows to the merge.
    fn open_file(&mut self, index: usize, behind: u64) -> Result<(), SourceError> {
        /// Large enough for fast reading, and small enough for hundreds of open files.
        const CHUNK: usize = 8192;
        let outline = &self.files[index];
        let batch_size = self.context.max_rows.get().min(CHUNK);
        let reader =
            FileReader::open(outline, behind, &self.wanted, self.time.as_deref(), &self.schema, batch_size);
        let reader = reader.map_err(|cause| SourceError::Open { origin: outline.file.name(), cause })?;
        self.behind.insert(index, behind);
        let files = self.open.values().filter(|rows| matches!(rows, Rows::File(_))).count();
        if files > 0 && (files + 1) * reader.columns() > MAX_COLUMNS {
            self.spilling.push_back((index, reader, None));
            return Ok(());
        }
        self.open.insert(index, Rows::File(Box::new(reader)));
        self.refill(index)
    }

    /// Adds the next rows of an open file to the merge.
    fn refill(&mut self, index: usize) -> Result<(), SourceError> {
        let Some(rows) = self.open.get_mut(&index) else { return Ok(()) };
        let failed = |files: &[FileOutline], row, cause| SourceError::Read {
            origin: files[index].file.name(),
            row,
            cause,
        };
        let chunk = match rows {
            Rows::File(reader) => {
                let chunk = reader.next_chunk(&mut self.moments);
                chunk.map_err(|cause| failed(&self.files, reader.behind(), cause))?
            }
            Rows::Spilled(spilled, failure) => {
                let row = self.behind.get(&index).copied().unwrap_or_default();
                let chunk = spilled.next_chunk(&self.schema);
                match (chunk.map_err(|cause| failed(&self.files, row, cause))?, failure.take()) {
                    (Some(chunk), later) => {
                        *failure = later;
                        Some(chunk)
                    }
                    (None, Some(failure)) => return Err(failure),
                    (None, None) => None,
                }
            }
        };
        match chunk {
            Some(chunk) => self.heads.offer(index, chunk),
            None => {
                self.open.remove(&index);
                self.behind.remove(&index);
            }
        }
        Ok(())
    }

    /// Spills more rows of the first file in `spilling`, and adds its first rows to the merge when all have been
    /// written.
    fn spill(&mut self) -> Result<(), SourceError> {
        let Some((index, mut reader, spill)) = self.spilling.pop_front() else { return Ok(()) };
        let origin = self.files[index].file.name();
        let failed = |row, cause| SourceError::Read { origin: origin.clone(), row, cause };
        let mut spill = match spill {
            Some(spill) => spill,
            None => Spill::begin(&self.schema).map_err(|cause| failed(0, cause))?,
        };
        let failure = match reader.next_chunk(&mut self.moments) {
            Ok(Some(chunk)) => {
                spill.add(&chunk).map_err(|cause| failed(reader.behind(), cause))?;
                self.spilling.push_front((index, reader, Some(spill)));
                return Ok(());
            }
            Ok(None) => None,
            Err(cause) => Some(failed(reader.behind(), cause)),
        };
        let spilled = spill.finish().map_err(|cause| failed(reader.behind(), cause))?;
        self.open.insert(index, Rows::Spilled(spilled, failure));
        self.refill(index)
    }

    /// Adds rows to a batch until it is full; `false` if there are no more.
    fn gather(&mut self, batch: &mut Gathering) -> Result<bool, SourceError> {
        let max_rows = self.context.max_rows.get();
        let start = Instant::now();
        while batch.rows() < max_rows {
            if !self.spilling.is_empty() {
                if start.elapsed() > PATIENCE || self.context.stop.is_stopped() {
                    return Ok(true);
                }
                self.spill()?;
                continue;
            }
            let next = self.waiting.front().copied();
            let segment = match self.pending.take() {
                Some(segment) => Some(segment),
                None => self.heads.take(max_rows - batch.rows(), next),
            };
            match (segment, next) {
                (Some(segment), _) => {
                    let (index, last) = (segment.input, segment.last);
                    let behind = segment.last_number() - self.files[index].before;
                    if let Err(segment) = batch.add(segment) {
                        self.pending = Some(segment);
                        return Ok(true);
                    }
                    if behind == self.files[index].end() {
                        self.open.remove(&index);
                        self.behind.remove(&index);
                    } else {
                        self.behind.insert(index, behind);
                        if last {
                            self.refill(index)?;
                        }
                    }
                }
                (None, Some((_, index))) => {
                    self.waiting.pop_front();
                    self.files[index].add_to(&mut self.fingerprint);
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
            time_format: self.moments.format().clone(),
            open: open.collect(),
        };
        Position { rows: self.rows, resume: place.written().into() }
    }
}

impl Source for Lake {
    fn name(&self) -> &str {
        &self.name
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
        if self.end.end_if_stopped(&self.context.stop) {
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
        self.rows += batch.rows() as u64;
        let row = self.rows;
        let failed = |name: &str, cause| SourceError::Read { origin: name.to_owned(), row, cause };
        let events = batch.finish(&self.schema, self.position());
        let mut events = events.map_err(|error| failed(&self.name, error.into()))?;
        events.relative = self.moments.is_relative();
        Ok(Some(events))
    }
}
