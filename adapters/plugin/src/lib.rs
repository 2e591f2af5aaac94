//! Sources and sinks from shared libraries, behind the C ABI of `fairstream-plugin-abi`.
//!
//! Only libraries that the user names are loaded. What they offer is checked before it is used, what they
//! give is checked before it is read, and none is ever unloaded: something of it may still be in use.

mod check;
mod library;
pub mod sink;
pub mod source;

pub use check::import;
pub use library::{BadLibrary, Library, Offer, OfferedOption};
pub use sink::PluginSinks;
pub use source::PluginSources;
