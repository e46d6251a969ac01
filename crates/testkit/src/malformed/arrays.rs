//! Malformed arrays.

use super::raw::{Raw, array, id, le, string};
use super::{Malformed, file};

/// A file with one key `k`, an array; its element type is at 0x25, its count at 0x29.
fn key(value: impl AsRef<[u8]>) -> Vec<u8> {
    Raw::new().key("k", id::ARRAY, value).bytes()
}

/// Key `k` with an array that claims `count` elements and has these element bytes.
fn claims(id: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    key([le(id), le(count), elements.to_vec()].concat())
}

/// An array nested `depth` deep; the innermost has one u8.
fn nested(depth: usize) -> Vec<u8> {
    (1..depth).fold(array(id::U8, &[le(1u8)]), |inner, _| array(id::ARRAY, &[inner]))
}

pub(super) fn cases() -> Vec<Malformed> {
    let huge = u64::MAX;
    vec![
        file("array without an element type", key([0; 3]), &["key \"k\"", "0x25", "value type"]),
        file(
            "array without a count",
            key([le(id::U8), vec![0; 7]].concat()),
            &["key \"k\"", "0x29", "7 left"],
        ),
        file("array of type 13", claims(13, 1, &[0; 8]), &["key \"k\"", "0x25", "value type 13"]),
        file("empty array of type 77", claims(77, 0, &[]), &["key \"k\"", "value type 77"]),
        file(
            "u8 array too long",
            claims(id::U8, 9, &[0; 8]),
            &["key \"k\"", "0x29", "9 array elements", "8 bytes"],
        ),
        file("i8 array too long", claims(id::I8, 9, &[0; 8]), &["key \"k\"", "9 array elements"]),
        file(
            "u16 array too long",
            claims(id::U16, 4, &[0; 7]),
            &["key \"k\"", "4 array elements", "7 bytes"],
        ),
        file("i16 array too long", claims(id::I16, 4, &[0; 7]), &["key \"k\"", "4 array elements"]),
        file("u32 array too long", claims(id::U32, 2, &[0; 7]), &["key \"k\"", "2 array elements"]),
        file("i32 array too long", claims(id::I32, 2, &[0; 7]), &["key \"k\"", "2 array elements"]),
        file("f32 array too long", claims(id::F32, 2, &[0; 7]), &["key \"k\"", "2 array elements"]),
        file("bool array too long", claims(id::BOOL, 3, &[1, 0]), &["key \"k\"", "3 array elements"]),
        file("u64 array too long", claims(id::U64, 2, &[0; 15]), &["key \"k\"", "2 array elements"]),
        file("i64 array too long", claims(id::I64, 2, &[0; 15]), &["key \"k\"", "2 array elements"]),
        file("f64 array too long", claims(id::F64, 2, &[0; 15]), &["key \"k\"", "2 array elements"]),
        file("array of 2^64-1 u8", claims(id::U8, huge, &[0; 64]), &["key \"k\"", "18446744073709551615"]),
        file(
            "array of 2^61 u64, whose size wraps to 0",
            claims(id::U64, 1 << 61, &[0; 64]),
            &["key \"k\"", "2305843009213693952"],
        ),
        file(
            "array of 2^62+1 f32, whose size wraps to 4",
            claims(id::F32, (1 << 62) + 1, &[0; 64]),
            &["key \"k\"", "4611686018427387905"],
        ),
        file(
            "array of 2^40 strings",
            claims(id::STRING, 1 << 40, &[0; 64]),
            &["key \"k\"", "1099511627776 strings"],
        ),
        file(
            "array of 2^64-1 arrays",
            claims(id::ARRAY, huge, &[0; 64]),
            &["key \"k\"", "18446744073709551615 arrays"],
        ),
        file(
            "one string more than the file has",
            claims(id::STRING, 3, &[string("abcdef"), string("ghijkl")].concat()),
            &["key \"k\"", "a string", "8 bytes needed, 0 left"],
        ),
        file(
            "string of an array longer than the file",
            claims(id::STRING, 1, &[le(9u64), vec![b'x'; 8]].concat()),
            &["key \"k\"", "0x39", "9 bytes needed, 8 left"],
        ),
        file(
            "string of an array not UTF-8",
            key(array(id::STRING, &[string("a"), string(b"b\xff")])),
            &["key \"k\"", "0x43", "UTF-8"],
        ),
        file(
            "bool of an array 2",
            claims(id::BOOL, 3, &[0, 1, 2]),
            &["key \"k\"", "0x33", "2, expected 0 or 1"],
        ),
        file("arrays five deep", key(nested(5)), &["key \"k\"", "deeper than 4"]),
        file("arrays ten thousand deep", key(nested(10_000)), &["key \"k\"", "deeper than 4"]),
        file(
            "inner array of type 13",
            key(array(id::ARRAY, &[array(13, &[])])),
            &["key \"k\"", "value type 13"],
        ),
        file(
            "inner array too long",
            key(array(id::ARRAY, &[[le(id::U16), le(8u64), vec![0; 3]].concat()])),
            &["key \"k\"", "8 array elements"],
        ),
        file(
            "second inner array missing",
            claims(id::ARRAY, 2, &array(id::U8, &vec![le(1u8); 12])),
            &["key \"k\""],
        ),
    ]
}
