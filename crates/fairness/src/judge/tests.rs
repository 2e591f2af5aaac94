use fairstream_core::MemoryState;

use super::*;
use crate::{Comparison, Every, Guarantee, Outcome, Promise};

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
        title: "parity".to_owned(),
        comparison,
        tolerance,
        clear,
        min_trials,
        prior: Some(0.5),
        confidence,
        comparisons: 1,
        family: 0,
        groups: vec!["gender".to_owned()],
        reference: None,
        strata: Vec::new(),
        has_horizon: false,
        by_rows: false,
        guarantee: None,
        window: None,
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

/// Ten trials of each of two groups, of which so many are positive.
fn ten(judge: &mut Judge, second: i64, positives: [f64; 2]) -> Vec<String> {
    let trials = [("1", positives[0], 10), ("2", positives[1], 10)];
    add(judge, second, &trials).into_iter().map(|change| change.message).collect()
}

fn guaranteed(promise: Promise) -> Judge {
    let guarantee = Guarantee { promise, block: 20, block_span: None, strata: None };
    Judge::new(vec![Rule { guarantee: Some(guarantee), ..rule(Comparison::Difference, 0.1, 0.1, 0, 0.0) }])
}

#[test]
fn with_a_guarantee_evidence_decides_and_not_the_gap() {
    let mut judge = guaranteed(Promise::Ever(0.05));
    // The gap is 0.6 from the first check on; that takes more than one block to be evidence.
    assert_eq!(ten(&mut judge, 1, [2.0, 8.0]), Vec::<String>::new());
    assert_eq!(judge.alarm_number(0, 0, "[]"), Some(1));
    let outcome = judge.assess(0, 0, "[]").unwrap().outcome;
    assert!(matches!(outcome, Outcome::NotYet { further: Some(1..40) }), "{outcome:?}");
    let mut second = 2;
    while ten(&mut judge, second, [2.0, 8.0]).is_empty() {
        second += 1;
    }
    assert!((2..5).contains(&second), "{second}");
    assert_eq!(judge.standings()[0].alarm, Some(Time(second * 1_000_000_000)));
    assert_eq!(judge.alarm_number(0, 0, "[]"), None, "nothing counts towards an alarm that stands for ever");
    // What comes later does not take it back, however much it is.
    for later in second + 1..200 {
        assert_eq!(ten(&mut judge, later, [8.0, 2.0]), Vec::<String>::new());
    }
    let assessment = judge.assess(0, 0, "[]").unwrap();
    assert_eq!(assessment.outcome, Outcome::Unfair);
    assert!(assessment.log_p_value.unwrap() <= 0.05_f64.ln());
}

#[test]
fn groups_that_are_too_small_are_reported() {
    let mut rule = guaranteed(Promise::Ever(0.05)).rules()[0].clone();
    rule.min_trials = 15;
    let mut judge = Judge::new(vec![rule]);
    ten(&mut judge, 1, [2.0, 8.0]);
    assert_eq!(judge.assess(0, 0, "[]").unwrap().small_groups, 2, "ten trials each");
    ten(&mut judge, 2, [2.0, 8.0]);
    assert_eq!(judge.assess(0, 0, "[]").unwrap().small_groups, 0, "twenty trials each");
}

#[test]
fn a_detector_ends_an_alarm_when_there_is_evidence_for_fairness() {
    let every = Every::Trials(2000);
    let mut judge = guaranteed(Promise::Every { every, blocks: 100.0, memory: None });
    let mut changes = Vec::new();
    for second in 1..100 {
        let new = if second < 20 { [2.0, 8.0] } else { [5.0, 5.0] };
        let messages = ten(&mut judge, second, new);
        changes.extend(messages.into_iter().map(|message| (second, message)));
    }
    let [(raised, _), (cleared, message)] = changes.as_slice() else { panic!("{changes:?}") };
    assert!((2..8).contains(raised) && (60..99).contains(cleared), "{changes:?}");
    assert!(
        message.contains("; there is enough evidence that they differ by less than 0.1 again (alarm since"),
        "{message}"
    );
    assert_eq!(judge.alarm_number(0, 0, "[]"), Some(2));
    // What is over is still known.
    let standing = &judge.standings()[0];
    let times = [raised, cleared].map(|second| Time(second * 1_000_000_000));
    assert_eq!((standing.alarm, &standing.alarm_basis), (None, &None));
    assert_eq!(standing.last_alarm, Some((times[0], times[1])));
    assert_eq!(judge.assess(0, 0, "[]").unwrap().log_p_value, None);
}

/// Strata and rates share the promise, and a stratum more than it is for is not judged.
#[test]
fn a_promise_is_shared() {
    let of = |strata: Option<u64>, rates: usize| {
        let guarantee = Guarantee { promise: Promise::Ever(0.12), block: 20, block_span: None, strata };
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

/// A judge of these rules that continues from another one.
fn resumed(rules: Vec<Rule>, from: &Judge) -> Judge {
    let mut state = MemoryState::default();
    let document = from.copy_state().write(&mut state).unwrap();
    let document: JudgeDocument = serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
    let judge = Judge::new(rules);
    let carried = judge.compare_state(&document, |_, _| false);
    judge.read_state(&document, &carried.rates, &state).unwrap()
}

#[test]
fn a_judge_continues_from_what_was_written() {
    let mut judge = Judge::new(vec![rule(Comparison::Difference, 0.1, 0.1, 0, 4.0)]);
    step(&mut judge, 1, &[("F", 0.0, 9), ("M", 9.0, 9)]);
    let mut other = resumed(judge.rules().to_vec(), &judge);
    assert_eq!(other.standings(), judge.standings());
    let next = [("F", 9.0, 9)];
    assert_eq!(step(&mut other, 2, &next), step(&mut judge, 2, &next));
    // Of another rule, the counts stay.
    let stricter = resumed(vec![rule(Comparison::Difference, 0.05, 0.05, 0, 4.0)], &judge);
    assert_eq!((stricter.raised(), stricter.standings()[0].groups.len()), (judge.raised(), 2));
    assert_eq!(stricter.standings()[0].raised, 0);
}

/// Counts trials of groups, in turn, and checks. The positive ones are spread evenly.
fn add(judge: &mut Judge, second: i64, trials: &[(&str, f64, u64)]) -> Vec<AlarmChange> {
    let time = Time(second * 1_000_000_000);
    for trial in 0..trials.iter().map(|(.., trials)| *trials).max().unwrap_or(0) {
        for (group, positives, _) in trials.iter().filter(|(.., trials)| trial < *trials) {
            let of = trials.iter().find(|(known, ..)| known == group).unwrap().2 as f64;
            let before = |trial: u64| (trial as f64 * positives / of + 1e-9).floor();
            count(judge, "[]", &format!("[{group}]"), before(trial + 1) - before(trial), time);
        }
    }
    judge.check(0, 0, time)
}

/// Counts one trial, as the streams of counts and of trials would.
fn count(judge: &mut Judge, stratum: &str, group: &str, value: f64, time: Time) -> Option<u64> {
    let slot = judge.slot(0, 0, stratum, group).unwrap();
    let counts = judge.counts_mut(slot).unwrap();
    counts.numerator += value;
    counts.denominator += 1;
    judge.count_trial(slot, value, time)
}

/// An alarm is about the groups whose bets made the evidence, not about those with the most extreme shares.
#[test]
fn a_guaranteed_alarm_names_the_groups_that_made_the_evidence() {
    let mut judge = guaranteed(Promise::Ever(0.05));
    let mut changes = Vec::new();
    for second in 1..20 {
        // Groups 7 and 8 have a trial in every third check, always or never positive.
        let few = u64::from(second % 3 == 0);
        let trials = [("10", 6.0, 10), ("9", 2.0, 10), ("7", few as f64, few), ("8", 0.0, few)];
        changes.extend(add(&mut judge, second, &trials));
    }
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let AlarmBasis { since, groups, blocks, tolerance, log_e_value, log_threshold, log_p_value, .. } =
        &change.basis;
    let trials = since.0 / 1_000_000_000 * 10;
    let named: Vec<_> =
        groups.iter().map(|group| (group.values.as_str(), group.denominator as i64, group.share)).collect();
    assert_eq!(named, [("[10]", trials, Some(0.6)), ("[9]", trials, Some(0.2))]);
    assert_eq!((*blocks, *tolerance), (None, 0.1));
    assert_eq!(*log_threshold, Some(-0.05_f64.ln()));
    assert!(*log_e_value > *log_threshold && *log_p_value == log_e_value.map(|log| -log));
    let compared = format!("parity: 10 0.600 ({} of {trials}) and 9 0.200", trials * 6 / 10);
    assert!(change.message.starts_with(&compared), "{}", change.message);
    assert!((change.gap - 0.4).abs() < 1e-9, "{}", change.gap);
    // It stays with the alarm, also when it is saved.
    assert_eq!(judge.standings()[0].alarm_basis.as_ref(), Some(&change.basis));
    let other = resumed(judge.rules().to_vec(), &judge);
    assert_eq!(other.standings(), judge.standings());
    // Groups are numbers, and listed as such.
    let listed: Vec<String> = judge.standings()[0].groups.iter().map(|group| group.group.clone()).collect();
    assert_eq!(listed, ["7", "8", "9", "10"]);
}

/// The counts of a detector's alarm are of the blocks that made its evidence, not of all time.
#[test]
fn a_detectors_alarm_counts_the_blocks_of_its_evidence() {
    let every = Every::Trials(2000);
    let mut judge = guaranteed(Promise::Every { every, blocks: 100.0, memory: None });
    let mut changes = Vec::new();
    for second in 1..400 {
        let trials =
            if second < 300 { [("1", 5.0, 10), ("2", 5.0, 10)] } else { [("1", 8.0, 10), ("2", 2.0, 10)] };
        changes.extend(add(&mut judge, second, &trials));
    }
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let blocks = change.basis.blocks.unwrap();
    assert!((1..10).contains(&blocks), "{blocks}");
    for (group, share) in change.basis.groups.iter().zip([0.8, 0.2]) {
        assert_eq!((group.denominator, group.share), (blocks * 10, Some(share)), "{group:?}");
    }
    let expected = format!(
        "parity: in the last {blocks} blocks, 1 0.800 ({} of {}) and 2 0.200 ({} of {}) differ by 0.600; that",
        blocks * 8,
        blocks * 10,
        blocks * 2,
        blocks * 10,
    );
    assert!(change.message.starts_with(&expected), "{}", change.message);
}

/// Where rates change, the groups of an alarm may be close in the sum of all trials. The message says so.
#[test]
fn groups_that_differed_at_times_may_be_close_in_all() {
    let said = |comparison, tolerance, gap, groups: &[(&str, f64)]| {
        let rule = rule(comparison, tolerance, tolerance, 0, 0.0);
        let groups =
            groups.iter().map(|(name, positives)| AlarmedGroup::new(name, *positives, 100)).collect();
        let basis = AlarmBasis {
            since: Time(0),
            message: String::new(),
            groups,
            blocks: None,
            gap,
            tolerance,
            log_e_value: Some(40.3_f64.ln()),
            log_threshold: Some(20_f64.ln()),
            log_p_value: None,
            recorded: None,
        };
        words::raised_by_evidence(&rule, &rule.rates[0], "[]", &basis)
    };
    assert_eq!(
        said(Comparison::Difference, 0.1, 0.05, &[("[10]", 55.0), ("[9]", 50.0)]),
        "parity: 10 0.550 (55 of 100) and 9 0.500 (50 of 100) differ by 0.050 in all, but more at times; that groups \
         differ by more than 0.1 has an e-value of 40.3, an alarm at 20"
    );
    assert_eq!(
        said(Comparison::Ratio, 0.8, 0.9, &[("[\"M\"]", 50.0), ("[\"F\"]", 45.0)]),
        "parity: F 0.450 (45 of 100) is 0.900 of M 0.500 (50 of 100) in all, but less at times; that a group has less \
         than 0.8 of another has an e-value of 40.3, an alarm at 20"
    );
    assert_eq!(
        said(Comparison::Highest, 0.1, 0.09, &[("[\"F\"]", 9.0)]),
        "parity: F 0.090 (9 of 100) in all, but more at times; that a group has more than 0.1 has an e-value of 40.3, an \
         alarm at 20"
    );
    assert!(!said(Comparison::Highest, 0.1, 0.2, &[("[\"F\"]", 20.0)]).contains("at times"));
}

/// An e-value beyond every float is written out, and nothing about it is infinite or 0.
#[test]
fn large_evidence_is_written_out() {
    let mut judge = guaranteed(Promise::Ever(0.05));
    let changes = add(&mut judge, 1, &[("1", 10.0, 10), ("2", 0.0, 10)]);
    assert_eq!(changes, []);
    let changes = add(&mut judge, 2, &[("1", 100_000.0, 100_000), ("2", 0.0, 100_000)]);
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let (_, e_value) = change.message.split_once("has an e-value of ").unwrap();
    let exponent: u32 = e_value.split_once('e').unwrap().1.split(',').next().unwrap().parse().unwrap();
    assert!(exponent > 1000, "{e_value}");
    let assessment = judge.assess(0, 0, "[]").unwrap();
    assert!(assessment.log_e_value.is_finite() && assessment.log_p_value.unwrap().is_finite());
}

/// Every alarm stays in the history with its sentence, groups, counts and evidence; by the rule of the paper too.
#[test]
fn a_history_repeats_each_alarm() {
    let by_map = Judge::new(vec![rule(Comparison::Difference, 0.1, 0.05, 0, 0.0)]);
    let every = Every::Trials(2000);
    let by_guarantee = guaranteed(Promise::Every { every, blocks: 100.0, memory: None });
    for judge in [by_map, by_guarantee] {
        let mut judge = judge.with_history();
        let mut raised = Vec::new();
        for second in 1..300 {
            let trials = match second / 50 % 2 {
                0 => [("1", 8.0, 10), ("2", 2.0, 10)],
                _ => [("1", 5.0, 10), ("2", 5.0, 10)],
            };
            raised.extend(add(&mut judge, second, &trials).into_iter().filter(|change| change.raised));
        }
        assert!(!raised.is_empty());
        let kept: Vec<_> = judge.history().unwrap().rate(0, 0, "[]").unwrap().alarms.clone();
        let kept: Vec<&AlarmBasis> = kept.iter().map(|span| &span.basis).collect();
        assert_eq!(kept, raised.iter().map(|change| &change.basis).collect::<Vec<_>>());
        for AlarmChange { message, gap, basis, .. } in &raised {
            assert_eq!((message, *gap, basis.groups.len()), (&basis.message, basis.gap, 2));
        }
    }
}

/// A check costs what has changed: neither other groups nor other strata. When every check looked at all groups, this
/// took minutes.
#[test]
fn a_check_does_not_look_at_what_has_not_changed() {
    let begin = std::time::Instant::now();
    let mut judge = guaranteed(Promise::Ever(0.05));
    let groups: Vec<String> = (0..1000).map(|group| format!("[{group}]")).collect();
    for event in 0..50_000_usize {
        let group = &groups[event * 7 % groups.len()];
        count(&mut judge, "[]", group, (event % 2) as f64, Time(event as i64));
        judge.check(0, 0, Time(event as i64));
    }
    assert_eq!(judge.assess(0, 0, "[]").unwrap().blocks, 2500);
    let rule = Rule { strata: vec!["department".to_owned()], ..judge.rules()[0].clone() };
    let mut judge = Judge::new(vec![rule]);
    for event in 0..100_000_i64 {
        count(&mut judge, &format!("[{}]", event * 7 % 50_000), "[1]", 0.0, Time(event));
        assert_eq!(judge.strata_to_check(0, 0).count(), 1);
        judge.check(0, 0, Time(event));
    }
    let outlines = judge.outlines();
    assert_eq!((outlines.len(), outlines[9].stratum_key), (50_000, "[9]"));
    let took = begin.elapsed();
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
}

proptest::proptest! {
    /// The gap between many groups, from their distinct counts, is that between all of them, whatever changes when.
    #[test]
    fn distinct_counts_have_the_gap_of_all_groups(
        steps in proptest::collection::vec((0..60_usize, 0..4_u64, 0..4_u64), 1..200),
        is_pooled: bool, has_reference: bool, min_trials in 0..3_u64, comparison in 0..3_usize,
    ) {
        let comparison = [Comparison::Difference, Comparison::Ratio, Comparison::Highest][comparison];
        let rule = Rule {
            prior: (!is_pooled).then_some(0.25),
            reference: has_reference.then(|| "[\"g7\"]".to_owned()),
            ..rule(comparison, 0.1, 0.05, min_trials, 4.0)
        };
        let mut groups = NamedVec::default();
        let mut distinct = DistinctCounts::default();
        for (group, positive, negative) in steps {
            let index = groups.index_or_insert(&format!("[\"g{group}\"]"), Counts::default);
            let (_, counts) = groups.get_mut(index).unwrap();
            counts.numerator += positive as f64;
            counts.denominator += positive + negative;
            distinct.update(index, counts);
            let expected = Gap::of(&rule, &groups).size;
            let found = Gap::size_of(&rule, &groups, &distinct);
            proptest::prop_assert_eq!(found.to_bits(), expected.to_bits(), "{} and {}", found, expected);
        }
    }
}
