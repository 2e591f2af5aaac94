//! Reports bad rows on standard error, or lists them in a file.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use fairstream_core::{
    BadRowPolicy, Cause, Companion, CompanionAnswer, Position, RejectedRow, SourceProgress, visible,
};
use serde::{Deserialize, Serialize};

use crate::args::OnBadRow;
use crate::checkpoints::{self, KeptCompanion};
use crate::note;

/// Maximum number of bad rows named on standard error; further ones are only counted.
const NAMED: usize = 10;

/// The policy for bad rows, and the list of them if there is one.
pub(crate) struct BadRows {
    pub(crate) policy: BadRowPolicy,
    list: Option<Arc<Mutex<List>>>,
}

/// A CSV file of bad rows.
struct List {
    file: csv::Writer<File>,
    /// Number of bad rows that each source has had.
    seen: Vec<u64>,
    /// Number of bad rows of each source that are in the file.
    listed: Vec<u64>,
}

/// What a checkpoint keeps of the list beside its length.
#[derive(Deserialize, Serialize)]
struct ListedRows {
    listed: Vec<u64>,
}

impl BadRows {
    /// Rows that were read by an earlier run but are behind its checkpoint are read again: those that the list has already
    /// are not listed twice.
    pub(crate) fn open(
        on_bad_row: &OnBadRow,
        kept: Option<&KeptCompanion>,
        progress: &[SourceProgress],
    ) -> anyhow::Result<BadRows> {
        match on_bad_row {
            OnBadRow::Stop => Ok(BadRows { policy: BadRowPolicy::Stop, list: None }),
            OnBadRow::Skip => Ok(BadRows { policy: reported(), list: None }),
            OnBadRow::File(path) => {
                let list = List::open(path, kept, progress)?;
                let list = Arc::new(Mutex::new(list));
                let to_list = Arc::clone(&list);
                let report =
                    move |source: usize, name: &str, bad: &RejectedRow| lock(&to_list).add(source, name, bad);
                Ok(BadRows { policy: BadRowPolicy::Skip(Arc::new(report)), list: Some(list) })
            }
        }
    }

    /// Its part in checkpoints.
    pub(crate) fn companion(&self) -> Option<Box<dyn Companion>> {
        self.list.clone().map(|list| -> Box<dyn Companion> { Box::new(ListCompanion(list)) })
    }
}

fn reported() -> BadRowPolicy {
    let seen = Mutex::new(0);
    BadRowPolicy::Skip(Arc::new(move |_, source: &str, bad: &RejectedRow| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen += 1;
        if *seen <= NAMED {
            note(&format!("skipped: {source}: {bad}"));
        } else if *seen == NAMED + 1 {
            note("skipped: further bad rows are only counted; `--on-bad-row file=PATH` lists them all");
        }
        Ok(())
    }))
}

impl List {
    fn open(path: &str, kept: Option<&KeptCompanion>, progress: &[SourceProgress]) -> anyhow::Result<List> {
        let Some(KeptCompanion { position: Some(position), more }) = kept else {
            let file = File::create(path).with_context(|| format!("cannot open {path}"))?;
            let mut file = csv::Writer::from_writer(file);
            file.write_record(["input", "row", "column", "reason"])?;
            file.flush().with_context(|| format!("cannot write {path}"))?;
            return Ok(List { file, seen: Vec::new(), listed: Vec::new() });
        };
        let cannot = || format!("cannot continue {path}");
        let ListedRows { listed } = serde_json::from_value(more.clone()).with_context(cannot)?;
        let mut file = File::options().write(true).open(path).with_context(cannot)?;
        if file.metadata()?.len() < position.rows {
            bail!("{}: it is shorter than it was", cannot());
        }
        file.set_len(position.rows).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        let seen = progress.iter().map(|source| source.rows.rejected).collect();
        Ok(List { file: csv::Writer::from_writer(file), seen, listed })
    }

    fn add(&mut self, source: usize, name: &str, bad: &RejectedRow) -> Result<(), Cause> {
        let sources = self.seen.len().max(source + 1);
        self.seen.resize(sources, 0);
        self.listed.resize(sources, 0);
        self.seen[source] += 1;
        if self.seen[source] <= self.listed[source] {
            return Ok(());
        }
        self.listed[source] = self.seen[source];
        let row = bad.row.to_string();
        let column = bad.column.as_deref().unwrap_or_default();
        self.file.write_record([name, &row, column, &bad.reason].map(|field| visible(field).into_owned()))?;
        self.file.flush()?;
        Ok(())
    }
}

struct ListCompanion(Arc<Mutex<List>>);

impl Companion for ListCompanion {
    fn barrier(&mut self) -> Result<CompanionAnswer, Cause> {
        let list = lock(&self.0);
        let file = list.file.get_ref().try_clone()?;
        let (bytes, listed) = (file.metadata()?.len(), list.listed.clone());
        Ok(Box::new(move || {
            file.sync_data()?;
            let position = Position { rows: bytes, ..Position::default() };
            checkpoints::answer(Some(&position), serde_json::to_value(ListedRows { listed })?)
        }))
    }
}

fn lock(list: &Mutex<List>) -> MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
