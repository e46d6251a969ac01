//! Malformed key names, value types, scalars and strings.

use super::raw::{Raw, id, le, string};
use super::{Malformed, file};

/// A file whose second key is `bytes`; it starts at 0x29.
fn second(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    Raw::new().key("a", id::U32, le(7u32)).raw_key(bytes).bytes()
}

/// As [`second`], followed by 64 bytes.
fn second_of_more(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    Raw::new().key("a", id::U32, le(7u32)).raw_key(bytes).key("z", id::STRING, string([b'.'; 43])).bytes()
}

/// Key `k` with one value.
fn value(id: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    second([string("k"), le(id), value.as_ref().to_vec()].concat())
}

/// Two keys of the same name.
fn twice(first: (u32, Vec<u8>), then: (u32, Vec<u8>)) -> Vec<u8> {
    Raw::new()
        .key("general.name", first.0, first.1)
        .key("b", id::U8, le(1u8))
        .key("general.name", then.0, then.1)
        .bytes()
}

fn alignment(id: u32, value: Vec<u8>) -> Vec<u8> {
    Raw::new().key("general.alignment", id, value).tensor("t", &[8], 0, 0).data([0; 64]).bytes()
}

fn keyed(name: &str, id: u32, value: Vec<u8>) -> Vec<u8> {
    Raw::new().key(name, id, value).bytes()
}

pub(super) fn cases() -> Vec<Malformed> {
    let long = string([b'k'; 65536]);
    [
        vec![
            file(
                "key longer than the file",
                second_of_more([le(1000u64), b"k".to_vec()].concat()),
                &["metadata key 2 of 3", "0x31", "a key", "1000 bytes needed"],
            ),
            file(
                "key of 2^64-1 bytes",
                second_of_more([le(u64::MAX), b"k".to_vec()].concat()),
                &["metadata key 2 of 3", "18446744073709551615"],
            ),
            file(
                "key of 2^63 bytes",
                second_of_more([le(1u64 << 63), b"k".to_vec()].concat()),
                &["metadata key 2 of 3", "9223372036854775808"],
            ),
            file(
                "key of 65536 bytes",
                second([long, le(id::U8), le(1u8)].concat()),
                &["metadata key 2 of 2", "0x29", "65536 bytes", "at most 65535"],
            ),
            file(
                "key without a name",
                second([string(""), le(id::U32), le(1u32)].concat()),
                &["metadata key 2 of 2", "0x29", "empty"],
            ),
            file(
                "key of stray continuation bytes",
                second([string(b"ab\x80"), le(id::U32), le(1u32)].concat()),
                &["metadata key 2 of 2", "0x33", "UTF-8", "byte 2"],
            ),
            file(
                "key with an overlong zero",
                second([string(b"\xc0\x80"), le(id::U32), le(1u32)].concat()),
                &["metadata key 2 of 2", "UTF-8"],
            ),
            file(
                "key with a lone surrogate",
                second([string(b"\xed\xa0\x80"), le(id::U32), le(1u32)].concat()),
                &["metadata key 2 of 2", "UTF-8"],
            ),
            file(
                "key that ends inside a character",
                second([string(b"k\xe2\x96"), le(id::U32), le(1u32)].concat()),
                &["metadata key 2 of 2", "UTF-8", "byte 1"],
            ),
            file(
                "key without a type",
                second([string("key"), vec![0; 3]].concat()),
                &["key \"key\"", "value type"],
            ),
            file("value type 13", value(13, le(1u64)), &["key \"k\"", "0x32", "value type 13"]),
            file("value type 256", value(256, le(1u64)), &["key \"k\"", "0x32", "value type 256"]),
            file("value type 2^32-1", value(u32::MAX, le(1u64)), &["key \"k\"", "value type 4294967295"]),
            file(
                "key twice",
                twice((id::STRING, string("x")), (id::STRING, string("x"))),
                &["key \"general.name\"", "0x47", "already used"],
            ),
            file(
                "key twice with different types",
                twice((id::U8, le(1u8)), (id::STRING, string("x"))),
                &["key \"general.name\"", "already used"],
            ),
            file(
                "escape sequence in the key of a bad value",
                second([string("\x1b[2J"), le(99u32)].concat()),
                &["key \"\\u{1b}[2J\"", "value type 99"],
            ),
        ],
        vec![
            file("u8 cut", value(id::U8, []), &["key \"k\"", "0x36", "a u8", "1 bytes needed, 0 left"]),
            file("i8 cut", value(id::I8, []), &["key \"k\"", "an i8"]),
            file("u16 cut", value(id::U16, [1]), &["key \"k\"", "a u16", "2 bytes needed, 1 left"]),
            file("i16 cut", value(id::I16, [1]), &["key \"k\"", "an i16"]),
            file("u32 cut", value(id::U32, [1; 3]), &["key \"k\"", "a u32", "4 bytes needed, 3 left"]),
            file("i32 cut", value(id::I32, [1; 3]), &["key \"k\"", "an i32"]),
            file("f32 cut", value(id::F32, [1; 3]), &["key \"k\"", "an f32"]),
            file("bool cut", value(id::BOOL, []), &["key \"k\"", "a bool"]),
            file("u64 cut", value(id::U64, [1; 7]), &["key \"k\"", "a u64", "8 bytes needed, 7 left"]),
            file("i64 cut", value(id::I64, [1; 7]), &["key \"k\"", "an i64"]),
            file("f64 cut", value(id::F64, [1; 7]), &["key \"k\"", "an f64"]),
            file("bool 2", value(id::BOOL, [2]), &["key \"k\"", "0x36", "bool", "2, expected 0 or 1"]),
            file("bool 255", value(id::BOOL, [255]), &["key \"k\"", "bool", "255"]),
            file("string length cut", value(id::STRING, [1; 7]), &["key \"k\"", "a string", "7 left"]),
            file(
                "string cut",
                value(id::STRING, [le(5u64), b"four".to_vec()].concat()),
                &["key \"k\"", "0x3e", "5 bytes needed, 4 left"],
            ),
            file(
                "string of 2^64-1 bytes",
                value(id::STRING, [le(u64::MAX), vec![b'x'; 9]].concat()),
                &["key \"k\"", "18446744073709551615"],
            ),
            file(
                "string of 2^40 bytes",
                value(id::STRING, [le(1u64 << 40), vec![b'x'; 9]].concat()),
                &["key \"k\"", "1099511627776"],
            ),
            file("string in Latin-1", value(id::STRING, string(b"caf\xe9")), &["key \"k\"", "0x41", "UTF-8"]),
            file("string in UTF-16", value(id::STRING, string(b"\xff\xfea\0b\0")), &["key \"k\"", "UTF-8"]),
        ],
        vec![
            file(
                "alignment 0",
                alignment(id::U32, le(0u32)),
                &["general.alignment", "0x31", "u32 0", "power of two"],
            ),
            file(
                "alignment 3",
                alignment(id::U32, le(3u32)),
                &["general.alignment", "u32 3", "power of two"],
            ),
            file("alignment 33", alignment(id::U32, le(33u32)), &["general.alignment", "u32 33"]),
            file(
                "alignment 2^32-1",
                alignment(id::U32, le(u32::MAX)),
                &["general.alignment", "u32 4294967295"],
            ),
            file(
                "alignment as u64",
                alignment(id::U64, le(32u64)),
                &["general.alignment", "u64 32", "a u32"],
            ),
            file(
                "alignment as i32",
                alignment(id::I32, le(32i32)),
                &["general.alignment", "i32 32", "a u32"],
            ),
            file(
                "alignment as f32",
                alignment(id::F32, le(32f32)),
                &["general.alignment", "f32 32", "a u32"],
            ),
            file("alignment as bool", alignment(id::BOOL, vec![1]), &["general.alignment", "bool true"]),
            file(
                "alignment as string",
                alignment(id::STRING, string("32")),
                &["general.alignment", "\"32\""],
            ),
            file(
                "alignment as array",
                alignment(id::ARRAY, [le(id::U32), le(1u64), le(32u32)].concat()),
                &["general.alignment", "array of 1 u32"],
            ),
            file(
                "split.count as string",
                keyed("split.count", id::STRING, string("2")),
                &["split.count", "0x2b", "string \"2\"", "integer"],
            ),
            file(
                "split.count negative",
                keyed("split.count", id::I32, le(-1i32)),
                &["split.count", "i32 -1"],
            ),
            file(
                "split.count 2^32-1",
                keyed("split.count", id::U32, le(u32::MAX)),
                &["split.count", "4294967295"],
            ),
            file(
                "part of a split model in memory",
                keyed("split.count", id::U16, le(3u16)),
                &["3 files", "path"],
            ),
        ],
    ]
    .concat()
}
