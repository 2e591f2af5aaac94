//! SVG, a line at a time.

use std::fmt::Write;

/// A figure that is being drawn.
pub(crate) struct Svg {
    text: String,
}

/// Where a text stands, seen from its point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A figure of that size, with its words for those who do not see it.
    pub(crate) fn new(width: f64, height: f64, title: &str, description: &str) -> Svg {
        let (width, height) = (number(width), number(height));
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

    /// One element without content; attributes are written as they are.
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

    /// A frame that others can be told not to leave.
    pub(crate) fn frame(&mut self, id: &str, at: (f64, f64), size: (f64, f64)) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(number);
        let _ = writeln!(
            self.text,
            "<clipPath id=\"{id}\"><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/></clipPath>"
        );
    }

    /// A line through points; it breaks off where one of them is no number.
    pub(crate) fn path(&mut self, points: impl Iterator<Item = (f64, f64)>, style: &str) {
        let mut path = String::new();
        let mut drawing = false;
        for (x, y) in points {
            let known = x.is_finite() && y.is_finite();
            if known {
                let _ = write!(path, "{}{} {}", if drawing { "L" } else { "M" }, number(x), number(y));
            }
            drawing = known;
        }
        self.element("path", &format!("d=\"{path}\" fill=\"none\" {style}"));
    }

    /// What a line around points encloses.
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

    pub(crate) fn finish(self) -> String {
        self.text + "</svg>\n"
    }
}

/// A coordinate, no longer than an eye can tell.
pub(crate) fn number(number: f64) -> String {
    let text = format!("{number:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

pub(crate) fn escaped(text: &str) -> String {
    // Control characters have no place in XML.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
