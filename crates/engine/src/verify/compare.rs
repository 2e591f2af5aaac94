//! Finds the first difference between two lists of verdicts. Numbers with a fraction, also within texts, are compared to
//! nine digits, because engines may add in different orders.

use fairstream_core::{Kind, Value, Verdict, VerdictBatch};

/// Describes the first verdict that only one of two engines emitted, or that they emitted differently. Each engine is
/// given by its name and its verdicts, in order.
pub fn first_difference(first: (&str, &[VerdictBatch]), second: (&str, &[VerdictBatch])) -> Option<String> {
    let mut firsts = first.1.iter().flat_map(VerdictBatch::iter);
    let mut seconds = second.1.iter().flat_map(VerdictBatch::iter);
    loop {
        let (one, two) = (firsts.next(), seconds.next());
        let (one, two) = match (one, two) {
            (None, None) => return None,
            (Some(one), Some(two)) if same(&one, &two) => continue,
            other => other,
        };
        let place = |verdict: &Verdict<'_>| {
            let instance = verdict.instance.map(|text| format!(", instance {text}")).unwrap_or_default();
            format!("at {} in `{}`{instance}", verdict.time.for_people(), verdict.stream)
        };
        let same_place = match (&one, &two) {
            (Some(one), Some(two)) => place(one) == place(two),
            _ => false,
        };
        let says = |name: &str, verdict: Option<Verdict<'_>>| match verdict {
            Some(verdict) if same_place => format!("{name} says {}", what(&verdict)),
            Some(verdict) => format!("{name} says {} {}", what(&verdict), place(&verdict)),
            None => format!("{name} says nothing more"),
        };
        let at = one.filter(|_| same_place).map(|verdict| place(&verdict) + ", ").unwrap_or_default();
        return Some(format!("{at}{}, {}", says(first.0, one), says(second.0, two)));
    }
}

/// The content of a verdict.
fn what(verdict: &Verdict<'_>) -> String {
    match (verdict.kind, verdict.value) {
        (Kind::Trigger, _) => format!("{:?}", verdict.message.unwrap_or_default()),
        (Kind::Value, Some(Value::Text(text))) => format!("{text:?}"),
        (Kind::Value, Some(value)) => value.to_string(),
        (kind, _) => kind.name().to_owned(),
    }
}

fn same(one: &Verdict<'_>, two: &Verdict<'_>) -> bool {
    let texts = |one: Option<&str>, two: Option<&str>| match (one, two) {
        (Some(one), Some(two)) => same_text(one, two),
        (one, two) => one == two,
    };
    (one.time, one.kind, one.stream) == (two.time, two.kind, two.stream)
        && texts(one.instance, two.instance)
        && texts(one.message, two.message)
        && match (one.value, two.value) {
            (Some(Value::Float(one)), Some(Value::Float(two))) => same_number(one, two),
            (Some(Value::Text(one)), Some(Value::Text(two)))
            | (Some(Value::Json(one)), Some(Value::Json(two))) => same_text(one, two),
            (one, two) => one == two,
        }
}

fn same_number(one: f64, two: f64) -> bool {
    // The size is at least 1, so that the rounding error of a sum that should be zero is no difference.
    let size = one.abs().max(two.abs()).max(1.0);
    one == two || size.is_finite() && (one - two).abs() <= 1e-9 * size
}

/// Whether two texts are equal up to the last digits of the numbers in them.
fn same_text(one: &str, two: &str) -> bool {
    if one == two {
        return true;
    }
    let (mut ones, mut twos) = (pieces(one), pieces(two));
    loop {
        match (ones.next(), twos.next()) {
            (None, None) => return true,
            (Some(one), Some(two)) if one == two => {}
            (Some(one), Some(two)) => match (one.parse::<f64>(), two.parse::<f64>()) {
                // Integers are compared digit by digit, except that -0 equals 0.
                (Ok(a), Ok(b)) if (a == 0.0 && b == 0.0) || one.contains('.') || two.contains('.') => {
                    if !same_number(a, b) {
                        return false;
                    }
                }
                _ => return false,
            },
            _ => return false,
        }
    }
}

/// Splits a text into numbers and the pieces between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let mut rest = text;
    std::iter::from_fn(move || {
        let number = is_number(rest.chars().next()?);
        let mut end = rest.find(|c| is_number(c) != number).unwrap_or(rest.len());
        if number {
            end += exponent(&rest[end..]);
        }
        let piece;
        (piece, rest) = rest.split_at(end);
        Some(piece)
    })
}

/// The length of an exponent such as `e-17` at the start of a text; 0 if there is none.
fn exponent(text: &str) -> usize {
    let Some(digits) = text.strip_prefix(['e', 'E']) else { return 0 };
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == digits.len() { 0 } else { text.len() - rest.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_up_to_the_last_digits_of_fractions() {
        for (one, two, same) in [
            ("gap 0.30000000000000004 in A", "gap 0.3 in A", true),
            ("gap 0.31 in A", "gap 0.3 in A", false),
            ("gap 0.3 in A", "gap 0.3 in B", false),
            ("[1,-0]", "[1,0]", true),
            ("[1,0.5]", "[1,0.5,2]", false),
            ("10000000000000001", "10000000000000002", false),
            ("1", "1.0000000000001", true),
            ("[3.9e-17,1]", "[0.0,1]", true),
            ("2.5e3 each", "2.5e4 each", false),
            ("1.5east", "1.5east", true),
            ("a-b", "a.b", false),
            ("1", "one", false),
        ] {
            assert_eq!(same_text(one, two), same, "{one} and {two}");
            assert_eq!(same_text(two, one), same, "{two} and {one}");
        }
    }

    #[test]
    fn numbers_are_the_same_to_nine_digits() {
        assert!(same_number(f64::INFINITY, f64::INFINITY));
        assert!(!same_number(f64::INFINITY, f64::NEG_INFINITY) && !same_number(f64::INFINITY, 1e300));
        assert!(same_number(1e20, 1e20 + 1e9) && !same_number(1.0, 1.000_001));
        assert!(same_number(1e-17, 0.0));
    }
}
