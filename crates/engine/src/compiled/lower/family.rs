//! Forms families: streams that are spawned and closed together. Lowers their spawn and their close.

use rtlola_frontend::mir::{ExpressionKind, OutputStream, Stream};

use super::access::anonymous;
use super::expression::ExprSite;
use super::schedule::pacing;
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::{MemberSize, arrange, width};
use crate::compiled::ir::op::{FrameSlot, Op};
use crate::compiled::ir::plan::{ClosePlan, FamilyPlan, Plan, SpawnPlan, StreamPlan};

impl PlanBuilder<'_> {
    /// Puts streams into families, and lays out their slots.
    pub(super) fn form_families(&mut self) {
        let mir = self.mir;
        for (index, output) in mir.outputs.iter().enumerate() {
            let is_same = |family: &FamilyPlan| have_same_instances(&mir.outputs[family.members[0]], output);
            let family = self.plan.families.iter().position(is_same).unwrap_or_else(|| {
                self.plan.families.push(FamilyPlan {
                    members: Vec::new(),
                    is_parameterised: output.is_parameterized(),
                    param_width: self.plan.streams[index].param_width,
                    stride: 0,
                    spawn: None,
                    close: None,
                    spawn_layer: output.spawn_layer().inner(),
                    indexes: Vec::new(),
                    knows_its_spawn: false,
                    instance_timers: Vec::new(),
                });
                self.plan.families.len() - 1
            });
            let members = &mut self.plan.families[family].members;
            self.plan.streams[index].family = family;
            members.push(index);
        }
        let Plan { families, streams, .. } = &mut self.plan;
        for family in families {
            let size = |member: &usize| {
                let StreamPlan { width, depth, stores_fresh, .. } = streams[*member];
                MemberSize { width, depth, stores_fresh }
            };
            let (members, stride) = arrange(family.param_width, family.members.iter().map(size));
            family.stride = stride;
            for (stream, member) in family.members.iter().zip(members) {
                streams[*stream].member = member;
            }
        }
    }

    /// Plans the spawn and the close of a family, which are those of its first member.
    pub(super) fn plan_family(&mut self, index: usize, first: usize) -> Result<(), Unsupported> {
        self.stream = first;
        let mir = self.mir;
        let output = &mir.outputs[first];
        if output.is_spawned() {
            let spawn = self.plan_spawn(output)?;
            self.plan.families[index].spawn = Some(spawn);
        }
        if let Some(condition) = &output.close.condition {
            let program = self.write_program(ExprSite::Close, |builder| {
                let leave = builder.unless(condition)?;
                builder.emit(Op::Yield);
                builder.land(&leave);
                Ok(())
            })?;
            let path = self.path(condition, ExprSite::Close)?;
            let pacing = pacing(&output.close.pacing);
            let close = ClosePlan { pacing, program, path, incremental: false, is_checked_at_spawn: false };
            self.plan.families[index].close = Some(close);
        }
        Ok(())
    }

    fn plan_spawn(&mut self, output: &OutputStream) -> Result<SpawnPlan, Unsupported> {
        if let (Some(expression), None) = (&output.spawn.expression, &output.spawn.condition)
            && let Some(key) = self.key_in_frame(expression)
        {
            return Ok(SpawnPlan { pacing: pacing(&output.spawn.pacing), program: None, key });
        }
        let key = self.reserve(self.plan.streams[self.stream].param_width);
        let program = self.write_program(ExprSite::Spawn, |builder| {
            let leave = match &output.spawn.condition {
                Some(condition) => builder.unless(condition)?,
                None => Vec::new(),
            };
            if let Some(expression) = &output.spawn.expression {
                // The components of a tuple are the parameters, unless the tuple is the only parameter.
                match (&expression.kind, output.params.len()) {
                    (ExpressionKind::Tuple(parts), count) if count > 1 => {
                        let mut at = key;
                        for part in parts {
                            builder.key_part(part, at)?;
                            at += width(&part.ty) as FrameSlot;
                        }
                    }
                    _ => builder.key_part(expression, key)?,
                }
            }
            builder.emit(Op::Yield);
            builder.land(&leave);
            Ok(())
        })?;
        Ok(SpawnPlan { pacing: pacing(&output.spawn.pacing), program: Some(program), key })
    }
}

/// Whether two streams always have the same instances.
fn have_same_instances(one: &OutputStream, other: &OutputStream) -> bool {
    let params =
        |output: &OutputStream| -> Vec<_> { output.params.iter().map(|param| param.ty.clone()).collect() };
    let close = |output: &OutputStream| output.close.condition.as_ref().map(anonymous);
    one.is_parameterized()
        && params(one) == params(other)
        && one.spawn == other.spawn
        && one.spawn_layer().inner() == other.spawn_layer().inner()
        && one.close.pacing == other.close.pacing
        && close(one) == close(other)
}
