//! The words that programs work on.

use std::ops::{Deref, DerefMut};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::compiled::ir::op::FRAME_SIZE;

/// A word for every [`Slot`] there can be, so that a slot is never out of bounds. Those that no program
/// uses are never touched, and take no memory.
pub(crate) struct Frame {
    words: Box<[u64; FRAME_SIZE]>,
    used: usize,
}

impl Frame {
    /// With these words at the beginning.
    pub(crate) fn new(words: &[u64]) -> Frame {
        // Asked for as zeros, it comes from the system without being written.
        let all = vec![0; FRAME_SIZE].into_boxed_slice();
        let mut all: Box<[u64; FRAME_SIZE]> = all.try_into().unwrap_or_else(|_| Box::new([0; FRAME_SIZE]));
        let used = words.len().min(FRAME_SIZE);
        all[..used].copy_from_slice(&words[..used]);
        Frame { words: all, used }
    }
}

impl Frame {
    /// How many words the plan uses.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

impl Deref for Frame {
    type Target = [u64; FRAME_SIZE];

    #[inline(always)]
    fn deref(&self) -> &[u64; FRAME_SIZE] {
        &self.words
    }
}

impl DerefMut for Frame {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64; FRAME_SIZE] {
        &mut self.words
    }
}

impl Clone for Frame {
    fn clone(&self) -> Frame {
        Frame::new(&self.words[..self.used])
    }
}

impl Serialize for Frame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.words[..self.used].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Frame, D::Error> {
        let words = Vec::deserialize(deserializer)?;
        if words.len() > FRAME_SIZE {
            return Err(D::Error::custom("more words than a frame has"));
        }
        Ok(Frame::new(&words))
    }
}
