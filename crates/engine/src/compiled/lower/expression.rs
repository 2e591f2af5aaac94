//! Lowers expressions to operations.

use rtlola_frontend::mir::{ArithLogOp, Constant, Expression, ExpressionKind, Type};
use rust_decimal::Decimal;

use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::{Leaf, inner, placed, width};
use crate::compiled::ir::op::{FrameSlot, Op};
use crate::compiled::ir::scalar::decimal_words;

/// Where a value is in the frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    /// The flag of a value that may be absent.
    pub(super) flag: Option<FrameSlot>,
    /// The first word of the value.
    pub(super) base: FrameSlot,
}

impl Operand {
    /// A value without a flag.
    pub(super) fn at(base: FrameSlot) -> Operand {
        Operand { flag: None, base }
    }

    /// A value in the words after its flag.
    pub(super) fn optional(flag: FrameSlot) -> Operand {
        Operand { flag: Some(flag), base: flag + 1 }
    }
}

/// The part of a stream that an expression belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExprSite {
    Spawn,
    Eval,
    Close,
    /// A filter over instances, whose parameters are at this slot of the frame.
    Lambda(FrameSlot),
}

impl PlanBuilder<'_> {
    /// Emits the operations of an expression; gives where its value is then.
    pub(super) fn expression(&mut self, expression: &Expression) -> Result<Operand, Unsupported> {
        match &expression.kind {
            ExpressionKind::LoadConstant(constant) => self.constant(constant, &expression.ty),
            ExpressionKind::ParameterAccess(_, index) => {
                let stream = &self.plan.streams[self.stream];
                let offset: usize = stream.params[..*index].iter().map(width).sum();
                Ok(Operand::at(stream.own + offset as FrameSlot))
            }
            ExpressionKind::LambdaParameterAccess { wref, pref } => {
                let ExprSite::Lambda(base) = self.site else { return Err(Unsupported::internal("a lambda")) };
                let target = self.mir.instance_aggregation(*wref).target.out_ix();
                let params = &self.mir.outputs[target].params[..*pref];
                let offset: usize = params.iter().map(|param| width(&param.ty)).sum();
                Ok(Operand::at(base + offset as FrameSlot))
            }
            ExpressionKind::ArithLog(operation, operands) => self.operation(expression, *operation, operands),
            ExpressionKind::StreamAccess { target, parameters, access_kind } => {
                self.access(expression, *target, parameters, *access_kind)
            }
            ExpressionKind::Ite { condition, consequence, alternative } => {
                let otherwise = self.unless(condition)?;
                let to = self.reserve_for(&expression.ty);
                self.value_into(consequence, to)?;
                let done = self.jump();
                self.land(&otherwise);
                self.value_into(alternative, to)?;
                self.land(&[done]);
                Ok(to)
            }
            ExpressionKind::Tuple(parts) => {
                let base = self.reserve(width(&expression.ty));
                let mut at = base;
                for part in parts {
                    let to = match &part.ty {
                        Type::Option(_) => Operand::optional(at),
                        _ => Operand::at(at),
                    };
                    self.value_into(part, to)?;
                    at += width(&part.ty) as FrameSlot;
                }
                Ok(Operand::at(base))
            }
            ExpressionKind::TupleAccess(tuple, index) => {
                let operand = self.expression(tuple)?;
                let Type::Tuple(parts) = inner(&tuple.ty) else {
                    return Err(Unsupported::internal("a tuple"));
                };
                let offset: usize = parts[..*index].iter().map(width).sum();
                let base = operand.base + offset as FrameSlot;
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
                let to = self.reserve_for(&expression.ty);
                if width(&expression.ty) == 1 && is_in_frame(default) {
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

    /// Emits jumps that are taken if a condition does not hold; gives their indices, for [`land`](Self::land).
    pub(super) fn unless(&mut self, condition: &Expression) -> Result<Vec<usize>, Unsupported> {
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

    /// Computes an expression into an operand.
    pub(super) fn value_into(&mut self, expression: &Expression, to: Operand) -> Result<(), Unsupported> {
        let value = self.expression(expression)?;
        match (value.flag, to.flag) {
            (Some(from), Some(flag)) => {
                // An absent value is all zeros, so that two absent values have equal words.
                self.clear(to.base, width(inner(&expression.ty)));
                self.emit(Op::Copy { from, to: flag });
                let absent = self.jump_unless(from);
                self.copy(value, to, inner(&expression.ty));
                self.land(&[absent]);
            }
            (None, Some(flag)) => {
                let yes = self.constant_word(1);
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

    pub(super) fn constant(&mut self, constant: &Constant, ty: &Type) -> Result<Operand, Unsupported> {
        let words = match (constant, ty) {
            (Constant::Bool(value), _) => vec![u64::from(*value)],
            (Constant::Str(text), _) => vec![self.string_constant(text)],
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
                    Decimal::try_from(*value).map_err(|error| Unsupported::construct(error.to_string()))?;
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
        Ok(Operand::at(self.constant_words(&words)))
    }
}

/// Whether the value of an expression is in the frame without an operation.
pub(super) fn is_in_frame(expression: &Expression) -> bool {
    matches!(expression.kind, ExpressionKind::LoadConstant(_) | ExpressionKind::ParameterAccess(..))
}

/// The leaf of a type that has exactly one.
pub(super) fn leaf(ty: &Type) -> Option<Leaf> {
    match placed(ty).as_slice() {
        [(_, leaf)] => Some(*leaf),
        _ => None,
    }
}
