//! Checks of Rust files by token, so that words in comments and strings do not count.

use std::fs;
use std::str::FromStr;

use anyhow::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::wildcards::{self, is_punct};
use crate::workspace::Workspace;

/// Maximum length of a file in lines.
const MAX_LINES: usize = 600;

/// Files that may use `unsafe`: kernels, thread pool, file mappings, guard pages of tests, GPU shader compilation, and
/// driver queries beyond wgpu.
const UNSAFE: [&str; 6] = [
    "crates/backend-cpu/src/guard.rs",
    "crates/backend-cpu/src/lanes/",
    "crates/backend-cpu/src/pool.rs",
    "crates/backend-wgpu/src/device.rs",
    "crates/backend-wgpu/src/memory.rs",
    "crates/gguf/src/map",
];

/// Macros that mark unfinished or debugging code.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

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
            check_tokens(path, tokens, &mut found);
        }
        Err(error) => found.push((error.span().start().line, format!("is not valid Rust: {error}"))),
    }
    found
}

fn check_tokens(path: &str, tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut tokens = tokens.into_iter().peekable();
    let is_bang = |token: &TokenTree| is_punct(token, '!');
    let mut after_hash = false;
    while let Some(token) = tokens.next() {
        let line = token.span().start().line;
        match &token {
            TokenTree::Ident(word)
                if word == "unsafe" && !UNSAFE.iter().any(|place| path.starts_with(place)) =>
            {
                let what = format!("`unsafe` outside {UNSAFE:?}: remove it, or move it there");
                found.push((line, what));
            }
            TokenTree::Ident(word)
                if UNFINISHED.iter().any(|name| word == name) && tokens.peek().is_some_and(is_bang) =>
            {
                found.push((line, format!("`{word}!`: finish or remove it")));
            }
            TokenTree::Group(group) => {
                if after_hash && group.delimiter() == Delimiter::Bracket && allows(group.stream()) {
                    let what = "`allow` of a lint: fix the cause, or write `#[expect(…, reason = \"…\")]`";
                    found.push((line, what.into()));
                }
                check_tokens(path, group.stream(), found);
            }
            _ => {}
        }
        // `#[…]` and `#![…]`.
        after_hash = is_punct(&token, '#') || after_hash && is_bang(&token);
    }
}

/// Whether an attribute is or contains `allow(…)`.
fn allows(attribute: TokenStream) -> bool {
    let mut after_allow = false;
    attribute.into_iter().any(|token| match token {
        TokenTree::Group(group) => std::mem::take(&mut after_allow) || allows(group.stream()),
        other => {
            after_allow = matches!(&other, TokenTree::Ident(word) if word == "allow");
            false
        }
    })
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
    fn unfinished_code_and_allow_are_found() {
        let source =
            "//!\n#![allow(dead_code)]\nfn f() {\n    todo!()\n}\n#[cfg_attr(x, allow(y))]\nfn g() {}\n";
        assert_eq!(lines("a.rs", source), [2, 4, 6]);
    }

    #[test]
    fn strings_and_comments_are_ignored() {
        let source = "//! unsafe todo!()\n/// #[allow(x)]\nconst A: &str = \"dbg!() unsafe\"; // unsafe\n";
        assert_eq!(lines("a.rs", source), NONE);
        assert_eq!(lines("a.rs", "//!\nfn allow(todo: u8) { vec![allow(1)]; }\n"), NONE);
    }
}
