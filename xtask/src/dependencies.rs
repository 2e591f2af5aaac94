//! Licences and advisories of dependencies: by `cargo deny`, or without it the licences alone.

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{cargo, root};

pub(crate) fn run() -> anyhow::Result<()> {
    let is_installed = Command::new("cargo").args(["deny", "--version"]).output();
    if !is_installed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: advisories, as cargo-deny is not installed (`cargo install cargo-deny --locked`)");
        return licences();
    }
    cargo(&["deny", "check", "licenses", "bans", "sources"], &[])?;
    // The database of advisories is fetched from the network, which may not be there.
    let fetched = Command::new("cargo").args(["deny", "fetch", "db"]).current_dir(root()?).output()?;
    if !fetched.status.success() {
        println!("SKIPPED: advisories, as their database cannot be fetched");
        return Ok(());
    }
    cargo(&["deny", "check", "advisories"], &[])
}

/// Checks that every dependency has a licence that `deny.toml` allows.
fn licences() -> anyhow::Result<()> {
    let deny = std::fs::read_to_string(root()?.join("deny.toml"))?;
    let (allowed, exceptions) = (texts(&deny, "allow = [")?, exceptions(&deny));
    let metadata = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root()?)
        .output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        let is_allowed = |one: &str| {
            allowed.iter().any(|allowed| allowed == one)
                || exceptions.iter().any(|(of, allowed)| of == name && allowed == one)
        };
        if !holds(licence, &is_allowed) {
            refused.push(format!("{name}: {licence:?}"));
        }
    }
    if !refused.is_empty() {
        bail!("licences that deny.toml does not allow:\n  {}", refused.join("\n  "));
    }
    println!("{} licences are those that deny.toml allows", packages.len());
    Ok(())
}

/// The texts of the list that follows `start`.
fn texts(toml: &str, start: &str) -> anyhow::Result<Vec<String>> {
    let (_, rest) = toml.split_once(&format!("\n{start}")).with_context(|| format!("no `{start}`"))?;
    let (list, _) = rest.split_once(']').context("a list does not end")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Crates, each with a licence that it alone may have.
fn exceptions(toml: &str) -> Vec<(String, String)> {
    let pieces = toml.split("{ crate = \"").skip(1);
    let pair = |piece: &str| {
        let mut texts = piece.split('"');
        Some((texts.next()?.to_owned(), texts.nth(1)?.to_owned()))
    };
    pieces.filter_map(pair).collect()
}

/// Whether a licence expression can be fulfilled. `/` is an old form of `OR`.
fn holds(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&tokens, &mut at, is_allowed) && at == tokens.len()
}

fn either(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = both(tokens, at, is_allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= both(tokens, at, is_allowed);
    }
    holds
}

fn both(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = one(tokens, at, is_allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(tokens, at, is_allowed);
    }
    holds
}

fn one(tokens: &[&str], at: &mut usize, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    match tokens.get(*at) {
        Some(&"(") => {
            *at += 1;
            let holds = either(tokens, at, is_allowed);
            *at += 1;
            holds
        }
        Some(name) => {
            *at += 1;
            if tokens.get(*at) == Some(&"WITH") {
                let exception = tokens.get(*at + 1).copied().unwrap_or_default();
                *at += 2;
                return is_allowed(&format!("{name} WITH {exception}"));
            }
            is_allowed(name)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_fulfilled_or_not() {
        let is_allowed = |name: &str| ["MIT", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for expression in [
            "MIT",
            "Apache-2.0/MIT",
            "GPL-3.0 OR MIT",
            "(GPL-3.0 OR MIT) AND MIT",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(holds(expression, &is_allowed), "{expression}");
        }
        for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "MIT GPL-3.0"] {
            assert!(!holds(expression, &is_allowed), "{expression}");
        }
    }
}
