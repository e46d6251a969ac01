"""Makes crates/eval/goldens/imatrix: the sums that `rustorch imatrix` writes, in NumPy over exact activations.

    cargo run -p rustorch-testkit --example models -- /tmp/models
    .venv/bin/python imatrix.py /tmp/models

`llama-imatrix` sums the squares of the inputs of every matrix of a layer, for experts those of the rows that chose
each, and counts them. Here every product of `exact.py` does.
"""

import sys
from pathlib import Path

import numpy as np

from exact import Model
from imatrix_file import write_sums
from perplexity import GOLDENS as TEXTS
from perplexity import read_text, tokenize, vocabulary, windows, with_bos

OUT = Path(__file__).parents[2] / "crates/eval/goldens/imatrix"
MODELS = ["F32", "long/F32-mixtral", "long/F32-gpt-oss", "long/F32-phi3"]
N_CTX, CHUNKS = 24, 6


def sums(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By tensor: the sums of squares [matrices, columns] and the counts [matrices]."""
    vocab, bos = vocabulary(path)
    text = windows(tokenize(vocab, read_text(TEXTS / "text.txt")), N_CTX)[:CHUNKS]
    model = Model(str(path))
    found, product = {}, model.family.linear

    def linear(x, name, expert=...):
        matrices = 1 if expert is ... else model.family.experts
        shape = matrices, x.shape[-1]
        total, counts = found.setdefault(f"{name}.weight", (np.zeros(shape), np.zeros(matrices)))
        rows = x.reshape(-1, x.shape[-1])
        total[0 if expert is ... else expert] += (rows**2).sum(axis=0)
        counts[0 if expert is ... else expert] += len(rows)
        return product(x, name, expert)

    model.family.linear = linear
    in_file = model.weights.keys() | {"output.weight"}
    model.logits(with_bos(text, bos))
    # Phi 3's pass cuts the fused matrices of queries, keys and values and of gate and up.
    named = {fused(name) if name not in in_file else name: both for name, both in found.items()}
    return {name: both for name, both in named.items() if name in in_file}


def fused(name: str) -> str:
    return name.replace("attn_q.", "attn_qkv.")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name in MODELS:
        found = sums(Path(sys.argv[1]) / f"{name}.gguf")
        in_blocks = {name: both for name, both in sorted(found.items()) if name.startswith("blk.")}
        write_sums(OUT / f"{Path(name).name}.gguf", in_blocks, CHUNKS, N_CTX, "text.txt")
    found = {"output.weight": found["output.weight"]}
    write_sums(OUT / "output.gguf", found, CHUNKS, N_CTX, "text.txt")


if __name__ == "__main__":
    main()
