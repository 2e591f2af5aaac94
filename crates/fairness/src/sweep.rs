//! Sensitivity analysis: triggers and alarms for every confidence κ and tolerance ε of a grid. Counts depend on
//! neither, so each run is evaluated once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::judge::{Gap, NamedVec};
use crate::{Comparison, Counts, Rule};

/// The grid of values of κ and ε.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    confidences: Vec<f64>,
    tolerances: Vec<f64>,
}

/// Why a grid is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadGrid {
    /// There are no values.
    #[error("there is no {0} to try")]
    Empty(&'static str),
    /// A value is negative or not a number.
    #[error("a {0} has to be 0 or more, and {1} is not")]
    Value(&'static str, f64),
    /// The grid has too many cells.
    #[error("{0} confidences and {1} tolerances are too many: at most a million pairs can be tried")]
    TooMany(usize, usize),
}

/// Maximum number of cells: every concurrent run stores all of them.
const MOST_CELLS: usize = 1_000_000;

impl Grid {
    /// The grid of these confidences and tolerances, sorted and without duplicates.
    ///
    /// # Errors
    /// There are none, too many, or one of them is no number or below 0.
    pub fn new(confidences: Vec<f64>, tolerances: Vec<f64>) -> Result<Grid, BadGrid> {
        let mut grid = Grid { confidences, tolerances };
        for (what, axis) in [("confidence", &mut grid.confidences), ("tolerance", &mut grid.tolerances)] {
            if let Some(bad) = axis.iter().find(|value| !value.is_finite() || **value < 0.0) {
                return Err(BadGrid::Value(what, *bad));
            }
            axis.sort_by(f64::total_cmp);
            axis.dedup();
            if axis.is_empty() {
                return Err(BadGrid::Empty(what));
            }
        }
        let (rows, columns) = (grid.confidences.len(), grid.tolerances.len());
        if rows.checked_mul(columns).is_none_or(|cells| cells > MOST_CELLS) {
            return Err(BadGrid::TooMany(rows, columns));
        }
        Ok(grid)
    }

    /// Every κ, in ascending order.
    pub fn confidences(&self) -> &[f64] {
        &self.confidences
    }

    /// Every ε, in ascending order.
    pub fn tolerances(&self) -> &[f64] {
        &self.tolerances
    }

    fn cells(&self) -> usize {
        self.confidences.len() * self.tolerances.len()
    }
}

impl Rule {
    /// The rule with another confidence and tolerance. `clear` keeps its proportion to the tolerance.
    #[must_use]
    pub fn at(&self, confidence: f64, tolerance: f64) -> Rule {
        let clear = if tolerance == self.tolerance {
            self.clear
        } else if self.comparison == Comparison::Ratio {
            // Both are distances from 1.
            match 1.0 - self.tolerance {
                distance if distance > 0.0 => {
                    (1.0 - (1.0 - tolerance) * ((1.0 - self.clear) / distance)).clamp(tolerance, 1.0)
                }
                _ => tolerance,
            }
        } else if self.tolerance > 0.0 {
            (tolerance * (self.clear / self.tolerance)).min(tolerance)
        } else {
            tolerance
        };
        Rule { confidence, tolerance, clear, ..self.clone() }
    }
}

/// Results for one pair of κ and ε, over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCell {
    /// Number of checks at which the tolerance was exceeded, summed over strata.
    pub triggers: u64,
    /// Number of alarms raised.
    pub alarms: u64,
    /// Number of runs with at least one alarm.
    pub runs_with_alarm: u64,
}

/// The results of every rule at every point of a grid.
///
/// ```
/// use std::sync::Arc;
/// use fairstream_core::Time;
/// use fairstream_fairness::{Counts, FairnessFile, Grid, Judge, Sweep};
///
/// let file = FairnessFile::parse("a.toml", r#"
///     [events.columns]
///     id = "UInt64"
///     gender = "String"
///     hired = "Bool"
///     [trial]
///     key = "id"
///     group = "gender"
///     [indicators]
///     hired = "hired"
///     [[fairness]]
///     metric = "demographic-parity"
///     decision = "hired"
///     tolerance = 0.1
///     rule = "map"
///     prior = 0.5
/// "#)?;
/// let rules = file.compile(&[])?.rules().to_vec();
/// let mut sweep = Sweep::new(&rules, Grid::new(vec![10.0, 100.0], vec![0.1])?);
/// let mut judge = Judge::new(rules).with_sweep(sweep.begin());
/// for (group, numerator) in [(r#"["M"]"#, 9.0), (r#"["F"]"#, 1.0)] {
///     let counts = judge.counts(0, 0, "[]", group).ok_or("no such rate")?;
///     *counts = Counts { numerator, denominator: 10, ..Counts::default() };
/// }
/// judge.check(0, 0, Time(0));
/// sweep.add(judge.end_sweep().ok_or("there was none")?);
/// // (9 + 5) / 20 - (1 + 5) / 20 = 0.4, but (9 + 50) / 110 - (1 + 50) / 110 = 0.07.
/// let cells = sweep.cells(0, 0).ok_or("no such rate")?;
/// assert_eq!(cells.iter().map(|cell| cell.triggers).collect::<Vec<_>>(), [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    swept: Arc<SweptRules>,
    runs: u64,
    /// Number of checks and the cells (by κ, then ε) of each rate, by rule and rate.
    rates: Vec<Vec<(u64, Vec<SweepCell>)>>,
}

/// The grid, and the variants of each rule.
#[derive(Debug)]
struct SweptRules {
    grid: Grid,
    /// Variants of each rule.
    tried: Vec<Tried>,
}

#[derive(Debug)]
struct Tried {
    /// The rule with each κ.
    rules: Vec<Rule>,
    /// The rule with each ε, for its tolerance and `clear`.
    thresholds: Vec<Rule>,
}

impl Sweep {
    /// A sweep over these rules without any run.
    pub fn new(rules: &[Rule], grid: Grid) -> Sweep {
        let tried = |rule: &Rule| Tried {
            rules: grid.confidences.iter().map(|kappa| rule.at(*kappa, rule.tolerance)).collect(),
            thresholds: grid.tolerances.iter().map(|epsilon| rule.at(rule.confidence, *epsilon)).collect(),
        };
        let cells = vec![SweepCell::default(); grid.cells()];
        let rates = rules.iter().map(|rule| vec![(0, cells.clone()); rule.rates.len()]).collect();
        let tried = rules.iter().map(tried).collect();
        Sweep { swept: Arc::new(SweptRules { grid, tried }), runs: 0, rates }
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.swept.grid
    }

    /// Number of runs added so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Number of checks of a rate, over all runs.
    pub fn checks(&self, rule: usize, rate: usize) -> Option<u64> {
        Some(self.rates.get(rule)?.get(rate)?.0)
    }

    /// The cells of a rate: all tolerances with the lowest confidence, then with the next.
    pub fn cells(&self, rule: usize, rate: usize) -> Option<&[SweepCell]> {
        Some(&self.rates.get(rule)?.get(rate)?.1)
    }

    /// Starts a run, to be given to a [judge](crate::Judge::with_sweep).
    pub fn begin(&self) -> SweptRun {
        let cells = self.swept.grid.cells();
        let rate = || SweptRate {
            checks: 0,
            strata: BTreeMap::new(),
            triggers: vec![0; cells],
            alarms: vec![0; cells],
        };
        let rates = self.rates.iter().map(|rates| rates.iter().map(|_| rate()).collect()).collect();
        SweptRun { swept: Arc::clone(&self.swept), rates }
    }

    /// Adds a finished run. The result does not depend on the order of runs.
    pub fn add(&mut self, run: SweptRun) {
        self.runs += 1;
        for (total, rate) in self.rates.iter_mut().flatten().zip(run.rates.into_iter().flatten()) {
            let rate = rate.ended();
            total.0 += rate.checks;
            for ((cell, triggers), alarms) in total.1.iter_mut().zip(rate.triggers).zip(rate.alarms) {
                cell.triggers += triggers;
                cell.alarms += alarms;
                cell.runs_with_alarm += u64::from(alarms > 0);
            }
        }
    }

    /// Adds the runs of another sweep over the same rules and grid.
    pub fn merge(&mut self, other: &Sweep) {
        self.runs += other.runs;
        for (total, (checks, cells)) in self.rates.iter_mut().flatten().zip(other.rates.iter().flatten()) {
            total.0 += checks;
            for (cell, other) in total.1.iter_mut().zip(cells) {
                cell.triggers += other.triggers;
                cell.alarms += other.alarms;
                cell.runs_with_alarm += other.runs_with_alarm;
            }
        }
    }
}

/// One run in progress, at every point of a grid.
#[derive(Clone, Debug)]
pub struct SweptRun {
    swept: Arc<SweptRules>,
    rates: Vec<Vec<SweptRate>>,
}

#[derive(Clone, Debug)]
struct SweptRate {
    checks: u64,
    strata: BTreeMap<String, SweptStratum>,
    triggers: Vec<u64>,
    alarms: Vec<u64>,
}

/// The state of a stratum in every cell since the check at which its counts last changed.
#[derive(Clone, Debug)]
struct SweptStratum {
    since: u64,
    violated: Vec<bool>,
    alarm: Vec<bool>,
}

impl SweptRun {
    /// Processes a check of a rate. `changed` are the strata whose counts have changed, with their groups.
    pub(crate) fn check<'a>(
        &mut self,
        rule: usize,
        rate: usize,
        changed: impl Iterator<Item = (&'a str, &'a NamedVec<Counts>)>,
    ) {
        let Some(tried) = self.swept.tried.get(rule) else { return };
        let Some(of_rate) = self.rates.get_mut(rule).and_then(|rates| rates.get_mut(rate)) else { return };
        of_rate.checks += 1;
        for (name, groups) in changed {
            of_rate.judge(tried, name, groups);
        }
    }
}

impl SweptRate {
    fn judge(&mut self, tried: &Tried, stratum: &str, groups: &NamedVec<Counts>) {
        let cells = self.triggers.len();
        if !self.strata.contains_key(stratum) {
            let fresh =
                SweptStratum { since: self.checks, violated: vec![false; cells], alarm: vec![false; cells] };
            self.strata.insert(stratum.to_owned(), fresh);
        }
        let Some(stratum_state) = self.strata.get_mut(stratum) else { return };
        let checks = self.checks - stratum_state.since;
        stratum_state.since = self.checks;
        let width = tried.thresholds.len();
        for (row, rule) in tried.rules.iter().enumerate() {
            let gap = Gap::of(rule, groups).size;
            for (column, threshold) in tried.thresholds.iter().enumerate() {
                let cell = row * width + column;
                self.triggers[cell] += if stratum_state.violated[cell] { checks } else { 0 };
                stratum_state.violated[cell] = threshold.is_violated(gap);
                if stratum_state.alarm[cell] {
                    stratum_state.alarm[cell] = !threshold.is_cleared(gap);
                } else if stratum_state.violated[cell] {
                    stratum_state.alarm[cell] = true;
                    self.alarms[cell] += 1;
                }
            }
        }
    }

    /// Adds the triggers from the last change of each stratum up to the last check.
    fn ended(mut self) -> SweptRate {
        for stratum_state in self.strata.values() {
            let checks = self.checks + 1 - stratum_state.since;
            for (triggers, violated) in self.triggers.iter_mut().zip(&stratum_state.violated) {
                *triggers += if *violated { checks } else { 0 };
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_in_order_and_sane() {
        let grid = Grid::new(vec![24.0, 10.0, 24.0], vec![0.2, 0.1]).unwrap();
        assert_eq!((grid.confidences(), grid.tolerances()), (&[10.0, 24.0][..], &[0.1, 0.2][..]));
        for (confidences, tolerances, message) in [
            (vec![], vec![0.1], "there is no confidence to try"),
            (vec![1.0], vec![-0.1], "a tolerance has to be 0 or more, and -0.1 is not"),
            (vec![f64::NAN], vec![0.1], "a confidence has to be 0 or more, and NaN is not"),
        ] {
            assert_eq!(Grid::new(confidences, tolerances).unwrap_err().to_string(), message);
        }
        assert!(Grid::new(vec![1.0; 1], (0..1_000_001).map(f64::from).collect()).is_err());
    }
}
