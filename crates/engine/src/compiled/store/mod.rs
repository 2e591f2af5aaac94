//! Data structures over words. They know neither streams nor events; [`state`] puts them together.

pub(crate) mod aggregate;
pub(crate) mod deadline_queue;
pub(crate) mod dirty_set;
pub(crate) mod frame;
pub(crate) mod hash_index;
pub(crate) mod history;
pub(crate) mod holder_set;
pub(crate) mod huge_vec;
pub(crate) mod interner;
pub(crate) mod lookup_cache;
pub(crate) mod secondary_index;
pub(crate) mod slab;
pub(crate) mod state;
pub(crate) mod window;
pub(crate) mod words;
