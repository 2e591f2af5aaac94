//! Runs peers that are separate programs.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::measure::Run;
use bench::triggers::Triggers;
use bench::workload::{Task, Workload};
use fairstream_core::Time;

use crate::files::{self, Span};

/// Paths of programs and files.
pub(crate) struct Tools {
    /// A Python with the packages that could be installed.
    pub(crate) python: PathBuf,
    pub(crate) rtlola_cli: Option<PathBuf>,
    pub(crate) folder: PathBuf,
}

/// What rtlola-cli expects for an input without a value.
const SILENT: &str = "#";

/// Name of the task as an argument of the scripts.
fn task_name(task: Task) -> &'static str {
    match task {
        Task::Hiring { daily: false, .. } => "hiring",
        Task::Hiring { daily: true, .. } => "hiring-daily",
        Task::Seminar { daily: false } => "seminar",
        Task::Seminar { daily: true } => "seminar-daily",
        Task::Odds(bench::hand::Horizon::Exact) => "odds-exact",
        Task::Odds(bench::hand::Horizon::Ticks) => "odds-ticks",
    }
}

impl Tools {
    /// Why a script cannot run here; `None` if it can.
    pub(crate) fn lacks(&self, file: &str) -> Option<String> {
        match Command::new(&self.python).arg(script(file)).arg("--probe").output() {
            Ok(done) if done.status.success() => None,
            Ok(done) => {
                let printed = String::from_utf8_lossy(&done.stderr);
                let reason = printed.lines().last().unwrap_or_default();
                Some(reason.trim_start_matches("ModuleNotFoundError: ").to_owned())
            }
            Err(error) => Some(format!("{}: {error}", self.python.display())),
        }
    }

    /// Runs a script once. Returns the run, and the version that the script reports.
    pub(crate) fn script(
        &self,
        file: &str,
        workload: &Workload,
        trials: u64,
        limit: Duration,
    ) -> anyhow::Result<(Run, String)> {
        let (events, Span { start, end }) = self.events(workload, trials, "")?;
        let child = Command::new(&self.python)
            .arg(script(file))
            .arg(task_name(workload.task))
            .arg(&events)
            .arg(start.0.to_string())
            .arg(end.map_or("-".to_owned(), |end| end.0.to_string()))
            .arg(limit.as_secs_f64().to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| self.python.display().to_string())?;
        // A script checks its own limit; reading the events may take as long again.
        let Some(output) = wait(child, limit * 2 + Duration::from_secs(60))? else {
            return Ok((stopped(limit), String::new()));
        };
        let result: serde_json::Value =
            serde_json::from_str(&output).with_context(|| format!("{file} printed: {output}"))?;
        let number =
            |name: &str| result[name].as_u64().with_context(|| format!("the output of {file} has no `{name}`"));
        let run = Run {
            elapsed: Duration::from_secs_f64(result["seconds"].as_f64().unwrap_or_default()),
            events: number("events")?,
            triggers: Triggers { count: number("count")?, checksum: number("checksum")? },
            live_bytes: 0,
            ended: result["ended"].as_bool().unwrap_or_default(),
        };
        Ok((run, result["version"].as_str().unwrap_or_default().to_owned()))
    }

    /// Runs rtlola-cli once, from its start to its end.
    pub(crate) fn rtlola_cli(
        &self,
        workload: &Workload,
        trials: u64,
        limit: Duration,
    ) -> anyhow::Result<(Run, String)> {
        let Some(program) = &self.rtlola_cli else { bail!("rtlola-cli is not installed") };
        let (events, _) = self.events(workload, trials, SILENT)?;
        let begun = Instant::now();
        let child = Command::new(program)
            .args(["monitor", "--offline", "relative-nanos", "--verbosity", "violations"])
            .args(["--output-time-format", "relative-nanos", "--csv-in"])
            .args([&events, &workload.file])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let Some(output) = wait(child, limit)? else { return Ok((stopped(limit), String::new())) };
        let elapsed = begun.elapsed();
        let mut triggers = Triggers::default();
        for line in output.lines().filter(|line| line.contains("Trigger")) {
            let digits: String =
                line.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            triggers.fired(
                Time(digits.parse().with_context(|| format!("rtlola-cli printed: {line}"))?),
                0,
                0,
            );
        }
        let events = std::fs::read_to_string(&events)?.lines().count() as u64 - 1;
        Ok((Run { elapsed, events, triggers, live_bytes: 0, ended: true }, "0.1.2".to_owned()))
    }

    /// Path of the file of events, which is written if it does not exist.
    fn events(&self, workload: &Workload, trials: u64, silent: &str) -> anyhow::Result<(PathBuf, Span)> {
        let path = self.file(workload, trials, silent);
        if !path.exists() {
            files::write(workload, trials, silent, &path)?;
        }
        Ok((path, Span::of(workload, trials)))
    }

    fn file(&self, workload: &Workload, trials: u64, silent: &str) -> PathBuf {
        let kind = if silent.is_empty() { "" } else { "-rtlola" };
        self.folder.join(format!("{}-{trials}{kind}.csv", workload.name))
    }

    /// Removes the files of events, which are large for millions of trials.
    pub(crate) fn tidy(&self, workload: &Workload, trials: u64) -> anyhow::Result<()> {
        for path in ["", SILENT].map(|silent| self.file(workload, trials, silent)) {
            if path.exists() {
                std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }
}

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(file)
}

fn stopped(limit: Duration) -> Run {
    Run { elapsed: limit, events: 0, triggers: Triggers::default(), live_bytes: 0, ended: false }
}

/// Standard output of a process, or `None` if it was stopped at the limit.
fn wait(mut child: Child, limit: Duration) -> anyhow::Result<Option<String>> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || {
        let mut text = String::new();
        out.as_mut().map(|out| out.read_to_string(&mut text)).transpose().map(|_| text)
    });
    let err = std::thread::spawn(move || {
        let mut text = String::new();
        err.as_mut().map(|err| err.read_to_string(&mut text)).transpose().map(|_| text)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begun.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let read = |reader: std::thread::JoinHandle<std::io::Result<String>>| match reader.join() {
        Ok(text) => Ok(text?),
        Err(_) => bail!("cannot read the output of a peer"),
    };
    let (out, err) = (read(out)?, read(err)?);
    match status {
        None => Ok(None),
        Some(status) if status.success() => Ok(Some(out)),
        Some(status) => bail!("a peer ended with {status}: {}", err.lines().last().unwrap_or_default()),
    }
}
