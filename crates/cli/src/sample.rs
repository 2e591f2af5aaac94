//! Samples the first rows of a data file: its columns, and some of their values as text.

use std::num::NonZeroUsize;

use anyhow::bail;
use arrow::array::Array;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fairstream_core::{ROW_ORDER_ONLY, SourceContext, SourceRequest, WantedColumn};
use fairstream_fairness::{ColumnSample, EventColumn, column_types};

use crate::joins;
use crate::registry::{self, Address};

/// Number of rows that are sampled before a run.
const ROWS: usize = 10_000;

/// The columns of inputs that can be read twice, with types inferred from their first rows.
pub(crate) fn columns(inputs: &[Address], time: Option<&str>) -> anyhow::Result<Vec<EventColumn>> {
    let mut columns: Vec<EventColumn> = Vec::new();
    for input in inputs.iter().filter(|input| input.location != "-") {
        for column in column_types(&samples(input, time, ROWS, false)?.columns) {
            if !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
    }
    Ok(columns)
}

/// The columns of a data file, and the times of its first rows.
pub(crate) struct Samples {
    pub(crate) columns: Vec<ColumnSample>,
    /// Nanoseconds since 1970, one for each row whose values are kept.
    pub(crate) times: Vec<i64>,
}

/// Samples a number of values of every column except the time. Without a need of times, rows are sampled whether their
/// time can be read or not: a run says so better than a type that is not known.
pub(crate) fn samples(
    input: &Address,
    time: Option<&str>,
    rows: usize,
    needs_times: bool,
) -> anyhow::Result<Samples> {
    let kind = registry::source_for(input)?;
    let table = joins::is_table(input).then(|| joins::without_key(input));
    let mut options = table.as_ref().unwrap_or(input).options.clone();
    if let Some(time) = time {
        options.set_default("time", time);
    }
    let request = |wanted: Vec<WantedColumn>| SourceRequest {
        location: input.location.clone(),
        options: options.clone(),
        wanted,
        context: SourceContext {
            max_rows: NonZeroUsize::new(ROWS).unwrap_or(NonZeroUsize::MIN),
            ..SourceContext::default()
        },
        ..SourceRequest::default()
    };
    let mut names = kind.open(&request(Vec::new()))?.offers();
    if names.is_empty() {
        bail!(
            "{}: {} does not say which columns there are; write some rows of it as CSV or Parquet, and name that",
            input.location,
            kind.adapter().name
        );
    }
    names.retain(|name| name != options.text("time").unwrap_or("time"));
    // A name that several columns have is an error only if it is read.
    let all = names.clone();
    names.retain(|name| all.iter().filter(|other| *other == name).count() == 1);
    let wanted = names.iter().map(|name| WantedColumn::new(name, DataType::Utf8)).collect();
    // A column with a type other than text is read in that type.
    let schema = kind.open(&request(wanted))?.schema();
    let wanted = schema.fields().iter().filter_map(|field| {
        let known = rtlola_type(field.data_type()).is_some() || field.data_type() == &DataType::Utf8;
        let data_type = if known { field.data_type().clone() } else { return None };
        Some(WantedColumn::new(field.name(), data_type))
    });
    let mut last_request = request(wanted.collect());
    if !needs_times && kind.adapter().options.iter().any(|option| option.name == "time") {
        last_request.options.set("time", ROW_ORDER_ONLY);
    }
    let mut source = kind.open(&last_request)?;
    let schema = source.schema();
    let mut samples: Vec<ColumnSample> = schema
        .fields()
        .iter()
        .map(|field| ColumnSample::new(field.name(), rtlola_type(field.data_type())))
        .collect();
    let (mut seen, mut times) = (0, Vec::new());
    let mut bad = None;
    while seen < rows
        && let Some(batch) = source.next_batch()?
    {
        seen += batch.len();
        bad = bad.or_else(|| batch.rejected.into_iter().next());
        times.extend(batch.times.iter().take(ColumnSample::KEPT.saturating_sub(times.len())));
        for (sample, column) in samples.iter_mut().zip(batch.rows.columns()) {
            let texts = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
            for row in 0..column.len() {
                sample.add(column.is_valid(row).then(|| texts.value(row).to_string()).as_deref());
            }
        }
    }
    match bad {
        Some(bad) if seen == 0 => bail!("{}: {bad}", input.location),
        _ => Ok(Samples { columns: samples, times }),
    }
}

/// The type of a column in the source; `None` for text, whose type is inferred.
fn rtlola_type(data_type: &DataType) -> Option<String> {
    let name = match data_type {
        DataType::Boolean => "Bool",
        DataType::Int8 => "Int8",
        DataType::Int16 => "Int16",
        DataType::Int32 => "Int32",
        DataType::Int64 => "Int64",
        DataType::UInt8 => "UInt8",
        DataType::UInt16 => "UInt16",
        DataType::UInt32 => "UInt32",
        DataType::UInt64 => "UInt64",
        DataType::Float32 | DataType::Float64 => "Float64",
        _ => return None,
    };
    Some(name.to_owned())
}
