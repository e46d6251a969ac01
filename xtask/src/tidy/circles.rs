//! Imports between the files of a crate must be acyclic, except between a module and its submodules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::wildcards::is_punct;
use crate::workspace::Workspace;

/// The path of a module in its crate; empty for the root.
type Module = Vec<String>;

pub(super) fn check(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let folder = format!("{}/src/", package.dir);
        let mut sources = BTreeMap::new();
        for path in files.iter().filter(|path| path.ends_with(".rs")) {
            if let Some(file) = path.strip_prefix(&folder) {
                sources.insert(module(file), (path.clone(), fs::read_to_string(workspace.root.join(path))?));
            }
        }
        let names: Vec<&str> = circles(&sources).iter().map(|&module| sources[module].0.as_str()).collect();
        if let Some(&first) = names.first() {
            let what = format!("import cycle: {}; move the shared items to another module", names.join(", "));
            findings.push(Finding { path: first.to_owned(), line: 1, what });
        }
    }
    Ok(findings)
}

/// The module of a file under `src`.
fn module(file: &str) -> Module {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

/// The modules on import cycles.
fn circles(sources: &BTreeMap<Module, (String, String)>) -> BTreeSet<&Module> {
    let named = |from: &Module| {
        let (mut found, source) = (BTreeSet::new(), sources.get(from).map(|(_, source)| source.parse()));
        paths(source.and_then(Result::ok).unwrap_or_default(), from, None, &mut found);
        found
    };
    // Names that the root re-exports.
    let root = named(&Module::new());
    let exported: BTreeMap<&String, Module> =
        root.iter().filter_map(|path| Some((path.last()?, defining_file(sources, path)?))).collect();
    let mut edges: BTreeSet<(&Module, &Module)> = BTreeSet::new();
    for from in sources.keys() {
        for path in named(from) {
            let direct = defining_file(sources, &path).filter(|module| !module.is_empty());
            let to = direct.or_else(|| exported.get(path.first()?).cloned());
            let Some((to, _)) = to.and_then(|to| sources.get_key_value(&to)) else { continue };
            let is_own = from.starts_with(to) || to.starts_with(from);
            if !is_own {
                edges.insert((from, to));
            }
        }
    }
    // Without the edges that begin or end a path, only cycles and paths between them remain.
    loop {
        let froms: BTreeSet<&Module> = edges.iter().map(|(from, _)| *from).collect();
        let tos: BTreeSet<&Module> = edges.iter().map(|(_, to)| *to).collect();
        let before = edges.len();
        edges.retain(|(from, to)| tos.contains(from) && froms.contains(to));
        if edges.len() == before {
            return froms;
        }
    }
}

/// The module whose file defines `path`.
fn defining_file(sources: &BTreeMap<Module, (String, String)>, path: &[String]) -> Option<Module> {
    (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|module| sources.contains_key(module))
}

/// Collects the crate paths named in a file of module `from`, without its inline modules. `base` is the path before a
/// group of imports.
fn paths(tokens: TokenStream, from: &[String], base: Option<&Module>, found: &mut BTreeSet<Module>) {
    // The path being read, and whether a name may follow.
    let (mut path, mut is_open) = (base.cloned(), true);
    let (mut tokens, mut last_colon) = (tokens.into_iter(), false);
    while let Some(token) = tokens.next() {
        let is_colon = is_punct(&token, ':');
        match (&token, &mut path) {
            (TokenTree::Ident(name), Some(path)) if is_open => {
                path.push(name.to_string());
                is_open = false;
            }
            (TokenTree::Punct(_), Some(_)) if is_colon => is_open = last_colon,
            (TokenTree::Group(group), Some(base)) if is_open && group.delimiter() == Delimiter::Brace => {
                paths(group.stream(), from, Some(base), found);
                path = None;
            }
            (token, _) => {
                found.extend(path.take());
                (path, is_open) = (base.cloned(), is_punct(token, ','));
                match token {
                    TokenTree::Ident(word) => {
                        let word = word.to_string();
                        path = match &*word {
                            "crate" => Some(Module::new()),
                            "super" => Some(from[..from.len().saturating_sub(1)].to_vec()),
                            // In the root, `self::module` and `use module::Name`.
                            "self" | "use" if from.is_empty() => Some(Module::new()),
                            _ => None,
                        };
                        is_open = word == "use";
                        if word == "mod" {
                            // `mod name { … }`, or `mod name;`
                            tokens.nth(1);
                        }
                    }
                    TokenTree::Group(group) => paths(group.stream(), from, None, found),
                    TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                }
            }
        }
        last_colon = is_colon;
    }
    found.extend(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources =
            files.iter().map(|(file, text)| (module(file), ((*file).to_owned(), (*text).to_owned())));
        circles(&sources.collect()).into_iter().map(|module| module.join("::")).collect()
    }

    #[test]
    fn cycles_through_imports_and_reexports_are_found() {
        let root = ("lib.rs", "mod a; mod b; pub use b::{self, Thing}; pub use a::Other;");
        assert_eq!(
            found(&[root, ("a.rs", "use crate::Thing;"), ("b.rs", "fn f() { crate::a::g() }")]),
            ["a", "b"]
        );
        assert_eq!(
            found(&[root, ("a.rs", "use crate::{x::Y, b::Z};"), ("b.rs", "use super::a::{g};")]),
            ["a", "b"]
        );
        let three = [("a.rs", "use crate::b;"), ("b.rs", "use crate::c::X;"), ("c.rs", "use crate::Other;")];
        assert_eq!(found(&[&[root], &three[..]].concat()), ["a", "b", "c"]);
    }

    #[test]
    fn acyclic_imports_and_submodules_are_accepted() {
        let none: [String; 0] = [];
        let root = ("lib.rs", "mod a; mod b; pub use a::X; use b::Y;");
        assert_eq!(found(&[root, ("a.rs", "use crate::b::Y;"), ("b.rs", "use crate::Z; struct Y;")]), none);
        let parts =
            [("a/mod.rs", "mod c; use c::f; use crate::b::Y;"), ("a/c.rs", "use super::g; use crate::a::h;")];
        assert_eq!(found(&[&[root, ("b.rs", "")], &parts[..]].concat()), none);
        let tests = [("a.rs", "use crate::b::Y;"), ("b.rs", "mod tests { use crate::a::X; }")];
        assert_eq!(found(&[&[root], &tests[..]].concat()), none);
    }
}
