//! `fairstream check`: describes a specification and checks its inputs without a run.

use std::fmt::Write;

use fairstream_core::{SourceContext, Time, TimeRange, WantedColumn};
use fairstream_engine::{CompiledEngine, Explanation, Outline, Role, Specification};
use fairstream_fairness::Compiled;

use crate::args::{CheckArguments, EngineKind};
use crate::joins::Joins;
use crate::load::{Monitor, Plugins};
use crate::progress::counted;
use crate::{ExitStatus, checkpoints, load, print};

pub(crate) fn check(arguments: &CheckArguments) -> anyhow::Result<ExitStatus> {
    let monitor = load::monitor(&arguments.input, Plugins::LeaveOut)?;
    monitor.check(EngineKind::Compiled, &arguments.input.spec)?;
    let mut text = format!("{}\n", arguments.input.spec.display());
    match &monitor.fairness {
        Some(fairness) => in_words(&mut text, fairness, &monitor.wanted),
        None => outline(&mut text, &monitor.spec),
    }
    if arguments.plan {
        plan(&mut text, &CompiledEngine::new(&monitor.spec, Time(0))?.explain());
    }
    for error in [&monitor.untrusted_plugins, &monitor.untrusted_sinks].into_iter().flatten() {
        // The same errors end a run.
        let _ = write!(text, "\n{}\n", error.to_string().replace("error: ", "warning: "));
    }
    for sentence in checkpoints::limits(&monitor.sinks) {
        text.push('\n');
        paragraph(&mut text, "", &format!("note: {sentence}"));
    }
    // Printed before the inputs are opened, which may fail.
    print(&text)?;

    let context = SourceContext::default();
    if !monitor.plugins.is_empty() {
        return with_plugins(&monitor, &context);
    }
    let joins = Joins::read(&monitor, &context)?;
    let inputs = monitor.sources(TimeRange::default(), &context, &joins)?;
    if !inputs.is_empty() {
        monitor.columns(&inputs)?;
        let wanted = counted(monitor.wanted.len() as u64, "column");
        let names: Vec<&str> = inputs.iter().map(|source| source.name()).chain(joins.names()).collect();
        let mut text = format!("\n{} has the {wanted} that it reads.\n", names.join(" and "));
        for sentence in monitor.unseen_references() {
            paragraph(&mut text, "", &format!("warning: {sentence}"));
        }
        print(&text)?;
    }
    Ok(ExitStatus::NothingViolated)
}

/// Opens the inputs that are no plugins. Which columns are missing is not known.
fn with_plugins(monitor: &Monitor, context: &SourceContext) -> anyhow::Result<ExitStatus> {
    monitor.sources(TimeRange::default(), context, &Joins::none())?;
    let mut text = String::new();
    for plugin in &monitor.plugins {
        let sentence = format!(
            "{} is a plugin, and `check` loads no code: its columns are known when it runs.",
            plugin.location
        );
        text.push('\n');
        paragraph(&mut text, "", &sentence);
    }
    print(&text)
}

/// Describes in sentences what a fairness file monitors.
fn in_words(text: &mut String, fairness: &Compiled, wanted: &[WantedColumn]) {
    let words = fairstream_fairness::Description::of(fairness.file());
    paragraph(text, "", &words.trial);
    for (title, sentences) in &words.metrics {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{title}");
        for sentence in sentences {
            paragraph(text, "  ", sentence);
        }
    }
    let columns: Vec<String> = wanted.iter().map(|column| format!("`{}`", column.name)).collect();
    text.push('\n');
    paragraph(text, "", &format!("Reads the columns {}.", columns.join(", ")));
    for note in &words.notes {
        text.push('\n');
        paragraph(text, "", note);
    }
    for warning in &words.warnings {
        paragraph(text, "", &format!("warning: {warning}"));
    }
}

/// Appends a paragraph, wrapped for a terminal.
fn paragraph(text: &mut String, indent: &str, sentence: &str) {
    const WIDTH: usize = 96;
    let mut line = indent.to_owned();
    for word in sentence.split_whitespace() {
        if line.trim().is_empty() {
            line += word;
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line += " ";
            line += word;
        } else {
            let _ = writeln!(text, "{line}");
            line = format!("{indent}{word}");
        }
    }
    let _ = writeln!(text, "{line}");
}

fn outline(text: &mut String, spec: &Specification) {
    let outline = spec.outline();
    section(text, "reads", &outline, Role::Input, |stream| stream.data_type.clone());
    section(text, "computes", &outline, Role::Output, |stream| {
        format!("{}, {}", stream.data_type, stream.pacing)
    });
    section(text, "reports a violation", &outline, Role::Trigger, |stream| {
        format!("when {}, {}", stream.condition.as_deref().unwrap_or("evaluated"), stream.pacing)
    });
    if !outline.iter().any(|stream| stream.role == Role::Trigger) {
        *text += "\nIt has no trigger, so a run of it never reports a violation.\n";
    }
}

/// How far names are padded.
const WIDEST: usize = 60;

/// Describes how streams are evaluated, with warnings last.
fn plan(text: &mut String, explanations: &[Explanation]) {
    *text += "\nis evaluated\n";
    for Explanation { stream, steps, warnings } in explanations {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {stream}");
        for step in steps {
            let _ = writeln!(text, "    {step}");
        }
        for warning in warnings {
            let _ = writeln!(text, "    warning: {warning}");
        }
    }
}

fn section(
    text: &mut String,
    title: &str,
    outline: &[Outline],
    role: Role,
    describe: impl Fn(&Outline) -> String,
) {
    let streams: Vec<&Outline> = outline.iter().filter(|stream| stream.role == role).collect();
    let width =
        streams.iter().map(|stream| stream.name.chars().count()).max().unwrap_or_default().min(WIDEST);
    if !streams.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{title}");
    }
    for stream in streams {
        let _ = writeln!(text, "  {:<width$}  {}", stream.name, describe(stream));
    }
}
