"""llama.cpp's quantisation: whole files, and rows of values."""

import ctypes
import re
from pathlib import Path

import gguf
import llama_cpp as lib
import numpy as np

# TYPE of the command line -> llama.cpp's number, which is also `general.file_type`.
TYPES = {
    "F32": 0,
    "F16": 1,
    "BF16": 32,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q8_0": 7,
    "Q2_K": 10,
    "Q2_K_S": 21,
    "Q3_K_S": 11,
    "Q3_K_M": 12,
    "Q3_K_L": 13,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_S": 16,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "IQ4_XS": 30,
    "IQ3_XXS": 23,
    "IQ3_XS": 22,
    "IQ3_S": 26,
    "IQ3_M": 27,
    "IQ2_XXS": 19,
    "IQ2_XS": 20,
    "IQ2_S": 28,
    "IQ2_M": 29,
    "IQ1_S": 24,
    "IQ1_M": 31,
    "TQ1_0": 36,
    "TQ2_0": 37,
    "MXFP4_MOE": 38,
}

# Those that llama.cpp makes only with an imatrix.
NEED_IMATRIX = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M"}

_said: list[str] = []
_log = lib.llama_log_callback(lambda level, text, data: _said.append(text.decode(errors="replace")))


def quantize(
    source: Path,
    out: Path,
    type_: str,
    imatrix: dict[str, np.ndarray] | None = None,
    pure: bool = False,
    dry_run: bool = False,
    overrides: tuple[tuple[str, str], ...] = (),
) -> None:
    """Writes `source` as `out`.

    `imatrix` has a weight for each column of a tensor, `overrides` pairs of a pattern and a format for the tensors whose
    names it matches.
    """
    # Whoever loaded a model since may have set another.
    lib.llama_log_set(_log, ctypes.c_void_p(0))
    _said.clear()
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.pure, params.nthread, params.dry_run = TYPES[type_], pure, 2, dry_run
    if imatrix:
        entries = (lib.llama_model_imatrix_data * (len(imatrix) + 1))()
        held = [np.ascontiguousarray(weights, np.float32) for weights in imatrix.values()]
        for entry, name, weights in zip(entries, imatrix, held):
            entry.name = name.encode()
            entry.data = weights.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            entry.size = len(weights)
        params.imatrix = entries
    if overrides:
        entries = (lib.llama_model_tensor_override * (len(overrides) + 1))()
        for entry, (pattern, format_) in zip(entries, overrides):
            entry.pattern, entry.type = pattern.encode(), int(gguf.GGMLQuantizationType[format_])
        params.tt_overrides = entries
    status = lib.llama_model_quantize(str(source).encode(), str(out).encode(), params)
    if status != 0:
        raise RuntimeError(f"llama.cpp does not quantise {source} to {type_}")


def formats(
    source: Path,
    type_: str,
    imatrix: dict[str, np.ndarray] | None = None,
    pure: bool = False,
    overrides: tuple[tuple[str, str], ...] = (),
) -> dict[str, str]:
    """The format of each tensor, from a dry run."""
    quantize(source, Path("unwritten"), type_, imatrix, pure, dry_run=True, overrides=overrides)
    line = re.compile(r"\[ *\d+/ *\d+\] +(\S+) .* type = +(\w+), size = .*?(?:\((\w+)\))?$", re.MULTILINE)
    return {name: (after or before).upper() for name, before, after in line.findall("".join(_said))}


def rows(type_: gguf.GGMLQuantizationType, x: np.ndarray, importance: np.ndarray | None) -> np.ndarray:
    """The rows `x`, quantised and dequantised again."""
    block, size = gguf.GGML_QUANT_SIZES[type_]
    x = np.ascontiguousarray(x, np.float32)
    raw = np.zeros((len(x), x.shape[1] // block * size), np.uint8)
    pointer = ctypes.POINTER(ctypes.c_float)
    given = None
    if importance is not None:
        importance = np.ascontiguousarray(importance, np.float32)
        given = importance.ctypes.data_as(pointer)
    ggml = ctypes.CDLL(str(Path(lib.__file__).parent / "lib" / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk(
        ctypes.c_int(int(type_)),
        x.ctypes.data_as(pointer),
        raw.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(0),
        ctypes.c_int64(x.shape[0]),
        ctypes.c_int64(x.shape[1]),
        given,
    )
    return gguf.quants.dequantize(raw, type_).reshape(x.shape)
