//! The register file of programs.

use std::ops::{Deref, DerefMut};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

    /// Words beyond those in use are scratch: neither a clone nor a snapshot has them.
    #[test]
    fn clones_and_snapshots_have_the_words_in_use() {
        let mut frame = Frame::new(&[3, 0, 5]);
        (frame[1], frame[3]) = (4, 9);
        let bytes = postcard::to_stdvec(&frame).unwrap();
        let restored: Frame = postcard::from_bytes(&bytes).unwrap();
        for copy in [frame.clone(), restored] {
            assert_eq!((copy.used(), &copy[..4]), (3, &[3, 4, 5, 0][..]));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "130,000 words: too slow")]
    fn a_snapshot_with_more_words_than_a_frame_is_refused() {
        let fits = postcard::to_stdvec(&vec![1_u64; FRAME_SIZE]).unwrap();
        assert_eq!(postcard::from_bytes::<Frame>(&fits).unwrap().used(), FRAME_SIZE);
        let exceeds = postcard::to_stdvec(&vec![1_u64; FRAME_SIZE + 1]).unwrap();
        assert!(postcard::from_bytes::<Frame>(&exceeds).is_err());
    }
}
