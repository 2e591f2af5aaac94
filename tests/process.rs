//! The command as a process: signals, pipes, full disks.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::fairstream;

const SPEC: &str = "input a : Int64\ntrigger a > 0 \"positive\"\n";

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new(spec: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("spec.lola"), spec).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn rows(&self, name: &str, count: usize) {
        let rows: String = (0..count).map(|row| format!("{row},1\n")).collect();
        std::fs::write(self.path(name), format!("time,a\n{rows}")).unwrap();
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        fairstream()
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A named pipe to write rows to.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

pub(crate) fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

pub(crate) fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Exit code, standard output and standard error of a process that must end soon.
pub(crate) fn end(mut child: Child) -> (i32, String, String) {
    let mut status = None;
    wait_for("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
    child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut err));
    (status.unwrap().code().unwrap_or(-1), out, err)
}

#[test]
fn rows_from_a_pipe_are_judged_as_they_come_and_ctrl_c_ends_in_good_order() {
    let folder = Folder::new(SPEC);
    let pipe = folder.pipe("events.csv");
    let child = folder.start(&["run", "spec.lola", "events.csv", "--to", "out.jsonl", "--to", "console"]);
    let mut writer = OpenOptions::new().write(true).open(pipe).unwrap();
    writeln!(writer, "time,a\n1,5\n2,0\n3,7").unwrap();
    // The writer is still open, so these verdicts are due to the arrival of rows alone.
    wait_for("two verdicts", || lines(&folder.path("out.jsonl")) == 2);
    writeln!(writer, "4,8").unwrap();
    wait_for("the third verdict", || lines(&folder.path("out.jsonl")) == 3);
    write!(writer, "5,9").unwrap();
    thread::sleep(Duration::from_millis(100));
    interrupt(&child);
    let (code, out, err) = end(child);
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("stopping") && err.contains("4 events, 3 violations"), "{err}");
    assert!(out.contains("3 times so far"), "{out}");
    // An incomplete row is dropped.
    assert_eq!(lines(&folder.path("out.jsonl")), 3);
}

/// A verdict follows its line quickly, though no batch is full. A single delay may be caused by the machine, so
/// the median is checked.
#[test]
fn a_line_of_json_is_judged_within_50_ms_of_its_arrival() {
    const LINES: usize = 50;
    let folder = Folder::new(SPEC);
    let mut child = fairstream()
        .args(["run", "spec.lola", "-", "--to", "-", "-q"])
        .current_dir(folder.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut verdicts = BufReader::new(child.stdout.take().unwrap());
    let mut waits = Vec::new();
    for number in 1..=LINES {
        let written = Instant::now();
        writeln!(input, "{{\"time\":{number},\"a\":{number}}}").unwrap();
        let mut line = String::new();
        verdicts.read_line(&mut line).unwrap();
        waits.push(written.elapsed());
        assert!(line.contains("\"positive\""), "line {number}: {line}");
        thread::sleep(Duration::from_millis(5));
    }
    drop(input);
    assert_eq!(end(child).0, 1);
    waits.sort();
    let median = waits[LINES / 2];
    assert!(median < Duration::from_millis(50), "half of the lines waited for more than {median:?}");
}

#[test]
fn ctrl_c_while_waiting_for_the_first_byte_ends_it() {
    let folder = Folder::new(SPEC);
    let _pipe = folder.pipe("events.csv");
    let child = folder.start(&["run", "spec.lola", "events.csv"]);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let (code, _, err) = end(child);
    assert_eq!(code, 130, "{err}");
}

#[test]
fn ctrl_c_ends_a_run_whose_sink_is_not_read() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 10);
    let _pipe = folder.pipe("unread");
    let child = folder.start(&["run", "spec.lola", "events.csv", "--to", "jsonl:unread"]);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let (code, _, err) = end(child);
    assert_eq!(code, 130, "{err}");
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    // Evaluating thirty years of seconds between two events takes some time.
    let folder = Folder::new(
        "input a : Int64\noutput n @1Hz := n.last(or: 0) - a.hold(or: 0)\ntrigger n > 5 \"high\"\n",
    );
    std::fs::write(folder.path("events.csv"), "time,a\n1,1\n1000000000,9\n").unwrap();
    let child = folder.start(&["run", "spec.lola", "events.csv?time_format=relative", "--since", "0"]);
    thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    interrupt(&child);
    let (code, _, err) = end(child);
    assert_eq!(code, 130, "{err}");
    assert!(start.elapsed() < Duration::from_secs(2));
}

/// Asks a process to stop, and waits for its end: how long that took, its exit code, and standard error.
fn stopped(child: Child, signal: &str) -> (Duration, i32, String) {
    let start = Instant::now();
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let (code, _, err) = end(child);
    (start.elapsed(), code, err)
}

/// A stop is orderly within a second, here with a margin for the machine, also where evaluating what was read takes
/// minutes: thirty years of seconds between two events.
#[test]
fn a_stop_does_not_wait_for_the_time_between_two_events() {
    let folder = Folder::new(
        "input a : Int64\noutput n @1Hz := n.last(or: 0) - a.hold(or: 0)\ntrigger n > 5 \"high\"\n",
    );
    std::fs::write(folder.path("events.csv"), "time,a\n1,1\n1000000000,9\n").unwrap();
    let child = folder.start(&["run", "spec.lola", "events.csv?time_format=relative", "--since", "0"]);
    thread::sleep(Duration::from_millis(500));
    let (took, code, err) = stopped(child, "-TERM");
    assert_eq!(code, 130, "{err}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// The same within a batch: a thousand groups, all of which are reported at every event.
#[test]
fn a_stop_does_not_wait_for_the_rest_of_a_batch() {
    let folder = Folder::new(SPEC);
    let file = std::fs::read_to_string(crate::support::root().join("specs/guarantee/hiring.toml")).unwrap();
    let file = file.replace("horizon = \"5m\"", "horizon = \"0s\"").replace("check     = \"1m\"", "");
    let file = file
        .replace("{ when = \"true\", key = \"accepted\", called = \"were accepted\" }", "\"accepted = 1\"");
    std::fs::write(folder.path("fair.toml"), file).unwrap();
    let rows: String = (0..20_000).map(|row| format!("{row},{row},g{},{}\n", row % 1000, row % 2)).collect();
    std::fs::write(folder.path("events.csv"), format!("time,id,gender,accepted\n{rows}")).unwrap();
    let child = folder.start(&["run", "fair.toml", "events.csv", "--to", "out.jsonl?select=changes"]);
    wait_for("some verdicts", || lines(&folder.path("out.jsonl")) > 1000);
    thread::sleep(Duration::from_millis(500));
    let (took, code, err) = stopped(child, "-TERM");
    assert_eq!(code, 130, "{err}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    // What was evaluated was written.
    assert!(lines(&folder.path("out.jsonl")) > 1000);
}

#[test]
fn ctrl_c_ends_the_clock_that_runs_on_to_until() {
    let folder = Folder::new(
        "input a : Int64\noutput n @1Hz := n.last(or: 0) - a.hold(or: 0)\ntrigger a > 0 \"positive\"\n",
    );
    std::fs::write(folder.path("events.csv"), "time,a\n1,1\n").unwrap();
    let child =
        folder.start(&["run", "spec.lola", "events.csv", "--until", "2100-01-01", "--to", "out.jsonl"]);
    wait_for("the verdict", || lines(&folder.path("out.jsonl")) == 1);
    interrupt(&child);
    let (code, _, err) = end(child);
    assert_eq!(code, 130, "{err}");
}

#[test]
fn a_reader_that_hangs_up_ends_it_quietly() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 200_000);
    for sink in ["-", "csv:-", "console?show=all"] {
        let mut child = folder.start(&["run", "spec.lola", "events.csv", "--to", sink, "-q"]);
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let (code, _, err) = end(child);
        assert_eq!((code, err.as_str()), (1, ""), "{sink}");
    }
}

#[test]
fn a_reader_that_was_never_there_ends_it_quietly() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 100);
    for sink in ["-", "csv:-", "console"] {
        let mut child = folder.start(&["run", "spec.lola", "events.csv", "--to", sink, "-q"]);
        drop(child.stdout.take());
        let (code, _, err) = end(child);
        assert_eq!((code, err.as_str()), (1, ""), "{sink}");
    }
}

#[test]
fn a_closed_standard_error_is_no_failure() {
    let folder = Folder::new(SPEC);
    std::fs::write(folder.path("events.csv"), "time,a\n1,x\n2,5\n").unwrap();
    let mut child = folder.start(&[
        "run",
        "spec.lola",
        "events.csv",
        "--on-bad-row",
        "skip",
        "--max-bad",
        "50%",
        "--to",
        "out.jsonl",
    ]);
    drop(child.stderr.take());
    let (code, _, _) = end(child);
    assert_eq!((code, lines(&folder.path("out.jsonl"))), (1, 1));
}

#[test]
fn a_sink_that_is_stuck_does_not_hide_the_failure_of_another() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 100_000);
    let pipe = folder.pipe("stuck");
    let sinks = ["--to", "jsonl:stuck", "--to", "jsonl:/dev/full", "-q"];
    let mut child = folder.start(&[&["run", "spec.lola", "events.csv"], &sinks[..]].concat());
    let _reader_that_does_not_read = File::open(pipe).unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("failed: cannot write /dev/full"), "{line}");
    interrupt(&child);
    interrupt(&child);
    thread::sleep(Duration::from_millis(50));
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status();
    assert_eq!(end(child).0, 130);
}

#[test]
fn a_slow_reader_gets_everything_also_when_the_run_fails() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 2000);
    let mut events = OpenOptions::new().append(true).open(folder.path("events.csv")).unwrap();
    writeln!(events, "x,1").unwrap();
    let mut child = folder.start(&["run", "spec.lola", "events.csv", "--to", "-"]);
    thread::sleep(Duration::from_secs(7));
    let read = BufReader::new(child.stdout.take().unwrap()).lines().count();
    assert_eq!((read, end(child).0), (2000, 3));
}

#[test]
fn standard_input_and_output_are_files_too() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 10);
    let run = |arguments: &[&str], input: &str, output: Option<&str>| {
        let mut command = fairstream();
        command
            .args(["run", "spec.lola"])
            .args(arguments)
            .current_dir(folder.0.path())
            .stderr(Stdio::piped());
        command.stdin(File::open(folder.path(input)).unwrap());
        if let Some(output) = output {
            command.stdout(File::create(folder.path(output)).unwrap());
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = run(&["csv:-", "--to", "events.csv"], "events.csv", None);
    assert_eq!(
        (code, err.as_str()),
        (Some(2), "error: events.csv is an input; writing there would destroy it\n")
    );
    let (code, err) = run(&["events.csv", "--to", "out.jsonl", "--to", "-"], "events.csv", Some("out.jsonl"));
    assert_eq!(code, Some(2), "{err}");
    std::os::unix::fs::symlink("new.jsonl", folder.path("link.jsonl")).unwrap();
    let (code, err) = run(&["events.csv", "--to", "link.jsonl", "--to", "new.jsonl"], "events.csv", None);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_it_and_the_other_sink_keeps_what_it_has() {
    let folder = Folder::new(SPEC);
    folder.rows("events.csv", 50_000);
    let child =
        folder.start(&["run", "spec.lola", "events.csv", "--to", "jsonl:/dev/full", "--to", "out.csv", "-q"]);
    let (code, out, err) = end(child);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.starts_with("error: cannot write /dev/full: No space left on device"), "{err}");
    let mut whole = csv_lines(&folder.path("out.csv"));
    assert_eq!(whole.remove(0), "time,kind,stream,instance,value,message");
    assert!(whole.iter().all(|line| line.ends_with(",trigger,trigger_0,,,positive")), "only whole rows");
}

fn csv_lines(path: &Path) -> Vec<String> {
    BufReader::new(File::open(path).unwrap()).lines().map(Result::unwrap).collect()
}

#[test]
fn an_input_that_breaks_off_is_judged_up_to_there() {
    let folder = Folder::new(SPEC);
    folder.rows("whole.csv", 300_000);
    let packed = zstd::encode_all(File::open(folder.path("whole.csv")).unwrap(), 1).unwrap();
    std::fs::write(folder.path("cut.csv.zst"), &packed[..packed.len() / 2]).unwrap();
    let child = folder.start(&["run", "spec.lola", "cut.csv.zst", "--to", "out.jsonl", "-q"]);
    let (code, _, err) = end(child);
    assert_eq!(code, 3);
    assert!(err.starts_with("error: cannot read cut.csv.zst after row "), "{err}");
    let row: usize = err.split_whitespace().nth(6).unwrap().trim_end_matches(':').parse().unwrap();
    // Row 1 is the header, and every row fires.
    assert_eq!(lines(&folder.path("out.jsonl")), row - 1, "{err}");
    assert!(row > 1000, "{err}");
}
