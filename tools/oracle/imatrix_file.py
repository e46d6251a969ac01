"""Importance matrices as `llama-imatrix` writes them, in both of its formats."""

import struct
from pathlib import Path

import gguf
import numpy as np

CHUNKS, DATASET = 4, "made.txt"


def write_gguf(path: Path, importance: dict[str, np.ndarray]) -> None:
    writer = gguf.GGUFWriter(str(path), "")
    writer.kv_data[0].pop("general.architecture", None)
    writer.add_string("general.type", "imatrix")
    writer.add_array("imatrix.datasets", [DATASET])
    writer.add_uint32("imatrix.chunk_count", CHUNKS)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name, weights in importance.items():
        writer.add_tensor(f"{name}.in_sum2", (weights * np.float32(CHUNKS))[None])
        writer.add_tensor(f"{name}.counts", np.full((1, 1), CHUNKS, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_dat(path: Path, importance: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<i", len(importance)))
        for name, weights in importance.items():
            raw = name.encode()
            file.write(struct.pack("<i", len(raw)) + raw + struct.pack("<ii", CHUNKS, len(weights)))
            file.write((weights * np.float32(CHUNKS)).astype("<f4").tobytes())
        file.write(struct.pack("<ii", CHUNKS, len(DATASET)) + DATASET.encode())
