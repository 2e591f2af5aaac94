//! Tables of state whose rows are written and read one by one, for what there is less of than instances of streams.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder,
    TimestampNanosecondBuilder, UInt64Builder,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampNanosecondType, UInt64Type,
};

use crate::{StateError, StateReader, StateWriter};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateCellType {
    /// A number that is not negative.
    UInt,
    /// A number.
    Int,
    /// Nanoseconds since 1970, or since the start of the trace.
    Time,
    /// A float.
    Float,
    /// A truth value.
    Bool,
    /// A text.
    Text,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StateCell<'a> {
    /// Of a column of the same type.
    UInt(u64),
    /// Of a column of the same type.
    Int(i64),
    /// Of a column of the same type.
    Time(i64),
    /// Of a column of the same type.
    Float(f64),
    /// Of a column of the same type.
    Bool(bool),
    /// Of a column of the same type.
    Text(&'a str),
    /// No value.
    Absent,
}

/// The columns of a table: names and types.
pub type TableColumns<'a> = &'a [(&'a str, StateCellType)];

/// Writes a table row by row.
pub struct StateTableWriter<'a> {
    table: &'a str,
    schema: SchemaRef,
    builders: Vec<StateCellBuilder>,
    rows: usize,
    /// Whether the table has begun.
    has_begun: bool,
}

/// Rows of a batch.
const ROWS: usize = 65_536;

enum StateCellBuilder {
    UInt(UInt64Builder),
    Int(Int64Builder),
    Time(TimestampNanosecondBuilder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

impl StateCellType {
    fn data_type(self) -> DataType {
        match self {
            StateCellType::UInt => DataType::UInt64,
            StateCellType::Int => DataType::Int64,
            StateCellType::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
            StateCellType::Float => DataType::Float64,
            StateCellType::Bool => DataType::Boolean,
            StateCellType::Text => DataType::Utf8,
        }
    }

    fn builder(self) -> StateCellBuilder {
        match self {
            StateCellType::UInt => StateCellBuilder::UInt(UInt64Builder::new()),
            StateCellType::Int => StateCellBuilder::Int(Int64Builder::new()),
            StateCellType::Time => StateCellBuilder::Time(TimestampNanosecondBuilder::new()),
            StateCellType::Float => StateCellBuilder::Float(Float64Builder::new()),
            StateCellType::Bool => StateCellBuilder::Bool(BooleanBuilder::new()),
            StateCellType::Text => StateCellBuilder::Text(StringBuilder::new()),
        }
    }
}

impl StateCellBuilder {
    /// A value of another type than the column has is absent.
    fn push(&mut self, cell: StateCell<'_>) {
        match (self, cell) {
            (StateCellBuilder::UInt(builder), StateCell::UInt(value)) => builder.append_value(value),
            (StateCellBuilder::UInt(builder), _) => builder.append_null(),
            (StateCellBuilder::Int(builder), StateCell::Int(value)) => builder.append_value(value),
            (StateCellBuilder::Int(builder), _) => builder.append_null(),
            (StateCellBuilder::Time(builder), StateCell::Time(value)) => builder.append_value(value),
            (StateCellBuilder::Time(builder), _) => builder.append_null(),
            (StateCellBuilder::Float(builder), StateCell::Float(value)) => builder.append_value(value),
            (StateCellBuilder::Float(builder), _) => builder.append_null(),
            (StateCellBuilder::Bool(builder), StateCell::Bool(value)) => builder.append_value(value),
            (StateCellBuilder::Bool(builder), _) => builder.append_null(),
            (StateCellBuilder::Text(builder), StateCell::Text(value)) => builder.append_value(value),
            (StateCellBuilder::Text(builder), _) => builder.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            StateCellBuilder::UInt(builder) => Arc::new(builder.finish()),
            StateCellBuilder::Int(builder) => Arc::new(builder.finish()),
            StateCellBuilder::Time(builder) => Arc::new(builder.finish()),
            StateCellBuilder::Float(builder) => Arc::new(builder.finish()),
            StateCellBuilder::Bool(builder) => Arc::new(builder.finish()),
            StateCellBuilder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

impl<'a> StateTableWriter<'a> {
    /// A table of this name and with these columns.
    pub fn new(table: &'a str, columns: TableColumns<'_>) -> StateTableWriter<'a> {
        let field = |(name, ty): &(&str, StateCellType)| Field::new(*name, ty.data_type(), true);
        StateTableWriter {
            table,
            schema: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
            builders: columns.iter().map(|(_, ty)| ty.builder()).collect(),
            rows: 0,
            has_begun: false,
        }
    }

    /// Appends a row: a cell for each column.
    ///
    /// # Errors
    /// It could not be written.
    pub fn row(&mut self, cells: &[StateCell<'_>], to: &mut dyn StateWriter) -> Result<(), StateError> {
        self.builders.iter_mut().zip(cells).for_each(|(builder, cell)| builder.push(*cell));
        self.rows += 1;
        if self.rows == ROWS { self.flush(to) } else { Ok(()) }
    }

    fn flush(&mut self, to: &mut dyn StateWriter) -> Result<(), StateError> {
        let arrays = self.builders.iter_mut().map(StateCellBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        (self.rows, self.has_begun) = (0, true);
        to.rows(self.table, &batch.map_err(|error| StateError::Io(error.to_string()))?)
    }

    /// Writes what is left. A table without rows has one empty batch.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(mut self, to: &mut dyn StateWriter) -> Result<(), StateError> {
        if self.rows > 0 || !self.has_begun { self.flush(to) } else { Ok(()) }
    }
}

/// Reads a table row by row, whatever other columns it has; a column that is missing is absent in each row. Returns how many
/// rows there are; `None` if there is no such table.
///
/// # Errors
/// The table cannot be read, a column has another type, or `each` fails.
pub fn read_table(
    state: &dyn StateReader,
    table: &str,
    columns: TableColumns<'_>,
    mut each: impl FnMut(&[StateCell<'_>]) -> Result<(), StateError>,
) -> Result<Option<usize>, StateError> {
    let Some(batches) = state.table(table)? else { return Ok(None) };
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        let found: Vec<Option<&ArrayRef>> =
            columns.iter().map(|(name, _)| batch.column_by_name(name)).collect();
        for ((name, ty), column) in columns.iter().zip(&found) {
            if let Some(column) = column.filter(|column| *column.data_type() != ty.data_type()) {
                let found = column.data_type();
                return Err(StateError::Damaged(format!("`{name}` of `{table}` has the type {found}")));
            }
        }
        let mut cells = vec![StateCell::Absent; columns.len()];
        for row in 0..batch.num_rows() {
            for ((cell, column), (_, ty)) in cells.iter_mut().zip(&found).zip(columns) {
                *cell = match column.filter(|column| column.is_valid(row)) {
                    None => StateCell::Absent,
                    Some(column) => match ty {
                        StateCellType::UInt => {
                            StateCell::UInt(column.as_primitive::<UInt64Type>().value(row))
                        }
                        StateCellType::Int => StateCell::Int(column.as_primitive::<Int64Type>().value(row)),
                        StateCellType::Time => {
                            StateCell::Time(column.as_primitive::<TimestampNanosecondType>().value(row))
                        }
                        StateCellType::Float => {
                            StateCell::Float(column.as_primitive::<Float64Type>().value(row))
                        }
                        StateCellType::Bool => StateCell::Bool(column.as_boolean().value(row)),
                        StateCellType::Text => StateCell::Text(column.as_string::<i32>().value(row)),
                    },
                };
            }
            each(&cells)?;
        }
        rows += batch.num_rows();
    }
    Ok(Some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryState;

    const COLUMNS: TableColumns<'static> = &[
        ("number", StateCellType::UInt),
        ("difference", StateCellType::Int),
        ("time", StateCellType::Time),
        ("share", StateCellType::Float),
        ("holds", StateCellType::Bool),
        ("name", StateCellType::Text),
    ];

    #[test]
    fn rows_come_back_as_they_were() {
        let names: Vec<String> = (0..100_000).map(|row| format!("row {row}")).collect();
        let row = |number: usize| {
            let value = number as u64;
            match number % 5 {
                4 => [StateCell::Absent; 6],
                _ => [
                    StateCell::UInt(value << 40),
                    StateCell::Int(-(number as i64)),
                    StateCell::Time(i64::MIN + number as i64),
                    StateCell::Float([0.1, f64::INFINITY, -0.0, 5e-324][number % 4]),
                    StateCell::Bool(number.is_multiple_of(2)),
                    StateCell::Text(&names[number]),
                ],
            }
        };
        for rows in [0, 1, 65_536, 100_000] {
            let mut state = MemoryState::default();
            let mut writer = StateTableWriter::new("some/rows", COLUMNS);
            (0..rows).for_each(|number| writer.row(&row(number), &mut state).unwrap());
            writer.finish(&mut state).unwrap();
            let mut number = 0;
            let read = read_table(&state, "some/rows", COLUMNS, |cells| {
                assert_eq!(cells, row(number));
                number += 1;
                Ok(())
            });
            assert_eq!((read, number), (Ok(Some(rows)), rows));
            let missing = [("other", StateCellType::UInt), ("name", StateCellType::Text)];
            let read = read_table(&state, "some/rows", &missing, |cells| {
                assert_eq!(cells[0], StateCell::Absent);
                Ok(())
            });
            assert_eq!(read, Ok(Some(rows)));
            assert!(read_table(&state, "some/rows", &[("name", StateCellType::UInt)], |_| Ok(())).is_err());
            assert_eq!(read_table(&state, "no/rows", COLUMNS, |_| Ok(())), Ok(None));
        }
    }
}
