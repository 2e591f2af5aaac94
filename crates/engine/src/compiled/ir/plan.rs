//! A compiled specification: everything about its evaluation that is known before the first event.

use std::collections::BTreeSet;

use fairstream_core::Kind;
use rtlola_frontend::mir::{Expression, Type};

use super::aggregate::Aggregate;
use super::counter::TickCounter;
use super::fold::Fold;
use super::layout::Leaf;
use super::layout::Member;
use super::op::{Activation, FrameSlot, Program, RareOp};
use super::window::WindowPlan;

#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Cell>,
    pub(crate) input_dependents: Vec<Vec<Dependent>>,
    pub(crate) input_windows: Vec<Vec<usize>>,
    pub(crate) streams: Vec<StreamPlan>,
    pub(crate) families: Vec<FamilyPlan>,
    pub(crate) grouped: Vec<GroupedPlan>,
    pub(crate) scans: Vec<ScanPlan>,
    pub(crate) windows: Vec<WindowPlan>,
    pub(crate) programs: Vec<Program>,
    pub(crate) rare_ops: Vec<RareOp>,
    pub(crate) activations: Vec<Activation>,
    /// The frame before the first event: constants are in their words, ...
    pub(crate) frame: Vec<u64>,
    /// ... which are these.
    pub(crate) constants: BTreeSet<FrameSlot>,
    /// String constants; each is interned with its index.
    pub(crate) string_constants: Vec<String>,
    /// What may be done at an event, in order.
    pub(crate) at_event: Vec<Task>,
    /// Clocks that start with the monitor: a period and what may be done then.
    pub(crate) clocks: Vec<(u64, Vec<Task>)>,
    /// Clocks that start with instances.
    pub(crate) instance_timers: Vec<InstanceTimer>,
    /// Places of the frame that say that something is of this instant, as far as somebody asks.
    pub(crate) asked_fresh: BTreeSet<FrameSlot>,
}

/// Streams of a family that are evaluated by clocks of their instances with the same period: what is due for one is
/// due for all.
#[derive(Clone, Debug)]
pub(crate) struct InstanceTimer {
    pub(crate) family: usize,
    pub(crate) period: u64,
    pub(crate) streams: Vec<usize>,
}

/// Where a stream without instances, or an input, has its latest value in the frame.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Whether it has a value.
    pub(crate) present: FrameSlot,
    /// Whether that is of this instant.
    pub(crate) fresh: FrameSlot,
    pub(crate) value: FrameSlot,
    pub(crate) width: usize,
    pub(crate) leaves: Vec<(usize, Leaf)>,
    /// How many values are remembered.
    pub(crate) depth: usize,
}

/// Families are spawned and closed, streams are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Spawn(usize),
    Evaluate(usize),
    Close(usize),
}

/// Streams that are spawned by the same words, and closed by the same or never, share their slots:
/// what one stream's instance reads of another's with the same parameters is right beside it.
#[derive(Clone, Debug)]
pub(crate) struct FamilyPlan {
    pub(crate) members: Vec<usize>,
    pub(crate) is_parameterised: bool,
    pub(crate) param_width: usize,
    /// How many words a slot has, without the links of indexes.
    pub(crate) stride: usize,
    pub(crate) spawn: Option<SpawnPlan>,
    pub(crate) close: Option<ClosePlan>,
    pub(crate) spawn_layer: usize,
    /// Words of the parameters by which instances are found, beside all of them.
    pub(crate) indexes: Vec<Vec<usize>>,
    /// Whether it reads windows whose clock starts with its instances.
    pub(crate) knows_its_spawn: bool,
    /// The clocks that start with its instances, by their numbers in the plan.
    pub(crate) instance_timers: Vec<usize>,
}

impl Plan {
    /// Whether events meet the same instances of a family again and again: groups of people rather than people, whom
    /// events look for.
    pub(crate) fn is_revisited(&self, family: usize) -> bool {
        let plan = &self.families[family];
        let is_looked_for =
            |member: &usize| self.streams[*member].eval.clauses.iter().any(|clause| clause.path.is_some());
        plan.is_parameterised && plan.close.is_none() && !plan.members.iter().any(is_looked_for)
    }
}

impl Plan {
    /// The stream of a family that errors name.
    pub(crate) fn first_member(&self, family: usize) -> usize {
        self.families[family].members.first().copied().unwrap_or_default()
    }

    /// The family whose instances read.
    pub(crate) fn family_of(&self, reader: Reader) -> usize {
        match reader {
            Reader::Stream(stream) => self.streams[stream].family,
            Reader::Family(family) => family,
        }
    }

    /// Whether there is something to look at when an instance of a family is spawned.
    pub(crate) fn checks_at_spawn(&self, family: usize) -> bool {
        let family = &self.families[family];
        let spawn_guard = |member: &usize| self.streams[*member].eval.spawn_guard;
        family.close.as_ref().is_some_and(|close| close.is_checked_at_spawn)
            || family.members.iter().any(|member| spawn_guard(member).is_some())
    }
}

impl FamilyPlan {
    /// How many words a slot has.
    pub(crate) fn slot_words(&self) -> usize {
        self.stride + self.indexes.len()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StreamPlan {
    pub(crate) name: String,
    pub(crate) is_trigger: bool,
    /// What a trigger without a message says instead.
    pub(crate) condition: String,
    pub(crate) ty: Type,
    pub(crate) params: Vec<Type>,
    pub(crate) param_names: Vec<String>,
    pub(crate) param_leaves: Vec<(usize, Leaf)>,
    pub(crate) value_leaves: Vec<(usize, Leaf)>,
    /// Where the parameters of the instance at hand are in the frame.
    pub(crate) own: FrameSlot,
    pub(crate) param_width: usize,
    pub(crate) width: usize,
    pub(crate) depth: usize,
    /// Where its value is, if it has no parameters.
    pub(crate) cell: Option<Cell>,
    pub(crate) family: usize,
    pub(crate) member: Member,
    pub(crate) eval: EvalPlan,
    pub(crate) eval_layer: usize,
    /// Selector must be evaluated again when a value changes.
    pub(crate) dependents: Vec<Dependent>,
    pub(crate) grouped: Vec<usize>,
    /// Windows over its values.
    pub(crate) windows: Vec<usize>,
    /// Whether somebody asks if its latest value is of this instant.
    pub(crate) stores_fresh: bool,
    /// Whether somebody aggregates over the instances with a value of this instant.
    pub(crate) lists_fresh: bool,
    /// Whether it reads windows whose clock starts with its instances.
    pub(crate) knows_its_spawn: bool,
}

impl StreamPlan {
    pub(crate) fn is_parameterised(&self) -> bool {
        self.cell.is_none()
    }

    /// The kind of its verdicts.
    pub(crate) fn verdict_kind(&self) -> Kind {
        if self.is_trigger { Kind::Trigger } else { Kind::Value }
    }

    /// Where a new value is in the frame.
    pub(crate) fn result(&self) -> std::ops::Range<usize> {
        let from = self.eval.result as usize;
        from..from + self.width
    }
}

/// When something is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pacing {
    Event(Activation),
    Global(u64),
    /// From the spawn of the instance on.
    Local(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct SpawnPlan {
    pub(crate) pacing: Pacing,
    /// Yields if there is an instance to spawn; without one there always is.
    pub(crate) program: Option<usize>,
    pub(crate) key: FrameSlot,
}

#[derive(Clone, Debug)]
pub(crate) struct EvalPlan {
    pub(crate) pacing: Pacing,
    /// Yields if there is a new value.
    pub(crate) program: usize,
    pub(crate) result: FrameSlot,
    pub(crate) clauses: Vec<ClausePlan>,
    /// Whether only instances need be evaluated for which something has changed.
    pub(crate) incremental: bool,
    /// Whether its own value before is among what it reads.
    pub(crate) reads_itself: bool,
    /// A word that the program sets once the first of its conditions hold. Where they do not, an
    /// instance need not be evaluated before something that they read has changed.
    pub(crate) guard: Option<FrameSlot>,
    /// Yields if they hold; there is none if that cannot be asked at any time.
    pub(crate) spawn_guard: Option<usize>,
    /// If all it does is count the ticks of its clock ...
    pub(crate) counter: Option<TickCounter>,
    /// ... after how many of them its readers must look again.
    pub(crate) thresholds: Vec<u64>,
    /// Windows that it reads: while there are values in them, they change by themselves.
    pub(crate) windows: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClausePlan {
    /// If it differs from that of the stream.
    pub(crate) activation: Option<usize>,
    pub(crate) path: Option<Path>,
}

/// The instances that a condition can hold for: those whose parameters are the key's.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Computes the key, unless it is in its place already.
    pub(crate) program: Option<usize>,
    pub(crate) key: FrameSlot,
    pub(crate) route: Route,
    /// Names of the parameters that are pinned.
    pub(crate) pinned: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// All parameters.
    Lookup,
    /// Some of them.
    Index(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct ClosePlan {
    pub(crate) pacing: Pacing,
    /// Yields if the instance closes.
    pub(crate) program: usize,
    pub(crate) path: Option<Path>,
    /// Whether only instances need be looked at for which something has changed, ...
    pub(crate) incremental: bool,
    /// ... and whether an instance can be looked at when it is spawned: most often nothing has happened to it, and it
    /// need not be looked at before something does.
    pub(crate) is_checked_at_spawn: bool,
}

/// Selector reads something, and which of its instances do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dependent {
    pub(crate) reader: Reader,
    pub(crate) selector: Selector,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A stream, to evaluate.
    Stream(usize),
    /// A family, to close.
    Family(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector {
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
pub(crate) struct GroupedPlan {
    pub(crate) target: usize,
    /// Words of the target's parameters that make the key.
    pub(crate) key_words: Vec<usize>,
    /// Yields if an instance counts, by its parameters alone.
    pub(crate) filter: Option<usize>,
    /// Where the filter looks for the parameters.
    pub(crate) lambda: FrameSlot,
    pub(crate) aggregates: Vec<Aggregate>,
    /// For each measure.
    pub(crate) dependents: Vec<Vec<Dependent>>,
    /// In words, for people.
    pub(crate) key_names: Vec<String>,
    pub(crate) filter_text: Option<String>,
    /// The filter itself, to tell tallies apart.
    pub(crate) fixed: Vec<Expression>,
}

impl GroupedPlan {
    /// Selector reads a group and never goes away: families, and the words of a group's key that are their parameters.
    pub(crate) fn readers(&self, plan: &Plan) -> Vec<(usize, &[usize])> {
        let mut readers = Vec::new();
        for dependent in self.dependents.iter().flatten() {
            let (Reader::Stream(stream), Selector::Instance(words)) = (dependent.reader, &dependent.selector)
            else {
                continue;
            };
            let reader = (plan.streams[stream].family, words.as_slice());
            if plan.families[reader.0].close.is_none() && !readers.contains(&reader) {
                readers.push(reader);
            }
        }
        readers
    }
}

/// An aggregation that looks at every instance when it is read.
#[derive(Clone, Debug)]
pub(crate) struct ScanPlan {
    pub(crate) target: usize,
    pub(crate) only_fresh: bool,
    pub(crate) condition: Option<usize>,
    pub(crate) lambda: FrameSlot,
    pub(crate) fold: Fold,
    pub(crate) range: Option<(bool, u8)>,
    /// In words, for people.
    pub(crate) reason: String,
    pub(crate) reader: usize,
}
