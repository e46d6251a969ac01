"""Trace files: one float32 matrix [positions, columns] for each named value, in a safetensors file.

The format is that of `rustorch trace`; crates/trace/src/meta.rs lists the metadata keys, and
crates/trace/src/digest.rs says what a model's digest is.
"""

import hashlib
import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np

HEAD, TAIL = 16 << 20, 1 << 20


class Writer:
    """Writes a trace as values come. They wait in a file without a name beside PATH, since the header
    that must come first is not known before the last of them."""

    def __init__(self, path: str):
        self.path = Path(path)
        self.data = tempfile.TemporaryFile(dir=self.path.parent)
        self.places: dict[str, tuple[int, tuple[int, int]]] = {}

    def add(self, name: str, value: np.ndarray) -> None:
        """value [positions, columns]; replaces an earlier value of that name."""
        assert value.ndim == 2, f"{name} has shape {value.shape}"
        self.places.pop(name, None)
        self.places[name] = (self.data.tell(), value.shape)
        self.data.write(np.ascontiguousarray(value, dtype="<f4").tobytes())

    def rename(self, old: str, new: str) -> None:
        self.places[new] = self.places.pop(old)

    def finish(self, meta: dict[str, str]) -> None:
        header = {"__metadata__": {"format": "rustorch-trace", "version": "1"} | meta}
        end = 0
        for name, (_, shape) in self.places.items():
            begin, end = end, end + 4 * shape[0] * shape[1]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self.path.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for at, shape in self.places.values():
                self.data.seek(at)
                shutil.copyfileobj(_Limited(self.data, 4 * shape[0] * shape[1]), out)
        self.data.close()


class _Limited:
    """The next `left` bytes of a file."""

    def __init__(self, file, left: int):
        self.file, self.left = file, left

    def read(self, size: int) -> bytes:
        data = self.file.read(min(size, self.left))
        self.left -= len(data)
        return data


def read(path: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata, and the values in the order of the file; they are read from it when used."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    meta = header.pop("__metadata__")
    entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"][0])
    values = {
        name: np.memmap(path, "<f4", "r", 8 + length + entry["data_offsets"][0], tuple(entry["shape"]))
        for name, entry in entries
    }
    return meta, values


def files(model: str) -> list[Path]:
    """The files of a model: all parts when MODEL is the first of a split one."""
    match = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", model)
    if not match:
        return [Path(model)]
    stem, count = match[1], match[2]
    return [Path(f"{stem}-{part:05}-of-{count}.gguf") for part in range(1, int(count) + 1)]


def digest(model: str) -> str:
    """The identity of a model's files."""
    found = hashlib.sha256()
    for path in files(model):
        size = path.stat().st_size
        found.update(f"{size}\n".encode())
        with path.open("rb") as file:
            found.update(file.read(HEAD))
            file.seek(max(0, size - TAIL))
            found.update(file.read(TAIL))
    return found.hexdigest()


def ids(text: str) -> list[int]:
    """Token ids such as 1,15043."""
    return [int(part) for part in text.replace(",", " ").split()]
