//! Folders of checkpoints. A checkpoint is a folder of its own with a number:
//!
//! ```text
//! DIR/lock                          held by the run that writes here
//! DIR/000017/manifest.json          positions of sources and outputs, counts
//!            SHA256SUMS             checksums of every file, as `sha256sum -c` reads them
//!            state/engine.json …    state of the engine: documents, and tables as Arrow IPC files
//! ```
//!
//! It is written beside, under a hidden name, synced, and renamed; so it is there completely or not at all. The one before is
//! kept until the next. Nothing that is read is believed: checksums are verified first, and the engine validates its state.
//!
//! This crate knows no engine, no source and no sink.

mod checksums;
mod failpoint;
mod file_identity;
mod folder;
mod manifest;
mod state;

pub use file_identity::{FileIdentity, OtherFile};
pub use folder::{CheckpointFolder, FolderError, FoundCheckpoint, NewCheckpoint};
pub use manifest::{
    KeptCounts, KeptOutput, KeptPosition, KeptSource, Manifest, RowTime, SourceRows, VERSION,
};
pub use state::KeptState;
