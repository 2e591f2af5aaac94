//! Counts rows without a group, which cannot be compared. A report discloses their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::Array;
use fairstream_core::{Engine, EngineError, EventBatch, SnapshotError, Subscription, Time, VerdictSink};
use fairstream_fairness::Compiled;

use crate::progress::counted;

/// Number of rows that have the key of a trial and no group.
#[derive(Debug, Default)]
pub(crate) struct UngroupedRows {
    count: AtomicU64,
}

impl UngroupedRows {
    pub(super) fn in_words(&self) -> String {
        match self.count.load(Ordering::Relaxed) {
            0 => "0 rows".to_owned(),
            rows => format!(
                "{} with a key and no group: they belong to trials that were opened before, or to none",
                counted(rows, "row")
            ),
        }
    }
}

/// An engine wrapper that counts such rows on their way in.
pub(crate) struct UngroupedRowsEngine {
    inner: Box<dyn Engine>,
    ungrouped: Arc<UngroupedRows>,
    /// Name of the column with the key.
    key: String,
    groups: Vec<String>,
}

impl UngroupedRowsEngine {
    pub(crate) fn new(
        inner: Box<dyn Engine>,
        fairness: &Compiled,
        ungrouped: Arc<UngroupedRows>,
    ) -> UngroupedRowsEngine {
        let groups = fairness.rules().first().map(|rule| rule.groups.clone()).unwrap_or_default();
        UngroupedRowsEngine { inner, ungrouped, key: fairness.file().key().to_owned(), groups }
    }

    fn count_in(&self, events: &EventBatch) -> u64 {
        let Some(key) = events.rows.column_by_name(&self.key) else { return 0 };
        let groups: Vec<_> =
            self.groups.iter().filter_map(|group| events.rows.column_by_name(group)).collect();
        if groups.iter().all(|group| group.null_count() == 0) {
            return 0;
        }
        let is_ungrouped = |row: &usize| key.is_valid(*row) && groups.iter().any(|group| group.is_null(*row));
        (0..events.len()).filter(is_ungrouped).count() as u64
    }
}

impl Engine for UngroupedRowsEngine {
    fn streams(&self) -> &[String] {
        self.inner.streams()
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.inner.prepare(subscription)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.ungrouped.count.fetch_add(self.count_in(events), Ordering::Relaxed);
        self.inner.feed(events, out)
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.inner.advance(time, out)
    }

    fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        self.inner.snapshot()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        self.inner.restore(snapshot)
    }
}
