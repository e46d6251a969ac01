//! The permitted dependencies between crates.

use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace::Workspace;

/// Every crate with its permitted dependencies, except for tests; lower rows use upper ones.
const MAY_USE: [(&str, &str); 27] = [
    ("outfile", ""),
    ("hub", ""),
    ("quant", ""),
    ("gguf", "quant"),
    ("tokenizer", "gguf"),
    ("chat", "gguf"),
    ("graph", "quant"),
    ("models", "gguf graph"),
    ("quantize", "gguf models quant"),
    ("convert", "outfile gguf tokenizer graph models quant"),
    ("synth", "gguf graph models quant quantize"),
    ("backend", "graph quant"),
    ("backend-reference", "backend graph quant"),
    ("backend-cpu", "backend graph quant"),
    ("gpu", "backend graph quant"),
    ("backend-cuda", "backend gpu graph quant"),
    ("backend-wgpu", "backend gpu graph quant"),
    ("runner", "backend gguf graph"),
    ("engine", "models backend runner tokenizer chat gguf graph"),
    ("grammar", "tokenizer chat engine"),
    ("eval", "quant gguf tokenizer graph models quantize backend runner engine"),
    ("trace", "outfile models backend runner gguf graph quant"),
    ("demo-model", ""),
    ("testkit", "backend runner demo-model gguf graph models quant synth"),
    (
        "rustorch",
        "outfile hub gguf chat backend backend-reference backend-cpu backend-cuda backend-wgpu runner engine grammar demo-model",
    ),
    ("server", "tokenizer chat quantize backend engine grammar rustorch"),
    (
        "cli",
        "outfile hub quant gguf tokenizer chat convert graph models quantize synth backend backend-reference backend-cpu \
         runner engine grammar server eval trace demo-model rustorch",
    ),
];

/// The row of a crate's folder, from the top; dependents have larger rows.
pub(crate) fn row(dir: &str) -> Option<usize> {
    let name = dir.strip_prefix("crates/").unwrap_or(dir);
    MAY_USE.iter().position(|(crate_, _)| *crate_ == name)
}

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.dir != "xtask") {
        let path = format!("{}/Cargo.toml", package.dir);
        let manifest = fs::read_to_string(workspace.root.join(&path))?;
        let Some((_, allowed)) = row(&package.dir).map(|row| MAY_USE[row]) else {
            let what = "the crate has no row: add one in xtask/src/tidy/edges.rs and in ARCHITECTURE.md";
            findings.push(Finding { path, line: 1, what: what.into() });
            continue;
        };
        for used in &package.uses {
            let name = used.strip_prefix("crates/").unwrap_or(used);
            if !allowed.split(' ').any(|allowed| allowed == name) {
                let what = format!(
                    "uses {name}, but may use only \"{allowed}\" outside tests: remove the dependency, or \
                     move the code to a lower row (the table is in xtask/src/tidy/edges.rs)"
                );
                let line = manifest.lines().position(|line| line.contains(name)).map_or(1, |at| at + 1);
                findings.push(Finding { line, path: path.clone(), what });
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_use_upper_rows_only() {
        for (at, (name, uses)) in MAY_USE.iter().enumerate() {
            for used in uses.split_whitespace() {
                let row = row(&format!("crates/{used}")).expect("a row");
                assert!(row < at, "{name} may use {used}, which is below it");
            }
        }
    }
}
