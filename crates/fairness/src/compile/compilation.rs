//! Writes the RTLola text of a fairness file: a header, and for each population its trials, counts and estimates.

use std::time::Duration;

use super::bind::{self, BoundFile};
use super::counts::CountLayer;
use super::estimate::{EstimateLayer, Estimated, RateCounts};
use super::facts::{Amount, Fact, Quantity, amounts, unknown_amount};
use super::names::Names;
use super::rules::{rate_title, rule};
use super::scope::{Pace, Params, Scope};
use super::text::Text;
use super::trials::{TrialLayer, TrialLayerStreams};
use super::{
    BoundInput, Compiled, CountStream, InputOrigin, JudgedStreams, RateStreams, TrialRate, TrialStreams,
};
use crate::explain::Description;
use crate::file::{EventColumn, FairnessFile, Metric};
use crate::metric::Rate;
use crate::table::values;
use crate::{FileError, RollingWindow};

/// Which layers are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompiledLayers {
    /// All layers, up to triggers.
    Whole,
    /// Only what the judge needs.
    Counts,
}

impl FairnessFile {
    /// Compiles these layers of the file.
    pub(super) fn compile_to(
        &self,
        extent: CompiledLayers,
        of_source: &[EventColumn],
    ) -> Result<Compiled, FileError> {
        let mut names = Names::default();
        let BoundFile { file, mut inputs } = bind::bind(self, of_source, &mut names)?;
        let params = Params::new(&file, &mut names);
        let clock = needs_clock(self).then(|| names.new_name("now"));
        let mut compilation = Compilation {
            original: self,
            file: &file,
            extent,
            inputs: &inputs,
            params,
            clock,
            far: names.new_name("far"),
            names,
            text: Text::default(),
            count_streams: Vec::new(),
            streams: Vec::new(),
            trials: Vec::new(),
        };
        compilation.header();
        let mut populations: Vec<Population> = Vec::new();
        for metric in &file.metrics {
            let population = Population::of(metric);
            if !populations.contains(&population) {
                populations.push(population);
            }
        }
        for population in &populations {
            compilation.population(population);
        }
        let Compilation { text, count_streams, clock, mut streams, trials, .. } = compilation;
        streams.sort_by_key(|streams| (streams.metric, streams.rate));
        let (rtlola, mappings) = text.finish();
        let rtlola = format!("{}\n", rtlola.trim_end());
        let references = file.metrics.iter().map(|metric| metric.reference.as_deref());
        let rules = self.metrics.iter().zip(references);
        let rules = rules.map(|(metric, reference)| rule(self, metric, reference)).collect();
        inputs.extend(clock.map(|stream| BoundInput {
            stream,
            data_type: "Int64".to_owned(),
            origin: InputOrigin::Time,
        }));
        let (file, of_source) = (self.clone(), of_source.to_vec());
        Ok(Compiled { file, of_source, rtlola, mappings, inputs, count_streams, rules, streams, trials })
    }
}

/// The columns whose values tell trials of some metrics apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Population {
    groups: Vec<String>,
    strata: Vec<String>,
}

impl Population {
    fn of(metric: &Metric) -> Population {
        Population { groups: values(&metric.groups), strata: values(&metric.strata) }
    }
}

/// The counts of the trials in a window, at the pace of the metrics that read them.
struct WindowCounts {
    window: RollingWindow,
    pace: Pace,
    counts: Vec<(Amount, Pace, String)>,
}

/// A text that is being written.
struct Compilation<'a> {
    /// The file as the user wrote it.
    original: &'a FairnessFile,
    /// The same with inputs in place of columns.
    file: &'a FairnessFile,
    extent: CompiledLayers,
    inputs: &'a [BoundInput],
    params: Params,
    clock: Option<String>,
    /// Name of the constant that takes a group out of a comparison.
    far: String,
    names: Names,
    text: Text,
    count_streams: Vec<CountStream>,
    streams: Vec<RateStreams>,
    trials: Vec<TrialStreams>,
}

impl Compilation<'_> {
    fn header(&mut self) {
        self.text.line(&format!("// {}", one_line(self.file.title())));
        self.text.line("//");
        for paragraph in Description::of(self.original).paragraphs() {
            for line in wrapped(&paragraph, 96) {
                self.text.line(&format!("// {line}"));
            }
        }
        self.text.push("\n");
        let expressions = || self.file.expressions();
        if expressions().any(|expression| expression.calls_math) {
            self.text.line("import math");
        }
        if expressions().any(|expression| expression.matches_pattern) {
            self.text.line("import regex");
        }
        for BoundInput { stream, data_type, origin } in self.inputs {
            let about = match origin {
                InputOrigin::Column(name) if name == stream => None,
                InputOrigin::Column(name) => Some(format!("The column `{}`.", one_line(name))),
                InputOrigin::Groups { name, column, .. } => Some(format!(
                    "The groups `{}`, which fairstream makes from the column `{}`.",
                    one_line(name),
                    one_line(&column.name)
                )),
                InputOrigin::RowNumber => {
                    Some("The number of the row, which fairstream supplies.".to_owned())
                }
                InputOrigin::Time => None,
            };
            if let Some(about) = about {
                self.text.line(&format!("// {about}"));
            }
            self.text.line(&format!("input {stream} : {data_type}"));
        }
        if let Some(clock) = &self.clock {
            self.text.line(&format!(
                "// When an event happened, in nanoseconds since 1970. fairstream supplies it; other tools need the column.\n\
                 input {clock} : Int64"
            ));
        }
        if self.file.metrics.iter().any(Metric::is_guarded) {
            self.text.line(&format!(
                "// Beyond any estimate: takes a group out of a comparison.\n\
                 constant {} : Float64 := 1000000000000000000000000000.0",
                self.far
            ));
        }
        self.text.push("\n");
    }

    /// Writes the streams over the trials with these groups and strata.
    fn population(&mut self, population: &Population) {
        let Population { groups, strata } = population;
        let file = self.file;
        let metrics: Vec<(usize, &Metric)> = file
            .metrics
            .iter()
            .enumerate()
            .filter(|(_, metric)| Population::of(metric) == *population)
            .collect();
        let counted = self.counting_pace(&metrics);
        let scope = Scope::new(file, groups, strata, counted, &self.params, &mut self.names, &mut self.text);
        let mut wanted: Vec<Amount> = Vec::new();
        for rate in metrics.iter().flat_map(|(_, metric)| &metric.rates) {
            let (numerator, denominator) = amounts(rate);
            for amount in [denominator, numerator].into_iter().chain(unknown_amount(rate)) {
                if !wanted.contains(&amount) {
                    wanted.push(amount);
                }
            }
        }
        let has_other_groups = self.params.has_other_groups(groups);
        let apart = [if has_other_groups { groups.as_slice() } else { &[] }, strata].concat();
        let among = if apart.is_empty() { String::new() } else { format!(", by {}", apart.join(" and ")) };
        self.text.line(&format!(
            "// ---- Trials{among}: one for each `{}`. Nothing here reads anything of another trial. ----\n",
            file.trial.key.value
        ));
        let clock = self.clock.clone();
        let layer =
            TrialLayer::new(file, self.inputs, &scope, &mut self.names, &mut self.text, clock.as_deref());
        let TrialLayerStreams { amounts: of_trials, facts, all } = layer.write(&wanted);
        self.trials.push(trial_streams(&scope, &metrics, &of_trials, facts, all));

        self.text.line(&format!("// ---- Counts{among}: trials added up for each group. ----\n"));
        let pending = CountLayer { scope: &scope, names: &mut self.names, text: &mut self.text }.pending();
        let mut counts: Vec<(Amount, Pace, String)> = Vec::new();
        let mut windows: Vec<WindowCounts> = Vec::new();
        for (index, metric) in metrics {
            let own = Self::pace(metric);
            let pace = scope.counted.clone().unwrap_or_else(|| own.clone());
            for rate in &metric.rates {
                let (numerator, denominator) = amounts(rate);
                for amount in [denominator, numerator].into_iter().chain(unknown_amount(rate)) {
                    if !counts.iter().any(|(known, at, _)| *known == amount && *at == pace) {
                        let of_trial = of_trials.iter().find(|(known, _)| *known == amount);
                        let of_trial = of_trial.map(|(_, name)| name.as_str()).unwrap_or_default();
                        let mut layer =
                            CountLayer { scope: &scope, names: &mut self.names, text: &mut self.text };
                        let name = layer.count(&amount, of_trial, &pace);
                        counts.push((amount, pace.clone(), name));
                    }
                }
            }
            let Some(window) = metric.window.as_ref().map(|window| window.value) else {
                self.estimates(&scope, index, metric, own, &pace, &counts, pending.as_deref());
                continue;
            };
            let at = windows.iter().position(|of| of.window == window && of.pace == own);
            let at = at.unwrap_or_else(|| {
                windows.push(WindowCounts { window, pace: own.clone(), counts: Vec::new() });
                windows.len() - 1
            });
            let inside = &mut windows[at].counts;
            for rate in &metric.rates {
                let (numerator, denominator) = amounts(rate);
                for amount in [denominator, numerator].into_iter().chain(unknown_amount(rate)) {
                    if inside.iter().any(|(known, ..)| *known == amount) {
                        continue;
                    }
                    let name = |amount: &Amount| {
                        let found = counts.iter().find(|(known, at, _)| known == amount && *at == pace);
                        found.map(|(.., name)| name.as_str()).unwrap_or_default()
                    };
                    let trials = Amount::Trials(amount.conjunction().clone());
                    let (count, trials) = (name(&amount), name(&trials));
                    let mut layer =
                        CountLayer { scope: &scope, names: &mut self.names, text: &mut self.text };
                    let name = layer.in_window(&amount, count, trials, &window, &own);
                    inside.push((amount, own.clone(), name));
                }
            }
            let (inside, pace) = (inside.clone(), own.clone());
            self.estimates(&scope, index, metric, own, &pace, &inside, pending.as_deref());
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one caller, and each is another thing")]
    fn estimates(
        &mut self,
        scope: &Scope,
        index: usize,
        metric: &Metric,
        own: Pace,
        counted: &Pace,
        counts: &[(Amount, Pace, String)],
        pending: Option<&str>,
    ) {
        self.text.line(&format!("// ---- {} ----\n", one_line(&metric.title)));
        for (number, rate) in metric.rates.iter().enumerate() {
            let (numerator, denominator) = amounts(rate);
            let stream = |amount: &Amount| {
                let found = counts.iter().find(|(known, at, _)| known == amount && at == counted);
                found.map(|(_, _, name)| name.as_str()).unwrap_or_default()
            };
            let rate_counts = RateCounts {
                numerator: stream(&numerator),
                denominator: stream(&denominator),
                is_sum: matches!(numerator, Amount::Sum(..)),
                pace: counted,
            };
            let base = if rate.label.is_empty() {
                metric.name.clone()
            } else {
                format!("{}_{}", metric.name, rate.label)
            };
            let title = rate_title(metric, rate.label);
            let mut layer = EstimateLayer {
                scope,
                names: &mut self.names,
                text: &mut self.text,
                metric,
                pace: own.clone(),
                far: &self.far,
            };
            let has_no_estimates =
                self.extent == CompiledLayers::Counts && layer.can_omit_estimates(&rate_counts);
            let estimated = if has_no_estimates {
                layer.check_stream(&base)
            } else {
                layer.rate(&base, &title, &rate_counts)
            };
            let Estimated { prior, estimate, gap, gap_in } = estimated;
            let judged = metric.guarantee.as_ref();
            let judged = judged.map(|_| JudgedStreams::new(&mut self.names, &base, metric.kind.comparison()));
            let unknown = unknown_amount(rate);
            let streams = RateStreams {
                unknown: unknown.map(|unknown| stream(&unknown).to_owned()),
                metric: index,
                rate: number,
                numerator: rate_counts.numerator.to_owned(),
                denominator: rate_counts.denominator.to_owned(),
                pending: pending.map(str::to_owned),
                prior,
                estimate,
                gap_in,
                gap,
                judged,
            };
            self.count_streams.extend(streams.count_streams(scope.groups.len()));
            self.streams.push(streams);
        }
    }

    fn pace(metric: &Metric) -> Pace {
        metric.check.map_or(Pace::Events, Pace::Every)
    }

    /// When resolved trials are counted: often enough for every metric.
    fn counting_pace(&self, metrics: &[(usize, &Metric)]) -> Option<Pace> {
        if self.file.trial.horizon.is_none() && !self.file.trial.is_row {
            return None;
        }
        let periods: Option<Vec<Duration>> = metrics.iter().map(|(_, metric)| metric.check).collect();
        let Some(periods) = periods else { return Some(Pace::Events) };
        let nanos = periods.iter().map(Duration::as_nanos).reduce(common_divisor)?;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Pace::Every(Duration::from_nanos(nanos)))
    }
}

/// The streams of the trial layer, by rate.
fn trial_streams(
    scope: &Scope,
    metrics: &[(usize, &Metric)],
    of_trials: &[(Amount, String)],
    facts: Vec<(String, String)>,
    all: Vec<String>,
) -> TrialStreams {
    let stream = |amount: &Amount| {
        let found = of_trials.iter().find(|(known, _)| known == amount);
        found.map(|(_, name)| name.clone()).unwrap_or_default()
    };
    let rate = |metric: usize, (rate, of): (usize, &Rate)| {
        let (numerator, denominator) = amounts(of);
        TrialRate { metric, rate, numerator: stream(&numerator), denominator: stream(&denominator) }
    };
    TrialStreams {
        counted: if scope.horizon.is_some() { scope.resolved.clone() } else { scope.trial.clone() },
        groups: scope.groups.len(),
        facts,
        all,
        rates: metrics
            .iter()
            .flat_map(|(metric, of)| of.rates.iter().enumerate().map(move |of| rate(*metric, of)))
            .collect(),
    }
}

fn common_divisor(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

/// Whether a metric needs time as a number, which RTLola cannot express.
fn needs_clock(file: &FairnessFile) -> bool {
    let rates = file.metrics.iter().flat_map(|metric| &metric.rates);
    rates.map(amounts).any(|(numerator, denominator)| {
        let facts = || numerator.conjunction().0.iter().chain(&denominator.conjunction().0);
        let bounded = |fact: &Fact| match fact {
            Fact::Indicator(name) => file.indicator(name).is_some_and(|indicator| indicator.within.is_some()),
            _ => false,
        };
        let delayed = match &numerator {
            Amount::Sum(quantity, _) => matches!(quantity.whole(), Quantity::Delay { .. }),
            Amount::Trials(_) => false,
        };
        delayed || facts().any(|(fact, _)| bounded(fact))
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wraps text at this number of characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
