//! Analyses of expressions: which instances a condition can hold for, and what an expression reads.

use rtlola_frontend::mir::{
    ArithLogOp, Expression, ExpressionKind, InstanceAggregation, InstanceSelection, Offset, PacingType,
    RtLolaMir, StreamAccessKind, StreamReference, Type, WindowReference,
};

/// The operands of a conjunction, nested ones included; a condition that is none is its only conjunct.
pub(super) fn conjuncts(condition: &Expression) -> Vec<&Expression> {
    match &condition.kind {
        ExpressionKind::ArithLog(ArithLogOp::And, parts) => parts.iter().flat_map(conjuncts).collect(),
        _ => vec![condition],
    }
}

/// The parameters that a condition pins: it can hold only if they equal an expression that is the same for all instances.
/// In the order of the parameters, each once.
pub(super) fn pins(condition: &Expression) -> Vec<(usize, Expression)> {
    let mut pins: Vec<(usize, Expression)> = Vec::new();
    for (left, right) in equations(condition) {
        for (left, right) in [(&left, &right), (&right, &left)] {
            if let ExpressionKind::ParameterAccess(_, index) = left.kind
                && is_safe(right)
                && !mentions(right, is_parameter)
                && pins.iter().all(|(pinned, _)| *pinned != index)
            {
                pins.push((index, right.clone()));
            }
        }
    }
    pins.sort_by_key(|(index, _)| *index);
    pins
}

/// The equations among the conjuncts of a condition. An equation of tuples is split into its components, unless one of
/// the tuples is a parameter.
fn equations(condition: &Expression) -> Vec<(Expression, Expression)> {
    let mut equations = Vec::new();
    for part in conjuncts(condition) {
        if let ExpressionKind::ArithLog(ArithLogOp::Eq, sides) = &part.kind
            && let [left, right] = sides.as_slice()
        {
            equate(left.clone(), right.clone(), &mut equations);
        }
    }
    equations
}

fn equate(left: Expression, right: Expression, equations: &mut Vec<(Expression, Expression)>) {
    let is_optional = |ty: &Type| matches!(ty, Type::Option(_));
    if is_optional(&left.ty) || is_optional(&right.ty) {
        return;
    }
    let is_parameter = |side: &Expression| is_parameter(side) || is_lambda(side);
    match &left.ty {
        Type::Tuple(parts) if !is_parameter(&left) && !is_parameter(&right) => {
            for index in 0..parts.len() {
                equate(part_of(&left, index), part_of(&right, index), equations);
            }
        }
        _ => equations.push((left, right)),
    }
}

/// A component of a tuple.
fn part_of(tuple: &Expression, index: usize) -> Expression {
    match (&tuple.kind, &tuple.ty) {
        (ExpressionKind::Tuple(parts), _) => parts[index].clone(),
        (_, Type::Tuple(types)) => Expression {
            kind: ExpressionKind::TupleAccess(Box::new(tuple.clone()), index),
            ty: types[index].clone(),
        },
        _ => tuple.clone(),
    }
}

/// The conjuncts of a filter over instances, by how they are evaluated.
#[derive(Default)]
pub(super) struct Filter {
    /// Parameters of the target that must equal an expression of the reader.
    pub(super) key: Vec<(usize, Expression)>,
    /// Conditions on the target's parameters alone, which an instance satisfies for as long as it exists or never.
    pub(super) fixed: Vec<Expression>,
    /// Whether there are other conditions: then every instance must be scanned.
    pub(super) is_open: bool,
}

/// Classifies the conjuncts of the filter of an aggregation.
pub(super) fn filter(aggregation: &InstanceAggregation) -> Filter {
    let (InstanceSelection::FilteredAll { cond, .. } | InstanceSelection::FilteredFresh { cond, .. }) =
        &aggregation.selection
    else {
        return Filter::default();
    };
    let mut filter = Filter::default();
    for part in conjuncts(cond) {
        let alone = is_safe(part) && !mentions(part, is_parameter) && !mentions(part, is_access);
        let mut found = Vec::new();
        if let ExpressionKind::ArithLog(ArithLogOp::Eq, sides) = &part.kind
            && let [left, right] = sides.as_slice()
        {
            let mut equations = Vec::new();
            equate(left.clone(), right.clone(), &mut equations);
            found = equations.iter().filter_map(key_part).collect();
            if found.len() < equations.len() || equations.is_empty() {
                found.clear();
            }
        }
        let is_new = |(index, _): &(usize, Expression)| filter.key.iter().all(|(known, _)| known != index);
        if !found.is_empty() && found.iter().all(is_new) {
            filter.key.extend(found);
        } else if alone {
            filter.fixed.push(part.clone());
        } else {
            filter.is_open = true;
        }
    }
    filter.key.sort_by_key(|(index, _)| *index);
    filter
}

/// The parameter that an equation pins, and the expression it must equal, if one side is a parameter of the target and
/// the other side reads none.
fn key_part((left, right): &(Expression, Expression)) -> Option<(usize, Expression)> {
    [(left, right), (right, left)].into_iter().find_map(|(left, right)| match left.kind {
        ExpressionKind::LambdaParameterAccess { pref, .. }
            if is_safe(right) && !mentions(right, is_lambda) =>
        {
            Some((pref, right.clone()))
        }
        _ => None,
    })
}

/// Something that an expression reads. The value of the expression changes only if one of its reads does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    /// An input, or a stream without instances.
    Whole(StreamReference),
    /// The instance of a stream whose parameters are these parameters of the reader.
    Instance(usize, Vec<usize>),
    /// An instance of a stream, or several; which ones is not analysed.
    Any(usize),
    /// An aggregation over instances. If all parts of its key are parameters of the reader, these are given.
    Aggregation(usize, Option<Vec<usize>>),
    /// A window over an input or a stream without instances, by its number: sliding ones first.
    Window(usize),
    /// The reader's own previous value.
    Itself,
}

impl Read {
    /// Whether it may have another value at the next evaluation although nothing else has changed.
    pub(super) fn changes_by_itself(&self) -> bool {
        matches!(self, Read::Itself | Read::Window(_))
    }
}

/// What an expression of a stream reads; `None` if its value may change without a change of what it reads.
pub(super) fn reads(mir: &RtLolaMir, stream: usize, expression: &Expression) -> Option<Vec<Read>> {
    let mut found = Some(Vec::new());
    walk(expression, &mut |part| {
        let ExpressionKind::StreamAccess { target, parameters, access_kind } = &part.kind else { return };
        let read = read(mir, stream, *target, parameters, *access_kind);
        found = match (found.take(), read) {
            (Some(mut found), Some(read)) => {
                if !found.contains(&read) {
                    found.push(read);
                }
                Some(found)
            }
            _ => None,
        };
    });
    found
}

fn read(
    mir: &RtLolaMir,
    stream: usize,
    target: StreamReference,
    parameters: &[Expression],
    kind: StreamAccessKind,
) -> Option<Read> {
    let own = plain_parameters(parameters.iter());
    let is_own = target == StreamReference::Out(stream)
        && own.as_ref().is_some_and(|own| own.iter().enumerate().all(|(index, own)| index == *own));
    match (kind, target) {
        (StreamAccessKind::Sync, StreamReference::In(_)) => None,
        (StreamAccessKind::Offset(Offset::Past(1)), _) if is_own => Some(Read::Itself),
        (StreamAccessKind::Sync | StreamAccessKind::Hold, target) if parameters.is_empty() => {
            Some(Read::Whole(target))
        }
        (StreamAccessKind::Sync | StreamAccessKind::Hold, StreamReference::Out(target)) => match own {
            Some(own) => Some(Read::Instance(target, own)),
            None => {
                let is_fixed = |parameter: &Expression| !mentions(parameter, is_access);
                parameters.iter().all(is_fixed).then_some(Read::Any(target))
            }
        },
        // On the clock of the monitor its result stays the same until a value enters or leaves the window.
        (StreamAccessKind::SlidingWindow(window), _) if parameters.is_empty() => {
            let is_global = matches!(mir.sliding_window(window).pacing, PacingType::GlobalPeriodic(_));
            is_global.then_some(Read::Window(window.idx()))
        }
        (StreamAccessKind::DiscreteWindow(window), _) if parameters.is_empty() => {
            Some(Read::Window(mir.sliding_windows.len() + window.idx()))
        }
        (StreamAccessKind::InstanceAggregation(window), StreamReference::Out(target)) => {
            let aggregation = mir.instance_aggregation(window);
            match &aggregation.selection {
                InstanceSelection::All => return Some(Read::Aggregation(window.idx(), None)),
                InstanceSelection::Fresh | InstanceSelection::FilteredFresh { .. } => return None,
                InstanceSelection::FilteredAll { cond, .. } => {
                    let mut reads_streams = false;
                    walk(cond, &mut |part| reads_streams |= is_access(part));
                    if reads_streams {
                        return None;
                    }
                }
            }
            let filter = filter(aggregation);
            let key = plain_parameters(filter.key.iter().map(|(_, expression)| expression));
            if filter.is_open {
                return Some(Read::Any(target));
            }
            Some(Read::Aggregation(window.idx(), key.filter(|key| !key.is_empty())))
        }
        _ => None,
    }
}

/// The parameters of the reader, if each expression is one of them and no two are the same.
fn plain_parameters<'a>(expressions: impl Iterator<Item = &'a Expression>) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for expression in expressions {
        let ExpressionKind::ParameterAccess(_, index) = expression.kind else { return None };
        if found.contains(&index) {
            return None;
        }
        found.push(index);
    }
    Some(found)
}

/// Whether an expression cannot fail, so that it may be evaluated earlier than the specification says.
pub(super) fn is_safe(expression: &Expression) -> bool {
    let mut safe = true;
    walk(expression, &mut |part| {
        safe &= match &part.kind {
            ExpressionKind::ArithLog(operation, operands) => match operation {
                ArithLogOp::And | ArithLogOp::Or | ArithLogOp::Eq | ArithLogOp::Ne => true,
                ArithLogOp::Not => part.ty == Type::Bool,
                ArithLogOp::Lt | ArithLogOp::Le | ArithLogOp::Gt | ArithLogOp::Ge => {
                    !matches!(operands[0].ty, Type::Bool | Type::Tuple(_) | Type::Option(_) | Type::Bytes)
                }
                _ => false,
            },
            ExpressionKind::StreamAccess { target, access_kind, parameters } => match access_kind {
                StreamAccessKind::Sync => matches!(target, StreamReference::In(_)) || parameters.is_empty(),
                StreamAccessKind::Hold | StreamAccessKind::Get | StreamAccessKind::Fresh => true,
                StreamAccessKind::Offset(Offset::Past(_)) => parameters.is_empty(),
                _ => false,
            },
            ExpressionKind::Convert { expr } => {
                matches!((&expr.ty, &part.ty), (Type::UInt(_) | Type::Int(_), Type::Float(_)))
            }
            ExpressionKind::Function(..) => false,
            _ => true,
        };
    });
    safe
}

/// Whether an expression or a part of it satisfies a predicate.
pub(super) fn mentions(expression: &Expression, what: fn(&Expression) -> bool) -> bool {
    let mut found = false;
    walk(expression, &mut |part| found |= what(part));
    found
}

pub(super) fn is_parameter(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::ParameterAccess(..))
}

pub(super) fn is_lambda(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::LambdaParameterAccess { .. })
}

pub(super) fn is_access(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::StreamAccess { .. })
}

/// Visits an expression and all its parts.
pub(super) fn walk(expression: &Expression, visit: &mut impl FnMut(&Expression)) {
    visit(expression);
    match &expression.kind {
        ExpressionKind::ArithLog(_, parts)
        | ExpressionKind::Tuple(parts)
        | ExpressionKind::Function(_, parts)
        | ExpressionKind::StreamAccess { parameters: parts, .. } => {
            parts.iter().for_each(|part| walk(part, visit));
        }
        ExpressionKind::Ite { condition, consequence, alternative } => {
            [condition, consequence, alternative].into_iter().for_each(|part| walk(part, visit));
        }
        ExpressionKind::TupleAccess(part, _) | ExpressionKind::Convert { expr: part } => walk(part, visit),
        ExpressionKind::Default { expr, default } => {
            walk(expr, visit);
            walk(default, visit);
        }
        ExpressionKind::LoadConstant(_)
        | ExpressionKind::ParameterAccess(..)
        | ExpressionKind::LambdaParameterAccess { .. } => {}
    }
}

/// A condition without the owner of the parameters in it, so that conditions of two streams can be compared.
pub(super) fn anonymous(condition: &Expression) -> Expression {
    let mut condition = condition.clone();
    forget_owner(&mut condition);
    condition
}

fn forget_owner(expression: &mut Expression) {
    match &mut expression.kind {
        ExpressionKind::ParameterAccess(owner, _) => *owner = StreamReference::Out(0),
        ExpressionKind::ArithLog(_, parts)
        | ExpressionKind::Tuple(parts)
        | ExpressionKind::Function(_, parts)
        | ExpressionKind::StreamAccess { parameters: parts, .. } => parts.iter_mut().for_each(forget_owner),
        ExpressionKind::Ite { condition, consequence, alternative } => {
            [condition, consequence, alternative].into_iter().for_each(|part| forget_owner(part));
        }
        ExpressionKind::TupleAccess(part, _) | ExpressionKind::Convert { expr: part } => forget_owner(part),
        ExpressionKind::Default { expr, default } => {
            forget_owner(expr);
            forget_owner(default);
        }
        ExpressionKind::LambdaParameterAccess { wref, .. } => *wref = WindowReference::Instance(0),
        ExpressionKind::LoadConstant(_) => {}
    }
}
