"""Squared errors, weighted as in llama.cpp's search of a format."""

import numpy as np

FLOATS = {"F32", "F16", "BF16"}
UNWEIGHTED = {"MXFP4", "NVFP4", "TQ1_0", "TQ2_0"}
SMALL = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}


def weights(kind: str, x: np.ndarray, importance: np.ndarray | None) -> np.ndarray:
    """float64 [rows, columns] for the values `x`, float64 [rows, columns]"""

    def mean_square(group: int) -> np.ndarray:
        means = (x.reshape(len(x), -1, group) ** 2).mean(-1)
        return np.repeat(means, group, axis=1)

    if kind in UNWEIGHTED:
        return np.ones_like(x)
    if importance is None:
        if kind in SMALL:
            return np.ones_like(x)
        if kind == "Q2_K":
            return np.abs(x)
        if kind in ("Q4_K", "Q5_K"):
            return np.sqrt(mean_square(32)) + np.abs(x)
        return x**2
    importance = np.broadcast_to(importance.astype(np.float64), x.shape)
    if kind in ("Q6_K", "Q8_0"):
        return importance
    if kind in SMALL:
        spread = mean_square(x.shape[1])
    elif kind == "IQ4_NL":
        spread = 2 * mean_square(32)
    else:
        spread = (1 if kind in ("Q2_K", "IQ2_XXS", "IQ2_XS") else 2) * mean_square(256)
    return importance * np.sqrt(spread + x**2)


def squared_errors(kind: str, x: np.ndarray, y: np.ndarray, importance: np.ndarray | None) -> tuple[float, float]:
    """Means of the weighted and of the unweighted squared error of `y`, the quantised values of `x`, [rows, columns]."""
    x = x.astype(np.float64)
    squares = (y - x) ** 2
    w = weights(kind, x, importance)
    return float((w * squares).sum() / w.sum()), float(squares.mean())
