use super::*;
use crate::{Comparison, Every, Guarantee, Outcome};

fn rule(comparison: Comparison, tolerance: f64, clear: f64, min_trials: u64, confidence: f64) -> Rule {
    let rate = RuleRate {
        stream: "parity".to_owned(),
        title: "parity".to_owned(),
        question: String::new(),
        unit: None,
        is_mean: false,
        favourable: None,
    };
    Rule {
        comparison,
        tolerance,
        clear,
        min_trials,
        prior: Some(0.5),
        confidence,
        comparisons: 1,
        groups: vec!["gender".to_owned()],
        strata: Vec::new(),
        has_horizon: false,
        guarantee: None,
        range: None,
        rates: vec![rate],
    }
}

/// Feeds `(group, numerator, denominator)` and checks; what changed.
fn step(judge: &mut Judge, second: i64, groups: &[(&str, f64, u64)]) -> Vec<String> {
    for (group, numerator, denominator) in groups {
        let counts = judge.counts(0, 0, "[]", &format!("[\"{group}\"]")).unwrap();
        (counts.numerator, counts.denominator) = (*numerator, *denominator);
    }
    judge.check(0, 0, Time(second * 1_000_000_000)).into_iter().map(|change| change.message).collect()
}

#[test]
fn an_alarm_is_raised_once_and_cleared_below_its_own_threshold() {
    let mut judge = Judge::new(vec![rule(Comparison::Difference, 0.1, 0.05, 0, 0.0)]);
    assert_eq!(step(&mut judge, 1, &[("F", 5.0, 10), ("M", 6.0, 10)]), Vec::<String>::new());
    assert_eq!(
        step(&mut judge, 2, &[("M", 7.0, 10)]),
        ["parity: M 0.700 (7 of 10) and F 0.500 (5 of 10) differ by 0.200, more than 0.1"]
    );
    assert_eq!(step(&mut judge, 3, &[("M", 8.0, 10)]), Vec::<String>::new());
    assert_eq!(step(&mut judge, 4, &[("M", 6.0, 10)]), Vec::<String>::new(), "still above what clears it");
    assert_eq!(
        step(&mut judge, 5, &[("M", 5.0, 10)]),
        [
            "parity: F 0.500 (5 of 10) and F 0.500 (5 of 10) differ by 0.000, no more than 0.05 (alarm since 2s)"
        ]
    );
    assert_eq!((judge.raised(), judge.standings()[0].alarm), (1, None));
}

#[test]
fn a_group_that_is_too_small_stays_in_sight() {
    let mut judge = Judge::new(vec![rule(Comparison::Difference, 0.1, 0.1, 5, 0.0)]);
    assert!(step(&mut judge, 1, &[("F", 0.0, 4), ("M", 6.0, 10), ("X", 0.0, 0)]).is_empty());
    let standing = &judge.standings()[0];
    let shown: Vec<_> =
        standing.groups.iter().map(|group| (group.shown.as_str(), group.has_evidence)).collect();
    assert_eq!(shown, [("0.000", false), ("0.600", true), ("-", false)]);
    assert_eq!(step(&mut judge, 2, &[("F", 0.0, 5)]).len(), 1);
}

#[test]
fn ratios_and_highest_rates() {
    let mut judge = Judge::new(vec![rule(Comparison::Ratio, 0.8, 0.9, 0, 0.0)]);
    assert!(step(&mut judge, 1, &[("F", 0.0, 5), ("M", 0.0, 5)]).is_empty(), "no group has a positive trial");
    assert!(step(&mut judge, 2, &[("F", 4.0, 5), ("M", 5.0, 5)]).is_empty(), "four fifths are fair");
    assert_eq!(
        step(&mut judge, 3, &[("F", 3.0, 5)]),
        ["parity: F 0.600 (3 of 5) is 0.600 of M 1.000 (5 of 5), less than 0.8"]
    );
    assert!(step(&mut judge, 4, &[("F", 4.0, 5)]).is_empty());
    assert_eq!(step(&mut judge, 5, &[("F", 5.0, 5)]).len(), 1);
    let mut judge = Judge::new(vec![rule(Comparison::Highest, 0.1, 0.1, 0, 0.0)]);
    assert_eq!(step(&mut judge, 1, &[("F", 1.0, 5)]), ["parity: F 0.200 (1 of 5), more than 0.1"]);
}

/// Ten trials of each group at a time, with so many positives: what changed.
fn ten(judge: &mut Judge, second: i64, counted: &mut [f64; 2], new: [f64; 2]) -> Vec<String> {
    counted.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
    let trials = u64::try_from(second).unwrap() * 10;
    step(judge, second, &[("F", counted[0], trials), ("M", counted[1], trials)])
}

fn guaranteed(promise: Promise) -> Judge {
    let guarantee = Guarantee { promise, block: 20, strata: None };
    Judge::new(vec![Rule { guarantee: Some(guarantee), ..rule(Comparison::Difference, 0.1, 0.1, 0, 0.0) }])
}

#[test]
fn with_a_guarantee_evidence_decides_and_not_the_gap() {
    let mut judge = guaranteed(Promise::Ever(0.05));
    let mut counted = [0.0; 2];
    // The gap is 0.6 from the first check on; that takes more than one block to be evidence.
    assert_eq!(ten(&mut judge, 1, &mut counted, [2.0, 8.0]), Vec::<String>::new());
    assert_eq!(judge.placement(0, 0, "[]"), TrialPlacement { block: Some(2), alarm: Some(1) });
    let outcome = judge.assess(0, 0, "[]").unwrap().outcome;
    assert!(matches!(outcome, Outcome::NotYet { further: Some(1..40) }), "{outcome:?}");
    let mut second = 2;
    while ten(&mut judge, second, &mut counted, [2.0, 8.0]).is_empty() {
        second += 1;
    }
    assert!((2..5).contains(&second), "{second}");
    assert_eq!(judge.standings()[0].alarm, Some(Time(second * 1_000_000_000)));
    assert_eq!(
        judge.placement(0, 0, "[]").alarm,
        None,
        "nothing counts towards an alarm that stands for ever"
    );
    // What comes later does not take it back, however much it is.
    for later in second + 1..200 {
        assert_eq!(ten(&mut judge, later, &mut counted, [8.0, 2.0]), Vec::<String>::new());
    }
    let assessment = judge.assess(0, 0, "[]").unwrap();
    assert_eq!(assessment.outcome, Outcome::Unfair);
    assert!(assessment.p_value.unwrap() <= 0.05);
}

#[test]
fn groups_that_are_too_small_are_reported() {
    let mut rule = guaranteed(Promise::Ever(0.05)).rules()[0].clone();
    rule.min_trials = 15;
    let mut judge = Judge::new(vec![rule]);
    let mut counted = [0.0; 2];
    ten(&mut judge, 1, &mut counted, [2.0, 8.0]);
    assert_eq!(judge.assess(0, 0, "[]").unwrap().small_groups, 2, "ten trials each");
    ten(&mut judge, 2, &mut counted, [2.0, 8.0]);
    assert_eq!(judge.assess(0, 0, "[]").unwrap().small_groups, 0, "twenty trials each");
}

#[test]
fn a_detector_ends_an_alarm_when_the_last_trials_look_fair() {
    let every = Every::Trials(2000);
    let mut judge = guaranteed(Promise::Every { every, blocks: 100.0, memory: 100 });
    let mut counted = [0.0; 2];
    let mut changes = Vec::new();
    for second in 1..100 {
        let new = if second < 20 { [2.0, 8.0] } else { [5.0, 5.0] };
        let messages = ten(&mut judge, second, &mut counted, new);
        changes.extend(messages.into_iter().map(|message| (second, message)));
    }
    let [(raised, _), (cleared, message)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!((2..8).contains(raised) && (20..60).contains(cleared), "{changes:?}");
    assert!(message.contains("of late groups differ by no more than 0.1 (alarm since"), "{message}");
    assert_eq!(judge.placement(0, 0, "[]").alarm, Some(2));
    assert_eq!(judge.assess(0, 0, "[]").unwrap().p_value, None);
}

/// Strata and rates share the promise, and a stratum more than it is for is not judged.
#[test]
fn a_promise_is_shared() {
    let of = |strata: Option<u64>, rates: usize| {
        let guarantee = Guarantee { promise: Promise::Ever(0.12), block: 20, strata };
        let rule = rule(Comparison::Difference, 0.1, 0.1, 0, 0.0);
        let rates = vec![rule.rates[0].clone(); rates];
        let rule = Rule { guarantee: Some(guarantee), strata: vec!["department".to_owned()], rates, ..rule };
        let levels = (0..4).map(move |place| rule.hypothesis(place).map(|of| of.level * 1000.0));
        levels.map(|level| level.map(f64::round)).collect::<Vec<_>>()
    };
    assert_eq!(of(None, 1), [Some(60.0), Some(20.0), Some(10.0), Some(6.0)]);
    assert_eq!(of(None, 2), [Some(30.0), Some(10.0), Some(5.0), Some(3.0)]);
    assert_eq!(of(Some(3), 1), [Some(40.0), Some(40.0), Some(40.0), None]);
}

#[test]
fn a_judge_goes_on_from_what_was_saved() {
    let mut judge = Judge::new(vec![rule(Comparison::Difference, 0.1, 0.1, 0, 4.0)]);
    step(&mut judge, 1, &[("F", 0.0, 9), ("M", 9.0, 9)]);
    let saved = judge.save().unwrap();
    let mut other = Judge::new(judge.rules().to_vec());
    other.load(&saved).unwrap();
    assert_eq!(other.standings(), judge.standings());
    let next = [("F", 9.0, 9)];
    assert_eq!(step(&mut other, 2, &next), step(&mut judge, 2, &next));
    assert_eq!(other.load(b"something else"), Err(BadState));
    let mut two = judge.rules().to_vec();
    two.extend(judge.rules().to_vec());
    assert_eq!(Judge::new(two).load(&saved), Err(BadState));
}
