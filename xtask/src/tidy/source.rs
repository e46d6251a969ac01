//! Checks of Rust files by token, so that words in comments and strings do not count.

use std::fs;
use std::str::FromStr;

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};

use super::{Finding, wildcards};
use crate::workspace::Workspace;

/// Maximum length of a file in lines.
const MAX_LINES: usize = 600;

/// Files that may use `unsafe`: kernels, thread pool, file mappings, guard pages of tests, GPU shader compilation,
/// the CUDA driver, and driver queries beyond wgpu.
const UNSAFE: [&str; 7] = [
    "crates/backend-cpu/src/lanes/",
    "crates/backend-cpu/src/pool.rs",
    "crates/backend-cpu/src/tests/guard.rs",
    "crates/backend-cuda/src/driver/",
    "crates/backend-wgpu/src/device.rs",
    "crates/backend-wgpu/src/memory.rs",
    "crates/gguf/src/map",
];

pub(super) fn check(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| path.ends_with(".rs")) {
        let source = fs::read_to_string(workspace.root.join(path))?;
        let found = check_file(path, &source).into_iter();
        findings.extend(found.map(|(line, what)| Finding { path: path.clone(), line, what }));
    }
    Ok(findings)
}

fn check_file(path: &str, source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    if !source.starts_with("//!") {
        found.push((1, "does not begin with a `//!` line: add a description of the file".into()));
    }
    let lines = source.lines().count();
    if lines > MAX_LINES {
        found.push((MAX_LINES + 1, format!("{lines} lines, at most {MAX_LINES} are allowed: split it")));
    }
    match TokenStream::from_str(source) {
        Ok(tokens) => {
            let what = "wildcard in a match on operations: list them all, so that a new one is not forgotten";
            found.extend(wildcards::lines(tokens.clone()).into_iter().map(|line| (line, what.into())));
            if !UNSAFE.iter().any(|place| path.starts_with(place)) {
                let what = format!("`unsafe` outside {UNSAFE:?}: remove it, or move it there");
                found.extend(
                    identifier_lines(tokens.clone(), "unsafe").into_iter().map(|line| (line, what.clone())),
                );
            }
            let what = "`unimplemented!`: finish or remove it";
            found.extend(
                identifier_lines(tokens, "unimplemented").into_iter().map(|line| (line, what.into())),
            );
        }
        Err(error) => found.push((error.span().start().line, format!("is not valid Rust: {error}"))),
    }
    found
}

/// The lines with this identifier.
fn identifier_lines(tokens: TokenStream, word: &str) -> Vec<usize> {
    let lines = |token| match token {
        TokenTree::Group(group) => identifier_lines(group.stream(), word),
        TokenTree::Ident(found) if found == word => vec![found.span().start().line],
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    };
    tokens.into_iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, source: &str) -> Vec<usize> {
        check_file(path, source).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn files_need_a_description_and_a_maximum_length() {
        assert_eq!(lines("a.rs", "//! A file.\n"), NONE);
        assert_eq!(lines("a.rs", "// A file.\n"), [1]);
        assert_eq!(lines("a.rs", &("//!\n".to_owned() + &"\n".repeat(MAX_LINES - 1))), NONE);
        assert_eq!(lines("a.rs", &("//!\n".to_owned() + &"\n".repeat(MAX_LINES))), [MAX_LINES + 1]);
    }

    #[test]
    fn unsafe_is_limited_to_some_files() {
        let source = "//!\n#![expect(unsafe_code)]\nfn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(lines("crates/quant/src/q8.rs", source), [4]);
        assert_eq!(lines("crates/backend-cpu/src/pool.rs", source), NONE);
        assert_eq!(lines("crates/gguf/src/map/guard.rs", source), NONE);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(lines("a.rs", "//!\nfn f() {\n    unimplemented!()\n}\n"), [3]);
    }

    #[test]
    fn strings_and_comments_are_ignored() {
        let source = "//! unsafe\n/// unsafe { x }\nconst A: &str = \"unsafe\"; // unsafe\n";
        assert_eq!(lines("a.rs", source), NONE);
    }
}
