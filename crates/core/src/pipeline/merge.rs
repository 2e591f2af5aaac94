//! Merges the sources by time; equal times keep the order of the sources.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use crossbeam_channel::{Receiver, Select, TryRecvError};

use super::acks::Through;
use crate::{EventBatch, Position, SourceError};

/// Rows of one source in order of time.
pub(super) struct OrderedRows {
    pub(super) events: EventBatch,
    /// All rows of the source up to this position have been sent; `None` if that has not changed.
    pub(super) through: Option<Position>,
}

/// A message from a source's thread. If the channel is disconnected without `End` or `Failed`, the source was stopped.
pub(super) enum SourceMessage {
    Rows(OrderedRows),
    /// The last message of a source that has no more rows.
    End,
    /// The last message of a source that failed.
    Failed(SourceError),
}

/// Maximum number of rows in a merged batch.
pub(super) const ROWS_AT_ONCE: usize = 8192;

/// K-way merge of all sources by time.
pub(super) struct Merge {
    inputs: Vec<MergeInput>,
    /// An error that is returned once the rows before it have been returned.
    error: Option<SourceError>,
}

/// A merged batch.
pub(super) struct Merged {
    pub(super) events: EventBatch,
    /// Index of the source of each row; `None` if there is only one source.
    pub(super) sources: Option<Vec<usize>>,
    /// Positions of all sources that are complete once this batch has been evaluated.
    pub(super) through: Through,
}

struct MergeInput {
    messages: Receiver<SourceMessage>,
    ended: bool,
    /// Whether it was stopped, so that its further rows are unknown.
    stopped: bool,
    /// The rows that are merged next, and the index of the first unmerged one.
    head: Option<(OrderedRows, usize)>,
    /// Position up to which all rows have been merged.
    through: Option<Position>,
}

impl MergeInput {
    fn time(&self) -> Option<i64> {
        self.head.as_ref().map(|(part, next)| part.events.times[*next])
    }

    /// Whether the merge has to wait for its next row.
    fn is_wanting(&self) -> bool {
        self.head.is_none() && !self.ended && !self.stopped
    }

    fn pass(&mut self, through: Option<Position>) {
        if through.is_some() {
            self.through = through;
        }
    }

    /// Receives the next rows without blocking, if there are any.
    fn take(&mut self) -> Result<(), SourceError> {
        while self.is_wanting() {
            match self.messages.try_recv() {
                Ok(SourceMessage::Rows(part)) if part.events.is_empty() => self.pass(part.through),
                Ok(SourceMessage::Rows(part)) => self.head = Some((part, 0)),
                Ok(SourceMessage::End) => self.ended = true,
                Ok(SourceMessage::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.stopped = true,
            }
        }
        Ok(())
    }
}

impl Merge {
    pub(super) fn new(messages: Vec<Receiver<SourceMessage>>) -> Merge {
        let input =
            |messages| MergeInput { messages, ended: false, stopped: false, head: None, through: None };
        Merge { inputs: messages.into_iter().map(input).collect(), error: None }
    }

    /// The next rows; `None` when every source has ended, or one was stopped.
    pub(super) fn next(&mut self) -> Option<Result<Merged, SourceError>> {
        let [only] = self.inputs.as_mut_slice() else { return self.next_of_several() };
        match only.messages.recv() {
            Ok(SourceMessage::Rows(OrderedRows { events, through })) => {
                only.pass(through);
                Some(Ok(Merged { events, sources: None, through: Arc::from([only.through.clone()]) }))
            }
            Ok(SourceMessage::Failed(error)) => Some(Err(error)),
            Ok(SourceMessage::End) | Err(_) => None,
        }
    }

    fn next_of_several(&mut self) -> Option<Result<Merged, SourceError>> {
        let mut batches: Vec<EventBatch> = Vec::new();
        // For each input the index of its head in `batches`.
        let mut heads: Vec<Option<usize>> = vec![None; self.inputs.len()];
        let mut indices = Vec::new();
        let mut sources = Vec::new();
        while indices.len() < ROWS_AT_ONCE {
            // Rows that are ready must not wait for a slow source.
            if !self.fill(indices.is_empty()) {
                break;
            }
            let times = self.inputs.iter().map(MergeInput::time).enumerate();
            let Some((_, source)) = times.filter_map(|(source, time)| Some((time?, source))).min() else {
                break;
            };
            let input = &mut self.inputs[source];
            let Some((part, next)) = &mut input.head else { break };
            let batch = *heads[source].get_or_insert_with(|| {
                batches.push(part.events.clone());
                batches.len() - 1
            });
            indices.push((batch, *next));
            sources.push(source);
            *next += 1;
            if *next == part.events.len() {
                let through = part.through.take();
                input.pass(through);
                input.head = None;
                heads[source] = None;
            }
        }
        if indices.is_empty() {
            return self.error.take().map(Err);
        }
        let through = self.inputs.iter().map(|input| input.through.clone()).collect();
        let merged = gather(&batches, &indices);
        Some(merged.map(|events| Merged { events, sources: Some(sources), through }).map_err(|error| {
            SourceError::Broken { origin: "the merge of the inputs".to_owned(), reason: error.to_string() }
        }))
    }

    /// Fills the head of every input that has not ended, and returns whether all have one. With `wait`, blocks until
    /// that is so. Returns `false` at once if any input has failed or was stopped.
    fn fill(&mut self, wait: bool) -> bool {
        loop {
            for input in &mut self.inputs {
                if let Err(error) = input.take() {
                    self.error.get_or_insert(error);
                }
            }
            // After the last row of a stopped source, the order of other rows is unknown.
            let stopped = |input: &MergeInput| input.stopped && input.head.is_none();
            if self.error.is_some() || self.inputs.iter().any(stopped) {
                return false;
            }
            let wanting: Vec<&MergeInput> = self.inputs.iter().filter(|input| input.is_wanting()).collect();
            if wanting.is_empty() {
                return true;
            }
            if !wait {
                return false;
            }
            let mut select = Select::new();
            for input in wanting {
                select.recv(&input.messages);
            }
            select.ready();
        }
    }
}

/// Gathers rows of several batches. `indices` are pairs of batch and row, in the new order.
pub(super) fn gather(batches: &[EventBatch], indices: &[(usize, usize)]) -> Result<EventBatch, ArrowError> {
    let rows: Vec<&RecordBatch> = batches.iter().map(|events| &events.rows).collect();
    let times: Vec<i64> = indices.iter().map(|(batch, row)| batches[*batch].times[*row]).collect();
    let numbers: Vec<u64> = indices.iter().map(|(batch, row)| batches[*batch].row_numbers[*row]).collect();
    let rows = interleave_record_batch(&rows, indices)?;
    let relative = indices.first().is_some_and(|(batch, _)| batches[*batch].relative);
    Ok(EventBatch { relative, ..EventBatch::new(rows, times, numbers, Position::default()) })
}
