//! What an alarm rests on as fields, for machines: in JSON verdicts and in summaries alike.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{AlarmBasis, AlarmedGroup, Rule};
use crate::ChainHead;

/// What an alarm rests on, with the names of columns.
#[derive(Debug, Serialize)]
pub struct AlarmDetails {
    /// When it was raised, in event time.
    since: String,
    /// The stratum; empty if there are no strata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stratum: BTreeMap<String, Value>,
    gap: f64,
    tolerance: f64,
    #[serde(flatten)]
    evidence: EvidenceNumbers,
    /// Of a detector: the number of blocks that the counts of the groups are from.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    groups: Vec<CountedGroup>,
    /// The rows of evidence up to this alarm, if it is recorded.
    #[serde(rename = "evidence", skip_serializing_if = "Option::is_none")]
    recorded: Option<ChainHead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worse_off: Option<BTreeMap<String, Value>>,
}

/// Evidence, in decimal logarithms.
#[derive(Debug, Serialize)]
pub struct EvidenceNumbers {
    #[serde(skip_serializing_if = "Option::is_none")]
    log10_e_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log10_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log10_p_value: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CountedGroup {
    group: BTreeMap<String, Value>,
    numerator: f64,
    trials: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
}

impl AlarmDetails {
    /// The details of an alarm of this rate of the rule.
    pub fn new(rule: &Rule, rate: usize, stratum: &str, basis: &AlarmBasis) -> AlarmDetails {
        let group = |AlarmedGroup { values, numerator, denominator, share }: &AlarmedGroup| CountedGroup {
            group: by_column(&rule.groups, values),
            numerator: *numerator,
            trials: *denominator,
            share: *share,
        };
        let worse_off = rule.rates.get(rate).and_then(|rate| basis.worse_off(rate));
        AlarmDetails {
            since: basis.since.to_string(),
            stratum: by_column(&rule.strata, stratum),
            gap: basis.gap,
            tolerance: basis.tolerance,
            evidence: EvidenceNumbers::new(basis.log_e_value, basis.log_threshold, basis.log_p_value),
            blocks: basis.blocks,
            groups: basis.groups.iter().map(group).collect(),
            recorded: basis.recorded.clone(),
            worse_off: worse_off.map(|group| by_column(&rule.groups, &group.values)),
        }
    }
}

impl EvidenceNumbers {
    /// From natural logarithms.
    pub fn new(e_value: Option<f64>, threshold: Option<f64>, p_value: Option<f64>) -> EvidenceNumbers {
        let log10 = |natural: Option<f64>| natural.map(|natural| natural / std::f64::consts::LN_10);
        EvidenceNumbers {
            log10_e_value: log10(e_value),
            log10_threshold: log10(threshold),
            log10_p_value: log10(p_value),
        }
    }
}

/// Values, a JSON array, by the names of their columns.
pub fn by_column(columns: &[String], values: &str) -> BTreeMap<String, Value> {
    let values: Vec<Value> = serde_json::from_str(values).unwrap_or_default();
    columns.iter().cloned().zip(values).collect()
}
