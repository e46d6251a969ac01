//! A copy of the checkout to apply faults to, in `target/faults`; reused between runs.
//!
//! Only changed files are written, so that cargo rebuilds little. Dependencies are those of the checkout's own builds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{Workspace, cargo};

/// The copy; used by one run at a time.
pub(super) struct Checkout {
    pub(super) root: PathBuf,
    /// Where executables go.
    pub(super) target: PathBuf,
    /// Where cargo keeps what it compiles: that of the checkout itself.
    build: PathBuf,
    /// Held as long as this value lives.
    _lock: File,
}

impl Checkout {
    /// Copies the current state of `workspace`.
    pub(super) fn make(workspace: &Workspace) -> Result<Checkout> {
        let folder = workspace.target.join("faults");
        let root = folder.join("checkout");
        fs::create_dir_all(&root)?;
        let lock = File::create(folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{} is in use by another run; wait for it", folder.display())
            }
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
        Ok(Checkout { root, target: folder.join("target"), build: workspace.target.clone(), _lock: lock })
    }

    /// Runs cargo in the copy, with incremental builds; returns its standard output, or its standard error on failure.
    pub(super) fn cargo(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Result<Vec<u8>, String>> {
        let mut cargo = cargo();
        cargo.current_dir(&self.root).args(args);
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CARGO_BUILD_BUILD_DIR", &self.build);
        let output = cargo.env("CARGO_INCREMENTAL", "1").env("CARGO_TERM_COLOR", "never").output();
        let output = output.context("cargo")?;
        Ok(if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        })
    }

    /// Runs `run` with `patch` applied, or returns why it does not apply.
    pub(super) fn with_patch<T>(&self, patch: &Path, run: impl FnOnce() -> T) -> Result<Result<T, String>> {
        let output = self.git_apply(patch).output()?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let result = run();
        let status = self.git_apply(patch).arg("--reverse").status()?;
        ensure!(status.success(), "cannot revert {} in {}", patch.display(), self.root.display());
        Ok(Ok(result))
    }

    fn git_apply(&self, patch: &Path) -> Command {
        let mut git = Command::new("git");
        // The copy is not a repository; git must not find the one around it.
        git.env("GIT_CEILING_DIRECTORIES", self.root.parent().unwrap_or(&self.root));
        git.current_dir(&self.root).args(["apply", "--whitespace=nowarn"]).arg(patch);
        git
    }
}

/// Removes all files under `folder` that are not among `files`, relative to `root`.
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
