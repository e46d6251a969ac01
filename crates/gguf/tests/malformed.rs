//! Malformed files must be refused with messages that say where and why.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use gguf::Gguf;
use testkit::malformed::{Malformed, Stage, cases, valid};

fn read(bytes: &[u8]) -> Result<Gguf, gguf::Error> {
    Gguf::from_bytes(Bytes::copy_from_slice(bytes))
}

#[test]
fn base_files_of_the_cases_are_valid() {
    for (name, bytes) in valid() {
        if let Err(error) = read(&bytes) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn names_and_contents_are_unique() {
    let cases = cases();
    let mut names = HashSet::new();
    for case in &cases {
        assert!(names.insert(case.name), "{:?} is the name of two cases", case.name);
    }
    let mut contents = HashMap::new();
    for case in &cases {
        if let Some(other) = contents.insert(case.bytes.as_slice(), case.name) {
            panic!("{other:?} and {:?} are the same file", case.name);
        }
    }
}

#[test]
fn cases_are_refused_at_their_stage_with_location_and_reason() {
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
fn messages_name_the_file_and_a_fix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some model.gguf");
    for case in cases().iter().filter(|case| case.stage == Stage::File) {
        std::fs::write(&path, &case.bytes).unwrap();
        let message = Gguf::open(&path).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
        assert!(!message.contains(char::is_control) && message.len() < 1000, "{message}");
        let advice = ["convert", "download", "give a GGUF file", "rename"];
        assert!(advice.iter().any(|word| message.contains(word)), "{message}");
    }
}

/// Every byte of these files is significant: nothing follows the data of the last tensor.
#[test]
fn files_truncated_anywhere_are_refused() {
    for (name, bytes) in valid() {
        for len in 0..bytes.len() {
            match read(&bytes[..len]) {
                Ok(_) => panic!("{name} cut to {len} of {} bytes is accepted", bytes.len()),
                Err(error) => {
                    assert!(error.to_string().contains("offset 0x"), "{name} cut to {len}: {error}")
                }
            }
        }
    }
}
