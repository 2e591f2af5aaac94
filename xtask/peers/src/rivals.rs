//! The systems that are compared, and how each is run.

use bench::measure::Build;
use bench::workload::{Task, Workload};
use fairstream_core::Time;

use crate::dataflow;
use crate::sqlite::{Counting, Sqlite};

pub(crate) const FAIRSTREAM: &str = "fairstream";
pub(crate) const HAND: &str = "loop by hand";

/// Whether a system is a peer: neither fairstream nor the hand-written loop.
pub(crate) fn is_peer(name: &str) -> bool {
    ![FAIRSTREAM, HAND].contains(&name)
}

/// A system that takes part in the comparison.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    /// Description for the page: what it is and how it is run.
    pub(crate) about: &'static str,
    pub(crate) way: Way,
    pub(crate) takes: fn(Task) -> bool,
    /// Maximum number of trials; more would not fit into memory.
    pub(crate) most: u64,
}

pub(crate) enum Way {
    /// In this process, with events in memory.
    Here(Box<Build<'static>>),
    /// A script in `python`, which may need a package. It reads the events before the time is taken.
    Script { file: &'static str, package: Option<&'static str> },
    /// The command of the RTLola project, which reads a CSV file.
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
    let script = |name, about, takes, file, package| Rival {
        name,
        about,
        takes,
        most: 1_000_000,
        way: Way::Script { file, package },
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
            "Rust written for this one question: the limit of what a special-purpose program can gain",
            any,
            Box::new(|workload, start| Ok(workload.by_hand(start))),
        ),
        here(
            "differential dataflow",
            "one worker; every event (or day) has its own logical time, and a batch of 8,192 is handed over before it steps",
            any,
            Box::new(|workload, start| Ok(dataflow::monitor(workload, start))),
        ),
        here(
            "SQLite, SQL triggers",
            "in memory, one transaction, prepared statements; counters kept by SQL triggers, asked at every check",
            any,
            Box::new(|workload, start| sqlite(workload, start, Counting::ByTriggers)),
        ),
        here(
            "SQLite, queries",
            "in memory, one transaction, prepared statements, covering index; counts from scratch at every check, as in the paper",
            any,
            Box::new(|workload, start| sqlite(workload, start, Counting::ByQuery)),
        ),
        script("Python", "a dict and a loop, events in a list", any, "plain.py", None),
        script(
            "DuckDB, queries",
            "in memory, two threads; counts from scratch at every check, and inserts the rows of a day in one statement",
            any,
            "duckdb_queries.py",
            Some("duckdb"),
        ),
        script(
            "DuckDB, afterwards",
            "one query with window functions over the complete log, which is not monitoring",
            hiring,
            "duckdb_window.py",
            Some("duckdb"),
        ),
        script(
            "Pathway",
            "every event (or day) has its own logical time; all events are handed over at once",
            parity,
            "pathway_stream.py",
            Some("pathway"),
        ),
        Rival {
            most: u64::MAX,
            ..script(
                "Flink",
                "in Java, one operator chain in one slot, object reuse, state on the heap, no checkpoints; timed from the \
                 first event to the last verdict of a job in a warm JVM",
                any,
                "flink_job.py",
                Some("apache-flink-libraries"),
            )
        },
        script(
            "RisingWave",
            "materialized views over two tables; at every check new rows are inserted, `FLUSH` is run, and the view is read",
            parity,
            "risingwave_views.py",
            Some("psycopg[binary]"),
        ),
        here(
            "RTLola interpreter",
            "rtlola-interpreter as a library, the same specification, events in memory",
            any,
            Box::new(|workload, start| workload.reference(start)),
        ),
        Rival {
            name: "rtlola-cli",
            about: "the same specification, a CSV file; startup and reading are included in the time",
            way: Way::RtlolaCli,
            takes: hiring,
            most: u64::MAX,
        },
    ]
}

/// Peers that cannot be run, with the reason.
pub(crate) const MISSING: [(&str, &str); 1] = [(
    "rtlola2rust 0.1.0",
    "its CSV reader does not support strings, and with numbers instead the code that it generates for \
         `.defaults(to: …)` over an aggregation does not compile",
)];

/// Versions of the systems that are linked into this program.
pub(crate) fn built_in() -> Vec<(String, String)> {
    let of = |package| bench::machine::version(include_str!("../Cargo.lock"), package).unwrap_or_default();
    let sqlite = rusqlite::version().to_owned();
    let versions = [
        ("differential dataflow", of("differential-dataflow")),
        ("SQLite, SQL triggers", sqlite.clone()),
        ("SQLite, queries", sqlite),
        ("RTLola interpreter", of("rtlola-interpreter")),
    ];
    versions.map(|(name, version)| (name.to_owned(), version)).into()
}

fn sqlite(
    workload: &Workload,
    start: Time,
    counting: Counting,
) -> anyhow::Result<Box<dyn bench::monitor::Monitor>> {
    Ok(Box::new(Sqlite::new(workload, start, counting)?))
}
