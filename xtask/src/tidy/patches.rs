//! Planted mistakes apply to the code as it is. `cargo xtask faults` would find it out, many minutes later.

use std::process::Command;

use anyhow::Result;

use super::Finding;
use crate::workspace::Workspace;

/// Where the patches are.
const FOLDER: &str = "tools/faults/";

/// Patches that fit nowhere.
pub(super) fn check(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| path.starts_with(FOLDER) && path.ends_with(".patch")) {
        let mut git = Command::new("git");
        // A repository that the checkout merely lies in must not be found.
        git.env("GIT_CEILING_DIRECTORIES", workspace.root.parent().unwrap_or(&workspace.root));
        let output = git.current_dir(&workspace.root).args(["apply", "--check"]).arg(path).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let what = format!("the patch no longer applies; plant the mistake in the code as it is\n{why}");
            findings.push(Finding { path: path.clone(), line: 1, what: what.trim_end().to_owned() });
        }
    }
    Ok(findings)
}
