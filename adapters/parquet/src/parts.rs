//! Tables as one file, or as numbered files of a folder.
//!
//! A Parquet or Arrow file can be read, and continued, only once it has its footer. A folder takes a file for each
//! checkpoint instead: `part-000001.parquet` and so on. Each gets its name once it is complete, so the folder can be read at
//! any time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fairstream_core::{Position, SinkError};
use fairstream_files::sync_folder;

use crate::table::{TableFormat, TableWriter};

/// Where a table is written.
pub(crate) enum TableOutput {
    File(Box<TableWriter>),
    NumberedFiles(NumberedFiles),
}

/// Numbered files of a folder.
pub(crate) struct NumberedFiles {
    folder: String,
    format: TableFormat,
    schema: SchemaRef,
    /// Number of complete files.
    complete: u64,
    /// Rows in them, and in the file that is being written.
    rows: u64,
    writing: Option<TableWriter>,
    /// Whether files of an earlier run have been removed, or are continued.
    begun: bool,
}

impl TableOutput {
    /// Opens a file, standard output for `-`, or a folder: one that exists, or a path that ends with a slash.
    pub(crate) fn open(
        location: &str,
        format: TableFormat,
        schema: SchemaRef,
        resume: Option<&Position>,
    ) -> Result<TableOutput, SinkError> {
        let failed = |cause: &str| SinkError::Open { sink: location.to_owned(), cause: cause.into() };
        if !is_folder(location) {
            return match resume {
                None => TableWriter::open(location, format, schema)
                    .map(|writer| TableOutput::File(Box::new(writer))),
                Some(_) => Err(failed(
                    "a file of columns cannot be continued; write to a folder, whose name ends with `/`, or JSON lines or CSV",
                )),
            };
        }
        let number = |position: &Position| <[u8; 8]>::try_from(&*position.resume).map(u64::from_le_bytes);
        let complete = resume.map(number).transpose();
        let complete = complete.map_err(|_| failed("the position is not one of numbered files"))?;
        std::fs::create_dir_all(location)
            .map_err(|cause| SinkError::Open { sink: location.to_owned(), cause: cause.into() })?;
        let mut parts = NumberedFiles {
            folder: location.to_owned(),
            format,
            schema,
            complete: complete.unwrap_or(0),
            rows: resume.map_or(0, |position| position.rows),
            writing: None,
            begun: false,
        };
        if let Some(complete) = complete {
            let is_missing = |number: &u64| !parts.path(*number).exists();
            if let Some(number) = (1..=complete).find(is_missing) {
                return Err(failed(&format!(
                    "{} is missing, which was written before",
                    parts.path(number).display()
                )));
            }
            parts.begin()?;
        }
        Ok(TableOutput::NumberedFiles(parts))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            TableOutput::File(writer) => writer.name(),
            TableOutput::NumberedFiles(parts) => &parts.folder,
        }
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        match self {
            TableOutput::File(writer) => writer.write(rows),
            TableOutput::NumberedFiles(parts) => parts.write(rows),
        }
    }

    /// Makes the rows of a stream durable. A file is not complete before its end.
    pub(crate) fn sync(&mut self) -> Result<(), SinkError> {
        match self {
            TableOutput::File(writer) => writer.sync(),
            TableOutput::NumberedFiles(_) => Ok(()),
        }
    }

    /// Completes a file of a folder, from where another run may continue.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        match self {
            TableOutput::File(writer) => writer.sync().map(|()| None),
            TableOutput::NumberedFiles(parts) => parts.checkpoint().map(Some),
        }
    }

    pub(crate) fn finish(self) -> Result<(), SinkError> {
        match self {
            TableOutput::File(writer) => writer.finish(),
            TableOutput::NumberedFiles(mut parts) => {
                if parts.complete == 0 && parts.writing.is_none() {
                    // Without any row, the columns are still to be seen.
                    let schema = Arc::clone(&parts.schema);
                    parts.write(&RecordBatch::new_empty(schema))?;
                }
                parts.checkpoint().map(|_| ())
            }
        }
    }
}

/// Whether a location is a folder.
pub(crate) fn is_folder(location: &str) -> bool {
    location.ends_with('/') || Path::new(location).is_dir()
}

impl NumberedFiles {
    fn ending(&self) -> &'static str {
        match self.format {
            TableFormat::Parquet(_) => "parquet",
            TableFormat::ArrowFile(_) => "arrow",
            TableFormat::ArrowStream(_) => "arrows",
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        Path::new(&self.folder).join(format!("part-{number:06}.{}", self.ending()))
    }

    /// The hidden name of a file that is being written.
    fn beside(&self, number: u64) -> PathBuf {
        Path::new(&self.folder).join(format!(".part-{number:06}.{}.new", self.ending()))
    }

    /// Removes the files that come after those that are continued.
    fn begin(&mut self) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let remove = || -> io::Result<()> {
            for entry in std::fs::read_dir(&self.folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let rest = name.strip_prefix("part-").or(name.strip_prefix(".part-"));
                let number =
                    rest.and_then(|rest| rest.split_once('.')).and_then(|(number, _)| number.parse().ok());
                if number.is_some_and(|number: u64| number > self.complete) {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        remove().map_err(|cause| self.failed(cause))
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        self.begin()?;
        if self.writing.is_none() {
            let path = self.beside(self.complete + 1);
            let writer =
                TableWriter::open(&path.to_string_lossy(), self.format.clone(), Arc::clone(&self.schema));
            self.writing = Some(writer?);
        }
        self.rows += rows.num_rows() as u64;
        self.writing.as_mut().map_or(Ok(()), |writer| writer.write(rows))
    }

    fn checkpoint(&mut self) -> Result<Position, SinkError> {
        self.begin()?;
        if let Some(writer) = self.writing.take() {
            writer.finish()?;
            let number = self.complete + 1;
            let named = std::fs::rename(self.beside(number), self.path(number));
            named.and_then(|()| sync_folder(Path::new(&self.folder))).map_err(|cause| self.failed(cause))?;
            self.complete = number;
        }
        Ok(Position { rows: self.rows, resume: Arc::from(self.complete.to_le_bytes()) })
    }

    fn failed(&self, cause: io::Error) -> SinkError {
        SinkError::Write { sink: self.folder.clone(), cause: cause.into() }
    }
}
