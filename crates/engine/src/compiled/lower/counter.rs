//! Recognises tick counters, and conditions that compare them with a constant.
//!
//! `x(i).last(or: 0) + 1` at every tick of a global clock is a function of the ticks since the spawn, so no instance need
//! be evaluated; and `x(i) = 730` changes at two ticks that are known at the spawn.

use rtlola_frontend::mir::{
    ArithLogOp, Constant, Expression, ExpressionKind, Offset, Origin, OutputStream, StreamAccessKind,
    StreamReference, Type,
};

use super::access::walk;
use super::schedule::pacing;
use crate::compiled::ir::counter::TickCounter;
use crate::compiled::ir::layout::narrow;
use crate::compiled::ir::plan::Pacing;

/// The tick counter that a stream is, if it does nothing but count and no access needs more than its latest value.
pub(super) fn counter(output: &OutputStream) -> Option<TickCounter> {
    let [clause] = output.eval.clauses.as_slice() else { return None };
    let Pacing::Global(period) = pacing(&clause.pacing) else { return None };
    let is_read_plainly = output.accessed_by.iter().all(|(reader, accesses)| {
        accesses.iter().all(|(origin, kind)| match kind {
            StreamAccessKind::Sync | StreamAccessKind::Hold => true,
            StreamAccessKind::Offset(Offset::Past(1)) => {
                *reader == output.reference && matches!(origin, Origin::Eval(_))
            }
            _ => false,
        })
    });
    let is_aggregated = !output.aggregated_by.is_empty();
    let is_wide = matches!(&output.ty, Type::Int(_) | Type::UInt(_)) && narrow(&output.ty).is_none();
    if output.params.is_empty() || clause.condition.is_some() || !is_read_plainly || is_aggregated || !is_wide
    {
        return None;
    }
    let ExpressionKind::ArithLog(ArithLogOp::Add, sides) = &clause.expression.kind else { return None };
    let [left, right] = sides.as_slice() else { return None };
    let (before, step) = match (last_of_itself(output, left), constant(right)) {
        (Some(before), Some(step)) => (before, step),
        _ => (last_of_itself(output, right)?, constant(left)?),
    };
    let is_signed = matches!(output.ty, Type::Int(_));
    let counter = TickCounter { period, first: before + step, step, is_signed };
    // A counter that overflows would have to report an error at that tick, so it is evaluated like any other stream.
    let last = i128::from(i64::MAX) / i128::from(period.max(1)) + 1;
    (step != 0 && counter.word_at(1).is_ok() && counter.word_at(last).is_ok()).then_some(counter)
}

/// The default of `x(p).last(or: default)` in the stream `x(p)` itself.
fn last_of_itself(output: &OutputStream, expression: &Expression) -> Option<i128> {
    let ExpressionKind::Default { expr, default } = &expression.kind else { return None };
    let ExpressionKind::StreamAccess { target, parameters, access_kind } = &expr.kind else { return None };
    let own = parameters.iter().enumerate().all(|(index, parameter)| {
        matches!(parameter.kind, ExpressionKind::ParameterAccess(_, param) if param == index)
    });
    let is_last = *access_kind == StreamAccessKind::Offset(Offset::Past(1));
    if *target == output.reference && own && is_last { constant(default) } else { None }
}

/// The value of an integer constant.
fn constant(expression: &Expression) -> Option<i128> {
    match &expression.kind {
        ExpressionKind::LoadConstant(Constant::Int(value)) => Some((*value).into()),
        ExpressionKind::LoadConstant(Constant::UInt(value)) => Some((*value).into()),
        ExpressionKind::ArithLog(ArithLogOp::Neg, operands) => constant(&operands[0]).map(|value| -value),
        _ => None,
    }
}

/// The ticks since the spawn at which comparisons of a counter in an expression change; the first tick is 1. `None` if
/// the expression uses the counter otherwise than to compare it with a constant.
pub(super) fn thresholds(expression: &Expression, stream: usize, counter: &TickCounter) -> Option<Vec<u64>> {
    let mut accesses = 0;
    let mut compared = 0;
    let mut thresholds = Vec::new();
    walk(expression, &mut |part| {
        if is_access(part, stream) {
            accesses += 1;
        }
        if let Some(found) = comparison(part, stream, counter) {
            compared += 1;
            thresholds.extend(found);
        }
    });
    (accesses == compared).then_some(thresholds)
}

fn is_access(expression: &Expression, stream: usize) -> bool {
    matches!(
        &expression.kind,
        ExpressionKind::StreamAccess { target, access_kind: StreamAccessKind::Sync | StreamAccessKind::Hold, .. }
            if *target == StreamReference::Out(stream)
    )
}

/// Whether a comparison of two numbers holds.
type Holds = fn(i128, i128) -> bool;

/// The two sides of a comparison, and its function.
fn compared(expression: &Expression) -> Option<(&[Expression; 2], Holds)> {
    let ExpressionKind::ArithLog(operation, sides) = &expression.kind else { return None };
    let holds: Holds = match operation {
        ArithLogOp::Eq => |a, b| a == b,
        ArithLogOp::Ne => |a, b| a != b,
        ArithLogOp::Lt => |a, b| a < b,
        ArithLogOp::Le => |a, b| a <= b,
        ArithLogOp::Gt => |a, b| a > b,
        ArithLogOp::Ge => |a, b| a >= b,
        _ => return None,
    };
    Some((sides.as_slice().try_into().ok()?, holds))
}

/// If a condition can hold only while an instance exists: the stream and the parameters of that instance. So it is where
/// `x(p).hold(or: default)` is compared with a constant and the comparison does not hold for the default.
pub(super) fn needed_instance(condition: &Expression) -> Option<(usize, &[Expression])> {
    let ([left, right], holds) = compared(condition)?;
    let ExpressionKind::Default { expr, default } = &left.kind else { return None };
    match &expr.kind {
        ExpressionKind::StreamAccess {
            target: StreamReference::Out(stream),
            access_kind: StreamAccessKind::Hold,
            parameters,
        } if !parameters.is_empty() => {
            let holds = holds(constant(default)?, constant(right)?);
            (!holds).then_some((*stream, parameters.as_slice()))
        }
        _ => None,
    }
}

/// The ticks at which a comparison of a counter with a constant changes; `None` if the expression is none.
fn comparison(expression: &Expression, stream: usize, counter: &TickCounter) -> Option<Vec<u64>> {
    let ([left, right], holds) = compared(expression)?;
    // The default where the counter has no value yet; `Some(None)` if there is no default.
    let absent = |side: &Expression| match &side.kind {
        ExpressionKind::Default { expr, default } if is_access(expr, stream) => constant(default).map(Some),
        _ if is_access(side, stream) && !matches!(side.ty, Type::Option(_)) => Some(None),
        _ => None,
    };
    let (absent, limit, flipped) = match (absent(left), constant(right)) {
        (Some(absent), Some(limit)) => (absent, limit, false),
        _ => (absent(right)?, constant(left)?, true),
    };
    let truth = |value: i128| if flipped { holds(limit, value) } else { holds(value, limit) };
    let mut thresholds = Vec::new();
    // The division rounds, so the counter passes the limit at this tick or at one next to it.
    let passes = (limit - counter.first) / counter.step + 1;
    for tick in [passes - 1, passes, passes + 1, passes + 2].into_iter().filter(|tick| *tick > 1) {
        if truth(counter.at(tick)) != truth(counter.at(tick - 1)) {
            thresholds.extend(u64::try_from(tick).ok());
        }
    }
    if absent.is_none_or(|absent| truth(absent) != truth(counter.at(1))) {
        thresholds.push(1);
    }
    Some(thresholds)
}

#[cfg(test)]
mod tests {
    use crate::Specification;
    use crate::compiled::lower::compile;

    /// Whether the window over `hit` may be read after its instance has closed, given a reader with this condition.
    fn outlasts(reader: &str, condition: &str) -> bool {
        let close = "close @Global(1d) when days(i).hold(or: 0) = 2";
        let text = format!(
            "input id : Int64\ninput is_hit : Bool\n\
             output days(i) spawn with id eval @Global(1d) with days(i).last(or: 0) + 1 {close}\n\
             output hit(i) spawn with id eval @(id∧is_hit) when id = i with is_hit {close}\n\
             output {reader} eval @Global(1d) when {condition} with 1"
        );
        let plan = compile(&Specification::parse("hits", &text).unwrap()).unwrap();
        let [window] = plan.windows.as_slice() else { panic!("{} windows", plan.windows.len()) };
        window.outlasts
    }

    #[test]
    fn a_window_outlasts_its_instance_if_it_may_be_read_then() {
        const IN_TIME: &str = "days(i).hold(or: 0) = 2";
        const HIT: &str = "hit(i).aggregate(over: 2d, using: exists)";
        let one = "seen(i) spawn with id";
        assert!(!outlasts(one, &format!("{IN_TIME} ∧ {HIT}")));
        assert!(!outlasts(one, &format!("{IN_TIME} ∧ (id.hold(or: 0) = 3 ∨ !{HIT})")));
        // The window is read before the instance is known to exist, or whether or not it exists.
        assert!(outlasts(one, HIT));
        assert!(outlasts(one, &format!("{HIT} ∧ {IN_TIME}")));
        assert!(outlasts(one, &format!("({IN_TIME} ∨ id.hold(or: 0) = 3) ∧ {HIT}")));
        // The condition holds for the default too, so without an instance.
        assert!(outlasts(one, &format!("days(i).hold(or: 2) = 2 ∧ {HIT}")));
        // Another instance is known to exist.
        assert!(outlasts("both(j, i) spawn with (id, id)", &format!("days(j).hold(or: 0) = 2 ∧ {HIT}")));
    }
}
