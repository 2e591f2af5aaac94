//! Typical specifications: accumulators for each group, trials with an outcome, gaps between groups. Details are
//! random; random streams can read the streams that a shape adds.

use super::draft::{Draft, Life, Stream};
use super::horizons;
use super::pacing::{Activation, Pacing};
use super::random::Random;
use super::types::{FLOAT, INT, Ty, UINT};

pub(super) fn add(draft: &mut Draft, random: &mut Random) {
    match random.below(6) {
        0 => accumulators(draft, random),
        1 => hiring(draft, random),
        2 => hiring_by_lookup(draft, random),
        3 => seminar(draft, random),
        4 => horizons::compas(draft, random),
        _ => horizons::horizon(draft, random),
    }
}

/// A stream of a shape, without its pacing and life.
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) ty: Ty,
    pub(super) params: Vec<Ty>,
    pub(super) pacing: Pacing,
    pub(super) spawn: &'a str,
    pub(super) close: Option<&'a str>,
    pub(super) filter: Option<&'a str>,
    /// Its eval clauses.
    pub(super) eval: String,
}

impl Draft {
    pub(super) fn part(&mut self, part: Part<'_>) {
        let life = Life {
            params: part.params.clone(),
            spawn: part.spawn.to_owned(),
            close: part.close.map(str::to_owned),
        };
        let life = Some(life).filter(|_| !part.spawn.is_empty());
        let stream = Stream {
            name: part.name.to_owned(),
            ty: part.ty,
            params: part.params,
            pacing: part.pacing,
            life,
            filter: part.filter.map(str::to_owned),
        };
        let names = super::draft::param_names(&stream.params);
        let mut text = format!("output {} : {}", stream.with_args(&names), stream.ty.name());
        for line in [part.spawn, &part.eval, part.close.unwrap_or_default()] {
            if !line.is_empty() {
                text += &format!("\n  {line}");
            }
        }
        self.output(stream, text);
    }
}

pub(super) fn groups(random: &mut Random) -> Vec<String> {
    ["F", "M", "D"][..random.below(2) + 2].iter().map(|group| (*group).to_owned()).collect()
}

pub(super) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|id| id.to_string()).collect()
}

/// A sum for each user, and aggregates over all of them.
fn accumulators(draft: &mut Draft, random: &mut Random) {
    let user = draft.input("user", UINT, ids(5));
    let value = draft.input("value", INT, INT.domain());
    let both: Activation = vec![vec![user, value]];
    let filter = random.pick(&["user = p", "p = user"]);
    let close = random.chance(30).then_some("close @user when value.hold(or: 0) > 7 ∧ user = p");
    draft.part(Part {
        name: "amount",
        ty: INT,
        params: vec![UINT],
        pacing: Pacing::Event(both),
        spawn: "spawn with user",
        close,
        filter: Some(filter),
        eval: format!("eval @user∧value when {filter} with amount(p).last(or: 0) + value"),
    });
    let operation = random.pick(&["max", "min"]);
    draft.part(Part {
        name: "extreme",
        ty: INT,
        params: vec![],
        pacing: Pacing::Event(vec![vec![value]]),
        spawn: "",
        close: None,
        filter: None,
        eval: format!(
            "eval @value with amount.aggregate(over_instances: all, using: {operation}).defaults(to: 0)"
        ),
    });
    draft.declarations.push(format!("trigger extreme > {} \"rich\"", random.below(20)));
}

/// The gap between the largest and the smallest rate.
pub(super) fn gap(draft: &mut Draft, random: &mut Random, rate: &str, at: &str, pacing: Pacing) {
    let aggregate = |operation: &str| {
        format!("{rate}.aggregate(over_instances: all, using: {operation}).defaults(to: 0.0)")
    };
    draft.part(Part {
        name: "gap",
        ty: FLOAT,
        params: vec![],
        pacing,
        spawn: "",
        close: None,
        filter: None,
        eval: format!("eval {at} with {} - {}", aggregate("max"), aggregate("min")),
    });
    let limit = ["0.1", "0.05", "0.25"][random.below(3)];
    draft.declarations.push(format!("trigger gap > {limit} \"unequal\""));
}

/// `(some + γκ) / (all + κ)` for a group.
fn rate(some: &str, all: &str) -> String {
    format!("(cast<UInt64, Float64>({some}) + 2.0) / (cast<UInt64, Float64>({all}) + 4.0)")
}

/// One trial for each applicant; groups count trials.
fn hiring(draft: &mut Draft, random: &mut Random) {
    let id = draft.input("id", UINT, ids(8));
    draft.input("gender", Ty::Text, groups(random));
    let accepted = draft.input("accepted", UINT, ids(8));
    let changed = Pacing::Event(vec![vec![id], vec![accepted]]);
    let second =
        random.pick(&["eval @id when id = p with 0", "eval @id∧gender when p = id ∧ q = gender with 0"]);
    draft.part(Part {
        name: "hired",
        ty: UINT,
        params: vec![UINT, Ty::Text],
        pacing: changed.clone(),
        spawn: "spawn with (id, gender)",
        close: None,
        filter: Some("several clauses of hired"),
        eval: format!("eval @accepted when accepted = p with 1\n  {second}"),
    });
    for (name, operation) in [("applied_n", "count"), ("hired_n", "sum")] {
        let filter = random.pick(&["y = p", "p = y"]);
        draft.part(Part {
            name,
            ty: UINT,
            params: vec![Ty::Text],
            pacing: changed.clone(),
            spawn: "spawn with gender",
            close: None,
            filter: None,
            eval: format!("eval @id∨accepted with hired.aggregate(over_instances: All(where: (x, y) => {filter}), using: {operation})"),
        });
    }
    draft.part(Part {
        name: "rate",
        ty: FLOAT,
        params: vec![Ty::Text],
        pacing: changed.clone(),
        spawn: "spawn with gender",
        close: None,
        filter: None,
        eval: format!("eval @id∨accepted with {}", rate("hired_n(p)", "applied_n(p)")),
    });
    gap(draft, random, "rate", "@id∨accepted", changed);
}

/// Counters for each group; an applicant stores only the group.
fn hiring_by_lookup(draft: &mut Draft, random: &mut Random) {
    let id = draft.input("id", UINT, ids(8));
    let gender = draft.input("gender", Ty::Text, groups(random));
    let accepted = draft.input("accepted", UINT, ids(8));
    let changed = Pacing::Event(vec![vec![id], vec![accepted]]);
    let part = |name, ty, param, pacing, spawn, filter, eval| Part {
        name,
        ty,
        params: vec![param],
        pacing,
        spawn,
        close: None,
        filter: Some(filter),
        eval,
    };
    let filter = "id = p";
    let eval = format!("eval @id∧gender when {filter} with gender");
    let both = Pacing::Event(vec![vec![id, gender]]);
    draft.part(part("group_of", Ty::Text, UINT, both, "spawn with id", filter, eval));
    let eval = "eval @gender when gender = p with applied_n(p).last(or: 0) + 1".to_owned();
    let pacing = Pacing::Event(vec![vec![gender]]);
    draft.part(part("applied_n", UINT, Ty::Text, pacing, "spawn with gender", "gender = p", eval));
    let filter = "group_of(accepted).hold(or: \"\") = p";
    let eval = format!("eval @accepted when {filter} with hired_n(p).last(or: 0) + 1");
    let pacing = Pacing::Event(vec![vec![accepted]]);
    draft.part(part("hired_n", UINT, Ty::Text, pacing, "spawn with gender", filter, eval));
    let eval =
        format!("eval @id∨accepted with {}", rate("hired_n(p).hold(or: 0)", "applied_n(p).hold(or: 0)"));
    let rate = part("rate", FLOAT, Ty::Text, changed.clone(), "spawn with gender", "", eval);
    draft.part(Part { filter: None, ..rate });
    gap(draft, random, "rate", "@id∨accepted", changed);
}

/// Trials with three parameters, counted by two of them; a gap for each seminar.
fn seminar(draft: &mut Draft, random: &mut Random) {
    let id = draft.input("id", UINT, ids(8));
    draft.input("gender", Ty::Text, groups(random));
    draft.input("seminar", Ty::Text, vec!["s".to_owned(), "t".to_owned()]);
    let accepted = draft.input("accepted", UINT, ids(8));
    let changed = Pacing::Event(vec![vec![id], vec![accepted]]);
    let part = |name, ty, params, spawn, eval| Part {
        name,
        ty,
        params,
        pacing: changed.clone(),
        spawn,
        close: None,
        filter: None,
        eval,
    };
    let eval = "eval @accepted when accepted = p with 1\n  eval @id when id = p with 0".to_owned();
    let seat = part("seat", UINT, vec![UINT, Ty::Text, Ty::Text], "spawn with (id, gender, seminar)", eval);
    draft.part(Part { filter: Some("several clauses of seat"), ..seat });
    let both = || vec![Ty::Text, Ty::Text];
    for (name, operation) in [("applied_n", "count"), ("accepted_n", "sum")] {
        let filter = random.pick(&["y = p ∧ z = q", "z = q ∧ p = y", "(z, y) = (q, p)"]);
        let eval = format!(
            "eval @id∨accepted with seat.aggregate(over_instances: All(where: (x, y, z) => {filter}), using: {operation})"
        );
        draft.part(part(name, UINT, both(), "spawn with (gender, seminar)", eval));
    }
    let eval = format!("eval @id∨accepted with {}", rate("accepted_n(p, q)", "applied_n(p, q)"));
    draft.part(part("rate", FLOAT, both(), "spawn with (gender, seminar)", eval));
    let extreme = |operation: &str| {
        format!(
            "rate.aggregate(over_instances: All(where: (x, y) => y = p), using: {operation}).defaults(to: 0.5)"
        )
    };
    let eval = format!("eval @id∨accepted with {} - {}", extreme("max"), extreme("min"));
    draft.part(part("gap", FLOAT, vec![Ty::Text], "spawn with seminar", eval));
    draft.declarations.push(
        "trigger(p)\n  spawn with seminar\n  eval @id∨accepted when gap(p) > 0.1 with \"unequal in {{p}}: {{gap}}\".format(p, gap(p))".to_owned(),
    );
}
