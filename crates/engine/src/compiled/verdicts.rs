//! What happened at an instant → verdicts.

use fairstream_core::{Closed, Time, Value, Verdicts};
use rtlola_frontend::mir::Type;

use super::instant::Evaluator;
use super::layout::width;
use super::machine::show;
use super::plan::StreamPlan;
use super::scalar::decimal;
use super::state::State;
use super::strings::Strings;
use crate::value::{json_float, json_text};

impl Evaluator {
    /// Streams in the order of the specification; of each its spawns, values and closes in the
    /// order of spawn.
    pub(super) fn write(&mut self, time: Time, out: &mut Verdicts) -> Result<(), Closed> {
        self.touched.sort_unstable();
        for index in &self.touched {
            if !self.tells[*index] {
                continue;
            }
            let plan = &self.plan.streams[*index];
            let state = &mut self.state.streams[*index];
            let instances = &state.instances;
            let mut in_order = |slots: &mut Vec<u32>| {
                if plan.is_parameterised() && !slots.is_sorted_by_key(|slot| instances.born(*slot)) {
                    slots.sort_unstable_by_key(|slot| instances.born(*slot));
                }
            };
            in_order(&mut state.spawned);
            in_order(&mut state.valued);
            in_order(&mut state.closing);
            let state = &self.state.streams[*index];
            for slot in &state.spawned {
                out.spawn(time, *index, &label(plan, &self.state, *index, *slot))?;
            }
            for slot in &state.valued {
                let instance = plan.spawn.is_some().then(|| label(plan, &self.state, *index, *slot));
                write_value(plan, &self.state, time, *index, *slot, instance.as_deref(), out)?;
            }
            for slot in &state.closing {
                out.close(time, *index, &label(plan, &self.state, *index, *slot))?;
            }
        }
        Ok(())
    }
}

fn write_value(
    plan: &StreamPlan,
    state: &State,
    time: Time,
    index: usize,
    slot: u32,
    instance: Option<&str>,
    out: &mut Verdicts,
) -> Result<(), Closed> {
    let words = match &plan.cell {
        Some(cell) => &state.frame[cell.value as usize..cell.value as usize + cell.width],
        None => state.streams[index].instances.latest(slot).unwrap_or_default(),
    };
    if plan.is_trigger {
        let message = words.first().map_or("", |word| state.strings.text(*word));
        return out.trigger(time, index, instance, if message.is_empty() { &plan.condition } else { message });
    }
    let mut text = String::new();
    let value = match &plan.ty {
        Type::Bool => Value::Bool(words[0] != 0),
        Type::UInt(_) => Value::UInt(words[0]),
        Type::Int(_) => Value::Int(words[0].cast_signed()),
        Type::Float(_) => Value::Float(f64::from_bits(words[0])),
        Type::String => Value::Text(state.strings.text(words[0])),
        Type::Fixed(_) | Type::UFixed(_) | Type::Bytes => {
            show(&mut text, &plan.ty, words, &state.strings);
            Value::Text(&text)
        }
        ty => {
            json(&mut text, ty, words, &state.strings);
            Value::Json(&text)
        }
    };
    out.value(time, index, instance, value)
}

/// The parameters of an instance as a JSON array.
fn label(plan: &StreamPlan, state: &State, index: usize, slot: u32) -> String {
    let mut text = String::new();
    let words = if plan.is_parameterised() { state.streams[index].instances.params(slot) } else { &[] };
    json_array(&mut text, &plan.params, words, &state.strings);
    text
}

fn json_array(text: &mut String, types: &[Type], words: &[u64], strings: &Strings) {
    text.push('[');
    let mut at = 0;
    for (index, ty) in types.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        json(text, ty, &words[at..], strings);
        at += width(ty);
    }
    text.push(']');
}

fn json(text: &mut String, ty: &Type, words: &[u64], strings: &Strings) {
    match ty {
        Type::Float(_) => json_float(text, f64::from_bits(words[0])),
        Type::String => json_text(text, strings.text(words[0])),
        Type::Fixed(_) | Type::UFixed(_) => json_text(text, &decimal(words).to_string()),
        Type::Bytes => {
            text.push('"');
            show(text, ty, words, strings);
            text.push('"');
        }
        Type::Tuple(parts) => json_array(text, parts, words, strings),
        Type::Option(_) if words[0] == 0 => text.push_str("null"),
        Type::Option(inner) => json(text, inner, &words[1..], strings),
        _ => show(text, ty, words, strings),
    }
}
