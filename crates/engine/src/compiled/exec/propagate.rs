//! Something has changed: who reads it is marked, to be evaluated when its turn comes.

use crate::compiled::exec::instant::Evaluator;
use crate::compiled::ir::plan::{Dependent, Plan, Reader, Selector};
use crate::compiled::store::state::State;

/// What has changed, which says whom it concerns.
#[derive(Clone, Copy)]
pub(crate) enum Changed<'a> {
    /// Something without instances.
    Whole,
    /// What is kept for a key.
    Key(&'a [u64]),
    /// What is kept for a group of a tally.
    Group { grouped: usize, group: usize },
    /// An instance of a stream in a family.
    Instance { family: usize, slot: u32 },
}

impl Evaluator {
    #[inline]
    pub(crate) fn mark_dependents_of(&mut self, index: usize, slot: u32) {
        let plan = &self.plan.streams[index];
        let changed = Changed::Instance { family: plan.family, slot };
        mark_dependents(&mut self.state, &self.plan, &plan.dependents, changed);
    }
}

/// Something has changed: marks who must be evaluated again.
#[inline]
pub(crate) fn mark_dependents(
    state: &mut State,
    plan: &Plan,
    dependents: &[Dependent],
    changed: Changed<'_>,
) {
    for Dependent { reader, selector } in dependents {
        match selector {
            Selector::All => match *reader {
                Reader::Stream(stream) => state.streams[stream].evaluate.all = true,
                Reader::Family(family) => state.families[family].close.all = true,
            },
            Selector::Slot => {
                if let Changed::Instance { slot, .. } = changed {
                    mark(state, plan, *reader, slot);
                }
            }
            Selector::Instance(places) => {
                let instances = &state.families[plan.family_of(*reader)].instances;
                let found = match places.as_slice() {
                    [place] => instances.find(&[word(state, changed, *place)]),
                    places => with_key(state, changed, places, |key| instances.find(key)),
                };
                if let Some(slot) = found {
                    mark(state, plan, *reader, slot);
                }
            }
            Selector::Index(index, places) => {
                let family = plan.family_of(*reader);
                let instances = &state.families[family].instances;
                let mut next = with_key(state, changed, places, |key| instances.first(*index, key));
                while let Some(slot) = next {
                    mark(state, plan, *reader, slot);
                    next = state.families[family].instances.next(*index, slot);
                }
            }
        }
    }
}

/// Looks something up by the words of what has changed at some places.
#[inline]
pub(crate) fn with_key<T>(
    state: &State,
    changed: Changed<'_>,
    places: &[usize],
    look_up: impl FnOnce(&[u64]) -> T,
) -> T {
    with_words(places, |place| word(state, changed, *place), look_up)
}

/// Looks something up by the words at some places.
#[inline(always)]
pub(crate) fn with_words<T>(
    places: &[usize],
    word: impl Fn(&usize) -> u64,
    look_up: impl FnOnce(&[u64]) -> T,
) -> T {
    const FEW: usize = 8;
    match places {
        [] => look_up(&[]),
        [place] => look_up(&[word(place)]),
        [place, next] => look_up(&[word(place), word(next)]),
        places if places.len() <= FEW => {
            let mut key = [0; FEW];
            key.iter_mut().zip(places).for_each(|(to, place)| *to = word(place));
            look_up(&key[..places.len()])
        }
        places => look_up(&places.iter().map(word).collect::<Vec<_>>()),
    }
}

/// A word of the key of what has changed.
#[inline]
fn word(state: &State, changed: Changed<'_>, place: usize) -> u64 {
    match changed {
        Changed::Whole => 0,
        Changed::Key(words) => words[place],
        Changed::Group { grouped, group } => state.grouped[grouped].key(group)[place],
        Changed::Instance { family, slot } => state.families[family].instances.params(slot)[place],
    }
}

#[inline]
fn mark(state: &mut State, plan: &Plan, reader: Reader, slot: u32) {
    match reader {
        Reader::Stream(stream) => {
            let of = &plan.streams[stream];
            state.streams[stream].mark(&mut state.families[of.family].instances, slot, of.member.state());
        }
        Reader::Family(family) => state.families[family].mark_close(slot),
    }
}
