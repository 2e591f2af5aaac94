//! Runs that are killed and started again: their outputs are those of a run that was never interrupted.
//!
//! `FAIRSTREAM_KILLS=300` sets how often runs are killed, `FAIRSTREAM_KILL_SEED=…` repeats a seed; `-- --nocapture` prints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::plugins::c_plugin;
use crate::process::{interrupt, wait_for};
use crate::support::{fairstream, root};

/// How a run gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    /// They are there.
    Files,
    /// They are appended to a file that is followed, and that is replaced by another now and then.
    Follow,
    /// They come from a pipe that is read through a journal. What writes to it continues where the journal ends.
    Pipe,
}

/// A kind of input.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    input: &'static [&'static str],
    feed: Feed,
}

const CASES: [Case; 10] = [
    Case { name: "csv", input: &["events.csv"], feed: Feed::Files },
    Case { name: "json lines", input: &["events.jsonl"], feed: Feed::Files },
    Case { name: "two inputs", input: &["events.csv", "others.jsonl"], feed: Feed::Files },
    Case { name: "sorted", input: &["events.csv?sort=true"], feed: Feed::Files },
    Case { name: "compressed", input: &["others.jsonl.gz"], feed: Feed::Files },
    Case { name: "lake", input: &["lake"], feed: Feed::Files },
    Case { name: "arrow", input: &["events.arrows"], feed: Feed::Files },
    Case { name: "follow", input: &["growing.jsonl?follow=true"], feed: Feed::Follow },
    Case { name: "journal", input: &["jsonl:-", "--journal", "journal"], feed: Feed::Pipe },
    Case { name: "plugin", input: &["plugin:./applicants.so?n=12000&seed=3"], feed: Feed::Files },
];

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The events of all cases. Some rows are late, and some cannot be read.
struct Events {
    folder: tempfile::TempDir,
    lines: Vec<String>,
}

impl Events {
    fn new(applicants: &str) -> Events {
        let folder = tempfile::tempdir().unwrap();
        let generate = |seed: &str, to: &str| {
            let arguments =
                ["generate", "hiring", "--applicants", applicants, "--seed", seed, "-q", "--to", to];
            assert!(fairstream().current_dir(&folder).args(arguments).status().unwrap().success());
        };
        generate("1", "events.csv");
        generate("1", "events.jsonl");
        generate("1", "events.arrows");
        generate("2", "others.jsonl");
        generate("2", "others.jsonl.gz");
        std::fs::create_dir(folder.path().join("lake")).unwrap();
        for seed in ["4", "5", "6"] {
            generate(seed, &format!("lake/{seed}.parquet"));
        }
        c_plugin(&root().join("examples/plugin-c/applicants.c"), &[], &folder.path().join("applicants.so"));
        c_plugin(&root().join("tests/plugins/times.c"), &[], &folder.path().join("times.so"));
        for spec in ["rtlola/hiring.lola", "guarantee/hiring.toml"] {
            let name = Path::new(spec).file_name().unwrap();
            std::fs::copy(root().join("specs").join(spec), folder.path().join(name)).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let mut rows: Vec<String> = read("events.csv").lines().map(str::to_owned).collect();
        for at in (100..rows.len() - 1).step_by(97) {
            // Late, within what --reorder allows.
            rows.swap(at, at + 1);
            if at % 3 == 0 {
                write!(rows[at + 1], ",one field too many").unwrap();
            }
        }
        std::fs::write(folder.path().join("events.csv"), rows.join("\n") + "\n").unwrap();
        let lines = read("events.jsonl").lines().map(str::to_owned).collect();
        Events { folder, lines }
    }
}

/// A folder in which runs of one case write.
struct Runs<'a> {
    events: &'a Events,
    case: Case,
    spec: &'static str,
    folder: tempfile::TempDir,
}

/// What a run has written, by output.
type Written = BTreeMap<&'static str, String>;

impl<'a> Runs<'a> {
    fn new(events: &'a Events, case: Case, spec: &'static str) -> Runs<'a> {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(events.folder.path()).unwrap() {
            let entry = entry.unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        Runs { events, case, spec, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, failpoint: Option<&str>) -> Child {
        self.start_with(failpoint, |_| {})
    }

    fn start_with(&self, failpoint: Option<&str>, with: impl FnOnce(&mut Command)) -> Child {
        let mut command = fairstream();
        with(&mut command);
        command.current_dir(&self.folder).args(["run", self.spec]).args(self.case.input);
        command.args([
            "--to",
            "verdicts.jsonl?select=changes",
            "--to",
            "alarms.csv",
            "--to",
            // Every change of a fairness file would be written twice.
            if self.spec.ends_with(".toml") { "parquet:parts/" } else { "parquet:parts/?select=changes" },
        ]);
        command.args(["--to", "plugin:./times.so?file=times.txt&select=triggers"]);
        command.args(["--checkpoint", "checkpoints", "--checkpoint-every", "25ms", "--quiet"]);
        // Of a file that is followed, the last rows would wait for later ones.
        let reorder = if self.case.feed == Feed::Follow { "0s" } else { "2m" };
        command.args(["--reorder", reorder, "--on-bad-row", "file=bad.csv", "--max-bad", "50%"]);
        if self.spec.ends_with(".toml") {
            command.args(["--evidence", "evidence.jsonl", "--to", "summary.json"]);
        }
        if let Some(failpoint) = failpoint {
            command.env("FAIRSTREAM_FAILPOINT", failpoint);
        }
        let stdin = if self.case.feed == Feed::Pipe { Stdio::piped() } else { Stdio::null() };
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap();
        if let Some(mut pipe) = child.stdin.take() {
            let lines: String =
                self.events.lines[self.journalled()..].iter().map(|line| line.clone() + "\n").collect();
            // The pipe breaks when the run is killed.
            thread::spawn(move || pipe.write_all(lines.as_bytes()));
        }
        child
    }

    /// How many whole lines the journal has.
    fn journalled(&self) -> usize {
        let Ok(files) = std::fs::read_dir(self.path("journal")) else { return 0 };
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        let lines =
            |path: PathBuf| std::fs::read(path).unwrap().iter().filter(|byte| **byte == b'\n').count();
        files.into_iter().map(lines).sum()
    }

    /// Appends a part of the lines to the file that is followed, half a line included.
    fn grow(&self, appended: &mut usize, random: &mut Random) {
        let lines = &self.events.lines;
        let more = (200 + random.below(2500) as usize).min(lines.len() - *appended);
        let mut file = File::options().create(true).append(true).open(self.path("growing.jsonl")).unwrap();
        let text =
            lines[*appended..*appended + more].iter().map(|line| line.clone() + "\n").collect::<String>();
        let half = text.len() / 2;
        file.write_all(&text.as_bytes()[..half]).unwrap();
        file.write_all(&text.as_bytes()[half..]).unwrap();
        *appended += more;
        // A run begins with the file that is there, so no other takes its place before that.
        if random.below(6) == 0 && *appended < lines.len() && self.evaluated() > 0 {
            drop(file);
            // Files of the past are told apart by when they were written last.
            thread::sleep(Duration::from_millis(10));
            std::fs::rename(self.path("growing.jsonl"), self.path(&format!("growing.jsonl.{appended:07}")))
                .unwrap();
            File::create(self.path("growing.jsonl")).unwrap();
        }
    }

    /// How many events the newest checkpoint covers.
    fn evaluated(&self) -> u64 {
        let Ok(entries) = std::fs::read_dir(self.path("checkpoints")) else { return 0 };
        let of = |path: PathBuf| -> Option<u64> {
            let text = std::fs::read_to_string(path.join("manifest.json")).ok()?;
            serde_json::from_str::<serde_json::Value>(&text).ok()?["evaluated"]["rows"].as_u64()
        };
        // One that is being written is none yet.
        let is_complete = |path: &PathBuf| !path.file_name().unwrap().to_string_lossy().starts_with('.');
        entries.map(|entry| entry.unwrap().path()).filter(is_complete).filter_map(of).max().unwrap_or(0)
    }

    /// Runs to the end, killed up to so many times. Returns how often it was.
    fn run(&self, kills: usize, failpoint: Option<&str>, random: &mut Random) -> usize {
        let (mut killed, mut appended) = (0, 0);
        if self.case.feed == Feed::Follow {
            self.grow(&mut appended, random);
        }
        let began = Instant::now();
        let mut failpoint = failpoint;
        loop {
            let mut child = self.start(failpoint);
            let mut patience = Duration::from_millis(20 + random.below(900));
            let status = loop {
                assert!(
                    began.elapsed() < Duration::from_secs(90),
                    "{:?} does not end: {}",
                    self.case,
                    self.said()
                );
                if let Some(status) = child.try_wait().unwrap() {
                    break Some(status);
                }
                if self.case.feed == Feed::Follow {
                    if appended < self.events.lines.len() {
                        self.grow(&mut appended, random);
                    } else if self.evaluated() == self.events.lines.len() as u64 {
                        interrupt(&child);
                        break Some(child.wait().unwrap());
                    }
                }
                if killed < kills && patience.is_zero() {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed += 1;
                    break None;
                }
                let step = patience.min(Duration::from_millis(10)).max(Duration::from_millis(1));
                thread::sleep(step);
                patience = patience.saturating_sub(step);
            };
            match status.map(|status| status.code()) {
                // Files change places also while nothing runs.
                None if self.case.feed == Feed::Follow && appended < self.events.lines.len() => {
                    self.grow(&mut appended, random);
                }
                None => {}
                Some(None) if failpoint.is_some() => {
                    killed += 1;
                    failpoint = None;
                }
                Some(Some(0 | 1 | 130)) => return killed,
                Some(code) => panic!("{:?}: exit code {code:?}: {}", self.case, self.said()),
            }
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    fn written(&self) -> Written {
        let read = |name: &str| std::fs::read_to_string(self.path(name)).unwrap();
        let mut written: Written = [
            ("verdicts.jsonl", read("verdicts.jsonl")),
            ("alarms.csv", read("alarms.csv")),
            ("bad.csv", read("bad.csv")),
            ("times.txt", read("times.txt")),
            ("parts", rows_of_parts(&self.path("parts"))),
        ]
        .into();
        if self.spec.ends_with(".toml") {
            written.insert("evidence.jsonl", read("evidence.jsonl"));
            let mut summary: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
            for varying in ["started", "ended", "inputs"] {
                summary.as_object_mut().unwrap().remove(varying).unwrap();
            }
            written.insert("summary.json", format!("{summary:#}"));
        }
        written
    }

    fn must_be(&self, expected: &Written, how: &str) {
        let written = self.written();
        for (name, expected) in expected {
            let found = &written[name];
            if found != expected {
                let line = found.lines().zip(expected.lines()).position(|(one, other)| one != other);
                let at = line.unwrap_or(found.lines().count().min(expected.lines().count()));
                panic!(
                    "{:?}, {how}: {name} differs in line {}: {} lines instead of {}\n{:?}\n{:?}",
                    self.case,
                    at + 1,
                    found.lines().count(),
                    expected.lines().count(),
                    found.lines().nth(at),
                    expected.lines().nth(at),
                );
            }
        }
    }
}

/// The rows of all numbered files of a folder, as text.
fn rows_of_parts(folder: &Path) -> String {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut text = String::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("part-"), "{name} is left over");
        for batch in
            ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap().build().unwrap()
        {
            let batch = batch.unwrap();
            let options = FormatOptions::default();
            let plain = |column: &ArrayRef| match column.data_type() {
                DataType::Timestamp(..) => cast(column, &DataType::Int64).unwrap(),
                _ => Arc::clone(column),
            };
            let columns: Vec<ArrayRef> = batch.columns().iter().map(plain).collect();
            let columns: Vec<ArrayFormatter<'_>> =
                columns.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
            for row in 0..batch.num_rows() {
                let values: Vec<String> =
                    columns.iter().map(|column| column.value(row).to_string()).collect();
                writeln!(text, "{}", values.join("|")).unwrap();
            }
        }
    }
    text
}

/// The seed of this run of the tests: a fixed one and a new one, unless one is to be repeated.
fn seeds() -> Vec<u64> {
    match std::env::var("FAIRSTREAM_KILL_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            vec![1, SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 % 1_000_000_000]
        }
    }
}

#[test]
fn a_run_that_is_killed_continues_as_if_it_had_not_been() {
    let kills: usize = std::env::var("FAIRSTREAM_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let events = Events::new("12000");
    let specs = ["hiring.lola", "hiring.toml"];
    let mut expected: BTreeMap<(&str, &str), Written> = BTreeMap::new();
    for seed in seeds() {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut killed = 0;
        let of_seed = kills.div_ceil(seeds().len());
        for round in 0.. {
            if killed >= of_seed {
                break;
            }
            // Every kind of input, with either kind of specification.
            let case = CASES[round % CASES.len()];
            let spec = specs[(round + round / CASES.len()) % specs.len()];
            let expected = expected.entry((case.name, spec)).or_insert_with(|| {
                let runs = Runs::new(&events, case, spec);
                assert_eq!(runs.run(0, None, &mut random), 0);
                runs.written()
            });
            assert!(expected["verdicts.jsonl"].len() > 10_000, "{case:?} has verdicts");
            let runs = Runs::new(&events, case, spec);
            let times = runs.run(4.min(of_seed - killed), None, &mut random);
            runs.must_be(expected, &format!("killed {times} times, seed {seed}"));
            // A run that ends before it is killed counts too, so that this ends.
            killed += times.max(1);
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_checkpoint_leaves_the_old_or_the_new_one() {
    let events = Events::new("2000");
    let (case, spec) = (CASES[0], "hiring.toml");
    let mut random = Random(1);
    let whole = Runs::new(&events, case, spec);
    assert_eq!(whole.run(0, None, &mut random), 0);
    let expected = whole.written();
    for step in ["state", "manifest", "synced", "renamed", "committed", "pruned"] {
        for time in [1, 2] {
            let failpoint = format!("{step}:{time}");
            let runs = Runs::new(&events, case, spec);
            assert_eq!(runs.run(0, Some(&failpoint), &mut random), 1, "{failpoint} is reached");
            runs.must_be(&expected, &failpoint);
            let verify =
                fairstream().current_dir(&runs.folder).args(["checkpoint", "verify", "checkpoints"]).output();
            assert!(verify.unwrap().status.success(), "{failpoint}");
        }
    }
}

/// Errors of a disk, as `faulty_disk.c` knows them.
const NO_SPACE: &str = "28";
const READ_ONLY: &str = "30";
const SYNC_FAILS: &str = "5";

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_fails_for_a_while_changes_nothing() {
    let events = Events::new("4000");
    let case = *CASES.iter().find(|case| case.feed == Feed::Follow).unwrap();
    let (first, rest) = events.lines.split_at(events.lines.len() / 2);
    let append = |runs: &Runs<'_>, lines: &[String]| {
        let mut file = File::options().create(true).append(true).open(runs.path("growing.jsonl")).unwrap();
        file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    };
    let stop_after = |runs: &Runs<'_>, mut child: Child, lines: usize| {
        wait_for("the last event", || runs.evaluated() == lines as u64);
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{}", runs.said());
    };
    let expected = ["hiring.lola", "hiring.toml"].map(|spec| {
        let whole = Runs::new(&events, case, spec);
        append(&whole, &events.lines);
        stop_after(&whole, whole.start(None), events.lines.len());
        (spec, whole.written())
    });
    let library = events.folder.path().join("faulty_disk.so");
    c_plugin(&root().join("tests/plugins/faulty_disk.c"), &[], &library);
    for (at, error, of) in [
        ("checkpoints/", NO_SPACE, 0),
        ("checkpoints/", READ_ONLY, 0),
        ("checkpoints/", SYNC_FAILS, 1),
        ("verdicts.jsonl", NO_SPACE, 0),
        ("evidence.jsonl", SYNC_FAILS, 1),
        ("parts/", READ_ONLY, 0),
    ] {
        let (spec, expected) = &expected[of];
        let runs = Runs::new(&events, case, spec);
        let fault = runs.path("fault");
        let start = || {
            runs.start_with(None, |command| {
                command.env("LD_PRELOAD", &library).env("FAULT", &fault).env("FAULT_AT", at);
            })
        };
        append(&runs, first);
        let mut child = start();
        wait_for("the first half", || runs.evaluated() == first.len() as u64);
        std::fs::write(&fault, error).unwrap();
        append(&runs, rest);
        if at == "checkpoints/" {
            // The run goes on, and says that what it has is not kept.
            wait_for("the warning", || runs.said().contains("a checkpoint could not be kept"));
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            // An output that cannot be written ends the run with its name.
            let code = child.wait().unwrap().code();
            assert!(matches!(code, Some(2 | 3)), "{at} {error}: {code:?}: {}", runs.said());
            assert!(runs.said().contains(at.trim_end_matches('/')), "{at} {error}: {}", runs.said());
        }
        assert_eq!(runs.evaluated(), first.len() as u64, "{at} {error}: the checkpoint before stands");
        std::fs::remove_file(&fault).unwrap();
        stop_after(&runs, start(), events.lines.len());
        runs.must_be(expected, &format!("after {error} at {at}"));
    }
}

#[test]
fn alarms_are_recomputed_from_evidence_that_was_continued() {
    let events = Events::new("3000");
    let runs = Runs::new(&events, CASES[0], "hiring.toml");
    let killed = runs.run(3, None, &mut Random(7));
    let explain = |arguments: &[&str]| {
        let mut command: Command = fairstream();
        let output = command.current_dir(&runs.folder).arg("explain").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = explain(&["verdicts.jsonl", "evidence.jsonl", "--alarm", "1"]);
    assert_eq!(code, Some(0), "after {killed} kills: {text}");
    assert!(text.contains("none changed, removed or added"), "{text}");
}

/// A folder with a growing input, and the same command again and again.
struct Again(tempfile::TempDir);

impl Again {
    fn new() -> Again {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(root().join("specs/rtlola/hiring.lola"), folder.path().join("spec.lola")).unwrap();
        let again = Again(folder);
        again.write("events.csv", "time,id,gender,accepted\n1,1,F,\n2,2,M,\n3,,,2\n4,3,F,\n");
        again
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// Exit code and standard error of a run with checkpoints.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let all =
            [&["run", "spec.lola", "--checkpoint", "kept", "--to", "out.jsonl?select=changes"], arguments];
        self.command(&all.concat())
    }

    fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = fairstream().current_dir(&self.0).args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }
}

#[test]
fn what_is_not_the_same_command_is_refused_with_a_way_out() {
    let again = Again::new();
    again.write("other.csv", "time,id,gender,accepted\n1,1,F,\n");
    assert!(matches!(again.run(&["events.csv"]).0, Some(0 | 1)));
    let before = again.read("out.jsonl");
    let refused = |arguments: &[&str], expected: &[&str]| {
        let (code, text) = again.run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        for part in expected {
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
        assert_eq!(again.read("out.jsonl"), before, "{arguments:?}");
    };
    refused(&["other.csv"], &["other inputs", "events.csv instead of other.csv", "--restart"]);
    refused(&["events.csv", "--since", "2"], &["no --since", "--restart"]);
    refused(&["events.csv", "--time-format", "relative"], &["no --time-format", "--restart"]);
    refused(&["events.csv", "--engine", "reference"], &["the compiled engine alone"]);
    refused(&["events.csv", "--verify"], &["the compiled engine alone"]);
    let events = again.read("events.csv");
    again.write("events.csv", &events.replace("1,1,F", "1,9,F"));
    refused(&["events.csv"], &["events.csv", "replaced or changed", "--restart"]);
    again.write("events.csv", &events[..events.len() - 3]);
    refused(&["events.csv"], &["events.csv", "shorter than it was", "--restart"]);
    again.write("events.csv", &events);
    // The same command is as before.
    assert!(matches!(again.run(&["events.csv"]).0, Some(0 | 1)));
    assert_eq!(again.read("out.jsonl"), before);
    let (code, text) = again.run(&["events.csv", "--restart"]);
    assert!(matches!(code, Some(0 | 1)) && text.contains("is discarded"), "{text}");
    assert!(text.contains("has written to out.jsonl"), "{text}");
    assert_eq!(again.read("out.jsonl"), before);
    // An output that is added begins here; from then on it belongs to the command.
    assert!(matches!(again.run(&["events.csv", "--to", "more.jsonl"]).0, Some(0 | 1)));
    refused(&["events.csv"], &["other outputs: more.jsonl is missing", "--restart"]);
    std::fs::remove_file(again.0.path().join("more.jsonl")).unwrap();
    refused(&["events.csv", "--to", "more.jsonl"], &["more.jsonl", "put it back", "--restart"]);
}

#[test]
fn what_was_there_before_the_first_start_outlives_a_restart() {
    let again = Again::new();
    let old = "{\"kind\":\"of last year\"}\n";
    again.write("log.jsonl", old);
    let run = |more: &[&str]| {
        let all = [
            "run",
            "spec.lola",
            "events.csv",
            "--checkpoint",
            "kept",
            "--to",
            "log.jsonl?mode=append&select=changes",
        ];
        let (code, text) = again.command(&[&all, more].concat());
        assert!(matches!(code, Some(0 | 1)), "{text}");
        again.read("log.jsonl")
    };
    let first = run(&[]);
    assert!(first.starts_with(old) && first.len() > old.len());
    for more in [&[][..], &[], &["--restart"], &["--restart"]] {
        assert_eq!(run(more), first, "{more:?}");
    }
    // What is no checkpoint is not touched.
    let folder = again.0.path().join("kept/000777");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("notes"), "mine").unwrap();
    assert_eq!(run(&["--restart"]), first);
    assert!(folder.join("notes").exists());
}

#[test]
fn what_cannot_be_continued_is_refused_at_the_first_start() {
    let again = Again::new();
    for (arguments, expected) in [
        (&["jsonl:-"][..], "`--journal DIR`"),
        (&["events.csv", "--to", "verdicts.parquet"], "`parquet:verdicts/` is a folder"),
        (&["events.csv", "--journal", "journal"], "no input is `-`"),
    ] {
        let mut command = fairstream();
        command.current_dir(&again.0).args(["run", "spec.lola", "--checkpoint", "kept"]).args(arguments);
        // A pipe, as standard input that is a file can be read again.
        let output = command.stdin(Stdio::piped()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_changed_specification_is_refused_or_carried_over() {
    let again = Again::new();
    again.run(&["events.csv"]);
    let spec = again.read("spec.lola");
    again.write("spec.lola", &format!("// A comment.\n{spec}"));
    let (code, text) = again.run(&["events.csv"]);
    assert!(matches!(code, Some(0 | 1)), "{text}");
    again.write("spec.lola", &(spec + "\noutput more := id + 1\n"));
    let (code, text) = again.run(&["events.csv"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("the specification has changed") && text.contains("stream `more` is new"),
        "{text}"
    );
    assert!(text.contains("--carry-over") && text.contains("--restart"), "{text}");
    let events = again.read("events.csv") + "5,5,F,3\n";
    again.write("events.csv", &events);
    let (code, text) = again.run(&["events.csv", "--carry-over"]);
    assert!(matches!(code, Some(0 | 1)), "{text}");
    assert!(text.contains("stream `more` is new"), "{text}");
    // Applicant 3 was open before, and is known.
    let out = again.read("out.jsonl");
    let last: Vec<&str> = out.lines().filter(|line| line.contains("00:00:05")).collect();
    assert!(last.iter().any(|line| line.contains("\"hired\",\"instance\":[3,\"F\"],\"value\":1")), "{out}");
    assert!(last.iter().any(|line| line.contains("\"more\"")), "{out}");
}

#[test]
fn a_damaged_checkpoint_is_noticed_and_the_one_before_is_used() {
    let again = Again::new();
    again.run(&["events.csv"]);
    let events = again.read("events.csv") + "5,,,3\n";
    again.write("events.csv", &events);
    again.run(&["events.csv"]);
    let expected = again.read("out.jsonl");
    let mut kept: Vec<PathBuf> = std::fs::read_dir(again.0.path().join("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("manifest.json").exists())
        .collect();
    kept.sort();
    assert_eq!(kept.len(), 2);
    let damage = |checkpoint: &Path| {
        let path = checkpoint.join("state/engine.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace('1', "2")).unwrap();
    };
    damage(&kept[1]);
    let (code, text) = again.command(&["checkpoint", "verify", "kept"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("damaged: state/engine.json is not what was written"), "{text}");
    let (code, text) = again.run(&["events.csv"]);
    assert!(matches!(code, Some(0 | 1)), "{text}");
    assert!(text.contains("the one before it is used"), "{text}");
    assert_eq!(again.read("out.jsonl"), expected);
    let checkpoints = std::fs::read_dir(again.0.path().join("kept")).unwrap();
    let newest =
        checkpoints.map(|entry| entry.unwrap().path()).filter(|path| path.join("manifest.json").exists());
    newest.for_each(|path| damage(&path));
    let (code, text) = again.run(&["events.csv"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no checkpoint is whole") && text.contains("--restart"), "{text}");
}

#[test]
fn checkpoints_can_be_looked_at() {
    let again = Again::new();
    let (code, text) = again.command(&["checkpoint", "list", "kept"]);
    assert_eq!(code, Some(2), "{text}");
    again.run(&["events.csv"]);
    let (code, text) = again.command(&["checkpoint", "list", "kept"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("4 events, up to 4s"), "{text}");
    let (code, text) = again.command(&["checkpoint", "show", "kept"]);
    assert_eq!(code, Some(0), "{text}");
    for part in
        ["spec.lola", "events.csv: 4 rows, up to 4s", "out.jsonl?select=changes: ", "state/engine.json"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = again.command(&["checkpoint", "verify", "kept"]);
    assert_eq!(code, Some(0), "{text}");
    // As other tools read them.
    let newest = std::fs::read_dir(again.0.path().join("kept")).unwrap();
    let newest = newest.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).max().unwrap();
    let sums = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(newest).output().unwrap();
    assert!(sums.status.success(), "{}", String::from_utf8_lossy(&sums.stdout));
}

#[test]
fn two_runs_cannot_use_one_folder() {
    let again = Again::new();
    again.write("growing.jsonl", "{\"time\": 1, \"id\": 1, \"gender\": \"F\"}\n");
    let arguments =
        ["run", "spec.lola", "growing.jsonl?follow=true", "--checkpoint", "kept", "--to", "out.jsonl"];
    let mut first = fairstream();
    let mut first = first.current_dir(&again.0).args(arguments).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the first", || again.0.path().join("kept/000002").exists());
    let (code, text) = again.command(&arguments);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("another run is using these checkpoints"), "{text}");
    interrupt(&first);
    first.wait().unwrap();
}
