//! Malformed arrays.

use super::raw::{Raw, array, id, le, string};
use super::{Malformed, Stage, refused};

/// A file with one key `k`, an array; its element type is at 0x25, its count at 0x29.
fn key(value: impl Into<Vec<u8>>) -> Raw {
    Raw::new().key("k", (id::ARRAY, value))
}

/// Key `k` with an array that claims `count` elements and has these element bytes.
fn claims(id: u32, count: u64, elements: &[u8]) -> Raw {
    key([le(id), le(count), elements.to_vec()].concat())
}

/// An array nested `depth` deep; the innermost has one u8.
fn nested(depth: usize) -> Vec<u8> {
    (1..depth).fold(array(id::U8, &[le(1u8)]), |inner, _| array(id::ARRAY, &[inner]))
}

pub(super) fn cases() -> Vec<Malformed> {
    let (huge, letters) = (u64::MAX, [string("abcdef"), string("ghijkl")].concat());
    let long_string = [le(9u64), vec![b'x'; 8]].concat();
    let inner = |value| key(array(id::ARRAY, &[value]));
    let cases = [
        ("array without an element type", key([0; 3]), &["0x25", "value type"][..]),
        ("array without a count", key([le(id::U8), vec![0; 7]].concat()), &["0x29", "7 left"]),
        ("array of type 13", claims(13, 1, &[0; 8]), &["0x25", "value type 13"]),
        ("empty array of type 77", claims(77, 0, &[]), &["value type 77"]),
        ("u8 array too long", claims(id::U8, 9, &[0; 8]), &["0x29", "9 array elements", "8 bytes"]),
        ("i8 array too long", claims(id::I8, 9, &[0; 8]), &["9 array elements"]),
        ("u16 array too long", claims(id::U16, 4, &[0; 7]), &["4 array elements", "7 bytes"]),
        ("i16 array too long", claims(id::I16, 4, &[0; 7]), &["4 array elements"]),
        ("u32 array too long", claims(id::U32, 2, &[0; 7]), &["2 array elements"]),
        ("i32 array too long", claims(id::I32, 2, &[0; 7]), &["2 array elements"]),
        ("f32 array too long", claims(id::F32, 2, &[0; 7]), &["2 array elements"]),
        ("bool array too long", claims(id::BOOL, 3, &[1, 0]), &["3 array elements"]),
        ("u64 array too long", claims(id::U64, 2, &[0; 15]), &["2 array elements"]),
        ("i64 array too long", claims(id::I64, 2, &[0; 15]), &["2 array elements"]),
        ("f64 array too long", claims(id::F64, 2, &[0; 15]), &["2 array elements"]),
        ("array of 2^64-1 u8", claims(id::U8, huge, &[0; 64]), &["18446744073709551615"]),
        ("2^61 u64, whose size wraps to 0", claims(id::U64, 1 << 61, &[0; 64]), &["2305843009213693952"]),
        ("2^62+1 f32, whose size wraps", claims(id::F32, (1 << 62) + 1, &[0; 64]), &["4611686018427387905"]),
        ("array of 2^40 strings", claims(id::STRING, 1 << 40, &[0; 64]), &["1099511627776 strings"]),
        ("array of 2^64-1 arrays", claims(id::ARRAY, huge, &[0; 64]), &["18446744073709551615 arrays"]),
        ("a string too many", claims(id::STRING, 3, &letters), &["a string", "8 bytes needed, 0 left"]),
        (
            "string in an array too long",
            claims(id::STRING, 1, &long_string),
            &["0x39", "9 bytes needed, 8 left"],
        ),
        (
            "string in an array not UTF-8",
            key(array(id::STRING, &[string("a"), string(b"b\xff")])),
            &["0x43", "UTF-8"],
        ),
        ("bool of an array 2", claims(id::BOOL, 3, &[0, 1, 2]), &["0x33", "2, expected 0 or 1"]),
        ("arrays five deep", key(nested(5)), &["deeper than 4"]),
        ("arrays ten thousand deep", key(nested(10_000)), &["deeper than 4"]),
        ("inner array of type 13", inner(array(13, &[])), &["value type 13"]),
        ("inner array too long", inner([le(id::U16), le(8u64), vec![0; 3]].concat()), &["8 array elements"]),
        ("second inner array missing", claims(id::ARRAY, 2, &array(id::U8, &vec![le(1u8); 12])), &[]),
    ];
    refused(Stage::File, "key \"k\"", cases)
}
