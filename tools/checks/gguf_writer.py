"""Checks that the gguf package reads what the project's writer writes.

    python tools/checks/gguf_writer.py [FILE.gguf ...]        # with tools/requirements.txt installed

Rewrites each file (by default the golden ones) with the example `rewrite` and compares what the
package's reader finds in both: every key with its types and values, every tensor with its bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from gguf import GGUFReader

ROOT = Path(__file__).parents[2]
GOLDENS = ["v3", "v2", "aligned", "no-tensors", "split-00001-of-00003"]


def parts(path: Path) -> list[Path]:
    """The files of the model."""
    if "-00001-of-" not in path.name:
        return [path]
    stem, count = path.stem.split("-00001-of-")
    return [path.with_name(f"{stem}-{i + 1:05}-of-{count}.gguf") for i in range(int(count))]


def content(paths: list[Path]) -> tuple[dict, dict]:
    readers = [GGUFReader(path) for path in paths]
    keys = {
        name: (field.types, [field.parts[i].tobytes() for i in field.data])
        for name, field in readers[0].fields.items()
        if not name.startswith(("GGUF.", "split."))
    }
    tensors = {
        tensor.name: (tensor.tensor_type, tensor.shape.tolist(), tensor.data.tobytes())
        for reader in readers
        for tensor in reader.tensors
    }
    return keys, tensors


def main() -> None:
    files = [Path(arg).resolve() for arg in sys.argv[1:]]
    files = files or [ROOT / f"crates/gguf/goldens/{name}.gguf" for name in GOLDENS]
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            rewritten = Path(folder) / "rewritten.gguf"
            command = ["cargo", "run", "-q", "-p", "rustorch-gguf", "--example", "rewrite", file, rewritten]
            subprocess.run(command, cwd=ROOT, check=True)
            keys, tensors = content([rewritten])
            if (keys, tensors) != content(parts(file)):
                sys.exit(f"{file.name}: the rewritten file differs")
            if list(keys) != list(content(parts(file))[0]):
                sys.exit(f"{file.name}: the rewritten file has its keys in another order")
            print(f"{file.name}: {len(keys)} keys and {len(tensors)} tensors are the same")


if __name__ == "__main__":
    main()
