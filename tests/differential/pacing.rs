//! Pacing of streams, as far as the frontend checks it: which stream may read which.

use super::random::Random;

/// Alternatives, each a set of inputs that occur together.
pub(super) type Activation = Vec<Vec<usize>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pacing {
    Event(Activation),
    /// A period in milliseconds.
    Global(u64),
    Local(u64),
}

impl Pacing {
    /// Whether every instant of this pacing is one of `other`.
    pub(super) fn implies(&self, other: &Pacing) -> bool {
        match (self, other) {
            (Pacing::Event(mine), Pacing::Event(others)) => mine.iter().all(|together| {
                others.iter().any(|other| other.iter().all(|input| together.contains(input)))
            }),
            (Pacing::Global(mine), Pacing::Global(other)) => mine.is_multiple_of(*other),
            (Pacing::Local(mine), Pacing::Local(other)) => mine == other,
            _ => false,
        }
    }

    pub(super) fn is_event(&self) -> bool {
        matches!(self, Pacing::Event(_))
    }

    /// The text after `eval`, `spawn` or `close`.
    pub(super) fn text(&self, inputs: &[String], random: &mut Random) -> String {
        match self {
            Pacing::Event(alternatives) => {
                let and = random.pick(&["∧", "&&", " and "]);
                let or = random.pick(&["∨", "||"]);
                let alternative = |together: &Vec<usize>| {
                    let names: Vec<&str> = together.iter().map(|input| inputs[*input].as_str()).collect();
                    let text = names.join(and);
                    if names.len() > 1 && alternatives.len() > 1 { format!("({text})") } else { text }
                };
                let texts: Vec<String> = alternatives.iter().map(alternative).collect();
                format!("@({})", texts.join(or))
            }
            Pacing::Global(period) => match random.below(3) {
                0 => format!("@Global({})", duration(*period)),
                1 if 1000 % period == 0 => format!("@{}Hz", 1000 / period),
                _ => format!("@{}", duration(*period)),
            },
            Pacing::Local(period) => format!("@Local({})", duration(*period)),
        }
    }
}

/// Milliseconds in the notation of RTLola.
pub(super) fn duration(millis: u64) -> String {
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

/// The activation that requires all of these.
pub(super) fn together(activations: &[Activation]) -> Activation {
    let mut all: Activation = vec![Vec::new()];
    for activation in activations {
        let mut next = Activation::new();
        for one in &all {
            for other in activation {
                let mut both = one.clone();
                both.extend(other.iter().filter(|input| !one.contains(input)));
                both.sort_unstable();
                next.push(both);
            }
        }
        all = next;
    }
    all
}
