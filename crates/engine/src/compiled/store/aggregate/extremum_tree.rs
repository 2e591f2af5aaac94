//! The smallest or the largest of values that change: a tournament tree.

use crate::compiled::ir::aggregate::RankOrder;
use crate::compiled::ir::layout::Leaf;

/// A tournament tree over the ranks of values at positions. A change costs the logarithm of the number of positions.
#[derive(Clone)]
pub(crate) struct ExtremumTree {
    order: RankOrder,
    /// A complete binary tree of ranks in heap order: the root, which is the highest rank of all, is at 1, and the
    /// children of `i` are at `2i` and `2i + 1`. The leaves, one for each position, are the second half.
    tree: Vec<u64>,
}

impl ExtremumTree {
    pub(crate) fn new(order: RankOrder) -> ExtremumTree {
        ExtremumTree { order, tree: Vec::new() }
    }

    /// Sets the value at a position; whether the extremum has changed.
    #[inline]
    pub(crate) fn set(&mut self, position: u32, value: Option<u64>) -> bool {
        let position = position as usize;
        if self.tree.len() / 2 <= position {
            self.grow(position + 1);
        }
        let mut best = value.map_or(NO_RANK, |value| self.order.rank(value));
        let tree = self.tree.as_mut_slice();
        let mut at = tree.len() / 2 + position;
        tree[at] = best;
        while at > 1 {
            best = best.max(tree[at ^ 1]);
            at /= 2;
            if std::mem::replace(&mut tree[at], best) == best {
                return false;
            }
        }
        true
    }

    /// Makes room for positions: rebuilds the tree with a power of two of leaves.
    fn grow(&mut self, positions: usize) {
        let positions = positions.next_power_of_two().max(2);
        let mut tree = vec![NO_RANK; 2 * positions];
        let old = self.tree.len() / 2;
        tree[positions..positions + old].copy_from_slice(&self.tree[old..]);
        for at in (1..positions).rev() {
            tree[at] = tree[2 * at].max(tree[2 * at + 1]);
        }
        self.tree = tree;
    }

    /// The word of the extremum; `None` if the tree is empty.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        self.tree.get(1).map(|best| self.order.word(*best))
    }
}

/// The rank of an absent value: no value ranks lower.
pub(crate) const NO_RANK: u64 = 0;

impl RankOrder {
    /// The rank of a value: the extremum has the highest.
    #[inline(always)]
    pub(crate) fn rank(self, value: u64) -> u64 {
        ordered(value, self.leaf) ^ self.flip()
    }

    /// The value of a rank.
    #[inline(always)]
    pub(crate) fn word(self, rank: u64) -> u64 {
        restored(rank ^ self.flip(), self.leaf)
    }

    #[inline(always)]
    fn flip(self) -> u64 {
        if self.largest { 0 } else { u64::MAX }
    }
}

/// Maps the word of a value to one whose order as an unsigned number is the order of the values.
#[inline(always)]
fn ordered(word: u64, leaf: Leaf) -> u64 {
    const SIGN: u64 = 1 << 63;
    match leaf {
        Leaf::Int => word ^ SIGN,
        Leaf::Float if word & SIGN != 0 => !word,
        Leaf::Float => word | SIGN,
        _ => word,
    }
}

/// The inverse of [`ordered`].
#[inline(always)]
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
