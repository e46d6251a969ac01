//! Malformed key names, value types, scalars and strings.

use super::raw::{Raw, Value, array, id, le, string};
use super::{Malformed, Stage, refused};

/// A file whose second key is `bytes`; it starts at 0x29.
fn second(bytes: Vec<u8>) -> Raw {
    Raw::new().key("a", 7u32).raw_key(bytes)
}

/// As [`second`], followed by 64 bytes.
fn second_of_three(bytes: Vec<u8>) -> Raw {
    second(bytes).key("z", &*".".repeat(43))
}

/// A second key of this name, which may be invalid.
fn named(name: impl AsRef<[u8]>) -> Raw {
    second([string(name), le(id::U32), le(1u32)].concat())
}

/// Key `k` with one value.
fn value(id: u32, value: impl Into<Vec<u8>>) -> Raw {
    Raw::new().key("a", 7u32).key("k", (id, value))
}

/// Two keys of the same name.
fn twice(first: impl Into<Value>, then: impl Into<Value>) -> Raw {
    Raw::new().key("general.name", first).key("b", 1u8).key("general.name", then)
}

fn alignment(value: impl Into<Value>) -> Raw {
    Raw::new().key("general.alignment", value).tensor("t", &[8], 0, 0).data([0; 64])
}

fn split_count(value: impl Into<Value>) -> Raw {
    Raw::new().key("split.count", value)
}

pub(super) fn cases() -> Vec<Malformed> {
    let length = |len: u64| second_of_three([le(len), b"k".to_vec()].concat());
    let of_three = [
        ("key longer than the file", length(1000), &["0x31", "a key", "1000 bytes needed"][..]),
        ("key of 2^64-1 bytes", length(u64::MAX), &["18446744073709551615"]),
        ("key of 2^63 bytes", length(1 << 63), &["9223372036854775808"]),
    ];
    let long = second([string([b'k'; 65536]), le(id::U8), le(1u8)].concat());
    let of_two = [
        ("key of 65536 bytes", long, &["0x29", "65536 bytes", "at most 65535"][..]),
        ("key without a name", named(""), &["0x29", "empty"]),
        ("key of stray continuation bytes", named(b"ab\x80"), &["0x33", "UTF-8", "byte 2"]),
        ("key with an overlong zero", named(b"\xc0\x80"), &["UTF-8"]),
        ("key with a lone surrogate", named(b"\xed\xa0\x80"), &["UTF-8"]),
        ("key that ends inside a character", named(b"k\xe2\x96"), &["UTF-8", "byte 1"]),
    ];
    let escape = second([string("\x1b[2J"), le(99u32)].concat());
    let twice = [
        ("key twice", twice("x", "x"), &["key \"general.name\"", "0x47", "already used"][..]),
        ("key twice with other types", twice(1u8, "x"), &["key \"general.name\"", "already used"]),
        ("key without a type", second([string("key"), vec![0; 3]].concat()), &["key \"key\"", "value type"]),
        ("escape sequence in the key of a bad value", escape, &["key \"\\u{1b}[2J\"", "value type 99"]),
        ("part of a split model in memory", split_count(3u16), &["3 files", "path"]),
    ];
    let length = |len: u64, text: &[u8]| value(id::STRING, [le(len), text.to_vec()].concat());
    let values = [
        ("value type 13", value(13, le(1u64)), &["0x32", "value type 13"][..]),
        ("value type 256", value(256, le(1u64)), &["0x32", "value type 256"]),
        ("value type 2^32-1", value(u32::MAX, le(1u64)), &["value type 4294967295"]),
        ("u8 cut", value(id::U8, []), &["0x36", "a u8", "1 bytes needed, 0 left"]),
        ("i8 cut", value(id::I8, []), &["an i8"]),
        ("u16 cut", value(id::U16, [1]), &["a u16", "2 bytes needed, 1 left"]),
        ("i16 cut", value(id::I16, [1]), &["an i16"]),
        ("u32 cut", value(id::U32, [1; 3]), &["a u32", "4 bytes needed, 3 left"]),
        ("i32 cut", value(id::I32, [1; 3]), &["an i32"]),
        ("f32 cut", value(id::F32, [1; 3]), &["an f32"]),
        ("bool cut", value(id::BOOL, []), &["a bool"]),
        ("u64 cut", value(id::U64, [1; 7]), &["a u64", "8 bytes needed, 7 left"]),
        ("i64 cut", value(id::I64, [1; 7]), &["an i64"]),
        ("f64 cut", value(id::F64, [1; 7]), &["an f64"]),
        ("bool 2", value(id::BOOL, [2]), &["0x36", "bool", "2, expected 0 or 1"]),
        ("bool 255", value(id::BOOL, [255]), &["bool", "255"]),
        ("string length cut", value(id::STRING, [1; 7]), &["a string", "7 left"]),
        ("string cut", length(5, b"four"), &["0x3e", "5 bytes needed, 4 left"]),
        ("string of 2^64-1 bytes", length(u64::MAX, &[b'x'; 9]), &["18446744073709551615"]),
        ("string of 2^40 bytes", length(1 << 40, &[b'x'; 9]), &["1099511627776"]),
        ("string in Latin-1", value(id::STRING, string(b"caf\xe9")), &["0x41", "UTF-8"]),
        ("string in UTF-16", value(id::STRING, string(b"\xff\xfea\0b\0")), &["UTF-8"]),
    ];
    let alignments = [
        ("alignment 0", alignment(0u32), &["0x31", "u32 0", "power of two"][..]),
        ("alignment 3", alignment(3u32), &["u32 3", "power of two"]),
        ("alignment 33", alignment(33u32), &["u32 33"]),
        ("alignment 2^32-1", alignment(u32::MAX), &["u32 4294967295"]),
        ("alignment as u64", alignment(32u64), &["u64 32", "a u32"]),
        ("alignment as i32", alignment(32i32), &["i32 32", "a u32"]),
        ("alignment as f32", alignment(32f32), &["f32 32", "a u32"]),
        ("alignment as bool", alignment((id::BOOL, [1])), &["bool true"]),
        ("alignment as string", alignment("32"), &["\"32\""]),
        ("alignment as array", alignment((id::ARRAY, array(id::U32, &[le(32u32)]))), &["array of 1 u32"]),
    ];
    let split_counts = [
        ("split.count as string", split_count("2"), &["0x2b", "string \"2\"", "integer"][..]),
        ("split.count negative", split_count(-1i32), &["i32 -1"]),
        ("split.count 2^32-1", split_count(u32::MAX), &["4294967295"]),
    ];
    [
        refused(Stage::File, "metadata key 2 of 3", of_three),
        refused(Stage::File, "metadata key 2 of 2", of_two),
        refused(Stage::File, "", twice),
        refused(Stage::File, "key \"k\"", values),
        refused(Stage::File, "general.alignment", alignments),
        refused(Stage::File, "split.count", split_counts),
    ]
    .concat()
}
