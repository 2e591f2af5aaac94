//! A journal of standard input, which cannot be read again: what was read is written to files durably before it is
//! evaluated, and evaluated from there.
//!
//! A file has the bytes from the offset that is its name on. Files that are not needed any more are removed, but for the first,
//! which has the names of columns.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairstream_core::StopToken;

use crate::input::{BLOCK, Filled};
use crate::output::{create_private_folder, sync_folder, sync_folder_of};

const ENDING: &str = "journal";
/// Bytes of the first file, which is never removed, and of the others, at least.
const FIRST: u64 = if cfg!(test) { 1 << 12 } else { 1 << 20 };
const OTHERS: u64 = if cfg!(test) { 1 << 16 } else { 64 << 20 };

/// Reads standard input through a journal.
pub(crate) struct Journal {
    /// Held as long as this run writes.
    _lock: File,
    folder: PathBuf,
    shared: Arc<JournalShared>,
    /// The file that is read, and the offset in the journal of the next byte of it.
    reading: Option<File>,
    offset: u64,
    block: Vec<u8>,
}

#[derive(Default)]
struct JournalShared {
    state: Mutex<JournalState>,
    changed: Condvar,
}

#[derive(Default)]
struct JournalState {
    /// Bytes that are durable.
    durable: u64,
    /// The offsets at which files begin.
    files: Vec<u64>,
    has_ended: bool,
    is_stopped: bool,
    failed: Option<io::Error>,
}

impl JournalShared {
    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut JournalState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl Journal {
    /// Opens a journal, and goes on writing `input` to it on a thread of its own.
    ///
    /// # Errors
    /// The folder cannot be used, or its files do not follow one another.
    pub(crate) fn open(
        folder: &Path,
        input: impl Read + Send + 'static,
        stop: &StopToken,
    ) -> io::Result<Journal> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the journal {}: {error}", folder.display()))
        };
        create_private_folder(folder).map_err(named)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join("lock"))
            .map_err(named)?;
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(named(io::Error::other("another run writes to it; a run has a folder of its own")));
        }
        sync_folder_of(folder)?;
        let mut files = list(folder)?;
        let durable = drop_torn_line(folder, &mut files)?;
        let shared = Arc::new(JournalShared::default());
        shared.change(|state| (state.durable, state.files) = (durable, files));
        let on_stop = Arc::clone(&shared);
        stop.on_stop(move || on_stop.change(|state| state.is_stopped = true));
        let (to, writing) = (folder.to_owned(), Arc::clone(&shared));
        thread::Builder::new().name("journal".to_owned()).spawn(move || {
            let written = write(&to, input, &writing);
            writing.change(|state| {
                state.has_ended = true;
                state.failed = written.err();
            });
        })?;
        Ok(Journal {
            _lock: lock,
            folder: folder.to_owned(),
            shared,
            reading: None,
            offset: 0,
            block: vec![0; BLOCK],
        })
    }

    /// Goes to an offset.
    ///
    /// # Errors
    /// The journal does not reach that far, or its files there have been removed.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        if offset > self.shared.lock().durable {
            let reason = format!(
                "the journal {} is shorter than it was; `--restart` begins anew",
                self.folder.display()
            );
            return Err(io::Error::other(reason));
        }
        (self.reading, self.offset) = (None, offset);
        Ok(())
    }

    /// Appends the next bytes that are durable. Waits for them, but not past the deadline.
    ///
    /// # Errors
    /// The journal cannot be written or read.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, deadline: Option<Instant>) -> io::Result<Filled> {
        let (begin, end) = {
            let mut state = self.shared.lock();
            loop {
                if state.is_stopped {
                    return Ok(Filled::Stopped);
                }
                if state.durable > self.offset {
                    break;
                }
                if let Some(error) = state.failed.take() {
                    return Err(io::Error::new(
                        error.kind(),
                        format!("the journal cannot be written: {error}"),
                    ));
                }
                if state.has_ended {
                    return Ok(Filled::End);
                }
                let left = deadline.map_or(Duration::from_secs(1), |deadline| {
                    deadline.saturating_duration_since(Instant::now())
                });
                if left.is_zero() {
                    return Ok(Filled::NotYet);
                }
                state =
                    self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            // The file that has the next byte, up to the next file.
            let next = state.files.partition_point(|begin| *begin <= self.offset);
            let end = state.files.get(next).copied().unwrap_or(u64::MAX).min(state.durable);
            (next.checked_sub(1).map(|at| state.files[at]), end)
        };
        let Some(begin) = begin else { return Err(io::Error::other("the journal begins after that")) };
        let mut file = match self.reading.take() {
            Some(file) if self.offset != begin => file,
            _ => {
                let mut file = File::open(path_of(&self.folder, begin))?;
                file.seek(SeekFrom::Start(self.offset - begin))?;
                file
            }
        };
        let most = usize::try_from(end - self.offset).unwrap_or(usize::MAX).min(self.block.len());
        let read = file.read(&mut self.block[..most])?;
        if read == 0 {
            return Err(io::Error::other("a file of the journal is shorter than it was"));
        }
        buffer.extend_from_slice(&self.block[..read]);
        self.offset += read as u64;
        self.reading = Some(file);
        Ok(Filled::More)
    }

    /// Removes files that end before an offset.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub(crate) fn acknowledge(&mut self, offset: u64) -> io::Result<()> {
        let mut removed = Vec::new();
        self.shared.change(|state| {
            let needed = state.files.partition_point(|begin| *begin <= offset).saturating_sub(1);
            if needed > 1 {
                removed.extend(state.files.drain(1..needed));
            }
        });
        removed.into_iter().try_for_each(|begin| std::fs::remove_file(path_of(&self.folder, begin)))
    }
}

fn path_of(folder: &Path, begin: u64) -> PathBuf {
    folder.join(format!("{begin:020}.{ENDING}"))
}

/// The offsets at which the files of a journal begin, in order.
fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING)
            && let Some(begin) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            files.push(begin);
        }
    }
    files.sort_unstable();
    for (at, pair) in files.windows(2).enumerate() {
        let end = pair[0] + path_of(folder, pair[0]).metadata()?.len();
        // Files after the first have been removed once they were not needed any more.
        if end > pair[1] || (end < pair[1] && at > 0) {
            return Err(io::Error::other(format!(
                "files of the journal {} do not follow one another",
                folder.display()
            )));
        }
    }
    Ok(files)
}

/// Removes what is left of a line that was not written completely: whoever writes to the pipe writes it again. Returns the
/// length of the journal.
fn drop_torn_line(folder: &Path, files: &mut Vec<u64>) -> io::Result<u64> {
    while let Some(begin) = files.last().copied() {
        let path = path_of(folder, begin);
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        if let Some(whole) = whole.or((files.len() == 1).then_some(0)) {
            let file = File::options().write(true).open(&path)?;
            file.set_len(whole as u64)?;
            file.sync_all()?;
            return Ok(begin + whole as u64);
        }
        std::fs::remove_file(path)?;
        files.pop();
    }
    Ok(0)
}

/// Writes everything that is read to the journal.
fn write(folder: &Path, mut input: impl Read, shared: &JournalShared) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut file: Option<File> = None;
    let mut ends_a_line = true;
    loop {
        let read = match input.read(&mut block) {
            Ok(0) if ends_a_line => return Ok(()),
            // The last line ends with the input, so that nothing is appended to it.
            Ok(0) => {
                block[0] = b'\n';
                1
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        ends_a_line = block[read - 1] == b'\n';
        let (durable, last) = {
            let state = shared.lock();
            (state.durable, state.files.last().copied())
        };
        let longest = if last == Some(0) { FIRST } else { OTHERS };
        let is_full = last.is_none_or(|begin| durable - begin >= longest);
        let begun = is_full.then_some(durable);
        let mut to = match (file.take(), begun.or(last)) {
            (Some(file), _) if !is_full => file,
            (_, begin) => {
                let path = path_of(folder, begin.unwrap_or(0));
                let file = File::options().append(true).create(true).open(path)?;
                sync_folder(folder)?;
                file
            }
        };
        to.write_all(&block[..read])?;
        to.sync_data()?;
        file = Some(to);
        shared.change(|state| {
            state.durable += read as u64;
            state.files.extend(begun);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(journal: &mut Journal) -> Vec<u8> {
        let mut buffer = Vec::new();
        while journal.fill(&mut buffer, None).unwrap() == Filled::More {}
        buffer
    }

    #[test]
    fn what_was_read_is_read_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopToken::default();
        let mut first = Journal::open(folder.path(), &b"a\nb\nc"[..], &stop).unwrap();
        assert_eq!(read(&mut first), b"a\nb\nc\n");
        // As a crash leaves it.
        std::fs::write(path_of(folder.path(), 0), "a\nb\nhal").unwrap();
        drop(first);
        let mut second = Journal::open(folder.path(), &b"half\nd\n"[..], &stop).unwrap();
        second.seek(2).unwrap();
        assert_eq!(read(&mut second), b"b\nhalf\nd\n");
        assert!(second.seek(100).is_err());
        let other = Journal::open(folder.path(), io::empty(), &stop).map(|_| ()).unwrap_err();
        assert!(other.to_string().contains("another run"), "{other}");
    }

    #[test]
    fn files_that_are_not_needed_are_removed_but_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopToken::default();
        let text: Vec<u8> = (0..200_000_u32)
            .flat_map(|n| [b'0' + (n % 10) as u8, b'\n', b'x', b'\n', b'y', b'\n', b'\n'])
            .collect();
        let mut journal = Journal::open(folder.path(), io::Cursor::new(text.clone()), &stop).unwrap();
        assert!(read(&mut journal) == text);
        let before = list(folder.path()).unwrap();
        assert!(before.len() > 3, "{before:?}");
        journal.acknowledge(text.len() as u64).unwrap();
        let after = list(folder.path()).unwrap();
        assert_eq!(after, [before[0], *before.last().unwrap()]);
        drop(journal);
        let mut again = Journal::open(folder.path(), io::empty(), &stop).unwrap();
        again.seek(text.len() as u64 - 7).unwrap();
        assert_eq!(read(&mut again), &text[text.len() - 7..]);
    }
}
