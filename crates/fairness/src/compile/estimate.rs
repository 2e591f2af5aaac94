//! The end of the count layer: counts → MAP estimates, the gap between groups, the trigger.

use crate::Comparison;
use crate::file::{Metric, Prior};
use crate::reference::ReferenceValue;

use super::names::Names;
use super::scope::{Pace, Scope};
use super::text::Text;

pub(super) struct EstimateLayer<'a> {
    pub(super) scope: &'a Scope,
    pub(super) names: &'a mut Names,
    pub(super) text: &'a mut Text,
    pub(super) metric: &'a Metric,
    pub(super) pace: Pace,
    /// Name of a constant beyond any estimate. It takes a group out of a comparison.
    pub(super) far: &'a str,
}

/// The count streams of a rate.
pub(super) struct RateCounts<'a> {
    pub(super) numerator: &'a str,
    pub(super) denominator: &'a str,
    /// Whether the numerator is a Float64.
    pub(super) is_sum: bool,
    /// When the count streams are evaluated.
    pub(super) pace: &'a Pace,
}

/// The names of a rate's streams.
pub(super) struct Estimated {
    pub(super) prior: Option<String>,
    pub(super) estimate: Option<String>,
    pub(super) gap_in: Option<String>,
    /// Evaluated at every check, after all other streams of the rate.
    pub(super) gap: String,
}

impl EstimateLayer<'_> {
    pub(super) fn rate(&mut self, base: &str, title: &str, counts: &RateCounts<'_>) -> Estimated {
        let prior = self.prior(base);
        let gamma = self.gamma(base, counts, prior.as_deref());
        let estimate = self.estimate(base, counts, &gamma);
        let required = self.metric.required_trials();
        let denominator = self.read(counts.denominator, counts, "0");
        let [highest, lowest] = match required {
            0 => [estimate.clone(), estimate.clone()],
            _ => self.with_evidence(base, &estimate, &denominator, required),
        };
        let gap = match self.metric.reference.as_deref() {
            None => self.gap(base, &highest, &lowest, required > 0),
            Some(reference) => self.gap_with(base, &highest, &lowest, reference),
        };
        match &self.metric.guarantee {
            None => self.trigger(&gap, title),
            Some(_) => {
                self.text.line("// No trigger: the judge decides from the counts whether this is unfair.\n")
            }
        }
        let overall = self.overall(base, &gap);
        let gap_in = (!self.scope.strata.is_empty()).then_some(gap);
        Estimated { prior, estimate: Some(estimate), gap_in, gap: overall }
    }

    /// Whether the estimate streams of a rate can be omitted because they cannot fail: they only add and divide counts
    /// and constants. Sums of numbers and computed priors may be infinite.
    pub(super) fn can_omit_estimates(&self, counts: &RateCounts<'_>) -> bool {
        !counts.is_sum && !matches!(self.metric.prior, Prior::Expression(_))
    }

    /// Writes the stream that triggers checks of a rate whose estimate streams are omitted.
    pub(super) fn check_stream(&mut self, base: &str) -> Estimated {
        let name = self.names.new_name(&format!("{base}_check"));
        self.text
            .line(&format!("// Triggers a check.\noutput {name} : Bool @{} := true\n", self.pace.text()));
        Estimated { prior: None, estimate: None, gap_in: None, gap: name }
    }

    /// Reads a count stream at the pace of this metric.
    fn read(&self, stream: &str, counts: &RateCounts<'_>, zero: &str) -> String {
        let params = self.scope.count_params();
        if *counts.pace == self.pace {
            format!("{stream}({params})")
        } else {
            format!("{stream}({params}).hold(or: {zero})")
        }
    }

    fn of_groups(&mut self, name: &str, pacing: &str, expression: &str) {
        self.text.line(&format!("output {name}({}) : Float64", self.scope.count_params()));
        self.text.line(&self.scope.spawn_of_count());
        self.text.line(&format!("  eval @{pacing}\n    with {expression}\n"));
    }

    fn prior(&mut self, base: &str) -> Option<String> {
        let Prior::Expression(expression) = &self.metric.prior else { return None };
        let name = self.names.new_name(&format!("{base}_prior"));
        let mark = self.text.mark(expression);
        self.text.line("// The prior γ, recomputed at every check.");
        self.of_groups(&name, &self.pace.text(), &mark);
        Some(name)
    }

    /// The prior γ as an expression of a stream over groups.
    fn gamma(&mut self, base: &str, counts: &RateCounts<'_>, prior: Option<&str>) -> String {
        match (prior, &self.metric.prior) {
            (Some(stream), _) => format!("{stream}({})", self.scope.count_params()),
            (None, Prior::Number(number)) => float(*number),
            (None, Prior::Pooled) if self.metric.confidence > 0.0 => {
                let pooled = self.pooled(base, counts);
                let params = self.scope.strata_params();
                if params.is_empty() { pooled } else { format!("{pooled}({params})") }
            }
            (None, Prior::Pooled | Prior::Expression(_)) => String::new(),
        }
    }

    /// Writes the rate of all groups together.
    fn pooled(&mut self, base: &str, counts: &RateCounts<'_>) -> String {
        let name = self.names.new_name(&format!("{base}_pooled"));
        let trials = self.scope.over_groups(counts.denominator, "sum");
        let sum = self.scope.over_groups(counts.numerator, "sum");
        let sum = if counts.is_sum { sum } else { format!("cast<UInt64, Float64>({sum})") };
        // Both branches may be evaluated, so that the divisor must not be 0 in either.
        let expression = format!(
            "if {trials} > 0 then {sum}\n       / cast<UInt64, Float64>(if {trials} > 0 then {trials} else 1)\n       else 0.5"
        );
        self.text.line("// The prior γ: the rate of all groups together.");
        self.over_groups(&name, &expression);
        name
    }

    fn estimate(&mut self, base: &str, counts: &RateCounts<'_>, gamma: &str) -> String {
        let name = self.names.new_name(&format!("{base}_estimate"));
        let denominator = self.read(counts.denominator, counts, "0");
        let of = format!("cast<UInt64, Float64>({denominator})");
        let positive = match counts.is_sum {
            true => self.read(counts.numerator, counts, "0.0"),
            false => format!("cast<UInt64, Float64>({})", self.read(counts.numerator, counts, "0")),
        };
        let (kappa, pace) = (float(self.metric.confidence), self.pace.text());
        if self.metric.confidence == 0.0 {
            self.text.line("// Estimates: numerator / denominator, where there is a trial to divide by.");
            self.of_groups(&name, &format!("{pace} when {denominator} > 0"), &format!("{positive} / {of}"));
        } else {
            self.text.line(&format!("// Estimates: (numerator + γκ) / (denominator + κ), with κ = {kappa}."));
            self.of_groups(
                &name,
                &pace,
                &format!("({positive} + {gamma} * {kappa})\n       / ({of} + {kappa})"),
            );
        }
        name
    }

    /// Writes the estimates that are compared: those of groups with enough trials.
    fn with_evidence(&mut self, base: &str, estimate: &str, denominator: &str, required: u64) -> [String; 2] {
        let what = if required == 1 { "a trial" } else { &format!("at least {required} trials") };
        self.text.line(&format!("// Only groups with {what} are compared."));
        let pace = self.pace.text();
        let params = self.scope.count_params();
        [("most", format!("-{}", self.far)), ("least", self.far.to_owned())].map(|(word, far)| {
            let name = self.names.new_name(&format!("{base}_{word}"));
            let value =
                format!("if {denominator} < {required} then {far} else {estimate}({params}).hold(or: {far})");
            self.of_groups(&name, &pace, &value);
            name
        })
    }

    /// Writes a stream over all groups, for each stratum if there are strata.
    fn over_groups(&mut self, name: &str, expression: &str) {
        let pace = self.pace.text();
        if self.scope.strata.is_empty() {
            self.text.line(&format!("output {name} : Float64 @{pace}\n  := {expression}\n"));
        } else {
            self.text.line(&format!("output {name}({}) : Float64", self.scope.strata_params()));
            self.text.line(&self.scope.spawn_of_strata());
            self.text.line(&format!("  eval @{pace}\n    with {expression}\n"));
        }
    }

    /// The same under a name of its own. Returns how the instance of the stratum is read.
    fn named_over_groups(&mut self, base: &str, word: &str, expression: &str) -> String {
        let name = self.names.new_name(&format!("{base}_{word}"));
        self.over_groups(&name, expression);
        let params = self.scope.strata_params();
        if params.is_empty() { name } else { format!("{name}({params})") }
    }

    fn gap(&mut self, base: &str, highest: &str, lowest: &str, guarded: bool) -> String {
        let comparison = self.metric.kind.comparison();
        let word = if comparison == Comparison::Ratio { "ratio" } else { "gap" };
        let within = if self.scope.strata.is_empty() { "" } else { "_in" };
        let name = self.names.new_name(&format!("{base}_{word}{within}"));
        let (far_up, far_down) = (self.far.to_owned(), format!("-{}", self.far));
        let most =
            |default: &str| format!("{}.defaults(to: {default})", self.scope.over_groups(highest, "max"));
        let least =
            |default: &str| format!("{}.defaults(to: {default})", self.scope.over_groups(lowest, "min"));
        if comparison == Comparison::Difference && !guarded {
            let expression = format!("{}\n   - {}", most("0.0"), least("0.0"));
            self.text.line("// The largest difference between any two groups.");
            self.over_groups(&name, &expression);
            return name;
        }
        let [most, least] = [most(&far_down), least(&far_up)];
        let [high, low] = ["highest", "lowest"].map(|word| self.names.new_name(&format!("{base}_{word}")));
        let params = self.scope.strata_params();
        let of =
            |stream: &str| if params.is_empty() { stream.to_owned() } else { format!("{stream}({params})") };
        let (h, l) = (of(&high), of(&low));
        self.text.line("// The highest and the lowest estimate.");
        self.over_groups(&high, &most);
        let (about, expression) = match comparison {
            Comparison::Difference => {
                self.over_groups(&low, &least);
                (
                    "The largest difference between any two groups.",
                    format!("if {h} < {l} then 0.0 else {h} - {l}"),
                )
            }
            Comparison::Ratio => {
                self.over_groups(&low, &least);
                (
                    "The lowest divided by the highest; 1 if no estimate is above 0.",
                    format!("if {h} <= 0.0 ∨ {h} < {l} then 1.0 else {l} / (if {h} > 0.0 then {h} else 1.0)"),
                )
            }
            Comparison::Highest => ("The highest of all groups.", format!("if {h} < 0.0 then 0.0 else {h}")),
        };
        self.text.line(&format!("// {about}"));
        self.over_groups(&name, &expression);
        name
    }

    /// Writes the gap between the reference group and the one that is furthest from it.
    fn gap_with(&mut self, base: &str, highest: &str, lowest: &str, reference: &[ReferenceValue]) -> String {
        let is_ratio = self.metric.kind.comparison() == Comparison::Ratio;
        let word = if is_ratio { "ratio" } else { "gap" };
        let within = if self.scope.strata.is_empty() { "" } else { "_in" };
        let name = self.names.new_name(&format!("{base}_{word}{within}"));
        let (far_up, far_down) = (self.far.to_owned(), format!("-{}", self.far));
        let instance: Vec<String> = reference.iter().map(ReferenceValue::literal).collect();
        let instance = [instance.as_slice(), &self.scope.strata_names()].concat().join(", ");
        self.text.line("// The estimate of the reference group, which the others are compared with.");
        let r =
            self.named_over_groups(base, "reference", &format!("{highest}({instance}).hold(or: {far_down})"));
        self.text.line("// The highest and the lowest estimate.");
        let most = self.scope.over_groups(highest, "max");
        let h = self.named_over_groups(base, "highest", &format!("{most}.defaults(to: {far_down})"));
        let least = self.scope.over_groups(lowest, "min");
        let l = self.named_over_groups(base, "lowest", &format!("{least}.defaults(to: {far_up})"));
        // Where the reference is compared, the highest is at least its estimate, and the lowest at most.
        let (about, equal, sign, above, below) = match is_ratio {
            false => ("difference", "0.0", ">", format!("{h} - {r}"), format!("{r} - {l}")),
            true => {
                let ratio = |low: &str, high: &str| {
                    format!("if {high} > 0.0 then {low} / (if {high} > 0.0 then {high} else 1.0) else 1.0")
                };
                ("ratio", "1.0", "<", ratio(&r, &h), ratio(&l, &r))
            }
        };
        self.text.line(&format!("// The {about} of the reference and the groups above and below it."));
        let above = self.named_over_groups(base, "above", &above);
        let below = self.named_over_groups(base, "below", &below);
        let which = if is_ratio { "lower" } else { "larger" };
        self.text.line(&format!("// The {which} of both; {equal} if the reference has too few trials."));
        let expression = format!(
            "if {r} <= {far_down} then {equal} else if {above} {sign} {below} then {above} else {below}"
        );
        self.over_groups(&name, &expression);
        name
    }

    fn trigger(&mut self, gap: &str, title: &str) {
        let tolerance = float(self.metric.tolerance);
        let reference = self.metric.reference.as_deref().map(|values| {
            let values: Vec<String> = values.iter().map(ReferenceValue::label).collect();
            values.join(", ")
        });
        let (sign, words) = match (self.metric.kind.comparison(), reference) {
            (Comparison::Difference, Some(reference)) => {
                (">", format!("a group differs from {reference} by more than {}", self.metric.tolerance))
            }
            (Comparison::Ratio, Some(reference)) => {
                ("<", format!("the ratio of a group and {reference} is less than {}", self.metric.tolerance))
            }
            (Comparison::Difference, None) => {
                (">", format!("groups differ by more than {}", self.metric.tolerance))
            }
            (Comparison::Ratio, None) => {
                ("<", format!("the lowest is less than {} of the highest", self.metric.tolerance))
            }
            (Comparison::Highest, _) => (">", format!("more than {} in a group", self.metric.tolerance)),
        };
        let [title, words] = [title, &words].map(|text| {
            text.chars().map(|c| if "\"{}\\".contains(c) { '\'' } else { c }).collect::<String>()
        });
        if self.scope.strata.is_empty() {
            self.text.line(&format!("trigger {gap} {sign} {tolerance}\n  \"{title} violated: {words}\"\n"));
            return;
        }
        let params = self.scope.strata_params();
        let places: Vec<String> =
            self.scope.strata.iter().map(|facet| format!("{{{{{}}}}}", facet.param)).collect();
        self.text.line(&format!("trigger({params})"));
        self.text.line(&self.scope.spawn_of_strata());
        self.text.line(&format!(
            "  eval @{} when {gap}({params}) {sign} {tolerance}\n    with \"{title} violated in {}: {words}\".format({params})\n",
            self.pace.text(),
            places.join(", ")
        ));
    }

    /// Writes the stream with the largest gap over all strata.
    fn overall(&mut self, base: &str, gap: &str) -> String {
        if self.scope.strata.is_empty() {
            return gap.to_owned();
        }
        let (word, using, default) = match self.metric.kind.comparison() {
            Comparison::Ratio => ("ratio", "min", "1.0"),
            _ => ("gap", "max", "0.0"),
        };
        let name = self.names.new_name(&format!("{base}_{word}"));
        self.text.line("// The worst value of all strata.");
        self.text.line(&format!(
            "output {name} : Float64 @{}\n  := {gap}.aggregate(over_instances: all, using: {using}).defaults(to: {default})\n",
            self.pace.text()
        ));
        name
    }
}

/// A number as a Float64 literal of RTLola.
pub(super) fn float(number: f64) -> String {
    let text = format!("{number}");
    if text.contains('.') { text } else { format!("{text}.0") }
}
