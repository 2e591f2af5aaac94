//! Alarms with a guarantee: how often fair systems raise them, how soon unfair systems do, and when they would
//! have been raised in Broward County and in Berkeley.

mod data;
mod rules;
mod systems;

use fairstream_guarantee::{ErrorControl, FairSet, Hypothesis};
use fairstream_report::{Axis, Behind, LinePlot, Series};
use fairstream_scenarios::Random;

use self::rules::{LEVEL, Rule, Watch};
use self::systems::{BROKEN, FAIR, FOUR, System};
use crate::Extent;
use crate::page::{Finding, Outcome, grouped, percent, quantile, table};

/// Decisions per run.
const STEPS: u64 = 10_000;

/// Decision at which each run of a system raised its first alarm, sorted; `u64::MAX` if it raised none.
fn first_alarms(begin: impl Fn() -> Watch + Sync, system: System, runs: u64, steps: u64) -> Vec<u64> {
    let run = |seed: u64| {
        let (mut watch, mut random) = (begin(), Random::new(seed));
        let alarm = |step: &u64| {
            let (group, value) = (system.decide)(&mut random, *step);
            watch.step(group, value)
        };
        (0..steps).find(alarm).map_or(u64::MAX, |step| step + 1)
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let mut alarms: Vec<u64> = std::thread::scope(|scope| {
        let run = &run;
        let part =
            |thread: u64| move || (thread + 1..=runs).step_by(threads as usize).map(run).collect::<Vec<_>>();
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(part(thread))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    });
    alarms.sort_unstable();
    alarms
}

fn share(alarms: &[u64]) -> f64 {
    alarms.iter().filter(|alarm| **alarm < u64::MAX).count() as f64 / alarms.len().max(1) as f64
}

/// The decision by which a share of the runs has raised an alarm.
fn by(alarms: &[u64], of: f64) -> String {
    match quantile(alarms, of) {
        Some(step) if step < u64::MAX => grouped(step),
        _ => "later".to_owned(),
    }
}

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let runs = extent.guarantee_runs;
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    let mut found = Vec::new();
    for rule in Rule::ALL {
        let of = FOUR.map(|system| first_alarms(|| rule.begin(system.fair), system, runs, STEPS));
        let [fair, edge, unfair, little] = &of;
        rows.push(vec![
            rule.name().to_owned(),
            percent(share(fair)),
            percent(share(edge)),
            format!("{} / {}", by(unfair, 0.5), by(unfair, 0.95)),
            format!("{} ({} of runs)", by(little, 0.5), percent(share(little))),
        ]);
        if [Rule::Map, Rule::Block].contains(&rule) {
            found.push(vec![
                percent(share(fair)),
                percent(share(edge)),
                by(unfair, 0.5),
                by(unfair, 0.95),
                by(little, 0.5),
            ]);
            curves.extend(FOUR.iter().zip(of).map(|(system, alarms)| (rule, system.name, alarms)));
        }
    }
    let head = ["rule", "fair: alarms", "edge: alarms", "0.5, 0.2: median / 95 %", "0.5, 0.35: median"];
    let mut details = format!(
        "Of {} runs of {} decisions each, two groups in turn, α = {LEVEL}, ε = 0.1:\n\n{}",
        grouped(runs),
        grouped(STEPS),
        table(&head, rows)
    );
    let fair: Vec<(System, f64)> = FAIR
        .into_iter()
        .map(|system| (system, share(&first_alarms(|| Rule::Block.begin(system.fair), system, runs, STEPS))))
        .collect();
    let worst = fair.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let fair_rows = fair.iter().map(|(system, share)| vec![system.name.to_owned(), percent(*share)]);
    details += &format!(
        "\nFair systems with the guarantee, {} runs each; at most {} % may raise an alarm:\n\n{}",
        grouped(runs),
        LEVEL * 100.0,
        table(&["fair system", "alarms"], fair_rows)
    );
    let broken = BROKEN.map(|system| {
        let alarms = first_alarms(|| Rule::Block.begin(system.fair), system, runs.div_ceil(10), STEPS);
        vec![system.name.to_owned(), percent(share(&alarms))]
    });
    details += &format!(
        "\nWhat it does not cover: within a block the rates of groups are averages over their own trials.\n\n{}",
        table(&["system", "alarms"], broken)
    );
    details += &detector(runs.div_ceil(10));
    let (more, data_findings, mut figures) = data::run()?;
    details += &more;
    figures.insert(0, figure(&curves));
    let mut findings = vec![
        Finding::new("fair (0.5, 0.5): runs with an alarm by the rule `map`", "66.8 %", found[0][0].clone()),
        Finding::new("edge (0.5, 0.4), `map`", "96.8 %", found[0][1].clone()),
        Finding::new("fair (0.5, 0.5), guaranteed", "0 %", found[1][0].clone()),
        Finding::new("edge (0.5, 0.4), guaranteed", "1.4 %", found[1][1].clone()),
        Finding::new(
            "unfair (0.5, 0.2), guaranteed: median and 95 % of decisions until the alarm",
            "200 / 500",
            format!("{} / {}", found[1][2], found[1][3]),
        ),
        Finding::new("unfair (0.5, 0.35), guaranteed: median", "3,300", found[1][4].clone()),
        Finding::new("worst of all fair systems, guaranteed", "at most 5 %", percent(worst)),
    ];
    findings.extend(data_findings);
    Ok(Outcome {
        setting: "Not an experiment of the paper. It measures how often the rule of the paper raises an alarm although a \
            system is fair, if it is checked after every decision, and how a guarantee \
            (`guarantee = { false_alarms = 0.05 }`) changes that. The column `paper` has the figures of a simulation of \
            2,000 runs that was made when the method was designed."
            .to_owned(),
        findings,
        details,
        figures,
        ..Outcome::default()
    })
}

/// Alarms of a system that is fair for long and then is not.
fn detector(runs: u64) -> String {
    const CHANGE: u64 = 20_000;
    let system = System {
        name: "",
        fair: FairSet::Difference(0.1),
        decide: |random, step| {
            let group = usize::from(random.chance(0.5));
            let rate = if step >= CHANGE && group == 1 { 0.2 } else { 0.5 };
            (group, f64::from(u8::from(random.chance(rate))))
        },
    };
    let level = Hypothesis::BLOCK as f64 / 1_000_000.0;
    let forms = [
        ("`false_alarm_every = 1000000`, memory 1,000", ErrorControl::Detector { memory: 1000 }, level),
        ("the same, memory 10,000", ErrorControl::Detector { memory: 10_000 }, level),
        ("the same, nothing is forgotten", ErrorControl::Detector { memory: u64::MAX }, level),
        ("`false_alarms = 0.05`", ErrorControl::Ever, LEVEL),
    ];
    let rows = forms.map(|(name, control, level)| {
        let hypothesis = Hypothesis::new(system.fair, control, level);
        let alarms = first_alarms(|| Watch::block(hypothesis), system, runs, CHANGE + 40_000);
        let early =
            alarms.iter().filter(|alarm| **alarm <= CHANGE).count() as f64 / alarms.len().max(1) as f64;
        let after: Vec<u64> = alarms
            .iter()
            .filter(|alarm| **alarm > CHANGE)
            .map(|alarm| if *alarm == u64::MAX { u64::MAX } else { alarm - CHANGE })
            .collect();
        vec![name.to_owned(), percent(early), by(&after, 0.5), by(&after, 0.95)]
    });
    format!(
        "\nA system that is fair (0.5, 0.5) for {} decisions and then is not (0.5, 0.2), {} runs:\n\n{}",
        grouped(CHANGE),
        grouped(runs),
        table(&["guarantee", "alarms before", "after the change: median", "95 %"], rows)
    )
}

/// The share of runs that have raised an alarm, over time.
fn figure(curves: &[(Rule, &str, Vec<u64>)]) -> (String, String, String) {
    let line = |(rule, system, alarms): &(Rule, &str, Vec<u64>)| {
        let points = (0..=200).map(|point| {
            let step = point * STEPS / 200;
            let raised = alarms.partition_point(|alarm| *alarm <= step);
            (step as f64, raised as f64 / alarms.len().max(1) as f64)
        });
        let name = if *rule == Rule::Map { "map" } else { "guarantee" };
        let rates = system.split_once(": ").map_or(*system, |(_, rates)| rates);
        Series::new(&format!("{name}: {rates}"), points.collect())
    };
    let shown =
        curves.iter().filter(|(rule, system, _)| *rule == Rule::Block || !system.starts_with("unfair"));
    let plot = LinePlot {
        title: "Runs that have raised an alarm".to_owned(),
        description: "By the rule map most fair runs have raised an alarm in the end; with a guarantee hardly any has, and \
            the unfair ones have."
            .to_owned(),
        x: Axis::new("decisions").within(0.0, STEPS as f64),
        y: Axis::new("share of runs").within(0.0, 1.0),
        series: shown.map(line).collect(),
        limits: vec![(LEVEL, "α = 0.05".to_owned())],
        behind: Behind::default(),
    };
    ("guarantee.svg".to_owned(), plot.svg(), plot.description.clone())
}
