//! Bytecode: register operations on a frame of words, which expressions are compiled to.
//!
//! Constants, inputs, the latest values of streams without instances, and the parameters of the instance that is being
//! evaluated have fixed slots in the frame, so most operands need no load.

use regex::Regex;
use regex::bytes::Regex as BytesRegex;
use rtlola_frontend::mir::{ArithLogOp, Type};

use crate::compiled::ir::layout::Leaf;

/// The index of a word in the [frame](crate::compiled::store::frame::Frame).
pub(crate) type FrameSlot = u16;

/// Words of a frame, 65,536: one for every [`FrameSlot`], so that no slot is out of bounds.
pub(crate) const FRAME_SIZE: usize = FrameSlot::MAX as usize + 1;

/// The index of an operation in its program.
pub(crate) type Label = u32;

/// One operation. An optional result is a flag at `to` with the value in the words after it.
///
/// The suffixes `U`, `I` and `F` stand for unsigned integers, signed integers and floats. Integer operations fail on
/// overflow and on division by zero, float operations where the result is NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Jump {
        to: Label,
    },
    JumpUnless {
        flag: FrameSlot,
        to: Label,
    },
    JumpIf {
        flag: FrameSlot,
        to: Label,
    },
    /// Jumps unless two words are equal.
    JumpUnlessSame {
        a: FrameSlot,
        b: FrameSlot,
        to: Label,
    },
    /// Jumps unless the event has the inputs that a clause needs.
    JumpUnlessActive {
        activation: u32,
        to: Label,
    },
    /// Ends the program with success: its value is computed, or its condition holds.
    Yield,
    Copy {
        from: FrameSlot,
        to: FrameSlot,
    },
    CopyMany {
        from: FrameSlot,
        to: FrameSlot,
        count: u32,
    },
    /// Selects the word `a` if the flag is set, else `b`.
    Or {
        flag: FrameSlot,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    /// Fails if the flag is not set: the stream that is read has no value.
    Require {
        flag: FrameSlot,
    },
    AddU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    AddI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    AddF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    SubU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    SubI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    SubF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    MulU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    MulI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    MulF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    DivU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    DivI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    DivF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    Same {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    EqF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LtU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LeU {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LtI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LeI {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LtF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    LeF {
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    Not {
        a: FrameSlot,
        to: FrameSlot,
    },
    UIntToFloat {
        a: FrameSlot,
        to: FrameSlot,
    },
    IntToFloat {
        a: FrameSlot,
        to: FrameSlot,
    },
    /// Normalises -0.0 to 0.0, so that equal floats are equal keys.
    KeyFloat {
        a: FrameSlot,
        to: FrameSlot,
    },
    /// Strips trailing zeros, so that equal decimals are equal keys.
    KeyDecimal {
        a: FrameSlot,
        to: FrameSlot,
    },
    /// An earlier value of a cell, by its number: inputs first, then streams.
    PastOfCell {
        cell: u32,
        back: u32,
        to: FrameSlot,
    },
    /// The latest value of the instance with a key, if there is one.
    Hold {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// The latest value of the instance with a key, if it is of this instant.
    Get {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// Whether the instance with a key has a value of this instant.
    Fresh {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// The latest value of the instance with a key, without a flag. Fails if there is none.
    Sync {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// An earlier value of the instance with a key.
    Past {
        stream: u32,
        key: FrameSlot,
        back: u32,
        to: FrameSlot,
    },
    /// An earlier value of the instance that is being evaluated, whose new value is not stored yet.
    PastOfOwn {
        stream: u32,
        back: u32,
        to: FrameSlot,
    },
    /// The latest value of a stream in the slot that is being evaluated, without a flag. Fails if there is none.
    OwnSync {
        stream: u32,
        to: FrameSlot,
    },
    /// The latest value of a stream in the slot that is being evaluated.
    Own {
        stream: u32,
        to: FrameSlot,
    },
    /// The value of a tick counter: of the instance with a key, or without one in the slot that is being evaluated.
    Count {
        stream: u32,
        key: Option<FrameSlot>,
        to: FrameSlot,
    },
    /// An aggregate of the group with a key.
    Aggregate {
        grouped: u32,
        aggregate: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// The result of a scan over all instances of a stream.
    Scan {
        scan: u32,
        to: FrameSlot,
    },
    /// The result of a window over the instance with a key.
    Window {
        window: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// An operation of the table of rare ones, so that frequent operations stay small.
    Rare {
        rare: u32,
    },
}

/// A rare operation.
#[derive(Clone, Debug)]
pub(crate) enum RareOp {
    Unary {
        operation: Unary,
        leaf: Leaf,
        a: FrameSlot,
        to: FrameSlot,
    },
    Binary {
        operation: ArithLogOp,
        leaf: Leaf,
        right: Leaf,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    /// Compares two values: `Eq`, `Lt`, `Ge`, or else `Le`.
    Compare {
        operation: ArithLogOp,
        leaf: Leaf,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    /// A cast.
    Convert {
        from: Leaf,
        into: Leaf,
        a: FrameSlot,
        to: FrameSlot,
    },
    /// Fails if an integer does not fit a type of so many bits.
    Range {
        leaf: Leaf,
        signed: bool,
        bits: u8,
        a: FrameSlot,
    },
    /// Rounds to a multiple of 1 / `factor`.
    Round {
        factor: f64,
        a: FrameSlot,
        to: FrameSlot,
    },
    Matches {
        regex: Regex,
        a: FrameSlot,
        to: FrameSlot,
    },
    BytesMatch {
        regex: BytesRegex,
        a: FrameSlot,
        to: FrameSlot,
    },
    /// The byte of a byte string at an index, if there is one.
    ByteAt {
        a: FrameSlot,
        index: FrameSlot,
        to: FrameSlot,
    },
    /// Interns a formatted text: the first piece, then alternately a value and a piece.
    Format {
        pieces: Vec<String>,
        parts: Vec<FormatPart>,
        to: FrameSlot,
    },
}

/// A value in a formatted text.
#[derive(Clone, Debug)]
pub(crate) struct FormatPart {
    pub(crate) ty: Type,
    /// The flag of a value that may be absent.
    pub(crate) flag: Option<FrameSlot>,
    /// The first word of the value.
    pub(crate) base: FrameSlot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Neg,
    Abs,
    BitNot,
    Sqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
}

/// A sequence of operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// The text of the expression of each operation that can fail, in the order of lowering.
    pub(crate) origins: Vec<(Label, String)>,
}

impl Program {
    /// The text of the expression that an operation comes from.
    pub(crate) fn origin(&self, at: usize) -> &str {
        // Where several expressions were marked before the operation was emitted, it comes from the last.
        let found = self.origins.iter().rev().find(|(label, _)| *label as usize == at);
        found.map_or("", |(_, text)| text.as_str())
    }

    /// If the program only adds a grouped aggregate to the latest value of its own stream: the number of that grouped
    /// aggregate. An evaluation changes nothing while the aggregate is 0.
    pub(crate) fn grows_by(&self, stream: usize) -> Option<u32> {
        let (grouped, aggregate, own, last, sum) = match self.ops.as_slice() {
            [
                Op::PastOfOwn { stream: of, back: 1, to: own },
                last,
                Op::Aggregate { grouped, to, .. },
                sum,
                Op::Yield,
            ]
            | [
                Op::Aggregate { grouped, to, .. },
                Op::PastOfOwn { stream: of, back: 1, to: own },
                last,
                sum,
                Op::Yield,
            ] if *of as usize == stream => (*grouped, *to + 1, *own, last, sum),
            _ => return None,
        };
        let (
            Op::Or { flag, a, to: last, .. },
            Op::AddU { a: one, b: other, .. } | Op::AddI { a: one, b: other, .. },
        ) = (last, sum)
        else {
            return None;
        };
        let is_last = (*flag, *a) == (own, own + 1);
        let adds_both = [(*last, aggregate), (aggregate, *last)].contains(&(*one, *other));
        (is_last && adds_both).then_some(grouped)
    }

    /// Whether the program only reads latest values and compares them, so that it can run at any time and never fails.
    /// `always_counts` tells whether the value of a tick counter never overflows.
    pub(crate) fn only_reads(&self, always_counts: impl Fn(usize) -> bool) -> bool {
        let reads = |op: &Op| match op {
            Op::Count { stream, .. } => always_counts(*stream as usize),
            Op::Jump { .. }
            | Op::JumpUnless { .. }
            | Op::JumpIf { .. }
            | Op::JumpUnlessSame { .. }
            | Op::Yield
            | Op::Copy { .. }
            | Op::CopyMany { .. }
            | Op::Or { .. }
            | Op::Same { .. }
            | Op::EqF { .. }
            | Op::LtU { .. }
            | Op::LeU { .. }
            | Op::LtI { .. }
            | Op::LeI { .. }
            | Op::LtF { .. }
            | Op::LeF { .. }
            | Op::Not { .. }
            | Op::Hold { .. }
            | Op::Own { .. } => true,
            _ => false,
        };
        self.ops.iter().all(reads)
    }
}

/// Which inputs an event must have for something to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Activation {
    Always,
    /// All inputs of a mask.
    All(u128),
    And(Vec<Activation>),
    Or(Vec<Activation>),
}

impl Activation {
    /// Whether an event with these inputs, a bit for each, satisfies the condition.
    pub(crate) fn holds(&self, present: u128) -> bool {
        match self {
            Activation::Always => true,
            Activation::All(mask) => present & mask == *mask,
            Activation::And(parts) => parts.iter().all(|part| part.holds(present)),
            Activation::Or(parts) => parts.iter().any(|part| part.holds(present)),
        }
    }
}
