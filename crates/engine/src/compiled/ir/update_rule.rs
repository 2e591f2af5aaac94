//! Update rules: how a new value of a simple stream is stored and propagated, with everything resolved that the general
//! path looks up in the plan each time.

use super::layout::PARAMS;
use super::op::FrameSlot;
use super::plan::{Dependent, Plan, Reader, Selector, StreamPlan};
use super::window::LastDecisive;

/// Which verdicts of a stream are emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emission {
    /// Its values, or its triggers.
    pub(crate) values: bool,
    /// Spawns and closes of its instances.
    pub(crate) lifecycle: bool,
    /// Also values that incremental evaluation kept instead of computing them again.
    pub(crate) repeats: bool,
    /// A value that was kept is no reason to evaluate a tick.
    pub(crate) is_companion: bool,
}

impl Emission {
    /// Nothing.
    pub(crate) const NONE: Emission =
        Emission { values: false, lifecycle: false, repeats: true, is_companion: false };
}

/// The update of a stream whose value is one word, of which only the latest is read, and over which all windows are
/// [one word](LastDecisive).
pub(crate) struct UpdateRule {
    pub(crate) program: usize,
    pub(crate) family: usize,
    /// Where the parameters are in the frame.
    pub(crate) own: FrameSlot,
    /// Words of parameters.
    pub(crate) params: usize,
    /// Where the program leaves its result.
    pub(crate) result: FrameSlot,
    pub(crate) location: ValueLocation,
    pub(crate) incremental: bool,
    /// Whether the held value is emitted at every evaluation of the stream.
    pub(crate) emits_held: bool,
    /// Whether an evaluation has consequences other than those of a new value.
    pub(crate) has_follow_up: bool,
    /// Whether the only such consequence is that a new value makes the instance itself dirty.
    pub(crate) reschedules_on_change: bool,
    /// If the only such consequence is that the instance stays dirty while its guard holds: the guard.
    pub(crate) reschedules_while: Option<FrameSlot>,
    pub(crate) windows: Vec<LastDecisive>,
    pub(crate) groups: Vec<GroupUpdate>,
    pub(crate) dependents: Vec<ResolvedDependent>,
    /// The dependents of an instance that closes: those in the same slot close with it.
    pub(crate) dependents_on_close: Vec<ResolvedDependent>,
}

/// Where the latest value is stored.
#[derive(Clone, Copy)]
pub(crate) enum ValueLocation {
    /// In the frame: a stream without instances.
    Cell { present: FrameSlot, fresh: FrameSlot, value: FrameSlot },
    /// In the slot of the instance: its state word and its value.
    Slot { state: usize, value: usize },
}

/// A grouped aggregate over the stream.
pub(crate) struct GroupUpdate {
    pub(crate) grouped: usize,
    /// The words of a slot that are the key of its group.
    pub(crate) key_words: Vec<usize>,
    /// For each aggregate.
    pub(crate) dependents: Vec<Vec<ResolvedDependent>>,
}

/// What becomes dirty when something changes.
#[derive(Debug, PartialEq)]
pub(crate) enum ResolvedDependent {
    /// A stream without instances, or all instances of one.
    All(usize),
    /// The instance of a stream in the same slot, with its state word.
    Slot { stream: usize, at: usize },
    /// The instance whose parameters are these words of the key. If it never closes, groups cache its slot: `cached` is
    /// the position of that word, counted from the end of the group.
    Instance { stream: usize, family: usize, at: usize, key_words: Vec<usize>, cached: Option<usize> },
    /// Anything else, by the general path.
    Other(Dependent),
}

/// The dependents of a tick counter.
pub(crate) struct CounterDependents {
    /// Dirty when a tick crosses one of their thresholds.
    pub(crate) dependents: Vec<ResolvedDependent>,
    /// Dirty when an instance closes, without those that close with it.
    pub(crate) dependents_on_close: Vec<ResolvedDependent>,
}

/// Whether the evaluation of a stream has consequences other than those of a new value.
pub(crate) fn has_follow_up(stream: &StreamPlan, emission: Emission) -> bool {
    let eval = &stream.eval;
    eval.guard.is_some()
        || if eval.incremental {
            !eval.windows.is_empty() || eval.reads_itself || (emission.values && !emission.repeats)
        } else {
            emission.values || stream.lists_fresh
        }
}

impl UpdateRule {
    /// `None` if the stream needs the general path.
    pub(crate) fn new(plan: &Plan, stream: &StreamPlan, emission: Emission) -> Option<UpdateRule> {
        let eval = &stream.eval;
        let is_simple = stream.width == 1
            && stream.depth == 1
            && eval.counter.is_none()
            && eval.windows.is_empty()
            && !stream.stores_fresh
            && !stream.lists_fresh
            && !stream.knows_its_spawn
            && stream.grouped.iter().all(|grouped| plan.grouped[*grouped].filter.is_none());
        if !is_simple || stream.cell.as_ref().is_some_and(|cell| cell.depth > 1) {
            return None;
        }
        let windows = stream.windows.iter().map(|window| plan.windows[*window].last_decisive);
        let windows = windows.collect::<Option<Vec<LastDecisive>>>()?;
        let location = match &stream.cell {
            Some(cell) => ValueLocation::Cell { present: cell.present, fresh: cell.fresh, value: cell.value },
            None => ValueLocation::Slot { state: stream.member.state(), value: stream.member.value() },
        };
        let Emission { values, repeats, .. } = emission;
        Some(UpdateRule {
            program: eval.program,
            family: stream.family,
            own: stream.own,
            params: stream.param_width,
            result: eval.result,
            location,
            incremental: eval.incremental,
            emits_held: values && repeats && eval.incremental,
            has_follow_up: has_follow_up(stream, emission),
            reschedules_on_change: eval.incremental && eval.reads_itself && (!values || repeats),
            reschedules_while: eval.guard.filter(|_| !eval.incremental && !values),
            windows,
            groups: stream.grouped.iter().map(|grouped| GroupUpdate::new(plan, *grouped)).collect(),
            dependents: resolve(plan, &stream.dependents, &[]),
            dependents_on_close: resolve_on_close(plan, stream),
        })
    }

    /// Whether a new value of an instance can make other instances of `stream` dirty.
    pub(crate) fn marks_others_of(&self, stream: usize) -> bool {
        let of_groups = self.groups.iter().flat_map(|group| group.dependents.iter().flatten());
        self.dependents.iter().chain(of_groups).any(|dependent| match dependent {
            ResolvedDependent::Slot { .. } => false,
            ResolvedDependent::All(reader) | ResolvedDependent::Instance { stream: reader, .. } => {
                *reader == stream
            }
            ResolvedDependent::Other(dependent) => dependent.reader == Reader::Stream(stream),
        })
    }
}

impl GroupUpdate {
    fn new(plan: &Plan, number: usize) -> GroupUpdate {
        let grouped = &plan.grouped[number];
        let readers = grouped.readers(plan);
        GroupUpdate {
            grouped: number,
            key_words: grouped.key_words.iter().map(|word| PARAMS + word).collect(),
            dependents: grouped.dependents.iter().map(|all| resolve(plan, all, &readers)).collect(),
        }
    }
}

impl CounterDependents {
    pub(crate) fn new(plan: &Plan, stream: &StreamPlan) -> CounterDependents {
        CounterDependents {
            dependents: resolve(plan, &stream.dependents, &[]),
            dependents_on_close: resolve_on_close(plan, stream),
        }
    }
}

fn resolve_on_close(plan: &Plan, stream: &StreamPlan) -> Vec<ResolvedDependent> {
    let others = stream.dependents.iter().filter(|dependent| dependent.selector != Selector::Slot);
    resolve(plan, &others.cloned().collect::<Vec<_>>(), &[])
}

/// `readers` are the families whose slots groups cache, with their key words.
fn resolve(plan: &Plan, dependents: &[Dependent], readers: &[(usize, &[usize])]) -> Vec<ResolvedDependent> {
    let one = |dependent: &Dependent| {
        let Reader::Stream(stream) = dependent.reader else {
            return ResolvedDependent::Other(dependent.clone());
        };
        let (family, at) = (plan.streams[stream].family, plan.streams[stream].member.state());
        match &dependent.selector {
            Selector::All => ResolvedDependent::All(stream),
            Selector::Slot => ResolvedDependent::Slot { stream, at },
            Selector::Instance(words) => {
                let is_it = |reader: &(usize, &[usize])| *reader == (family, words.as_slice());
                let cached = readers.iter().position(is_it).map(|position| readers.len() - position);
                ResolvedDependent::Instance { stream, family, at, key_words: words.clone(), cached }
            }
            Selector::Index(..) => ResolvedDependent::Other(dependent.clone()),
        }
    };
    dependents.iter().map(one).collect()
}
