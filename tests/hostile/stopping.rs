//! The first signal is obeyed wherever a run is, and a second one that comes with it is no loss.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Folder, end, interrupt, wait_for};

const SPEC: &str = "input a : Int64\ntrigger a > 0 \"positive\"\n";

/// Stops take a second at most; the rest is for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

fn stopped(child: Child, what: &str) -> (String, String) {
    thread::sleep(Duration::from_millis(700));
    let asked = Instant::now();
    interrupt(&child);
    let (code, out, err) = end(child);
    assert_eq!(code, 130, "{what}: {err}");
    assert!(asked.elapsed() < SOON, "{what}: {:?}", asked.elapsed());
    (out, err)
}

#[test]
fn a_record_without_an_end_can_be_stopped() {
    let folder = Folder::new(SPEC);
    let pipe = folder.path("events.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = folder.start(&["run", "spec.lola", "events.csv"]);
    let mut writer = OpenOptions::new().write(true).open(pipe).unwrap();
    write!(writer, "time,a\n1,5\n2,\"").unwrap();
    let endless = thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    let (_, err) = stopped(child, "an endless record");
    assert!(err.contains("1 event, 1 violation"), "{err}");
    endless.join().unwrap();
}

#[test]
fn ticks_sorting_and_checking_can_be_stopped() {
    // A tick every millisecond for 200 years.
    let folder = Folder::new(
        "input a : Int64\noutput b : Int64 @1kHz := (b.offset(by: -1).defaults(to: 0) * 3 + a.hold(or: 0)) % 7\n\
         trigger b > 8 \"x\"\n",
    );
    std::fs::write(folder.path("events.csv"), "time,a\n2020-01-01T00:00:00Z,1\n").unwrap();
    let until = ["run", "spec.lola", "events.csv", "--until", "2200-01-01", "--to", "console", "-q"];
    stopped(folder.start(&until), "ticks");
    // Sorting millions of rows.
    let rows: String = (0..1_500_000_u64).map(|row| format!("{},1\n", (row * 7_919) % 1_500_000)).collect();
    std::fs::write(folder.path("rows.csv"), format!("time,a\n{rows}")).unwrap();
    std::fs::write(folder.path("plain.lola"), SPEC).unwrap();
    let sort = ["run", "plain.lola", "rows.csv", "--sort", "--to", "out.jsonl", "-q"];
    stopped(folder.start(&sort), "sorting");
    // A specification that takes the frontend 10 s: nothing has begun, so the process ends.
    let inputs: String = (0..12).map(|input| format!("input a{input} : Int64\n")).collect();
    let names: Vec<String> = (0..12).map(|input| format!("a{input}")).collect();
    let slow = format!("{inputs}output b @({}) := 1\n", names.join(" || "));
    std::fs::write(folder.path("slow.lola"), slow).unwrap();
    let child = folder.start(&["run", "slow.lola", "events.csv"]);
    thread::sleep(Duration::from_millis(700));
    let asked = Instant::now();
    interrupt(&child);
    assert_ne!(end(child).0, 0);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

/// `timeout` signals a process and then its group, so that a process may get the same request twice.
#[test]
fn a_second_signal_at_once_loses_nothing() {
    let folder = Folder::new(SPEC);
    let pipe = folder.path("events.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let sinks = ["--to", "out.parquet", "--to", "out.jsonl"];
    let child = folder.start(&[&["run", "spec.lola", "events.csv"], &sinks[..]].concat());
    let mut writer = OpenOptions::new().write(true).open(pipe).unwrap();
    writeln!(writer, "time,a\n1,5\n2,7").unwrap();
    wait_for("two verdicts", || crate::process::lines(&folder.path("out.jsonl")) == 2);
    // One shell sends both, so that the second comes before the first has been obeyed.
    let both = format!("kill -INT {0}; kill -TERM {0}", child.id());
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    let (code, _, err) = end(child);
    assert_eq!(code, 130, "{err}");
    // The file of columns is complete.
    let bytes = std::fs::read(folder.path("out.parquet")).unwrap();
    assert!(bytes.len() > 8 && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
}
