//! Aggregate functions over instances, and how each is stored in the words of a group.

use super::layout::Leaf;

/// An aggregate function that is maintained incrementally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    /// Whether all values are true.
    All,
    /// Whether any value is true.
    Any,
    Min(Leaf),
    Max(Leaf),
    Sum(Leaf),
    Average(Leaf),
    Variance,
    Deviation,
    Covariance,
}

/// How an aggregate is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Storage {
    /// It is the member count of the group, which every group has.
    MemberCount,
    /// One word: how many values are true.
    TrueCount,
    /// Two words, the low one first: the sum of integers.
    IntegerSum { is_signed: bool },
    /// The word of the extremum; a size class; and the ranks of up to eight members. The ranks of more members are in
    /// an extremum tree outside the words.
    Extremum(RankOrder),
    /// No words: an accumulator outside them.
    OutOfLine,
}

/// Which of several values is the extremum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankOrder {
    /// Whether the extremum is the largest value; else it is the smallest.
    pub(crate) largest: bool,
    pub(crate) leaf: Leaf,
}

impl Aggregate {
    pub(crate) fn storage(self) -> Storage {
        match self {
            Aggregate::Count => Storage::MemberCount,
            Aggregate::All | Aggregate::Any => Storage::TrueCount,
            Aggregate::Min(leaf) => Storage::Extremum(RankOrder { largest: false, leaf }),
            Aggregate::Max(leaf) => Storage::Extremum(RankOrder { largest: true, leaf }),
            Aggregate::Sum(leaf) | Aggregate::Average(leaf) => match leaf {
                Leaf::Float | Leaf::Decimal => Storage::OutOfLine,
                leaf => Storage::IntegerSum { is_signed: leaf == Leaf::Int },
            },
            Aggregate::Variance | Aggregate::Deviation | Aggregate::Covariance => Storage::OutOfLine,
        }
    }
}
