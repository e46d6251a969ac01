//! Files that hold something wrong end in a message that says what and where, at once and in little
//! memory.
//!
//! The peak of a child counts what its parent held when it started it, so a small process of its own
//! starts each: this program again, as the test `small_parent`.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::malformed::{Malformed, Stage, cases, valid};

/// Ten times what the slowest takes on a loaded machine.
const HANG: Duration = Duration::from_secs(10);

/// Longest message, in bytes.
const MESSAGE: usize = 1500;

/// Peak memory allowed, in KiB.
const MEMORY: i64 = 200_000_000 / 1024;

/// Says that this process is to run the program with these arguments.
const ARGS: &str = "RUSTORCH_MALFORMED_TEST_ARGS";

/// Runs the program, which writes to files; prints the peak of its memory in KiB and ends as it does.
#[test]
fn small_parent() {
    let Ok(args) = std::env::var(ARGS) else { return };
    let file = |name: &str| File::create(name).expect("the file is made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rustorch"));
    command.args(args.split(' ')).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("RUSTORCH_");
    std::env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
        command.env_remove(name);
    });
    let mut child =
        command.stdout(file("stdout")).stderr(file("stderr")).spawn().expect("the program starts");
    let started = Instant::now();
    let status = loop {
        match child.try_wait().expect("the system knows") {
            Some(status) => break status,
            None if started.elapsed() < HANG => std::thread::sleep(Duration::from_millis(1)),
            None => {
                child.kill().and_then(|()| child.wait()).expect("the program is ended");
                panic!("still running after {HANG:?}");
            }
        }
    };
    println!("peak: {}", peak());
    std::process::exit(status.code().unwrap_or(255));
}

/// The most memory that a child of this process had, in KiB.
#[cfg(target_os = "linux")]
fn peak() -> i64 {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("the system knows").max_rss()
}

/// Not measured here.
#[cfg(not(target_os = "linux"))]
fn peak() -> i64 {
    0
}

/// What came of the program.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Peak memory in KiB.
    peak: i64,
}

/// Runs the program in `folder`.
fn run(folder: &Path, args: &str) -> Result<Ran, String> {
    let mut parent = Command::new(std::env::current_exe().expect("the system knows"));
    parent.args(["small_parent", "--exact", "--nocapture"]).current_dir(folder).env("HOME", folder);
    let output = parent.env(ARGS, args).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let peak = said.lines().find_map(|line| line.split_once("peak: ")?.1.parse().ok());
    let peak = peak.ok_or_else(|| format!("{args}: {said}{}", String::from_utf8_lossy(&output.stderr)))?;
    let text = |name| std::fs::read_to_string(folder.join(name)).expect("UTF-8");
    Ok(Ran { code: output.status.code(), stdout: text("stdout"), stderr: text("stderr"), peak })
}

/// The peak memory in KiB, or why `case` is not refused as it should be.
fn refused(case: &Malformed, folder: &Path) -> Result<i64, String> {
    let mut peak = 0;
    std::fs::write(folder.join("case.gguf"), &case.bytes).expect("the file is written");
    // A file that can be read can be inspected, whatever is wrong with its model, and so can tensors of unknown types.
    let is_unknown_type = ["type ", "tensor type "].iter().any(|start| case.name.starts_with(start));
    let inspected = if case.stage == Stage::File && !is_unknown_type { 1 } else { 0 };
    for (args, code) in [("run -m case.gguf --raw -p x -n 1", 1), ("inspect case.gguf", inspected)] {
        let ran = run(folder, args)?;
        let said = if code == 1 { ran.stderr } else { ran.stdout };
        let start: String = said.chars().take(MESSAGE).collect();
        if ran.code != Some(code) {
            return Err(format!("{args}: {:?}: {start}", ran.code));
        }
        let unsaid = case.expect.iter().chain([&"case.gguf"]).find(|expected| !said.contains(**expected));
        if let Some(expected) = unsaid {
            return Err(format!("{args}: `{expected}` is not in: {start}"));
        }
        if code == 1 && said.len() > MESSAGE {
            return Err(format!("{args}: {} bytes of message: {start}", said.len()));
        }
        if ran.peak > MEMORY {
            return Err(format!("{args}: took {} KiB of memory", ran.peak));
        }
        peak = ran.peak.max(peak);
    }
    Ok(peak)
}

#[test]
fn every_malformed_file_is_refused_by_name_at_once_and_in_little_memory() {
    let folder = TempDir::new().expect("a temporary folder");
    let mut wrong = Vec::new();
    let mut slowest = (Duration::ZERO, "");
    let mut largest = (0, "");
    // What is said of data in memory is not what is said of a file.
    for case in cases().iter().filter(|case| !case.name.ends_with("in memory")) {
        let started = Instant::now();
        match refused(case, folder.path()) {
            Ok(peak) => largest = largest.max((peak, case.name)),
            Err(why) => wrong.push(format!("{}: {why}", case.name)),
        }
        slowest = slowest.max((started.elapsed(), case.name));
    }
    println!("slowest: {:?}, {}", slowest.0, slowest.1);
    println!("largest: {} KiB, {}", largest.0, largest.1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_they_are_made_from_is_fine() {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, bytes) in valid() {
        std::fs::write(folder.path().join("valid.gguf"), bytes).expect("the file is written");
        let ran = run(folder.path(), "inspect valid.gguf").expect("it ends");
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{name}");
        assert!(ran.stdout.contains("GGUF version"), "{name}: {}", ran.stdout);
    }
}
