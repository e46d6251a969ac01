//! Split models with missing, renamed or mixed parts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, Tensor, Value, write};
use quant::Format;

/// The name of part `number`.
fn name(number: u32, count: u32) -> String {
    format!("model-{number:05}-of-{count:05}.gguf")
}

/// Contents of a part, which tests modify before writing.
struct Part {
    metadata: Metadata,
    tensors: Vec<Tensor>,
}

/// `count` parts of one tensor each, `t1` and so on, whose bytes are the number of the part.
fn parts(count: u32) -> Vec<Part> {
    (1..=count)
        .map(|number| {
            let mut metadata = Metadata::default();
            if number == 1 {
                metadata.insert("general.architecture", "llama");
            }
            metadata.insert("split.no", (number - 1) as u16);
            metadata.insert("split.count", count as u16);
            metadata.insert("split.tensors.count", count as i32);
            let data = vec![number as u8; 40].into();
            let tensor = Tensor { name: format!("t{number}"), shape: vec![10], format: Format::F32, data };
            Part { metadata, tensors: vec![tensor] }
        })
        .collect()
}

/// Writes the parts and returns the path of the first.
fn save(dir: &Path, parts: &[Part]) -> PathBuf {
    for (part, number) in parts.iter().zip(1..) {
        let bytes = write(Vec::new(), &part.metadata, &part.tensors).unwrap();
        fs::write(dir.join(name(number, parts.len() as u32)), bytes).unwrap();
    }
    dir.join(name(1, parts.len() as u32))
}

/// Asserts that opening fails with a message that contains all of `expect`.
fn refused(path: &Path, expect: &[&str]) {
    let message = Gguf::open(path).unwrap_err().to_string();
    for part in expect {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

/// [`refused`], for parts modified by `change`.
fn refused_with(count: u32, change: impl FnOnce(&mut [Part]), expect: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut parts = parts(count);
    change(&mut parts);
    refused(&save(dir.path(), &parts), expect);
}

#[test]
fn the_first_part_opens_all_parts() {
    let dir = tempfile::tempdir().unwrap();
    let gguf = Gguf::open(save(dir.path(), &parts(12))).unwrap();
    let names: Vec<&str> = gguf.tensors().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12"]);
    assert!(gguf.tensor("t7").unwrap().data.iter().all(|&byte| byte == 7));
    assert_eq!(gguf.metadata().iter().map(|(key, _)| key).collect::<Vec<_>>(), ["general.architecture"]);
    let on_disk: u64 =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(gguf.file_len(), on_disk);
    assert!(gguf.files().map(|(file, _)| file).any(|file| file.ends_with("model-00012-of-00012.gguf")));
}

#[test]
fn missing_parts_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = save(dir.path(), &parts(5));
    fs::remove_file(dir.path().join(name(2, 5))).unwrap();
    refused(&first, &["split into 5 files and", "model-00002-of-00005.gguf is missing", "download"]);
    fs::remove_file(dir.path().join(name(5, 5))).unwrap();
    refused(&first, &["model-00002-of-00005.gguf, ", "model-00005-of-00005.gguf are missing"]);
}

#[test]
fn opening_another_part_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), &parts(3));
    refused(&dir.path().join(name(2, 3)), &["part 2", "3 files", "model-00001-of-00003.gguf"]);
}

#[test]
fn a_renamed_first_part_reports_its_original_name() {
    let dir = tempfile::tempdir().unwrap();
    let first = save(dir.path(), &parts(3));
    let renamed = dir.path().join("my model.gguf");
    fs::rename(first, &renamed).unwrap();
    refused(&renamed, &["my model.gguf: ", "3 parts", "-00001-of-00003.gguf"]);
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    refused_with(
        3,
        |parts| {
            parts[1].metadata.insert("split.no", 2u16);
        },
        &["model-00002-of-00003.gguf: ", "part 3", "says 2"],
    );
    refused_with(
        3,
        |parts| {
            parts[2].metadata.insert("split.count", 4u16);
        },
        &["model-00003-of-00003.gguf: ", "4 files", "of 3"],
    );
    refused_with(
        3,
        |parts| {
            parts[2].metadata.remove("split.count");
        },
        &["model-00003-of-00003.gguf: ", "1 files", "of 3"],
    );
    refused_with(
        2,
        |parts| parts[1].tensors[0].name = "t1".to_owned(),
        &["model-00002-of-00002.gguf: ", "tensor \"t1\"", "earlier part"],
    );
    refused_with(
        2,
        |parts| {
            parts[0].metadata.insert("split.tensors.count", 3i32);
        },
        &["model-00001-of-00002.gguf: ", "contain 2 tensors", "is 3"],
    );
}

#[test]
fn keys_of_wrong_type_are_refused_in_every_part() {
    refused_with(
        2,
        |parts| {
            parts[1].metadata.insert("split.no", "one");
        },
        &["model-00002-of-00002.gguf: ", "\"split.no\" (at offset 0x", "string \"one\""],
    );
    refused_with(
        2,
        |parts| {
            parts[0].metadata.insert("split.tensors.count", -2i32);
        },
        &["model-00001-of-00002.gguf: ", "\"split.tensors.count\" (at offset 0x", "i32 -2"],
    );
}

#[test]
fn a_damaged_part_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = save(dir.path(), &parts(3));
    let third = dir.path().join(name(3, 3));
    fs::write(&third, &fs::read(&third).unwrap()[..100]).unwrap();
    refused(&first, &["model-00003-of-00003.gguf: ", "offset 0x"]);
}

#[test]
fn the_maximum_number_of_missing_parts_is_reported_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let mut part = parts(1).remove(0);
    part.metadata.insert("split.count", Value::U16(65535));
    let path = dir.path().join(name(1, 65535));
    fs::write(&path, write(Vec::new(), &part.metadata, &part.tensors).unwrap()).unwrap();
    refused(&path, &["65535 files", "model-00002-of-65535.gguf", "and 65526 more are missing"]);
}

/// Merging tools leave a count of 0.
#[test]
fn a_count_of_0_or_1_means_not_split() {
    for count in [0u16, 1] {
        let dir = tempfile::tempdir().unwrap();
        let mut part = parts(1).remove(0);
        part.metadata.insert("split.count", count);
        let path = dir.path().join("merged.gguf");
        fs::write(&path, write(Vec::new(), &part.metadata, &part.tensors).unwrap()).unwrap();
        assert_eq!(Gguf::open(path).unwrap().tensors().len(), 1);
    }
}
