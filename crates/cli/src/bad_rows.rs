//! Reports bad rows on standard error, or lists them in a file.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use fairstream_core::{BadRowPolicy, RejectedRow, visible};

use crate::args::OnBadRow;
use crate::note;

/// Maximum number of bad rows named on standard error; further ones are only counted.
const NAMED: usize = 10;

pub(crate) fn policy(on_bad_row: &OnBadRow) -> anyhow::Result<BadRowPolicy> {
    Ok(match on_bad_row {
        OnBadRow::Stop => BadRowPolicy::Stop,
        OnBadRow::Skip => {
            let seen = Mutex::new(0);
            BadRowPolicy::Skip(Arc::new(move |source: &str, bad: &RejectedRow| {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                *seen += 1;
                if *seen <= NAMED {
                    note(&format!("skipped: {source}: {bad}"));
                } else if *seen == NAMED + 1 {
                    note(
                        "skipped: further bad rows are only counted; `--on-bad-row file=PATH` lists them all",
                    );
                }
                Ok(())
            }))
        }
        OnBadRow::File(path) => {
            let file = File::create(path).with_context(|| format!("cannot open {}", path))?;
            let mut list = csv::Writer::from_writer(file);
            list.write_record(["input", "row", "column", "reason"])?;
            list.flush().with_context(|| format!("cannot write {path}"))?;
            let list = Mutex::new(list);
            BadRowPolicy::Skip(Arc::new(move |source: &str, bad: &RejectedRow| {
                let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
                let row = bad.row.to_string();
                let column = bad.column.as_deref().unwrap_or_default();
                list.write_record(
                    [source, &row, column, &bad.reason].map(|field| visible(field).into_owned()),
                )?;
                list.flush()?;
                Ok(())
            }))
        }
    })
}
