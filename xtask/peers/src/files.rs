//! Writes events as CSV files, for peers that read them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use bench::workload::Workload;
use fairstream_core::Time;

/// Start of the clock, and the time up to which it runs after the last event.
pub(crate) struct Span {
    pub(crate) start: Time,
    pub(crate) end: Option<Time>,
}

impl Span {
    pub(crate) fn of(workload: &Workload, trials: u64) -> Span {
        let trace = workload.trace(trials);
        Span { start: trace.start, end: trace.end }
    }
}

/// Writes the events of `trials` trials: the time in nanoseconds, then the inputs, with `silent` for an input
/// without a value.
pub(crate) fn write(workload: &Workload, trials: u64, silent: &str, to: &Path) -> anyhow::Result<()> {
    let file = File::create(to).with_context(|| to.display().to_string())?;
    let mut out = BufWriter::new(file);
    let mut has_header = false;
    for batch in workload.trace(trials).batches {
        let rows = &batch.rows;
        if !has_header {
            let names: Vec<&str> =
                rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
            writeln!(out, "time,{}", names.join(","))?;
            has_header = true;
        }
        for row in 0..batch.len() {
            write!(out, "{}", batch.time(row).0)?;
            for column in rows.columns() {
                match column.data_type() {
                    _ if column.is_null(row) => write!(out, ",{silent}")?,
                    DataType::UInt64 => write!(out, ",{}", column.as_primitive::<UInt64Type>().value(row))?,
                    DataType::Int64 => write!(out, ",{}", column.as_primitive::<Int64Type>().value(row))?,
                    // Names of groups and seminars contain no commas.
                    _ => write!(out, ",{}", column.as_string::<i32>().value(row))?,
                }
            }
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}
