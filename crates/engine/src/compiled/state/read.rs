//! Builds a store from state that was written. The store is built by the functions that events use, so that whatever the
//! state says, slots, indexes and queues are as machine code expects them; values are checked against their types, times
//! against the clock.

use std::collections::HashMap;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch, StructArray, UInt64Array,
};
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType, UInt64Type};
use fairstream_core::{OnChange, StateChange, StateError, StateReader, Time};
use rtlola_frontend::mir::Type;
use serde_json::Value;

use super::columns::{ValueReader, type_of};
use super::document::{
    CellDocument, DocumentVersion, EngineDocument, FamilyDocument, SpawnDocument, StreamDocument, TableOf,
    VERSION,
};
use super::json::from_json;
use super::names;
use super::partials::{parts, put_together};
use super::write::{is_listed_dirty, key_types};
use crate::compiled::exec::bytecode::run;
use crate::compiled::ir::layout::{Leaf, Member};
use crate::compiled::ir::plan::{Cell, ClosePlan, Pacing, Plan, StreamPlan};
use crate::compiled::ir::scalar::{Scalar, decimal};
use crate::compiled::ir::window::{WindowKind, WindowPlan};
use crate::compiled::store::aggregate::fold::Partial;
use crate::compiled::store::deadline_queue::{Deadline, DeadlineQueue};
use crate::compiled::store::dirty_set::DirtySet;
use crate::compiled::store::interner::Interner;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::{Store, WHOLE};
use crate::compiled::store::window::bucketed::{Stamp, WindowEntry};
use crate::definition::{Definition, Definitions, SpecificationChanges, compare};
use crate::timeline::Timeline;

/// A store, the clock at which it continues, and what begins anew.
pub(super) struct Resumed {
    pub(super) store: Store,
    pub(super) timeline: Timeline,
    pub(super) changes: Vec<StateChange>,
}

/// No count of instants, spawns or rows reaches this.
const MOST: u64 = 1 << 62;

fn damaged(reason: impl Into<String>) -> StateError {
    StateError::Damaged(reason.into())
}

/// The document of an engine.
pub(super) fn document(state: &dyn StateReader) -> Result<EngineDocument, StateError> {
    let missing = || damaged(format!("there is no document `{}`", names::DOCUMENT));
    let text = state.document(names::DOCUMENT)?.ok_or_else(missing)?;
    let unreadable = |error: serde_json::Error| damaged(format!("`{}.json`: {error}", names::DOCUMENT));
    let DocumentVersion { version } = serde_json::from_str(&text).map_err(unreadable)?;
    if version > VERSION {
        return Err(StateError::Version { found: version, known: VERSION });
    }
    serde_json::from_str(&text).map_err(unreadable)
}

/// How the streams of a specification differ from those that a document is of.
pub(super) fn comparison(document: &EngineDocument, definitions: &Definitions) -> SpecificationChanges {
    let before: Vec<Definition> = document.streams.iter().map(|stream| stream.definition.clone()).collect();
    compare(&before, &definitions.all)
}

/// Reads everything that is unchanged.
pub(super) fn read(
    plan: &Plan,
    definitions: &Definitions,
    state: &dyn StateReader,
    on_change: OnChange,
) -> Result<Resumed, StateError> {
    let document = document(state)?;
    let SpecificationChanges { unchanged, changes } = comparison(&document, definitions);
    if on_change == OnChange::Refuse && !changes.is_empty() {
        return Err(StateError::Changed(changes));
    }
    let EngineDocument { start, evaluated, instants, .. } = document;
    if evaluated < start.saturating_sub(1) || instants >= MOST {
        return Err(damaged("its clock contradicts itself"));
    }
    let timeline = Timeline { start: Time(start), evaluated: Time(evaluated) };
    let now = timeline.since_start(timeline.evaluated).saturating_add(1);
    let mut store = Store::new(plan);
    (store.now, store.instant) = (now, instants);
    let now = Stamp { time: now, instant: instants };
    let mut reader =
        StoreReader { plan, document: &document, unchanged: &unchanged, state, timeline, now, store };
    for (number, ty) in definitions.input_types.iter().enumerate() {
        let windows = &plan.input_windows[number];
        reader.read_cell(number, &plan.inputs[number], ty, windows)?;
    }
    for stream in 0..plan.streams.len() {
        reader.read_stream(stream)?;
    }
    for family in 0..plan.families.len() {
        if plan.families[family].is_parameterised {
            reader.read_family(family)?;
        }
    }
    reader.read_closed_windows()?;
    reader.fill_groups()?;
    reader.read_sums()?;
    Ok(Resumed { store: reader.store, timeline, changes })
}

/// A store under construction.
struct StoreReader<'a> {
    plan: &'a Plan,
    document: &'a EngineDocument,
    /// For each input, and then each stream, the index in the document of what it was.
    unchanged: &'a [Option<usize>],
    state: &'a dyn StateReader,
    timeline: Timeline,
    /// The end of the last instant.
    now: Stamp,
    store: Store,
}

impl<'a> StoreReader<'a> {
    /// What the document has of an input, or of a stream by its number behind the inputs.
    fn before(&self, number: usize) -> Option<&'a StreamDocument> {
        self.document.streams.get(self.unchanged[number]?)
    }

    fn stream_before(&self, stream: usize) -> Option<&'a StreamDocument> {
        self.before(self.plan.inputs.len() + stream)
    }

    /// Nanoseconds since the start.
    fn since_start(&self, time: i64) -> Result<u64, StateError> {
        if time < self.timeline.start.0 {
            return Err(damaged("a time is before the start of the clock"));
        }
        Ok(self.timeline.since_start(Time(time)))
    }

    /// When a clock with a period is due that a time was written for.
    fn deadline(&self, time: Option<i64>, period: u64) -> Result<u64, StateError> {
        let latest = self.now.time.saturating_add(period);
        let at = match time {
            Some(time) => self.since_start(time)?,
            // Later than any time.
            None if self.timeline.start.0.checked_add_unsigned(latest).is_none() => latest,
            None => return Err(damaged("a deadline is missing")),
        };
        // Whatever is due now has been evaluated, and no clock is due later than a period from now.
        if at < self.now.time || at > latest {
            return Err(damaged("a deadline is at a time at which it cannot be"));
        }
        Ok(at)
    }

    /// Reads the values and windows of an input, or of a stream without parameters, by its number behind the inputs.
    fn read_cell(
        &mut self,
        number: usize,
        cell: &Cell,
        ty: &Type,
        windows: &[usize],
    ) -> Result<Option<&'a CellDocument>, StateError> {
        let Some(before) = self.before(number) else { return Ok(None) };
        let name = &before.definition.name;
        let Some(document) = &before.state else {
            return Err(damaged(format!("`{name}` has no state")));
        };
        let wrong = |reason: String| damaged(format!("`{name}`: {reason}"));
        for value in document.values.iter().take(cell.depth.max(1)).rev() {
            let mut words = Vec::new();
            from_json(ty, value, &mut words, &mut self.store.interner).map_err(wrong)?;
            self.store
                .push_cell(cell, number, |frame, to| frame[to..to + words.len()].copy_from_slice(&words));
        }
        self.store.frame[cell.fresh as usize] = 0;
        for window in windows {
            let plan = &self.plan.windows[*window];
            let Some(entries) = document.windows.get(&names::window(plan, name)) else { continue };
            let entries = entries.iter().map(|entry| self.entry(plan, entry));
            let entries = entries.collect::<Result<Vec<WindowEntry>, String>>().map_err(wrong)?;
            let restored = self.store.windows[*window].restore(plan, WHOLE, entries, self.now);
            restored.map_err(|reason| wrong(reason.to_owned()))?;
        }
        Ok(Some(document))
    }

    /// An entry of a window from JSON.
    fn entry(&mut self, plan: &WindowPlan, entry: &Value) -> Result<WindowEntry, String> {
        let number =
            |name: &str| entry[name].as_u64().ok_or_else(|| format!("an entry of a window has no `{name}`"));
        let (at, instant) = match plan.kind {
            WindowKind::Buckets { .. } => (number("bucket")?, 0),
            WindowKind::Log { .. } => {
                let time = entry["time"].as_i64().ok_or("an entry of a window has no time")?;
                (self.since_start(time).map_err(|error| error.to_string())?, number("instant")?)
            }
            WindowKind::Values { .. } => (0, 0),
        };
        let mut values = Vec::new();
        for part in parts(&plan.fold) {
            let ty = type_of(part.leaf);
            let json = &entry[part.name];
            let single = std::slice::from_ref(json);
            let all = if part.is_list { json.as_array().map_or(&[][..], Vec::as_slice) } else { single };
            let mut scalars = Vec::new();
            for json in all {
                let mut words = Vec::new();
                match json.as_str() {
                    Some("NaN") if part.leaf == Leaf::Float => words.push(f64::NAN.to_bits()),
                    _ => from_json(&ty, json, &mut words, &mut self.store.interner)?,
                }
                scalars.push(Scalar::read(&words, part.leaf));
            }
            values.push(scalars);
        }
        Ok(WindowEntry { at, instant, partial: put_together(&plan.fold, &values)? })
    }

    /// Reads what a stream remembers as a whole.
    fn read_stream(&mut self, stream: usize) -> Result<(), StateError> {
        let of = &self.plan.streams[stream];
        let Some(before) = self.stream_before(stream) else { return Ok(()) };
        if of.eval.counter.is_none() {
            self.store.streams[stream].dirty =
                if before.dirty { DirtySet::everything() } else { DirtySet::default() };
        }
        let Some(cell) = &of.cell else { return Ok(()) };
        let number = self.plan.inputs.len() + stream;
        let Some(document) = self.read_cell(number, cell, &of.ty, &of.windows)? else { return Ok(()) };
        if document.holds && document.values.is_empty() {
            return Err(damaged(format!("`{}` holds a value that it does not have", of.name)));
        }
        self.store.streams[stream].holds = document.holds;
        match (&document.spawn, &self.plan.families[of.family].spawn) {
            (None, None) => Ok(()),
            (Some(spawn), Some(_)) => self.read_spawn(of, spawn),
            _ => Err(damaged(format!("`{}` is not spawned as it says", of.name))),
        }
    }

    /// Reads the life of a stream that is spawned without parameters.
    fn read_spawn(&mut self, of: &StreamPlan, spawn: &SpawnDocument) -> Result<(), StateError> {
        let plan = &self.plan.families[of.family];
        if spawn.spawns >= MOST || (spawn.exists && spawn.spawns == 0) {
            return Err(damaged(format!("`{}` was spawned as often as it cannot have been", of.name)));
        }
        if plan.knows_its_spawn && spawn.exists {
            let time = spawn.spawned.map_or(Ok(self.now.time), |time| self.since_start(time))?;
            let instant = spawn.spawn_instant.unwrap_or(self.now.instant);
            self.check_spawn([time, instant])?;
            self.store.families[of.family].spawned_at = vec![[time, instant]];
        }
        let deadline = |period: u64, name: &str| {
            let at = match spawn.deadlines.get(name) {
                Some(time) => self.deadline(*time, period)?,
                None => self.now.time.saturating_add(period),
            };
            Ok::<Deadline, StateError>(Deadline { at, slot: WHOLE, generation: spawn.spawns })
        };
        let mut timers = Vec::new();
        let mut close = None;
        if spawn.exists {
            for timer in &plan.instance_timers {
                let period = self.plan.instance_timers[*timer].period;
                timers.push((*timer, deadline(period, &names::deadline(period))?));
            }
            if let Some(ClosePlan { pacing: Pacing::Local(period), .. }) = &plan.close {
                close = Some(deadline(*period, names::CLOSE_DEADLINE)?);
            }
        }
        timers.into_iter().for_each(|(timer, deadline)| self.store.instance_timers[timer].push(deadline));
        let state = &mut self.store.families[of.family];
        (state.alive, state.spawns) = (spawn.exists, spawn.spawns);
        state.close_dirty = if spawn.close_dirty { DirtySet::everything() } else { DirtySet::default() };
        close.into_iter().for_each(|deadline| state.close_deadlines.push(deadline));
        Ok(())
    }

    fn check_spawn(&self, [time, instant]: [u64; 2]) -> Result<(), StateError> {
        let is_past = time <= self.now.time && instant <= self.now.instant;
        if is_past { Ok(()) } else { Err(damaged("an instance was spawned in the future")) }
    }

    /// Reads the instances of a family, for those of its streams that are unchanged.
    fn read_family(&mut self, family: usize) -> Result<(), StateError> {
        let of = &self.plan.families[family];
        let unchanged: Vec<(usize, &'a StreamDocument)> =
            of.members.iter().filter_map(|member| Some((*member, self.stream_before(*member)?))).collect();
        let Some((_, first)) = unchanged.first() else { return Ok(()) };
        let has = |family: &&FamilyDocument, name: &String| family.streams.contains(name);
        let families = &self.document.families;
        let document = families.iter().find(|family| has(family, &first.definition.name));
        let missing = || damaged(format!("no table has the instances of `{}`", first.definition.name));
        let document = document.ok_or_else(missing)?;
        if !unchanged.iter().all(|(_, stream)| has(&document, &stream.definition.name)) {
            return Err(damaged(format!("`{}` lacks a stream", document.table)));
        }
        if document.spawned >= MOST {
            return Err(damaged(format!("`{}` has more instances than there can be", document.table)));
        }
        let close = &mut self.store.families[family].close_dirty;
        *close = if document.close_dirty { DirtySet::everything() } else { DirtySet::default() };
        let mut deadlines: Vec<Vec<Deadline>> = vec![Vec::new(); of.instance_timers.len() + 1];
        let wrong = |reason: String| damaged(format!("`{}`: {reason}", document.table));
        let table = self.state.table(&document.table)?.ok_or_else(missing)?;
        for batch in table {
            self.read_instances(family, &unchanged, &batch?, &mut deadlines).map_err(
                |error| match error {
                    StateError::Damaged(reason) => wrong(reason),
                    other => other,
                },
            )?;
        }
        let instances = &mut self.store.families[family].instances;
        let last = instances.spawned();
        if instances.len() != document.instances || last > document.spawned {
            return Err(wrong("it has another number of instances than it says".to_owned()));
        }
        instances.set_spawned(document.spawned);
        let mut timers = of.instance_timers.iter();
        for mut all in deadlines {
            // Instances that were spawned earlier are due earlier, unless their deadlines have been armed again.
            all.sort_by_key(|deadline| (deadline.at, deadline.generation));
            let queue = match timers.next() {
                Some(timer) => &mut self.store.instance_timers[*timer],
                None => &mut self.store.families[family].close_deadlines,
            };
            all.into_iter().for_each(|deadline| queue.push(deadline));
        }
        for member in &of.members {
            self.arm_thresholds(*member);
        }
        Ok(())
    }

    /// Reads rows of the instances of a family.
    fn read_instances(
        &mut self,
        family: usize,
        unchanged: &[(usize, &StreamDocument)],
        batch: &RecordBatch,
        deadlines: &mut [Vec<Deadline>],
    ) -> Result<(), StateError> {
        let plan = self.plan;
        let of = &plan.families[family];
        let rows = batch.num_rows();
        let numbers =
            numbers(batch, names::INSTANCE)?.ok_or_else(|| damaged("no column has its instances"))?;
        let first = &plan.streams[of.members[0]];
        let mut params = Vec::new();
        for (at, ty) in first.params.iter().enumerate() {
            let column = batch.columns().get(1 + at).ok_or_else(|| damaged("a parameter has no column"))?;
            params.push(ValueReader::new(column, ty, false).map_err(damaged)?);
        }
        // The instances are the first in a new slab, so that their slots follow one another.
        let from = self.store.families[family].instances.slots();
        if rows > (u32::MAX - from) as usize {
            return Err(damaged("it has more instances than there can be"));
        }
        let mut key = Vec::new();
        for row in 0..rows {
            key.clear();
            for param in &params {
                if !param.read(row, &mut key, &mut self.store.interner).map_err(damaged)? {
                    return Err(damaged("an instance lacks a parameter"));
                }
            }
            let instances = &mut self.store.families[family].instances;
            let number = numbers.value(row);
            if number <= instances.spawned() || number >= MOST {
                return Err(damaged("instances are not in the order of their spawns"));
            }
            let Some(slot) = instances.restore(&key, number) else {
                return Err(damaged("two instances have the same parameters"));
            };
            debug_assert_eq!(slot, from + row as u32);
        }
        if of.knows_its_spawn {
            let (times, instants) =
                (times(batch, names::SPAWNED)?, self::numbers(batch, names::SPAWN_INSTANT)?);
            for row in 0..rows {
                let time = times.as_ref().and_then(|times| times.is_valid(row).then(|| times.value(row)));
                let time = time.map_or(Ok(self.now.time), |time| self.since_start(time))?;
                let instant = instants.as_ref().map_or(self.now.instant, |instants| instants.value(row));
                self.check_spawn([time, instant])?;
                self.store.families[family].spawned_at.push([time, instant]);
            }
        }
        for (stream, before) in unchanged {
            self.read_values(*stream, &before.definition.name, from, batch)?;
        }
        for member in &of.members {
            let is_new = unchanged.iter().all(|(stream, _)| stream != member);
            if let (true, Some(counter)) = (is_new, plan.streams[*member].eval.counter) {
                let ticks = (self.now.time - 1) / counter.period;
                let at = plan.streams[*member].member;
                let instances = &mut self.store.families[family].instances;
                (from..from + rows as u32).for_each(|slot| instances.set_spawn_tick(slot, at, ticks));
            }
        }
        for (timer, deadlines) in of.instance_timers.iter().zip(&mut *deadlines) {
            let period = plan.instance_timers[*timer].period;
            self.read_deadlines(family, from, batch, (&names::deadline(period), period), deadlines)?;
        }
        if let (Some(ClosePlan { pacing: Pacing::Local(period), .. }), Some(deadlines)) =
            (&of.close, deadlines.last_mut())
        {
            self.read_deadlines(family, from, batch, (names::CLOSE_DEADLINE, *period), deadlines)?;
        }
        if of.close.as_ref().is_some_and(|close| close.incremental) {
            let state = &mut self.store.families[family];
            match flags(batch, names::CLOSE_DIRTY)? {
                Some(dirty) => (0..rows)
                    .filter(|row| dirty.value(*row))
                    .for_each(|row| state.mark_close(from + row as u32)),
                None => state.close_dirty.mark_all(),
            }
        }
        Ok(())
    }

    fn read_deadlines(
        &self,
        family: usize,
        from: u32,
        batch: &RecordBatch,
        (name, period): (&str, u64),
        deadlines: &mut Vec<Deadline>,
    ) -> Result<(), StateError> {
        let times = times(batch, name)?;
        let instances = &self.store.families[family].instances;
        for row in 0..batch.num_rows() {
            let at = match &times {
                Some(times) => self.deadline(times.is_valid(row).then(|| times.value(row)), period)?,
                // A clock that is new starts now.
                None => self.now.time.saturating_add(period),
            };
            let slot = from + row as u32;
            deadlines.push(Deadline { at, slot, generation: instances.generation(slot) });
        }
        Ok(())
    }

    /// Reads the columns of a stream, whose instances are in the slots from `from` on.
    fn read_values(
        &mut self,
        stream: usize,
        name: &str,
        from: u32,
        batch: &RecordBatch,
    ) -> Result<(), StateError> {
        let plan = self.plan;
        let of = &plan.streams[stream];
        let rows = batch.num_rows();
        let slots = from..from + rows as u32;
        let column = batch.column_by_name(name).ok_or_else(|| damaged(format!("`{name}` has no column")))?;
        let latest = ValueReader::new(column, &of.ty, true).map_err(damaged)?;
        let Store { families, interner, streams, windows, .. } = &mut self.store;
        let instances = &mut families[of.family].instances;
        let mut words = Vec::new();
        if let Some(counter) = of.eval.counter {
            let ticks = (self.now.time - 1) / counter.period;
            for (row, slot) in slots.enumerate() {
                words.clear();
                let value = latest.read(row, &mut words, interner).map_err(damaged)?.then(|| words[0]);
                let since = match value {
                    None => 0,
                    Some(word) => {
                        let value =
                            if counter.is_signed { word.cast_signed().into() } else { i128::from(word) };
                        let tick = (value - counter.first) / counter.step + 1;
                        let since = u64::try_from(tick).unwrap_or_default();
                        if counter.at(tick) != value || since == 0 || since > ticks {
                            return Err(damaged(format!("`{name}` has a count that it cannot have")));
                        }
                        since
                    }
                };
                instances.set_spawn_tick(slot, of.member, ticks - since);
            }
            return Ok(());
        }
        let earlier = match batch.column_by_name(&names::earlier(name)) {
            Some(column) if of.member.depth > 1 => Some(value_lists(column, &of.ty)?),
            _ => None,
        };
        for (row, slot) in slots.clone().enumerate() {
            words.clear();
            if !latest.read(row, &mut words, interner).map_err(damaged)? {
                continue;
            }
            let mut count = 1;
            if let Some((ends, items)) = &earlier {
                let items_of_row = ends[row] as usize..ends[row + 1] as usize;
                for item in items_of_row.take(of.member.depth as usize - 1) {
                    if !items.read(item, &mut words, interner).map_err(damaged)? {
                        return Err(damaged(format!("`{name}` lacks an earlier value")));
                    }
                    count += 1;
                }
            }
            store_values(instances.words_mut(slot), of.member, count, &words);
        }
        if is_listed_dirty(of) {
            let at = of.member.state();
            let (holds, dirty) = (flags(batch, &names::holds(name))?, flags(batch, &names::dirty(name))?);
            for (row, slot) in slots.clone().enumerate() {
                let has_value = instances.latest(slot, of.member).is_some();
                let holds = holds.as_ref().map_or(has_value, |holds| holds.value(row));
                if holds && !has_value {
                    return Err(damaged(format!("`{name}` holds a value that it does not have")));
                }
                if holds {
                    instances.set_flag(slot, at, flag::HOLDS);
                }
                if dirty.as_ref().is_none_or(|dirty| dirty.value(row)) {
                    streams[stream].mark(instances, slot, at);
                }
            }
        }
        for window in &of.windows {
            let window_plan = &plan.windows[*window];
            let Some(column) = batch.column_by_name(&names::window(window_plan, name)) else { continue };
            let entries = EntryReader::new(column, window_plan)?;
            for (row, slot) in slots.clone().enumerate() {
                let entries = entries.read(row, &self.timeline, interner)?;
                match window_plan.last_decisive {
                    Some(decisive) => {
                        let mut copy = crate::compiled::store::window::bucketed::WindowStore::default();
                        let decides = |entry: &&WindowEntry| {
                            entry.partial == Partial::One(Scalar::Bool(decisive.decides))
                        };
                        let last =
                            entries.iter().rev().find(decides).map_or(0, |entry| entry.at.saturating_add(1));
                        copy.restore(window_plan, 0, entries, self.now).map_err(damaged)?;
                        instances.words_mut(slot)[decisive.at] = last;
                    }
                    None if entries.is_empty() => {}
                    None => {
                        windows[*window].restore(window_plan, slot, entries, self.now).map_err(damaged)?
                    }
                }
            }
        }
        Ok(())
    }

    /// Counters are computed on read until a subscription wants their values. Arms the thresholds that are still to come.
    fn arm_thresholds(&mut self, stream: usize) {
        let of = &self.plan.streams[stream];
        let Some(counter) = of.eval.counter else { return };
        let instances = &self.store.families[of.family].instances;
        let ticks = (self.now.time - 1) / counter.period;
        let arm = |after: &u64| {
            let deadline = |slot: u32| {
                let at = instances.spawn_tick(slot, of.member).saturating_add(*after);
                (at > ticks).then(|| Deadline { at, slot, generation: instances.generation(slot) })
            };
            let mut all: Vec<Deadline> = instances.live_slots().filter_map(deadline).collect();
            all.sort_by_key(|deadline| deadline.at);
            let mut queue = DeadlineQueue::default();
            all.into_iter().for_each(|deadline| queue.push(deadline));
            queue
        };
        let timers = of.eval.thresholds.iter().map(arm).collect();
        let state = &mut self.store.streams[stream];
        (state.is_computed_on_read, state.threshold_timers) = (true, timers);
    }

    /// The rows of a table of the document, and for how many there are a check.
    fn rows(
        &self,
        of: &TableOf,
        mut read: impl FnMut(&RecordBatch) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let missing = || damaged(format!("there is no table `{}`", of.table));
        let mut rows = 0;
        for batch in self.state.table(&of.table)?.ok_or_else(missing)? {
            let batch = batch?;
            rows += batch.num_rows();
            read(&batch)?;
        }
        if rows == of.rows { Ok(()) } else { Err(damaged(format!("`{}` lacks rows", of.table))) }
    }

    fn read_closed_windows(&mut self) -> Result<(), StateError> {
        for of in &self.document.closed_windows {
            let is_it = |(number, plan): (usize, &WindowPlan)| {
                let target = plan.target.filter(|target| {
                    let before = self.stream_before(*target).map(|before| &before.definition.name);
                    before == Some(&of.stream)
                })?;
                (names::window(plan, &of.stream) == of.of).then_some((number, target))
            };
            let found = self.plan.windows.iter().enumerate().find_map(is_it);
            let Some((number, target)) = found else { continue };
            let plan = &self.plan.windows[number];
            let params = &self.plan.streams[target].params;
            let mut ended = Vec::new();
            let mut interner = std::mem::take(&mut self.store.interner);
            let read = self.rows(of, |batch| {
                let keys = readers(batch, params)?;
                let until = times(batch, names::UNTIL)?.ok_or_else(|| damaged("a window lacks its end"))?;
                let column = batch.column_by_name(names::ENTRIES);
                let entries =
                    EntryReader::new(column.ok_or_else(|| damaged("a window lacks its entries"))?, plan)?;
                for row in 0..batch.num_rows() {
                    let key = read_key(&keys, row, &mut interner)?;
                    let until = self.since_start(until.value(row))?;
                    ended.push((until, key, entries.read(row, &self.timeline, &mut interner)?));
                }
                Ok(())
            });
            self.store.interner = interner;
            read?;
            ended.sort_by_key(|(until, _, _)| *until);
            let windows = &mut self.store.windows[number];
            for (until, key, entries) in ended {
                windows.restore_ended(plan, key, until, entries, self.now).map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// Computes the grouped aggregates from their members.
    fn fill_groups(&mut self) -> Result<(), StateError> {
        let plan = self.plan;
        for (number, of) in plan.grouped.iter().enumerate() {
            let target = &plan.streams[of.target];
            let slots = self.store.families[target.family].instances.slots();
            let mut key = Vec::new();
            for slot in 0..slots {
                if let Some(filter) = of.filter {
                    let lambda = of.lambda as usize;
                    let Store { families, frame, .. } = &mut self.store;
                    let params = families[target.family].instances.params(slot);
                    frame[lambda..lambda + params.len()].copy_from_slice(params);
                    let failed =
                        |_| damaged(format!("an instance of `{}` cannot be aggregated", target.name));
                    if !run(plan, &mut self.store, filter).map_err(failed)? {
                        continue;
                    }
                }
                let Store { families, grouped, .. } = &mut self.store;
                let instances = &families[target.family].instances;
                let Some(value) = instances.latest(slot, target.member) else { continue };
                key.clear();
                key.extend(of.key_words.iter().map(|at| instances.params(slot)[*at]));
                let group = grouped[number].group(&key, &of.aggregates);
                grouped[number].change(group, slot, None, Some(value), &of.aggregates);
            }
        }
        Ok(())
    }

    fn read_sums(&mut self) -> Result<(), StateError> {
        let plan = self.plan;
        let mut known: HashMap<String, (usize, usize)> = HashMap::new();
        for (number, grouped) in plan.grouped.iter().enumerate() {
            for aggregate in 0..grouped.aggregates.len() {
                known.entry(names::sum(plan, grouped, aggregate)).or_insert((number, aggregate));
            }
        }
        for of in &self.document.sums {
            let Some((number, aggregate)) = known.get(&of.of).copied() else { continue };
            let grouped = &plan.grouped[number];
            let target = &plan.streams[grouped.target];
            if self.stream_before(grouped.target).is_none_or(|before| before.definition.name != of.stream) {
                continue;
            }
            let types = key_types(target, &grouped.key_words);
            let Store { interner, grouped: groups, .. } = &mut self.store;
            let (mut interner, mut groups) = (std::mem::take(interner), std::mem::take(groups));
            let read = self.rows(of, |batch| {
                let keys = readers_from(batch, &types, 0)?;
                let column = |name: &str| {
                    batch.column_by_name(name).ok_or_else(|| damaged(format!("a sum has no `{name}`")))
                };
                let sums =
                    ValueReader::new(column(".sum")?, &type_of(Leaf::Decimal), false).map_err(damaged)?;
                let overflowed =
                    flags(batch, ".has_overflowed")?.ok_or_else(|| damaged("a sum lacks a flag"))?;
                for row in 0..batch.num_rows() {
                    let key = read_key(&keys, row, &mut interner)?;
                    let sum = read_key(std::slice::from_ref(&sums), row, &mut interner)?;
                    let total = (decimal(&sum), overflowed.value(row));
                    groups[number].restore_sum(&key, &grouped.aggregates, aggregate, total);
                }
                Ok(())
            });
            (self.store.interner, self.store.grouped) = (interner, groups);
            read?;
        }
        Ok(())
    }
}

/// Puts values, the latest first, into the words of a slot.
fn store_values(slot: &mut [u64], member: Member, count: u64, words: &[u64]) {
    slot[member.state()] |= count << 32;
    slot[member.value()..member.value() + words.len()].copy_from_slice(words);
}

/// Readers of the columns that are parameters, the first of the batch.
fn readers(batch: &RecordBatch, types: &[Type]) -> Result<Vec<ValueReader>, StateError> {
    readers_from(batch, types, 0)
}

fn readers_from(batch: &RecordBatch, types: &[Type], first: usize) -> Result<Vec<ValueReader>, StateError> {
    let reader = |(at, ty): (usize, &Type)| {
        let column = batch.columns().get(first + at).ok_or_else(|| damaged("a parameter has no column"))?;
        ValueReader::new(column, ty, false).map_err(damaged)
    };
    types.iter().enumerate().map(reader).collect()
}

/// The words of a row.
fn read_key(columns: &[ValueReader], row: usize, interner: &mut Interner) -> Result<Vec<u64>, StateError> {
    let mut key = Vec::new();
    for column in columns {
        if !column.read(row, &mut key, interner).map_err(damaged)? {
            return Err(damaged("a row lacks a value"));
        }
    }
    Ok(key)
}

/// A column of numbers without nulls, if there is one of the name.
fn numbers(batch: &RecordBatch, name: &str) -> Result<Option<UInt64Array>, StateError> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    match column.as_primitive_opt::<UInt64Type>() {
        Some(numbers) if numbers.null_count() == 0 => Ok(Some(numbers.clone())),
        _ => Err(damaged(format!("`{name}` has no numbers"))),
    }
}

/// A column of flags without nulls, if there is one of the name.
fn flags(batch: &RecordBatch, name: &str) -> Result<Option<BooleanArray>, StateError> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    match column.as_boolean_opt() {
        Some(flags) if flags.null_count() == 0 => Ok(Some(flags.clone())),
        _ => Err(damaged(format!("`{name}` has no truth values"))),
    }
}

/// A column of times in nanoseconds, if there is one of the name.
fn times(batch: &RecordBatch, name: &str) -> Result<Option<Int64Array>, StateError> {
    batch.column_by_name(name).map(|column| as_times(column, name)).transpose()
}

fn as_times(column: &ArrayRef, name: &str) -> Result<Int64Array, StateError> {
    match (column.data_type(), column.as_primitive_opt::<TimestampNanosecondType>()) {
        (DataType::Timestamp(TimeUnit::Nanosecond, _), Some(times)) => {
            Ok(Int64Array::new(times.values().clone(), times.nulls().cloned()))
        }
        _ => Err(damaged(format!("`{name}` has no times"))),
    }
}

/// The bounds of the lists of a column without nulls, and its items.
fn value_lists(column: &ArrayRef, ty: &Type) -> Result<(Vec<i32>, ValueReader), StateError> {
    let lists = as_lists(column)?;
    let items = ValueReader::new(lists.values(), ty, false).map_err(damaged)?;
    Ok((lists.value_offsets().to_vec(), items))
}

fn as_lists(column: &ArrayRef) -> Result<ListArray, StateError> {
    match column.as_list_opt::<i32>() {
        Some(lists) if lists.null_count() == 0 => Ok(lists.clone()),
        _ => Err(damaged("a column has no lists")),
    }
}

/// The entries of windows in a column of lists.
struct EntryReader<'a> {
    plan: &'a WindowPlan,
    ends: Vec<i32>,
    /// The number of the bucket, or the instant of a value.
    numbers: Option<UInt64Array>,
    times: Option<Int64Array>,
    /// For each part its values; of a list with the bounds of its items.
    parts: Vec<(Leaf, ValueReader, Option<Vec<i32>>)>,
}

impl<'a> EntryReader<'a> {
    fn new(column: &ArrayRef, plan: &'a WindowPlan) -> Result<EntryReader<'a>, StateError> {
        let lists = as_lists(column)?;
        let structs: &StructArray =
            lists.values().as_struct_opt().ok_or_else(|| damaged("a window has entries of another kind"))?;
        let column = |name: &str| {
            structs
                .column_by_name(name)
                .ok_or_else(|| damaged(format!("entries of a window have no `{name}`")))
        };
        let numbers = |name: &str| match column(name)?.as_primitive_opt::<UInt64Type>() {
            Some(numbers) if numbers.null_count() == 0 => Ok(numbers.clone()),
            _ => Err(damaged(format!("`{name}` has no numbers"))),
        };
        let (mut number, mut time) = (None, None);
        match plan.kind {
            WindowKind::Buckets { .. } => number = Some(numbers("bucket")?),
            WindowKind::Log { .. } => {
                number = Some(numbers("instant")?);
                time = Some(as_times(column("time")?, "time")?);
            }
            WindowKind::Values { .. } => {}
        }
        let mut all = Vec::new();
        for part in parts(&plan.fold) {
            let column = column(part.name)?;
            let (values, ends) = match part.is_list {
                true => {
                    let (ends, values) = value_lists(column, &type_of(part.leaf))?;
                    (values, Some(ends))
                }
                false => (ValueReader::new(column, &type_of(part.leaf), false).map_err(damaged)?, None),
            };
            all.push((part.leaf, values.allowing_nan(), ends));
        }
        Ok(EntryReader {
            plan,
            ends: lists.value_offsets().to_vec(),
            numbers: number,
            times: time,
            parts: all,
        })
    }

    fn read(
        &self,
        row: usize,
        timeline: &Timeline,
        interner: &mut Interner,
    ) -> Result<Vec<WindowEntry>, StateError> {
        let mut entries = Vec::new();
        for index in self.ends[row] as usize..self.ends[row + 1] as usize {
            let number = self.numbers.as_ref().map_or(0, |numbers| numbers.value(index));
            let (at, instant) = match &self.times {
                Some(times) if times.value(index) < timeline.start.0 => {
                    return Err(damaged("a window has a value from before the start of the clock"));
                }
                Some(times) => (timeline.since_start(Time(times.value(index))), number),
                None => (number, 0),
            };
            let mut values = Vec::new();
            for (leaf, reader, ends) in &self.parts {
                let items = ends
                    .as_ref()
                    .map_or(index..index + 1, |ends| ends[index] as usize..ends[index + 1] as usize);
                let mut scalars = Vec::new();
                for item in items {
                    let words = read_key(std::slice::from_ref(reader), item, interner)?;
                    scalars.push(Scalar::read(&words, *leaf));
                }
                values.push(scalars);
            }
            let partial = put_together(&self.plan.fold, &values).map_err(damaged)?;
            entries.push(WindowEntry { at, instant, partial });
        }
        Ok(entries)
    }
}
