//! Change propagation: what reads something that has changed is marked dirty, and evaluated when its step comes.

use super::cx::Cx;
use crate::compiled::ir::plan::{Dependent, Plan, Reader, Selector};
use crate::compiled::ir::update_rule::ResolvedDependent;
use crate::compiled::store::state::Store;

/// What has changed. Its key words select the dependent instances.
#[derive(Clone, Copy)]
pub(crate) enum ChangeSource<'a> {
    /// Something without instances.
    Whole,
    /// Something that is kept for a key.
    Key(&'a [u64]),
    /// A group of a grouped aggregate.
    Group { grouped: usize, group: usize },
    /// An instance of a family.
    Instance { family: usize, slot: u32 },
}

impl Cx<'_> {
    /// Marks the dependents of an instance of a stream.
    #[inline]
    pub(super) fn mark_dependents_of(&mut self, stream: usize, slot: u32) {
        let plan = &self.plan.streams[stream];
        let source = ChangeSource::Instance { family: plan.family, slot };
        mark_dependents(self.store, self.plan, &plan.dependents, source);
    }

    /// An input has a value other than before.
    pub(crate) fn mark_input_dependents(&mut self, input: usize) {
        mark_dependents(self.store, self.plan, &self.plan.input_dependents[input], ChangeSource::Whole);
    }

    /// A stream without instances, or an instance of a stream, has changed.
    pub(crate) fn mark_dependent(&mut self, dependent: &ResolvedDependent, stream: usize, slot: u32) {
        let plan = &self.plan.streams[stream];
        let source = match plan.cell {
            Some(_) => ChangeSource::Whole,
            None => ChangeSource::Instance { family: plan.family, slot },
        };
        mark_resolved(self.store, self.plan, std::slice::from_ref(dependent), source);
    }

    /// A group has changed.
    pub(crate) fn mark_group_dependent(
        &mut self,
        dependent: &ResolvedDependent,
        grouped: usize,
        group: usize,
    ) {
        let source = ChangeSource::Group { grouped, group };
        mark_resolved(self.store, self.plan, std::slice::from_ref(dependent), source);
    }

    /// An instance of a stream is dirty whose flag is set already.
    pub(crate) fn push_dirty(&mut self, stream: usize, slot: u32) {
        let instances = &self.store.families[self.plan.streams[stream].family].instances;
        self.store.streams[stream].dirty.push(slot, instances.slots());
    }

    /// The close condition of an instance is dirty whose flag is set already.
    pub(crate) fn push_dirty_close(&mut self, family: usize, slot: u32) {
        let family = &mut self.store.families[family];
        family.close_dirty.push(slot, family.instances.slots());
    }
}

/// Marks dependents dirty, by the plan.
#[inline]
pub(crate) fn mark_dependents(
    store: &mut Store,
    plan: &Plan,
    dependents: &[Dependent],
    source: ChangeSource<'_>,
) {
    for Dependent { reader, selector } in dependents {
        match selector {
            Selector::All => match *reader {
                Reader::Stream(stream) => store.streams[stream].dirty.mark_all(),
                Reader::Family(family) => store.families[family].close_dirty.mark_all(),
            },
            Selector::Slot => {
                if let ChangeSource::Instance { slot, .. } = source {
                    mark(store, plan, *reader, slot);
                }
            }
            Selector::Instance(words) => {
                let instances = &store.families[plan.family_of(*reader)].instances;
                let found = match words.as_slice() {
                    [at] => instances.find(&[key_word(store, source, *at)]),
                    words => with_key(store, source, words, |key| instances.find(key)),
                };
                if let Some(slot) = found {
                    mark(store, plan, *reader, slot);
                }
            }
            Selector::Index(index, words) => {
                let family = plan.family_of(*reader);
                let instances = &store.families[family].instances;
                let mut next = with_key(store, source, words, |key| instances.first(*index, key));
                while let Some(slot) = next {
                    mark(store, plan, *reader, slot);
                    next = store.families[family].instances.next(*index, slot);
                }
            }
        }
    }
}

/// Marks resolved dependents dirty.
#[inline]
pub(crate) fn mark_resolved(
    store: &mut Store,
    plan: &Plan,
    dependents: &[ResolvedDependent],
    source: ChangeSource<'_>,
) {
    for dependent in dependents {
        let Store { families, streams, .. } = store;
        match dependent {
            ResolvedDependent::All(stream) => streams[*stream].dirty.mark_all(),
            ResolvedDependent::Slot { stream, at } => {
                if let ChangeSource::Instance { family, slot } = source {
                    streams[*stream].mark(&mut families[family].instances, slot, *at);
                }
            }
            ResolvedDependent::Instance { stream, family, at, key_words, .. } => {
                let instances = &store.families[*family].instances;
                let found = with_key(store, source, key_words, |key| instances.find(key));
                if let Some(slot) = found {
                    store.streams[*stream].mark(&mut store.families[*family].instances, slot, *at);
                }
            }
            ResolvedDependent::Other(dependent) => {
                mark_dependents(store, plan, std::slice::from_ref(dependent), source);
            }
        }
    }
}

#[inline]
fn mark(store: &mut Store, plan: &Plan, reader: Reader, slot: u32) {
    match reader {
        Reader::Stream(stream) => {
            let of = &plan.streams[stream];
            store.streams[stream].mark(&mut store.families[of.family].instances, slot, of.member.state());
        }
        Reader::Family(family) => store.families[family].mark_close(slot),
    }
}

/// Calls `look_up` with some words of the key of what has changed.
#[inline]
fn with_key<T>(
    store: &Store,
    source: ChangeSource<'_>,
    words: &[usize],
    look_up: impl FnOnce(&[u64]) -> T,
) -> T {
    with_words(words, |at| key_word(store, source, *at), look_up)
}

/// Calls `look_up` with the words at some positions, without allocating for up to eight of them.
#[inline(always)]
pub(crate) fn with_words<T>(
    positions: &[usize],
    word: impl Fn(&usize) -> u64,
    look_up: impl FnOnce(&[u64]) -> T,
) -> T {
    const INLINE: usize = 8;
    match positions {
        [] => look_up(&[]),
        [at] => look_up(&[word(at)]),
        [at, next] => look_up(&[word(at), word(next)]),
        positions if positions.len() <= INLINE => {
            let mut key = [0; INLINE];
            key.iter_mut().zip(positions).for_each(|(to, at)| *to = word(at));
            look_up(&key[..positions.len()])
        }
        positions => look_up(&positions.iter().map(word).collect::<Vec<_>>()),
    }
}

#[inline]
fn key_word(store: &Store, source: ChangeSource<'_>, at: usize) -> u64 {
    match source {
        ChangeSource::Whole => 0,
        ChangeSource::Key(words) => words[at],
        ChangeSource::Group { grouped, group } => store.grouped[grouped].key(group)[at],
        ChangeSource::Instance { family, slot } => store.families[family].instances.params(slot)[at],
    }
}
