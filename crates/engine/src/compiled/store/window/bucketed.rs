//! The contents of windows: the values of a stream in a span of time up to now, or its last few values.
//!
//! A window with the clock of the monitor cuts time into buckets, and stores one partial aggregate for each bucket that
//! is not empty. Windows whose clock starts with the reading instance have buckets of their own, so their readers share
//! one log of values instead. A window over a number of values stores these values.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::scalar::Scalar;
use crate::compiled::ir::window::{LastDecisive, WindowKind, WindowPlan};
use crate::compiled::store::aggregate::fold::Partial;
use crate::compiled::store::interner::Interner;

/// A time and an instant: of an event, or of the spawn of the instance that reads a window.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    /// Nanoseconds since the start of the monitor.
    pub(crate) time: u64,
    /// The number of the instant, which orders events at the same time.
    pub(crate) instant: u64,
}

/// The windows of one aggregation: one for each instance of the target.
#[derive(Clone, Default)]
pub(crate) struct WindowStore {
    /// The windows by slot of the target; at 0 if the target has no instances.
    windows: Vec<WindowContents>,
    /// The windows of instances that have closed, by their parameters: each with the time up to which it can be read.
    ended: HashMap<Vec<u64>, (u64, WindowContents)>,
    /// The times and keys of `ended` in order of time. An entry is stale if the instance was spawned again since.
    ending: VecDeque<(u64, Vec<u64>)>,
}

#[derive(Clone, Default)]
struct WindowContents {
    /// Partial aggregates, the earliest first.
    entries: VecDeque<WindowEntry>,
    /// Of a window over a number of values: how many it has received, up to that number.
    received: usize,
}

/// A partial aggregate: of a bucket, or of a single value.
#[derive(Clone, Debug)]
pub(crate) struct WindowEntry {
    /// The number of the bucket; in a log the time; 0 in a window over a number of values.
    pub(crate) at: u64,
    /// The instant of the value, which a log needs.
    pub(crate) instant: u64,
    pub(crate) partial: Partial,
}

/// The number of the bucket that a time belongs to. A bucket contains its upper border but not its lower one.
pub(crate) fn bucket(since_start: u64, size: u64) -> u64 {
    since_start.div_ceil(size)
}

impl WindowStore {
    /// Adds a value of the target, or of its instance in a slot, and drops the entries that have left the window.
    pub(crate) fn accept(
        &mut self,
        plan: &WindowPlan,
        slot: u32,
        value: &[u64],
        now: Stamp,
        interner: &Interner,
    ) -> Result<(), Fault> {
        let slot = slot as usize;
        if self.windows.len() <= slot {
            self.windows.resize_with(slot + 1, WindowContents::default);
        }
        let contents = &mut self.windows[slot];
        let partial = plan.fold.partial_of(value, now.time);
        match plan.kind {
            WindowKind::Buckets { size, count } => {
                let at = bucket(now.time, size);
                contents.expire(|entry| entry.at.saturating_add(count) <= at);
                match contents.entries.back_mut() {
                    Some(last) if last.at == at => {
                        let before = std::mem::replace(&mut last.partial, Partial::Count(0));
                        last.partial = plan.fold.join(before, partial, interner)?;
                    }
                    _ => contents.entries.push_back(WindowEntry { at, instant: now.instant, partial }),
                }
            }
            WindowKind::Log { .. } => {
                let duration = plan.duration();
                contents.expire(|entry| entry.at.saturating_add(duration) <= now.time);
                contents.entries.push_back(WindowEntry { at: now.time, instant: now.instant, partial });
            }
            WindowKind::Values { count } => {
                contents.received = (contents.received + 1).min(count);
                while contents.entries.len() >= count {
                    contents.entries.pop_front();
                }
                contents.entries.push_back(WindowEntry { at: 0, instant: 0, partial });
            }
        }
        Ok(())
    }

    /// Whether the result of the window over a target without instances stays the same until the next value: nothing is
    /// left in it to expire, and it does not wait for its first full span.
    pub(crate) fn is_settled(&self, plan: &WindowPlan, now: u64) -> bool {
        let last = self.windows.first().and_then(|contents| contents.entries.back());
        match plan.kind {
            WindowKind::Values { .. } => true,
            WindowKind::Buckets { size, count } => {
                let is_empty = last.is_none_or(|last| last.at.saturating_add(count) <= bucket(now, size));
                is_empty && (!plan.waits || now >= plan.duration())
            }
            WindowKind::Log { .. } => false,
        }
    }

    /// The result of a window at the time `now`, for a reader that was spawned at `since`. Without a slot the instance
    /// does not exist, and its key finds the window that it may have left behind. `None` if the window has no result yet.
    pub(crate) fn read(
        &self,
        plan: &WindowPlan,
        slot: Option<u32>,
        key: &[u64],
        since: Stamp,
        now: u64,
        interner: &Interner,
    ) -> Result<Option<Scalar>, Fault> {
        let contents = match slot {
            Some(slot) => self.windows.get(slot as usize),
            None => self.ended.get(key).filter(|(until, _)| now <= *until).map(|(_, contents)| contents),
        };
        let start = if matches!(plan.kind, WindowKind::Log { .. }) { since.time } else { 0 };
        let waiting = match plan.kind {
            WindowKind::Values { count } => {
                slot.is_some() && contents.map_or(0, |contents| contents.received) < count
            }
            // An instance that does not exist, and has left no window behind, is not waited for.
            WindowKind::Log { .. } if slot.is_none() && contents.is_none() => false,
            _ => now.saturating_sub(start) < plan.duration(),
        };
        if plan.waits && waiting {
            return Ok(None);
        }
        let Some(contents) = contents else { return Ok(plan.fold.empty()) };
        let is_inside = |entry: &&WindowEntry| match plan.kind {
            WindowKind::Buckets { size, count } => entry.at.saturating_add(count) > bucket(now, size),
            WindowKind::Log { size, count } => {
                entry.instant >= since.instant
                    && bucket(entry.at.saturating_sub(start), size).saturating_add(count)
                        > bucket(now.saturating_sub(start), size)
            }
            WindowKind::Values { .. } => true,
        };
        let mut whole: Option<Partial> = None;
        for entry in contents.entries.iter().filter(is_inside) {
            whole = Some(match whole {
                Some(whole) => plan.fold.join(whole, entry.partial.clone(), interner)?,
                None => entry.partial.clone(),
            });
        }
        plan.fold.result(whole)
    }

    /// Empties the window of an instance of the target that was spawned.
    pub(crate) fn spawn(&mut self, slot: u32, key: &[u64]) {
        if let Some(contents) = self.windows.get_mut(slot as usize) {
            *contents = WindowContents::default();
        }
        if !self.ended.is_empty() {
            self.ended.remove(key);
        }
    }

    /// Clears the window of an instance of the target that closes, and keeps its contents if they may still be read.
    pub(crate) fn close(&mut self, plan: &WindowPlan, slot: u32, key: &[u64], now: u64) {
        let Some(contents) = self.windows.get_mut(slot as usize) else { return };
        let contents = std::mem::take(contents);
        if plan.outlasts && !matches!(plan.kind, WindowKind::Values { .. }) && !contents.entries.is_empty() {
            self.keep(plan, contents, key, now);
        }
    }

    /// Keeps the contents of a one-word window whose instance closes, if they may still be read.
    pub(crate) fn close_last_decisive(
        &mut self,
        plan: &WindowPlan,
        last_decisive: &LastDecisive,
        word: u64,
        key: &[u64],
        now: u64,
    ) {
        if !plan.outlasts || word == 0 {
            return;
        }
        let partial = plan.fold.partial_of(&[last_decisive.decides.into()], now);
        let entries = VecDeque::from([WindowEntry { at: word - 1, instant: 0, partial }]);
        self.keep(plan, WindowContents { entries, received: 0 }, key, now);
    }

    /// Keeps the window of a closed instance for one span of time, after which its last value has left it. Drops the
    /// windows whose span is over.
    fn keep(&mut self, plan: &WindowPlan, contents: WindowContents, key: &[u64], now: u64) {
        while let Some((until, key)) = self.ending.front().filter(|(until, _)| *until < now) {
            // The instance may have been spawned and closed again since: then a later entry drops its window.
            if self.ended.get(key).is_some_and(|(ends, _)| ends == until) {
                self.ended.remove(key);
            }
            self.ending.pop_front();
        }
        let until = now.saturating_add(plan.duration());
        self.ended.insert(key.to_vec(), (until, contents));
        self.ending.push_back((until, key.to_vec()));
    }

    /// The entries of the window of an instance, the earliest first.
    pub(crate) fn entries(&self, slot: u32) -> impl ExactSizeIterator<Item = &WindowEntry> {
        self.windows.get(slot as usize).map(|contents| contents.entries.iter()).unwrap_or_default()
    }

    /// The windows of instances that have closed: parameters, the time up to which each can be read, and its entries.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (&[u64], u64, &VecDeque<WindowEntry>)> {
        self.ended.iter().map(|(key, (until, contents))| (key.as_slice(), *until, &contents.entries))
    }

    /// Gives an instance the entries that its window had at a time.
    ///
    /// # Errors
    /// They cannot be those of a window.
    pub(crate) fn restore(
        &mut self,
        plan: &WindowPlan,
        slot: u32,
        entries: Vec<WindowEntry>,
        now: Stamp,
    ) -> Result<(), &'static str> {
        validate(plan, &entries, now)?;
        let slot = slot as usize;
        if self.windows.len() <= slot {
            self.windows.resize_with(slot + 1, WindowContents::default);
        }
        let received = if matches!(plan.kind, WindowKind::Values { .. }) { entries.len() } else { 0 };
        self.windows[slot] = WindowContents { entries: entries.into(), received };
        Ok(())
    }

    /// Keeps the entries of the window of an instance that has closed. To be called in the order of `until`.
    ///
    /// # Errors
    /// They cannot be those of a window, or there is another one of this instance.
    pub(crate) fn restore_ended(
        &mut self,
        plan: &WindowPlan,
        key: Vec<u64>,
        until: u64,
        entries: Vec<WindowEntry>,
        now: Stamp,
    ) -> Result<(), &'static str> {
        validate(plan, &entries, now)?;
        let contents = WindowContents { entries: entries.into(), received: 0 };
        if self.ended.insert(key.clone(), (until, contents)).is_some() {
            return Err("an instance that has closed has two windows");
        }
        self.ending.push_back((until, key));
        Ok(())
    }

    /// The words that refer to interned strings: of each window its key, if its instance has closed, and its texts.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&[u64], Vec<u64>)> {
        let texts = |contents: &WindowContents| {
            contents.entries.iter().filter_map(|entry| entry.partial.text()).collect::<Vec<u64>>()
        };
        let live = self.windows.iter().map(move |contents| (&[][..], texts(contents)));
        live.chain(self.ended.iter().map(move |(key, (_, contents))| (key.as_slice(), texts(contents))))
    }
}

/// # Errors
/// An entry is of the future, entries are not in order, or there are more than a window has.
fn validate(plan: &WindowPlan, entries: &[WindowEntry], now: Stamp) -> Result<(), &'static str> {
    let latest = match plan.kind {
        WindowKind::Buckets { size, .. } => bucket(now.time, size),
        WindowKind::Log { .. } => now.time,
        WindowKind::Values { .. } => 0,
    };
    let most = if let WindowKind::Values { count } = plan.kind { count } else { usize::MAX };
    if entries.len() > most {
        return Err("a window has more values than it covers");
    }
    if entries.iter().any(|entry| entry.at > latest || entry.instant > now.instant) {
        return Err("a window has values of the future");
    }
    let is_ordered = |two: &[WindowEntry]| two[0].at <= two[1].at && two[0].instant <= two[1].instant;
    if !entries.windows(2).all(is_ordered) {
        return Err("a window has values that are not in order of time");
    }
    Ok(())
}

impl WindowContents {
    /// Drops the entries at the front that satisfy a predicate.
    fn expire(&mut self, is_past: impl Fn(&WindowEntry) -> bool) {
        while self.entries.front().is_some_and(&is_past) {
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compiled::ir::fold::{Fold, FoldOp};
    use crate::compiled::ir::layout::Leaf;

    const SLOT: u32 = 3;
    const KEY: [u64; 1] = [7];

    /// A window over the instances of a stream whose values are of the type `leaf`.
    pub(in super::super) fn plan(operation: FoldOp, leaf: Leaf, kind: WindowKind, waits: bool) -> WindowPlan {
        let result = if operation == FoldOp::Count { Leaf::UInt } else { leaf };
        WindowPlan {
            fold: Fold { operation, target: vec![(0, leaf)], result },
            kind,
            waits,
            outlasts: true,
            target: Some(0),
            reader: 0,
            text: String::new(),
            dependents: Vec::new(),
            last_decisive: None,
        }
    }

    /// Time passes, and something happens.
    #[derive(Clone, Copy, Debug)]
    enum Action {
        Accept(u64),
        /// The instance closes, or is spawned again.
        CloseOrSpawn,
        /// Another reader is spawned.
        SpawnReader,
        /// Another instance gets a value and closes.
        CloseOther,
        Nothing,
    }

    fn action() -> impl Strategy<Value = (u64, Action)> {
        let action = prop_oneof![
            6 => (0..100_u64).prop_map(Action::Accept),
            1 => Just(Action::CloseOrSpawn),
            2 => Just(Action::SpawnReader),
            2 => Just(Action::CloseOther),
            3 => Just(Action::Nothing),
        ];
        // Often several actions fall into the same instant.
        (prop_oneof![Just(0), 0..12_u64], action)
    }

    fn kind() -> impl Strategy<Value = WindowKind> {
        prop_oneof![
            (1..8_u64, 1..5_u64).prop_map(|(size, count)| WindowKind::Buckets { size, count }),
            (1..8_u64, 1..5_u64).prop_map(|(size, count)| WindowKind::Log { size, count }),
            (1..6_usize).prop_map(|count| WindowKind::Values { count }),
        ]
    }

    /// Every value of the instance since its spawn.
    #[derive(Default)]
    struct Model {
        values: Vec<(Stamp, u64)>,
        is_closed: bool,
        /// Until when the window of the closed instance can be read, if it is kept.
        kept_until: Option<u64>,
    }

    impl Model {
        /// The values in the window; `None` if it has no result yet.
        fn contents(&self, plan: &WindowPlan, since: Stamp, now: u64) -> Option<Vec<u64>> {
            let is_readable = !self.is_closed || self.kept_until.is_some_and(|until| now <= until);
            let in_buckets = |start: u64, size: u64, count: u64, time: u64| {
                // Buckets before the one of now.
                let age = (now - start).div_ceil(size) - (time - start).div_ceil(size);
                age < count
            };
            let waits = |start: u64| plan.waits && now - start < plan.duration();
            let values = self.values.iter();
            let (waits, inside): (bool, Vec<u64>) = match plan.kind {
                WindowKind::Buckets { size, count } => {
                    let inside = values.filter(|(at, _)| in_buckets(0, size, count, at.time));
                    (waits(0), inside.map(|(_, value)| *value).collect())
                }
                WindowKind::Log { size, count } => {
                    let seen = values.filter(|(at, _)| at.instant >= since.instant);
                    let inside = seen.filter(|(at, _)| in_buckets(since.time, size, count, at.time));
                    (is_readable && waits(since.time), inside.map(|(_, value)| *value).collect())
                }
                WindowKind::Values { count } => {
                    let last = values.rev().take(count).map(|(_, value)| *value).collect();
                    (plan.waits && !self.is_closed && self.values.len() < count, last)
                }
            };
            let inside = if is_readable { inside } else { Vec::new() };
            (!waits).then_some(inside)
        }
    }

    proptest! {
        #[test]
        fn results_are_those_of_a_list_of_all_values(
            kind in kind(),
            waits in any::<bool>(),
            counts in any::<bool>(),
            actions in proptest::collection::vec(action(), 1..60),
        ) {
            let operation = if counts { FoldOp::Count } else { FoldOp::Sum };
            let plan = plan(operation, Leaf::UInt, kind, waits);
            let interner = Interner::default();
            let (mut store, mut model) = (WindowStore::default(), Model::default());
            let mut now = Stamp { time: 0, instant: 0 };
            let mut since = now;
            store.spawn(SLOT, &KEY);
            for (action_number, (gap, action)) in actions.into_iter().enumerate() {
                now = Stamp { time: now.time + gap, instant: now.instant + gap };
                match action {
                    Action::Accept(value) if !model.is_closed => {
                        store.accept(&plan, SLOT, &[value], now, &interner).unwrap();
                        model.values.push((now, value));
                    }
                    Action::CloseOrSpawn if model.is_closed => {
                        store.spawn(SLOT, &KEY);
                        model = Model::default();
                    }
                    Action::CloseOrSpawn => {
                        store.close(&plan, SLOT, &KEY, now.time);
                        let is_kept = !model.values.is_empty() && !matches!(kind, WindowKind::Values { .. });
                        model.kept_until = is_kept.then(|| now.time + plan.duration());
                        model.is_closed = true;
                    }
                    Action::SpawnReader => since = now,
                    Action::CloseOther => {
                        store.accept(&plan, SLOT + 1, &[1], now, &interner).unwrap();
                        store.close(&plan, SLOT + 1, &[8], now.time);
                    }
                    Action::Accept(_) | Action::Nothing => {}
                }
                let slot = (!model.is_closed).then_some(SLOT);
                let found = store.read(&plan, slot, &KEY, since, now.time, &interner).unwrap();
                let expected = model.contents(&plan, since, now.time).map(|values| {
                    Scalar::UInt(if counts { values.len() as u64 } else { values.iter().sum() })
                });
                prop_assert_eq!(found, expected, "after {:?} at {}", action, now.time);
                // What is restored from its entries gives the same results from now on.
                if action_number % 3 == 0 {
                    store = restored(&store, &plan, now);
                }
            }
        }
    }

    /// A window over a stream without instances is settled only if its result no longer changes with time.
    #[test]
    fn a_settled_window_has_the_same_result_at_any_later_time() {
        let plan = plan(FoldOp::Sum, Leaf::UInt, WindowKind::Buckets { size: 10, count: 3 }, false);
        let (mut store, interner) = (WindowStore::default(), Interner::default());
        assert!(store.is_settled(&plan, 0));
        let start = Stamp { time: 0, instant: 0 };
        store.accept(&plan, 0, &[5], Stamp { time: 12, instant: 1 }, &interner).unwrap();
        let read = |now: u64| store.read(&plan, Some(0), &[], start, now, &interner).unwrap();
        // The value is in the second bucket, which leaves the window with the start of the fifth.
        assert!(!store.is_settled(&plan, 40) && read(40) == Some(Scalar::UInt(5)));
        assert!(store.is_settled(&plan, 41) && read(41) == Some(Scalar::UInt(0)));
        assert_eq!(read(1_000_000), Some(Scalar::UInt(0)));
    }

    /// A store with the entries of another one.
    fn restored(store: &WindowStore, plan: &WindowPlan, now: Stamp) -> WindowStore {
        let mut copy = WindowStore::default();
        for slot in 0..store.windows.len() as u32 {
            copy.restore(plan, slot, store.entries(slot).cloned().collect(), now).unwrap();
        }
        let mut ended: Vec<_> = store.ended().collect();
        ended.sort_by_key(|(_, until, _)| *until);
        for (key, until, entries) in ended {
            copy.restore_ended(plan, key.to_vec(), until, entries.iter().cloned().collect(), now).unwrap();
        }
        copy
    }

    #[test]
    fn entries_that_no_window_has_are_refused() {
        let kind = WindowKind::Buckets { size: 10, count: 3 };
        let sum = plan(FoldOp::Sum, Leaf::UInt, kind, false);
        let now = Stamp { time: 25, instant: 4 };
        let entry = |at, instant| WindowEntry { at, instant, partial: Partial::One(Scalar::UInt(5)) };
        let restore = |plan: &WindowPlan, entries: &[WindowEntry]| {
            WindowStore::default().restore(plan, 0, entries.to_vec(), now)
        };
        assert!(restore(&sum, &[entry(2, 1), entry(3, 4)]).is_ok());
        for wrong in [[entry(2, 1), entry(4, 4)], [entry(2, 1), entry(3, 5)], [entry(3, 1), entry(2, 1)]] {
            assert!(restore(&sum, &wrong).is_err(), "{wrong:?}");
        }
        let last = plan(FoldOp::Sum, Leaf::UInt, WindowKind::Values { count: 1 }, false);
        assert!(
            restore(&last, &[entry(0, 0)]).is_ok() && restore(&last, &[entry(0, 0), entry(0, 0)]).is_err()
        );
    }
}
