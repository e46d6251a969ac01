//! Imports between the files of a crate must be acyclic, except between a module and its submodules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use crate::workspace::Workspace;

/// The path of a module in its crate; empty for the root.
type Module = Vec<String>;

/// Finds import cycles between files.
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
        findings.extend(circles(&sources).into_iter().map(|circle| {
            let names: Vec<&str> = circle.iter().map(|&module| sources[module].0.as_str()).collect();
            let what = format!("import cycle: {}; move the shared items to another module", names.join(", "));
            Finding { path: names[0].to_owned(), line: 1, what }
        }));
    }
    Ok(findings)
}

/// The module of a file under `src`.
fn module(file: &str) -> Module {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

/// Sets of modules that are reachable from each other.
fn circles(sources: &BTreeMap<Module, (String, String)>) -> Vec<BTreeSet<&Module>> {
    let parsed = |source: &str| source.parse::<TokenStream>().unwrap_or_default();
    // Names that the root re-exports.
    let root = sources.get(&Vec::new()).map(|(_, source)| paths(parsed(source), &[])).unwrap_or_default();
    let handed_on: BTreeMap<&String, Module> =
        root.iter().filter_map(|path| Some((path.last()?, file_of(sources, path)?))).collect();
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (from, (_, source)) in sources {
        for path in paths(parsed(source), from) {
            let direct = file_of(sources, &path).filter(|module| !module.is_empty());
            let to = direct.or_else(|| handed_on.get(path.first()?).cloned());
            let Some((to, _)) = to.and_then(|to| sources.get_key_value(&to)) else { continue };
            let is_own = from.starts_with(to) || to.starts_with(from);
            if !is_own {
                edges.entry(from).or_default().insert(to);
            }
        }
    }
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        sources.keys().map(|module| (module, reach(&edges, module))).collect();
    let mut found: Vec<BTreeSet<&Module>> = Vec::new();
    for (&module, seen) in reached.iter().filter(|(module, seen)| seen.contains(*module)) {
        if !found.iter().any(|circle| circle.contains(module)) {
            found.push(seen.iter().copied().filter(|other| reached[other].contains(module)).collect());
        }
    }
    found
}

/// Modules reachable from `start`.
fn reach<'a>(edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>, start: &'a Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(next) = todo.pop() {
        todo.extend(edges.get(next).into_iter().flatten().copied().filter(|&to| seen.insert(to)));
    }
    seen
}

/// The module whose file defines `path`.
fn file_of(sources: &BTreeMap<Module, (String, String)>, path: &[String]) -> Option<Module> {
    (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|module| sources.contains_key(module))
}

/// The crate paths named in a file of module `from`, without its inline modules.
fn paths(tokens: TokenStream, from: &[String]) -> Vec<Module> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" => {
                // `mod name { … }`, or `mod name;`
                at += 3;
            }
            TokenTree::Ident(word) if word == "crate" => at = path(&tokens, at + 1, Vec::new(), &mut found),
            TokenTree::Ident(word) if word == "self" && from.is_empty() => {
                at = path(&tokens, at + 1, Vec::new(), &mut found);
            }
            TokenTree::Ident(word) if word == "super" => {
                let mut base = from.to_vec();
                base.pop();
                at = path(&tokens, at + 1, base, &mut found);
            }
            // In the root, `use module::Name`.
            TokenTree::Ident(word) if word == "use" && from.is_empty() => {
                at = tree(&tokens, at + 1, Vec::new(), &mut found);
            }
            TokenTree::Group(group) => {
                found.extend(paths(group.stream(), from));
                at += 1;
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
        }
    }
    found
}

/// Parses the path after `base` at `at`: `::name::name`, or `::{…}`.
fn path(tokens: &[TokenTree], at: usize, base: Module, found: &mut Vec<Module>) -> usize {
    if is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1)) {
        return tree(tokens, at + 2, base, found);
    }
    at
}

/// Parses a name and its continuation, or several in braces.
fn tree(tokens: &[TokenTree], at: usize, mut base: Module, found: &mut Vec<Module>) -> usize {
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => {
            base.push(name.to_string());
            let end = path(tokens, at + 1, base.clone(), found);
            if end == at + 1 {
                found.push(base);
            }
            end
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
            for item in inner.split(is_comma) {
                tree(item, 0, base.clone(), found);
            }
            at + 1
        }
        _ => {
            found.push(base);
            at + 1
        }
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources =
            files.iter().map(|(file, text)| (module(file), ((*file).to_owned(), (*text).to_owned())));
        let sources = sources.collect();
        let names = |circle: BTreeSet<&Module>| circle.iter().map(|module| module.join("::")).collect();
        circles(&sources).into_iter().map(names).collect()
    }

    #[test]
    fn cycles_through_imports_and_reexports_are_found() {
        let root = ("lib.rs", "mod a; mod b; pub use b::{self, Thing}; pub use a::Other;");
        assert_eq!(
            found(&[root, ("a.rs", "use crate::Thing;"), ("b.rs", "fn f() { crate::a::g() }")]),
            [["a", "b"]]
        );
        assert_eq!(
            found(&[root, ("a.rs", "use crate::{x::Y, b::Z};"), ("b.rs", "use super::a::{g};")]),
            [["a", "b"]]
        );
        let three = [("a.rs", "use crate::b;"), ("b.rs", "use crate::c::X;"), ("c.rs", "use crate::Other;")];
        assert_eq!(found(&[&[root], &three[..]].concat()), [["a", "b", "c"]]);
    }

    #[test]
    fn acyclic_imports_and_submodules_are_accepted() {
        let none: [Vec<String>; 0] = [];
        let root = ("lib.rs", "mod a; mod b; pub use a::X; use b::Y;");
        assert_eq!(found(&[root, ("a.rs", "use crate::b::Y;"), ("b.rs", "use crate::Z; struct Y;")]), none);
        let parts =
            [("a/mod.rs", "mod c; use c::f; use crate::b::Y;"), ("a/c.rs", "use super::g; use crate::a::h;")];
        assert_eq!(found(&[&[root, ("b.rs", "")], &parts[..]].concat()), none);
        let tests = [("a.rs", "use crate::b::Y;"), ("b.rs", "mod tests { use crate::a::X; }")];
        assert_eq!(found(&[&[root], &tests[..]].concat()), none);
    }
}
