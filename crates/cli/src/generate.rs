//! `fairstream generate`: writes the events of a scenario to a file.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::bail;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use fairstream_core::{
    EventWriter, EventWriterRequest, OptionDoc, Options, SinkError, Source, SourceContext, SourceFactory,
    SourceRequest, StopToken,
};
use fairstream_scenarios::{Begun, Scenario, scenarios};

use crate::interrupt::Interrupt;
use crate::places::{Kept, refuse_to_destroy};
use crate::progress::{ProgressLine, counted, with_rate};
use crate::registry::{self, Address};
use crate::{ExitStatus, note};

/// The scenario and its options. Commands and flags are derived from the documentation of the scenarios.
#[derive(Debug)]
pub(crate) struct GenerateArguments {
    scenario: String,
    /// The file it reads; empty if its events are simulated.
    location: String,
    options: Options,
    output: OutputArguments,
}

#[derive(Debug, Args)]
struct OutputArguments {
    /// Where events go, by its ending: .csv or .jsonl, compressed if .gz or .zst follows; .parquet, .arrow
    /// or .arrows; `csv:-` is CSV and `-` is JSON lines on standard output
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, default_value = "csv:-")]
    to: String,

    /// No progress and no summary on standard error
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  fairstream generate hiring --applicants 1000 --seed 7 --to events.csv
  fairstream generate seminar --algorithm equal-gender | head
  fairstream generate admissions --to berkeley.parquet
  fairstream generate compas compas-scores.csv --to events.csv

The same seed gives the same bytes, on every machine. Without a file in between:
  fairstream run specs/rtlola/hiring.lola 'hiring:?applicants=1000&seed=7'";

impl Subcommand for GenerateArguments {
    fn augment_subcommands(command: Command) -> Command {
        scenarios()
            .iter()
            .fold(command.after_help(EXAMPLES), |command, scenario| command.subcommand(describe(scenario)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        scenarios().iter().any(|scenario| scenario.adapter().name == name)
    }
}

/// The command of a scenario.
fn describe(scenario: &Scenario) -> Command {
    let adapter = scenario.adapter();
    let mut command =
        Command::new(adapter.name).about(capitalised(adapter.about)).after_help(scenario.details);
    if let Some(file) = scenario.file {
        let help = "The file to read; `-` is standard input, `.gz` and `.zst` are decompressed";
        command = command.arg(Arg::new("location").value_name(file).required(true).help(help));
    }
    for OptionDoc { name, default, help } in adapter.options {
        let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        let help = capitalised(help) + &default;
        let flag = Arg::new(*name).long(*name).value_name("VALUE").help(help);
        command = command.arg(flag.allow_hyphen_values(true));
    }
    OutputArguments::augment_args(command)
}

/// Capitalises a sentence.
fn capitalised(text: &str) -> String {
    text.char_indices().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }).collect()
}

impl FromArgMatches for GenerateArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<GenerateArguments, clap::Error> {
        let all = scenarios();
        let chosen = matches.subcommand().and_then(|(name, matches)| {
            Some((all.iter().find(|scenario| scenario.adapter().name == name)?, matches))
        });
        let (scenario, matches) =
            chosen.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))?;
        let adapter = scenario.adapter();
        let text = |key: &str| matches.get_one::<String>(key).cloned();
        let options = adapter.options.iter().filter_map(|option| Some((option.name, text(option.name)?)));
        Ok(GenerateArguments {
            scenario: adapter.name.to_owned(),
            location: scenario.file.and_then(|_| text("location")).unwrap_or_default(),
            options: options.collect(),
            output: OutputArguments::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = GenerateArguments::from_arg_matches(matches)?;
        Ok(())
    }
}

pub(crate) fn generate(arguments: &GenerateArguments) -> anyhow::Result<ExitStatus> {
    let GenerateArguments { scenario, location, options, output } = arguments;
    let Some(scenario) = scenarios().into_iter().find(|one| one.adapter().name == scenario) else {
        bail!("there is no scenario `{scenario}`");
    };
    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    let address = Address::parse(&output.to);
    let writers = registry::event_writer_for(&address)?;
    if scenario.file.is_some() {
        refuse_to_destroy(&[Kept::new(location, "the input")], &[&address.location])?;
    }
    let Begun { mut source, remarks } = scenario.begin(&SourceRequest {
        location: location.clone(),
        options: options.clone(),
        wanted: scenario.columns(),
        context: SourceContext { stop, ..SourceContext::default() },
        ..SourceRequest::default()
    })?;
    // Opened last, so that a mistake above does not destroy an existing file.
    let mut writer = writers.open(&EventWriterRequest {
        location: address.location.clone(),
        options: address.options,
        schema: source.schema(),
        time_format: scenario.time_format,
        resume: None,
    })?;

    interrupt.start();
    let (start, written) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let on_screen = address.location == "-" && io::stdout().is_terminal();
    let progress = ProgressLine::show(output.quiet || on_screen, {
        let written = Arc::clone(&written);
        move |elapsed| with_rate(written.load(Ordering::Relaxed), elapsed)
    });
    let copied = copy(&mut *source, &mut *writer, &written);
    let finished = writer.finish();
    drop(progress);
    match copied.and_then(|()| Ok(finished?)) {
        // A reader that hung up is not a failure, and gets no summary.
        Err(error) if matches!(error.downcast_ref(), Some(SinkError::HungUp { .. })) => {
            return Ok(ExitStatus::NothingViolated);
        }
        result => result?,
    }
    if !output.quiet {
        for remark in &remarks {
            note(remark);
        }
        let events = counted(written.load(Ordering::Relaxed), "event");
        note(&format!("{events} in {:.1} s", start.elapsed().as_secs_f64()));
    }
    Ok(if interrupt.happened() { ExitStatus::Interrupted } else { ExitStatus::NothingViolated })
}

/// Writes the rows of the source until it ends or is stopped.
fn copy(source: &mut dyn Source, writer: &mut dyn EventWriter, written: &AtomicU64) -> anyhow::Result<()> {
    while let Some(events) = source.next_batch()? {
        writer.write(&events)?;
        written.fetch_add(events.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}
