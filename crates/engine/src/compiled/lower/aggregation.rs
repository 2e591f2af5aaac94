//! Lowers aggregations: windows over time and values, grouped aggregates and scans over instances.

use rtlola_frontend::mir::{
    Expression, ExpressionKind, InstanceAggregation, InstanceOperation, InstanceSelection, MemorizationBound,
    PacingType, StreamReference, Type, Window, WindowReference,
};

use super::access::{Filter, anonymous, filter, walk};
use super::expression::{ExprSite, Operand, leaf};
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::aggregate::Aggregate;
use crate::compiled::ir::fold::Fold;
use crate::compiled::ir::layout::{Leaf, inner, leaves, narrow, placed, width};
use crate::compiled::ir::op::{Op, RareOp};
use crate::compiled::ir::plan::{GroupedPlan, ScanPlan};
use crate::compiled::ir::window::{LastDecisive, WindowKind, WindowPlan};

impl PlanBuilder<'_> {
    /// Plans every window of the specification, sliding ones first.
    pub(super) fn plan_windows(&mut self) -> Result<(), Unsupported> {
        let mir = self.mir;
        for window in &mir.sliding_windows {
            let MemorizationBound::Bounded(count) = window.num_buckets else {
                return Err(Unsupported::construct("a window without bounds"));
            };
            let size = u64::try_from(window.bucket_size.as_nanos()).unwrap_or(u64::MAX);
            let count = u64::from(count);
            let is_sane = size > 0 && size.checked_mul(count).is_some_and(|all| i64::try_from(all).is_ok());
            if !is_sane {
                return Err(Unsupported::construct("a window of more than 292 years"));
            }
            let is_local = matches!(window.pacing, PacingType::LocalPeriodic(_));
            let kind =
                if is_local { WindowKind::Log { size, count } } else { WindowKind::Buckets { size, count } };
            let family = self.plan.streams[window.caller.out_ix()].family;
            self.plan.families[family].knows_its_spawn |= is_local;
            self.add_window(window, kind, window.wait)?;
        }
        for window in &mir.discrete_windows {
            self.add_window(window, WindowKind::Values { count: window.duration }, window.wait)?;
        }
        Ok(())
    }

    fn add_window(&mut self, window: &impl Window, kind: WindowKind, waits: bool) -> Result<(), Unsupported> {
        let (ty, target) = match window.target() {
            StreamReference::In(input) => (self.mir.inputs[input].ty.clone(), None),
            StreamReference::Out(output) => {
                let stream = &self.plan.streams[output];
                (stream.ty.clone(), stream.is_parameterised().then_some(output))
            }
        };
        let reader = window.caller().out_ix();
        let fold = Fold::new(window.op(), false, &ty, window.ty())
            .map_err(|what| Unsupported::construct(format!("`{}`: {what}", self.mir.outputs[reader].name)))?;
        let (text, dependents) = (String::new(), Vec::new());
        let outlasts = false;
        let mut plan =
            WindowPlan { fold, kind, waits, outlasts, target, reader, text, dependents, last_decisive: None };
        // Windows with the same contents and result share one store.
        let shared =
            self.plan.windows.iter().position(|known| target.is_some() && known.can_share_store(&plan));
        let number = shared.unwrap_or(self.plan.windows.len());
        self.windows.push(number);
        if shared.is_none() {
            if let Some(target) = target {
                let family = &mut self.plan.families[self.plan.streams[target].family];
                plan.last_decisive = LastDecisive::of(&plan, family.stride);
                family.stride += usize::from(plan.last_decisive.is_some());
            }
            self.plan.windows.push(plan);
            match window.target() {
                StreamReference::In(input) => self.plan.input_windows[input].push(number),
                StreamReference::Out(output) => self.plan.streams[output].windows.push(number),
            }
        }
        Ok(())
    }

    /// The window of the plan that stores the values of a window of the specification.
    pub(super) fn window_number(&self, window: WindowReference) -> usize {
        match window {
            WindowReference::Discrete(index) => self.windows[self.mir.sliding_windows.len() + index],
            other => self.windows[other.idx()],
        }
    }

    /// A read of an aggregation over instances: of a grouped aggregate where its filter allows that, else a scan.
    pub(super) fn aggregation(
        &mut self,
        expression: &Expression,
        window: WindowReference,
    ) -> Result<Operand, Unsupported> {
        let mir = self.mir;
        let aggregation = mir.instance_aggregation(window);
        self.check_parameters(aggregation)?;
        let filter = filter(aggregation);
        let only_fresh = matches!(
            aggregation.selection,
            InstanceSelection::Fresh | InstanceSelection::FilteredFresh { .. }
        );
        let target = &self.plan.streams[aggregation.target.out_ix()];
        let aggregate = aggregate_of(aggregation.aggr, &target.ty, inner(&aggregation.ty));
        let inner_ty = inner(&expression.ty);
        let to = match aggregate {
            Some(aggregate) if !only_fresh && !filter.is_open => {
                let (grouped, index) = self.add_grouped(aggregation, &filter, aggregate)?;
                self.grouped.insert(window.idx(), (grouped, index));
                let keys: Vec<Expression> = filter.key.iter().map(|(_, key)| key.clone()).collect();
                let key = self.key(&keys)?;
                let to = self.reserve(1 + width(inner_ty));
                self.mark_origin(expression);
                self.emit(Op::Aggregate { grouped: grouped as u32, aggregate: index as u32, key, to });
                if let (Some((signed, bits)), Some(leaf)) = (narrow(inner_ty), leaf(inner_ty)) {
                    let absent = self.jump_unless(to);
                    self.mark_origin(expression);
                    self.emit_rare(RareOp::Range { leaf, signed, bits, a: to + 1 });
                    self.land(&[absent]);
                }
                to
            }
            _ => {
                let scan = self.add_scan(aggregation, only_fresh, &filter)?;
                let to = self.reserve(1 + width(inner_ty));
                self.mark_origin(expression);
                self.emit(Op::Scan { scan: scan as u32, to });
                to
            }
        };
        Ok(self.result(expression, to))
    }

    /// Refuses a filter that takes a parameter for one of another type, for example a signed one for an unsigned one. The
    /// frontend accepts that.
    fn check_parameters(&self, aggregation: &InstanceAggregation) -> Result<(), Unsupported> {
        let Some(condition) = aggregation.selection.condition() else { return Ok(()) };
        let target = &self.mir.outputs[aggregation.target.out_ix()];
        let mut mistaken = None;
        walk(condition, &mut |part| {
            if let ExpressionKind::LambdaParameterAccess { pref, .. } = part.kind
                && leaves(&part.ty) != leaves(&target.params[pref].ty)
            {
                mistaken = Some((&target.params[pref], part.ty.clone()));
            }
        });
        match mistaken {
            None => Ok(()),
            Some((param, ty)) => Err(Unsupported::construct(format!(
                "a filter that takes the parameter `{}` of `{}`, an {}, for an {ty}; write `{}: {ty}` there",
                param.name, target.name, param.ty, param.name
            ))),
        }
    }

    /// The grouped aggregate with this target, key and filter, and the index of the aggregate in it. Either is added only
    /// if there is none like it yet.
    fn add_grouped(
        &mut self,
        aggregation: &InstanceAggregation,
        filter: &Filter,
        aggregate: Aggregate,
    ) -> Result<(usize, usize), Unsupported> {
        let target = aggregation.target.out_ix();
        let key_words = self.param_words(target, filter.key.iter().map(|(param, _)| *param));
        let texts: Vec<String> = filter.fixed.iter().map(|part| self.text(part)).collect();
        let filter_text = (!texts.is_empty()).then(|| texts.join(" ∧ "));
        // Filters are compared as expressions: in their texts, different parameters may have the same names.
        let fixed: Vec<Expression> = filter.fixed.iter().map(anonymous).collect();
        let known = self.plan.grouped.iter().position(|grouped| {
            // An update reports the aggregates that have changed as a bit mask of 64 bits.
            let has_room = grouped.aggregates.len() < 64;
            grouped.target == target && grouped.key_words == key_words && grouped.fixed == fixed && has_room
        });
        let grouped = match known {
            Some(grouped) => grouped,
            None => {
                let lambda = self.reserve(self.plan.streams[target].param_width);
                let program = match filter.fixed.as_slice() {
                    [] => None,
                    fixed => Some(self.write_program(ExprSite::Lambda(lambda), |builder| {
                        let mut leave = Vec::new();
                        for part in fixed {
                            leave.extend(builder.unless(part)?);
                        }
                        builder.emit(Op::Yield);
                        builder.land(&leave);
                        Ok(())
                    })?),
                };
                let names = &self.plan.streams[target].param_names;
                let key_names = filter.key.iter().map(|(param, _)| names[*param].clone()).collect();
                self.plan.grouped.push(GroupedPlan {
                    target,
                    key_words,
                    filter: program,
                    lambda,
                    aggregates: Vec::new(),
                    dependents: Vec::new(),
                    key_names,
                    filter_text,
                    fixed,
                });
                self.plan.streams[target].grouped.push(self.plan.grouped.len() - 1);
                self.plan.grouped.len() - 1
            }
        };
        let plan = &mut self.plan.grouped[grouped];
        let index = plan.aggregates.iter().position(|known| *known == aggregate).unwrap_or_else(|| {
            plan.aggregates.push(aggregate);
            plan.dependents.push(Vec::new());
            plan.aggregates.len() - 1
        });
        Ok((grouped, index))
    }

    /// Adds an aggregation that is computed on read from every instance; gives its number.
    fn add_scan(
        &mut self,
        aggregation: &InstanceAggregation,
        only_fresh: bool,
        filter: &Filter,
    ) -> Result<usize, Unsupported> {
        let target = aggregation.target.out_ix();
        let lambda = self.reserve(self.plan.streams[target].param_width);
        let condition = match aggregation.selection.condition() {
            Some(condition) => Some(self.write_program(ExprSite::Lambda(lambda), |builder| {
                let leave = builder.unless(condition)?;
                builder.emit(Op::Yield);
                builder.land(&leave);
                Ok(())
            })?),
            None => None,
        };
        let fold = Fold::new(aggregation.op(), true, &self.plan.streams[target].ty, &aggregation.ty)
            .map_err(Unsupported::construct)?;
        let reason = match filter.is_open {
            true => "its filter has conditions other than equations of parameters",
            false => "it cannot be updated incrementally",
        };
        self.plan.streams[target].lists_fresh |= only_fresh;
        self.plan.scans.push(ScanPlan {
            target,
            only_fresh,
            condition,
            lambda,
            fold,
            range: narrow(inner(&aggregation.ty)),
            reason: reason.to_owned(),
            reader: self.stream,
        });
        Ok(self.plan.scans.len() - 1)
    }
}

/// The incremental aggregate for an aggregation over instances; `None` if it can only be computed from all values.
fn aggregate_of(operation: InstanceOperation, target: &Type, result: &Type) -> Option<Aggregate> {
    let leaves: Vec<Leaf> = placed(target).into_iter().map(|(_, leaf)| leaf).collect();
    let one = match leaves.as_slice() {
        [leaf] => Some(*leaf),
        _ => None,
    };
    let is_ordered = |leaf: &Leaf| matches!(leaf, Leaf::UInt | Leaf::Int | Leaf::Float);
    let is_summed = |leaf: &Leaf| is_ordered(leaf) || *leaf == Leaf::Decimal;
    match operation {
        InstanceOperation::Count => Some(Aggregate::Count),
        InstanceOperation::Conjunction => Some(Aggregate::All),
        InstanceOperation::Disjunction => Some(Aggregate::Any),
        InstanceOperation::Min => one.filter(is_ordered).map(Aggregate::Min),
        InstanceOperation::Max => one.filter(is_ordered).map(Aggregate::Max),
        InstanceOperation::Sum => {
            one.filter(is_summed).filter(|leaf2| leaf(result) == Some(*leaf2)).map(Aggregate::Sum)
        }
        InstanceOperation::Average => one.filter(is_summed).map(Aggregate::Average),
        InstanceOperation::Variance => (one == Some(Leaf::Float)).then_some(Aggregate::Variance),
        InstanceOperation::StandardDeviation => (one == Some(Leaf::Float)).then_some(Aggregate::Deviation),
        InstanceOperation::Covariance => {
            (leaves == [Leaf::Float, Leaf::Float]).then_some(Aggregate::Covariance)
        }
        InstanceOperation::Product | InstanceOperation::NthPercentile(_) => None,
    }
}
