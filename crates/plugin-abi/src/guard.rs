//! The boundary between the code of a plugin and its host: panics become errors, errors become C structs.

use std::ffi::CString;

use fairstream_core::{SinkError, SourceError, catch_panic};

use crate::abi::{Error, code};

/// Why a call failed.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        let code = match &error {
            SourceError::Option { .. } => code::BAD_OPTION,
            SourceError::BadRow { .. } => code::BAD_DATA,
            SourceError::Broken { .. } | SourceError::Panicked { .. } => code::INTERNAL,
            _ => code::IO,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<SinkError> for Failure {
    fn from(error: SinkError) -> Failure {
        let code = match &error {
            SinkError::Option { .. } => code::BAD_OPTION,
            SinkError::HungUp { .. } => code::HUNG_UP,
            SinkError::Panicked { .. } => code::INTERNAL,
            _ => code::IO,
        };
        Failure::new(code, error.to_string())
    }
}

/// Runs the code of a plugin for its host. Returns only the error code; the message is in `error`.
///
/// # Safety
/// `error` is null or points to an error to which no other reference exists.
pub(crate) unsafe fn guarded(error: *mut Error, work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let done = catch_panic(work)
        .unwrap_or_else(|panic| Err(Failure::new(code::INTERNAL, format!("it panicked: {panic}"))));
    let Err(Failure { code, message }) = done else { return code::OK };
    // A C string ends at its first zero.
    let message = CString::new(message.replace('\0', "␀")).unwrap_or_default();
    if !error.is_null() {
        // SAFETY: the caller guarantees that the error may be filled.
        unsafe { error.write(Error { message: message.into_raw(), release: Some(release) }) };
    }
    code
}

unsafe extern "C" fn release(error: *mut Error) {
    // SAFETY: the host passes what `guarded` filled, once.
    let error = unsafe { &mut *error };
    if !error.message.is_null() {
        // SAFETY: `guarded` made the message with `CString::into_raw`.
        drop(unsafe { CString::from_raw(error.message) });
    }
    *error = Error::NONE;
}
