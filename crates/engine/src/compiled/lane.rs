//! The short way to a new value, which most streams can take: those whose value is one word of which nobody
//! asks for any but the latest, and over which there is no window.

use super::code::Slot;
use super::fault::Fault;
use super::instances::{PARAMS, flag};
use super::instant::{Evaluator, Failed, is_plain};
use super::machine::run_here;
use super::notify::{Changed, notify};
use super::plan::{Plan, Reader, StreamPlan, Watcher, Who};
use super::state::State;

/// What the evaluation of a stream needs, side by side.
pub(super) struct Lane {
    pub(super) program: usize,
    pub(super) family: usize,
    /// Where the parameters go, ...
    pub(super) own: Slot,
    /// ... and how many words they have.
    pub(super) params: usize,
    pub(super) result: Slot,
    pub(super) home: Home,
    pub(super) remembers: bool,
    /// Whether somebody is told each time of who holds a value.
    pub(super) repeats: bool,
    /// Whether an evaluation has consequences beside those of a new value.
    pub(super) has_more: bool,
    pub(super) tallies: Vec<Feed>,
    pub(super) watchers: Vec<Watch>,
}

/// Where the latest value is.
#[derive(Clone, Copy)]
pub(super) enum Home {
    Cell { present: Slot, fresh: Slot, value: Slot },
    Slot { state: usize, value: usize },
}

/// A tally over the stream.
pub(super) struct Feed {
    tally: usize,
    /// Where in a slot the words of its key are.
    places: Vec<usize>,
    /// For each measure.
    watchers: Vec<Vec<Watch>>,
}

/// Who must be evaluated again when something changes.
pub(super) enum Watch {
    /// A stream without instances, or all instances of one.
    All(usize),
    /// The instance of a stream in the same slot.
    Slot { stream: usize, at: usize },
    /// The one whose only parameter is a word of the key.
    One { stream: usize, family: usize, at: usize, place: usize },
    /// Somebody else.
    Other(Watcher),
}

impl Lane {
    /// `None` if a stream must take the long way.
    pub(super) fn of(plan: &Plan, stream: &StreamPlan, tells: bool, repeats: bool) -> Option<Lane> {
        let eval = &stream.eval;
        let is_simple = stream.width == 1
            && stream.depth == 1
            && eval.guard.is_none()
            && eval.counter.is_none()
            && eval.windows.is_empty()
            && stream.windows.is_empty()
            && !stream.knows_fresh
            && !stream.lists_fresh
            && !stream.knows_its_spawn
            && stream.tallies.iter().all(|tally| plan.tallies[*tally].filter.is_none());
        if !is_simple || stream.cell.as_ref().is_some_and(|cell| cell.depth > 1) {
            return None;
        }
        let home = match &stream.cell {
            Some(cell) => Home::Cell { present: cell.present, fresh: cell.fresh, value: cell.value },
            None => Home::Slot { state: stream.member.state(), value: stream.member.value() },
        };
        let feed = |number: &usize| {
            let tally = &plan.tallies[*number];
            Feed {
                tally: *number,
                places: tally.places.iter().map(|place| PARAMS + place).collect(),
                watchers: tally.watchers.iter().map(|watchers| watches(plan, watchers)).collect(),
            }
        };
        Some(Lane {
            program: eval.program,
            family: stream.family,
            own: stream.own,
            params: stream.param_width,
            result: eval.result,
            home,
            remembers: eval.remembers,
            repeats: tells && repeats && eval.remembers,
            has_more: !is_plain(stream, tells, repeats),
            tallies: stream.tallies.iter().map(feed).collect(),
            watchers: watches(plan, &stream.watchers),
        })
    }
}

fn watches(plan: &Plan, watchers: &[Watcher]) -> Vec<Watch> {
    let watch = |watcher: &Watcher| {
        let Reader::Stream(stream) = watcher.reader else { return Watch::Other(watcher.clone()) };
        let (family, at) = (plan.streams[stream].family, plan.streams[stream].member.state());
        match &watcher.who {
            Who::All => Watch::All(stream),
            Who::Slot => Watch::Slot { stream, at },
            Who::Instance(places) => match places.as_slice() {
                [place] => Watch::One { stream, family, at, place: *place },
                _ => Watch::Other(watcher.clone()),
            },
            Who::Index(..) => Watch::Other(watcher.clone()),
        }
    };
    watchers.iter().map(watch).collect()
}

impl Evaluator {
    /// Evaluates a stream without instances, or one of its instances.
    pub(super) fn evaluate_one(&mut self, index: usize, slot: u32) -> Result<(), Box<Failed>> {
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        let Evaluator { plan, state, lanes, .. } = self;
        let Some(lane) = &lanes[index] else { return self.evaluate_in_full(index, slot) };
        state.current = slot;
        if lane.params > 0 {
            let words = state.families[lane.family].instances.words(slot);
            for (at, word) in (lane.own..).zip(&words[PARAMS..PARAMS + lane.params]) {
                state.frame[at as usize] = *word;
            }
        }
        let yields = run_here(plan, state, lane.program).map_err(|failure| Failed::new(index, failure))?;
        let new = state.frame[lane.result as usize];
        let (held, changed) = match lane.home {
            Home::Cell { present, fresh, value } => {
                let State { frame, streams, .. } = state;
                let held = std::mem::replace(&mut streams[index].holds, yields);
                let changed = yields && (frame[present as usize] == 0 || frame[value as usize] != new);
                if changed || (yields && !lane.remembers) {
                    frame[present as usize] = 1;
                    frame[fresh as usize] = 1;
                    frame[value as usize] = new;
                    self.fresh.push(fresh);
                }
                if changed {
                    mark_all(plan, state, &lane.watchers, Changed::Whole);
                }
                (held, changed)
            }
            Home::Slot { state: at, value } => {
                let words = state.families[lane.family].instances.words_mut(slot);
                let before = words[at];
                let held = before & flag::HOLDS != 0;
                if yields {
                    let old = (before >> 32 != 0).then_some(words[value]);
                    words[at] = before | flag::HOLDS | (1 << 32);
                    words[value] = new;
                    if old != Some(new) {
                        for feed in &lane.tallies {
                            feed.change(plan, state, lane.family, slot, old, new)
                                .map_err(|fault| Failed::outside(index, fault))?;
                        }
                        let instance = Changed::Instance { family: lane.family, slot };
                        mark_all(plan, state, &lane.watchers, instance);
                    }
                    (held, old != Some(new))
                } else {
                    words[at] = before & !flag::HOLDS;
                    (held, false)
                }
            }
        };
        let (repeats, has_more) = (lane.repeats, lane.has_more);
        if repeats && held != yields {
            self.hold(index, slot, yields);
        }
        if has_more {
            self.look_again(index, slot, yields, changed);
        }
        Ok(())
    }
}

impl Feed {
    /// An instance has another value.
    #[inline(always)]
    pub(super) fn change(
        &self,
        plan: &Plan,
        state: &mut State,
        family: usize,
        slot: u32,
        old: Option<u64>,
        new: u64,
    ) -> Result<(), Fault> {
        const FEW: usize = 4;
        let measures = &plan.tallies[self.tally].measures;
        let words = state.families[family].instances.words(slot);
        let tally = &mut state.tallies[self.tally];
        let mut few = [0; FEW];
        let many: Vec<u64>;
        let key = if self.places.len() <= FEW {
            few.iter_mut().zip(&self.places).for_each(|(to, place)| *to = words[*place]);
            &few[..self.places.len()]
        } else {
            many = self.places.iter().map(|place| words[*place]).collect();
            &many[..]
        };
        let group = tally.group(key, measures);
        let old = old.as_ref().map(std::slice::from_ref);
        let mut changed = tally.change(group, slot, old, Some(&[new]), measures)?;
        while changed != 0 {
            let watchers = &self.watchers[changed.trailing_zeros() as usize];
            changed &= changed - 1;
            mark_all(plan, state, watchers, Changed::Key(key));
        }
        Ok(())
    }
}

/// Something has changed: marks who must be evaluated again.
#[inline(always)]
fn mark_all(plan: &Plan, state: &mut State, watchers: &[Watch], changed: Changed<'_>) {
    for watch in watchers {
        let State { families, streams, .. } = state;
        match watch {
            Watch::All(stream) => streams[*stream].evaluate.all = true,
            Watch::Slot { stream, at } => {
                if let Changed::Instance { family, slot } = changed {
                    streams[*stream].mark(&mut families[family].instances, slot, *at);
                }
            }
            Watch::One { stream, family, at, place } => {
                let word = match changed {
                    Changed::Whole => 0,
                    Changed::Key(words) => words[*place],
                    Changed::Instance { family, slot } => families[family].instances.params(slot)[*place],
                };
                mark_one(state, *stream, *family, *at, word);
            }
            Watch::Other(watcher) => notify(state, plan, std::slice::from_ref(watcher), changed),
        }
    }
}

/// The instance of a stream must be evaluated again whose only parameter is a word.
#[inline(always)]
pub(super) fn mark_one(state: &mut State, stream: usize, family: usize, at: usize, word: u64) {
    let instances = &mut state.families[family].instances;
    if let Some(slot) = instances.find_word(word) {
        state.streams[stream].mark(instances, slot, at);
    }
}
