//! The patches of faults must apply to the current code. `cargo xtask faults` would find out, many minutes later.

use std::process::Command;

use anyhow::Result;

use super::Finding;
use crate::workspace::Workspace;

/// The folder of the patches.
const FOLDER: &str = "tools/faults/";

/// Finds patches that no longer apply.
pub(super) fn check(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| path.starts_with(FOLDER) && path.ends_with(".patch")) {
        let mut git = Command::new("git");
        // Git must not find a repository around the checkout.
        git.env("GIT_CEILING_DIRECTORIES", workspace.root.parent().unwrap_or(&workspace.root));
        let output = git.current_dir(&workspace.root).args(["apply", "--check"]).arg(path).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let what = format!("the patch no longer applies; adapt it to the current code\n{why}");
            findings.push(Finding { path: path.clone(), line: 1, what: what.trim_end().to_owned() });
        }
    }
    Ok(findings)
}
