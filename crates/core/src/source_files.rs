//! Sources that are made of several files.

use std::sync::Arc;

use crate::RejectedRow;

/// The files that a source is made of, so that a row can be named as the user would: by its file, and
/// its number there. The rows of the source are numbered through, file by file.
#[derive(Clone, Debug, Default)]
pub struct SourceFiles(Arc<[SourceFile]>);

#[derive(Debug)]
struct SourceFile {
    name: String,
    /// Rows in the files before.
    before: u64,
}

impl SourceFiles {
    /// Files with as many rows each, in the order in which their rows are numbered.
    ///
    /// ```
    /// use fairstream_core::SourceFiles;
    ///
    /// let files = SourceFiles::new([("a".to_owned(), 10), ("b".to_owned(), 5)]);
    /// assert_eq!(files.find(10), Some(("a", 10)));
    /// assert_eq!(files.find(11), Some(("b", 1)));
    /// ```
    pub fn new(files: impl IntoIterator<Item = (String, u64)>) -> SourceFiles {
        let mut rows = 0;
        let file = |(name, own)| {
            let before = rows;
            rows += own;
            SourceFile { name, before }
        };
        SourceFiles(files.into_iter().map(file).collect())
    }

    /// The name of the file that a row stands in, and its number there; `None` if it is in none.
    pub fn find(&self, row: u64) -> Option<(&str, u64)> {
        let index = self.0.partition_point(|file| file.before < row).checked_sub(1)?;
        let file = self.0.get(index)?;
        Some((&file.name, row - file.before))
    }

    /// The names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|file| file.name.as_str())
    }
}

/// What the user calls a source, and what it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) files: SourceFiles,
}

impl Origin {
    /// What the user calls the file that a row stands in, and the row as numbered there.
    pub(crate) fn place(&self, bad: RejectedRow) -> (String, RejectedRow) {
        match self.files.find(bad.row) {
            Some((name, row)) => (name.to_owned(), RejectedRow { row, ..bad }),
            None => (self.name.clone(), bad),
        }
    }
}
