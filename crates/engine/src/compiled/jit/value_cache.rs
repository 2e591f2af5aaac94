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
    context_words: HashMap<usize, Value>,
    /// InstanceSlab that have been looked for, by their family and parameters: the slot, plus one, or 0 if there was none.
    pub(super) found_slots: HashMap<(usize, Vec<Value>), Value>,
}

/// Something that is no longer as it was.
pub(super) enum Invalidation {
    Word(FrameSlot),
    AllWords,
    Addresses,
    /// An instance has left its slot.
    FoundSlots,
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
    saved: CacheState,
    done: Block,
}

impl ExprEmitter<'_, '_> {
    /// Goes on in a block that can be reached from anywhere.
    pub(super) fn switch_with_empty_cache(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.cache = ValueCache::default();
    }

    /// Goes on in a block that can be reached from here only.
    pub(super) fn switch_to_successor(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    pub(super) fn save_state(&self) -> CacheState {
        CacheState { cache: self.cache.clone(), invalidations: self.invalidations.len() }
    }

    /// Goes on in a block that can be reached only by way of a fork. All that lies between the two has been written, so
    /// that nothing is the head of a loop.
    pub(super) fn switch_to_saved(&mut self, block: Block, saved: &CacheState) {
        self.builder.switch_to_block(block);
        self.cache = saved.cache.clone();
        for invalidation in &self.invalidations[saved.invalidations..] {
            self.cache.invalidate(invalidation);
        }
    }

    /// Whether a value is that of a word, and can be used here.
    pub(super) fn is_cached(&self, value: Value) -> bool {
        self.cache.words.values().any(|word| *word == value)
    }

    /// Writes what is done if a condition holds.
    pub(super) fn emit_if(&mut self, condition: Value, emit: impl FnOnce(&mut Self)) {
        let region = self.begin_if(condition);
        emit(self);
        self.end_if(region);
    }

    /// Goes on where a condition holds, until this way [meets](Self::end_if) the one on which it does not.
    pub(super) fn begin_if(&mut self, condition: Value) -> IfRegion {
        let [then, done] = [(); 2].map(|()| self.builder.create_block());
        let saved = self.save_state();
        self.builder.ins().brif(condition, then, &[], done, &[]);
        self.switch_to_successor(then);
        IfRegion { saved, done }
    }

    pub(super) fn end_if(&mut self, region: IfRegion) {
        self.builder.ins().jump(region.done, &[]);
        self.switch_to_saved(region.done, &region.saved);
    }

    /// Something may have been changed, by a call.
    pub(super) fn invalidate(&mut self, invalidation: Invalidation) {
        self.cache.invalidate(&invalidation);
        self.invalidations.push(invalidation);
    }

    /// So many words may have been changed, by a call.
    pub(super) fn invalidate_words(&mut self, first: FrameSlot, count: usize) {
        (first..).take(count).for_each(|slot| self.invalidate(Invalidation::Word(slot)));
    }

    pub(super) fn load_slot(&mut self, slot: FrameSlot) -> Value {
        if let Some(word) = self.cache.words.get(&slot) {
            return *word;
        }
        if self.plan.constants.contains(&slot) {
            return self.iconst(self.plan.frame[slot as usize]);
        }
        let word = match self.cache.floats.get(&slot) {
            Some(float) => self.builder.ins().bitcast(I64, MemFlags::new(), *float),
            None => self.load_uncached(I64, slot),
        };
        self.cache.words.insert(slot, word);
        word
    }

    fn load_uncached(&mut self, ty: Type, slot: FrameSlot) -> Value {
        match self.cache.parameters.get(&slot) {
            Some((words, at)) => self.load(ty, *words, 8 * at),
            None => {
                self.dead_stores.note_read(slot);
                self.load(ty, self.frame, 8 * slot as usize)
            }
        }
    }

    /// From now on an instance is at hand, whose words these are: its parameters belong to a place in the frame.
    pub(super) fn cache_parameters(&mut self, own: FrameSlot, width: usize, words: Value) {
        self.invalidate_words(own, width);
        self.cache.parameters.clear();
        for (at, slot) in (own..).take(width).enumerate() {
            self.cache.parameters.insert(slot, (words, PARAMS + at));
        }
    }

    /// Rust will read these words of the frame.
    pub(super) fn flush_for_runtime(&mut self, first: FrameSlot, count: usize) {
        for slot in (first..).take(count) {
            self.dead_stores.note_read(slot);
            if self.cache.parameters.contains_key(&slot) {
                let word = self.load_slot(slot);
                self.store(word, self.frame, 8 * slot as usize);
            }
        }
    }

    /// Rust may read any word of the frame.
    pub(super) fn flush_all_for_runtime(&mut self) {
        self.dead_stores.keep_all();
        for slot in self.cache.parameters.keys().copied().collect::<Vec<_>>() {
            self.flush_for_runtime(slot, 1);
        }
    }

    pub(super) fn load_float(&mut self, slot: FrameSlot) -> Value {
        if let Some(float) = self.cache.floats.get(&slot) {
            return *float;
        }
        if self.plan.constants.contains(&slot) {
            return self.builder.ins().f64const(f64::from_bits(self.plan.frame[slot as usize]));
        }
        let float = match self.cache.words.get(&slot) {
            Some(word) => self.builder.ins().bitcast(F64, MemFlags::new(), *word),
            None => self.load_uncached(F64, slot),
        };
        self.cache.floats.insert(slot, float);
        float
    }

    pub(super) fn store_slot(&mut self, slot: FrameSlot, value: Value) {
        let store = self.store(value, self.frame, 8 * slot as usize);
        self.dead_stores.note_store(slot, store);
        self.invalidate(Invalidation::Word(slot));
        let is_float = self.builder.func.dfg.value_type(value) == F64;
        let cached = if is_float { &mut self.cache.floats } else { &mut self.cache.words };
        cached.insert(slot, value);
    }

    /// A word of the frame that Rust has just written.
    pub(super) fn reload(&mut self, slot: FrameSlot) -> Value {
        self.load(I64, self.frame, 8 * slot as usize)
    }

    /// Between which numbers two floats are, if that is known.
    pub(super) fn float_ranges(&self, a: FrameSlot, b: FrameSlot) -> Option<(FloatRange, FloatRange)> {
        let range = |slot: FrameSlot| match self.plan.constants.contains(&slot) {
            true => FloatRange::of(f64::from_bits(self.plan.frame[slot as usize])),
            false => self.cache.ranges.get(&slot).copied(),
        };
        Some((range(a)?, range(b)?))
    }

    /// From now on it is known between which numbers a float is.
    pub(super) fn cache_range(&mut self, slot: FrameSlot, range: FloatRange) {
        self.cache.ranges.insert(slot, range);
    }

    /// What the context says, so many bytes after its beginning.
    pub(super) fn context_word(&mut self, offset: usize) -> Value {
        if let Some(word) = self.cache.context_words.get(&offset) {
            return *word;
        }
        let word = self.load(I64, self.context, offset);
        self.cache.context_words.insert(offset, word);
        word
    }
}

/// Words that are written to the frame, and may not be read.
#[derive(Default)]
pub(super) struct DeadStores {
    /// Those that are read by others than the program that puts them there.
    shared: HashSet<FrameSlot>,
    read: HashSet<FrameSlot>,
    stores: Vec<(FrameSlot, Inst)>,
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
        let shared = cells.chain(keys).flat_map(|(slot, width)| (slot..).take(width)).collect();
        DeadStores { shared, ..DeadStores::default() }
    }

    fn note_store(&mut self, slot: FrameSlot, store: Inst) {
        if !self.shared.contains(&slot) {
            self.stores.push((slot, store));
        }
    }

    pub(super) fn note_read(&mut self, slot: FrameSlot) {
        self.read.insert(slot);
    }

    /// Rust may read whatever has been written up to now.
    pub(super) fn keep_all(&mut self) {
        self.stores.clear();
    }

    /// The instructions that write what nobody reads.
    pub(super) fn into_dead(self) -> impl Iterator<Item = Inst> {
        let DeadStores { read, stores, .. } = self;
        stores.into_iter().filter(move |(slot, _)| !read.contains(slot)).map(|(_, store)| store)
    }
}

impl ValueCache {
    fn invalidate(&mut self, invalidation: &Invalidation) {
        match invalidation {
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
            Invalidation::Addresses => self.context_words.clear(),
            Invalidation::FoundSlots => self.found_slots.clear(),
        }
    }
}
