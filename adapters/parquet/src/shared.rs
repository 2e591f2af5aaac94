//! A file that several column readers share.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::FOOTER_SIZE;
use parquet::file::reader::{ChunkReader, Length};

use crate::thrift::{self, PageHeader};

/// Opened once for all columns.
#[derive(Clone)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    progress: Arc<ReadProgress>,
    /// Maximum size of a page in bytes, without compression.
    most: u64,
}

/// Maximum size of a page in bytes, without compression: that is how much memory it takes. Most writers begin a new page
/// at 1 MiB.
const MOST: u64 = 128 << 20;

/// The same in columns whose values repeat the start of the value before: a page may contain each of its values in full
/// many times.
const MOST_WITH_PREFIXES: u64 = 4 << 20;

/// Position of the last read, and how often it was repeated. A file that declares pages without rows can make the
/// library read the same page forever.
#[derive(Default)]
struct ReadProgress {
    start: AtomicU64,
    times: AtomicU64,
    /// Where the contents of pages begin whose headers have been read.
    contents: Mutex<HashSet<u64>>,
}

impl SharedFile {
    pub(crate) fn new(file: File) -> SharedFile {
        SharedFile { file: Arc::new(file), progress: Arc::default(), most: MOST }
    }

    /// The same file, of which columns are read whose values repeat the start of the value before.
    #[must_use]
    pub(crate) fn with_prefixes(&self) -> SharedFile {
        SharedFile { most: MOST_WITH_PREFIXES, ..self.clone() }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Checks the sizes that the footer declares.
    ///
    /// # Errors
    /// They are invalid, or the footer cannot be read.
    pub(crate) fn check_footer(&self) -> Result<()> {
        let end = self.len().saturating_sub(FOOTER_SIZE as u64);
        let tail = self.file.get_bytes(end, FOOTER_SIZE.min(usize::try_from(self.len())?))?;
        let length = tail.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        // An invalid footer is reported by the library.
        let Some(start) = end.checked_sub(u64::from(length)) else { return Ok(()) };
        if thrift::is_credible(&self.file.get_bytes(start, usize::try_from(length)?)?) {
            return Ok(());
        }
        Err(ParquetError::General(thrift::TOO_MANY.to_owned()))
    }
}

impl ReadProgress {
    /// # Errors
    /// The same position is read so often that there is no progress.
    fn read(&self, start: u64) -> Result<()> {
        const OFTEN: u64 = 10_000;
        let is_same = self.start.swap(start, Ordering::Relaxed) == start;
        let before = self.times.load(Ordering::Relaxed);
        self.times.store(if is_same { before + 1 } else { 0 }, Ordering::Relaxed);
        if is_same && before >= OFTEN {
            let reason = format!("it is damaged: reading it does not get beyond byte {start}");
            return Err(ParquetError::General(reason));
        }
        Ok(())
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for SharedFile {
    type T = <File as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.progress.read(start)?;
        let mut reader = self.file.get_read(start)?;
        // Everything before the footer is read at the position of a page header, or behind one that was looked at before.
        let is_page = start < self.len().saturating_sub(FOOTER_SIZE as u64);
        let mut contents = self.progress.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if is_page && !contents.contains(&start) {
            let bytes = reader.fill_buf()?;
            if !thrift::is_credible(bytes) {
                return Err(ParquetError::General(thrift::TOO_MANY.to_owned()));
            }
            let mut header = PageHeader::read(bytes);
            if header.length.is_none() {
                // It has long texts.
                const LONG: u64 = 1 << 20;
                let more = usize::try_from((self.len() - start).min(LONG))?;
                header.length = PageHeader::read(&self.file.get_bytes(start, more)?).length;
            }
            // Behind the header of an empty page is the next header.
            if let Some(length) = header.length.filter(|_| header.compressed.is_some_and(|size| size > 0)) {
                contents.insert(start + length as u64);
            }
            if let Some(size) = header.size.filter(|size| *size > self.most) {
                return Err(ParquetError::General(format!(
                    "a page has {size} bytes when it is decompressed, more than the {} that are read; write it with \
                     smaller pages (`data_page_size`), or without dictionaries",
                    self.most
                )));
            }
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.progress.read(start)?;
        self.file.get_bytes(start, length)
    }
}
