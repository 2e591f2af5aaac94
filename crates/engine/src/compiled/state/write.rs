//! Encodes a copy of an engine's state: instances as tables, everything else as one document.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use fairstream_core::{StateError, StateWriter, Time};
use rtlola_frontend::mir::Type;
use serde_json::Value;

use super::columns::{encode, item, lists, type_of};
use super::copy::{EngineCopy, FamilyCopy};
use super::document::{
    CellDocument, EngineDocument, FamilyDocument, SpawnDocument, StreamDocument, TableOf, VERSION,
};
use super::json::to_json;
use super::names;
use super::partials::{parts, take_apart};
use crate::compiled::ir::counter::TickCounter;
use crate::compiled::ir::layout::{Leaf, width};
use crate::compiled::ir::plan::{Cell, ClosePlan, Pacing, StreamPlan};
use crate::compiled::ir::scalar::{Scalar, decimal_words};
use crate::compiled::ir::window::{WindowKind, WindowPlan};
use crate::compiled::store::aggregate::fold::Partial;
use crate::compiled::store::deadline_queue::Deadline;
use crate::compiled::store::slab::flag;
use crate::compiled::store::state::WHOLE;
use crate::compiled::store::window::bucketed::WindowEntry;
use crate::definition::Definition;

/// Rows of a batch.
const ROWS: usize = 65_536;

/// Writes everything.
pub(super) fn write(copy: &EngineCopy, to: &mut dyn StateWriter) -> Result<(), StateError> {
    let mut families = Vec::new();
    for (family, of) in copy.plan.families.iter().enumerate().filter(|(_, of)| of.is_parameterised) {
        let name = |member: &usize| copy.plan.streams[*member].name.clone();
        let table = names::table(&name(&of.members[0]));
        copy.write_instances(family, &table, to)?;
        let state = &copy.families[family];
        families.push(FamilyDocument {
            table,
            streams: of.members.iter().map(name).collect(),
            spawned: state.instances.spawned,
            instances: state.instances.live,
            close_dirty: state.close_dirty,
        });
    }
    let document = EngineDocument {
        version: VERSION,
        start: copy.timeline.start.0,
        evaluated: copy.timeline.evaluated.0,
        instants: copy.instants,
        streams: copy.streams(),
        families,
        closed_windows: copy.write_closed_windows(to)?,
        sums: copy.write_sums(to)?,
    };
    let text = serde_json::to_string_pretty(&document).map_err(|error| StateError::Io(error.to_string()))?;
    to.document(names::DOCUMENT, &text)
}

/// ColumnList under construction.
#[derive(Default)]
struct ColumnList {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl ColumnList {
    fn push(&mut self, name: impl Into<String>, is_optional: bool, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), is_optional));
        self.arrays.push(array);
    }

    fn flags(&mut self, name: impl Into<String>, flags: impl Iterator<Item = bool>) {
        self.push(name, false, Arc::new(flags.map(Some).collect::<BooleanArray>()));
    }

    fn numbers(&mut self, name: impl Into<String>, numbers: impl Iterator<Item = u64>) {
        self.push(name, false, Arc::new(UInt64Array::from_iter_values(numbers)));
    }

    fn times(&mut self, name: impl Into<String>, times: impl Iterator<Item = Option<i64>>) {
        self.push(name, true, Arc::new(times.collect::<TimestampNanosecondArray>()));
    }

    fn finish(self, rows: usize) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(self.fields)), self.arrays, &options)
    }
}

fn failed(error: &ArrowError) -> StateError {
    StateError::Io(format!("the state cannot be encoded: {error}"))
}

/// A column of the words of a leaf.
fn scalars(
    leaf: Leaf,
    values: impl Iterator<Item = Scalar>,
    copy: &EngineCopy,
) -> Result<ArrayRef, ArrowError> {
    let words: Vec<[u64; 2]> = values
        .map(|value| {
            let mut words = [0; 2];
            value.write(&mut words[..leaf.width()]);
            words
        })
        .collect();
    let words: Vec<Option<&[u64]>> = words.iter().map(|words| Some(&words[..])).collect();
    encode(&type_of(leaf), false, &words, &copy.strings)
}

impl EngineCopy {
    /// A time; `None` if it is later than a time can be.
    fn time(&self, since_start: u64) -> Option<i64> {
        self.timeline.start.0.checked_add_unsigned(since_start)
    }

    /// Ticks of a clock up to now.
    fn ticks(&self, counter: &TickCounter) -> u64 {
        self.timeline.since_start(self.timeline.evaluated) / counter.period
    }

    fn write_instances(
        &self,
        family: usize,
        table: &str,
        to: &mut dyn StateWriter,
    ) -> Result<(), StateError> {
        let (of, state) = (&self.plan.families[family], &self.families[family]);
        let slots = state.instances.slots();
        // For each clock its deadlines by slot.
        let mut clocks: Vec<(String, Vec<u64>)> = Vec::new();
        for timer in &of.instance_timers {
            let name = names::deadline(self.plan.instance_timers[*timer].period);
            clocks.push((name, by_slot(&self.deadlines[*timer], state)));
        }
        if let Some(ClosePlan { pacing: Pacing::Local(_), .. }) = &of.close {
            clocks.push((names::CLOSE_DEADLINE.to_owned(), by_slot(&state.close_deadlines, state)));
        }
        let chunks = slots.chunks(ROWS).chain(slots.is_empty().then_some(&[][..]));
        for slots in chunks {
            let batch = self.instances(family, slots, &clocks).map_err(|error| failed(&error))?;
            to.rows(table, &batch)?;
        }
        Ok(())
    }

    /// The rows of some instances of a family.
    fn instances(
        &self,
        family: usize,
        slots: &[u32],
        clocks: &[(String, Vec<u64>)],
    ) -> Result<RecordBatch, ArrowError> {
        let (of, state) = (&self.plan.families[family], &self.families[family]);
        let instances = &state.instances;
        let mut columns = ColumnList::default();
        columns.numbers(names::INSTANCE, slots.iter().map(|slot| instances.generation(*slot)));
        let first = &self.plan.streams[of.members[0]];
        let mut at = 0;
        for (name, ty) in names::parameters(&self.plan, of).into_iter().zip(&first.params) {
            let values: Vec<Option<&[u64]>> =
                slots.iter().map(|slot| Some(&instances.params(*slot)[at..])).collect();
            columns.push(name, matches!(ty, Type::Option(_)), encode(ty, false, &values, &self.strings)?);
            at += width(ty);
        }
        if of.knows_its_spawn {
            let spawn = |slot: &u32| state.spawned_at.get(*slot as usize).copied().unwrap_or_default();
            columns.times(names::SPAWNED, slots.iter().map(|slot| self.time(spawn(slot)[0])));
            columns.numbers(names::SPAWN_INSTANT, slots.iter().map(|slot| spawn(slot)[1]));
        }
        for member in &of.members {
            self.add_values(*member, state, slots, &mut columns)?;
        }
        for (name, deadlines) in clocks {
            columns.times(
                name,
                slots
                    .iter()
                    .map(|slot| self.time(deadlines.get(*slot as usize).copied().unwrap_or(u64::MAX))),
            );
        }
        if of.close.as_ref().is_some_and(|close| close.incremental) {
            let at = first.member.state();
            let is_dirty = |slot: &u32| instances.has_flag(*slot, at, flag::CLOSE_DIRTY);
            columns.flags(names::CLOSE_DIRTY, slots.iter().map(is_dirty));
        }
        columns.finish(slots.len())
    }

    /// The columns of a stream.
    fn add_values(
        &self,
        stream: usize,
        state: &FamilyCopy,
        slots: &[u32],
        columns: &mut ColumnList,
    ) -> Result<(), ArrowError> {
        let of = &self.plan.streams[stream];
        let (instances, member) = (&state.instances, of.member);
        if let Some(counter) = of.eval.counter.filter(|_| self.streams[stream].is_computed_on_read) {
            let ticks = self.ticks(&counter);
            let count = |slot: &u32| {
                let since = ticks.saturating_sub(instances.words(*slot)[member.value()]);
                if since == 0 { None } else { counter.word_at(since.into()).ok() }
            };
            let words: Vec<Option<u64>> = slots.iter().map(count).collect();
            let values: Vec<Option<&[u64]>> =
                words.iter().map(|word| word.as_ref().map(std::slice::from_ref)).collect();
            columns.push(&of.name, true, encode(&of.ty, true, &values, &self.strings)?);
        } else {
            let values: Vec<Option<&[u64]>> =
                slots.iter().map(|slot| instances.past(*slot, member, 0)).collect();
            columns.push(&of.name, true, encode(&of.ty, true, &values, &self.strings)?);
        }
        if member.depth > 1 {
            let earlier = |slot: &u32| instances.values(*slot, member).skip(1);
            let items: Vec<Option<&[u64]>> = slots.iter().flat_map(earlier).map(Some).collect();
            let items = encode(&of.ty, false, &items, &self.strings)?;
            let lengths = slots.iter().map(|slot| earlier(slot).count());
            columns.push(names::earlier(&of.name), false, lists(item(&of.ty), items, lengths)?);
        }
        if is_listed_dirty(of) {
            let has =
                |flag: u64| slots.iter().map(move |slot| instances.has_flag(*slot, member.state(), flag));
            columns.flags(names::holds(&of.name), has(flag::HOLDS));
            columns.flags(names::dirty(&of.name), has(flag::DIRTY));
        }
        for window in &of.windows {
            let plan = &self.plan.windows[*window];
            let decisive = |slot: u32| {
                let decisive = plan.last_decisive?;
                let word = instances.words(slot)[decisive.at];
                let partial = Partial::One(Scalar::Bool(decisive.decides));
                (word > 0).then(|| WindowEntry { at: word - 1, instant: 0, partial })
            };
            let single: Vec<Option<WindowEntry>> = slots.iter().map(|slot| decisive(*slot)).collect();
            let entries = |row: usize| single[row].iter().chain(self.windows[*window].entries(slots[row]));
            let rows = (0..slots.len()).map(|row| entries(row).count());
            let all = (0..slots.len()).flat_map(entries);
            columns.push(names::window(plan, &of.name), false, self.entries(plan, rows, all)?);
        }
        Ok(())
    }

    /// Entries of windows as a column of lists.
    fn entries<'a>(
        &self,
        plan: &WindowPlan,
        lengths: impl Iterator<Item = usize>,
        entries: impl Iterator<Item = &'a WindowEntry>,
    ) -> Result<ArrayRef, ArrowError> {
        let entries: Vec<&WindowEntry> = entries.collect();
        let mut columns = ColumnList::default();
        match plan.kind {
            WindowKind::Buckets { .. } => columns.numbers("bucket", entries.iter().map(|entry| entry.at)),
            WindowKind::Log { .. } => {
                columns.times("time", entries.iter().map(|entry| self.time(entry.at)));
                columns.numbers("instant", entries.iter().map(|entry| entry.instant));
            }
            WindowKind::Values { .. } => {}
        }
        let apart: Vec<Vec<Vec<Scalar>>> = entries.iter().map(|entry| take_apart(&entry.partial)).collect();
        for (number, part) in parts(&plan.fold).iter().enumerate() {
            let values = apart.iter().flat_map(|parts| &parts[number]).copied();
            let column = scalars(part.leaf, values, self)?;
            if part.is_list {
                let lengths = apart.iter().map(|parts| parts[number].len());
                columns.push(part.name, false, lists(item(&type_of(part.leaf)), column, lengths)?);
            } else {
                columns.push(part.name, false, column);
            }
        }
        let ColumnList { fields, arrays } = columns;
        let fields = Fields::from(fields);
        let structs =
            arrow::array::StructArray::try_new_with_length(fields.clone(), arrays, None, entries.len())?;
        lists(Field::new("item", DataType::Struct(fields), false), Arc::new(structs), lengths)
    }

    fn write_closed_windows(&self, to: &mut dyn StateWriter) -> Result<Vec<TableOf>, StateError> {
        let mut tables = Vec::new();
        for (number, (store, plan)) in self.windows.iter().zip(&self.plan.windows).enumerate() {
            let Some(target) = plan.target.filter(|_| store.ended().next().is_some()) else { continue };
            let of = &self.plan.streams[target];
            let table = names::closed_windows(number);
            let mut ended: Vec<_> = store.ended().collect();
            // Two windows that end at one time are in the order of their keys, so that equal states are written alike.
            ended.sort_unstable_by_key(|(key, until, _)| (*until, *key));
            for chunk in ended.chunks(ROWS) {
                let batch = || {
                    let mut columns = ColumnList::default();
                    let mut at = 0;
                    let parameters = names::parameters(&self.plan, &self.plan.families[of.family]);
                    for (name, ty) in parameters.into_iter().zip(&of.params) {
                        let keys: Vec<Option<&[u64]>> =
                            chunk.iter().map(|(key, _, _)| Some(&key[at..])).collect();
                        let column = encode(ty, false, &keys, &self.strings)?;
                        columns.push(name, matches!(ty, Type::Option(_)), column);
                        at += width(ty);
                    }
                    let last = self.timeline.since_start(Time(i64::MAX));
                    columns
                        .times(names::UNTIL, chunk.iter().map(|(_, until, _)| self.time((*until).min(last))));
                    let lengths = chunk.iter().map(|(_, _, entries)| entries.len());
                    let all = chunk.iter().flat_map(|(_, _, entries)| entries.iter());
                    columns.push(names::ENTRIES, false, self.entries(plan, lengths, all)?);
                    columns.finish(chunk.len())
                };
                to.rows(&table, &batch().map_err(|error| failed(&error))?)?;
            }
            let rows = ended.len();
            tables.push(TableOf { table, rows, stream: of.name.clone(), of: names::window(plan, &of.name) });
        }
        Ok(tables)
    }

    fn write_sums(&self, to: &mut dyn StateWriter) -> Result<Vec<TableOf>, StateError> {
        let mut tables = Vec::new();
        for (number, sums) in self.sums.iter().enumerate() {
            let plan = &self.plan.grouped[sums.grouped];
            let of = &self.plan.streams[plan.target];
            let table = names::sums(number);
            for groups in sums.groups.chunks(ROWS) {
                let batch = || {
                    let mut columns = ColumnList::default();
                    let key: Vec<Type> = key_types(of, &plan.key_words);
                    let mut at = 0;
                    for (index, ty) in key.iter().enumerate() {
                        let keys: Vec<Option<&[u64]>> =
                            groups.iter().map(|(key, _, _)| Some(&key[at..])).collect();
                        let name = plan.key_names.get(index).cloned().unwrap_or_else(|| index.to_string());
                        let column = encode(ty, false, &keys, &self.strings)?;
                        columns.push(name, matches!(ty, Type::Option(_)), column);
                        at += width(ty);
                    }
                    let words: Vec<[u64; 2]> = groups.iter().map(|(_, sum, _)| decimal_words(*sum)).collect();
                    let words: Vec<Option<&[u64]>> = words.iter().map(|words| Some(&words[..])).collect();
                    columns.push(
                        ".sum",
                        false,
                        encode(&type_of(Leaf::Decimal), false, &words, &self.strings)?,
                    );
                    columns.flags(".has_overflowed", groups.iter().map(|(_, _, overflowed)| *overflowed));
                    columns.finish(groups.len())
                };
                to.rows(&table, &batch().map_err(|error| failed(&error))?)?;
            }
            let of_sum = names::sum(&self.plan, plan, sums.aggregate);
            let rows = sums.groups.len();
            tables.push(TableOf { table, rows, stream: of.name.clone(), of: of_sum });
        }
        Ok(tables)
    }

    /// The streams, inputs first.
    fn streams(&self) -> Vec<StreamDocument> {
        let inputs = self.plan.inputs.len();
        let document = |(number, definition): (usize, &Definition)| {
            let definition = definition.clone();
            let Some(stream) = number.checked_sub(inputs) else {
                let (cell, windows) = (&self.plan.inputs[number], &self.plan.input_windows[number]);
                let ty = &self.definitions.input_types[number];
                let state = self.cell(number, cell, ty, &definition.name, windows);
                return StreamDocument { definition, dirty: false, state: Some(state) };
            };
            let (of, copy) = (&self.plan.streams[stream], &self.streams[stream]);
            let state = of.cell.as_ref().map(|cell| CellDocument {
                holds: copy.holds,
                spawn: self.spawn(of),
                ..self.cell(number, cell, &of.ty, &of.name, &of.windows)
            });
            let dirty = copy.dirty && of.eval.counter.is_none();
            StreamDocument { definition, dirty, state }
        };
        self.definitions.all.iter().enumerate().map(document).collect()
    }

    /// The values and windows of an input, or of a stream without parameters.
    fn cell(&self, number: usize, cell: &Cell, ty: &Type, name: &str, windows: &[usize]) -> CellDocument {
        let mut values = Vec::new();
        if self.frame[cell.present as usize] != 0 {
            values.push(to_json(ty, &self.frame[cell.value as usize..], &self.strings));
            let earlier = self.past[number].values(cell.width);
            values.extend(earlier.map(|words| to_json(ty, words, &self.strings)));
        }
        let entries = |window: &usize| {
            let plan = &self.plan.windows[*window];
            let entries = self.windows[*window].entries(WHOLE).map(|entry| self.entry(plan, entry));
            (names::window(plan, name), entries.collect())
        };
        let windows: BTreeMap<String, Vec<Value>> = windows.iter().map(entries).collect();
        CellDocument { values, windows, holds: false, spawn: None }
    }

    /// An entry of a window as a JSON object.
    fn entry(&self, plan: &WindowPlan, entry: &WindowEntry) -> Value {
        let mut object = serde_json::Map::new();
        match plan.kind {
            WindowKind::Buckets { .. } => drop(object.insert("bucket".to_owned(), entry.at.into())),
            WindowKind::Log { .. } => {
                object.insert("time".to_owned(), self.time(entry.at).into());
                object.insert("instant".to_owned(), entry.instant.into());
            }
            WindowKind::Values { .. } => {}
        }
        for (part, values) in parts(&plan.fold).iter().zip(take_apart(&entry.partial)) {
            let value = |value: &Scalar| {
                let mut words = [0; 2];
                value.write(&mut words[..part.leaf.width()]);
                to_json(&type_of(part.leaf), &words, &self.strings)
            };
            let json = match values.as_slice() {
                [one] if !part.is_list => value(one),
                several => several.iter().map(value).collect(),
            };
            object.insert(part.name.to_owned(), json);
        }
        object.into()
    }

    /// The life of a stream that is spawned without parameters.
    fn spawn(&self, of: &StreamPlan) -> Option<SpawnDocument> {
        let (plan, state) = (&self.plan.families[of.family], &self.families[of.family]);
        plan.spawn.as_ref()?;
        let mut deadlines = BTreeMap::new();
        let mut add = |name: String, all: &[Deadline]| {
            let live = all.iter().find(|deadline| state.alive && deadline.generation == state.spawns);
            if let Some(deadline) = live {
                deadlines.insert(name, self.time(deadline.at));
            }
        };
        for timer in &plan.instance_timers {
            add(names::deadline(self.plan.instance_timers[*timer].period), &self.deadlines[*timer]);
        }
        add(names::CLOSE_DEADLINE.to_owned(), &state.close_deadlines);
        let spawned = state.spawned_at.first().filter(|_| plan.knows_its_spawn);
        Some(SpawnDocument {
            exists: state.alive,
            spawns: state.spawns,
            spawned: spawned.and_then(|[time, _]| self.time(*time)),
            spawn_instant: spawned.map(|[_, instant]| *instant),
            deadlines,
            close_dirty: state.close_dirty,
        })
    }
}

/// Whether instances of a stream are in a dirty set. A counter that is computed on read has none.
pub(super) fn is_listed_dirty(of: &StreamPlan) -> bool {
    of.eval.counter.is_none() && (of.eval.incremental || of.eval.guard.is_some())
}

/// The types of the parameters that are the key of a group.
pub(super) fn key_types(of: &StreamPlan, key_words: &[usize]) -> Vec<Type> {
    let mut at = 0;
    let mut types = Vec::new();
    for ty in &of.params {
        if key_words.contains(&at) {
            types.push(ty.clone());
        }
        at += width(ty);
    }
    types
}

/// When each instance is due, by slot.
fn by_slot(deadlines: &[Deadline], state: &FamilyCopy) -> Vec<u64> {
    let mut by_slot = Vec::new();
    for deadline in deadlines {
        let slot = deadline.slot as usize;
        if by_slot.len() <= slot {
            by_slot.resize(slot + 1, u64::MAX);
        }
        if state.instances.generation(deadline.slot) == deadline.generation {
            by_slot[slot] = deadline.at;
        }
    }
    by_slot
}
