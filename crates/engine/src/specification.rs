//! Parses and type-checks specifications, and outlines them.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use arrow::datatypes::{DataType, Field};
use codespan_reporting::diagnostic::Diagnostic;
use codespan_reporting::files::SimpleFile;
use codespan_reporting::term::{self, termcolor::Buffer};
use fairstream_core::{WantedColumn, catch_panic};
use rtlola_frontend::mir::{
    ActivationCondition, FloatTy, IntTy, OutputKind, OutputStream, PacingType, Type, UIntTy,
};
use rtlola_frontend::{ParserConfig, RawDiagnostic, RtLolaMir};

use crate::clock::{pacings, period};
use crate::limits::{self, Unfinished};

/// A specification that the RTLola frontend has accepted.
#[derive(Clone, Debug)]
pub struct Specification {
    mir: RtLolaMir,
    wanted: Vec<WantedColumn>,
}

impl Specification {
    /// Parses and type-checks RTLola text; errors refer to it by `name`.
    ///
    /// # Errors
    /// The text is not a specification, or reads a type that no source has.
    pub fn parse(name: &str, text: &str) -> Result<Specification, SpecError> {
        let refused = |diagnostics| SpecError { name: name.to_owned(), text: text.to_owned(), diagnostics };
        limits::check(text).map_err(|beyond| refused(vec![beyond]))?;
        let config = ParserConfig::for_named_spec(name.to_owned(), text.to_owned());
        let parsed = limits::within(limits::BUDGET, move || rtlola_frontend::parse(&config)).map_err(|reason| {
            refused(vec![match reason {
                Unfinished::Panicked(panic) => Diagnostic::error()
                    .with_message("the RTLola frontend cannot handle this specification")
                    .with_notes(vec![panic]),
                Unfinished::TooLong => Diagnostic::error()
                    .with_message(format!(
                        "the RTLola frontend takes more than {} s to check this specification",
                        limits::BUDGET.as_secs()
                    ))
                    .with_notes(vec![
                        "Help: a disjunction of many inputs, as in `@(a || b || c || …)`, and expressions of hundreds of terms take \
                         it long; divide them into several streams"
                            .to_owned(),
                    ]),
            }])
        })?;
        let mir = parsed.map_err(|errors| {
            refused(errors.iter().map(|error| RawDiagnostic::from(error.clone())).collect())
        })?;
        if let Some(wrong) = too_fast(&mir).or_else(|| empty_window(&mir)) {
            return Err(refused(vec![wrong]));
        }
        let wanted: Vec<Result<WantedColumn, RawDiagnostic<()>>> =
            mir.inputs.iter().map(|input| wanted(&input.name, &input.ty)).collect();
        if wanted.iter().any(Result::is_err) {
            return Err(refused(wanted.into_iter().filter_map(Result::err).collect()));
        }
        Ok(Specification { wanted: wanted.into_iter().flatten().collect(), mir })
    }

    /// The columns that it reads, in the order of its inputs.
    pub fn wanted(&self) -> &[WantedColumn] {
        &self.wanted
    }

    /// The typed intermediate representation.
    pub fn mir(&self) -> &RtLolaMir {
        &self.mir
    }

    /// A summary of every stream, inputs first.
    pub fn outline(&self) -> Vec<Outline> {
        let inputs = self.mir.inputs.iter().map(|input| Outline {
            role: Role::Input,
            name: input.name.clone(),
            data_type: input.ty.to_string(),
            pacing: String::new(),
            condition: None,
        });
        let outputs = self.mir.outputs.iter().map(|output| Outline {
            role: if is_trigger(output) { Role::Trigger } else { Role::Output },
            name: signature(output),
            data_type: output.ty.to_string(),
            pacing: self.pacing(&output.eval.eval_pacing),
            condition: self.conditions(output),
        });
        inputs.chain(outputs).collect()
    }

    /// The text of a pacing, such as `every 5m`.
    fn pacing(&self, pacing: &PacingType) -> String {
        let every = |duration: Duration| {
            const UNITS: [(&str, u128); 6] = [
                ("d", 86_400_000_000_000),
                ("h", 3_600_000_000_000),
                ("m", 60_000_000_000),
                ("s", 1_000_000_000),
                ("ms", 1_000_000),
                ("us", 1_000),
            ];
            let nanos = duration.as_nanos();
            let (unit, size) =
                UNITS.into_iter().find(|(_, size)| nanos.is_multiple_of(*size)).unwrap_or(("ns", 1));
            format!("every {}{unit}", nanos / size)
        };
        match (pacing, period(pacing)) {
            (PacingType::LocalPeriodic(_), Some(duration)) => {
                format!("{} from its spawn on", every(duration))
            }
            (_, Some(duration)) => every(duration),
            (PacingType::Event(condition), _) => format!("at {}", self.activation(condition)),
            _ => format!("at {}", self.mir.display(pacing)),
        }
    }

    /// The text of an activation condition without redundant alternatives: `a∨b`, not `a∨a∧b∨b`.
    fn activation(&self, condition: &ActivationCondition) -> String {
        let alternatives = match condition {
            ActivationCondition::Disjunction(alternatives) => alternatives.as_slice(),
            other => std::slice::from_ref(other),
        };
        let parts = |alternative: &ActivationCondition| -> BTreeSet<String> {
            let parts = match alternative {
                ActivationCondition::Conjunction(parts) => parts.as_slice(),
                other => std::slice::from_ref(other),
            };
            parts.iter().map(|part| self.mir.display(part).to_string()).collect()
        };
        let all: Vec<BTreeSet<String>> = alternatives.iter().map(parts).collect();
        let needed =
            all.iter().filter(|one| !all.iter().any(|other| other.is_subset(one) && other.len() < one.len()));
        let words: Vec<String> =
            needed.map(|parts| parts.iter().cloned().collect::<Vec<_>>().join("∧")).collect();
        words.join("∨")
    }

    /// The condition of a trigger, as text.
    pub(crate) fn conditions(&self, output: &OutputStream) -> Option<String> {
        let conditions = output.eval.clauses.iter().filter_map(|clause| clause.condition.as_ref());
        // The frontend's printer panics on percentiles.
        let text = |condition| {
            catch_panic(|| self.mir.display(condition).to_string())
                .unwrap_or_else(|_| "its condition".to_owned())
        };
        let texts: Vec<String> = conditions.map(text).collect();
        (is_trigger(output) && !texts.is_empty()).then(|| texts.join(" or "))
    }
}

/// Whether an output is a trigger.
pub(crate) fn is_trigger(output: &OutputStream) -> bool {
    matches!(output.kind, OutputKind::Trigger(_))
}

/// Runs `work` on a thread with a stack of 512 MiB, because the frontend recurses into nested expressions. Pages of the
/// stack that are never touched take no memory.
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    const STACK: usize = 512 << 20;
    let work = || catch_panic(work);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let joined = thread.map_err(|error| error.to_string())?.join();
        joined.unwrap_or_else(|_| Err("it panicked".to_owned()))
    })
}

/// An error for the first stream whose period is shorter than a nanosecond, the resolution of time.
fn too_fast(mir: &RtLolaMir) -> Option<RawDiagnostic<()>> {
    let is_too_fast = |pacing: &&PacingType| period(pacing).is_some_and(|period| period.is_zero());
    let index = pacings(mir).position(|pacings| pacings.iter().any(is_too_fast))?;
    let name = &mir.outputs[index].name;
    Some(Diagnostic::error().with_message(format!("the period of `{name}` is shorter than a nanosecond")))
}

/// An error for the first window over no values.
fn empty_window(mir: &RtLolaMir) -> Option<RawDiagnostic<()>> {
    mir.discrete_windows.iter().any(|window| window.duration == 0).then(|| {
        Diagnostic::error().with_message(
            "a window over the last 0 values has no values: `over_discrete` has to be 1 at least",
        )
    })
}

/// The name of a stream, with its parameters and their types.
fn signature(output: &OutputStream) -> String {
    if output.params.is_empty() {
        return output.name.clone();
    }
    let params: Vec<String> =
        output.params.iter().map(|param| format!("{}: {}", param.name, param.ty)).collect();
    format!("{}({})", output.name, params.join(", "))
}

/// The column that the engines read an input from.
fn wanted(name: &str, ty: &Type) -> Result<WantedColumn, RawDiagnostic<()>> {
    let unfit = |part: &Type| {
        let help = match part {
            Type::Option(_) => "Help: an input has no value at an instant anyway where there is none",
            _ => "Help: a tuple has one part at least",
        };
        Diagnostic::error()
            .with_message(format!("input `{name}` has the type {ty}, which no source can supply"))
            .with_notes(vec![help.to_owned()])
    };
    data_type(ty).map(|data_type| WantedColumn::new(name, data_type)).map_err(unfit)
}

/// The column type of an input type. All floats are read in double precision, and integers of more than 64 bits in 64
/// bits, as the interpreter computes them; a tuple is a struct whose fields are called `0`, `1` and so on.
///
/// # Errors
/// The type, or the part of it, that no column can have.
fn data_type(ty: &Type) -> Result<DataType, &Type> {
    Ok(match ty {
        Type::Bool => DataType::Boolean,
        Type::Int(IntTy::Int8) => DataType::Int8,
        Type::Int(IntTy::Int16) => DataType::Int16,
        Type::Int(IntTy::Int32) => DataType::Int32,
        Type::Int(IntTy::Int64 | IntTy::Int128 | IntTy::Int256) => DataType::Int64,
        Type::UInt(UIntTy::UInt8) => DataType::UInt8,
        Type::UInt(UIntTy::UInt16) => DataType::UInt16,
        Type::UInt(UIntTy::UInt32) => DataType::UInt32,
        Type::UInt(UIntTy::UInt64 | UIntTy::UInt128 | UIntTy::UInt256) => DataType::UInt64,
        Type::Float(FloatTy::Float32 | FloatTy::Float64) => DataType::Float64,
        // The interpreter's decimals hold 28 digits. With 18 fractional digits 10 are left, which cover 32 bits.
        Type::Fixed(_) | Type::UFixed(_) => DataType::Decimal128(28, 18),
        Type::String => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        // A component of a tuple cannot be null unless the whole tuple is, which Arrow checks.
        Type::Tuple(parts) if !parts.is_empty() => DataType::Struct(
            parts
                .iter()
                .enumerate()
                .map(|(index, part)| Ok(Field::new(index.to_string(), data_type(part)?, false)))
                .collect::<Result<_, _>>()?,
        ),
        Type::Tuple(_) | Type::Option(_) | Type::Function { .. } => return Err(ty),
    })
}

/// The role of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read from the sources.
    Input,
    /// Computed.
    Output,
    /// Computed; each value is a violation.
    Trigger,
}

/// A summary of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its role.
    pub role: Role,
    /// Its name, with parameters if it has them.
    pub name: String,
    /// The type of its values.
    pub data_type: String,
    /// When it is evaluated: `at` an activation condition, or `every` period. Empty for an input.
    pub pacing: String,
    /// A trigger's condition.
    pub condition: Option<String>,
}

/// A text that is not a specification.
#[derive(Clone, Debug)]
pub struct SpecError {
    name: String,
    text: String,
    diagnostics: Vec<RawDiagnostic<()>>,
}

impl SpecError {
    /// The messages of the errors, each with the bytes of the text that it refers to, where the frontend gives them.
    pub fn places(&self) -> Vec<(Range<usize>, String)> {
        let place = |diagnostic: &RawDiagnostic<()>| {
            let labels = diagnostic.labels.iter();
            labels
                .map(|label| {
                    let more =
                        if label.message.is_empty() { String::new() } else { format!(": {}", label.message) };
                    (label.range.clone(), format!("{}{more}", diagnostic.message))
                })
                .collect::<Vec<_>>()
        };
        self.diagnostics.iter().flat_map(place).collect()
    }

    /// Every error with file and line, and a caret under the text it refers to.
    pub fn render(&self, colour: bool) -> String {
        let mut out = if colour { Buffer::ansi() } else { Buffer::no_color() };
        let file = SimpleFile::new(&self.name, &self.text);
        for diagnostic in &self.diagnostics {
            // Writing to memory fails only if a label points outside the text.
            if term::emit(&mut out, &term::Config::default(), &file, diagnostic).is_err() {
                let _ = std::io::Write::write_all(&mut out, diagnostic.message.as_bytes());
            }
        }
        String::from_utf8_lossy(out.as_slice()).trim_end().to_owned()
    }
}

impl std::error::Error for SpecError {}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}
