//! `fairstream adapters`: lists sources, sinks and event writers with their options.

use std::fmt::Write;
use std::path::Path;

use anyhow::anyhow;
use fairstream_core::{ANY_OPTION, Adapter, OptionDoc};
use fairstream_plugin::Library;

use crate::registry::{OF_EVERY_SOURCE, RunContext, event_writers, sink_options, sinks, sources};

/// The text of `fairstream adapters`.
pub(crate) fn built_in() -> String {
    let mut text =
        String::from("Inputs, written [KIND:]LOCATION[?OPTION=VALUE&...]; scenarios have no location\n");
    for kind in sources() {
        describe_adapter(&mut text, &kind.adapter(), kind.adapter().options);
    }
    text += "\n  every kind of input\n";
    describe_options(&mut text, OF_EVERY_SOURCE.iter().map(|doc| (written(doc.name, doc.default), doc.help)));
    text += "\nEvents, for --to of `generate`\n";
    for kind in event_writers() {
        describe_adapter(&mut text, &kind.adapter(), kind.adapter().options);
    }
    text += "\nSinks, for --to of `run`\n";
    for kind in sinks(&RunContext::default()) {
        describe_adapter(&mut text, &kind.adapter(), &sink_options(&kind.adapter()));
    }
    text
}

fn describe_adapter(text: &mut String, adapter: &Adapter, options: &[OptionDoc]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n  {:<10} {}", adapter.name, adapter.about);
    let endings: Vec<String> = adapter.extensions.iter().map(|ending| format!(".{ending}")).collect();
    if !endings.is_empty() {
        let _ = writeln!(text, "             endings: {}", endings.join(" "));
    }
    describe_options(text, options.iter().map(|option| (written(option.name, option.default), option.help)));
}

fn describe_options<'a>(text: &mut String, options: impl Iterator<Item = (String, &'a str)>) {
    let options: Vec<(String, &str)> = options.collect();
    let width = options.iter().map(|(written, _)| written.len()).max().unwrap_or_default().max(20);
    for (written, help) in options {
        let _ = writeln!(text, "             {written:<width$} {help}");
    }
}

fn written(name: &str, default: &str) -> String {
    if name == ANY_OPTION { "…".to_owned() } else { format!("{name}={default}") }
}

/// The text of `fairstream adapters --plugin PATH`.
pub(crate) fn of_plugin(path: &Path) -> anyhow::Result<String> {
    let library = Library::load(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let mut text = format!("{} {}\n", library.name, library.version);
    let location = path.display();
    for (what, offer) in [("source", &library.source), ("sink", &library.sink)] {
        let Some(offer) = offer else { continue };
        let about = if offer.about.is_empty() { "it does not say what it is" } else { &offer.about };
        let _ = writeln!(text, "\n  {what:<10} {about}");
        let _ = writeln!(text, "             written plugin:{location}[?OPTION=VALUE&...]");
        match &offer.options {
            None => text += "             it does not say which options it takes\n",
            Some(options) => {
                let options = options.iter();
                describe_options(
                    &mut text,
                    options.map(|option| (written(&option.name, &option.default), option.help.as_str())),
                );
            }
        }
    }
    Ok(text)
}
