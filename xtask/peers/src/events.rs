//! Converts batches to single rows, for peers that take one event at a time.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use bench::workload::Task;
use fairstream_core::{EventBatch, Time};

/// The content of a row.
pub(crate) enum Event<'a> {
    Applied { id: i64, gender: &'a str, seminar: &'a str },
    Accepted(i64),
    Screened { id: i64, group: &'a str, is_high: bool },
    Offended(i64),
}

/// Calls `each` with every row of a batch and its time.
pub(crate) fn each<E>(
    task: Task,
    events: &EventBatch,
    mut each: impl FnMut(Time, Event<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if let Task::Odds(_) = task {
        let event = events.rows.column(0).as_string::<i32>();
        let id = events.rows.column(1).as_primitive::<Int64Type>();
        let group = events.rows.column(2).as_string::<i32>();
        let score = events.rows.column(3).as_primitive::<Int64Type>();
        return (0..events.len()).try_for_each(|row| {
            let event = match event.value(row) {
                "SCREEN" => Event::Screened {
                    id: id.value(row),
                    group: group.value(row),
                    is_high: score.value(row) > 6,
                },
                _ => Event::Offended(id.value(row)),
            };
            each(events.time(row), event)
        });
    }
    // The last column is the id of the accepted applicant; if there are four columns, the third is the seminar.
    let columns = events.rows.num_columns();
    let id = events.rows.column(0).as_primitive::<UInt64Type>();
    let gender = events.rows.column(1).as_string::<i32>();
    let seminar = (columns == 4).then(|| events.rows.column(2).as_string::<i32>());
    let accepted = events.rows.column(columns - 1).as_primitive::<UInt64Type>();
    (0..events.len()).try_for_each(|row| {
        let event = if accepted.is_valid(row) {
            Event::Accepted(accepted.value(row).cast_signed())
        } else {
            let seminar = seminar.map_or("", |seminar| seminar.value(row));
            Event::Applied { id: id.value(row).cast_signed(), gender: gender.value(row), seminar }
        };
        each(events.time(row), event)
    })
}
