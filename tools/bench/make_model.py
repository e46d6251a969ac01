"""Makes a GGUF file of TinyLlama-1.1B's shape with random weights, for timing: speed and memory do not
depend on what a model has learnt.

    python make_model.py VOCABULARY.gguf OUT.gguf [FTYPE]     # FTYPE as llama.cpp names it, default Q4_K_M

VOCABULARY is any GGUF file with a SentencePiece vocabulary of 32,000 tokens. Needs the packages of
../oracle/requirements.txt, 3 GB of disk beside OUT and two minutes or so.
"""

import ctypes
import sys
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD, VOCAB = 22, 2048, 5632, 32, 4, 64, 32000


def tokenizer(source: str, writer: gguf.GGUFWriter) -> None:
    """Copies the keys of the tokenizer."""
    for name, field in gguf.GGUFReader(source).fields.items():
        if not name.startswith("tokenizer."):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)


def half_precision(source: str, path: Path) -> None:
    """Writes the model in F16."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random 1.1B")
    writer.add_block_count(LAYERS)
    writer.add_context_length(2048)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tokenizer(source, writer)
    random = np.random.default_rng(1)

    def matrix(name: str, rows: int, cols: int) -> None:
        values = random.standard_normal((rows, cols), dtype=np.float32) * (0.7 / np.sqrt(cols))
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))

    matrix("token_embd", VOCAB, HIDDEN)
    for layer in range(LAYERS):
        blk = f"blk.{layer}"
        norm(f"{blk}.attn_norm")
        matrix(f"{blk}.attn_q", HEADS * HEAD, HIDDEN)
        matrix(f"{blk}.attn_k", KV_HEADS * HEAD, HIDDEN)
        matrix(f"{blk}.attn_v", KV_HEADS * HEAD, HIDDEN)
        matrix(f"{blk}.attn_output", HIDDEN, HEADS * HEAD)
        norm(f"{blk}.ffn_norm")
        matrix(f"{blk}.ffn_gate", FFN, HIDDEN)
        matrix(f"{blk}.ffn_up", FFN, HIDDEN)
        matrix(f"{blk}.ffn_down", HIDDEN, FFN)
    norm("output_norm")
    matrix("output", VOCAB, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    source, out, ftype = sys.argv[1], Path(sys.argv[2]), (sys.argv[3:] or ["Q4_K_M"])[0]
    master = out.with_suffix(".f16.gguf")
    half_precision(source, master)
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread = 2
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{ftype}")
    if llama_cpp.llama_model_quantize(str(master).encode(), str(out).encode(), ctypes.byref(params)) != 0:
        raise SystemExit("llama.cpp did not quantise the model")
    master.unlink()


if __name__ == "__main__":
    main()
