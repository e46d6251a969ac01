"""Writes docs/kv-cache.md: how far the types of the KV cache are from f32, by `rustorch perplexity`.

    cargo build
    python tools/checks/cache_types.py [PROGRAM]      # some minutes

The text is held-out chats of the demo model's corpus, the model the demo model in F16, so that only the cache differs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "demo-model"))
from corpus import chats  # noqa: E402
from corpus.core import HELD_OUT  # noqa: E402

MODEL = ROOT / "demo-model/rustorch-demo-f16.gguf"
TYPES = ["f16", "bf16", "fp8", "q8_0", "q4_0", "f16/fp8", "q8_0/f16", "f16/q8_0", "q8_0/q4_0", "q4_0/q8_0"]
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "fp8": 1, "q8_0": 34 / 32, "q4_0": 18 / 32}
CHATS, N_CTX = 120, 256

HEAD = """# KV cache types

    rustorch -m model.gguf -ctk q8_0 -ctv q4_0      # --cache-type-k, --cache-type-v; --cache-type sets both

K and V each have a type: `f32`, `f16` (the default), `bf16`, `q8_0` or `q4_0`, which are llama.cpp's formats, or `fp8`.

| backend | types |
|---|---|
| CPU | all, K and V separately |
| CUDA | all but `q4_0`, one type for both |
| Vulkan, Metal | `f16` and `f32`, one type for both |
| reference | always computes in f32 |

A backend refuses other types. `q8_0` and `q4_0` have one scale per 32 columns of a head. If the head size is not a multiple of 32, the
last block has fewer columns and the same size in bytes.

`fp8` is E4M3 of the [OCP 8-bit floating point
specification](https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1)
without scales: 3 bits of mantissa, magnitudes from 2^-9 to 448. Values round to the nearest one, ties to even, and saturate at
±448. Infinities and NaN become NaN; the specification's saturating conversion would keep infinities finite.

Attention converts blocks of 32 positions to f32, except where K and V are both F16 or both F32. In every type, a sequence's
logits are the same bits regardless of the sequences that share its steps (`crates/backend-cpu/tests/bits.rs`).

`tools/checks/cache_types.py` writes this page. The table shows the divergence of the demo model in F16 (heads of {head} columns) from the
same model with K and V in f32. It covers {tokens} scored tokens of held-out chats in windows of {n_ctx}, on an `{processor}`.

| K/V | bytes per position, as a share of f32's | mean KL | 99th percentile of KL | same top token |
|---|---|---|---|---|
"""


def perplexity(program: str, *args: str) -> dict:
    command = [program, "perplexity", "-m", str(MODEL), "--backend", "cpu", "-c", str(N_CTX), "--json", *args]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/rustorch")
    documents = [d for d in chats.chats(1, HELD_OUT, 400, 0, frozenset()) if "turns" in d][:CHATS]
    text = "\n".join(f"{user}\n{assistant}" for d in documents for user, assistant in d["turns"])
    with tempfile.TemporaryDirectory() as folder:
        file, base = Path(folder) / "text.txt", Path(folder) / "base.bin"
        file.write_text(text)
        whole = perplexity(program, "-f", str(file), "--cache-type", "f32", "--save-logits", str(base))
        rows = []
        for types in TYPES:
            k, v = types.split("/") if "/" in types else (types, types)
            found = perplexity(program, "--kl-base", str(base), "-ctk", k, "-ctv", v)["divergence"]
            share = (BYTES[k] + BYTES[v]) / 8
            rows.append(f"| {types} | {100 * share:.0f} % | {found['kl']['value']:.1e} ± {found['kl']['standard_error']:.0e} "
                        f"| {found['kl_spread']['p99']:.1e} | {100 * found['same_top']['value']:.2f} % |")  # fmt: skip
    processor = next(line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line)
    head = HEAD.format(tokens=whole["scored_tokens"], n_ctx=N_CTX, processor=processor, head=head_length())
    (ROOT / "docs/kv-cache.md").write_text(head + "\n".join(rows) + "\n")


def head_length() -> int:
    reader = gguf.GGUFReader(str(MODEL))
    get = lambda key: reader.fields[f"llama.{key}"].contents()  # noqa: E731
    return get("embedding_length") // get("attention.head_count")


if __name__ == "__main__":
    main()
