"""Small random F32 models, whose shapes reveal mistakes, as GGUF files.

Heads are grouped and of another width than hidden / heads, norms have weights, scores are uneven, windows are passed many
times over, and routers are decided.
"""

from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np

from small_llama import add_vocabulary

POSITIONS, VOCABULARY = 300, 331
# The standard deviation of the logits.
SPREAD = 2.5


@dataclass(frozen=True)
class Small:
    """`keys` are more metadata; `parts` are more tensors of a layer, as NumPy has their shapes."""

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    key_length: int
    keys: dict = field(default_factory=dict)
    parts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tied: bool = False
    steep: bool = False
    rope_freqs: bool = False
    longrope: bool = False
    lacks: tuple[str, ...] = ()
    output_norm: str = "output_norm"
    output_bias: bool = False
    # The first layers, and their parts in place of those that the others have of a feed-forward network.
    dense: tuple[int, dict] = (0, {})
    # All parts of each layer, in place of the usual ones.
    by_layer: tuple[dict, ...] = ()
    extra: dict = field(default_factory=dict)
    # Where the tokens of the comparison stand.
    first_position: int = 0

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape."""
        q, kv = self.heads * self.key_length, self.kv_heads * self.key_length
        attention = {
            "attn_norm.weight": (self.hidden,), "attn_q.weight": (q, self.hidden),
            "attn_k.weight": (kv, self.hidden), "attn_v.weight": (kv, self.hidden),
            "attn_output.weight": (self.hidden, q), "ffn_norm.weight": (self.hidden,),
        }  # fmt: skip
        shapes = {"token_embd.weight": (VOCABULARY, self.hidden), f"{self.output_norm}.weight": (self.hidden,)}
        if self.output_bias:
            shapes["output_norm.bias"] = (self.hidden,)
        if not self.tied:
            shapes["output.weight"] = (VOCABULARY, self.hidden)
        if self.rope_freqs:
            shapes["rope_freqs.weight"] = (self.key_length // 2,)
        if self.longrope:
            shapes |= {f"rope_factors_{kind}.weight": (self.key_length // 2,) for kind in ("short", "long")}
        for i in range(self.layers):
            parts = self.by_layer[i] if self.by_layer else attention | self.parts
            if i < self.dense[0]:
                is_ffn = lambda part: part.startswith("ffn_") and "norm" not in part or part.startswith("exp_")  # noqa: E731
                parts = {part: shape for part, shape in parts.items() if not is_ffn(part)} | self.dense[1]
            shapes |= {f"blk.{i}.{part}": shape for part, shape in parts.items()}
        shapes |= self.extra
        return {name: shape for name, shape in shapes.items() if name.split(".")[-2] not in self.lacks}

    @property
    def encodes(self) -> bool:
        return "bert" in self.architecture

    def metadata(self) -> dict:
        return {
            "context_length": 512, "embedding_length": self.hidden, "block_count": self.layers,
            "attention.head_count": self.heads, "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.key_length, "attention.value_length": self.key_length,
            "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": self.key_length,
        } | self.keys  # fmt: skip


def dense(hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    wide = {"ffn_gate.weight": (width, hidden), "ffn_up.weight": (width, hidden)}
    return {**wide, "ffn_down.weight": (hidden, width)}


def experts(hidden: int, width: int, count: int) -> dict[str, tuple[int, ...]]:
    wide = {"ffn_gate_exps.weight": (count, width, hidden), "ffn_up_exps.weight": (count, width, hidden)}
    return {"ffn_gate_inp.weight": (count, hidden), **wide, "ffn_down_exps.weight": (count, hidden, width)}


def biases(q: int, kv: int) -> dict[str, tuple[int, ...]]:
    return {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}


def more_biases(hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    return {"attn_output.bias": (hidden,), "ffn_gate.bias": (width,), "ffn_up.bias": (width,), "ffn_down.bias": (hidden,)}


def head_norms(width: int) -> dict[str, tuple[int, ...]]:
    return {"attn_q_norm.weight": (width,), "attn_k_norm.weight": (width,)}


def norms_after(hidden: int) -> dict[str, tuple[int, ...]]:
    return {"post_attention_norm.weight": (hidden,), "post_ffw_norm.weight": (hidden,)}


def shared(hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    return {name.replace(".", "_shexp."): shape for name, shape in dense(hidden, width).items()}


def weight(rng: np.random.Generator, name: str, shape: tuple[int, ...], small: Small) -> np.ndarray:
    """Normally distributed: products have deviation 1 where inputs have, but for what decides something."""
    part = name.removesuffix(".weight").split(".", 2)[-1]
    unit = rng.standard_normal(shape)
    match part:
        case "attn_q_norm" | "attn_k_norm":
            values = 1.6 + 0.3 * unit
        case "rope_freqs" | "rope_factors_short" | "rope_factors_long":
            values = np.exp(np.abs(unit))
        case "token_embd" | "output":
            values = SPREAD * small.hidden**-0.5 * unit
        case "ssm_a":  # memories of some to many positions
            values = -np.exp(unit - 1.5)
        case "ssm_d":
            values = 1 + 0.5 * unit
        case "exp_probs_b.bias":
            values = 0.2 * unit
        case "attn_sinks":
            values = 2 * unit
        case "layer_output_scale" | "ffn_gate_inp.scale" | "ffn_gate_exps.scale" | "ffn_up_exps.scale" | "ffn_down_exps.scale":
            values = (small.hidden**0.5 if "inp" in part else 1) * (1 + 0.2 * unit)
        case "ffn_gate_exps" | "ffn_up_exps" if small.architecture == "gpt-oss":
            values = (4 if shape[0] > 1 else 12) * shape[-1] ** -0.5 * unit
        case "ffn_gate_inp":
            values = 3 * small.hidden**-0.5 * unit
        case "ffn_gate" if small.steep:
            values = 1e4 * unit
        case "post_attention_norm" | "post_ffw_norm":
            values = min(1, (8 / small.layers) ** 0.5) * (1 + 0.2 * unit)
        case _ if part.endswith("norm") or part == "attn_norm_2":
            values = 1 + 0.2 * unit
        case "attn_qkv" if small.encodes:
            values = np.repeat([1.6, 1.6, 1.0], shape[0] // 3)[:, None] * shape[-1] ** -0.5 * unit
        case "cls":
            values = (4 if shape[0] > 1 else 12) * shape[-1] ** -0.5 * unit
        case _ if name.endswith(".bias"):
            values = (0.15 if small.encodes else 0.5) * unit
        case _:
            gain = 1.6 if part in ("attn_q", "attn_k") else 1
            values = gain * shape[-1] ** -0.5 * unit
    return values.astype(np.float32)


def write(path: Path, small: Small, seed: int) -> None:
    writer = gguf.GGUFWriter(str(path), small.architecture)
    for key, value in small.metadata().items():
        if value is None:
            continue
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
        add[type(value)](key if key.startswith("tokenizer.") else f"{small.architecture}.{key}", value)
    writer.add_file_type(0)
    add_vocabulary(writer, VOCABULARY)
    rng = np.random.default_rng(seed)
    for name, shape in small.tensors().items():
        writer.add_tensor(name, weight(rng, name, shape, small))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
