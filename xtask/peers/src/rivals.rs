//! Who is compared with fairstream, and how each is run.

use bench::measure::Build;
use bench::workload::{Task, Workload};
use fairstream_core::Time;

use crate::dataflow;
use crate::sqlite::{Counting, Sqlite};

pub(crate) const FAIRSTREAM: &str = "fairstream";
pub(crate) const HAND: &str = "loop by hand";

/// Whether it is somebody else's, and not what everybody else is held against.
pub(crate) fn is_peer(name: &str) -> bool {
    ![FAIRSTREAM, HAND].contains(&name)
}

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
    /// A script in `python`, which needs a package. It reads the events before the clock starts.
    Script { file: &'static str, package: Option<&'static str> },
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
            "Rust for this one question: the limit",
            any,
            Box::new(|workload, start| Ok(workload.by_hand(start))),
        ),
        here(
            "differential dataflow",
            "one worker; every event (or day) a time of its own, a batch of 8,192 handed over before it steps",
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
            "in memory, one transaction, prepared statements, covering index; counted anew at every check, as in the paper",
            any,
            Box::new(|workload, start| sqlite(workload, start, Counting::ByQuery)),
        ),
        script("Python", "a dict and a loop, events in a list", any, "plain.py", None),
        script(
            "DuckDB, queries",
            "in memory, two threads; counted anew at every check, the rows of a day inserted in one go",
            any,
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
            "every event (or day) a time of its own, handed over at once",
            parity,
            "pathway_stream.py",
            Some("pathway"),
        ),
        Rival {
            most: u64::MAX,
            ..script(
                "Flink",
                "in Java, one chain of operators in one slot, objects reused, state on the heap, no checkpoints; from the \
                 first event to the last verdict of a job in a JVM that is warm",
                any,
                "flink_job.py",
                Some("apache-flink-libraries"),
            )
        },
        script(
            "RisingWave",
            "materialized views over two tables; what is new is inserted, `FLUSH`, and the view is read at every check",
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
            about: "the same specification, a CSV file; its start and its reading count",
            way: Way::RtlolaCli,
            takes: hiring,
            most: u64::MAX,
        },
    ]
}

/// Peers that cannot be run, and why.
pub(crate) const MISSING: [(&str, &str); 1] = [(
    "rtlola2rust 0.1.0",
    "its reader of CSV has no strings, and with numbers instead the code that it writes for \
         `.defaults(to: …)` over an aggregation does not compile",
)];

/// The versions of those that are built into this program.
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
