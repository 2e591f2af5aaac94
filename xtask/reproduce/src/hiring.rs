//! Hiring: a fair and an unfair process, and when each exceeds the tolerance.

use fairstream_report::{Axis, Behind, LinePlot, Series};
use fairstream_scenarios::{Groups, Hiring};

use crate::Extent;
use crate::page::{Finding, Outcome, percent, quantile, table};
use crate::subject::Subject;

const APPLICANTS: u64 = 700;
/// Length of all runs; 700 applicants always give more events than this.
const EVENTS: usize = 700;
const TOLERANCE: f64 = 0.1;

/// The gap after each event, in each run.
struct Process {
    gaps: Vec<Vec<f64>>,
}

impl Process {
    fn watch(subject: &Subject, accept: [(&'static str, f64); 2], seeds: u64) -> anyhow::Result<Process> {
        let gap = subject.compiled.streams()[0].gap.clone();
        let mut gaps = Vec::new();
        for seed in 1..=seeds {
            let hiring =
                Hiring { applicants: APPLICANTS, seed, accept: Groups::new(accept), ..Hiring::default() };
            let samples = subject.follow(&mut *hiring.source(&subject.request())?, &[&gap])?;
            gaps.push(samples.iter().map(|sample| sample.value).take(EVENTS).collect());
        }
        Ok(Process { gaps })
    }

    /// The share of runs that have exceeded the tolerance at some event up to this one.
    fn ever_by(&self, event: usize) -> f64 {
        let above = |gaps: &&Vec<f64>| gaps.iter().take(event).any(|gap| *gap > TOLERANCE);
        self.gaps.iter().filter(above).count() as f64 / self.gaps.len() as f64
    }

    /// For each run the event from which on the tolerance is always exceeded, sorted. Runs that do not exceed it
    /// at the end are last.
    fn constant_from(&self) -> Vec<Option<usize>> {
        let from = |gaps: &Vec<f64>| {
            let quiet = gaps.iter().rposition(|gap| *gap <= TOLERANCE);
            // Events are numbered from 1.
            Some(quiet.map_or(1, |last| last + 2)).filter(|from| *from <= gaps.len())
        };
        let mut from: Vec<Option<usize>> = self.gaps.iter().map(from).collect();
        from.sort_by_key(|from| from.unwrap_or(usize::MAX));
        from
    }

    /// A quantile of the gap over the runs, after each event.
    fn quantile(&self, share: f64) -> Vec<(f64, f64)> {
        let at = |event: usize| {
            let mut gaps: Vec<f64> = self.gaps.iter().filter_map(|gaps| gaps.get(event)).copied().collect();
            gaps.sort_by(f64::total_cmp);
            quantile(&gaps, share).map(|gap| ((event + 1) as f64, gap))
        };
        (0..EVENTS).filter_map(at).collect()
    }
}

/// The share of runs that exceed the tolerance constantly from some event up to this one on.
fn constant_by(from: &[Option<usize>], event: usize) -> f64 {
    from.iter().flatten().filter(|from| **from <= event).count() as f64 / from.len() as f64
}

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let subject = Subject::of("hiring.toml", &[])?;
    let seeds = extent.hiring_seeds;
    let fair = Process::watch(&subject, [("M", 0.5), ("F", 0.5)], seeds)?;
    let unfair = Process::watch(&subject, [("M", 0.5), ("F", 0.2)], seeds)?;
    let from = unfair.constant_from();
    let shown =
        |from: Option<usize>| from.map_or(format!("not within {EVENTS}"), |event| format!("event {event}"));
    let of = |share: f64| quantile(&from, share).flatten();

    let never = 1.0 - fair.ever_by(EVENTS);
    let findings = vec![
        Finding::new(
            "fair (0.5 / 0.5): triggers",
            "never",
            format!("never within {EVENTS} events in {} of the runs", percent(never)),
        ),
        Finding::new(
            "unfair (0.5 / 0.2): triggers constantly from",
            "about event 85",
            format!(
                "{} (median; {} of the runs by event 85)",
                shown(of(0.5)),
                percent(constant_by(&from, 85))
            ),
        ),
    ];
    let quantiles = [0.05, 0.25, 0.5, 0.75, 0.95].map(|share| vec![percent(share), shown(of(share))]);
    let by = [50, 85, 100, 200, 400, EVENTS]
        .map(|event| vec![event.to_string(), percent(fair.ever_by(event)), percent(unfair.ever_by(event))]);
    let details = format!(
        "The paper reports one number each; over {seeds} seeds there is a distribution:\n\n{}\nAt event {EVENTS}, {} of \
         the unfair runs are constantly above the tolerance, and {} of the fair ones. Before that a fair run can be \
         above it for some time: the difference between a rate of 0.5 estimated from 50 men and one estimated from 50 \
         women has a standard deviation of 0.1, and κ = 24 reduces that by a third.\n\n{}",
        table(&["share of unfair runs", "constantly above the tolerance from"], quantiles),
        percent(constant_by(&from, EVENTS)),
        percent(constant_by(&fair.constant_from(), EVENTS)),
        table(&["up to event", "fair runs that triggered", "unfair runs that triggered"], by),
    );
    let one = |process: &Process| -> Vec<(f64, f64)> {
        process.gaps[0].iter().enumerate().map(|(event, gap)| ((event + 1) as f64, *gap)).collect()
    };
    let plot = LinePlot {
        title: "Hiring: the gap between acceptance rates".to_owned(),
        description: format!(
            "The median gap of unfair runs rises above the tolerance of 0.1 and stays there; that of fair runs \
             falls towards 0. At event {EVENTS} the medians are {:.3} and {:.3}.",
            unfair.quantile(0.5).last().map_or(0.0, |(_, gap)| *gap),
            fair.quantile(0.5).last().map_or(0.0, |(_, gap)| *gap)
        ),
        x: Axis::new("event").within(0.0, EVENTS as f64),
        y: Axis::new("gap").within(0.0, 0.4),
        series: vec![
            Series::new("unfair, median", unfair.quantile(0.5)),
            Series::new("unfair, 5 % and 95 %", unfair.quantile(0.05)).beside(0),
            Series::new("", unfair.quantile(0.95)).beside(0),
            Series::new("fair, median", fair.quantile(0.5)),
            Series::new("fair, 95 %", fair.quantile(0.95)).beside(3),
            Series::new("unfair, seed 1", one(&unfair)),
            Series::new("fair, seed 1", one(&fair)),
        ],
        limits: vec![(TOLERANCE, "ε = 0.1".to_owned())],
        behind: Behind::default(),
    };
    Ok(Outcome {
        setting: format!(
            "Applicants apply one by one and are accepted with the probability of their group: 0.5 for men; for \
             women 0.5 (fair) or 0.2 (unfair). Demographic parity with γ = 0.5, κ = 24, ε = 0.1 \
             (`specs/hiring.toml`). {seeds} seeds of each, {EVENTS} events; an application is an event, and so is \
             an acceptance."
        ),
        findings,
        details,
        figures: vec![("hiring.svg".to_owned(), plot.svg(), plot.description.clone())],
        ..Outcome::default()
    })
}
