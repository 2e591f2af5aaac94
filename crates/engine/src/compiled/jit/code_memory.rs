//! Executable memory.

use std::io;

use memmap2::{Mmap, MmapMut};

use super::vm_context::VmContext;

/// A compiled handler. Not 0 if it failed.
pub(super) type HandlerFn = unsafe extern "sysv64" fn(*mut VmContext) -> u64;

/// The machine code of one function.
pub(super) struct CodeMemory {
    memory: Mmap,
}

impl CodeMemory {
    /// # Errors
    /// The system allows no executable memory.
    pub(super) fn new(code: &[u8]) -> io::Result<CodeMemory> {
        let mut memory = MmapMut::map_anon(code.len())?;
        memory.copy_from_slice(code);
        Ok(CodeMemory { memory: memory.make_exec()? })
    }

    /// The function, which may be called as long as this exists.
    #[inline(always)]
    pub(super) fn entry(&self) -> HandlerFn {
        // SAFETY: the memory holds one function with this signature, which begins at its first byte: `handler::compile`
        // declares no other, and refuses code with relocations, so the code does not depend on its address.
        unsafe { std::mem::transmute::<*const u8, HandlerFn>(self.memory.as_ptr()) }
    }
}
