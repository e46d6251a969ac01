//! ARCHITECTURE.md must name every crate, and only existing paths.

use std::fs;

use anyhow::{Context, Result};
use regex::Regex;

use super::Finding;
use crate::workspace::Workspace;

const FILE: &str = "ARCHITECTURE.md";

pub(super) fn check(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(workspace.root.join(FILE)).context(FILE)?;
    let dirs: Vec<&str> = workspace.packages.iter().map(|package| package.dir.as_str()).collect();
    let finding = |(line, what)| Finding { path: FILE.into(), line, what };
    Ok(check_text(&text, &dirs, files)?.into_iter().map(finding).collect())
}

/// A crate is named by its folder or the last component of it. Text in backticks is a path if it contains a slash or
/// has a file extension; paths are relative to the root, or a file name alone.
fn check_text(text: &str, dirs: &[&str], files: &[String]) -> Result<Vec<(usize, String)>> {
    let quoted = Regex::new("`([^`]+)`")?;
    let path = Regex::new(r"^[\w-][\w.-]*(/[\w.-]+)+/?$|^[\w-]+\.(rs|md|toml|py|patch)$")?;
    let exists = |path: &str| {
        let path = path.trim_end_matches('/');
        files.iter().any(|file| match file.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => !path.contains('/') && file.ends_with(&format!("/{path}")),
        })
    };
    let mut found = Vec::new();
    let mut named = Vec::new();
    // Fenced blocks are not checked.
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || line.trim_start().starts_with("```") {
            continue;
        }
        for quote in quoted.captures_iter(line).filter_map(|captures| captures.get(1)) {
            let quote = quote.as_str();
            named.push(quote.trim_end_matches('/'));
            if path.is_match(quote) && !exists(quote) {
                found.push((
                    number,
                    format!("`{quote}` does not exist: write a path from the root, or no backticks"),
                ));
            }
        }
    }
    for dir in dirs {
        let name = dir.rsplit('/').next().unwrap_or(dir);
        if !named.iter().any(|quote| quote == dir || *quote == name) {
            found.push((1, format!("does not name `{dir}`: add a line with its purpose")));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<(usize, String)> {
        let files = ["crates/quant/src/q8.rs", "crates/gguf/src/lib.rs", "Cargo.toml"].map(str::to_owned);
        check_text(text, &["crates/quant", "crates/gguf"], &files).expect("good patterns")
    }

    #[test]
    fn every_crate_must_be_named() {
        assert_eq!(findings("`quant` and `crates/gguf/`"), []);
        let [(1, what)] = &findings("`quant` and gguf")[..] else { panic!("one finding") };
        assert!(what.contains("crates/gguf"), "{what}");
    }

    #[test]
    fn every_path_must_exist() {
        let rest = "`quant` `gguf`";
        for good in
            ["crates/quant/src", "crates/quant/src/q8.rs", "q8.rs", "Cargo.toml", "blk.0.attn_q.weight"]
        {
            assert_eq!(findings(&format!("`{good}` {rest}")), [], "{good}");
        }
        for good in ["~/.rustorch/models/", "x / y", "kernels/{scalar,avx2}", "../shared", "https://a.org/b"]
        {
            assert_eq!(findings(&format!("`{good}` {rest}")), [], "{good}");
        }
        for bad in ["crates/quant/src/q9.rs", "crates/quan", "q9.rs", "src/q8.rs", "crates/none/"] {
            assert_eq!(findings(&format!("{rest}\n`{bad}`")).len(), 1, "{bad}");
        }
    }
}
