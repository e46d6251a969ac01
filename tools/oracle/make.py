"""Makes crates/testkit/goldens from the test models.

    cargo run -p rustorch-testkit --example models -- DIR
    python make.py DIR                # about half a minute

For every DIR/<model>.gguf, over 16 random sequences of 256 tokens (tokens.npy):

    <model>.kl.npy     float32 [4096]     KL(exact || llama.cpp) of each position, in nats
    <model>.top1.npy   uint16 [4096]      the token with llama.cpp's largest logit
    <model>.exact.npy  float32 [4096, 2]  exact logits of two tokens a position; see `columns`
    summary.json                          the model file's CRC-32, and the distances as means

llama.cpp's figures depend a little on the processor; summary.json says which features it used.
"""

import json
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import llama_cpp
import numpy as np

from compare import distance
from exact import Model
from llama import Llama

OUT = Path(__file__).parents[2] / "crates/testkit/goldens"
SEQUENCES, POSITIONS, VOCAB = 16, 256, 512


def columns(n_vocab: int) -> np.ndarray:
    """The tokens whose exact logits are kept, [sequences * positions, 2]."""
    sequence, position, j = np.ogrid[:SEQUENCES, :POSITIONS, :2]
    return ((37 * position + 31 * sequence + 256 * j) % n_vocab).reshape(-1, 2)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    OUT.mkdir(exist_ok=True)
    tokens = np.random.default_rng(20240229).integers(VOCAB, size=(SEQUENCES, POSITIONS), dtype="<u4")
    np.save(OUT / "tokens.npy", tokens)
    packages = {name: version(name) for name in ("gguf", "llama-cpp-python", "numpy")}
    features = llama_cpp.llama_print_system_info().decode().strip()
    summary = {"versions": packages, "llama_cpp_system_info": features, "models": {}}
    for path in sorted(Path(sys.argv[1]).glob("*.gguf")):
        name = path.stem
        exact = Model(str(path)).logits(tokens).reshape(-1, VOCAB)
        llama = Llama(str(path), POSITIONS)
        theirs = llama.logits(tokens).reshape(-1, VOCAB)
        llama.close()
        found = distance(exact, theirs)
        np.save(OUT / f"{name}.kl.npy", found.kl.astype("<f4"))
        np.save(OUT / f"{name}.top1.npy", theirs.argmax(axis=-1).astype("<u2"))
        np.save(OUT / f"{name}.exact.npy", np.take_along_axis(exact, columns(VOCAB), axis=-1).astype("<f4"))
        summary["models"][name] = {
            "crc32": zlib.crc32(path.read_bytes()),
            "logits_deviation": round(float(exact.std()), 3),
            "llama_cpp": {"nmse": found.nmse, "mean_kl": float(found.kl.mean()), "top1_agreement": found.top1},
        }
        print(f"{name:10} deviation {exact.std():.2f}  NMSE {found.nmse:.2e}  "
              f"mean KL {found.kl.mean():.2e}  top-1 {found.top1:.4f}", flush=True)  # fmt: skip
    (OUT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
