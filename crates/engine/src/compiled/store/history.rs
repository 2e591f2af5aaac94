//! Earlier values of an input, or of a stream without instances.

/// The last few values before the latest one, most recent first.
#[derive(Clone, Default)]
pub(crate) struct ValueHistory {
    words: Vec<u64>,
    count: usize,
}

impl ValueHistory {
    /// Adds a value; at most `depth` are kept.
    pub(crate) fn push(&mut self, value: &[u64], depth: usize) {
        self.words.splice(0..0, value.iter().copied());
        self.words.truncate(depth * value.len());
        self.count = (self.count + 1).min(depth);
    }

    /// A value of `width` words; 0 is the most recent.
    pub(crate) fn get(&self, back: usize, width: usize) -> Option<&[u64]> {
        (back < self.count).then(|| &self.words[back * width..(back + 1) * width])
    }

    /// All values, most recent first.
    pub(crate) fn values(&self, width: usize) -> impl Iterator<Item = &[u64]> {
        (0..self.count).filter_map(move |back| self.get(back, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recent_values_are_kept() {
        let mut history = ValueHistory::default();
        for value in 0..5_u64 {
            history.push(&[value, value * 10], 3);
        }
        assert_eq!(history.get(0, 2), Some(&[4, 40][..]));
        assert_eq!(history.get(2, 2), Some(&[2, 20][..]));
        assert_eq!(history.get(3, 2), None);
        assert_eq!(history.values(2).count(), 3);
    }
}
