//! Memory and time of worst-case files: each is opened in a separate process, whose peak memory is measured.
//!
//! The files are large but sparse. Zeros decode as empty strings, empty arrays of u8 and valid UTF-8.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gguf::Gguf;
use testkit::malformed::raw::{Raw, id, le};

/// Peak memory allowed, in KiB.
const LIMIT: u64 = 200_000_000 / 1024;

/// Ten times the slowest case on a loaded machine.
const HANG: Duration = Duration::from_secs(10);

/// A file of `len` bytes, zero except for `pieces` at their offsets. Accepted files must stay below the limit, too.
struct Case {
    name: &'static str,
    accepted: bool,
    pieces: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl Case {
    fn new(name: &'static str, accepted: bool, head: Vec<u8>, len: u64) -> Case {
        Case { name, accepted, pieces: vec![(0, head)], len }
    }
}

/// A file with one key, an array that claims `count` elements, zero-padded to `len` bytes.
fn array(name: &'static str, accepted: bool, element: u32, count: u64, len: u64) -> Case {
    let value = [le(element), le(count)].concat();
    Case::new(name, accepted, Raw::new().key("k", (id::ARRAY, value)).bytes(), len)
}

/// A file with eight keys, each an array of 40 million zeros.
fn several_arrays(name: &'static str) -> Case {
    const EACH: u64 = 40_000_000;
    let head = |key: &str| {
        let file = Raw { key_count: Some(8), ..Raw::new() };
        file.key(key, (id::ARRAY, [le(id::U8), le(EACH)].concat())).bytes()
    };
    let mut pieces = vec![(0, head("0"))];
    let mut len = pieces[0].1.len() as u64 + EACH;
    for i in 1..8 {
        let key = head(&i.to_string()).split_off(Raw::new().bytes().len());
        pieces.push((len, key.clone()));
        len += key.len() as u64 + EACH;
    }
    Case { name, accepted: false, pieces, len }
}

fn cases() -> Vec<Case> {
    const GIB: u64 = 1 << 30;
    let keys = (0..400_000).fold(Raw::new(), |file, i| file.key(&format!("{i:08}"), 7u8));
    let tensors =
        (0..175_000u64).fold(Raw::new(), |file, i| file.tensor(&format!("{i:08}"), &[8], 0, 32 * i));
    let long_string = Raw::new().key("k", (id::STRING, le(GIB)));
    let many_tensors = Raw { tensor_count: Some(GIB / 64), ..Raw::new() };
    let many_keys = Raw { key_count: Some(GIB / 64), ..Raw::new() };
    vec![
        array("as many strings as are accepted", true, id::STRING, 3_100_000, GIB),
        array("as many arrays as are accepted", true, id::ARRAY, 2_200_000, GIB),
        array("as many numbers as are accepted", true, id::U8, 50_000_000, GIB),
        Case::new("as many keys as are accepted", true, keys.bytes(), GIB),
        Case::new("as many tensors as are accepted", true, tensors.bytes(), GIB),
        array("strings without end", false, id::STRING, GIB / 2, 5 * GIB),
        array("arrays without end", false, id::ARRAY, GIB / 4, 5 * GIB),
        several_arrays("more numbers in several arrays than in one"),
        array("numbers without end", false, id::F64, GIB / 2, 5 * GIB),
        Case::new("a string without end", false, long_string.bytes(), 2 * GIB),
        Case::new("tensors without end", false, many_tensors.bytes(), 5 * GIB),
        Case::new("keys without end", false, many_keys.bytes(), 5 * GIB),
    ]
}

/// Peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Opens the file and reports whether it is accepted, and the peak memory in KiB.
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
fn worst_case_files_stay_within_memory_and_time() {
    const CHILD: &str = "GGUF_MEMORY_TEST_FILE";
    if let Some(path) = std::env::var_os(CHILD) {
        return open(path.as_ref());
    }
    let dir = tempfile::tempdir().unwrap();
    for Case { name, accepted, pieces, len } in cases() {
        let path = dir.path().join(name);
        let mut file = File::create(&path).unwrap();
        file.set_len(len).unwrap();
        for (offset, bytes) in pieces {
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(&bytes).unwrap();
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["worst_case_files_stay_within_memory_and_time", "--exact", "--nocapture"])
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
