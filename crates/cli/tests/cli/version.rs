//! What `--version` prints, and the commit that a build records.

#[path = "../../build/commit.rs"]
mod commit;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::Home;
use commit::Commit;

#[test]
fn the_version_says_what_was_built() {
    let home = Home::new();
    let number = format!("rustorch {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(home.run("-V").quiet(), number);
    let long = home.run("--version").quiet();
    assert!(long.starts_with(&number), "{long}");
    let features = if cfg!(feature = "gpu") { "gpu" } else { "none" };
    let lines: Vec<Vec<&str>> = long.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|line| line[..] == ["features", features]), "{long}");
    assert!(
        lines.iter().any(|line| line[0] == "target" && line[1].contains(std::env::consts::ARCH)),
        "{long}"
    );
}

fn git(folder: &Path, args: &str) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    let output = command.args(args.split(' ')).output().expect("git starts");
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with one commit.
fn repository() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    git(path, "init --quiet --initial-branch=main");
    fs::write(path.join("a"), "1").expect("a file");
    git(path, "add a");
    git(path, "commit --quiet --message=first");
    folder
}

#[test]
fn a_checkout_has_a_commit() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: no git");
        return;
    }
    let folder = repository();
    let path = folder.path();
    let hash = git(path, "rev-parse --short HEAD");
    let text = |path: &Path| Commit::of(path).map(|commit| commit.text);
    assert_eq!(text(path), Some(hash.clone()));
    fs::write(path.join("b"), "1").expect("a file");
    assert_eq!(text(path), Some(hash.clone()), "git does not track it");
    fs::write(path.join("a"), "2").expect("a file");
    assert_eq!(text(path), Some(format!("{hash}-dirty")));

    let tree = path.join("tree");
    git(path, "worktree add --quiet tree");
    assert_eq!(text(&tree), Some(hash.clone()), "a worktree has its own state");
    git(&tree, "checkout --quiet --detach");
    assert_eq!(text(&tree), Some(hash), "without a branch");

    let copy = path.join("copy");
    fs::create_dir(&copy).expect("a folder");
    assert_eq!(text(&copy), None, "a copy in another project's repository");
    let plain = TempDir::new().expect("a folder");
    assert_eq!(text(plain.path()), None);
    git(plain.path(), "init --quiet");
    assert_eq!(text(plain.path()), None, "without a commit");
}

/// Cargo builds again when one of the files is newer, and always if one does not exist.
#[test]
fn a_commit_changes_a_file() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: no git");
        return;
    }
    let folder = repository();
    git(folder.path(), "worktree add --quiet tree");
    for path in [folder.path().to_owned(), folder.path().join("tree")] {
        let state = || {
            let files = Commit::of(&path).expect("a commit").files;
            files.iter().map(|file| fs::read(file).expect("it exists")).collect::<Vec<_>>()
        };
        let mut before = state();
        for change in
            ["commit --quiet --allow-empty --message=next", "pack-refs --all", "checkout --quiet -b x"]
        {
            git(&path, change);
            assert_ne!(state(), before, "{change}");
            before = state();
        }
        git(&path, "commit --quiet --allow-empty --message=next");
        assert_ne!(state(), before, "a commit after the references were packed");
        git(&path, "checkout --quiet --detach");
        git(&path, "branch --quiet -D x");
    }
}
