//! Dependencies between crates lead upwards in the table of Cargo.toml.

use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let path = format!("{}/Cargo.toml", package.dir);
        let manifest = fs::read_to_string(workspace.root.join(&path))?;
        for used in &package.uses {
            let (name, used_name) = (name(&package.dir), name(used));
            let why = if workspace.row(used) >= workspace.row(&package.dir) {
                "which is not above it in the table of Cargo.toml: remove the dependency, or move the crates"
            } else if is_forbidden(name, used_name) {
                "but backends compute graphs and know nothing else, and only rustorch and cli name them"
            } else {
                continue;
            };
            let line = manifest.lines().position(|line| line.starts_with(used_name)).map_or(1, |at| at + 1);
            findings.push(Finding { path: path.clone(), line, what: format!("uses {used_name}, {why}") });
        }
    }
    Ok(findings)
}

fn name(dir: &str) -> &str {
    dir.rsplit('/').next().unwrap_or(dir)
}

/// Edges that the order alone would permit.
fn is_forbidden(name: &str, used: &str) -> bool {
    let is_backend = name.starts_with("backend") || name == "gpu";
    let names_backend = used.starts_with("backend-") && !["rustorch", "cli"].contains(&name);
    is_backend && !["quant", "graph", "backend", "gpu"].contains(&used) || names_backend
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    #[test]
    fn edges_lead_upwards_and_backends_are_separate() {
        let mut workspace = Workspace::find().expect("this workspace");
        let mut found = |dir: &str, used: &str| {
            workspace.packages = vec![Package { dir: dir.into(), uses: vec![used.into()] }];
            check(&workspace).expect("manifests").len()
        };
        assert_eq!(found("crates/gguf", "crates/quant"), 0);
        assert_eq!(found("crates/cli", "crates/backend-cpu"), 0);
        for (dir, used) in [
            ("crates/quant", "crates/gguf"),
            ("crates/engine", "crates/cli"),
            ("crates/backend-cpu", "crates/gguf"),
            ("crates/engine", "crates/backend-cpu"),
        ] {
            assert_eq!(found(dir, used), 1, "{dir} uses {used}");
        }
    }
}
