//! Column aliases: the specification may use other names for the columns of a source. Works for every source, by
//! wrapping it.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::{
    BadOption, EventBatch, OptionDoc, Position, Source, SourceError, SourceFactory, SourceFiles,
    SourceRequest, WantedColumn, nearest, unescape,
};

/// Maps inputs of the specification to columns of a source.
///
/// ```
/// use fairstream_core::ColumnAliases;
///
/// let aliases: ColumnAliases = "gender:applicant.gender,id:applicant.id".parse()?;
/// assert_eq!(aliases.column("gender"), "applicant.gender");
/// assert_eq!(aliases.column("score"), "score");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnAliases(Vec<(String, String)>);

impl FromStr for ColumnAliases {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnAliases, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split(',') {
            let (input, column) = pair
                .split_once(':')
                .map(|(input, column)| (input.trim(), column.trim()))
                .filter(|(input, column)| !input.is_empty() && !column.is_empty())
                .ok_or(
                    "write it as INPUT:COLUMN,INPUT:COLUMN, with `%3A` and `%2C` for `:` and `,` in names",
                )?;
            let (input, column) = (unescape(input).into_owned(), unescape(column).into_owned());
            if pairs.iter().any(|(known, _)| *known == input) {
                return Err(format!("`{input}` is there twice"));
            }
            pairs.push((input, column));
        }
        Ok(ColumnAliases(pairs))
    }
}

impl ColumnAliases {
    /// The option with the aliases, which every source takes.
    pub const OPTION: OptionDoc = OptionDoc {
        name: "columns",
        default: "",
        help: "columns by another name: `gender:applicant.gender,id:applicant.id`",
    };

    /// The column for an input of the specification.
    pub fn column<'a>(&'a self, input: &'a str) -> &'a str {
        self.0.iter().find(|(own, _)| own == input).map_or(input, |(_, column)| column)
    }

    /// Opens a source, with aliases if the request has the [`OPTION`](ColumnAliases::OPTION).
    ///
    /// # Errors
    /// The option is invalid, or the source cannot be opened.
    pub fn open(
        factory: &dyn SourceFactory,
        request: &SourceRequest,
    ) -> Result<Box<dyn Source>, SourceError> {
        let key = ColumnAliases::OPTION.name;
        let refused = |bad| request.refuse(bad);
        let aliases: ColumnAliases = match request.options.text(key) {
            None | Some("") => return factory.open(request),
            Some(_) => request.options.parse(key, ColumnAliases::default()).map_err(refused)?,
        };
        let inputs = || request.wanted.iter().map(|wanted| wanted.name.as_str());
        if let Some((input, _)) = aliases.0.iter().find(|(input, _)| !inputs().any(|own| own == input)) {
            let near = nearest(input, inputs()).map(|near| format!("; did you mean `{near}`?"));
            return Err(refused(BadOption::Value {
                key: key.to_owned(),
                value: request.options.text(key).unwrap_or_default().to_owned(),
                reason: format!("the specification does not read `{input}`{}", near.unwrap_or_default()),
            }));
        }
        let mut columns: Vec<WantedColumn> = Vec::new();
        for wanted in &request.wanted {
            let column = WantedColumn::new(aliases.column(&wanted.name), wanted.data_type.clone());
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let inner = factory.open(&SourceRequest { wanted: columns, ..request.clone() })?;
        Ok(Box::new(AliasedSource::new(inner, &request.wanted, &aliases)))
    }
}

struct AliasedSource {
    inner: Box<dyn Source>,
    schema: SchemaRef,
    /// For each column its index in the batches of the source.
    places: Vec<usize>,
    offers: Vec<String>,
}

impl AliasedSource {
    fn new(inner: Box<dyn Source>, wanted: &[WantedColumn], aliases: &ColumnAliases) -> AliasedSource {
        let own = inner.schema();
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        for wanted in wanted {
            let named = |field: &Field| field.name() == aliases.column(&wanted.name);
            let fits = |field: &Field| named(field) && field.data_type() == &wanted.data_type;
            let own = own.fields();
            let place =
                own.iter().position(|field| fits(field)).or(own.iter().position(|field| named(field)));
            if let Some(place) = place {
                fields.push(Field::new(&wanted.name, own[place].data_type().clone(), true));
                places.push(place);
            }
        }
        let mut offers = inner.offers();
        if !offers.is_empty() {
            offers.extend(aliases.0.iter().map(|(input, _)| input.clone()));
        }
        AliasedSource { inner, schema: Arc::new(Schema::new(fields)), places, offers }
    }

    fn with_aliases(&self, rows: &RecordBatch) -> Result<RecordBatch, SourceError> {
        let broken = |reason: String| SourceError::Broken { origin: self.inner.name().to_owned(), reason };
        let columns: Option<Vec<ArrayRef>> =
            self.places.iter().map(|place| rows.columns().get(*place).cloned()).collect();
        let columns = columns.ok_or_else(|| broken("its columns changed after it was opened".to_owned()))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| broken(error.to_string()))
    }
}

impl Source for AliasedSource {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.offers.clone()
    }

    fn source_files(&self) -> SourceFiles {
        self.inner.source_files()
    }

    fn is_live(&self) -> bool {
        self.inner.is_live()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let Some(events) = self.inner.next_batch()? else { return Ok(None) };
        Ok(Some(EventBatch { rows: self.with_aliases(&events.rows)?, ..events }))
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        self.inner.acknowledge(through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_pairs() {
        for text in ["a", ":b", "a:", "a:b,", "a:b,a:c"] {
            assert!(text.parse::<ColumnAliases>().is_err(), "{text}");
        }
        let aliases: ColumnAliases = "a:x.y, b:x.y".parse().unwrap();
        assert_eq!((aliases.column("a"), aliases.column("b"), aliases.column("c")), ("x.y", "x.y", "c"));
        let aliases: ColumnAliases = "a%3Ab&c:x%2Cy,d:100 %".parse().unwrap();
        assert_eq!((aliases.column("a:b&c"), aliases.column("d")), ("x,y", "100 %"));
    }
}
