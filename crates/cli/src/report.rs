//! What a run came to → a report for people.

use fairstream_core::{Counts, Time};
use fairstream_fairness::{
    Comparison, Compiled, Course, Explanation, GroupStanding, Interval, Judge, Outcome, Rule, Standing,
    significant,
};
use fairstream_report::{Alarm, Axis, Behind, Group, LinePlot, Page, Section, Series, State};

use crate::args::RunArguments;
use crate::kinds::{self, Address};
use crate::load::Monitor;
use crate::progress::{counted, grouped};
use crate::run;

/// `fairstream report`: a run whose verdicts go to a page, and to the console.
pub(crate) fn report(mut arguments: RunArguments) -> anyhow::Result<crate::Outcome> {
    if !arguments.to.iter().any(|to| kinds::is_report(&Address::parse(to))) {
        arguments.to.splice(0..0, ["report.html".to_owned()]);
    }
    if arguments.to.len() == 1 {
        arguments.to.push("console".to_owned());
    }
    run::run(&arguments)
}

/// What a report is about.
pub(crate) struct Subject {
    /// The fairness file as it stands.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) inputs: Vec<String>,
    /// The command that was run.
    pub(crate) command: String,
}

impl Subject {
    pub(crate) fn of(arguments: &RunArguments, monitor: &Monitor) -> Subject {
        let path = &arguments.input.spec;
        let quoted = |word: String| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        };
        let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
        Subject {
            file: path.display().to_string(),
            // It has been read before: if it is gone since, the page can do without.
            text: std::fs::read_to_string(path).unwrap_or_default(),
            inputs: monitor.inputs.iter().map(|input| input.location.clone()).collect(),
            command: format!("fairstream {}", words.join(" ")),
        }
    }
}

/// Sections that a person still reads.
const SECTIONS: usize = 40;
/// Groups with a line of their own; of more, those that are furthest apart.
const LINES: usize = 7;

pub(crate) fn page(
    judge: &Judge,
    compiled: &Compiled,
    counts: &Counts,
    subject: &Subject,
    is_complete: bool,
) -> Page {
    let mut standings = judge.standings();
    // What is worst first; a stable sort keeps the order of the file otherwise.
    standings.sort_by_key(|standing| (standing.alarm.is_none(), standing.raised == 0));
    let explanation = Explanation::of(compiled.file());
    let title = compiled.file().title().to_owned();
    let sections: Vec<Section> =
        standings.iter().take(SECTIONS).map(|standing| section(judge, standing, counts)).collect();
    let all = |states: &[State]| sections.iter().all(|section| states.contains(&section.state));
    let state = match () {
        () if standings.iter().any(|standing| standing.raised > 0) => State::Unfair,
        () if !sections.is_empty() && all(&[State::Fair]) => State::Fair,
        () if !sections.is_empty() && all(&[State::Fair, State::NoAlarm]) => State::NoAlarm,
        () => State::Unknown,
    };
    let reached = counts.reached.map_or_else(|| "nothing".to_owned(), Time::for_people);
    let so_far = if is_complete { "" } else { "; the run was ended before its input" };
    Page {
        subtitle: format!("{}, up to {reached}{so_far}", counted(counts.evaluated, "event")),
        state,
        verdict: verdict(judge, &standings),
        trial: explanation.trial,
        left_out: standings.len().saturating_sub(SECTIONS),
        sections,
        quality: quality(counts, &standings, subject),
        texts: vec![
            (format!("The fairness file, {}", subject.file), subject.text.clone()),
            ("What it comes to in RTLola".to_owned(), compiled.rtlola().to_owned()),
        ],
        again: subject.command.clone(),
        made_by: format!("Written by fairstream {}.", env!("CARGO_PKG_VERSION")),
        title,
    }
}

/// The whole in a sentence or two.
fn verdict(judge: &Judge, standings: &[Standing]) -> Vec<String> {
    let raised: Vec<&Standing> = standings.iter().filter(|standing| standing.raised > 0).collect();
    if let [first, others @ ..] = raised.as_slice() {
        let mut sentences = vec![format!("{}: {}", capitalised(&first.title), sentence(judge, first))];
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().take(3).map(|standing| standing.title.as_str()).collect();
            let more = others.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            sentences.push(format!("Alarms also of {}{more}.", names.join(", ")));
        }
        return sentences;
    }
    match standings {
        [] => vec!["No trial has been counted.".to_owned()],
        standings => standings
            .iter()
            .take(3)
            .map(|standing| format!("{}: {}", capitalised(&standing.title), sentence(judge, standing)))
            .collect(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// How a rate stands, in words.
fn sentence(judge: &Judge, standing: &Standing) -> String {
    let compared: Vec<&GroupStanding> = standing.groups.iter().filter(|group| group.has_evidence).collect();
    let by = |group: &&&GroupStanding| group.estimate.unwrap_or_default();
    let highest = compared.iter().max_by(|a, b| by(a).total_cmp(&by(b)));
    let lowest = compared.iter().min_by(|a, b| by(a).total_cmp(&by(b)));
    let mut text = match (highest, lowest) {
        (Some(highest), Some(lowest)) if highest.values != lowest.values => {
            let (high, low) = (by(&highest), by(&lowest));
            let apart = if standing.is_mean {
                format!("{} below", significant(high - low))
            } else {
                format!("{:.1} points below", (high - low) * 100.0)
            };
            format!(
                "{} is {apart} {} ({} against {}).",
                lowest.group, highest.group, lowest.shown, highest.shown
            )
        }
        (Some(only), _) => format!("only {} has enough trials to be judged ({}).", only.group, only.shown),
        _ => "no group has enough trials to be judged.".to_owned(),
    };
    let course = course(judge, standing);
    let first = course.and_then(|course| course.alarms.first());
    match (standing.alarm, first) {
        (Some(since), _) => {
            let last = course.and_then(|course| course.alarms.last());
            let after =
                last.map_or(String::new(), |alarm| format!(", {} in", counted(alarm.trials, "trial")));
            text += &format!(" Alarm since {}{after}.", since.for_people());
        }
        (None, Some(first)) => {
            text += &format!(
                " There is no alarm any more; the first of {} was raised at {}.",
                grouped(standing.raised),
                first.since.for_people()
            );
        }
        (None, None) => text += &format!(" {}.", fair(standing)),
    }
    text
}

fn fair(standing: &Standing) -> String {
    match standing.assessment.as_ref().map(|assessment| assessment.outcome) {
        Some(Outcome::Fair) => "Fair so far: the gap is within the tolerance".to_owned(),
        Some(Outcome::NotYet { further: Some(further) }) => {
            format!(
                "Not enough evidence yet: about {} more would settle it at this gap",
                counted(further, "trial")
            )
        }
        Some(Outcome::NotYet { further: None }) => "Not enough evidence yet".to_owned(),
        Some(Outcome::Unfair) => "Unfair".to_owned(),
        None => "No alarm".to_owned(),
    }
}

fn course<'a>(judge: &'a Judge, standing: &Standing) -> Option<&'a Course> {
    let (rule, rate) = standing.place;
    judge.history()?.course(rule, rate, &standing.stratum_key)
}

fn section(judge: &Judge, standing: &Standing, counts: &Counts) -> Section {
    let rule = &judge.rules()[standing.place.0];
    let outcome = standing.assessment.as_ref().map(|assessment| assessment.outcome);
    let compared = standing.groups.iter().filter(|group| group.has_evidence).count();
    let state = match outcome {
        _ if standing.raised > 0 => State::Unfair,
        Some(Outcome::Fair) => State::Fair,
        Some(_) => State::Unknown,
        // The rule of the paper says when there is an alarm, and nothing of how sure it is that there is none.
        None if compared > 1 || rule.comparison == Comparison::Highest && compared > 0 => State::NoAlarm,
        None => State::Unknown,
    };
    let course = course(judge, standing);
    let alarms = course.map_or(&[][..], |course| &course.alarms).iter().map(|alarm| Alarm {
        since: alarm.since.for_people(),
        trials: counted(alarm.trials, "trial"),
        until: alarm.until.map_or_else(String::new, Time::for_people),
    });
    Section {
        title: standing.title.clone(),
        question: standing.question.clone(),
        state,
        verdict: sentence(judge, standing),
        figure: course.and_then(|course| figure(rule, standing, course, counts.reached)),
        groups: standing.groups.iter().map(|one| group(rule, standing, one)).collect(),
        parameters: parameters(rule, standing),
        alarms: alarms.collect(),
    }
}

fn group(rule: &Rule, standing: &Standing, one: &GroupStanding) -> Group {
    let pending = if rule.has_horizon { grouped(one.pending) } else { String::new() };
    let positives = if standing.is_mean { significant(one.numerator) } else { grouped(one.numerator as u64) };
    Group {
        name: one.group.clone(),
        trials: grouped(one.denominator),
        positives,
        pending,
        estimate: one.shown.clone(),
        interval: one
            .interval
            .map_or_else(String::new, |Interval { low, high }| format!("{low:.3} and {high:.3}")),
        remark: if one.has_evidence { String::new() } else { "too few trials".to_owned() },
    }
}

fn parameters(rule: &Rule, standing: &Standing) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, meaning: &str| [name.to_owned(), value, meaning.to_owned()];
    let tolerance = match rule.comparison {
        Comparison::Difference => "ε: estimates of two groups may differ by this much",
        Comparison::Ratio => "the lowest estimate may be this share of the highest",
        Comparison::Highest => "no estimate may be higher than this",
    };
    let mut rows = vec![
        row("tolerance", rule.tolerance.to_string(), tolerance),
        row("clear", rule.clear.to_string(), "an alarm is cleared once the gap is no more than this"),
        row("prior", rule.prior.to_string(), "γ: what is believed before the first trial"),
        row("confidence", rule.confidence.to_string(), "κ: how many trials that belief is worth"),
        row("min_trials", rule.min_trials.to_string(), "a group with fewer trials is not compared"),
    ];
    if let Some(assessment) = &standing.assessment {
        let e_value = significant(assessment.e_value);
        rows.push(row("e-value", e_value, "the evidence against fairness; 1 is none"));
        if let Some(threshold) = assessment.threshold {
            rows.push(row("threshold", significant(threshold), "the e-value at which there is an alarm"));
        }
        if let Some(p_value) = assessment.p_value {
            rows.push(row(
                "p-value",
                significant(p_value),
                "how often a fair system shows as much, at most, ever",
            ));
        }
    }
    rows
}

/// What was read, and what was not.
fn quality(counts: &Counts, standings: &[Standing], subject: &Subject) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut groups: Vec<&str> =
        standings.iter().flat_map(|standing| &standing.groups).map(|group| group.values.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    vec![
        row("read from", subject.inputs.join(", ")),
        row("rows read", grouped(counts.read)),
        row("rejected", format!("{}, {} of them too late", grouped(counts.rejected), grouped(counts.late))),
        row("outside of the span", grouped(counts.outside)),
        row("judged", counted(counts.evaluated, "event")),
        row("groups", grouped(groups.len() as u64)),
    ]
}

/// Estimates over time, with what the tolerance allows and when there was an alarm.
fn figure(rule: &Rule, standing: &Standing, course: &Course, reached: Option<Time>) -> Option<LinePlot> {
    let points = |curve: &fairstream_fairness::Curve| -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            curve.points().into_iter().map(|(time, value)| (time.0 as f64, value)).collect();
        // A value holds until there is another.
        if let (Some(end), Some((_, last))) = (reached, points.last().copied()) {
            points.push((end.0 as f64, last));
        }
        points
    };
    let mut groups: Vec<(&GroupStanding, Vec<(f64, f64)>)> = standing
        .groups
        .iter()
        .filter_map(|group| Some((group, points(course.groups.get(&group.values)?))))
        .collect();
    if groups.is_empty() {
        return None;
    }
    let is_crowded = groups.len() > LINES;
    if is_crowded {
        groups.sort_by(|(a, _), (b, _)| {
            b.estimate.unwrap_or_default().total_cmp(&a.estimate.unwrap_or_default())
        });
    }
    let count = groups.len();
    let mut others = 0;
    let series: Vec<Series> = groups
        .into_iter()
        .enumerate()
        .map(|(place, (group, points))| {
            if is_crowded && (LINES / 2..count - LINES / 2).contains(&place) {
                others += 1;
                let name =
                    if others == 1 { format!("{} others", count - LINES / 2 * 2) } else { String::new() };
                return Series::new(&name, points).faint();
            }
            Series::new(&group.group, points)
        })
        .collect();
    let begin = course.highest.points().first().map(|(time, _)| *time)?;
    // Of one moment there is nothing to draw.
    let end = reached.filter(|end| *end > begin)?;
    let stretches =
        course.alarms.iter().map(|alarm| (alarm.since.0 as f64, alarm.until.unwrap_or(end).0 as f64));
    let highest = points(&course.highest);
    let (band, limits) = match rule.comparison {
        Comparison::Difference => {
            (highest.iter().map(|(at, high)| (*at, high - rule.tolerance, *high)).collect(), Vec::new())
        }
        Comparison::Ratio => {
            (highest.iter().map(|(at, high)| (*at, high * rule.tolerance, *high)).collect(), Vec::new())
        }
        Comparison::Highest => (Vec::new(), vec![(rule.tolerance, format!("tolerance {}", rule.tolerance))]),
    };
    let y = Axis::new("estimate");
    Some(LinePlot {
        title: standing.title.clone(),
        description: format!(
            "Estimates of {} over time. {}",
            counted(count as u64, "group"),
            match course.alarms.len() {
                0 => "There was no alarm.".to_owned(),
                1 => "There was one alarm.".to_owned(),
                many => format!("There were {many} alarms."),
            }
        ),
        x: Axis::new("time").within(begin.0 as f64, end.0 as f64).ticks(times(begin, end)),
        y: if standing.is_mean { y } else { y.within(0.0, 1.0) },
        series,
        limits,
        behind: Behind {
            band,
            band_name: "within the tolerance".to_owned(),
            stretches: stretches.collect(),
            stretch_name: "alarm".to_owned(),
        },
    })
}

/// Ticks of a time axis; days alone where it is of many.
fn times(begin: Time, end: Time) -> Vec<(f64, String)> {
    const DAY: i64 = 86_400_000_000_000;
    const TICKS: i64 = 4;
    let span = end.0.saturating_sub(begin.0);
    let tick = |number: i64| {
        let exact = Time(begin.0.saturating_add(span / TICKS * number));
        let is_date = exact.for_people().contains('T');
        // Whole seconds, or days, are enough for a tick.
        let unit = if span > 8 * DAY && is_date { DAY } else { 1_000_000_000 };
        let rounded = if span > 8 * unit { Time(exact.0 - exact.0.rem_euclid(unit)) } else { exact };
        let text = rounded.for_people();
        let text = if unit == DAY { text.split('T').next().unwrap_or_default().to_owned() } else { text };
        (rounded.max(begin).0 as f64, text)
    };
    (0..=TICKS).map(tick).collect()
}
