//! Memory layout of values: words of 64 bits, whose types are known when a specification is compiled. A tuple is its
//! components one after another, an option is a flag before its value.

use rtlola_frontend::mir::{IntTy, Type, UIntTy};
/// The type of a scalar component of a value. It takes one word, a decimal two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Bool,
    UInt,
    Int,
    Float,
    /// The number of a text in the [`Interner`](crate::compiled::store::interner::Interner).
    Text,
    /// The number of a byte string in the interner.
    Bytes,
    /// The only leaf of two words.
    Decimal,
    /// The flag of an option.
    Present,
}

impl Leaf {
    /// Words of the leaf.
    pub(crate) fn width(self) -> usize {
        if self == Leaf::Decimal { 2 } else { 1 }
    }

    /// Whether equal values always have equal words. Floats have two zeros, decimals trailing zeros.
    pub(crate) fn is_plain(self) -> bool {
        !matches!(self, Leaf::Float | Leaf::Decimal)
    }

    /// Whether the word is the number of an interned string.
    pub(crate) fn is_interned(self) -> bool {
        matches!(self, Leaf::Text | Leaf::Bytes)
    }
}

/// The leaves of a type, in order.
pub(crate) fn leaves(ty: &Type) -> Vec<Leaf> {
    match ty {
        Type::Bool => vec![Leaf::Bool],
        Type::UInt(_) => vec![Leaf::UInt],
        Type::Int(_) => vec![Leaf::Int],
        Type::Float(_) => vec![Leaf::Float],
        Type::String => vec![Leaf::Text],
        Type::Bytes => vec![Leaf::Bytes],
        Type::Fixed(_) | Type::UFixed(_) => vec![Leaf::Decimal],
        Type::Tuple(parts) => parts.iter().flat_map(leaves).collect(),
        Type::Option(inner) => std::iter::once(Leaf::Present).chain(leaves(inner)).collect(),
        Type::Function { .. } => Vec::new(),
    }
}

/// Words of a value of a type.
pub(crate) fn width(ty: &Type) -> usize {
    leaves(ty).into_iter().map(Leaf::width).sum()
}

/// The leaves of a type with the offset of their first word.
pub(crate) fn placed(ty: &Type) -> Vec<(usize, Leaf)> {
    let mut offset = 0;
    let place = |leaf: Leaf| {
        let placed = (offset, leaf);
        offset += leaf.width();
        placed
    };
    leaves(ty).into_iter().map(place).collect()
}

/// A type without the option around it.
pub(crate) fn inner(ty: &Type) -> &Type {
    if let Type::Option(inner) = ty { inner } else { ty }
}

/// Of an integer type of fewer than 64 bits: whether it is signed, and its bits.
pub(crate) fn narrow(ty: &Type) -> Option<(bool, u8)> {
    match ty {
        Type::Int(IntTy::Int8) => Some((true, 8)),
        Type::Int(IntTy::Int16) => Some((true, 16)),
        Type::Int(IntTy::Int32) => Some((true, 32)),
        Type::UInt(UIntTy::UInt8) => Some((false, 8)),
        Type::UInt(UIntTy::UInt16) => Some((false, 16)),
        Type::UInt(UIntTy::UInt32) => Some((false, 32)),
        _ => None,
    }
}

/// The smallest and the largest value of an integer type of fewer than 64 bits.
pub(crate) fn whole_range(signed: bool, bits: u8) -> (i64, i64) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The word of a slot that is the generation of its instance; 0 if the slot is free.
///
/// The parameters follow, then for each stream of the family its state word, the instant of its latest value where an
/// expression asks for it, and its values, latest first. Words of one-word windows come next, and last one word of links
/// for each secondary index.
pub(crate) const GENERATION: usize = 0;
/// The first word of the parameters in a slot.
pub(crate) const PARAMS: usize = 1;

/// Where the words of one stream of a family are in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// The state word: flags in the low half, the number of stored values in the high half.
    pub(crate) state: u32,
    /// The instant of the latest value; 0 if the plan never asks for it.
    pub(crate) fresh: u32,
    /// The first word of the latest value; earlier values follow.
    pub(crate) values: u32,
    /// Words of a value.
    pub(crate) width: u32,
    /// How many values are stored at most.
    pub(crate) depth: u32,
}

/// What a stream needs in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberSize {
    /// Words of a value.
    pub(crate) width: usize,
    /// How many values are stored at most.
    pub(crate) depth: usize,
    /// Whether the instant of the latest value is stored.
    pub(crate) stores_fresh: bool,
}

impl Member {
    pub(crate) fn state(self) -> usize {
        self.state as usize
    }

    pub(crate) fn value(self) -> usize {
        self.values as usize
    }
}

/// Lays out the streams of a family one after another. Also gives the words of a slot up to their end.
pub(crate) fn arrange(params: usize, sizes: impl Iterator<Item = MemberSize>) -> (Vec<Member>, usize) {
    let mut stride = PARAMS + params;
    let member = |size: MemberSize| {
        let fresh = if size.stores_fresh { stride as u32 + 1 } else { 0 };
        let values = stride + 1 + usize::from(size.stores_fresh);
        let (state, width, depth) = (stride as u32, size.width as u32, size.depth as u32);
        stride = values + size.width * size.depth;
        Member { state, fresh, values: values as u32, width, depth }
    };
    (sizes.map(member).collect(), stride)
}
