//! `cargo xtask faults check`: the tests that the patches name exist. Plants nothing, so it is quick where the tests are
//! built. `cargo xtask tidy` checks that the patches apply.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cargo;
use super::fault::{FOLDER, Fault, Tests, read_all};
use crate::workspace::{self, Workspace, output};

/// Prints what is wrong with the patches; returns whether that is nothing.
pub(super) fn run(workspace: &Workspace) -> Result<bool> {
    let faults = read_all(&workspace.root, FOLDER, Fault::parse)?;
    let (existing, mut wrong) = (tests(&workspace.root)?, Vec::new());
    for fault in &faults {
        for Tests { target, names } in &fault.tests {
            let existing = existing.get(target).map_or(&[][..], Vec::as_slice);
            let missing = names.iter().filter(|name| !existing.contains(name));
            wrong.extend(missing.map(|name| format!("{}: no test `{target} {name}`", fault.patch.display())));
        }
    }
    wrong.iter().for_each(|line| println!("{line}"));
    println!("{} patches, {} wrong", faults.len(), wrong.len());
    Ok(wrong.is_empty())
}

/// The tests of all binaries of the workspace, by the binary as in [`Tests::target`].
fn tests(root: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut command = workspace::cargo();
    command.current_dir(root).args(["test", "--workspace", "--locked"]).args(cargo::BUILD_ONLY);
    let mut tests = BTreeMap::new();
    for line in output(&mut command)?.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)?;
        let (Some(executable), Some(package)) =
            (message["executable"].as_str(), message["package_id"].as_str())
        else {
            continue;
        };
        // `path+file:///…/crates/engine#rustorch-engine@0.1.0`, or `…/xtask#0.1.0` where folder and package agree.
        let (folder, id) = package.rsplit_once('#').context("cargo's package ids have changed")?;
        let package = match id.split_once('@') {
            Some((package, _)) => package,
            None => folder.rsplit('/').next().unwrap_or_default(),
        };
        let target = &message["target"];
        let kind = match target["kind"][0].as_str() {
            Some("lib") => "--lib".to_owned(),
            Some("test") => format!("--test {}", target["name"].as_str().unwrap_or_default()),
            _ => continue,
        };
        let listed = output(Command::new(executable).arg("--list"))?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
        tests.insert(format!("-p {package} {kind}"), names.collect());
    }
    Ok(tests)
}
