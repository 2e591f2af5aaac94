//! Resolves a location to files: a file, all below a folder, or all that match a pattern; and reads the partition
//! columns of their folders, as in `date=2026-01-01/region=eu/part-0.parquet`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::error::ArrowError;
use fairstream_core::{Cause, SourceRequest, WantedColumn};

use crate::Column;

/// A file with its partition columns.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// Its path.
    pub path: PathBuf,
    /// Columns whose value is the same in all of its rows; `None` is null.
    pub partitions: Vec<(String, Option<String>)>,
}

impl DataFile {
    fn new(path: PathBuf) -> DataFile {
        let folders = path.parent().into_iter().flat_map(Path::components);
        let partitions = folders.filter_map(partition).collect();
        DataFile { path, partitions }
    }

    /// Name of the file in messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The name of all files of a request in messages.
pub fn title_of(request: &SourceRequest) -> String {
    match request.others.len() {
        0 => request.location.clone(),
        more => format!("{} and {more} further files", request.location),
    }
}

/// The files of a folder or a pattern, or those of a request for several; `None` if the location is something else, or does
/// not exist.
///
/// # Errors
/// As [`data_files`].
pub fn several_files(request: &SourceRequest, endings: &[&str]) -> Result<Option<Vec<DataFile>>, Cause> {
    let location = request.location.as_str();
    if !request.others.is_empty() {
        // Each has been named by itself, so its folders mean nothing.
        let file = |path: &String| DataFile { path: path.into(), partitions: Vec::new() };
        return Ok(Some([location.to_owned()].iter().chain(&request.others).map(file).collect()));
    }
    files_below(location, endings)
}

/// The files of a folder or a pattern; `None` if the location is one file.
///
/// # Errors
/// As of [`data_files`].
pub fn files_below(location: &str, endings: &[&str]) -> Result<Option<Vec<DataFile>>, Cause> {
    let is_several = match Path::new(location).metadata() {
        Ok(meta) => meta.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound && is_pattern(location),
    };
    if is_several { data_files(location, endings).map(Some) } else { Ok(None) }
}

/// The files of a location, in order of their paths; in folders, those with one of these endings.
///
/// # Errors
/// There is none, or a folder cannot be read.
pub fn data_files(location: &str, endings: &[&str]) -> Result<Vec<DataFile>, Cause> {
    let path = Path::new(location);
    let mut paths = Vec::new();
    match path.metadata() {
        Ok(meta) if meta.is_dir() => walk(path, endings, 0, &mut paths)?,
        Ok(_) => paths.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_pattern(location) => {
            let matches = glob::glob(location).map_err(|error| format!("it is no pattern: {error}"))?;
            for path in matches {
                let path = path?;
                if path.is_dir() {
                    // Matches inside a matched folder are matches of `**` themselves.
                    if !location.contains("**") {
                        walk(&path, endings, 0, &mut paths)?;
                    }
                } else if !is_hidden(path.file_name()) {
                    paths.push(path);
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    if paths.is_empty() {
        return Err(if path.is_dir() {
            let endings: Vec<String> = endings.iter().map(|ending| format!(".{ending}")).collect();
            format!("there is no file below it whose name ends in {}", endings.join(", ")).into()
        } else {
            "no file matches the pattern".into()
        });
    }
    paths.sort();
    paths.dedup();
    Ok(paths.into_iter().map(DataFile::new).collect())
}

fn is_pattern(location: &str) -> bool {
    location.contains(['*', '?', '['])
}

/// Maximum depth of folders, which ends cycles of links.
const DEPTH: usize = 64;

fn walk(folder: &Path, endings: &[&str], depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), Cause> {
    if depth > DEPTH {
        return Err(format!("{} is more than {DEPTH} folders deep", folder.display()).into());
    }
    refuse_tables(folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_hidden(path.file_name()) {
            continue;
        }
        let meta = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
        if meta.is_dir() {
            walk(&path, endings, depth + 1, paths)?;
        } else if has_ending(&path, endings) {
            paths.push(path);
        }
    }
    Ok(())
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    endings.iter().any(|ending| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.')))
}

/// Names of files that are not data, by the convention of data lakes: `_SUCCESS`, `_temporary`, `.part-0.crc`.
fn is_hidden(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.to_string_lossy().starts_with(['_', '.']))
}

/// Refuses tables with a transaction log, of which some files may have been replaced or deleted.
fn refuse_tables(folder: &Path) -> Result<(), Cause> {
    let is_iceberg = || {
        let files = fs::read_dir(folder.join("metadata")).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().ends_with(".metadata.json"))
    };
    let kind = if folder.join("_delta_log").is_dir() {
        "a Delta table"
    } else if is_iceberg() {
        "an Iceberg table"
    } else {
        return Ok(());
    };
    let pattern = folder.join("**").join("*.parquet");
    Err(format!(
        "{} is {kind}: some of its files may have been replaced or deleted; export what is current, or name \
         the files, as in '{}', if all of them count",
        folder.display(),
        pattern.display()
    )
    .into())
}

fn partition(folder: Component<'_>) -> Option<(String, Option<String>)> {
    let (name, value) = folder.as_os_str().to_str()?.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let value = (value != "__HIVE_DEFAULT_PARTITION__").then(|| decoded(value));
    Some((decoded(name), value))
}

/// Decodes percent-encoding: `%3A` is a colon. Invalid codes are kept.
fn decoded(text: &str) -> String {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match after {
            [high, low, after @ ..] if *first == b'%' => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = after;
                    continue;
                }
                _ => bytes.push(*first),
            },
            _ => bytes.push(*first),
        }
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Value of a partition, read as text is: an array of one value.
///
/// # Errors
/// The text has no value of the type of the column.
pub fn partition_value(column: &WantedColumn, text: Option<&str>) -> Result<ArrayRef, Cause> {
    let mut values = Column::new(&column.data_type)
        .ok_or_else(|| format!("column `{}`: text has no {}", column.name, column.data_type))?;
    match text {
        None => values.append_null(),
        Some(text) => values
            .append(text)
            .map_err(|reason| format!("column `{}`, from the name of its folder: {reason}", column.name))?,
    }
    Ok(values.finish())
}

/// That value for each of `len` rows.
///
/// # Errors
/// The values exceed the capacity of a column.
pub fn repeated_value(value: &ArrayRef, len: usize) -> Result<ArrayRef, ArrowError> {
    if value.is_null(0) {
        return Ok(new_null_array(value.data_type(), len));
    }
    take(value, &UInt32Array::from(vec![0; len]), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_say_what_is_the_same_in_all_rows() {
        let file = DataFile::new(
            "lake/date=2026-01-01/at=10%3A30%zz/x=__HIVE_DEFAULT_PARTITION__/=/a=b.parquet".into(),
        );
        let expected = [("date", Some("2026-01-01")), ("at", Some("10:30%zz")), ("x", None)];
        let expected: Vec<_> =
            expected.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).into();
        assert_eq!(file.partitions, expected);
    }

    #[test]
    fn a_location_means_files_in_order_of_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for file in
            ["b/1.parquet", "a/2.PARQUET", "a/_SUCCESS", "a/.2.parquet.crc", "_temporary/3.parquet", "c.txt"]
        {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        let names = |location: &Path| -> Result<Vec<String>, String> {
            let files =
                data_files(location.to_str().unwrap(), &["parquet"]).map_err(|error| error.to_string())?;
            let short = |file: DataFile| file.path.strip_prefix(dir.path()).unwrap().display().to_string();
            Ok(files.into_iter().map(short).collect())
        };
        assert_eq!(names(dir.path()).unwrap(), ["a/2.PARQUET", "b/1.parquet"]);
        assert_eq!(names(&at("**/*.parquet")).unwrap(), ["_temporary/3.parquet", "b/1.parquet"]);
        assert_eq!(names(&at("[ab]")).unwrap(), ["a/2.PARQUET", "b/1.parquet"]);
        assert_eq!(names(&at("c.txt")).unwrap(), ["c.txt"]);
        assert_eq!(names(&at("*.pq")).unwrap_err(), "no file matches the pattern");
        assert!(names(&at("nowhere.parquet")).is_err());
        fs::create_dir(at("b/_delta_log")).unwrap();
        assert!(names(dir.path()).unwrap_err().contains("is a Delta table"));
        assert_eq!(names(&at("b/*.parquet")).unwrap(), ["b/1.parquet"]);
    }
}
