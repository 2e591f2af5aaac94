//! The smallest or the largest of values that change.

use serde::{Deserialize, Serialize};

use super::layout::Leaf;

/// The smallest or the largest of values at places, as a tree of winners: a change costs the
/// logarithm of the number of places.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Extreme {
    largest: bool,
    leaf: Leaf,
    /// The winner of all at 1, those of its halves at 2 and 3, ..., the values in the second half.
    tree: Vec<u64>,
}

impl Extreme {
    pub(super) fn new(largest: bool, leaf: Leaf) -> Extreme {
        Extreme { largest, leaf, tree: Vec::new() }
    }

    /// What never wins.
    fn nobody(&self) -> u64 {
        if self.largest { 0 } else { u64::MAX }
    }

    fn winner(&self, a: u64, b: u64) -> u64 {
        if self.largest { a.max(b) } else { a.min(b) }
    }

    /// Whether there is another winner now.
    #[inline]
    pub(super) fn set(&mut self, place: u32, value: Option<u64>) -> bool {
        let (place, value) = (place as usize, value.map(|value| ordered(value, self.leaf)));
        if self.tree.len() / 2 <= place {
            self.grow(place + 1);
        }
        let value = value.unwrap_or(self.nobody());
        let tree = self.tree.as_mut_slice();
        let mut at = tree.len() / 2 + place;
        let mut winner = value;
        tree[at] = value;
        while at > 1 {
            let rival = tree[at ^ 1];
            winner = if self.largest { winner.max(rival) } else { winner.min(rival) };
            at /= 2;
            if tree[at] == winner {
                return false;
            }
            tree[at] = winner;
        }
        true
    }

    fn grow(&mut self, places: usize) {
        let places = places.next_power_of_two().max(2);
        let mut tree = vec![self.nobody(); 2 * places];
        let old = self.tree.len() / 2;
        tree[places..places + old].copy_from_slice(&self.tree[old..]);
        for at in (1..places).rev() {
            tree[at] = self.winner(tree[2 * at], tree[2 * at + 1]);
        }
        self.tree = tree;
    }

    /// The word of the winner, if there is one.
    #[inline]
    pub(super) fn word(&self) -> Option<u64> {
        self.tree.get(1).map(|winner| restored(*winner, self.leaf))
    }
}

/// A word whose order as an unsigned number is the order of the value.
#[inline]
fn ordered(word: u64, leaf: Leaf) -> u64 {
    const SIGN: u64 = 1 << 63;
    match leaf {
        Leaf::Int => word ^ SIGN,
        Leaf::Float if word & SIGN != 0 => !word,
        Leaf::Float => word | SIGN,
        _ => word,
    }
}

#[inline]
fn restored(word: u64, leaf: Leaf) -> u64 {
    const SIGN: u64 = 1 << 63;
    match leaf {
        Leaf::Int => word ^ SIGN,
        Leaf::Float if word & SIGN != 0 => word & !SIGN,
        Leaf::Float => !word,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_words_is_order_of_values() {
        let floats = [f64::NEG_INFINITY, -2.0, -0.5, 0.0, 1e-300, 3.0, f64::INFINITY];
        assert!(
            floats
                .windows(2)
                .all(|two| ordered(two[0].to_bits(), Leaf::Float) < ordered(two[1].to_bits(), Leaf::Float))
        );
        assert!(
            floats.iter().all(|x| restored(ordered(x.to_bits(), Leaf::Float), Leaf::Float) == x.to_bits())
        );
        let ints = [i64::MIN, -1, 0, 7, i64::MAX];
        assert!(
            ints.windows(2).all(|two| ordered(two[0] as u64, Leaf::Int) < ordered(two[1] as u64, Leaf::Int))
        );
    }
}
