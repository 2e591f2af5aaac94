//! `fairstream demo`: monitors simulated employers, fair and unfair, without any argument.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairstream_core::{
    Columns, Counters, Pipeline, RunOptions, SourceContext, SourceRequest, StopToken, Time,
};
use fairstream_fairness::{Compiled, FairnessFile, Judge, RateHistory};
use fairstream_scenarios::{Groups, Hiring};

use crate::args::{DemoArguments, EngineKind};
use crate::chart::{Chart, Line};
use crate::interrupt::Interrupt;
use crate::null_sink::NullSink;
use crate::progress::grouped;
use crate::report::{PageData, Subject, now};
use crate::{ExitStatus, load, print, run, standings};

/// The fairness files that employers are monitored with: with a guarantee, and by the rule of the paper.
const FILES: [(&str, &str); 2] = [
    ("specs/guarantee/hiring.toml", include_str!("../../../specs/guarantee/hiring.toml")),
    ("specs/hiring.toml", include_str!("../../../specs/hiring.toml")),
];

const APPLICANTS: u64 = 1000;
/// Number of employers of each kind.
const EMPLOYERS: u64 = 10;
/// Probability of acceptance, by group.
const UNFAIR: [(&str, f64); 2] = [("M", 0.5), ("F", 0.2)];
const FAIR: [(&str, f64); 2] = [("M", 0.5), ("F", 0.5)];

pub(crate) fn demo(arguments: &DemoArguments) -> anyhow::Result<ExitStatus> {
    let stop = StopToken::default();
    let interrupt = Interrupt::watch(&stop);
    interrupt.start();
    let [guarantee, map] = FILES;
    let first = watch(guarantee, UNFAIR, 1, &stop)?;
    let mut rows = String::new();
    for (kind, accept) in [("fair", FAIR), ("unfair", UNFAIR)] {
        let mut cells = Vec::new();
        for file in [guarantee, map] {
            let first = |seed| watch(file, accept, seed, &stop).map(|watched| watched.chart().first_alarm());
            let alarms: anyhow::Result<Vec<Option<Time>>> = (1..=EMPLOYERS).map(first).collect();
            cells.push(raised(alarms?));
        }
        let employers = format!("{EMPLOYERS} {kind} employers (M {}, F {})", accept[0].1, accept[1].1);
        rows += &format!("  {employers:<38} {:<22} {}\n", cells[0], cells[1]);
    }
    let drawn = first.chart().draw();
    let standings = standings::describe(&first.judge(), "", str::to_owned);
    let written = write(&arguments.to, &first.page(guarantee));
    print(&format!(
        "An employer decides on {APPLICANTS} applications. Men are accepted with probability 0.5, women with 0.2.\n\
         The events are simulated; the monitor sees nothing but the events.\n\n\
         {drawn}\n\
         Acceptance rates (F: women, M: men) over time. An alarm is raised when there is enough evidence that they\n\
         differ by more than 0.1: of fair employers, at most 5 % ever raise one, however often they are checked.\n\
         {standings}\n\
         The rule of the paper, `map`, compares estimates at every check instead. It is faster, and chance alone\n\
         raises its alarms. Results of both on {EMPLOYERS} employers of each kind, with {APPLICANTS} applications each:\n\n  \
         {:<38} {:<22} {}\n{rows}\n\
         Each fairness file is one page: specs/guarantee/hiring.toml and specs/hiring.toml. To do the same step\n\
         by step:\n\n  \
         fairstream generate hiring --applicants {APPLICANTS} --to events.csv\n  \
         fairstream run specs/guarantee/hiring.toml events.csv\n  \
         fairstream run specs/hiring.toml events.csv\n\n\
         And with your own data:  fairstream init DATA.csv\n\n{written}\n",
        "employers with an alarm", "guarantee", "rule = \"map\""
    ))?;
    if interrupt.happened() {
        return Ok(ExitStatus::Interrupted);
    }
    crate::note("The exit code is 1, because an alarm was raised.");
    Ok(ExitStatus::Violated)
}

/// Number of alarms, and the median number of applicants at the first alarm. Applicants arrive once a minute.
fn raised(mut alarms: Vec<Option<Time>>) -> String {
    alarms.sort_by_key(|alarm| alarm.unwrap_or(Time(i64::MAX)));
    let count = alarms.iter().flatten().count();
    match alarms.get(count / 2).copied().flatten().filter(|_| count > 0) {
        None => format!("{count}"),
        Some(median) => {
            let applicants = u64::try_from(median.0 / 60_000_000_000).unwrap_or_default();
            format!("{count}, median at {}", grouped(applicants))
        }
    }
}

/// A monitored employer.
struct Watched {
    compiled: Compiled,
    judge: Arc<Mutex<Judge>>,
    counters: Arc<Counters>,
}

impl Watched {
    /// The history of the only rate.
    fn rate_history(&self) -> RateHistory {
        let judge = self.judge();
        judge.history().and_then(|history| history.rates().next()).cloned().unwrap_or_default()
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chart(&self) -> Chart {
        let RateHistory { groups, alarms, .. } = self.rate_history();
        let lines = groups.iter().map(|(values, curve)| Line {
            name: values.trim_matches(['[', ']', '"']).to_owned(),
            points: curve.points(),
        });
        Chart {
            lines: lines.collect(),
            alarms: alarms.iter().map(|alarm| (alarm.since, alarm.until)).collect(),
        }
    }

    /// The report as HTML.
    fn page(&self, (file, text): (&str, &str)) -> String {
        let input = format!("hiring:?applicants={APPLICANTS}&seed=1");
        let subject = Subject {
            file: file.to_owned(),
            text: text.to_owned(),
            command: format!("fairstream report {file} '{input}'"),
            files: Vec::new(),
            started: now(),
            inputs: vec![input],
        };
        let (judge, counts) = (self.judge(), self.counters.now());
        let Watched { compiled, .. } = self;
        let data =
            PageData { judge: &judge, compiled, counts: &counts, subject: &subject, is_complete: true };
        data.page().html()
    }
}

fn watch(
    (path, text): (&str, &str),
    accept: [(&'static str, f64); 2],
    seed: u64,
    stop: &StopToken,
) -> anyhow::Result<Watched> {
    let (compiled, spec) = load::compile(&FairnessFile::parse(path, text)?, &[])?;
    let request = SourceRequest {
        location: "hiring".to_owned(),
        wanted: compiled.columns(),
        context: SourceContext { stop: stop.clone(), ..SourceContext::default() },
        ..SourceRequest::default()
    };
    let employer = Hiring { applicants: APPLICANTS, seed, accept: Groups::new(accept), ..Hiring::default() };
    let sources = vec![employer.source(&request)?];
    let columns = Columns::bind(&request.wanted, &sources)?;
    let judge = Arc::new(Mutex::new(Judge::new(compiled.rules().to_vec()).with_history()));
    let counters: Arc<Counters> = Arc::default();
    let judged = Some((compiled.clone(), Arc::clone(&judge)));
    let engine = run::build(spec, EngineKind::Compiled, false, judged, None);
    let options = RunOptions { stop: stop.clone(), counters: Arc::clone(&counters), ..RunOptions::default() };
    let report = Pipeline { sources, columns, engine, sinks: vec![Box::new(NullSink)], options }.run();
    match report.error {
        Some(error) => Err(error.into()),
        None => Ok(Watched { compiled, judge, counters }),
    }
}

/// Writes the report unless the file exists, and returns a sentence on that. A failure does not end the demo.
fn write(to: &Path, html: &str) -> String {
    let name = to.display();
    let file = OpenOptions::new().write(true).create_new(true).open(to);
    match file.and_then(|mut file| file.write_all(html.as_bytes())) {
        Ok(()) => format!("The same as an HTML page: {name}"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            format!("{name} is there already and was left as it is; `--to FILE` writes the page elsewhere")
        }
        Err(error) => format!("{name} cannot be written ({error}); `--to FILE` writes the page elsewhere"),
    }
}
