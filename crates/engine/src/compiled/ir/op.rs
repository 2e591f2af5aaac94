//! What expressions are compiled to: operations on a frame of words.
//!
//! Constants, the inputs, the latest value of every stream without instances and the parameters of
//! the instance at hand have their places in the frame, so most operands need not be fetched.

use regex::Regex;
use regex::bytes::Regex as BytesRegex;
use rtlola_frontend::mir::{ArithLogOp, Type};

use crate::compiled::ir::layout::Leaf;

/// A place in the [frame](crate::compiled::store::frame::Frame).
pub(crate) type FrameSlot = u16;

/// A place in a program.
pub(crate) type Label = u32;

/// One step. Where a value may be absent, a flag at `to` says so and the value follows it.
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
    /// Unless two words are equal.
    JumpUnlessSame {
        a: FrameSlot,
        b: FrameSlot,
        to: Label,
    },
    /// Unless the inputs are there that a clause needs.
    JumpUnlessActive {
        activation: u32,
        to: Label,
    },
    /// The program gives a value, or holds, as the case may be.
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
    /// A word, or another where it is absent.
    Or {
        flag: FrameSlot,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    /// Fails if a stream that is read has no value.
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
    /// Gives -0.0 the words of 0.0, so that equal floats are equal keys.
    KeyFloat {
        a: FrameSlot,
        to: FrameSlot,
    },
    KeyDecimal {
        a: FrameSlot,
        to: FrameSlot,
    },
    /// An earlier value of a stream without instances, inputs first.
    PastOfCell {
        cell: u32,
        back: u32,
        to: FrameSlot,
    },
    /// The value of an instance: a flag at `to`, the value after it.
    Hold {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// The same, only if it is of this instant.
    Get {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    Fresh {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// The value of an instance that must be there, at `to`.
    Sync {
        stream: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// An earlier value of an instance.
    Past {
        stream: u32,
        key: FrameSlot,
        back: u32,
        to: FrameSlot,
    },
    /// An earlier value of the instance that is being evaluated, which is not fresh yet.
    PastOfOwn {
        stream: u32,
        back: u32,
        to: FrameSlot,
    },
    /// The latest value of the instance in the same slot, which must have one, at `to`.
    OwnSync {
        stream: u32,
        to: FrameSlot,
    },
    /// The latest value of the instance in the same slot as the one that is being evaluated.
    Own {
        stream: u32,
        to: FrameSlot,
    },
    /// The value of a counter: of the instance with a key, or of the one at hand.
    Count {
        stream: u32,
        key: Option<FrameSlot>,
        to: FrameSlot,
    },
    Aggregate {
        grouped: u32,
        aggregate: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    Scan {
        scan: u32,
        to: FrameSlot,
    },
    Window {
        window: u32,
        key: FrameSlot,
        to: FrameSlot,
    },
    /// Everything that is rare.
    Rare {
        rare: u32,
    },
}

/// A rare step, with what it needs.
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
    /// Whether one value is equal to, less than, or greater than another, or equal.
    Compare {
        operation: ArithLogOp,
        leaf: Leaf,
        a: FrameSlot,
        b: FrameSlot,
        to: FrameSlot,
    },
    Convert {
        from: Leaf,
        into: Leaf,
        a: FrameSlot,
        to: FrameSlot,
    },
    Range {
        leaf: Leaf,
        signed: bool,
        bits: u8,
        a: FrameSlot,
    },
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
    ByteAt {
        a: FrameSlot,
        index: FrameSlot,
        to: FrameSlot,
    },
    Format {
        pieces: Vec<String>,
        parts: Vec<FormatPart>,
        to: FrameSlot,
    },
}

/// A value that is put into a text.
#[derive(Clone, Debug)]
pub(crate) struct FormatPart {
    pub(crate) ty: Type,
    pub(crate) flag: Option<FrameSlot>,
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

/// Operations, and for those that can fail the text of the expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) origins: Vec<(Label, String)>,
}

impl Program {
    /// The expression that a step belongs to.
    pub(crate) fn origin(&self, at: usize) -> &str {
        // What was compiled last before an operation is what it belongs to.
        let found = self.origins.iter().rev().find(|(label, _)| *label as usize == at);
        found.map_or("", |(_, text)| text.as_str())
    }

    /// If all it does is to add what a tally says to the latest value of its own stream: which tally that is. While the
    /// tally says 0, the value stays as it is.
    pub(crate) fn grows_by(&self, stream: usize) -> Option<u32> {
        let (grouped, said, own, last, sum) = match self.ops.as_slice() {
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
        let adds_both = [(*last, said), (said, *last)].contains(&(*one, *other));
        (is_last && adds_both).then_some(grouped)
    }

    /// Whether all it does is to look at latest values and to compare them: it can be run at any time, and never fails.
    /// It is said of counters whether there is a value at any time.
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

/// Which inputs must be there for something to be evaluated at an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Activation {
    Always,
    /// All inputs of a mask.
    All(u128),
    And(Vec<Activation>),
    Or(Vec<Activation>),
}

impl Activation {
    pub(crate) fn holds(&self, present: u128) -> bool {
        match self {
            Activation::Always => true,
            Activation::All(mask) => present & mask == *mask,
            Activation::And(parts) => parts.iter().all(|part| part.holds(present)),
            Activation::Or(parts) => parts.iter().any(|part| part.holds(present)),
        }
    }
}
