//! `cargo xtask tidy`: structural checks beyond the compiler's.

mod architecture;
mod circles;
mod edges;
mod patches;
mod source;
mod wildcards;

use anyhow::Result;

use crate::workspace::Workspace;
pub(crate) use edges::row;

/// A problem to fix.
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
    findings.extend(patches::check(workspace, &files)?);
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
