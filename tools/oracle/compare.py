"""How far one set of logits is from another.

    python compare.py A.npy B.npy                        # B against the reference A
    python compare.py --model MODEL.gguf TOKENS.npy B.npy  # against exact.py's logits

Prints NMSE = sum((a-b)^2) / sum(a^2), the mean over positions of KL(softmax a || softmax b) in
nats, and the share of positions where both have the same largest logit.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from exact import Model


@dataclass
class Distance:
    """kl [positions]; the other two are over everything."""

    nmse: float
    kl: np.ndarray
    top1: float


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def distance(a: np.ndarray, b: np.ndarray) -> Distance:
    """b against the reference a, both [.., vocab]; in float64."""
    a = a.reshape(-1, a.shape[-1]).astype(np.float64)
    b = b.reshape(-1, b.shape[-1]).astype(np.float64)
    if a.shape != b.shape:
        raise SystemExit(f"shapes differ: {a.shape} and {b.shape}")
    p, q = log_softmax(a), log_softmax(b)
    return Distance(
        nmse=float(((a - b) ** 2).sum() / (a**2).sum()),
        kl=(np.exp(p) * (p - q)).sum(axis=-1),
        top1=float((a.argmax(axis=-1) == b.argmax(axis=-1)).mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="MODEL.gguf")
    parser.add_argument("a", metavar="A.npy | TOKENS.npy")
    parser.add_argument("b", metavar="B.npy")
    args = parser.parse_args()
    a = np.load(args.a)
    found = distance(Model(args.model).logits(a) if args.model else a, np.load(args.b))
    print(f"NMSE {found.nmse:.3e}  mean KL {found.kl.mean():.3e}  top-1 agreement {found.top1:.4%}")


if __name__ == "__main__":
    main()
