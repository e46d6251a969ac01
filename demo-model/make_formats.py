"""Quantises the F16 master with llama.cpp: the embedded file, and optionally the formats to compare."""

import argparse
from pathlib import Path

import llama_cpp

FORMATS = {
    "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "q6_k": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "q5_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M,
    "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
}


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="+", choices=FORMATS)
    parser.add_argument("--master", type=Path, default=here / "rustorch-demo-f16.gguf")
    parser.add_argument("--out", type=Path, default=here)
    args = parser.parse_args()
    for name in args.formats:
        out = args.out / f"rustorch-demo-{name}.gguf"
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = FORMATS[name]
        status = llama_cpp.llama_model_quantize(str(args.master).encode(), str(out).encode(), params)
        if status != 0:
            raise SystemExit(f"llama.cpp could not write {out}")
        print(f"{out.name}  {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
