//! Writes operations: places, copies, jumps.

use rtlola_frontend::mir::{Expression, Type};

use super::expression::Operand;
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::{inner, width};
use crate::compiled::ir::op::{FrameSlot, Label, Op, RareOp};
impl PlanBuilder<'_> {
    pub(super) fn emit(&mut self, op: Op) {
        if self.lenient && matches!(op, Op::Require { .. }) {
            return;
        }
        self.ops.push(op);
    }

    pub(super) fn emit_rare(&mut self, rare: RareOp) {
        self.plan.rare_ops.push(rare);
        let rare = (self.plan.rare_ops.len() - 1) as u32;
        self.emit(Op::Rare { rare });
    }

    /// The next operation may fail for this expression.
    pub(super) fn mark_origin(&mut self, expression: &Expression) {
        let text = self.text(expression);
        self.origins.push((self.ops.len() as Label, text));
    }

    pub(super) fn text(&self, expression: &Expression) -> String {
        // The frontend's printer does not know every construct.
        fairstream_core::catch_panic(|| self.mir.display(expression).to_string()).unwrap_or_default()
    }

    pub(super) fn jump_unless(&mut self, flag: FrameSlot) -> usize {
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
            self.last_target = self.ops.len();
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

    /// Lets the last operation write to where its result would be copied to, if it has just that.
    pub(super) fn redirect(&mut self, from: FrameSlot, into: FrameSlot, width: usize) -> bool {
        let is_whole = self.last_target < self.ops.len() && !self.lenient;
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
            Op::Aggregate { to, .. } if self.result_flag == Some(into.wrapping_sub(1)) && *to + 1 == from => {
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

    pub(super) fn clear(&mut self, to: FrameSlot, count: usize) {
        let zero = self.constant_word(0);
        for index in 0..count as FrameSlot {
            self.emit(Op::Copy { from: zero, to: to + index });
        }
    }

    pub(super) fn copy(&mut self, from: Operand, to: Operand, ty: &Type) {
        match width(ty) {
            0 => {}
            1 => self.emit(Op::Copy { from: from.base, to: to.base }),
            count => self.emit(Op::CopyMany { from: from.base, to: to.base, count: count as u32 }),
        }
    }

    /// Room for a value of a type.
    pub(super) fn reserve_for(&mut self, ty: &Type) -> Operand {
        let base = self.reserve(width(ty));
        if matches!(ty, Type::Option(_)) { Operand::optional(base) } else { Operand::at(base) }
    }

    /// A value with its flag, if it has one, right before it.
    pub(super) fn contiguous(&mut self, expression: &Expression) -> Result<FrameSlot, Unsupported> {
        let value = self.expression(expression)?;
        let Some(flag) = value.flag else { return Ok(value.base) };
        let to = self.reserve_for(&expression.ty);
        self.clear(to.base, width(inner(&expression.ty)));
        self.emit(Op::Copy { from: flag, to: to.base - 1 });
        let absent = self.jump_unless(flag);
        self.copy(value, to, inner(&expression.ty));
        self.land(&[absent]);
        Ok(to.base - 1)
    }
}
