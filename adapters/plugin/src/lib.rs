//! Sources and sinks from shared libraries, behind the C ABI of `fairstream-plugin-abi`.
//!
//! Only libraries that the user names are loaded. Their descriptions are checked before use, their batches are
//! checked before they are read, and no library is ever unloaded: code or data of it may still be in use.

mod check;
mod library;
pub mod sink;
pub mod source;

pub use check::import;
pub use library::{BadLibrary, Library, Offer, OfferedOption};
pub use sink::PluginSinks;
pub use source::PluginSources;
