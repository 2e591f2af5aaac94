//! What an alarm rests on: the groups that it is about, their counts, and the evidence.

use fairstream_core::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::words::label;
use super::{Gap, Rule};
use crate::ChainHead;

/// What an alarm rests on, as of the check that raised it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmBasis {
    /// When it was raised.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub since: Time,
    /// Its message.
    pub message: String,
    /// The groups that it is about, the one with the higher share first; of an upper bound one group. With a guarantee
    /// those whose bets made the evidence, otherwise those that are furthest apart; one of them is the reference group, if
    /// there is one.
    pub groups: Vec<AlarmedGroup>,
    /// The number of blocks that the counts of `groups` are from, and that made the evidence. `None` if they are of all
    /// trials so far.
    pub blocks: Option<u64>,
    /// The gap or ratio between `groups`, or the rate of the only one.
    #[serde(with = "fairstream_guarantee::written")]
    pub gap: f64,
    /// The tolerance.
    pub tolerance: f64,
    /// Natural logarithm of the e-value; `None` without a guarantee.
    #[serde(with = "fairstream_guarantee::written")]
    pub log_e_value: Option<f64>,
    /// Natural logarithm of the e-value above which the alarm is raised; `None` without a guarantee.
    #[serde(with = "fairstream_guarantee::written")]
    pub log_threshold: Option<f64>,
    /// Natural logarithm of an upper bound on the probability that a fair system ever yields this much evidence; `None`
    /// if no probability is guaranteed.
    #[serde(with = "fairstream_guarantee::written")]
    pub log_p_value: Option<f64>,
    /// The rows of evidence up to the check that raised it, if evidence is recorded.
    pub recorded: Option<ChainHead>,
}

/// A group that an alarm is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmedGroup {
    /// Its values, as a JSON array.
    pub values: String,
    /// Number of positive trials, or the sum of their numbers.
    pub numerator: f64,
    /// Number of trials.
    pub denominator: u64,
    /// The fraction of positive trials, or the mean of their numbers; `None` without a trial.
    pub share: Option<f64>,
}

impl AlarmedGroup {
    /// Its values as a label.
    pub fn label(&self) -> String {
        label(&self.values)
    }

    pub(crate) fn new(values: &str, numerator: f64, denominator: u64) -> AlarmedGroup {
        let share = (denominator > 0).then(|| numerator / denominator as f64);
        AlarmedGroup { values: values.to_owned(), numerator, denominator, share }
    }
}

impl AlarmBasis {
    /// The basis of an alarm by the rule of the paper: the highest and the lowest estimate.
    pub(crate) fn of_gap(rule: &Rule, gap: &Gap<'_>, since: Time, message: String) -> AlarmBasis {
        let ends = match rule.comparison {
            crate::Comparison::Highest => [gap.highest, None],
            _ => [gap.highest, gap.lowest],
        };
        let groups = ends
            .into_iter()
            .flatten()
            .map(|(values, counts, _)| AlarmedGroup::new(values, counts.numerator, counts.denominator));
        AlarmBasis {
            since,
            message,
            groups: groups.collect(),
            blocks: None,
            gap: gap.size,
            tolerance: rule.tolerance,
            log_e_value: None,
            log_threshold: None,
            log_p_value: None,
            recorded: None,
        }
    }
}

fn write_time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.0)
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    i64::deserialize(deserializer).map(Time)
}
