//! What the worst files cost: each is opened in a process of its own, whose peak memory is looked at.
//!
//! The files are large but sparse: zeroes are empty strings, empty arrays of u8 and valid UTF-8.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gguf::Gguf;
use testkit::malformed::raw::{Raw, id, le};

/// Peak memory allowed, in KiB.
const LIMIT: u64 = 200_000_000 / 1024;

/// Ten times what the slowest takes on a loaded machine.
const HANG: Duration = Duration::from_secs(10);

/// A file, and whether it is accepted: what is must stay below the limit, too.
struct Case {
    name: &'static str,
    accepted: bool,
    head: Vec<u8>,
    len: u64,
}

/// A file with one key, an array that claims `count` elements, and zeroes up to `len` bytes.
fn array(name: &'static str, accepted: bool, element: u32, count: u64, len: u64) -> Case {
    let value = [le(element), le(count)].concat();
    Case { name, accepted, head: Raw::new().key("k", id::ARRAY, value).bytes(), len }
}

fn cases() -> Vec<Case> {
    const GIB: u64 = 1 << 30;
    let keys = (0..500_000).fold(Raw::new(), |file, i| file.key(&format!("{i:08}"), id::U8, [7]));
    let tensors =
        (0..230_000u64).fold(Raw::new(), |file, i| file.tensor(&format!("{i:08}"), &[8], 0, 32 * i));
    let long_string = Raw::new().key("k", id::STRING, le(GIB));
    let many_tensors = Raw { tensor_count: Some(GIB / 64), ..Raw::new() };
    let many_keys = Raw { key_count: Some(GIB / 64), ..Raw::new() };
    vec![
        array("as many strings as are accepted", true, id::STRING, 4_000_000, GIB),
        array("as many arrays as are accepted", true, id::ARRAY, 3_000_000, GIB),
        array("as many numbers as are accepted", true, id::U8, 67_000_000, GIB),
        Case { name: "as many keys as are accepted", accepted: true, head: keys.bytes(), len: GIB },
        Case { name: "as many tensors as are accepted", accepted: true, head: tensors.bytes(), len: GIB },
        array("strings without end", false, id::STRING, GIB / 2, 5 * GIB),
        array("arrays without end", false, id::ARRAY, GIB / 4, 5 * GIB),
        array("numbers without end", false, id::F64, GIB / 2, 5 * GIB),
        Case { name: "a string without end", accepted: false, head: long_string.bytes(), len: 2 * GIB },
        Case { name: "tensors without end", accepted: false, head: many_tensors.bytes(), len: 5 * GIB },
        Case { name: "keys without end", accepted: false, head: many_keys.bytes(), len: 5 * GIB },
    ]
}

/// The most memory this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Opens the file and reports: accepted or not, KiB at the peak.
fn open(path: &Path) {
    let started = Instant::now();
    let opened = Gguf::open(path);
    assert!(started.elapsed() < HANG, "took {:?}", started.elapsed());
    if let Ok(gguf) = &opened {
        assert!(gguf.metadata().iter().all(|(_, value)| !value.to_string().is_empty()));
    }
    println!("report: {} {}", opened.is_ok(), peak());
}

#[test]
fn the_worst_files_stay_small_and_quick() {
    const CHILD: &str = "GGUF_MEMORY_TEST_FILE";
    if let Some(path) = std::env::var_os(CHILD) {
        return open(path.as_ref());
    }
    let dir = tempfile::tempdir().unwrap();
    for Case { name, accepted, head, len } in cases() {
        let path = dir.path().join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(len).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["the_worst_files_stay_small_and_quick", "--exact", "--nocapture"])
            .env(CHILD, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = text.lines().find_map(|line| line.split("report: ").nth(1));
        let Some((is_ok, peak)) = report.and_then(|report| report.split_once(' ')) else {
            panic!("{name}: no report: {text} {}", String::from_utf8_lossy(&output.stderr))
        };
        assert_eq!(is_ok == "true", accepted, "{name}");
        let peak: u64 = peak.parse().unwrap();
        assert!(peak < LIMIT, "{name}: {peak} KiB");
        println!("{name}: {peak} KiB");
        std::fs::remove_file(&path).unwrap();
    }
}
