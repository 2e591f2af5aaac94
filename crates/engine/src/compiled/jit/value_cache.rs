//! Load forwarding and dead-store elimination for words of the frame, and caching of words of the context.
//!
//! Every store to the frame goes to memory, where runtime calls find it. A later load in machine code is forwarded the
//! stored value, as long as nothing else can have written the slot in between. Parameters of the current instance are
//! in its slot: they are loaded from there when they are read, and written to the frame only if a runtime call may read
//! them. A store to a temporary of a program is removed in the end if nothing reads it.
//!
//! The cache describes one point of the function. At a merge of control flow, what was cached at the branch still
//! holds, except for what was invalidated on any path since.

use std::collections::{BTreeMap, HashMap, HashSet};

use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{Block, Inst, InstBuilder, MemFlags, Type, Value};

use super::expr::ExprEmitter;
use super::float_range::FloatRange;
use crate::compiled::ir::layout::PARAMS;
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{ClausePlan, FamilyPlan, Plan, StreamPlan};

/// SSA values that are known to equal words in memory.
#[derive(Clone, Default)]
pub(super) struct ValueCache {
    /// Words of the frame, as integers.
    words: HashMap<FrameSlot, Value>,
    /// Words of the frame, as floats.
    floats: HashMap<FrameSlot, Value>,
    /// Bounds of floats in the frame.
    ranges: HashMap<FrameSlot, FloatRange>,
    /// Frame slots whose word is not in the frame but in the slot of an instance: the address of its words, and the
    /// position among them.
    parameters: BTreeMap<FrameSlot, (Value, usize)>,
    /// Words of the context, by their offset in bytes.
    context_words: HashMap<usize, Value>,
    /// Results of lookups, by family and parameters: the slot plus one, or 0 if no instance was found.
    pub(super) found_slots: HashMap<(usize, Vec<Value>), Value>,
}

/// Cached values that no longer hold.
pub(super) enum Invalidation {
    /// One word of the frame.
    Word(FrameSlot),
    /// All words of the frame.
    AllWords,
    /// Words of the context: a data structure may have moved in memory.
    Addresses,
    /// Results of lookups: an instance has left its slot.
    FoundSlots,
}

/// The cache at a branch, for the blocks that it dominates.
#[derive(Clone)]
pub(super) struct CacheState {
    cache: ValueCache,
    /// How many entries [`ExprEmitter::invalidations`] had at that point.
    invalidations: usize,
}

/// Code that runs only if a condition holds, between [`begin_if`](ExprEmitter::begin_if) and
/// [`end_if`](ExprEmitter::end_if).
pub(super) struct IfRegion {
    saved: CacheState,
    done: Block,
}

impl ExprEmitter<'_, '_> {
    /// Continues in a block with arbitrary predecessors, such as the head of a loop: nothing is cached.
    pub(super) fn switch_with_empty_cache(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.cache = ValueCache::default();
    }

    /// Continues in a block whose only predecessor is the current one: everything cached still holds.
    pub(super) fn switch_to_successor(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    /// The state of the cache at this point.
    pub(super) fn save_state(&self) -> CacheState {
        CacheState { cache: self.cache.clone(), invalidations: self.invalidations.len() }
    }

    /// Continues in a block that the point of `saved` dominates. What was cached there holds, except for what was
    /// invalidated since. All code on paths between the two must have been emitted already, so the block cannot be the
    /// head of a loop.
    pub(super) fn switch_to_saved(&mut self, block: Block, saved: &CacheState) {
        self.builder.switch_to_block(block);
        self.cache = saved.cache.clone();
        for invalidation in &self.invalidations[saved.invalidations..] {
            self.cache.invalidate(invalidation);
        }
    }

    /// Whether a value is that of a cached word, so that it is defined on every path to this point.
    pub(super) fn is_cached(&self, value: Value) -> bool {
        self.cache.words.values().any(|word| *word == value)
    }

    /// Emits code that runs if a condition holds.
    pub(super) fn emit_if(&mut self, condition: Value, emit: impl FnOnce(&mut Self)) {
        let region = self.begin_if(condition);
        emit(self);
        self.end_if(region);
    }

    /// Branches on a condition, and continues where it holds, up to [`end_if`](Self::end_if).
    pub(super) fn begin_if(&mut self, condition: Value) -> IfRegion {
        let [then, done] = [(); 2].map(|()| self.builder.create_block());
        let saved = self.save_state();
        self.builder.ins().brif(condition, then, &[], done, &[]);
        self.switch_to_successor(then);
        IfRegion { saved, done }
    }

    /// Merges with the path on which the condition does not hold.
    pub(super) fn end_if(&mut self, region: IfRegion) {
        self.builder.ins().jump(region.done, &[]);
        self.switch_to_saved(region.done, &region.saved);
    }

    /// Drops cached values that may no longer hold.
    pub(super) fn invalidate(&mut self, invalidation: Invalidation) {
        self.cache.invalidate(&invalidation);
        self.invalidations.push(invalidation);
    }

    /// Drops consecutive words of the frame that a runtime call may have written.
    pub(super) fn invalidate_words(&mut self, first: FrameSlot, count: usize) {
        (first..).take(count).for_each(|slot| self.invalidate(Invalidation::Word(slot)));
    }

    /// A word of the frame: a constant of the plan, forwarded from an earlier load or store, or loaded.
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

    /// Loads a word of the frame, or of the slot that the parameter is in.
    fn load_uncached(&mut self, ty: Type, slot: FrameSlot) -> Value {
        match self.cache.parameters.get(&slot) {
            Some((words, at)) => self.load(ty, *words, 8 * at),
            None => {
                self.dead_stores.note_read(slot);
                self.load(ty, self.frame, 8 * slot as usize)
            }
        }
    }

    /// Sets the current instance: from here on, `width` frame slots from `own` on stand for the parameters in its slot.
    pub(super) fn cache_parameters(&mut self, own: FrameSlot, width: usize, words: Value) {
        self.invalidate_words(own, width);
        self.cache.parameters.clear();
        for (at, slot) in (own..).take(width).enumerate() {
            self.cache.parameters.insert(slot, (words, PARAMS + at));
        }
    }

    /// A runtime call will read these words of the frame: parameters are written there, and stores to them are kept.
    pub(super) fn flush_for_runtime(&mut self, first: FrameSlot, count: usize) {
        for slot in (first..).take(count) {
            self.dead_stores.note_read(slot);
            if self.cache.parameters.contains_key(&slot) {
                let word = self.load_slot(slot);
                self.store(word, self.frame, 8 * slot as usize);
            }
        }
    }

    /// The same for a runtime call that may read any word of the frame.
    pub(super) fn flush_all_for_runtime(&mut self) {
        self.dead_stores.keep_all();
        for slot in self.cache.parameters.keys().copied().collect::<Vec<_>>() {
            self.flush_for_runtime(slot, 1);
        }
    }

    /// The same as [`load_slot`](Self::load_slot), as a float.
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

    /// Stores an integer or a float to the frame, and caches it.
    pub(super) fn store_slot(&mut self, slot: FrameSlot, value: Value) {
        let store = self.store(value, self.frame, 8 * slot as usize);
        self.dead_stores.note_store(slot, store);
        self.invalidate(Invalidation::Word(slot));
        let is_float = self.builder.func.dfg.value_type(value) == F64;
        let cached = if is_float { &mut self.cache.floats } else { &mut self.cache.words };
        cached.insert(slot, value);
    }

    /// Loads a word of the frame that a runtime call has just written.
    pub(super) fn reload(&mut self, slot: FrameSlot) -> Value {
        self.load(I64, self.frame, 8 * slot as usize)
    }

    /// The ranges of two floats, if both are known.
    pub(super) fn float_ranges(&self, a: FrameSlot, b: FrameSlot) -> Option<(FloatRange, FloatRange)> {
        let range = |slot: FrameSlot| match self.plan.constants.contains(&slot) {
            true => FloatRange::of(f64::from_bits(self.plan.frame[slot as usize])),
            false => self.cache.ranges.get(&slot).copied(),
        };
        Some((range(a)?, range(b)?))
    }

    /// Notes the range of a float that was just stored.
    pub(super) fn cache_range(&mut self, slot: FrameSlot, range: FloatRange) {
        self.cache.ranges.insert(slot, range);
    }

    /// Loads the word at an offset in bytes from the context, and caches it.
    pub(super) fn context_word(&mut self, offset: usize) -> Value {
        if let Some(word) = self.cache.context_words.get(&offset) {
            return *word;
        }
        let word = self.load(I64, self.context, offset);
        self.cache.context_words.insert(offset, word);
        word
    }
}

/// Dead-store elimination: stores to temporaries of programs, which are removed unless something reads the slot.
#[derive(Default)]
pub(super) struct DeadStores {
    /// Slots that others read than the program that stores to them: cells and keys. Stores to them are always kept.
    shared: HashSet<FrameSlot>,
    /// Slots that are loaded from memory, by machine code or by a runtime call.
    read: HashSet<FrameSlot>,
    /// Stores to other slots.
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

    /// Keeps all stores so far: a runtime call may read any of them.
    pub(super) fn keep_all(&mut self) {
        self.stores.clear();
    }

    /// The stores to slots that nothing reads.
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
