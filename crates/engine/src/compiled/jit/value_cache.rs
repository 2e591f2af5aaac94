//! What is in registers: words of the frame, and addresses that the context says.
//!
//! Whatever is written to the frame is in memory, where Rust finds it; machine code that reads it again need not look
//! there as long as nobody else can have written it. Parameters of the instance at hand are in its slot: they are
//! read when they are asked for, and written to the frame only if Rust may want to know. What a program puts aside for
//! itself is not written at all if nobody turns out to read it. What is known holds on the way from one instruction to the next.
//! Where ways part and come together again, what was known before they parted holds after it, except for what was
//! written on one of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, Inst, InstBuilder, MemFlags, Type, Value};

use super::expr::ExprEmitter;
use super::float_range::Range;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{ClausePlan, FamilyPlan, Plan, StreamPlan};
use crate::compiled::store::slab::PARAMS;

#[derive(Clone, Default)]
pub(super) struct Known {
    words: HashMap<FrameSlot, Value>,
    floats: HashMap<FrameSlot, Value>,
    /// Between which numbers floats are.
    ranges: HashMap<FrameSlot, Range>,
    /// Words that are not in the frame: the words of a slot, and which of them it is.
    parameters: BTreeMap<FrameSlot, (Value, usize)>,
    /// By their distance from the context.
    places: HashMap<usize, Value>,
    /// InstanceSlab that have been looked for, by their family and parameters: the slot, plus one, or 0 if there was none.
    pub(super) found: HashMap<(usize, Vec<Value>), Value>,
}

/// Something that is no longer as it was.
pub(super) enum Lost {
    Word(FrameSlot),
    AllWords,
    VmContextBuffer,
    /// An instance has left its slot.
    InstanceSlab,
}

/// A point that ways part at.
#[derive(Clone)]
pub(super) struct Fork {
    known: Known,
    /// How much had been lost before.
    lost: usize,
}

/// A way that is gone if a condition holds.
pub(super) struct Way {
    fork: Fork,
    done: Block,
}

impl ExprEmitter<'_, '_> {
    /// Goes on in a block that can be reached from anywhere.
    pub(super) fn enter(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.known = Known::default();
    }

    /// Goes on in a block that can be reached from here only.
    pub(super) fn go_on(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    pub(super) fn fork(&self) -> Fork {
        Fork { known: self.known.clone(), lost: self.lost.len() }
    }

    /// Goes on in a block that can be reached only by way of a fork. All that lies between the two has been written, so
    /// that nothing is the head of a loop.
    pub(super) fn resume(&mut self, block: Block, fork: &Fork) {
        self.builder.switch_to_block(block);
        self.known = fork.known.clone();
        for lost in &self.lost[fork.lost..] {
            self.known.lose(lost);
        }
    }

    /// Whether a value is that of a word, and can be used here.
    pub(super) fn knows(&self, value: Value) -> bool {
        self.known.words.values().any(|word| *word == value)
    }

    /// Writes what is done if a condition holds.
    pub(super) fn when(&mut self, condition: Value, write: impl FnOnce(&mut Self)) {
        let way = self.part(condition);
        write(self);
        self.meet(way);
    }

    /// Goes on where a condition holds, until this way [meets](Self::meet) the one on which it does not.
    pub(super) fn part(&mut self, condition: Value) -> Way {
        let [holds, done] = [(); 2].map(|()| self.builder.create_block());
        let fork = self.fork();
        self.builder.ins().brif(condition, holds, &[], done, &[]);
        self.go_on(holds);
        Way { fork, done }
    }

    pub(super) fn meet(&mut self, way: Way) {
        self.builder.ins().jump(way.done, &[]);
        self.resume(way.done, &way.fork);
    }

    /// Something may have been changed, by a call.
    pub(super) fn lose(&mut self, lost: Lost) {
        self.known.lose(&lost);
        self.lost.push(lost);
    }

    /// So many words may have been changed, by a call.
    pub(super) fn lose_words(&mut self, first: FrameSlot, count: usize) {
        (first..).take(count).for_each(|slot| self.lose(Lost::Word(slot)));
    }

    pub(super) fn word(&mut self, slot: FrameSlot) -> Value {
        if let Some(word) = self.known.words.get(&slot) {
            return *word;
        }
        if self.plan.constants.contains(&slot) {
            return self.number(self.plan.frame[slot as usize]);
        }
        let word = match self.known.floats.get(&slot) {
            Some(float) => self.builder.ins().bitcast(I64, MemFlags::new(), *float),
            None => self.in_memory(I64, slot),
        };
        self.known.words.insert(slot, word);
        word
    }

    fn in_memory(&mut self, ty: Type, slot: FrameSlot) -> Value {
        match self.known.parameters.get(&slot) {
            Some((words, at)) => self.load(ty, *words, 8 * at),
            None => {
                self.unread.is_read(slot);
                self.load(ty, self.frame, 8 * slot as usize)
            }
        }
    }

    /// From now on an instance is at hand, whose words these are: its parameters belong to a place in the frame.
    pub(super) fn know_parameters(&mut self, own: FrameSlot, width: usize, words: Value) {
        self.lose_words(own, width);
        self.known.parameters.clear();
        for (at, slot) in (own..).take(width).enumerate() {
            self.known.parameters.insert(slot, (words, PARAMS + at));
        }
    }

    /// Rust will read these words of the frame.
    pub(super) fn rust_reads(&mut self, first: FrameSlot, count: usize) {
        for slot in (first..).take(count) {
            self.unread.is_read(slot);
            if self.known.parameters.contains_key(&slot) {
                let word = self.word(slot);
                self.store(word, self.frame, 8 * slot as usize);
            }
        }
    }

    /// Rust may read any word of the frame.
    pub(super) fn rust_reads_anything(&mut self) {
        self.unread.may_be_read();
        for slot in self.known.parameters.keys().copied().collect::<Vec<_>>() {
            self.rust_reads(slot, 1);
        }
    }

    pub(super) fn float_at(&mut self, slot: FrameSlot) -> Value {
        if let Some(float) = self.known.floats.get(&slot) {
            return *float;
        }
        if self.plan.constants.contains(&slot) {
            return self.builder.ins().f64const(f64::from_bits(self.plan.frame[slot as usize]));
        }
        let float = match self.known.words.get(&slot) {
            Some(word) => self.builder.ins().bitcast(F64, MemFlags::new(), *word),
            None => self.in_memory(F64, slot),
        };
        self.known.floats.insert(slot, float);
        float
    }

    pub(super) fn put(&mut self, slot: FrameSlot, value: Value) {
        let written = self.store(value, self.frame, 8 * slot as usize);
        self.unread.is_written(slot, written);
        self.lose(Lost::Word(slot));
        let is_float = self.builder.func.dfg.value_type(value) == F64;
        let known = if is_float { &mut self.known.floats } else { &mut self.known.words };
        known.insert(slot, value);
    }

    /// A word of the frame that Rust has just written.
    pub(super) fn written(&mut self, slot: FrameSlot) -> Value {
        self.load(I64, self.frame, 8 * slot as usize)
    }

    /// Between which numbers two floats are, if that is known.
    pub(super) fn ranges(&self, a: FrameSlot, b: FrameSlot) -> Option<(Range, Range)> {
        let range = |slot: FrameSlot| match self.plan.constants.contains(&slot) {
            true => Range::of(f64::from_bits(self.plan.frame[slot as usize])),
            false => self.known.ranges.get(&slot).copied(),
        };
        Some((range(a)?, range(b)?))
    }

    /// From now on it is known between which numbers a float is.
    pub(super) fn know_range(&mut self, slot: FrameSlot, range: Range) {
        self.known.ranges.insert(slot, range);
    }

    /// What the context says, so many bytes after its beginning.
    pub(super) fn place_at(&mut self, at: usize) -> Value {
        if let Some(place) = self.known.places.get(&at) {
            return *place;
        }
        let place = self.load(I64, self.context, at);
        self.known.places.insert(at, place);
        place
    }
}

/// Words that are written to the frame, and may not be read.
#[derive(Default)]
pub(super) struct Unread {
    /// Those that are read by others than the program that puts them there.
    lasting: HashSet<FrameSlot>,
    read: HashSet<FrameSlot>,
    written: Vec<(FrameSlot, Inst)>,
}

impl Unread {
    pub(super) fn new(plan: &Plan) -> Unread {
        let cells = plan.inputs.iter().chain(plan.streams.iter().filter_map(|stream| stream.cell.as_ref()));
        let cells = cells.flat_map(|cell| [(cell.present, 1), (cell.fresh, 1), (cell.value, cell.width)]);
        let of_family = |family: &FamilyPlan| {
            let path = family.close.as_ref().and_then(|close| close.path.as_ref()).map(|path| path.key);
            [family.spawn.as_ref().map(|spawn| spawn.key), path].map(|key| (key, family.param_width))
        };
        let of_clause = |stream: &StreamPlan, clause: &ClausePlan| {
            (clause.path.as_ref().map(|path| path.key), stream.param_width)
        };
        let families = plan.families.iter().flat_map(of_family);
        let clauses = |stream: &StreamPlan| {
            stream.eval.clauses.iter().map(|clause| of_clause(stream, clause)).collect::<Vec<_>>()
        };
        let keys = families.chain(plan.streams.iter().flat_map(clauses));
        let keys = keys.filter_map(|(key, width)| Some((key?, width)));
        let lasting = cells.chain(keys).flat_map(|(slot, width)| (slot..).take(width)).collect();
        Unread { lasting, ..Unread::default() }
    }

    fn is_written(&mut self, slot: FrameSlot, by: Inst) {
        if !self.lasting.contains(&slot) {
            self.written.push((slot, by));
        }
    }

    pub(super) fn is_read(&mut self, slot: FrameSlot) {
        self.read.insert(slot);
    }

    /// Rust may read whatever has been written up to now.
    pub(super) fn may_be_read(&mut self) {
        self.written.clear();
    }

    /// The instructions that write what nobody reads.
    pub(super) fn in_vain(self) -> impl Iterator<Item = Inst> {
        let Unread { read, written, .. } = self;
        written.into_iter().filter(move |(slot, _)| !read.contains(slot)).map(|(_, by)| by)
    }
}

impl Known {
    fn lose(&mut self, lost: &Lost) {
        match lost {
            Lost::Word(slot) => {
                self.words.remove(slot);
                self.floats.remove(slot);
                self.ranges.remove(slot);
                self.parameters.remove(slot);
            }
            Lost::AllWords => {
                self.words.clear();
                self.floats.clear();
                self.ranges.clear();
            }
            Lost::VmContextBuffer => self.places.clear(),
            Lost::InstanceSlab => self.found.clear(),
        }
    }
}
