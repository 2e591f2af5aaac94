//! Machine code for what is done at an event, a tick or a deadline.
//!
//! An event with certain inputs leads to the same steps each time, on words whose places are known, and so does a time at
//! which certain clocks strike. Of those that are likely, and of others once they have come often enough, the steps
//! become a [`Reaction`]: [`reaction`] writes the steps, [`evaluation`] what
//! a new value leads to, [`ending`] what the end of an instance does, [`lookup`] how instances are found, [`groups`] how
//! tallies hear of it, [`program`] the expressions, and [`memory`] lets all that be run. What is rare or long is a call back into Rust ([`calls`]).
//!
//! A reaction does what [`Evaluator::step`](super::instant::Evaluator::step) does with the same steps, and must stay
//! so: differential tests run both. All memory that it reads and writes it finds through the [`Context`] that it is
//! given: the frame, the inputs of the batch, the slots of instances, the groups of tallies, and what the state of a
//! stream says about who must be evaluated. It relies on this:
//!
//! - Places in the frame and in a slot come from the plan, slots from the tables of instances, which are never wrong.
//! - Slots and clocks move when an instance is spawned, groups when there is a new one, inputs with the next batch, and
//!   at no other time. Whoever does that says so in [`Places`], and things are found anew before machine code goes on.
//! - A list of slots that it goes through does not change meanwhile: new values mark slots, and list none.
//! - A reaction is dropped when what it was written for is no longer so: who is told, and of what.

mod calls;
mod ending;
mod evaluation;
mod groups;
mod lookup;
mod memory;
mod program;
mod reaction;

use super::columns::Column;
use super::instant::Evaluator;
use super::local_clock::LocalClock;
use super::state::{FamilyState, StreamState};
use super::table::Table;
use super::tally::Tally;
pub(super) use memory::Entry;
pub(super) use reaction::Reaction;

/// After how many events with the same inputs machine code is worth its price, which is a few milliseconds.
pub(super) const OFTEN: u32 = 2000;

/// What a reaction is given.
#[repr(C)]
pub(super) struct Context {
    evaluator: *mut Evaluator,
    frame: *mut u64,
    streams: *mut StreamState,
    families: *mut FamilyState,
    /// The row of the batch.
    row: usize,
    /// For each input where its words are.
    inputs: *const usize,
    /// For each family where its slots are, the numbers of those that somebody tried to spawn again, and how many there
    /// are.
    slots: *const [usize; 3],
    /// For each table, family by family, its [layout](Table::layout).
    tables: *const [usize; 4],
    /// For each tally where its groups are, the numbers of those that were found last, and the places of instances.
    groups: *const [usize; 3],
    /// For each chime the slots of the instances that are due, and how many there are.
    struck: *const [usize; 2],
    /// For each chime its [layout](LocalClock::layout).
    clocks: *const [usize; 3],
    /// The slots that were listed by a call.
    listed: *mut u32,
    /// The words of the group that was found by a call.
    found: *mut u64,
}

/// How many bytes of a context say where things of a family are, ...
const SLOTS: usize = size_of::<[usize; 3]>();
/// ... those of a table, ...
const TABLE: usize = size_of::<[usize; 4]>();
/// ... and those of a chime's clock.
const CLOCK: usize = size_of::<[usize; 3]>();

/// Where things are in memory.
pub(super) struct Places {
    inputs: Vec<usize>,
    slots: Vec<[usize; 3]>,
    tables: Vec<[usize; 4]>,
    groups: Vec<[usize; 3]>,
    struck: Vec<[usize; 2]>,
    clocks: Vec<[usize; 3]>,
    /// For each family the slots whose close condition is looked at, and then those that end.
    closing: Vec<Vec<u32>>,
    /// What must be found anew.
    pub(super) inputs_moved: bool,
    pub(super) slots_moved: bool,
    pub(super) groups_moved: bool,
    pub(super) clocks_moved: bool,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            inputs: Vec::new(),
            slots: Vec::new(),
            tables: Vec::new(),
            groups: Vec::new(),
            struck: Vec::new(),
            clocks: Vec::new(),
            closing: Vec::new(),
            inputs_moved: true,
            slots_moved: true,
            groups_moved: true,
            clocks_moved: true,
        }
    }
}

impl Evaluator {
    /// Finds what has moved.
    #[inline]
    fn find_places(&mut self) {
        let Evaluator { places, state, arrived, .. } = self;
        if !(places.inputs_moved | places.slots_moved | places.groups_moved | places.clocks_moved) {
            return;
        }
        if std::mem::take(&mut places.inputs_moved) {
            places.inputs.clear();
            places.inputs.extend(arrived.columns.iter().map(Column::address));
        }
        if std::mem::take(&mut places.slots_moved) {
            places.slots.clear();
            places.closing.resize(state.families.len(), Vec::new());
            let address = |family: &mut FamilyState| {
                let instances = &mut family.instances;
                [instances.address(), instances.recent_address(), instances.census_address()]
            };
            places.slots.extend(state.families.iter_mut().map(address));
            places.tables.clear();
            let tables = state.families.iter_mut().flat_map(|family| family.instances.tables());
            places.tables.extend(tables.map(Table::layout));
        }
        if std::mem::take(&mut places.groups_moved) {
            places.groups.clear();
            let address =
                |tally: &mut Tally| [tally.address(), tally.recent_address(), tally.places_address()];
            places.groups.extend(state.tallies.iter_mut().map(address));
        }
        if std::mem::take(&mut places.clocks_moved) {
            places.clocks.clear();
            places.clocks.extend(state.chimes.iter_mut().map(LocalClock::layout));
        }
    }
}

impl Context {
    fn new(evaluator: &mut Evaluator) -> Context {
        evaluator.find_places();
        Context {
            frame: evaluator.state.frame.as_mut_ptr(),
            streams: evaluator.state.streams.as_mut_ptr(),
            families: evaluator.state.families.as_mut_ptr(),
            row: 0,
            inputs: evaluator.places.inputs.as_ptr(),
            slots: evaluator.places.slots.as_ptr(),
            tables: evaluator.places.tables.as_ptr(),
            groups: evaluator.places.groups.as_ptr(),
            struck: evaluator.places.struck.as_ptr(),
            clocks: evaluator.places.clocks.as_ptr(),
            listed: std::ptr::null_mut(),
            found: std::ptr::null_mut(),
            evaluator,
        }
    }

    /// For a row of the batch.
    #[inline]
    fn turn_to(&mut self, row: usize, evaluator: &mut Evaluator) {
        self.renew(evaluator);
        self.row = row;
        self.frame = evaluator.state.frame.as_mut_ptr();
        self.streams = evaluator.state.streams.as_mut_ptr();
        self.families = evaluator.state.families.as_mut_ptr();
        self.evaluator = evaluator;
    }

    /// After a call that may have moved things.
    #[inline]
    fn renew(&mut self, evaluator: &mut Evaluator) {
        evaluator.find_places();
        self.slots = evaluator.places.slots.as_ptr();
        self.tables = evaluator.places.tables.as_ptr();
        self.groups = evaluator.places.groups.as_ptr();
        self.clocks = evaluator.places.clocks.as_ptr();
    }
}
