//! A copy of the checkout to plant faults in, kept in `target/faults` from run to run.
//!
//! Only files that differ are written, so that cargo finds the rest built.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::Workspace;

/// The copy. One run at a time has it.
pub(super) struct Checkout {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
    /// Held while this lives.
    _lock: File,
}

impl Checkout {
    /// A copy of what `workspace` holds now.
    pub(super) fn make(workspace: &Workspace) -> Result<Checkout> {
        let folder = workspace.target.join("faults");
        let root = folder.join("checkout");
        fs::create_dir_all(&root)?;
        let lock = File::create(folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another run has {}; wait for it", folder.display()),
            Err(TryLockError::Error(error)) => return Err(error).context("target/faults/lock"),
        }
        let files: BTreeSet<String> = workspace.files()?.into_iter().collect();
        remove_others(&root, &root, &files)?;
        for file in &files {
            let (from, to) = (fs::read(workspace.root.join(file))?, root.join(file));
            if fs::read(&to).ok().as_ref() != Some(&from) {
                fs::create_dir_all(to.parent().context("a file in no folder")?)?;
                fs::write(to, from)?;
            }
        }
        Ok(Checkout { root, target: folder.join("target"), _lock: lock })
    }

    /// Cargo in the copy, quick to build again what a line or two change: of a crate, only those units that
    /// hold them. Link-time optimisation, which in a crate is the default, would go over all of its units.
    pub(super) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        cargo.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_LTO", "off");
        cargo.env("CARGO_TERM_COLOR", "never");
        cargo
    }

    /// Applies `patch`; or says why the patch does not fit.
    pub(super) fn apply(&self, patch: &Path) -> Result<Result<(), String>> {
        let output = self.git_apply(patch).output()?;
        let why = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(why()) })
    }

    /// Takes `patch` out again.
    pub(super) fn take_back(&self, patch: &Path) -> Result<()> {
        let status = self.git_apply(patch).arg("--reverse").status()?;
        ensure!(status.success(), "{} cannot be taken back from {}", patch.display(), self.root.display());
        Ok(())
    }

    fn git_apply(&self, patch: &Path) -> Command {
        let mut git = Command::new("git");
        // The copy is no repository; the one it stands in must not be found.
        git.env("GIT_CEILING_DIRECTORIES", self.root.parent().unwrap_or(&self.root));
        git.current_dir(&self.root).args(["apply", "--whitespace=nowarn"]).arg(patch);
        git
    }
}

/// Removes what is under `folder` and not among `files`, which are named from `root`.
fn remove_others(root: &Path, folder: &Path, files: &BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(root, &path, files)?;
        } else if path.strip_prefix(root)?.to_str().is_none_or(|name| !files.contains(name)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
