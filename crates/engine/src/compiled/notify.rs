//! Something has changed: who reads it is marked, to be evaluated when its turn comes.

use super::instant::Evaluator;
use super::plan::{Plan, Reader, Watcher, Who};
use super::state::State;
use super::words::set;

impl Evaluator {
    pub(super) fn notify_instance(&mut self, index: usize, slot: u32) {
        let plan = &self.plan.streams[index];
        if plan.watchers.is_empty() {
            return;
        }
        set(&mut self.key, self.state.families[plan.family].instances.params(slot));
        notify(&mut self.state, &self.plan, &plan.watchers, &self.key, slot, &mut self.watched);
    }
}

/// Something with a key, in a slot, has changed: marks who must be evaluated again.
pub(super) fn notify(
    state: &mut State,
    plan: &Plan,
    watchers: &[Watcher],
    key: &[u64],
    slot: u32,
    scratch: &mut Vec<u64>,
) {
    for Watcher { reader, who } in watchers {
        match (who, *reader) {
            (Who::All, Reader::Stream(stream)) => state.streams[stream].evaluate.all = true,
            (Who::All, Reader::Family(family)) => state.families[family].close.all = true,
            (Who::Slot, reader) => mark(state, plan, reader, slot),
            (Who::Instance(places), reader) => {
                pick(scratch, key, places);
                let found = state.families[family_of(plan, reader)].instances.find(scratch);
                found.into_iter().for_each(|slot| mark(state, plan, reader, slot));
            }
            (Who::Index(index, places), reader) => {
                pick(scratch, key, places);
                let family = family_of(plan, reader);
                let mut next = state.families[family].instances.first(*index, scratch);
                while let Some(slot) = next {
                    mark(state, plan, reader, slot);
                    next = state.families[family].instances.next(*index, slot);
                }
            }
        }
    }
}

fn family_of(plan: &Plan, reader: Reader) -> usize {
    match reader {
        Reader::Stream(stream) => plan.streams[stream].family,
        Reader::Family(family) => family,
    }
}

/// The words of a key at some places.
fn pick(scratch: &mut Vec<u64>, key: &[u64], places: &[usize]) {
    scratch.clear();
    for place in places {
        scratch.push(key[*place]);
    }
}

fn mark(state: &mut State, plan: &Plan, reader: Reader, slot: u32) {
    match reader {
        Reader::Stream(stream) => {
            let of = &plan.streams[stream];
            state.streams[stream].mark(&mut state.families[of.family].instances, slot, of.member);
        }
        Reader::Family(family) => state.families[family].mark_close(slot),
    }
}
