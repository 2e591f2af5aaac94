//! Guarantees on false alarms in a fairness file, and the hypothesis that each rate and stratum is tested with.

use std::time::Duration;

use fairstream_guarantee::{ErrorControl, FairSet, Hypothesis, Reference, alpha_share};
use serde::{Deserialize, Serialize};

use crate::table::{Located, TomlTable};
use crate::{Comparison, MetricKind, Problem, Rule};

/// A bound on false alarms, and how it is tested.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The bound.
    pub promise: Promise,
    /// Minimum number of trials in a block.
    pub block: u64,
    /// Number of strata that share the bound evenly; `None` for any number, with decreasing shares in order of arrival.
    pub strata: Option<u64>,
}

/// The bound on false alarms of a fair system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Promise {
    /// Upper bound on the probability of ever raising an alarm.
    Ever(f64),
    /// Lower bound on the average time between alarms.
    Every {
        /// The average time between alarms.
        every: Every,
        /// The same in blocks.
        blocks: f64,
        /// Decay length of the estimates, in trials.
        memory: u64,
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

/// Default decay length of a detector, in trials.
const MEMORY: u64 = 1000;

impl Rule {
    /// The hypothesis for the stratum with rank `stratum`, from 0; `None` without a guarantee, or if the guarantee is
    /// for fewer strata.
    pub fn hypothesis(&self, stratum: u64) -> Option<Hypothesis> {
        let Guarantee { promise, block, strata } = self.guarantee?;
        let of_strata = match strata {
            _ if self.strata.is_empty() => 1.0,
            Some(strata) if stratum >= strata => return None,
            Some(strata) => 1.0 / strata as f64,
            None => alpha_share(stratum),
        };
        let tests = self.rates.len().max(1) as u64 * self.comparisons.max(1);
        let share = of_strata / tests as f64;
        let (control, level) = match promise {
            Promise::Ever(level) => (ErrorControl::Ever, level),
            Promise::Every { blocks, memory, .. } => (ErrorControl::Detector { memory }, 1.0 / blocks),
        };
        // Tolerances of means are in the unit of the number.
        let width = self.range.map_or(1.0, |(low, high)| high - low);
        let fair = match self.comparison {
            Comparison::Difference => FairSet::Difference(self.tolerance / width),
            Comparison::Ratio => FairSet::Ratio(self.tolerance),
            Comparison::Highest => FairSet::Highest(self.tolerance),
        };
        let miscoverage = if control == ErrorControl::Ever { level } else { MISCOVERAGE };
        Some(Hypothesis {
            fair,
            control,
            level: level * share,
            block,
            min_trials: self.min_trials,
            miscoverage: miscoverage * share,
            reference: Reference::None,
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
        let guarantee = Guarantee { promise: Promise::Ever(0.05), block: Hypothesis::BLOCK, strata: None };
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

fn read_promise(
    table: TomlTable<'_>,
    metric: &TomlTable<'_>,
    check: Option<Duration>,
) -> Option<Located<Guarantee>> {
    let at = table.at.clone();
    let ever = table.number("false_alarms");
    let every = table.number_or_text("false_alarm_every");
    let block = table.count("block").unwrap_or(Hypothesis::BLOCK);
    let strata = table.count("strata");
    let memory = table.count("memory");
    let wrong = |message: &str, help: &str| {
        table.problem(Problem::new(at.range(), message).help(help));
        None
    };
    for (key, number) in [("block", Some(block)), ("strata", strata), ("memory", memory)] {
        if number == Some(0) {
            return wrong(&format!("`{key}` has to be 1 or more"), "leave it out if in doubt");
        }
    }
    if strata.is_some() && !metric.has("strata") {
        return wrong("there are no strata that could share it", "leave `strata` out of `guarantee`");
    }
    if memory.is_some() && every.is_none() {
        return wrong("`memory` belongs to `false_alarm_every`", "`false_alarms` forgets nothing");
    }
    let promise = match (ever, every) {
        (Some(_), Some(_)) => {
            return wrong(
                "`false_alarms` and `false_alarm_every` are two guarantees",
                "keep the one that is meant: a probability for ever, or a time between false alarms",
            );
        }
        (None, None) => {
            let asked = table.has("false_alarms") || table.has("false_alarm_every");
            if !asked {
                table.missing("false_alarms", "it is how many fair systems may ever raise an alarm: 0.05");
            }
            table.finish();
            return None;
        }
        (Some(ever), None) => {
            if !(ever.value > 0.0 && ever.value < 1.0) {
                let message = "`false_alarms` has to be above 0 and below 1: 0.05 is 5 %";
                table.problem(Problem::new(ever.at.range(), message));
            }
            Promise::Ever(ever.value)
        }
        (None, Some(every)) => {
            let (every, blocks) = read_every(&table, every, block, check)?;
            Promise::Every { every, blocks, memory: memory.unwrap_or(MEMORY) }
        }
    };
    table.finish();
    Some(Located { value: Guarantee { promise, block, strata }, at })
}

/// Reads the average time between alarms, and converts it to blocks. A block has at least `block` trials and takes at
/// least from one check to the next, so the number of blocks is an upper bound.
fn read_every(
    table: &TomlTable<'_>,
    every: Result<Located<f64>, Located<String>>,
    block: u64,
    check: Option<Duration>,
) -> Option<(Every, f64)> {
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
        let help = "a block has `block` trials at least, and ends at a check";
        table.problem(Problem::new(at.range(), message).help(help));
        return None;
    }
    Some((every, blocks))
}
