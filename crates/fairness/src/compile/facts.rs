//! What metrics need to know of a trial: boolean facts, conjunctions of them, and amounts that are summed over trials.

use std::fmt;

use crate::Unit;
use crate::expression::Expression;
use crate::metric::{Literal, Measure, Rate, UnknownOutcome};

/// A boolean fact of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fact {
    /// An event of the trial fulfils the condition of an indicator.
    Indicator(String),
    /// A number has a value.
    Known(Expression),
    /// The case was asked again with another group, and a decision was made.
    AskedAgain(Expression),
    /// The case was asked again with another group, and the decision was different.
    Changed(Expression),
}

/// Its name in streams.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Indicator(name) => f.write_str(name),
            Fact::Known(number) => write!(f, "{}_known", label(number)),
            Fact::AskedAgain(_) => f.write_str("asked_again"),
            Fact::Changed(_) => f.write_str("changed"),
        }
    }
}

/// A conjunction of facts, each of which holds or does not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conjunction(pub(super) Vec<(Fact, bool)>);

impl Conjunction {
    fn new(facts: impl IntoIterator<Item = (Fact, bool)>) -> Conjunction {
        let mut conjunction: Vec<(Fact, bool)> = Vec::new();
        for fact in facts {
            if !conjunction.contains(&fact) {
                conjunction.push(fact);
            }
        }
        Conjunction(conjunction)
    }

    fn of(literals: &[Literal]) -> Conjunction {
        Conjunction::new(literals.iter().map(literal))
    }

    fn and(&self, more: impl IntoIterator<Item = (Fact, bool)>) -> Conjunction {
        // The facts asked for come first, as in spoken language: high risk and re-offended.
        Conjunction::new(more.into_iter().chain(self.0.iter().cloned()))
    }

    /// All trials.
    pub(super) fn is_all_trials(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Conjunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fact, holds)) in self.0.iter().enumerate() {
            let and = if index > 0 { "_and_" } else { "" };
            write!(f, "{and}{}{fact}", if *holds { "" } else { "not_" })?;
        }
        if self.0.is_empty() { f.write_str("trials") } else { Ok(()) }
    }
}

/// An amount that is summed over trials.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Amount {
    /// 1 for each trial that fulfils the conjunction.
    Trials(Conjunction),
    /// A number of each trial that fulfils the conjunction.
    Sum(Quantity, Conjunction),
}

impl Amount {
    pub(super) fn conjunction(&self) -> &Conjunction {
        match self {
            Amount::Trials(conjunction) | Amount::Sum(_, conjunction) => conjunction,
        }
    }

    pub(super) fn data_type(&self) -> &'static str {
        match self {
            Amount::Trials(_) => "UInt64",
            Amount::Sum(..) => "Float64",
        }
    }
}

/// A number of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Quantity {
    /// The first value of an expression.
    Number(Expression),
    /// Time between the first events of two indicators; from the opening if `from` is `None`.
    Delay { from: Option<String>, to: String, unit: Unit },
    /// Another quantity, clamped to a range.
    Within(Box<Quantity>, (f64, f64)),
}

impl Quantity {
    /// The quantity without its range.
    pub(super) fn whole(&self) -> &Quantity {
        match self {
            Quantity::Within(quantity, _) => quantity,
            quantity => quantity,
        }
    }

    fn within(self, range: Option<(f64, f64)>) -> Quantity {
        match range {
            Some(range) => Quantity::Within(Box::new(self), range),
            None => self,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(number) => f.write_str(&label(number)),
            Quantity::Delay { from: Some(from), to, .. } => write!(f, "delay_from_{from}_to_{to}"),
            Quantity::Delay { from: None, to, .. } => write!(f, "delay_to_{to}"),
            Quantity::Within(quantity, _) => quantity.fmt(f),
        }
    }
}

/// Numerator and denominator of a rate.
pub(super) fn amounts(rate: &Rate) -> (Amount, Amount) {
    let given = Conjunction::of(&rate.given);
    match &rate.measure {
        Measure::Holds(of) => (Amount::Trials(given.and(of.iter().map(literal))), Amount::Trials(given)),
        Measure::Number(number) => {
            let known = given.and([(Fact::Known(number.clone()), true)]);
            let number = Quantity::Number(number.clone()).within(rate.range);
            (Amount::Sum(number, known.clone()), Amount::Trials(known))
        }
        Measure::Delay { from, to, unit } => {
            let both = std::iter::once(to).chain(from).map(|name| (Fact::Indicator(name.clone()), true));
            let known = given.and(both);
            let delay = Quantity::Delay { from: from.clone(), to: to.clone(), unit: *unit };
            (Amount::Sum(delay.within(rate.range), known.clone()), Amount::Trials(known))
        }
        Measure::Flips(decision) => {
            let again = given.and([(Fact::AskedAgain(decision.clone()), true)]);
            let changed = given.and([(Fact::Changed(decision.clone()), true)]);
            (Amount::Trials(changed), Amount::Trials(again))
        }
    }
}

/// The trials of a rate whose outcome is not known.
pub(super) fn unknown_amount(rate: &Rate) -> Option<Amount> {
    let UnknownOutcome { given, known } = rate.unknown.as_ref()?;
    Some(Amount::Trials(Conjunction::of(given).and([self::literal(&known.not())])))
}

fn literal(literal: &Literal) -> (Fact, bool) {
    (Fact::Indicator(literal.indicator.clone()), literal.holds)
}

/// The name of a number: its column, if the expression is one.
pub(super) fn label(number: &Expression) -> String {
    number.as_name().unwrap_or("number").to_owned()
}
