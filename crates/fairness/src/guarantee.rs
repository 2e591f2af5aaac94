//! Guarantees on false alarms in a fairness file, and the hypothesis that each rate and stratum is tested with.

use std::time::Duration;

use fairstream_guarantee::{
    ErrorControl, FairSet, Family, FamilyBound, Hypothesis, Reference, StepUnit, alpha_share,
};
use serde::{Deserialize, Serialize};

use crate::table::{Located, TomlTable};
use crate::{Comparison, MetricKind, Problem, Rule};

/// A bound on false alarms, and how it is tested.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The bound.
    pub promise: Promise,
    /// Number of trials in a block.
    pub block: u64,
    /// How long a block lasts at most, once it has trials of two groups.
    #[serde(default)]
    pub block_span: Option<Duration>,
    /// Number of strata that share the bound evenly; `None` for any number, with decreasing shares in order of arrival.
    pub strata: Option<u64>,
}

/// The bound on false alarms of a fair system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Promise {
    /// Upper bound on the probability of ever raising an alarm.
    Ever(f64),
    /// Upper bound on the expected fraction of false alarms among all alarms.
    Discoveries(f64),
    /// Lower bound on the average time between alarms.
    Every {
        /// The average time between alarms.
        every: Every,
        /// The same in blocks.
        blocks: f64,
        /// Decay length of the estimates, in trials; `None` if they forget nothing.
        memory: Option<u64>,
    },
}

/// An average time between alarms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Every {
    /// In trials.
    Trials(u64),
    /// In event time.
    Time(Duration),
}

/// Default of `block_span`: rates that follow the time of day hardly change meanwhile.
const BLOCK_SPAN: Duration = Duration::from_secs(2 * 60 * 60);

impl Promise {
    /// Whether alarms are never cleared.
    pub(crate) fn is_for_ever(&self) -> bool {
        self.control() == ErrorControl::Ever
    }

    /// The probability or the fraction that is bounded.
    pub(crate) fn level(&self) -> Option<f64> {
        match *self {
            Promise::Ever(level) | Promise::Discoveries(level) => Some(level),
            Promise::Every { .. } => None,
        }
    }

    fn control(&self) -> ErrorControl {
        match *self {
            Promise::Ever(_) | Promise::Discoveries(_) => ErrorControl::Ever,
            Promise::Every { every: Every::Trials(_), memory, .. } => {
                ErrorControl::Detector { step: StepUnit::Block, memory }
            }
            Promise::Every { every: Every::Time(_), memory, .. } => {
                ErrorControl::Detector { step: StepUnit::Look, memory }
            }
        }
    }
}

impl Rule {
    /// The share of the guarantee that the stratum with rank `stratum`, from 0, has for each rate; `None` without a
    /// guarantee, or if the guarantee is for fewer strata.
    pub fn share(&self, stratum: u64) -> Option<f64> {
        let of_strata = match self.guarantee?.strata {
            _ if self.strata.is_empty() => 1.0,
            Some(strata) if stratum >= strata => return None,
            Some(strata) => 1.0 / strata as f64,
            None => alpha_share(stratum),
        };
        Some(of_strata * self.share_of_strata())
    }

    /// The share of the guarantee that all strata of one rate have together.
    pub(crate) fn share_of_strata(&self) -> f64 {
        1.0 / (self.rates.len().max(1) as f64 * self.comparisons.max(1) as f64)
    }

    /// Whether a probability or a fraction is bounded for several hypotheses together.
    pub fn shares_guarantee(&self) -> bool {
        let several = self.rates.len() as u64 * self.comparisons > 1 || !self.strata.is_empty();
        several && self.guarantee.is_some_and(|guarantee| guarantee.promise.is_for_ever())
    }

    /// The family of its hypotheses, before any is rejected; `None` for a detector, whose hypotheses share nothing but a
    /// threshold, or without a guarantee.
    pub(crate) fn new_family(&self) -> Option<Family> {
        match self.guarantee?.promise {
            Promise::Ever(level) => Some(Family::new(FamilyBound::FalseAlarms, level)),
            Promise::Discoveries(level) => Some(Family::new(FamilyBound::FalseDiscoveries, level)),
            Promise::Every { .. } => None,
        }
    }

    /// The hypothesis for the stratum with rank `stratum`, from 0, as long as none of its family has been rejected; `None`
    /// without a guarantee, or if the guarantee is for fewer strata.
    pub fn hypothesis(&self, stratum: u64) -> Option<Hypothesis> {
        let Guarantee { promise, block, block_span, .. } = self.guarantee?;
        let all = self.share(stratum)?;
        let comparisons = self.comparisons.max(1) as f64;
        let (level, share) = match promise {
            Promise::Ever(level) | Promise::Discoveries(level) => (level, all),
            // In trials, strata and rates need not share: each adds to the false alarms only as it adds trials.
            Promise::Every { every: Every::Trials(_), blocks, .. } => (1.0 / blocks, 1.0 / comparisons),
            Promise::Every { blocks, .. } => (1.0 / blocks, all),
        };
        let control = promise.control();
        // Tolerances of means are in the unit of the number.
        let width = self.range.map_or(1.0, |(low, high)| high - low);
        let fair = match self.comparison {
            Comparison::Difference => FairSet::Difference(self.tolerance / width),
            Comparison::Ratio => FairSet::Ratio(self.tolerance),
            Comparison::Highest => FairSet::Highest(self.tolerance),
        };
        let miscoverage = if control == ErrorControl::Ever { level } else { MISCOVERAGE };
        // Numbers of rows are no times.
        let span = block_span.filter(|_| !self.by_rows);
        Some(Hypothesis {
            fair,
            control,
            level: level * share,
            block,
            span: span.map(|span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)),
            min_trials: self.min_trials,
            miscoverage: miscoverage * all,
            reference: Reference::None,
            are_numbers: self.range.is_some(),
        })
    }
}

/// Miscoverage of the intervals of a detector, which has no probability of its own.
pub(crate) const MISCOVERAGE: f64 = 0.05;

/// Reads `rule` and `guarantee` of a metric. Without either, there is a guarantee.
pub(crate) fn read(
    table: &TomlTable<'_>,
    kind: MetricKind,
    check: Option<Duration>,
) -> Option<Located<Guarantee>> {
    let rule = table.text("rule");
    let guarantee = table.table("guarantee");
    match rule.as_ref().map(|rule| rule.value.as_str()) {
        None | Some("guarantee") => {}
        Some("map") if guarantee.is_some() => {
            let message = "the rule `map` has no guarantee";
            let help = "leave `rule` out, or `guarantee`";
            table.problem(Problem::new(table.at.range(), message).help(help));
        }
        Some("map") => {}
        Some(other) => {
            let at = rule.as_ref().map(|rule| rule.at.range()).unwrap_or_default();
            let help = "there are `map`, the paper's, and `guarantee`";
            table.problem(Problem::new(at, format!("there is no rule `{other}`")).help(help));
        }
    }
    let by_default = || {
        let at = match &rule {
            _ if table.has("guarantee") => return None,
            Some(rule) if rule.value == "guarantee" => rule.at.clone(),
            Some(_) => return None,
            None => table.at.clone(),
        };
        let promise = Promise::Ever(0.05);
        let block = promise.control().default_block();
        let guarantee = Guarantee { promise, block, block_span: Some(BLOCK_SPAN), strata: None };
        Some(Located { value: guarantee, at })
    };
    let found = match guarantee {
        Some(guarantee) => read_promise(guarantee, table, check),
        None => by_default(),
    };
    if found.is_some() && table.has("clear") {
        let message =
            "`clear` belongs to the rule `map`: an alarm with a guarantee does not end because the gap does";
        let help = "leave `clear` out; or ask for that rule: `rule = \"map\"`";
        table.problem(Problem::new(table.at.range(), message).help(help));
    }
    if found.is_some() && kind == MetricKind::MeanDifference && !table.has("range") {
        let why =
            "a guarantee needs bounds of the number, such as `range = [0, 10]`; `rule = \"map\"` needs none";
        table.missing("range", why);
    }
    found
}

/// Reads `[guarantee]` of a file, which its metrics share.
pub(crate) fn read_shared(table: TomlTable<'_>) -> Option<Promise> {
    let (ever, discoveries) = (table.number("false_alarms"), table.number("false_discoveries"));
    let asked = table.has("false_alarms") || table.has("false_discoveries");
    let promise = match (ever, discoveries) {
        (Some(_), Some(_)) => {
            table.problem(Problem::new(table.at.range(), TWO_GUARANTEES).help(WHICH_GUARANTEE));
            None
        }
        (None, None) if !asked => {
            let why = "it is how many systems that are fair by all metrics may ever raise an alarm: 0.05";
            table.missing("false_alarms", why);
            None
        }
        (None, None) => None,
        (Some(ever), None) => Some(Promise::Ever(fraction(&table, "false_alarms", &ever))),
        (None, Some(found)) => Some(Promise::Discoveries(fraction(&table, "false_discoveries", &found))),
    };
    table.finish();
    promise
}

const TWO_GUARANTEES: &str =
    "only one of `false_alarms`, `false_discoveries` and `false_alarm_every` can be guaranteed";

const WHICH_GUARANTEE: &str = "keep the one that is meant: a bound on any false alarm for ever, on the part of all alarms \
    that are false, or a time between false alarms";

/// A number that has to be a fraction.
fn fraction(table: &TomlTable<'_>, key: &str, number: &Located<f64>) -> f64 {
    if !(number.value > 0.0 && number.value < 1.0) {
        let message = format!("`{key}` has to be above 0 and below 1: 0.05 is 5 %");
        table.problem(Problem::new(number.at.range(), message));
    }
    number.value
}

fn read_promise(
    table: TomlTable<'_>,
    metric: &TomlTable<'_>,
    check: Option<Duration>,
) -> Option<Located<Guarantee>> {
    let at = table.at.clone();
    let ever = table.number("false_alarms");
    let discoveries = table.number("false_discoveries");
    let every = table.number_or_text("false_alarm_every");
    let block = table.count("block");
    let block_span = table.has("block_span").then(|| table.duration("block_span"));
    let strata = table.count("strata");
    let memory = table.count("memory");
    let wrong = |message: &str, help: &str| {
        table.problem(Problem::new(at.range(), message).help(help));
        None
    };
    for (key, number, least) in [("block", block, 2), ("strata", strata, 1), ("memory", memory, 1)] {
        if number.is_some_and(|number| number < least) {
            return wrong(&format!("`{key}` has to be {least} or more"), "leave it out if in doubt");
        }
    }
    if strata.is_some() && !metric.has("strata") {
        return wrong("there are no strata that could share it", "leave `strata` out of `guarantee`");
    }
    if memory.is_some() && every.is_none() {
        return wrong("`memory` belongs to `false_alarm_every`", "the other guarantees forget nothing");
    }
    let promise = match (ever, discoveries, every) {
        (None, None, None) => {
            let keys = ["false_alarms", "false_discoveries", "false_alarm_every"];
            if !keys.iter().any(|key| table.has(key)) {
                table.missing("false_alarms", "it is how many fair systems may ever raise an alarm: 0.05");
            }
            table.finish();
            return None;
        }
        (Some(ever), None, None) => Promise::Ever(fraction(&table, "false_alarms", &ever)),
        (None, Some(found), None) => Promise::Discoveries(fraction(&table, "false_discoveries", &found)),
        (None, None, Some(every)) => {
            let (every, blocks) = read_every(&table, every, block, check)?;
            Promise::Every { every, blocks, memory }
        }
        _ => return wrong(TWO_GUARANTEES, WHICH_GUARANTEE),
    };
    table.finish();
    let block = block.unwrap_or(promise.control().default_block());
    let block_span = match block_span {
        None => Some(BLOCK_SPAN),
        Some(span) => Some(span?.value),
    };
    Some(Located { value: Guarantee { promise, block, block_span, strata }, at })
}

/// Reads the average time between alarms, and converts it to steps: blocks, or checks.
fn read_every(
    table: &TomlTable<'_>,
    every: Result<Located<f64>, Located<String>>,
    block: Option<u64>,
    check: Option<Duration>,
) -> Option<(Every, f64)> {
    let by_blocks = ErrorControl::Detector { step: StepUnit::Block, memory: None };
    let block = block.unwrap_or(by_blocks.default_block());
    let (every, blocks, at) = match every {
        Ok(trials) => {
            if trials.value.fract() != 0.0 || trials.value < 1.0 {
                let message = "`false_alarm_every` is a time such as \"10y\", or a whole number of trials";
                table.problem(Problem::new(trials.at.range(), message));
                return None;
            }
            (Every::Trials(trials.value as u64), trials.value / block as f64, trials.at)
        }
        Err(text) => {
            let time = table.duration("false_alarm_every")?.value;
            let Some(check) = check else {
                let message = "`false_alarm_every` as a time needs a periodic `check`";
                let help =
                    "say how often, as in `check = \"1d\"`; or give a number of trials instead of a time";
                table.problem(Problem::new(text.at.range(), message).help(help));
                return None;
            };
            (Every::Time(time), time.as_secs_f64() / check.as_secs_f64(), text.at)
        }
    };
    if blocks <= 1.0 {
        let message = "`false_alarm_every` has to be longer than one block";
        let help = "in trials, a block has `block` of them; as a time, it is that from one check to the next";
        table.problem(Problem::new(at.range(), message).help(help));
        return None;
    }
    Some((every, blocks))
}
