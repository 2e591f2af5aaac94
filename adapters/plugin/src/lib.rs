//! Sources and sinks from shared libraries, behind the C ABI of `fairstream-plugin-abi`.
//!
//! Only libraries that the user names are loaded: into this process, which they can do anything to, or into one of their
//! own, whose end is an error. Their descriptions are checked before use, their batches are checked before they are read,
//! and no library is ever unloaded: code or data of it may still be in use.

mod check;
mod isolated;
mod library;
mod loaded;
mod rows;
pub mod sink;
pub mod source;

pub use check::import;
#[cfg(unix)]
#[doc(hidden)]
pub use isolated::read_answers;
#[cfg(unix)]
pub use isolated::{IsolatedSinks, IsolatedSources, WorkerFailure, end_workers, serve};
pub use isolated::{WORKER, WorkerCommand};
pub use library::{BadLibrary, Library, Offer, OfferedOption};
pub use sink::PluginSinks;
pub use source::PluginSources;
