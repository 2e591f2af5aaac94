//! The trial layer: events → resolved trials. Every stream here is keyed by the trial and reads
//! nothing outside its own trial, so that trials can be split by key without changing a verdict.

use crate::expression::Expression;
use crate::file::{FairnessFile, Indicator};
use crate::unit::{in_words, rtlola_duration};

use super::BoundInput;
use super::estimate::float;
use super::facts::{Amount, Conjunction, Fact, Quantity, label};
use super::names::Names;
use super::scope::{Scope, all_of};
use super::text::Text;

pub(super) struct TrialLayer<'a> {
    pub(super) file: &'a FairnessFile,
    pub(super) inputs: &'a [BoundInput],
    pub(super) scope: &'a Scope,
    pub(super) names: &'a mut Names,
    pub(super) text: &'a mut Text,
    /// The input with the time of an event.
    pub(super) clock: Option<&'a str>,
    facts: Vec<(Fact, String)>,
    moments: Vec<(Option<String>, String)>,
    values: Vec<(Quantity, String)>,
    written: Vec<String>,
}

/// The streams of a trial layer.
pub(super) struct TrialLayerStreams {
    /// What each trial adds to the counts.
    pub(super) amounts: Vec<(Amount, String)>,
    /// Facts by their names.
    pub(super) facts: Vec<(String, String)>,
    /// All of them. The first parameter of each is the key of the trial.
    pub(super) all: Vec<String>,
}

impl<'a> TrialLayer<'a> {
    pub(super) fn new(
        file: &'a FairnessFile,
        inputs: &'a [BoundInput],
        scope: &'a Scope,
        names: &'a mut Names,
        text: &'a mut Text,
        clock: Option<&'a str>,
    ) -> TrialLayer<'a> {
        let (facts, moments, values, written) = Default::default();
        TrialLayer { file, inputs, scope, names, text, clock, facts, moments, values, written }
    }

    pub(super) fn write(mut self, amounts: &[Amount]) -> TrialLayerStreams {
        self.openings();
        self.opening_time(amounts);
        for amount in amounts {
            for (fact, _) in &amount.conjunction().0 {
                self.fact(fact);
            }
        }
        for amount in amounts {
            if let Amount::Sum(quantity, _) = amount {
                self.quantity(quantity);
            }
        }
        self.trial();
        let amounts = amounts.iter().map(|amount| (amount.clone(), self.amount(amount))).collect();
        let facts = self.facts.iter().map(|(fact, stream)| (fact.to_string(), stream.clone())).collect();
        TrialLayerStreams { amounts, facts, all: self.written }
    }

    /// Writes a stream of one trial, which has a value from opening to end.
    fn stream(&mut self, name: &str, params: &str, data_type: &str, spawn: &str, evals: &[String]) {
        self.written.push(name.to_owned());
        let data_type = if data_type.is_empty() { String::new() } else { format!(" : {data_type}") };
        self.text.line(&format!("output {name}({params}){data_type}"));
        self.text.line(spawn);
        for eval in evals {
            self.text.line(&format!("  eval {eval}"));
        }
        if let Some(close) = self.scope.close() {
            self.text.line(&close);
        }
        self.text.push("\n");
    }

    fn of_key(&mut self, name: &str, data_type: &str, evals: &[String]) {
        let (param, spawn) = (self.scope.key.param.clone(), self.scope.spawn_of_key());
        self.stream(name, &param, data_type, &spawn, evals);
    }

    fn of_trial(&mut self, name: &str, data_type: &str, evals: &[String]) {
        let (params, spawn) = (self.scope.trial_params(), self.scope.spawn_of_trial());
        self.stream(name, &params, data_type, &spawn, evals);
    }

    fn openings(&mut self) {
        let Scope { key, opening, openings, over, .. } = self.scope;
        let (key, opens) = (&key.param, self.scope.opens_here());
        self.text.line("// Number of openings of a trial; only the first counts.");
        self.of_key(
            openings,
            "UInt64",
            &[format!("@{opening} when {opens} with {openings}({key}).last(or: 0) + 1")],
        );
        if let Some(horizon) = self.scope.horizon {
            self.text.line(&format!(
                "// Whether the trial is over, {} after its opening, by a clock of its own. What happens at that very
// time still counts.",
                in_words(horizon)
            ));
            self.of_key(over, "Bool", &[format!("@Local({}) with true", rtlola_duration(horizon))]);
        }
    }

    fn opening_time(&mut self, amounts: &[Amount]) {
        let asked = |name: &str| {
            amounts.iter().any(|amount| {
                let indicator = Fact::Indicator(name.to_owned());
                amount.conjunction().0.iter().any(|(fact, _)| *fact == indicator)
            })
        };
        let bounded = self
            .file
            .indicators
            .iter()
            .any(|indicator| indicator.within.is_some() && asked(&indicator.name.value));
        let delayed = amounts.iter().any(|amount| match amount {
            Amount::Sum(quantity, _) => matches!(quantity.whole(), Quantity::Delay { from: None, .. }),
            Amount::Trials(_) => false,
        });
        if (bounded || delayed)
            && let Some(clock) = self.clock
        {
            let name = self.names.new_name("opened_at");
            let (key, opening, opens) = (&self.scope.key.param, &self.scope.opening, self.scope.opens_here());
            self.text.line("// When the trial was opened.");
            let eval = format!("@{opening}∧{clock} when {opens} with {name}({key}).last(or: {clock})");
            self.of_key(&name, "Int64", &[eval]);
            self.moments.push((None, name));
        }
    }

    /// The stream that holds a fact.
    fn fact(&mut self, fact: &Fact) -> String {
        if let Some((_, name)) = self.facts.iter().find(|(known, _)| known == fact) {
            return name.clone();
        }
        let name = match fact {
            Fact::Indicator(indicator) => match self.file.indicator(indicator) {
                Some(indicator) => self.indicator(indicator),
                None => String::new(),
            },
            Fact::Known(number) => self.number(number),
            Fact::AskedAgain(decision) | Fact::Changed(decision) => {
                self.asked_again(decision);
                return self
                    .facts
                    .iter()
                    .find(|(known, _)| known == fact)
                    .map(|(_, name)| name.clone())
                    .unwrap_or_default();
            }
        };
        self.facts.push((fact.clone(), name.clone()));
        name
    }

    /// Pacing and condition of the events at which an indicator holds.
    fn event(&mut self, indicator: &Indicator) -> (String, String) {
        let key = indicator.key.as_ref().map_or(&self.scope.key.column, |key| &key.value);
        let mut columns = self.scope.own_columns(key);
        columns
            .extend(indicator.when.names.iter().filter(|name| name.is_sync).map(|name| name.text.as_str()));
        let mut condition = self.scope.is_own(key);
        if !indicator.when.is_true() {
            condition += &format!(" ∧ {}", self.text.mark_joined(&indicator.when));
        }
        let opened_at = self.moments.iter().find(|(of, _)| of.is_none());
        if let (Some(within), Some(clock), Some((_, opened_at))) = (indicator.within, self.clock, opened_at) {
            columns.push(clock);
            let (param, nanos) = (&self.scope.key.param, within.as_nanos());
            condition += &format!(" ∧ {clock} - {opened_at}({param}).hold(or: {clock}) <= {nanos}");
        }
        (all_of(&columns), condition)
    }

    fn indicator(&mut self, indicator: &Indicator) -> String {
        let name = self.names.new_name(&format!("is_{}", indicator.name.value));
        let (pacing, condition) = self.event(indicator);
        let within = indicator
            .within
            .map(|within| format!(", within {} of the opening", in_words(within)))
            .unwrap_or_default();
        self.text.line(&format!("// Indicator `{}`: there is such an event{within}.", indicator.name.value));
        self.of_key(&name, "Bool", &[format!("@{pacing} when {condition} with true")]);
        name
    }

    /// The stream with the time of an indicator's first event.
    fn moment(&mut self, indicator: Option<&str>) -> String {
        let wanted = indicator.map(str::to_owned);
        if let Some((_, name)) = self.moments.iter().find(|(of, _)| *of == wanted) {
            return name.clone();
        }
        let found = indicator.and_then(|name| self.file.indicator(name));
        let (Some(indicator), Some(clock)) = (found, self.clock) else { return String::new() };
        let name = self.names.new_name(&format!("first_{}", indicator.name.value));
        let (pacing, condition) = self.event(indicator);
        let key = self.scope.key.param.clone();
        self.text.line(&format!("// When the first event of `{}` was.", indicator.name.value));
        let pacing = if pacing.split('∧').any(|column| column == clock) {
            pacing
        } else {
            format!("{pacing}∧{clock}")
        };
        let eval = format!("@{pacing} when {condition} with {name}({key}).last(or: {clock})");
        self.of_key(&name, "Int64", &[eval]);
        self.moments.push((wanted, name.clone()));
        name
    }

    /// Writes the streams with the first value of a number and whether there is one, and returns the latter.
    fn number(&mut self, number: &Expression) -> String {
        let (first, known) = (format!("first_{}", label(number)), format!("is_{}_known", label(number)));
        let (first, known) = (self.names.new_name(&first), self.names.new_name(&known));
        let key = self.scope.key.clone();
        let mut columns = self.scope.own_columns(&key.column);
        columns.extend(number.names.iter().filter(|name| name.is_sync).map(|name| name.text.as_str()));
        let pacing = all_of(&columns);
        let condition = self.scope.is_own(&key.column);
        let value = self.as_float(number);
        self.text.line(&format!(
            "// The first value of `{}` in the trial, and whether there is one.",
            number.text
        ));
        self.of_key(
            &first,
            "Float64",
            &[format!("@{pacing} when {condition} with {first}({}).last(or: {value})", key.param)],
        );
        self.of_key(&known, "Bool", &[format!("@{pacing} when {condition} with true")]);
        self.values.push((Quantity::Number(number.clone()), first));
        known
    }

    /// Casts a column to Float64; any other expression must have that type.
    fn as_float(&mut self, number: &Expression) -> String {
        let column = number.as_name().and_then(|name| self.inputs.iter().find(|input| input.stream == name));
        let mark = self.text.mark(number);
        match column.map(|column| column.data_type.as_str()) {
            Some(whole) if whole != "Float64" => format!("cast<{whole}, Float64>({mark})"),
            _ => mark,
        }
    }

    fn quantity(&mut self, quantity: &Quantity) {
        if let Quantity::Delay { from, to, .. } = quantity.whole() {
            self.moment(from.as_deref());
            self.moment(Some(to));
        }
    }

    /// The value of a quantity, where it is known.
    fn value(&mut self, quantity: &Quantity) -> String {
        let key = self.scope.key.param.clone();
        match quantity {
            Quantity::Number(_) => {
                let stream =
                    self.values.iter().find(|(known, _)| known == quantity).map(|(_, name)| name.clone());
                format!("{}({key}).hold(or: 0.0)", stream.unwrap_or_default())
            }
            Quantity::Delay { from, to, unit } => {
                let (from, to) = (self.moment(from.as_deref()), self.moment(Some(to)));
                let nanos = unit.nanoseconds();
                format!(
                    "cast<Int64, Float64>({to}({key}).hold(or: 0) - {from}({key}).hold(or: 0)) / {nanos}.0"
                )
            }
            Quantity::Within(quantity, (low, high)) => {
                let (value, low, high) = (self.value(quantity), float(*low), float(*high));
                format!("(if {value} < {low} then {low} else if {value} > {high} then {high} else {value})")
            }
        }
    }

    /// Writes the stream that says whether the same case, asked again with another group, was decided differently.
    fn asked_again(&mut self, decision: &Expression) {
        let names = ["first_decision", "is_decided", "is_asked_again", "is_changed"];
        let names = names.map(|name| self.names.new_name(name));
        let [first, decided, again, changed] = &names;
        let (key, params) = (self.scope.key.clone(), self.scope.trial_params());
        let mut columns = vec![key.column.as_str()];
        columns.extend(self.scope.groups.iter().map(|group| group.column.as_str()));
        columns.extend(decision.names.iter().filter(|name| name.is_sync).map(|name| name.text.as_str()));
        let pacing = all_of(&columns);
        let here = self.scope.is_own(&key.column);
        let compare = |operator: &str, join: &str| {
            let groups = self.scope.groups.iter();
            let parts: Vec<String> =
                groups.map(|group| format!("{} {operator} {}", group.column, group.param)).collect();
            if parts.len() == 1 { parts.join("") } else { format!("({})", parts.join(join)) }
        };
        let (same, other) = (compare("=", " ∧ "), compare("!=", " ∨ "));
        let marks = [(); 3].map(|()| self.text.mark(decision));
        self.text.line("// The first decision on the case, with the group that it was opened with.");
        let first_value = format!("{first}({params}).last(or: {})", marks[0]);
        self.of_trial(first, "", &[format!("@{pacing} when {here} ∧ {same} with {first_value}")]);
        self.of_trial(decided, "Bool", &[format!("@{pacing} when {here} ∧ {same} with true")]);
        self.text.line("// Whether the same case was then asked again with another group.");
        let anew = format!("{here} ∧ {other} ∧ {decided}({params}).hold(or: false)");
        self.of_trial(again, "Bool", &[format!("@{pacing} when {anew} with true")]);
        self.text.line("// Whether the decision was different then.");
        let differs = format!("({}) != {first}({params}).hold(or: {})", marks[1], marks[2]);
        self.of_trial(changed, "Bool", &[format!("@{pacing} when {anew} ∧ {differs} with true")]);
        self.facts.push((Fact::AskedAgain(decision.clone()), again.clone()));
        self.facts.push((Fact::Changed(decision.clone()), changed.clone()));
    }

    fn trial(&mut self) {
        let Scope { opening, trial, resolved, .. } = self.scope;
        let opens = match self.scope.at_opening {
            true => self.scope.is_own(&self.scope.key.column),
            false => self.scope.opens_here(),
        };
        self.text.line("// The trial itself, in its group.");
        self.of_trial(trial, "UInt64", &[format!("@{opening} when {opens} with 1")]);
        if let Some(horizon) = self.scope.horizon {
            self.text.line("// At its end it is resolved, and stays until it has been counted.");
            self.of_trial(resolved, "UInt64", &[format!("@Local({}) with 1", rtlola_duration(horizon))]);
        }
    }

    /// The stream with what a trial adds to an amount.
    fn amount(&mut self, amount: &Amount) -> String {
        let conjunction = amount.conjunction().clone();
        if let (Amount::Trials(_), true) = (amount, conjunction.is_all_trials()) {
            let Scope { trial, resolved, horizon, .. } = self.scope;
            return if horizon.is_some() { resolved.clone() } else { trial.clone() };
        }
        let condition = self.condition(&conjunction);
        let (name, value) = match amount {
            Amount::Trials(_) => {
                self.text
                    .line(&format!("// 1 if the trial is {}.", conjunction.to_string().replace('_', " ")));
                (format!("trial_{conjunction}"), format!("if {condition} then 1 else 0"))
            }
            Amount::Sum(quantity, _) => {
                let value = self.value(quantity);
                self.text.line(&format!(
                    "// What the trial adds to the sum of {}.",
                    quantity.to_string().replace('_', " ")
                ));
                (format!("trial_{quantity}"), format!("if {condition} then {value} else 0.0"))
            }
        };
        let name = self.names.new_name(&name);
        let evals: Vec<String> = match self.scope.horizon {
            Some(horizon) => vec![format!("@Local({}) with {value}", rtlola_duration(horizon))],
            None if self.scope.at_opening => {
                let Scope { opening, key, .. } = self.scope;
                vec![format!("@{opening} when {} with {value}", self.scope.is_own(&key.column))]
            }
            None => {
                let param = &self.scope.key.param;
                self.keys(&conjunction)
                    .iter()
                    .map(|key| format!("@{key} when {key} = {param} with {value}"))
                    .collect()
            }
        };
        self.of_trial(&name, amount.data_type(), &evals);
        name
    }

    fn condition(&mut self, conjunction: &Conjunction) -> String {
        let key = self.scope.key.param.clone();
        let params = self.scope.trial_params();
        let mut parts = Vec::new();
        for (fact, holds) in &conjunction.0 {
            let stream = self.fact(fact);
            let of = match fact {
                Fact::Indicator(_) | Fact::Known(_) => &key,
                Fact::AskedAgain(_) | Fact::Changed(_) => &params,
            };
            parts.push(format!("{}{stream}({of}).hold(or: false)", if *holds { "" } else { "!" }));
        }
        if parts.is_empty() { "true".to_owned() } else { parts.join(" ∧ ") }
    }

    /// The columns whose events can change a conjunction of facts; the trial's key comes last.
    fn keys(&self, conjunction: &Conjunction) -> Vec<String> {
        let own = &self.scope.key.column;
        let mut keys = Vec::new();
        for (fact, _) in &conjunction.0 {
            if let Fact::Indicator(name) = fact
                && let Some(key) = self.file.indicator(name).and_then(|indicator| indicator.key.as_ref())
                && key.value != *own
                && !keys.contains(&key.value)
            {
                keys.push(key.value.clone());
            }
        }
        keys.push(own.clone());
        keys
    }
}
