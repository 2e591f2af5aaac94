//! Emits operations: copies, jumps and their targets, frame slots for results.

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

    /// Records that the next operation comes from this expression, for the error if it fails.
    pub(super) fn mark_origin(&mut self, expression: &Expression) {
        let text = self.text(expression);
        self.origins.push((self.ops.len() as Label, text));
    }

    /// The text of an expression, for errors and explanations.
    pub(super) fn text(&self, expression: &Expression) -> String {
        // The frontend's printer panics on some constructs.
        fairstream_core::catch_panic(|| self.mir.display(expression).to_string()).unwrap_or_default()
    }

    /// Emits a jump; gives its index, for [`land`](Self::land).
    pub(super) fn jump_unless(&mut self, flag: FrameSlot) -> usize {
        self.emit(Op::JumpUnless { flag, to: 0 });
        self.ops.len() - 1
    }

    /// Emits a jump; gives its index, for [`land`](Self::land).
    pub(super) fn jump(&mut self) -> usize {
        self.emit(Op::Jump { to: 0 });
        self.ops.len() - 1
    }

    /// Patches jumps so that they lead to the next operation.
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

    /// Copy elision: lets the last operation write its result, which is at `from`, to `into`. Whether that was possible:
    /// the result must be one word, and no jump may lead behind the operation.
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
            // Its flag is written to the word before the value, so that word must be free.
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

    /// Sets words to 0.
    pub(super) fn clear(&mut self, to: FrameSlot, count: usize) {
        let zero = self.constant_word(0);
        for index in 0..count as FrameSlot {
            self.emit(Op::Copy { from: zero, to: to + index });
        }
    }

    /// Copies a value of a type, without its flag.
    pub(super) fn copy(&mut self, from: Operand, to: Operand, ty: &Type) {
        match width(ty) {
            0 => {}
            1 => self.emit(Op::Copy { from: from.base, to: to.base }),
            count => self.emit(Op::CopyMany { from: from.base, to: to.base, count: count as u32 }),
        }
    }

    /// Reserves words for a value of a type.
    pub(super) fn reserve_for(&mut self, ty: &Type) -> Operand {
        let base = self.reserve(width(ty));
        if matches!(ty, Type::Option(_)) { Operand::optional(base) } else { Operand::at(base) }
    }

    /// Computes a value; gives its first word. The flag of an optional value is right before it, and an absent value is
    /// all zeros.
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
