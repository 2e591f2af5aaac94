//! The functions of conditions, and what to write in place of those that other languages have.

use std::ops::Range;

use fairstream_core::nearest;

use crate::Problem;

/// The functions of conditions, with examples.
const FUNCTIONS: [(&str, &str); 12] = [
    ("abs", "abs(score)"),
    ("min", "min(score, 5)"),
    ("max", "max(score, 5)"),
    ("sqrt", "sqrt(score)"),
    ("sin", "sin(angle)"),
    ("cos", "cos(angle)"),
    ("tan", "tan(angle)"),
    ("arcsin", "arcsin(share)"),
    ("arccos", "arccos(share)"),
    ("arctan", "arctan(share)"),
    ("matches", "name matches \"^A\""),
    ("cast", "cast<Int64, Float64>(score)"),
];

/// Methods of columns, with examples.
const METHODS: [(&str, &str); 5] = [
    ("last", "score.last(or: 0)"),
    ("hold", "score.hold(or: 0)"),
    ("offset", "score.offset(by: -2).defaults(to: 0)"),
    ("defaults", "score.offset(by: -2).defaults(to: 0)"),
    ("is_fresh", "score.is_fresh()"),
];

/// Functions of other languages, and what to do instead.
const OTHER_FUNCTIONS: [(&str, &str); 22] = [
    ("contains", "write `name matches \"A\"`"),
    ("includes", "write `name matches \"A\"`"),
    ("starts_with", "write `name matches \"^A\"`"),
    ("startswith", "write `name matches \"^A\"`"),
    ("ends_with", "write `name matches \"A$\"`"),
    ("endswith", "write `name matches \"A$\"`"),
    ("lower", "`name matches \"(?i)^a$\"` matches small letters and capitals"),
    ("upper", "`name matches \"(?i)^a$\"` matches small letters and capitals"),
    ("len", "`name matches \"^.{3,}$\"` matches three characters or more"),
    ("length", "`name matches \"^.{3,}$\"` matches three characters or more"),
    ("float", "write `cast<Int64, Float64>(score)`"),
    ("int", "write `cast<Float64, Int64>(score)`"),
    ("pow", "write `score ** 2`"),
    ("mod", "write `score % 2`"),
    ("isnull", "write `not score.is_fresh()`"),
    ("is_null", "write `not score.is_fresh()`"),
    ("isna", "write `not score.is_fresh()`"),
    ("exists", "write `score.is_fresh()`"),
    ("coalesce", "write `score.hold(or: 0)`: the latest value, or 0"),
    ("round", "compare with a range: `score >= 4.5 and score < 5.5`"),
    ("floor", "compare with a range: `score >= 4.0 and score < 5.0`"),
    ("not", "write `not` before a condition"),
];

/// The problem of a function that does not exist, or not with these arguments. `signature` is as in `max(_:_:)`.
pub(super) fn unknown(at: Range<usize>, signature: &str) -> Problem {
    let name = signature.split('(').next().unwrap_or(signature);
    let known = || FUNCTIONS.iter().chain(&METHODS);
    if let Some((_, example)) = known().find(|(known, _)| *known == name) {
        let help = match name {
            "min" | "max" => format!("as in `{example}`; of three, `{name}({name}(a, b), c)`"),
            _ => format!("as in `{example}`"),
        };
        return Problem::new(at, format!("`{name}` does not take these arguments")).help(help);
    }
    let lower = name.to_lowercase();
    let help = match OTHER_FUNCTIONS.iter().find(|(other, _)| *other == lower) {
        Some((_, help)) => (*help).to_owned(),
        None => match nearest(name, known().map(|(known, _)| *known)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "there are `abs`, `min`, `max`, and of numbers with decimals `sqrt`, `sin`, `cos`, `tan`, `arcsin`, \
                     `arccos`, `arctan`"
                .to_owned(),
        },
    };
    Problem::new(at, format!("there is no function `{name}`")).help(help)
}
