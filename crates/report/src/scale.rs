//! Maps numbers to coordinates, and chooses the ticks of an axis.

/// An axis: maps numbers from `low` to `high` to the coordinates between two points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Scale {
    pub(crate) fn place(&self, number: f64) -> f64 {
        self.from + (number - self.low) / (self.high - self.low) * (self.to - self.from)
    }
}

/// About `about` round numbers in a range.
pub(crate) fn ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let rough = (high - low) / about.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![low];
    }
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|step| step * decade).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * decade);
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).clamp(0.0, 100.0) as usize;
    (0..=count).map(|index| (first + index as f64) * step).collect()
}

/// The label of a tick.
pub(crate) fn label(number: f64) -> String {
    let text = format!("{number:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn ticks_are_round() {
        let labels = |low, high| ticks(low, high, 5).into_iter().map(label).collect::<Vec<_>>().join(" ");
        assert_eq!(labels(0.0, 1.0), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(labels(-0.05, 0.31), "0 0.1 0.2 0.3");
        assert_eq!(labels(10.0, 743.0), "200 400 600");
        assert_eq!(labels(3.0, 3.0), "3");
        assert_eq!(labels(f64::NAN, 3.0), "NaN");
    }
}
