//! Writes SVG, one element per line.

use std::fmt::Write;

/// A figure under construction.
pub(crate) struct Svg {
    text: String,
}

/// Alignment of a text relative to its point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A figure of that size, with a title and a text alternative.
    pub(crate) fn new(size: (f64, f64), title: &str, description: &str) -> Svg {
        let (width, height) = (number(size.0), number(size.1));
        let (title, description) = (escaped(title), escaped(description));
        Svg {
            text: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
                 height=\"{height}\" role=\"img\" font-family=\"Helvetica, Arial, sans-serif\">\n\
                 <title>{title}</title>\n<desc>{description}</desc>\n\
                 <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
            ),
        }
    }

    /// Writes an element without content; attributes are not escaped.
    pub(crate) fn element(&mut self, name: &str, attributes: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "<{name} {attributes}/>");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.element("line", &format!("x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {style}"));
    }

    pub(crate) fn rect(&mut self, at: (f64, f64), size: (f64, f64), style: &str) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(number);
        self.element("rect", &format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {style}"));
    }

    /// Defines a clipping frame.
    pub(crate) fn frame(&mut self, id: &str, at: (f64, f64), size: (f64, f64)) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(number);
        let _ = writeln!(
            self.text,
            "<clipPath id=\"{id}\"><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/></clipPath>"
        );
    }

    /// A line through points, interrupted where a value is not finite. Only points that are visible are written.
    pub(crate) fn path(&mut self, points: impl Iterator<Item = (f64, f64)>, style: &str) {
        let points: Vec<(f64, f64)> = points.collect();
        let mut path = String::new();
        for line in points.split(|(x, y)| !(x.is_finite() && y.is_finite())) {
            for (index, (x, y)) in seen(line).into_iter().enumerate() {
                let _ = write!(path, "{}{} {}", if index > 0 { "L" } else { "M" }, number(x), number(y));
            }
        }
        self.element("path", &format!("d=\"{path}\" fill=\"none\" {style}"));
    }

    /// The area enclosed by a line through points.
    pub(crate) fn area(&mut self, points: impl Iterator<Item = (f64, f64)>, style: &str) {
        let known = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        let points: Vec<String> = known.map(|(x, y)| format!("{},{}", number(x), number(y))).collect();
        self.element("polygon", &format!("points=\"{}\" {style}", points.join(" ")));
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let [x, y] = [at.0, at.1].map(number);
        let text = escaped(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#222222\" {style}>{text}</text>"
        );
    }

    /// Embeds another figure.
    pub(crate) fn inside(&mut self, svg: &str) {
        self.text += svg;
    }

    pub(crate) fn finish(self) -> String {
        self.text + "</svg>\n"
    }
}

/// The visible points of a line: the first, least, greatest and last point of each pixel column, without
/// intermediate points of the same height.
pub(crate) fn seen(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut push = |point: (f64, f64)| {
        let level = |other: &(f64, f64)| number(other.1) == number(point.1);
        if points.len() > 1 && points[points.len() - 2..].iter().all(level) {
            points.pop();
        }
        points.push(point);
    };
    for column in line.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let places = 0..column.len();
        let by = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let least = places.clone().min_by(by).unwrap_or_default();
        let most = places.max_by(by).unwrap_or_default();
        let mut kept = [0, least.min(most), least.max(most), column.len() - 1].to_vec();
        kept.dedup();
        kept.into_iter().for_each(|place| push(column[place]));
    }
    points
}

/// A coordinate, rounded to a visible precision.
pub(crate) fn number(number: f64) -> String {
    let text = format!("{number:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

pub(crate) fn escaped(text: &str) -> String {
    // Control characters are not allowed in XML.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pixel column keeps its first, last and extreme points, in order, and no point is added.
    #[test]
    fn what_is_left_out_cannot_be_seen() {
        let mut random = 7_u64;
        let mut next = |below: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f64 / (1_u64 << 24) as f64 * below
        };
        for count in [0, 1, 2, 50, 5000] {
            let mut line: Vec<(f64, f64)> = (0..count).map(|_| (next(100.0), next(280.0))).collect();
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
            let kept = seen(&line);
            assert!(kept.len() <= 4 * 100 && kept.is_sorted_by(|a, b| a.0 <= b.0), "{count}");
            assert!(kept.iter().all(|point| line.contains(point)), "{count}");
            for column in line.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
                let extreme =
                    |of: fn(f64, f64) -> f64, from: f64| column.iter().map(|point| point.1).fold(from, of);
                for level in [extreme(f64::min, f64::INFINITY), extreme(f64::max, f64::NEG_INFINITY)] {
                    let is_there = |point: &&(f64, f64)| {
                        point.0.floor() == column[0].0.floor() && number(point.1) == number(level)
                    };
                    assert!(kept.iter().any(|point| is_there(&point)), "{count}: {level}");
                }
            }
        }
        // A level line needs only its ends.
        let level: Vec<(f64, f64)> = (0..1000).map(|at| (f64::from(at) / 10.0, 3.0)).collect();
        assert_eq!(seen(&level), [(0.0, 3.0), (99.9, 3.0)]);
    }
}
