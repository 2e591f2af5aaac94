//! The kinds of sources and sinks that are built in, and how a user names one.

use std::fmt::Write;
use std::path::Path;

use anyhow::anyhow;
use fairstream_core::{
    Adapter, EventWriterFactory, OptionDoc, Options, Renames, SinkFactory, SourceFactory, nearest,
};
use fairstream_csv::{CsvEventWriters, CsvSinks, CsvSources};
use fairstream_files::SORT;
use fairstream_json::{JsonEventWriters, JsonSinks, JsonSources};
use fairstream_parquet::{
    ArrowEventWriters, ArrowSinks, ArrowSources, ParquetEventWriters, ParquetSinks, ParquetSources,
};
use fairstream_scenarios::scenarios;

use crate::console::ConsoleSinks;

/// Every kind of source.
fn sources() -> Vec<Box<dyn SourceFactory>> {
    let mut kinds: Vec<Box<dyn SourceFactory>> =
        vec![Box::new(CsvSources), Box::new(JsonSources), Box::new(ParquetSources), Box::new(ArrowSources)];
    // One that reads a file is not among them: what it leaves out would go unsaid.
    for scenario in scenarios().into_iter().filter(|scenario| scenario.file.is_none()) {
        kinds.push(Box::new(scenario));
    }
    kinds
}

/// Every kind of event writer.
fn event_writers() -> Vec<Box<dyn EventWriterFactory>> {
    vec![
        Box::new(CsvEventWriters),
        Box::new(JsonEventWriters),
        Box::new(ParquetEventWriters),
        Box::new(ArrowEventWriters),
    ]
}

/// Every kind of sink, with `console` as this run wants it.
fn sinks(console: ConsoleSinks) -> Vec<Box<dyn SinkFactory>> {
    vec![
        Box::new(console),
        Box::new(JsonSinks),
        Box::new(CsvSinks),
        Box::new(ParquetSinks),
        Box::new(ArrowSinks),
    ]
}

/// Options that every source takes.
const OF_EVERY_SOURCE: [OptionDoc; 2] = [Renames::OPTION, SORT];

/// Options that every sink takes.
const OF_EVERY_SINK: OptionDoc = OptionDoc {
    name: "select",
    default: "triggers",
    help: "`changes` writes every new value, spawned and closed instance as well",
};

/// `[KIND:]LOCATION[?OPTION=VALUE&...]`, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    kind: Option<&'a str>,
    pub(crate) location: &'a str,
    pub(crate) options: Options,
}

impl<'a> Address<'a> {
    pub(crate) fn parse(text: &'a str) -> Address<'a> {
        let (rest, options) = match text.rsplit_once('?') {
            Some((rest, query)) => match pairs(query) {
                Some(options) => (rest, options),
                None => (text, Options::default()),
            },
            None => (text, Options::default()),
        };
        // A single letter is a drive, not a kind.
        let is_kind = |kind: &str| kind.len() > 1 && kind.chars().all(|c| c.is_ascii_alphanumeric());
        match rest.split_once(':') {
            Some((kind, location)) if is_kind(kind) => Address { kind: Some(kind), location, options },
            _ => Address { kind: None, location: rest, options },
        }
    }
}

fn pairs(query: &str) -> Option<Options> {
    query.split('&').map(|pair| pair.split_once('=').filter(|(key, _)| !key.is_empty())).collect()
}

/// The kind of source that an address means; its options are checked.
pub(crate) fn source_for(address: &Address<'_>) -> anyhow::Result<Box<dyn SourceFactory>> {
    let kind = match (address.kind, address.location) {
        (None, "-") => Some("jsonl"),
        // What a data lake is made of.
        (None, location) if Path::new(location).is_dir() => Some("parquet"),
        (kind, _) => kind,
    };
    let mut kinds = sources();
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, address.location)?;
    check(address, &[adapters[index].options, &OF_EVERY_SOURCE].concat())?;
    Ok(kinds.swap_remove(index))
}

/// The kind of sink that an address means; its options are checked.
pub(crate) fn sink_for(address: &Address<'_>, console: ConsoleSinks) -> anyhow::Result<Box<dyn SinkFactory>> {
    let kind = match (address.kind, address.location) {
        (None, "-") => Some("jsonl"),
        (None, "console") => Some("console"),
        (kind, _) => kind,
    };
    let mut kinds = sinks(console);
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, address.location)?;
    check(address, &[adapters[index].options, &[OF_EVERY_SINK]].concat())?;
    Ok(kinds.swap_remove(index))
}

/// The kind of event writer that an address means; its options are checked.
pub(crate) fn event_writer_for(address: &Address<'_>) -> anyhow::Result<Box<dyn EventWriterFactory>> {
    let kind = address.kind.or((address.location == "-").then_some("jsonl"));
    let mut kinds = event_writers();
    let adapters: Vec<Adapter> = kinds.iter().map(|kind| kind.adapter()).collect();
    let index = find(&adapters, kind, address.location)?;
    check(address, adapters[index].options)?;
    Ok(kinds.swap_remove(index))
}

fn check(address: &Address<'_>, options: &[OptionDoc]) -> anyhow::Result<()> {
    let name = if address.location.is_empty() { address.kind.unwrap_or_default() } else { address.location };
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

/// The text of `fairstream adapters`.
pub(crate) fn describe() -> String {
    let mut text =
        String::from("Inputs, written [KIND:]LOCATION[?OPTION=VALUE&...]; scenarios have no location\n");
    for kind in sources() {
        describe_adapter(&mut text, &kind.adapter(), &[]);
    }
    text += "\n  every kind of input\n";
    describe_options(&mut text, &OF_EVERY_SOURCE);
    text += "\nEvents, for --to of `generate`\n";
    for kind in event_writers() {
        describe_adapter(&mut text, &kind.adapter(), &[]);
    }
    text += "\nSinks, for --to of `run`\n";
    for kind in sinks(ConsoleSinks::default()) {
        describe_adapter(&mut text, &kind.adapter(), &[OF_EVERY_SINK]);
    }
    text
}

fn describe_adapter(text: &mut String, adapter: &Adapter, more: &[OptionDoc]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n  {:<10} {}", adapter.name, adapter.about);
    let endings: Vec<String> = adapter.extensions.iter().map(|ending| format!(".{ending}")).collect();
    if !endings.is_empty() {
        let _ = writeln!(text, "             endings: {}", endings.join(" "));
    }
    describe_options(text, &[adapter.options, more].concat());
}

fn describe_options(text: &mut String, options: &[OptionDoc]) {
    let written = |option: &OptionDoc| format!("{}={}", option.name, option.default);
    let width = options.iter().map(|option| written(option).len()).max().unwrap_or_default().max(20);
    for option in options {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "             {:<width$} {}", written(option), option.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(
        kind: Option<&'static str>,
        location: &'static str,
        options: &[(&str, &str)],
    ) -> Address<'static> {
        Address { kind, location, options: options.iter().map(|(key, value)| (*key, *value)).collect() }
    }

    #[test]
    fn an_address_is_kind_location_options() {
        for (text, expected) in [
            ("a.csv", address(None, "a.csv", &[])),
            ("csv:-", address(Some("csv"), "-", &[])),
            ("a.csv?time=date&delimiter=;", address(None, "a.csv", &[("time", "date"), ("delimiter", ";")])),
            ("csv:a?x.csv?null=#", address(Some("csv"), "a?x.csv", &[("null", "#")])),
            ("what?.csv", address(None, "what?.csv", &[])),
            (r"C:\data\a.csv", address(None, r"C:\data\a.csv", &[])),
        ] {
            assert_eq!(Address::parse(text), expected, "{text}");
        }
    }
}
