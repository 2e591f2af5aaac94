//! Snapshots of the RTLola of fairness files, and of all their errors.

use fairstream_fairness::{EventColumn, FairnessFile};
use insta::assert_snapshot;

use super::run::compile;
use crate::support::root;

#[test]
fn the_rtlola_of_the_specifications() {
    for name in ["hiring", "seminar", "compas", "admissions", "guarantee/admissions"] {
        let toml = std::fs::read_to_string(root().join(format!("specs/{name}.toml"))).unwrap();
        let snapshot = format!("rtlola_{}", name.replace('/', "_"));
        assert_snapshot!(snapshot, compile(&toml).0.rtlola());
    }
}

const GOOD: &str = r#"name = "good"

[events.columns]
id       = "UInt64"
gender   = "String"
score    = "Int64"
accepted = "UInt64"

[trial]
key   = "id"
group = "gender"

[indicators]
high     = 'score > 6'
accepted = { when = "true", key = "accepted" }

[[fairness]]
metric    = "demographic-parity"
decision  = "accepted"
tolerance = 0.1
rule      = "map"
"#;

/// The error if one text of the valid file is replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let mut text = GOOD.replace(from, to);
    if to.contains("rule =") || to.contains("guarantee =") {
        text = text.replace("rule      = \"map\"\n", "");
    }
    let file = match FairnessFile::parse("bad.toml", &text) {
        Ok(file) => file,
        Err(error) => return error.to_string(),
    };
    let compiled = match file.compile(&[]) {
        Ok(compiled) => compiled,
        Err(error) => return error.to_string(),
    };
    match fairstream_engine::Specification::parse("bad.lola", compiled.rtlola()) {
        Ok(_) => format!("nothing is wrong\n{}", compiled.rtlola()),
        Err(error) => match compiled.blame(&error.places()) {
            Some(blamed) => blamed.to_string(),
            None => panic!("{to}: the error has no place\n{error}"),
        },
    }
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    let metric = "metric    = \"demographic-parity\"\ndecision  = \"accepted\"\ntolerance = 0.1";
    let cases: Vec<(&str, &str, &str)> = vec![
        ("syntax", "key   = \"id\"", "key   = id"),
        ("unknown table", "[trial]", "[trail]"),
        ("unknown key", "group = \"gender\"", "groups = \"gender\""),
        ("unknown key of a metric", "tolerance = 0.1", "tolerence = 0.1"),
        ("key of another metric", "tolerance = 0.1", "tolerance = 0.1\nprediction = \"high\""),
        ("no key", "key   = \"id\"\n", ""),
        ("no metric", "metric    = \"demographic-parity\"\n", ""),
        (
            "no fairness",
            "[[fairness]]\nmetric    = \"demographic-parity\"\ndecision  = \"accepted\"\ntolerance = 0.1\nrule      = \"map\"\n",
            "",
        ),
        ("neither rule nor guarantee", "rule      = \"map\"\n", ""),
        ("clear without a rule", "rule      = \"map\"\n", "clear = 0.05\n"),
        ("unknown metric", "demographic-parity", "demografic-parity"),
        ("quite unknown metric", "demographic-parity", "fair"),
        ("unknown indicator", "decision  = \"accepted\"", "decision  = \"acepted\""),
        ("a condition where an indicator is named", "decision  = \"accepted\"", "decision  = \"score > 6\""),
        ("unknown column", "group = \"gender\"", "group = \"gendre\""),
        ("unknown column in a condition", "'score > 6'", "'scores > 6'"),
        ("quite unknown column", "'score > 6'", "'weight > 6'"),
        ("unknown type", "\"Int64\"", "\"Integer\""),
        ("wrong kind of value", "tolerance = 0.1", "tolerance = \"0.1\""),
        ("tolerance too large", "tolerance = 0.1", "tolerance = 10"),
        ("clear above tolerance", "tolerance = 0.1", "tolerance = 0.1\nclear = 0.2"),
        (
            "guarantee of trials that are never final",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 0.05 }",
        ),
        (
            "guarantee that is none",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 5 }\nrule = \"guarantee\"",
        ),
        (
            "guarantee of the file that nothing shares",
            "[[fairness]]",
            "[guarantee]\nfalse_alarms = 0.05\n\n[[fairness]]",
        ),
        (
            "blocks of one trial",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 0.05, block = 1 }",
        ),
        ("guarantee without a promise", "tolerance = 0.1", "tolerance = 0.1\nguarantee = { block = 10 }"),
        (
            "two guarantees",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 0.05, false_alarm_every = 1000 }",
        ),
        (
            "unknown key of a guarantee",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarm = 0.05 }",
        ),
        (
            "time between alarms without a period",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarm_every = \"10y\" }",
        ),
        (
            "time between alarms that is too short",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarm_every = 20 }",
        ),
        (
            "rule and guarantee",
            "tolerance = 0.1",
            "tolerance = 0.1\nrule = \"map\"\nguarantee = { false_alarms = 0.05 }",
        ),
        ("unknown rule", "tolerance = 0.1", "tolerance = 0.1\nrule = \"mean\""),
        (
            "clear with a guarantee",
            "tolerance = 0.1",
            "tolerance = 0.1\nclear = 0.05\nguarantee = { false_alarms = 0.05 }",
        ),
        (
            "strata of a guarantee without strata",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 0.05, strata = 6 }",
        ),
        (
            "memory of what forgets nothing",
            "tolerance = 0.1",
            "tolerance = 0.1\nguarantee = { false_alarms = 0.05, memory = 100 }",
        ),
        (
            "guaranteed mean without a range",
            metric,
            "metric = \"mean-difference\"\nof = \"score\"\ntolerance = 1\nguarantee = { false_alarms = 0.05 }",
        ),
        (
            "range the wrong way round",
            metric,
            "metric = \"mean-difference\"\nof = \"score\"\ntolerance = 1\nrange = [10, 0]",
        ),
        (
            "nothing but the opening, and later events",
            "group = \"gender\"",
            "group = \"gender\"\nhorizon = \"0s\"",
        ),
        ("bad duration", "group = \"gender\"", "group = \"gender\"\nhorizon = \"730\""),
        ("no strata", "demographic-parity", "conditional-statistical-parity"),
        ("strata that are groups", "tolerance = 0.1", "tolerance = 0.1\nstrata = \"gender\""),
        ("prior beyond one", "tolerance = 0.1", "tolerance = 0.1\nprior = 3"),
        ("prior without confidence", "tolerance = 0.1", "tolerance = 0.1\nprior = 0.5\nconfidence = 0"),
        ("keys of two types", "accepted = \"UInt64\"", "accepted = \"Int64\""),
        ("name that RTLola has", "high     = ", "close    = "),
        ("name that is none", "high     = ", "\"so high\" = "),
        (
            "condition that is no syntax",
            "decision  = \"accepted\"",
            "decision  = \"high\"\nprior = 'score.hold(or: '",
        ),
        (
            "condition of the wrong type",
            metric,
            "metric = \"demographic-parity\"\ntolerance = 0.1\ndecision = \"high\"\nprior = 'score.hold(or: 0)'",
        ),
        (
            "prior that waits for a column",
            metric,
            "metric = \"demographic-parity\"\ntolerance = 0.1\ndecision = \"high\"\nprior = 'cast<Int64, Float64>(score)'",
        ),
        (
            "delay without an end",
            metric,
            "metric = \"mean-difference\"\nof = { from = \"high\" }\ntolerance = 1",
        ),
        (
            "delay in an unknown unit",
            metric,
            "metric = \"mean-difference\"\nof = { to = \"high\", unit = \"days\" }\ntolerance = 1",
        ),
        ("mean of nothing", metric, "metric = \"mean-difference\"\ntolerance = 1"),
        (
            "reference that is left out",
            "group = \"gender\"",
            "group = { column = \"gender\", except = [\"X\"], reference = \"X\" }",
        ),
        (
            "reference that is no bin",
            "group = \"gender\"",
            "group = { column = \"score\", bins = [3, 6], reference = 3 }",
        ),
        (
            "reference that has a label",
            "group = \"gender\"",
            "group = { column = \"gender\", labels = { F = \"female\" }, reference = \"F\" }",
        ),
        (
            "reference whose label is left out",
            "group = \"gender\"",
            "group = { column = \"gender\", labels = { F = \"female\" }, except = [\"F\"], reference = \"female\" }",
        ),
        (
            "reference of another type",
            "group = \"gender\"",
            "group = { column = \"score\", reference = \"high\" }",
        ),
        ("reference below zero", "group = \"gender\"", "group = { column = \"accepted\", reference = -1 }"),
        (
            "reference that is a list",
            "group = \"gender\"",
            "group = { column = \"gender\", reference = [\"F\"] }",
        ),
        (
            "reference of one of two columns",
            "group = \"gender\"",
            "group = [\"gender\", { column = \"score\", reference = 5 }]",
        ),
        (
            "two references of one column",
            "group = \"gender\"",
            "group = [[{ column = \"gender\", reference = \"F\" }], [{ column = \"gender\", reference = \"M\" }]]",
        ),
        ("window that is no duration", "tolerance = 0.1", "tolerance = 0.1\nwindow = \"a month\""),
        ("window of nothing", "tolerance = 0.1", "tolerance = 0.1\nwindow = \"0s\""),
        (
            "window shorter than the time between checks",
            "tolerance = 0.1",
            "tolerance = 0.1\nwindow = \"1h\"\ncheck = \"1d\"",
        ),
        (
            "window that begins at no check",
            "tolerance = 0.1",
            "tolerance = 0.1\nwindow = \"30d\"\ncheck = \"7d\"",
        ),
        ("window of trials that are never final", "tolerance = 0.1", "tolerance = 0.1\nwindow = \"30d\""),
        (
            "window of a guarantee for ever",
            "tolerance = 0.1",
            "tolerance = 0.1\nwindow = \"30d\"\nguarantee = { false_alarms = 0.05 }",
        ),
        (
            "window of false discoveries",
            "tolerance = 0.1",
            "tolerance = 0.1\nwindow = \"30d\"\nguarantee = { false_discoveries = 0.1 }",
        ),
        ("misspelt window", "tolerance = 0.1", "tolerance = 0.1\nwindows = \"30d\""),
        ("source without a path", "name = \"good\"", "[[source]]\nkind = \"csv\"\n"),
        (
            "several at once",
            metric,
            "metric = \"equalized-odds\"\nprediction = \"hi\"\noutcom = \"accepted\"",
        ),
    ];
    let mut shown = String::new();
    for (what, from, to) in cases {
        let error = with(from, to);
        assert!(!error.starts_with("nothing is wrong"), "{what}: {error}");
        shown += &format!("== {what}\n{error}\n\n");
    }
    shown += &format!(
        "== condition of a number\n{}\n",
        with(
            "'score > 6'\naccepted = { when = \"true\", key = \"accepted\" }\n\n[[fairness]]\nmetric    = \"demographic-parity\"\ndecision  = \"accepted\"",
            "'score + 1'\naccepted = { when = \"true\", key = \"accepted\" }\n\n[[fairness]]\nmetric    = \"demographic-parity\"\ndecision  = \"high\""
        )
    );
    assert_snapshot!("errors", shown);
}

/// Conditions that are refused, each for a reason of its own.
const REFUSED: &str = r##"
score => 5
score =< 5
score <> 5
score === 5
score > 5;
score > 5 # high
score ? passed : false
score > 5 & passed
score > 5 | passed
score ^ 2 > 5
score > 5 AND passed
NOT passed
passed == True
score && passed
not score > 5
score not > 5
1 < score < 5
score + 1 < count < 5
score between 1 and 5
score is 5
score is not null
score == null
score mod 2 == 0
score xor passed
grade contains "A+"
grade like "%A_b"
grade startswith "A"
contains(grade, "A")
lower(grade) == "a"
maxx(score, 5) > 2
flags(score)
abs(score, 5) > 2
max(score) > 2
sqrt(score) > 2
cast(score) > 2.5
cast<Float64>(score) > 2.5
score.last > 5
score.lst(or: 0) > 5
score.last(or: 0.5) > 5
score.hold(or: "a") > 5
score.offset(by: 1).defaults(to: 0) > 5
score.offset(by: -1) > 5
score.defaults(to: 0) > 5
score > "5"
score > "five"
score > passed
score == 5 or 6
score
count.last(or: 0) > -1
grade
grade > 5
grade == A
grade == 'A'
grade == “A”
grade == "A
grade + "x" == "Ax"
grade == "A" or "B"
passed == 1
passed = "true"
passed > 0
passed + 1 > 1
if passed then 1 else 0
if passed then score > 5
score in [1, 2
score in (1, 2)
score in []
score not in []
score in ["1"]
score in [5..7]
score IN [1]
score + 1 in [1]
grade in [A, B]
grade in [1]
passed in [1]
grade matches "(a"
grade matches "*"
grade matches "A(?=B)"
grade matches grade
score matches "5"
(score > 5
score > 5)
score > 5 and
and score > 5
score > 5 passed
score > 5 (passed)
score >
score > .5
score > 0x10
score > 1_000
score > 1,000
score > 5%
score > 9223372036854775808
score > 1e40
scores > 5
"##;

/// A fairness file up to the condition of its indicator.
const GOOD_INDICATOR: &str = "[events.columns]\nid = \"UInt64\"\ngender = \"String\"\nscore = \"Int64\"\ncount = \"UInt64\"\nage = \"Float64\"\n\
     grade = \"String\"\npassed = \"Bool\"\n[trial]\nkey = \"id\"\ngroup = \"gender\"\n[indicators]\nhigh = '''";

/// The compiled text of a fairness file with this condition, if the RTLola frontend accepts it.
fn condition(when: &str) -> Result<String, fairstream_fairness::FileError> {
    let metric = "metric = \"demographic-parity\"\ndecision = \"high\"\ntolerance = 0.1\nrule = \"map\"";
    let text = format!("{GOOD_INDICATOR}{when}'''\n[[fairness]]\n{metric}\n");
    let compiled = FairnessFile::parse("bad.toml", &text)?.compile(&[])?;
    match fairstream_engine::Specification::parse("bad.lola", compiled.rtlola()) {
        Ok(_) => Ok(compiled.rtlola().to_owned()),
        Err(error) => {
            Err(compiled.blame(&error.places()).unwrap_or_else(|| panic!("{when}: no place\n{error}")))
        }
    }
}

#[test]
fn conditions_that_are_refused_say_how_to_mend_them() {
    let mut shown = String::new();
    for when in REFUSED.trim().lines() {
        let error = condition(when).expect_err(when);
        shown += &format!("{when}\n");
        for problem in error.problems() {
            let help = problem.help.as_deref().unwrap_or_else(|| panic!("{when}: no way out\n{error}"));
            let before = GOOD_INDICATOR.len();
            let at = problem.at.start - before..problem.at.end - before;
            let carets = "^".repeat(when[at.clone()].chars().count().max(1));
            let spaces = " ".repeat(when[..at.start].chars().count());
            shown += &format!("{spaces}{carets} {}\n  = {help}\n", problem.message);
        }
    }
    assert_snapshot!("conditions", shown);
}

#[test]
fn conditions_of_other_languages_that_are_clear() {
    for when in [
        "score > 1e3 and age < 1.5E-3",
        "score = 5 && passed || !passed",
        "count - 5 > 0 and count - score > -1 and count > score",
        "score in [1, 2.5] and count in [-1, 3] and age in [1e2]",
        "score / count > 1 or score / 2.0 > age",
        "score ≥ 5 ∧ grade ≠ \"A\" → passed",
        "not score.is_fresh() or score.is_fresh() and score == 5",
    ] {
        if let Err(error) = condition(when) {
            panic!("{error}");
        }
    }
}

#[test]
fn columns_may_be_the_sources_to_know() {
    let text = GOOD.replace(
        "[events.columns]\nid       = \"UInt64\"\ngender   = \"String\"\nscore    = \"Int64\"\naccepted = \"UInt64\"\n",
        "",
    );
    let file = FairnessFile::parse("no-types.toml", &text).unwrap();
    assert_snapshot!("no_types", file.compile(&[]).unwrap_err());
    let column = |(name, data_type): &(&str, &str)| EventColumn {
        name: (*name).to_owned(),
        data_type: (*data_type).to_owned(),
    };
    let known = [
        ("id", "UInt64"),
        ("gender", "String"),
        ("score", "Int64"),
        ("accepted", "UInt64"),
        ("more", "Bool"),
    ];
    let known: Vec<EventColumn> = known.iter().map(column).collect();
    assert!(file.compile(&known).unwrap().rtlola().contains("input gender : String"));
}

/// `[guarantee]` is shared by the metrics that have neither a guarantee nor a rule of their own, and by their comparisons.
#[test]
fn metrics_can_share_one_guarantee() {
    let text = GOOD
        .replace("rule      = \"map\"\n", "")
        .replace("group = \"gender\"", "group = \"gender\"\nhorizon = \"1h\"");
    let more = "\n[[fairness]]\nmetric = \"probability\"\nof = \"high\"\ntolerance = 0.2\ngroup = [[\"gender\"], [\"score\"]]\n\
                \n[[fairness]]\nmetric = \"disparate-impact\"\ndecision = \"accepted\"\ntolerance = 0.8\n\
                guarantee = { false_alarms = 0.01 }\n";
    let levels = |text: &str| -> Vec<f64> {
        let compiled = FairnessFile::parse("shared.toml", text).unwrap().compile(&[]).unwrap();
        compiled.rules().iter().map(|rule| (rule.hypothesis(0).unwrap().level * 1e6).round()).collect()
    };
    let each = levels(&format!("{text}{more}"));
    assert_eq!(each, [50_000.0, 25_000.0, 25_000.0, 10_000.0]);
    let shared =
        format!("[guarantee]\nfalse_alarms = 0.06\n\n{}{more}", text.replacen("name = \"good\"\n", "", 1));
    assert_eq!(levels(&shared), [30_000.0, 15_000.0, 15_000.0, 10_000.0]);
    let text = FairnessFile::parse("shared.toml", &shared)
        .unwrap()
        .compile(&[])
        .unwrap()
        .rtlola()
        .replace("\n//", "");
    assert!(
        text.contains("The 2 metrics of the file without a rule of their own share this evenly."),
        "{text}"
    );
}
