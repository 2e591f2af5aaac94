//! A sorted source fulfils the contract of `Source`, and is sorted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::compliance::{BadInput, SourceCase, check_source};
use fairstream_core::{
    Adapter, EventBatch, Position, RejectedRow, Source, SourceContext, SourceError, SourceFactory,
    SourceRequest, WantedColumn,
};
use fairstream_files::Sorted;

const LARGE: usize = 1 << 20;

/// Rows at the seconds that a location lists; `x` is a bad row, `!` is a read error.
struct Listed {
    seconds: Vec<String>,
    next: usize,
    context: SourceContext,
}

impl Source for Listed {
    fn name(&self) -> &str {
        "1 5 x 3 !"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, true)]))
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let end = self.seconds.len().min(self.next.saturating_add(self.context.max_rows.get()));
        let (mut times, mut numbers, mut rejected) = (vec![], vec![], vec![]);
        for index in self.next..end {
            let row = index as u64 + 1;
            match self.seconds[index].parse::<i64>() {
                Ok(second) => {
                    times.push(second * 1_000_000_000);
                    numbers.push(row);
                }
                Err(_) if self.seconds[index] == "!" => {
                    if index == self.next {
                        let origin = self.name().to_owned();
                        return Err(SourceError::Read { origin, row, cause: "it broke".into() });
                    }
                    self.next = index;
                    return Ok(Some(self.batch(times, numbers, rejected)));
                }
                Err(_) => rejected.push(RejectedRow { row, column: None, reason: "bad".to_owned() }),
            }
        }
        if self.next == end {
            return Ok(None);
        }
        self.next = end;
        Ok(Some(self.batch(times, numbers, rejected)))
    }
}

impl Listed {
    fn batch(&self, times: Vec<i64>, numbers: Vec<u64>, rejected: Vec<RejectedRow>) -> EventBatch {
        let column: ArrayRef = Arc::new(UInt64Array::from(numbers.clone()));
        let rows = RecordBatch::try_new(self.schema(), vec![column]).unwrap();
        let mut events = EventBatch::new(rows, times, numbers, Position::default());
        events.rejected = rejected;
        events
    }
}

struct SortedLists {
    memory: usize,
}

impl SourceFactory for SortedLists {
    fn adapter(&self) -> Adapter {
        Adapter { name: "listed", about: "", extensions: &[], options: &[] }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        if request.location == "nowhere" {
            return Err(SourceError::Open { origin: request.location.clone(), cause: "none".into() });
        }
        let seconds = request.location.split(' ').map(str::to_owned).collect();
        let listed = Listed { seconds, next: 0, context: request.context.clone() };
        let context = request.context.clone();
        let sorted = Sorted::with_memory(Box::new(listed), context, request.resume.as_ref(), self.memory)?;
        Ok(Box::new(sorted))
    }
}

fn request(location: &str) -> SourceRequest {
    let wanted = vec![WantedColumn::new("n", DataType::UInt64)];
    SourceRequest { location: location.to_owned(), wanted, ..SourceRequest::default() }
}

#[test]
fn a_sorted_source_complies() {
    for memory in [1, 100, LARGE] {
        check_source(&SourceCase {
            factory: &SortedLists { memory },
            good: request("1 2 3 4 5 5 7"),
            rows: 7,
            bad: Some(BadInput { request: request("1 2 x 4 5"), row: 3, column: None }),
            missing: request("nowhere"),
            cut_off: None,
            live: None,
        });
    }
}

/// Times in seconds and row numbers, and the error at the end.
fn read(location: &str, memory: usize, max_rows: usize) -> (Vec<(i64, u64)>, Option<String>) {
    let mut request = request(location);
    request.context.max_rows = max_rows.try_into().unwrap();
    let mut source = SortedLists { memory }.open(&request).unwrap();
    let mut rows = Vec::new();
    loop {
        match source.next_batch() {
            Ok(None) => return (rows, None),
            Ok(Some(events)) => {
                let seconds = events.times.iter().map(|time| time / 1_000_000_000);
                rows.extend(seconds.zip(events.row_numbers.iter().copied()));
            }
            Err(error) => return (rows, Some(error.to_string())),
        }
    }
}

#[test]
fn rows_come_in_order_of_time_and_then_of_the_source() {
    // More runs than are merged at once.
    let seconds: Vec<i64> = (0..1_000).map(|row| row * 7_919 % 101).collect();
    let mut expected: Vec<(i64, u64)> = seconds.iter().copied().zip(1..).collect();
    expected.sort();
    let location = seconds.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    for (memory, max_rows) in [(1, 7), (1, 1), (1_000, 7), (LARGE, 8_192)] {
        assert_eq!(read(&location, memory, max_rows), (expected.clone(), None), "{memory} {max_rows}");
    }
    let (rows, error) = read("5 1 !", 1, 1);
    assert_eq!(rows, [(1, 2), (5, 1)], "rows before an error are given");
    assert!(error.unwrap().contains("it broke"));
}
