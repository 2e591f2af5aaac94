//! The Parquet source: one or more files, merged by time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    Adapter, Cause, OptionDoc, ROW_ORDER, ROW_ORDER_ONLY, Source, SourceContext, SourceError, SourceFactory,
    SourceFiles, SourceRequest, TimeFormat, WantedColumn, columns_of,
};
use fairstream_files::{
    DataFile, FileMerge, FilesPosition, Fingerprint, FirstTime, MergedFiles, NextRows, SORT, Segment,
    data_files, title_of,
};

use crate::binding::{is_by_row, offers};
use crate::file::{FileOutline, FileReader, OpenFile};
use crate::moments::{Moments, NEVER};

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

    fn takes_several_files(&self) -> bool {
        true
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let location = &request.location;
        let bad_option = |bad| request.refuse(bad);
        let failed = |cause: Cause| request.cannot_open(cause);
        let format = request.options.parse("time_format", TimeFormat::Auto).map_err(bad_option)?;
        let place = request.resume.as_ref().and_then(|position| FilesPosition::read(&position.resume));
        let format = place.map_or(format, |place| place.time_format);
        let mut lake = Lake {
            name: title_of(request),
            time: Some(request.options.text("time").unwrap_or("time").to_owned()),
            wanted: request.wanted.clone(),
            moments: Moments::new(format),
            context: request.context.clone(),
            schema: Arc::new(Schema::empty()),
            offers: Vec::new(),
            files: Vec::new(),
            source_files: SourceFiles::default(),
            open: BTreeMap::new(),
        };
        if location == "-" {
            return Err(failed(
                "Parquet cannot be read from a pipe; name a file, or send `arrow:-` a stream".into(),
            ));
        }
        let mut files = data_files(location, &["parquet"]).map_err(failed)?;
        for other in &request.others {
            let failed = |cause: Cause| SourceError::Open { origin: other.clone(), cause };
            files.extend(data_files(other, &["parquet"]).map_err(failed)?);
        }
        lake.look_at(files)?;
        let schedule = lake.schedule(request)?;
        Ok(Box::new(FileMerge::open(lake, schedule, request.resume.as_ref())?))
    }
}

/// The files of a folder or pattern, or a single one.
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
    open: BTreeMap<usize, FileReader>,
}

/// Maximum number of columns of open files. Each has one or two pages of a megabyte in memory.
const MAX_COLUMNS: usize = 128;

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

    /// The files that have rows to be read, with their first times.
    fn schedule(&mut self, request: &SourceRequest) -> Result<Vec<(i64, usize)>, SourceError> {
        let mut schedule = Vec::new();
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
            schedule.push((first, index));
        }
        Ok(schedule)
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
}

impl MergedFiles for Lake {
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
        &self.context
    }

    fn time_format(&self) -> &TimeFormat {
        self.moments.format()
    }

    fn is_relative(&self) -> bool {
        self.moments.is_relative()
    }

    fn add_to(&self, file: usize, fingerprint: &mut Fingerprint) {
        self.files[file].add_to(fingerprint);
    }

    fn changed(&self) -> &'static str {
        "the files are not those that were read before, or `--since` or `--until` is another"
    }

    fn open(&mut self, file: usize, behind: u64, _merged: u64) -> Result<(), SourceError> {
        /// Large enough for fast reading, and small enough for hundreds of open files.
        const CHUNK: usize = 8192;
        const CHUNK_BYTES: usize = 1 << 20;
        let outline = &self.files[file];
        let batch_size = self.context.max_rows.get().min(CHUNK);
        let max_bytes = self.context.max_bytes.get();
        let max_bytes = if self.files.len() > 1 { max_bytes.min(CHUNK_BYTES) } else { max_bytes };
        let sizes = (batch_size, max_bytes);
        let reader =
            FileReader::open(outline, behind, &self.wanted, self.time.as_deref(), &self.schema, sizes);
        let reader = reader.map_err(|cause| SourceError::Open { origin: outline.file.name(), cause })?;
        self.open.insert(file, reader);
        Ok(())
    }

    fn has_room(&self, file: usize) -> bool {
        let columns = self.open.get(&file).map_or(0, FileReader::columns);
        self.open.len() <= 1 || self.open.len() * columns <= MAX_COLUMNS
    }

    fn next_rows(&mut self, file: usize, _behind: u64) -> Result<NextRows, SourceError> {
        let Some(reader) = self.open.get_mut(&file) else { return Ok(NextRows::End) };
        let chunk = reader.next_chunk(&mut self.moments).map_err(|cause| SourceError::Read {
            origin: self.files[file].file.name(),
            row: reader.behind(),
            cause,
        })?;
        Ok(chunk.map_or(NextRows::End, NextRows::Rows))
    }

    fn behind(&self, _behind: u64, segment: &Segment) -> Option<u64> {
        let outline = &self.files[segment.input];
        let behind = segment.last_number() - outline.before;
        (behind < outline.end()).then_some(behind)
    }

    fn close(&mut self, file: usize) {
        self.open.remove(&file);
    }
}
