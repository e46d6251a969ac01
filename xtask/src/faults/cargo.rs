//! Building and running test binaries in the copy, and parsing their output.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::checkout::Checkout;
use super::fault::Tests;

/// Time limit of tests, for faults that hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// `cargo test` with these builds and reports the binaries on standard output.
pub(super) const BUILD_ONLY: [&str; 3] = ["--no-run", "--quiet", "--message-format=json-render-diagnostics"];

pub(super) struct Binary {
    executable: PathBuf,
    /// The package's folder, the working directory of its tests.
    folder: PathBuf,
}

/// Builds the binary of `tests`, or returns the compiler's errors.
pub(super) fn build(checkout: &Checkout, tests: &Tests) -> Result<Result<Binary, String>> {
    let args = ["test"].into_iter().chain(BUILD_ONLY);
    let output = match checkout.cargo(args.chain(tests.target.split(' ')))? {
        Ok(output) => output,
        Err(errors) => return Ok(Err(errors)),
    };
    for line in output.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{")) {
        let message: Value = serde_json::from_slice(line)?;
        if let (Some(executable), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        {
            let folder = Path::new(manifest).parent().context("a manifest in no folder")?.to_owned();
            return Ok(Ok(Binary { executable: executable.into(), folder }));
        }
    }
    bail!("cargo built no test binary for `{}`", tests.target)
}

/// Runs `tests` and returns the failed ones.
pub(super) fn failures(checkout: &Checkout, binary: &Binary, tests: &Tests) -> Result<Vec<String>> {
    let log = checkout.target.with_file_name("tests.log");
    let file = File::create(&log)?;
    let mut command = Command::new(&binary.executable);
    command
        .arg("--exact")
        .args(&tests.names)
        .current_dir(&binary.folder)
        .env_remove("RUSTORCH_REQUIRE_SHARED");
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = wait(&mut command).with_context(|| tests.target.clone())?;
    failed(&fs::read_to_string(&log)?, &tests.names, status.success()).with_context(|| tests.target.clone())
}

/// Runs `command`, limited to [`PATIENCE`].
fn wait(command: &mut Command) -> Result<ExitStatus> {
    let mut child = command.spawn()?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("did not finish within {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Which of `names` failed, parsed from the output of libtest. Tests without a result failed if the process died.
fn failed(output: &str, names: &[String], success: bool) -> Result<Vec<String>> {
    let result = |name: &String| {
        let line = output.lines().rfind(|line| {
            let rest = line.strip_prefix("test ").and_then(|rest| rest.strip_prefix(name.as_str()));
            rest.is_some_and(|rest| rest.starts_with([' ', '\n']))
        })?;
        line.rsplit_once("... ").map(|(_, result)| result.trim())
    };
    let mut failed = Vec::new();
    for name in names {
        match result(name) {
            Some("ok") => {}
            Some("ignored") => bail!("`{name}` is ignored"),
            None if success => bail!("test `{name}`, named in the header of a patch, does not exist"),
            _ => failed.push(name.clone()),
        }
    }
    ensure!(success == failed.is_empty(), "cannot parse the output of libtest:\n{output}");
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str, success: bool) -> Result<Vec<String>> {
        failed(output, &["a::b".into(), "c".into()], success)
    }

    #[test]
    fn libtest_output_is_parsed() {
        let none: [&str; 0] = [];
        assert_eq!(of("test a::b ... ok\ntest c - should panic ... ok\n", true).expect("passed"), none);
        assert_eq!(of("running 2\ntest c ... FAILED\ntest a::b ... ok\n", false).expect("failed"), ["c"]);
        assert_eq!(of("test a::b ... ok\n", false).expect("died"), ["c"]);
        assert!(of("test a::b ... ok\ntest cd ... ok\n", true).is_err(), "no such test");
        assert!(of("test a::b ... ok\ntest c ... ignored\n", true).is_err());
        assert!(of("test a::b ... ok\ntest c ... ok\n", false).is_err());
    }
}
