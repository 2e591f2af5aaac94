//! Every stream of every metric is reached by lookup, and is evaluated only when something changes.

use fairstream_core::{Selection, Time};
use fairstream_engine::{CompiledEngine, ReferenceEngine};

use super::run::{compile, observe};
use crate::support::compiled;

const HEAD: &str = r#"
[events.columns]
id = "UInt64"
gender = "String"
region = "Int64"
department = "String"
floor = "Int8"
score = "Int64"
accepted = "UInt64"

[indicators]
high = 'score > 5 or score < 0'
later = { when = 'true', key = "accepted", within = "10d" }
"#;

/// Every metric with the keys that it requires.
const METRICS: [&str; 12] = [
    "metric = \"demographic-parity\"\ndecision = \"later\"\ntolerance = 0.1",
    "metric = \"conditional-statistical-parity\"\ndecision = \"later\"\ntolerance = 0.1\nstrata = \"department\"",
    "metric = \"equalized-odds\"\nprediction = \"high\"\noutcome = \"later\"\ntolerance = 0.1",
    "metric = \"equal-opportunity\"\nprediction = \"high\"\noutcome = \"later\"\ntolerance = 0.1",
    "metric = \"predictive-equality\"\nprediction = \"high\"\noutcome = \"later\"\ntolerance = 0.1",
    "metric = \"predictive-parity\"\nprediction = \"high\"\noutcome = \"later\"\ntolerance = 0.1",
    "metric = \"disparate-impact\"\ndecision = \"later\"",
    "metric = \"probability\"\nof = \"later\"\ngiven = [\"high\"]\ntolerance = 0.1",
    "metric = \"mean-difference\"\nof = \"score\"\ngiven = \"high\"\ntolerance = 1",
    "metric = \"mean-difference\"\nof = { to = \"later\", unit = \"d\" }\ntolerance = 1",
    "metric = \"mean-difference\"\nof = { from = \"high\", to = \"later\" }\ntolerance = 1",
    "metric = \"counterfactual-fairness\"\ndecision = 'score > 5'\ntolerance = 0.1",
];

fn file(metrics: &[&str], trial: &str, more: &str) -> String {
    let rule = if more.contains("guarantee") { "" } else { "rule = \"map\"\n" };
    let metrics: String =
        metrics.iter().map(|metric| format!("\n[[fairness]]\n{metric}\n{rule}{more}\n")).collect();
    format!("{HEAD}\n[trial]\nkey = \"id\"\n{trial}\n{metrics}")
}

/// Whether a metric depends only on the opening event.
fn is_known_at_once(metric: &str) -> bool {
    !metric.contains("to = ") && !metric.contains("counterfactual")
}

fn check(toml: &str) {
    let (compiled, spec) = compile(toml);
    ReferenceEngine::check(&spec).unwrap_or_else(|error| panic!("{error}\n{}", compiled.rtlola()));
    let engine = CompiledEngine::new(&spec, Time(0)).unwrap();
    for explanation in engine.explain() {
        assert!(explanation.warnings.is_empty(), "{explanation:?}\n{}", compiled.rtlola());
    }
}

#[test]
fn every_stream_of_every_metric_is_reached_by_lookup() {
    let trials = [
        "group = \"gender\"",
        "group = [\"gender\", \"region\"]\nopens = 'score > 0 or score < -5'",
        "group = \"gender\"\nhorizon = \"30d\"",
    ];
    for metric in METRICS {
        for trial in trials {
            for more in ["", "check = \"1d\"\nmin_trials = 3", "confidence = 0"] {
                check(&file(&[metric], trial, more));
                if trial.contains("horizon") {
                    check(&file(&[metric], trial, &format!("{more}\nwindow = \"30d\"")));
                }
            }
            let at_opening = file(&[metric], "group = \"gender\"\nhorizon = \"0s\"", "");
            if is_known_at_once(metric) {
                check(&at_opening.replace(", key = \"accepted\"", ""));
            }
            let beside = trial
                .replace("\"gender\"", "{ column = \"gender\", reference = \"M\" }")
                .replace("\"region\"", "{ column = \"region\", reference = 0 }");
            check(&file(&[metric], &beside, "confidence = 0"));
            if !metric.contains("strata") {
                check(&file(&[metric], &beside, "strata = [\"department\", \"floor\"]"));
                check(&file(
                    &[metric],
                    trial,
                    "strata = [\"department\", \"floor\"]\nconfidence = 4\nprior = 'if s1 = \"a\" then 0.1 else 0.2'",
                ));
            }
        }
    }
}

#[test]
fn all_metrics_at_once_share_their_trials() {
    let toml = file(&METRICS, "group = \"gender\"\nhorizon = \"30d\"", "check = \"1d\"");
    check(&toml);
    let (compiled, _) = compile(&toml);
    for shared in ["output openings(", "output is_high(", "output n_later(", "output trial_high_and_later("] {
        assert_eq!(compiled.rtlola().matches(shared).count(), 1, "{shared}\n{}", compiled.rtlola());
    }
}

/// A stretch without events costs what leaves the window in it, not the steps that pass.
#[test]
fn five_years_without_an_event_take_no_time() {
    for metric in METRICS {
        for window in ["100s", "1h", "30d"] {
            let more = format!("check = \"1s\"\nwindow = \"{window}\"");
            let toml = file(&[metric], "group = \"gender\"\nhorizon = \"30s\"", &more);
            let csv = "time,id,gender,region,department,floor,score,accepted\n0,1,F,1,a,1,7,\n1,2,M,1,a,1,3,\n\
                       3,,,,,,,2\n157680000,3,F,1,a,1,7,\n";
            let start = std::time::Instant::now();
            let until = Time(157_680_001 * 1_000_000_000);
            observe(&toml, csv, until, compiled, 8192, Selection::Triggers);
            assert!(start.elapsed().as_secs() < 20, "{:?}\n{toml}", start.elapsed());
        }
    }
}

/// Disjunctions of columns, for which the frontend needs exponential time, are not generated.
#[test]
fn many_columns_take_no_time() {
    let columns: Vec<String> = (0..40).map(|index| format!("c{index}")).collect();
    let types: String = columns.iter().map(|column| format!("{column} = \"Int64\"\n")).collect();
    let condition: Vec<String> = columns.iter().map(|column| format!("{column} > 0")).collect();
    let toml = format!(
        "[events.columns]\nid = \"UInt64\"\ngender = \"String\"\n{types}\n[trial]\nkey = \"id\"\ngroup = \"gender\"\n\
         [indicators]\nall = '{}'\n[[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"all\"\ntolerance = 0.1\nrule = \"map\"\n",
        condition.join(" and ")
    );
    let start = std::time::Instant::now();
    compile(&toml);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
