//! Binds the columns that a specification reads to those of the sources, once, before a run.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::{Source, nearest};

/// A column that the specification reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedColumn {
    /// The name of the input stream.
    pub name: String,
    /// The type that the engine reads it as.
    pub data_type: DataType,
}

impl WantedColumn {
    /// A column of that name and type.
    pub fn new(name: impl Into<String>, data_type: DataType) -> WantedColumn {
        WantedColumn { name: name.into(), data_type }
    }
}

/// Proof that the sources together have every wanted column in its wanted type. Arranges the rows of each source into
/// the schema that the engine reads.
#[derive(Clone, Debug)]
pub struct Columns {
    schema: SchemaRef,
    /// Index of each wanted column in the batches of each source.
    places: Vec<Vec<Option<usize>>>,
}

impl Columns {
    /// Looks for every wanted column in every source. A column may be missing in some of them
    /// (their rows are silent there), but not in all.
    ///
    /// # Errors
    /// All mismatches at once.
    pub fn bind(wanted: &[WantedColumn], sources: &[Box<dyn Source>]) -> Result<Columns, Mismatches> {
        let schemas: Vec<SchemaRef> = sources.iter().map(|source| source.schema()).collect();
        let mut lines = Vec::new();
        for column in wanted {
            let mut found = false;
            for (source, schema) in sources.iter().zip(&schemas) {
                let Ok(field) = schema.field_with_name(&column.name) else { continue };
                found = true;
                if field.data_type() != &column.data_type {
                    lines.push(format!(
                        "column `{}` of {} is {}, but the specification reads it as {}",
                        column.name,
                        source.name(),
                        field.data_type(),
                        column.data_type
                    ));
                }
            }
            if !found {
                lines.push(missing(column, sources));
            }
        }
        if !lines.is_empty() {
            return Err(Mismatches { lines });
        }
        let places = schemas
            .iter()
            .map(|schema| wanted.iter().map(|column| schema.index_of(&column.name).ok()).collect());
        let fields: Vec<Field> =
            wanted.iter().map(|column| Field::new(&column.name, column.data_type.clone(), true)).collect();
        Ok(Columns { places: places.collect(), schema: Arc::new(Schema::new(fields)) })
    }

    /// The rows of source number `source` in the schema that the engine reads, with nulls for columns that the source
    /// does not have. `None` if the rows do not have the schema that was bound.
    pub(crate) fn arrange(&self, source: usize, rows: &RecordBatch) -> Option<RecordBatch> {
        let columns: Option<Vec<ArrayRef>> = self.places[source]
            .iter()
            .zip(self.schema.fields())
            .map(|(place, field)| match place {
                Some(index) => rows.columns().get(*index).map(Arc::clone),
                None => Some(new_null_array(field.data_type(), rows.num_rows())),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options).ok()
    }
}

fn missing(column: &WantedColumn, sources: &[Box<dyn Source>]) -> String {
    let offers: Vec<String> = sources.iter().flat_map(|source| source.offers()).collect();
    let place = match sources {
        [source] => source.name().to_owned(),
        _ => format!("any of the {} inputs", sources.len()),
    };
    let hint = match nearest(&column.name, offers.iter().map(String::as_str)) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if offers.is_empty() => String::new(),
        None => {
            let mut names: Vec<_> = offers.iter().map(|name| format!("`{name}`")).collect();
            names.dedup();
            let more = names.len().saturating_sub(20);
            names.truncate(20);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("; there are {}{more}", names.join(", "))
        }
    };
    format!("there is no column `{}` in {place}{hint}", column.name)
}

/// All differences between the sources and what the specification reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatches {
    lines: Vec<String>,
}

impl std::error::Error for Mismatches {}

impl fmt::Display for Mismatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the input does not have what the specification reads:")?;
        for line in &self.lines {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventBatch, SourceError};

    struct Has(&'static str, Vec<(&'static str, DataType)>);

    impl Source for Has {
        fn name(&self) -> &str {
            self.0
        }

        fn schema(&self) -> SchemaRef {
            let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
            Arc::new(Schema::new(self.1.iter().map(field).collect::<Vec<_>>()))
        }

        fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
            Ok(None)
        }
    }

    #[test]
    fn every_mismatch_is_reported_at_once() {
        let wanted = [
            WantedColumn::new("id", DataType::UInt64),
            WantedColumn::new("gender", DataType::Utf8),
            WantedColumn::new("salary", DataType::Float64),
        ];
        let one = || Has("a", vec![("id", DataType::Utf8), ("gendr", DataType::Utf8)]);
        let sources: Vec<Box<dyn Source>> = vec![Box::new(one())];
        assert_eq!(
            Columns::bind(&wanted, &sources).unwrap_err().to_string(),
            "the input does not have what the specification reads:\n  \
             column `id` of a is Utf8, but the specification reads it as UInt64\n  \
             there is no column `gender` in a; did you mean `gendr`?\n  \
             there is no column `salary` in a; there are `id`, `gendr`"
        );
        // A column need not be in every input; where it is, it has to have its type.
        let rest = vec![("id", DataType::UInt64), ("gender", DataType::Utf8), ("salary", DataType::Float64)];
        let sources: Vec<Box<dyn Source>> =
            vec![Box::new(Has("b", rest.clone())), Box::new(Has("c", vec![]))];
        assert!(Columns::bind(&wanted, &sources).is_ok());
        let sources: Vec<Box<dyn Source>> = vec![Box::new(Has("b", rest)), Box::new(one())];
        assert!(
            Columns::bind(&wanted, &sources).unwrap_err().to_string().contains("column `id` of a is Utf8")
        );
    }
}
