//! Whether a file is still the one that was read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::checksums::hex;

/// Bytes at the beginning and at the end that are compared.
const COMPARED: u64 = 64 << 10;

/// Identifies a file to which rows may be appended: its size, and hashes of its beginning and of its end, by content and
/// not by the machine that it is on. What changes in between is not noticed.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct FileIdentity {
    /// Its size at the time.
    pub bytes: u64,
    /// SHA-256 of its first 64 KiB.
    pub head_sha256: String,
    /// SHA-256 of its last 64 KiB.
    pub tail_sha256: String,
}

/// Why a file is not the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherFile {
    /// It has lost its end.
    #[error("it is shorter than it was: {now} bytes instead of {before}")]
    Shorter {
        /// Its size before.
        before: u64,
        /// Its size now.
        now: u64,
    },
    /// It has another content.
    #[error("it was replaced or changed since: its first {0} bytes are not those that were read")]
    Changed(u64),
}

impl FileIdentity {
    /// Identifies a file as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<FileIdentity> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        FileIdentity::of_first(&mut file, bytes)
    }

    fn of_first(file: &mut File, bytes: u64) -> io::Result<FileIdentity> {
        let mut part = |from: u64| -> io::Result<String> {
            file.seek(SeekFrom::Start(from))?;
            let mut content = Vec::new();
            file.take((bytes - from).min(COMPARED)).read_to_end(&mut content)?;
            Ok(hex(&Sha256::digest(&content)))
        };
        Ok(FileIdentity { bytes, head_sha256: part(0)?, tail_sha256: part(bytes.saturating_sub(COMPARED))? })
    }

    /// Checks that a file begins with the one that this identifies.
    ///
    /// # Errors
    /// It cannot be read, or it is another file.
    pub fn check(&self, path: &Path) -> io::Result<Result<(), OtherFile>> {
        let mut file = File::open(path)?;
        let now = file.metadata()?.len();
        if now < self.bytes {
            return Ok(Err(OtherFile::Shorter { before: self.bytes, now }));
        }
        let is_same = FileIdentity::of_first(&mut file, self.bytes)? == *self;
        Ok(if is_same { Ok(()) } else { Err(OtherFile::Changed(self.bytes)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.csv");
        for size in [0, 10, 200_000] {
            let content: Vec<u8> = (0..size).map(|at: u32| (at % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let identity = FileIdentity::of(&path).unwrap();
            assert_eq!(identity.check(&path).unwrap(), Ok(()));
            std::fs::write(&path, [&content[..], b"more"].concat()).unwrap();
            assert_eq!(identity.check(&path).unwrap(), Ok(()));
            if size == 0 {
                continue;
            }
            std::fs::write(&path, &content[1..]).unwrap();
            let before = identity.bytes;
            assert_eq!(identity.check(&path).unwrap(), Err(OtherFile::Shorter { before, now: before - 1 }));
            for at in [0, content.len() - 1] {
                let mut changed = content.clone();
                changed[at] ^= 1;
                std::fs::write(&path, changed).unwrap();
                assert_eq!(identity.check(&path).unwrap(), Err(OtherFile::Changed(before)));
            }
        }
    }
}
