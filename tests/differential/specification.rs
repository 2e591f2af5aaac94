//! Generates specifications that the frontend mostly accepts: random streams on top of random inputs, often around
//! one of the typical shapes.

use super::access::Scope;
use super::draft::{Draft, Life, Stream, param_names};
use super::life::{own_close, some_life};
use super::pacing::{Pacing, together};
use super::random::Random;
use super::shapes;
use super::types::{FLOAT, INT, Ty, UINT};

pub(super) const PERIODS: [u64; 6] = [500, 1000, 1000, 1500, 2000, 3000];

pub(super) fn draft(random: &mut Random) -> Draft {
    let mut draft = Draft::default();
    if random.chance(45) {
        shapes::add(&mut draft, random);
    }
    let wanted = draft.inputs.len().max(2) + random.below(4);
    while draft.inputs.len() < wanted {
        let name = format!("i{}", draft.inputs.len());
        let ty = input_type(random);
        let domain = ty.domain();
        draft.input(&name, ty, domain);
    }
    for _ in 0..random.below(6) + 2 {
        if random.chance(45) {
            plain(&mut draft, random);
        } else {
            spawned(&mut draft, random);
        }
    }
    for _ in 0..random.below(3) {
        trigger(&mut draft, random);
    }
    if random.chance(50) {
        watch(&mut draft, random);
    }
    draft
}

/// Triggers that contain the values of streams, so that a run that selects only triggers shows them.
fn watch(draft: &mut Draft, random: &mut Random) {
    for stream in draft.streams.clone() {
        let pacing = match &stream.pacing {
            Pacing::Local(_) => Pacing::Global(random.choose(&PERIODS)),
            // The pacing of the stream, so that the trigger adds no clock of its own.
            pacing => pacing.clone(),
        };
        let Some(default) = stream.ty.literal(random) else { continue };
        if random.chance(40) || matches!(stream.ty, Ty::Fixed | Ty::UFixed | Ty::Tuple(_)) {
            continue;
        }
        let names = param_names(&stream.params);
        let value = format!("{}.hold(or: {default})", stream.with_args(&names));
        let mut text =
            if names.is_empty() { "trigger".to_owned() } else { format!("trigger({})", names.join(", ")) };
        let life = stream.life.as_ref();
        text += &life.map(|life| format!("\n  {}", life.spawn)).unwrap_or_default();
        let at = pacing.text(&draft.input_names(), random);
        text += &format!(
            "\n  eval {at} when {value} != {default} with \"{} {{{{v}}}}\".format({value})",
            stream.name
        );
        text +=
            &life.and_then(|life| life.close.clone()).map(|close| format!("\n  {close}")).unwrap_or_default();
        draft.declarations.push(text);
    }
}

fn input_type(random: &mut Random) -> Ty {
    let small = [8, 16, 32][random.below(3)];
    let types = [
        UINT,
        INT,
        FLOAT,
        Ty::Text,
        Ty::Bool,
        Ty::Int(small),
        Ty::UInt(small),
        Ty::Float(32),
        Ty::Fixed,
        Ty::UFixed,
        Ty::Bytes,
        Ty::Tuple(vec![FLOAT, FLOAT]),
        Ty::Tuple(vec![Ty::UInt(8), Ty::Text, Ty::Bool]),
        Ty::Tuple(vec![Ty::Fixed, Ty::Tuple(vec![INT, Ty::Bytes]), FLOAT]),
    ];
    types[random.weighted(&[20, 16, 12, 16, 10, 5, 5, 2, 5, 1, 5, 5, 5, 3])].clone()
}

fn output_type(random: &mut Random) -> Ty {
    let some = [Ty::Bool, INT, UINT, FLOAT, Ty::Text, Ty::Fixed, Ty::Int(16), Ty::UInt(8)];
    match random.weighted(&[12, 20, 22, 20, 8, 4, 2, 2, 5, 6]) {
        8 => Ty::Tuple(vec![some[random.below(5)].clone(), some[random.below(5)].clone()]),
        9 => Ty::Tuple(vec![FLOAT, FLOAT]),
        index => some[index].clone(),
    }
}

/// A scope for an expression, with the activations from which the frontend can infer its pacing.
pub(super) fn scope<'a>(
    draft: &'a Draft,
    random: &'a mut Random,
    pacing: Pacing,
    life: Option<&Life>,
) -> Scope<'a> {
    let params = life.map(|life| life.params.clone()).unwrap_or_default();
    Scope {
        draft,
        random,
        pacing,
        params: param_names(&params).into_iter().zip(params).collect(),
        life: life.cloned(),
        filter: None,
        own: None,
        touched: Vec::new(),
        inferred: false,
    }
}

/// A stream without instances.
fn plain(draft: &mut Draft, random: &mut Random) {
    let name = format!("o{}", draft.streams.len());
    let ty = output_type(random);
    let mut pacing =
        if random.chance(60) { draft.activation(random) } else { Pacing::Global(random.choose(&PERIODS)) };
    let inferred = pacing.is_event() && random.chance(35);
    let depth = random.below(3) + 1;
    let mut scope = scope(draft, random, pacing.clone(), None);
    scope.own = Some((name.clone(), ty.clone()));
    scope.inferred = inferred;
    let value = scope.expression(&ty, depth);
    let when = if scope.random.chance(20) { Some(scope.expression(&Ty::Bool, 2)) } else { None };
    let touched = std::mem::take(&mut scope.touched);
    let mut at = pacing.text(&draft.input_names(), random);
    if inferred && !touched.is_empty() {
        pacing = Pacing::Event(together(&touched));
        at.clear();
    }
    let text = match &when {
        Some(condition) => {
            format!("output {name} : {}\n  eval {at} when {condition} with {value}", ty.name())
        }
        None => format!("output {name} : {} {at} := {value}", ty.name()),
    };
    draft.output(Stream { name, ty, params: Vec::new(), pacing, life: None, filter: when }, text);
}

/// A stream that is spawned, mostly with parameters.
fn spawned(draft: &mut Draft, random: &mut Random) {
    let name = format!("o{}", draft.streams.len());
    let ty = output_type(random);
    let life = some_life(draft, random);
    let params = param_names(&life.params);
    let pacing = match random.below(10) {
        0..=5 => draft.activation(random),
        6 | 7 => Pacing::Global(random.choose(&PERIODS)),
        _ => Pacing::Local(random.choose(&PERIODS)),
    };
    let own = Stream {
        name: name.clone(),
        ty: ty.clone(),
        params: life.params.clone(),
        pacing: pacing.clone(),
        life: Some(life.clone()),
        filter: None,
    };
    let own_name = own.with_args(&params);
    let typed: Vec<String> =
        params.iter().zip(&life.params).map(|(name, ty)| format!("{name}: {}", ty.name())).collect();
    let declared = if random.chance(40) { own.with_args(&typed) } else { own_name.clone() };
    let mut text = format!("output {declared} : {}\n  {}", ty.name(), life.spawn);
    let clauses = if pacing.is_event() { [1, 1, 1, 1, 2, 3][random.below(6)] } else { 1 };
    let mut stream = own.clone();
    for clause in 0..clauses {
        let at = if clause == 0 { pacing.clone() } else { draft.activation(random) };
        let mut scope = scope(draft, random, at.clone(), Some(&life));
        let when = if scope.random.chance(60) { Some(filter(&mut scope)) } else { None };
        scope.own = Some((own_name.clone(), ty.clone()));
        scope.filter = when.clone().filter(|_| clauses == 1);
        let depth = scope.random.below(3) + 1;
        let value = scope.expression(&ty, depth);
        let at_text = at.text(&draft.input_names(), random);
        let when_text = when.as_ref().map(|when| format!(" when {when}")).unwrap_or_default();
        text += &format!("\n  eval {at_text}{when_text} with {value}");
        stream.filter = if clauses == 1 { when } else { Some(format!("several clauses of {name}")) };
        if let (Pacing::Event(all), Pacing::Event(more)) = (&mut stream.pacing, at) {
            all.extend(more.into_iter().filter(|other| !all.contains(other)).collect::<Vec<_>>());
        }
    }
    if let Some(close) = &life.close {
        text += &format!("\n  {close}");
    } else if random.chance(20) && !(params.is_empty() && text.contains("aggregate(over")) {
        // Not with windows if there are no parameters: the interpreter fails on windows of a stream that has
        // closed.
        let close = own_close(draft, random, &stream, &own_name);
        text += &format!("\n  {close}");
        stream.life = Some(Life { close: Some(close), ..life });
    }
    draft.output(stream, text);
}

/// A condition that determines all, some or none of the parameters.
pub(super) fn filter(scope: &mut Scope<'_>) -> String {
    let mut conditions = Vec::new();
    let params = scope.params.clone();
    if params.len() == 2 && scope.random.chance(12) {
        let (one, two) = (scope.leaf(&params[0].1), scope.leaf(&params[1].1));
        conditions.push(format!("({one}, {two}) = ({}, {})", params[0].0, params[1].0));
    } else {
        for (name, ty) in &params {
            if scope.random.chance(25) {
                continue;
            }
            let value = match scope.sync(ty).filter(|_| scope.random.chance(75)) {
                Some(value) => value,
                None => scope.leaf(ty),
            };
            conditions.push(match scope.random.weighted(&[6, 4, 1]) {
                0 => format!("{value} = {name}"),
                1 => format!("{name} = {value}"),
                _ => format!("{value} != {name}"),
            });
        }
    }
    if conditions.is_empty() || scope.random.chance(25) {
        let extra = scope.expression(&Ty::Bool, 1);
        conditions.insert(scope.random.below(conditions.len() + 1), extra);
    }
    if conditions.len() == 1 {
        return conditions.remove(0);
    }
    let operator = if scope.random.chance(10) { "∨" } else { "∧" };
    // Nested in one of several ways.
    let join = |left: String, right: &String| format!("({left}) {operator} ({right})");
    let (first, rest) = conditions.split_at(1);
    rest.iter().fold(first[0].clone(), join)
}

fn trigger(draft: &mut Draft, random: &mut Random) {
    let message = random.pick(&["", " \"too much\"", " \"odd\""]);
    if random.chance(60) {
        let pacing = if random.chance(60) {
            draft.activation(random)
        } else {
            Pacing::Global(random.choose(&PERIODS))
        };
        let mut scope = scope(draft, random, pacing.clone(), None);
        let condition = scope.expression(&Ty::Bool, 2);
        let at = pacing.text(&draft.input_names(), random);
        draft.declarations.push(format!("trigger {at} {condition}{message}"));
        return;
    }
    let life = some_life(draft, random);
    let pacing = draft.activation(random);
    let mut scope = scope(draft, random, pacing.clone(), Some(&life));
    let condition = if scope.random.chance(50) { filter(&mut scope) } else { scope.expression(&Ty::Bool, 2) };
    let value = scope.expression(&INT, 1);
    let names = param_names(&life.params);
    let placeholders: Vec<String> = names.iter().map(|name| format!("{{{{{name}}}}}")).collect();
    let mut text =
        if names.is_empty() { "trigger".to_owned() } else { format!("trigger({})", names.join(", ")) };
    let arguments = names.iter().cloned().chain([value]).collect::<Vec<_>>().join(", ");
    let at = pacing.text(&draft.input_names(), random);
    text += &format!(
        "\n  {}\n  eval {at} when {condition} with \"{} has {{{{n}}}}\".format({arguments})",
        life.spawn,
        placeholders.join("/"),
    );
    text += &life.close.map(|close| format!("\n  {close}")).unwrap_or_default();
    draft.declarations.push(text);
}
