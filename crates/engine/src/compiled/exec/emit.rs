//! Emits the changes of an instant as verdicts.

use fairstream_core::{Cancelled, Instance, Kind, Time, Value, VerdictRef, VerdictSink};
use rtlola_frontend::mir::Type;

use super::changes::ChangeLog;
use super::cx::Cx;
use super::format::show;
use crate::compiled::ir::execution_plan::ExecutionPlan;
use crate::compiled::ir::layout::width;
use crate::compiled::ir::plan::StreamPlan;
use crate::compiled::ir::scalar::decimal;
use crate::compiled::store::interner::Interner;
use crate::compiled::store::slab::InstanceSlab;
use crate::compiled::store::state::{Store, WHOLE};
use crate::value::{json_float, json_text};

impl Cx<'_> {
    /// Emits the verdicts of this instant: streams in the order of the specification; of each its spawns, values and
    /// closes, in the order of spawn.
    pub(super) fn emit(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), Cancelled> {
        if self.changes.is_silent() {
            return Ok(());
        }
        if self.changes.has_moved() {
            self.list_moved();
        }
        let Cx { plan, store, changes, .. } = self;
        let streams = changes.valued();
        if !streams.is_sorted_by(|one, next| one < next) {
            streams.sort_unstable();
            streams.dedup();
        }
        let streams = std::mem::take(streams);
        let done = streams.iter().filter(|stream| plan.emission[**stream].values).try_for_each(|stream| {
            let of = &plan.streams[*stream];
            if of.is_parameterised() {
                let instances = &store.families[of.family].instances;
                sort_by_spawn(&mut store.streams[*stream].valued, instances);
            }
            emit_stream(plan, store, changes, *stream, time, out)
        });
        *changes.valued() = streams;
        done
    }

    /// Sorts the instances that were spawned and that close, and lists their streams.
    fn list_moved(&mut self) {
        let Cx { plan, store, changes, .. } = self;
        for family in changes.sort_moved().to_vec() {
            let family_plan = &plan.families[family];
            if family_plan.is_parameterised {
                let instances = &store.families[family].instances;
                sort_by_spawn(changes.spawned(family), instances);
                sort_by_spawn(changes.closing(family), instances);
                changes.closing(family).dedup();
            }
            let emitted = family_plan.members.iter().filter(|member| plan.emission[**member].values);
            changes.valued().extend(emitted);
        }
    }
}

/// Emits the verdicts of a stream: spawns, values, closes.
fn emit_stream(
    plan: &ExecutionPlan,
    store: &Store,
    changes: &ChangeLog,
    stream: usize,
    time: Time,
    out: &mut dyn VerdictSink,
) -> Result<(), Cancelled> {
    let of = &plan.streams[stream];
    let instance = |slot: u32| InstanceRef { plan: of, store, slot };
    if plan.families[of.family].spawn.is_none() {
        return emit_value(&instance(WHOLE), time, stream, false, out);
    }
    let lifecycle = |kind: Kind, slot: u32, out: &mut dyn VerdictSink| {
        let instance = instance(slot);
        let (instance, value, message) = (Some(&instance as &dyn Instance), None, None);
        out.emit(&VerdictRef { time, kind, stream, instance, value, message, details: None })
    };
    let (spawned, closing) = changes.moved_slots(of.family);
    let emits_lifecycle = plan.emission[stream].lifecycle;
    for slot in spawned.iter().filter(|_| emits_lifecycle) {
        lifecycle(Kind::Spawn, *slot, out)?;
    }
    for slot in &store.streams[stream].valued {
        emit_value(&instance(*slot), time, stream, true, out)?;
    }
    for slot in closing.iter().filter(|_| emits_lifecycle) {
        lifecycle(Kind::Close, *slot, out)?;
    }
    Ok(())
}

/// Sorts slots by the generation of their instances.
fn sort_by_spawn(slots: &mut [u32], instances: &InstanceSlab) {
    if !slots.is_sorted_by_key(|slot| instances.generation(*slot)) {
        slots.sort_unstable_by_key(|slot| instances.generation(*slot));
    }
}

/// Emits the latest value of an instance, or the message of a trigger.
fn emit_value(
    of: &InstanceRef<'_>,
    time: Time,
    index: usize,
    has_instances: bool,
    out: &mut dyn VerdictSink,
) -> Result<(), Cancelled> {
    let InstanceRef { plan, store, slot } = *of;
    let words = match &plan.cell {
        Some(cell) => &store.frame[cell.value as usize..cell.value as usize + cell.width],
        None => store.families[plan.family].instances.latest(slot, plan.member).unwrap_or_default(),
    };
    let instance = has_instances.then_some(of as &dyn Instance);
    let mut text = String::new();
    let (kind, value, message) = if plan.is_trigger {
        let message = words.first().map_or("", |word| store.interner.text(*word));
        (Kind::Trigger, None, Some(if message.is_empty() { &*plan.condition } else { message }))
    } else {
        let value = match &plan.ty {
            Type::Bool => Value::Bool(words[0] != 0),
            Type::UInt(_) => Value::UInt(words[0]),
            Type::Int(_) => Value::Int(words[0].cast_signed()),
            Type::Float(_) => Value::Float(f64::from_bits(words[0])),
            Type::String => Value::Text(store.interner.text(words[0])),
            Type::Fixed(_) | Type::UFixed(_) | Type::Bytes => {
                show(&mut text, &plan.ty, words, &store.interner);
                Value::Text(&text)
            }
            ty => {
                json(&mut text, ty, words, &store.interner);
                Value::Json(&text)
            }
        };
        (Kind::Value, Some(value), None)
    };
    out.emit(&VerdictRef { time, kind, stream: index, instance, value, message, details: None })
}

/// An instance of a stream, whose label is formatted only if a sink reads it.
#[derive(Clone, Copy)]
struct InstanceRef<'a> {
    plan: &'a StreamPlan,
    store: &'a Store,
    slot: u32,
}

impl Instance for InstanceRef<'_> {
    /// The generation. A stream that is spawned without parameters has one instance at a time, without a number.
    fn number(&self) -> Option<u64> {
        let instances = &self.store.families[self.plan.family].instances;
        self.plan.is_parameterised().then(|| instances.generation(self.slot))
    }

    fn label(&self, text: &mut String) {
        json_array(text, &self.plan.params, self.params(), &self.store.interner);
    }

    fn label_behind_first(&self, text: &mut String) {
        let Some((first, others)) = self.plan.params.split_first() else { return text.push_str("[]") };
        json_array(text, others, &self.params()[width(first)..], &self.store.interner);
    }
}

impl InstanceRef<'_> {
    /// The words of its parameters.
    fn params(&self) -> &[u64] {
        let InstanceRef { plan, store, slot } = *self;
        if plan.is_parameterised() { store.families[plan.family].instances.params(slot) } else { &[] }
    }
}

/// Appends values of these types, one after another in the words, as a JSON array.
fn json_array(text: &mut String, types: &[Type], words: &[u64], interner: &Interner) {
    text.push('[');
    let mut at = 0;
    for (index, ty) in types.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        json(text, ty, &words[at..], interner);
        at += width(ty);
    }
    text.push(']');
}

/// Appends a value as JSON.
fn json(text: &mut String, ty: &Type, words: &[u64], interner: &Interner) {
    match ty {
        Type::Float(_) => json_float(text, f64::from_bits(words[0])),
        Type::String => json_text(text, interner.text(words[0])),
        Type::Fixed(_) | Type::UFixed(_) => json_text(text, &decimal(words).to_string()),
        Type::Bytes => {
            text.push('"');
            show(text, ty, words, interner);
            text.push('"');
        }
        Type::Tuple(parts) => json_array(text, parts, words, interner),
        Type::Option(_) if words[0] == 0 => text.push_str("null"),
        Type::Option(inner) => json(text, inner, &words[1..], interner),
        _ => show(text, ty, words, interner),
    }
}
