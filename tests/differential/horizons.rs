//! Specifications in which a trial is counted some time after it began.

use super::draft::Draft;
use super::pacing::{Pacing, duration};
use super::random::Random;
use super::shapes::{Part, gap, groups, ids};
use super::types::{FLOAT, INT, Ty, UINT};

fn screenings(draft: &mut Draft, random: &mut Random) -> (usize, usize) {
    let event =
        draft.input("event", Ty::Text, ["SCREEN", "SCREEN", "RECIDIVISM"].map(str::to_owned).to_vec());
    let id = draft.input("id", INT, ids(8));
    draft.input("group", Ty::Text, groups(random));
    draft.input("score", INT, ids(11));
    (event, id)
}

/// Trials that are counted a number of ticks after they began.
pub(super) fn compas(draft: &mut Draft, random: &mut Random) {
    let (event, id) = screenings(draft, random);
    let (day, days) = ([500, 1000, 2000][random.below(3)], random.below(3) + 2);
    let (tick, daily) = (format!("@Global({})", duration(day)), Pacing::Global(day));
    let over = format!("days_per(p).hold(or: 0) = {days}");
    draft.part(Part {
        name: "days_per",
        ty: INT,
        params: vec![INT],
        pacing: daily.clone(),
        spawn: "spawn with id",
        close: Some(&format!("close {tick} when days_per(p).hold(or: 0) = {days}")),
        filter: None,
        eval: format!("eval {tick} with days_per(p).last(or: 0) + 1"),
    });
    let close = format!("close {tick} when {over}");
    draft.part(Part {
        name: "has_re",
        ty: Ty::Bool,
        params: vec![INT],
        pacing: Pacing::Event(vec![vec![event, id]]),
        spawn: "spawn with id",
        close: Some(&close),
        filter: Some("id = p"),
        eval: "eval @(event∧id) when id = p with event = \"RECIDIVISM\"".to_owned(),
    });
    let within = duration(day * (random.below(days + 1) as u64 + 1));
    let re_offended = match random.below(4) {
        0 => "has_re(p).hold(or: false)".to_owned(),
        1 => format!("!has_re(p).aggregate(over: {within}, using: forall)"),
        _ => format!("has_re(p).aggregate(over: {within}, using: exists)"),
    };
    let filter = format!("{over} ∧ {re_offended}");
    draft.part(Part {
        name: "tp_event",
        ty: UINT,
        params: vec![INT, Ty::Text, INT],
        pacing: daily.clone(),
        spawn: "spawn with (id, group, score)",
        close: Some(&close),
        filter: Some(&filter),
        eval: format!("eval {tick} when {filter} with if r > 6 then 1 else 0"),
    });
    group_counts(draft, random, &tick, daily, "tp_event");
}

/// Counts and sums of the trials that are over, for each group; their ratio; the gap.
fn group_counts(draft: &mut Draft, random: &mut Random, tick: &str, daily: Pacing, trial: &str) {
    for (name, operation) in [("all_n", "count"), ("some_n", "sum")] {
        let filter = random.pick(&["y = p", "p = y"]);
        draft.part(Part {
            name,
            ty: UINT,
            params: vec![Ty::Text],
            pacing: daily.clone(),
            spawn: "spawn with group",
            close: None,
            filter: None,
            eval: format!("eval {tick} with {name}(p).last(or: 2) + {trial}.aggregate(over_instances: All(where: (x, y, z) => {filter}), using: {operation})"),
        });
    }
    draft.part(Part {
        name: "ratio",
        ty: FLOAT,
        params: vec![Ty::Text],
        pacing: daily.clone(),
        spawn: "spawn with group",
        close: None,
        filter: Some("all_n(p) != 0"),
        eval:
            "eval when all_n(p) != 0 with cast<UInt64, Float64>(some_n(p)) / cast<UInt64, Float64>(all_n(p))"
                .to_owned(),
    });
    gap(draft, random, "ratio", tick, daily);
}

/// Trials with their own local clock, counted at the first tick after their deadline, then closed.
pub(super) fn horizon(draft: &mut Draft, random: &mut Random) {
    let (event, id) = screenings(draft, random);
    let (day, days) = ([500, 1000, 2000][random.below(3)], random.below(3) as u64 + 1);
    let (tick, later) = (format!("@Global({})", duration(day)), format!("@Local({})", duration(day * days)));
    let close = format!("close {tick} when over(p).hold(or: false)");
    let screened = "spawn when event = \"SCREEN\" with";
    let part = |name, ty, params, pacing, filter, eval| (name, ty, params, pacing, filter, eval);
    let offence = "id = p ∧ event = \"RECIDIVISM\"";
    let (own, local) = (vec![INT], Pacing::Local(day * days));
    let parts = [
        part(
            "reoffended",
            Ty::Bool,
            own.clone(),
            Pacing::Event(vec![vec![event, id]]),
            Some(offence),
            format!("eval @id∧event when {offence} with true"),
        ),
        part("over", Ty::Bool, own, local.clone(), None, format!("eval {later} with true")),
        part(
            "resolved",
            UINT,
            vec![INT, Ty::Text, INT],
            local,
            None,
            format!("eval {later} with if reoffended(p).hold(or: false) ∧ r > 3 then 1 else 0"),
        ),
    ];
    for (name, ty, params, pacing, filter, eval) in parts {
        let spawn = if params.len() == 1 {
            format!("{screened} id")
        } else {
            format!("{screened} (id, group, score)")
        };
        draft.part(Part { name, ty, params, pacing, spawn: &spawn, close: Some(&close), filter, eval });
    }
    group_counts(draft, random, &tick, Pacing::Global(day), "resolved");
}
