//! Parses values of a parameter: `24`, `10..100`, `10..100:5`, or several of those separated by commas.

use std::str::FromStr;

/// The values of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParameterValues(pub(crate) Vec<f64>);

/// Maximum number of values.
const MOST: f64 = 10_000.0;

impl FromStr for ParameterValues {
    type Err = String;

    fn from_str(text: &str) -> Result<ParameterValues, String> {
        let parts: Result<Vec<Vec<f64>>, String> = text.split(',').map(part).collect();
        Ok(ParameterValues(parts?.concat()))
    }
}

fn part(text: &str) -> Result<Vec<f64>, String> {
    let number = |text: &str| -> Result<f64, String> {
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| format!("`{text}` is not a number from 0 on"))
    };
    let Some((from, rest)) = text.split_once("..") else { return Ok(vec![number(text)?]) };
    let (to, step) = match rest.split_once(':') {
        Some((to, step)) => (number(to)?, Some(number(step)?)),
        None => (number(rest)?, None),
    };
    let from = number(from)?;
    if from > to {
        return Err(format!("{from} is more than {to}"));
    }
    let step = step.unwrap_or_else(|| round_step(to - from));
    if from == to {
        return Ok(vec![from]);
    }
    if step == 0.0 {
        return Err("the step behind `:` has to be more than 0".to_owned());
    }
    // The margin includes an end that is met up to rounding.
    let steps = ((to - from) / step + 1e-9).floor();
    if steps >= MOST {
        return Err(format!("that is more than {MOST} values; set a longer step, as in `{from}..{to}:10`"));
    }
    // Rounds to nine decimals, which removes rounding errors of the sum.
    let written = |index: u32| format!("{:.9}", from + f64::from(index) * step).parse().unwrap_or(from);
    Ok((0..=steps as u32).map(written).collect())
}

/// Default step: a round number with at most ten steps; if possible, one that meets the end.
fn round_step(span: f64) -> f64 {
    let least = span / 10.0;
    let decade = 10_f64.powf(least.log10().floor());
    let steps = || [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * decade).into_iter();
    let mut long_enough = steps().filter(|step| *step >= least * (1.0 - 1e-9));
    let meets_end = |step: &f64| ((span / step).round() - span / step).abs() < 1e-6;
    long_enough.clone().find(meets_end).or_else(|| long_enough.next()).unwrap_or(span)
}

/// Seeds, `1..2000` or `7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number =
            |text: &str| text.trim().parse().map_err(|_| format!("`{text}` is not a whole number from 0 on"));
        let seeds = Seeds { first: number(first)?, last: number(last)? };
        if seeds.first > seeds.last {
            return Err(format!("{} is more than {}", seeds.first, seeds.last));
        }
        Ok(seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_what_one_would_write() {
        for (text, expected) in [
            ("24", vec![24.0]),
            ("30,80", vec![30.0, 80.0]),
            ("10..40:10", vec![10.0, 20.0, 30.0, 40.0]),
            ("10..100", (1..=10).map(|ten| f64::from(ten) * 10.0).collect()),
            ("0.05..0.2", vec![0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2]),
            ("0.07..0.1:0.005", vec![0.07, 0.075, 0.08, 0.085, 0.09, 0.095, 0.1]),
            ("0..1:0.4", vec![0.0, 0.4, 0.8]),
            ("0.1..0.1", vec![0.1]),
            ("1,10..20:5", vec![1.0, 10.0, 15.0, 20.0]),
        ] {
            assert_eq!(text.parse(), Ok(ParameterValues(expected)), "{text}");
        }
        for text in ["", "a", "1..", "2..1", "1..2:0", "-1", "1..inf", "0..1:0.00001", "NaN"] {
            assert!(text.parse::<ParameterValues>().is_err(), "{text}");
        }
        assert_eq!("1..2000".parse(), Ok(Seeds { first: 1, last: 2000 }));
        assert_eq!("7".parse(), Ok(Seeds { first: 7, last: 7 }));
        assert!("9..3".parse::<Seeds>().is_err() && "x".parse::<Seeds>().is_err());
    }
}
