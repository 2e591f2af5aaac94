//! A file that several readers of columns share.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Open once, however many columns are read from it.
#[derive(Clone)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    progress: Arc<Progress>,
}

/// Where was read last, and how often in succession. A file that says that it has pages without rows can keep the
/// library looking at the same one for ever.
#[derive(Default)]
struct Progress {
    start: AtomicU64,
    times: AtomicU64,
}

impl SharedFile {
    pub(crate) fn new(file: File) -> SharedFile {
        SharedFile { file: Arc::new(file), progress: Arc::default() }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Progress {
    /// # Errors
    /// The same place is read so often that nothing can come of it.
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
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.progress.read(start)?;
        self.file.get_bytes(start, length)
    }
}
