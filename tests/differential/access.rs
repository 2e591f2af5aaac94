//! Expressions that read other streams: directly, held, in the past, through windows, over instances.

use super::draft::{Draft, Life, Stream, param_names};
use super::pacing::{Activation, Pacing, duration};
use super::random::Random;
use super::types::{FLOAT, INT, Ty, UINT};

/// The context of an expression, which determines what it may read.
pub(super) struct Scope<'a> {
    pub(super) draft: &'a Draft,
    pub(super) random: &'a mut Random,
    pub(super) pacing: Pacing,
    /// Parameters of the stream, and of an enclosing lambda.
    pub(super) params: Vec<(String, Ty)>,
    pub(super) life: Option<Life>,
    pub(super) filter: Option<String>,
    /// The stream itself, whose past values may be read.
    pub(super) own: Option<(String, Ty)>,
    /// Activations of synchronous reads, from which the frontend infers the pacing.
    pub(super) touched: Vec<Activation>,
    /// Whether the frontend infers the pacing. In this case accesses that it cannot handle are left out.
    pub(super) inferred: bool,
}

impl Scope<'_> {
    /// An expression that reads a value of that type, if there is one.
    pub(super) fn access(&mut self, ty: &Ty) -> Option<String> {
        match self.random.weighted(&[9, 6, 2, 4, 3, 6, 3, 7]) {
            0 => self.sync(ty),
            1 => self.hold(ty),
            2 => self.get(ty),
            3 => self.own_past(ty),
            4 => self.past(ty),
            5 => self.sliding_window(ty),
            6 => self.discrete_window(ty),
            _ => self.instances(ty),
        }
    }

    /// Expressions for streams that have a value whenever this expression is evaluated.
    fn synchronous(&self, wanted: impl Fn(&Ty) -> bool) -> Vec<(String, Ty, Option<Activation>)> {
        let mut found = Vec::new();
        for (index, input) in self.draft.inputs.iter().enumerate() {
            let activation = vec![vec![index]];
            if wanted(&input.ty) && self.pacing.implies(&Pacing::Event(activation.clone())) {
                found.push((input.name.clone(), input.ty.clone(), Some(activation)));
            }
        }
        for stream in &self.draft.streams {
            let alive = stream.life.is_none() || stream.life == self.life;
            let passes = stream.filter.is_none() || stream.filter == self.filter;
            if wanted(&stream.ty) && alive && passes && self.pacing.implies(&stream.pacing) {
                let activation = match &stream.pacing {
                    Pacing::Event(activation) => Some(activation.clone()),
                    _ => None,
                };
                let text = stream.with_args(&param_names(&stream.params));
                found.push((text, stream.ty.clone(), activation));
            }
        }
        found
    }

    fn pick_synchronous(&mut self, wanted: impl Fn(&Ty) -> bool) -> Option<(String, Ty)> {
        let found = self.synchronous(wanted);
        if found.is_empty() {
            return None;
        }
        let (text, ty, activation) = self.random.choose(&found);
        self.touched.extend(activation);
        Some((text, ty))
    }

    pub(super) fn sync(&mut self, ty: &Ty) -> Option<String> {
        self.pick_synchronous(|other| other == ty).map(|(text, _)| text)
    }

    /// Any matching stream, with arguments if it has parameters.
    fn any(&mut self, wanted: impl Fn(&Stream) -> bool) -> Option<Stream> {
        let inputs = self.draft.inputs.iter().enumerate().map(|(index, input)| Stream {
            name: input.name.clone(),
            ty: input.ty.clone(),
            params: Vec::new(),
            pacing: Pacing::Event(vec![vec![index]]),
            life: None,
            filter: None,
        });
        let found: Vec<Stream> =
            inputs.chain(self.draft.streams.iter().cloned()).filter(|stream| wanted(stream)).collect();
        if found.is_empty() {
            return None;
        }
        let mut stream = self.random.choose(&found);
        let args: Vec<String> = stream.params.clone().iter().map(|ty| self.key(ty)).collect();
        stream.name = stream.with_args(&args);
        Some(stream)
    }

    /// An argument for a parameter of that type, mostly one that matches an instance.
    pub(super) fn key(&mut self, ty: &Ty) -> String {
        let params: Vec<String> =
            self.params.iter().filter(|(_, other)| other == ty).map(|(name, _)| name.clone()).collect();
        if !params.is_empty() && self.random.chance(60) {
            return self.random.choose(&params);
        }
        if !self.inferred
            && self.random.chance(70)
            && let Some(input) = self.sync(ty)
        {
            return input;
        }
        ty.literal(self.random).unwrap_or_default()
    }

    pub(super) fn hold(&mut self, ty: &Ty) -> Option<String> {
        let default = ty.literal(self.random)?;
        let stream = self.any(|stream| stream.ty == *ty)?;
        Some(match self.random.below(4) {
            0 => format!("{}.hold().defaults(to: {default})", stream.name),
            _ => format!("{}.hold(or: {default})", stream.name),
        })
    }

    fn get(&mut self, ty: &Ty) -> Option<String> {
        if self.inferred || matches!(self.pacing, Pacing::Local(_)) {
            return None;
        }
        let event = self.pacing.is_event();
        let same_kind =
            |stream: &Stream| stream.pacing.is_event() == event && !matches!(stream.pacing, Pacing::Local(_));
        if *ty == Ty::Bool && self.random.chance(60) {
            return Some(format!("{}.is_fresh()", self.any(same_kind)?.name));
        }
        let default = ty.literal(self.random)?;
        let stream = self.any(|stream| stream.ty == *ty && same_kind(stream))?;
        Some(format!("{}.get(or: {default})", stream.name))
    }

    fn own_past(&mut self, ty: &Ty) -> Option<String> {
        let (name, _) = self.own.clone().filter(|(_, own)| own == ty)?;
        self.offset(&name, ty)
    }

    fn past(&mut self, ty: &Ty) -> Option<String> {
        let name = self.sync(ty)?;
        self.offset(&name, ty)
    }

    fn offset(&mut self, name: &str, ty: &Ty) -> Option<String> {
        let default = ty.literal(self.random)?;
        let back = [1, 1, 1, 2, 2, 3, 5][self.random.below(7)];
        Some(match self.random.below(4) {
            0 | 1 => format!("{name}.last(or: {default})"),
            2 => format!("{name}.offset(by: -{back}).defaults(to: {default})"),
            _ => format!("{name}.offset(by: -{back}, or: {default})"),
        })
    }

    /// An aggregation with a result of type `ty`: the type of its values, its name, and whether its result is
    /// optional. `last` and similar ones cannot be used over instances.
    fn aggregation(&mut self, ty: &Ty, instances: bool) -> Option<(Option<Ty>, String, bool)> {
        let percentile = ["med", "pctl25", "pctl75", "median"][self.random.below(4)];
        let names: &[&str] = match ty {
            Ty::Bool => &["exists", "forall"],
            Ty::Int(64) | Ty::UInt(64) if instances => &["count", "sum", "sum", "min", "max"],
            Ty::Int(64) | Ty::UInt(64) => &["count", "sum", "min", "max", "last", percentile, "avg"],
            Ty::Float(64) | Ty::Fixed if instances => &["sum", "min", "max"],
            Ty::Float(64) => &["sum", "min", "max", "avg", "last", percentile, "var", "sd", "cov", "cov"],
            Ty::Fixed => &["sum", "min", "max", "avg", "last"],
            Ty::Int(_) | Ty::UInt(_) if instances => &["min", "max"],
            Ty::Int(_) | Ty::UInt(_) => &["min", "max", "last"],
            _ => return None,
        };
        let mut name = self.random.pick(names);
        if name == "count" && *ty != UINT {
            name = "sum";
        }
        let target = match name {
            "count" => None,
            "cov" => Some(Ty::Tuple(vec![FLOAT, FLOAT])),
            _ => Some(ty.clone()),
        };
        let optional = !matches!(name, "count" | "sum" | "exists" | "forall");
        Some((target, name.to_owned(), optional))
    }

    fn sliding_window(&mut self, ty: &Ty) -> Option<String> {
        let (Pacing::Global(period) | Pacing::Local(period)) = self.pacing else { return None };
        let (target, name, optional) = self.aggregation(ty, false)?;
        // Avoids faults of the interpreter: an instance that is closed, spawned again and read through a window;
        // percentiles of empty windows; windows of a stream that has closed.
        if self.closes_alone() {
            return None;
        }
        let percentile = name.starts_with("med") || name.starts_with("pctl");
        let pacing = self.pacing.clone();
        let never_empty = |stream: &Stream| {
            stream.life.is_none() && stream.filter.is_none() && pacing.implies(&stream.pacing)
        };
        let wanted = |stream: &Stream| {
            target.as_ref().is_none_or(|target| *target == stream.ty)
                && stream.life.as_ref().is_none_or(|life| life.close.is_none())
                && (!percentile || never_empty(stream))
        };
        let stream = self.any(wanted)?.name;
        let over = duration(period * [1, 1, 2, 3, 4, 7][self.random.below(6)]);
        let exactly = self.random.chance(25);
        let kind = if exactly { "over_exactly" } else { "over" };
        let text = format!("{stream}.aggregate({kind}: {over}, using: {name})");
        self.with_default(text, ty, optional || exactly)
    }

    /// Whether the stream has exactly one instance, and it can close.
    fn closes_alone(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.params.is_empty() && life.close.is_some())
    }

    fn discrete_window(&mut self, ty: &Ty) -> Option<String> {
        if self.inferred || self.closes_alone() {
            return None;
        }
        let (target, name, optional) = self.aggregation(ty, false)?;
        let (stream, _) =
            self.pick_synchronous(|other| target.as_ref().is_none_or(|target| target == other))?;
        let exactly = self.random.chance(30);
        let kind = if exactly { "over_exactly_discrete" } else { "over_discrete" };
        let text = format!("{stream}.aggregate({kind}: {}, using: {name})", self.random.below(5) + 1);
        self.with_default(text, ty, optional || exactly)
    }

    fn instances(&mut self, ty: &Ty) -> Option<String> {
        if self.inferred {
            return None;
        }
        let (target, name, optional) = self.aggregation(ty, true)?;
        let wanted = |stream: &&Stream| {
            !stream.params.is_empty() && target.as_ref().is_none_or(|target| *target == stream.ty)
        };
        let found: Vec<Stream> = self.draft.streams.iter().filter(wanted).cloned().collect();
        if found.is_empty() {
            return None;
        }
        let stream = self.random.choose(&found);
        let fresh = self.pacing.is_event() && self.pacing.implies(&stream.pacing) && self.random.chance(35);
        let set = if fresh { "fresh" } else { "all" };
        let selection =
            if self.random.chance(30) { set.to_owned() } else { format!("{set}{}", self.selection(&stream)) };
        let text = format!("{}.aggregate(over_instances: {selection}, using: {name})", stream.name);
        self.with_default(text, ty, optional)
    }

    /// `(where: …)` on the parameters of a stream: equalities, inequalities and comparisons, one or several.
    fn selection(&mut self, stream: &Stream) -> String {
        let names: Vec<&str> = ["x", "y", "z"][..stream.params.len()].to_vec();
        let mut conditions = Vec::new();
        for (name, ty) in names.iter().zip(&stream.params) {
            if !conditions.is_empty() && self.random.chance(40) {
                continue;
            }
            let key = self.key(ty);
            conditions.push(match self.random.weighted(&[6, 4, 1, if ty.is_ordered() { 2 } else { 0 }]) {
                0 => format!("{name} = {key}"),
                1 => format!("{key} = {name}"),
                2 => format!("{name} != {key}"),
                _ => format!("{name} < {key}"),
            });
        }
        if self.random.chance(15) {
            let extra = self.hold(&INT).map_or_else(|| "true".to_owned(), |held| format!("{held} > 1"));
            conditions.insert(self.random.below(conditions.len() + 1), extra);
        }
        let and = if self.random.chance(12) { " ∨ " } else { " ∧ " };
        format!("(where: ({}) => {})", names.join(", "), conditions.join(and))
    }

    fn with_default(&mut self, text: String, ty: &Ty, optional: bool) -> Option<String> {
        if !optional {
            return Some(text);
        }
        let default = ty.literal(self.random)?;
        Some(format!("{text}.defaults(to: {default})"))
    }
}
