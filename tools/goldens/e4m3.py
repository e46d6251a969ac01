"""Values of E4M3 codes, and codes of f32 values, by ml_dtypes.

    python tools/goldens/e4m3.py        # with tools/requirements.txt installed

Writes crates/quant/goldens/E4M3.bin: the 256 values in the order of their codes, little-endian f32; then pairs of an f32 and
the byte of its code, of all codes, of the midpoints between neighbours and the f32 values beside both, of values beyond the
largest one, and of what is not finite.

ml_dtypes makes NaN of a value above 464, where the next code would be: the conversion without saturation of the OCP 8-bit floating
point specification. Finite values are clipped first, as by the one with saturation; infinities are not, and become NaN.
"""

from pathlib import Path

import ml_dtypes
import numpy as np

OUT = Path(__file__).parents[2] / "crates/quant/goldens/E4M3.bin"
LARGEST = np.float32(448)


def main() -> None:
    values = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    positive = values[:0x7F]
    middles = (positive[1:] + positive[:-1]) / 2
    # The last f32 values belong to no pair of neighbours.
    centres = np.concatenate([positive, middles, np.array([464, 480, 65504, 1e-10, 1e-45, 3e38], dtype=np.float32)])
    inputs = np.concatenate([centres, np.nextafter(centres, np.float32(0)), np.nextafter(centres, np.float32(np.inf))])
    inputs = np.concatenate([inputs, np.array([np.inf, np.nan], dtype=np.float32)])
    inputs = np.concatenate([inputs, -inputs])
    clipped = np.where(np.isfinite(inputs), np.clip(inputs, -LARGEST, LARGEST), inputs)
    codes = clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    pairs = np.zeros(len(inputs), dtype=[("input", "<f4"), ("code", "u1")])
    pairs["input"], pairs["code"] = inputs, codes
    OUT.write_bytes(values.astype("<f4").tobytes() + pairs.tobytes())


if __name__ == "__main__":
    main()
