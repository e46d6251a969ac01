"""Makes crates/testkit/goldens from the test models.

    cargo run -p rustorch-testkit --example models -- DIR
    python make.py DIR                # about a minute
    python make.py DIR --long         # all but the first part below

For every DIR/<model>.gguf, over 16 random sequences of 256 tokens (tokens.npy):

    <model>.kl.npy     float32 [4096]     KL(exact || llama.cpp) of each position, in nats
    <model>.top1.npy   uint16 [4096]      the token with llama.cpp's largest logit
    <model>.exact.npy  float32 [4096, 2]  exact logits of two tokens a position; see `columns`
    summary.json                          the model file's CRC-32, and the distances as means

For every DIR/long/<model>.gguf, over one random sequence of 300 tokens (long.tokens.npy), with llama.cpp's K and V in F32:

    <model>.long.npy   float32 [300, 2]   exact logits of two tokens a position; see `columns`
    summary.json                          the same, and how near two experts come of which a row takes one

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
from families import nmse, poolings
from llama import Llama

OUT = Path(__file__).parents[2] / "crates/testkit/goldens"
SEQUENCES, POSITIONS, VOCAB = 16, 256, 512
LONG = 300


def columns(n_vocab: int, sequences: int = SEQUENCES, positions: int = POSITIONS) -> np.ndarray:
    """The tokens whose exact logits are stored, [sequences * positions, 2]."""
    sequence, position, j = np.ogrid[:sequences, :positions, :2]
    return ((37 * position + 31 * sequence + 256 * j) % n_vocab).reshape(-1, 2)


class Gaps:
    """How much the last choice of a router is above the next, in standard deviations of what it chooses by."""

    def __init__(self, family):
        self.smallest, self.family, self.routes = None, family, family.routes
        if family.experts:
            family.routes = self.watch

    def watch(self, logits: np.ndarray, ffn: str) -> tuple[np.ndarray, np.ndarray]:
        found = self.routes(logits, ffn)
        for x, used in self.family.ranked:
            falling = -np.sort(-x, axis=-1)
            gap = float((falling[..., used - 1] - falling[..., used]).min() / x[np.isfinite(x)].std())
            self.smallest = gap if self.smallest is None else min(gap, self.smallest)
        return found


def compare(path: Path, tokens: np.ndarray, f32: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    """Exact logits [positions, vocab], llama.cpp's divergences and likeliest tokens, and what the summary says."""
    model = Model(str(path))
    gaps = Gaps(model.family)
    exact = model.logits(tokens).reshape(-1, VOCAB)
    llama = Llama(str(path), tokens.shape[1], f32=f32)
    theirs = llama.logits(tokens).reshape(-1, VOCAB)
    llama.close()
    found = distance(exact, theirs)
    summary = {
        "crc32": zlib.crc32(path.read_bytes()),
        "logits_deviation": round(float(exact.std()), 3),
        "llama_cpp": {"nmse": found.nmse, "mean_kl": float(found.kl.mean()), "top1_agreement": found.top1},
    }
    if gaps.smallest is not None:
        summary["router_gap"] = gaps.smallest
        summary["llama_cpp"]["median_kl"] = float(np.median(found.kl))
    print(f"{path.stem:14} deviation {exact.std():.2f}  NMSE {found.nmse:.2e}  mean KL {found.kl.mean():.2e}  "
          f"top-1 {found.top1:.4f}", *[f" router gap {gaps.smallest:.1e}"] if gaps.smallest else [],
          flush=True)  # fmt: skip
    return exact, found.kl, theirs.argmax(axis=-1), summary


def embeddings(path: Path, tokens: np.ndarray) -> tuple[dict[str, np.ndarray], dict]:
    """Exact embeddings of one sequence by pooling, and what the summary says."""
    model, distances = Model(str(path)), {}
    gaps = Gaps(model.family)
    exact = {pooling: model.embedding(tokens, pooling)[0] for pooling in poolings(model.family)}
    for pooling, values in exact.items():
        llama = Llama(str(path), tokens.shape[1], f32=True, pooling=pooling)
        distances[pooling] = nmse(values, llama.embedding(tokens[0]))
        llama.close()
    deviation = round(float(exact["none"].std()), 3)
    summary = {"crc32": zlib.crc32(path.read_bytes()), "deviation": deviation, "llama_cpp": {"nmse": distances}}
    if gaps.smallest is not None:
        summary["router_gap"] = gaps.smallest
    print(f"{path.stem:14} NMSE", *(f"{pooling} {value:.2e}" for pooling, value in distances.items()), flush=True)
    return exact, summary


def random_tokens(seed: int, sequences: int, positions: int, name: str) -> np.ndarray:
    tokens = np.random.default_rng(seed).integers(VOCAB, size=(sequences, positions), dtype="<u4")
    np.save(OUT / f"{name}.npy", tokens)
    return tokens


def kept(exact: np.ndarray, sequences: int, positions: int) -> np.ndarray:
    return np.take_along_axis(exact, columns(VOCAB, sequences, positions), axis=-1).astype("<f4")


def main() -> None:
    if len(sys.argv) != 2 and sys.argv[2:] != ["--long"]:
        raise SystemExit(__doc__)
    OUT.mkdir(exist_ok=True)
    packages = {name: version(name) for name in ("gguf", "llama-cpp-python", "numpy")}
    features = llama_cpp.llama_print_system_info().decode().strip()
    summary = {"versions": packages, "llama_cpp_system_info": features, "models": {}, "long": {}, "embed": {}}
    if len(sys.argv) == 3:
        summary["models"] = json.loads((OUT / "summary.json").read_text())["models"]
    else:
        tokens = random_tokens(20240229, SEQUENCES, POSITIONS, "tokens")
        for path in sorted(Path(sys.argv[1]).glob("*.gguf")):
            exact, kl, top1, summary["models"][path.stem] = compare(path, tokens)
            np.save(OUT / f"{path.stem}.kl.npy", kl.astype("<f4"))
            np.save(OUT / f"{path.stem}.top1.npy", top1.astype("<u2"))
            np.save(OUT / f"{path.stem}.exact.npy", kept(exact, SEQUENCES, POSITIONS))
    tokens = random_tokens(20250711, 1, LONG, "long.tokens")
    for path in sorted((Path(sys.argv[1]) / "long").glob("*.gguf")):
        exact, _, _, summary["long"][path.stem] = compare(path, tokens, f32=True)
        np.save(OUT / f"{path.stem}.long.npy", kept(exact, 1, LONG))
    for path in sorted((Path(sys.argv[1]) / "embed").glob("*.gguf")):
        exact, summary["embed"][path.stem] = embeddings(path, tokens)
        rows = np.take_along_axis(exact["none"], columns(exact["none"].shape[1], 1, LONG), axis=-1)
        np.save(OUT / f"{path.stem}.rows.npy", rows.astype("<f4"))
        np.save(OUT / f"{path.stem}.pooled.npy", np.stack([exact[pooling] for pooling in ("mean", "cls", "last")]).astype("<f4"))
        if "rank" in exact:
            np.save(OUT / f"{path.stem}.rank.npy", exact["rank"].astype("<f4"))
    (OUT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
