//! A folder of checkpoints: finding, writing and removing them.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use fairstream_core::CapturedState;
use fairstream_files::{create_private_folder, sync_folder};

use crate::checksums::{self, Checksums, hex};
use crate::failpoint;
use crate::manifest::{Manifest, VERSION};
use crate::state::{KeptState, StateFiles};

/// How many checkpoints are kept.
const KEPT: usize = 2;
const MANIFEST: &str = "manifest.json";

/// A folder of checkpoints cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file or folder cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Another run writes there.
    #[error("{}: another run is using these checkpoints; a run has a folder of its own", .0.display())]
    InUse(PathBuf),
    /// There are checkpoints, and none of them is whole.
    #[error("{}: no checkpoint is whole: {reason}; `--restart` begins anew", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the newest.
        reason: String,
    },
}

/// A checkpoint that is there.
#[derive(Clone, Debug)]
pub struct FoundCheckpoint {
    /// Its number.
    pub number: u64,
    /// Its folder.
    pub path: PathBuf,
}

impl FoundCheckpoint {
    /// Reads the manifest.
    ///
    /// # Errors
    /// It is missing or damaged, or a newer program wrote it.
    pub fn manifest(&self) -> Result<Manifest, String> {
        let text = std::fs::read_to_string(self.path.join(MANIFEST));
        let text = text.map_err(|error| format!("{MANIFEST} cannot be read: {error}"))?;
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("{MANIFEST} is damaged: {error}"))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version > VERSION => Err(format!(
                "it has version {version}, and this program reads up to version {VERSION}; use a newer one"
            )),
            _ => serde_json::from_value(value).map_err(|error| format!("{MANIFEST} is damaged: {error}")),
        }
    }

    /// Checks the checksum of every file.
    ///
    /// # Errors
    /// The first file that is missing or has another content.
    pub fn verify(&self) -> Result<(), String> {
        let text = std::fs::read_to_string(self.path.join(checksums::NAME));
        let text = text.map_err(|error| format!("{} cannot be read: {error}", checksums::NAME))?;
        let sums = Checksums::read(&text)?;
        if !sums.names().any(|name| name == MANIFEST) {
            return Err(format!("{} lacks {MANIFEST}", checksums::NAME));
        }
        sums.verify(&self.path)
    }

    /// The files with their sizes.
    ///
    /// # Errors
    /// The list of files is missing or damaged.
    pub fn files(&self) -> Result<Vec<(String, u64)>, String> {
        let text =
            std::fs::read_to_string(self.path.join(checksums::NAME)).map_err(|error| error.to_string())?;
        let size = |name: &str| {
            let size = self.path.join(name).metadata().map_or(0, |meta| meta.len());
            (name.to_owned(), size)
        };
        Ok(Checksums::read(&text)?.names().map(size).collect())
    }

    /// The state of the engine.
    pub fn state(&self) -> KeptState {
        KeptState::of(&self.path)
    }
}

/// A checkpoint to be written.
pub struct NewCheckpoint {
    /// What it says about the run; its number is filled in.
    pub manifest: Manifest,
    /// The state of the engine, if it has begun.
    pub state: Option<Box<dyn CapturedState>>,
}

/// A folder of checkpoints. Where it is opened to be written, no other process writes there.
#[derive(Debug)]
pub struct CheckpointFolder {
    path: PathBuf,
    _lock: Option<File>,
}

impl CheckpointFolder {
    /// Opens a folder to write checkpoints there. It is created if need be.
    ///
    /// # Errors
    /// It cannot be created or locked.
    pub fn open(path: &Path) -> Result<CheckpointFolder, FolderError> {
        let failed = |cause| FolderError::Io { path: path.to_owned(), cause };
        create_private_folder(path).map_err(failed)?;
        let lock = File::options().write(true).create(true).truncate(false).open(path.join("lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse(path.to_owned())),
            // Some file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(CheckpointFolder { path: path.to_owned(), _lock: Some(lock) })
    }

    /// Opens a folder to look at it.
    ///
    /// # Errors
    /// It is no folder.
    pub fn look(path: &Path) -> Result<CheckpointFolder, FolderError> {
        let failed = |cause| FolderError::Io { path: path.to_owned(), cause };
        std::fs::read_dir(path).map_err(failed)?;
        Ok(CheckpointFolder { path: path.to_owned(), _lock: None })
    }

    /// The checkpoints, the newest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<FoundCheckpoint>, FolderError> {
        let failed = |cause| FolderError::Io { path: self.path.clone(), cause };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let number = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            // What is not a checkpoint is not touched, whatever its name.
            let is_one = [MANIFEST, checksums::NAME].iter().any(|file| entry.path().join(file).exists());
            if let Some(number) = number.filter(|_| is_one).and_then(|name| name.parse().ok()) {
                found.push(FoundCheckpoint { number, path: entry.path() });
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.number));
        Ok(found)
    }

    /// The newest checkpoint that is whole, with its manifest, and what is wrong with newer ones.
    ///
    /// # Errors
    /// There are some, and none is whole.
    pub fn newest(&self) -> Result<Option<(FoundCheckpoint, Manifest, Vec<String>)>, FolderError> {
        let mut wrong = Vec::new();
        for found in self.list()? {
            match found.verify().and_then(|()| found.manifest()) {
                Ok(manifest) => return Ok(Some((found, manifest, wrong))),
                Err(reason) => wrong.push(format!("{}: {reason}", found.path.display())),
            }
        }
        match wrong.into_iter().next() {
            None => Ok(None),
            Some(reason) => Err(FolderError::Damaged { path: self.path.clone(), reason }),
        }
    }

    /// Removes every checkpoint.
    ///
    /// # Errors
    /// One of them cannot be removed.
    pub fn clear(&self) -> Result<(), FolderError> {
        for found in self.list()? {
            self.remove(&found)?;
        }
        Ok(())
    }

    fn remove(&self, found: &FoundCheckpoint) -> Result<(), FolderError> {
        // No longer a checkpoint before the first of its files is gone.
        let dying = self.path.join(format!(".{:06}.old", found.number));
        let failed = |cause| FolderError::Io { path: found.path.clone(), cause };
        std::fs::rename(&found.path, &dying).map_err(failed)?;
        std::fs::remove_dir_all(&dying).map_err(failed)
    }

    /// Writes a checkpoint and makes it the newest, in one step. Returns its number.
    ///
    /// # Errors
    /// It could not be written; the one before stands.
    pub fn commit(&self, new: NewCheckpoint) -> Result<u64, FolderError> {
        self.remove_leftovers()?;
        let number = self.list()?.first().map_or(1, |newest| newest.number + 1);
        let beside = self.path.join(format!(".{number:06}.new"));
        let place = self.path.join(format!("{number:06}"));
        let failed = |cause: io::Error| FolderError::Io { path: place.clone(), cause };
        self.write(&beside, number, new).map_err(failed)?;
        failpoint::reach("synced");
        std::fs::rename(&beside, &place).map_err(failed)?;
        failpoint::reach("renamed");
        sync_folder(&self.path).map_err(failed)?;
        failpoint::reach("committed");
        for old in self.list()?.iter().skip(KEPT) {
            self.remove(old)?;
        }
        failpoint::reach("pruned");
        Ok(number)
    }

    fn write(&self, folder: &Path, number: u64, new: NewCheckpoint) -> io::Result<()> {
        std::fs::create_dir(folder)?;
        let mut sums = Checksums::default();
        let mut files = StateFiles::new(folder, &mut sums);
        let has_state = new.state.is_some();
        if let Some(state) = new.state {
            state.write(&mut files).map_err(io::Error::other)?;
        }
        failpoint::reach("state");
        files.finish().map_err(io::Error::other)?;
        let manifest = Manifest { number, has_state, ..new.manifest };
        let text = serde_json::to_string_pretty(&manifest)? + "\n";
        sums.insert(MANIFEST.to_owned(), hex(&<sha2::Sha256 as sha2::Digest>::digest(text.as_bytes())));
        write_durably(&folder.join(MANIFEST), &text)?;
        failpoint::reach("manifest");
        write_durably(&folder.join(checksums::NAME), &sums.written())?;
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                }
            }
            sync_folder(&folder)?;
        }
        Ok(())
    }

    /// Removes what a crash has left half written or half removed.
    fn remove_leftovers(&self) -> Result<(), FolderError> {
        let failed = |cause| FolderError::Io { path: self.path.clone(), cause };
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(".new").or(name.strip_suffix(".old")));
            if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
                std::fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()
}
