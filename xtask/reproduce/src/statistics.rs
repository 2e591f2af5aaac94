//! Statistics of simulated runs.

/// The Clopper-Pearson interval with a confidence of 95 % for a probability, from the number of successes.
pub(crate) fn interval(successes: usize, trials: usize) -> (f64, f64) {
    // The probability of at least `from` successes.
    let at_least = |from: usize, probability: f64| -> f64 {
        let odds = (probability / (1.0 - probability)).ln();
        let mut log = trials as f64 * (1.0 - probability).ln();
        let mut sum = 0.0;
        for count in 0..=trials {
            sum += if count >= from { log.exp() } else { 0.0 };
            log += ((trials - count) as f64 / (count + 1) as f64).ln() + odds;
        }
        sum
    };
    // The probability at which that of at least `from` successes has risen to `level`.
    let rises_to = |from: usize, level: f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if at_least(from, middle) < level { low = middle } else { high = middle }
        }
        low
    };
    let low = if successes == 0 { 0.0 } else { rises_to(successes, 0.025) };
    let high = if successes == trials { 1.0 } else { rises_to(successes + 1, 0.975) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_tables() {
        for ((successes, trials), (low, high)) in [
            ((0, 1000), (0.0, 0.00368)),
            ((5, 10), (0.187, 0.813)),
            ((50, 1000), (0.0373, 0.0654)),
            ((7, 7), (0.590, 1.0)),
        ] {
            let found = interval(successes, trials);
            assert!((found.0 - low).abs() < 5e-4 && (found.1 - high).abs() < 5e-4, "{found:?}");
        }
    }
}
