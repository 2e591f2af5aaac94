//! Labels and the like, joined by key: a table that is read completely before the first row, and a source whose rows
//! get its columns.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    Cause, EventBatch, OptionDoc, Position, Source, SourceError, SourceFiles, WantedColumn, unescape,
};

use crate::shortened;

/// The option that makes a table of a source.
pub const JOIN: OptionDoc = OptionDoc {
    name: "join",
    default: "",
    help: "a table without times, whose columns are added to rows of the other inputs by a key: `id`, or `person:id` if \
           the key is `person` in the other inputs",
};

/// The columns with the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinKey {
    /// Its name in the rows that get the columns.
    pub theirs: String,
    /// Its name in the table.
    pub own: String,
}

impl FromStr for JoinKey {
    type Err = String;

    fn from_str(text: &str) -> Result<JoinKey, String> {
        let (theirs, own) = text.split_once(':').unwrap_or((text, text));
        let (theirs, own) = (unescape(theirs.trim()).into_owned(), unescape(own.trim()).into_owned());
        if theirs.is_empty() || own.is_empty() {
            return Err("write it as COLUMN, or as COLUMN_OF_OTHER_INPUTS:COLUMN".to_owned());
        }
        Ok(JoinKey { theirs, own })
    }
}

/// Numbers of rows with a match in a table and without one.
#[derive(Debug, Default)]
pub struct JoinCounts {
    matched: AtomicU64,
    unmatched: AtomicU64,
}

impl JoinCounts {
    /// Number of rows that a row of the table was found for.
    pub fn matched(&self) -> u64 {
        self.matched.load(Ordering::Relaxed)
    }

    /// Number of rows that there is no row of the table for.
    pub fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }
}

/// A table in memory: besides its values and keys, less than 100 bytes for each row.
#[derive(Debug)]
pub struct JoinTable {
    name: String,
    key: JoinKey,
    rows: RecordBatch,
    /// The row with each key. Keys of all types are compared as text.
    places: HashMap<Box<str>, u32>,
    counts: JoinCounts,
}

impl JoinTable {
    /// Reads a source to its end.
    ///
    /// # Errors
    /// It cannot be read, a row of it is bad, it has no column with the key, or two rows have the same key.
    pub fn read(mut source: Box<dyn Source>, key: JoinKey) -> Result<JoinTable, SourceError> {
        let name = source.name().to_owned();
        let failed = |cause: Cause| SourceError::Open { origin: name.clone(), cause };
        let schema = source.schema();
        let files = source.source_files();
        let Ok(place) = schema.index_of(&key.own) else {
            let names: Vec<String> = source.offers().iter().map(|name| format!("`{name}`")).collect();
            let (own, names) = (&key.own, names.join(", "));
            return Err(failed(format!("there is no column `{own}` to join by; there are {names}").into()));
        };
        let place_of = |row: u64| match files.find(row) {
            Some((name, row)) => format!("row {row} of {name}"),
            None => format!("row {row}"),
        };
        let (mut batches, mut numbers) = (Vec::new(), Vec::<u64>::new());
        let mut places: HashMap<Box<str>, u32> = HashMap::new();
        while let Some(events) = source.next_batch()? {
            if let Some(bad) = events.rejected.into_iter().next() {
                let (origin, row) = files.find(bad.row).unwrap_or((&name, bad.row));
                return Err(SourceError::BadRow {
                    origin: origin.to_owned(),
                    bad: fairstream_core::RejectedRow { row, ..bad },
                });
            }
            let keys = as_text(events.rows.column(place)).map_err(failed)?;
            for (index, row) in events.row_numbers.iter().enumerate() {
                let at = u32::try_from(numbers.len()).map_err(|_| failed("it has too many rows".into()))?;
                numbers.push(*row);
                if keys.is_null(index) {
                    continue;
                }
                let value = keys.value(index);
                if let Some(other) = places.insert(value.into(), at) {
                    let first = place_of(numbers[other as usize]);
                    let (second, own, value) = (place_of(*row), &key.own, shortened(value));
                    return Err(failed(
                        format!("{first} and {second} have the same `{own}`, `{value}`; a key has one row")
                            .into(),
                    ));
                }
            }
            batches.push(events.rows);
        }
        let mut rows = concat_batches(&schema, &batches).map_err(|error| failed(error.into()))?;
        let knows_columns = !source.offers().is_empty();
        let has_column = |index: &usize| {
            schema.field(*index).name() != &key.theirs
                && (knows_columns || rows.column(*index).null_count() < rows.num_rows())
        };
        let columns: Vec<usize> = (0..schema.fields().len()).filter(has_column).collect();
        rows = rows.project(&columns).map_err(|error| failed(error.into()))?;
        Ok(JoinTable { name, key, rows, places, counts: JoinCounts::default() })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns with the key.
    pub fn key(&self) -> &JoinKey {
        &self.key
    }

    /// The columns that it adds to rows.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Whether every key is a number without decimals, as other formats than text would write it.
    pub fn has_whole_keys(&self) -> bool {
        let is_whole = |key: &str| key.parse::<i64>().is_ok_and(|number| number.to_string() == key);
        self.places.keys().all(|key| is_whole(key))
    }

    /// How many rows of other inputs it had a row for.
    pub fn counts(&self) -> &JoinCounts {
        &self.counts
    }

    /// For each key its row.
    fn find(&self, keys: &ArrayRef) -> Result<UInt32Array, Cause> {
        let keys = as_text(keys)?;
        let found: UInt32Array = keys.iter().map(|key| self.places.get(key?).copied()).collect();
        let unmatched = found.null_count() as u64;
        self.counts.matched.fetch_add(found.len() as u64 - unmatched, Ordering::Relaxed);
        self.counts.unmatched.fetch_add(unmatched, Ordering::Relaxed);
        Ok(found)
    }
}

fn as_text(keys: &ArrayRef) -> Result<StringArray, Cause> {
    if matches!(keys.data_type(), DataType::Struct(_) | DataType::Binary) {
        return Err(format!("its key is {}; rows are joined by numbers or texts", keys.data_type()).into());
    }
    Ok(cast(keys, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// Where a column of the rows comes from.
enum JoinedColumn {
    Own(usize),
    Table(usize),
}

/// Adds the columns of a table to the rows of a source. Rows without a match have nulls there.
pub struct Joined {
    inner: Box<dyn Source>,
    table: Arc<JoinTable>,
    /// Index of the key in the batches of the source.
    key: usize,
    schema: SchemaRef,
    columns: Vec<JoinedColumn>,
}

impl Joined {
    /// Joins a source with a table. The result has the wanted columns that one of them has; those of the table take
    /// precedence. A source that has no column with the key stays as it is.
    pub fn around(
        inner: Box<dyn Source>,
        table: &Arc<JoinTable>,
        wanted: &[WantedColumn],
    ) -> Box<dyn Source> {
        let (own, added) = (inner.schema(), table.schema());
        let Ok(key) = own.index_of(&table.key.theirs) else { return inner };
        let (mut fields, mut columns): (Vec<Field>, Vec<JoinedColumn>) = (Vec::new(), Vec::new());
        for wanted in wanted {
            let (field, column) = match (added.index_of(&wanted.name), own.index_of(&wanted.name)) {
                (Ok(place), _) => (added.field(place), JoinedColumn::Table(place)),
                (_, Ok(place)) => (own.field(place), JoinedColumn::Own(place)),
                _ => continue,
            };
            fields.push(Field::new(&wanted.name, field.data_type().clone(), true));
            columns.push(column);
        }
        let (schema, table) = (Arc::new(Schema::new(fields)), Arc::clone(table));
        Box::new(Joined { inner, table, key, schema, columns })
    }

    fn join(&self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        let places = self.table.find(rows.column(self.key))?;
        let columns = self.columns.iter().map(|column| {
            Ok(match column {
                JoinedColumn::Own(place) => Arc::clone(rows.column(*place)),
                JoinedColumn::Table(place) => take(self.table.rows.column(*place), &places, None)?,
            })
        });
        let columns = columns.collect::<Result<Vec<_>, Cause>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Source for Joined {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        let mut offers = self.inner.offers();
        if !offers.is_empty() {
            offers.extend(self.table.schema().fields().iter().map(|field| field.name().clone()));
        }
        offers
    }

    fn source_files(&self) -> SourceFiles {
        self.inner.source_files()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let Some(mut events) = self.inner.next_batch()? else { return Ok(None) };
        let rows = self.join(&events.rows);
        events.rows = rows.map_err(|cause| SourceError::Broken {
            origin: self.inner.name().to_owned(),
            reason: format!("it cannot be joined with {}: {cause}", self.table.name),
        })?;
        Ok(Some(events))
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        self.inner.acknowledge(through)
    }
}
