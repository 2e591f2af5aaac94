//! Parquet and Arrow files: every fault is an error or a bad row.

use std::path::Path;

use arrow::datatypes::{DataType, Field};
use fairstream_core::{SourceFactory, WantedColumn};
use fairstream_parquet::{ArrowSources, ParquetSources};

use crate::reading::{Question, keep_fitting, offers, read};

/// A Parquet file.
pub(crate) fn parquet(bytes: &[u8]) {
    let _ = read(&ParquetSources, "x.parquet", bytes, |path| question(&ParquetSources, path, bytes));
}

/// An Arrow file or stream.
pub(crate) fn arrow(bytes: &[u8]) {
    let _ = read(&ArrowSources, "x.arrow", bytes, |path| question(&ArrowSources, path, bytes));
}

/// All columns of the file, with types that depend on its length.
fn question(factory: &dyn SourceFactory, path: &Path, bytes: &[u8]) -> Option<Question> {
    let pair = ["0", "1"].map(|name| Field::new(name, DataType::UInt8, false));
    let types = [
        DataType::Utf8,
        DataType::UInt8,
        DataType::Float64,
        DataType::Decimal128(28, 18),
        DataType::Boolean,
        DataType::Binary,
        DataType::Int64,
        DataType::Struct(pair.to_vec().into()),
    ];
    let mut question = Question::default();
    let names = offers(factory, path, &question)?;
    let wanted = names
        .iter()
        .enumerate()
        .map(|(index, name)| WantedColumn::new(name, types[(index + bytes.len()) % types.len()].clone()));
    question.wanted = wanted.collect();
    keep_fitting(factory, path, &mut question)?;
    Some(question)
}
