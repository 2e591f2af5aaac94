//! Files of verdicts and evidence are records: an earlier one is neither replaced nor continued unless that is asked
//! for with `mode`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use fairstream_core::{OptionDoc, Options, Position};

/// What to do with a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    New,
    Append,
    Replace,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "new" => Ok(Mode::New),
            "append" => Ok(Mode::Append),
            "replace" => Ok(Mode::Replace),
            _ => Err("there are `new`, `append` and `replace`".to_owned()),
        }
    }
}

/// The option that says what to do with a file that exists.
pub(crate) const MODE: OptionDoc = OptionDoc {
    name: "mode",
    default: "new",
    help: "what to do with a file that exists: an error, or `append` (text only) or `replace`",
};

/// The sinks whose files are records.
pub(crate) const SINKS: [&str; 4] = ["jsonl", "csv", "parquet", "arrow"];
/// Those of them that can be appended to.
const TEXTS: [&str; 2] = ["jsonl", "csv"];

/// Takes the option `mode`, and refuses a file that exists unless the option says what to do with it. Returns the
/// position to append at.
pub(crate) fn position_of_sink(
    location: &str,
    sink: &str,
    options: &mut Options,
) -> anyhow::Result<Option<Position>> {
    let mode = take_mode(location, options)?;
    let is_text = TEXTS.contains(&sink);
    if mode == Mode::Append && !is_text {
        bail!("{location}: only jsonl and csv can be appended to; write another file, and read both");
    }
    let Some(length) = length(location) else { return Ok(None) };
    match mode {
        Mode::Replace => Ok(None),
        Mode::Append if ends_with_a_line(location)? => {
            Ok(Some(Position { rows: 0, resume: Arc::from(length.to_le_bytes()) }))
        }
        Mode::Append => bail!("{location} does not end with a complete line, so nothing is appended to it"),
        Mode::New if is_text => bail!(
            "{location} exists; `{location}?mode=append` continues it, `{location}?mode=replace` overwrites it"
        ),
        Mode::New => bail!("{location} exists; `{location}?mode=replace` overwrites it"),
    }
}

/// The same for evidence, which is of one run and is never appended to.
pub(crate) fn check_evidence(location: &str, options: &mut Options) -> anyhow::Result<()> {
    let mode = take_mode(location, options)?;
    if mode == Mode::Append {
        bail!("{location}: evidence is of one run and cannot be appended to; give each run a file");
    }
    if mode == Mode::New && length(location).is_some() {
        bail!("{location} exists; `{location}?mode=replace` overwrites it, and the evidence in it is lost");
    }
    Ok(())
}

/// Refuses an output that a run with checkpoints could not continue, and would have to write anew.
pub(crate) fn check_continuable(location: &str, adapter: &str) -> anyhow::Result<()> {
    let is_columns = SINKS.contains(&adapter) && !TEXTS.contains(&adapter);
    if is_columns && location != "-" && !location.ends_with('/') && !Path::new(location).is_dir() {
        bail!(
            "{location}: a file of columns cannot be continued, as checkpoints need; `{adapter}:{}/` is a folder of files, one a \
             checkpoint",
            location.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).trim_end_matches('.')
        );
    }
    Ok(())
}

fn take_mode(location: &str, options: &mut Options) -> anyhow::Result<Mode> {
    let mode = options.parse("mode", Mode::New).with_context(|| location.to_owned())?;
    options.take("mode");
    Ok(mode)
}

/// The length of a file that has a content. Pipes, devices and standard output are no records.
fn length(location: &str) -> Option<u64> {
    if location == "-" {
        return None;
    }
    let meta = std::fs::metadata(location).ok()?;
    if meta.is_dir() {
        // What is in a folder of numbered files.
        let files = std::fs::read_dir(location).ok()?.flatten();
        let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with("part-"));
        return Some(parts.count() as u64).filter(|parts| *parts > 0);
    }
    Some(meta.len()).filter(|length| meta.is_file() && *length > 0)
}

fn ends_with_a_line(location: &str) -> anyhow::Result<bool> {
    let last = || -> std::io::Result<u8> {
        let mut file = File::open(location)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok(last[0])
    };
    Ok(last().with_context(|| format!("cannot read {location}"))? == b'\n')
}
