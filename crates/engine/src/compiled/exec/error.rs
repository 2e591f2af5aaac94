//! Errors of an evaluation, with the place they come from.

use crate::compiled::ir::fault::Fault;

/// An evaluation of a stream failed.
#[derive(Clone, Debug)]
pub(crate) struct EvalError {
    pub(crate) stream: usize,
    pub(crate) location: Location,
    pub(crate) fault: Fault,
}

/// Where an evaluation failed.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// At an operation of a program.
    Op { program: usize, at: usize },
    /// In a window that cannot take a value.
    Window(usize),
    /// In what follows from a value.
    Outside,
    /// In a runtime call that panicked, with its message.
    Panic(String),
}

/// A program failed at one of its operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramError {
    pub(crate) program: usize,
    pub(crate) at: usize,
    pub(crate) fault: Fault,
}

impl EvalError {
    #[cold]
    pub(crate) fn in_program(stream: usize, error: ProgramError) -> Box<EvalError> {
        let ProgramError { program, at, fault } = error;
        Box::new(EvalError { stream, location: Location::Op { program, at }, fault })
    }

    #[cold]
    pub(crate) fn in_window(reader: usize, window: usize, fault: Fault) -> Box<EvalError> {
        Box::new(EvalError { stream: reader, location: Location::Window(window), fault })
    }

    #[cold]
    pub(crate) fn outside(stream: usize, fault: Fault) -> Box<EvalError> {
        Box::new(EvalError { stream, location: Location::Outside, fault })
    }

    #[cold]
    pub(crate) fn panicked(message: String) -> Box<EvalError> {
        Box::new(EvalError { stream: usize::MAX, location: Location::Panic(message), fault: Fault::Internal })
    }
}
