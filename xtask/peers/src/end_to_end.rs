//! Measures the whole command: throughput from files, latency from a line to its verdict, memory, and startup.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bench::table::short;
use fairstream_report::grouped;
use serde_json::{Value, json};

use crate::Options;

/// Name of this part as an argument of `--only`.
pub(crate) const COMMAND: &str = "command";

pub(crate) struct EndToEnd {
    /// Kind of file, rows, seconds, megabytes.
    sources: Vec<(&'static str, u64, f64, u64)>,
    /// Lines per second, and the p50, p99, p99.9 and maximum of the latency.
    latency: Vec<(u64, [Duration; 4])>,
    /// Applicants, and peak memory in megabytes.
    memory: Vec<(u64, u64)>,
    /// Time of `--version`, and of a file of one row under RTLola and under a fairness file.
    start: [Duration; 3],
}

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn measure(options: &Options) -> anyhow::Result<EndToEnd> {
    let power = if options.quick { 5 } else { 7 };
    let memory = (3..=power).map(|power| {
        let applicants = 10_u64.pow(power);
        eprintln!("memory: {} applicants", grouped(applicants));
        let input = format!("hiring:?applicants={applicants}");
        let (_, megabytes) = monitor(options, "specs/rtlola/hiring.lola", &input)?;
        Ok((applicants, megabytes))
    });
    let memory = memory.collect::<anyhow::Result<Vec<_>>>()?;
    let rates: &[u64] = if options.quick { &[1_000] } else { &[100, 1_000, 10_000, 100_000] };
    let latency = rates.iter().map(|rate| Ok((*rate, latency(options, *rate)?)));
    let latency = latency.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(EndToEnd { sources: sources(options)?, latency, memory, start: start(options)? })
}

/// Kinds of files and their extensions. The first is text with one line per event.
const SOURCES: [(&str, &str); 7] = [
    ("CSV", "csv"),
    ("CSV, gzip", "csv.gz"),
    ("CSV, Zstandard", "csv.zst"),
    ("JSON lines", "jsonl"),
    ("JSON lines, Zstandard", "jsonl.zst"),
    ("Parquet", "parquet"),
    ("Arrow", "arrow"),
];

/// The same events from every kind of file under the fairness file of hiring, and directly from the generator.
fn sources(options: &Options) -> anyhow::Result<Vec<(&'static str, u64, f64, u64)>> {
    let applicants = if options.quick { 100_000 } else { 3_000_000 };
    let mut measured = Vec::new();
    let mut rows = 0;
    for (name, ending) in SOURCES {
        eprintln!("{name}: {} applicants, from file to verdicts", grouped(applicants));
        let file = options.out.join("events").join(format!("hiring.{ending}"));
        let generated = Command::new(&options.fairstream)
            .args(["generate", "hiring", "--applicants", &applicants.to_string(), "--to"])
            .arg(&file)
            .stderr(Stdio::null())
            .status()?;
        if !generated.success() {
            bail!("cannot generate {}", file.display());
        }
        if ending == "csv" {
            rows = BufReader::new(std::fs::File::open(&file)?).split(b'\n').count() as u64 - 1;
        }
        let (seconds, megabytes) = median(options, &file.to_string_lossy())?;
        measured.push((name, rows, seconds, megabytes));
        std::fs::remove_file(&file)?;
    }
    let (seconds, megabytes) = median(options, &format!("hiring:?applicants={applicants}"))?;
    measured.push(("none: generated", rows, seconds, megabytes));
    Ok(measured)
}

/// Seconds and megabytes of the median run.
fn median(options: &Options, input: &str) -> anyhow::Result<(f64, u64)> {
    let mut runs = (0..options.runs.min(3))
        .map(|_| monitor(options, "specs/hiring.toml", input))
        .collect::<anyhow::Result<Vec<_>>>()?;
    runs.sort_by_key(|(elapsed, _)| *elapsed);
    let (elapsed, megabytes) = runs[runs.len() / 2];
    Ok((elapsed.as_secs_f64(), megabytes))
}

/// Runs the command once. Returns its time and its peak memory in megabytes.
fn monitor(options: &Options, spec: &str, input: &str) -> anyhow::Result<(Duration, u64)> {
    let begun = Instant::now();
    let mut child = Command::new(&options.fairstream)
        .args(["run", spec, input, "--quiet", "--to"])
        .arg(options.out.join("events/verdicts.jsonl"))
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| options.fairstream.display().to_string())?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kilobytes.unwrap_or(0_u64));
        std::thread::sleep(Duration::from_millis(2));
    };
    let elapsed = begun.elapsed();
    // Exit code 1 means that an alarm was raised, which is a valid result.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("`fairstream run {spec} {input}` ended with {status}");
    }
    Ok((elapsed, most / 1024))
}

/// Writes lines at a fixed rate to a running monitor, and measures the time from when each line is due to its
/// verdict. Lines that are written late because the monitor is slow therefore include the delay (no coordinated
/// omission).
fn latency(options: &Options, rate: u64) -> anyhow::Result<[Duration; 4]> {
    eprintln!("latency: {} lines per second", grouped(rate));
    let seconds = if options.quick { 2 } else { 5 };
    let spec = options.out.join("events/latency.lola");
    let text = std::fs::read_to_string(root().join("specs/rtlola/hiring.lola"))?;
    std::fs::write(&spec, text + "\ntrigger @id∨accepted gap >= 0.0 \"checked\"\n")?;
    let mut child = Command::new(&options.fairstream)
        .args(["run"])
        .arg(&spec)
        .args(["-", "--to", "-", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = child.stdin.take().context("no standard input")?;
    let verdicts = BufReader::new(child.stdout.take().context("no standard output")?);
    let count = rate * seconds;
    let reader = std::thread::spawn(move || {
        let mut arrived = Vec::with_capacity(count as usize);
        for line in verdicts.lines().map_while(Result::ok) {
            if line.contains("\"checked\"") {
                arrived.push(Instant::now());
            }
        }
        arrived
    });
    // Waits until the monitor has started.
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let mut sent = Vec::with_capacity(count as usize);
    for number in 0..count {
        let due = begun + Duration::from_nanos(number * 1_000_000_000 / rate);
        while let Some(early) = due.checked_duration_since(Instant::now()).filter(|early| !early.is_zero()) {
            // `sleep` may take longer than requested, so the last part is spent yielding.
            if early > Duration::from_micros(200) {
                std::thread::sleep(early - Duration::from_micros(150));
            } else {
                std::thread::yield_now();
            }
        }
        let gender = if number.is_multiple_of(2) { "F" } else { "M" };
        // Written at once: the monitor could receive a line in pieces otherwise, and the latency would be measured
        // from the first piece.
        let line = format!("{{\"time\":{number},\"id\":{number},\"gender\":\"{gender}\"}}\n");
        sent.push(due);
        lines.write_all(line.as_bytes())?;
    }
    drop(lines);
    let Ok(arrived) = reader.join() else { bail!("cannot read verdicts") };
    child.wait()?;
    if arrived.len() != sent.len() {
        bail!("{} lines were sent, {} verdicts came back", sent.len(), arrived.len());
    }
    let mut took: Vec<Duration> = arrived.iter().zip(&sent).map(|(back, due)| *back - *due).collect();
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share).round() as usize];
    Ok([at(0.5), at(0.99), at(0.999), at(1.0)])
}

fn start(options: &Options) -> anyhow::Result<[Duration; 3]> {
    eprintln!("start");
    let events = options.out.join("events/one.csv");
    std::fs::write(&events, "time,id,gender,accepted\n2026-01-01T00:00:00Z,1,F,\n")?;
    let events = events.to_string_lossy().into_owned();
    let commands: [&[&str]; 3] = [
        &["--version"],
        &["run", "specs/rtlola/hiring.lola", &events, "--quiet"],
        &["run", "specs/hiring.toml", &events, "--quiet"],
    ];
    let mut medians = [Duration::ZERO; 3];
    for (arguments, median) in commands.into_iter().zip(&mut medians) {
        let mut took = (0..21)
            .map(|_| {
                let begun = Instant::now();
                Command::new(&options.fairstream)
                    .args(arguments)
                    .current_dir(root())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()?;
                Ok(begun.elapsed())
            })
            .collect::<anyhow::Result<Vec<Duration>>>()?;
        took.sort_unstable();
        *median = took[took.len() / 2];
    }
    Ok(medians)
}

impl EndToEnd {
    pub(crate) fn page(&self) -> String {
        let mut text = String::from(
            "\n## From file to verdicts\n\n`fairstream run specs/hiring.toml FILE`: demographic parity, a check at every \
             event, from the start of the command to its end.\n\n| file | events | seconds | million events per second | peak MB |\n\
             | --- | ---: | ---: | ---: | ---: |\n",
        );
        // Writing to a string cannot fail.
        for (name, rows, seconds, megabytes) in &self.sources {
            let speed = *rows as f64 / seconds / 1e6;
            let _ = writeln!(
                text,
                "| {name} | {} | {seconds:.2} | {} | {megabytes} |",
                grouped(*rows),
                short(speed)
            );
        }
        text += "\n## Latency\n\nFrom the time at which a line of JSON is due in a pipe to its verdict in another; every line has a \
                 verdict.\n\n| lines per second | p50 | p99 | p99.9 | maximum |\n| ---: | ---: | ---: | ---: | ---: |\n";
        for (rate, times) in &self.latency {
            let times: Vec<String> =
                times.iter().map(|time| format!(" {} ms |", short(time.as_secs_f64() * 1e3))).collect();
            let _ = writeln!(text, "| {} |{}", grouped(*rate), times.concat());
        }
        text += "\n## Memory\n\nPeak memory of the whole command; every applicant stays open to the end.\n\n| applicants | MB |\n| ---: | ---: |\n";
        for (applicants, megabytes) in &self.memory {
            let _ = writeln!(text, "| {} | {megabytes} |", grouped(*applicants));
        }
        let [version, rtlola, fairness] = self.start.map(|time| short(time.as_secs_f64() * 1e3));
        let _ = writeln!(
            text,
            "\n## Startup\n\n`--version` takes {version} ms; a run of one event takes {rtlola} ms under `hiring.lola` and {fairness} ms \
             under `hiring.toml`."
        );
        text
    }

    pub(crate) fn json(&self) -> Value {
        let millis = |time: &Duration| time.as_secs_f64() * 1e3;
        json!({
            "sources": self.sources.iter().map(|(name, rows, seconds, megabytes)| json!({
                "file": name, "events": rows, "seconds": seconds, "megabytes": megabytes,
            })).collect::<Vec<_>>(),
            "latency_ms": self.latency.iter().map(|(rate, times)| json!({
                "lines_per_second": rate, "p50": millis(&times[0]), "p99": millis(&times[1]),
                "p99.9": millis(&times[2]), "max": millis(&times[3]),
            })).collect::<Vec<_>>(),
            "memory_mb": self.memory,
            "start_ms": self.start.iter().map(millis).collect::<Vec<_>>(),
        })
    }
}
