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
        let family = match reader {
            Reader::Stream(stream) => plan.streams[*stream].family,
            Reader::Family(family) => *family,
        };
        let State { families, streams, .. } = state;
        let family = &mut families[family];
        if let Who::Instance(places) | Who::Index(_, places) = who {
            scratch.clear();
            for place in places {
                scratch.push(key[*place]);
            }
        }
        let (mut next, index) = match who {
            Who::All => {
                match reader {
                    Reader::Stream(stream) => streams[*stream].evaluate.all = true,
                    Reader::Family(_) => family.close.all = true,
                }
                continue;
            }
            Who::Slot => (Some(slot), None),
            Who::Instance(_) => (family.instances.find(scratch), None),
            Who::Index(index, _) => (family.instances.first(*index, scratch), Some(*index)),
        };
        while let Some(slot) = next {
            match reader {
                Reader::Stream(stream) => {
                    streams[*stream].mark(&mut family.instances, slot, plan.streams[*stream].member);
                }
                Reader::Family(_) => family.mark_close(slot),
            }
            next = index.and_then(|index| family.instances.next(index, slot));
        }
    }
}
