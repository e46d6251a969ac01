"""GGUF files written by the gguf package, and what its reader finds in them.

    python tools/goldens/gguf_files.py        # with tools/requirements.txt installed; about a second

Writes crates/gguf/goldens/<NAME>.gguf and <NAME>.json: keys in file order with their types and
values, tensors in file order with the CRC-32 of their bytes. Floating-point values are given as
their bits, so that NaN and -0 are covered. (The name of this script is not `gguf`, which would hide
the package from the scripts beside it.)
"""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Format
from gguf import GGUFEndian, GGUFReader, GGUFWriter
from gguf import GGUFValueType as Type
from gguf.quants import quantize

OUT = Path(__file__).parents[2] / "crates/gguf/goldens"

# Every scalar type with its extremes.
SCALARS = {
    Type.UINT8: [0, 255],
    Type.INT8: [-128, 127],
    Type.UINT16: [0, 65535],
    Type.INT16: [-32768, 32767],
    Type.UINT32: [0, 4294967295],
    Type.INT32: [-2147483648, 2147483647],
    Type.UINT64: [0, 18446744073709551615],
    Type.INT64: [-9223372036854775808, 9223372036854775807],
    Type.FLOAT32: [-0.0, 1e-5, float("inf"), float("nan"), 3.4028234663852886e38],
    Type.FLOAT64: [-0.0, 1e-5, float("-inf"), float("nan"), 5e-324],
    Type.BOOL: [False, True],
    Type.STRING: ["▁the", "a\nb\0c", "𝄞 naïve", " "],
}

# The writer can nest these: lists of lists, whose numbers become i32 or f32. The reader flattens
# them, so the expected values are these.
NESTED = {
    "nested.two": [[1, 2, 3], [4]],
    "nested.three": [[["a", "b"], ["c"]], [["d"]]],
    "nested.four": [[[[0.5]]], [[[1.5, -2.0], [3.0]]]],
}

NAMES = {
    Type.UINT8: "u8", Type.INT8: "i8", Type.UINT16: "u16", Type.INT16: "i16", Type.UINT32: "u32",
    Type.INT32: "i32", Type.FLOAT32: "f32", Type.BOOL: "bool", Type.STRING: "string",
    Type.ARRAY: "array", Type.UINT64: "u64", Type.INT64: "i64", Type.FLOAT64: "f64",
}  # fmt: skip


def add_keys(writer: GGUFWriter) -> None:
    for kind, values in SCALARS.items():
        for i, value in enumerate(values):
            writer.add_key_value(f"scalar.{NAMES[kind]}.{i}", value, kind)
        writer.add_key_value(f"array.{NAMES[kind]}", values, Type.ARRAY, sub_type=kind)
    writer.add_key_value("scalar.string.empty", "", Type.STRING)
    for key, value in NESTED.items():
        writer.add_array(key, value)


def add_tensors(writer: GGUFWriter) -> None:
    """One to four dimensions; lengths that need padding; every kind of format."""
    rng = np.random.default_rng(1)
    values = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    writer.add_tensor("one.weight", values(5))
    writer.add_tensor("two.weight", values(3, 7))
    writer.add_tensor("three.weight", values(2, 3, 4).astype(np.float16))
    writer.add_tensor("four.weight", values(2, 1, 3, 2))
    writer.add_tensor("bf16.weight", quantize(values(2, 6), Format.BF16), raw_dtype=Format.BF16)
    writer.add_tensor("q8_0.weight", quantize(values(3, 64), Format.Q8_0), raw_dtype=Format.Q8_0)
    writer.add_tensor("q4_0.weight", quantize(values(2, 32), Format.Q4_0), raw_dtype=Format.Q4_0)
    blocks = rng.integers(256, size=(2, 144), dtype=np.uint8)
    writer.add_tensor("q4_k.weight", blocks, raw_dtype=Format.Q4_K)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain(kind: Type, value: object) -> object:
    """A value as JSON: floating-point numbers as their bits."""
    if kind == Type.FLOAT32:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    if kind == Type.FLOAT64:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    return value


def nested(value: object) -> object:
    if isinstance(value, list):
        return [nested(inner) for inner in value]
    return plain(Type.FLOAT32, value) if isinstance(value, float) else value


def keys(reader: GGUFReader) -> list[dict]:
    found = []
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):  # the reader's names for the header
            continue
        value = field.contents()
        if name in NESTED:
            value = nested(NESTED[name])
        elif field.types[0] == Type.ARRAY:
            value = [plain(field.types[1], element) for element in value]
        else:
            value = plain(field.types[0], value)
        found.append({"key": name, "type": [NAMES[kind] for kind in field.types], "value": value})
    return found


def tensors(reader: GGUFReader) -> list[dict]:
    return [
        {
            "name": tensor.name,
            "shape": [int(dim) for dim in tensor.shape],
            "format": tensor.tensor_type.name,
            "bytes": int(tensor.n_bytes),
            "crc32": zlib.crc32(tensor.data.tobytes()),
        }
        for tensor in reader.tensors
    ]


def expect(name: str, parts: list[Path]) -> None:
    """The content of a file, or in the parts of a split model together."""
    readers = [GGUFReader(part) for part in parts]
    first = readers[0]
    found = {
        "version": int(first.fields["GGUF.version"].parts[0][0]),
        "alignment": int(first.alignment),
        "keys": [entry for entry in keys(first) if not entry["key"].startswith("split.")],
        "tensors": [tensor for reader in readers for tensor in tensors(reader)],
    }
    (OUT / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    OUT.mkdir(exist_ok=True)

    path = OUT / "v3.gguf"
    writer = GGUFWriter(path, "llama")
    add_keys(writer)
    add_tensors(writer)
    finish(writer)
    expect("v3", [path])

    # Version 2 differs from 3 in nothing but the number.
    version_2 = bytearray(path.read_bytes())
    version_2[4:8] = struct.pack("<I", 2)
    path = OUT / "v2.gguf"
    path.write_bytes(version_2)
    expect("v2", [path])

    path = OUT / "aligned.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(256)
    writer.add_tensor("a.weight", np.arange(3, dtype=np.float32))
    writer.add_tensor("b.weight", np.arange(4, dtype=np.float32))
    finish(writer)
    expect("aligned", [path])

    path = OUT / "no-tensors.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    finish(writer)
    expect("no-tensors", [path])

    writer = GGUFWriter(OUT / "split.gguf", "llama", split_max_tensors=3)
    writer.add_string("general.name", "in three parts")
    add_tensors(writer)
    finish(writer)
    expect("split", [OUT / f"split-{part:05}-of-00003.gguf" for part in (1, 2, 3)])

    # Must be refused: no expectation.
    writer = GGUFWriter(OUT / "big-endian.gguf", "llama", endianess=GGUFEndian.BIG)
    writer.add_tensor("a.weight", np.arange(3, dtype=np.float32))
    finish(writer)


if __name__ == "__main__":
    main()
