//! The structs of `include/fairstream_plugin.h`, which documents them.

use std::ffi::{c_char, c_void};
use std::ptr;

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;

/// The minor version of the header.
pub const MINOR: u32 = 0;

/// The name of the one exported function.
pub const ENTRY: &str = "fairstream_plugin_v1";

/// Return codes of functions.
#[allow(missing_docs, reason = "the header says what they mean")]
pub mod code {
    pub const OK: i32 = 0;
    pub const BAD_OPTION: i32 = 1;
    pub const BAD_DATA: i32 = 2;
    pub const IO: i32 = 3;
    pub const CANCELLED: i32 = 4;
    pub const UNSUPPORTED: i32 = 5;
    pub const INTERNAL: i32 = 6;
    pub const HUNG_UP: i32 = 7;
}

/// How a run ended.
#[allow(missing_docs, reason = "the header says what they mean")]
pub mod run_end {
    pub const COMPLETE: i32 = 0;
    pub const STOPPED: i32 = 1;
    pub const FAILED: i32 = 2;
}

/// Text or bytes that are borrowed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    /// May be null if there are no bytes.
    pub ptr: *const c_char,
    /// Number of bytes.
    pub len: usize,
}

impl Str {
    /// Borrows bytes. The receiver must not use the result after they are dropped.
    pub const fn of(bytes: &[u8]) -> Str {
        Str { ptr: bytes.as_ptr().cast(), len: bytes.len() }
    }

    /// Empty text.
    pub const EMPTY: Str = Str { ptr: ptr::null(), len: 0 };

    /// The bytes; `None` if pointer or length are invalid.
    ///
    /// # Safety
    /// There are `len` bytes at `ptr`, and they live for `'a`.
    pub unsafe fn bytes<'a>(self) -> Option<&'a [u8]> {
        match self.len {
            0 => Some(&[]),
            len if self.ptr.is_null() || isize::try_from(len).is_err() => None,
            // SAFETY: the caller guarantees that the bytes exist; the pointer is not null and the length fits.
            len => Some(unsafe { std::slice::from_raw_parts(self.ptr.cast(), len) }),
        }
    }

    /// The text; `None` if it is not UTF-8.
    ///
    /// # Safety
    /// As for [`bytes`](Str::bytes).
    pub unsafe fn text<'a>(self) -> Option<&'a str> {
        // SAFETY: guaranteed by the caller.
        std::str::from_utf8(unsafe { self.bytes() }?).ok()
    }
}

/// An error message.
#[repr(C)]
#[derive(Debug)]
pub struct Error {
    /// Ends with a zero.
    pub message: *mut c_char,
    /// Frees the message.
    pub release: Option<unsafe extern "C" fn(*mut Error)>,
}

impl Error {
    /// The value before a call.
    pub const NONE: Error = Error { message: ptr::null_mut(), release: None };
}

/// Progress of a source or a sink.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header says what they mean")]
pub struct Progress {
    pub rows: u64,
    pub dropped: u64,
    pub is_relative: u32,
    pub resume: Str,
}

impl Progress {
    /// No progress.
    pub const NONE: Progress = Progress { rows: 0, dropped: 0, is_relative: 0, resume: Str::EMPTY };
}

/// An open source.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header says what they mean")]
pub struct RawSource {
    pub size: usize,
    pub progress: Option<unsafe extern "C" fn(*mut RawSource, *mut Progress, *mut Error) -> i32>,
    pub acknowledge: Option<unsafe extern "C" fn(*mut RawSource, u64, Str, *mut Error) -> i32>,
    pub cancel: Option<unsafe extern "C" fn(*mut RawSource)>,
    pub release: Option<unsafe extern "C" fn(*mut RawSource)>,
    pub private_data: *mut c_void,
}

impl RawSource {
    /// The value before it is opened.
    pub const CLOSED: RawSource = RawSource {
        size: size_of::<RawSource>(),
        progress: None,
        acknowledge: None,
        cancel: None,
        release: None,
        private_data: ptr::null_mut(),
    };
}

/// An open sink.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the header says what they mean")]
pub struct RawSink {
    pub size: usize,
    pub write: Option<unsafe extern "C" fn(*mut RawSink, *mut FFI_ArrowArray, *mut Error) -> i32>,
    pub flush: Option<unsafe extern "C" fn(*mut RawSink, *mut Progress, *mut Error) -> i32>,
    pub finish: Option<unsafe extern "C" fn(*mut RawSink, i32, Str, *mut Error) -> i32>,
    pub release: Option<unsafe extern "C" fn(*mut RawSink)>,
    pub private_data: *mut c_void,
}

impl RawSink {
    /// The value before it is opened.
    pub const CLOSED: RawSink = RawSink {
        size: size_of::<RawSink>(),
        write: None,
        flush: None,
        finish: None,
        release: None,
        private_data: ptr::null_mut(),
    };
}

/// Opens a source.
pub type OpenSource = unsafe extern "C" fn(
    Str,
    *const FFI_ArrowSchema,
    u64,
    u64,
    Str,
    *mut FFI_ArrowArrayStream,
    *mut RawSource,
    *mut Error,
) -> i32;

/// Opens a sink.
pub type OpenSink = unsafe extern "C" fn(Str, *const FFI_ArrowSchema, Str, *mut RawSink, *mut Error) -> i32;

/// Description of a plugin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header says what they mean")]
pub struct Plugin {
    pub size: usize,
    pub minor: u32,
    pub name: Str,
    pub version: Str,
    pub about: Str,
    pub open_source: Option<OpenSource>,
    pub open_sink: Option<OpenSink>,
}

impl Plugin {
    /// The value before the plugin fills it.
    pub const EMPTY: Plugin = Plugin {
        size: size_of::<Plugin>(),
        minor: 0,
        name: Str::EMPTY,
        version: Str::EMPTY,
        about: Str::EMPTY,
        open_source: None,
        open_sink: None,
    };
}

/// The exported function.
pub type Entry = unsafe extern "C" fn(u32, *mut Plugin, *mut Error) -> i32;
