//! The names of documents, tables and columns. They are the format: what is written under one name today must be read under
//! it by every later version. A name with a dot in it cannot be that of a stream.

use crate::compiled::ir::aggregate::Aggregate;
use crate::compiled::ir::fold::FoldOp;
use crate::compiled::ir::plan::{FamilyPlan, GroupedPlan, Plan};
use crate::compiled::ir::window::{WindowKind, WindowPlan};

/// The document with everything but instances.
pub(super) const DOCUMENT: &str = "engine";

/// Which spawn of its family an instance is.
pub(super) const INSTANCE: &str = ".instance";
/// When it was spawned.
pub(super) const SPAWNED: &str = ".spawned";
/// The instant of its spawn, which orders events at the same time.
pub(super) const SPAWN_INSTANT: &str = ".spawn_instant";
/// When its close condition is due.
pub(super) const CLOSE_DEADLINE: &str = ".close_deadline";
/// Whether something that its close condition reads has changed since the condition was checked.
pub(super) const CLOSE_DIRTY: &str = ".close_dirty";
/// Until when the window of an instance that has closed can be read.
pub(super) const UNTIL: &str = ".until";
/// The entries of a window of an instance that has closed.
pub(super) const ENTRIES: &str = ".entries";

/// The table of the instances of a family, by its first stream.
pub(super) fn table(stream: &str) -> String {
    format!("engine/instances/{stream}")
}

/// The table of windows over instances that have closed, by their number.
pub(super) fn closed_windows(number: usize) -> String {
    format!("engine/windows/{number}")
}

/// The table of sums of decimals, by their number.
pub(super) fn sums(number: usize) -> String {
    format!("engine/sums/{number}")
}

/// The values of a stream before the latest.
pub(super) fn earlier(stream: &str) -> String {
    format!("{stream}.earlier")
}

/// Whether the latest evaluation gave a value.
pub(super) fn holds(stream: &str) -> String {
    format!("{stream}.holds")
}

/// Whether something that the evaluation reads has changed since.
pub(super) fn dirty(stream: &str) -> String {
    format!("{stream}.dirty")
}

/// When the clock with a period, in nanoseconds, that starts with an instance is due.
pub(super) fn deadline(period: u64) -> String {
    format!(".deadline {}", in_units(period))
}

/// The columns of the parameters of a family.
pub(super) fn parameters(plan: &Plan, family: &FamilyPlan) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in &plan.streams[family.members[0]].param_names {
        let is_stream = family.members.iter().any(|member| plan.streams[*member].name == *name);
        let is_taken = is_stream || names.contains(name);
        names.push(if is_taken { format!("{name}.parameter") } else { name.clone() });
    }
    names
}

/// A window by what it is over and how it aggregates. Windows of one name have the same entries.
pub(super) fn window(plan: &WindowPlan, over: &str) -> String {
    let exactly = if plan.waits { "_exactly" } else { "" };
    let span = match plan.kind {
        WindowKind::Buckets { count, .. } => {
            format!("over{exactly}: {}, buckets: {count}", in_units(plan.duration()))
        }
        WindowKind::Log { count, .. } => {
            format!("over{exactly}: {}, buckets: {count}, since: spawn", in_units(plan.duration()))
        }
        WindowKind::Values { count } => format!("over{exactly}_discrete: {count}"),
    };
    let using = match plan.fold.operation {
        FoldOp::Count => "count",
        FoldOp::Min => "min",
        FoldOp::Max => "max",
        FoldOp::Sum => "sum",
        FoldOp::Average => "average",
        FoldOp::Integral => "integral",
        FoldOp::All => "forall",
        FoldOp::Any => "exists",
        FoldOp::Last => "last",
        FoldOp::Variance => "variance",
        FoldOp::Covariance => "covariance",
        FoldOp::Deviation => "deviation",
        FoldOp::WindowPercentile(_) | FoldOp::InstancePercentile(_) => "values",
    };
    format!("{over}.aggregate({span}, using: {using})")
}

/// Sums of decimals by what they are over.
pub(super) fn sum(plan: &Plan, grouped: &GroupedPlan, aggregate: usize) -> String {
    let over = &plan.streams[grouped.target].name;
    let by = grouped.key_names.join(", ");
    let only = grouped.filter_text.as_deref().map_or_else(String::new, |text| format!(", where: {text}"));
    let using = if let Aggregate::Average(_) = grouped.aggregates[aggregate] { "average" } else { "sum" };
    format!("{over}.aggregate(by: ({by}){only}, using: {using})")
}

/// A duration in the largest unit that divides it.
fn in_units(nanos: u64) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    let (unit, size) = UNITS.into_iter().find(|(_, size)| nanos.is_multiple_of(*size)).unwrap_or(("ns", 1));
    format!("{}{unit}", nanos / size)
}
