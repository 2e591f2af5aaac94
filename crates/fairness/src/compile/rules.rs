//! The rules that the judge decides by, from the metrics of a fairness file.

use crate::explain::question;
use crate::file::{FairnessFile, Metric, Prior};
use crate::judge::{Rule, RuleRate};
use crate::metric::Measure;
use crate::reference::ReferenceValue;
use crate::table::values;

/// The rule of a metric. `reference` has the values of the group that others are compared with, in the types of their
/// columns.
pub(super) fn rule(file: &FairnessFile, metric: &Metric, reference: Option<&[ReferenceValue]>) -> Rule {
    let rates = metric.rates.iter().map(|rate| RuleRate {
        stream: if rate.label.is_empty() {
            metric.name.clone()
        } else {
            format!("{}_{}", metric.name, rate.label)
        },
        title: rate_title(metric, rate.label),
        question: question(file, metric, rate),
        unit: match rate.measure {
            Measure::Delay { unit, .. } => Some(unit),
            _ => None,
        },
        is_mean: matches!(rate.measure, Measure::Number(_) | Measure::Delay { .. }),
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
        groups: values(&metric.groups),
        reference: reference.map(|values| {
            let values: Vec<serde_json::Value> = values.iter().map(ReferenceValue::json).collect();
            serde_json::Value::from(values).to_string()
        }),
        strata: values(&metric.strata),
        comparisons: metric.comparisons(),
        family: metric.family as u64,
        has_horizon: file.trial.horizon.is_some(),
        by_rows: file.is_in_order_of_rows(),
        guarantee: metric.guarantee.as_ref().map(|guarantee| guarantee.value),
        window: metric.window.as_ref().map(|window| window.value),
        range: metric.range,
        rates: rates.collect(),
    }
}

/// The title of one rate of a metric.
pub(super) fn rate_title(metric: &Metric, label: &str) -> String {
    match label {
        "" => metric.title.clone(),
        label => format!("{}, {} rate", metric.title, label.replace('_', "-")),
    }
}
