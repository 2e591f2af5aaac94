//! Definitions of streams in a normal form, so that state can be told to belong to another specification: a comment, white
//! space or the order of unrelated declarations changes no definition.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fairstream_core::StateChange;
use rtlola_frontend::RtLolaMir;
use rtlola_frontend::mir::{
    ActivationCondition, ArithLogOp, Constant, Expression, ExpressionKind, InstanceOperation,
    InstanceSelection, Offset, OutputStream, PacingType, Stream, StreamAccessKind, StreamReference, Type,
    WindowOperation, WindowReference,
};
use serde::{Deserialize, Serialize};

use crate::clock::period;
use crate::specification::is_trigger;

/// What a stream is, as state has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) kind: DefinitionKind,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameters: Vec<ParameterDefinition>,
    /// When and what it spawns, evaluates and closes; empty for an input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// The names of the streams that it reads, or that its evaluation waits for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) reads: BTreeSet<String>,
}

/// A parameter of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParameterDefinition {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DefinitionKind {
    Input,
    Output,
    /// Has no name of its own: it is known by its definition.
    Trigger,
}

/// How the definitions of a specification differ from earlier ones.
#[derive(Debug)]
pub(crate) struct SpecificationChanges {
    /// For each definition the index of the earlier one that it is, if neither it nor anything that it reads has changed.
    pub(crate) unchanged: Vec<Option<usize>>,
    pub(crate) changes: Vec<StateChange>,
}

/// The definitions of a specification.
#[derive(Debug)]
pub(crate) struct Definitions {
    /// Inputs, then outputs, in its order.
    pub(crate) all: Vec<Definition>,
    pub(crate) input_types: Vec<Type>,
}

impl Definitions {
    pub(crate) fn of(mir: &RtLolaMir) -> Definitions {
        let input_types = mir.inputs.iter().map(|input| input.ty.clone()).collect();
        Definitions { all: definitions(mir), input_types }
    }
}

fn definitions(mir: &RtLolaMir) -> Vec<Definition> {
    let inputs = mir.inputs.iter().map(|input| Definition {
        name: input.name.clone(),
        kind: DefinitionKind::Input,
        ty: input.ty.to_string(),
        parameters: Vec::new(),
        text: String::new(),
        reads: BTreeSet::new(),
    });
    inputs.chain(mir.outputs.iter().map(|output| of_output(mir, output))).collect()
}

fn of_output(mir: &RtLolaMir, output: &OutputStream) -> Definition {
    let parameter = |param: &rtlola_frontend::mir::Parameter| ParameterDefinition {
        name: param.name.clone(),
        ty: param.ty.to_string(),
    };
    let mut writer = DefinitionWriter { mir, text: String::new(), reads: BTreeSet::new() };
    if output.is_spawned() {
        writer.text.push_str("spawn ");
        writer.pacing(&output.spawn.pacing);
        writer.part(" when ", output.spawn.condition.as_ref());
        writer.part(" with ", output.spawn.expression.as_ref());
        writer.text.push('\n');
    }
    for clause in &output.eval.clauses {
        writer.text.push_str("eval ");
        writer.pacing(&clause.pacing);
        writer.part(" when ", clause.condition.as_ref());
        writer.part(" with ", Some(&clause.expression));
        writer.text.push('\n');
    }
    if output.close.condition.is_some() {
        writer.text.push_str("close ");
        writer.pacing(&output.close.pacing);
        writer.part(" when ", output.close.condition.as_ref());
        writer.text.push('\n');
    }
    writer.reads.remove(&output.name);
    Definition {
        name: output.name.clone(),
        kind: if is_trigger(output) { DefinitionKind::Trigger } else { DefinitionKind::Output },
        ty: output.ty.to_string(),
        parameters: output.params.iter().map(parameter).collect(),
        text: writer.text.trim_end().to_owned(),
        reads: writer.reads,
    }
}

impl Definition {
    /// For messages.
    fn part(&self) -> String {
        match self.kind {
            DefinitionKind::Input => format!("input `{}`", self.name),
            DefinitionKind::Output => format!("stream `{}`", self.name),
            DefinitionKind::Trigger => format!("trigger `{}`", self.text),
        }
    }

    /// How it differs from an earlier definition of the same name.
    fn difference(&self, before: &Definition) -> Option<String> {
        let signature = |of: &Definition| -> String {
            let each = of.parameters.iter().map(|param| format!("{}: {}", param.name, param.ty));
            each.collect::<Vec<_>>().join(", ")
        };
        if self.kind != before.kind {
            let was = match before.kind {
                DefinitionKind::Input => "an input",
                DefinitionKind::Output => "an output",
                DefinitionKind::Trigger => "a trigger",
            };
            return Some(format!("was {was}"));
        }
        if self.parameters != before.parameters {
            return Some(format!(
                "has the parameters ({}), and had ({})",
                signature(self),
                signature(before)
            ));
        }
        if self.ty != before.ty {
            return Some(format!("has the type {}, and had {}", self.ty, before.ty));
        }
        (self.text != before.text).then(|| "has another definition".to_owned())
    }
}

/// Compares definitions with earlier ones.
pub(crate) fn compare(before: &[Definition], now: &[Definition]) -> SpecificationChanges {
    let identify = |all: &[Definition]| -> BTreeMap<(String, usize), usize> {
        let mut known: BTreeMap<(String, usize), usize> = BTreeMap::new();
        let mut copies: BTreeMap<String, usize> = BTreeMap::new();
        for (index, definition) in all.iter().enumerate() {
            // Triggers are numbered in their order, so that their names say nothing.
            let identity = match definition.kind {
                DefinitionKind::Trigger => format!("{} {}", definition.ty, definition.text),
                _ => definition.name.clone(),
            };
            let copy = copies.entry(identity.clone()).or_default();
            known.insert((identity, *copy), index);
            *copy += 1;
        }
        known
    };
    let (earlier, current) = (identify(before), identify(now));
    let mut unchanged = vec![None; now.len()];
    let mut how: BTreeMap<usize, String> = BTreeMap::new();
    for (identity, index) in &current {
        match earlier.get(identity) {
            None => drop(how.insert(*index, "is new".to_owned())),
            Some(found) => match now[*index].difference(&before[*found]) {
                Some(difference) => drop(how.insert(*index, difference)),
                None => unchanged[*index] = Some(*found),
            },
        }
    }
    // What reads something that has changed has changed too.
    loop {
        let changed: BTreeSet<&str> = how.keys().map(|index| now[*index].name.as_str()).collect();
        let reading = (0..now.len()).filter(|index| !how.contains_key(index)).find_map(|index| {
            let read = now[index].reads.iter().find(|read| changed.contains(read.as_str()))?;
            Some((index, format!("reads `{read}`, which has changed")))
        });
        let Some((index, reason)) = reading else { break };
        unchanged[index] = None;
        how.insert(index, reason);
    }
    let gone = earlier.iter().filter(|(identity, _)| !current.contains_key(identity));
    let gone = gone.map(|(_, index)| StateChange { part: before[*index].part(), how: "is gone".to_owned() });
    let changes = how.into_iter().map(|(index, how)| StateChange { part: now[index].part(), how });
    SpecificationChanges { unchanged, changes: changes.chain(gone).collect() }
}

/// Writes expressions in a notation close to RTLola, with names in place of references.
struct DefinitionWriter<'a> {
    mir: &'a RtLolaMir,
    text: String,
    reads: BTreeSet<String>,
}

impl DefinitionWriter<'_> {
    fn part(&mut self, before: &str, expression: Option<&Expression>) {
        if let Some(expression) = expression {
            self.text.push_str(before);
            self.expression(expression);
        }
    }

    fn pacing(&mut self, pacing: &PacingType) {
        let nanos = period(pacing).map_or(0, |period| period.as_nanos());
        let text = match pacing {
            PacingType::GlobalPeriodic(_) => format!("@Global({nanos}ns)"),
            PacingType::LocalPeriodic(_) => format!("@Local({nanos}ns)"),
            PacingType::Event(condition) => format!("@{}", self.activation(condition)),
            PacingType::Constant => "@constant".to_owned(),
        };
        self.text.push_str(&text);
    }

    /// Alternatives and parts are sorted: their order follows from that of the declarations.
    fn activation(&mut self, condition: &ActivationCondition) -> String {
        let (parts, sign) = match condition {
            ActivationCondition::True => return "true".to_owned(),
            ActivationCondition::Stream(stream) => return self.name(*stream),
            ActivationCondition::Conjunction(parts) => (parts, "∧"),
            ActivationCondition::Disjunction(parts) => (parts, "∨"),
        };
        let mut parts: Vec<String> = parts.iter().map(|part| self.activation(part)).collect();
        parts.sort();
        parts.dedup();
        format!("({})", parts.join(sign))
    }

    /// The name of a stream, which is noted as read.
    fn name(&mut self, stream: StreamReference) -> String {
        let name = match stream {
            StreamReference::In(input) => &self.mir.inputs[input].name,
            StreamReference::Out(output) => &self.mir.outputs[output].name,
        };
        self.reads.insert(name.clone());
        name.clone()
    }

    fn list(&mut self, expressions: &[Expression], between: &str) {
        for (index, expression) in expressions.iter().enumerate() {
            if index > 0 {
                self.text.push_str(between);
            }
            self.expression(expression);
        }
    }

    fn expression(&mut self, expression: &Expression) {
        // Writing to a string cannot fail.
        match &expression.kind {
            ExpressionKind::LoadConstant(constant) => {
                let _ = match constant {
                    Constant::Str(text) => write!(self.text, "{text:?}"),
                    Constant::Bool(value) => write!(self.text, "{value}"),
                    Constant::UInt(value) => write!(self.text, "{value}"),
                    Constant::Int(value) => write!(self.text, "{value}"),
                    Constant::Float(value) => write!(self.text, "{value:?}"),
                    Constant::Decimal(value) => write!(self.text, "{value}"),
                };
            }
            ExpressionKind::ArithLog(operation, operands) => {
                let sign = sign(operation);
                self.text.push('(');
                match operands.as_slice() {
                    [one] => {
                        self.text.push_str(sign);
                        self.expression(one);
                    }
                    several => self.list(several, &format!(" {sign} ")),
                }
                self.text.push(')');
            }
            ExpressionKind::StreamAccess { target, parameters, access_kind } => {
                let name = self.name(*target);
                self.text.push_str(&name);
                if !parameters.is_empty() {
                    self.text.push('(');
                    self.list(parameters, ", ");
                    self.text.push(')');
                }
                self.access(access_kind);
            }
            ExpressionKind::ParameterAccess(stream, index) => {
                let name = match stream {
                    StreamReference::Out(output) => {
                        self.mir.outputs[*output].params.get(*index).map(|param| param.name.as_str())
                    }
                    StreamReference::In(_) => None,
                };
                self.text.push_str(name.unwrap_or("?"));
            }
            ExpressionKind::LambdaParameterAccess { wref, pref } => {
                let selection = &self.mir.instance_aggregation(*wref).selection;
                let name = match selection {
                    InstanceSelection::FilteredAll { parameters, .. }
                    | InstanceSelection::FilteredFresh { parameters, .. } => {
                        parameters.get(*pref).map(|param| param.name.as_str())
                    }
                    InstanceSelection::All | InstanceSelection::Fresh => None,
                };
                self.text.push_str(name.unwrap_or("?"));
            }
            ExpressionKind::Ite { condition, consequence, alternative } => {
                self.text.push_str("(if ");
                self.expression(condition);
                self.text.push_str(" then ");
                self.expression(consequence);
                self.text.push_str(" else ");
                self.expression(alternative);
                self.text.push(')');
            }
            ExpressionKind::Tuple(parts) => {
                self.text.push('(');
                self.list(parts, ", ");
                self.text.push(')');
            }
            ExpressionKind::TupleAccess(tuple, index) => {
                self.expression(tuple);
                let _ = write!(self.text, ".{index}");
            }
            ExpressionKind::Function(name, arguments) => {
                let _ = write!(self.text, "{name}<{}>(", expression.ty);
                self.list(arguments, ", ");
                self.text.push(')');
            }
            ExpressionKind::Convert { expr } => {
                let _ = write!(self.text, "cast<{}, {}>(", expr.ty, expression.ty);
                self.expression(expr);
                self.text.push(')');
            }
            ExpressionKind::Default { expr, default } => {
                self.expression(expr);
                self.text.push_str(".defaults(to: ");
                self.expression(default);
                self.text.push(')');
            }
        }
    }

    fn access(&mut self, kind: &StreamAccessKind) {
        match kind {
            StreamAccessKind::Sync => {}
            StreamAccessKind::Hold => self.text.push_str(".hold()"),
            StreamAccessKind::Get => self.text.push_str(".get()"),
            StreamAccessKind::Fresh => self.text.push_str(".is_fresh()"),
            StreamAccessKind::Offset(Offset::Past(back)) => {
                let _ = write!(self.text, ".offset(by: -{back})");
            }
            StreamAccessKind::Offset(Offset::Future(ahead)) => {
                let _ = write!(self.text, ".offset(by: {ahead})");
            }
            StreamAccessKind::SlidingWindow(window) => {
                let window = self.mir.sliding_window(*window);
                let (nanos, using) = (window.duration.as_nanos(), window_operation(window.op));
                let over = if window.wait { "over_exactly" } else { "over" };
                let _ = write!(self.text, ".aggregate({over}: {nanos}ns, using: {using})");
            }
            StreamAccessKind::DiscreteWindow(window) => {
                let window = self.mir.discrete_window(*window);
                let over = if window.wait { "over_exactly_discrete" } else { "over_discrete" };
                let using = window_operation(window.op);
                let _ = write!(self.text, ".aggregate({over}: {}, using: {using})", window.duration);
            }
            StreamAccessKind::InstanceAggregation(window) => self.instances(*window),
        }
    }

    fn instances(&mut self, window: WindowReference) {
        let aggregation = self.mir.instance_aggregation(window);
        self.text.push_str(".aggregate(over_instances: ");
        match &aggregation.selection {
            InstanceSelection::All => self.text.push_str("all"),
            InstanceSelection::Fresh => self.text.push_str("fresh"),
            InstanceSelection::FilteredAll { parameters, cond }
            | InstanceSelection::FilteredFresh { parameters, cond } => {
                let is_all = matches!(aggregation.selection, InstanceSelection::FilteredAll { .. });
                let names: Vec<&str> = parameters.iter().map(|param| param.name.as_str()).collect();
                let which = if is_all { "all" } else { "fresh" };
                let _ = write!(self.text, "{which}(where: ({}) => ", names.join(", "));
                self.expression(cond);
                self.text.push(')');
            }
        }
        let using = window_operation(operation_of(aggregation.aggr));
        let _ = write!(self.text, ", using: {using})");
    }
}

fn operation_of(operation: InstanceOperation) -> WindowOperation {
    operation.into()
}

/// The word for an aggregation.
pub(crate) fn window_operation(operation: WindowOperation) -> String {
    let word = match operation {
        WindowOperation::Count => "count",
        WindowOperation::Min => "min",
        WindowOperation::Max => "max",
        WindowOperation::Sum => "sum",
        WindowOperation::Product => "product",
        WindowOperation::Average => "average",
        WindowOperation::Integral => "integral",
        WindowOperation::Conjunction => "forall",
        WindowOperation::Disjunction => "exists",
        WindowOperation::Last => "last",
        WindowOperation::Variance => "variance",
        WindowOperation::Covariance => "covariance",
        WindowOperation::StandardDeviation => "deviation",
        WindowOperation::NthPercentile(percent) => return format!("percentile {percent}"),
    };
    word.to_owned()
}

fn sign(operation: &ArithLogOp) -> &'static str {
    match operation {
        ArithLogOp::Not => "!",
        ArithLogOp::Neg | ArithLogOp::Sub => "-",
        ArithLogOp::Add => "+",
        ArithLogOp::Mul => "*",
        ArithLogOp::Div => "/",
        ArithLogOp::Rem => "%",
        ArithLogOp::Pow => "**",
        ArithLogOp::And => "∧",
        ArithLogOp::Or => "∨",
        ArithLogOp::BitXor => "^",
        ArithLogOp::BitAnd => "&",
        ArithLogOp::BitOr => "|",
        ArithLogOp::BitNot => "~",
        ArithLogOp::Shl => "<<",
        ArithLogOp::Shr => ">>",
        ArithLogOp::Eq => "=",
        ArithLogOp::Lt => "<",
        ArithLogOp::Le => "≤",
        ArithLogOp::Ne => "≠",
        ArithLogOp::Ge => "≥",
        ArithLogOp::Gt => ">",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Specification;

    const TEXT: &str = "input a : Int64\ninput b : Int64\noutput x := a + b\noutput y := x.offset(by: -1).defaults(to: 0)\n\
        output z(i) spawn with a eval @(a∧b) when a = i with b close @b when b = 7\n\
        trigger x > 5 \"high\"\ntrigger b > 5 \"large\"\n";

    fn of(text: &str) -> Vec<Definition> {
        definitions(Specification::parse("test", text).unwrap().mir())
    }

    /// The changes from the text above.
    fn changes(text: &str) -> Vec<String> {
        let comparison = compare(&of(TEXT), &of(text));
        comparison.changes.iter().map(|change| format!("{} {}", change.part, change.how)).collect()
    }

    #[test]
    fn comments_white_space_and_order_change_nothing() {
        assert!(changes(TEXT).is_empty());
        assert!(changes(&format!("// new\n{}", TEXT.replace(" := ", "  :=\n  // more\n "))).is_empty());
        let mut lines: Vec<&str> = TEXT.lines().collect();
        lines.reverse();
        assert!(changes(&lines.join("\n")).is_empty(), "{:?}", changes(&lines.join("\n")));
    }

    #[test]
    fn what_reads_a_change_has_changed() {
        assert_eq!(
            changes(&TEXT.replace("a + b", "a - b")),
            [
                "stream `x` has another definition",
                "stream `y` reads `x`, which has changed",
                "trigger `eval @(a∧b) when (x > 5) with \"high\"` reads `x`, which has changed",
            ]
        );
        assert_eq!(
            changes(&TEXT.replace("z(i)", "z(j)").replace("a = i", "a = j")),
            ["stream `z` has the parameters (j: Int64), and had (i: Int64)"]
        );
        assert_eq!(
            changes(&TEXT.replace("b > 5", "b > 6")),
            [
                "trigger `eval @b when (b > 6) with \"large\"` is new",
                "trigger `eval @b when (b > 5) with \"large\"` is gone",
            ]
        );
        let without_y = TEXT.replace("output y := x.offset(by: -1).defaults(to: 0)\n", "output w := a\n");
        assert_eq!(changes(&without_y), ["stream `w` is new", "stream `y` is gone"]);
    }
}
