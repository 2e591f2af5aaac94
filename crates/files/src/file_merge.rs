//! Several files as one source: their rows merged by time, and each file open only while its times are merged.
//!
//! A file is opened when the next row of the others is later than its first time, and closed at its end: as many are open
//! as overlap in time, and where that is too many, the rows of further ones are spilled to disk. The files of a format are [`MergedFiles`], which read their rows; which file is read when, the
//! batches and the position to resume from are the same for all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use fairstream_core::{
    EndOfInput, EventBatch, Position, Source, SourceContext, SourceError, SourceFiles, TimeFormat,
};

use crate::spill::{Spill, Spilled};
use crate::{Chunk, FilesPosition, Fingerprint, Gathering, Heads, Segment};

/// Files of one format that can be merged by time. A file is named by its index.
///
/// # Contract
/// - A file is opened at most once, and no rows of it are asked for before, or after its end.
/// - Rows of a file are in order of time; a row that is not is merged where it stands.
pub trait MergedFiles: Send {
    /// Name of the whole in messages.
    fn name(&self) -> &str;

    /// The schema of all rows.
    fn schema(&self) -> &SchemaRef;

    /// The columns that the files have; empty if that is not known.
    fn offers(&self) -> Vec<String>;

    /// Which row numbers belong to which file.
    fn source_files(&self) -> SourceFiles;

    /// How the source is run.
    fn context(&self) -> &SourceContext;

    /// The format of times, once one has been read.
    fn time_format(&self) -> &TimeFormat;

    /// Whether times are relative to the start of the trace.
    fn is_relative(&self) -> bool;

    /// Adds what identifies a file, and must be the same when a run is resumed.
    fn add_to(&self, file: usize, fingerprint: &mut Fingerprint);

    /// Opens a file for the rows after its first `behind`. So far `merged` rows of all files have been returned.
    ///
    /// # Errors
    /// It cannot be opened.
    fn open(&mut self, file: usize, behind: u64, merged: u64) -> Result<(), SourceError>;

    /// The next rows of an open file, of which `behind` have been returned.
    ///
    /// # Errors
    /// They cannot be read. The rows before have been returned.
    fn next_rows(&mut self, file: usize, behind: u64) -> Result<NextRows, SourceError>;

    /// Number of rows of the file that have been returned, once `segment` is returned after `behind`; `None` if it has no
    /// more that are wanted.
    fn behind(&self, behind: u64, segment: &Segment) -> Option<u64>;

    /// Closes a file, at its end or before.
    fn close(&mut self, file: usize);

    /// Whether a file that has just been opened may stay open besides the others; if not, its rows are spilled to disk.
    fn has_room(&self, file: usize) -> bool;

    /// Why a run cannot be resumed with these files.
    fn changed(&self) -> &'static str {
        "the files are not those that were read before"
    }
}

/// What a file has next.
#[derive(Debug)]
pub enum NextRows {
    /// Rows, possibly none.
    Rows(Chunk),
    /// Not known yet: ask again.
    NotYet,
    /// The file has ended.
    End,
}

/// Files that are read as one source.
pub struct FileMerge<F> {
    files: F,
    /// First time and index of each file that has rows to be read, sorted.
    schedule: Vec<(i64, usize)>,
    /// Those of `schedule` that have not been opened yet.
    waiting: VecDeque<(i64, usize)>,
    /// Open files whose next rows are not known yet. The merge cannot go on before.
    preparing: VecDeque<usize>,
    /// The files whose rows are spilled to disk, or are on the way there.
    spilled: BTreeMap<usize, Spilled>,
    spill: Spill,
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

/// Time after which an empty batch is returned while files are prepared.
const PATIENCE: Duration = Duration::from_millis(500);

impl<F: MergedFiles> FileMerge<F> {
    /// Files to be merged, with their first times, at the position of an earlier run if there is one.
    ///
    /// # Errors
    /// The position is not of these files, or a file cannot be opened.
    pub fn open(
        files: F,
        mut schedule: Vec<(i64, usize)>,
        resume: Option<&Position>,
    ) -> Result<FileMerge<F>, SourceError> {
        schedule.sort_unstable();
        let mut merge = FileMerge {
            files,
            waiting: schedule.iter().copied().collect(),
            schedule,
            preparing: VecDeque::new(),
            spilled: BTreeMap::new(),
            spill: Spill::default(),
            heads: Heads::default(),
            pending: None,
            behind: BTreeMap::new(),
            fingerprint: Fingerprint::default(),
            rows: 0,
            end: EndOfInput::default(),
        };
        if let Some(position) = resume {
            merge.go_to(position)?;
        }
        Ok(merge)
    }

    fn go_to(&mut self, position: &Position) -> Result<(), SourceError> {
        let origin = self.files.name().to_owned();
        let failed = |cause: &str| SourceError::Open { origin: origin.clone(), cause: cause.into() };
        let foreign = || failed("the position is not one of these files");
        let place = FilesPosition::read(&position.resume).ok_or_else(foreign)?;
        let opened: Vec<usize> = self.schedule.iter().take(place.opened).map(|(_, file)| *file).collect();
        for file in &opened {
            self.files.add_to(*file, &mut self.fingerprint);
        }
        if opened.len() != place.opened || self.fingerprint != place.fingerprint {
            return Err(failed(self.files.changed()));
        }
        self.waiting.drain(..place.opened);
        self.rows = position.rows;
        for (rank, behind) in place.open {
            let file = opened.get(rank).ok_or_else(foreign)?;
            self.open_file(*file, behind)?;
        }
        Ok(())
    }

    /// Opens a file for the rows after `behind`, and adds its first rows to the merge.
    fn open_file(&mut self, file: usize, behind: u64) -> Result<(), SourceError> {
        self.files.open(file, behind, self.rows)?;
        self.behind.insert(file, behind);
        if !self.files.has_room(file) {
            self.spilled.insert(file, Spilled::default());
        }
        if !self.refill(file)? {
            self.preparing.push_back(file);
        }
        Ok(())
    }

    /// Adds the next rows of an open file to the merge; `false` if they are not known yet.
    fn refill(&mut self, file: usize) -> Result<bool, SourceError> {
        let behind = self.behind.get(&file).copied().unwrap_or_default();
        if let Some(spilled) = self.spilled.remove(&file) {
            return self.refill_from_disk(file, behind, spilled);
        }
        loop {
            match self.files.next_rows(file, behind)? {
                NextRows::Rows(chunk) if chunk.times.is_empty() => {}
                NextRows::Rows(chunk) => {
                    self.heads.offer(file, chunk);
                    return Ok(true);
                }
                NextRows::NotYet => return Ok(false),
                NextRows::End => {
                    self.close(file);
                    return Ok(true);
                }
            }
        }
    }

    /// The same for a file whose rows are spilled. They are written first, some at each call.
    fn refill_from_disk(
        &mut self,
        file: usize,
        behind: u64,
        mut spilled: Spilled,
    ) -> Result<bool, SourceError> {
        let (names, name) = (self.files.source_files(), self.files.name().to_owned());
        let failed = |cause| {
            let origin = names.names().nth(file).unwrap_or(&name).to_owned();
            SourceError::Read { origin, row: behind, cause }
        };
        if spilled.is_whole() {
            match self.spill.read(&mut spilled, self.files.schema()).map_err(failed)? {
                Some(chunk) => {
                    self.heads.offer(file, chunk);
                    self.spilled.insert(file, spilled);
                }
                None => {
                    self.close(file);
                    spilled.take_failure().map_or(Ok(()), Err)?;
                }
            }
            return Ok(true);
        }
        match self.files.next_rows(file, behind) {
            Ok(NextRows::Rows(chunk)) => self.spill.write(&chunk, &mut spilled).map_err(failed)?,
            Ok(NextRows::NotYet) => {}
            Ok(NextRows::End) => spilled.end(None),
            Err(error) => spilled.end(Some(error)),
        }
        if spilled.is_whole() {
            self.files.close(file);
        }
        self.spilled.insert(file, spilled);
        Ok(false)
    }

    fn close(&mut self, file: usize) {
        self.spilled.remove(&file);
        self.files.close(file);
        self.behind.remove(&file);
    }

    /// Adds rows to a batch until it is full; `false` if there are no more.
    fn gather(&mut self, batch: &mut Gathering) -> Result<bool, SourceError> {
        let max_rows = self.files.context().max_rows.get();
        let start = Instant::now();
        while !batch.is_full(self.files.context()) {
            if self.files.context().stop.is_stopped() {
                return Ok(true);
            }
            if let Some(file) = self.preparing.front().copied() {
                if start.elapsed() > PATIENCE {
                    return Ok(true);
                }
                if self.refill(file)? {
                    self.preparing.pop_front();
                }
                continue;
            }
            let next = self.waiting.front().copied();
            let segment = match self.pending.take() {
                Some(segment) => Some(segment),
                None => self.heads.take(max_rows - batch.rows(), next),
            };
            match (segment, next) {
                (Some(segment), _) => {
                    let (file, rows, is_last) = (segment.input, segment.rows() as u64, segment.last);
                    let count = self.behind.entry(file).or_default();
                    let behind = self.files.behind(*count, &segment);
                    if let Err(segment) = batch.add(segment) {
                        self.pending = Some(segment);
                        return Ok(true);
                    }
                    self.rows += rows;
                    match behind {
                        None => self.close(file),
                        Some(behind) => {
                            *count = behind;
                            if is_last && !self.refill(file)? {
                                self.preparing.push_back(file);
                            }
                        }
                    }
                }
                (None, Some((_, file))) => {
                    self.waiting.pop_front();
                    self.files.add_to(file, &mut self.fingerprint);
                    self.open_file(file, 0)?;
                }
                (None, None) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn position(&self) -> Position {
        let opened = self.schedule.len() - self.waiting.len();
        let ranks: BTreeMap<usize, usize> =
            self.schedule[..opened].iter().enumerate().map(|(rank, (_, file))| (*file, rank)).collect();
        let open = self.behind.iter().filter_map(|(file, behind)| Some((*ranks.get(file)?, *behind)));
        let place = FilesPosition {
            opened,
            fingerprint: self.fingerprint,
            time_format: self.files.time_format().clone(),
            open: open.collect(),
        };
        Position { rows: self.rows, resume: place.written().into() }
    }
}

impl<F: MergedFiles> Source for FileMerge<F> {
    fn name(&self) -> &str {
        self.files.name()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.files.schema())
    }

    fn offers(&self) -> Vec<String> {
        self.files.offers()
    }

    fn source_files(&self) -> SourceFiles {
        self.files.source_files()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.end.end_if_stopped(&self.files.context().stop) {
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
        let events = batch.finish(self.files.schema(), self.position());
        let mut events = events.map_err(|error| SourceError::Read {
            origin: self.files.name().to_owned(),
            row: self.rows,
            cause: error.into(),
        })?;
        events.relative = self.files.is_relative();
        Ok(Some(events))
    }
}
