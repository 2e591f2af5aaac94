//! `fairstream check`: what can be said before running.

use std::fmt::Write;

use fairstream_core::{SourceContext, Span, Time};
use fairstream_engine::{CompiledEngine, Explanation, Outline, Role};

use crate::args::{CheckArguments, EngineKind};
use crate::progress::counted;
use crate::{Outcome, load, print};

pub(crate) fn check(arguments: &CheckArguments) -> anyhow::Result<Outcome> {
    let spec = load::specification(&arguments.input.spec, EngineKind::Compiled)?;
    let outline = spec.outline();
    let mut text = format!("{}\n", arguments.input.spec.display());
    section(&mut text, "reads", &outline, Role::Input, |stream| stream.data_type.clone());
    section(&mut text, "computes", &outline, Role::Output, |stream| {
        format!("{}, {}", stream.data_type, stream.pacing)
    });
    section(&mut text, "reports a violation", &outline, Role::Trigger, |stream| {
        format!("when {}, {}", stream.condition.as_deref().unwrap_or("evaluated"), stream.pacing)
    });
    if !outline.iter().any(|stream| stream.role == Role::Trigger) {
        text += "\nIt has no trigger, so a run of it never reports a violation.\n";
    }
    if arguments.plan {
        plan(&mut text, &CompiledEngine::new(&spec, Time(0))?.explain());
    }
    // Said before the inputs are looked at, which may fail.
    print(&text)?;

    let inputs = load::sources(&arguments.input, spec.wanted(), Span::default(), &SourceContext::default())?;
    if !inputs.is_empty() {
        load::columns(&spec, &inputs)?;
        let wanted = counted(spec.wanted().len() as u64, "column");
        let names: Vec<&str> = inputs.iter().map(|source| source.name()).collect();
        print(&format!("\n{} has the {wanted} that it reads.\n", names.join(" and ")))?;
    }
    Ok(Outcome::NothingViolated)
}

/// How streams are evaluated, warnings last.
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
    let width = streams.iter().map(|stream| stream.name.chars().count()).max().unwrap_or_default();
    if !streams.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{title}");
    }
    for stream in streams {
        let _ = writeln!(text, "  {:<width$}  {}", stream.name, describe(stream));
    }
}
