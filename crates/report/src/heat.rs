//! Heat maps: grids of numbers as colours.

use crate::scale::label;
use crate::svg::{Anchor, Svg};

/// A number for each pair of a row and a column, as a grid of colours.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Title of the figure.
    pub title: String,
    /// Text alternative for readers who cannot see the figure.
    pub description: String,
    /// Label of the columns.
    pub x: String,
    /// The columns, from left to right.
    pub columns: Vec<f64>,
    /// Label of the rows.
    pub y: String,
    /// The rows, from the bottom up.
    pub rows: Vec<f64>,
    /// Values by row. Infinite values and NaN have colours that are not on the scale.
    pub values: Vec<f64>,
    /// Label of the values.
    pub legend: String,
    /// Mapping of numbers to colours.
    pub shading: Shading,
    /// Highlighted cells: column, row, and text.
    pub marks: Vec<(f64, f64, String)>,
}

/// Mapping of numbers to colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shading {
    /// Proportional.
    Linear,
    /// Logarithmic: equal ratios are equal steps, for counts that range from a few to many thousands.
    Logarithmic,
}

impl Shading {
    fn level(self, number: f64) -> f64 {
        match self {
            Shading::Linear => number,
            Shading::Logarithmic => number.max(0.0).ln_1p(),
        }
    }

    fn number(self, level: f64) -> f64 {
        match self {
            Shading::Linear => level,
            Shading::Logarithmic => level.exp_m1(),
        }
    }
}

/// From dark to bright in even steps of lightness, so that it is legible in print and with any colour vision.
const COLOURS: [(f64, f64, f64); 7] = [
    (68.0, 1.0, 84.0),
    (70.0, 50.0, 126.0),
    (54.0, 92.0, 141.0),
    (39.0, 127.0, 142.0),
    (31.0, 161.0, 135.0),
    (110.0, 206.0, 88.0),
    (253.0, 231.0, 37.0),
];

/// Colours that are not on the scale.
const UNKNOWN: &str = "#d9d9d9";
const INFINITE: &str = "#f2b7c6";

const LEFT: f64 = 66.0;
const TOP: f64 = 44.0;
const FRAME: (f64, f64) = (460.0, 340.0);
const BAR: f64 = 18.0;
const BELOW: f64 = 52.0;
const RIGHT: f64 = 130.0;

impl HeatMap {
    /// The figure.
    pub fn svg(&self) -> String {
        let size = (LEFT + FRAME.0 + RIGHT, TOP + FRAME.1 + BELOW);
        let mut svg = Svg::new(size, &self.title, &self.description);
        svg.text((LEFT, 24.0), Anchor::Start, "font-size=\"15\" font-weight=\"bold\"", &self.title);
        let field = (FRAME.0 / self.columns.len().max(1) as f64, FRAME.1 / self.rows.len().max(1) as f64);
        let bottom = TOP + FRAME.1;
        let corner =
            |column: usize, row: usize| (LEFT + column as f64 * field.0, bottom - (row + 1) as f64 * field.1);
        let levels =
            self.values.iter().filter(|value| value.is_finite()).map(|value| self.shading.level(*value));
        let most = levels.fold(0.0, f64::max);
        for (index, value) in self.values.iter().enumerate().take(self.columns.len() * self.rows.len()) {
            let at = corner(index % self.columns.len(), index / self.columns.len());
            let style = format!("fill=\"{}\"", self.colour(*value, most));
            // Slightly larger than a cell, so that there are no gaps between cells.
            svg.rect(at, (field.0 + 0.4, field.1 + 0.4), &style);
        }
        svg.rect((LEFT, TOP), FRAME, "fill=\"none\" stroke=\"#555555\"");
        for (index, column) in every(&self.columns, 8) {
            let at = (corner(index, 0).0 + field.0 / 2.0, bottom + 18.0);
            svg.line((at.0, bottom), (at.0, bottom + 5.0), "stroke=\"#555555\"");
            svg.text(at, Anchor::Middle, "font-size=\"11\"", &label(column));
        }
        for (index, row) in every(&self.rows, 10) {
            let up = corner(0, index).1 + field.1 / 2.0;
            svg.line((LEFT - 5.0, up), (LEFT, up), "stroke=\"#555555\"");
            svg.text((LEFT - 8.0, up + 4.0), Anchor::End, "font-size=\"11\"", &label(row));
        }
        for (column, row, caption) in &self.marks {
            let place = |axis: &[f64], number: f64| axis.iter().position(|other| *other == number);
            if let (Some(column), Some(row)) = (place(&self.columns, *column), place(&self.rows, *row)) {
                let at = corner(column, row);
                svg.rect(at, field, "fill=\"none\" stroke=\"#d55e00\" stroke-width=\"2\"");
                let at = (at.0 + field.0 + 5.0, at.1 + field.1 / 2.0 + 4.0);
                // Drawn a first time as a background, so that it is legible on every colour.
                for style in [
                    "stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\" aria-hidden=\"true\"",
                    "",
                ] {
                    svg.text(
                        at,
                        Anchor::Start,
                        &format!("font-size=\"11\" font-weight=\"bold\" {style}"),
                        caption,
                    );
                }
            }
        }
        svg.text((LEFT + FRAME.0 / 2.0, bottom + 40.0), Anchor::Middle, "font-size=\"12\"", &self.x);
        let (across, up) = (18.0, TOP + FRAME.1 / 2.0);
        let turned = format!("font-size=\"12\" transform=\"rotate(-90 {across} {up})\"");
        svg.text((across, up), Anchor::Middle, &turned, &self.y);
        self.bar(&mut svg, most);
        svg.finish()
    }

    /// The colour bar and its labels.
    fn bar(&self, svg: &mut Svg, most: f64) {
        const STEPS: usize = 60;
        let (left, height) = (LEFT + FRAME.0 + 22.0, FRAME.1 / STEPS as f64);
        for step in 0..STEPS {
            let level = most * (step as f64 + 0.5) / STEPS as f64;
            let up = TOP + FRAME.1 - (step + 1) as f64 * height;
            let colour = self.colour(self.shading.number(level), most);
            svg.rect((left, up), (BAR, height + 0.4), &format!("fill=\"{colour}\""));
        }
        for part in 0..=4 {
            let share = f64::from(part) / 4.0;
            let number = self.shading.number(most * share);
            let text = if number >= 10.0 { label(number.round()) } else { format!("{number:.1}") };
            let up = TOP + FRAME.1 * (1.0 - share) + 4.0;
            svg.text((left + BAR + 6.0, up), Anchor::Start, "font-size=\"11\"", &text);
        }
        svg.text((left, TOP - 8.0), Anchor::Start, "font-size=\"11\"", &self.legend);
        let mut below = TOP + FRAME.1 + 12.0;
        let mut swatch = |colour: &str, caption: &str| {
            svg.rect((left, below), (BAR, 12.0), &format!("fill=\"{colour}\""));
            svg.text((left + BAR + 6.0, below + 10.0), Anchor::Start, "font-size=\"11\"", caption);
            below += 18.0;
        };
        if self.values.iter().any(|value| value.is_infinite()) {
            swatch(INFINITE, "infinite");
        }
        if self.values.iter().any(|value| value.is_nan()) {
            swatch(UNKNOWN, "no number");
        }
    }

    fn colour(&self, value: f64, most: f64) -> String {
        if value.is_nan() {
            return UNKNOWN.to_owned();
        }
        if value.is_infinite() {
            return INFINITE.to_owned();
        }
        let share = if most > 0.0 { (self.shading.level(value) / most).clamp(0.0, 1.0) } else { 0.0 };
        let place = share * (COLOURS.len() - 1) as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        let between = |one: f64, other: f64| (one + (other - one) * place.fract()).round() as u8;
        let (one, other) = (COLOURS[low], COLOURS[high.min(COLOURS.len() - 1)]);
        format!(
            "#{:02x}{:02x}{:02x}",
            between(one.0, other.0),
            between(one.1, other.1),
            between(one.2, other.2)
        )
    }
}

/// A regular selection of about `about` values.
fn every(axis: &[f64], about: usize) -> impl Iterator<Item = (usize, f64)> {
    let step = axis.len().div_ceil(about.max(1)).max(1);
    axis.iter().copied().enumerate().step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_coloured_by_their_number() {
        let map = |values| HeatMap {
            title: "t".to_owned(),
            description: String::new(),
            x: "ε".to_owned(),
            columns: vec![0.1, 0.2],
            y: "κ".to_owned(),
            rows: vec![10.0, 20.0],
            values,
            legend: "triggers".to_owned(),
            shading: Shading::Logarithmic,
            marks: vec![(0.2, 10.0, "here".to_owned()), (7.0, 7.0, "nowhere".to_owned())],
        };
        let svg = map(vec![0.0, 100.0, f64::NAN, f64::INFINITY]).svg();
        for colour in ["#440154", "#fde725", UNKNOWN, INFINITE] {
            assert!(svg.contains(&format!("fill=\"{colour}\"")), "{colour}");
        }
        assert!(svg.contains(">here<") && !svg.contains("nowhere"));
        for values in [vec![], vec![0.0; 4], vec![f64::NAN; 9]] {
            let svg = map(values).svg();
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        }
    }
}
