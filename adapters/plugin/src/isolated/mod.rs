//! Plugins in a process of their own: the worker. What such a plugin does wrong (a crash, an exit, an endless loop, memory
//! without end) ends the worker, and becomes an error of the source or sink.
//!
//! This process starts the worker, which loads the library and calls it; requests and answers are frames on two pipes,
//! batches are Arrow IPC streams in them. Nothing that a worker sends is believed: its batches are decoded and checked
//! here as if they came from a stranger's file. A worker is no sandbox: it has the rights of its user, and reads and writes
//! what the user can.
//!
//! ```text
//!  this process                                   worker
//!    open, columns        ──────────────▶           loads the library, opens
//!                         ◀──────────────           columns, opened
//!    next                 ──────────────▶           asks the plugin for rows
//!                         ◀──────────────           batch, position   or   end   or   error
//!    write, flush, finish ──────────────▶           (a sink)
//!                         ◀──────────────           done   or   position   or   error
//!    cancel               ──────────────▶           cancels the plugin, from another thread; no answer
//!    close                ──────────────▶           releases the plugin, and ends; no answer
//! ```

#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod ipc;
#[cfg(unix)]
mod process;
#[cfg(unix)]
pub(crate) mod sink;
#[cfg(unix)]
pub(crate) mod source;
#[cfg(unix)]
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use fairstream_core::{BadOption, OptionDoc, Options, parse_duration};

use crate::library::WHATEVER_IT_TAKES;

#[cfg(unix)]
pub use self::process::end_workers;
#[cfg(unix)]
pub use self::sink::IsolatedSinks;
#[cfg(unix)]
pub use self::source::IsolatedSources;
#[cfg(unix)]
pub use self::worker::{WorkerFailure, serve};

/// The batches with this schema among the answers of a worker, up to the first that is none. For tests of what a worker that
/// is not believed can send.
#[cfg(unix)]
#[doc(hidden)]
pub fn read_answers(mut bytes: &[u8], schema: &arrow::datatypes::Schema) -> Vec<arrow::array::RecordBatch> {
    use frame::{PluginName, Tag, WireError, WireFrame, WirePosition};
    let mut batches = Vec::new();
    while let Ok(Some(frame)) = WireFrame::read(&mut bytes) {
        let read = match frame.tag {
            Tag::Opened => frame.value::<PluginName>().map(|_| ()),
            Tag::Columns => ipc::read_schema(&frame.bytes).map(|_| ()),
            Tag::Batch => ipc::read_batch(frame.bytes, schema).map(|batch| batches.push(batch)),
            Tag::Position => frame.value::<WirePosition>().map(|_| ()),
            Tag::Error => frame.value::<WireError>().map(|_| ()),
            _ => Ok(()),
        };
        if read.is_err() {
            break;
        }
    }
    batches
}

/// The command that starts a worker: a program that calls [`serve`] and does nothing else.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Why a plugin cannot be isolated on other systems.
#[cfg(not(unix))]
pub(crate) const ONLY_UNIX: &str = "plugins have processes of their own on Unix alone";

/// The argument with which `fairstream` is a worker.
pub const WORKER: &str = "plugin-worker";

impl WorkerCommand {
    /// The program of this process with the argument [`WORKER`], for programs that call [`serve`] then.
    ///
    /// # Errors
    /// The path of the program is not known.
    pub fn this_executable() -> std::io::Result<WorkerCommand> {
        Ok(WorkerCommand { program: std::env::current_exe()?, arguments: vec![WORKER.into()] })
    }
}

const ISOLATE: OptionDoc =
    OptionDoc::new("isolate", "false", "`true` runs it in a process of its own, with limits");
const MAX_MEMORY: OptionDoc =
    OptionDoc::new("max_memory", "1GiB", "how much memory it may take, in a process of its own");
const TIMEOUT: OptionDoc =
    OptionDoc::new("timeout", "60s", "how long it may take for an answer, in a process of its own");

/// The options of plugins.
pub(crate) static OPTIONS: [OptionDoc; 4] = [ISOLATE, MAX_MEMORY, TIMEOUT, WHATEVER_IT_TAKES];

/// Whether an option is one of isolated plugins alone.
pub(crate) fn is_limit(key: &str) -> bool {
    [MAX_MEMORY.name, TIMEOUT.name].contains(&key)
}

/// What an isolated plugin may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isolation {
    pub(crate) max_memory: MemorySize,
    pub(crate) timeout: Duration,
}

impl Default for Isolation {
    fn default() -> Isolation {
        Isolation { max_memory: MemorySize(1 << 30), timeout: Duration::from_secs(60) }
    }
}

impl Isolation {
    /// Takes the options of isolation; `None` without `isolate=true`, where the others are the plugin's own.
    pub(crate) fn of(options: &mut Options) -> Result<Option<Isolation>, BadOption> {
        let is_isolated = options.parse(ISOLATE.name, false)?;
        options.take(ISOLATE.name);
        if is_isolated { Isolation::limits(options).map(Some) } else { Ok(None) }
    }

    /// Takes the options that are limits.
    pub(crate) fn limits(options: &mut Options) -> Result<Isolation, BadOption> {
        let default = Isolation::default();
        options.take(ISOLATE.name);
        let max_memory = options.parse(MAX_MEMORY.name, default.max_memory)?;
        let timeout = match options.text(TIMEOUT.name) {
            None => default.timeout,
            Some(text) => {
                let bad = |reason: String| BadOption::Value {
                    key: TIMEOUT.name.to_owned(),
                    value: text.to_owned(),
                    reason,
                };
                let timeout = parse_duration(text).map_err(|error| bad(error.to_string()))?;
                if timeout.is_zero() {
                    return Err(bad("no answer takes no time".to_owned()));
                }
                timeout
            }
        };
        options.take(MAX_MEMORY.name);
        options.take(TIMEOUT.name);
        Ok(Isolation { max_memory, timeout })
    }
}

/// A number of bytes, such as `512MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySize(pub(crate) u64);

/// Units, the largest first.
const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for MemorySize {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<MemorySize, &'static str> {
        let reason = "a size is a number of `KiB`, `MiB` or `GiB`, such as `512MiB`";
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = text[digits.len()..].trim();
        let number: u64 = digits.trim().parse().map_err(|_| reason)?;
        let of_unit = UNITS.iter().find(|(name, _)| {
            // `G` and `GB` are taken for GiB.
            let (first, short) = (&name[..1], format!("{}B", &name[..1]));
            [*name, first, &short].iter().any(|known| known.eq_ignore_ascii_case(unit))
        });
        let shift = of_unit.map(|(_, shift)| *shift).ok_or(reason)?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
        bytes.map(MemorySize).ok_or("it is 0, or more than any memory")
    }
}

impl std::fmt::Display for MemorySize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0.is_multiple_of(1 << shift));
        match unit {
            Some((name, shift)) => write!(f, "{} {name}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1GiB", 1 << 30),
            ("512MiB", 512 << 20),
            ("512m", 512 << 20),
            ("3 kb", 3 << 10),
            ("2G", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(MemorySize(bytes)), "{text}");
        }
        for text in ["", "1", "GiB", "0GiB", "-1GiB", "1TiB", "99999999999GiB", "1.5GiB"] {
            assert!(text.parse::<MemorySize>().is_err(), "{text}");
        }
        assert_eq!(MemorySize(1536 << 20).to_string(), "1536 MiB");
    }

    #[test]
    fn limits_are_those_of_isolated_plugins() {
        let options = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Options>();
        let mut own = options(&[("timeout", "7"), ("n", "1")]);
        assert_eq!(Isolation::of(&mut own), Ok(None));
        assert_eq!(own, options(&[("timeout", "7"), ("n", "1")]));
        let mut isolated = options(&[("isolate", "true"), ("timeout", "250ms"), ("n", "1")]);
        let expected = Isolation { timeout: Duration::from_millis(250), ..Isolation::default() };
        assert_eq!(Isolation::of(&mut isolated), Ok(Some(expected)));
        assert_eq!(isolated, options(&[("n", "1")]));
        for bad in [("isolate", "yes"), ("timeout", "0s"), ("timeout", "soon"), ("max_memory", "much")] {
            assert!(Isolation::of(&mut options(&[("isolate", "true"), bad])).is_err(), "{bad:?}");
        }
    }
}
