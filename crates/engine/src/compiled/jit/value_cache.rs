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
use super::float_range::FloatRange;
use crate::compiled::ir::layout::PARAMS;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{ClausePlan, FamilyPlan, Plan, StreamPlan};

#[derive(Clone, Default)]
pub(super) struct ValueCache {
    words: HashMap<FrameSlot, Value>,
    floats: HashMap<FrameSlot, Value>,
    /// Between which numbers floats are.
    ranges: HashMap<FrameSlot, FloatRange>,
    /// Words that are not in the frame: the words of a slot, and which of them it is.
    parameters: BTreeMap<FrameSlot, (Value, usize)>,
    /// By their distance from the context.
    places: HashMap<usize, Value>,
    /// InstanceSlab that have been looked for, by their family and parameters: the slot, plus one, or 0 if there was none.
    pub(super) found: HashMap<(usize, Vec<Value>), Value>,
}

/// Something that is no longer as it was.
pub(super) enum Invalidation {
    Word(FrameSlot),
    AllWords,
    VmContextBuffer,
    /// An instance has left its slot.
    InstanceSlab,
}

/// A point that ways part at.
#[derive(Clone)]
pub(super) struct CacheState {
    cache: ValueCache,
    /// How much had been lost before.
    invalidations: usize,
}

/// A way that is gone if a condition holds.
pub(super) struct IfRegion {
    fork: CacheState,
    done: Block,
}

impl ExprEmitter<'_, '_> {
    /// Goes on in a block that can be reached from anywhere.
    pub(super) fn enter(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.cache = ValueCache::default();
    }

    /// Goes on in a block that can be reached from here only.
    pub(super) fn go_on(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    pub(super) fn fork(&self) -> CacheState {
        CacheState { cache: self.cache.clone(), invalidations: self.invalidations.len() }
    }

    /// Goes on in a block that can be reached only by way of a fork. All that lies between the two has been written, so
    /// that nothing is the head of a loop.
    pub(super) fn resume(&mut self, block: Block, fork: &CacheState) {
        self.builder.switch_to_block(block);
        self.cache = fork.cache.clone();
        for invalidations in &self.invalidations[fork.invalidations..] {
            self.cache.invalidate(invalidations);
        }
    }

    /// Whether a value is that of a word, and can be used here.
    pub(super) fn knows(&self, value: Value) -> bool {
        self.cache.words.values().any(|word| *word == value)
    }

    /// Writes what is done if a condition holds.
    pub(super) fn when(&mut self, condition: Value, write: impl FnOnce(&mut Self)) {
        let way = self.begin_if(condition);
        write(self);
        self.end_if(way);
    }

    /// Goes on where a condition holds, until this way [meets](Self::end_if) the one on which it does not.
    pub(super) fn begin_if(&mut self, condition: Value) -> IfRegion {
        let [holds, done] = [(); 2].map(|()| self.builder.create_block());
        let fork = self.fork();
        self.builder.ins().brif(condition, holds, &[], done, &[]);
        self.go_on(holds);
        IfRegion { fork, done }
    }

    pub(super) fn end_if(&mut self, way: IfRegion) {
        self.builder.ins().jump(way.done, &[]);
        self.resume(way.done, &way.fork);
    }

    /// Something may have been changed, by a call.
    pub(super) fn invalidate(&mut self, invalidations: Invalidation) {
        self.cache.invalidate(&invalidations);
        self.invalidations.push(invalidations);
    }

    /// So many words may have been changed, by a call.
    pub(super) fn invalidate_words(&mut self, first: FrameSlot, count: usize) {
        (first..).take(count).for_each(|slot| self.invalidate(Invalidation::Word(slot)));
    }

    pub(super) fn word(&mut self, slot: FrameSlot) -> Value {
        if let Some(word) = self.cache.words.get(&slot) {
            return *word;
        }
        if self.plan.constants.contains(&slot) {
            return self.number(self.plan.frame[slot as usize]);
        }
        let word = match self.cache.floats.get(&slot) {
            Some(float) => self.builder.ins().bitcast(I64, MemFlags::new(), *float),
            None => self.in_memory(I64, slot),
        };
        self.cache.words.insert(slot, word);
        word
    }

    fn in_memory(&mut self, ty: Type, slot: FrameSlot) -> Value {
        match self.cache.parameters.get(&slot) {
            Some((words, at)) => self.load(ty, *words, 8 * at),
            None => {
                self.dead_stores.note_read(slot);
                self.load(ty, self.frame, 8 * slot as usize)
            }
        }
    }

    /// From now on an instance is at hand, whose words these are: its parameters belong to a place in the frame.
    pub(super) fn know_parameters(&mut self, own: FrameSlot, width: usize, words: Value) {
        self.invalidate_words(own, width);
        self.cache.parameters.clear();
        for (at, slot) in (own..).take(width).enumerate() {
            self.cache.parameters.insert(slot, (words, PARAMS + at));
        }
    }

    /// Rust will read these words of the frame.
    pub(super) fn rust_reads(&mut self, first: FrameSlot, count: usize) {
        for slot in (first..).take(count) {
            self.dead_stores.note_read(slot);
            if self.cache.parameters.contains_key(&slot) {
                let word = self.word(slot);
                self.store(word, self.frame, 8 * slot as usize);
            }
        }
    }

    /// Rust may read any word of the frame.
    pub(super) fn rust_reads_anything(&mut self) {
        self.dead_stores.keep_all();
        for slot in self.cache.parameters.keys().copied().collect::<Vec<_>>() {
            self.rust_reads(slot, 1);
        }
    }

    pub(super) fn float_at(&mut self, slot: FrameSlot) -> Value {
        if let Some(float) = self.cache.floats.get(&slot) {
            return *float;
        }
        if self.plan.constants.contains(&slot) {
            return self.builder.ins().f64const(f64::from_bits(self.plan.frame[slot as usize]));
        }
        let float = match self.cache.words.get(&slot) {
            Some(word) => self.builder.ins().bitcast(F64, MemFlags::new(), *word),
            None => self.in_memory(F64, slot),
        };
        self.cache.floats.insert(slot, float);
        float
    }

    pub(super) fn put(&mut self, slot: FrameSlot, value: Value) {
        let written = self.store(value, self.frame, 8 * slot as usize);
        self.dead_stores.note_store(slot, written);
        self.invalidate(Invalidation::Word(slot));
        let is_float = self.builder.func.dfg.value_type(value) == F64;
        let known = if is_float { &mut self.cache.floats } else { &mut self.cache.words };
        known.insert(slot, value);
    }

    /// A word of the frame that Rust has just written.
    pub(super) fn written(&mut self, slot: FrameSlot) -> Value {
        self.load(I64, self.frame, 8 * slot as usize)
    }

    /// Between which numbers two floats are, if that is known.
    pub(super) fn ranges(&self, a: FrameSlot, b: FrameSlot) -> Option<(FloatRange, FloatRange)> {
        let range = |slot: FrameSlot| match self.plan.constants.contains(&slot) {
            true => FloatRange::of(f64::from_bits(self.plan.frame[slot as usize])),
            false => self.cache.ranges.get(&slot).copied(),
        };
        Some((range(a)?, range(b)?))
    }

    /// From now on it is known between which numbers a float is.
    pub(super) fn know_range(&mut self, slot: FrameSlot, range: FloatRange) {
        self.cache.ranges.insert(slot, range);
    }

    /// What the context says, so many bytes after its beginning.
    pub(super) fn place_at(&mut self, at: usize) -> Value {
        if let Some(place) = self.cache.places.get(&at) {
            return *place;
        }
        let place = self.load(I64, self.context, at);
        self.cache.places.insert(at, place);
        place
    }
}

/// Words that are written to the frame, and may not be read.
#[derive(Default)]
pub(super) struct DeadStores {
    /// Those that are read by others than the program that puts them there.
    lasting: HashSet<FrameSlot>,
    read: HashSet<FrameSlot>,
    written: Vec<(FrameSlot, Inst)>,
}

impl DeadStores {
    pub(super) fn new(plan: &Plan) -> DeadStores {
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
        DeadStores { lasting, ..DeadStores::default() }
    }

    fn note_store(&mut self, slot: FrameSlot, by: Inst) {
        if !self.lasting.contains(&slot) {
            self.written.push((slot, by));
        }
    }

    pub(super) fn note_read(&mut self, slot: FrameSlot) {
        self.read.insert(slot);
    }

    /// Rust may read whatever has been written up to now.
    pub(super) fn keep_all(&mut self) {
        self.written.clear();
    }

    /// The instructions that write what nobody reads.
    pub(super) fn dead(self) -> impl Iterator<Item = Inst> {
        let DeadStores { read, written, .. } = self;
        written.into_iter().filter(move |(slot, _)| !read.contains(slot)).map(|(_, by)| by)
    }
}

impl ValueCache {
    fn invalidate(&mut self, invalidations: &Invalidation) {
        match invalidations {
            Invalidation::Word(slot) => {
                self.words.remove(slot);
                self.floats.remove(slot);
                self.ranges.remove(slot);
                self.parameters.remove(slot);
            }
            Invalidation::AllWords => {
                self.words.clear();
                self.floats.clear();
                self.ranges.clear();
            }
            Invalidation::VmContextBuffer => self.places.clear(),
            Invalidation::InstanceSlab => self.found.clear(),
        }
    }
}
