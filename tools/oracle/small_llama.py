"""A Llama or Qwen2 of any small shape with normally distributed weights, as a GGUF file in F32."""

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int = 512
    tied: bool = False
    architecture: str = "llama"
    experts: int = 0

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape as NumPy has it, slowest dimension first; in the order of files that are converted."""
        width, kv = self.width, self.width // self.heads * self.kv_heads
        shapes = {"token_embd.weight": (self.vocabulary, width)}
        for layer in range(self.layers):
            parts = {
                "attn_norm": (width,),
                "attn_q": (width, width),
                "attn_k": (kv, width),
                "attn_v": (kv, width),
                "attn_output": (width, width),
                "ffn_norm": (width,),
            }
            feed_forward = {
                "ffn_gate": (self.feed_forward, width),
                "ffn_up": (self.feed_forward, width),
                "ffn_down": (width, self.feed_forward),
            }
            if self.experts:
                parts["ffn_gate_inp"] = (self.experts, width)
                feed_forward = {f"{name}_exps": (self.experts, *dims) for name, dims in feed_forward.items()}
            parts |= feed_forward
            shapes |= {f"blk.{layer}.{part}.weight": shape for part, shape in parts.items()}
            if self.architecture == "qwen2":
                shapes |= {f"blk.{layer}.attn_{part}.bias": (n,) for part, n in [("q", width), ("k", kv), ("v", kv)]}
        shapes["output_norm.weight"] = (width,)
        if not self.tied:
            shapes["output.weight"] = (self.vocabulary, width)
        return shapes


def add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """The bytes, and words that no text needs."""
    own = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = own + [f"w{i}" for i in range(size - len(own))]
    kind = gguf.TokenType
    types = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types(types + [kind.NORMAL] * (len(tokens) - len(types)))


def write(path: Path, shape: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), shape.architecture)
    writer.add_context_length(512)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_file_type(0)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(2)
    add_vocabulary(writer, shape.vocabulary)
    for name, dims in shape.tensors().items():
        if len(dims) == 1:
            data = np.ones(dims, np.float32)
        else:
            data = rng.standard_normal(dims, np.float32) * np.float32(dims[-1] ** -0.5)
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
