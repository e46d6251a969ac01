//! `cargo xtask tidy`: what the compiler does not check.

mod architecture;
mod circles;
mod edges;
mod patches;
mod source;
mod wildcards;

use anyhow::Result;

use crate::workspace::Workspace;
pub(crate) use edges::row;

/// Something to be mended.
struct Finding {
    path: String,
    line: usize,
    /// What is found, and what to do.
    what: String,
}

/// Prints what is to be mended; whether that is nothing.
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
        n => eprintln!("{n} to mend"),
    }
    Ok(findings.is_empty())
}

/// The line, from 1, of the first of `text` that holds `part`; 1 when none does.
fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).map_or(1, |at| at + 1)
}
