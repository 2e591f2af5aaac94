//! Who is compared with fairstream, and how each is run.

use bench::measure::Build;
use bench::workload::{Task, Workload};
use fairstream_core::Time;

use crate::dataflow::Dataflow;
use crate::sqlite::{Counting, Sqlite};

pub(crate) const FAIRSTREAM: &str = "fairstream";
pub(crate) const HAND: &str = "loop by hand";

/// Something that one could use instead.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    /// What it is and how it is run, for the page.
    pub(crate) about: &'static str,
    pub(crate) way: Way,
    pub(crate) takes: fn(Task) -> bool,
    /// No more trials than these: it would not fit into memory.
    pub(crate) most: u64,
}

pub(crate) enum Way {
    /// In this process, events in memory.
    Here(Box<Build<'static>>),
    /// A script in `python`, which needs a module. It reads the events before the clock starts.
    Script { file: &'static str, module: Option<&'static str> },
    /// The command of RTLola, which reads a CSV file.
    RtlolaCli,
}

pub(crate) fn all() -> Vec<Rival> {
    let any: fn(Task) -> bool = |_| true;
    let parity: fn(Task) -> bool = |task| !matches!(task, Task::Odds(_));
    let hiring: fn(Task) -> bool = |task| matches!(task, Task::Hiring { daily: false, .. });
    let here = |name, about, takes, build: Box<Build<'static>>| Rival {
        name,
        about,
        takes,
        most: u64::MAX,
        way: Way::Here(build),
    };
    let script = |name, about, takes, file, module| Rival {
        name,
        about,
        takes,
        most: 1_000_000,
        way: Way::Script { file, module },
    };
    vec![
        here(
            FAIRSTREAM,
            "the compiled engine on the specification, events in memory in batches of 8,192",
            any,
            Box::new(|workload, start| workload.compiled(start)),
        ),
        here(
            HAND,
            "Rust for this one question: the limit",
            any,
            Box::new(|workload, start| Ok(workload.by_hand(start))),
        ),
        here(
            "differential dataflow",
            "one worker; every event (or day) a time of its own, a batch of 8,192 handed over before it steps",
            parity,
            Box::new(|workload, start| Ok(Box::new(Dataflow::new(workload, start)))),
        ),
        here(
            "SQLite, SQL triggers",
            "in memory, one transaction, prepared statements; counters kept by SQL triggers, asked at every check",
            any,
            Box::new(|workload, start| sqlite(workload, start, Counting::ByTriggers)),
        ),
        here(
            "SQLite, queries",
            "in memory, one transaction, prepared statements, covering index; counted anew at every check, as in the paper",
            any,
            Box::new(|workload, start| sqlite(workload, start, Counting::ByQuery)),
        ),
        script("Python", "a dict and a loop, events in a list", any, "plain.py", None),
        script(
            "DuckDB, queries",
            "in memory, two threads; counted anew at every check",
            parity,
            "duckdb_queries.py",
            Some("duckdb"),
        ),
        script(
            "DuckDB, afterwards",
            "one query with window functions over the complete log: no monitoring, the best a log allows",
            hiring,
            "duckdb_window.py",
            Some("duckdb"),
        ),
        script(
            "Pathway",
            "every event a time of its own, handed over at once",
            hiring,
            "pathway_stream.py",
            Some("pathway"),
        ),
        here(
            "RTLola interpreter",
            "rtlola-interpreter 0.11 as a library, the same specification, events in memory",
            any,
            Box::new(|workload, start| workload.reference(start)),
        ),
        Rival {
            name: "rtlola-cli",
            about: "the same specification, a CSV file; its start and its reading count",
            way: Way::RtlolaCli,
            takes: hiring,
            most: u64::MAX,
        },
    ]
}

/// Peers that cannot be run, and why.
pub(crate) const MISSING: [(&str, &str); 3] = [
    (
        "rtlola2rust 0.1.0",
        "its reader of CSV has no strings, and with numbers instead the code that it writes for \
         `.defaults(to: …)` over an aggregation does not compile",
    ),
    ("Flink", "no adapter is written for it"),
    ("RisingWave", "no server can be had here, and nothing is said of what was not run"),
];

fn sqlite(
    workload: &Workload,
    start: Time,
    counting: Counting,
) -> anyhow::Result<Box<dyn bench::monitor::Monitor>> {
    Ok(Box::new(Sqlite::new(workload, start, counting)?))
}
