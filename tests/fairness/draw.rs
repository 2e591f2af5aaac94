//! Draws random events and random fairness files.

use proptest::prelude::*;

use super::oracle::Row;

/// A random fairness file.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) metric: &'static str,
    /// `gender`, or `gender` and `region`.
    pub(crate) two_groups: bool,
    /// The gender that others are compared with; with two columns, in region 0.
    pub(crate) reference: Option<&'static str>,
    /// The column `place`.
    pub(crate) has_strata: bool,
    /// `Some(0)`: the opening event is the whole trial.
    pub(crate) horizon: Option<i64>,
    pub(crate) period: Option<i64>,
    pub(crate) opens: bool,
    pub(crate) confidence: f64,
    pub(crate) prior: DrawnPrior,
    pub(crate) min_trials: u64,
    pub(crate) within: Option<i64>,
    /// For `probability` and means: only trials with, or without, this indicator.
    pub(crate) given: Option<bool>,
    pub(crate) tolerance: f64,
    pub(crate) clear: f64,
    /// With a guarantee instead of the rule of the paper.
    pub(crate) guarantee: Option<DrawnGuarantee>,
    /// The range to which numbers of a mean are clamped.
    pub(crate) range: Option<(f64, f64)>,
    /// The window in which trials count, in seconds.
    pub(crate) window: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DrawnGuarantee {
    /// The probability of a false alarm, the fraction of false ones, or the trials between two.
    pub(crate) promise: f64,
    /// Whether it is the fraction.
    pub(crate) are_discoveries: bool,
    pub(crate) block: u64,
    /// How long a block lasts, in seconds.
    pub(crate) span: Option<i64>,
    pub(crate) strata: Option<u64>,
}

impl DrawnGuarantee {
    pub(crate) fn is_detector(&self) -> bool {
        self.promise > 1.0
    }

    /// Whether a detector counts checks instead of blocks.
    pub(crate) fn in_checks(&self, plan: &Plan) -> bool {
        self.is_detector() && self.block > 3 && plan.period.is_some()
    }

    /// The decay length of a detector.
    pub(crate) fn memory(&self) -> Option<u64> {
        (self.promise > 10.0).then_some(9)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DrawnPrior {
    Default,
    Number(f64),
    /// The last score of all, divided by ten.
    OfScores,
}

pub(crate) fn plan(metric: &'static str) -> impl Strategy<Value = Plan> {
    // These metrics read later events, so the horizon cannot be 0.
    let least = if ["delay", "counterfactual-fairness"].contains(&metric) { 1 } else { 0 };
    let shape = (
        any::<bool>(),
        any::<bool>(),
        prop::option::of(least..6_i64),
        prop::option::of(1..4_i64),
        any::<bool>(),
        // Some rows have no X at all.
        prop::sample::select(vec![None, None, None, Some("M"), Some("F"), Some("X")]),
    );
    let numbers = (
        prop::sample::select(vec![0.0, 4.0, 2.5]),
        prop::sample::select(vec![DrawnPrior::Default, DrawnPrior::Number(0.25), DrawnPrior::OfScores]),
        0..3_u64,
        prop::option::of(0..5_i64),
        prop::option::of(any::<bool>()),
        prop::sample::select(vec![(0.1, 0.1), (0.2, 0.05), (0.0, 0.0)]),
        prop::option::of(1..6_i64),
    );
    (shape, numbers).prop_map(move |(shape, numbers)| {
        let (two_groups, strata, horizon, period, opens, reference) = shape;
        let (confidence, prior, min_trials, within, given, (tolerance, clear), window) = numbers;
        let is_final = horizon.is_some();
        let window = window.filter(|_| is_final).map(|window| window * period.unwrap_or(1));
        let has_strata = strata || metric == "conditional-statistical-parity";
        let (tolerance, clear) =
            if metric == "disparate-impact" { (1.0 - tolerance, 1.0 - clear) } else { (tolerance, clear) };
        // A bound of 0 is refused.
        let within = within.map(|within| within + 1);
        Plan {
            metric,
            two_groups,
            reference,
            has_strata,
            horizon,
            period,
            opens,
            confidence,
            prior: if confidence == 0.0 { DrawnPrior::Default } else { prior },
            min_trials,
            within,
            given,
            tolerance,
            clear,
            guarantee: None,
            range: is_mean(metric).then_some((1.5, 7.0)).filter(|_| two_groups),
            window,
        }
    })
}

fn is_mean(metric: &str) -> bool {
    ["mean-difference", "delay"].contains(&metric)
}

/// A plan with a guarantee, in which trials are final.
pub(crate) fn guaranteed(metric: &'static str) -> impl Strategy<Value = Plan> {
    let promise = prop::sample::select(vec![0.4, 0.95, 8.0, 16.0]);
    let shape = (2..6_u64, prop::option::of(1..4_i64), prop::option::of(1..3_u64), any::<bool>());
    (plan(metric), promise, shape, 1..4_i64).prop_map(move |(plan, promise, shape, horizon)| {
        let (block, span, strata, are_discoveries) = shape;
        Plan {
            horizon: plan.horizon.or(Some(horizon)),
            range: is_mean(metric).then_some((1.5, 7.0)),
            clear: plan.tolerance,
            window: plan.window.filter(|_| promise > 1.0),
            guarantee: Some(DrawnGuarantee {
                promise,
                are_discoveries: are_discoveries && promise < 1.0,
                block,
                span,
                strata: strata.filter(|_| plan.has_strata),
            }),
            ..plan
        }
    })
}

impl Plan {
    pub(crate) fn toml(&self) -> String {
        let within = self.within.map(|seconds| format!(", within = \"{seconds}s\"")).unwrap_or_default();
        let later = match self.horizon {
            Some(0) => "'other < 3'".to_owned(),
            _ => format!("{{ when = 'true', key = \"other\"{within} }}"),
        };
        let mut text = format!(
            "[events.columns]\nid = \"UInt64\"\nkind = \"String\"\ngender = \"String\"\nregion = \"Int64\"\n\
             place = \"String\"\nscore = \"Int64\"\nother = \"UInt64\"\n\n{}[trial]\nkey = \"id\"\n{}{}{}\n\
             [indicators]\nhigh = 'score > 5'\nlater = {later}\n\
             ended = 'kind == \"end\" or kind == \"stop\"'\n\n",
            self.references(),
            if self.two_groups { "group = [\"gender\", \"region\"]\n" } else { "group = \"gender\"\n" },
            if self.opens { "opens = 'kind == \"open\"'\n" } else { "" },
            self.horizon.map(|seconds| format!("horizon = \"{seconds}s\"\n")).unwrap_or_default(),
        );
        let given = match self.given {
            None => "",
            Some(true) => "given = [\"ended\"]\n",
            Some(false) => "given = [\"not ended\"]\n",
        };
        let metric = if self.metric == "delay" { "mean-difference" } else { self.metric };
        text += &format!("[[fairness]]\nmetric = \"{metric}\"\n");
        text += &match self.metric {
            "equalized-odds" | "equal-opportunity" | "predictive-equality" | "predictive-parity" => {
                "prediction = \"high\"\noutcome = \"later\"\n".to_owned()
            }
            "probability" => format!("of = [\"high\", \"not later\"]\n{given}"),
            "mean-difference" => format!("of = \"score\"\n{given}"),
            "delay" => match self.opens || self.window.is_some() {
                true => format!("of = {{ from = \"high\", to = \"later\" }}\n{given}"),
                false => format!("of = {{ to = \"later\", unit = \"min\" }}\n{given}"),
            },
            "counterfactual-fairness" => "decision = 'score > 5'\n".to_owned(),
            _ => "decision = \"later\"\n".to_owned(),
        };
        text += &format!("tolerance = {}\nconfidence = {}\n", self.tolerance, self.confidence);
        match self.guarantee {
            None => text += &format!("rule = \"map\"\nclear = {}\n", self.clear),
            Some(guarantee) => {
                let DrawnGuarantee { promise, are_discoveries, block, span, strata } = guarantee;
                let promise = match (guarantee.is_detector(), self.period) {
                    (false, _) if are_discoveries => format!("false_discoveries = {promise}"),
                    (false, _) => format!("false_alarms = {promise}"),
                    (true, Some(period)) if guarantee.in_checks(self) => {
                        format!("false_alarm_every = \"{}s\"", promise * period as f64)
                    }
                    (true, _) => format!("false_alarm_every = {promise}"),
                };
                let memory =
                    guarantee.memory().map(|memory| format!(", memory = {memory}")).unwrap_or_default();
                let span = span.map(|span| format!(", block_span = \"{span}s\"")).unwrap_or_default();
                let strata = strata.map(|strata| format!(", strata = {strata}")).unwrap_or_default();
                text += &format!("guarantee = {{ {promise}, block = {block}{memory}{span}{strata} }}\n");
            }
        }
        if let Some(window) = self.window {
            text += &format!("window = \"{window}s\"\n");
        }
        if let Some((low, high)) = self.range {
            text += &format!("range = [{low}, {high}]\n");
        }
        match self.prior {
            DrawnPrior::Default => {}
            DrawnPrior::Number(number) => text += &format!("prior = {number}\n"),
            DrawnPrior::OfScores => {
                text += "prior = 'cast<Int64, Float64>(score.hold(or: 5)) / 10.0'\n";
            }
        }
        if self.min_trials > 0 {
            text += &format!("min_trials = {}\n", self.min_trials);
        }
        if self.has_strata {
            text += "strata = \"place\"\n";
        }
        if let Some(seconds) = self.period {
            text += &format!("check = \"{seconds}s\"\n");
        }
        text
    }

    fn references(&self) -> String {
        let Some(gender) = self.reference else { return String::new() };
        let region = if self.two_groups { "region = { reference = 0 }\n" } else { "" };
        format!("[groups]\ngender = {{ reference = \"{gender}\" }}\n{region}\n")
    }

    /// The group that others are compared with, as the values of its columns.
    pub(crate) fn reference_group(&self) -> Option<String> {
        let gender = self.reference.filter(|_| self.metric != "counterfactual-fairness")?;
        Some(if self.two_groups { format!("\"{gender}\",0") } else { format!("\"{gender}\"") })
    }

    /// End of the clock: after the last horizon.
    pub(crate) fn until(&self, rows: &[Row]) -> i64 {
        rows.last().map_or(0, |row| row.time) + self.horizon.unwrap_or(0) + 4
    }
}

/// Rows in order of time, with ties, few keys and many nulls.
pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    rows_of(6, 1..40)
}

/// Rows of many people. Those with an odd key are F and are accepted less often, for alarms that need evidence; or they
/// are accepted more often after some time, for alarms that are cleared.
pub(crate) fn unfair_rows() -> impl Strategy<Value = Vec<Row>> {
    (rows_of(60, 60..140), any::<bool>()).prop_map(|(mut rows, turns)| {
        let half = rows.len() / 2;
        for (index, row) in rows.iter_mut().enumerate() {
            let is_turned = turns && index > half;
            let is_odd = row.id.is_some_and(|id| id % 2 == 1) != is_turned;
            row.gender = row.gender.map(|_| if is_odd { "F" } else { "M" });
            row.score = row.score.map(|score| if is_odd { score / 2 } else { score.max(4) });
            row.other = row.other.map(|other| if is_odd { other + 100 } else { other / 2 * 2 });
            if row.other.is_none() && !is_odd {
                row.other = row.id.filter(|id| id % 4 == 0).map(|id| id % 40);
            }
        }
        rows
    })
}

/// Rows of so many people, treated so differently in every stratum that several alarms are raised.
pub(crate) fn very_unfair_rows() -> impl Strategy<Value = Vec<Row>> {
    rows_of(400, 200..300).prop_map(|mut rows| {
        let mut earlier = None;
        for (index, row) in rows.iter_mut().enumerate() {
            let is_odd = row.id.is_some_and(|id| id % 2 == 1);
            row.kind = Some("open");
            row.gender = Some(if is_odd { "F" } else { "M" });
            row.region = Some(0);
            row.score = row.score.map(|score| if is_odd { score % 6 } else { 6 + score % 5 });
            // Of every second person the outcome comes with the next row.
            row.other = earlier.filter(|_| index % 4 < 2);
            earlier = row.id;
        }
        rows
    })
}

fn rows_of(keys: u64, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0..3_i64,
        prop::option::weighted(0.85, 0..keys),
        prop::option::weighted(0.8, prop::sample::select(vec!["open", "open", "end", "stop", "x"])),
        prop::option::weighted(0.85, prop::sample::select(vec!["F", "M", "X"])),
        prop::option::weighted(0.9, -1..1_i64),
        prop::option::weighted(0.85, prop::sample::select(vec!["north", "south"])),
        prop::option::weighted(0.6, 0..11_i64),
        prop::option::weighted(0.3, 0..keys),
    );
    prop::collection::vec(row, count).prop_map(|drawn| {
        let mut time = 0;
        let mut rows = Vec::new();
        for (step, id, kind, gender, region, place, score, other) in drawn {
            time += if step == 2 { 1 } else { 0 };
            rows.push(Row { time, id, kind, gender, region, place, score, other });
        }
        rows
    })
}
