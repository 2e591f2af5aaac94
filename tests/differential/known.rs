//! Specifications that the interpreter is known to evaluate wrongly, each documented by a conformance case. The
//! engines differ on these, as they should.

use fairstream_engine::Specification;
use rtlola_frontend::RtLolaMir;
use rtlola_frontend::mir::{
    ArithLogOp, Expression, ExpressionKind, InstanceOperation, InstanceSelection, OutputStream, PacingType,
    Stream, Type, WindowOperation,
};

/// Whether the interpreter is known to evaluate a specification wrongly.
pub(super) fn is_misjudged(spec: &Specification) -> bool {
    forgets_a_close(spec.mir())
        || does_not_wait(spec.mir())
        || does_not_start(spec.mir())
        || does_not_start_again(spec.mir())
        || mistakes_a_literal(spec.mir())
        || may_drift(spec.mir())
        || may_round_otherwise(spec)
}

/// The interpreter computes the spread of floats in a window in decimals, the compiled engine in floats; a sum in
/// a window with a local clock is added up in another order. All results agree to nine digits. After rounding to a
/// few digits, a number halfway between two may become either, and of two numbers that are equal to all digits
/// either may be the greater: `deviation_beside_its_equal`.
fn may_round_otherwise(spec: &Specification) -> bool {
    let mir = spec.mir();
    let text = format!("{:?}", mir.outputs);
    let has_fractions = FRACTIONS.iter().any(|word| text.contains(word));
    let compares = has_fractions && mir.outputs.iter().any(|output| expressions(output).any(compares_floats));
    let rounds = text.contains("Function(\"round\"");
    (has_spread(spec) && (rounds || compares)) || (sums_floats(mir) && compares)
}

/// Whether there is a window with a sum of floats or a similar aggregation.
fn sums_floats(mir: &RtLolaMir) -> bool {
    let sums = |op: WindowOperation, ty: &Type| {
        use WindowOperation::{Average, Integral, Product, Sum};
        let is_float =
            matches!(ty, Type::Float(_)) || matches!(ty, Type::Option(ty) if matches!(**ty, Type::Float(_)));
        is_float && matches!(op, Average | Integral | Product | Sum)
    };
    mir.sliding_windows.iter().any(|window| sums(window.op, &window.ty))
        || mir.discrete_windows.iter().any(|window| sums(window.op, &window.ty))
}

/// All expressions of a stream.
fn expressions(output: &OutputStream) -> impl Iterator<Item = &Expression> {
    let clauses = output.eval.clauses.iter();
    let clauses = clauses.flat_map(|clause| clause.condition.iter().chain([&clause.expression]));
    let spawn = output.spawn.expression.iter().chain(&output.spawn.condition);
    clauses.chain(spawn).chain(&output.close.condition)
}

/// Whether an expression compares floats.
fn compares_floats(expression: &Expression) -> bool {
    let parts: Vec<&Expression> = match &expression.kind {
        ExpressionKind::ArithLog(op, parts) => {
            use ArithLogOp::{Eq, Ge, Gt, Le, Lt, Ne};
            let is_float = parts.first().is_some_and(|part| matches!(part.ty, Type::Float(_)));
            if is_float && matches!(op, Eq | Ne | Lt | Le | Gt | Ge) {
                return true;
            }
            parts.iter().collect()
        }
        ExpressionKind::StreamAccess { parameters: parts, .. }
        | ExpressionKind::Tuple(parts)
        | ExpressionKind::Function(_, parts) => parts.iter().collect(),
        ExpressionKind::Ite { condition, consequence, alternative } => {
            vec![condition, consequence, alternative]
        }
        ExpressionKind::TupleAccess(expr, _) | ExpressionKind::Convert { expr } => vec![expr],
        ExpressionKind::Default { expr, default } => vec![expr, default],
        ExpressionKind::LoadConstant(_)
        | ExpressionKind::ParameterAccess(..)
        | ExpressionKind::LambdaParameterAccess { .. } => Vec::new(),
    };
    parts.into_iter().any(compares_floats)
}

/// Operations that produce fractions other than quarters.
const FRACTIONS: [&str; 3] = ["ArithLog(Div", "Function(", "ArithLog(Pow"];

/// The interpreter maintains sums of floats over all instances by addition and subtraction, so they drift, and are
/// NaN once they have contained an infinity. Neither happens for multiples of a quarter.
fn may_drift(mir: &RtLolaMir) -> bool {
    let text = format!("{:?}", mir.outputs);
    let has_fractions = FRACTIONS.iter().any(|word| text.contains(word));
    let sums = mir.instance_aggregations.iter().any(|aggregation| {
        let is_float = matches!(mir.output(aggregation.target).ty, Type::Float(_));
        is_float
            && aggregation.aggr == InstanceOperation::Sum
            && aggregation.selection == InstanceSelection::All
    });
    sums && has_fractions
}

/// Whether an overflow may occur in the decimals with which the interpreter computes variances of floats, in which
/// case it says nothing about the events.
pub(super) fn may_overflow_decimals(spec: &Specification) -> bool {
    has_spread(spec)
}

/// Whether there is a window with a variance or a similar aggregation.
fn has_spread(spec: &Specification) -> bool {
    let is_spread = |operation| {
        matches!(
            operation,
            WindowOperation::Variance | WindowOperation::StandardDeviation | WindowOperation::Covariance
        )
    };
    spec.mir().sliding_windows.iter().any(|window| is_spread(window.op))
        || spec.mir().discrete_windows.iter().any(|window| is_spread(window.op))
}

/// A literal whose inferred type is unsigned stays signed, and equals no unsigned number.
fn mistakes_a_literal(mir: &RtLolaMir) -> bool {
    // Expressions occur in many places, all of which are part of the debug text.
    let text = format!("{:?}", mir.outputs);
    let literals = text.split("LoadConstant(Int(").skip(1);
    let mut types = literals.filter_map(|rest| rest.split_once(")), ty: "));
    let mistaken = types.any(|(_, ty)| ty.starts_with("UInt"));
    // A filter may use a parameter as another type than it has; the compiled engine refuses that.
    let retyped = mir.instance_aggregations.iter().any(|aggregation| {
        let params = &mir.output(aggregation.target).params;
        let text = format!("{:?}", aggregation.selection.condition());
        params.iter().any(|param| {
            let access = format!("pref: {} }}, ty: ", param.idx);
            let own = format!("{:?}", param.ty);
            text.split(&access).skip(1).any(|rest| !rest.starts_with(&own))
        })
    });
    mistaken || retyped
}

/// A window of a stream without parameters that was closed and spawned again stays empty:
/// `window_of_a_stream_spawned_again`.
fn does_not_start_again(mir: &RtLolaMir) -> bool {
    let ends = |caller| {
        let caller = mir.output(caller);
        !caller.is_parameterized() && caller.close.condition.is_some()
    };
    mir.sliding_windows.iter().any(|window| ends(window.caller))
        || mir.discrete_windows.iter().any(|window| ends(window.caller))
}

/// A window with the clock of a stream without parameters, over an instance that is spawned after
/// that stream, stays empty: `window_over_a_later_instance`.
fn does_not_start(mir: &RtLolaMir) -> bool {
    mir.sliding_windows.iter().any(|window| {
        matches!(window.pacing, PacingType::LocalPeriodic(_))
            && !mir.stream(window.caller).is_parameterized()
            && mir.stream(window.target).is_parameterized()
    })
}

/// A percentile over an exact number of values does not wait for them: `percentile_that_waits`.
fn does_not_wait(mir: &RtLolaMir) -> bool {
    let is_percentile = |operation| matches!(operation, WindowOperation::NthPercentile(_));
    mir.discrete_windows.iter().any(|window| window.wait && is_percentile(window.op))
}

/// A close condition is never evaluated.
fn forgets_a_close(mir: &RtLolaMir) -> bool {
    mir.outputs.iter().filter(|output| output.close.condition.is_some()).any(|output| {
        match output.close.pacing {
            // `clock_that_only_closes`, `close_by_its_own_value`
            PacingType::GlobalPeriodic(_) => {
                !mir.has_time_driven_features() || output.close.has_self_reference
            }
            // `local_close_of_events`
            PacingType::LocalPeriodic(_) => !is_periodic(output),
            _ => false,
        }
    })
}

fn is_periodic(output: &OutputStream) -> bool {
    matches!(output.eval.eval_pacing, PacingType::GlobalPeriodic(_) | PacingType::LocalPeriodic(_))
}

/// Whether a sum may overflow at another time. The interpreter sums the values of windows and instances as they
/// arrive; the compiled engine sums the values of instances, and of windows with a local clock, when they are
/// read.
pub(super) fn may_overflow_later(spec: &Specification) -> bool {
    let mir = spec.mir();
    mir.sliding_windows.iter().any(|window| matches!(window.pacing, PacingType::LocalPeriodic(_)))
        || mir.instance_aggregations.iter().any(|aggregation| aggregation.aggr == InstanceOperation::Sum)
}
