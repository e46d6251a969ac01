//! Malformed tensor lists, and data that does not match.

use super::raw::{Raw, le, string};
use super::{Malformed, Stage, refused};

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
        .key("k", 7u32) // 0x18
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
    let file = Raw { infos: vec![], ..base() }.tensor("a", &[8], F32, 0).raw_tensor(bytes);
    file.tensor("c", &[8], F32, 64).data([0; 4096]).bytes()
}

/// The entry of a one-dimensional F32 tensor with an arbitrary name.
fn named(name: impl AsRef<[u8]>) -> Vec<u8> {
    [string(name), le(1u32), le(8u64), le(F32), le(32u64)].concat()
}

/// The file [`base`] truncated `bytes` before the end of the tensor list.
fn list_cut(bytes: usize) -> Vec<u8> {
    Raw { alignment: 1, data: vec![], ..base() }.cut(bytes)
}

/// A file with alignment 64 and tensor `t` of 64 bytes at `offset`.
fn aligned_to_64(offset: u64) -> Vec<u8> {
    let file = Raw { alignment: 64, ..Raw::new() }.key("general.alignment", 64u32);
    file.tensor("t", &[16], F32, offset).data([0; 4096]).bytes()
}

pub(super) fn cases() -> Vec<Malformed> {
    let huge = 1 << 63;
    let name_of = |bytes: u64| second([le(bytes), named("b")].concat());
    let lists = [
        ("tensor name longer than the file", name_of(99999), &["tensor 2 of 3", "99999 bytes needed"][..]),
        ("tensor name of 2^64-1 bytes", name_of(u64::MAX), &["tensor 2 of 3", "18446744073709551615"]),
        ("tensor without a name", second(named("")), &["tensor 2 of 3", "0x4a", "empty"]),
        ("tensor name of 65536 bytes", second(named([b'x'; 65536])), &["tensor 2 of 3", "65536 bytes"]),
        ("tensor name not UTF-8", second(named(b"b\xfe")), &["tensor 2 of 3", "0x53", "UTF-8"]),
        ("tensor name twice", second(named("a")), &["tensor \"a\"", "0x4a", "already used"]),
        ("tensor list cut before a name", list_cut(48), &["tensor 2 of 2", "0x4a", "a tensor name"]),
        ("tensor list cut in a name", list_cut(34), &["tensor 2 of 2", "8 bytes needed, 6 left"]),
        ("list cut in the count of dimensions", list_cut(30), &["tensor \"b.weight\"", "0x4a", "2 left"]),
        ("tensor list cut in a dimension", list_cut(21), &["tensor \"b.weight\"", "a dimension", "7 left"]),
        ("tensor list cut in a type", list_cut(9), &["tensor \"b.weight\"", "the tensor type", "3 left"]),
        ("tensor list cut in an offset", list_cut(1), &["tensor \"b.weight\"", "offset", "7 left"]),
        ("tensor data missing", list_cut(0), &["tensor \"a\"", "0x29", "beyond the end"]),
        ("last tensor one byte short", base().cut(1), &["tensor \"b.weight\"", "0x4a", "beyond the end"]),
        ("last tensor without data", base().cut(48), &["tensor \"b.weight\"", "0x4a", "beyond the end"]),
        ("all data cut", base().cut(80), &["tensor \"a\"", "beyond the end"]),
        ("padding before the data cut", base().cut(81), &["tensor \"a\"", "beyond the end"]),
        ("same offset twice", two(64, 64), &["tensor \"second\"", "overlaps", "\"first\""]),
        ("overlap", two(0, 32), &["tensor \"second\"", "overlaps", "\"first\""]),
        ("overlap of tensors far apart", far_apart(), &["tensor \"third\"", "overlaps", "\"first\""]),
        ("overlap in reverse list order", two(96, 64), &["tensor \"first\"", "overlaps", "\"second\""]),
    ];
    let shape = |dims: &[u64]| one(dims, F32, 0);
    let many = Raw::new().raw_tensor([string("t"), le(u32::MAX)].concat()).data([0; 4096]).bytes();
    let shapes = [
        ("five dimensions", shape(&[8, 1, 1, 1, 1]), &["0x18", "5 dimensions"][..]),
        ("2^32-1 dimensions", many, &["4294967295 dimensions"]),
        ("first dimension 0", shape(&[0, 4]), &["[0, 4]", "zero"]),
        ("last dimension 0", shape(&[4, 0]), &["[4, 0]", "zero"]),
        ("all dimensions 0", one(&[0, 0, 0, 0], Q4_K, 0), &["[0, 0, 0, 0]", "zero"]),
        ("zero hides an overflow", shape(&[huge, huge, 0]), &["zero"]),
        ("dimension 2^64-1", shape(&[u64::MAX]), &["overflow"]),
        ("product wraps to 0", shape(&[1 << 32, 1 << 32]), &["[4294967296, 4294967296]", "overflow"]),
        ("product wraps to 32", shape(&[32, huge | 1, 2]), &["overflow"]),
        ("size in bytes wraps to 0", shape(&[1 << 62]), &["overflow"]),
        ("size of blocks in bytes wraps", one(&[u64::MAX - 31], Q8_0, 0), &["overflow"]),
        ("Q4_0 row of 33", one(&[33, 2], Q4_0, 0), &["0x18", "33 values", "Q4_0 blocks of 32"]),
        ("Q8_0 row of 16", one(&[16, 2], Q8_0, 0), &["16 values", "Q8_0"]),
        ("Q4_K row of 128", one(&[128, 2], Q4_K, 0), &["128 values", "Q4_K blocks of 256"]),
        ("Q6_K row of 255", one(&[255], Q6_K, 0), &["255 values", "Q6_K"]),
        ("IQ4_NL row of 31", one(&[31], IQ4_NL, 0), &["31 values", "IQ4_NL"]),
        ("IQ4_XS row of 288", one(&[288], IQ4_XS, 0), &["288 values", "IQ4_XS"]),
        ("Q8_0 scalar", one(&[], Q8_0, 0), &["1 values", "Q8_0"]),
        ("type 4, removed from ggml", one(&[32], 4, 0), &["type 4", "supported types"]),
        ("type 5, removed from ggml", one(&[32], 5, 0), &["type 5"]),
        ("type 31, removed from ggml", one(&[32], 31, 0), &["type 31"]),
        ("tensor type Q8_1", one(&[32], 9, 0), &["type 9 (Q8_1)", "quantise"]),
        ("tensor type Q8_K", one(&[256], 15, 0), &["type 15 (Q8_K)"]),
        ("tensor type I32", one(&[8], 26, 0), &["I32"]),
        ("tensor type F64", one(&[8], 28, 0), &["F64"]),
        ("tensor type 255", one(&[32], 255, 0), &["0x18", "type 255"]),
        ("tensor type 2^32-1", one(&[32], u32::MAX, 0), &["type 4294967295"]),
        ("offset 1", one(&[8], F32, 1), &["0x18", "offset 1 ", "alignment 32"]),
        ("offset 16", one(&[8], F32, 16), &["offset 16 ", "alignment 32"]),
        ("offset 2^64-1", one(&[8], F32, u64::MAX), &["offset 18446744073709551615"]),
        ("offset 32 with alignment 64", aligned_to_64(32), &["alignment 64"]),
        ("offset past the end", one(&[8], F32, 1 << 20), &["0x18", "beyond the end of the file"]),
        ("offset just past the end", one(&[8], F32, 1 << 16), &["beyond the end"]),
        ("offset where the end wraps", one(&[8], F32, u64::MAX - 31), &["beyond the end"]),
        ("data longer than the file", shape(&[1 << 40]), &["beyond the end"]),
        ("data one value longer than the file", shape(&[(1 << 14) + 1]), &["beyond"]),
    ];
    [refused(Stage::File, "", lists), refused(Stage::File, "tensor \"t\"", shapes)].concat()
}
