use super::*;

fn rule(comparison: Comparison, tolerance: f64, clear: f64, min_trials: u64, confidence: f64) -> Rule {
    let rate = RuleRate {
        stream: "parity".to_owned(),
        title: "parity".to_owned(),
        question: String::new(),
        unit: None,
        is_mean: false,
    };
    Rule {
        comparison,
        tolerance,
        clear,
        min_trials,
        prior: 0.5,
        confidence,
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
    assert!(step(&mut judge, 1, &[("F", 0.0, 5), ("M", 0.0, 5)]).is_empty(), "nobody has anything");
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
