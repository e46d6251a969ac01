"""Importance matrices as `llama-imatrix` writes them, in both of its formats."""

import struct
from pathlib import Path

import gguf
import numpy as np

CHUNKS, DATASET = 4, "made.txt"


def write_gguf(path: Path, importance: dict[str, np.ndarray]) -> None:
    one = lambda weights: ((weights * np.float32(CHUNKS))[None], np.full(1, CHUNKS))  # noqa: E731
    write_sums(path, {name: one(weights) for name, weights in importance.items()}, CHUNKS, 512, DATASET)


def write_sums(path: Path, sums: dict[str, tuple[np.ndarray, np.ndarray]], chunks: int, size: int, text: str) -> None:
    """Sums of squares [matrices, columns] and counts [matrices] of each tensor."""
    writer = gguf.GGUFWriter(str(path), "")
    writer.kv_data[0].pop("general.architecture", None)
    writer.add_string("general.type", "imatrix")
    writer.add_array("imatrix.datasets", [text])
    writer.add_uint32("imatrix.chunk_count", chunks)
    writer.add_uint32("imatrix.chunk_size", size)
    for name, (squares, counts) in sums.items():
        writer.add_tensor(f"{name}.in_sum2", squares.astype(np.float32))
        writer.add_tensor(f"{name}.counts", counts.astype(np.float32)[:, None])
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
