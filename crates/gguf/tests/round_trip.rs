//! The reader reads what the writer writes, and the writer refuses invalid input.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use bytes::Bytes;
use gguf::{Array, Gguf, Layout, Metadata, Tensor, Value, WriteError, write};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use quant::Format;

/// Arrays nested up to `depth` deep, without NaN, which never compares equal.
fn arrays(depth: u32) -> BoxedStrategy<Array> {
    let flat = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Array::U8),
        vec(any::<i8>(), 0..9).prop_map(Array::I8),
        vec(any::<u16>(), 0..9).prop_map(Array::U16),
        vec(any::<i16>(), 0..9).prop_map(Array::I16),
        vec(any::<u32>(), 0..9).prop_map(Array::U32),
        vec(any::<i32>(), 0..9).prop_map(Array::I32),
        vec(any::<f32>(), 0..9).prop_map(Array::F32),
        vec(any::<bool>(), 0..9).prop_map(Array::Bool),
        vec(any::<String>(), 0..9).prop_map(Array::String),
        vec(any::<u64>(), 0..9).prop_map(Array::U64),
        vec(any::<i64>(), 0..9).prop_map(Array::I64),
        vec(any::<f64>(), 0..9).prop_map(Array::F64),
    ];
    match depth {
        1 => flat.boxed(),
        _ => prop_oneof![3 => flat, 1 => vec(arrays(depth - 1), 0..4).prop_map(Array::Array)].boxed(),
    }
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<f32>().prop_map(Value::F32),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::String),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f64>().prop_map(Value::F64),
        arrays(4).prop_map(Value::Array),
    ]
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let alignment = proptest::option::of((0u32..12).prop_map(|power| 1u32 << power));
    (btree_map(".{1,20}", values(), 0..12), alignment).prop_map(|(keys, alignment)| {
        let mut metadata: Metadata = keys.into_iter().collect();
        // Keys that this crate interprets.
        for key in ["general.alignment", "split.count", "split.no"] {
            metadata.remove(key);
        }
        if let Some(alignment) = alignment {
            metadata.insert("general.alignment", alignment);
        }
        metadata
    })
}

fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let format = proptest::sample::select(&Format::ALL[..]);
    let shape = (1usize..3, vec(1usize..5, 0..4));
    btree_map(".{1,20}", (format, shape, any::<u8>()), 0..8).prop_map(|tensors| {
        tensors
            .into_iter()
            .map(|(name, (format, (blocks, others), byte))| {
                let shape: Vec<usize> = [vec![blocks * format.block_len()], others].concat();
                let len = blocks * format.block_bytes() * shape.iter().skip(1).product::<usize>();
                let data = (0..len).map(|i| byte.wrapping_add(i as u8)).collect::<Vec<_>>().into();
                Tensor { name, shape, format, data }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn written_files_are_read_back(metadata in metadata(), tensors in tensors()) {
        let written = write(Vec::new(), &metadata, &tensors).unwrap();
        let mut layout = Layout::new(&metadata).unwrap();
        for tensor in &tensors {
            layout.tensor(tensor.name.clone(), &tensor.shape, tensor.format).unwrap();
        }
        prop_assert_eq!(layout.file_len(), written.len() as u64);

        let bytes = Bytes::from(written.clone());
        let read = Gguf::from_bytes(bytes.clone()).unwrap();
        prop_assert_eq!(read.metadata(), &metadata);
        prop_assert!(read.metadata().iter().map(|(k, _)| k).eq(metadata.iter().map(|(k, _)| k)));
        prop_assert!(read.tensors().eq(&tensors));
        for tensor in read.tensors() {
            prop_assert!(bytes.as_ptr_range().contains(&tensor.data.as_ptr()), "a copy");
        }
        prop_assert_eq!(write(Vec::new(), read.metadata(), read.tensors()).unwrap(), written);
    }

    /// A file with any single byte changed is either refused or read, without a panic.
    #[test]
    fn a_changed_byte_never_panics(
        metadata in metadata(),
        tensors in tensors(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut written = write(Vec::new(), &metadata, &tensors).unwrap();
        let place = place.index(written.len());
        written[place] = byte;
        if let Ok(read) = Gguf::from_bytes(written.into()) {
            read.tensors().for_each(|tensor| assert!(tensor.rows() * tensor.row_bytes() == tensor.data.len()));
        }
    }
}

/// Asserts that the result is an error whose message contains all of `expect`.
fn refused<T>(result: Result<T, WriteError>, expect: &[&str]) {
    let message = result.map(|_| ()).unwrap_err().to_string();
    for part in expect {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

fn layout() -> Layout {
    Layout::new(&Metadata::default()).unwrap()
}

#[test]
fn invalid_keys_and_tensors_are_refused() {
    let with = |key: &str, value: Value| Layout::new(&[(key, value)].into_iter().collect::<Metadata>());
    let deep = (0..4).fold(Array::U8(vec![1]), |inner, _| Array::Array(vec![inner]));
    refused(with("", Value::U8(1)), &["metadata key \"\"", "empty"]);
    refused(with(&"k".repeat(65536), Value::U8(1)), &["65536 bytes"]);
    refused(with("deep", Value::Array(deep)), &["metadata key \"deep\"", "deeper than 4"]);
    refused(with("general.alignment", Value::U32(48)), &["general.alignment", "u32 48", "power of two"]);
    refused(with("general.alignment", Value::U64(32)), &["general.alignment", "u64 32"]);

    refused(layout().tensor("", &[4], Format::F32), &["tensor \"\"", "empty"]);
    refused(layout().tensor("t", &[1; 5], Format::F32), &["tensor \"t\"", "5 dimensions"]);
    refused(layout().tensor("t", &[4, 0], Format::F32), &["tensor \"t\"", "[4, 0]", "zero"]);
    refused(layout().tensor("t", &[33], Format::Q8_0), &["tensor \"t\"", "33 values", "Q8_0"]);
    refused(layout().tensor("t", &[usize::MAX, 2], Format::F32), &["tensor \"t\"", "overflow"]);
    refused(
        layout().tensor("t", &[1], Format::F32).unwrap().tensor("t", &[1], Format::F32),
        &["already used"],
    );
}

#[test]
fn data_must_be_complete_and_in_order() {
    let writer = || {
        let mut layout = layout();
        layout.tensor("a", &[4], Format::F32).unwrap().tensor("b", &[2], Format::F32).unwrap();
        layout.begin(Vec::new()).unwrap()
    };
    refused(writer().finish(), &["\"a\" has no data"]);
    refused(writer().tensor("b", &[0; 8]), &["tensor \"b\"", "next", "a"]);
    refused(writer().tensor("a", &[0; 15]), &["tensor \"a\"", "15 bytes", "need 16"]);
    refused(writer().tensor("a", &[0; 17]), &["tensor \"a\"", "17 bytes", "need 16"]);
    refused(
        writer().tensor_with("a", |out| {
            out.write_all(&[0; 12])?;
            out.write_all(&[0; 5])
        }),
        &["17 bytes", "need 16"],
    );

    let mut failed = writer();
    refused(failed.tensor_with("a", |_| Err(std::io::Error::other("disk on fire"))), &["disk on fire"]);
    refused(failed.finish(), &["\"a\" has no data"]);

    let mut complete = writer();
    complete.tensor("a", &[1; 16]).unwrap();
    complete.tensor_with("b", |out| (0..8).try_for_each(|_| out.write_all(&[2]))).unwrap();
    refused(complete.tensor("c", &[]), &["tensor \"c\"", "nothing"]);
    let read = Gguf::from_bytes(complete.finish().unwrap().into()).unwrap();
    assert_eq!(read.tensor("b").unwrap().data, [2; 8].as_slice());
}
