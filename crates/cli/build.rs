//! Records what `rustorch --version` prints beyond the version: the target and, in release builds, the commit.
//!
//! Development builds have no commit: with it, each commit would compile the program again.

#[path = "build/commit.rs"]
mod commit;

use std::env;
use std::fs;
use std::path::Path;

use commit::Commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/commit.rs");
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    let var = |name| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=BUILD_TARGET={}", var("TARGET"));
    // For builds without `.git`, such as in a container.
    let given = var("BUILD_COMMIT");
    println!("cargo::rustc-env=BUILD_COMMIT={given}");
    let is_release = var("PROFILE") == "release";
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let Some(root) = Path::new(&manifest).ancestors().nth(2).filter(|_| is_release && given.is_empty())
    else {
        return;
    };
    if let Some(Commit { text, files }) = Commit::of(root) {
        println!("cargo::rustc-env=BUILD_COMMIT={text}");
        // A change of the program's sources may make the commit dirty; the program is then compiled anyway.
        let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
        let sources = crates.map(|folder| folder.path().join("src")).filter(|path| path.exists());
        for path in files.into_iter().chain(sources) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}
