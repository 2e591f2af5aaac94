//! What a fairness file may do by itself: read and write files in its own folder. Whatever else it asks for needs trust
//! in the file, as it may come from a stranger. What the user has typed needs none.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::bail;
use fairstream_fairness::{Endpoint, FairnessFile, Problem};
use fairstream_files::files_below;
use sha2::{Digest, Sha256};

use crate::places::{is_same, real_path};
use crate::registry::{self, Address};
use crate::report;

/// The kind whose location is a network interface.
const NETWORK: &str = "capture";

/// Whether a fairness file is trusted: it is among those that are named, or there is a file whose name is its SHA-256 in
/// the folder of trusted ones.
pub(crate) fn is_trusted(path: &Path, text: &str, named: &[PathBuf]) -> anyhow::Result<bool> {
    for trusted in named {
        if !trusted.exists() {
            bail!("`--trust {0}`: there is no file {0}", trusted.display());
        }
        if is_same(trusted, path) {
            return Ok(true);
        }
    }
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(trusted_folder().is_some_and(|folder| folder.join(digest).is_file()))
}

/// A relative path, which may lead into the folder of a stranger, counts as none.
fn trusted_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let configuration = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(configuration.join("fairstream/trusted"))
}

/// What the sources of a fairness file need trust for.
pub(crate) fn of_sources(file: &FairnessFile, path: &Path, addresses: &[Address]) -> Vec<Problem> {
    let endings = |address: &Address| match registry::source_for(address) {
        Ok(kind) => kind.adapter().extensions,
        Err(_) => &[],
    };
    let endpoints = file.sources().iter().zip(addresses);
    let demands = endpoints.filter_map(|(endpoint, address)| {
        let demand = demand(endpoint, address, path, "read", endings)?;
        Some(problem(endpoint, &demand, path, "name the input after the file yourself"))
    });
    demands.collect()
}

/// What the sinks of a fairness file need trust for.
pub(crate) fn of_sinks(file: &FairnessFile, path: &Path, addresses: &[Address]) -> Vec<Problem> {
    let endpoints = file.sinks().iter().zip(addresses);
    let demands = endpoints.filter_map(|(endpoint, address)| {
        let demand = demand(endpoint, address, path, "write", |_| &[]);
        let demand = demand.or_else(|| replaces(endpoint, address))?;
        Some(problem(endpoint, &demand, path, "name the output yourself, with `--to`"))
    });
    demands.collect()
}

fn problem(endpoint: &Endpoint, demand: &str, path: &Path, instead: &str) -> Problem {
    let problem = Problem::new(endpoint.at.clone(), format!("this file is not trusted, and would {demand}"));
    problem.help(format!("if you trust it: `--trust {}`; otherwise {instead}", path.display()))
}

/// What an endpoint would do outside of the folder of its file, if it would.
fn demand(
    endpoint: &Endpoint,
    address: &Address,
    path: &Path,
    verb: &str,
    endings: impl Fn(&Address) -> &'static [&'static str],
) -> Option<String> {
    let (kind, location) = (endpoint.kind.as_deref(), &endpoint.path);
    if registry::is_plugin(address) {
        return Some(format!("load `{location}`, a plugin: code that can do whatever you can"));
    }
    if kind == Some(NETWORK) {
        return Some(format!("read packets of the network interface `{location}`"));
    }
    if location == "-" || (location == "console" && matches!(kind, None | Some("console"))) {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = folder.canonicalize() else {
        return Some(format!("{verb} `{location}`"));
    };
    let outside = |place: &Path| !place.starts_with(&folder);
    let written = Path::new(location);
    let is_plain = written
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
    let place = Path::new(&address.location);
    let leads_to = match real_path(place) {
        // A pattern or a folder that does not exist: nothing outside is looked at.
        None if !is_plain => return Some(format!("{verb} `{location}`, which is outside of its folder")),
        None => None,
        Some(real) if outside(&real) => Some(real),
        Some(_) => None,
    };
    let leads_to = leads_to.or_else(|| {
        // Links in a folder lead out of it as well.
        let files = files_below(&address.location, endings(address)).ok()??;
        files.iter().filter_map(|file| real_path(&file.path)).find(|real| outside(real))
    })?;
    let how = if is_plain { format!(", a link to {}", leads_to.display()) } else { String::new() };
    Some(format!("{verb} `{location}`{how}, which is outside of its folder"))
}

/// What a sink would do to a file that exists, if it would.
fn replaces(endpoint: &Endpoint, address: &Address) -> Option<String> {
    let meta = Path::new(&address.location).metadata().ok().filter(|meta| meta.is_file())?;
    let is_report = registry::is_one_of(address, &report::NAMES);
    let change = match address.options.text("mode") {
        Some("append") => "continue",
        Some("replace") => "overwrite",
        _ if is_report => "overwrite",
        _ => return None,
    };
    (meta.len() > 0).then(|| format!("{change} `{}`, which exists", endpoint.path))
}
