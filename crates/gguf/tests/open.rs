//! Opening existing files, missing files, and a hand-made version 1 file.

use bytes::Bytes;
use gguf::{Array, Error, Gguf, Metadata, Value};
use quant::Format;
use testkit::malformed::raw::Raw;

/// Also checks that a model can be shared between threads.
fn message<T: Send + Sync>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn paths_that_are_no_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let missing = message(Gguf::open(dir.path().join("missing.gguf")));
    assert!(missing.contains("missing.gguf: cannot open the file: "), "{missing}");
    let folder = message(Gguf::open(dir.path()));
    assert!(folder.contains("not a regular file"), "{folder}");
    if cfg!(unix) {
        let device = message(Gguf::open("/dev/null"));
        assert!(device.contains("/dev/null: this is not a regular file"), "{device}");
    }
    let path = dir.path().join("empty.gguf");
    std::fs::write(&path, "").unwrap();
    let empty = message(Gguf::open(path));
    assert!(empty.contains("an empty file"), "{empty}");
}

/// Released pages, and slices outside the mapping, read as before.
#[test]
fn released_bytes_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, testkit::fixtures::Spec::new(Format::Q8_0).file()).unwrap();
    let file = Gguf::open(&path).unwrap();
    let before: Vec<Vec<u8>> = file.tensors().map(|tensor| tensor.data.to_vec()).collect();
    file.tensors().for_each(|tensor| file.release(&tensor.data));
    file.release(&[]);
    file.release(&[1; 100]);
    let after: Vec<Vec<u8>> = file.tensors().map(|tensor| tensor.data.to_vec()).collect();
    assert!(before == after);
    file.check_intact().unwrap();
}

#[test]
fn messages_are_complete() {
    let case = |name: &str| {
        let found = testkit::malformed::cases().into_iter().find(|case| case.name == name);
        message(Gguf::from_bytes(found.unwrap().bytes.into()))
    };
    assert_eq!(
        case("offset 1"),
        "GGUF data in memory: tensor \"t\" (info at offset 0x18): offset 1 is not a multiple of the \
         alignment 32; the file is damaged or was written by a faulty tool; download or convert it again"
    );
    assert_eq!(
        case("string cut"),
        "GGUF data in memory: metadata key \"k\" (at offset 0x3e): the file ends inside a string: 5 bytes \
         needed, 4 left; the file is incomplete or damaged; download or convert it again"
    );
}

#[test]
fn data_in_memory_has_the_given_name() {
    let named = |bytes: &[u8]| Gguf::from_named_bytes("the box", Bytes::copy_from_slice(bytes));
    assert!(message(named(b"")).starts_with("the box: "));
    let file = gguf::write(Vec::new(), &Metadata::default(), &[]).unwrap();
    let gguf = named(&file).unwrap();
    assert_eq!(gguf.file(), "the box");
    assert_eq!(gguf.files().collect::<Vec<_>>(), [("the box", file.len() as u64)]);
}

/// Counts, lengths and dimensions have 32 bits in version 1; offsets have 64.
#[test]
fn hand_made_version_1_file() {
    let mut file = vec![];
    file.extend(b"GGUF\x01\0\0\0\x02\0\0\0\x03\0\0\0");
    file.extend(b"\x01\0\0\0s\x08\0\0\0\x02\0\0\0hi"); // s: string
    file.extend(b"\x01\0\0\0a\x09\0\0\0\x08\0\0\0\x02\0\0\0\x01\0\0\0x\0\0\0\0"); // a: array of strings
    file.extend(b"\x01\0\0\0n\x09\0\0\0\x09\0\0\0\x01\0\0\0\x03\0\0\0\x02\0\0\0\xff\xff\x07\0"); // n: [[i16]]
    file.extend(b"\x01\0\0\0p\x02\0\0\0\x02\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0"); // p: F16 [2, 3]
    file.extend(b"\x01\0\0\0q\x01\0\0\0\x01\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0"); // q: F32 [1]
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(1..=12);
    file.extend([0; 20]);
    file.extend(1f32.to_le_bytes());

    let gguf = Gguf::from_bytes(file.into()).unwrap();
    assert_eq!(gguf.version(), 1);
    assert_eq!(gguf.metadata().len(), 3);
    assert_eq!(gguf.metadata().str("s"), Ok(Some("hi")));
    assert_eq!(gguf.metadata().strings("a"), Ok(Some(["x".to_owned(), String::new()].as_slice())));
    assert_eq!(gguf.metadata().get("n"), Some(&Value::Array(Array::Array(vec![Array::I16(vec![-1, 7])]))));
    let p = gguf.tensor("p").unwrap();
    assert_eq!((p.format, p.shape.as_slice(), p.row_len(), p.rows()), (Format::F16, &[2, 3][..], 2, 3));
    assert_eq!(p.row(2), Some([9, 10, 11, 12].as_slice()));
    assert_eq!(p.row(3), None);
    assert_eq!(gguf.tensor("q").unwrap().data, 1f32.to_le_bytes().as_slice());
}

/// Some tools sort the list by name or leave gaps between tensors.
#[test]
fn data_may_be_in_another_order_than_the_list() {
    let file = Raw::new().tensor("last", &[8], 0, 128).tensor("first", &[8], 0, 0).tensor("mid", &[8], 0, 64);
    let data: Vec<u8> = (0..160).collect();
    let gguf = Gguf::from_bytes(file.data(data).bytes().into()).unwrap();
    let starts = gguf.tensors().map(|tensor| (tensor.name.as_str(), tensor.data[0]));
    assert!(starts.eq([("last", 128), ("first", 0), ("mid", 64)]));
}
