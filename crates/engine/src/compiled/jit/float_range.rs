//! Bounds of floats, to eliminate checks for NaN.

/// An interval of finite floats, both ends included and so small that arithmetic with them cannot overflow. A result
/// whose range is known is not NaN.
///
/// Rounding is monotonic: it moves the ends of an interval as it moves what lies between them, so the rounded result
/// lies within the rounded interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FloatRange {
    low: f64,
    high: f64,
}

impl FloatRange {
    /// The largest absolute value of an end.
    const LARGEST: f64 = 1e100;

    /// `None` if an end is too large, or NaN.
    fn new(low: f64, high: f64) -> Option<FloatRange> {
        (-FloatRange::LARGEST <= low && low <= high && high <= FloatRange::LARGEST)
            .then_some(FloatRange { low, high })
    }

    /// The range of a constant.
    pub(super) fn of(number: f64) -> Option<FloatRange> {
        FloatRange::new(number, number)
    }

    /// The range of a converted unsigned integer.
    pub(super) fn of_uint() -> FloatRange {
        FloatRange { low: 0.0, high: u64::MAX as f64 }
    }

    /// The range of a converted signed integer.
    pub(super) fn of_int() -> FloatRange {
        FloatRange { low: i64::MIN as f64, high: i64::MAX as f64 }
    }

    pub(super) fn add(self, other: FloatRange) -> Option<FloatRange> {
        FloatRange::new(self.low + other.low, self.high + other.high)
    }

    pub(super) fn sub(self, other: FloatRange) -> Option<FloatRange> {
        FloatRange::new(self.low - other.high, self.high - other.low)
    }

    pub(super) fn mul(self, other: FloatRange) -> Option<FloatRange> {
        self.by(other, |a, b| a * b)
    }

    /// `None` if the divisor may be 0.
    pub(super) fn div(self, other: FloatRange) -> Option<FloatRange> {
        let has_zero = other.low <= 0.0 && other.high >= 0.0;
        if has_zero { None } else { self.by(other, |a, b| a / b) }
    }

    /// The range of a function that is monotonic in each argument: its extremes are at the corners.
    fn by(self, other: FloatRange, compute: impl Fn(f64, f64) -> f64) -> Option<FloatRange> {
        let [a, b] = [self.low, self.high].map(|border| compute(border, other.low));
        let [c, d] = [self.low, self.high].map(|border| compute(border, other.high));
        FloatRange::new(a.min(b).min(c).min(d), a.max(b).max(c).max(d))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn results_lie_within(borders in prop::array::uniform4(-1e60..1e60_f64), at in prop::array::uniform2(0.0..=1.0_f64)) {
            let [a, b, c, d] = borders;
            let (one, other) = (FloatRange::new(a.min(b), a.max(b)).unwrap(), FloatRange::new(c.min(d), c.max(d)).unwrap());
            let within = |range: FloatRange, at: f64| (range.low + at * (range.high - range.low)).clamp(range.low, range.high);
            let (x, y) = (within(one, at[0]), within(other, at[1]));
            let results = [
                (one.add(other), x + y),
                (one.sub(other), x - y),
                (one.mul(other), x * y),
                (one.div(other), x / y),
            ];
            for (range, result) in results {
                if let Some(range) = range {
                    prop_assert!(range.low <= result && result <= range.high, "{range:?} {result}");
                }
            }
        }
    }

    #[test]
    fn what_may_be_no_number_has_no_range() {
        let (small, zero) = (FloatRange::of(1e-300).unwrap(), FloatRange::of(0.0).unwrap());
        assert_eq!(zero.div(zero), None);
        assert_eq!(FloatRange::of_uint().div(FloatRange::of_uint()), None);
        assert_eq!(FloatRange::of_uint().div(small), None);
        assert_eq!(FloatRange::of(f64::NAN), None);
        assert_eq!(FloatRange::of(f64::INFINITY), None);
        let rate = FloatRange::of_uint().add(FloatRange::of(12.0).unwrap()).unwrap();
        assert!(rate.div(FloatRange::of_uint().add(FloatRange::of(24.0).unwrap()).unwrap()).is_some());
    }
}
