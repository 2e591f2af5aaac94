//! A fairness file → RTLola text, in the shape of the paper: trials, counts, estimates, triggers.
//!
//! Two layers that never mix. `trials` is keyed by the trial and turns events into resolved trials;
//! `counts` and `estimate` add them up for each group and stratum. `scope` holds what the streams over
//! the same trials have in common, `facts` what the metrics ask of a trial.

mod bind;
mod counts;
mod estimate;
mod facts;
mod inputs;
mod names;
mod scope;
mod streams;
mod text;
mod trials;

use std::ops::Range;
use std::time::Duration;

use fairstream_core::WantedColumn;

use self::bind::BoundFile;
use self::counts::CountLayer;
use self::estimate::{EstimateLayer, Estimated, RateCounts};
use self::facts::{Amount, Fact, Quantity, amounts, unknown_amount};
pub use self::inputs::{BoundInput, InputOrigin};
use self::names::Names;
use self::scope::{Pace, Params, Scope};
pub(crate) use self::streams::{CountRole, CountStream, TrialRate, TrialStreams};
pub use self::streams::{JudgedStreams, RateStreams};
use self::text::{SourceMapping, Text};
use self::trials::TrialLayer;
use crate::explain::Description;
use crate::file::{EventColumn, FairnessFile, Metric, Prior};
use crate::judge::{Rule, RuleRate};
use crate::metric::Rate;
use crate::reference::ReferenceValue;
use crate::table::Located;
use crate::{FileError, Problem};

/// A compiled fairness file.
#[derive(Clone, Debug)]
pub struct Compiled {
    file: FairnessFile,
    /// Columns whose types the source knows.
    of_source: Vec<EventColumn>,
    rtlola: String,
    mappings: Vec<SourceMapping>,
    inputs: Vec<BoundInput>,
    count_streams: Vec<CountStream>,
    rules: Vec<Rule>,
    streams: Vec<RateStreams>,
    trials: Vec<TrialStreams>,
}

impl Compiled {
    /// The RTLola text.
    pub fn rtlola(&self) -> &str {
        &self.rtlola
    }

    /// Compiles the file for runs that need alarms only: trials and counts, and a stream that triggers checks in place
    /// of estimates, gaps and triggers. The judge raises the same alarms. Only streams that cannot fail are omitted, so
    /// that errors are the same. An engine treats it as another specification, so snapshots are not interchangeable.
    ///
    /// # Errors
    /// None, since the file has been compiled before.
    pub fn for_alarms(&self) -> Result<Compiled, FileError> {
        self.file.compile_to(CompiledLayers::Counts, &self.of_source)
    }

    /// The file it was compiled from.
    pub fn file(&self) -> &FairnessFile {
        &self.file
    }

    /// The inputs of the text, and where their values come from.
    pub fn inputs(&self) -> &[BoundInput] {
        &self.inputs
    }

    /// The columns that sources must have, in their order.
    pub fn columns(&self) -> Vec<WantedColumn> {
        let mut columns: Vec<WantedColumn> = Vec::new();
        for column in self.inputs.iter().filter_map(BoundInput::source_column) {
            if !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
        columns
    }

    /// Whether due trials are counted at events, which must happen before the event: it may open another trial of the
    /// same key. [`JudgedEngine`](crate::JudgedEngine) supplies a row without values for that.
    pub(crate) fn counts_before_events(&self) -> bool {
        self.file.trial.horizon.is_some() && self.file.metrics.iter().any(|metric| metric.check.is_none())
    }

    /// Whether counted trials are final. Evidence requires that.
    pub fn is_final(&self) -> bool {
        self.file.trial.is_final()
    }

    /// The rules for the judge.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The streams of every rate, in the order of the metrics in the file.
    pub fn streams(&self) -> &[RateStreams] {
        &self.streams
    }

    pub(crate) fn count_streams(&self) -> &[CountStream] {
        &self.count_streams
    }

    pub(crate) fn trials(&self) -> &[TrialStreams] {
        &self.trials
    }

    /// Maps an error of the RTLola frontend back to the fairness file; `None` if no part of it comes from there.
    pub fn blame(&self, errors: &[(Range<usize>, String)]) -> Option<FileError> {
        let problem = |(there, message): &(Range<usize>, String)| {
            // The frontend lists every token that it would have accepted.
            if !message.starts_with("expected ") {
                return Some(problem_at(text::locate(&self.mappings, there)?, message));
            }
            let at =
                text::locate(&self.mappings, there).or_else(|| text::before(&self.mappings, there.start))?;
            let help = "write a condition as RTLola does, such as 'event == \"SCREEN\" and score > 6'";
            Some(Problem::new(at, "this is not RTLola, or the end of it is missing").help(help))
        };
        let mut problems: Vec<Problem> = errors.iter().filter_map(problem).collect();
        if problems.is_empty() {
            // The error spans a whole stream: point to the part of it that the user wrote.
            let around = errors.iter().filter_map(|(there, message)| {
                Some((there.len(), problem_at(text::within(&self.mappings, there)?, message)))
            });
            problems.extend(around.min_by_key(|(length, _)| *length).map(|(_, problem)| problem));
        }
        (!problems.is_empty()).then(|| self.file.refused(problems))
    }
}

/// The message of the frontend without the name of its component.
fn problem_at(at: Range<usize>, message: &str) -> Problem {
    if message.starts_with("In pacing type analysis") {
        let help = "`.hold(or: …)` behind a column is its last value: `score.hold(or: 0)`";
        return Problem::new(at, "this does not have a value at every check").help(help);
    }
    let message = message.strip_prefix("In value type analysis:").unwrap_or(message).trim();
    Problem::new(at, message)
}

impl FairnessFile {
    /// Compiles the file to RTLola. `of_source` are columns that the file does not give a type, if the
    /// source knows them.
    ///
    /// # Errors
    /// A column does not exist, or another problem that shows only when columns are known.
    pub fn compile(&self, of_source: &[EventColumn]) -> Result<Compiled, FileError> {
        self.compile_to(CompiledLayers::Whole, of_source)
    }

    fn compile_to(&self, extent: CompiledLayers, of_source: &[EventColumn]) -> Result<Compiled, FileError> {
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
        Population { groups: names_of(&metric.groups), strata: names_of(&metric.strata) }
    }
}

fn names_of(columns: &[Located<String>]) -> Vec<String> {
    columns.iter().map(|column| column.value.clone()).collect()
}

/// Which layers are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompiledLayers {
    /// All layers, up to triggers.
    Whole,
    /// Only what the judge needs.
    Counts,
}

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
        let (of_trials, facts) = layer.write(&wanted);
        self.trials.push(trial_streams(&scope, &metrics, &of_trials, facts));

        self.text.line(&format!("// ---- Counts{among}: trials added up for each group. ----\n"));
        let pending = CountLayer { scope: &scope, names: &mut self.names, text: &mut self.text }.pending();
        let mut counts: Vec<(Amount, Pace, String)> = Vec::new();
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
            self.estimates(&scope, index, metric, own, &pace, &counts, pending.as_deref());
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
            let is_bell = self.extent == CompiledLayers::Counts && layer.can_omit_estimates(&rate_counts);
            let estimated =
                if is_bell { layer.check_stream(&base) } else { layer.rate(&base, &title, &rate_counts) };
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

/// The title of one rate of a metric.
pub(crate) fn rate_title(metric: &Metric, label: &str) -> String {
    match label {
        "" => metric.title.clone(),
        label => format!("{}, {} rate", metric.title, label.replace('_', "-")),
    }
}

fn rule(file: &FairnessFile, metric: &Metric, reference: Option<&[ReferenceValue]>) -> Rule {
    let rates = metric.rates.iter().map(|rate| RuleRate {
        stream: if rate.label.is_empty() {
            metric.name.clone()
        } else {
            format!("{}_{}", metric.name, rate.label)
        },
        title: rate_title(metric, rate.label),
        question: crate::explain::question(file, rate),
        unit: match rate.measure {
            crate::metric::Measure::Delay { unit, .. } => Some(unit),
            _ => None,
        },
        is_mean: matches!(
            rate.measure,
            crate::metric::Measure::Number(_) | crate::metric::Measure::Delay { .. }
        ),
        favourable: rate.favourable,
    });
    Rule {
        title: metric.title.clone(),
        comparison: metric.kind.comparison(),
        tolerance: metric.tolerance,
        clear: metric.clear,
        min_trials: metric.min_trials,
        prior: match metric.prior {
            Prior::Pooled => None,
            Prior::Number(number) => Some(number),
            // The counts have their own.
            Prior::Expression(_) => Some(0.0),
        },
        confidence: metric.confidence,
        groups: names_of(&metric.groups),
        reference: reference.map(|values| {
            let values: Vec<serde_json::Value> = values.iter().map(ReferenceValue::json).collect();
            serde_json::Value::from(values).to_string()
        }),
        strata: names_of(&metric.strata),
        comparisons: metric.comparisons(),
        has_horizon: file.trial.horizon.is_some(),
        by_rows: file.is_in_order_of_rows(),
        guarantee: metric.guarantee.as_ref().map(|guarantee| guarantee.value),
        range: metric.range,
        rates: rates.collect(),
    }
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
