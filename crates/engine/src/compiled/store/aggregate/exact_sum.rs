//! Exact sums of floats: a superaccumulator, whose only error is the last rounding, whatever is added and removed again.
//!
//! Every finite float is a multiple of the smallest positive one, 2⁻¹⁰⁷⁴. The sum is stored as that multiple, an integer
//! in limbs of 32 bits, so it depends neither on the order nor on the number of operations.

/// Limbs of a sum: enough for 2³⁰ times the largest float, which takes 2098 bits and 30 more.
const LIMBS: usize = 67;
/// The weight of the lowest bit is 2^-LOWEST.
const LOWEST: i32 = 1074;
/// How many additions of 32 bits a limb of 64 bits takes before carries must be propagated.
const CARRY_AFTER: u32 = 1 << 30;

/// An exact sum.
#[derive(Clone, Debug)]
pub(crate) struct ExactSum {
    /// The lowest limb first. Between carries a limb may exceed 32 bits, or be negative.
    limbs: Vec<i64>,
    /// Additions since carries were propagated last.
    additions: u32,
    /// How many infinities are in the sum: positive ones, then negative ones.
    infinite: [u64; 2],
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { limbs: vec![0; LIMBS], additions: 0, infinite: [0; 2] }
    }
}

impl ExactSum {
    pub(crate) fn add(&mut self, value: f64) {
        self.change(value, 1);
    }

    pub(crate) fn remove(&mut self, value: f64) {
        self.change(value, -1);
    }

    /// The sum, rounded once. `NaN` if infinities of both signs are in it.
    pub(crate) fn value(&self) -> f64 {
        match self.infinite {
            [0, 0] => round(&self.limbs),
            [_, 0] => f64::INFINITY,
            [0, _] => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }

    /// The sum as two floats: the rounded sum, and its rounding error.
    pub(crate) fn pair(&self) -> (f64, f64) {
        let high = self.value();
        if !high.is_finite() {
            return (high, 0.0);
        }
        let mut rest = self.clone();
        rest.remove(high);
        (high, rest.value())
    }

    /// Adds a value times `sign`, which is 1 or -1.
    fn change(&mut self, value: f64, sign: i64) {
        if value.is_infinite() {
            let count = &mut self.infinite[usize::from(value < 0.0)];
            *count = count.wrapping_add_signed(sign);
            return;
        }
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as u32;
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have no hidden bit, and the exponent of the smallest normal one.
        let (mantissa, shift) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let sign = if value.is_sign_negative() { -sign } else { sign };
        let wide = u128::from(mantissa) << (shift % 32);
        let first = (shift / 32) as usize;
        for (limb, part) in self.limbs[first..first + 3].iter_mut().zip([wide, wide >> 32, wide >> 64]) {
            *limb += sign * i64::from(part as u32);
        }
        self.additions += 1;
        if self.additions == CARRY_AFTER {
            carry(&mut self.limbs);
            self.additions = 0;
        }
    }
}

/// Propagates carries: brings every limb but the last to 0..2³², so that the sign of the sum is that of the last limb.
fn carry(limbs: &mut [i64]) {
    for index in 1..limbs.len() {
        let carry = limbs[index - 1] >> 32;
        limbs[index - 1] &= 0xffff_ffff;
        limbs[index] += carry;
    }
}

/// The float nearest to a multiple of 2^-LOWEST.
fn round(limbs: &[i64]) -> f64 {
    let mut magnitude = [0; LIMBS];
    magnitude.copy_from_slice(limbs);
    carry(&mut magnitude);
    let negative = magnitude[LIMBS - 1] < 0;
    if negative {
        magnitude.iter_mut().for_each(|limb| *limb = -*limb);
        carry(&mut magnitude);
    }
    let Some(top) = magnitude.iter().rposition(|limb| *limb != 0) else { return 0.0 };
    // The highest three limbs hold at least 65 bits; the limbs below them only break ties, so one sticky bit stands for
    // them.
    let lowest = top.saturating_sub(2);
    let mut high: u128 = 0;
    for limb in magnitude[lowest..=top].iter().rev() {
        high = high << 32 | u128::from(limb.cast_unsigned());
    }
    if magnitude[..lowest].iter().any(|limb| *limb != 0) {
        high |= 1;
    }
    let exponent = 32 * i32::try_from(lowest).unwrap_or_default() - LOWEST;
    let value = scale(high as f64, exponent);
    if negative { -value } else { value }
}

/// `value` times two to the `exponent`; exact, because the result is a multiple of 2^-LOWEST. It is multiplied in steps,
/// because a power of two beyond 2^±1022 is not a normal float.
fn scale(value: f64, exponent: i32) -> f64 {
    const STEP: i32 = 500;
    let (mut value, mut exponent) = (value, exponent);
    while exponent.abs() > STEP {
        value *= power_of_two(STEP * exponent.signum());
        exponent -= STEP * exponent.signum();
    }
    value * power_of_two(exponent)
}

/// Two to an exponent between -1022 and 1023, exactly: the precision of `powi` is not specified.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).cast_unsigned() as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    #[test]
    fn one_value_comes_back_as_it_was() {
        for value in [0.0, 1.0, -1.5, 0.1, 1e300, -1e-300, f64::MAX, f64::MIN_POSITIVE, 5e-324, -5e-324] {
            assert_eq!(sum(&[value]), value);
        }
    }

    #[test]
    fn what_was_added_and_removed_leaves_no_trace() {
        let mut total = ExactSum::default();
        total.add(0.1);
        // Computed once: `powi` need not give the same result twice.
        let values: Vec<f64> = (-300..300).map(|exponent| 10f64.powi(exponent)).collect();
        for value in &values {
            total.add(1.1 * value);
            total.add(-3.3 * value);
        }
        for value in &values {
            total.remove(-3.3 * value);
            total.remove(1.1 * value);
        }
        assert_eq!(total.value(), 0.1);
        total.add(f64::INFINITY);
        assert_eq!(total.value(), f64::INFINITY);
        total.add(f64::NEG_INFINITY);
        assert!(total.value().is_nan());
        total.remove(f64::INFINITY);
        total.remove(f64::NEG_INFINITY);
        assert_eq!(total.value(), 0.1);
    }

    #[test]
    fn it_rounds_once_to_the_nearest_even() {
        assert_eq!(sum(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum(&[9007199254740992.0, 1.0]), 9007199254740992.0);
        assert_eq!(sum(&[9007199254740992.0, 1.0, 5e-324]), 9007199254740994.0);
        assert_eq!(sum(&[9007199254740994.0, 1.0]), 9007199254740996.0);
        assert_eq!(sum(&[-9007199254740992.0, -1.0, -5e-324]), -9007199254740994.0);
    }

    #[test]
    fn the_pair_holds_what_one_float_cannot() {
        let mut total = ExactSum::default();
        total.add(1e16);
        total.add(1.0);
        total.add(0.25);
        assert_eq!(total.pair(), (1e16 + 2.0, -0.75));
    }
}
