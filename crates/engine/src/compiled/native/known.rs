//! What is in registers: words of the frame, and addresses that the context says.
//!
//! Whatever is written to the frame is in memory, where Rust finds it; machine code that reads it again need not look
//! there as long as nobody else can have written it. What is known holds on the way from one instruction to the next.
//! Where ways part and come together again, what was known before they parted holds after it, except for what was
//! written on one of them.

use std::collections::HashMap;

use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlags, Value};

use super::super::code::Slot;
use super::program::Writer;

#[derive(Clone, Default)]
pub(super) struct Known {
    words: HashMap<Slot, Value>,
    floats: HashMap<Slot, Value>,
    /// By their distance from the context.
    places: HashMap<usize, Value>,
}

/// Something that is no longer as it was.
pub(super) enum Lost {
    Word(Slot),
    AllWords,
    Places,
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

impl Writer<'_, '_> {
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
    pub(super) fn lose_words(&mut self, first: Slot, count: usize) {
        (first..).take(count).for_each(|slot| self.lose(Lost::Word(slot)));
    }

    pub(super) fn word(&mut self, slot: Slot) -> Value {
        if let Some(word) = self.known.words.get(&slot) {
            return *word;
        }
        let word = match self.known.floats.get(&slot) {
            Some(float) => self.builder.ins().bitcast(I64, MemFlags::new(), *float),
            None => self.load(I64, self.frame, 8 * slot as usize),
        };
        self.known.words.insert(slot, word);
        word
    }

    pub(super) fn float_at(&mut self, slot: Slot) -> Value {
        if let Some(float) = self.known.floats.get(&slot) {
            return *float;
        }
        let float = match self.known.words.get(&slot) {
            Some(word) => self.builder.ins().bitcast(F64, MemFlags::new(), *word),
            None => self.load(F64, self.frame, 8 * slot as usize),
        };
        self.known.floats.insert(slot, float);
        float
    }

    pub(super) fn put(&mut self, slot: Slot, value: Value) {
        self.store(value, self.frame, 8 * slot as usize);
        self.lose(Lost::Word(slot));
        let is_float = self.builder.func.dfg.value_type(value) == F64;
        let known = if is_float { &mut self.known.floats } else { &mut self.known.words };
        known.insert(slot, value);
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

impl Known {
    fn lose(&mut self, lost: &Lost) {
        match lost {
            Lost::Word(slot) => {
                self.words.remove(slot);
                self.floats.remove(slot);
            }
            Lost::AllWords => {
                self.words.clear();
                self.floats.clear();
            }
            Lost::Places => self.places.clear(),
        }
    }
}
