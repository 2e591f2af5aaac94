//! The count layer: resolved trials → counts for each group and stratum.

use crate::RollingWindow;
use crate::unit::in_words;

use super::facts::Amount;
use super::names::Names;
use super::scope::{Pace, Scope};
use super::text::Text;

pub(super) struct CountLayer<'a> {
    pub(super) scope: &'a Scope,
    pub(super) names: &'a mut Names,
    pub(super) text: &'a mut Text,
}

impl CountLayer<'_> {
    /// Writes the number of trials that wait for their horizon, if there is one.
    pub(super) fn pending(&mut self) -> Option<String> {
        let (horizon, pace) = (self.scope.horizon?, self.scope.counted.as_ref()?);
        let name = self.names.new_name("pending");
        self.text.line(&format!("// Trials whose {} are not over.", in_words(horizon)));
        let open = self.scope.over_trials(&self.scope.trial, "count");
        let resolved = self.scope.over_trials(&self.scope.resolved, "count");
        self.stream(&name, "UInt64", pace, &format!("{open}\n       - {resolved}"));
        Some(name)
    }

    /// Writes the sum of an amount over the trials of each group. A trial that is closed once
    /// it has been counted is added to what was counted before.
    pub(super) fn count(&mut self, amount: &Amount, of_trial: &str, pace: &Pace) -> String {
        let conjunction = amount.conjunction();
        let (name, using, zero) = match amount {
            Amount::Trials(conjunction) => (format!("n_{conjunction}"), "sum", "0"),
            Amount::Sum(quantity, _) => (format!("sum_{quantity}"), "sum", "0.0"),
        };
        let name = self.names.new_name(&name);
        let counts = matches!(amount, Amount::Trials(_)) && conjunction.is_all_trials();
        let new = self.scope.over_trials(of_trial, if counts { "count" } else { using });
        let expression = match self.scope.counted {
            None => new,
            Some(_) => format!("{name}({}).last(or: {zero})\n       + {new}", self.scope.count_params()),
        };
        self.stream(&name, amount.data_type(), pace, &expression);
        name
    }

    /// Writes the part of a count that is of the trials in a window: the count so far, minus the count when the window
    /// began. `trials` is a count that only grows, and that grows with every trial that adds to `count`.
    pub(super) fn in_window(
        &mut self,
        amount: &Amount,
        count: &str,
        trials: &str,
        window: &RollingWindow,
        pace: &Pace,
    ) -> String {
        let [at_step, inside] =
            ["at_step", "in_window"].map(|word| self.names.new_name(&format!("{count}_{word}")));
        let (params, steps) = (self.scope.count_params(), window.steps);
        let is_sum = matches!(amount, Amount::Sum(..));
        // Each step has the number of trials, and the sum beside it if it is of numbers: then and now.
        let (data_type, none) = match is_sum {
            true => ("(UInt64, UInt64, Float64, Float64)", "(0, 0, 0.0, 0.0)"),
            false => ("(UInt64, UInt64)", "(0, 0)"),
        };
        let zero = if is_sum { "0.0" } else { "0" };
        let (so_far, counted) =
            (format!("{count}({params}).hold(or: {zero})"), format!("{trials}({params}).hold(or: 0)"));
        let past = format!("{at_step}({params}).offset(by: -{steps}).defaults(to: {none})");
        let last = format!("{at_step}({params}).last(or: {none})");
        let (value, began) = match is_sum {
            true => (format!("({counted}, {past}.0,\n       {so_far}, {past}.2)"), 3),
            false => (format!("({so_far}, {past}.0)"), 1),
        };
        self.text.line(&format!(
            "// At the end of each step of {}: what was counted so far, and when the window began. As long as both are the\n\
             // same, nothing is in the window, and there is nothing to move.",
            in_words(window.step)
        ));
        self.text.line(&format!("output {at_step}({params}) : {data_type}"));
        self.text.line(&self.scope.spawn_of_count());
        let pace_of_steps = Pace::Every(window.step);
        self.text.line(&format!(
            "  eval @{} when {counted} != {last}.1\n    with {value}\n",
            pace_of_steps.text()
        ));
        self.text.line(&format!("// What was counted {}.", window.in_words(false)));
        let expression = format!("{so_far}\n       - {at_step}({params}).hold(or: {none}).{began}");
        self.stream(&inside, amount.data_type(), pace, &expression);
        inside
    }

    fn stream(&mut self, name: &str, data_type: &str, pace: &Pace, expression: &str) {
        let params = self.scope.count_params();
        self.text.line(&format!("output {name}({params}) : {data_type}"));
        self.text.line(&self.scope.spawn_of_count());
        self.text.line(&format!("  eval @{}\n    with {expression}\n", pace.text()));
    }
}
