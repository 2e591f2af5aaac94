//! Reorder buffer: sorts the rows of one source by time, within an allowed lateness.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use arrow::error::ArrowError;

use super::merge::{OrderedRows, ROWS_AT_ONCE, gather};
use crate::{EventBatch, Position, Time};

/// Rows wait until the watermark, the newest time minus the allowed lateness, has reached them. Rows of equal time keep
/// their order of arrival.
pub(super) struct ReorderBuffer {
    lateness: Duration,
    /// The newest time seen, and the row that has it.
    newest: Time,
    newest_row: u64,
    /// Min-heap of waiting rows: time and arrival number.
    waiting: BinaryHeap<Reverse<(i64, u64)>>,
    /// The batches with the waiting rows, in order of arrival.
    batches: VecDeque<HeldBatch>,
    arrived: u64,
}

struct HeldBatch {
    events: EventBatch,
    first: u64,
    waiting: usize,
    /// Whether all good rows of the batch were admitted, so that its end may be acknowledged.
    whole: bool,
}

impl ReorderBuffer {
    pub(super) fn new(lateness: Duration) -> ReorderBuffer {
        ReorderBuffer {
            lateness,
            newest: Time(i64::MIN),
            newest_row: 0,
            waiting: BinaryHeap::new(),
            batches: VecDeque::new(),
            arrived: 0,
        }
    }

    /// Advances the watermark by the time of a row, in order of arrival. If the row is too late, returns the watermark
    /// as an error.
    pub(super) fn admit(&mut self, time: Time, row: u64) -> Result<(), Time> {
        let oldest = self.watermark();
        if time < oldest {
            return Err(oldest);
        }
        if time > self.newest {
            (self.newest, self.newest_row) = (time, row);
        }
        Ok(())
    }

    /// The newest time seen.
    pub(super) fn newest(&self) -> Time {
        self.newest
    }

    /// No row that is admitted from now on is older than this.
    pub(super) fn watermark(&self) -> Time {
        self.newest.saturating_sub(self.lateness)
    }

    /// The reason for rejecting a late row. `place` names a row.
    pub(super) fn too_late(&self, time: Time, oldest: Time, place: impl Fn(u64) -> String) -> String {
        let (time, oldest) = (time.for_people(), oldest.for_people());
        let newest = place(self.newest_row);
        if self.lateness.is_zero() {
            format!(
                "its time {time} is before {oldest}, that of {newest}; if rows come late, allow for it with `--reorder 10m`, or have the \
                 input sorted first with `--sort`"
            )
        } else {
            format!("its time {time} is before {oldest}, later than `--reorder` allows after {newest}")
        }
    }

    /// Adds admitted rows; `whole` if they are all good rows of their batch.
    pub(super) fn push(&mut self, events: EventBatch, whole: bool) {
        let first = self.arrived;
        let mut waiting = 0;
        if !self.lateness.is_zero() {
            waiting = events.len();
            self.arrived += waiting as u64;
            let arrivals = events.times.iter().zip(first..);
            self.waiting.extend(arrivals.map(|(time, arrival)| Reverse((*time, arrival))));
        }
        self.batches.push_back(HeldBatch { waiting, first, events, whole });
    }

    /// The next rows at or before the watermark; with `all`, all waiting rows. `None` if there are no rows and no new
    /// position.
    pub(super) fn ready(&mut self, all: bool) -> Result<Option<OrderedRows>, ArrowError> {
        if self.lateness.is_zero() {
            let held = self.batches.pop_front();
            let part = |HeldBatch { events, whole, .. }: HeldBatch| OrderedRows {
                through: whole.then(|| events.end.clone()),
                events,
            };
            return Ok(held.map(part));
        }
        let through = if all { Time(i64::MAX) } else { self.watermark() };
        let mut touched = HashMap::new();
        let mut batches = Vec::new();
        let mut indices = Vec::new();
        while indices.len() < ROWS_AT_ONCE
            && let Some(Reverse((time, arrival))) = self.waiting.peek().copied()
            && time <= through.0
        {
            self.waiting.pop();
            let index = self.batches.partition_point(|held| held.first <= arrival) - 1;
            let held = &mut self.batches[index];
            held.waiting -= 1;
            let row = usize::try_from(arrival - held.first).unwrap_or_default();
            let batch = *touched.entry(index).or_insert_with(|| {
                batches.push(held.events.clone());
                batches.len() - 1
            });
            indices.push((batch, row));
        }
        let (empty, through) = self.release_finished();
        let events = if indices.is_empty() { empty } else { Some(gather(&batches, &indices)?) };
        Ok(events.map(|events| OrderedRows { events, through }))
    }

    /// Releases the batches at the front without waiting rows. Returns the end position of the last of them, and an
    /// empty batch to carry it.
    fn release_finished(&mut self) -> (Option<EventBatch>, Option<Position>) {
        let mut last = None;
        while self.batches.front().is_some_and(|held| held.waiting == 0) {
            let left = self.batches.pop_front();
            last = left.filter(|held| held.whole).map(|held| held.events).or(last);
        }
        let nothing = last
            .as_ref()
            .map(|events| EventBatch::new(events.rows.slice(0, 0), vec![], vec![], events.end.clone()));
        (nothing, last.map(|events| events.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn batch(seconds: &[i64], end: u64) -> EventBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let column = Int64Array::from(seconds.to_vec());
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap();
        let times: Vec<i64> = seconds.iter().map(|second| second * 1_000_000_000).collect();
        let numbers: Vec<u64> = (0..seconds.len() as u64).collect();
        EventBatch::new(rows, times, numbers, Position { rows: end, ..Position::default() })
    }

    /// Pushes a batch, and returns the seconds of the rows that are ready and the position that may be acknowledged.
    fn push(buffer: &mut ReorderBuffer, seconds: &[i64], end: u64) -> Vec<(Vec<i64>, Option<u64>)> {
        for second in seconds {
            buffer.admit(Time(second * 1_000_000_000), 0).unwrap();
        }
        buffer.push(batch(seconds, end), true);
        leave(buffer, false)
    }

    fn leave(buffer: &mut ReorderBuffer, all: bool) -> Vec<(Vec<i64>, Option<u64>)> {
        let mut left = Vec::new();
        while let Some(part) = buffer.ready(all).unwrap() {
            let seconds = part.events.times.iter().map(|time| time / 1_000_000_000).collect();
            left.push((seconds, part.through.map(|position| position.rows)));
        }
        left
    }

    #[test]
    fn a_batch_is_acknowledged_when_its_last_row_has_left() {
        let mut buffer = ReorderBuffer::new(Duration::from_secs(3));
        assert_eq!(push(&mut buffer, &[1, 5, 4], 3), [(vec![1], None)]);
        assert_eq!(buffer.admit(Time(1_000_000_000), 0), Err(Time(2_000_000_000)));
        assert_eq!(push(&mut buffer, &[], 4), []);
        assert_eq!(push(&mut buffer, &[8, 6], 6), [(vec![4, 5], Some(4))]);
        assert_eq!(push(&mut buffer, &[9], 7), [(vec![6], None)]);
        assert_eq!(leave(&mut buffer, true), [(vec![8, 9], Some(7))]);
        assert_eq!(push(&mut buffer, &[], 9), [(vec![], Some(9))]);
    }
}
