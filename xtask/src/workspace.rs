//! Information about this checkout from cargo and git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
    /// Folders of crates in the order of Cargo.toml: a crate uses only those before it.
    rows: Vec<String>,
}

pub(crate) struct Package {
    /// Folder relative to the root, such as `crates/quant`.
    pub(crate) dir: String,
    /// Folders of the workspace packages that it depends on, except for tests.
    pub(crate) uses: Vec<String>,
}

impl Workspace {
    /// The workspace that this program was built from.
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
        let mut cargo = cargo();
        cargo.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
        let metadata: Value = serde_json::from_str(&output(&mut cargo)?)?;
        let root = text(&metadata["workspace_root"])?;
        let dir = |path: &Value| -> Result<String> {
            let from_root = Path::new(text(path)?).strip_prefix(root)?;
            Ok(from_root.to_str().context("a path that is no UTF-8")?.replace('\\', "/"))
        };
        let mut packages = Vec::new();
        for package in list(&metadata["packages"])? {
            let normal = list(&package["dependencies"])?
                .iter()
                .filter(|dependency| dependency["kind"] != "dev" && !dependency["path"].is_null());
            packages.push(Package {
                dir: dir(&package["manifest_path"])?.trim_end_matches("/Cargo.toml").to_owned(),
                uses: normal.map(|dependency| dir(&dependency["path"])).collect::<Result<_>>()?,
            });
        }
        let manifest = fs::read_to_string(Path::new(root).join("Cargo.toml"))?;
        let path = |line: &str| Some(line.split_once("{ path = \"")?.1.split_once('"')?.0.to_owned());
        let rows = manifest.lines().filter_map(path).collect();
        let target = text(&metadata["target_directory"])?.into();
        Ok(Workspace { root: root.into(), target, packages, rows })
    }

    /// The row of a crate's folder in Cargo.toml. Those that no crate uses are not there, and are below all others.
    pub(crate) fn row(&self, dir: &str) -> usize {
        self.rows.iter().position(|row| row == dir).unwrap_or(self.rows.len())
    }

    /// The index of this commit's share out of `shares`; consecutive commits cover all shares.
    pub(crate) fn share(&self, shares: usize) -> Result<usize> {
        let count =
            output(Command::new("git").args(["rev-list", "--count", "HEAD"]).current_dir(&self.root))?;
        Ok(count.trim().parse::<usize>()? % shares.max(1))
    }

    /// The files of the checkout, relative to the root: tracked files and untracked ones that are not ignored.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
        let listed = output(Command::new("git").args(args).current_dir(&self.root))?;
        let there = |path: &&str| self.root.join(path).is_file();
        Ok(listed.split_terminator('\0').filter(there).map(str::to_owned).collect())
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("cargo metadata has changed")
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo metadata has changed")
}

/// The cargo that runs this program, or else that of `PATH`, which may be rustup's: that tells compilers which toolchain to be, which
/// otherwise depends on the folder of each dependency. Without the variables that `cargo run` sets for this program: build scripts of
/// dependencies watch some of them, and with others, cargo would compile those dependencies and their dependents again.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The standard output of `command`; standard error is inherited.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
