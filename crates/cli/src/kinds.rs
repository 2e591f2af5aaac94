//! The kinds of sources and sinks that are built in, and how a user names one.

use std::fmt::Write;

use anyhow::{anyhow, bail};
use fairstream_core::{OptionDoc, Options, SinkFactory, SourceFactory, nearest};
use fairstream_csv::{CsvSinks, CsvSources};
use fairstream_json::JsonSinks;

use crate::console::ConsoleSinks;

/// Every kind of source.
pub(crate) fn sources() -> Vec<Box<dyn SourceFactory>> {
    vec![Box::new(CsvSources)]
}

/// Every kind of sink, with `console` as this run wants it.
pub(crate) fn sinks(console: ConsoleSinks) -> Vec<Box<dyn SinkFactory>> {
    vec![Box::new(console), Box::new(JsonSinks), Box::new(CsvSinks)]
}

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

/// What sources and sinks have in common here.
trait Kind {
    fn name(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn extensions(&self) -> &'static [&'static str];
    fn options(&self) -> &'static [OptionDoc];
}

macro_rules! kind {
    ($factory:ident) => {
        impl Kind for Box<dyn $factory> {
            fn name(&self) -> &'static str {
                (**self).name()
            }
            fn about(&self) -> &'static str {
                (**self).about()
            }
            fn extensions(&self) -> &'static [&'static str] {
                (**self).extensions()
            }
            fn options(&self) -> &'static [OptionDoc] {
                (**self).options()
            }
        }
    };
}
kind!(SourceFactory);
kind!(SinkFactory);

/// The kind of source that an address means.
pub(crate) fn source_for<'k>(
    kinds: &'k [Box<dyn SourceFactory>],
    address: &Address<'_>,
) -> anyhow::Result<&'k dyn SourceFactory> {
    if address.kind.is_none() && address.location == "-" {
        bail!("standard input needs a kind: write `csv:-`");
    }
    let kind = find(kinds, address)?;
    address.options.check(kind.options()).map_err(|bad| anyhow!("{}: {bad}", address.location))?;
    Ok(kind.as_ref())
}

/// The kind of sink that an address means. Takes the options of every sink out of the address.
pub(crate) fn sink_for<'k>(
    kinds: &'k [Box<dyn SinkFactory>],
    address: &Address<'_>,
) -> anyhow::Result<&'k dyn SinkFactory> {
    let standard = match address {
        Address { kind: None, location: "-", .. } => Some("jsonl"),
        Address { kind: None, location: "console", .. } => Some("console"),
        _ => None,
    };
    let kind = match standard {
        Some(name) => kinds.iter().find(|kind| kind.name() == name).ok_or_else(|| anyhow!("no {name}"))?,
        None => find(kinds, address)?,
    };
    let options = [kind.options(), &[OF_EVERY_SINK]].concat();
    address.options.check(&options).map_err(|bad| anyhow!("{}: {bad}", address.location))?;
    Ok(kind.as_ref())
}

fn find<'k, K: Kind>(kinds: &'k [K], address: &Address<'_>) -> anyhow::Result<&'k K> {
    let names = || kinds.iter().map(|kind| kind.name());
    let all = || names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(name) = address.kind {
        return kinds.iter().find(|kind| kind.name() == name).ok_or_else(|| match nearest(name, names()) {
            Some(near) => anyhow!("there is no kind `{name}`; did you mean `{near}`?"),
            None => anyhow!("there is no kind `{name}`; there are {}", all()),
        });
    }
    let location = address.location.to_lowercase();
    let ends = |kind: &&K| kind.extensions().iter().any(|ending| location.ends_with(&format!(".{ending}")));
    kinds.iter().find(ends).ok_or_else(|| {
        anyhow!(
            "cannot tell what kind `{}` is by its ending; write it in front, as in `csv:{0}` (kinds: {})",
            address.location,
            all()
        )
    })
}

/// The text of `fairstream adapters`.
pub(crate) fn describe() -> String {
    let mut text = String::from("Inputs, written [KIND:]LOCATION[?OPTION=VALUE&...]\n");
    for kind in sources() {
        describe_kind(&mut text, &kind, &[]);
    }
    text += "\nSinks, for --to\n";
    for kind in sinks(ConsoleSinks::default()) {
        describe_kind(&mut text, &kind, &[OF_EVERY_SINK]);
    }
    text
}

fn describe_kind(text: &mut String, kind: &impl Kind, more: &[OptionDoc]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n  {:<8} {}", kind.name(), kind.about());
    let endings: Vec<String> = kind.extensions().iter().map(|ending| format!(".{ending}")).collect();
    if !endings.is_empty() {
        let _ = writeln!(text, "           endings: {}", endings.join(" "));
    }
    for option in kind.options().iter().chain(more) {
        let written = format!("{}={}", option.name, option.default);
        let _ = writeln!(text, "           {written:<20} {}", option.help);
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
