//! Writes bytes to files and standard output.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairstream_core::{Position, SinkError};

/// A byte output to a file, or to standard output for `-`.
///
/// A file that exists is truncated at the first write or sync, not before: the run may still fail to start.
pub struct Output {
    name: String,
    /// `None` is standard output.
    file: Option<File>,
    /// Whether the file has been truncated, or is being appended to.
    begun: bool,
}

impl Output {
    /// Opens a path, or standard output for `-`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(location: &str) -> Result<Output, SinkError> {
        let name = if location == "-" { "standard output" } else { location };
        let file = match location {
            "-" => None,
            path => {
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
                Some(opened.map_err(|cause| SinkError::Open { sink: name.to_owned(), cause: cause.into() })?)
            }
        };
        Ok(Output { name: name.to_owned(), file, begun: false })
    }

    /// Opens a file to continue after `bytes` bytes; the rest is discarded.
    ///
    /// # Errors
    /// The file cannot be opened, or is shorter than that.
    pub fn open_at(location: &str, bytes: u64) -> Result<Output, SinkError> {
        let failed = |cause: io::Error| SinkError::Open { sink: location.to_owned(), cause: cause.into() };
        if location == "-" {
            let sink = "standard output".to_owned();
            return Err(SinkError::Open { sink, cause: "it cannot be taken up again".into() });
        }
        let file = cut(location, bytes).map_err(failed)?;
        Ok(Output { name: location.to_owned(), file: Some(file), begun: bytes > 0 })
    }

    /// Name of the output in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Truncates the file, unless that has been done. Returns whether it was done now.
    fn begin(&mut self) -> io::Result<bool> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(false);
        }
        if let Some(file) = self.regular_file() {
            // The name of a new file is durable once its folder is synced.
            sync_folder_of(Path::new(&self.name))?;
            file.set_len(0)?;
        }
        Ok(true)
    }

    /// Makes the written bytes durable. Returns `false` for standard output, pipes and devices, where durability
    /// is the responsibility of their reader.
    ///
    /// # Errors
    /// The sync failed.
    pub fn sync(&mut self) -> Result<bool, SinkError> {
        self.begin().map_err(|cause| self.failed(cause))?;
        let Some(file) = self.regular_file() else { return Ok(false) };
        file.sync_data().map_err(|cause| self.failed(cause))?;
        Ok(true)
    }

    fn regular_file(&self) -> Option<&File> {
        self.file.as_ref().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
    }

    /// The error for a failed write.
    pub fn failed(&self, cause: io::Error) -> SinkError {
        let sink = self.name.clone();
        match cause.kind() {
            io::ErrorKind::BrokenPipe => SinkError::HungUp { sink },
            _ => SinkError::Write { sink, cause: cause.into() },
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => io::stdout().lock().write(bytes),
        }
    }

    /// Makes the written bytes visible to readers.
    fn flush(&mut self) -> io::Result<()> {
        match &self.file {
            Some(_) => Ok(()),
            None => io::stdout().lock().flush(),
        }
    }
}

/// Creates a folder, and those above it, for what only its owner should read.
///
/// # Errors
/// It cannot be created.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes the name of a file durable, which is in its folder. Not every system supports that.
///
/// # Errors
/// The folder could not be synced.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}

/// Makes the names in a folder durable. Not every system supports that.
///
/// # Errors
/// The folder could not be synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported].contains(&error.kind()) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Checks that [`replace`] can write a file.
///
/// # Errors
/// The file or its folder cannot be written.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    if is_special(path) {
        return Ok(());
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let (_, beside) = places(path);
    File::create(&beside)?;
    std::fs::remove_file(beside)
}

/// Replaces a file in one step: the text is written beside it and renamed, so that readers see the old file or the
/// new one. Pipes and devices are written to directly.
///
/// # Errors
/// The file cannot be written; the old one is unchanged.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    if is_special(path) {
        return std::fs::write(path, text);
    }
    let (path, beside) = places(path);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    });
    if written.is_err() {
        // The error of the write is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Whether a path is a pipe or a device.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// The file that a path leads to, and a name beside it for a new version.
fn places(path: &Path) -> (PathBuf, PathBuf) {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    (path, beside)
}

/// An output of rows of text under a header, with the number of rows written.
pub(crate) struct TextOutput {
    output: Output,
    header: Cow<'static, str>,
    rows: u64,
    bytes: u64,
}

impl TextOutput {
    /// Opens a path. A file that exists is replaced by one that begins with `header`, at the first write or flush.
    /// With a position to resume from, it is truncated there instead.
    ///
    /// # Errors
    /// The file cannot be opened, or is shorter than the position.
    pub(crate) fn open(
        location: &str,
        resume: Option<&Position>,
        header: Cow<'static, str>,
    ) -> Result<TextOutput, SinkError> {
        let failed = |cause: io::Error| SinkError::Open { sink: location.to_owned(), cause: cause.into() };
        let (output, rows, bytes) = match resume {
            None => (Output::open(location)?, 0, 0),
            Some(position) => {
                let bytes = offset(position).map_err(failed)?;
                (Output::open_at(location, bytes)?, position.rows, bytes)
            }
        };
        Ok(TextOutput { output, header, rows, bytes })
    }

    /// Name of the output in messages.
    pub(crate) fn name(&self) -> &str {
        self.output.name()
    }

    /// Whether nothing has been written, nor was before the position to resume from.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Truncates the file and writes the header, before anything else is written.
    fn begin(&mut self) -> Result<(), SinkError> {
        if !self.output.begin().map_err(|cause| self.output.failed(cause))? {
            return Ok(());
        }
        match self.header.clone() {
            header if header.is_empty() => Ok(()),
            header => self.append(header.as_bytes()),
        }
    }

    /// Writes the text of `rows` rows. When it returns, they are visible to readers.
    pub(crate) fn write(&mut self, rows: usize, text: &[u8]) -> Result<(), SinkError> {
        self.begin()?;
        self.append(text)?;
        self.rows += rows as u64;
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> Result<(), SinkError> {
        let written = self.output.write_all(text).and_then(|()| self.output.flush());
        written.map_err(|cause| self.output.failed(cause))?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Makes the written rows durable and returns the position after them. Standard output, pipes and devices
    /// count as durable at once.
    pub(crate) fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.begin()?;
        if !self.output.sync()? {
            return Ok(None);
        }
        Ok(Some(Position { rows: self.rows, resume: Arc::from(self.bytes.to_le_bytes()) }))
    }
}

fn offset(position: &Position) -> io::Result<u64> {
    let bytes = <[u8; 8]>::try_from(&*position.resume);
    bytes.map(u64::from_le_bytes).map_err(|_| io::Error::other("the position is not one of a text file"))
}

fn cut(path: &str, bytes: u64) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() < bytes {
        return Err(io::Error::other("it is shorter than it was when it was written"));
    }
    file.set_len(bytes)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}
