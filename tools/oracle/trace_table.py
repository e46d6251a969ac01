"""How far the values of one trace are from those of another.

    python trace_table.py REFERENCE.safetensors OTHER.safetensors

Prints for each value of both, in the reference's order: NMSE = sum((a-b)^2) / sum(a^2), cosine, and
the largest difference; then the values that only one has. Accumulated errors: nothing is replayed.
"""

import sys

import numpy as np

import trace_file


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    (meta, ours), (other, theirs) = map(trace_file.read, sys.argv[1:])
    if meta["tokens"] != other["tokens"]:
        raise SystemExit("the traces are of different tokens")
    common = [name for name in ours if name in theirs]
    for name in common:
        a, b = ours[name].astype(np.float64), theirs[name].astype(np.float64)
        if a.shape != b.shape:
            raise SystemExit(f"{name} has shapes {a.shape} and {b.shape}")
        nmse = ((a - b) ** 2).sum() / (a**2).sum()
        cosine = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
        print(f"{name:20} NMSE {nmse:.2e}  cosine {cosine:.9f}  largest {np.abs(a - b).max():.2e}")
    print("only in the first: ", *[name for name in ours if name not in common])
    print("only in the second:", *[name for name in theirs if name not in common])


if __name__ == "__main__":
    main()
