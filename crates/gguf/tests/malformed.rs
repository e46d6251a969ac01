//! What must be refused while reading a file, and what the message must say.

use std::collections::HashSet;

use bytes::Bytes;
use gguf::Gguf;
use testkit::malformed::{Malformed, Stage, cases, valid};

fn read(bytes: &[u8]) -> Result<Gguf, gguf::Error> {
    Gguf::from_bytes(Bytes::copy_from_slice(bytes))
}

#[test]
fn the_files_that_cases_are_made_from_are_valid() {
    for (name, bytes) in valid() {
        if let Err(error) = read(&bytes) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn names_and_contents_are_unique() {
    let cases = cases();
    let names: HashSet<&str> = cases.iter().map(|case| case.name).collect();
    let contents: HashSet<&[u8]> = cases.iter().map(|case| case.bytes.as_slice()).collect();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        assert!(contents.contains(case.bytes.as_slice()));
        let same: Vec<&str> = cases.iter().filter(|c| c.bytes == case.bytes).map(|c| c.name).collect();
        assert_eq!(same.len(), 1, "{same:?} are the same file");
    }
    assert!(cases.len() >= 200, "{}", cases.len());
}

#[test]
fn each_case_is_refused_at_its_stage_with_the_place_and_the_reason() {
    let mut wrong = vec![];
    for Malformed { name, bytes, stage, expect } in cases() {
        match (stage, read(&bytes)) {
            (Stage::File, Ok(_)) => wrong.push(format!("{name}: accepted")),
            (Stage::File, Err(error)) => {
                let message = error.to_string();
                let missing: Vec<_> = expect.iter().filter(|&&part| !message.contains(part)).collect();
                if !missing.is_empty() {
                    wrong.push(format!("{name}: no {missing:?} in: {message}"));
                }
            }
            (_, Err(error)) => wrong.push(format!("{name}: refused too early: {error}")),
            (_, Ok(_)) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_message_names_the_file_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some model.gguf");
    for case in cases().iter().filter(|case| case.stage == Stage::File) {
        std::fs::write(&path, &case.bytes).unwrap();
        let message = Gguf::open(&path).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
        assert!(message.is_ascii() && message.len() < 1000, "{message}");
        let advice = ["convert", "download", "give a GGUF file", "rename"];
        assert!(advice.iter().any(|word| message.contains(word)), "{message}");
    }
}

/// Every byte of a valid file is needed, but for the padding after the last tensor.
#[test]
fn a_file_cut_anywhere_is_refused() {
    for (name, bytes) in valid() {
        let whole = read(&bytes).unwrap();
        let last = whole.tensors().map(|tensor| tensor.data.as_ptr() as usize + tensor.data.len()).max();
        let start = whole.tensors().map(|tensor| tensor.data.as_ptr() as usize).min();
        assert!(last > start, "{name}");
        // The last tensors of both files end where the file ends, so that no cut is harmless.
        for len in 0..bytes.len() {
            let error = read(&bytes[..len]).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("offset 0x"), "{name} cut to {len}: {error}");
        }
    }
}
