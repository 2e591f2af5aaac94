//! State of an engine as files: documents as JSON, tables as Arrow IPC files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use fairstream_core::{StateError, StateReader, StateRows, StateWriter, catch_panic};

use crate::checksums::{Checksums, Hashing, is_name};

type TableFile = FileWriter<BufWriter<Hashing<File>>>;

/// The folder of a checkpoint that has the state.
pub(crate) const FOLDER: &str = "state";

/// Writes state into the folder of a checkpoint.
pub(crate) struct StateFiles<'a> {
    folder: &'a Path,
    checksums: &'a mut Checksums,
    tables: BTreeMap<String, TableFile>,
}

fn io(error: impl std::fmt::Display) -> StateError {
    StateError::Io(error.to_string())
}

impl<'a> StateFiles<'a> {
    pub(crate) fn new(folder: &'a Path, checksums: &'a mut Checksums) -> StateFiles<'a> {
        StateFiles { folder, checksums, tables: BTreeMap::new() }
    }

    fn create(&self, name: &str) -> Result<Hashing<File>, StateError> {
        if !is_name(name) {
            return Err(StateError::Io(format!("`{name}` is no name of a file")));
        }
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        File::create(path).map(Hashing::new).map_err(io)
    }

    fn keep(&mut self, name: String, written: Hashing<File>) -> Result<(), StateError> {
        let (file, sum) = written.finish();
        file.sync_all().map_err(io)?;
        self.checksums.insert(name, sum);
        Ok(())
    }

    /// Completes the tables.
    pub(crate) fn finish(mut self) -> Result<(), StateError> {
        for (name, mut table) in std::mem::take(&mut self.tables) {
            table.finish().map_err(io)?;
            let written = table.into_inner().map_err(io)?.into_inner().map_err(|error| io(error.error()))?;
            self.keep(name, written)?;
        }
        Ok(())
    }
}

impl StateWriter for StateFiles<'_> {
    fn document(&mut self, name: &str, json: &str) -> Result<(), StateError> {
        let name = format!("{FOLDER}/{name}.json");
        let mut file = self.create(&name)?;
        std::io::Write::write_all(&mut file, json.as_bytes()).map_err(io)?;
        self.keep(name, file)
    }

    fn rows(&mut self, table: &str, rows: &RecordBatch) -> Result<(), StateError> {
        let name = format!("{FOLDER}/{table}.arrow");
        if !self.tables.contains_key(&name) {
            let file = BufWriter::with_capacity(1 << 18, self.create(&name)?);
            self.tables.insert(name.clone(), FileWriter::try_new(file, &rows.schema()).map_err(io)?);
        }
        self.tables.get_mut(&name).map_or(Ok(()), |table| table.write(rows)).map_err(io)
    }
}

/// State of an engine in the folder of a checkpoint, whose checksums have been verified.
#[derive(Clone, Debug)]
pub struct KeptState {
    folder: PathBuf,
}

impl KeptState {
    pub(crate) fn of(checkpoint: &Path) -> KeptState {
        KeptState { folder: checkpoint.join(FOLDER) }
    }

    fn path(&self, name: &str, ending: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.folder.join(format!("{name}.{ending}"))).filter(|path| path.exists())
    }
}

impl StateReader for KeptState {
    fn document(&self, name: &str) -> Result<Option<String>, StateError> {
        self.path(name, "json").map(|path| std::fs::read_to_string(path).map_err(io)).transpose()
    }

    fn table(&self, name: &str) -> Result<Option<StateRows<'_>>, StateError> {
        let Some(path) = self.path(name, "arrow") else { return Ok(None) };
        let damaged = |error: ArrowError| StateError::Damaged(format!("{}: {error}", path.display()));
        let file = BufReader::new(File::open(&path).map_err(io)?);
        let mut reader = FileReader::try_new(file, None).map_err(damaged)?;
        let name = path.display().to_string();
        // The reader of Arrow may panic on bytes that are none of its own.
        let next = move || match catch_panic(|| reader.next()) {
            Ok(rows) => {
                rows.map(|rows| rows.map_err(|error| StateError::Damaged(format!("{name}: {error}"))))
            }
            Err(panic) => Some(Err(StateError::Damaged(format!("{name}: {panic}")))),
        };
        Ok(Some(Box::new(std::iter::from_fn(next))))
    }
}
