//! Errors of expressions: why an evaluation has no result.

use std::fmt;

use crate::compiled::ir::layout::whole_range;

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Overflow,
    DividedByZero,
    NotANumber,
    /// The result does not fit an integer type of so many bits.
    OutOfRange {
        signed: bool,
        bits: u8,
    },
    Negative,
    TooLargeForInt,
    NegativeExponent,
    ShiftTooFar,
    DecimalOverflow,
    NoInstance,
    NoValue,
    /// A value has another type than its plan says. The type checker of the frontend rules that out.
    Internal,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Overflow => {
                "a whole number overflows: it is too large, or an unsigned one would be negative"
            }
            Fault::DividedByZero => "a whole number is divided by zero",
            Fault::NotANumber => "the result is not a number, such as 0.0 / 0.0 or the root of -1.0",
            Fault::OutOfRange { signed, bits } => {
                let (low, high) = whole_range(*signed, *bits);
                return write!(f, "the result is not between {low} and {high}, the range of its type");
            }
            Fault::Negative => "a negative number cannot become an unsigned one",
            Fault::TooLargeForInt => "the number is too large for a whole number of 64 bits",
            Fault::NegativeExponent => "a whole number cannot be raised to a negative power",
            Fault::ShiftTooFar => "a whole number cannot be shifted by 64 bits or more",
            Fault::DecimalOverflow => "a fixed-point number overflows",
            Fault::NoInstance => "it reads an instance that does not exist; `hold(or: …)` allows for that",
            Fault::Internal => "the engine took one type for another; please report this",
            Fault::NoValue => "it reads a stream that has no value yet; `hold(or: …)` allows for that",
        })
    }
}
