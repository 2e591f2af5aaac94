//! The console sink: prints alarms and the first violations of each trigger, and a summary at the end.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use fairstream_core::{
    Adapter, Kind, OptionDoc, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest, Time,
    Value, Verdict, VerdictBatch, brief, visible,
};

use fairstream_fairness::{Judge, when};

use crate::args::Colour;
use crate::progress::{CLEAR_LINE, grouped};
use crate::{live, standings};

/// Opens console sinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsoleSinks {
    style: Style,
    /// The judge, if the specification is a fairness file.
    judge: Option<Arc<Mutex<Judge>>>,
}

/// Formatting of lines.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    colour: bool,
    /// Whether the progress line has to be cleared before a line is written.
    clear: bool,
    /// Whether times are numbers of rows.
    by_rows: bool,
}

impl ConsoleSinks {
    pub(crate) fn new(colour: Colour, judge: Option<Arc<Mutex<Judge>>>) -> ConsoleSinks {
        let by_rows = judge
            .as_ref()
            .is_some_and(|judge| judge.lock().unwrap_or_else(PoisonError::into_inner).by_rows());
        let style = Style { colour: colour.is_on(), clear: io::stdout().is_terminal(), by_rows };
        ConsoleSinks { style, judge }
    }
}

const OPTIONS: &[OptionDoc] =
    &[OptionDoc { name: "show", default: "first", help: "`all` shows every time that a trigger fires" }];

impl SinkFactory for ConsoleSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "console",
            about: "for people: alarms and how every group stands; when a trigger fires first, and how often it did",
            extensions: &[],
            options: OPTIONS,
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        let show = request.options.text("show").unwrap_or("first");
        let show_all = match show {
            "first" => false,
            "all" => true,
            _ => {
                let reason = "there are `first` and `all`".to_owned();
                let bad = fairstream_core::BadOption::Value {
                    key: "show".to_owned(),
                    value: show.to_owned(),
                    reason,
                };
                return Err(SinkError::Option { sink: "console".to_owned(), bad });
            }
        };
        let judge = self.judge.clone();
        Ok(Box::new(Console {
            style: self.style,
            show_all,
            select: request.select,
            triggers: Vec::new(),
            judge,
        }))
    }
}

struct Console {
    style: Style,
    show_all: bool,
    select: Selection,
    /// Triggers in order of their first violation.
    triggers: Vec<Trigger>,
    judge: Option<Arc<Mutex<Judge>>>,
}

/// A trigger that has fired.
struct Trigger {
    stream: String,
    message: String,
    fired: u64,
    first: Time,
    last: Time,
    /// Instances that have been shown.
    shown: HashSet<Option<String>>,
}

impl Trigger {
    fn summary(&self, so_far: &str) -> String {
        let Trigger { fired, first, last, shown, .. } = self;
        let message = visible(&self.message);
        let (first, last) = (first.for_people(), last.for_people());
        let instances = match shown.len() {
            1 => String::new(),
            count => format!(" in {count} instances{}", if count == INSTANCES { " or more" } else { "" }),
        };
        match fired {
            1 => format!("once{so_far}, at {first}: {message}"),
            _ if instances.is_empty() => {
                format!("{} times{so_far}, from {first} to {last}: {message}", grouped(*fired))
            }
            _ => format!(
                "{} times{so_far}{instances}, from {first} to {last}; first: {message}",
                grouped(*fired)
            ),
        }
    }
}

/// Maximum number of instances of one trigger that are shown.
const INSTANCES: usize = 20;

impl Sink for Console {
    fn name(&self) -> &str {
        "standard output"
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        let mut text = String::new();
        for verdict in batch.iter() {
            match verdict.kind {
                Kind::Trigger => self.fire(&mut text, &verdict),
                Kind::Alarm | Kind::Clear => self.style.alarm(&mut text, &verdict),
                Kind::Value | Kind::Spawn | Kind::Close => self.style.change(&mut text, &verdict),
            }
        }
        print(&text)
    }

    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        Ok(None)
    }

    fn finish(self: Box<Self>, end: &RunEnd) -> Result<(), SinkError> {
        let mut text = String::new();
        let so_far = if *end == RunEnd::Complete { "" } else { " so far" };
        match (&self.judge, self.triggers.is_empty()) {
            (Some(judge), _) => {
                let judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
                text += &standings::describe(&judge, so_far, |alarm| self.style.alarming(alarm));
            }
            (None, true) => {
                let _ = writeln!(text, "nothing violated{so_far}");
            }
            (None, false) => text.push('\n'),
        }
        let width = self.triggers.iter().map(|trigger| trigger.stream.len());
        let width = width.max().unwrap_or_default().min(WIDEST);
        for trigger in &self.triggers {
            let name = self.style.alarming(&format!("{:<width$}", visible(&trigger.stream)));
            let _ = writeln!(text, "{name}  {}", trigger.summary(so_far));
        }
        match print(&self.style.cleared(&text)) {
            // The reader hung up, and there is nothing left to do.
            Err(SinkError::HungUp { .. }) => Ok(()),
            printed => printed,
        }
    }
}

impl Console {
    fn fire(&mut self, text: &mut String, verdict: &Verdict<'_>) {
        let index = self.triggers.iter().position(|trigger| trigger.stream == verdict.stream);
        let index = index.unwrap_or_else(|| {
            self.triggers.push(Trigger {
                stream: verdict.stream.to_owned(),
                message: verdict.message.unwrap_or_default().to_owned(),
                fired: 0,
                first: verdict.time,
                last: verdict.time,
                shown: HashSet::new(),
            });
            self.triggers.len() - 1
        });
        let trigger = &mut self.triggers[index];
        trigger.fired += 1;
        trigger.last = verdict.time;
        let new =
            trigger.shown.len() < INSTANCES && trigger.shown.insert(verdict.instance.map(str::to_owned));
        if new || self.show_all {
            let line = format!(
                "{:<22} {}  {}\n",
                verdict.time.for_people(),
                self.style.alarming(&named(verdict)),
                visible(verdict.message.unwrap_or_default())
            );
            text.push_str(&self.style.cleared(&line));
        }
        if new && trigger.shown.len() == INSTANCES && !self.show_all {
            let more = format!(
                "{:<22} {}  further instances are only counted; `--to 'console?show=all'` shows all\n",
                "", verdict.stream
            );
            text.push_str(&self.style.cleared(&more));
        }
    }
}

/// How many characters of an instance or a value are shown.
const LONGEST: usize = 200;

/// How far names are padded.
const WIDEST: usize = 60;

/// The stream and the instance.
fn named(verdict: &Verdict<'_>) -> String {
    format!("{}{}", verdict.stream, brief(verdict.instance.unwrap_or_default(), LONGEST))
}

impl Style {
    fn change(self, text: &mut String, verdict: &Verdict<'_>) {
        let name = named(verdict);
        let what = match verdict.value {
            None => verdict.kind.name().to_owned(),
            Some(Value::Text(value)) => format!("= \"{}\"", brief(value, LONGEST)),
            Some(value) => format!("= {value}"),
        };
        text.push_str(&self.cleared(&format!("{:<22} {name} {what}\n", when(verdict.time, self.by_rows))));
    }

    /// Prints an alarm that is raised or cleared.
    fn alarm(self, text: &mut String, verdict: &Verdict<'_>) {
        let word = match verdict.kind {
            Kind::Alarm => self.alarming("ALARM"),
            _ => "clear".to_owned(),
        };
        let message = visible(verdict.message.unwrap_or_default());
        text.push_str(
            &self.cleared(&format!("{:<22} {word}  {message}\n", when(verdict.time, self.by_rows))),
        );
    }

    fn alarming(self, text: &str) -> String {
        if self.colour { format!("\x1b[1;31m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn cleared(self, text: &str) -> String {
        if self.clear { format!("{CLEAR_LINE}{text}") } else { text.to_owned() }
    }
}

fn print(text: &str) -> Result<(), SinkError> {
    if live::hold(live::To::Output, text) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let sink = "standard output".to_owned();
        match error.kind() {
            io::ErrorKind::BrokenPipe => SinkError::HungUp { sink },
            _ => SinkError::Write { sink, cause: error.into() },
        }
    })
}
