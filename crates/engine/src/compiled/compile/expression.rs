//! Expressions → operations.

use regex::Regex;
use regex::bytes::Regex as BytesRegex;
use rtlola_frontend::mir::{
    ArithLogOp, Constant, Expression, ExpressionKind, Offset, StreamAccessKind, StreamReference, Type,
    WindowReference,
};
use rust_decimal::Decimal;

use super::{Builder, Refused};
use crate::compiled::code::{FormatPart, Label, Op, Slot, Slow, Unary};
use crate::compiled::layout::{Leaf, inner, narrow, placed, width};
use crate::compiled::scalar::decimal_words;

/// Where a value is: its words, and a flag if it may be absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) flag: Option<Slot>,
    pub(super) base: Slot,
}

impl Operand {
    fn at(base: Slot) -> Operand {
        Operand { flag: None, base }
    }

    /// A value behind its flag.
    fn optional(flag: Slot) -> Operand {
        Operand { flag: Some(flag), base: flag + 1 }
    }
}

/// The part of a stream that an expression belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Spawn,
    Eval,
    Close,
    /// A filter over instances, whose parameters are in the frame.
    Lambda(Slot),
}

impl Builder<'_> {
    pub(super) fn expression(&mut self, expression: &Expression) -> Result<Operand, Refused> {
        match &expression.kind {
            ExpressionKind::LoadConstant(constant) => self.constant(constant, &expression.ty),
            ExpressionKind::ParameterAccess(_, index) => {
                let stream = &self.plan.streams[self.stream];
                let offset: usize = stream.params[..*index].iter().map(width).sum();
                Ok(Operand::at(stream.own + offset as Slot))
            }
            ExpressionKind::LambdaParameterAccess { wref, pref } => {
                let Place::Lambda(base) = self.place else { return Err(Refused::internal("a lambda")) };
                let target = self.mir.instance_aggregation(*wref).target.out_ix();
                let params = &self.mir.outputs[target].params[..*pref];
                let offset: usize = params.iter().map(|param| width(&param.ty)).sum();
                Ok(Operand::at(base + offset as Slot))
            }
            ExpressionKind::ArithLog(operation, operands) => self.operation(expression, *operation, operands),
            ExpressionKind::StreamAccess { target, parameters, access_kind } => {
                self.access(expression, *target, parameters, *access_kind)
            }
            ExpressionKind::Ite { condition, consequence, alternative } => {
                let otherwise = self.unless(condition)?;
                let to = self.room(&expression.ty);
                self.value_into(consequence, to)?;
                let done = self.jump();
                self.land(&otherwise);
                self.value_into(alternative, to)?;
                self.land(&[done]);
                Ok(to)
            }
            ExpressionKind::Tuple(parts) => {
                let base = self.take(width(&expression.ty));
                let mut at = base;
                for part in parts {
                    let to = match &part.ty {
                        Type::Option(_) => Operand::optional(at),
                        _ => Operand::at(at),
                    };
                    self.value_into(part, to)?;
                    at += width(&part.ty) as Slot;
                }
                Ok(Operand::at(base))
            }
            ExpressionKind::TupleAccess(tuple, index) => {
                let operand = self.expression(tuple)?;
                let Type::Tuple(parts) = inner(&tuple.ty) else { return Err(Refused::internal("a tuple")) };
                let offset: usize = parts[..*index].iter().map(width).sum();
                let base = operand.base + offset as Slot;
                Ok(match (&parts[*index], operand.flag) {
                    (Type::Option(_), None) => Operand::optional(base),
                    (_, flag) => Operand { flag, base },
                })
            }
            ExpressionKind::Function(name, arguments) => self.function(expression, name, arguments),
            ExpressionKind::Convert { expr } => self.convert(expression, expr),
            ExpressionKind::Default { expr, default } => {
                let value = self.expression(expr)?;
                let Some(flag) = value.flag else { return Ok(value) };
                let to = self.room(&expression.ty);
                if width(&expression.ty) == 1 && is_at_hand(default) {
                    let other = self.expression(default)?.base;
                    self.emit(Op::Or { flag, a: value.base, b: other, to: to.base });
                    return Ok(to);
                }
                let absent = self.jump_unless(flag);
                self.copy(value, to, inner(&expr.ty));
                let done = self.jump();
                self.land(&[absent]);
                self.value_into(default, to)?;
                self.land(&[done]);
                Ok(to)
            }
        }
    }

    /// Leaves if a condition does not hold; the places to say where to.
    pub(super) fn unless(&mut self, condition: &Expression) -> Result<Vec<usize>, Refused> {
        if let ExpressionKind::ArithLog(operation, operands) = &condition.kind
            && let [left, right] = operands.as_slice()
        {
            if *operation == ArithLogOp::And {
                let mut leave = self.unless(left)?;
                leave.extend(self.unless(right)?);
                return Ok(leave);
            }
            let plain = placed(&left.ty).iter().all(|(_, leaf)| leaf.is_plain());
            if *operation == ArithLogOp::Eq && plain && width(&left.ty) == 1 && width(&right.ty) == 1 {
                let (a, b) = (self.expression(left)?, self.expression(right)?);
                self.emit(Op::JumpUnlessSame { a: a.base, b: b.base, to: 0 });
                return Ok(vec![self.ops.len() - 1]);
            }
        }
        let flag = self.expression(condition)?.base;
        Ok(vec![self.jump_unless(flag)])
    }

    /// Computes an expression to a given place.
    pub(super) fn value_into(&mut self, expression: &Expression, to: Operand) -> Result<(), Refused> {
        let value = self.expression(expression)?;
        match (value.flag, to.flag) {
            (Some(from), Some(flag)) => {
                // What is absent is all zeros, so that it equals nothing but what is absent.
                self.clear(to.base, width(inner(&expression.ty)));
                self.emit(Op::Copy { from, to: flag });
                let absent = self.jump_unless(from);
                self.copy(value, to, inner(&expression.ty));
                self.land(&[absent]);
            }
            (None, Some(flag)) => {
                let yes = self.word(1);
                self.emit(Op::Copy { from: yes, to: flag });
                self.copy(value, to, inner(&expression.ty));
            }
            _ => {
                if !self.redirect(value.base, to.base, width(&expression.ty)) {
                    self.copy(value, to, &expression.ty);
                }
            }
        }
        Ok(())
    }

    /// Lets the last operation write to where its result would be copied to, if it has just that.
    fn redirect(&mut self, from: Slot, into: Slot, width: usize) -> bool {
        let is_whole = self.landed < self.ops.len() && !self.lenient;
        let Some(op) = self.ops.last_mut().filter(|_| is_whole && width == 1) else { return false };
        let to = match op {
            Op::AddU { to, .. }
            | Op::AddI { to, .. }
            | Op::AddF { to, .. }
            | Op::SubU { to, .. }
            | Op::SubI { to, .. }
            | Op::SubF { to, .. }
            | Op::MulU { to, .. }
            | Op::MulI { to, .. }
            | Op::MulF { to, .. }
            | Op::DivU { to, .. }
            | Op::DivI { to, .. }
            | Op::DivF { to, .. }
            | Op::Same { to, .. }
            | Op::EqF { to, .. }
            | Op::LtU { to, .. }
            | Op::LeU { to, .. }
            | Op::LtI { to, .. }
            | Op::LeI { to, .. }
            | Op::LtF { to, .. }
            | Op::LeF { to, .. }
            | Op::UIntToFloat { to, .. }
            | Op::IntToFloat { to, .. }
            | Op::Or { to, .. }
            | Op::OwnSync { to, .. } => to,
            // The flag goes right before the value.
            Op::Tally { to, .. } if self.spare == Some(into - 1) && *to + 1 == from => {
                *to = into - 1;
                return true;
            }
            _ => return false,
        };
        if *to != from {
            return false;
        }
        *to = into;
        true
    }

    fn clear(&mut self, to: Slot, count: usize) {
        let zero = self.word(0);
        for index in 0..count as Slot {
            self.emit(Op::Copy { from: zero, to: to + index });
        }
    }

    fn copy(&mut self, from: Operand, to: Operand, ty: &Type) {
        match width(ty) {
            0 => {}
            1 => self.emit(Op::Copy { from: from.base, to: to.base }),
            count => self.emit(Op::CopyMany { from: from.base, to: to.base, count: count as u32 }),
        }
    }

    /// Room for a value of a type.
    fn room(&mut self, ty: &Type) -> Operand {
        let base = self.take(width(ty));
        if matches!(ty, Type::Option(_)) { Operand::optional(base) } else { Operand::at(base) }
    }

    fn constant(&mut self, constant: &Constant, ty: &Type) -> Result<Operand, Refused> {
        let words = match (constant, ty) {
            (Constant::Bool(value), _) => vec![u64::from(*value)],
            (Constant::Str(text), _) => vec![self.plan.strings.intern(text.as_bytes())],
            (Constant::UInt(value), Type::Float(_)) => vec![(*value as f64).to_bits()],
            (Constant::Int(value), Type::Float(_)) => vec![(*value as f64).to_bits()],
            (Constant::UInt(value), Type::Fixed(_) | Type::UFixed(_)) => {
                decimal_words(Decimal::from(*value)).to_vec()
            }
            (Constant::Int(value), Type::Fixed(_) | Type::UFixed(_)) => {
                decimal_words(Decimal::from(*value)).to_vec()
            }
            (Constant::Float(value), Type::Fixed(_) | Type::UFixed(_)) => {
                let value =
                    Decimal::try_from(*value).map_err(|error| Refused::construct(error.to_string()))?;
                decimal_words(value).to_vec()
            }
            (Constant::Decimal(value), Type::Float(_)) => {
                let value = rust_decimal::prelude::ToPrimitive::to_f64(value).unwrap_or_default();
                vec![value.to_bits()]
            }
            (Constant::UInt(value), _) => vec![*value],
            (Constant::Int(value), _) => vec![value.cast_unsigned()],
            (Constant::Float(value), _) => vec![value.to_bits()],
            (Constant::Decimal(value), _) => decimal_words(*value).to_vec(),
        };
        Ok(Operand::at(self.words(&words)))
    }

    fn operation(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        operands: &[Expression],
    ) -> Result<Operand, Refused> {
        match (operation, operands) {
            (ArithLogOp::And | ArithLogOp::Or, [left, right]) => {
                let to = self.take(1);
                self.value_into(left, Operand::at(to))?;
                self.emit(match operation {
                    ArithLogOp::And => Op::JumpUnless { flag: to, to: 0 },
                    _ => Op::JumpIf { flag: to, to: 0 },
                });
                let decided = self.ops.len() - 1;
                self.value_into(right, Operand::at(to))?;
                self.land(&[decided]);
                Ok(Operand::at(to))
            }
            (ArithLogOp::Not, [operand]) if operand.ty == Type::Bool => {
                let a = self.expression(operand)?.base;
                let to = self.take(1);
                self.emit(Op::Not { a, to });
                Ok(Operand::at(to))
            }
            (ArithLogOp::Not | ArithLogOp::BitNot, [operand]) => {
                self.unary(expression, Unary::BitNot, operand)
            }
            (ArithLogOp::Neg, [operand]) => self.unary(expression, Unary::Neg, operand),
            (ArithLogOp::Eq | ArithLogOp::Ne, [left, right]) => self.equality(operation, left, right),
            (ArithLogOp::Lt | ArithLogOp::Le | ArithLogOp::Gt | ArithLogOp::Ge, [left, right]) => {
                self.comparison(expression, operation, left, right)
            }
            (_, [left, right]) => self.arithmetic(expression, operation, left, right),
            _ => Err(Refused::internal("an operation")),
        }
    }

    fn equality(
        &mut self,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Refused> {
        let (a, b) = (self.contiguous(left)?, self.contiguous(right)?);
        let leaves = placed(&left.ty);
        let to = self.take(1);
        let mut differ = Vec::new();
        for (index, (offset, leaf)) in leaves.iter().enumerate() {
            let (a, b) = (a + *offset as Slot, b + *offset as Slot);
            match leaf {
                Leaf::Float => self.emit(Op::EqF { a, b, to }),
                Leaf::Decimal => {
                    self.slow(Slow::Compare { operation: ArithLogOp::Eq, leaf: *leaf, a, b, to })
                }
                _ => self.emit(Op::Same { a, b, to }),
            }
            if index + 1 < leaves.len() {
                differ.push(self.jump_unless(to));
            }
        }
        self.land(&differ);
        if operation == ArithLogOp::Ne {
            self.emit(Op::Not { a: to, to });
        }
        Ok(Operand::at(to))
    }

    /// A value with its flag, if it has one, right before it.
    fn contiguous(&mut self, expression: &Expression) -> Result<Slot, Refused> {
        let value = self.expression(expression)?;
        let Some(flag) = value.flag else { return Ok(value.base) };
        let to = self.room(&expression.ty);
        self.clear(to.base, width(inner(&expression.ty)));
        self.emit(Op::Copy { from: flag, to: to.base - 1 });
        let absent = self.jump_unless(flag);
        self.copy(value, to, inner(&expression.ty));
        self.land(&[absent]);
        Ok(to.base - 1)
    }

    fn comparison(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Refused> {
        let (a, b) = (self.expression(left)?.base, self.expression(right)?.base);
        let to = self.take(1);
        let (a, b, or_equal) = match operation {
            ArithLogOp::Lt => (a, b, false),
            ArithLogOp::Le => (a, b, true),
            ArithLogOp::Gt => (b, a, false),
            _ => (b, a, true),
        };
        match (leaf(&left.ty), or_equal) {
            (Some(Leaf::UInt), false) => self.emit(Op::LtU { a, b, to }),
            (Some(Leaf::UInt), true) => self.emit(Op::LeU { a, b, to }),
            (Some(Leaf::Int), false) => self.emit(Op::LtI { a, b, to }),
            (Some(Leaf::Int), true) => self.emit(Op::LeI { a, b, to }),
            (Some(Leaf::Float), false) => self.emit(Op::LtF { a, b, to }),
            (Some(Leaf::Float), true) => self.emit(Op::LeF { a, b, to }),
            (Some(leaf @ (Leaf::Text | Leaf::Decimal)), or_equal) => {
                let operation = if or_equal { ArithLogOp::Le } else { ArithLogOp::Lt };
                self.slow(Slow::Compare { operation, leaf, a, b, to });
            }
            _ => {
                let text = self.text(expression);
                return Err(Refused::construct(format!(
                    "`{text}`: values of type {} have no order",
                    left.ty
                )));
            }
        }
        Ok(Operand::at(to))
    }

    fn arithmetic(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Refused> {
        let (a, b) = (self.expression(left)?.base, self.expression(right)?.base);
        let to = self.take(width(&expression.ty));
        let (Some(left_leaf), Some(right_leaf)) = (leaf(&left.ty), leaf(&right.ty)) else {
            return Err(Refused::construct(format!("`{}`", self.text(expression))));
        };
        if let Some(constant) = self.folded(operation, left_leaf, a, b) {
            return Ok(Operand::at(constant));
        }
        self.mark(expression);
        use ArithLogOp::{Add, Div, Mul, Sub};
        match (operation, left_leaf) {
            (Add, Leaf::UInt) => self.emit(Op::AddU { a, b, to }),
            (Add, Leaf::Int) => self.emit(Op::AddI { a, b, to }),
            (Add, Leaf::Float) => self.emit(Op::AddF { a, b, to }),
            (Sub, Leaf::UInt) => self.emit(Op::SubU { a, b, to }),
            (Sub, Leaf::Int) => self.emit(Op::SubI { a, b, to }),
            (Sub, Leaf::Float) => self.emit(Op::SubF { a, b, to }),
            (Mul, Leaf::UInt) => self.emit(Op::MulU { a, b, to }),
            (Mul, Leaf::Int) => self.emit(Op::MulI { a, b, to }),
            (Mul, Leaf::Float) => self.emit(Op::MulF { a, b, to }),
            (Div, Leaf::UInt) => self.emit(Op::DivU { a, b, to }),
            (Div, Leaf::Int) => self.emit(Op::DivI { a, b, to }),
            (Div, Leaf::Float) => self.emit(Op::DivF { a, b, to }),
            (_, leaf) => self.slow(Slow::Binary { operation, leaf, right: right_leaf, a, b, to }),
        }
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }

    /// The result of an operation on two float constants.
    fn folded(&mut self, operation: ArithLogOp, leaf: Leaf, a: Slot, b: Slot) -> Option<Slot> {
        let value = |slot: Slot| {
            let is_constant = leaf == Leaf::Float && self.constants.values().any(|known| *known == slot);
            is_constant.then(|| f64::from_bits(self.plan.frame[slot as usize]))
        };
        let (a, b) = (value(a)?, value(b)?);
        let result = match operation {
            ArithLogOp::Add => a + b,
            ArithLogOp::Sub => a - b,
            ArithLogOp::Mul => a * b,
            ArithLogOp::Div => a / b,
            _ => return None,
        };
        (!result.is_nan()).then(|| self.word(result.to_bits()))
    }

    /// Fails where the result does not fit a type of fewer than 64 bits.
    fn check_range(&mut self, expression: &Expression, a: Slot) {
        if let (Some((signed, bits)), Some(leaf)) = (narrow(&expression.ty), leaf(&expression.ty)) {
            self.mark(expression);
            self.slow(Slow::Range { leaf, signed, bits, a });
        }
    }

    fn unary(
        &mut self,
        expression: &Expression,
        operation: Unary,
        operand: &Expression,
    ) -> Result<Operand, Refused> {
        let a = self.expression(operand)?.base;
        let to = self.take(width(&expression.ty));
        let Some(leaf) = leaf(&operand.ty) else {
            return Err(Refused::construct(format!("`{}`", self.text(expression))));
        };
        let trigonometric = matches!(operation, Unary::Asin | Unary::Acos | Unary::Atan);
        if leaf == Leaf::Decimal && trigonometric {
            return Err(Refused::construct(format!("`{}` of {}", self.text(expression), operand.ty)));
        }
        self.mark(expression);
        self.slow(Slow::Unary { operation, leaf, a, to });
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }

    fn function(
        &mut self,
        expression: &Expression,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Operand, Refused> {
        let unary = match name {
            "sqrt" => Some(Unary::Sqrt),
            "sin" => Some(Unary::Sin),
            "cos" => Some(Unary::Cos),
            "tan" => Some(Unary::Tan),
            "arcsin" => Some(Unary::Asin),
            "arccos" => Some(Unary::Acos),
            "arctan" => Some(Unary::Atan),
            "abs" => Some(Unary::Abs),
            _ => None,
        };
        match (unary, name, arguments) {
            (Some(operation), _, [operand]) => self.unary(expression, operation, operand),
            (_, "min" | "max", [left, right]) => {
                let less = if name == "min" { ArithLogOp::Le } else { ArithLogOp::Ge };
                let to = self.room(&expression.ty);
                let (a, b) = (self.expression(left)?, self.expression(right)?);
                let Some(leaf) = leaf(&left.ty) else { return Err(Refused::construct(format!("`{name}`"))) };
                let flag = self.take(1);
                self.slow(Slow::Compare { operation: less, leaf, a: a.base, b: b.base, to: flag });
                let other = self.jump_unless(flag);
                self.copy(a, to, &expression.ty);
                let done = self.jump();
                self.land(&[other]);
                self.copy(b, to, &expression.ty);
                self.land(&[done]);
                Ok(to)
            }
            (_, "round", [value, Expression { kind: ExpressionKind::LoadConstant(digits), .. }]) => {
                let digits = match digits {
                    Constant::UInt(digits) => u32::try_from(*digits).unwrap_or(u32::MAX),
                    Constant::Int(digits) => u32::try_from(*digits).unwrap_or(u32::MAX),
                    _ => u32::MAX,
                };
                if leaf(&value.ty) != Some(Leaf::Float) {
                    return Err(Refused::construct(format!("`round` of {}", value.ty)));
                }
                let factor = 10_u64.checked_pow(digits);
                let factor = factor.ok_or_else(|| Refused::construct("`round` to so many digits"))? as f64;
                let a = self.expression(value)?.base;
                let to = self.take(1);
                self.mark(expression);
                self.slow(Slow::Round { factor, a, to });
                Ok(Operand::at(to))
            }
            (_, "matches", [value, pattern]) => {
                let ExpressionKind::LoadConstant(Constant::Str(pattern)) = &pattern.kind else {
                    return Err(Refused::construct("`matches` with a pattern that is no literal"));
                };
                let bad = |error: regex::Error| Refused::construct(format!("`matches`: {error}"));
                let a = self.expression(value)?.base;
                let to = self.take(1);
                match value.ty {
                    Type::Bytes => {
                        let regex = BytesRegex::new(pattern).map_err(bad)?;
                        self.slow(Slow::BytesMatch { regex, a, to });
                    }
                    _ => {
                        let regex = Regex::new(pattern).map_err(bad)?;
                        self.slow(Slow::Matches { regex, a, to });
                    }
                }
                Ok(Operand::at(to))
            }
            (_, "at", [value, index]) => {
                let (a, index) = (self.expression(value)?.base, self.expression(index)?.base);
                let to = self.take(2);
                self.slow(Slow::ByteAt { a, index, to });
                Ok(Operand::optional(to))
            }
            (
                _,
                "format",
                [Expression { kind: ExpressionKind::LoadConstant(Constant::Str(text)), .. }, rest @ ..],
            ) => {
                let mut parts = Vec::new();
                for value in rest {
                    let Operand { flag, base } = self.expression(value)?;
                    parts.push(FormatPart { ty: value.ty.clone(), flag, base });
                }
                let to = self.take(1);
                self.slow(Slow::Format { pieces: pieces(text, parts.len()), parts, to });
                Ok(Operand::at(to))
            }
            _ => Err(Refused::construct(format!("the function `{name}`"))),
        }
    }

    fn convert(&mut self, expression: &Expression, from: &Expression) -> Result<Operand, Refused> {
        let value = self.expression(from)?;
        let (Some(source), Some(target)) = (leaf(&from.ty), leaf(&expression.ty)) else {
            return Err(Refused::construct(format!("a cast from {} to {}", from.ty, expression.ty)));
        };
        if source == target {
            // Widening keeps the value, narrowing may not.
            if narrow(&expression.ty).is_some() {
                self.check_range(expression, value.base);
            }
            return Ok(value);
        }
        let (a, to) = (value.base, self.take(width(&expression.ty)));
        match (source, target) {
            (Leaf::UInt, Leaf::Float) => self.emit(Op::UIntToFloat { a, to }),
            (Leaf::Int, Leaf::Float) => self.emit(Op::IntToFloat { a, to }),
            (
                Leaf::UInt | Leaf::Int | Leaf::Float | Leaf::Decimal,
                Leaf::UInt | Leaf::Int | Leaf::Float | Leaf::Decimal,
            ) => {
                self.mark(expression);
                self.slow(Slow::Convert { from: source, into: target, a, to });
            }
            _ => return Err(Refused::construct(format!("a cast from {} to {}", from.ty, expression.ty))),
        }
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }

    fn access(
        &mut self,
        expression: &Expression,
        target: StreamReference,
        parameters: &[Expression],
        kind: StreamAccessKind,
    ) -> Result<Operand, Refused> {
        match kind {
            StreamAccessKind::InstanceAggregation(window) => return self.aggregation(expression, window),
            StreamAccessKind::SlidingWindow(window) | StreamAccessKind::DiscreteWindow(window) => {
                return self.window(expression, parameters, window);
            }
            StreamAccessKind::Offset(Offset::Future(_)) => {
                return Err(Refused::construct("an offset into the future"));
            }
            _ => {}
        }
        let (index, cell) = match target {
            StreamReference::In(index) => (index, Some(self.plan.inputs[index].clone())),
            StreamReference::Out(index) => (index, self.plan.streams[index].cell.clone()),
        };
        self.mark(expression);
        let Some(cell) = cell else { return self.instance_access(expression, index, parameters, kind) };
        Ok(match kind {
            StreamAccessKind::Hold => Operand { flag: Some(cell.present), base: cell.value },
            StreamAccessKind::Get => Operand { flag: Some(cell.fresh), base: cell.value },
            StreamAccessKind::Fresh => Operand::at(cell.fresh),
            // While it is evaluated, its value before is the latest that there is.
            StreamAccessKind::Offset(Offset::Past(1))
                if target == StreamReference::Out(self.stream) && self.place == Place::Eval =>
            {
                Operand { flag: Some(cell.present), base: cell.value }
            }
            StreamAccessKind::Offset(Offset::Past(back)) => {
                let to = self.take(1 + cell.width);
                let number = match target {
                    StreamReference::In(index) => index,
                    StreamReference::Out(index) => self.plan.inputs.len() + index,
                };
                self.emit(Op::PastOfCell { cell: number as u32, back, to });
                Operand::optional(to)
            }
            _ => {
                if matches!(target, StreamReference::Out(_)) {
                    self.emit(Op::Require { flag: cell.present });
                }
                Operand::at(cell.value)
            }
        })
    }

    fn instance_access(
        &mut self,
        expression: &Expression,
        stream: usize,
        parameters: &[Expression],
        kind: StreamAccessKind,
    ) -> Result<Operand, Refused> {
        if parameters.len() != self.plan.streams[stream].params.len() {
            let name = &self.plan.streams[stream].name;
            return Err(Refused::construct(format!("a read of `{name}` that does not say which instance")));
        }
        let key = self.key(parameters)?;
        let (target, reader) = (&self.plan.streams[stream], &self.plan.streams[self.stream]);
        let is_beside = target.family == reader.family && key == reader.own;
        let (family, member) = (target.family as u32, target.member as u32);
        let (number, width) = (stream as u32, target.width);
        let target_counts = target.eval.counter.is_some();
        let to = self.take(1 + width);
        self.mark(expression);
        if target_counts && matches!(kind, StreamAccessKind::Hold | StreamAccessKind::Sync) {
            self.emit(Op::Count { stream: number, key: (!is_beside).then_some(key), to });
            if kind == StreamAccessKind::Sync {
                self.mark(expression);
                self.emit(Op::Require { flag: to });
                return Ok(Operand::at(to + 1));
            }
            return Ok(Operand::optional(to));
        }
        match kind {
            StreamAccessKind::Hold if is_beside => self.emit(Op::Own { family, member, to }),
            StreamAccessKind::Sync if is_beside => {
                self.emit(Op::OwnSync { family, member, to });
                return Ok(Operand::at(to));
            }
            StreamAccessKind::Hold => self.emit(Op::Hold { stream: number, key, to }),
            StreamAccessKind::Get => self.emit(Op::Get { stream: number, key, to }),
            StreamAccessKind::Fresh => {
                self.emit(Op::Fresh { stream: number, key, to });
                return Ok(Operand::at(to));
            }
            StreamAccessKind::Offset(Offset::Past(back))
                if is_beside && stream == self.stream && self.place == Place::Eval =>
            {
                self.emit(Op::PastOfOwn { family, member, back, to });
            }
            StreamAccessKind::Offset(Offset::Past(back)) => {
                self.emit(Op::Past { stream: number, key, back, to });
            }
            _ => {
                self.emit(Op::Sync { stream: number, key, to });
                return Ok(Operand::at(to));
            }
        }
        Ok(Operand::optional(to))
    }

    /// The words of parameters, one after another.
    pub(super) fn key(&mut self, parameters: &[Expression]) -> Result<Slot, Refused> {
        let stream = &self.plan.streams[self.stream];
        let own = parameters.iter().enumerate().all(|(index, parameter)| {
            matches!(parameter.kind, ExpressionKind::ParameterAccess(_, access) if access == index)
        });
        if own && parameters.len() == stream.params.len() {
            return Ok(stream.own);
        }
        let total = parameters.iter().map(|parameter| width(&parameter.ty)).sum();
        let base = self.take(total);
        let mut at = base;
        for parameter in parameters {
            self.key_part(parameter, at)?;
            at += width(&parameter.ty) as Slot;
        }
        Ok(base)
    }

    /// Where the key is that an expression makes, if it is an input of one word as it stands.
    pub(super) fn key_at_hand(&self, expression: &Expression) -> Option<Slot> {
        let ExpressionKind::StreamAccess { target: StreamReference::In(input), .. } = expression.kind else {
            return None;
        };
        let is_sync = matches!(
            expression.kind,
            ExpressionKind::StreamAccess { access_kind: StreamAccessKind::Sync, .. }
        );
        let is_plain = leaf(&expression.ty).is_some_and(Leaf::is_plain);
        (is_sync && is_plain).then(|| self.plan.inputs[input].value)
    }

    /// A parameter at a given place, in the one form that equal values share.
    pub(super) fn key_part(&mut self, expression: &Expression, to: Slot) -> Result<(), Refused> {
        let base = self.contiguous(expression)?;
        for (offset, leaf) in placed(&expression.ty) {
            let (a, to) = (base + offset as Slot, to + offset as Slot);
            self.emit(match leaf {
                Leaf::Float => Op::KeyFloat { a, to },
                Leaf::Decimal => Op::KeyDecimal { a, to },
                _ => Op::Copy { from: a, to },
            });
        }
        Ok(())
    }

    fn window(
        &mut self,
        expression: &Expression,
        parameters: &[Expression],
        window: WindowReference,
    ) -> Result<Operand, Refused> {
        let index = self.window_number(window);
        let wanted =
            self.plan.windows[index].target.map_or(0, |target| self.plan.streams[target].params.len());
        if parameters.len() != wanted {
            return Err(Refused::construct("a window over a stream that does not say which instance"));
        }
        let key = self.key(parameters)?;
        let inner_ty = inner(&expression.ty);
        let to = self.take(1 + width(inner_ty));
        self.mark(expression);
        self.emit(Op::Window { window: index as u32, key, to });
        if let (Some((signed, bits)), Some(leaf)) = (narrow(inner_ty), leaf(inner_ty)) {
            let absent = self.jump_unless(to);
            self.mark(expression);
            self.slow(Slow::Range { leaf, signed, bits, a: to + 1 });
            self.land(&[absent]);
        }
        Ok(self.result(expression, to))
    }

    /// A flag and a value as the type has it.
    pub(super) fn result(&mut self, expression: &Expression, to: Slot) -> Operand {
        // What the type says is always there has a value for nothing at all.
        if matches!(expression.ty, Type::Option(_)) { Operand::optional(to) } else { Operand::at(to + 1) }
    }

    pub(super) fn emit(&mut self, op: Op) {
        if self.lenient && matches!(op, Op::Require { .. }) {
            return;
        }
        self.ops.push(op);
    }

    pub(super) fn slow(&mut self, slow: Slow) {
        self.plan.slow.push(slow);
        let slow = (self.plan.slow.len() - 1) as u32;
        self.emit(Op::Slow { slow });
    }

    /// The next operation may fail for this expression.
    pub(super) fn mark(&mut self, expression: &Expression) {
        let text = self.text(expression);
        self.origins.push((self.ops.len() as Label, text));
    }

    pub(super) fn text(&self, expression: &Expression) -> String {
        // The frontend's printer does not know every construct.
        fairstream_core::catch_panic(|| self.mir.display(expression).to_string()).unwrap_or_default()
    }

    pub(super) fn jump_unless(&mut self, flag: Slot) -> usize {
        self.emit(Op::JumpUnless { flag, to: 0 });
        self.ops.len() - 1
    }

    pub(super) fn jump(&mut self) -> usize {
        self.emit(Op::Jump { to: 0 });
        self.ops.len() - 1
    }

    /// Lets jumps end here.
    pub(super) fn land(&mut self, jumps: &[usize]) {
        let here = self.ops.len() as Label;
        if !jumps.is_empty() {
            self.landed = self.ops.len();
        }
        for jump in jumps {
            match &mut self.ops[*jump] {
                Op::Jump { to }
                | Op::JumpUnless { to, .. }
                | Op::JumpIf { to, .. }
                | Op::JumpUnlessSame { to, .. }
                | Op::JumpUnlessActive { to, .. } => *to = here,
                _ => {}
            }
        }
    }
}

/// Whether an expression is a place in the frame already.
pub(super) fn is_at_hand(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::LoadConstant(_) | ExpressionKind::ParameterAccess(..))
}

/// The leaf of a type that has one.
pub(super) fn leaf(ty: &Type) -> Option<Leaf> {
    match placed(ty).as_slice() {
        [(_, leaf)] => Some(*leaf),
        _ => None,
    }
}

/// A template cut at its placeholders `{{…}}`, as many as there are values for.
fn pieces(template: &str, values: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = template;
    while pieces.len() <= values
        && let Some((from, to)) = placeholder(rest)
    {
        if let Some(last) = pieces.last_mut() {
            last.push_str(&rest[..from]);
        }
        pieces.push(String::new());
        rest = &rest[to..];
    }
    if let Some(last) = pieces.last_mut() {
        last.push_str(rest);
    }
    pieces
}

/// The first `{{…}}` without a brace inside.
fn placeholder(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let open = from + found;
        let inside = &text[open + 2..];
        let close = inside.find('}')?;
        if inside[close..].starts_with("}}") {
            return Some((open, open + 2 + close + 2));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn a_template_is_cut_at_its_placeholders() {
        assert_eq!(pieces("{{a}} of {{}}!", 2), ["", " of ", "!"]);
        assert_eq!(pieces("{{a}} of {{b}}", 1), ["", " of {{b}}"]);
        assert_eq!(pieces("none", 1), ["none"]);
        assert_eq!(pieces("{ {{x} y}} {{z}}", 1), ["{ {{x} y}} ", ""]);
    }
}
