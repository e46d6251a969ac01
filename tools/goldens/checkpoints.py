"""Writes crates/convert/goldens/checkpoints.jsonl: what llama.cpp's converter makes of small checkpoints.

    python checkpoints.py FOLDER --llama-cpp SOURCE      # FOLDER and SOURCE as for ../checks/convert/check.py, which makes FOLDER

Each line is a case: the configuration, the names, types and shapes of the checkpoint's tensors, the folder of `goldens/others` with its
other files, and the keys and tensors of the files. The bytes of a checkpoint's tensor follow from its name (`fill`), so that the test makes the same checkpoint.
"""

import argparse
import hashlib
import json
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "crates" / "convert" / "goldens"
sys.path.insert(0, str(ROOT / "tools" / "checks" / "convert"))

from cases import CASES, MEANT  # noqa: E402
from check import Converter, read  # noqa: E402

TYPES = ["f32", "bf16"]
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3"}
SHORT = 16


def fill(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Bytes from a linear congruential sequence: multiples of 1/64 below 2, or numbers of 8 bits without NaN."""
    count = tensor.numel()
    sequence = (zlib.crc32(name.encode()) + np.arange(count, dtype=np.uint64) * 2654435761) % 2**32
    high = (sequence >> 24).astype(np.uint8)
    if tensor.dtype == torch.uint8:
        return torch.from_numpy(high).view(tensor.shape)
    if tensor.dtype == torch.float8_e4m3fn:
        return torch.from_numpy(high & 0xFE).view(torch.float8_e4m3fn).view(tensor.shape)
    return torch.from_numpy((high.astype(np.float32) - 128) / 64).to(tensor.dtype).view(tensor.shape)


def refill(checkpoint: Path, out: Path) -> dict:
    """A copy with other weights in one file; returns the types and shapes of its tensors."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(checkpoint, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors*"))
    tensors = {name: tensor for shard in sorted(checkpoint.glob("*.safetensors")) for name, tensor in load_file(shard).items()}
    tensors = {name: fill(name, tensor).contiguous() for name, tensor in tensors.items()}
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    return {name: [NAMES[tensor.dtype], list(tensor.shape)] for name, tensor in tensors.items()}


def others(checkpoint: Path) -> str:
    """Saves the files beside configuration and weights, once for all cases with the same ones."""
    names = sorted(path.relative_to(checkpoint) for path in checkpoint.rglob("*") if path.is_file())
    names = [name for name in names if not name.name.startswith(("config.json", "model")) or name.parent != Path()]
    names = [name for name in names if name.suffix not in (".safetensors", ".gguf", ".npy")]
    contents = {name: (checkpoint / name).read_bytes() for name in names}
    digest = hashlib.sha256(b"".join(str(name).encode() + content for name, content in contents.items())).hexdigest()[:8]
    for name, content in contents.items():
        path = GOLDENS / "others" / digest / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return digest


def plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def digest(data: np.ndarray) -> str:
    return hashlib.sha256(data.tobytes()).hexdigest()[:SHORT]


def golden(folder: Path, case: str, converter: Converter) -> dict:
    out = folder / "refilled" / case
    tensors = refill(folder / case, out)
    files = {}
    for file_type in TYPES:
        path = out / f"{file_type}.gguf"
        converter.convert(out, path, file_type)
        keys, found = read(path)
        files[file_type] = {name: [kind, [int(n) for n in shape], digest(data)] for name, (kind, shape, data) in found.items()}
    architecture = keys["general.architecture"][1]
    keys = {key: [types[-1].name if len(types) == 1 else f"[{types[-1].name}]", plain(value)]
            for key, (types, value) in keys.items() if key.startswith(f"{architecture}.")}  # fmt: skip
    config = json.loads((out / "config.json").read_text())
    meant = {"meant": sorted(MEANT[case])} if case in MEANT else {}
    return meant | {"case": case, "architecture": architecture, "others": others(out), "config": config, "tensors": tensors, "keys": keys, "files": files}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--llama-cpp", type=Path, required=True)
    options = parser.parse_args()
    converter = Converter(options.llama_cpp.resolve())
    lines = []
    shutil.rmtree(GOLDENS / "others", ignore_errors=True)
    for case in CASES:
        try:
            lines.append(json.dumps(golden(options.folder, case, converter), separators=(",", ":")))
        except Exception as why:
            print(f"{case}: {type(why).__name__}: {why}")
    path = GOLDENS / "checkpoints.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {path.stat().st_size} bytes")
