"""Encoders, whose rows see those after them too, each by what it differs in from another; and pooling."""

import numpy as np

from forward.dense import Gemma3, LayerNorms
from forward.llama import File, Llama, gelu, halves, silu, softmax

POOLINGS = ("none", "mean", "cls", "last", "rank")


def pooled(family: Llama, rows: np.ndarray, pooling: str) -> np.ndarray:
    """Rows [b, n, d] as they are, or [b, d] of each sequence, or [b, classes] that say how well it ranks."""
    match pooling:
        case "none":
            y = rows
        case "mean":
            y = rows.mean(axis=1)
        case "cls":
            y = rows[:, 0]
        case "last":
            y = rows[:, -1]
        case "rank":
            return rank(family, rows)
        case _:
            raise ValueError(f"pooling {pooling}, expected one of {', '.join(POOLINGS)}")
    for projection in ("dense_2", "dense_3"):
        if f"{projection}.weight" in family.weights:
            y = family.linear(y, projection)
    return y


def rank(family: Llama, rows: np.ndarray) -> np.ndarray:
    """The classifiers of causal models read the last row, others the first, and ModernBERT's the mean."""
    y = pooled(family, rows, family.ranks_by)
    if "cls.weight" in family.weights:
        y = family.head_activation(family.linear(y, "cls"))
        y = family.norm_if_any(y, "cls.norm")
    if "cls.output.weight" in family.weights:
        y = family.linear(y, "cls.output")
    y = y[..., : family.classes]
    return softmax(y) if family.ranks_by_softmax else y


class Encoder(Llama):
    """Attention over all rows, those within half a window in local layers. attention.causal is not read."""

    columns = staticmethod(halves)
    ranks_by = "cls"

    def __init__(self, file: File):
        super().__init__(file)
        self.window = file.get("attention.sliding_window", 0)
        self.local = [False] * self.layers
        q, kv = self.heads * self.key_length, self.kv_heads * self.key_length
        for i in range(self.layers):
            self.take_apart(f"blk.{i}.attn_qkv", {"attn_q": q, "attn_k": kv, "attn_v": kv})

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        near = np.abs(query - key) <= self.window // 2
        return near | (not self.local[i])


class Bert(Encoder, LayerNorms):
    """Norms come after the sums. Positions are rows of a matrix."""

    activation = staticmethod(gelu)

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        x = self.embedding(tokens)
        for i in range(self.layers):
            x = self.layer(x, i)
        return x

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        """All tokens are of the first type."""
        x = super().embedding(tokens)
        if "token_types.weight" in self.weights:
            x = x + self.weights["token_types.weight"][0]
        if "position_embd.weight" in self.weights:
            x = x + self.weights["position_embd.weight"][: tokens.shape[1]]
        return self.norm(x, "token_embd_norm")

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        y = self.norm(x + self.attention(x, i), f"blk.{i}.attn_output_norm")
        if f"blk.{i}.attn_norm_2.weight" in self.weights:
            y = self.norm(x + y, f"blk.{i}.attn_norm_2")
        feed_forward = self.mixture if f"blk.{i}.ffn_gate_inp.weight" in self.weights else self.feed_forward
        return self.norm(y + feed_forward(y, f"blk.{i}.ffn"), f"blk.{i}.layer_output_norm")

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return x

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        return self.linear(self.activation(self.linear(x, f"{ffn}_up{kind}", expert)), f"{ffn}_down{kind}", expert)


class NomicBertMoe(Bert):
    """RoPE. In every second layer or so experts, whose probabilities are not renormalised."""

    placed = Llama.placed

    def __init__(self, file: File):
        super().__init__(file)
        self.norms_routes = False


class NomicBert(NomicBertMoe):
    """RoPE, and gates. Biases of the feed-forward network are not used."""

    activation = staticmethod(silu)
    feed_forward = Llama.feed_forward

    def __init__(self, file: File):
        super().__init__(file)
        unused = ("ffn_up.bias", "ffn_down.bias")
        self.weights = {name: w for name, w in self.weights.items() if not name.endswith(unused)}


class JinaBert2(Bert):
    """ALiBi (Press et al. 2021) in both directions; gates, that may be the first half of a fused matrix."""

    max_bias = 8.0

    def bias(self, query: np.ndarray, key: np.ndarray, head: int) -> np.ndarray:
        return -self.slope(head) * np.abs(query - key)

    def slope(self, head: int) -> float:
        """Powers of one base for the largest power of two of heads, then odd powers of its root."""
        power_of_two = 1 << (self.heads.bit_length() - 1)
        if head < power_of_two:
            return 2 ** (-self.max_bias * (head + 1) / power_of_two)
        return 2 ** (-self.max_bias / 2 * (2 * (head - power_of_two) + 1) / power_of_two)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return self.norm_if_any(x.reshape(*x.shape[:2], -1), f"{name}_norm").reshape(x.shape)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        if f"{ffn}_gate.weight" in self.weights:
            return Llama.feed_forward(self, x, ffn)
        if len(self.weights[f"{ffn}_up.weight"]) == self.weights[f"{ffn}_down.weight"].shape[1]:
            return super().feed_forward(x, ffn)
        return fused_feed_forward(self, x, ffn)


def fused_feed_forward(family: Llama, x: np.ndarray, ffn: str) -> np.ndarray:
    gate, up = np.split(family.linear(x, f"{ffn}_up"), 2, axis=-1)
    return family.linear(family.activation(gate) * up, f"{ffn}_down")


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


ACTIVATIONS = {name: silu for name in ("silu", "swish", "swiglu")} | {name: relu for name in ("relu", "reglu")}


class ModernBert(Encoder, LayerNorms):
    """Norms before the blocks, and after the embedding. The first of three layers is global, the others are local."""

    ranks_by = "mean"
    head_activation = staticmethod(gelu)

    def __init__(self, file: File):
        super().__init__(file)
        if self.window:
            local = file.get("attention.sliding_window_pattern", 3)
            self.local = local if isinstance(local, list) else [i % local != 0 for i in range(self.layers)]
        self.local_theta = file.get("rope.freq_base_swa", 10000.0)
        self.activation = ACTIVATIONS.get(file.get("hidden_activation", "gelu"), gelu)
        if file.get("classifier.pooling_type", 1) != 1:
            self.ranks_by = "cls"

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return self.norm(super().embedding(tokens), "token_embd_norm")

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return self.rope(x, self.local_theta, 1.0) if self.local[i] else super().placed(x, name, i)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        return fused_feed_forward(self, x, ffn)


class GemmaEmbedding(Gemma3):
    """Gemma 3 as an encoder."""

    ranks_by = "cls"
    visible = Encoder.visible
