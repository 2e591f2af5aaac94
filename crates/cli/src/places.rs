//! Which file a path leads to, so that nothing that is read is written to, and no file twice: compared by identity, so
//! that neither links nor other spellings of a path hide it.

use std::path::{Path, PathBuf};

use anyhow::bail;

/// A file that must stay as it is, and what it is: `an input`.
pub(crate) struct Kept {
    location: String,
    what: &'static str,
}

impl Kept {
    pub(crate) fn new(location: impl Into<String>, what: &'static str) -> Kept {
        Kept { location: location.into(), what }
    }

    fn path(&self) -> &Path {
        Path::new(if self.location == "-" { "/dev/stdin" } else { &self.location })
    }
}

/// Refuses outputs that are among the files to keep, and two outputs to one file.
pub(crate) fn refuse_to_destroy(kept: &[Kept], written: &[&str]) -> anyhow::Result<()> {
    let places: Vec<&Path> = written.iter().map(|location| place(location)).collect();
    for (index, (location, place)) in written.iter().zip(&places).enumerate() {
        if let Some(kept) = kept.iter().find(|kept| is_same(kept.path(), place)) {
            let Kept { location: other, what } = kept;
            let other = if other == location || other == "-" { String::new() } else { format!("{other}, ") };
            bail!("{location} is {other}{what}; writing there would destroy it");
        }
        let Some(other) = places[..index].iter().position(|other| other == place || is_same(other, place))
        else {
            continue;
        };
        let name = if is_standard_output(location) { "standard output" } else { location };
        let other = if is_standard_output(written[other]) { "standard output" } else { written[other] };
        let same = if other == name { String::new() } else { format!(", also as {other}") };
        bail!("{name} is written to twice{same}; give each sink a place of its own");
    }
    Ok(())
}

fn place(location: &str) -> &Path {
    Path::new(if is_standard_output(location) { "/dev/stdout" } else { location })
}

fn is_standard_output(location: &str) -> bool {
    location == "-" || location == "console"
}

/// Whether two paths lead to the same file, which need not exist.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

#[derive(PartialEq, Eq)]
enum Identity {
    /// Device and number of a file. Hard links have the same.
    #[cfg(unix)]
    Number(u64, u64),
    /// Where a file is, or would be.
    Path(PathBuf),
}

/// The identity of a file. `None` for terminals and pipes, which several sinks may write to.
fn identity(path: &Path) -> Option<Identity> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => None,
        #[cfg(unix)]
        Ok(meta) => {
            use std::os::unix::fs::MetadataExt;
            Some(Identity::Number(meta.dev(), meta.ino()))
        }
        _ => real_path(path).map(Identity::Path),
    }
}

/// Maximum number of links to a file that does not exist, which ends cycles.
const LINKS: usize = 40;

/// Where a path leads, links resolved. The file need not exist, but its folder has to.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Ok(real) = path.canonicalize() {
            return Some(real);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match path.read_link() {
            Ok(target) => path = folder.join(target),
            Err(_) => return Some(folder.canonicalize().ok()?.join(path.file_name()?)),
        }
    }
    None
}
