"""Goldens of quantisation, by llama.cpp: made by `quantize.py --goldens`.

    crates/quant/goldens/quantize.json     squared errors of each format on values that tests make themselves
    crates/convert/goldens/mixes.json      formats of tensors by type, for models of several shapes
"""

import itertools
import json
import string
from pathlib import Path

import gguf
import numpy as np

import llama_quantize
from small_llama import Shape, write
from squared_error import FLOATS, squared_errors

ROWS, COLUMNS = 64, 1024
NAMES = (
    "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS "
    "MXFP4 IQ3_XXS IQ3_S IQ2_XXS IQ2_XS IQ2_S IQ1_S IQ1_M TQ1_0 TQ2_0 NVFP4"
).split()
# llama.cpp refuses to quantise to them without an imatrix.
NEEDS_IMPORTANCE = {"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"}
# llama.cpp's choice depends on these: layers, heads that share values, tied embeddings, rows that are no
# whole blocks.
MODELS = {
    "shared by 4": Shape(layers=16, width=256, heads=8, kv_heads=2, feed_forward=256),
    "not shared": Shape(layers=10, width=256, heads=4, kv_heads=4, feed_forward=512, tied=True),
    "65B": Shape(layers=80, width=256, heads=4, kv_heads=4, feed_forward=256, vocabulary=260),
    "70B": Shape(layers=80, width=256, heads=4, kv_heads=1, feed_forward=256, vocabulary=260),
    "blocks of 32": Shape(layers=8, width=288, heads=3, kv_heads=3, feed_forward=512),
    "no blocks": Shape(layers=2, width=264, heads=3, kv_heads=3, feed_forward=512, tied=True),
    "Qwen2.5 0.5B": Shape(24, 224, heads=7, kv_heads=1, feed_forward=512, tied=True, architecture="qwen2"),
    "8 experts": Shape(layers=16, width=256, heads=8, kv_heads=4, feed_forward=256, experts=8),
    "4 experts": Shape(layers=8, width=256, heads=8, kv_heads=4, feed_forward=256, experts=4),
    "Qwen1.5 72B": Shape(80, 256, heads=4, kv_heads=4, feed_forward=256, vocabulary=260, architecture="qwen2"),
}


DIGITS = string.digits + string.ascii_lowercase
# Formats that are requested by name, as `--tensor-type PATTERN=TYPE` does.
OVERRIDES = (("attn_k", "Q8_0"), (r"blk\.[01]\.ffn_up", "Q6_K"), ("^output", "Q5_K"), ("attn_", "F16"), ("norm", "Q8_0"))


def splitmix(count: int, seed: int) -> np.ndarray:
    """uint64 [count]: SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def normal(count: int, seed: int) -> np.ndarray:
    """float32 [count]: sums of 12 numbers of 16 bits, less their mean, over 2^16. Exact in float32."""
    words = splitmix(3 * count, seed).view("<u2").reshape(count, 12)
    return (words.astype(np.int64).sum(1) - 6 * 65536).astype(np.float32) / np.float32(65536)


def cases() -> dict[str, np.ndarray]:
    x = normal(ROWS * COLUMNS, 1).reshape(ROWS, COLUMNS)
    return {"normal": x, "outliers": x * np.abs(x) * np.float32(0.01)}


def importance() -> np.ndarray:
    """float32 [COLUMNS]: powers of two from 1 to 128."""
    return np.exp2((splitmix(COLUMNS, 2) & np.uint64(7)).astype(np.float32)).astype(np.float32)


def errors() -> dict:
    found = {}
    for (case, x), known in itertools.product(cases().items(), (False, True)):
        columns = importance() if known else None
        by_format = found.setdefault(case, {}).setdefault("importance" if known else "alone", {})
        for name in NAMES:
            if name in FLOATS or (name in NEEDS_IMPORTANCE and not known):
                continue
            y = llama_quantize.rows(gguf.GGMLQuantizationType[name], x, columns)
            weighted, plain = squared_errors(name, x, y, columns)
            by_format[name] = {"weighted": weighted, "plain": plain}
    return found


def mixes(folder: Path) -> dict:
    found = {"formats": NAMES, "overrides": OVERRIDES, "models": {}}
    for name, shape in MODELS.items():
        source = folder / "source.gguf"
        write(source, shape, 1)
        matrices = {tensor: dims for tensor, dims in shape.tensors().items() if len(dims) > 1}
        # For each expert, if there are some.
        known = {tensor: np.ones(np.prod(dims) // dims[-2], np.float32) for tensor, dims in matrices.items()}
        runs = {}
        for type_, imatrix, pure in itertools.product(llama_quantize.TYPES, (False, True), (False, True)):
            if imatrix and pure or type_ in llama_quantize.NEED_IMATRIX and not imatrix:
                continue
            formats = llama_quantize.formats(source, type_, known if imatrix else None, pure)
            # A digit for each tensor, in the order below.
            digits = "".join(DIGITS[NAMES.index(formats[tensor])] for tensor in matrices)
            runs[type_ + (" imatrix" if imatrix else "") + (" pure" if pure else "")] = digits
        # Of F16 and other floats llama.cpp takes no other formats, without a word.
        for type_ in ("Q4_K_M", "Q8_0", "Q2_K_S"):
            formats = llama_quantize.formats(source, type_, overrides=OVERRIDES)
            runs[type_ + " overrides"] = "".join(DIGITS[NAMES.index(formats[tensor])] for tensor in matrices)
        facts = {"architecture": shape.architecture, "layers": shape.layers, "heads": shape.heads,
                 "kv_heads": shape.kv_heads, "experts": shape.experts, "tied": shape.tied}  # fmt: skip
        tensors = [[tensor, *reversed(dims)] for tensor, dims in matrices.items()]
        found["models"][name] = {**facts, "tensors": tensors, "types": runs}
    return found


def save(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def make(root: Path, folder: Path) -> None:
    save(root / "crates/quant/goldens/quantize.json", errors())
    text = mixes(folder)
    # The tensors of a model on one line.
    lines = {name: model.pop("tensors") for name, model in text["models"].items()}
    for name, model in text["models"].items():
        model["tensors"] = f"@{name}@"
    written = json.dumps(text, indent=1)
    for name, tensors in lines.items():
        written = written.replace(f'"@{name}@"', json.dumps(tensors, separators=(",", ":")))
    path = root / "crates/convert/goldens/mixes.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written + "\n")
