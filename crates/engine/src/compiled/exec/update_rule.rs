//! The short way to a new value, which most streams can take: those whose value is one word of which nobody
//! asks for any but the latest, and over which there is no window that needs more than a word.

use crate::compiled::exec::bytecode::run_here;
use crate::compiled::exec::instant::{Evaluator, Failed, is_plain};
use crate::compiled::exec::propagate::{Changed, mark_dependents, with_key, with_words};
use crate::compiled::ir::op::FrameSlot;
use crate::compiled::ir::plan::{Dependent, Plan, Reader, Selector, StreamPlan};
use crate::compiled::store::slab::{PARAMS, flag};
use crate::compiled::store::state::State;
use crate::compiled::store::window::last_decisive::LastDecisive;

/// What the evaluation of a stream needs, side by side.
pub(crate) struct UpdateRule {
    pub(crate) program: usize,
    pub(crate) family: usize,
    /// Where the parameters go, ...
    pub(crate) own: FrameSlot,
    /// ... and how many words they have.
    pub(crate) params: usize,
    pub(crate) result: FrameSlot,
    pub(crate) location: ValueLocation,
    pub(crate) incremental: bool,
    /// Whether somebody is told each time of who holds a value.
    pub(crate) repeats: bool,
    /// Whether an evaluation has consequences beside those of a new value, ...
    pub(crate) has_follow_up: bool,
    /// ... whether these are no others than that it must look again at its own new value, ...
    pub(crate) reschedules_on_change: bool,
    /// ... or that it must look again while its first conditions hold, which this word says.
    pub(crate) reschedules_while: Option<FrameSlot>,
    /// Windows over it.
    pub(crate) windows: Vec<LastDecisive>,
    pub(crate) grouped: Vec<GroupUpdate>,
    pub(crate) dependents: Vec<ResolvedDependent>,
    /// Those that remain when an instance ends: whoever is in the same slot ends with it.
    pub(crate) dependents_on_close: Vec<ResolvedDependent>,
}

/// Where the latest value is.
#[derive(Clone, Copy)]
pub(crate) enum ValueLocation {
    Cell { present: FrameSlot, fresh: FrameSlot, value: FrameSlot },
    Slot { state: usize, value: usize },
}

/// A tally over the stream.
pub(crate) struct GroupUpdate {
    pub(crate) grouped: usize,
    /// Where in a slot the words of its key are.
    pub(crate) places: Vec<usize>,
    /// For each measure.
    pub(crate) dependents: Vec<Vec<ResolvedDependent>>,
}

/// Selector must be evaluated again when something changes.
#[derive(PartialEq)]
pub(crate) enum ResolvedDependent {
    /// A stream without instances, or all instances of one.
    All(usize),
    /// The instance of a stream in the same slot.
    Slot { stream: usize, at: usize },
    /// The one whose parameters are some words of the key. Where it never goes away, groups of a tally remember its
    /// slot: `kept` says where, counted from the end.
    Instance { stream: usize, family: usize, at: usize, places: Vec<usize>, kept: Option<usize> },
    /// Somebody else.
    Other(Dependent),
}

impl UpdateRule {
    /// `None` if a stream must take the long way.
    pub(crate) fn of(plan: &Plan, stream: &StreamPlan, tells: bool, repeats: bool) -> Option<UpdateRule> {
        let eval = &stream.eval;
        let is_simple = stream.width == 1
            && stream.depth == 1
            && eval.counter.is_none()
            && eval.windows.is_empty()
            && !stream.knows_fresh
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
        let group_update = |number: &usize| {
            let grouped = &plan.grouped[*number];
            let readers = grouped.readers(plan);
            GroupUpdate {
                grouped: *number,
                places: grouped.places.iter().map(|place| PARAMS + place).collect(),
                dependents: grouped
                    .dependents
                    .iter()
                    .map(|dependents| resolve_dependents(plan, dependents, &readers))
                    .collect(),
            }
        };
        Some(UpdateRule {
            program: eval.program,
            family: stream.family,
            own: stream.own,
            params: stream.param_width,
            result: eval.result,
            location,
            incremental: eval.incremental,
            repeats: tells && repeats && eval.incremental,
            has_follow_up: !is_plain(stream, tells, repeats),
            reschedules_on_change: eval.incremental && eval.reads_itself && (!tells || repeats),
            reschedules_while: eval.guard.filter(|_| !eval.incremental && !tells),
            windows,
            grouped: stream.grouped.iter().map(group_update).collect(),
            dependents: resolve_dependents(plan, &stream.dependents, &[]),
            dependents_on_close: dependents_left_on_close(plan, stream),
        })
    }

    /// Whether a new value of an instance may let others of the same stream look again.
    pub(crate) fn marks_others_of(&self, stream: usize) -> bool {
        let of_tallies =
            self.grouped.iter().flat_map(|group_update| group_update.dependents.iter().flatten());
        self.dependents.iter().chain(of_tallies).any(|dependent| match dependent {
            ResolvedDependent::Slot { .. } => false,
            ResolvedDependent::All(reader) | ResolvedDependent::Instance { stream: reader, .. } => {
                *reader == stream
            }
            ResolvedDependent::Other(dependent) => dependent.reader == Reader::Stream(stream),
        })
    }

    /// An instance ends: its value no longer counts. Whether a tally may have lost a group.
    pub(crate) fn end(&self, plan: &Plan, state: &mut State, slot: u32) -> bool {
        let ValueLocation::Slot { state: at, value } = self.location else { return false };
        let words = state.families[self.family].instances.words(slot);
        if words[at] >> 32 == 0 {
            return false;
        }
        let old = Some(words[value]);
        for group_update in &self.grouped {
            let (group, changed) = group_update.count(plan, state, self.family, slot, old, None);
            group_update.tell(plan, state, group, changed);
            state.grouped[group_update.grouped].tidy(group);
        }
        mark_resolved(
            plan,
            state,
            &self.dependents_on_close,
            Changed::Instance { family: self.family, slot },
        );
        !self.grouped.is_empty()
    }
}

/// Selector must look again when an instance ends, and does not end with it.
pub(crate) fn dependents_left_on_close(plan: &Plan, stream: &StreamPlan) -> Vec<ResolvedDependent> {
    let others = stream.dependents.iter().filter(|dependent| dependent.selector != Selector::Slot);
    resolve_dependents(plan, &others.cloned().collect::<Vec<_>>(), &[])
}

/// `readers` are those whose slots are remembered.
pub(crate) fn resolve_dependents(
    plan: &Plan,
    dependents: &[Dependent],
    readers: &[(usize, &[usize])],
) -> Vec<ResolvedDependent> {
    let dependent = |dependent: &Dependent| {
        let Reader::Stream(stream) = dependent.reader else {
            return ResolvedDependent::Other(dependent.clone());
        };
        let (family, at) = (plan.streams[stream].family, plan.streams[stream].member.state());
        match &dependent.selector {
            Selector::All => ResolvedDependent::All(stream),
            Selector::Slot => ResolvedDependent::Slot { stream, at },
            Selector::Instance(places) => {
                let is_it = |reader: &(usize, &[usize])| *reader == (family, places.as_slice());
                let kept = readers.iter().position(is_it).map(|place| readers.len() - place);
                ResolvedDependent::Instance { stream, family, at, places: places.clone(), kept }
            }
            Selector::Index(..) => ResolvedDependent::Other(dependent.clone()),
        }
    };
    dependents.iter().map(dependent).collect()
}

impl Evaluator {
    /// Evaluates a stream without instances, or one of its instances.
    pub(crate) fn evaluate_one(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let Evaluator { plan, state, rules, .. } = self;
        let Some(rule) = &rules[index] else { return self.evaluate_in_full(index, slot) };
        state.current = slot;
        if rule.params > 0 {
            let words = state.families[rule.family].instances.words(slot);
            for (at, word) in (rule.own..).zip(&words[PARAMS..PARAMS + rule.params]) {
                state.frame[at as usize] = *word;
            }
        }
        let yields = run_here(plan, state, rule.program).map_err(|failure| Failed::new(index, failure))?;
        let new = state.frame[rule.result as usize];
        let (held, changed) = match rule.location {
            ValueLocation::Cell { present, fresh, value } => {
                let State { frame, streams, .. } = state;
                let held = std::mem::replace(&mut streams[index].holds, yields);
                let changed = yields && (frame[present as usize] == 0 || frame[value as usize] != new);
                if changed || (yields && !rule.incremental) {
                    frame[present as usize] = 1;
                    frame[fresh as usize] = 1;
                    frame[value as usize] = new;
                    self.fresh.push(fresh);
                }
                if changed {
                    mark_resolved(plan, state, &rule.dependents, Changed::Whole);
                }
                (held, changed)
            }
            ValueLocation::Slot { state: at, value } => {
                let words = state.families[rule.family].instances.words_mut(slot);
                let before = words[at];
                let held = before & flag::HOLDS != 0;
                if yields {
                    let old = (before >> 32 != 0).then_some(words[value]);
                    words[at] = before | flag::HOLDS | (1 << 32);
                    words[value] = new;
                    if old != Some(new) {
                        self.places.groups_moved = true;
                        for group_update in &rule.grouped {
                            group_update.change(plan, state, rule.family, slot, old, new);
                        }
                        let instance = Changed::Instance { family: rule.family, slot };
                        mark_resolved(plan, state, &rule.dependents, instance);
                    }
                    if !rule.windows.is_empty() {
                        let words = state.families[rule.family].instances.words_mut(slot);
                        rule.windows.iter().for_each(|window| window.accept(words, new, state.now));
                    }
                    (held, old != Some(new))
                } else {
                    words[at] = before & !flag::HOLDS;
                    (held, false)
                }
            }
        };
        let (repeats, has_follow_up) = (rule.repeats, rule.has_follow_up);
        if repeats && held != yields {
            self.hold(index, slot, yields);
        }
        if has_follow_up {
            self.reschedule_self(index, slot, yields, changed);
        }
        Ok(())
    }
}

impl GroupUpdate {
    /// An instance has another value.
    fn change(&self, plan: &Plan, state: &mut State, family: usize, slot: u32, old: Option<u64>, new: u64) {
        let (group, changed) = self.count(plan, state, family, slot, old, Some(new));
        self.tell(plan, state, group, changed);
    }

    /// Some measures of a group may be others.
    fn tell(&self, plan: &Plan, state: &mut State, group: usize, mut changed: u64) {
        while changed != 0 {
            let dependents = &self.dependents[changed.trailing_zeros() as usize];
            changed &= changed - 1;
            mark_resolved(plan, state, dependents, Changed::Group { grouped: self.grouped, group });
        }
    }

    /// The group that counts it, and a bit for each measure that may be another one.
    #[inline(always)]
    pub(crate) fn count(
        &self,
        plan: &Plan,
        state: &mut State,
        family: usize,
        slot: u32,
        old: Option<u64>,
        new: Option<u64>,
    ) -> (usize, u64) {
        let group = self.group(plan, state, family, slot);
        let [old, new] = [&old, &new].map(|word| word.as_ref().map(std::slice::from_ref));
        let aggregates = &plan.grouped[self.grouped].aggregates;
        (group, state.grouped[self.grouped].change(group, slot, old, new, aggregates))
    }

    /// The group of an instance.
    #[inline(always)]
    pub(crate) fn group(&self, plan: &Plan, state: &mut State, family: usize, slot: u32) -> usize {
        let words = state.families[family].instances.words(slot);
        let word = |place: &usize| words[*place];
        with_words(&self.places, word, |key| {
            state.grouped[self.grouped].group(key, &plan.grouped[self.grouped].aggregates)
        })
    }
}

/// Something has changed: marks who must be evaluated again.
#[inline]
pub(crate) fn mark_resolved(
    plan: &Plan,
    state: &mut State,
    dependents: &[ResolvedDependent],
    changed: Changed<'_>,
) {
    for dependent in dependents {
        let State { families, streams, .. } = state;
        match dependent {
            ResolvedDependent::All(stream) => streams[*stream].evaluate.all = true,
            ResolvedDependent::Slot { stream, at } => {
                if let Changed::Instance { family, slot } = changed {
                    streams[*stream].mark(&mut families[family].instances, slot, *at);
                }
            }
            ResolvedDependent::Instance { stream, family, at, places, .. } => {
                let found =
                    with_key(state, changed, places, |key| state.families[*family].instances.find(key));
                if let Some(slot) = found {
                    state.streams[*stream].mark(&mut state.families[*family].instances, slot, *at);
                }
            }
            ResolvedDependent::Other(dependent) => {
                mark_dependents(state, plan, std::slice::from_ref(dependent), changed)
            }
        }
    }
}
