"""Expected dequantisation of every block format, by the gguf package.

    python tools/goldens/quant.py        # with tools/requirements.txt installed; about a second

Writes crates/quant/goldens/<FORMAT>.bin: the blocks, then their values as little-endian f32. The
blocks are random bytes whose F16 fields run through SCALES.
"""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

OUT = Path(__file__).parents[2] / "crates/quant/goldens"
BLOCKS = 16

# Format -> offsets of its F16 fields.
SCALE_FIELDS = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0],
    Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ1_S: [0], Type.IQ1_M: [], Type.TQ1_0: [52], Type.TQ2_0: [64],
    Type.MXFP4: [], Type.NVFP4: [],
}  # fmt: skip

# F16 bits: ordinary numbers of either sign, and every extreme.
SCALES = [
    0x2E66, 0xA9C3, 0x1A51, 0x3C00, 0xB555, 0x7BFF, 0xFBFF, 0x0400,
    0x0001, 0x83FF, 0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x2001,
]  # fmt: skip


def float_bytes(kind: Type, rng: np.random.Generator) -> np.ndarray:
    """Every sign and exponent, with mantissas at both ends and between."""
    bits, mantissa = {Type.F32: (32, 23), Type.F16: (16, 10), Type.BF16: (16, 7)}[kind]
    heads = np.arange(1 << (bits - mantissa), dtype=np.uint64) << np.uint64(mantissa)
    top = 1 << mantissa
    tails = [0, 1, top // 2, top - 1, int(rng.integers(top))]
    words = (heads[:, None] | np.array(tails, dtype=np.uint64)).ravel()
    return words.astype(f"<u{bits // 8}").view(np.uint8)


def block_bytes(kind: Type, rng: np.random.Generator) -> np.ndarray:
    """BLOCKS blocks; a second F16 field goes through SCALES in another order than the first."""
    blocks = rng.integers(256, size=(BLOCKS, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    if kind == Type.IQ1_M:
        # Its F16 scale is the high nibbles of four words.
        for i, scale in enumerate(SCALES):
            blocks[i, 49:56:2] = blocks[i, 49:56:2] & 15 | np.array([scale >> 4 * j & 15 for j in range(4)]) << 4
    if kind == Type.MXFP4:
        # Every exponent.
        blocks = np.resize(blocks, (256, blocks.shape[1]))
        blocks[:, 0] = np.arange(256)
    if kind == Type.NVFP4:
        # Every scale.
        blocks = np.resize(blocks, (64, blocks.shape[1]))
        blocks[:, :4] = np.arange(256).reshape(64, 4)
    for field, offset in enumerate(SCALE_FIELDS[kind]):
        scales = np.roll(np.array(SCALES, dtype="<u2"), 5 * field)
        blocks[:, offset : offset + 2] = scales[:, None].view(np.uint8)
    return blocks.ravel()


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for kind in [Type.F32, Type.F16, Type.BF16, *SCALE_FIELDS]:
        rng = np.random.default_rng(kind.value)
        raw = block_bytes(kind, rng) if kind in SCALE_FIELDS else float_bytes(kind, rng)
        with np.errstate(all="ignore"):
            values = dequantize(raw, kind)
        (OUT / f"{kind.name}.bin").write_bytes(raw.tobytes() + values.astype("<f4").tobytes())


if __name__ == "__main__":
    main()
