//! What happened at an instant → verdicts.

use fairstream_core::{Cancelled, Instance, Kind, Time, Value, VerdictRef, VerdictSink};
use rtlola_frontend::mir::Type;

use crate::compiled::exec::format::show;
use crate::compiled::exec::instant::{Evaluator, Failed};
use crate::compiled::ir::layout::width;
use crate::compiled::ir::plan::StreamPlan;
use crate::compiled::ir::scalar::decimal;
use crate::compiled::store::interner::Interner;
use crate::compiled::store::slab::InstanceSlab;
use crate::compiled::store::state::{FamilyState, State, WHOLE};
use crate::value::{json_float, json_text};

impl Evaluator {
    /// Tells of an instant and ends it, if there is something to tell or to end.
    #[inline(always)]
    pub(crate) fn conclude(
        &mut self,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<Result<(), Box<Failed>>, Cancelled> {
        if self.is_quiet() { Ok(Ok(())) } else { self.tell_and_end(time, out) }
    }

    #[inline(never)]
    fn tell_and_end(
        &mut self,
        time: Time,
        out: &mut dyn VerdictSink,
    ) -> Result<Result<(), Box<Failed>>, Cancelled> {
        self.write(time, out)?;
        self.invalidate_idle();
        Ok(self.end_instant())
    }

    /// Streams in the order of the specification; of each its spawns, values and closes in the
    /// order of spawn.
    pub(crate) fn write(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), Cancelled> {
        if self.valued.is_empty() && self.moved.is_empty() {
            return Ok(());
        }
        if !self.moved.is_empty() {
            self.list_moved();
        }
        let Evaluator { plan, state, tells, tells_lifecycle, valued: streams, .. } = self;
        if !streams.is_sorted_by(|one, next| one < next) {
            streams.sort_unstable();
            streams.dedup();
        }
        for &index in streams.iter().filter(|index| tells[**index]) {
            let stream = &plan.streams[index];
            if stream.is_parameterised() {
                in_order(&mut state.streams[index].valued, &state.families[stream.family].instances);
            }
            let of_slot = |slot: u32| OfSlot { plan: stream, state, slot };
            if plan.families[stream.family].spawn.is_none() {
                write_value(&of_slot(WHOLE), time, index, false, out)?;
                continue;
            }
            let family = &state.families[stream.family];
            let say = |kind: Kind, of: &OfSlot<'_>, out: &mut dyn VerdictSink| {
                let (instance, value, message) = (Some(of as &dyn Instance), None, None);
                out.emit(&VerdictRef { time, kind, stream: index, instance, value, message })
            };
            let lifecycle = tells_lifecycle[index];
            for slot in family.spawned.iter().filter(|_| lifecycle) {
                say(Kind::Spawn, &of_slot(*slot), out)?;
            }
            for slot in &state.streams[index].valued {
                write_value(&of_slot(*slot), time, index, true, out)?;
            }
            for slot in family.closing.iter().filter(|_| lifecycle) {
                say(Kind::Close, &of_slot(*slot), out)?;
            }
        }
        Ok(())
    }

    /// Puts instances that have come and gone in order, and lists the streams that they are of.
    fn list_moved(&mut self) {
        let Evaluator { plan, state, tells, moved, valued, .. } = self;
        moved.sort_unstable();
        moved.dedup();
        for family in moved.iter() {
            let FamilyState { instances, spawned, closing, .. } = &mut state.families[*family];
            if plan.families[*family].is_parameterised {
                in_order(spawned, instances);
                in_order(closing, instances);
                closing.dedup();
            }
            valued.extend(plan.families[*family].members.iter().filter(|index| tells[**index]));
        }
    }
}

/// Puts slots in the order of spawn.
fn in_order(slots: &mut [u32], instances: &InstanceSlab) {
    if !slots.is_sorted_by_key(|slot| instances.generation(*slot)) {
        slots.sort_unstable_by_key(|slot| instances.generation(*slot));
    }
}

fn write_value(
    of: &OfSlot<'_>,
    time: Time,
    index: usize,
    spawns: bool,
    out: &mut dyn VerdictSink,
) -> Result<(), Cancelled> {
    let OfSlot { plan, state, slot } = *of;
    let words = match &plan.cell {
        Some(cell) => &state.frame[cell.value as usize..cell.value as usize + cell.width],
        None => state.families[plan.family].instances.latest(slot, plan.member).unwrap_or_default(),
    };
    let instance = spawns.then_some(of as &dyn Instance);
    let mut text = String::new();
    let (kind, value, message) = if plan.is_trigger {
        let message = words.first().map_or("", |word| state.interner.text(*word));
        (Kind::Trigger, None, Some(if message.is_empty() { &*plan.condition } else { message }))
    } else {
        let value = match &plan.ty {
            Type::Bool => Value::Bool(words[0] != 0),
            Type::UInt(_) => Value::UInt(words[0]),
            Type::Int(_) => Value::Int(words[0].cast_signed()),
            Type::Float(_) => Value::Float(f64::from_bits(words[0])),
            Type::String => Value::Text(state.interner.text(words[0])),
            Type::Fixed(_) | Type::UFixed(_) | Type::Bytes => {
                show(&mut text, &plan.ty, words, &state.interner);
                Value::Text(&text)
            }
            ty => {
                json(&mut text, ty, words, &state.interner);
                Value::Json(&text)
            }
        };
        (Kind::Value, Some(value), None)
    };
    out.emit(&VerdictRef { time, kind, stream: index, instance, value, message })
}

/// An instance of a stream, by its slot.
#[derive(Clone, Copy)]
struct OfSlot<'a> {
    plan: &'a StreamPlan,
    state: &'a State,
    slot: u32,
}

impl Instance for OfSlot<'_> {
    /// Which spawn it is. A stream that is spawned without parameters has one instance at a time, all alike.
    fn number(&self) -> Option<u64> {
        let instances = &self.state.families[self.plan.family].instances;
        self.plan.is_parameterised().then(|| instances.generation(self.slot))
    }

    fn label(&self, text: &mut String) {
        let OfSlot { plan, state, slot } = *self;
        let words =
            if plan.is_parameterised() { state.families[plan.family].instances.params(slot) } else { &[] };
        json_array(text, &plan.params, words, &state.interner);
    }
}

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
