//! `cargo xtask tidy`: structural checks beyond the compiler's.

mod architecture;
mod circles;
mod edges;
mod source;
mod wildcards;

use std::process::Command;

use anyhow::Result;

use crate::workspace::Workspace;

struct Finding {
    path: String,
    line: usize,
    /// The problem, and how to fix it.
    what: String,
}

/// Prints all problems; returns whether there are none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let files = workspace.files()?;
    let mut findings = edges::check(workspace)?;
    findings.extend(source::check(workspace, &files)?);
    findings.extend(circles::check(workspace, &files)?);
    findings.extend(architecture::check(workspace, &files)?);
    findings.extend(check_patches(workspace, &files)?);
    findings.extend(check_merges(workspace)?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for Finding { path, line, what } in &findings {
        println!("{path}:{line}: {what}");
    }
    match findings.len() {
        0 => eprintln!("tidy"),
        n => eprintln!("{n} to fix"),
    }
    Ok(findings.is_empty())
}

/// The patches of faults must apply to the current code. `cargo xtask faults` would find out, many minutes later.
fn check_patches(workspace: &Workspace, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in files.iter().filter(|path| path.starts_with("tools/faults/") && path.ends_with(".patch")) {
        let mut git = Command::new("git");
        // Git must not find a repository around the checkout.
        git.env("GIT_CEILING_DIRECTORIES", workspace.root.parent().unwrap_or(&workspace.root));
        let output = git.current_dir(&workspace.root).args(["apply", "--check"]).arg(path).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let what =
                format!("the patch no longer applies; adapt it to the current code\n{}", why.trim_end());
            findings.push(Finding { path: path.clone(), line: 1, what });
        }
    }
    Ok(findings)
}

/// A merge must leave no marks.
fn check_merges(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["grep", "-nE", "--untracked", "^(<<<<<<<|>>>>>>>) "]);
    let found = String::from_utf8_lossy(&git.output()?.stdout).into_owned();
    let finding = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (path, line) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let what = "a merge left this mark; choose one side, or write both together".to_owned();
        Some(Finding { path, line, what })
    };
    Ok(found.lines().filter_map(finding).collect())
}
