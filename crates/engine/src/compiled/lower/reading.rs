//! Lowers reads of streams. Inputs and streams without instances are read from the frame, instances by their key.

use rtlola_frontend::mir::{
    Expression, ExpressionKind, Offset, StreamAccessKind, StreamReference, Type, WindowReference,
};

use super::expression::{ExprSite, Operand, leaf};
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::{Leaf, inner, narrow, placed, width};
use crate::compiled::ir::op::{FrameSlot, Op, RareOp};

impl PlanBuilder<'_> {
    pub(super) fn access(
        &mut self,
        expression: &Expression,
        target: StreamReference,
        parameters: &[Expression],
        kind: StreamAccessKind,
    ) -> Result<Operand, Unsupported> {
        match kind {
            StreamAccessKind::InstanceAggregation(window) => return self.aggregation(expression, window),
            StreamAccessKind::SlidingWindow(window) | StreamAccessKind::DiscreteWindow(window) => {
                return self.window(expression, parameters, window);
            }
            StreamAccessKind::Offset(Offset::Future(_)) => {
                return Err(Unsupported::construct("an offset into the future"));
            }
            _ => {}
        }
        let (index, cell) = match target {
            StreamReference::In(index) => (index, Some(self.plan.inputs[index].clone())),
            StreamReference::Out(index) => (index, self.plan.streams[index].cell.clone()),
        };
        self.mark_origin(expression);
        let Some(cell) = cell else { return self.instance_access(expression, index, parameters, kind) };
        if matches!(kind, StreamAccessKind::Get | StreamAccessKind::Fresh | StreamAccessKind::Offset(_)) {
            self.plan.asked_fresh.insert(cell.fresh);
        }
        Ok(match kind {
            StreamAccessKind::Hold => Operand { flag: Some(cell.present), base: cell.value },
            StreamAccessKind::Get => Operand { flag: Some(cell.fresh), base: cell.value },
            StreamAccessKind::Fresh => Operand::at(cell.fresh),
            // During the evaluation of the stream its previous value is still the latest one.
            StreamAccessKind::Offset(Offset::Past(1))
                if target == StreamReference::Out(self.stream) && self.site == ExprSite::Eval =>
            {
                Operand { flag: Some(cell.present), base: cell.value }
            }
            StreamAccessKind::Offset(Offset::Past(back)) => {
                let to = self.reserve(1 + cell.width);
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

    pub(super) fn instance_access(
        &mut self,
        expression: &Expression,
        stream: usize,
        parameters: &[Expression],
        kind: StreamAccessKind,
    ) -> Result<Operand, Unsupported> {
        if parameters.len() != self.plan.streams[stream].params.len() {
            let name = &self.plan.streams[stream].name;
            return Err(Unsupported::construct(format!(
                "a read of `{name}` that does not say which instance"
            )));
        }
        let key = self.key(parameters)?;
        let (target, reader) = (&self.plan.streams[stream], &self.plan.streams[self.stream]);
        let is_beside = target.family == reader.family && key == reader.own;
        let (number, width) = (stream as u32, target.width);
        let target_counts = target.eval.counter.is_some();
        let to = self.reserve(1 + width);
        self.mark_origin(expression);
        if target_counts && matches!(kind, StreamAccessKind::Hold | StreamAccessKind::Sync) {
            self.emit(Op::Count { stream: number, key: (!is_beside).then_some(key), to });
            if kind == StreamAccessKind::Sync {
                self.mark_origin(expression);
                self.emit(Op::Require { flag: to });
                return Ok(Operand::at(to + 1));
            }
            return Ok(Operand::optional(to));
        }
        match kind {
            StreamAccessKind::Hold if is_beside => self.emit(Op::Own { stream: number, to }),
            StreamAccessKind::Sync if is_beside => {
                self.emit(Op::OwnSync { stream: number, to });
                return Ok(Operand::at(to));
            }
            StreamAccessKind::Hold => self.emit(Op::Hold { stream: number, key, to }),
            StreamAccessKind::Get => self.emit(Op::Get { stream: number, key, to }),
            StreamAccessKind::Fresh => {
                self.emit(Op::Fresh { stream: number, key, to });
                return Ok(Operand::at(to));
            }
            StreamAccessKind::Offset(Offset::Past(back))
                if is_beside && stream == self.stream && self.site == ExprSite::Eval =>
            {
                self.emit(Op::PastOfOwn { stream: number, back, to });
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

    /// Where the words of parameters are, one after another: computed, unless they are those of the reader itself.
    pub(super) fn key(&mut self, parameters: &[Expression]) -> Result<FrameSlot, Unsupported> {
        let stream = &self.plan.streams[self.stream];
        let own = parameters.iter().enumerate().all(|(index, parameter)| {
            matches!(parameter.kind, ExpressionKind::ParameterAccess(_, access) if access == index)
        });
        if own && parameters.len() == stream.params.len() {
            return Ok(stream.own);
        }
        let total = parameters.iter().map(|parameter| width(&parameter.ty)).sum();
        let base = self.reserve(total);
        let mut at = base;
        for parameter in parameters {
            self.key_part(parameter, at)?;
            at += width(&parameter.ty) as FrameSlot;
        }
        Ok(base)
    }

    /// Where the key that an expression gives is in the frame already: if it is an input of one word that is a key as it
    /// is.
    pub(super) fn key_in_frame(&self, expression: &Expression) -> Option<FrameSlot> {
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

    /// Computes a parameter into `to`, normalised so that equal values have equal words.
    pub(super) fn key_part(&mut self, expression: &Expression, to: FrameSlot) -> Result<(), Unsupported> {
        let base = self.contiguous(expression)?;
        for (offset, leaf) in placed(&expression.ty) {
            let (a, to) = (base + offset as FrameSlot, to + offset as FrameSlot);
            self.emit(match leaf {
                Leaf::Float => Op::KeyFloat { a, to },
                Leaf::Decimal => Op::KeyDecimal { a, to },
                _ => Op::Copy { from: a, to },
            });
        }
        Ok(())
    }

    pub(super) fn window(
        &mut self,
        expression: &Expression,
        parameters: &[Expression],
        window: WindowReference,
    ) -> Result<Operand, Unsupported> {
        let index = self.window_number(window);
        if self.plan.windows[index].text.is_empty() {
            self.plan.windows[index].text = self.text(expression);
        }
        let wanted =
            self.plan.windows[index].target.map_or(0, |target| self.plan.streams[target].params.len());
        if parameters.len() != wanted {
            return Err(Unsupported::construct("a window over a stream that does not say which instance"));
        }
        let is_known = |(family, of): &(usize, Vec<Expression>)| {
            let target = self.plan.windows[index].target.map(|target| self.plan.streams[target].family);
            target == Some(*family) && of == parameters
        };
        self.plan.windows[index].outlasts |= !self.known_instances.iter().any(is_known);
        let key = self.key(parameters)?;
        let inner_ty = inner(&expression.ty);
        let to = self.reserve(1 + width(inner_ty));
        self.mark_origin(expression);
        self.emit(Op::Window { window: index as u32, key, to });
        if let (Some((signed, bits)), Some(leaf)) = (narrow(inner_ty), leaf(inner_ty)) {
            let absent = self.jump_unless(to);
            self.mark_origin(expression);
            self.emit_rare(RareOp::Range { leaf, signed, bits, a: to + 1 });
            self.land(&[absent]);
        }
        Ok(self.result(expression, to))
    }

    /// The operand of an aggregate that was written to `to`, behind a flag.
    pub(super) fn result(&mut self, expression: &Expression, to: FrameSlot) -> Operand {
        // An aggregate whose type is not optional has a value even of no values at all, so its flag is always set.
        if matches!(expression.ty, Type::Option(_)) { Operand::optional(to) } else { Operand::at(to + 1) }
    }
}
