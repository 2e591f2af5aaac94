//! Memory that can be run.

use std::io;

use memmap2::{Mmap, MmapMut};

use super::VmContext;

/// Whether a reaction failed; if so, the evaluator knows why.
pub(crate) type Entry = unsafe extern "sysv64" fn(*mut VmContext) -> u64;

pub(super) struct Code {
    memory: Mmap,
}

impl Code {
    /// # Errors
    /// The system allows no such memory.
    pub(super) fn new(bytes: &[u8]) -> io::Result<Code> {
        let mut memory = MmapMut::map_anon(bytes.len())?;
        memory.copy_from_slice(bytes);
        Ok(Code { memory: memory.make_exec()? })
    }

    /// The function that the bytes are.
    pub(super) fn entry(&self) -> Entry {
        // SAFETY: the bytes are one function of this type, from its first byte on, and do not depend on where they
        // are: `handler` makes no others. Whoever calls it sees to it that the code is still there.
        unsafe { std::mem::transmute::<*const u8, Entry>(self.memory.as_ptr()) }
    }
}
