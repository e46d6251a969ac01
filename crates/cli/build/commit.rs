//! The commit of a checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit that a folder is a checkout of.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The abbreviated hash, with `-dirty` if tracked files have changed.
    pub(crate) text: String,
    /// Files that change with the commit.
    pub(crate) files: Vec<PathBuf>,
}

impl Commit {
    /// `None` without git, and if `root` is not the root of a checkout: a copy in another project's repository has none of
    /// that project's commits.
    pub(crate) fn of(root: &Path) -> Option<Commit> {
        let top = git(root, &["rev-parse", "--show-toplevel"])?;
        if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
            return None;
        }
        let mut text = git(root, &["rev-parse", "--short", "HEAD"])?;
        if !git(root, &["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            text += "-dirty";
        }
        // In a worktree, these are in different folders.
        let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
        let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
        let path = |name| Some(root.join(git(root, &["rev-parse", "--git-path", name])?));
        // A file that does not exist would count as changed.
        let files = names.filter_map(path).filter(|path| path.exists()).collect();
        Some(Commit { text, files })
    }
}

/// What a git command prints, if it succeeds.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook's variables name the repository of the hook.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.arg("-C").arg(root).args(args).env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim_end().to_owned())
}
