//! Malformed tensor lists, and data that does not match.

use super::raw::{Raw, id, le, string};
use super::{Malformed, file};

/// Format ids.
const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q8_0: u32 = 8;
const Q4_K: u32 = 12;
const Q6_K: u32 = 14;
const IQ4_NL: u32 = 20;
const IQ4_XS: u32 = 23;

/// A key and two tensors; the list starts at 0x25, the second tensor's entry at 0x4a.
pub(super) fn base() -> Raw {
    Raw::new()
        .key("k", id::U32, le(7u32)) // 0x18
        .tensor("a", &[8], F32, 0) // 0x29
        .tensor("b.weight", &[4, 3], F32, 32) // 0x4a
        .data([1; 80])
}

/// A file with a single tensor `t`, whose entry is at 0x18, and 64 KiB of data.
fn one(dims: &[u64], format: u32, offset: u64) -> Vec<u8> {
    Raw::new().tensor("t", dims, format, offset).data([0; 1 << 16]).bytes()
}

/// A file with two tensors of 64 bytes at these offsets and 4 KiB of data.
fn two(first: u64, second: u64) -> Vec<u8> {
    Raw::new().tensor("first", &[16], F32, first).tensor("second", &[16], F32, second).data([0; 4096]).bytes()
}

/// A file whose first and third tensors overlap; the second is located after both.
fn far_apart() -> Vec<u8> {
    let file = Raw::new().tensor("first", &[16], F32, 0).tensor("second", &[16], F32, 128);
    file.tensor("third", &[16], F32, 32).data([0; 4096]).bytes()
}

/// A file whose second tensor entry, at 0x4a, is these bytes; a third entry follows.
fn second(bytes: Vec<u8>) -> Vec<u8> {
    Raw { infos: vec![], ..base() }
        .tensor("a", &[8], F32, 0)
        .raw_tensor(bytes)
        .tensor("c", &[8], F32, 64)
        .data([0; 4096])
        .bytes()
}

/// The entry of a one-dimensional F32 tensor with an arbitrary name.
fn named(name: impl AsRef<[u8]>) -> Vec<u8> {
    [string(name), le(1u32), le(8u64), le(F32), le(32u64)].concat()
}

/// The entry of the tensor `t`, after its name.
fn entry(rest: &[Vec<u8>]) -> Vec<u8> {
    Raw::new().raw_tensor([string("t"), rest.concat()].concat()).data([0; 4096]).bytes()
}

/// The file [`base`] truncated `bytes` before the end of the tensor list.
fn list_cut(bytes: usize) -> Vec<u8> {
    Raw { alignment: 1, data: vec![], ..base() }.cut(bytes)
}

/// A file with alignment 64 and tensor `t` of 64 bytes at `offset`.
fn aligned_to_64(offset: u64) -> Vec<u8> {
    Raw { alignment: 64, ..Raw::new() }
        .key("general.alignment", id::U32, le(64u32))
        .tensor("t", &[16], F32, offset)
        .data([0; 4096])
        .bytes()
}

pub(super) fn cases() -> Vec<Malformed> {
    let huge = 1 << 63;
    [
        vec![
            file(
                "tensor name longer than the file",
                second([le(99999u64), named("b")].concat()),
                &["tensor 2 of 3", "99999 bytes needed"],
            ),
            file(
                "tensor name of 2^64-1 bytes",
                second([le(u64::MAX), named("b")].concat()),
                &["tensor 2 of 3", "18446744073709551615"],
            ),
            file("tensor without a name", second(named("")), &["tensor 2 of 3", "0x4a", "empty"]),
            file(
                "tensor name of 65536 bytes",
                second(named([b'x'; 65536])),
                &["tensor 2 of 3", "65536 bytes"],
            ),
            file("tensor name not UTF-8", second(named(b"b\xfe")), &["tensor 2 of 3", "0x53", "UTF-8"]),
            file("tensor name twice", second(named("a")), &["tensor \"a\"", "0x4a", "already used"]),
            file("tensor list cut before a name", list_cut(48), &["tensor 2 of 2", "0x4a", "a tensor name"]),
            file("tensor list cut in a name", list_cut(34), &["tensor 2 of 2", "8 bytes needed, 6 left"]),
            file(
                "tensor list cut in a number of dimensions",
                list_cut(30),
                &["tensor \"b.weight\"", "0x4a", "2 left"],
            ),
            file(
                "tensor list cut in a dimension",
                list_cut(21),
                &["tensor \"b.weight\"", "a dimension", "7 left"],
            ),
            file(
                "tensor list cut in a type",
                list_cut(9),
                &["tensor \"b.weight\"", "the tensor type", "3 left"],
            ),
            file("tensor list cut in an offset", list_cut(1), &["tensor \"b.weight\"", "offset", "7 left"]),
            file("tensor data missing", list_cut(0), &["tensor \"a\"", "0x29", "beyond the end"]),
        ],
        vec![
            file("five dimensions", one(&[8, 1, 1, 1, 1], F32, 0), &["tensor \"t\"", "0x18", "5 dimensions"]),
            file("2^32-1 dimensions", entry(&[le(u32::MAX)]), &["tensor \"t\"", "4294967295 dimensions"]),
            file("first dimension 0", one(&[0, 4], F32, 0), &["tensor \"t\"", "[0, 4]", "zero"]),
            file("last dimension 0", one(&[4, 0], F32, 0), &["tensor \"t\"", "[4, 0]", "zero"]),
            file("all dimensions 0", one(&[0, 0, 0, 0], Q4_K, 0), &["tensor \"t\"", "[0, 0, 0, 0]", "zero"]),
            file("zero hides an overflow", one(&[huge, huge, 0], F32, 0), &["tensor \"t\"", "zero"]),
            file("dimension 2^64-1", one(&[u64::MAX], F32, 0), &["tensor \"t\"", "overflow"]),
            file(
                "dimensions whose product wraps to 0",
                one(&[1 << 32, 1 << 32], F32, 0),
                &["tensor \"t\"", "[4294967296, 4294967296]", "overflow"],
            ),
            file(
                "dimensions whose product wraps to 32",
                one(&[32, huge | 1, 2], F32, 0),
                &["tensor \"t\"", "overflow"],
            ),
            file(
                "dimensions whose size in bytes wraps to 0",
                one(&[1 << 62], F32, 0),
                &["tensor \"t\"", "overflow"],
            ),
            file(
                "blocks whose size in bytes wraps",
                one(&[u64::MAX - 31], Q8_0, 0),
                &["tensor \"t\"", "overflow"],
            ),
            file(
                "Q4_0 row of 33",
                one(&[33, 2], Q4_0, 0),
                &["tensor \"t\"", "0x18", "33 values", "Q4_0 blocks of 32"],
            ),
            file("Q8_0 row of 16", one(&[16, 2], Q8_0, 0), &["tensor \"t\"", "16 values", "Q8_0"]),
            file(
                "Q4_K row of 128",
                one(&[128, 2], Q4_K, 0),
                &["tensor \"t\"", "128 values", "Q4_K blocks of 256"],
            ),
            file("Q6_K row of 255", one(&[255], Q6_K, 0), &["tensor \"t\"", "255 values", "Q6_K"]),
            file("IQ4_NL row of 31", one(&[31], IQ4_NL, 0), &["tensor \"t\"", "31 values", "IQ4_NL"]),
            file("IQ4_XS row of 288", one(&[288], IQ4_XS, 0), &["tensor \"t\"", "288 values", "IQ4_XS"]),
            file("Q8_0 scalar", one(&[], Q8_0, 0), &["tensor \"t\"", "1 values", "Q8_0"]),
        ],
        vec![
            file(
                "tensor type 4, removed from ggml",
                one(&[32], 4, 0),
                &["tensor \"t\"", "type 4", "supported types"],
            ),
            file("tensor type 5, removed from ggml", one(&[32], 5, 0), &["tensor \"t\"", "type 5"]),
            file("tensor type 31, removed from ggml", one(&[32], 31, 0), &["tensor \"t\"", "type 31"]),
            file("tensor type Q8_1", one(&[32], 9, 0), &["tensor \"t\"", "type 9 (Q8_1)"]),
            file("tensor type Q8_K", one(&[256], 15, 0), &["tensor \"t\"", "type 15 (Q8_K)"]),
            file("tensor type IQ2_XXS", one(&[256], 16, 0), &["tensor \"t\"", "IQ2_XXS", "quantise"]),
            file("tensor type I32", one(&[8], 26, 0), &["tensor \"t\"", "I32"]),
            file("tensor type F64", one(&[8], 28, 0), &["tensor \"t\"", "F64"]),
            file("tensor type 255", one(&[32], 255, 0), &["tensor \"t\"", "0x18", "type 255"]),
            file("tensor type 2^32-1", one(&[32], u32::MAX, 0), &["tensor \"t\"", "type 4294967295"]),
        ],
        vec![
            file("offset 1", one(&[8], F32, 1), &["tensor \"t\"", "0x18", "offset 1 ", "alignment 32"]),
            file("offset 16", one(&[8], F32, 16), &["tensor \"t\"", "offset 16 ", "alignment 32"]),
            file("offset 2^64-1", one(&[8], F32, u64::MAX), &["tensor \"t\"", "offset 18446744073709551615"]),
            file("offset 32 with alignment 64", aligned_to_64(32), &["tensor \"t\"", "alignment 64"]),
            file(
                "offset past the end",
                one(&[8], F32, 1 << 20),
                &["tensor \"t\"", "0x18", "beyond the end of the file"],
            ),
            file("offset just past the end", one(&[8], F32, 1 << 16), &["tensor \"t\"", "beyond the end"]),
            file(
                "offset where the end wraps",
                one(&[8], F32, u64::MAX - 31),
                &["tensor \"t\"", "beyond the end"],
            ),
            file("data longer than the file", one(&[1 << 40], F32, 0), &["tensor \"t\"", "beyond the end"]),
            file(
                "data one value longer than the file",
                one(&[(1 << 14) + 1], F32, 0),
                &["tensor \"t\"", "beyond"],
            ),
            file(
                "last tensor one byte short",
                base().cut(1),
                &["tensor \"b.weight\"", "0x4a", "beyond the end"],
            ),
            file(
                "last tensor without data",
                base().cut(48),
                &["tensor \"b.weight\"", "0x4a", "beyond the end"],
            ),
            file("all data cut", base().cut(80), &["tensor \"a\"", "beyond the end"]),
            file("padding before the data cut", base().cut(81), &["tensor \"a\"", "beyond the end"]),
            file("same offset twice", two(64, 64), &["tensor \"second\"", "overlaps", "\"first\""]),
            file("overlap", two(0, 32), &["tensor \"second\"", "overlaps", "\"first\""]),
            file(
                "overlap of tensors far apart in the list",
                far_apart(),
                &["tensor \"third\"", "overlaps", "\"first\""],
            ),
            file(
                "overlap in reverse list order",
                two(96, 64),
                &["tensor \"first\"", "overlaps", "\"second\""],
            ),
        ],
    ]
    .concat()
}
