//! Loads and checks the shared library of a plugin. It is never unloaded.

use std::ffi::CStr;
use std::path::Path;

use fairstream_core::{ANY_OPTION, BadOption, OptionDoc, Options, nearest};
use fairstream_plugin_abi::abi::{self, Entry, Error, MINOR, OpenSink, OpenSource, Plugin, Str};
use serde::Deserialize;

use crate::isolated::is_limit;

/// Placeholder for the options of plugins, which are unknown before one is loaded.
pub(crate) const WHATEVER_IT_TAKES: OptionDoc = OptionDoc {
    name: ANY_OPTION,
    default: "",
    help: "`fairstream adapters --plugin PATH` shows what it takes",
};

/// A plugin with its description.
#[derive(Clone, Debug)]
pub struct Library {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    pub(crate) open_source: Option<OpenSource>,
    pub(crate) open_sink: Option<OpenSink>,
    /// Its source, if it has one.
    pub source: Option<Offer>,
    /// Its sink, if it has one.
    pub sink: Option<Offer>,
}

/// Description of a source or a sink.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Offer {
    /// One line of description.
    #[serde(default)]
    pub about: String,
    /// `None` if the plugin does not declare its options.
    pub options: Option<Vec<OfferedOption>>,
}

/// An option of a plugin.
#[derive(Clone, Debug, Deserialize)]
pub struct OfferedOption {
    /// The key.
    pub name: String,
    /// Default value.
    #[serde(default)]
    pub default: String,
    /// Description of the option.
    #[serde(default)]
    pub help: String,
}

#[derive(Default, Deserialize)]
struct About {
    source: Option<Offer>,
    sink: Option<Offer>,
}

/// Why a library is not a plugin that can be used.
#[derive(Debug, thiserror::Error)]
pub enum BadLibrary {
    /// The system cannot load it.
    #[error("{0}")]
    Load(#[from] libloading::Error),
    /// It is a library, but not a plugin.
    #[error("it is not a plugin: it has no function `{}`", abi::ENTRY)]
    NoPlugin,
    /// The entry function returned an error.
    #[error("it does not start: {0}")]
    Refused(String),
    /// It violates the contract.
    #[error("it is broken: {0}")]
    Broken(String),
}

impl Library {
    /// Loads a plugin. This runs code of the library, as loading any library does.
    ///
    /// # Errors
    /// It is no library, no plugin, or a plugin of another version.
    pub fn load(path: &Path) -> Result<Library, BadLibrary> {
        // The system would search a name without a folder in its library paths.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // SAFETY: the user has named this library in order to run its code.
        let library = unsafe { libloading::Library::new(&path) }?;
        // SAFETY: a library that exports this name declares that it has the type of the entry function.
        let entry = unsafe { library.get::<Entry>(abi::ENTRY.as_bytes()) };
        let entry = *entry.map_err(|_| BadLibrary::NoPlugin)?;
        // Its functions and texts may be used until the process ends.
        std::mem::forget(library);
        Library::of(entry)
    }

    /// The plugin of an entry function.
    ///
    /// # Errors
    /// As for [`load`](Library::load).
    pub fn of(entry: Entry) -> Result<Library, BadLibrary> {
        let (mut plugin, mut error) = (Plugin::EMPTY, Error::NONE);
        // SAFETY: both structs are ours, have the declared size, and outlive the call.
        let code = unsafe { entry(MINOR, &raw mut plugin, &raw mut error) };
        if code != abi::code::OK {
            return Err(BadLibrary::Refused(message(&mut error, code)));
        }
        let broken = |what: &str| BadLibrary::Broken(what.to_owned());
        if plugin.size < size_of::<Plugin>() || plugin.size > MUCH {
            let size = plugin.size;
            let expected = size_of::<Plugin>();
            return Err(BadLibrary::Broken(format!(
                "its FairstreamPlugin has {size} bytes, and {expected} are needed; build it with the header of this version"
            )));
        }
        let text = |text: Str, what: &str| {
            // SAFETY: the contract guarantees that these live as long as the library; their length is bounded.
            let text = if text.len > MUCH { None } else { unsafe { text.text() } };
            text.map(str::to_owned).ok_or_else(|| broken(&format!("its {what} is not text")))
        };
        let about = text(plugin.about, "description")?;
        let about: About = match about.as_str() {
            "" => About::default(),
            about => serde_json::from_str(about)
                .map_err(|error| broken(&format!("its description is not as the header says: {error}")))?,
        };
        if plugin.open_source.is_none() && plugin.open_sink.is_none() {
            return Err(broken("it has neither a source nor a sink"));
        }
        Ok(Library {
            name: text(plugin.name, "name")?,
            version: text(plugin.version, "version")?,
            source: plugin.open_source.map(|_| about.source.unwrap_or_default()),
            sink: plugin.open_sink.map(|_| about.sink.unwrap_or_default()),
            open_source: plugin.open_source,
            open_sink: plugin.open_sink,
        })
    }
}

/// Maximum size of a text or struct of a plugin.
const MUCH: usize = 1 << 20;

impl Offer {
    /// Refuses undeclared options, if the plugin declares its options.
    ///
    /// # Errors
    /// The first undeclared option.
    pub(crate) fn check(&self, options: &Options, also: &[&str]) -> Result<(), BadOption> {
        let Some(known) = &self.options else { return Ok(()) };
        let names = || known.iter().map(|option| option.name.as_str()).chain(also.iter().copied());
        let unknown = options.iter().map(|(key, _)| key).find(|key| !names().any(|name| name == *key));
        unknown.map_or(Ok(()), |key| {
            let hint = match nearest(key, names()) {
                _ if is_limit(key) => "it is for plugins with `isolate=true`".to_owned(),
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it takes none".to_owned(),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            Err(BadOption::Key { key: key.to_owned(), hint })
        })
    }
}

/// The options as JSON, as they are passed to a plugin.
pub(crate) fn json(options: &Options) -> String {
    let object: serde_json::Map<String, serde_json::Value> =
        options.iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    serde_json::Value::Object(object).to_string()
}

/// Returns the message of an error, and releases it.
pub(crate) fn message(error: &mut Error, code: i32) -> String {
    let message = if error.message.is_null() {
        format!("it gives no reason (code {code})")
    } else {
        // SAFETY: the contract guarantees that the message ends with a zero, and lives until `release`.
        unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned()
    };
    if let Some(release) = error.release {
        // SAFETY: called once, after the message has been read.
        unsafe { release(&raw mut *error) };
    }
    *error = Error::NONE;
    message
}
