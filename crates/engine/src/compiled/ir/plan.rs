//! A compiled specification: everything about its evaluation that is known before the first event.

use std::collections::BTreeSet;

use fairstream_core::Kind;
use rtlola_frontend::mir::{Expression, Type};

use super::aggregate::Aggregate;
use super::counter::TickCounter;
use super::fold::Fold;
use super::layout::{Leaf, Member};
use super::op::{Activation, FrameSlot, Program, RareOp};
use super::window::WindowPlan;

/// The result of lowering. Streams, families, programs and so on refer to each other by their index here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Cell>,
    /// For each input what becomes dirty when its value changes.
    pub(crate) input_dependents: Vec<Vec<Dependent>>,
    /// For each input the windows over its values.
    pub(crate) input_windows: Vec<Vec<usize>>,
    /// The output streams, in the order of the specification.
    pub(crate) streams: Vec<StreamPlan>,
    pub(crate) families: Vec<FamilyPlan>,
    pub(crate) grouped: Vec<GroupedPlan>,
    pub(crate) scans: Vec<ScanPlan>,
    pub(crate) windows: Vec<WindowPlan>,
    pub(crate) programs: Vec<Program>,
    pub(crate) rare_ops: Vec<RareOp>,
    /// Activation conditions of clauses.
    pub(crate) activations: Vec<Activation>,
    /// The frame before the first event, with the constants in it.
    pub(crate) frame: Vec<u64>,
    /// The words of the frame that are constants.
    pub(crate) constants: BTreeSet<FrameSlot>,
    /// String constants; each is interned with its index.
    pub(crate) string_constants: Vec<String>,
    /// What may be done at an event, in order.
    pub(crate) at_event: Vec<Task>,
    /// Clocks that start with the monitor: the period in nanoseconds, and what may be done at a tick.
    pub(crate) clocks: Vec<(u64, Vec<Task>)>,
    /// Clocks that start with instances.
    pub(crate) instance_timers: Vec<InstanceTimer>,
    /// The `fresh` flags of cells that an expression reads. Others need not be maintained.
    pub(crate) asked_fresh: BTreeSet<FrameSlot>,
}

/// The streams of a family that clocks of their instances evaluate with the same period: they share one deadline for
/// each instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceTimer {
    pub(crate) family: usize,
    /// Nanoseconds.
    pub(crate) period: u64,
    pub(crate) streams: Vec<usize>,
}

/// Where an input, or a stream without instances, has its latest value in the frame.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The flag of whether it has a value.
    pub(crate) present: FrameSlot,
    /// The flag of whether the value is of this instant.
    pub(crate) fresh: FrameSlot,
    /// The first word of the value.
    pub(crate) value: FrameSlot,
    /// Words of a value.
    pub(crate) width: usize,
    /// The leaves of a value with the offset of their words.
    pub(crate) leaves: Vec<(usize, Leaf)>,
    /// How many values are stored, the latest included.
    pub(crate) depth: usize,
}

/// Something to do for a family or a stream. Families are spawned and closed, streams are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Spawn(usize),
    Evaluate(usize),
    Close(usize),
}

/// Streams with the same parameters, spawn and close share their slots, so that an instance of one finds the instance
/// of another with the same parameters in its own slot, without a lookup.
#[derive(Clone, Debug)]
pub(crate) struct FamilyPlan {
    /// The streams, at least one.
    pub(crate) members: Vec<usize>,
    pub(crate) is_parameterised: bool,
    /// Words of the parameters.
    pub(crate) param_width: usize,
    /// Words of a slot, without the links of indexes.
    pub(crate) stride: usize,
    /// `None` if the streams exist from the start.
    pub(crate) spawn: Option<SpawnPlan>,
    /// `None` if instances never close.
    pub(crate) close: Option<ClosePlan>,
    /// The evaluation layer of the spawn.
    pub(crate) spawn_layer: usize,
    /// For each secondary index the words of the parameters that are its key.
    pub(crate) indexes: Vec<Vec<usize>>,
    /// Whether a member reads a window whose clock starts with the instance, so that spawn times are stored.
    pub(crate) knows_its_spawn: bool,
    /// The clocks that start with its instances, as indices into [`Plan::instance_timers`].
    pub(crate) instance_timers: Vec<usize>,
}

impl Plan {
    /// Whether events try to spawn the same instances of a family again and again, so that a cache of recent lookups
    /// pays. So it is where instances stand for groups. Instances that an access path finds stand for individuals.
    pub(crate) fn is_revisited(&self, family: usize) -> bool {
        let plan = &self.families[family];
        let has_path =
            |member: &usize| self.streams[*member].eval.clauses.iter().any(|clause| clause.path.is_some());
        plan.is_parameterised && plan.close.is_none() && !plan.members.iter().any(has_path)
    }

    /// The stream of a family that errors name.
    pub(crate) fn first_member(&self, family: usize) -> usize {
        self.families[family].members.first().copied().unwrap_or_default()
    }

    /// The family of a reader.
    pub(crate) fn family_of(&self, reader: Reader) -> usize {
        match reader {
            Reader::Stream(stream) => self.streams[stream].family,
            Reader::Family(family) => family,
        }
    }

    /// Whether a guard or a close condition is checked when an instance of a family is spawned.
    pub(crate) fn checks_at_spawn(&self, family: usize) -> bool {
        let family = &self.families[family];
        let spawn_guard = |member: &usize| self.streams[*member].eval.spawn_guard;
        family.close.as_ref().is_some_and(|close| close.is_checked_at_spawn)
            || family.members.iter().any(|member| spawn_guard(member).is_some())
    }
}

impl FamilyPlan {
    /// Words of a slot, with the links of indexes.
    pub(crate) fn slot_words(&self) -> usize {
        self.stride + self.indexes.len()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct StreamPlan {
    pub(crate) name: String,
    pub(crate) is_trigger: bool,
    /// The message of a trigger whose own message is empty.
    pub(crate) condition: String,
    /// The type of its values.
    pub(crate) ty: Type,
    /// The types of its parameters.
    pub(crate) params: Vec<Type>,
    pub(crate) param_names: Vec<String>,
    /// The leaves of the parameters with the offset of their words.
    pub(crate) param_leaves: Vec<(usize, Leaf)>,
    /// The leaves of a value with the offset of their words.
    pub(crate) value_leaves: Vec<(usize, Leaf)>,
    /// Where the parameters of the instance that is being evaluated are in the frame.
    pub(crate) own: FrameSlot,
    /// Words of the parameters.
    pub(crate) param_width: usize,
    /// Words of a value.
    pub(crate) width: usize,
    /// How many values of an instance are stored, the latest included.
    pub(crate) depth: usize,
    /// Where its value is in the frame, if it has no parameters.
    pub(crate) cell: Option<Cell>,
    pub(crate) family: usize,
    /// Where its words are in a slot of the family.
    pub(crate) member: Member,
    pub(crate) eval: EvalPlan,
    /// The evaluation layer: streams of lower layers are evaluated before it.
    pub(crate) eval_layer: usize,
    /// What becomes dirty when a value changes.
    pub(crate) dependents: Vec<Dependent>,
    /// The grouped aggregates over its instances.
    pub(crate) grouped: Vec<usize>,
    /// The windows over its values.
    pub(crate) windows: Vec<usize>,
    /// Whether an expression asks if the latest value of an instance is of this instant.
    pub(crate) stores_fresh: bool,
    /// Whether a scan aggregates over the instances with a value of this instant.
    pub(crate) lists_fresh: bool,
    /// Whether its family stores spawn times, for windows whose clock starts with the instance.
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

    /// Where the program leaves a new value in the frame.
    pub(crate) fn result(&self) -> std::ops::Range<usize> {
        let from = self.eval.result as usize;
        from..from + self.width
    }
}

/// When something is done. Periods are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pacing {
    /// At events with these inputs.
    Event(Activation),
    /// At every tick of a clock that starts with the monitor.
    Global(u64),
    /// At every tick of a clock that starts with the instance.
    Local(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct SpawnPlan {
    pub(crate) pacing: Pacing,
    /// Computes the key, and yields if there is an instance to spawn. `None` if there always is one and its key is an
    /// input.
    pub(crate) program: Option<usize>,
    /// The parameters of the new instance.
    pub(crate) key: FrameSlot,
}

#[derive(Clone, Debug)]
pub(crate) struct EvalPlan {
    pub(crate) pacing: Pacing,
    /// Yields if there is a new value.
    pub(crate) program: usize,
    /// Where the program leaves a new value.
    pub(crate) result: FrameSlot,
    pub(crate) clauses: Vec<ClausePlan>,
    /// Whether an instance is evaluated only after a change of something that it reads.
    pub(crate) incremental: bool,
    /// Whether it reads its own previous value.
    pub(crate) reads_itself: bool,
    /// A flag that the program sets when the first conjuncts of its condition hold. An instance for which they do not
    /// hold is not evaluated before something that they read has changed.
    pub(crate) guard: Option<FrameSlot>,
    /// Yields if the conjuncts of the guard hold. `None` if they cannot be evaluated at an arbitrary time.
    pub(crate) spawn_guard: Option<usize>,
    /// If all it does is count the ticks of its clock: the counter.
    pub(crate) counter: Option<TickCounter>,
    /// Of a counter: the ticks since the spawn at which a comparison in one of its dependents changes.
    pub(crate) thresholds: Vec<u64>,
    /// The windows that it reads. The result of a window that is not empty changes with time alone.
    pub(crate) windows: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClausePlan {
    /// The activation condition, if it differs from that of the stream.
    pub(crate) activation: Option<usize>,
    /// `None` if the condition pins no parameter.
    pub(crate) path: Option<Path>,
}

/// An access path: finds the instances that a condition can hold for, by the parameters that it pins to a key.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Computes the key. `None` if the key is an input, which is in the frame already.
    pub(crate) program: Option<usize>,
    /// Where the key is in the frame.
    pub(crate) key: FrameSlot,
    pub(crate) route: Route,
    /// The names of the pinned parameters.
    pub(crate) pinned: Vec<String>,
}

/// The index that an access path uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The index over all parameters.
    Lookup,
    /// A secondary index of the family, over some of them.
    Index(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct ClosePlan {
    pub(crate) pacing: Pacing,
    /// Yields if the instance closes.
    pub(crate) program: usize,
    pub(crate) path: Option<Path>,
    /// Whether the condition of an instance is checked only after a change of something that it reads.
    pub(crate) incremental: bool,
    /// Whether the condition can be checked at the spawn. Most often it does not hold then, and need not be checked
    /// before something that it reads has changed.
    pub(crate) is_checked_at_spawn: bool,
}

/// A reader of a value that changes, and which of its instances become dirty then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dependent {
    pub(crate) reader: Reader,
    pub(crate) selector: Selector,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A stream, whose evaluation reads the value.
    Stream(usize),
    /// A family, whose close condition reads the value.
    Family(usize),
}

/// The instances of a reader that depend on a changed value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector {
    /// All instances, or the stream itself if it has none.
    All,
    /// The instance in the same slot as the changed one.
    Slot,
    /// The instance whose parameters are these words of the changed instance's or group's key.
    Instance(Vec<usize>),
    /// The instances that a secondary index of the reader's family finds by these words of the key.
    Index(usize, Vec<usize>),
}

/// Grouped aggregates over the instances of a stream that have the same key and the same filter.
#[derive(Clone, Debug)]
pub(crate) struct GroupedPlan {
    /// The stream whose instances are aggregated.
    pub(crate) target: usize,
    /// Words of the target's parameters that are the key of a group.
    pub(crate) key_words: Vec<usize>,
    /// Yields if an instance is aggregated, which depends on its parameters alone. `None` if all are.
    pub(crate) filter: Option<usize>,
    /// Where the filter reads the parameters of an instance in the frame.
    pub(crate) lambda: FrameSlot,
    pub(crate) aggregates: Vec<Aggregate>,
    /// For each aggregate what becomes dirty when it changes.
    pub(crate) dependents: Vec<Vec<Dependent>>,
    /// The names of the key parameters, for explanations.
    pub(crate) key_names: Vec<String>,
    /// The text of the filter, for explanations.
    pub(crate) filter_text: Option<String>,
    /// The conjuncts of the filter. Aggregations with the same filter share a plan.
    pub(crate) fixed: Vec<Expression>,
}

impl GroupedPlan {
    /// The families that read a group by an instance that never closes, each with the words of the group's key that are
    /// its parameters. A group can cache the slots of these readers.
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

/// An aggregation that is computed on read from every instance.
#[derive(Clone, Debug)]
pub(crate) struct ScanPlan {
    /// The stream whose instances are aggregated.
    pub(crate) target: usize,
    /// Whether only instances with a value of this instant are aggregated.
    pub(crate) only_fresh: bool,
    /// Yields if an instance is aggregated. `None` if all are.
    pub(crate) condition: Option<usize>,
    /// Where the condition reads the parameters of an instance in the frame.
    pub(crate) lambda: FrameSlot,
    pub(crate) fold: Fold,
    /// If the result is an integer of fewer than 64 bits: whether it is signed, and its bits.
    pub(crate) range: Option<(bool, u8)>,
    /// Why the aggregate is not updated incrementally, for explanations.
    pub(crate) reason: String,
    /// The stream that reads it.
    pub(crate) reader: usize,
}
