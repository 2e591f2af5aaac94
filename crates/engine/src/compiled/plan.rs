//! A compiled specification: everything about its evaluation that is known before the first event.

use std::collections::BTreeSet;

use rtlola_frontend::mir::{Expression, Type};

use super::code::{Activation, Program, Slot, Slow};
use super::counter::Counter;
use super::fold::Fold;
use super::instances::Member;
use super::layout::Leaf;
use super::strings::Strings;
use super::tally::Measure;
use super::windows::WindowPlan;

#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Cell>,
    pub(super) input_watchers: Vec<Vec<Watcher>>,
    pub(super) input_windows: Vec<Vec<usize>>,
    pub(super) streams: Vec<StreamPlan>,
    pub(super) families: Vec<FamilyPlan>,
    pub(super) tallies: Vec<TallyPlan>,
    pub(super) scans: Vec<ScanPlan>,
    pub(super) windows: Vec<WindowPlan>,
    pub(super) programs: Vec<Program>,
    pub(super) slow: Vec<Slow>,
    pub(super) activations: Vec<Activation>,
    /// The frame before the first event: constants are in their places, ...
    pub(super) frame: Vec<u64>,
    /// ... which are these.
    pub(super) constants: BTreeSet<Slot>,
    pub(super) strings: Strings,
    /// What may be done at an event, in order.
    pub(super) at_event: Vec<Task>,
    /// Clocks that start with the monitor: a period and what may be done then.
    pub(super) clocks: Vec<(u64, Vec<Task>)>,
    /// Clocks that start with instances.
    pub(super) chimes: Vec<Chime>,
    /// Places of the frame that say that something is of this instant, as far as somebody asks.
    pub(super) asked_fresh: BTreeSet<Slot>,
}

/// Streams of a family that are evaluated by clocks of their instances with the same period: what is due for one is
/// due for all.
#[derive(Clone, Debug)]
pub(super) struct Chime {
    pub(super) family: usize,
    pub(super) period: u64,
    pub(super) streams: Vec<usize>,
}

/// Where a stream without instances, or an input, has its latest value in the frame.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Whether it has a value.
    pub(super) present: Slot,
    /// Whether that is of this instant.
    pub(super) fresh: Slot,
    pub(super) value: Slot,
    pub(super) width: usize,
    pub(super) leaves: Vec<(usize, Leaf)>,
    /// How many values are remembered.
    pub(super) depth: usize,
}

/// Families are spawned and closed, streams are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Spawn(usize),
    Evaluate(usize),
    Close(usize),
}

/// Streams that are spawned by the same words, and closed by the same or never, share their slots:
/// what one stream's instance reads of another's with the same parameters is right beside it.
#[derive(Clone, Debug)]
pub(super) struct FamilyPlan {
    pub(super) members: Vec<usize>,
    pub(super) is_parameterised: bool,
    pub(super) param_width: usize,
    /// How many words a slot has, without the links of indexes.
    pub(super) stride: usize,
    pub(super) spawn: Option<SpawnPlan>,
    pub(super) close: Option<ClosePlan>,
    pub(super) spawn_layer: usize,
    /// Words of the parameters by which instances are found, beside all of them.
    pub(super) indexes: Vec<Vec<usize>>,
    /// Whether it reads windows whose clock starts with its instances.
    pub(super) knows_its_spawn: bool,
    /// The clocks that start with its instances, by their numbers in the plan.
    pub(super) chimes: Vec<usize>,
}

impl Plan {
    /// Whether events meet the same instances of a family again and again: groups of people rather than people, whom
    /// events look for.
    pub(super) fn is_met_again(&self, family: usize) -> bool {
        let plan = &self.families[family];
        let is_looked_for =
            |member: &usize| self.streams[*member].eval.clauses.iter().any(|clause| clause.path.is_some());
        plan.is_parameterised && plan.close.is_none() && !plan.members.iter().any(is_looked_for)
    }
}

impl Plan {
    /// The family whose instances read.
    pub(super) fn family_of(&self, reader: Reader) -> usize {
        match reader {
            Reader::Stream(stream) => self.streams[stream].family,
            Reader::Family(family) => family,
        }
    }

    /// Whether there is something to look at when an instance of a family is spawned.
    pub(super) fn looks_at_spawn(&self, family: usize) -> bool {
        let family = &self.families[family];
        let first_look = |member: &usize| self.streams[*member].eval.first_look;
        family.close.as_ref().is_some_and(|close| close.looks_at_spawn)
            || family.members.iter().any(|member| first_look(member).is_some())
    }
}

impl FamilyPlan {
    /// How many words a slot has.
    pub(super) fn slot_words(&self) -> usize {
        self.stride + self.indexes.len()
    }
}

#[derive(Clone, Debug)]
pub(super) struct StreamPlan {
    pub(super) name: String,
    pub(super) is_trigger: bool,
    /// What a trigger without a message says instead.
    pub(super) condition: String,
    pub(super) ty: Type,
    pub(super) params: Vec<Type>,
    pub(super) param_names: Vec<String>,
    pub(super) param_leaves: Vec<(usize, Leaf)>,
    pub(super) value_leaves: Vec<(usize, Leaf)>,
    /// Where the parameters of the instance at hand are in the frame.
    pub(super) own: Slot,
    pub(super) param_width: usize,
    pub(super) width: usize,
    pub(super) depth: usize,
    /// Where its value is, if it has no parameters.
    pub(super) cell: Option<Cell>,
    pub(super) family: usize,
    pub(super) member: Member,
    pub(super) eval: EvalPlan,
    pub(super) eval_layer: usize,
    /// Who must be evaluated again when a value changes.
    pub(super) watchers: Vec<Watcher>,
    pub(super) tallies: Vec<usize>,
    /// Windows over its values.
    pub(super) windows: Vec<usize>,
    /// Whether somebody asks if its latest value is of this instant.
    pub(super) knows_fresh: bool,
    /// Whether somebody aggregates over the instances with a value of this instant.
    pub(super) lists_fresh: bool,
    /// Whether it reads windows whose clock starts with its instances.
    pub(super) knows_its_spawn: bool,
}

impl StreamPlan {
    pub(super) fn is_parameterised(&self) -> bool {
        self.cell.is_none()
    }

    /// Where a new value is in the frame.
    pub(super) fn result(&self) -> std::ops::Range<usize> {
        let from = self.eval.result as usize;
        from..from + self.width
    }
}

/// When something is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pacing {
    Event(Activation),
    Global(u64),
    /// From the spawn of the instance on.
    Local(u64),
}

#[derive(Clone, Debug)]
pub(super) struct SpawnPlan {
    pub(super) pacing: Pacing,
    /// Yields if there is an instance to spawn; without one there always is.
    pub(super) program: Option<usize>,
    pub(super) key: Slot,
}

#[derive(Clone, Debug)]
pub(super) struct EvalPlan {
    pub(super) pacing: Pacing,
    /// Yields if there is a new value.
    pub(super) program: usize,
    pub(super) result: Slot,
    pub(super) clauses: Vec<ClausePlan>,
    /// Whether only instances need be evaluated for which something has changed.
    pub(super) remembers: bool,
    /// Whether its own value before is among what it reads.
    pub(super) reads_itself: bool,
    /// A word that the program sets once the first of its conditions hold. Where they do not, an
    /// instance need not be evaluated before something that they read has changed.
    pub(super) guard: Option<Slot>,
    /// Yields if they hold; there is none if that cannot be asked at any time.
    pub(super) first_look: Option<usize>,
    /// If all it does is count the ticks of its clock ...
    pub(super) counter: Option<Counter>,
    /// ... after how many of them its readers must look again.
    pub(super) wakes: Vec<u64>,
    /// Windows that it reads: while there are values in them, they change by themselves.
    pub(super) windows: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct ClausePlan {
    /// If it differs from that of the stream.
    pub(super) activation: Option<usize>,
    pub(super) path: Option<Path>,
}

/// The instances that a condition can hold for: those whose parameters are the key's.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Computes the key, unless it is in its place already.
    pub(super) program: Option<usize>,
    pub(super) key: Slot,
    pub(super) route: Route,
    /// Names of the parameters that are pinned.
    pub(super) pinned: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// All parameters.
    Lookup,
    /// Some of them.
    Index(usize),
}

#[derive(Clone, Debug)]
pub(super) struct ClosePlan {
    pub(super) pacing: Pacing,
    /// Yields if the instance closes.
    pub(super) program: usize,
    pub(super) path: Option<Path>,
    /// Whether only instances need be looked at for which something has changed, ...
    pub(super) remembers: bool,
    /// ... and whether an instance can be looked at when it is spawned: most often nothing has happened to it, and it
    /// need not be looked at before something does.
    pub(super) looks_at_spawn: bool,
}

/// Who reads something, and which of its instances do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Watcher {
    pub(super) reader: Reader,
    pub(super) who: Who,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A stream, to evaluate.
    Stream(usize),
    /// A family, to close.
    Family(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Who {
    /// All instances, or the stream itself if it has none.
    All,
    /// The instance in the same slot.
    Slot,
    /// The instance whose parameters are these words of the changed thing's key.
    Instance(Vec<usize>),
    /// Those that an index finds by these words.
    Index(usize, Vec<usize>),
}

#[derive(Clone, Debug)]
pub(super) struct TallyPlan {
    pub(super) target: usize,
    /// Words of the target's parameters that make the key.
    pub(super) places: Vec<usize>,
    /// Yields if an instance counts, by its parameters alone.
    pub(super) filter: Option<usize>,
    /// Where the filter looks for the parameters.
    pub(super) lambda: Slot,
    pub(super) measures: Vec<Measure>,
    /// For each measure.
    pub(super) watchers: Vec<Vec<Watcher>>,
    /// In words, for people.
    pub(super) key_names: Vec<String>,
    pub(super) filter_text: Option<String>,
    /// The filter itself, to tell tallies apart.
    pub(super) fixed: Vec<Expression>,
}

impl TallyPlan {
    /// Who reads a group and never goes away: families, and the words of a group's key that are their parameters.
    pub(super) fn readers(&self, plan: &Plan) -> Vec<(usize, &[usize])> {
        let mut readers = Vec::new();
        for watcher in self.watchers.iter().flatten() {
            let (Reader::Stream(stream), Who::Instance(places)) = (watcher.reader, &watcher.who) else {
                continue;
            };
            let reader = (plan.streams[stream].family, places.as_slice());
            if plan.families[reader.0].close.is_none() && !readers.contains(&reader) {
                readers.push(reader);
            }
        }
        readers
    }
}

/// An aggregation that looks at every instance when it is read.
#[derive(Clone, Debug)]
pub(super) struct ScanPlan {
    pub(super) target: usize,
    pub(super) only_fresh: bool,
    pub(super) condition: Option<usize>,
    pub(super) lambda: Slot,
    pub(super) fold: Fold,
    pub(super) range: Option<(bool, u8)>,
    /// In words, for people.
    pub(super) reason: String,
    pub(super) reader: usize,
}
