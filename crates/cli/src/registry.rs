//! The registry of built-in sources, sinks and event writers, and the addresses that name them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use fairstream_core::{
    Adapter, ColumnAliases, EventWriterFactory, OptionDoc, Options, SinkFactory, SourceFactory, escape,
    nearest, unescape, unescape_only,
};
use fairstream_csv::{CsvEventWriters, CsvSinks, CsvSources};
use fairstream_files::{JOIN, SORT, data_files};
use fairstream_json::{JsonEventWriters, JsonSinks, JsonSources};
use fairstream_parquet::{
    ArrowEventWriters, ArrowSinks, ArrowSources, ParquetEventWriters, ParquetSinks, ParquetSources,
};
use fairstream_pcap::{LiveSources, PcapSources};
use fairstream_plugin::{PluginSinks, PluginSources};
use fairstream_scenarios::scenarios;

use crate::console::ConsoleSinks;
use crate::records;
use crate::report::{self, ReportFormat, ReportSinks};

/// Every kind of source.
pub(crate) fn sources() -> Vec<Box<dyn SourceFactory>> {
    let mut kinds: Vec<Box<dyn SourceFactory>> = vec![
        Box::new(CsvSources),
        Box::new(JsonSources),
        Box::new(ParquetSources),
        Box::new(ArrowSources),
        Box::new(PcapSources),
        Box::new(LiveSources),
        Box::new(PluginSources),
    ];
    // A scenario that reads a file is excluded, since the rows that it leaves out would not be reported.
    for scenario in scenarios().into_iter().filter(|scenario| scenario.file.is_none()) {
        kinds.push(Box::new(scenario));
    }
    kinds
}

/// Every kind of event writer.
pub(crate) fn event_writers() -> Vec<Box<dyn EventWriterFactory>> {
    vec![
        Box::new(CsvEventWriters),
        Box::new(JsonEventWriters),
        Box::new(ParquetEventWriters),
        Box::new(ArrowEventWriters),
    ]
}

/// What sinks need to know of a run in addition to its verdicts.
#[derive(Clone, Default)]
pub(crate) struct RunContext {
    pub(crate) console: ConsoleSinks,
    /// The run to report on; `None` if the specification is not a fairness file.
    pub(crate) reported: Option<Arc<report::ReportedRun>>,
}

/// Every kind of sink.
pub(crate) fn sinks(run_context: &RunContext) -> Vec<Box<dyn SinkFactory>> {
    vec![
        Box::new(run_context.console.clone()),
        Box::new(ReportSinks::new(ReportFormat::Html, run_context.reported.clone())),
        Box::new(ReportSinks::new(ReportFormat::Svg, run_context.reported.clone())),
        Box::new(ReportSinks::new(ReportFormat::Summary, run_context.reported.clone())),
        Box::new(JsonSinks),
        Box::new(CsvSinks),
        Box::new(ParquetSinks),
        Box::new(ArrowSinks),
        Box::new(PluginSinks),
    ]
}

/// Options that every source takes.
pub(crate) const OF_EVERY_SOURCE: [OptionDoc; 3] = [ColumnAliases::OPTION, JOIN, SORT];

/// The option that every sink takes.
pub(crate) const SELECT: OptionDoc = OptionDoc {
    name: "select",
    default: "alarms of a fairness file, triggers of an RTLola specification",
    help: "`triggers` are violated at every check; `changes` writes every new value, spawned and closed instance as well",
};

/// The options of a sink, its own and those of its kind.
pub(crate) fn sink_options(adapter: &Adapter) -> Vec<OptionDoc> {
    let mut options = [adapter.options, &[SELECT]].concat();
    if records::SINKS.contains(&adapter.name) {
        options.push(records::MODE);
    }
    options
}

/// A parsed address, `[KIND:]LOCATION[?OPTION=VALUE&...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) kind: Option<String>,
    pub(crate) location: String,
    /// Locations of further files that are read as one source with the first.
    pub(crate) others: Vec<String>,
    pub(crate) options: Options,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Address {
        let (rest, options) = match text.rsplit_once('?') {
            Some((rest, query)) => match pairs(query) {
                Some(options) => (rest, options),
                None => (text, Options::default()),
            },
            None => (text, Options::default()),
        };
        // A single letter is a drive of Windows, not a kind.
        let is_kind = |kind: &str| kind.len() > 1 && kind.chars().all(|c| c.is_ascii_alphanumeric());
        match rest.split_once(':') {
            Some((kind, location)) if is_kind(kind) => Address {
                kind: Some(kind.to_owned()),
                location: location.to_owned(),
                others: Vec::new(),
                options,
            },
            _ => Address { kind: None, location: rest.to_owned(), others: Vec::new(), options },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = &self.kind {
            write!(f, "{kind}:")?;
        }
        write!(f, "{}", self.location)?;
        for (number, (key, value)) in self.options.iter().enumerate() {
            let value = if LISTS.contains(&key) {
                // A `%` is part of the list.
                value.replace('&', "%26").replace('?', "%3F")
            } else {
                escape(value, "&?")
            };
            write!(f, "{}{}={value}", if number == 0 { '?' } else { '&' }, escape(key, "&=?"))?;
        }
        Ok(())
    }
}

/// Options whose values are lists of names, which have escapes themselves.
const LISTS: [&str; 2] = [ColumnAliases::OPTION.name, JOIN.name];

fn pairs(query: &str) -> Option<Options> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').filter(|(key, _)| !key.is_empty())?;
        let key = unescape(key).into_owned();
        let value = if LISTS.contains(&key.as_str()) { unescape_only(value, "&?") } else { unescape(value) };
        Some((key, value.into_owned()))
    };
    query.split('&').map(pair).collect()
}

/// Whether an address names a plugin, whose code is loaded when it is opened.
pub(crate) fn is_plugin(address: &Address) -> bool {
    address.kind.as_deref() == Some(PluginSources.adapter().name)
}

/// Whether an address names one of these kinds of sinks.
pub(crate) fn is_one_of(address: &Address, names: &[&str]) -> bool {
    sink_for(address, &RunContext::default()).is_ok_and(|kind| names.contains(&kind.adapter().name))
}

/// The kind of source that an address names. Its options are checked.
pub(crate) fn source_for(address: &Address) -> anyhow::Result<Box<dyn SourceFactory>> {
    let kind = match (address.kind.as_deref(), address.location.as_str()) {
        (None, "-") => Some("jsonl"),
        (None, location) if Path::new(location).is_dir() => Some(kind_of_folder(location)?),
        (kind, _) => kind,
    };
    let mut kinds = sources();
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, &address.location)?;
    check(address, &[adapters[index].options, &OF_EVERY_SOURCE].concat())?;
    Ok(kinds.swap_remove(index))
}

/// The kind of the files below a folder: Parquet, unless all are of another kind.
fn kind_of_folder(folder: &str) -> anyhow::Result<&'static str> {
    let has = |kind: &dyn SourceFactory| data_files(folder, kind.adapter().extensions).is_ok();
    match (has(&ParquetSources), has(&CsvSources), has(&JsonSources)) {
        (false, true, true) => bail!(
            "{folder} has CSV and JSON lines below it; say which to read, as in `csv:{folder}` or `jsonl:{folder}`"
        ),
        (false, true, false) => Ok("csv"),
        (false, false, true) => Ok("jsonl"),
        _ => Ok("parquet"),
    }
}

/// The kind of sink that an address names. Its options are checked.
pub(crate) fn sink_for(address: &Address, run_context: &RunContext) -> anyhow::Result<Box<dyn SinkFactory>> {
    let kind = match (address.kind.as_deref(), address.location.as_str()) {
        (None, "-") => Some("jsonl"),
        (None, "console") => Some("console"),
        (kind, _) => kind,
    };
    let mut kinds = sinks(run_context);
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, &address.location)?;
    check(address, &sink_options(&adapters[index]))?;
    Ok(kinds.swap_remove(index))
}

/// The kind of event writer that an address names. Its options are checked.
pub(crate) fn event_writer_for(address: &Address) -> anyhow::Result<Box<dyn EventWriterFactory>> {
    let kind = address.kind.as_deref().or((address.location == "-").then_some("jsonl"));
    let mut kinds = event_writers();
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, &address.location)?;
    check(address, adapters[index].options)?;
    Ok(kinds.swap_remove(index))
}

fn check(address: &Address, options: &[OptionDoc]) -> anyhow::Result<()> {
    let Address { kind, location, .. } = address;
    let name = if location.is_empty() { kind.as_deref().unwrap_or_default() } else { location };
    address.options.check(options).map_err(|bad| anyhow!("{name}: {bad}"))
}

fn find(adapters: &[Adapter], kind: Option<&str>, location: &str) -> anyhow::Result<usize> {
    let names = || adapters.iter().map(|adapter| adapter.name);
    let all = || names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(kind) = kind {
        return names().position(|name| name == kind).ok_or_else(|| match nearest(kind, names()) {
            Some(near) => anyhow!("there is no kind `{kind}`; did you mean `{near}`?"),
            None => anyhow!("there is no kind `{kind}`; there are {}", all()),
        });
    }
    let lower = location.to_lowercase();
    let ends =
        |adapter: &Adapter| adapter.extensions.iter().any(|ending| lower.ends_with(&format!(".{ending}")));
    adapters.iter().position(ends).ok_or_else(|| {
        anyhow!(
            "cannot tell what kind `{location}` is by its ending; write it in front, as in `csv:{location}` (kinds: {})",
            all()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(kind: Option<&'static str>, location: &'static str, options: &[(&str, &str)]) -> Address {
        Address {
            kind: kind.map(str::to_owned),
            location: location.to_owned(),
            others: Vec::new(),
            options: options.iter().map(|(key, value)| (*key, *value)).collect(),
        }
    }

    #[test]
    fn an_address_is_kind_location_options() {
        for (text, expected) in [
            ("a.csv", address(None, "a.csv", &[])),
            ("csv:-", address(Some("csv"), "-", &[])),
            ("a.csv?time=date&delimiter=;", address(None, "a.csv", &[("time", "date"), ("delimiter", ";")])),
            ("csv:a?x.csv?null=#", address(Some("csv"), "a?x.csv", &[("null", "#")])),
            ("what?.csv", address(None, "what?.csv", &[])),
            (
                "a.csv?time_format=%d.%m.%Y %H:%M&null=%26%3F%25",
                address(None, "a.csv", &[("time_format", "%d.%m.%Y %H:%M"), ("null", "&?%")]),
            ),
            ("a.csv?columns=a%3Ab%26c:x", address(None, "a.csv", &[("columns", "a%3Ab&c:x")])),
            ("-?columns=a:b", address(None, "-", &[("columns", "a:b")])),
            (r"C:\data\a.csv", address(None, r"C:\data\a.csv", &[])),
        ] {
            assert_eq!(Address::parse(text), expected, "{text}");
            assert_eq!(Address::parse(&expected.to_string()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(
            key in "[a-z&=?%23]{1,6}",
            value in "[a-fA-F%&=?:, 0-9]{0,10}",
            list in "[a-fA-F%=:, 0-9]{0,10}",
        ) {
            let address = Address {
                kind: Some("csv".to_owned()),
                location: "a.csv".to_owned(),
                others: Vec::new(),
                options: [(key, value)].into_iter().collect(),
            };
            prop_assert_eq!(&Address::parse(&address.to_string()), &address);
            let list = Address::parse(&format!("csv:a.csv?columns={list}"));
            prop_assert_eq!(&Address::parse(&list.to_string()), &list);
        }
    }
}
