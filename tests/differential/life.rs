//! Generates spawn and close clauses, shared by several streams or of a single one.

use super::draft::{Draft, Life, Stream};
use super::pacing::{Pacing, together};
use super::random::Random;
use super::specification::{PERIODS, filter, scope};
use super::types::{Ty, UINT};

/// Closes a stream by its own value, which no other stream can share.
pub(super) fn own_close(draft: &Draft, random: &mut Random, stream: &Stream, own_name: &str) -> String {
    let pacing = match random.below(3) {
        0 => draft.activation(random),
        1 => Pacing::Global(random.choose(&PERIODS)),
        _ => stream.pacing.clone(),
    };
    let at = pacing.text(&draft.input_names(), random);
    match stream.ty.literal(random) {
        Some(default) if stream.ty.is_ordered() => {
            format!("close {at} when {own_name}.hold(or: {default}) > {default}")
        }
        Some(default) => format!("close {at} when {own_name}.hold(or: {default}) != {default}"),
        None => format!("close {at} when true"),
    }
}

/// Spawn and close clauses of an earlier stream, or new ones.
pub(super) fn some_life(draft: &Draft, random: &mut Random) -> Life {
    let lives: Vec<Life> = draft.streams.iter().filter_map(|stream| stream.life.clone()).collect();
    let shared = |life: &Life| life.close.as_ref().is_none_or(|close| !close.contains(".hold("));
    let lives: Vec<Life> = lives.into_iter().filter(shared).collect();
    if !lives.is_empty() && random.chance(50) {
        return random.choose(&lives);
    }
    let count = [0, 1, 1, 1, 1, 1, 2, 2, 2, 3][random.below(10)];
    let inputs: Vec<usize> = (0..count.max(1)).map(|_| random.below(draft.inputs.len())).collect();
    let periodic = random.chance(8);
    let pacing = if periodic {
        Pacing::Global(random.choose(&PERIODS))
    } else {
        Pacing::Event(together(&inputs.iter().map(|input| vec![vec![*input]]).collect::<Vec<_>>()))
    };
    let mut scope = scope(draft, random, pacing.clone(), None);
    let (mut params, mut values) = (Vec::new(), Vec::new());
    for input in inputs.iter().take(count) {
        let input = &draft.inputs[*input];
        let from_input = !periodic && scope.random.chance(80);
        let ty = if from_input || is_key(&input.ty) { input.ty.clone() } else { UINT };
        values.push(if from_input {
            scope.touched.push(vec![vec![0]]);
            input.name.clone()
        } else {
            // Not a constant, whose type could be inferred differently.
            let value = scope.expression(&ty, 1);
            if is_constant(&value) { scope.hold(&ty).unwrap_or(value) } else { value }
        });
        params.push(ty);
    }
    let when =
        if count == 0 || scope.random.chance(30) { Some(scope.expression(&Ty::Bool, 2)) } else { None };
    let mut spawn = "spawn".to_owned();
    if scope.touched.is_empty() || scope.random.chance(50) || periodic {
        spawn += &format!(" {}", pacing.text(&draft.input_names(), scope.random));
    }
    spawn += &when.map(|when| format!(" when {when}")).unwrap_or_default();
    match values.len() {
        0 => {}
        1 => spawn += &format!(" with {}", values[0]),
        _ => spawn += &format!(" with ({})", values.join(", ")),
    }
    let close = if random.chance(25) { Some(shared_close(draft, random, &params)) } else { None };
    Life { params, spawn, close }
}

fn is_key(ty: &Ty) -> bool {
    matches!(ty, Ty::Int(_) | Ty::UInt(_) | Ty::Text | Ty::Bool)
}

/// A close clause that does not read the stream itself.
fn shared_close(draft: &Draft, random: &mut Random, params: &[Ty]) -> String {
    let pacing = match random.below(4) {
        0 | 1 => draft.activation(random),
        2 => Pacing::Global(random.choose(&PERIODS)),
        _ => Pacing::Local(random.choose(&PERIODS)),
    };
    let life = Life { params: params.to_vec(), spawn: String::new(), close: None };
    let mut scope = scope(draft, random, pacing.clone(), Some(&life));
    let condition = if scope.random.chance(40) { filter(&mut scope) } else { scope.expression(&Ty::Bool, 2) };
    format!("close {} when {condition}", pacing.text(&draft.input_names(), random))
}

fn is_constant(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}
