//! One Parquet file: its footer, and its rows, row group by row group.

use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use fairstream_core::{Cause, Time, TimeRange, WantedColumn, catch_panic};
use fairstream_files::{Chunk, DataFile, Fingerprint, FirstTime};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Encoding, Type};
use parquet::errors::ParquetError;
use parquet::file::reader::Length;

use crate::binding::Binding;
use crate::moments::{Moments, NEVER};
use crate::path::ColumnPath;
use crate::shared::SharedFile;
use crate::texts;

/// Metadata of a file, known before its rows are read.
#[derive(Clone, Debug)]
pub(crate) struct FileOutline {
    pub(crate) file: DataFile,
    /// Number of rows.
    pub(crate) rows: u64,
    /// For each row group its rows, and the first and last time if they are known.
    pub(crate) groups: Vec<RowGroup>,
    /// Number of rows in the files before.
    pub(crate) before: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RowGroup {
    /// Number of rows of the file before this group.
    pub(crate) start: u64,
    pub(crate) rows: u64,
    pub(crate) range: Option<(i64, i64)>,
}

impl RowGroup {
    fn end(&self) -> u64 {
        self.start + self.rows
    }

    fn is_wanted(&self, time_range: &TimeRange) -> bool {
        self.rows > 0 && self.range.is_none_or(|(first, last)| time_range.touches(Time(first), Time(last)))
    }
}

impl FileOutline {
    /// Adds what identifies the file.
    pub(crate) fn add_to(&self, fingerprint: &mut Fingerprint) {
        fingerprint.add(&self.file.name(), &[self.rows, self.end(), self.groups.len() as u64]);
    }

    /// Drops the row groups outside the monitored time range.
    pub(crate) fn prune(&mut self, time_range: &TimeRange) {
        self.groups.retain(|group| group.is_wanted(time_range));
    }

    /// The first time, if statistics contain it.
    pub(crate) fn first_time(&self) -> Option<i64> {
        self.groups.iter().map(|group| group.range.map(|(first, _)| first)).min().flatten()
    }

    /// Number of rows after which no more rows need to be read.
    pub(crate) fn end(&self) -> u64 {
        self.groups.last().map_or(0, RowGroup::end)
    }
}

/// A file whose footer has been read.
pub(crate) struct OpenFile {
    handle: SharedFile,
    metadata: ArrowReaderMetadata,
    /// The same, with texts that are read as views.
    viewed: ArrowReaderMetadata,
}

impl OpenFile {
    /// Reads the footer.
    ///
    /// # Errors
    /// It cannot be read, or is no Parquet footer.
    pub(crate) fn open(file: &DataFile) -> Result<OpenFile, Cause> {
        let handle = SharedFile::new(File::open(&file.path).map_err(too_many)?);
        if handle.len() == 0 {
            return Err("it is empty, not a Parquet file".into());
        }
        let load = || {
            handle.check_footer()?;
            let metadata = ArrowReaderMetadata::load(&handle, ArrowReaderOptions::new())?;
            let options = ArrowReaderOptions::new().with_schema(texts::with_views(metadata.schema()));
            // Types that are read in one layout only stay as they are.
            let viewed = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options);
            Ok::<_, ParquetError>((viewed.unwrap_or_else(|_| metadata.clone()), metadata))
        };
        let (viewed, metadata) = guarded(load).map_err(|cause| in_words(handle.file(), cause))?;
        Ok(OpenFile { handle, metadata, viewed })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Binds its columns to the requested ones.
    pub(crate) fn bind(
        &self,
        file: &DataFile,
        wanted: &[WantedColumn],
        time: Option<&str>,
    ) -> Result<Binding, Cause> {
        Binding::new(self.schema(), &file.partitions, wanted, time)
    }

    /// Checks that the columns can be decompressed.
    pub(crate) fn check_codecs(&self, binding: &Binding) -> Result<(), Cause> {
        let leaves: Vec<usize> = binding.paths().flat_map(|path| self.leaves(path)).collect();
        for group in self.metadata.metadata().row_groups() {
            for column in leaves.iter().filter_map(|leaf| group.columns().get(*leaf)) {
                if matches!(column.compression(), Compression::BROTLI(_) | Compression::LZO) {
                    return Err(format!(
                        "column `{}` is compressed with {}, which is not read; write it with zstd, snappy, \
                         gzip, lz4 or none",
                        column.column_path().parts().join("."),
                        column.compression(),
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Row groups with their first and last times, as far as statistics contain them, or numbers of rows tell them.
    /// `before` is the number of rows in the files before.
    pub(crate) fn groups(&self, binding: &Binding, moments: &Moments, before: u64) -> Vec<RowGroup> {
        let groups = self.metadata.metadata().row_groups();
        let ranges = self.ranges(binding, moments).unwrap_or_else(|| vec![None; groups.len()]);
        let mut start = 0;
        let outline = |(group, range): (&parquet::file::metadata::RowGroupMetaData, _)| {
            let rows = u64::try_from(group.num_rows()).unwrap_or_default();
            let of_row = |number: u64| Time::of_row(before + start + number).0;
            let range = if binding.is_by_row() { Some((of_row(1), of_row(rows))) } else { range };
            let group = RowGroup { start, rows, range };
            start += rows;
            group
        };
        groups.iter().zip(ranges).map(outline).collect()
    }

    fn ranges(&self, binding: &Binding, moments: &Moments) -> Option<Vec<Option<(i64, i64)>>> {
        let groups = self.metadata.metadata().row_groups();
        if let Some(time) = binding.time_everywhere() {
            let (times, _) = moments.clone().read(time).ok()?;
            let only = times.first().copied().filter(|time| *time != NEVER);
            return Some(vec![only.map(|time| (time, time)); groups.len()]);
        }
        let path = binding.time_path()?;
        let leaf = self.leaves(path).next()?;
        let schema = self.metadata.parquet_schema();
        // Statistics of texts may be truncated; those of the old 12-byte timestamps are unreliable.
        let is_number = path.data_type.is_integer() || path.data_type.is_floating();
        if !is_number && !path.data_type.is_temporal() || schema.column(leaf).physical_type() == Type::INT96 {
            return None;
        }
        let field = Field::new("time", path.data_type.clone(), true);
        let statistics = StatisticsConverter::from_column_index(leaf, &field, schema).ok()?;
        let read = |ends: parquet::errors::Result<_>| moments.clone().read(&ends.ok()?).ok();
        let (firsts, _) = read(statistics.row_group_mins(groups))?;
        let (lasts, _) = read(statistics.row_group_maxes(groups))?;
        let known =
            |(first, last): (&i64, &i64)| (*first != NEVER && *last != NEVER).then_some((*first, *last));
        Some(firsts.iter().zip(lasts.iter()).map(known).collect())
    }

    /// Reads times up to the first that can be read, which decides the format of all, or that many.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn peek(
        &self,
        binding: &Binding,
        moments: &mut Moments,
        limit: usize,
    ) -> Result<Option<i64>, Cause> {
        if let Some(time) = binding.time_everywhere() {
            let (times, _) = moments.read(time)?;
            return Ok(times.first().copied().filter(|time| *time != NEVER));
        }
        let mask = self.mask(binding.time_path().into_iter());
        let groups = 0..self.metadata.metadata().num_row_groups();
        let mut read = 0;
        for group in groups {
            let mut reader = guarded(|| self.reader(group, mask.clone(), FirstTime::ROWS, 0))?;
            while let Some(rows) = guarded(|| reader.next().transpose())? {
                let (times, _) = binding.times(&rows, 1, moments)?;
                if let Some(time) = times.iter().find(|time| **time != NEVER) {
                    return Ok(Some(*time));
                }
                read += rows.num_rows();
                if read >= limit {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn reader(
        &self,
        group: usize,
        mask: ProjectionMask,
        batch_size: usize,
        skipped: usize,
    ) -> Result<ParquetRecordBatchReader, Cause> {
        let mut handle = self.handle.clone();
        let mut batch_size = batch_size;
        let schema = self.metadata.parquet_schema();
        let columns = self.metadata.metadata().row_group(group).columns();
        for (leaf, column) in columns.iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf)) {
            if column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY) {
                handle = handle.with_prefixes();
                batch_size = batch_size.min(ROWS_WITH_PREFIXES);
            }
            if schema.column(leaf).physical_type() == Type::FIXED_LEN_BYTE_ARRAY {
                let width = usize::try_from(schema.column(leaf).type_length()).unwrap_or_default();
                batch_size = batch_size.min((texts::MAX_VALUE / width.max(1)).max(1));
            }
        }
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, self.viewed.clone());
        let builder = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(batch_size);
        Ok(builder.with_offset(skipped).build()?)
    }

    fn mask<'a>(&self, paths: impl Iterator<Item = &'a ColumnPath>) -> ProjectionMask {
        let leaves: Vec<usize> = paths.flat_map(|path| self.leaves(path)).collect();
        ProjectionMask::leaves(self.metadata.parquet_schema(), leaves)
    }

    /// Indices of the leaf columns of a column.
    fn leaves(&self, path: &ColumnPath) -> impl Iterator<Item = usize> {
        let columns = self.metadata.parquet_schema().columns().iter().enumerate();
        columns.filter(|(_, column)| column.path().parts().starts_with(&path.names)).map(|(index, _)| index)
    }
}

/// Maximum number of rows that are read at once from a column whose values repeat the start of the value before. Each may
/// be as large as a page.
const ROWS_WITH_PREFIXES: usize = 128;

/// Reads the rows of a file, one chunk after another.
pub(crate) struct FileReader {
    file: OpenFile,
    binding: Binding,
    schema: SchemaRef,
    mask: ProjectionMask,
    groups: Vec<RowGroup>,
    /// Number of rows in the files before.
    before: u64,
    batch_size: usize,
    /// The current row group, and its reader.
    reading: Option<(usize, RowGroup, ParquetRecordBatchReader)>,
    /// Rows that have been read, and not been returned.
    rest: Option<RecordBatch>,
    /// Number of bytes of values in a chunk.
    max_bytes: usize,
    /// The next row, counted from 0.
    next: u64,
}

impl FileReader {
    /// Opens a file for the rows from `next` on.
    ///
    /// # Errors
    /// It cannot be read, or is not the file that was opened before.
    pub(crate) fn open(
        outline: &FileOutline,
        next: u64,
        wanted: &[WantedColumn],
        time: Option<&str>,
        schema: &SchemaRef,
        (batch_size, max_bytes): (usize, usize),
    ) -> Result<FileReader, Cause> {
        let file = OpenFile::open(&outline.file)?;
        let rows = file.metadata.metadata().file_metadata().num_rows();
        if u64::try_from(rows).ok() != Some(outline.rows) {
            return Err("it has changed since the run began".into());
        }
        let binding = file.bind(&outline.file, wanted, time)?;
        let mask = file.mask(binding.paths());
        Ok(FileReader {
            mask,
            binding,
            schema: Arc::clone(schema),
            groups: outline.groups.clone(),
            before: outline.before,
            batch_size,
            reading: None,
            rest: None,
            max_bytes,
            next,
            file,
        })
    }

    /// Number of columns that it reads.
    pub(crate) fn columns(&self) -> usize {
        self.binding.paths().count()
    }

    /// Number of rows of the file that have been returned.
    pub(crate) fn behind(&self) -> u64 {
        self.next
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read further. All rows before that have been returned.
    pub(crate) fn next_chunk(&mut self, moments: &mut Moments) -> Result<Option<Chunk>, Cause> {
        let rows = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next_rows()? {
                Some(rows) => rows,
                None => return Ok(None),
            },
        };
        let within = self.binding.rows_within(&rows, self.max_bytes);
        let more = rows.num_rows() - within;
        self.rest = (more > 0).then(|| rows.slice(within, more));
        let rows = rows.slice(0, within);
        let first = self.before + self.next + 1;
        let chunk = self.binding.decode(&rows, first, &self.schema, moments)?;
        self.next += rows.num_rows() as u64;
        Ok(Some(chunk))
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, Cause> {
        loop {
            if self.reading.is_none() && !self.begin_group(self.batch_size)? {
                return Ok(None);
            }
            let Some((_, _, reader)) = &mut self.reading else { return Ok(None) };
            match guarded(|| reader.next().transpose()) {
                Ok(Some(rows)) if rows.num_rows() > 0 => return Ok(Some(rows)),
                Ok(_) => self.reading = None,
                // The rows before the fault are read one by one.
                Err(_) if self.batch_size > 1 => {
                    self.batch_size = 1;
                    self.reading = None;
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Begins the row group that has the next row; `false` if there is none.
    fn begin_group(&mut self, batch_size: usize) -> Result<bool, Cause> {
        let Some(group) = self.groups.iter().find(|group| group.end() > self.next).copied() else {
            return Ok(false);
        };
        self.next = self.next.max(group.start);
        let starts = self.file.metadata.metadata().row_groups();
        let mut before = 0;
        let index = starts.iter().position(|own| {
            let start = before;
            before += u64::try_from(own.num_rows()).unwrap_or_default();
            start == group.start && own.num_rows() > 0
        });
        let index = index.ok_or("it has changed since the run began")?;
        let skipped = usize::try_from(self.next - group.start)?;
        let reader = guarded(|| self.file.reader(index, self.mask.clone(), batch_size, skipped))?;
        self.reading = Some((index, group, reader));
        Ok(true)
    }
}

/// Files that overlap in time are open at the same time, and the system limits their number.
fn too_many(error: io::Error) -> Cause {
    /// The Unix error code for too many open files.
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => {
            format!("{error}: so many overlap in time; `--sort` reads them one after another").into()
        }
        _ => error.into(),
    }
}

/// Runs third-party code on input that may be invalid, and catches its panics.
pub(crate) fn guarded<T, E: Into<Cause>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Cause> {
    match catch_panic(work) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(format!("it is damaged ({panic})").into()),
    }
}

/// A readable error for a file whose footer cannot be read.
fn in_words(file: &File, cause: Cause) -> Cause {
    use std::io::{Read, Seek, SeekFrom};
    let mut start = [0; 4];
    let mut end = [0; 4];
    let mut file = file;
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_exact(&mut start))
        .and_then(|()| file.seek(SeekFrom::End(-4)))
        .and_then(|_| file.read_exact(&mut end));
    match (read, &start, &end) {
        (Ok(()), _, b"PARE") => "it is encrypted; encrypted Parquet is not read".into(),
        (Ok(()), b"PAR1", b"PAR1") => format!("its footer is damaged: {cause}").into(),
        (Ok(()), b"PAR1", _) => {
            "it is cut off: its footer is missing, so it was not copied or written to its end".into()
        }
        (_, b"ARRO", _) => "it is an Arrow file; write `arrow:` in front of it".into(),
        _ => "it is not a Parquet file".into(),
    }
}
