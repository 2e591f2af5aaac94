//! Several figures, one below the other, as one SVG.

use crate::LinePlot;
use crate::svg::{Anchor, Svg, number};

/// Several figures with a common title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// The common title.
    pub title: String,
    /// The figures, from top to bottom.
    pub figures: Vec<LinePlot>,
}

/// Height above the first figure.
const HEAD: f64 = 34.0;

impl Sheet {
    /// All figures as one SVG; a single figure is returned as it is, and an empty sheet says that it is empty.
    pub fn svg(&self) -> String {
        if let [only] = self.figures.as_slice() {
            return only.svg();
        }
        let (width, height) = LinePlot::SIZE;
        let description = match self.figures.len() {
            0 => "Nothing to draw: no group has estimates of two moments.".to_owned(),
            many => format!("{many} figures, one below the other."),
        };
        let rows = self.figures.len().max(1) as f64;
        let mut svg = Svg::new((width, HEAD + rows * height), &self.title, &description);
        svg.text((16.0, 22.0), Anchor::Start, "font-size=\"16\" font-weight=\"bold\"", &self.title);
        if self.figures.is_empty() {
            svg.text((16.0, HEAD + 24.0), Anchor::Start, "font-size=\"13\"", &description);
        }
        for (row, figure) in self.figures.iter().enumerate() {
            let top = number(HEAD + row as f64 * height);
            svg.inside(&figure.svg_named(&format!("frame{row}")).replacen(
                "<svg ",
                &format!("<svg y=\"{top}\" "),
                1,
            ));
        }
        svg.finish()
    }
}
