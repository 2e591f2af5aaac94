//! Pseudo-random numbers that are the same on every machine: xoshiro256++, seeded by SplitMix64.
//!
//! Only integers are used, and float operations that IEEE 754 defines exactly. Nothing here may change: the same
//! seed must give the same bytes.

/// A generator of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        let mut mixed = seed;
        Random { state: std::array::from_fn(|_| split_mix(&mut mixed)) }
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A uniform integer below `limit`, up to a bias of one part in 2⁶⁴ / `limit`; 0 if the limit is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A uniform number in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// A number with mean 0 and standard deviation 1: the sum of four uniform numbers, which is close to a normal
    /// distribution and needs no function whose result depends on the machine.
    pub(crate) fn deviation(&mut self) -> f64 {
        let sum: f64 = (0..4).map(|_| self.fraction()).sum();
        // A uniform number has a variance of 1/12, four of them of 1/3.
        const ROOT_OF_THREE: f64 = 1.732_050_807_568_877_2;
        (sum - 2.0) * ROOT_OF_THREE
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_algorithms_are_published_with() {
        let mut state = 0;
        let seeds: [u64; 3] = std::array::from_fn(|_| split_mix(&mut state));
        assert_eq!(seeds, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        let mut random = Random { state: [1, 2, 3, 4] };
        let numbers: [u64; 6] = std::array::from_fn(|_| random.next());
        assert_eq!(
            numbers,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162
            ]
        );
    }

    #[test]
    fn distributions_are_what_they_say() {
        let mut random = Random::new(1);
        let count = 100_000;
        let of = |mut draw: Box<dyn FnMut() -> f64>| {
            let numbers: Vec<f64> = (0..count).map(|_| draw()).collect();
            let mean = numbers.iter().sum::<f64>() / f64::from(count);
            let variance =
                numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / f64::from(count);
            (mean, variance)
        };
        let mut other = random.clone();
        let (mean, variance) = of(Box::new(move || random.deviation()));
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let (mean, _) = of(Box::new(move || other.below(7) as f64));
        assert!((mean - 3.0).abs() < 0.02, "{mean}");
        assert_eq!(Random::new(5).below(0), 0);
    }
}
