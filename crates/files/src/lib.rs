//! What all adapters that read or write text have in common: files, standard streams and named pipes, compressed
//! or not; texts as typed columns; rows gathered into batches. Does not know any format.

mod column;
mod encoding;
mod events;
mod file_merge;
mod file_set;
mod files_position;
mod folder;
mod follow;
mod input;
mod join;
mod journal;
mod merge;
mod output;
mod packing;
mod rows;
mod sort;
mod spill;
mod time_column;
mod tuple;
mod verdicts;

pub use column::{Column, shortened, type_name};
pub use encoding::{ENCODING, ENCODING_HINT, Encoding};
pub use events::{FormatEvent, TextEvents};
pub use file_merge::{FileMerge, MergedFiles, NextRows};
pub use file_set::{
    DataFile, data_files, files_below, partition_value, repeated_value, several_files, title_of,
};
pub use files_position::{FilesPosition, Fingerprint};
pub use folder::Folder;
pub use input::{FOLLOW, Filled, Input, JOURNAL};
pub use join::{JOIN, JoinCounts, JoinKey, JoinTable, Joined};
pub use merge::{Chunk, Gathering, Heads, Segment};
pub use output::{Output, check_replaceable, create_private_folder, replace, sync_folder, sync_folder_of};
pub use rows::{MAX_LINE, NextRow, Place, RowSource, Rows, Skipping};
pub use sort::{SORT, Sorted};
pub use time_column::{FirstTime, no_time_column};
pub use verdicts::{Format, TextSink};
