//! A macro that exports a source, a sink, or both as a plugin.

use fairstream_core::{Adapter, Options, SinkFactory, SourceFactory};
use serde_json::{Value, json};

use crate::abi::{Error, MINOR, OpenSink, OpenSource, Plugin, Str, code};
use crate::guard::{Failure, guarded};

/// Exports a plugin with a source, a sink, or both: anything that is a
/// [`SourceFactory`] or a [`SinkFactory`], as a constant.
///
/// A crate with `crate-type = ["cdylib"]` and the line
///
/// ```ignore
/// fairstream_plugin_abi::export_plugin!(source = CountSources, sink = TallySinks);
/// ```
///
/// builds a library that `fairstream run SPEC plugin:PATH` loads. Panics in it become errors.
#[macro_export]
macro_rules! export_plugin {
    (source = $source:expr, sink = $sink:expr $(,)?) => {
        $crate::export_plugin!(@source $source);
        $crate::export_plugin!(@sink $sink);
        $crate::export_plugin!(@entry Some(&$source), Some(&$sink), Some(open_source), Some(open_sink));
    };
    (source = $source:expr $(,)?) => {
        $crate::export_plugin!(@source $source);
        $crate::export_plugin!(@entry Some(&$source), None, Some(open_source), None);
    };
    (sink = $sink:expr $(,)?) => {
        $crate::export_plugin!(@sink $sink);
        $crate::export_plugin!(@entry None, Some(&$sink), None, Some(open_sink));
    };
    (@source $source:expr) => {
        unsafe extern "C" fn open_source(
            options: $crate::abi::Str,
            wanted: *const $crate::arrow::ffi::FFI_ArrowSchema,
            max_rows: u64,
            max_age_ms: u64,
            resume: $crate::abi::Str,
            stream: *mut $crate::arrow::ffi_stream::FFI_ArrowArrayStream,
            source: *mut $crate::abi::RawSource,
            error: *mut $crate::abi::Error,
        ) -> i32 {
            // SAFETY: the host fulfils the contract of the header.
            unsafe {
                $crate::open_source(
                    &$source, options, wanted, max_rows, max_age_ms, resume, stream, source, error,
                )
            }
        }
    };
    (@sink $sink:expr) => {
        unsafe extern "C" fn open_sink(
            options: $crate::abi::Str,
            verdicts: *const $crate::arrow::ffi::FFI_ArrowSchema,
            resume: $crate::abi::Str,
            sink: *mut $crate::abi::RawSink,
            error: *mut $crate::abi::Error,
        ) -> i32 {
            // SAFETY: the host fulfils the contract of the header.
            unsafe { $crate::open_sink(&$sink, options, verdicts, resume, sink, error) }
        }
    };
    (@entry $source:expr, $sink:expr, $open_source:expr, $open_sink:expr) => {
        /// The entry function, which the host calls.
        ///
        /// # Safety
        /// As documented in the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn fairstream_plugin_v1(
            _host_minor: u32,
            plugin: *mut $crate::abi::Plugin,
            error: *mut $crate::abi::Error,
        ) -> i32 {
            static ABOUT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
            let about = || $crate::describe($source, $sink);
            // SAFETY: the host fulfils the contract of the header, and the texts live as long as the library.
            unsafe {
                $crate::offer(
                    env!("CARGO_PKG_NAME"),
                    env!("CARGO_PKG_VERSION"),
                    || ABOUT.get_or_init(about),
                    ($open_source, $open_sink),
                    plugin,
                    error,
                )
            }
        }
    };
}

/// Fills the description for the host.
///
/// # Safety
/// The last two arguments are those of the entry function in the header.
pub unsafe fn offer(
    name: &'static str,
    version: &'static str,
    about: impl FnOnce() -> &'static String,
    (open_source, open_sink): (Option<OpenSource>, Option<OpenSink>),
    plugin: *mut Plugin,
    error: *mut Error,
) -> i32 {
    let fill = || {
        // SAFETY: the host has set it before the call.
        if unsafe { (*plugin).size } < size_of::<Plugin>() {
            return Err(Failure::new(code::UNSUPPORTED, "the host knows too little of plugins"));
        }
        let offered = Plugin {
            size: size_of::<Plugin>(),
            minor: MINOR,
            name: Str::of(name.as_bytes()),
            version: Str::of(version.as_bytes()),
            about: Str::of(about().as_bytes()),
            open_source,
            open_sink,
        };
        // SAFETY: the host provides it to be filled, and it is large enough.
        unsafe { plugin.write(offered) };
        Ok(())
    };
    // SAFETY: the host provides the error to be filled.
    unsafe { guarded(error, fill) }
}

/// Description of a plugin, in the format of the header.
pub fn describe(source: Option<&dyn SourceFactory>, sink: Option<&dyn SinkFactory>) -> String {
    let one = |adapter: Adapter| {
        let option = |doc: &fairstream_core::OptionDoc| json!({ "name": doc.name, "default": doc.default, "help": doc.help });
        json!({
            "about": adapter.about,
            "options": adapter.options.iter().map(option).collect::<Vec<Value>>(),
        })
    };
    let mut about = serde_json::Map::new();
    about.extend(source.map(|source| ("source".to_owned(), one(source.adapter()))));
    about.extend(sink.map(|sink| ("sink".to_owned(), one(sink.adapter()))));
    Value::Object(about).to_string()
}

/// The location, which is the name in messages, and the options.
///
/// # Safety
/// The host lends the text for the call.
pub(crate) unsafe fn options(text: Str) -> Result<(String, Options), Failure> {
    let bad = |reason: &str| Failure::new(code::BAD_OPTION, reason);
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text.text() }.ok_or_else(|| bad("the options are not text"))?;
    let text = if text.is_empty() { "{}" } else { text };
    let Ok(Value::Object(options)) = serde_json::from_str(text) else {
        return Err(bad("the options are not a JSON object"));
    };
    let text = |(key, value): (String, Value)| match value {
        Value::String(text) => (key, text),
        other => (key, other.to_string()),
    };
    Ok(("plugin".to_owned(), options.into_iter().map(text).collect()))
}

/// Serializes positions as bytes.
pub(crate) mod written {
    use fairstream_core::Position;

    use crate::abi::code;
    use crate::guard::Failure;

    pub(crate) fn of(position: &Position) -> Vec<u8> {
        [&position.rows.to_le_bytes(), &*position.resume].concat()
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Position>, Failure> {
        match bytes.split_first_chunk() {
            Some((rows, resume)) => {
                Ok(Some(Position { rows: u64::from_le_bytes(*rows), resume: resume.into() }))
            }
            None if bytes.is_empty() => Ok(None),
            None => Err(Failure::new(code::BAD_DATA, "the position is not one of this plugin")),
        }
    }
}
