//! Merges the sources by time; equal times keep the order of the sources.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use crossbeam_channel::{Receiver, TryRecvError};

use super::ledger::Through;
use crate::{EventBatch, Position, SourceError};

/// What a source's thread sends: batches, and perhaps an error as its last word.
pub(super) type Delivery = Result<EventBatch, SourceError>;

/// Rows that are put together into one batch at most.
pub(super) const ROWS_AT_ONCE: usize = 8192;

/// Rows of all sources in order of time.
pub(super) struct Merge {
    inputs: Vec<Input>,
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

struct Input {
    deliveries: Receiver<Delivery>,
    ended: bool,
    /// The batch whose rows are next, and the first of them that is not yet merged.
    head: Option<(EventBatch, usize)>,
    /// The end of the last batch that has been merged as a whole.
    through: Option<Position>,
}

impl Input {
    fn time(&self) -> Option<i64> {
        self.head.as_ref().map(|(events, next)| events.times[*next])
    }
}

impl Merge {
    pub(super) fn new(deliveries: Vec<Receiver<Delivery>>) -> Merge {
        let input = |deliveries| Input { deliveries, ended: false, head: None, through: None };
        Merge { inputs: deliveries.into_iter().map(input).collect(), error: None }
    }

    /// The next rows; `None` when every source has ended.
    pub(super) fn next(&mut self) -> Option<Result<Merged, SourceError>> {
        match self.inputs.as_mut_slice() {
            [only] => {
                let events = match only.deliveries.recv().ok()? {
                    Ok(events) => events,
                    Err(error) => return Some(Err(error)),
                };
                let through = Arc::from([Some(events.end.clone())]);
                Some(Ok(Merged { events, sources: None, through }))
            }
            _ => self.next_of_several(),
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
            let times = self.inputs.iter().map(Input::time).enumerate();
            let Some((_, source)) = times.filter_map(|(source, time)| Some((time?, source))).min() else {
                break;
            };
            let input = &mut self.inputs[source];
            let Some((events, next)) = &mut input.head else { break };
            let batch = *heads[source].get_or_insert_with(|| {
                batches.push(events.clone());
                batches.len() - 1
            });
            places.push((batch, *next));
            sources.push(source);
            *next += 1;
            if *next == events.len() {
                input.through = Some(events.end.clone());
                input.head = None;
                heads[source] = None;
            }
        }
        if places.is_empty() {
            return self.error.take().map(Err);
        }
        let through = self.inputs.iter().map(|input| input.through.clone()).collect();
        let merged = gather(&batches.iter().collect::<Vec<_>>(), &places);
        Some(match merged {
            Ok(events) => Ok(Merged { events, sources: Some(sources), through }),
            Err(error) => Err(SourceError::Broken {
                origin: "the merge of the inputs".to_owned(),
                reason: error.to_string(),
            }),
        })
    }

    /// Gives every input that has not ended a head. With `wait`, blocks until that is so; else
    /// says `false` if one has nothing ready. Says `false` in either case if one has failed.
    fn fill(&mut self, wait: bool) -> bool {
        for input in &mut self.inputs {
            while input.head.is_none() && !input.ended && self.error.is_none() {
                let delivery = if wait {
                    input.deliveries.recv().map_err(|_| TryRecvError::Disconnected)
                } else {
                    input.deliveries.try_recv()
                };
                match delivery {
                    Ok(Ok(events)) if events.is_empty() => input.through = Some(events.end),
                    Ok(Ok(events)) => input.head = Some((events, 0)),
                    Ok(Err(error)) => self.error = Some(error),
                    Err(TryRecvError::Empty) => return false,
                    Err(TryRecvError::Disconnected) => input.ended = true,
                }
            }
        }
        self.error.is_none()
    }
}

/// Puts rows of several batches together: `places` are batch and row, in the new order.
pub(super) fn gather(batches: &[&EventBatch], places: &[(usize, usize)]) -> Result<EventBatch, ArrowError> {
    let rows: Vec<&RecordBatch> = batches.iter().map(|events| &events.rows).collect();
    Ok(EventBatch {
        rows: interleave_record_batch(&rows, places)?,
        times: places.iter().map(|(batch, row)| batches[*batch].times[*row]).collect(),
        row_numbers: places.iter().map(|(batch, row)| batches[*batch].row_numbers[*row]).collect(),
        rejected: Vec::new(),
        dropped: 0,
        end: Position::default(),
    })
}
