//! The compiled kernels belong to the sources beside them.

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// `kernels/build` needs bash and GNU's tools.
#[cfg(target_os = "linux")]
#[test]
fn kernels_are_compiled_from_these_sources() {
    let found = std::process::Command::new("bash").arg(folder().join("build")).arg("--hashes").output();
    let found = String::from_utf8(found.expect("bash").stdout).expect("names and hashes");
    let compiled = fs::read_to_string(folder().join("compiled/HASHES")).expect("compiled kernels");
    let stale = |line: &&str| !compiled.lines().any(|known| known == *line);
    let stale: Vec<&str> = found.lines().filter(stale).filter_map(|line| line.split(' ').next()).collect();
    assert!(stale.is_empty(), "{stale:?} have changed: run crates/backend-cuda/kernels/build");
    assert_eq!(found.lines().count(), compiled.lines().count(), "files in HASHES: {compiled}");
}

/// Architectures that have code of their own, as the fat binary's headers list them.
#[test]
fn kernels_have_code_for_each_architecture() {
    let mut files = 0;
    for entry in fs::read_dir(folder().join("compiled")).expect("compiled kernels").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "fatbin") {
            continue;
        }
        files += 1;
        let bytes = fs::read(&path).expect("a fat binary");
        let word = |at: usize| u32::from_le_bytes(bytes[at..][..4].try_into().expect("four bytes"));
        let half = |at: usize| u16::from_le_bytes(bytes[at..][..2].try_into().expect("two bytes"));
        assert_eq!(word(0), 0xba55_ed50, "{}", path.display());
        let (mut at, mut found) = (usize::from(half(6)), Vec::new());
        while at < bytes.len() {
            // Kind (1: PTX, 2: code), size of this header, size of the code, architecture.
            let is_code = half(at) == 2;
            found.push((is_code, word(at + 28)));
            at += word(at + 4) as usize + word(at + 8) as usize;
        }
        found.sort_unstable();
        let expected = [(false, 80), (true, 80), (true, 90), (true, 100)];
        assert_eq!(found, expected, "{}", path.display());
    }
    assert!(files > 0, "no fat binaries");
}
