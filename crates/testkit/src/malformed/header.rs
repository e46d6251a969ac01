//! Malformed magic, version or counts.

use super::raw::{Raw, id, le, string};
use super::{Malformed, file};

fn magic(magic: &[u8; 4]) -> Vec<u8> {
    Raw { magic: *magic, ..base() }.bytes()
}

fn version(version: u32) -> Vec<u8> {
    Raw { version, ..base() }.bytes()
}

fn counts(tensors: Option<u64>, keys: Option<u64>) -> Vec<u8> {
    Raw { tensor_count: tensors, key_count: keys, ..base() }.bytes()
}

/// Two keys, no tensors.
fn base() -> Raw {
    Raw::new().key("a", id::U32, le(7u32)).key("b", id::STRING, string("text"))
}

/// The same in version 1, with 32-bit counts and lengths.
fn version_1(tensors: u32, keys: u32) -> Vec<u8> {
    let key = [le(1u32), b"a".to_vec(), le(id::U32), le(7u32)].concat();
    [b"GGUF".to_vec(), le(1u32), le(tensors), le(keys), key].concat()
}

pub(super) fn cases() -> Vec<Malformed> {
    let whole = base().bytes();
    let safetensors = [le(60u64), b"{\"__metadata__\":{}}".to_vec()].concat();
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n".to_vec();
    vec![
        file("empty file", vec![], &["header", "offset 0x0", "empty file", "GGUF"]),
        file("one byte of magic", whole[..1].to_vec(), &["header", "\"G\"", "GGUF"]),
        file("three bytes of magic", whole[..3].to_vec(), &["header", "\"GGU\"", "GGUF"]),
        file(
            "nothing but magic",
            whole[..4].to_vec(),
            &["header", "0x4", "the version", "4 bytes needed, 0 left"],
        ),
        file("cut in the version", whole[..7].to_vec(), &["header", "0x4", "the version", "3 left"]),
        file(
            "cut before the tensor count",
            whole[..8].to_vec(),
            &["header", "0x8", "8 bytes needed, 0 left"],
        ),
        file("cut in the tensor count", whole[..13].to_vec(), &["header", "0x8", "tensors", "5 left"]),
        file("cut in the key count", whole[..23].to_vec(), &["header", "0x10", "keys", "7 left"]),
        file("last letter of magic wrong", magic(b"GGUG"), &["header", "\"GGUG\"", "GGUF"]),
        file("magic in lower case", magic(b"gguf"), &["header", "\"gguf\"", "GGUF"]),
        file("magic backwards", magic(b"FUGG"), &["header", "\"FUGG\"", "GGUF"]),
        file("magic with a control character", magic(b"G\x1bUF"), &["header", "\"G\\x1bUF\"", "GGUF"]),
        file("GGML file", magic(b"lmgg"), &["old GGML file", "convert"]),
        file("GGJT file", magic(b"tjgg"), &["old GGML file", "convert"]),
        file("GGMF file", magic(b"fmgg"), &["old GGML file", "convert"]),
        file("zip archive", b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(), &["zip archive", "convert"]),
        file("safetensors file", safetensors, &["safetensors", "convert"]),
        file("Git LFS pointer", lfs, &["Git LFS pointer", "git lfs pull"]),
        file("web page", b"<!DOCTYPE html><html>404</html>".to_vec(), &["web page"]),
        file("web page without a doctype", b"<html><body>404".to_vec(), &["web page"]),
        file("nothing but zeroes", vec![0; 256], &["header", "\"\\x00\\x00\\x00\\x00\""]),
        file("nothing but ones", vec![0xff; 256], &["header", "\"\\xff\\xff\\xff\\xff\""]),
        file("version 0", version(0), &["header", "0x4", "version 0"]),
        file("version 4", version(4), &["header", "0x4", "version 4", "update"]),
        file("version 2^32-1", version(u32::MAX), &["header", "version 4294967295"]),
        file("big-endian version 1", version(1 << 24), &["header", "0x4", "big-endian"]),
        file("big-endian version 2", version(2 << 24), &["header", "0x4", "big-endian"]),
        file("big-endian version 3", version(3 << 24), &["header", "0x4", "big-endian"]),
        file(
            "2^64-1 tensors",
            counts(Some(u64::MAX), None),
            &["header", "0x8", "18446744073709551615 tensors"],
        ),
        file("2^63 tensors", counts(Some(1 << 63), None), &["header", "0x8", "9223372036854775808 tensors"]),
        file("2^32 tensors", counts(Some(1 << 32), None), &["header", "0x8", "4294967296 tensors"]),
        file(
            "more tensors than bytes",
            counts(Some(48), None),
            &["header", "0x8", "48 tensors", "bytes left"],
        ),
        file("a tensor missing", counts(Some(1), None), &["tensor 1 of 1", "a tensor name"]),
        file("2^64-1 keys", counts(None, Some(u64::MAX)), &["header", "0x10", "18446744073709551615 keys"]),
        file("2^63 keys", counts(None, Some(1 << 63)), &["header", "0x10", "9223372036854775808 keys"]),
        file("2^32 keys", counts(None, Some(1 << 32)), &["header", "0x10", "4294967296 keys"]),
        file("more keys than bytes", counts(None, Some(39)), &["header", "0x10", "39 keys", "42 bytes left"]),
        file("a key that is not there", counts(None, Some(3)), &["metadata key 3 of 3", "a key"]),
        file("counts swapped", counts(Some(2), Some(0)), &["tensor \"a\"", "0x18"]),
        file("version 1: 2^32-1 tensors", version_1(u32::MAX, 1), &["header", "0x8", "4294967295 tensors"]),
        file("version 1: 2^32-1 keys", version_1(0, u32::MAX), &["header", "0xc", "4294967295 keys"]),
        file("version 1: a key missing", version_1(0, 2), &["header", "2 keys"]),
        file(
            "version 1 with the strings of version 3",
            version(1),
            &["key \"\\0\"", "0x15", "value type 1627389952"],
        ),
    ]
}
