//! Lowers operators and casts.

use rtlola_frontend::mir::{ArithLogOp, Expression, Type};

use super::expression::{Operand, leaf};
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::{Leaf, narrow, placed, width};
use crate::compiled::ir::op::{FrameSlot, Op, RareOp, Unary};

impl PlanBuilder<'_> {
    pub(super) fn operation(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        operands: &[Expression],
    ) -> Result<Operand, Unsupported> {
        match (operation, operands) {
            (ArithLogOp::And | ArithLogOp::Or, [left, right]) => {
                let to = self.reserve(1);
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
                let to = self.reserve(1);
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
            _ => Err(Unsupported::internal("an operation")),
        }
    }

    pub(super) fn equality(
        &mut self,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Unsupported> {
        let (a, b) = (self.contiguous(left)?, self.contiguous(right)?);
        let leaves = placed(&left.ty);
        let to = self.reserve(1);
        let mut differ = Vec::new();
        for (index, (offset, leaf)) in leaves.iter().enumerate() {
            let (a, b) = (a + *offset as FrameSlot, b + *offset as FrameSlot);
            match leaf {
                Leaf::Float => self.emit(Op::EqF { a, b, to }),
                Leaf::Decimal => {
                    self.emit_rare(RareOp::Compare { operation: ArithLogOp::Eq, leaf: *leaf, a, b, to })
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

    pub(super) fn comparison(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Unsupported> {
        let (a, b) = (self.expression(left)?.base, self.expression(right)?.base);
        let to = self.reserve(1);
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
                self.emit_rare(RareOp::Compare { operation, leaf, a, b, to });
            }
            _ => {
                let text = self.text(expression);
                return Err(Unsupported::construct(format!(
                    "`{text}`: values of type {} have no order",
                    left.ty
                )));
            }
        }
        Ok(Operand::at(to))
    }

    pub(super) fn arithmetic(
        &mut self,
        expression: &Expression,
        operation: ArithLogOp,
        left: &Expression,
        right: &Expression,
    ) -> Result<Operand, Unsupported> {
        let (a, b) = (self.expression(left)?.base, self.expression(right)?.base);
        let to = self.reserve(width(&expression.ty));
        let (Some(left_leaf), Some(right_leaf)) = (leaf(&left.ty), leaf(&right.ty)) else {
            return Err(Unsupported::construct(format!("`{}`", self.text(expression))));
        };
        if let Some(constant) = self.fold_constants(operation, left_leaf, a, b) {
            return Ok(Operand::at(constant));
        }
        self.mark_origin(expression);
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
            (_, leaf) => self.emit_rare(RareOp::Binary { operation, leaf, right: right_leaf, a, b, to }),
        }
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }

    /// Constant folding: the frame slot of the result, if both operands are float constants and the result is a number.
    pub(super) fn fold_constants(
        &mut self,
        operation: ArithLogOp,
        leaf: Leaf,
        a: FrameSlot,
        b: FrameSlot,
    ) -> Option<FrameSlot> {
        let value = |slot: FrameSlot| {
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
        (!result.is_nan()).then(|| self.constant_word(result.to_bits()))
    }

    /// Emits a range check if the type of the expression is an integer of fewer than 64 bits.
    pub(super) fn check_range(&mut self, expression: &Expression, a: FrameSlot) {
        if let (Some((signed, bits)), Some(leaf)) = (narrow(&expression.ty), leaf(&expression.ty)) {
            self.mark_origin(expression);
            self.emit_rare(RareOp::Range { leaf, signed, bits, a });
        }
    }

    pub(super) fn unary(
        &mut self,
        expression: &Expression,
        operation: Unary,
        operand: &Expression,
    ) -> Result<Operand, Unsupported> {
        let a = self.expression(operand)?.base;
        let to = self.reserve(width(&expression.ty));
        let Some(leaf) = leaf(&operand.ty) else {
            return Err(Unsupported::construct(format!("`{}`", self.text(expression))));
        };
        let trigonometric = matches!(operation, Unary::Asin | Unary::Acos | Unary::Atan);
        if leaf == Leaf::Decimal && trigonometric {
            return Err(Unsupported::construct(format!("`{}` of {}", self.text(expression), operand.ty)));
        }
        self.mark_origin(expression);
        self.emit_rare(RareOp::Unary { operation, leaf, a, to });
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }

    pub(super) fn convert(
        &mut self,
        expression: &Expression,
        from: &Expression,
    ) -> Result<Operand, Unsupported> {
        let value = self.expression(from)?;
        let (Some(source), Some(target)) = (leaf(&from.ty), leaf(&expression.ty)) else {
            return Err(Unsupported::construct(format!("a cast from {} to {}", from.ty, expression.ty)));
        };
        if source == target {
            // Widening keeps the value, narrowing may not.
            if narrow(&expression.ty).is_some() {
                self.check_range(expression, value.base);
            }
            return Ok(value);
        }
        let (a, to) = (value.base, self.reserve(width(&expression.ty)));
        match (source, target) {
            (Leaf::UInt, Leaf::Float) => self.emit(Op::UIntToFloat { a, to }),
            (Leaf::Int, Leaf::Float) => self.emit(Op::IntToFloat { a, to }),
            (
                Leaf::UInt | Leaf::Int | Leaf::Float | Leaf::Decimal,
                Leaf::UInt | Leaf::Int | Leaf::Float | Leaf::Decimal,
            ) => {
                self.mark_origin(expression);
                self.emit_rare(RareOp::Convert { from: source, into: target, a, to });
            }
            _ => return Err(Unsupported::construct(format!("a cast from {} to {}", from.ty, expression.ty))),
        }
        self.check_range(expression, to);
        Ok(Operand::at(to))
    }
}
