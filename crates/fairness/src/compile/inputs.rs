//! The inputs of a compiled file, and where their values come from. Columns have any name; inputs have one that RTLola
//! can read.

use arrow::datatypes::DataType;
use fairstream_core::WantedColumn;

use crate::group::Grouping;

/// An input of the compiled text.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundInput {
    /// Its name in the text.
    pub stream: String,
    /// Its type in the text, such as `String` or `UInt64`.
    pub data_type: String,
    /// Where its values come from.
    pub origin: InputOrigin,
}

/// Where the values of an input come from. All but columns are supplied by
/// [`JudgedEngine`](crate::JudgedEngine).
#[derive(Clone, Debug, PartialEq)]
pub enum InputOrigin {
    /// A column of the source.
    Column(String),
    /// A column of the source whose values become groups.
    Groups {
        /// The name of the groups.
        name: String,
        /// The column and its type.
        column: WantedColumn,
        /// How values become groups.
        grouping: Grouping,
    },
    /// The number of the row.
    RowNumber,
    /// The time of the row, in nanoseconds since 1970.
    Time,
}

impl BoundInput {
    /// What users call it: the column, or the groups that are made from one.
    pub fn name(&self) -> &str {
        match &self.origin {
            InputOrigin::Column(name) | InputOrigin::Groups { name, .. } => name,
            InputOrigin::RowNumber => "row",
            InputOrigin::Time => "time",
        }
    }

    /// Its type in batches.
    pub(crate) fn arrow_type(&self) -> DataType {
        arrow_type(&self.data_type)
    }

    /// The column of the source that it reads.
    pub(super) fn source_column(&self) -> Option<WantedColumn> {
        match &self.origin {
            InputOrigin::Column(name) => Some(WantedColumn::new(name, self.arrow_type())),
            InputOrigin::Groups { column, .. } => Some(column.clone()),
            InputOrigin::RowNumber | InputOrigin::Time => None,
        }
    }
}

/// The Arrow type of a type of columns.
pub(super) fn arrow_type(data_type: &str) -> DataType {
    match data_type {
        "Bool" => DataType::Boolean,
        "Int8" => DataType::Int8,
        "Int16" => DataType::Int16,
        "Int32" => DataType::Int32,
        "Int64" => DataType::Int64,
        "UInt8" => DataType::UInt8,
        "UInt16" => DataType::UInt16,
        "UInt32" => DataType::UInt32,
        "UInt64" => DataType::UInt64,
        "Float32" | "Float64" => DataType::Float64,
        _ => DataType::Utf8,
    }
}
