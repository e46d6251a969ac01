//! A crate outside the workspace.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Fifteen lines in a crate of its own, with nothing in its `Cargo.toml` but the dependency: a chat, a batch, log-probabilities
/// and an own sampler. It uses the lock file of the workspace, so that it needs no network; its build takes minutes.
#[test]
#[ignore = "builds the engine again, which takes minutes; .ci/full runs it"]
fn a_crate_outside_the_workspace_uses_the_facade() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = format!(
        "[package]\nname = \"external\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         rustorch = {{ path = {:?}, default-features = false, features = [\"demo-model\"] }}\n",
        here
    );
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a manifest");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::copy(here.join("examples/tour.rs"), folder.path().join("src/main.rs")).expect("a program");
    fs::copy(here.join("../../Cargo.lock"), folder.path().join("Cargo.lock")).expect("a lock file");
    let target = here.join("../../target/external");
    let ran = Command::new(env!("CARGO"))
        .args(["run", "--offline"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let [out, err] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(ran.status.success(), "{err}");
    assert!(out.starts_with("The capital of France is Paris.\n[\" 3"), "{out}");
    let times = |text| err.matches(text).count();
    assert_eq!(times("warning: rustorch-backend-cpu@"), 1, "it is slow, says the build: {err}");
    assert_eq!(times("rustorch: compiled without optimisation"), 1, "and the program, once: {err}");
}
