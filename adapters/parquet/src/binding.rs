//! Binds the columns of a file to the requested columns, and converts rows to chunks of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use fairstream_core::{Cause, ROW_ORDER, ROW_ORDER_ONLY, RejectedRow, Time, WantedColumn};
use fairstream_files::{Chunk, DataFile, no_time_column, partition_value, repeated_value};

use crate::convert::{Conversion, Misfit};
use crate::moments::{Moments, NEVER, NO_TIME, Times};
use crate::path::{self, ColumnPath};
use crate::texts::{self, MAX_VALUE};

/// Location of a requested column.
#[derive(Clone, Debug)]
enum Found {
    /// A column of the rows.
    Inside(ColumnPath, Conversion),
    /// A column of the rows, but of a type that cannot be converted.
    Unfit(ColumnPath),
    /// A constant for all rows: an array of one value.
    Everywhere(ArrayRef),
    Nowhere,
}

/// The requested columns of a file, each with its location.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    wanted: Vec<(WantedColumn, Found)>,
    time_name: String,
    time: FoundTime,
}

#[derive(Clone, Debug)]
enum FoundTime {
    Inside(ColumnPath),
    Everywhere(ArrayRef),
    /// Rows are taken in their order.
    OfRow,
}

/// Whether rows are taken in their order: that is asked for, and there is no column with this name.
pub(crate) fn is_by_row<'a>(
    time: &str,
    files: impl IntoIterator<Item = (&'a Schema, &'a [(String, Option<String>)])>,
) -> bool {
    let has = |(schema, partitions): (&Schema, &[(String, Option<String>)])| {
        !matches!(ColumnPath::find(schema, time), Ok(None)) || partitions.iter().any(|(name, _)| name == time)
    };
    time == ROW_ORDER_ONLY || time == ROW_ORDER && !files.into_iter().any(has)
}

impl Binding {
    /// Finds the time and every requested column. Without a name of the time, rows are taken in their order.
    ///
    /// # Errors
    /// There is no time, or a partition value is invalid.
    pub(crate) fn new(
        schema: &Schema,
        partitions: &[(String, Option<String>)],
        wanted: &[WantedColumn],
        time: Option<&str>,
    ) -> Result<Binding, Cause> {
        let partition = |name: &str| partitions.iter().rev().find(|(own, _)| own == name);
        let find_time = |time: &str| -> Result<FoundTime, Cause> {
            Ok(match (ColumnPath::find(schema, time)?, partition(time)) {
                (Some(found), _) if Moments::can_read(&found.data_type) => FoundTime::Inside(found),
                (Some(found), _) => {
                    return Err(format!(
                        "column `{time}` is {}, which does not say when a row happened; name another with `--time`",
                        found.data_type
                    )
                    .into());
                }
                (None, Some((_, text))) => {
                    FoundTime::Everywhere(Arc::new(StringArray::from(vec![text.as_deref()])))
                }
                (None, None) => return Err(no_time_column(time, &candidates(schema)).into()),
            })
        };
        let found_time = time.map_or(Ok(FoundTime::OfRow), find_time)?;
        let mut columns = Vec::with_capacity(wanted.len());
        for column in wanted {
            let found = match (ColumnPath::find(schema, &column.name)?, partition(&column.name)) {
                (Some(path), _) => match Conversion::new(&path.data_type, &column.data_type) {
                    Some(conversion) => Found::Inside(path, conversion),
                    None => Found::Unfit(path),
                },
                (None, Some((_, text))) => Found::Everywhere(partition_value(column, text.as_deref())?),
                (None, None) => Found::Nowhere,
            };
            columns.push((column.clone(), found));
        }
        Ok(Binding { wanted: columns, time_name: time.unwrap_or(ROW_ORDER).to_owned(), time: found_time })
    }

    /// Describes the columns that exist but cannot be read as requested.
    pub(crate) fn unfit(&self) -> Option<String> {
        let reason = |(wanted, found): &(WantedColumn, Found)| match found {
            Found::Unfit(path) => Some(format!(
                "column `{}` is {}, but the specification reads it as {}",
                wanted.name, path.data_type, wanted.data_type
            )),
            _ => None,
        };
        let reasons: Vec<String> = self.wanted.iter().filter_map(reason).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// For each requested column its field, if the file has it. A column that cannot be read as requested has its
    /// own type.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Option<Field>> {
        self.wanted.iter().map(|(wanted, found)| match found {
            Found::Nowhere => None,
            Found::Unfit(path) => Some(Field::new(&wanted.name, path.data_type.clone(), true)),
            Found::Inside(..) | Found::Everywhere(_) => {
                Some(Field::new(&wanted.name, wanted.data_type.clone(), true))
            }
        })
    }

    /// Paths of the columns that must be read.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ColumnPath> {
        let time = self.time_path();
        let columns = self.wanted.iter().filter_map(|(_, found)| match found {
            Found::Inside(path, _) => Some(path),
            _ => None,
        });
        time.into_iter().chain(columns)
    }

    /// Path of the time column; `None` if there is none.
    pub(crate) fn time_path(&self) -> Option<&ColumnPath> {
        match &self.time {
            FoundTime::Inside(path) => Some(path),
            FoundTime::Everywhere(_) | FoundTime::OfRow => None,
        }
    }

    /// Whether its times are texts or numbers, whose format must be determined.
    pub(crate) fn has_written_times(&self) -> bool {
        match &self.time {
            FoundTime::Inside(path) => !path.data_type.is_temporal(),
            FoundTime::Everywhere(_) => true,
            FoundTime::OfRow => false,
        }
    }

    /// Whether rows are taken in their order.
    pub(crate) fn is_by_row(&self) -> bool {
        matches!(self.time, FoundTime::OfRow)
    }

    /// The time of all rows, if it is a constant.
    pub(crate) fn time_everywhere(&self) -> Option<&ArrayRef> {
        match &self.time {
            FoundTime::Everywhere(time) => Some(time),
            FoundTime::Inside(_) | FoundTime::OfRow => None,
        }
    }

    /// The times of rows, of which the first has the number `first`, and the rows without one.
    pub(crate) fn times(
        &self,
        rows: &RecordBatch,
        first: u64,
        moments: &mut Moments,
    ) -> Result<Times, ArrowError> {
        match &self.time {
            FoundTime::OfRow => {
                let numbers = first..first + rows.num_rows() as u64;
                Ok((numbers.map(|number| Time::of_row(number).0).collect(), Vec::new()))
            }
            FoundTime::Inside(path) => moments.read(&texts::without_huge(values(path, rows)?)?.0),
            FoundTime::Everywhere(time) => moments.read(&repeated_value(time, rows.num_rows())?),
        }
    }

    /// How many of the first rows have values of that size in total, at least one of them. Values that are too large by
    /// themselves are not read, and so have none.
    pub(crate) fn rows_within(&self, rows: &RecordBatch, bytes: usize) -> usize {
        /// Rows that are looked at: a batch of Arrow may have any number.
        const ROWS: usize = 8192;
        let most = rows.num_rows().min(ROWS);
        let columns: Vec<ArrayRef> =
            self.paths().filter_map(|path| path.values(&rows.slice(0, most))).collect();
        let size_at: Vec<_> = columns.iter().filter_map(texts::sizes).collect();
        if size_at.is_empty() {
            return most;
        }
        let mut sum = 0;
        for row in 0..most {
            sum +=
                size_at.iter().map(|size_at| size_at(row)).filter(|size| *size <= MAX_VALUE).sum::<usize>();
            if sum > bytes {
                return row.max(1);
            }
        }
        most
    }

    /// The requested columns of rows, of which the first has the number `first`, as a chunk with `schema`.
    pub(crate) fn decode(
        &self,
        rows: &RecordBatch,
        first: u64,
        schema: &SchemaRef,
        moments: &mut Moments,
    ) -> Result<Chunk, ArrowError> {
        let len = rows.num_rows();
        let numbers: Vec<u64> = (first..first + len as u64).collect();
        let mut rejected = BTreeMap::new();
        let mut reject = |column: &str, misfits: Vec<Misfit>| {
            for (index, reason) in misfits {
                let column = Some(column.to_owned());
                let bad = || RejectedRow { row: first + index as u64, column, reason };
                rejected.entry(index).or_insert_with(bad);
            }
        };
        let (mut times, mut misfits) = self.times(rows, first, moments)?;
        if first == 1
            && let (Some((0, reason)), Some(fault)) = (misfits.first_mut(), moments.first_fault())
            && reason != NO_TIME
        {
            fault.clone_into(reason);
        }
        reject(&self.time_name, misfits);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let found = self.wanted.iter().find(|(wanted, _)| wanted.name == *field.name());
            columns.push(match found {
                Some((wanted, Found::Inside(path, conversion))) => {
                    let (values, huge) = texts::without_huge(values(path, rows)?)?;
                    // Texts may have been read as views.
                    let of_views = || Conversion::new(values.data_type(), &wanted.data_type);
                    let is_same = *values.data_type() == path.data_type;
                    let viewed = if is_same { None } else { of_views() };
                    let (values, misfits) = viewed.as_ref().unwrap_or(conversion).apply(&values)?;
                    let too_large = |row| (row, format!("it is larger than {MAX_VALUE} bytes"));
                    reject(&wanted.name, huge.into_iter().map(too_large).collect());
                    reject(&wanted.name, misfits);
                    values
                }
                Some((_, Found::Everywhere(value))) => repeated_value(value, len)?,
                _ => new_null_array(field.data_type(), len),
            });
        }
        if !rejected.is_empty() {
            let mut changed = times.to_vec();
            rejected.keys().for_each(|index| changed[*index] = NEVER);
            times = changed.into();
        }
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        Ok(Chunk { rows, times, numbers: numbers.into(), rejected: rejected.into_iter().collect() })
    }
}

/// Names of all columns of a file, including partition columns.
pub(crate) fn offers(schema: &Schema, file: Option<&DataFile>) -> Vec<String> {
    let mut names = path::all(schema);
    for (name, _) in file.iter().flat_map(|file| &file.partitions) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn values(path: &ColumnPath, rows: &RecordBatch) -> Result<ArrayRef, ArrowError> {
    path.values(rows).ok_or_else(|| {
        ArrowError::SchemaError(format!("there is no column `{}` any more", path.names.join(".")))
    })
}

/// Columns that may be the time, the likeliest first.
fn candidates(schema: &Schema) -> Vec<String> {
    let mut names = path::all(schema);
    let is_timestamp = |name: &String| {
        let found = ColumnPath::find(schema, name).ok().flatten();
        found.is_some_and(|found| matches!(found.data_type, DataType::Timestamp(..)))
    };
    names.sort_by_key(|name| !is_timestamp(name));
    names
}
