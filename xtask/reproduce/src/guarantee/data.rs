//! COMPAS and Berkeley with a guarantee: whether an alarm is raised, and when.

use fairstream_core::{StopToken, Time};
use fairstream_fairness::{Outcome, significant, significant_exp};
use fairstream_guarantee::{EProcess, FairSet, Hypothesis};
use fairstream_report::{Axis, Behind, LinePlot, Series};
use fairstream_scenarios::{Admissions, Compas, Random};

use super::rules::{LEVEL, guaranteed};
use super::simulate::{Times, all};
use crate::compas::scores;
use crate::page::{Finding, grouped, percent, table};
use crate::subject::{CountedTrial, Judged, Subject};

/// Markdown, findings and figures.
type Data = (String, Vec<Finding>, Vec<(String, String, String)>);

pub(super) fn run(runs: u64) -> anyhow::Result<Data> {
    let (mut text, mut findings, mut figures) = berkeley()?;
    let (more, more_findings, more_figures) = broward(runs)?;
    text += &more;
    findings.extend(more_findings);
    figures.extend(more_figures);
    Ok((text, findings, figures))
}

/// A table of the state of every rate at the end.
fn standings(judged: &Judged, when: impl Fn(Time) -> String) -> String {
    let rows = judged.judge.standings().into_iter().filter_map(|standing| {
        let assessment = standing.assessment?;
        let gap = standing.gap.map_or("-".to_owned(), |gap| format!("{gap:.3}"));
        let interval =
            assessment.gap.map_or("-".to_owned(), |gap| format!("{:.3} to {:.3}", gap.low, gap.high));
        let verdict = match (standing.alarm, assessment.outcome) {
            (Some(since), _) => format!("unfair since {}", when(since)),
            (None, Outcome::NotYet { further: Some(further) }) => {
                format!("{}; about {further} trials more", assessment.verdict())
            }
            _ => assessment.verdict().to_owned(),
        };
        let threshold = assessment.log_threshold.map_or("-".to_owned(), significant_exp);
        Some(vec![standing.title, gap, interval, significant_exp(assessment.log_e_value), threshold, verdict])
    });
    table(&["", "gap", "gap is between", "e-value", "alarm at", "verdict"], rows)
}

/// The logarithm of the evidence over time.
fn figure(
    judged: &Judged,
    name: &str,
    title: &str,
    x: Axis,
    place: impl Fn(Time) -> f64,
) -> (String, String, String) {
    let threshold = judged.thresholds.first().copied().unwrap_or(20.0).log10();
    let lines = judged.evidence.iter();
    let series = lines.map(|(name, points)| {
        let points = points.iter().map(|(time, e_value)| (place(*time), e_value.clamp(1e-3, 1e300).log10()));
        // The legend is narrow, and the rate is enough.
        Series::new(name.rsplit(", ").next().unwrap_or(name), points.collect())
    });
    let plot = LinePlot {
        title: title.to_owned(),
        description: "The logarithm to the base 10 of the evidence against fairness over time; an alarm is raised where it \
            reaches the line."
            .to_owned(),
        x,
        y: Axis::new("log10 of the e-value"),
        series: series.collect(),
        limits: vec![(threshold, format!("alarm: {}", significant(10_f64.powf(threshold))))],
        behind: Behind::default(),
    };
    (name.to_owned(), plot.svg(), plot.description.clone())
}

fn berkeley() -> anyhow::Result<Data> {
    let subject = Subject::of("guarantee/admissions.toml", &[])?;
    let source = Admissions { seed: 1, ..Admissions::default() };
    let judged = subject.judge(&mut *source.source(&subject.request())?)?;
    // There is one applicant per minute.
    let applicant = |time: Time| format!("applicant {}", time.0 / 60_000_000_000);
    let overall = judged.alarms.iter().find(|(stream, _)| stream == "demographic_parity");
    let overall = overall.map_or("no alarm".to_owned(), |(_, time)| format!("alarm at {}", applicant(*time)));
    let within =
        judged.alarms.iter().filter(|(stream, _)| stream == "conditional_statistical_parity").count();
    let mut shown = judged.clone();
    shown.evidence.retain(|name, _| !name.starts_with("conditional"));
    Ok((
        format!(
            "\nBerkeley 1973 (`specs/guarantee/admissions.toml`), in one random order of the applicants:\n\n{}",
            standings(&judged, applicant)
        ),
        vec![
            Finding::new("Berkeley: demographic parity", "-", overall),
            Finding::new("Berkeley: within departments", "-", format!("{within} alarms in 6 departments")),
        ],
        vec![figure(
            &shown,
            "guarantee-berkeley.svg",
            "Berkeley 1973: evidence against fairness",
            Axis::new("applicants").within(0.0, 4526.0),
            |time| time.0 as f64 / 60e9,
        )],
    ))
}

/// The people of COMPAS, with groups that are dealt out at random: how often that raises an alarm.
fn shuffled(trials: &[CountedTrial], tolerance: f64, runs: u64) -> Times {
    let mut groups: Vec<&str> = trials.iter().map(|trial| trial.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    let number = |name: &str| groups.iter().position(|group| *group == name).unwrap_or_default();
    let numbers: Vec<usize> = trials.iter().map(|trial| number(&trial.group)).collect();
    // Two rates share the guarantee. Before the first alarm each has half of it.
    let rate = |trial: &CountedTrial| usize::from(trial.rate.ends_with("true_positive"));
    let hypothesis = Hypothesis { level: LEVEL / 2.0, ..guaranteed(FairSet::Difference(tolerance)) };
    let run = |seed: u64| {
        let (mut random, mut numbers) = (Random::new(seed), numbers.clone());
        for last in (1..numbers.len()).rev() {
            let other = ((random.fraction() * (last + 1) as f64) as usize).min(last);
            numbers.swap(last, other);
        }
        let mut e_processes = [EProcess::default(), EProcess::default()];
        // An e-process numbers groups in the order in which they come.
        let mut arrived: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        for (trial, group) in trials.iter().zip(numbers) {
            let (e_process, arrived) = (&mut e_processes[rate(trial)], &mut arrived[rate(trial)]);
            let place = arrived.iter().position(|known| *known == group).unwrap_or_else(|| {
                arrived.push(group);
                arrived.len() - 1
            });
            e_process.count(&hypothesis, place, trial.value, trial.ended.0);
            if e_process.look() && e_process.exceeds_threshold(&hypothesis) {
                return 0;
            }
        }
        u64::MAX
    };
    let mut alarms = all(runs, run);
    alarms.sort_unstable();
    Times(alarms)
}

fn broward(runs: u64) -> anyhow::Result<Data> {
    let Some(path) = scores()? else {
        let skipped = "\n**Skipped**: there is no COMPAS data; set FAIRSTREAM_COMPAS to compas-scores.csv\n";
        return Ok((skipped.to_owned(), Vec::new(), Vec::new()));
    };
    let subject = Subject::of("guarantee/compas.toml", &[])?;
    let compas = Compas::open(&path.to_string_lossy(), "race", &StopToken::default())?;
    let judged = subject.judge(&mut *compas.clone().source(&subject.request())?)?;
    let trials = subject.trials(&mut *compas.source(&subject.request())?)?;
    let [exact, tolerant] = [0.0, 0.1].map(|tolerance| shuffled(&trials, tolerance, runs));
    let day = |time: Time| time.for_people().chars().take(10).collect::<String>();
    let alarm = |stream: &str| {
        let found = judged.alarms.iter().find(|(of, _)| of == stream);
        found.map_or("no alarm".to_owned(), |(_, time)| format!("alarm on {}", day(*time)))
    };
    const DAY: f64 = 86_400e9;
    let months = (0..10).map(|quarter| {
        let month = format!("{}-{:02}-01", 2015 + quarter / 4, quarter % 4 * 3 + 1);
        (month.parse::<Time>().map_or(0.0, |time| time.0 as f64 / DAY), month[..7].to_owned())
    });
    let from = "2014-12-25".parse::<Time>().map_or(0.0, |time| time.0 as f64 / DAY);
    let last = judged.evidence.values().filter_map(|points| points.last());
    let to = last.map(|(time, _)| time.0 as f64 / DAY).fold(from + 1.0, f64::max);
    Ok((
        format!(
            "\nCOMPAS (`specs/guarantee/compas.toml`), all groups that the data has; the first people count on \
             2015-01-01, after two years:\n\n{}\nThe same people, with groups that are dealt out at random, in {} ways: an alarm in \
             {} of them with a tolerance of 0, in {} with 0.1.\n",
            standings(&judged, day),
            grouped(runs),
            exact.percent(),
            tolerant.percent()
        ),
        vec![
            Finding::new("COMPAS: true positive rates", "-", alarm("equalized_odds_true_positive")),
            Finding::new("COMPAS: false positive rates", "-", alarm("equalized_odds_false_positive")),
            Finding::new(
                "COMPAS with shuffled groups, tolerance 0: alarms",
                "at most 5 %",
                percent(exact.share()),
            ),
        ],
        vec![figure(
            &judged,
            "guarantee-compas.svg",
            "COMPAS, score > 6: evidence against fairness",
            Axis::new("day").within(from, to).ticks(months.collect()),
            |time| time.0 as f64 / DAY,
        )],
    ))
}
