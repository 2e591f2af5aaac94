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
    /// All rows of the source up to there have left its thread; `None` if that has not changed.
    pub(super) through: Option<Position>,
}

/// What a source's thread sends. If it falls silent without a last word, it was stopped.
pub(super) enum SourceMessage {
    Rows(OrderedRows),
    /// The last word of a source that has no more rows.
    End,
    /// The last word of a source that cannot go on.
    Failed(SourceError),
}

/// Rows that are put together into one batch at most.
pub(super) const ROWS_AT_ONCE: usize = 8192;

/// Rows of all sources in order of time.
pub(super) struct Merge {
    inputs: Vec<MergeInput>,
    /// An error that was found while rows before it had yet to be handed out.
    error: Option<SourceError>,
}

/// A merged batch.
pub(super) struct Merged {
    pub(super) events: EventBatch,
    /// The source of each row; `None` if all are from the only one.
    pub(super) sources: Option<Vec<usize>>,
    /// What is behind us once this batch has been evaluated.
    pub(super) through: Through,
}

struct MergeInput {
    messages: Receiver<SourceMessage>,
    ended: bool,
    /// Whether it was stopped: nobody knows which rows would have come.
    stopped: bool,
    /// The part whose rows are next, and the first of them that is not yet merged.
    head: Option<(OrderedRows, usize)>,
    /// How far all rows have been merged.
    through: Option<Position>,
}

impl MergeInput {
    fn time(&self) -> Option<i64> {
        self.head.as_ref().map(|(part, next)| part.events.times[*next])
    }

    /// Whether there may be rows that have to be known before others can be merged.
    fn is_wanting(&self) -> bool {
        self.head.is_none() && !self.ended && !self.stopped
    }

    fn pass(&mut self, through: Option<Position>) {
        if through.is_some() {
            self.through = through;
        }
    }

    /// Takes what is there, if anything.
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
        // For each input, where its head stands in `batches`.
        let mut heads: Vec<Option<usize>> = vec![None; self.inputs.len()];
        let mut places = Vec::new();
        let mut sources = Vec::new();
        while places.len() < ROWS_AT_ONCE {
            // Waiting for a slow source must not hold back rows that are ready.
            if !self.fill(places.is_empty()) {
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
            places.push((batch, *next));
            sources.push(source);
            *next += 1;
            if *next == part.events.len() {
                let through = part.through.take();
                input.pass(through);
                input.head = None;
                heads[source] = None;
            }
        }
        if places.is_empty() {
            return self.error.take().map(Err);
        }
        let through = self.inputs.iter().map(|input| input.through.clone()).collect();
        let merged = gather(&batches, &places);
        Some(merged.map(|events| Merged { events, sources: Some(sources), through }).map_err(|error| {
            SourceError::Broken { origin: "the merge of the inputs".to_owned(), reason: error.to_string() }
        }))
    }

    /// Gives every input that has not ended a head. With `wait`, blocks until that is so; else
    /// says `false` if one has nothing ready. Says `false` in either case if one has failed or was
    /// stopped, whichever it is, and however long the others keep one waiting.
    fn fill(&mut self, wait: bool) -> bool {
        loop {
            for input in &mut self.inputs {
                if let Err(error) = input.take() {
                    self.error.get_or_insert(error);
                }
            }
            // Past the last row of a source that was stopped, the order of the others' is unknown.
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

/// Puts rows of several batches together: `places` are batch and row, in the new order.
pub(super) fn gather(batches: &[EventBatch], places: &[(usize, usize)]) -> Result<EventBatch, ArrowError> {
    let rows: Vec<&RecordBatch> = batches.iter().map(|events| &events.rows).collect();
    let times: Vec<i64> = places.iter().map(|(batch, row)| batches[*batch].times[*row]).collect();
    let numbers: Vec<u64> = places.iter().map(|(batch, row)| batches[*batch].row_numbers[*row]).collect();
    let rows = interleave_record_batch(&rows, places)?;
    let relative = places.first().is_some_and(|(batch, _)| batches[*batch].relative);
    Ok(EventBatch { relative, ..EventBatch::new(rows, times, numbers, Position::default()) })
}
