//! Puts the rows of one source in order of time, as far as they may be late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use arrow::error::ArrowError;

use super::merge::{ROWS_AT_ONCE, gather};
use crate::{EventBatch, Position, Time};

/// A row may come after rows that are up to `lateness` younger. Rows wait here until no row
/// before them can follow; equal times keep their order of arrival.
pub(super) struct Order {
    lateness: Duration,
    /// The youngest time seen.
    newest: Time,
    /// Waiting rows, oldest first: time and arrival number.
    waiting: BinaryHeap<Reverse<(i64, u64)>>,
    /// The batches that the waiting rows stand in, in order of arrival.
    batches: VecDeque<Held>,
    arrived: u64,
    /// The end of the last batch that has left as a whole.
    released: Position,
}

struct Held {
    events: EventBatch,
    first: u64,
    waiting: usize,
}

impl Order {
    pub(super) fn new(lateness: Duration) -> Order {
        Order {
            lateness,
            newest: Time(i64::MIN),
            waiting: BinaryHeap::new(),
            batches: VecDeque::new(),
            arrived: 0,
            released: Position::default(),
        }
    }

    /// Takes note of a row's time, in order of arrival. If it is too late, the time that it would
    /// have had to have at least.
    pub(super) fn admit(&mut self, time: Time) -> Result<(), Time> {
        let oldest = self.oldest_to_come();
        if time < oldest {
            return Err(oldest);
        }
        self.newest = self.newest.max(time);
        Ok(())
    }

    /// No admissible row is older than this any more.
    pub(super) fn oldest_to_come(&self) -> Time {
        self.newest.saturating_sub(self.lateness)
    }

    /// Takes admitted rows.
    pub(super) fn push(&mut self, events: EventBatch) {
        let first = self.arrived;
        if !self.lateness.is_zero() {
            self.arrived += events.len() as u64;
            let arrivals = events.times.iter().zip(first..);
            self.waiting.extend(arrivals.map(|(time, arrival)| Reverse((*time, arrival))));
        }
        self.batches.push_back(Held { waiting: events.len(), first, events });
    }

    /// The next rows that no admissible row can precede any more; with `all`, those too that still
    /// wait for a predecessor. `None` if there are none now.
    pub(super) fn ready(&mut self, all: bool) -> Result<Option<EventBatch>, ArrowError> {
        if self.lateness.is_zero() {
            return Ok(self.batches.pop_front().map(|held| held.events));
        }
        let through = if all { Time(i64::MAX) } else { self.oldest_to_come() };
        let mut places = Vec::new();
        while places.len() < ROWS_AT_ONCE
            && let Some(Reverse((time, arrival))) = self.waiting.peek().copied()
            && time <= through.0
        {
            self.waiting.pop();
            let batch = self.batches.partition_point(|held| held.first <= arrival) - 1;
            self.batches[batch].waiting -= 1;
            let row = usize::try_from(arrival - self.batches[batch].first).unwrap_or_default();
            places.push((batch, row));
        }
        if places.is_empty() {
            return Ok(None);
        }
        let held: Vec<&EventBatch> = self.batches.iter().map(|held| &held.events).collect();
        let mut events = gather(&held, &places)?;
        while let Some(held) = self.batches.front()
            && held.waiting == 0
        {
            self.released = held.events.end.clone();
            self.batches.pop_front();
        }
        events.end = self.released.clone();
        Ok(Some(events))
    }
}
