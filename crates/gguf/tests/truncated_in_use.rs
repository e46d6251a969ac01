//! Files that shrink or are modified while in use: reading continues, and the change is reported.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use gguf::{Error, Gguf, Layout, Metadata};
use quant::Format;

const LEN: usize = 1 << 20;

/// A file with one tensor of [`LEN`] bytes, all 7.
fn make(path: &Path) {
    let mut layout = Layout::new(&Metadata::default()).unwrap();
    layout.tensor("a", &[LEN / 4], Format::F32).unwrap();
    let mut writer = layout.begin(std::fs::File::create(path).unwrap()).unwrap();
    writer.tensor("a", &vec![7; LEN]).unwrap();
    writer.finish().unwrap();
}

fn truncate(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Reads every page of the tensor.
fn sum(gguf: &Gguf) -> u64 {
    gguf.tensor("a").unwrap().data.iter().map(|&byte| u64::from(byte)).sum()
}

fn assert_reported(gguf: &Gguf, path: &Path) {
    match gguf.check_intact() {
        Err(error @ Error::TruncatedInUse { .. }) => {
            let message = error.to_string();
            assert!(message.starts_with(&path.display().to_string()), "{message}");
            assert!(message.contains("truncated while in use"), "{message}");
        }
        other => panic!("expected a report, got {other:?}"),
    }
}

#[test]
fn lost_pages_read_as_zeros() {
    gguf::survive_truncation().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    make(&path);
    let gguf = Gguf::open(&path).unwrap();
    gguf.check_intact().unwrap();
    truncate(&path, 4096 * 2);
    let left = sum(&gguf);
    assert!(left > 0 && left < 7 * 4096 * 2, "{left}");
    assert_reported(&gguf, &path);

    // The loss is permanent: a file that grows again does not correct the zeros read before.
    truncate(&path, 4 * LEN as u64);
    assert_reported(&gguf, &path);
}

#[test]
fn truncation_within_the_last_page_is_reported_without_a_signal() {
    gguf::survive_truncation().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    make(&path);
    let gguf = Gguf::open(&path).unwrap();
    truncate(&path, gguf.file_len() - 1);
    sum(&gguf);
    assert_reported(&gguf, &path);
}

#[test]
fn several_threads_and_files() {
    gguf::survive_truncation().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..8).map(|i| dir.path().join(format!("{i}.gguf"))).collect();
    let files: Vec<_> = paths
        .iter()
        .map(|path| {
            make(path);
            Gguf::open(path).unwrap()
        })
        .collect();
    // Files with odd numbers are truncated. Four threads read all files while other mappings are created and dropped.
    for path in paths.iter().skip(1).step_by(2) {
        truncate(path, 512);
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| files.iter().map(sum).sum::<u64>());
        }
        scope.spawn(|| {
            for _ in 0..200 {
                Gguf::open(&paths[0]).unwrap().check_intact().unwrap();
            }
        });
    });
    for (i, (gguf, path)) in files.iter().zip(&paths).enumerate() {
        if i % 2 == 0 {
            gguf.check_intact().unwrap();
            assert_eq!(sum(gguf), 7 * LEN as u64);
        } else {
            assert_reported(gguf, path);
        }
    }
}

#[test]
fn a_file_modified_in_place_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    make(&path);
    let gguf = Gguf::open(&path).unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    // File times have the resolution of the system's clock tick.
    while std::fs::metadata(&path).unwrap().modified().unwrap() == before {
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::End(-4)).unwrap();
        file.write_all(&[8; 4]).unwrap();
    }
    match gguf.check_intact() {
        Err(error @ Error::ModifiedInUse { .. }) => {
            assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        }
        other => panic!("expected a report, got {other:?}"),
    }
}

/// A new file with the same name leaves the mapped one intact.
#[test]
fn a_replaced_file_stays_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let [path, new] = ["model.gguf", "new.gguf"].map(|name| dir.path().join(name));
    make(&path);
    let gguf = Gguf::open(&path).unwrap();
    std::fs::write(&new, "another").unwrap();
    std::fs::rename(&new, &path).unwrap();
    gguf.check_intact().unwrap();
    assert_eq!(sum(&gguf), 7 * LEN as u64);
}

#[test]
fn a_file_read_into_memory_can_be_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    make(&path);
    let gguf = Gguf::read(&path).unwrap();
    truncate(&path, 0);
    assert_eq!(sum(&gguf), 7 * LEN as u64);
    gguf.check_intact().unwrap();
}

#[test]
fn a_tensor_outlives_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    make(&path);
    let data = Gguf::open(&path).unwrap().tensor("a").unwrap().data.clone();
    std::fs::remove_file(&path).unwrap();
    assert!(data.iter().all(|&byte| byte == 7));
}
