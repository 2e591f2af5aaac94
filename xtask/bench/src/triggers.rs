//! The triggers that fired, as two numbers that are equal for two systems only if their verdicts are.

use fairstream_core::Time;

const MIX: u64 = 0x517c_c1b7_2722_0a95;

/// Number of triggers that fired, and a checksum over the time, the trigger, the instance and the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    pub count: u64,
    pub checksum: u64,
}

impl Triggers {
    /// Records that trigger number `trigger` fired. `instance` is the [`instance_hash`] of the instance, 0 without
    /// one.
    pub fn fired(&mut self, time: Time, trigger: u64, instance: u64) {
        self.count += 1;
        for word in [time.0 as u64, trigger, instance] {
            self.checksum = mix(self.checksum, word);
        }
    }
}

/// Hash of an instance, from its parameters as a JSON array.
pub fn instance_hash(parameters: &str) -> u64 {
    parameters.bytes().fold(1, |hash, byte| mix(hash, u64::from(byte)))
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(MIX)
}
