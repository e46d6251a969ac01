"""A GGUF file, the functions of the formulas, and the whole pass of Llama, with experts: Mixtral.

Shapes in comments: b sequences, n positions, h heads, d values a head.
"""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class File:
    """A GGUF file: its metadata, and its weights as float64."""

    def __init__(self, path: str):
        reader = GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.architecture = self.meta["general.architecture"]
        self.weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}

    def get(self, key: str, default=None):
        value = self.meta.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise SystemExit(f"{self.architecture}.{key} is missing")
        return value


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def gelu(x: np.ndarray) -> np.ndarray:
    """The approximation by tanh, which is what Gemma was trained with."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def neighbours(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of a head that RoPE rotates together: (0, 1), (2, 3), ..."""
    return 2 * np.arange(pairs), 2 * np.arange(pairs) + 1


def halves(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """(0, pairs), (1, pairs + 1), ..."""
    return np.arange(pairs), np.arange(pairs) + pairs


class Llama:
    """Llama, and Mixtral where the file has experts."""

    columns = staticmethod(neighbours)
    activation = staticmethod(silu)
    eps_key = "attention.layer_norm_rms_epsilon"
    ffn_norm = "ffn_norm"
    output_norm = "output_norm"
    # Of rerankers: which row their classifier reads, and its functions.
    ranks_by, ranks_by_softmax = "last", False
    head_activation = staticmethod(np.tanh)
    first_position = 0

    def __init__(self, file: File):
        self.weights = file.weights
        self.layers = file.get("block_count")
        self.hidden = file.get("embedding_length")
        self.heads = file.get("attention.head_count")
        self.kv_heads = file.get("attention.head_count_kv", self.heads)
        self.eps = file.get(self.eps_key)
        self.key_length = file.get("attention.key_length", self.hidden // max(1, self.heads))
        self.score_scale = 1 / np.sqrt(self.key_length)

        self.rotated = file.get("rope.dimension_count", self.key_length)
        self.theta = file.get("rope.freq_base", 10000.0)
        self.scaling = file.get("rope.scaling.type", "linear")
        if self.scaling not in ("none", "linear", "yarn", "longrope"):
            raise SystemExit(f"rope.scaling.type {self.scaling} is not in this reference")
        factor = file.get("rope.scaling.factor", file.get("rope.scale_linear", 0.0)) or 1.0
        self.position_scale = 1.0 if self.scaling == "none" else 1 / factor
        self.magnitude = file.get("rope.scaling.attn_factor", 1.0)
        self.original_context = file.get("rope.scaling.original_context_length", file.get("context_length"))
        self.unscaled = np.zeros(self.rotated // 2)
        if self.scaling == "yarn":
            self.unscaled = self.pairs_beyond_scaling(32.0, 1.0)
            self.magnitude *= max(1, 1 + 0.1 * np.log(factor))

        self.residual_scale = 1.0
        self.score_cap = 0.0
        self.experts = file.get("expert_count", 0)
        self.experts_used = file.get("expert_used_count", 0)
        self.groups = file.get("expert_group_count", 0), file.get("expert_group_used_count", 0)
        self.gating, self.norms_routes = "softmax", True
        self.route_scale = file.get("expert_weights_scale", 0.0) or 1.0
        self.classes = len(file.get("classifier.output_labels", [""]))

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        output = "output" if "output.weight" in self.weights else "token_embd"
        return self.linear(self.rows(tokens), output)

    def rows(self, tokens: np.ndarray) -> np.ndarray:
        """The rows that logits are computed from, [b, n, hidden]."""
        x = self.embedding(tokens)
        for i in range(self.layers):
            x = self.layer(x, i)
        return self.norm(x, self.output_norm)

    def positions(self, n: int) -> np.ndarray:
        return self.first_position + np.arange(n)

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return self.weights["token_embd.weight"][tokens]

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        """Norms that a family lacks are not in its files."""
        y = self.attention(self.norm_if_any(x, f"blk.{i}.attn_norm"), i)
        if self.ffn_norm != "post_attention_norm":
            y = self.norm_if_any(y, f"blk.{i}.post_attention_norm")
        x = x + self.residual_scale * y
        feed_forward = self.mixture if f"blk.{i}.ffn_gate_inp.weight" in self.weights else self.feed_forward
        y = feed_forward(self.norm_if_any(x, f"blk.{i}.{self.ffn_norm}"), f"blk.{i}.ffn")
        return x + self.residual_scale * self.norm_if_any(y, f"blk.{i}.post_ffw_norm")

    def norm_if_any(self, x: np.ndarray, name: str) -> np.ndarray:
        return self.norm(x, name) if f"{name}.weight" in self.weights else x

    def linear(self, x: np.ndarray, name: str, expert=...) -> np.ndarray:
        """A weight is [outputs, inputs]; each output is its row's dot product with x, times its scale, plus its bias if any."""
        w = self.weights[f"{name}.weight"]
        y = x @ np.atleast_2d(w if expert is ... else w[expert]).T
        scale = self.weights.get(f"{name}.scale", np.ones(1))
        y = y * (scale if expert is ... else np.broadcast_to(scale, self.experts)[expert])
        return y + self.weights[f"{name}.bias"][expert] if f"{name}.bias" in self.weights else y

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weights[f"{name}.weight"]

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        b, n, _ = x.shape
        q = self.linear(x, f"blk.{i}.attn_q").reshape(b, n, self.heads, -1)
        k = self.linear(x, f"blk.{i}.attn_k").reshape(b, n, self.kv_heads, -1)
        v = self.linear(x, f"blk.{i}.attn_v").reshape(b, n, self.kv_heads, -1)
        q, k = self.placed(q, f"blk.{i}.attn_q", i), self.placed(k, f"blk.{i}.attn_k", i)
        return self.linear(self.attend(q, k, v, i), f"blk.{i}.attn_output")

    def attend(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, i: int) -> np.ndarray:
        """Queries [b, n, h, d], keys and values of a divisor of h heads -> [b, n, h * d of values]."""
        n, share = q.shape[1], q.shape[2] // k.shape[2]
        query, key = self.positions(n)[:, None], self.positions(n)
        visible = self.visible(query, key, i)
        heads = []
        for h in range(q.shape[2]):
            scores = q[:, :, h] @ k[:, :, h // share].transpose(0, 2, 1) * self.score_scale  # [b, n, n]
            scores = scores + self.bias(query, key, h)
            if self.score_cap:
                scores = self.score_cap * np.tanh(scores / self.score_cap)
            scores = np.where(visible, scores, -np.inf)
            sinks = self.weights.get(f"blk.{i}.attn_sinks.weight")
            if sinks is None:
                p = softmax(scores)
            else:
                sink = np.full(scores.shape[:-1] + (1,), sinks[h])
                p = softmax(np.concatenate([scores, sink], axis=-1))[..., :-1]
            heads.append(p @ v[:, :, h // share])
        return np.concatenate(heads, axis=-1)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        """Queries or keys [b, n, h, d], made by the weight `name`, as they enter the product of layer i."""
        return self.rope(x, self.theta, self.position_scale)

    def pairs_beyond_scaling(self, fast: float, slow: float) -> np.ndarray:
        """YaRN (Peng et al. 2023): the share of each pair's frequency that is not scaled.

        All of it for pairs that turn more than `fast` times within the original context, nothing for
        those that turn less than `slow` times, and a ramp over the pairs between.
        """
        pairs = self.rotated // 2

        def pair(turns: float) -> float:
            return pairs * np.log(self.original_context / (2 * np.pi * turns)) / np.log(self.theta)

        low, high = max(0, np.floor(pair(fast))), min(self.rotated - 1, np.ceil(pair(slow)))
        return 1 - np.clip((np.arange(pairs) - low) / max(1e-3, high - low), 0, 1)

    def rope(self, x: np.ndarray, theta: float, position_scale: float) -> np.ndarray:
        """RoPE of x [b, n, h, d]."""
        pairs = self.rotated // 2
        frequency = theta ** (-np.arange(pairs) / pairs) / self.frequency_divisors(x.shape[1])
        frequency = frequency * (position_scale + (1 - position_scale) * self.unscaled)
        angle = np.outer(self.positions(x.shape[1]), frequency)[:, None, :]  # [n, 1, pairs]
        first, second = self.columns(pairs)
        z = (x[..., first] + 1j * x[..., second]) * self.magnitude * np.exp(1j * angle)
        out = x.copy()
        out[..., first], out[..., second] = z.real, z.imag
        return out

    def frequency_divisors(self, context: int) -> np.ndarray:
        """LongRoPE (Ding et al. 2024) has some for the original context and others for longer ones."""
        name = "rope_freqs"
        if self.scaling == "longrope":
            name = "rope_factors_long" if context > self.original_context else "rope_factors_short"
        return self.weights.get(f"{name}.weight", np.ones(self.rotated // 2))

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        """Whether a query at one position sees a key at the other, in layer i."""
        return key <= query

    def bias(self, query: np.ndarray, key: np.ndarray, head: int) -> np.ndarray:
        """The bias of the score of a query at one position and a key at the other."""
        return np.zeros(())

    def take_apart(self, name: str, rows: dict[str, int]) -> None:
        """A matrix of several becomes those of these names and numbers of rows, and so does its bias."""
        for kind in ("weight", "bias"):
            if f"{name}.{kind}" in self.weights:
                parts = np.split(self.weights[f"{name}.{kind}"], np.cumsum(list(rows.values()))[:-1])
                self.weights = {key: w for key, w in self.weights.items() if key != f"{name}.{kind}"}
                self.weights |= {f"{name.rsplit('.', 1)[0]}.{part}.{kind}": w for part, w in zip(rows, parts)}

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        gate = self.linear(x, f"{ffn}_gate{kind}", expert)
        up = self.linear(x, f"{ffn}_up{kind}", expert)
        return self.linear(self.activation(gate) * up, f"{ffn}_down{kind}", expert)

    def mixture(self, x: np.ndarray, ffn: str) -> np.ndarray:
        """Experts weighted by the router, and the one that all rows use, if any."""
        chosen, p = self.routes(self.linear(x, f"{ffn}_gate_inp"), ffn)
        y = self.expert_sum(x, chosen, p, ffn)
        if f"{ffn}_gate_shexp.weight" not in self.weights:
            return y
        shared = self.feed_forward(x, ffn, "_shexp")
        if f"{ffn}_gate_inp_shexp.weight" in self.weights:
            shared = shared * sigmoid(self.linear(x, f"{ffn}_gate_inp_shexp"))
        return y + shared

    def expert_sum(self, x: np.ndarray, chosen: np.ndarray, p: np.ndarray, ffn: str) -> np.ndarray:
        out = np.zeros_like(x)
        for e in range(self.experts):
            rows = chosen[..., e]
            out[rows] += p[rows, e, None] * self.feed_forward(x[rows], ffn, "_exps", e)
        return out

    def routes(self, logits: np.ndarray, ffn: str) -> tuple[np.ndarray, np.ndarray]:
        """Which experts are chosen, and their weights, both [b, n, experts].

        Those with the largest probabilities are, of equal ones those of lower index. A bias only enters
        the choice. With groups, only experts of the best groups stand for it: those whose two best have
        the largest sum. `ranked` keeps by what the choices were made, and how many were.
        """
        p = sigmoid(logits) if self.gating == "sigmoid" else softmax(logits)
        standing = p + self.weights.get(f"{ffn[: -len('ffn')]}exp_probs_b.bias", 0)
        groups, used = self.groups
        is_monotonic = self.gating == "softmax" and f"{ffn[: -len('ffn')]}exp_probs_b.bias" not in self.weights
        self.ranked = [(logits if is_monotonic else standing, self.experts_used)]
        if groups > 1:
            split = standing.reshape(*p.shape[:-1], groups, -1)
            sums = np.sort(split, axis=-1)[..., -2:].sum(axis=-1)
            rank = np.argsort(np.argsort(-sums, axis=-1, kind="stable"), axis=-1)
            standing = np.where((rank < used)[..., None], split, -np.inf).reshape(p.shape)
            self.ranked = [(sums, used), (standing, self.experts_used)]
        rank = np.argsort(np.argsort(-standing, axis=-1, kind="stable"), axis=-1)
        chosen = rank < self.experts_used
        p = np.where(chosen, p, 0)
        if self.norms_routes:
            p = p / np.maximum(p.sum(axis=-1, keepdims=True), 2.0**-14)
        return chosen, p * self.route_scale
