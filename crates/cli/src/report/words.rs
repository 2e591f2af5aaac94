//! Sentences on the state of rates.

use fairstream_fairness::{
    AlarmBasis, AlarmedGroup, Comparison, GroupStanding, Interval, Judge, Outcome, Rule, RuleRate, Standing,
    significant, significant_exp,
};

use super::rate_history;
use crate::progress::{counted, grouped};
use crate::standings::any_stratum;

/// The verdict on the whole run, in up to three sentences.
pub(super) fn verdict(judge: &Judge, standings: &[Standing]) -> Vec<String> {
    let named =
        |standing: &Standing| format!("{}: {}", capitalised(&standing.title), sentence(judge, standing));
    let raised: Vec<&Standing> = standings.iter().filter(|standing| standing.raised > 0).collect();
    if let [first, others @ ..] = raised.as_slice() {
        let mut sentences = vec![named(first)];
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().take(3).map(|standing| standing.title.as_str()).collect();
            let more = others.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            sentences.push(format!("Also alarms for {}{more}.", names.join(", ")));
        }
        return sentences;
    }
    let of_strata = any_stratum(judge).into_iter().map(|sentence| format!("{}.", capitalised(&sentence)));
    match standings {
        [] => vec!["No trial has been counted.".to_owned()],
        standings => of_strata.chain(standings.iter().map(named)).take(3).collect(),
    }
}

/// A paragraph on the certainty of the verdict.
pub(super) fn certainty(rule: &Rule, standing: &Standing) -> String {
    let Some(guarantee) = &rule.guarantee else {
        return "How certain is this? The rule `map` gives no bound: fair systems raise such alarms too, and more of them the \
                longer they run. A `guarantee` in the fairness file bounds how many do."
            .to_owned();
    };
    let mut text = format!("How certain is this? {}", guarantee.promise);
    let Some(assessment) = &standing.assessment else { return text };
    if let Some(log_p_value) = assessment.log_p_value.filter(|_| standing.raised > 0) {
        text += &format!(
            " If the system were fair, the chance of ever seeing this much evidence{} would be at most {}.",
            if rule.shares_guarantee() { " here, not anywhere in this report," } else { "" },
            significant_exp(log_p_value)
        );
    }
    if let Some(Interval { low, high }) = assessment.gap {
        let what = match rule.comparison {
            Comparison::Difference => "gap",
            Comparison::Ratio => "ratio",
            Comparison::Highest => "highest rate",
        };
        text += &format!(" The {what} lies between {low:.3} and {high:.3}.");
    }
    text
}

/// A sentence on the state of a rate.
pub(super) fn sentence(judge: &Judge, standing: &Standing) -> String {
    let rule = &judge.rules()[standing.rate_index.0];
    let mut text = apart(rule, standing);
    if let Some(window) = rule.window_in_words().filter(|_| standing.gap.is_some()) {
        text = format!("{}: {text}", capitalised(&window));
    }
    let rate = &rule.rates[standing.rate_index.1];
    let rate_history = rate_history(judge, standing);
    let last = rate_history.and_then(|rate_history| rate_history.alarms.last());
    if let Some(basis) = &standing.alarm_basis {
        let about = about(rule, rate, basis, last.map(|alarm| alarm.trials));
        let now = now(rule, standing, basis).unwrap_or(text);
        return format!("{about} {now}{}", why_within(rule, standing));
    }
    match rate_history.and_then(|rate_history| rate_history.alarms.first()) {
        Some(first) => {
            let raised = match (standing.raised, first.until) {
                (1, Some(until)) => {
                    format!("one was raised from {} to {}", rule.when(first.since), rule.when(until))
                }
                (many, _) => {
                    format!(
                        "the first of {} was raised at {}",
                        counted(many, "alarm"),
                        rule.when(first.since)
                    )
                }
            };
            text += &format!(" No alarm now; {raised}.");
        }
        None => text += &format!(" {}.", fair(standing)),
    }
    text
}

/// What the alarm is about: its groups, as they were when it was raised. What follows is about now.
fn about(rule: &Rule, rate: &RuleRate, basis: &AlarmBasis, trials: Option<u64>) -> String {
    let groups: Vec<String> = basis.groups.iter().map(AlarmedGroup::label).collect();
    let worse = basis.worse_off(rate).map(|group| format!("; {} was worse off", group.label()));
    let after = trials.map(|trials| match rule.window_in_words() {
        None => format!(", after {},", counted(trials, "trial")),
        Some(window) => format!(", with {} {window},", counted(trials, "trial")),
    });
    let after = after.unwrap_or_default();
    format!(
        "The alarm of {}{after} is about {}{}.",
        rule.when(basis.since),
        groups.join(" and "),
        worse.unwrap_or_default()
    )
}

/// Why there is an alarm although the interval of the gap contains the tolerance, if it does.
fn why_within(rule: &Rule, standing: &Standing) -> String {
    let interval = standing.assessment.as_ref().and_then(|assessment| assessment.gap);
    let Some(Interval { low, high }) = interval.filter(|of| (of.low..=of.high).contains(&rule.tolerance))
    else {
        return String::new();
    };
    format!(
        " The interval of what is compared, {low:.3} to {high:.3}, contains the tolerance: it is made to hold for all groups at \
         all times together, and is wider than the evidence that an alarm needs, which is its e-value."
    )
}

/// The groups that an alarm is about, as they are now.
fn now(rule: &Rule, standing: &Standing, basis: &AlarmBasis) -> Option<String> {
    let within = rule.window_in_words().map(|window| format!(", {window}")).unwrap_or_default();
    let find = |named: &AlarmedGroup| standing.groups.iter().find(|group| group.values == named.values);
    let groups: Option<Vec<&GroupStanding>> = basis.groups.iter().map(find).collect();
    let shown = |group: &GroupStanding| {
        let of = match standing.is_mean {
            true => counted(group.denominator, "trial"),
            false => format!("{} of {}", grouped(group.numerator as u64), grouped(group.denominator)),
        };
        format!("{} {} ({of})", group.group, group.shown)
    };
    let mut groups = groups?;
    groups.sort_by(|one, other| one.share.unwrap_or_default().total_cmp(&other.share.unwrap_or_default()));
    let tolerance = basis.tolerance;
    Some(match (groups.as_slice(), standing.comparison) {
        ([low, high], Comparison::Difference) if !standing.is_mean => {
            let apart = (high.share.unwrap_or_default() - low.share.unwrap_or_default()) * 100.0;
            format!(
                "Now{within}: {} is {apart:.1} percentage points below {}; {} are allowed.",
                shown(low),
                shown(high),
                significant(tolerance * 100.0)
            )
        }
        ([low, high], Comparison::Ratio) if high.share.is_some_and(|share| share > 0.0) => {
            let ratio = low.share.unwrap_or_default() / high.share.unwrap_or_default();
            format!(
                "Now{within}: {} is {ratio:.3} of {}; {tolerance} or more is allowed.",
                shown(low),
                shown(high)
            )
        }
        (groups, _) => {
            let groups: Vec<String> = groups.iter().copied().map(shown).collect();
            format!("Now{within}: {}; {tolerance} is allowed.", groups.join(" and "))
        }
    })
}

/// A sentence on the gap between groups, and the tolerance.
fn apart(rule: &Rule, standing: &Standing) -> String {
    let compared: Vec<&GroupStanding> = standing.groups.iter().filter(|group| group.has_evidence).collect();
    if let Some(reference) = rule.reference_label() {
        return apart_from(rule, standing, &reference, &compared);
    }
    let by = |group: &&&GroupStanding| group.estimate.unwrap_or_default();
    let highest = compared.iter().max_by(|a, b| by(a).total_cmp(&by(b)));
    let lowest = compared.iter().min_by(|a, b| by(a).total_cmp(&by(b)));
    let (Some(highest), Some(lowest)) = (highest, lowest) else {
        return "No group has enough trials to be judged.".to_owned();
    };
    let tolerance = rule.tolerance;
    if rule.comparison == Comparison::Highest {
        return format!(
            "{} has the highest rate, {}; {tolerance} is allowed.",
            highest.group,
            highest.compared()
        );
    }
    if highest.values == lowest.values {
        return format!("Only {} has enough trials to be judged ({}).", highest.group, highest.compared());
    }
    let (high, low) = (by(&highest), by(&lowest));
    let (far, allowed) = match rule.comparison {
        Comparison::Ratio => (
            format!("is at {:.3} times the rate of {}", standing.gap.unwrap_or_default(), highest.group),
            format!("{tolerance} or more is allowed"),
        ),
        _ if standing.is_mean => (
            format!("is {} below {}", significant(high - low), highest.group),
            format!("{tolerance} is allowed"),
        ),
        _ => (
            format!("is {:.1} percentage points below {}", (high - low) * 100.0, highest.group),
            format!("{} are allowed", significant(tolerance * 100.0)),
        ),
    };
    if high == low {
        return format!("All groups that are compared are at {}; {allowed}.", highest.compared());
    }
    let is_burden = rule.rates[standing.rate_index.1].favourable == Some(false);
    if is_burden && rule.comparison == Comparison::Difference && !standing.is_mean {
        return format!(
            "{} is {:.1} percentage points above {} ({} against {}); {allowed}.",
            highest.group,
            (high - low) * 100.0,
            lowest.group,
            highest.compared(),
            lowest.compared()
        );
    }
    let is_estimated = [highest, lowest].iter().any(|group| group.estimate_shown.is_some());
    let against = if is_estimated { "estimated at " } else { "" };
    format!(
        "{} {far} ({against}{} against {}); {allowed}.",
        lowest.group,
        lowest.compared(),
        highest.compared()
    )
}

/// The same for the reference group and the group that is furthest from it.
fn apart_from(rule: &Rule, standing: &Standing, reference: &str, compared: &[&GroupStanding]) -> String {
    if let Some(reason) = standing.without_reference(rule) {
        return format!("{}.", capitalised(&reason));
    }
    let rate = |group: &GroupStanding| group.estimate.unwrap_or_default();
    let Some(own) = compared.iter().find(|group| group.is_reference) else { return String::new() };
    let distance = |group: &GroupStanding| match rule.comparison {
        Comparison::Ratio => -rate(group).min(rate(own)) / rate(group).max(rate(own)).max(f64::MIN_POSITIVE),
        Comparison::Difference | Comparison::Highest => (rate(group) - rate(own)).abs(),
    };
    let others = compared.iter().filter(|group| !group.is_reference);
    let Some(other) = others.max_by(|a, b| distance(a).total_cmp(&distance(b))) else {
        return format!("Only {reference} has enough trials to be judged ({}).", own.compared());
    };
    let (tolerance, apart) = (rule.tolerance, rate(other) - rate(own));
    let side = if apart < 0.0 { "below" } else { "above" };
    let (far, allowed) = match rule.comparison {
        Comparison::Ratio => (
            format!(
                "is {side} the reference {reference}, at a ratio of {:.3}",
                standing.gap.unwrap_or_default()
            ),
            format!("{tolerance} or more is allowed"),
        ),
        _ if standing.is_mean => (
            format!("is {} {side} the reference {reference}", significant(apart.abs())),
            format!("{tolerance} is allowed"),
        ),
        _ => (
            format!("is {:.1} percentage points {side} the reference {reference}", apart.abs() * 100.0),
            format!("{} are allowed", significant(tolerance * 100.0)),
        ),
    };
    if apart == 0.0 {
        return format!("All groups that are compared are at {}; {allowed}.", own.compared());
    }
    let is_estimated = [own, other].iter().any(|group| group.estimate_shown.is_some());
    let against = if is_estimated { "estimated at " } else { "" };
    format!("{} {far} ({against}{} against {}); {allowed}.", other.group, other.compared(), own.compared())
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

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
