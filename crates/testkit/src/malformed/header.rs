//! Malformed magic, version or counts.

use super::raw::{Raw, id, le};
use super::{Malformed, Stage, refused};

fn magic(magic: &[u8; 4]) -> Vec<u8> {
    Raw { magic: *magic, ..base() }.bytes()
}

fn version(version: u32) -> Vec<u8> {
    Raw { version, ..base() }.bytes()
}

fn counts(tensor_count: Option<u64>, key_count: Option<u64>) -> Vec<u8> {
    Raw { tensor_count, key_count, ..base() }.bytes()
}

/// Two keys, no tensors.
fn base() -> Raw {
    Raw::new().key("a", 7u32).key("b", "text")
}

/// The same in version 1, with 32-bit counts and lengths.
fn version_1(tensors: u32, keys: u32) -> Vec<u8> {
    let key = [le(1u32), b"a".to_vec(), le(id::U32), le(7u32)].concat();
    [b"GGUF".to_vec(), le(1u32), le(tensors), le(keys), key].concat()
}

pub(super) fn cases() -> Vec<Malformed> {
    let cut = |len| base().bytes()[..len].to_vec();
    let in_header = [
        ("empty file", vec![], &["offset 0x0", "empty file", "GGUF"][..]),
        ("one byte of magic", cut(1), &["\"G\"", "GGUF"]),
        ("three bytes of magic", cut(3), &["\"GGU\"", "GGUF"]),
        ("nothing but magic", cut(4), &["0x4", "the version", "4 bytes needed, 0 left"]),
        ("cut in the version", cut(7), &["0x4", "the version", "3 left"]),
        ("cut before the tensor count", cut(8), &["0x8", "8 bytes needed, 0 left"]),
        ("cut in the tensor count", cut(13), &["0x8", "tensors", "5 left"]),
        ("cut in the key count", cut(23), &["0x10", "keys", "7 left"]),
        ("last letter of magic wrong", magic(b"GGUG"), &["\"GGUG\"", "GGUF"]),
        ("magic in lower case", magic(b"gguf"), &["\"gguf\"", "GGUF"]),
        ("magic backwards", magic(b"FUGG"), &["\"FUGG\"", "GGUF"]),
        ("magic with a control character", magic(b"G\x1bUF"), &["\"G\\x1bUF\"", "GGUF"]),
        ("nothing but zeroes", vec![0; 256], &["\"\\x00\\x00\\x00\\x00\""]),
        ("nothing but ones", vec![0xff; 256], &["\"\\xff\\xff\\xff\\xff\""]),
        ("version 0", version(0), &["0x4", "version 0"]),
        ("version 4", version(4), &["0x4", "version 4", "update"]),
        ("version 2^32-1", version(u32::MAX), &["version 4294967295"]),
        ("big-endian version 1", version(1 << 24), &["0x4", "big-endian"]),
        ("big-endian version 2", version(2 << 24), &["0x4", "big-endian"]),
        ("big-endian version 3", version(3 << 24), &["0x4", "big-endian"]),
        ("2^64-1 tensors", counts(Some(u64::MAX), None), &["0x8", "18446744073709551615 tensors"]),
        ("2^63 tensors", counts(Some(1 << 63), None), &["0x8", "9223372036854775808 tensors"]),
        ("2^32 tensors", counts(Some(1 << 32), None), &["0x8", "4294967296 tensors"]),
        ("more tensors than bytes", counts(Some(48), None), &["0x8", "48 tensors", "bytes left"]),
        ("2^64-1 keys", counts(None, Some(u64::MAX)), &["0x10", "18446744073709551615 keys"]),
        ("2^63 keys", counts(None, Some(1 << 63)), &["0x10", "9223372036854775808 keys"]),
        ("2^32 keys", counts(None, Some(1 << 32)), &["0x10", "4294967296 keys"]),
        ("more keys than bytes", counts(None, Some(39)), &["0x10", "39 keys", "42 bytes left"]),
        ("version 1: 2^32-1 tensors", version_1(u32::MAX, 1), &["0x8", "4294967295 tensors"]),
        ("version 1: 2^32-1 keys", version_1(0, u32::MAX), &["0xc", "4294967295 keys"]),
        ("version 1: a key missing", version_1(0, 2), &["2 keys"]),
    ];
    let safetensors = [le(60u64), b"{\"__metadata__\":{}}".to_vec()].concat();
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n".to_vec();
    let others = [
        ("GGML file", magic(b"lmgg"), &["old GGML file", "convert"][..]),
        ("GGJT file", magic(b"tjgg"), &["old GGML file", "convert"]),
        ("GGMF file", magic(b"fmgg"), &["old GGML file", "convert"]),
        ("zip archive", b"PK\x03\x04\x14\0\0\0\x08\0".to_vec(), &["zip archive", "convert"]),
        ("safetensors file", safetensors, &["safetensors", "convert"]),
        ("Git LFS pointer", lfs, &["Git LFS pointer", "git lfs pull"]),
        ("web page", b"<!DOCTYPE html><html>404</html>".to_vec(), &["web page"]),
        ("web page without a doctype", b"<html><body>404".to_vec(), &["web page"]),
        ("a tensor missing", counts(Some(1), None), &["tensor 1 of 1", "a tensor name"]),
        ("a key that is not there", counts(None, Some(3)), &["metadata key 3 of 3", "a key"]),
        ("counts swapped", counts(Some(2), Some(0)), &["tensor \"a\"", "0x18"]),
        (
            "version 1 with strings of version 3",
            version(1),
            &["key \"\\0\"", "0x15", "value type 1627389952"],
        ),
    ];
    [refused(Stage::File, "header", in_header), refused(Stage::File, "", others)].concat()
}
