//! A file that grows, as `tail -F` reads it: its end is waited for, and where another file takes its place, the rest of the
//! old one is read first.
//!
//! Offsets count the bytes of all files that were read one after another. A position therefore has an anchor: where in that
//! count its file begins, and a hash of the beginning of the file, by which it is found again under another name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use fairstream_core::StopToken;

use crate::input::{BLOCK, Filled};

/// How often the end of the file is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes at the beginning by which a file is recognised.
const HEAD: usize = 4096;
/// How many files of the past have anchors.
const GENERATIONS: usize = 16;

/// A file that grows.
pub(crate) struct Followed {
    path: PathBuf,
    file: File,
    /// The files that have been read, the current one last.
    generations: Vec<Generation>,
    /// Bytes of the current file that have been read.
    read: u64,
    /// Whether they end with a line end.
    ends_a_line: bool,
    /// Files that come before the one at `path`.
    later: Vec<PathBuf>,
    stopped: Receiver<()>,
    block: Vec<u8>,
}

/// One of the files that are read one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Generation {
    /// How many bytes come before it.
    base: u64,
    /// Its beginning.
    head: Vec<u8>,
}

impl Followed {
    /// Follows a file from its beginning.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: &Path, stop: &StopToken) -> io::Result<Followed> {
        let (running, stopped) = crossbeam_channel::bounded(0);
        stop.on_stop(move || drop(running));
        Ok(Followed {
            path: path.to_owned(),
            file: File::open(path)?,
            generations: vec![Generation { base: 0, head: Vec::new() }],
            read: 0,
            ends_a_line: true,
            later: Vec::new(),
            stopped,
            block: vec![0; BLOCK],
        })
    }

    fn base(&self) -> u64 {
        self.generations.last().map_or(0, |current| current.base)
    }

    /// What a position at an offset needs for its file to be found again.
    pub(crate) fn anchor(&self, offset: u64) -> Vec<u8> {
        // At the beginning of a file, the end of the one before: an empty file cannot be recognised.
        let of = self.generations.iter().rev().find(|generation| generation.base < offset);
        of.or(self.generations.first()).map_or_else(Vec::new, |Generation { base, head }| {
            // A file may have grown since, so only what was read before the position identifies it.
            let known = usize::try_from(offset - base).unwrap_or(usize::MAX).min(head.len());
            [&base.to_le_bytes(), &head[..known]].concat()
        })
    }

    /// Finds the file of an anchor, also if it has another name now, and those that came after it.
    ///
    /// # Errors
    /// There is no such file any more.
    pub(crate) fn set_anchor(&mut self, anchor: &[u8]) -> io::Result<()> {
        let Some((base, head)) = anchor.split_first_chunk() else {
            return Err(io::Error::other("the position is not one of a file that is followed"));
        };
        let base = u64::from_le_bytes(*base);
        let mut candidates = self.rotated()?;
        candidates.push(self.path.clone());
        let begins = |path: &PathBuf| begins_with(path, head).unwrap_or(false);
        let Some(at) = candidates.iter().rposition(begins) else {
            return Err(io::Error::other(
                "the file that was read is gone, also under other names beside it, so rows may be missing",
            ));
        };
        self.later = candidates.split_off(at + 1);
        self.file = File::open(&candidates[at])?;
        self.generations = vec![Generation { base, head: head.to_vec() }];
        self.read = 0;
        Ok(())
    }

    /// The files beside this one whose names begin with its name, the oldest first.
    fn rotated(&self) -> io::Result<Vec<PathBuf>> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let other = entry.file_name().to_string_lossy().into_owned();
            let is_rotated = other.len() > name.len() && other.starts_with(&name);
            if is_rotated && let Ok(meta) = entry.metadata() {
                files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
            }
        }
        files.sort();
        Ok(files.into_iter().map(|(_, path)| path).collect())
    }

    /// Goes to an offset.
    ///
    /// # Errors
    /// The file is shorter than that.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        let within = offset.checked_sub(self.base()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = self.file.metadata()?.len();
        if bytes.checked_add(1) == Some(within) && bytes > 0 {
            // Behind the line end that was put at the end of the file.
            self.file.seek(SeekFrom::End(0))?;
            (self.read, self.ends_a_line) = (within, true);
            return Ok(());
        }
        if bytes < within {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if within > 0 {
            self.file.seek(SeekFrom::Start(within - 1))?;
            let mut last = [0];
            self.file.read_exact(&mut last)?;
            self.ends_a_line = last == *b"\n";
        }
        self.file.seek(SeekFrom::Start(within))?;
        self.read = within;
        Ok(())
    }

    /// Appends the next bytes. Waits for them, but not past the deadline.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, deadline: Option<Instant>) -> io::Result<Filled> {
        loop {
            if self.is_rewritten()? {
                let again = self.file.try_clone()?;
                let needs_line_end = self.switch(again);
                self.file.rewind()?;
                if needs_line_end {
                    buffer.push(b'\n');
                    return Ok(Filled::More);
                }
            }
            if self.read_more(buffer)? {
                return Ok(Filled::More);
            }
            if let Some(next) = self.next_file()? {
                // What was written between the last look and the change of files.
                if self.read_more(buffer)? {
                    return Ok(Filled::More);
                }
                if !self.later.is_empty() {
                    self.later.remove(0);
                }
                if self.switch(next) {
                    buffer.push(b'\n');
                    return Ok(Filled::More);
                }
                continue;
            }
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.stopped.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(Filled::NotYet),
                Err(RecvTimeoutError::Timeout) => {}
                _ => return Ok(Filled::Stopped),
            }
        }
    }

    /// Whether the file begins otherwise than it did: it was truncated and has grown again.
    fn is_rewritten(&self) -> io::Result<bool> {
        let head = self.generations.last().map_or(&[][..], |current| &current.head);
        #[cfg(unix)]
        {
            let mut now = [0; HEAD];
            let now = &mut now[..head.len()];
            // A shorter file is truncated, which its length says.
            let read = std::os::unix::fs::FileExt::read_at(&self.file, now, 0)?;
            Ok(read == head.len() && now != head)
        }
        #[cfg(not(unix))]
        {
            let _ = head;
            Ok(false)
        }
    }

    fn read_more(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let read = loop {
            match self.file.read(&mut self.block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let bytes = &self.block[..read];
        let Some(last) = bytes.last() else { return Ok(false) };
        self.ends_a_line = *last == b'\n';
        if let Some(current) = self.generations.last_mut()
            && current.head.len() as u64 == self.read
            && current.head.len() < HEAD
        {
            let more = (HEAD - current.head.len()).min(read);
            current.head.extend_from_slice(&bytes[..more]);
        }
        self.read += read as u64;
        buffer.extend_from_slice(bytes);
        Ok(true)
    }

    /// The file that takes the place of the current one, if there is one. Where files change places quickly, others came in
    /// between.
    fn next_file(&mut self) -> io::Result<Option<File>> {
        if let Some(next) = self.later.first() {
            return File::open(next).map(Some);
        }
        // While files change places, there may be none.
        let Ok(next) = File::open(&self.path) else { return Ok(None) };
        let (now, meta) = (self.file.metadata()?, next.metadata()?);
        if identity(&now) == identity(&meta) {
            return Ok((meta.len() < self.read).then_some(next));
        }
        let mut rotated = self.rotated()?;
        let is_current = |path: &PathBuf| path.metadata().is_ok_and(|meta| identity(&meta) == identity(&now));
        let Some(at) = rotated.iter().position(is_current) else { return Ok(Some(next)) };
        self.later = rotated.split_off(at + 1);
        self.later.push(self.path.clone());
        self.next_file()
    }

    /// Reads another file from its beginning. Whether a line end has to be put between the two.
    fn switch(&mut self, next: File) -> bool {
        let needs_line_end = !self.ends_a_line;
        let base = self.base() + self.read + u64::from(needs_line_end);
        self.generations.push(Generation { base, head: Vec::new() });
        if self.generations.len() > GENERATIONS {
            self.generations.remove(0);
        }
        (self.file, self.read, self.ends_a_line) = (next, 0, true);
        needs_line_end
    }
}

/// Device and number of a file.
#[cfg(unix)]
fn identity(meta: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

#[cfg(not(unix))]
fn identity(meta: &std::fs::Metadata) -> Option<SystemTime> {
    meta.created().ok()
}

fn begins_with(path: &Path, head: &[u8]) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(head.len() as u64).read_to_end(&mut start)?;
    Ok(start == head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(followed: &mut Followed) -> String {
        let mut buffer = Vec::new();
        let deadline = Instant::now() + Duration::from_millis(60);
        while followed.fill(&mut buffer, Some(deadline)).unwrap() == Filled::More {}
        String::from_utf8(buffer).unwrap()
    }

    fn append(path: &Path, text: &str) {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    #[test]
    fn what_is_appended_is_read_through_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        append(&path, "a\nb\n");
        let stop = StopToken::default();
        let mut followed = Followed::open(&path, &stop).unwrap();
        assert_eq!(read(&mut followed), "a\nb\n");
        append(&path, "c\nhal");
        assert_eq!(read(&mut followed), "c\nhal");
        append(&path, "f");
        std::fs::rename(&path, folder.path().join("events.jsonl.1")).unwrap();
        append(&path, "d\n");
        assert_eq!(read(&mut followed), "f\nd\n");
        // Truncated in place.
        std::fs::write(&path, "").unwrap();
        assert_eq!(read(&mut followed), "");
        append(&path, "e\n");
        assert_eq!(read(&mut followed), "e\n");
        // The same, with more than there was before it is looked at again.
        std::fs::write(&path, "f\ng\n").unwrap();
        assert_eq!(read(&mut followed), "f\ng\n");
        stop.stop();
        assert_eq!(followed.fill(&mut Vec::new(), None).unwrap(), Filled::Stopped);
    }

    #[test]
    fn a_position_is_found_again_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        append(&path, "a\nb\n");
        let stop = StopToken::default();
        let mut first = Followed::open(&path, &stop).unwrap();
        assert_eq!(read(&mut first), "a\nb\n");
        let anchor = first.anchor(4);
        let resumed = |anchor: &[u8]| -> io::Result<String> {
            let mut second = Followed::open(&path, &stop)?;
            second.set_anchor(anchor)?;
            second.seek(4)?;
            Ok(read(&mut second))
        };
        append(&path, "c\n");
        assert_eq!(resumed(&anchor).unwrap(), "c\n");
        for (number, text) in [(1, "d\n"), (2, "e\n")] {
            // So that their times differ on every file system.
            std::thread::sleep(Duration::from_millis(20));
            std::fs::rename(&path, folder.path().join(format!("events.jsonl.{number}"))).unwrap();
            append(&path, text);
        }
        assert_eq!(resumed(&anchor).unwrap(), "c\nd\ne\n");
        std::fs::remove_file(folder.path().join("events.jsonl.1")).unwrap();
        assert!(resumed(&anchor).unwrap_err().to_string().contains("is gone"));
    }

    #[test]
    fn a_position_between_two_files_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        for end in ["b\n", "b"] {
            let _ = std::fs::remove_file(folder.path().join("events.jsonl.1"));
            std::fs::write(&path, format!("a\n{end}")).unwrap();
            let stop = StopToken::default();
            let mut first = Followed::open(&path, &stop).unwrap();
            assert_eq!(read(&mut first).len(), 2 + end.len());
            std::fs::rename(&path, folder.path().join("events.jsonl.1")).unwrap();
            append(&path, "");
            assert_eq!(read(&mut first), if end == "b" { "\n" } else { "" });
            let anchor = first.anchor(4);
            append(&path, "c\n");
            let mut second = Followed::open(&path, &stop).unwrap();
            second.set_anchor(&anchor).unwrap();
            second.seek(4).unwrap();
            assert_eq!(read(&mut second), "c\n");
            assert_eq!(read(&mut first), "c\n");
            assert_eq!(first.anchor(6), second.anchor(6));
        }
    }
}
