//! WindowStore: the values of a stream in the last stretch of time, or the last few of them.
//!
//! A window with the clock of the monitor cuts time into buckets and keeps those that are not empty.
//! A window whose clock starts with the instance that reads it looks into a log of the values, which
//! all its readers share.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::compiled::ir::fault::Fault;
use crate::compiled::ir::scalar::Scalar;
use crate::compiled::ir::window::{LastDecisive, WindowKind, WindowPlan};
use crate::compiled::store::aggregate::fold::Partial;
use crate::compiled::store::interner::Interner;

/// When the instance that reads a window was spawned.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) time: u64,
    pub(crate) instant: u64,
}

/// The windows of one aggregation: one for each instance of the target.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct WindowStore {
    /// By slot of the target; at 0 if it has no instances.
    windows: Vec<WindowContents>,
    /// WindowStore of instances that have ended can be read until the last value has left them.
    ended: HashMap<Vec<u64>, (u64, WindowContents)>,
    ending: VecDeque<(u64, Vec<u64>)>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct WindowContents {
    /// Parts with the number of their bucket, or with time and instant.
    entries: VecDeque<WindowEntry>,
    /// How many values it got, up to its size.
    received: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct WindowEntry {
    /// The bucket, or the time for a log.
    at: u64,
    /// The instant, for a log.
    instant: u64,
    partial: Partial,
}

/// A bucket reaches from just after one border to the next, border included.
pub(crate) fn bucket(since_start: u64, size: u64) -> u64 {
    since_start.div_ceil(size)
}

impl WindowStore {
    /// The target, or an instance of it, has a new value.
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

    /// Whether the window of a target without instances says the same from now on until it gets a value.
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

    /// What the window of a target says now, to a reader that was spawned `since`.
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
            // What does not exist is not waited for.
            WindowKind::Log { .. } if slot.is_none() && contents.is_none() => false,
            _ => now - start < plan.duration(),
        };
        if plan.waits && waiting {
            return Ok(None);
        }
        let Some(contents) = contents else { return Ok(plan.fold.empty()) };
        let is_inside = |entry: &&WindowEntry| match plan.kind {
            WindowKind::Buckets { size, count } => entry.at.saturating_add(count) > bucket(now, size),
            WindowKind::Log { size, count } => {
                entry.instant >= since.instant
                    && bucket(entry.at - start, size).saturating_add(count) > bucket(now - start, size)
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

    /// An instance of the target came into being: its window is empty.
    pub(crate) fn spawn(&mut self, slot: u32, key: &[u64]) {
        if let Some(contents) = self.windows.get_mut(slot as usize) {
            *contents = WindowContents::default();
        }
        if !self.ended.is_empty() {
            self.ended.remove(key);
        }
    }

    /// An instance of the target ended.
    pub(crate) fn close(&mut self, plan: &WindowPlan, slot: u32, key: &[u64], now: u64) {
        let Some(contents) = self.windows.get_mut(slot as usize) else { return };
        let contents = std::mem::take(contents);
        if plan.outlasts && !matches!(plan.kind, WindowKind::Values { .. }) && !contents.entries.is_empty() {
            self.keep(plan, contents, key, now);
        }
    }

    /// The same for a window of which one word is enough.
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

    /// Lets the window of an instance that has ended be read until the last value has left it.
    fn keep(&mut self, plan: &WindowPlan, contents: WindowContents, key: &[u64], now: u64) {
        while let Some((until, key)) = self.ending.front().filter(|(until, _)| *until < now) {
            // It may have been spawned and closed again since.
            if self.ended.get(key).is_some_and(|(ends, _)| ends == until) {
                self.ended.remove(key);
            }
            self.ending.pop_front();
        }
        let until = now.saturating_add(plan.duration());
        self.ended.insert(key.to_vec(), (until, contents));
        self.ending.push_back((until, key.to_vec()));
    }

    /// # Errors
    /// A value is of the future, or values are not in order.
    pub(crate) fn validate(&self, plan: &WindowPlan, now: u64) -> Result<(), &'static str> {
        let latest = match plan.kind {
            WindowKind::Buckets { size, .. } => bucket(now, size),
            WindowKind::Log { .. } => now,
            WindowKind::Values { .. } => 0,
        };
        let is_valid = |contents: &WindowContents| {
            contents.entries.iter().all(|entry| entry.at <= latest && plan.fold.fits(&entry.partial))
                && contents.entries.iter().zip(contents.entries.iter().skip(1)).all(|(a, b)| a.at <= b.at)
        };
        let mut all = self.windows.iter().chain(self.ended.values().map(|(_, contents)| contents));
        if all.all(is_valid) { Ok(()) } else { Err("a window has values of the future, or of another kind") }
    }

    /// The keys and the strings that are in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&[u64], Vec<u64>)> {
        let texts = |contents: &WindowContents| {
            contents.entries.iter().filter_map(|entry| entry.partial.text()).collect::<Vec<u64>>()
        };
        let live = self.windows.iter().map(move |contents| (&[][..], texts(contents)));
        live.chain(self.ended.iter().map(move |(key, (_, contents))| (key.as_slice(), texts(contents))))
    }
}

impl WindowContents {
    fn expire(&mut self, is_past: impl Fn(&WindowEntry) -> bool) {
        while self.entries.front().is_some_and(&is_past) {
            self.entries.pop_front();
        }
    }
}
