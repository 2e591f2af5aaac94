//! Bytes out.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use fairstream_core::{Position, SinkError};

/// A file, or standard output for `-`, and how much has been written to it. Rows of any kind of text,
/// under a header.
pub(crate) struct TextOutput {
    name: String,
    header: Cow<'static, str>,
    /// `None` is standard output.
    file: Option<File>,
    /// Whether the file has been emptied and has its header, or is gone on with.
    begun: bool,
    rows: u64,
    bytes: u64,
}

impl TextOutput {
    /// Opens a path. A file that exists is replaced, by one that begins with `header`, once something
    /// is written or the output is flushed. With a place to go on, it is cut off there instead.
    ///
    /// # Errors
    /// The file cannot be opened, or is shorter than the place to go on.
    pub(crate) fn open(
        location: &str,
        resume: Option<&Position>,
        header: Cow<'static, str>,
    ) -> Result<TextOutput, SinkError> {
        let name = if location == "-" { "standard output" } else { location };
        let failed = |cause: io::Error| SinkError::Open { sink: name.to_owned(), cause: cause.into() };
        let resume = match resume {
            None => None,
            Some(position) => Some((position.rows, offset(position).map_err(failed)?)),
        };
        let file = match (location, resume) {
            ("-", None) => None,
            ("-", Some(_)) => {
                return Err(failed(io::Error::other("standard output cannot be taken up again")));
            }
            // Not emptied yet: the run may still fail to start.
            (path, None) => {
                let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
                Some(opened.map_err(failed)?)
            }
            (path, Some((_, bytes))) => Some(cut(path, bytes).map_err(failed)?),
        };
        let (rows, bytes) = resume.unwrap_or_default();
        Ok(TextOutput { name: name.to_owned(), header, file, begun: bytes > 0, rows, bytes })
    }

    /// What the user would call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Before anything is written: empties the file and writes the header.
    fn begin(&mut self) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.empty()?;
        match self.header.clone() {
            header if header.is_empty() => Ok(()),
            header => self.append(header.as_bytes()),
        }
    }

    fn empty(&self) -> Result<(), SinkError> {
        let Some(file) = self.regular_file() else { return Ok(()) };
        let folder = Path::new(&self.name).parent().filter(|folder| !folder.as_os_str().is_empty());
        // The name of a new file is durable once its folder is; not every system can do that.
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        file.set_len(0).map_err(|cause| self.failed(cause))
    }

    /// Writes the text of so many rows. When it returns, a reader can see them.
    pub(crate) fn write(&mut self, rows: usize, text: &[u8]) -> Result<(), SinkError> {
        self.begin()?;
        self.append(text)?;
        self.rows += rows as u64;
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> Result<(), SinkError> {
        let written = match &mut self.file {
            Some(file) => file.write_all(text),
            None => {
                let mut out = io::stdout().lock();
                out.write_all(text).and_then(|()| out.flush())
            }
        };
        written.map_err(|cause| self.failed(cause))?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Makes what was written durable and says where that is. Standard output, pipes and devices
    /// are as durable as whoever reads them.
    pub(crate) fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.begin()?;
        let Some(file) = self.regular_file() else { return Ok(None) };
        file.sync_data().map_err(|cause| self.failed(cause))?;
        Ok(Some(Position { rows: self.rows, resume: Arc::from(self.bytes.to_le_bytes()) }))
    }

    fn regular_file(&self) -> Option<&File> {
        self.file.as_ref().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))
    }

    fn failed(&self, cause: io::Error) -> SinkError {
        let sink = self.name.clone();
        match cause.kind() {
            io::ErrorKind::BrokenPipe => SinkError::HungUp { sink },
            _ => SinkError::Write { sink, cause: cause.into() },
        }
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
