//! The guarantee, held against brute force, exact expectations and simulated systems.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod contribution;
mod evidence;
mod fair_set;
mod family;
mod intervals;
mod reference;
mod simulation;

use fairstream_guarantee::FairSet;
use proptest::prelude::*;

/// Every kind of fair set, the strictest and the loosest included.
fn fair_set() -> impl Strategy<Value = FairSet> {
    let tolerance = prop_oneof![Just(0.0), Just(1.0), 0.0..0.5];
    prop_oneof![
        tolerance.clone().prop_map(FairSet::Difference),
        prop_oneof![Just(0.0), Just(1.0), 0.3..1.0].prop_map(FairSet::Ratio),
        tolerance.prop_map(FairSet::Highest),
    ]
}

/// Numbers that look random: SplitMix64.
struct Random(u64);

impl Random {
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }
}

/// The probability of so many positive trials.
fn binomial(trials: u64, positives: u64, rate: f64) -> f64 {
    let ways = (0..positives).fold(1.0, |ways, step| ways * (trials - step) as f64 / (step + 1) as f64);
    ways * rate.powi(positives as i32) * (1.0 - rate).powi((trials - positives) as i32)
}
