//! Plugins in processes of their own: whatever they do ends them, and not fairstream, and nothing of them is left behind.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use fairstream_core::{SinkFactory, SinkRequest, SourceFactory, SourceRequest};
use fairstream_plugin::{IsolatedSinks, IsolatedSources, WORKER, WorkerCommand};

use crate::plugins::{c_plugin, check_rust_plugin, rust_plugin};
use crate::process::{Folder, end, interrupt, lines, wait_for};
use crate::support::{fairstream, root};

const LARGE: &str = "input id : UInt64\ninput gender : String\ntrigger id > 2 \"large\"\n";

fn hostile(options: &[&str]) -> Folder {
    let folder = Folder::new(LARGE);
    c_plugin(&root().join("tests/hostile/hostile.c"), options, &folder.path("p.so"));
    folder
}

fn run(folder: &Folder, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = folder.start(arguments).wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn pid(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).unwrap()
}

/// Whether a process runs. One that has ended and that its parent has not waited for does not.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn assert_gone(folder: &Folder) {
    let pid = pid(folder, "worker.pid");
    assert!(!is_running(&pid), "the worker {pid} is left behind");
}

/// What the first batch leads to is said; then the run ends with an error that names the plugin and what it did.
#[test]
fn a_source_that_is_hostile_ends_the_run_and_not_the_process() {
    let folder = hostile(&[]);
    for (mode, expected) in [
        (
            "segfault",
            "its process was ended by SIGSEGV (an access to memory that it does not have) while it was asked for rows",
        ),
        ("segfault", "it may take 1 GiB of memory, and `max_memory` allows for more"),
        ("exit", "its process ended by itself, with exit code 0, while it was asked for rows"),
        ("abort", "its process was ended by SIGABRT"),
        (
            "loop&timeout=2s",
            "its process gave no answer for 2s while it was asked for rows, and was ended; `timeout`",
        ),
        ("sleep&timeout=2s", "its process gave no answer for 2s"),
        ("memory&max_memory=96MiB", "it may take 96 MiB of memory, and `max_memory` allows for more"),
        ("garbage", "its process answered with what is no answer while it was asked for rows"),
        ("huge", "a frame of 4294967295 bytes, more than 256 MiB"),
        ("close", "its process "),
    ] {
        let input = format!("plugin:p.so?isolate=true&mode={mode}");
        let (code, out, error) = run(&folder, &["run", "spec.lola", &input, "--to", "-", "-q"]);
        assert!(code == 3 && error.contains(expected), "{mode}: {code} {error}");
        assert!(error.contains("cannot read p.so (hostile 0) after row 3: "), "{mode}: {error}");
        assert_eq!(out.lines().count(), 1, "{mode}: {out}");
        assert_gone(&folder);
    }
}

#[test]
fn a_sink_that_is_hostile_ends_the_run_and_not_the_process() {
    let folder = hostile(&[]);
    std::fs::write(folder.path("events.csv"), "time,id,gender\n1,3,F\n2,4,M\n").unwrap();
    for (mode, expected) in [
        (
            "segfault",
            "was ended by SIGSEGV (an access to memory that it does not have) while it was given verdicts",
        ),
        ("exit", "its process ended by itself, with exit code 0, while it was given verdicts"),
        ("loop&timeout=2s", "its process gave no answer for 2s while it was given verdicts"),
        ("memory&max_memory=96MiB", "it may take 96 MiB of memory"),
        ("garbage", "its process answered with what is no answer while it was given verdicts"),
        ("close", "its process "),
    ] {
        let to = format!("plugin:p.so?isolate=true&mode={mode}");
        let other = format!("{}.jsonl", mode.split('&').next().unwrap());
        let arguments = ["run", "spec.lola", "events.csv", "--to", &to, "--to", &other, "-q"];
        let (code, _, error) = run(&folder, &arguments);
        assert!(code == 3 && error.contains(expected), "{mode}: {code} {error}");
        assert!(error.contains("cannot write p.so (hostile 0): "), "{mode}: {error}");
        // The other sink has what was evaluated.
        assert_eq!(lines(&folder.path(&other)), 2, "{mode}");
        assert_gone(&folder);
    }
}

#[test]
fn a_library_that_is_hostile_when_it_is_loaded_is_an_error() {
    for (load, options, expected) in [
        ("-DLOAD=*(volatile int*)8=1", "", "ended by SIGSEGV"),
        ("-DLOAD=exit(0)", "", "ended by itself, with exit code 0, while it was opened"),
        ("-DLOAD=for(;;)pause()", "&timeout=2s", "gave no answer for 2s while it was opened"),
    ] {
        let folder = hostile(&[load]);
        let plugin = format!("plugin:p.so?isolate=true{options}");
        let (code, _, error) = run(&folder, &["run", "spec.lola", &plugin]);
        assert!(
            code == 2 && error.contains("cannot open p.so: its process") && error.contains(expected),
            "{error}"
        );
    }
    let folder = hostile(&[]);
    for (options, expected) in [
        ("isolate=yes", "option `isolate=yes`"),
        ("isolate=true&max_memory=much", "a size is a number of `KiB`, `MiB` or `GiB`"),
        ("isolate=true&timeout=0s", "no answer takes no time"),
    ] {
        let (code, _, error) = run(&folder, &["run", "spec.lola", &format!("plugin:p.so?{options}")]);
        assert!(code == 2 && error.contains(expected), "{options}: {error}");
    }
    c_plugin(&root().join("examples/plugin-c/applicants.c"), &[], &folder.path("p.so"));
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so?timeout=1s"]);
    assert!(
        code == 2 && error.contains("there is no option `timeout`; it is for plugins with `isolate=true`"),
        "{error}"
    );
    for plugin in ["plugin:p.so?isolate=true&sede=2", "plugin:p.so?sede=2"] {
        let (code, _, error) = run(&folder, &["run", "spec.lola", plugin]);
        assert_eq!(
            (code, error.as_str()),
            (2, "error: p.so: there is no option `sede`; did you mean `seed`?\n")
        );
    }
    std::fs::write(folder.path("p.so"), "not a library").unwrap();
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so?isolate=true"]);
    assert!(code == 2 && error.contains("cannot open p.so: "), "{error}");
}

/// What a plugin prints is no data, and it reads nothing that is meant for fairstream.
#[test]
fn standard_output_of_a_plugin_is_standard_error() {
    let folder = hostile(&[]);
    let input = "plugin:p.so?isolate=true&mode=print";
    let (code, out, error) = run(&folder, &["run", "spec.lola", input, "--to", "-", "-q"]);
    assert_eq!((code, out.lines().count()), (1, 7), "{error}");
    assert!(!out.contains("neither a frame") && error.contains("neither a frame"), "{error}");
}

#[test]
fn what_a_plugin_starts_ends_with_it() {
    let folder = hostile(&[]);
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so?isolate=true&mode=fork", "-q"]);
    assert_eq!(code, 1, "{error}");
    assert_gone(&folder);
    // It is ended without being waited for, and may take a moment to die.
    let other = pid(&folder, "other.pid");
    wait_for("the end of what it has started", || !is_running(&other));
}

/// Starts a run that hangs after its first batch.
fn hanging(folder: &Folder, mode: &str) -> Child {
    let input = format!("plugin:p.so?isolate=true&mode={mode}");
    let child = folder.start(&["run", "spec.lola", &input, "--to", "out.jsonl", "-q"]);
    wait_for("a verdict", || lines(&folder.path("out.jsonl")) == 1);
    child
}

#[test]
fn an_interrupt_ends_the_plugin_whether_it_can_be_cancelled_or_not() {
    for mode in ["hangs", "loop", "sleep"] {
        let folder = hostile(&[]);
        let child = hanging(&folder, mode);
        let asked = Instant::now();
        interrupt(&child);
        let (code, _, error) = end(child);
        assert_eq!(code, 130, "{mode}: {error}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{mode}: {:?}", asked.elapsed());
        assert_eq!(lines(&folder.path("out.jsonl")), 1);
        assert_gone(&folder);
    }
}

#[test]
fn a_run_that_is_ended_at_once_leaves_no_plugin_behind() {
    let folder = hostile(&[]);
    let mut child = hanging(&folder, "sleep");
    child.kill().unwrap();
    child.wait().unwrap();
    let worker = pid(&folder, "worker.pid");
    wait_for("the end of the worker", || !is_running(&worker));

    // A sink is not cancelled; the third interrupt ends the process at once.
    let folder = hostile(&[]);
    std::fs::write(folder.path("events.csv"), "time,id,gender\n1,3,F\n").unwrap();
    let to = "plugin:p.so?isolate=true&mode=sleep";
    let child = folder.start(&["run", "spec.lola", "events.csv", "--to", to]);
    wait_for("the worker", || folder.path("worker.pid").exists());
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(end(child).0, 130);
    let worker = pid(&folder, "worker.pid");
    wait_for("the end of the worker", || !is_running(&worker));
}

#[test]
fn an_isolated_plugin_says_what_it_says_otherwise() {
    let folder = Folder::new(&std::fs::read_to_string(root().join("specs/rtlola/hiring.lola")).unwrap());
    c_plugin(&root().join("examples/plugin-c/applicants.c"), &[], &folder.path("p.so"));
    let log = root().join("examples/plugin-rust/decisions.log");
    let rust = format!("plugin:{}?file={}", rust_plugin().display(), log.display());
    for plugin in ["plugin:./p.so?n=3000&seed=7", &rust] {
        let verdicts =
            |plugin: &str| run(&folder, &["run", "spec.lola", plugin, "--to", "-?select=changes", "-q"]);
        let expected = verdicts(plugin);
        assert!(expected.0 == 1 && expected.1.lines().count() > 100, "{}", expected.2);
        assert_eq!(verdicts(&format!("{plugin}&isolate=true")), expected);
    }
    let written = |options: &str, name: &str| {
        let to = format!("plugin:{}?file={}{options}", rust_plugin().display(), folder.path(name).display());
        let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:./p.so", "--to", &to, "-q"]);
        assert_eq!(code, 1, "{error}");
        std::fs::read_to_string(folder.path(name)).unwrap()
    };
    assert_eq!(written("&isolate=true", "isolated"), written("", "loaded"));
}

fn worker() -> WorkerCommand {
    WorkerCommand { program: fairstream().get_program().into(), arguments: vec![WORKER.into()] }
}

#[test]
fn an_isolated_plugin_complies() {
    check_rust_plugin(&IsolatedSources { worker: worker() });
}

/// A program that is no worker is noticed, whatever it does.
#[test]
fn a_worker_command_that_is_none_is_an_error() {
    let location = rust_plugin().to_str().unwrap().to_owned();
    for (program, argument, expected) in [
        ("/bin/echo", "hello, this is no frame", "answered with what is no answer"),
        ("/bin/true", "", "ended by itself, with exit code 0"),
        ("/nonexistent", "", "a process for it cannot be started by /nonexistent"),
        ("/bin/sleep", "100", "gave no answer for 200ms"),
    ] {
        let worker = WorkerCommand { program: program.into(), arguments: vec![argument.into()] };
        // Only the last one is waited for as long as that.
        let timeout = if program == "/bin/sleep" { "200ms" } else { "20s" };
        let options = || [("timeout", timeout)].into_iter().collect();
        let request =
            SourceRequest { location: location.clone(), options: options(), ..SourceRequest::default() };
        let error = IsolatedSources { worker: worker.clone() }.open(&request).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(&location), "{program}: {error}");
        let request =
            SinkRequest { location: location.clone(), options: options(), ..SinkRequest::default() };
        let error = IsolatedSinks { worker }.open(&request).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(&location), "{program}: {error}");
    }
    // A worker may end before it has been sent all of a request; what it wrote is read all the same.
    for _ in 0..20 {
        let (program, arguments) = ("/bin/echo".into(), vec!["hello, this is no frame".into()]);
        let sinks = IsolatedSinks { worker: WorkerCommand { program, arguments } };
        let request = SinkRequest { location: location.clone(), ..SinkRequest::default() };
        let error = sinks.open(&request).err().unwrap().to_string();
        assert!(error.contains("answered with what is no answer"), "{error}");
    }
    // Without a host, a worker says so.
    let output =
        Command::new(fairstream().get_program()).arg(WORKER).stdin(std::process::Stdio::null()).output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(error.contains("is started by fairstream alone"), "{error}");
}
