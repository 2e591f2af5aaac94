//! Lowers the frontend's typed representation of a specification (RTLola MIR) to a [`Plan`].
//!
//! Streams are first put into families, whose slots they share. Expressions become programs; conditions that pin
//! parameters become access paths; aggregations become grouped aggregates, windows or scans. Last, each stream whose
//! reads are known registers as a dependent of what it reads, so that it is evaluated only after a change.

mod access;
mod aggregation;
mod counter;
mod emit;
mod expression;
mod family;
mod function;
mod operation;
mod reading;
mod schedule;
mod stream;

use std::collections::HashMap;

use rtlola_frontend::RtLolaMir;
use rtlola_frontend::mir::{
    Expression, InputStream, MemorizationBound, Offset, Origin, OutputStream, Stream, StreamAccessKind, Type,
};

use self::expression::ExprSite;
use crate::Specification;
use crate::compiled::ir::layout::{Member, placed, width};
use crate::compiled::ir::op::{FRAME_SIZE, FrameSlot, Label, Op, Program};
use crate::compiled::ir::plan::{Cell, EvalPlan, Pacing, Plan, StreamPlan};
use crate::specification::is_trigger;

/// Something that the compiled engine cannot evaluate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unsupported(String);

impl Unsupported {
    fn construct(what: impl Into<String>) -> Unsupported {
        Unsupported(what.into())
    }

    /// A contradiction in the representation, which the frontend rules out.
    fn internal(what: &str) -> Unsupported {
        Unsupported(format!("{what} where none can be"))
    }
}

/// Words of a value at most. A reservation that does not fit the frame gives slot 0, and lowering goes on until the plan
/// is refused in the end: offsets up to this width stay within the frame until then.
const MAX_WIDTH: usize = 1024;

/// Compiles a specification.
///
/// # Errors
/// What cannot be compiled, and in which stream it is.
pub(crate) fn compile(spec: &Specification) -> Result<Plan, Unsupported> {
    let mir = spec.mir();
    let mut builder = PlanBuilder {
        mir,
        plan: Plan::default(),
        ops: Vec::new(),
        origins: Vec::new(),
        constants: HashMap::new(),
        grouped: HashMap::new(),
        windows: Vec::new(),
        known_instances: Vec::new(),
        stream: 0,
        site: ExprSite::Eval,
        lenient: false,
        last_target: 0,
        result_flag: None,
        is_full: false,
    };
    if mir.inputs.len() > 128 {
        return Err(Unsupported::construct("more than 128 inputs"));
    }
    for input in &mir.inputs {
        if width(&input.ty) > MAX_WIDTH {
            return Err(Unsupported::construct(format!(
                "`{}`: a tuple of more than 1,024 values",
                input.name
            )));
        }
        let cell = builder.reserve_cell(&input.ty, depth(input));
        builder.plan.inputs.push(cell);
    }
    builder.plan.input_dependents = vec![Vec::new(); mir.inputs.len()];
    builder.plan.input_windows = vec![Vec::new(); mir.inputs.len()];
    for output in &mir.outputs {
        if width(&output.ty) > MAX_WIDTH {
            return Err(Unsupported::construct(format!(
                "`{}`: a tuple of more than 1,024 values",
                output.name
            )));
        }
        let stream = builder.outline(output, spec);
        builder.plan.streams.push(stream);
    }
    builder.form_families();
    builder.plan_windows()?;
    let named = |stream: usize| {
        move |Unsupported(what): Unsupported| Unsupported(format!("`{}`: {what}", mir.outputs[stream].name))
    };
    for family in 0..builder.plan.families.len() {
        let first = builder.plan.families[family].members[0];
        builder.plan_family(family, first).map_err(named(first))?;
    }
    for index in 0..mir.outputs.len() {
        builder.plan_stream(index).map_err(named(index))?;
    }
    builder.schedule();
    for index in 0..mir.outputs.len() {
        builder.plan_incremental_evaluation(index);
    }
    for family in 0..builder.plan.families.len() {
        builder.plan_incremental_close(family);
    }
    for stream in &mut builder.plan.streams {
        stream.knows_its_spawn = builder.plan.families[stream.family].knows_its_spawn;
    }
    if builder.is_full {
        return Err(Unsupported::construct("expressions with more than 65,536 parts"));
    }
    Ok(builder.plan)
}

struct PlanBuilder<'a> {
    mir: &'a RtLolaMir,
    plan: Plan,
    /// The operations of the program that is being written.
    ops: Vec<Op>,
    /// The origins of the program that is being written.
    origins: Vec<(Label, String)>,
    /// The frame slot of each constant, by its words.
    constants: HashMap<Vec<u64>, FrameSlot>,
    /// For each aggregation over instances its grouped aggregate, and the index of its aggregate therein.
    grouped: HashMap<usize, (usize, usize)>,
    /// For each window of the specification, sliding ones first, the window of the plan that stores its values.
    windows: Vec<usize>,
    /// Instances that exist wherever the expression that is being compiled is reached: their family and parameters.
    known_instances: Vec<(usize, Vec<Expression>)>,
    /// The stream whose expressions are being compiled.
    stream: usize,
    site: ExprSite,
    /// Whether reads of absent values are compiled without the check that fails at run time.
    lenient: bool,
    /// The last operation that a jump leads to.
    last_target: usize,
    /// The word before the result of the program, which nothing else uses.
    result_flag: Option<FrameSlot>,
    /// Whether a reservation did not fit the frame.
    is_full: bool,
}

impl PlanBuilder<'_> {
    /// Reserves words of the frame; gives the first.
    fn reserve(&mut self, words: usize) -> FrameSlot {
        let at = self.plan.frame.len();
        match FrameSlot::try_from(at) {
            Ok(slot) if at + words <= FRAME_SIZE => {
                self.plan.frame.resize(at + words, 0);
                slot
            }
            // The plan is refused in the end, so no program that is written until then ever runs.
            _ => {
                self.is_full = true;
                0
            }
        }
    }

    /// The frame slot of a constant, interned.
    fn constant_words(&mut self, words: &[u64]) -> FrameSlot {
        if let Some(slot) = self.constants.get(words) {
            return *slot;
        }
        let slot = self.reserve(words.len());
        if !self.is_full {
            self.plan.frame[slot as usize..].copy_from_slice(words);
            self.plan.constants.extend((slot..).take(words.len()));
        }
        self.constants.insert(words.to_vec(), slot);
        slot
    }

    /// The number of a string constant.
    fn string_constant(&mut self, text: &str) -> u64 {
        let all = &mut self.plan.string_constants;
        let known = all.iter().position(|known| known == text);
        let number = known.unwrap_or_else(|| {
            all.push(text.to_owned());
            all.len() - 1
        });
        number as u64
    }

    /// The frame slot of a constant of one word, interned.
    fn constant_word(&mut self, word: u64) -> FrameSlot {
        self.constant_words(&[word])
    }

    /// Reserves the words of a cell: two flags and the value.
    fn reserve_cell(&mut self, ty: &Type, depth: usize) -> Cell {
        let width = width(ty);
        let base = self.reserve(2 + width);
        Cell { present: base, fresh: base + 1, value: base + 2, width, leaves: placed(ty), depth }
    }

    /// What is known of a stream before its expressions are compiled.
    fn outline(&mut self, output: &OutputStream, spec: &Specification) -> StreamPlan {
        let params: Vec<Type> = output.params.iter().map(|param| param.ty.clone()).collect();
        let param_leaves = placed(&Type::Tuple(params.clone()));
        let param_width = params.iter().map(width).sum();
        let cell = params.is_empty().then(|| self.reserve_cell(&output.ty, depth(output)));
        StreamPlan {
            name: output.name.clone(),
            is_trigger: is_trigger(output),
            condition: spec.conditions(output).unwrap_or_default(),
            ty: output.ty.clone(),
            own: self.reserve(param_width),
            param_names: output.params.iter().map(|param| param.name.clone()).collect(),
            params,
            param_leaves,
            value_leaves: placed(&output.ty),
            param_width,
            width: width(&output.ty),
            depth: if cell.is_some() { depth(output) } else { instance_depth(output) },
            cell,
            family: 0,
            member: Member::default(),
            eval: EvalPlan {
                pacing: Pacing::Event(crate::compiled::ir::op::Activation::Always),
                program: 0,
                result: 0,
                clauses: Vec::new(),
                incremental: false,
                reads_itself: false,
                guard: None,
                spawn_guard: None,
                counter: counter::counter(output),
                thresholds: Vec::new(),
                windows: Vec::new(),
            },
            eval_layer: output.eval_layer().inner(),
            dependents: Vec::new(),
            grouped: Vec::new(),
            windows: Vec::new(),
            stores_fresh: stores_fresh(output),
            lists_fresh: false,
            knows_its_spawn: false,
        }
    }

    /// Writes a program with `write`; gives its number. Programs may be nested: the one that is being written is set aside.
    fn write_program(
        &mut self,
        site: ExprSite,
        write: impl FnOnce(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<usize, Unsupported> {
        let before = std::mem::replace(&mut self.site, site);
        let ops = std::mem::take(&mut self.ops);
        let origins = std::mem::take(&mut self.origins);
        let (last_target, result_flag) = (std::mem::take(&mut self.last_target), self.result_flag.take());
        write(self)?;
        (self.last_target, self.result_flag) = (last_target, result_flag);
        let program = Program {
            ops: std::mem::replace(&mut self.ops, ops),
            origins: std::mem::replace(&mut self.origins, origins),
        };
        self.site = before;
        self.plan.programs.push(program);
        Ok(self.plan.programs.len() - 1)
    }

    /// The number of a stream's secondary index over some words of its parameters, which is added if there is none.
    fn add_index(&mut self, stream: usize, key_words: Vec<usize>) -> usize {
        let family = self.plan.streams[stream].family;
        let indexes = &mut self.plan.families[family].indexes;
        indexes.iter().position(|known| *known == key_words).unwrap_or_else(|| {
            indexes.push(key_words);
            indexes.len() - 1
        })
    }

    /// The words of some parameters of a stream within all of its parameters.
    fn param_words(&self, stream: usize, params: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let types = &self.plan.streams[stream].params;
        let words = |param: usize| {
            let from: usize = types[..param].iter().map(width).sum();
            from..from + width(&types[param])
        };
        params.into_iter().flat_map(words).collect()
    }
}

/// Every access to a stream, and whether it is by the stream itself during its evaluation, when its new value is not
/// stored yet.
fn accesses(output: &OutputStream) -> impl Iterator<Item = (StreamAccessKind, bool)> {
    output.accessed_by.iter().flat_map(|(reader, accesses)| {
        accesses.iter().map(|(origin, kind)| {
            let is_own = *reader == output.reference && matches!(origin, Origin::Eval(_) | Origin::Filter(_));
            (*kind, is_own)
        })
    })
}

/// Whether an access depends on whether the latest value of an instance is of this instant.
fn stores_fresh(output: &OutputStream) -> bool {
    accesses(output).any(|(kind, is_own)| match kind {
        StreamAccessKind::Get | StreamAccessKind::Fresh => true,
        StreamAccessKind::Offset(_) => !is_own,
        _ => false,
    })
}

/// How many values of an instance are stored: as many as the farthest access reads back, and the latest one if that
/// access comes after the new value is stored.
fn instance_depth(output: &OutputStream) -> usize {
    let depths = accesses(output).map(|(kind, is_own)| match kind {
        StreamAccessKind::Offset(Offset::Past(back)) => back as usize + usize::from(!is_own),
        _ => 1,
    });
    depths.max().unwrap_or(1).max(1)
}

/// How many values of an input, or of a stream without instances, are stored.
fn depth(stream: &impl Bounded) -> usize {
    match stream.bound() {
        MemorizationBound::Bounded(depth) => (depth as usize).max(1),
        MemorizationBound::Unbounded => 1,
    }
}

trait Bounded {
    fn bound(&self) -> MemorizationBound;
}

impl Bounded for InputStream {
    fn bound(&self) -> MemorizationBound {
        self.memory_bound
    }
}

impl Bounded for OutputStream {
    fn bound(&self) -> MemorizationBound {
        self.memory_bound
    }
}
