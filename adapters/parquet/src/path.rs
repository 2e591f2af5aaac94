//! Finds columns of a schema by name, or by a path with dots into struct columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};

/// Location of a column: its name, preceded by the names of the enclosing struct columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnPath {
    pub(crate) names: Vec<String>,
    pub(crate) data_type: DataType,
}

impl ColumnPath {
    /// Finds a column. A name that contains dots takes precedence over a nested column.
    ///
    /// # Errors
    /// The path is ambiguous.
    pub(crate) fn find(schema: &Schema, path: &str) -> Result<Option<ColumnPath>, String> {
        find(schema.fields(), path)
    }

    /// The values of the column, null where an enclosing struct is null.
    pub(crate) fn values(&self, rows: &RecordBatch) -> Option<ArrayRef> {
        let (root, inner) = self.names.split_first()?;
        let mut column = Arc::clone(rows.column_by_name(root)?);
        for name in inner {
            let around = column.as_struct_opt()?;
            let inside = around.column_by_name(name)?;
            column = match around.nulls() {
                None => Arc::clone(inside),
                Some(nulls) => {
                    let nulls = NullBuffer::union(Some(nulls), inside.logical_nulls().as_ref());
                    make_array(inside.to_data().into_builder().nulls(nulls).build().ok()?)
                }
            };
        }
        Some(column)
    }
}

fn find(fields: &[FieldRef], path: &str) -> Result<Option<ColumnPath>, String> {
    let mut named = fields.iter().enumerate().filter(|(_, field)| field.name() == path);
    if let Some((first, field)) = named.next() {
        if let Some((second, _)) = named.next() {
            return Err(format!(
                "column `{path}` is there twice, as number {} and {}; rename one of them",
                first + 1,
                second + 1
            ));
        }
        let data_type = field.data_type().clone();
        return Ok(Some(ColumnPath { names: vec![path.to_owned()], data_type }));
    }
    for (dot, _) in path.match_indices('.') {
        let (outer, inner) = (&path[..dot], &path[dot + 1..]);
        let around = fields.iter().find(|field| field.name() == outer).map(|field| field.data_type());
        if let Some(DataType::Struct(inside)) = around
            && let Some(mut found) = find(inside, inner)?
        {
            found.names.insert(0, outer.to_owned());
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The paths of all columns that can be read.
pub(crate) fn all(schema: &Schema) -> Vec<String> {
    fn add(field: &Field, before: &str, paths: &mut Vec<String>) {
        let path = format!("{before}{}", field.name());
        match field.data_type() {
            DataType::Struct(inside) => {
                inside.iter().for_each(|field| add(field, &format!("{path}."), paths));
            }
            _ => paths.push(path),
        }
    }
    let mut paths = Vec::new();
    schema.fields().iter().for_each(|field| add(field, "", &mut paths));
    paths
}
