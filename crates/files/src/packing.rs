//! Compression of outputs.

use std::io::{self, Write};

use flate2::write::GzEncoder;

/// Compresses text according to the extension of a name: `.gz`, `.zst`, or not at all.
pub(crate) enum Packing {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Packing {
    pub(crate) fn for_name(name: &str) -> io::Result<Packing> {
        let name = name.to_lowercase();
        Ok(if name.ends_with(".gz") {
            Packing::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::default()))
        } else if name.ends_with(".zst") {
            // The default level of the zstd command.
            Packing::Zstd(zstd::Encoder::new(Vec::new(), 3)?)
        } else {
            Packing::Plain
        })
    }

    /// Replaces `text` by the compressed bytes that are available now; the rest stays buffered.
    pub(crate) fn pack(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let packed = match self {
            Packing::Plain => return Ok(()),
            Packing::Gzip(encoder) => {
                encoder.write_all(text)?;
                encoder.get_mut()
            }
            Packing::Zstd(encoder) => {
                encoder.write_all(text)?;
                encoder.get_mut()
            }
        };
        text.clear();
        text.append(packed);
        Ok(())
    }

    /// Ends the stream, of which nothing stays buffered, and begins another: the bytes of the end.
    pub(crate) fn end_member(&mut self, name: &str) -> io::Result<Vec<u8>> {
        std::mem::replace(self, Packing::for_name(name)?).finish()
    }

    /// The buffered bytes and the end of the stream.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Packing::Plain => Ok(Vec::new()),
            Packing::Gzip(encoder) => encoder.finish(),
            Packing::Zstd(encoder) => encoder.finish(),
        }
    }
}
