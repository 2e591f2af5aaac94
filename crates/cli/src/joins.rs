//! Inputs with the option `join`: tables whose columns are added to the rows of the other inputs.

use std::sync::Arc;

use anyhow::bail;
use arrow::datatypes::DataType;
use fairstream_core::{
    Position, ROW_ORDER_ONLY, Source, SourceContext, SourceError, TimeRange, WantedColumn,
};
use fairstream_files::{JOIN, JoinKey, JoinTable, Joined};

use crate::load::Monitor;
use crate::progress::counted;
use crate::registry::Address;

/// The tables of a run.
pub(crate) struct Joins(Vec<Arc<JoinTable>>);

/// Whether an input is a table.
pub(crate) fn is_table(input: &Address) -> bool {
    input.options.text(JOIN.name).is_some()
}

/// The input without what makes it a table: its rows need no time.
pub(crate) fn without_key(input: &Address) -> Address {
    let mut plain = input.clone();
    plain.options.take(JOIN.name);
    plain.options.set("time", ROW_ORDER_ONLY);
    plain
}

/// The types that a key may have which the specification does not read. Texts are preferred, as they keep everything.
const KEY_TYPES: [DataType; 2] = [DataType::Utf8, DataType::Int64];

impl Joins {
    /// No table.
    pub(crate) fn none() -> Joins {
        Joins(Vec::new())
    }

    /// Reads the tables of a run completely.
    pub(crate) fn read(monitor: &Monitor, context: &SourceContext) -> anyhow::Result<Joins> {
        let mut tables = Vec::new();
        for input in monitor.inputs.iter().filter(|input| is_table(input)) {
            tables.push(Arc::new(read(monitor, input, context)?));
        }
        if !tables.is_empty() && monitor.inputs.iter().all(is_table) {
            bail!("every input is joined to others by `join`, so there is none with events");
        }
        Ok(Joins(tables))
    }

    /// Opens an input with events, and joins it with the tables.
    pub(crate) fn open(
        &self,
        monitor: &Monitor,
        input: &Address,
        resume: Option<Position>,
        time_range: TimeRange,
        context: &SourceContext,
    ) -> anyhow::Result<Box<dyn Source>> {
        let Some(first) = self.0.first() else {
            return monitor.open(input, &monitor.wanted, resume, time_range, context);
        };
        let types = if first.has_whole_keys() { [DataType::Int64, DataType::Utf8] } else { KEY_TYPES };
        let open = |key_type| {
            let wanted = self.columns_of_events(monitor, key_type);
            monitor.open(input, &wanted, resume.clone(), time_range, context)
        };
        let mut source = match open(&types[0]) {
            Err(error) if input.location != "-" => open(&types[1]).map_err(|_| error)?,
            opened => opened?,
        };
        for (index, table) in self.0.iter().enumerate() {
            let mut wanted = monitor.wanted.clone();
            // Keys of the tables that follow are still needed.
            for key in self.0[index + 1..].iter().map(|table| &table.key().theirs) {
                if let Ok(field) = source.schema().field_with_name(key)
                    && !wanted.iter().any(|column| column.name == *key)
                {
                    wanted.push(WantedColumn::new(key, field.data_type().clone()));
                }
            }
            source = Joined::around(source, table, &wanted);
        }
        Ok(source)
    }

    /// Checks that every table is joined to some input.
    pub(crate) fn check(&self, sources: &[Box<dyn Source>]) -> anyhow::Result<()> {
        for table in &self.0 {
            let key = &table.key().theirs;
            let has_key = |source: &dyn Source| {
                let offers = source.offers();
                offers.is_empty()
                    || offers.contains(key)
                    || source.schema().fields().iter().any(|field| field.name() == key)
            };
            if !sources.iter().any(|source| has_key(&**source)) {
                bail!(
                    "{}: no other input has a column `{key}` to join it by; `join=THEIRS:OWN` names the columns \
                     where they differ",
                    table.name()
                );
            }
        }
        Ok(())
    }

    /// A sentence for each table: how many rows there was a row for.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let sentence = |table: &Arc<JoinTable>| {
            let (matched, unmatched) = (table.counts().matched(), table.counts().unmatched());
            format!(
                "{}: joined to {} by `{}`; {} without a match",
                table.name(),
                counted(matched, "row"),
                table.key().theirs,
                counted(unmatched, "row"),
            )
        };
        self.0.iter().map(sentence).collect()
    }

    /// The names of the tables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|table| table.name())
    }

    fn keys(&self) -> Vec<String> {
        self.0.iter().map(|table| table.key().theirs.clone()).collect()
    }

    /// The columns that inputs with events are read for: those that no table adds, and the keys.
    fn columns_of_events(&self, monitor: &Monitor, key_type: &DataType) -> Vec<WantedColumn> {
        let is_added = |name: &str| {
            self.0.iter().any(|table| table.schema().fields().iter().any(|field| field.name() == name))
        };
        let mut columns = monitor.wanted.clone();
        columns.retain(|column| !is_added(&column.name));
        for key in self.keys() {
            if !is_added(&key) && !columns.iter().any(|column| column.name == key) {
                columns.push(WantedColumn::new(key, key_type.clone()));
            }
        }
        columns
    }
}

/// Reads one table.
fn read(monitor: &Monitor, input: &Address, context: &SourceContext) -> anyhow::Result<JoinTable> {
    let key = input.options.parse(JOIN.name, JoinKey { theirs: String::new(), own: String::new() });
    let key = key.map_err(|bad| SourceError::Option { origin: input.location.clone(), bad })?;
    let plain = without_key(input);
    let known = monitor.wanted.iter().find(|column| column.name == key.theirs);
    let open = |key_type: &DataType| {
        let mut wanted = monitor.wanted.clone();
        wanted.retain(|column| column.name != key.own);
        wanted.push(WantedColumn::new(&key.own, key_type.clone()));
        let source = monitor.open(&plain, &wanted, None, TimeRange::default(), context)?;
        anyhow::Ok(JoinTable::read(source, key.clone())?)
    };
    match known {
        Some(column) => open(&column.data_type),
        // Standard input cannot be read twice.
        None if input.location == "-" => open(&KEY_TYPES[0]),
        None => open(&KEY_TYPES[0]).or_else(|error| open(&KEY_TYPES[1]).map_err(|_| error)),
    }
}
