//! `fairstream checkpoint`: looks at the checkpoints of a run.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use fairstream_checkpoint::{CheckpointFolder, FoundCheckpoint, KeptOutput};
use fairstream_core::Time;

use crate::args::CheckpointCommand;
use crate::checkpoints::described;
use crate::progress::{counted, grouped};
use crate::{ExitStatus, print};

pub(crate) fn checkpoint(command: &CheckpointCommand) -> anyhow::Result<ExitStatus> {
    match command {
        CheckpointCommand::List { folder } => list(folder),
        CheckpointCommand::Show { folder, number } => show(folder, *number),
        CheckpointCommand::Verify { folder } => verify(folder),
    }
}

/// The checkpoints of a folder, of which there must be one.
fn found(folder: &Path) -> anyhow::Result<Vec<FoundCheckpoint>> {
    let found = CheckpointFolder::look(folder)?.list()?;
    if found.is_empty() {
        bail!("{}: there is no checkpoint", folder.display());
    }
    Ok(found)
}

fn list(folder: &Path) -> anyhow::Result<ExitStatus> {
    let mut text = String::new();
    for found in found(folder)? {
        let about = found.manifest().map_or_else(|reason| reason, |manifest| described(&manifest));
        writeln!(text, "{:>6}  {about}", found.number)?;
    }
    print(&text)
}

fn show(folder: &Path, number: Option<u64>) -> anyhow::Result<ExitStatus> {
    let mut found = found(folder)?.into_iter();
    let found = match number {
        None => found.next(),
        Some(number) => found.find(|found| found.number == number),
    };
    let found =
        found.context("there is no checkpoint of this number; `fairstream checkpoint list` shows them")?;
    let manifest = found.manifest().map_err(anyhow::Error::msg)?;
    let mut text = String::new();
    writeln!(text, "checkpoint {} {}", found.number, described(&manifest))?;
    writeln!(text, "written by version {}, format {}", manifest.program, manifest.version)?;
    writeln!(
        text,
        "\nspecification\n  {}\n  SHA-256 {}",
        manifest.specification, manifest.specification_sha256
    )?;
    writeln!(text, "\ninputs")?;
    for source in &manifest.sources {
        let rows = source.rows.read.max(source.position.as_ref().map_or(0, |position| position.rows));
        write!(text, "  {}: {}", source.input, counted(rows, "row"))?;
        if let Some(newest) = source.newest {
            write!(text, ", up to {}", Time(newest.time).for_people())?;
        }
        if source.ahead > 0 {
            write!(text, ", and {} behind them", grouped(source.ahead))?;
        }
        writeln!(text)?;
    }
    writeln!(text, "\noutputs")?;
    for KeptOutput { output, position, .. } in manifest.sinks.iter().chain(&manifest.others) {
        match position {
            Some(position) => writeln!(text, "  {output}: {}", grouped(position.rows))?,
            None => writeln!(text, "  {output}: written anew, or cannot be continued")?,
        }
    }
    writeln!(text, "\nfiles")?;
    for (name, bytes) in found.files().map_err(anyhow::Error::msg)? {
        writeln!(text, "  {:>14}  {name}", grouped(bytes))?;
    }
    print(&text)
}

fn verify(folder: &Path) -> anyhow::Result<ExitStatus> {
    let mut text = String::new();
    let mut is_whole = true;
    for found in found(folder)? {
        match found.verify().and_then(|()| found.manifest()) {
            Ok(manifest) => writeln!(text, "{:>6}  whole, {}", found.number, described(&manifest))?,
            Err(reason) => {
                is_whole = false;
                writeln!(text, "{:>6}  damaged: {reason}", found.number)?;
            }
        }
    }
    print(&text)?;
    Ok(if is_whole { ExitStatus::NothingViolated } else { ExitStatus::Failed })
}
