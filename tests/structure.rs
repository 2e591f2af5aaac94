//! The structure that ARCHITECTURE.md describes, read from the sources: which way imports go, that names are unique,
//! that the map is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::root;

/// The folders of the compiled engine, and what each may import of the others.
const LAYERS: [(&str, &[&str]); 5] = [
    ("ir", &[]),
    ("lower", &["ir"]),
    ("store", &["ir"]),
    ("exec", &["ir", "store"]),
    ("jit", &["ir", "store", "exec"]),
];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The text of a source file without comments and without its tests.
fn production_code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    code.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The sources of all packages that users get, but for their tests.
fn production_sources() -> Vec<PathBuf> {
    let packages = ["crates", "adapters"].map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let sources = packages.into_iter().flatten().map(|package| package.unwrap().path().join("src"));
    sources.filter(|source| source.is_dir()).flat_map(|source| rust_files(&source)).collect()
}

/// `crate::compiled::x` and `super::super::x` in a file of a layer, where `x` is another layer. A list in braces after
/// such a prefix is not read, so it is not allowed.
fn imported_layers(path: &Path, layer: &str) -> BTreeSet<String> {
    let code = production_code(path);
    let depth = path.strip_prefix(root().join("crates/engine/src/compiled").join(layer)).unwrap();
    // From a file of the layer, as many `super` as lead out of it.
    let out = "super::".repeat(depth.components().count() + usize::from(!depth.ends_with("mod.rs")));
    let mut layers = BTreeSet::new();
    for prefix in ["crate::compiled::", out.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let begins = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let rest = &code[at + prefix.len()..];
            assert!(!(begins && rest.starts_with('{')), "{}: `{prefix}{{…}}` is not read", path.display());
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if begins && LAYERS.iter().any(|(known, _)| *known == name) {
                layers.insert(name);
            }
        }
    }
    layers.remove(layer);
    layers
}

#[test]
fn imports_of_the_compiled_engine_go_one_way() {
    let folder = root().join("crates/engine/src/compiled");
    let mut seen = 0;
    for (layer, allowed) in LAYERS {
        for file in rust_files(&folder.join(layer)) {
            let imported = imported_layers(&file, layer);
            seen += imported.len();
            let forbidden: Vec<&String> =
                imported.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
            assert!(forbidden.is_empty(), "{}: imports {forbidden:?}", file.display());
        }
    }
    // If the search were blind, it would find nothing.
    assert!(seen > 50, "{seen} imports");
}

#[test]
fn only_the_jit_knows_cranelift() {
    let inside = root().join("crates/engine/src/compiled/jit");
    for file in production_sources() {
        let knows = production_code(&file).contains("cranelift");
        assert!(!knows || file.starts_with(&inside), "{} knows of machine code", file.display());
    }
    let knows = rust_files(&inside).iter().any(|file| production_code(file).contains("cranelift"));
    assert!(knows, "the search is blind");
}

/// Evidence is recomputed by a calculation of its own: it shares nothing with the one that raised the alarm.
#[test]
fn recomputing_shares_no_calculation() {
    for file in ["replay.rs", "recompute.rs"] {
        let code = production_code(&root().join("crates/fairness/src/evidence").join(file));
        assert!(!code.contains("fairstream_guarantee"), "{file} uses the calculation that it checks");
    }
}

/// Types that have one name because they are the same idea: the JIT and what stands in for it on other processors; the
/// rows of a file; a stream of an Arrow file and of a specification.
const SAME_IDEA: [&str; 3] = ["Jit", "Rows", "Stream"];

#[test]
fn no_two_types_have_one_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in production_sources() {
        for line in production_code(&file).lines() {
            // Types at the top of a module: associated types are indented.
            let declaration = line.strip_prefix("pub ").unwrap_or(line);
            let declaration = match declaration.strip_prefix("pub(") {
                Some(rest) => rest.split_once(") ").map_or(declaration, |(_, rest)| rest),
                None => declaration,
            };
            let declaration = declaration.strip_prefix("unsafe ").unwrap_or(declaration);
            let keywords = ["struct ", "enum ", "trait ", "type ", "union "];
            let Some(rest) = keywords.iter().find_map(|keyword| declaration.strip_prefix(keyword)) else {
                continue;
            };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let file = file.strip_prefix(root()).unwrap().display().to_string();
            places.entry(name).or_default().push(file);
        }
    }
    assert!(places.len() > 300, "{} types", places.len());
    let twice: Vec<_> = places
        .iter()
        .filter(|(name, files)| files.len() > 1 && !SAME_IDEA.contains(&name.as_str()))
        .collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

/// A name that asks must not change anything: `is_…` and `has_…` take no `&mut`. In the JIT they compute a value of the
/// program that is being emitted.
#[test]
fn predicates_change_nothing() {
    let jit = root().join("crates/engine/src/compiled/jit");
    let mut predicates = 0;
    for file in production_sources().into_iter().filter(|file| !file.starts_with(&jit)) {
        let code = production_code(&file);
        for (at, _) in code.match_indices("fn ") {
            let signature = code[at + 3..].split(['{', ';']).next().unwrap();
            let Some((name, arguments)) = signature.split_once('(') else { continue };
            let asks = name.starts_with("is_") || name.starts_with("has_");
            assert!(!(asks && arguments.contains("&mut ")), "{}: `{name}` changes something", file.display());
            predicates += usize::from(asks);
        }
    }
    assert!(predicates > 50, "{predicates} predicates");
}

/// Every file below the folders that ARCHITECTURE.md has a table for is in that table, and the table names no other.
#[test]
fn the_map_names_every_file() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut tables = 0;
    for section in map.split("\nInside `").skip(1) {
        let folder = root().join(section.split('`').next().unwrap());
        let table = section.split("\n\n").nth(1).unwrap();
        let first_columns = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let named: BTreeSet<String> = first_columns
            .flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned).collect::<Vec<_>>())
            .filter(|name| !name.is_empty() && !name.starts_with(','))
            .collect();
        let exists: BTreeSet<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir() || path.extension().is_some_and(|ending| ending == "rs"))
            .filter(|path| {
                !path.ends_with("mod.rs") && !path.ends_with("lib.rs") && !path.ends_with("main.rs")
            })
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() { name + "/" } else { name }
            })
            .collect();
        assert_eq!(named, exists, "{}", folder.display());
        tables += 1;
    }
    assert!(tables >= 10, "{tables} tables");
}
