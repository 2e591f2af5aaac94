//! Sources that consist of several files.

use std::sync::Arc;

use crate::RejectedRow;

/// The files that a source consists of. Rows are numbered consecutively, file by file, so that a row number leads back
/// to a file and a row in it.
#[derive(Clone, Debug, Default)]
pub struct SourceFiles(Arc<[SourceFile]>);

#[derive(Debug)]
struct SourceFile {
    name: String,
    /// Number of rows in the files before.
    before: u64,
}

impl SourceFiles {
    /// Files with their numbers of rows, in the order of numbering.
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

    /// The name of the file with a row, and the number of the row in it; `None` if there is none.
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

/// The name of a source, and its files.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) files: SourceFiles,
}

impl Origin {
    /// The name of the file with a row, and the row with its number in that file.
    pub(crate) fn place(&self, bad: RejectedRow) -> (String, RejectedRow) {
        match self.files.find(bad.row) {
            Some((name, row)) => (name.to_owned(), RejectedRow { row, ..bad }),
            None => (self.name.clone(), bad),
        }
    }
}
