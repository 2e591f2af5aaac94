//! Alarms with a guarantee: how often fair systems raise them, how soon unfair systems do, when systems are called fair,
//! and when alarms would have been raised in Broward County and in Berkeley.

mod bounds;
mod data;
mod detector;
mod rules;
mod several;
mod simulate;
mod systems;

use fairstream_guarantee::{FairSet, Hypothesis};
use fairstream_report::{Axis, Behind, LinePlot, Series};

use self::bounds::{Oracle, least_decisions};
use self::rules::{LEVEL, Rule, Watch, guaranteed};
use self::simulate::{Times, first_alarms, watch};
use self::systems::{Sway, System, TOLERANCE};
use crate::Extent;
use crate::page::{Finding, Outcome, grouped, percent, table};

/// Decisions of a run.
const DECISIONS: u64 = 10_000;

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let runs = extent.guarantee_runs;
    let (mut details, mut findings, curves) = rules(runs);
    let (more, worst) = fair_systems(runs);
    details += &more;
    findings.push(Finding::new("worst of all fair systems, guaranteed", "at most 5 %", percent(worst)));
    let (more, worst) = daily_patterns(runs.div_ceil(4));
    details += &more;
    findings.push(Finding::new("worst of all daily patterns without jumps", "at most 5 %", percent(worst)));
    let (more, worst) = several::several(runs, DECISIONS);
    details += &more;
    findings.push(Finding::new("worst of all that share a promise", "at most 5 %", percent(worst)));
    details += &conditions(runs.div_ceil(4));
    details += &delays(runs.div_ceil(4));
    let (more, wrong) = called_fair(runs.div_ceil(4));
    details += &more;
    findings.push(Finding::new("unfair at every instant, and called fair", "at most 5 %", percent(wrong)));
    details += &detector::changes(runs.div_ceil(10));
    details += &detector::waits(runs.div_ceil(40));
    details += &detector::endings(runs.div_ceil(40));
    let (more, data_findings, mut figures) = data::run(runs.div_ceil(4))?;
    details += &more;
    figures.insert(0, figure(&curves));
    findings.extend(data_findings);
    Ok(Outcome {
        setting: "Not an experiment of the paper. It measures how often the rule of the paper raises an alarm although a \
            system is fair, if it is checked after every decision, and how a guarantee \
            (`guarantee = { false_alarms = 0.05 }`) changes that. The column `paper` has what is promised. Intervals, in \
            brackets, are those of Clopper and Pearson with a confidence of 95 %."
            .to_owned(),
        findings,
        details,
        figures,
        ..Outcome::default()
    })
}

/// The share of runs that have raised an alarm, by rule and system.
type Curves = Vec<(Rule, String, Times)>;

/// All rules on four systems.
fn rules(runs: u64) -> (String, Vec<Finding>, Curves) {
    let (mut rows, mut curves, mut findings) = (Vec::new(), Vec::new(), Vec::new());
    for rule in Rule::ALL {
        let four = systems::four();
        let of: Vec<Times> = four
            .iter()
            .map(|system| first_alarms(|| rule.begin(system.fair), system, runs, DECISIONS))
            .collect();
        let [fair, edge, unfair, little] = of.as_slice() else { continue };
        rows.push(vec![
            rule.name().to_owned(),
            percent(fair.share()),
            percent(edge.share()),
            format!("{} / {}", unfair.by(0.5), unfair.by(0.95)),
            format!("{} ({} of runs)", little.by(0.5), percent(little.share())),
        ]);
        let name = if rule == Rule::Map { "`map`" } else { "guaranteed" };
        if [Rule::Map, Rule::Block].contains(&rule) {
            let at_most = if rule == Rule::Map { "-" } else { "at most 5 %" };
            findings.push(Finding::new(format!("fair (0.5, 0.5), {name}"), at_most, percent(fair.share())));
            findings.push(Finding::new(format!("edge (0.5, 0.4), {name}"), at_most, percent(edge.share())));
        }
        if rule == Rule::Block {
            let of_unfair = format!("{} / {}", unfair.by(0.5), unfair.by(0.95));
            let what = "unfair (0.5, 0.2), guaranteed: median and 95 % of decisions until the alarm";
            findings.push(Finding::new(what, "-", of_unfair));
            findings.push(Finding::new("unfair (0.5, 0.35), guaranteed: median", "-", little.by(0.5)));
        }
        if [Rule::Map, Rule::Block].contains(&rule) {
            curves.extend(four.into_iter().zip(of).map(|(system, times)| (rule, system.name, times)));
        }
    }
    let head = ["rule", "fair: alarms", "edge: alarms", "0.5, 0.2: median / 95 %", "0.5, 0.35: median"];
    let text = format!(
        "Of {} runs of {} decisions each, two groups in turn, α = {LEVEL}, ε = 0.1:\n\n{}",
        grouped(runs),
        grouped(DECISIONS),
        table(&head, rows)
    );
    (text, findings, curves)
}

/// The hypothesis of a system with the guarantee.
fn of(system: &System) -> Hypothesis {
    Hypothesis { are_numbers: system.are_numbers, ..guaranteed(system.fair) }
}

/// Fair systems with the guarantee, and the worst share of alarms.
fn fair_systems(runs: u64) -> (String, f64) {
    let mut worst: f64 = 0.0;
    let rows = systems::fair().into_iter().map(|system| {
        let alarms = watch(&system, &of(&system), runs, DECISIONS, 1).alarms;
        worst = worst.max(alarms.share());
        vec![system.name, alarms.percent()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let text = format!(
        "\nFair systems with the guarantee, {} runs of {} decisions each; at most {} % may raise an alarm:\n\n{}",
        grouped(runs),
        grouped(DECISIONS),
        LEVEL * 100.0,
        table(&["fair system", "alarms"], rows)
    );
    (text, worst)
}

/// Systems that are fair at every instant, while rates and mix follow the time of day; and the worst share of alarms.
fn daily_patterns(runs: u64) -> (String, f64) {
    let sways = [
        ("moderate, ±0.1 and ±0.1", Sway { base: 0.1, mix: 0.1, in_shifts: false }),
        ("strong, ±0.2 and ±0.2", Sway { base: 0.2, mix: 0.2, in_shifts: false }),
        ("jumping twice a day, ±0.25 and ±0.25", Sway { base: 0.25, mix: 0.25, in_shifts: true }),
    ];
    let (mut rows, mut worst) = (Vec::new(), 0.0_f64);
    for (a_day, decisions) in [(50_u64, 10_000), (500, 20_000), (5000, 40_000)] {
        for (name, sway) in sways {
            let mut row = vec![grouped(a_day), name.to_owned()];
            for (fair, gap) in [(TOLERANCE, 0.1), (FairSet::Difference(0.05), 0.0)] {
                let system = System::daily("", fair, a_day as f64, sway, gap);
                // Nothing depends on when one looks but that one looks.
                let alarms = watch(&system, &guaranteed(fair), runs, decisions, a_day).alarms;
                // Jumps break the condition that rates and mix do not change within a block.
                worst = if sway.in_shifts { worst } else { worst.max(alarms.share()) };
                row.push(alarms.percent());
            }
            rows.push(row);
        }
    }
    let head = ["a day", "base rate and mix", "edge (ε 0.1): alarms", "equal (ε 0.05): alarms"];
    let text = format!(
        "\nFair at every instant, while the base rate and the mix of groups follow the time of day; checked once a day, {} \
         runs each. Blocks last 2 hours at most, once they have both groups. Jumps are within blocks, which is not covered:\n\n{}",
        grouped(runs),
        table(&head, rows)
    );
    (text, worst)
}

/// What happens when a condition is broken.
fn conditions(runs: u64) -> String {
    let rows = systems::broken().into_iter().map(|(condition, system)| {
        let alarms = watch(&system, &of(&system), runs, DECISIONS, 1).alarms;
        vec![condition.to_owned(), system.name, alarms.percent()]
    });
    format!(
        "\nSystems that treat groups within the tolerance but break a condition, {} runs of {} decisions each:\n\n{}",
        grouped(runs),
        grouped(DECISIONS),
        table(&["condition", "system", "alarms"], rows)
    )
}

/// How long it takes until an alarm, beside the least that is possible.
fn delays(runs: u64) -> String {
    let one_off = |groups: usize| {
        let mut rates = vec![0.5; groups];
        rates[0] = 0.2;
        rates
    };
    let mut cases: Vec<(System, Vec<f64>, u64)> = Vec::new();
    for rates in [vec![0.5, 0.2], vec![0.5, 0.35], one_off(5), one_off(10), one_off(20)] {
        let name = match rates.len() {
            2 => format!("two groups: {}, {}", rates[0], rates[1]),
            groups => format!("{groups} groups: 0.2, the others 0.5"),
        };
        cases.push((System::even(name, TOLERANCE, &rates), rates, 40_000));
    }
    for (rate, bound) in [(0.15, 0.1), (0.02, 0.01)] {
        let name = format!("upper bound {bound}: two groups at {rate}");
        let system = System::even(name, FairSet::Highest(bound), &[rate, rate]);
        cases.push((system, vec![rate, rate], 40_000));
    }
    let sway = Sway { base: 0.2, mix: 0.2, in_shifts: false };
    let hidden = System::daily(
        "0.15 apart at every instant, hidden by the time of day",
        TOLERANCE,
        500.0,
        sway,
        -0.15,
    );
    cases.push((hidden, vec![0.5, 0.35], 40_000));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for deviation in [0.11, 0.23] {
        let name = format!("means: 0.5, 0.35, standard deviation {deviation}");
        let system = System::numbers(name, [0.5, 0.35], deviation);
        let alarms = watch(&system, &of(&system), runs, 40_000, 1).alarms;
        let unknown = || "-".to_owned();
        rows.push(vec![system.name, unknown(), unknown(), alarms.by(0.5), alarms.by(0.95), unknown()]);
    }
    for (system, rates, decisions) in cases {
        let share = 1.0 / rates.len() as f64;
        let groups: Vec<(f64, f64)> = rates.iter().map(|rate| (share, *rate)).collect();
        let least = least_decisions(system.fair, &groups);
        let alarms = watch(&system, &of(&system), runs, decisions, 1).alarms;
        let ratio = crate::page::quantile(&alarms.0, 0.5).filter(|time| *time < u64::MAX);
        let ratio = ratio.map_or("-".to_owned(), |time| format!("{:.1}", time as f64 / least));
        // What the time of day hides has other rates at every instant.
        let oracle = match system.name.contains("hidden") {
            true => "-".to_owned(),
            false => {
                let begin = || Watch::Oracle(Oracle::new(system.fair, &groups));
                first_alarms(begin, &system, runs, decisions).by(0.5)
            }
        };
        rows.push(vec![system.name, grouped(least as u64), oracle, alarms.by(0.5), alarms.by(0.95), ratio]);
    }
    let head =
        ["unfair system", "least that is possible", "oracle: median", "median", "95 %", "median / least"];
    format!(
        "\nDecisions until the alarm, {} runs each. The least that is possible is ln(1/α) divided by the information in a \
         decision, on average, for a test that knows the rates; the oracle is that test, the likelihood ratio of the rates and the \
         closest fair ones:\n\n{}",
        grouped(runs),
        table(&head, rows)
    )
}

/// How often, and when, systems are called fair; and the worst share of wrong conclusions.
fn called_fair(runs: u64) -> (String, f64) {
    let sway = Sway { base: 0.2, mix: 0.2, in_shifts: false };
    let systems = [
        (System::even("equal: 0.5, 0.5", TOLERANCE, &[0.5, 0.5]), true),
        (System::mixed("equal, groups of 90 % and 10 %", TOLERANCE, vec![(0.9, 0.5), (0.1, 0.5)]), true),
        (System::even("equal and rare: 0.02, 0.02", TOLERANCE, &[0.02, 0.02]), true),
        (System::even("equal, five groups", TOLERANCE, &[0.5; 5]), true),
        (System::even("0.05 apart: 0.5, 0.45", TOLERANCE, &[0.5, 0.45]), true),
        (System::daily("equal, under a strong daily pattern, 500 a day", TOLERANCE, 500.0, sway, 0.0), true),
        (System::even("edge: 0.5, 0.4", TOLERANCE, &[0.5, 0.4]), false),
        (System::daily("edge, under a strong daily pattern, 500 a day", TOLERANCE, 500.0, sway, 0.1), false),
        (
            System::daily(
                "0.15 apart at every instant, hidden by the time of day",
                TOLERANCE,
                500.0,
                sway,
                0.15,
            ),
            false,
        ),
    ];
    let mut worst: f64 = 0.0;
    let rows = systems.into_iter().map(|(system, is_fair)| {
        let fair = watch(&system, &of(&system), runs, 20_000, 8).fair;
        if !is_fair {
            worst = worst.max(fair.share());
        }
        let should = if is_fair { "yes" } else { "no" };
        vec![system.name, should.to_owned(), fair.percent(), fair.by(0.5), fair.by(0.95)]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head = ["system, ε = 0.1", "should be", "called fair", "median", "95 %"];
    let text = format!(
        "\n\"Fair so far\" within {} decisions, {} runs each, until an alarm:\n\n{}",
        grouped(20_000),
        grouped(runs),
        table(&head, rows)
    );
    (text, worst)
}

/// The share of runs that have raised an alarm, over time.
fn figure(curves: &Curves) -> (String, String, String) {
    let line = |(rule, system, alarms): &(Rule, String, Times)| {
        let points = (0..=200).map(|point| {
            let step = point * DECISIONS / 200;
            let raised = alarms.0.partition_point(|alarm| *alarm <= step);
            (step as f64, raised as f64 / alarms.0.len().max(1) as f64)
        });
        let name = if *rule == Rule::Map { "map" } else { "guarantee" };
        let rates = system.split_once(": ").map_or(system.as_str(), |(_, rates)| rates);
        Series::new(&format!("{name}: {rates}"), points.collect())
    };
    let shown =
        curves.iter().filter(|(rule, system, _)| *rule == Rule::Block || !system.starts_with("unfair"));
    let plot = LinePlot {
        title: "Runs that have raised an alarm".to_owned(),
        description: "By the rule map most fair runs have raised an alarm in the end; with a guarantee hardly any has, and \
            the unfair ones have."
            .to_owned(),
        x: Axis::new("decisions").within(0.0, DECISIONS as f64),
        y: Axis::new("share of runs").within(0.0, 1.0),
        series: shown.map(line).collect(),
        limits: vec![(LEVEL, "α = 0.05".to_owned())],
        behind: Behind::default(),
    };
    ("guarantee.svg".to_owned(), plot.svg(), plot.description.clone())
}
