//! Line plots.

use crate::scale::{Scale, label, ticks};
use crate::svg::{Anchor, Svg, seen};

/// Series as lines in one frame, with a legend beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePlot {
    /// Title of the figure.
    pub title: String,
    /// Text alternative for readers who cannot see the figure.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Horizontal lines, such as a tolerance: value and label.
    pub limits: Vec<(f64, String)>,
    /// Areas behind the lines.
    pub behind: Behind,
}

/// Areas behind the lines of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behind {
    /// A band: positions with its lower and its upper edge.
    pub band: Vec<(f64, f64, f64)>,
    /// Label of the band.
    pub band_name: String,
    /// Shaded intervals of the horizontal axis.
    pub stretches: Vec<(f64, f64)>,
    /// Label of the intervals.
    pub stretch_name: String,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    label: String,
    range: Option<(f64, f64)>,
    /// Numbers that the range must include, in addition to those of the lines.
    reach: Vec<f64>,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis whose range fits its numbers, with ticks at round numbers.
    pub fn new(label: &str) -> Axis {
        Axis { label: label.to_owned(), range: None, reach: Vec::new(), ticks: Vec::new() }
    }

    /// With this range.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Axis {
        self.range = Some((low, high));
        self
    }

    /// With a range that fits its numbers and includes these.
    #[must_use]
    pub fn around(mut self, numbers: impl Iterator<Item = f64>) -> Axis {
        self.reach.extend(numbers.filter(|number| number.is_finite()));
        self
    }

    /// With ticks at these numbers, with labels such as dates.
    #[must_use]
    pub fn ticks(mut self, ticks: Vec<(f64, String)>) -> Axis {
        self.ticks = ticks;
        self
    }

    fn bounds(&self, numbers: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut low, mut high) = self.range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        if self.range.is_none() {
            for number in numbers.chain(self.reach.iter().copied()).filter(|number| number.is_finite()) {
                (low, high) = (low.min(number), high.max(number));
            }
        }
        match (low.is_finite() && high.is_finite(), low < high) {
            (false, _) => (0.0, 1.0),
            (true, true) => (low, high),
            (true, false) => (low - 0.5, low + 0.5),
        }
    }

    fn marks(&self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        if self.ticks.is_empty() {
            return ticks(low, high, 6).into_iter().map(|tick| (tick, label(tick))).collect();
        }
        self.ticks.iter().filter(|(at, _)| (low..=high).contains(at)).cloned().collect()
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// Index of the series whose colour it has, drawn thinner: the edge of a band, for example.
    of: Option<usize>,
    /// Whether it is drawn thin and grey, as one of many.
    is_faint: bool,
}

impl Series {
    /// A line through points from left to right, interrupted where a value is not finite.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_owned(), points, of: None, is_faint: false }
    }

    /// Drawn thin and grey.
    #[must_use]
    pub fn faint(mut self) -> Series {
        self.is_faint = true;
        self
    }

    /// Drawn thin, in the colour of another series, by its index.
    #[must_use]
    pub fn beside(mut self, series: usize) -> Series {
        self.of = Some(series);
        self
    }
}

/// The colours of Okabe and Ito, which can be distinguished with any colour vision; dashes distinguish lines in
/// print without colour.
const STYLES: [(&str, &str); 7] = [
    ("#0072b2", ""),
    ("#d55e00", "7 3"),
    ("#009e73", "2 2"),
    ("#cc79a7", "9 3 2 3"),
    ("#56b4e9", "5 2"),
    ("#000000", "1 3"),
    ("#e69f00", "12 4"),
];

/// Colour and dashes of a line: where colours repeat, dashes differ.
fn style(line: usize) -> (&'static str, &'static str) {
    let count = STYLES.len();
    (STYLES[line % count].0, STYLES[(line + line / count) % count].1)
}

const FAINT: &str = "#999999";

const LEFT: f64 = 66.0;
const TOP: f64 = 44.0;
const FRAME: (f64, f64) = (520.0, 280.0);
/// Width of the legend to the right of the frame.
const RIGHT: f64 = 200.0;
const BELOW: f64 = 52.0;

impl LinePlot {
    /// Width and height of every such figure.
    pub(crate) const SIZE: (f64, f64) = (LEFT + FRAME.0 + RIGHT, TOP + FRAME.1 + BELOW);

    /// The figure.
    pub fn svg(&self) -> String {
        self.svg_named("frame")
    }

    /// The figure with an id for its frame, which must be unique among several figures of a page.
    pub(crate) fn svg_named(&self, frame: &str) -> String {
        let mut svg = Svg::new(LinePlot::SIZE, &self.title, &self.description);
        svg.text((LEFT, 24.0), Anchor::Start, "font-size=\"15\" font-weight=\"bold\"", &self.title);
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_bounds = self.x.bounds(points().map(|(x, _)| *x));
        let levels = self.limits.iter().map(|(level, _)| *level);
        let y_bounds = self.y.bounds(points().map(|(_, y)| *y).chain(levels));
        let x = Scale { low: x_bounds.0, high: x_bounds.1, from: LEFT, to: LEFT + FRAME.0 };
        let y = Scale { low: y_bounds.0, high: y_bounds.1, from: TOP + FRAME.1, to: TOP };
        self.axes(&mut svg, &x, &y);
        // Lines are clipped to the frame.
        svg.frame(frame, (LEFT, TOP), FRAME);
        let mut row = TOP + 8.0;
        let clipped = format!(" clip-path=\"url(#{frame})\"");
        self.behind.draw(&mut svg, (&x, &y), &clipped, &mut row);
        for (level, name) in &self.limits {
            let at = y.place(*level);
            let style = "stroke=\"#555555\" stroke-width=\"1.2\" stroke-dasharray=\"4 4\"";
            svg.line((LEFT, at), (LEFT + FRAME.0, at), style);
            legend(&mut svg, &mut row, style, name);
        }
        let mut colour = 0;
        let mut colours = Vec::new();
        for series in &self.series {
            let of = series.of.and_then(|of| colours.get(of).copied());
            let (stroke, dashes) = of.unwrap_or_else(|| {
                colour += usize::from(!series.is_faint);
                style(colour.saturating_sub(1))
            });
            colours.push((stroke, dashes));
            let (stroke, dashes) = if series.is_faint { (FAINT, "") } else { (stroke, dashes) };
            let is_thin = of.is_some() || series.is_faint;
            let (width, opacity) = if is_thin { (0.9, 0.6) } else { (1.8, 1.0) };
            let style = format!(
                "stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-opacity=\"{opacity}\" \
                 stroke-dasharray=\"{dashes}\" stroke-linejoin=\"round\""
            );
            let style = style.replace(" stroke-dasharray=\"\"", "");
            let points = series.points.iter().map(|(across, up)| (x.place(*across), y.place(*up)));
            svg.path(points, &format!("{style}{clipped}"));
            legend(&mut svg, &mut row, &style, &series.name);
        }
        svg.finish()
    }

    fn axes(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let small = "font-size=\"11\"";
        for (at, text) in self.y.marks((y.low, y.high)) {
            let place = y.place(at);
            svg.line((LEFT, place), (LEFT + FRAME.0, place), "stroke=\"#e4e4e4\"");
            svg.text((LEFT - 8.0, place + 4.0), Anchor::End, small, &text);
        }
        let bottom = TOP + FRAME.1;
        for (at, text) in self.x.marks((x.low, x.high)) {
            let place = x.place(at);
            svg.line((place, bottom), (place, bottom + 5.0), "stroke=\"#555555\"");
            svg.text((place, bottom + 18.0), Anchor::Middle, small, &text);
        }
        svg.rect((LEFT, TOP), FRAME, "fill=\"none\" stroke=\"#555555\"");
        let middle = (LEFT + FRAME.0 / 2.0, bottom + 40.0);
        svg.text(middle, Anchor::Middle, "font-size=\"12\"", &self.x.label);
        let (across, up) = (18.0, TOP + FRAME.1 / 2.0);
        let turned = format!("font-size=\"12\" transform=\"rotate(-90 {across} {up})\"");
        svg.text((across, up), Anchor::Middle, &turned, &self.y.label);
    }
}

impl Behind {
    fn draw(&self, svg: &mut Svg, (x, y): (&Scale, &Scale), clipped: &str, row: &mut f64) {
        let shade = "fill=\"#d55e00\" fill-opacity=\"0.12\"";
        for (from, to) in &self.stretches {
            let from = x.place(*from).clamp(LEFT, LEFT + FRAME.0);
            let to = x.place(*to).clamp(LEFT, LEFT + FRAME.0);
            // At least one pixel wide.
            svg.rect((from, TOP), ((to - from).max(1.0), FRAME.1), shade);
        }
        if !self.stretches.is_empty() {
            patch(svg, row, shade, &self.stretch_name);
        }
        if !self.band.is_empty() {
            let edge = |of: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
                let points = self.band.iter().map(|point| (x.place(point.0), y.place(of(point))));
                seen(&points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect::<Vec<_>>())
            };
            let (upper, lower) = (edge(|point| point.2), edge(|point| point.1));
            let shade = "fill=\"#0072b2\" fill-opacity=\"0.20\"";
            svg.area(upper.into_iter().chain(lower.into_iter().rev()), &format!("{shade}{clipped}"));
            patch(svg, row, shade, &self.band_name);
        }
    }
}

/// A legend entry for an area.
fn patch(svg: &mut Svg, row: &mut f64, style: &str, name: &str) {
    let left = LEFT + FRAME.0 + 14.0;
    svg.rect((left, *row - 6.0), (26.0, 12.0), style);
    svg.text((left + 32.0, *row + 4.0), Anchor::Start, "font-size=\"11\"", name);
    *row += 18.0;
}

fn legend(svg: &mut Svg, row: &mut f64, style: &str, name: &str) {
    if name.is_empty() {
        return;
    }
    let left = LEFT + FRAME.0 + 14.0;
    svg.line((left, *row), (left + 26.0, *row), style);
    svg.text((left + 32.0, *row + 4.0), Anchor::Start, "font-size=\"11\"", name);
    *row += 18.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(series: Vec<Series>) -> LinePlot {
        LinePlot {
            title: "a < b & c".to_owned(),
            description: "nothing".to_owned(),
            x: Axis::new("x"),
            y: Axis::new("y"),
            series,
            limits: vec![(0.1, "ε = 0.1".to_owned())],
            behind: Behind::default(),
        }
    }

    #[test]
    fn whatever_the_numbers_are_a_figure_comes_of_it() {
        for points in [
            vec![],
            vec![(0.0, 0.0)],
            vec![(0.0, f64::NAN), (1.0, f64::INFINITY), (2.0, 1.0), (3.0, 2.0)],
            vec![(-1e300, 1e300), (1e300, -1e300)],
        ] {
            let svg = plot(vec![Series::new("s", points)]).svg();
            assert!(svg.contains("<title>a &lt; b &amp; c</title>"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        }
    }

    #[test]
    fn many_lines_can_be_told_apart() {
        let mut styles: Vec<_> = (0..40).map(style).collect();
        styles.sort_unstable();
        styles.dedup();
        assert_eq!(styles.len(), 40);
    }

    #[test]
    fn a_band_has_the_colour_of_its_line() {
        let middle = Series::new("median", vec![(0.0, 1.0), (1.0, 2.0)]);
        let edge = Series::new("", vec![(0.0, 0.5), (1.0, 1.0)]).beside(0);
        let svg = plot(vec![middle, edge]).svg();
        // Two lines share one legend entry.
        assert_eq!(svg.matches("stroke=\"#0072b2\"").count(), 3, "{svg}");
    }
}
