//! The file: whole ones come back, others are refused and say why.

use std::path::Path;

use backend::KvFormat;
use proptest::prelude::*;
use tempfile::TempDir;
use trace::{Meta, Shape, Trace, Writer};

fn meta() -> Meta {
    Meta {
        producer: "a \"test\" \u{1}é".into(),
        backend: "cpu".into(),
        facts: "one; two".into(),
        model: "x.gguf".into(),
        model_digest: Some("abc".into()),
        n_layer: 3,
        types: "F32 7, Q4_K 21".into(),
        kv: KvFormat::F16,
        tokens: vec![1, 15043, u32::MAX],
    }
}

fn shape(name: &str, rows: usize, cols: usize) -> Shape {
    Shape { name: name.into(), rows, cols }
}

fn shapes() -> [Shape; 2] {
    [shape("b", 3, 2), shape("a", 2, 3)]
}

fn write(path: &Path, meta: &Meta) {
    let mut writer = Writer::create(path, meta, shapes()).expect("a new file");
    writer.write("a", 1, &[4.0, 5.0, 6.0]).expect("a row");
    writer.write("b", 0, &[0.5, -0.0]).expect("a row");
    writer.write("a", 0, &[f32::NAN, 2.0, f32::INFINITY]).expect("a row");
    writer.write("b", 1, &[1.0, 2.0, 3.0, 4.0]).expect("two rows");
    writer.finish().expect("all rows are there");
}

#[test]
fn what_is_written_is_read() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    for meta in [meta(), Meta { model_digest: None, tokens: vec![], kv: KvFormat::F32, ..meta() }] {
        write(&path, &meta);
        let trace = Trace::open(&path).expect("a trace");
        assert_eq!(trace.meta(), &meta);
        assert_eq!(trace.values().cloned().collect::<Vec<_>>(), shapes());
        let bits = |values: Vec<f32>| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let expected = vec![f32::NAN, 2.0, f32::INFINITY, 4.0, 5.0, 6.0];
        assert_eq!(bits(trace.read("a").expect("a value")), bits(expected));
        assert_eq!(bits(trace.read_rows("b", 1..3).expect("rows")), bits(vec![1.0, 2.0, 3.0, 4.0]));
        assert!(trace.read_rows("b", 3..3).expect("no rows").is_empty());
        let error = trace.read("c").expect_err("there is none").to_string();
        assert!(error.contains("`c` is not in the trace") && error.contains("t.safetensors"), "{error}");
        let error = trace.read_rows("b", 2..4).expect_err("three rows").to_string();
        assert!(error.contains("`b` has 3 rows, not 2..4"), "{error}");
    }
}

/// The data must begin at a multiple of 8 bytes, as other readers expect.
#[test]
fn data_is_aligned() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    for len in 0..8 {
        write(&path, &Meta { model: "x".repeat(len), ..meta() });
        let bytes = std::fs::read(&path).expect("the file");
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert_eq!((header % 8, bytes.len() as u64), (0, 8 + header + 4 * 12));
    }
}

#[test]
fn only_whole_traces_have_the_name() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    write(&path, &meta());
    let before = std::fs::read(&path).expect("the file");

    let mut writer = Writer::create(&path, &meta(), shapes()).expect("a new file");
    writer.write("a", 0, &[0.0; 6]).expect("rows");
    writer.write("b", 0, &[0.0; 4]).expect("rows");
    let error = writer.finish().expect_err("a row of b is missing").to_string();
    assert!(error.contains("`b` has 3 rows, but 2 were written"), "{error}");
    drop(Writer::create(&path, &meta(), shapes()).expect("a new file"));
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1, "nothing is left behind");
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    let mut writer = Writer::create(&path, &meta(), shapes()).expect("a new file");
    for (name, first, len, said) in [
        ("c", 0, 2, "was not announced"),
        ("a", 0, 4, "has 2 rows of 3, not 4 values from row 0 on"),
        ("a", 1, 6, "has 2 rows of 3, not 6 values from row 1 on"),
        ("a", usize::MAX, 3, "has 2 rows of 3"),
    ] {
        let error = writer.write(name, first, &vec![0.0; len]).expect_err("a mistake").to_string();
        assert!(error.contains(said), "{error}");
    }
    // Rows written twice do not stand for others.
    writer.write("b", 2, &[0.0; 2]).expect("a row");
    writer.write("b", 0, &[0.0; 2]).expect("a row");
    let error = writer.write("b", 0, &[0.0; 4]).expect_err("row 0 again").to_string();
    assert!(error.contains("rows of 0 to 1 before"), "{error}");
    writer.write("b", 1, &[0.0; 2]).expect("a row");
    for (values, said) in [
        ([shape("a", 1, 1), shape("a", 1, 1)], "named twice"),
        ([shape("a", 1, 1), shape("b", usize::MAX, 8)], "empty or too large"),
        ([shape("a", 1, 1), shape("b", 3, 0)], "empty or too large"),
    ] {
        let error = Writer::create(&path, &meta(), values).expect_err("a mistake").to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// A file with this header before `data` bytes.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn damaged_files_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    write(&path, &meta());
    let good = std::fs::read(&path).expect("the file");
    let header = |tensor: &str| {
        let meta = r#""format":"rustorch-trace","version":"1","producer":"","backend":"","facts":"","model":"",
            "n_layer":"1","types":"","kv":"f16","tokens":"1""#;
        format!(r#"{{"__metadata__":{{{meta}}},"a":{tensor}}}"#)
    };
    let whole = header(r#"{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}"#);
    std::fs::write(&path, file(&whole, 8)).expect("written");
    Trace::open(&path).expect("what the damaged ones are made from");

    for (bytes, said) in [
        (vec![], "it has 0 bytes"),
        (good[..20].to_vec(), "bytes, the file has 20;"),
        (vec![255; 64], "its first 8 bytes say"),
        (good[..good.len() - 1].to_vec(), "tensor `a`"),
        (file(&"[".repeat(100_000), 0), "its header is not one of a trace"),
        (file("{}", 0), "its header is not one of a trace"),
        (file(r#"{"__metadata__":{"format":"pt"}}"#, 0), "`format` is \"pt\", expected \"rustorch-trace\""),
        (file(&whole.replace(r#""version":"1""#, r#""version":"2""#), 8), "`version` is \"2\""),
        (file(&whole.replace(r#""n_layer":"1""#, r#""n_layer":"-1""#), 8), "`n_layer` is \"-1\""),
        (file(&whole.replace(r#""kv":"f16""#, r#""kv":"q5_0""#), 8), "`kv` is \"q5_0\""),
        (file(&whole.replace(r#""tokens":"1""#, r#""tokens":"1,x""#), 8), "`tokens` is \"1,x\""),
        (file(&whole.replace(r#""types":"","#, ""), 8), "lack the key `types`"),
        (file(&header(r#"{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}"#), 8), "F16 [2, 2]"),
        (file(&header(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#), 8), "F32 [2]"),
        (file(&header(r#"{"dtype":"F32","shape":[2,2],"data_offsets":[0,8]}"#), 8), "F32 [2, 2]"),
        (file(&header(r#"{"dtype":"F32","shape":[1,2],"data_offsets":[8,0]}"#), 8), "bytes [8, 0]"),
        (file(&header(r#"{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}"#), 8), "bytes [8, 16] of 8"),
        (
            file(&header(r#"{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}"#), 8),
            "F32 [4611686018427387904, 4]",
        ),
        (
            file(&header(r#"{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}"#), 8),
            "F32 [0",
        ),
        (
            file(&header(r#"{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0]}"#), 8),
            "0] at",
        ),
    ] {
        std::fs::write(&path, &bytes).expect("written");
        let error = Trace::open(&path).expect_err(said).to_string();
        assert!(error.contains(said) && error.contains("t.safetensors: not a trace"), "{error}");
    }
    let error = Trace::open(folder.path().join("none")).expect_err("no file").to_string();
    assert!(error.contains("none: cannot open it"), "{error}");
}

/// Whatever byte is damaged, a trace is refused or can be read to its end.
#[test]
fn damage_is_never_fatal() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    write(&path, &meta());
    let good = std::fs::read(&path).expect("the file");
    let (mut refused, mut read) = (0, 0);
    for at in 0..good.len() {
        for mask in [1, 32] {
            let mut bytes = good.clone();
            bytes[at] ^= mask;
            std::fs::write(&path, &bytes).expect("written");
            match Trace::open(&path) {
                Err(_) => refused += 1,
                Ok(trace) => {
                    for shape in trace.values() {
                        let values = trace.read(&shape.name).expect("what is announced");
                        assert_eq!(values.len(), shape.rows * shape.cols);
                    }
                    read += 1;
                }
            }
        }
    }
    assert!(refused > 50 && read > 50, "{refused} refused, {read} read");
}

/// A way to damage a file.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    /// The length of the header becomes another.
    Length(u64),
    /// Some bytes are left out.
    Drop(usize, usize),
    /// A number of the header becomes another.
    Number(usize, u64),
}

impl Damage {
    fn any() -> impl Strategy<Value = Damage> {
        let at = 0..usize::MAX;
        prop_oneof![
            at.clone().prop_map(Damage::Cut),
            (at.clone(), any::<u8>()).prop_map(|(at, mask)| Damage::Flip(at, mask)),
            prop_oneof![any::<u64>(), 0..2000u64].prop_map(Damage::Length),
            (at.clone(), 1..9usize).prop_map(|(at, len)| Damage::Drop(at, len)),
            (at, prop_oneof![any::<u64>(), 0..64u64]).prop_map(|(nth, number)| Damage::Number(nth, number)),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.len() < 9 {
            return;
        }
        let len = bytes.len();
        match *self {
            Damage::Cut(at) => bytes.truncate(at % len),
            Damage::Flip(at, mask) => bytes[at % len] ^= mask,
            Damage::Length(length) => bytes[..8].copy_from_slice(&length.to_le_bytes()),
            Damage::Drop(at, count) => {
                let at = at % len;
                bytes.drain(at..len.min(at + count));
            }
            Damage::Number(nth, number) => {
                let is_digit = |at: &usize| bytes[*at].is_ascii_digit() && !bytes[*at - 1].is_ascii_digit();
                let starts: Vec<usize> = (8..len).filter(is_digit).collect();
                let Some(&start) = starts.get(nth % starts.len().max(1)) else { return };
                let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                bytes.splice(start..start + digits, number.to_string().into_bytes());
                // The header keeps its place.
                let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
                let grown = length.wrapping_add(bytes.len() as u64).wrapping_sub(len as u64);
                bytes[..8].copy_from_slice(&grown.to_le_bytes());
            }
        }
    }
}

/// Mangled, a file is refused, or holds what it announces and no more.
fn is_refused_or_whole(damage: &[Damage]) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    write(&path, &meta());
    let mut bytes = std::fs::read(&path).expect("the file");
    damage.iter().for_each(|damage| damage.apply(&mut bytes));
    std::fs::write(&path, &bytes).expect("written");
    if let Ok(trace) = Trace::open(&path) {
        for Shape { name, rows, cols } in trace.values() {
            let numbers = rows.checked_mul(*cols).expect("no more than the file has");
            assert!(numbers * 4 <= bytes.len());
            assert_eq!(trace.read(name).expect("what is announced").len(), numbers);
        }
    }
}

proptest! {
    #[test]
    fn mangled_files_are_refused_or_whole(damage in prop::collection::vec(Damage::any(), 1..4)) {
        is_refused_or_whole(&damage);
    }
}

/// Sizes that overflow, of a tensor that ends before it begins.
#[test]
fn shapes_beyond_all_counting_are_refused() {
    let damage =
        [Damage::Number(14_207_782_391_551_167_774, 1 << 61), Damage::Number(12_597_979_700_355_099_386, 25)];
    is_refused_or_whole(&damage);
}

/// A mistyped path, perhaps that of the model, loses no file.
#[test]
fn only_traces_are_replaced() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    for (there, is_replaced) in [(&b"GGUF and weights"[..], false), (b"", true)] {
        std::fs::write(&path, there).expect("written");
        match Writer::create(&path, &meta(), shapes()) {
            Ok(_) => assert!(is_replaced),
            Err(error) => {
                assert!(!is_replaced && error.to_string().contains("is there and is no trace"), "{error}");
                assert_eq!(std::fs::read(&path).expect("the file"), there);
            }
        }
    }
    let error = Writer::create(&folder, &meta(), shapes()).expect_err("a folder").to_string();
    assert!(error.contains("is there and is no trace"), "{error}");
}
