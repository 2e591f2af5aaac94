//! The register file of programs.

use std::ops::{Deref, DerefMut};

use crate::compiled::ir::op::FRAME_SIZE;

/// A word for every [`FrameSlot`](crate::compiled::ir::op::FrameSlot) there can be, so that no access needs a bounds
/// check. Words that the plan does not use are never touched, and take no memory.
pub(crate) struct Frame {
    words: Box<[u64; FRAME_SIZE]>,
    /// How many words the plan uses.
    used: usize,
}

impl Frame {
    /// A frame that begins with these words; all others are 0.
    pub(crate) fn new(words: &[u64]) -> Frame {
        // A zeroed allocation of this size comes from the system as untouched pages.
        let all = vec![0; FRAME_SIZE].into_boxed_slice();
        let mut all: Box<[u64; FRAME_SIZE]> = all.try_into().unwrap_or_else(|_| Box::new([0; FRAME_SIZE]));
        let used = words.len().min(FRAME_SIZE);
        all[..used].copy_from_slice(&words[..used]);
        Frame { words: all, used }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_with_its_words_and_is_zero_elsewhere() {
        let mut frame = Frame::new(&[3, 0, 5]);
        assert_eq!(frame.used(), 3);
        assert_eq!(frame[..4], [3, 0, 5, 0]);
        assert!(frame[3..].iter().all(|word| *word == 0));
        frame[FRAME_SIZE - 1] = 7;
        assert_eq!(frame[FRAME_SIZE - 1], 7);
    }

    /// Words beyond those in use are scratch: a clone does not have them.
    #[test]
    fn clones_have_the_words_in_use() {
        let mut frame = Frame::new(&[3, 0, 5]);
        (frame[1], frame[3]) = (4, 9);
        let copy = frame.clone();
        assert_eq!((copy.used(), &copy[..4]), (3, &[3, 4, 5, 0][..]));
    }
}
