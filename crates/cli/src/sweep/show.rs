//! The result of a sweep as text: a table, and a heat map below.

use std::fmt::Write;

use fairstream_core::visible;
use fairstream_fairness::{Grid, RuleRate, SweepCell};

use super::{Count, Swept};
use crate::progress::{counted, grouped};

/// Formatting of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) count: Count,
    pub(crate) colour: bool,
}

/// The results to show for one rate.
pub(crate) struct Shown<'a> {
    pub(crate) rate: &'a RuleRate,
    pub(crate) grid: &'a Grid,
    pub(crate) first: Swept<'a>,
    pub(crate) against: Option<Swept<'a>>,
}

impl Look {
    pub(crate) fn text(self, shown: &Shown<'_>) -> String {
        let mut text = format!("{}\n  {}\n", visible(&shown.rate.title), visible(&shown.rate.question));
        let of = |which: &str, swept: &Swept<'_>| {
            format!("{}{} in {}", which, self.count.name(), counted(swept.runs, "run"))
        };
        let first = self.numbers(&shown.first);
        let table = |title: &str, numbers: &[f64], show: &dyn Fn(f64) -> String| {
            self.block(title, shown.grid, numbers, show)
        };
        let whole = |number: f64| grouped(number as u64);
        let Some(against) = &shown.against else {
            return text + &table(&of("", &shown.first), &first, &whole);
        };
        text += &table(&of("first: ", &shown.first), &first, &whole);
        let other = self.numbers(against);
        text += &table(&of("against: ", against), &other, &whole);
        let contrast = contrast(&shown.first, &first, against, &other);
        text += &table("contrast: how many times as many in the first, run for run", &contrast, &times);
        text + &self.advice(shown, &contrast)
    }

    fn numbers(self, swept: &Swept<'_>) -> Vec<f64> {
        swept.cells.iter().map(|cell| self.count.of(cell) as f64).collect()
    }

    fn block(self, title: &str, grid: &Grid, numbers: &[f64], show: &dyn Fn(f64) -> String) -> String {
        let mut text = format!("\n  {title}\n");
        let shown: Vec<String> = numbers.iter().map(|number| show(*number)).collect();
        let heads: Vec<String> = grid.tolerances().iter().map(|epsilon| format!("{epsilon}")).collect();
        let longest = shown.iter().chain(&heads).map(|word| word.chars().count()).max().unwrap_or_default();
        let width = longest.max(4) + 2;
        let columns = heads.len();
        let mut line = |first: &str, words: &mut dyn Iterator<Item = String>| {
            let words: String = words.collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {first:>6} {words}");
        };
        let padded = |word: &String| format!("{word:>width$}");
        line("κ \\ ε", &mut heads.iter().map(padded));
        for (row, kappa) in shown.chunks(columns).zip(grid.confidences()) {
            line(&kappa.to_string(), &mut row.iter().map(padded));
        }
        line("", &mut std::iter::empty());
        let most = numbers.iter().copied().filter(|number| number.is_finite()).fold(0.0, f64::max);
        line("", &mut heads.iter().map(padded));
        for (row, kappa) in numbers.chunks(columns).zip(grid.confidences()) {
            line(&kappa.to_string(), &mut row.iter().map(|number| self.shade(*number, most, width)));
        }
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// A field of the heat map. The scale is logarithmic, since ratios matter more than differences.
    fn shade(self, number: f64, most: f64, width: usize) -> String {
        let level = match number {
            number if number.is_nan() || number <= 0.0 => 0,
            number if number.is_infinite() || most <= 0.0 => SHADES.len() - 1,
            number => {
                let share = number.ln_1p() / most.ln_1p();
                1 + ((share * (SHADES.len() - 1) as f64) as usize).min(SHADES.len() - 2)
            }
        };
        let (glyph, colour) = SHADES[level];
        let field = glyph.repeat(width - 1);
        if self.colour { format!(" \x1b[38;5;{colour}m{field}\x1b[0m") } else { format!(" {field}") }
    }

    /// A sentence on the cell with the largest contrast.
    fn advice(self, shown: &Shown<'_>, contrast: &[f64]) -> String {
        let Some(against) = &shown.against else { return String::new() };
        let (what, grid) = (self.count.name(), shown.grid);
        let at = |cell: usize| {
            let width = grid.tolerances().len();
            let (kappa, epsilon) = (grid.confidences()[cell / width], grid.tolerances()[cell % width]);
            let [first, other] =
                [&shown.first, against].map(|swept| grouped(self.count.of(&swept.cells[cell])));
            format!("κ = {kappa}, ε = {epsilon}: {first} against {other}")
        };
        let mut text = String::new();
        let most = |of: &dyn Fn(usize) -> Option<f64>| {
            let known = (0..contrast.len()).filter_map(|cell| Some((cell, of(cell)?)));
            known.reduce(|one, other| if other.1 > one.1 { other } else { one })
        };
        if let Some((cell, ratio)) = most(&|cell| Some(contrast[cell]).filter(|ratio| ratio.is_finite())) {
            let _ = writeln!(text, "\nThe contrast is largest at {}, {}", at(cell), times(ratio));
        }
        let alone = |cell: usize| contrast[cell].is_infinite();
        let of_first = |cell: usize| alone(cell).then(|| self.count.of(&shown.first.cells[cell]) as f64);
        if let Some((cell, _)) = most(&of_first) {
            let pairs = (0..contrast.len()).filter(|cell| alone(*cell)).count();
            let pairs = counted(pairs as u64, "pair");
            let _ = writeln!(text, "Only the first has {what} at {pairs}, most of them at {}", at(cell));
        }
        text
    }
}

/// Shades from none to most, as characters and as colours. Colours go from dark to bright, so that they can be read
/// without distinguishing red from green.
const SHADES: [(&str, u8); 5] = [("·", 240), ("░", 54), ("▒", 31), ("▓", 78), ("█", 226)];

/// The ratio of two rates per run: infinite if only the second is 0, NaN if both are.
fn contrast(first: &Swept<'_>, of_first: &[f64], against: &Swept<'_>, of_against: &[f64]) -> Vec<f64> {
    let runs = |swept: &Swept<'_>| swept.runs.max(1) as f64;
    of_first
        .iter()
        .zip(of_against)
        .map(|(one, other)| (one / runs(first)) / (other / runs(against)))
        .collect()
}

fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_nan() => "-".to_owned(),
        ratio if ratio.is_infinite() => "∞".to_owned(),
        ratio if ratio >= 9.95 => format!("{}×", grouped(ratio.round() as u64)),
        ratio => format!("{ratio:.1}×"),
    }
}

impl Count {
    fn name(self) -> &'static str {
        match self {
            Count::Triggers => "triggers",
            Count::Alarms => "alarms",
            Count::Runs => "runs with an alarm",
        }
    }

    fn of(self, cell: &SweepCell) -> u64 {
        match self {
            Count::Triggers => cell.triggers,
            Count::Alarms => cell.alarms,
            Count::Runs => cell.runs_with_alarm,
        }
    }
}
