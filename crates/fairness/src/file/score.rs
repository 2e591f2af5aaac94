//! Scores in place of decisions: what is above a threshold, or above the median of the data, counts.

use super::{Indicator, identifier};
use crate::Problem;
use crate::expression::Expression;
use crate::metric;
use crate::table::{Located, TomlTable};

/// A score of which what is above a threshold counts as a decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Score {
    pub(crate) column: Located<String>,
    /// The name of its indicator.
    pub(super) indicator: String,
    /// The threshold; `None` for the median of the data.
    pub(super) above: Option<f64>,
}

impl Score {
    /// Reads `score` and `above` of a metric.
    pub(super) fn read(table: &TomlTable<'_>) -> Option<Score> {
        let column = table.text("score");
        let above = table.number("above");
        let column = match (column, &above) {
            (Some(column), _) => column,
            (None, Some(above)) => {
                let message = "`above` belongs to `score`, the column with the score";
                table.problem(Problem::new(above.at.range(), message));
                return None;
            }
            (None, None) => return None,
        };
        let indicator = metric::score_indicator(&column.value);
        Some(Score { column, indicator, above: above.map(|above| above.value) })
    }

    /// The name of the indicator that there is a score.
    fn known(&self) -> String {
        format!("{}_known", identifier(&self.column.value))
    }

    /// The indicator that there is a score: a missing one is not a low one.
    pub(super) fn known_indicator(&self, file: &str) -> Indicator {
        let Located { value: column, at } = &self.column;
        let when = Located { value: format!("`{column}` == `{column}`"), at: at.clone() };
        let name = Located { value: self.known(), at: at.clone() };
        Indicator {
            called: Some(format!("have a `{column}`")),
            ..Indicator::new(name, Expression::new(when, file))
        }
    }

    /// The indicator, with a threshold.
    pub(super) fn indicator(&self, above: f64, file: &str) -> Indicator {
        let Located { value: column, at } = &self.column;
        let name = Located { value: self.indicator.clone(), at: at.clone() };
        let when = Located { value: format!("`{column}` > {above:?}"), at: at.clone() };
        let of = if self.above.is_none() { "the median, " } else { "" };
        Indicator {
            called: Some(format!("have a `{column}` above {of}{above}")),
            known: Some(Located { value: self.known(), at: at.clone() }),
            ..Indicator::new(name, Expression::new(when, file))
        }
    }
}
