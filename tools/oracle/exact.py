"""Forward passes in float64, written from the maths and sharing nothing with the Rust code.

    python exact.py MODEL.gguf TOKENS.npy OUT.npy    # TOKENS [sequences, positions] -> OUT [.., .., vocab]
    python exact.py MODEL.gguf --generate 200        # greedy text after BOS

`Llama` is the whole pass, with experts: Mixtral. Each other family is a class that says in what it differs from
another. `FAMILIES` has the architectures.

No cache and no rounding: weights are the file's values, everything after is float64. Shapes in
comments: b sequences, n positions, h heads, d values a head.
"""

import argparse

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Model:
    """A file: its metadata, its weights as float64, and the forward pass of its family."""

    def __init__(self, path: str):
        reader = GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.architecture = self.meta["general.architecture"]
        if self.architecture not in FAMILIES:
            raise SystemExit(f"{path}: architecture {self.architecture}, expected {' or '.join(FAMILIES)}")
        self.weights = {
            t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors
        }
        self.family = FAMILIES[self.architecture](self)

    def get(self, key: str, default=None):
        value = self.meta.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise SystemExit(f"{self.architecture}.{key} is missing")
        return value

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """tokens [b, n] -> [b, n, vocab], every sequence from position 0."""
        return self.family.logits(tokens)

    def text(self, tokens: list[int]) -> str:
        """SentencePiece pieces as text."""
        pieces = (self.meta["tokenizer.ggml.tokens"][t] for t in tokens)
        raw = b"".join(
            bytes([int(p[1:-1], 16)]) if p.startswith("<0x") and len(p) == 6 else p.encode() for p in pieces
        )
        return raw.decode(errors="replace").replace("\u2581", " ")


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

    def __init__(self, model: Model):
        self.weights = model.weights
        self.layers = model.get("block_count")
        self.hidden = model.get("embedding_length")
        self.heads = model.get("attention.head_count")
        self.kv_heads = model.get("attention.head_count_kv", self.heads)
        self.eps = model.get(self.eps_key)
        self.key_length = model.get("attention.key_length", self.hidden // self.heads)
        self.score_scale = 1 / np.sqrt(self.key_length)

        self.rotated = model.get("rope.dimension_count", self.key_length)
        self.theta = model.get("rope.freq_base", 10000.0)
        self.scaling = model.get("rope.scaling.type", "linear")
        if self.scaling not in ("none", "linear", "yarn", "longrope"):
            raise SystemExit(f"rope.scaling.type {self.scaling} is not in this reference")
        factor = model.get("rope.scaling.factor", model.get("rope.scale_linear", 0.0)) or 1.0
        self.position_scale = 1.0 if self.scaling == "none" else 1 / factor
        self.magnitude = model.get("rope.scaling.attn_factor", 1.0)
        self.original_context = model.get("rope.scaling.original_context_length", model.get("context_length"))
        self.unscaled = np.zeros(self.rotated // 2)
        if self.scaling == "yarn":
            self.unscaled = self.pairs_beyond_scaling(32.0, 1.0)
            self.magnitude *= max(1, 1 + 0.1 * np.log(factor))

        self.residual_scale = 1.0
        self.score_cap = 0.0
        self.experts = model.get("expert_count", 0)
        self.experts_used = model.get("expert_used_count", 0)
        self.groups = model.get("expert_group_count", 0), model.get("expert_group_used_count", 0)
        self.gating, self.norms_routes = "softmax", True
        self.route_scale = model.get("expert_weights_scale", 0.0) or 1.0

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        x = self.embedding(tokens)
        for i in range(self.layers):
            x = self.layer(x, i)
        output = "output" if "output.weight" in self.weights else "token_embd"
        return self.linear(self.norm(x, "output_norm"), output)

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
        """A weight is [outputs, inputs]; each output is its row's dot product with x, plus its bias if any."""
        w = self.weights[f"{name}.weight"]
        y = x @ np.atleast_2d(w if expert is ... else w[expert]).T
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
        visible = self.visible(np.arange(n)[:, None], np.arange(n), i)
        heads = []
        for h in range(q.shape[2]):
            scores = q[:, :, h] @ k[:, :, h // share].transpose(0, 2, 1) * self.score_scale  # [b, n, n]
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
        angle = np.outer(np.arange(x.shape[1]), frequency)[:, None, :]  # [n, 1, pairs]
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


class Qwen2(Llama):
    """Pairs of halves; the biases of queries, keys and values are in the file."""

    columns = staticmethod(halves)


class Qwen3(Qwen2):
    """Each head of the queries and keys is normed before RoPE. With experts: Qwen3-MoE."""

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return super().placed(self.norm(x, f"{name}_norm"), name, i)


class Gemma2(Qwen2):
    """Norms after attention and feed-forward too; caps of scores and logits; a window in every second layer."""

    activation = staticmethod(gelu)

    def __init__(self, model: Model):
        super().__init__(model)
        if self.layers == 46:  # the 27B
            self.score_scale = 1 / np.sqrt(self.hidden // self.heads)
        self.score_cap = model.get("attn_logit_softcapping", 50.0)
        self.cap = model.get("final_logit_softcapping", 30.0)
        self.window = model.get("attention.sliding_window", 4096)
        self.period = model.get("attention.sliding_window_pattern", 2)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        return self.cap * np.tanh(super().logits(tokens) / self.cap)

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return super().embedding(tokens) * np.sqrt(self.hidden)

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen if (i + 1) % self.period == 0 else seen & (query - key < self.window)


class Gemma3(Qwen3):
    """Norms after attention and feed-forward too. Most layers are local: a window, and RoPE of another base."""

    activation = staticmethod(gelu)

    def __init__(self, model: Model):
        super().__init__(model)
        if self.layers == 62:  # the 27B
            self.score_scale = 1 / np.sqrt(self.hidden // self.heads)
        self.cap = model.get("final_logit_softcapping", 0.0)
        self.window = model.get("attention.sliding_window", 0)
        self.theta_local = model.get("rope.freq_base_swa", 10000.0)
        local = model.get("attention.sliding_window_pattern", 6)
        if not isinstance(local, list):  # every so many layers one is global, the last of them
            local = [(i + 1) % local != 0 for i in range(self.layers)]
        self.local = local if self.window else [False] * self.layers

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        x = super().logits(tokens)
        return self.cap * np.tanh(x / self.cap) if self.cap else x

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return super().embedding(tokens) * np.sqrt(self.hidden)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        if not self.local[i]:
            return super().placed(x, name, i)
        return self.rope(self.norm(x, f"{name}_norm"), self.theta_local, 1.0)

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        """A window of w positions holds the query's own and the w - 1 before it."""
        seen = super().visible(query, key, i)
        return seen & (query - key < self.window) if self.local[i] else seen


class Granite(Llama):
    """Embeddings, scores, outputs of both blocks and logits have factors of their own."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.embedding_scale = model.get("embedding_scale", 0.0) or 1.0
        self.residual_scale = model.get("residual_scale", 0.0) or 1.0
        self.score_scale = model.get("attention.scale", 0.0) or self.score_scale
        self.logit_divisor = model.get("logit_scale")
        self.has_positions = model.get("rope.scaling.finetuned", True)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        return super().logits(tokens) / self.logit_divisor

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return super().embedding(tokens) * self.embedding_scale

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return super().placed(x, name, i) if self.has_positions else x


class LayerNorms(Llama):
    """Layer norms, with biases where the file has them."""

    eps_key = "attention.layer_norm_epsilon"

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        y = super().norm(x, name)
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y


class CommandR(LayerNorms):
    """Attention and feed-forward network have the same input. Cohere 2: RoPE in local layers only."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.logit_scale = model.get("logit_scale", 1.0)
        self.window = model.get("attention.sliding_window", 0)
        self.period = model.get("attention.sliding_window_pattern", 4)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        return super().logits(tokens) * self.logit_scale

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        h = self.norm(x, f"blk.{i}.attn_norm")
        return x + self.attention(h, i) + self.feed_forward(h, f"blk.{i}.ffn")

    def is_global(self, i: int) -> bool:
        return not self.window or (i + 1) % self.period == 0

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return x if self.window and self.is_global(i) else super().placed(x, name, i)

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen if self.is_global(i) else seen & (query - key < self.window)


class StarCoder2(LayerNorms):
    """No gate."""

    columns = staticmethod(halves)
    activation = staticmethod(gelu)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        return self.linear(self.activation(self.linear(x, f"{ffn}_up{kind}", expert)), f"{ffn}_down{kind}", expert)


class StableLm(LayerNorms):
    """Without norms before the feed-forward network, that has the same input as attention."""

    columns = staticmethod(halves)

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        if f"blk.{i}.ffn_norm.weight" in self.weights:
            return super().layer(x, i)
        h = self.norm(x, f"blk.{i}.attn_norm")
        return x + self.attention(h, i) + self.feed_forward(h, f"blk.{i}.ffn")


class SmolLm3(Llama):
    """The last of four layers has no RoPE."""

    period = 4

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return x if (i + 1) % self.period == 0 else super().placed(x, name, i)


class Olmo2(Qwen2):
    """Norms after the blocks only; queries and keys are normed as whole rows. OLMo 3: local layers with plain RoPE."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.window = model.get("attention.sliding_window", 0)
        self.period = model.get("attention.sliding_window_pattern", 4)

    def is_local(self, i: int) -> bool:
        return bool(self.window) and (i + 1) % self.period != 0

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        x = self.norm(x.reshape(*x.shape[:2], -1), f"{name}_norm").reshape(x.shape)
        if not self.is_local(i):
            return super().placed(x, name, i)
        scaled = self.unscaled, self.magnitude
        self.unscaled, self.magnitude = np.zeros(self.rotated // 2), 1.0
        x = self.rope(x, self.theta, 1.0)
        self.unscaled, self.magnitude = scaled
        return x

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen & (query - key < self.window) if self.is_local(i) else seen


class Phi3(Qwen2):
    """Queries, keys and values are rows of one matrix, gate and up of another, in this order."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.weights = dict(self.weights)
        q, kv = self.heads * self.key_length, self.kv_heads * self.key_length
        for i in range(self.layers):
            self.take_apart(f"blk.{i}.attn_qkv", {"attn_q": q, "attn_k": kv, "attn_v": kv})
            width = len(self.weights[f"blk.{i}.ffn_up.weight"]) // 2
            self.take_apart(f"blk.{i}.ffn_up", {"ffn_gate": width, "ffn_up": width})

    def take_apart(self, name: str, rows: dict[str, int]) -> None:
        if f"{name}.weight" in self.weights:
            parts = np.split(self.weights.pop(f"{name}.weight"), np.cumsum(list(rows.values()))[:-1])
            self.weights |= {f"{name.rsplit('.', 1)[0]}.{part}.weight": w for part, w in zip(rows, parts)}


class Glm4(Phi3):
    """Pairs are neighbours, but halves where RoPE has coordinates of images, which are all equal for text."""

    def __init__(self, model: Model):
        super().__init__(model)
        sections = model.get("rope.dimension_sections", [])
        self.columns = halves if len(sections) > 1 and sections[0] and sections[1] else neighbours


class Qwen2Moe(Qwen2):
    """The probabilities of the chosen experts are not renormalised."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.norms_routes = False


class Grown(Llama):
    """Queries grow with the position."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.beta = model.get("attention.temperature_scale", 0.0)
        self.interval = model.get("attention.temperature_length", self.original_context)

    def grown(self, q: np.ndarray) -> np.ndarray:
        factor = 1 + self.beta * np.log(1 + np.arange(q.shape[1]) // self.interval)
        return q * factor[:, None, None]


class Mistral3(Grown):
    """YaRN with a multiplier: both magnitudes of its paper."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.interval = self.original_context
        self.score_scale = model.get("attention.scale", 0.0) or self.score_scale
        multiplier = model.get("rope.scaling.yarn_log_multiplier", 0.0)
        if self.scaling == "yarn" and multiplier:
            self.magnitude /= 1 - 0.1 * multiplier * np.log(self.position_scale)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        x = super().placed(x, name, i)
        return self.grown(x) if name.endswith("attn_q") else x


class DeepSeek2(Grown):
    """Multi-head latent attention, computed by heads of their own, whichever way the file has it."""

    def __init__(self, model: Model):
        super().__init__(model)
        key = model.get("attention.key_length_mla", model.get("attention.key_length"))
        self.value = model.get("attention.value_length_mla", model.get("attention.value_length"))
        self.rank = model.get("attention.kv_lora_rank")
        self.nope = key - self.rotated
        factor = 1 / self.position_scale
        multiplier = model.get("rope.scaling.yarn_log_multiplier", 0.0)
        if self.scaling == "yarn" and multiplier:
            self.magnitude = model.get("rope.scaling.attn_factor", 1.0)
        self.score_scale = (self.magnitude * (1 + multiplier * np.log(factor))) ** 2 / np.sqrt(key)
        self.gating = {0: "softmax", 1: "softmax", 2: "sigmoid"}[model.get("expert_gating_func", 0)]
        self.norms_routes = model.get("expert_weights_norm", False)

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        b, n, _ = x.shape
        if f"blk.{i}.attn_q.weight" in self.weights:
            q = self.linear(x, f"blk.{i}.attn_q")
        else:
            q = self.norm(self.linear(x, f"blk.{i}.attn_q_a"), f"blk.{i}.attn_q_a_norm")
            q = self.linear(q, f"blk.{i}.attn_q_b")
        q = q.reshape(b, n, self.heads, -1)
        c, k_pe = np.split(self.linear(x, f"blk.{i}.attn_kv_a_mqa"), [self.rank], axis=-1)
        c, k_pe = self.norm(c, f"blk.{i}.attn_kv_a_norm"), self.rope(k_pe[:, :, None], self.theta, self.position_scale)
        if f"blk.{i}.attn_kv_b.weight" in self.weights:
            kv = self.linear(c, f"blk.{i}.attn_kv_b").reshape(b, n, self.heads, -1)
            k, v = kv[..., : self.nope], kv[..., self.nope :]
        else:
            k = np.einsum("bnr,hrd->bnhd", c, self.weights[f"blk.{i}.attn_k_b.weight"])
            v = np.einsum("bnr,hdr->bnhd", c, self.weights[f"blk.{i}.attn_v_b.weight"])
        q_pe = self.rope(q[..., self.nope :], self.theta, self.position_scale)
        q = self.grown(np.concatenate([q[..., : self.nope], q_pe], axis=-1))
        k = np.concatenate([k, np.repeat(k_pe, self.heads, axis=2)], axis=-1)
        return self.linear(self.attend(q, k, v, i), f"blk.{i}.attn_output")


class GptOss(Qwen2):
    """Sinks, biases everywhere, limited gates, a window in every second layer."""

    ffn_norm = "post_attention_norm"

    def __init__(self, model: Model):
        super().__init__(model)
        self.window = model.get("attention.sliding_window")
        self.period = model.get("attention.sliding_window_pattern", 2)
        self.limit = 7.0

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen if (i + 1) % self.period == 0 else seen & (query - key < self.window)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        gate = np.minimum(self.linear(x, f"{ffn}_gate{kind}", expert), self.limit)
        up = np.clip(self.linear(x, f"{ffn}_up{kind}", expert), -self.limit, self.limit)
        return self.linear(gate * sigmoid(1.702 * gate) * (up + 1), f"{ffn}_down{kind}", expert)


class BiasedRouter(Qwen2):
    """Sigmoids, with a bias for the choice; norms of queries and keys where the file has them."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.gating = {0: "sigmoid", 1: "softmax", 2: "sigmoid"}[model.get("expert_gating_func", 0)]

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return super().placed(self.norm_if_any(x, f"{name}_norm"), name, i)


class Glm4Moe(BiasedRouter):
    ffn_norm = "post_attention_norm"

    def __init__(self, model: Model):
        super().__init__(model)
        self.layers -= model.get("nextn_predict_layers", 0)
        self.norms_routes = model.get("expert_weights_norm", False)


class MiniMaxM2(BiasedRouter):
    """Queries and keys are normed as whole rows."""

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        rows = self.norm(x.reshape(*x.shape[:2], -1), f"{name}_norm").reshape(x.shape)
        return Qwen2.placed(self, rows, name, i)


class HunyuanMoe(Qwen2):
    """Heads are normed after RoPE."""

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return self.norm(super().placed(x, name, i), f"{name}_norm")


class Gemma4(Qwen2):
    """Heads of another width in global layers; shared keys and values; inputs per layer; experts beside a dense network."""

    activation = staticmethod(gelu)

    def __init__(self, model: Model):
        super().__init__(model)
        per_layer = lambda x: x if isinstance(x, list) else [x] * self.layers  # noqa: E731
        self.all_heads, self.all_kv_heads = per_layer(self.heads), per_layer(self.kv_heads)
        self.local = model.get("attention.sliding_window_pattern")
        self.window = model.get("attention.sliding_window")
        self.local_rotated = model.get("rope.dimension_count_swa", model.get("attention.key_length_swa"))
        self.local_theta = model.get("rope.freq_base_swa", 10000.0)
        self.first_shared = self.layers - model.get("attention.shared_kv_layers", 0)
        self.per_layer = model.get("embedding_length_per_layer_input", 0)
        self.cap = model.get("final_logit_softcapping", 0.0)
        self.score_scale = 1.0

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        self.stores = {}
        if self.per_layer:
            own = self.weights["per_layer_token_embd.weight"][tokens] * np.sqrt(self.per_layer)
            shared = self.embedding(tokens) @ self.weights["per_layer_model_proj.weight"].T / np.sqrt(self.hidden)
            by_layer = (*tokens.shape, self.layers, self.per_layer)
            self.inputs = (own.reshape(by_layer) + self.norm(shared.reshape(by_layer), "per_layer_proj_norm")) / np.sqrt(2)
        x = super().logits(tokens)
        return self.cap * np.tanh(x / self.cap) if self.cap else x

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        return super().embedding(tokens) * np.sqrt(self.hidden)

    def unweighted(self, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        x, whole = self.norm(x, f"{name}_norm"), (self.rotated, self.weights, self.unscaled)
        if not self.local[i]:
            return self.rope(x, self.theta, self.position_scale)
        self.rotated, self.unscaled = self.local_rotated, np.zeros(self.local_rotated // 2)
        self.weights = {name: w for name, w in self.weights.items() if name != "rope_freqs.weight"}
        x = self.rope(x, self.local_theta, 1.0)
        self.rotated, self.weights, self.unscaled = whole
        return x

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen & (query - key < self.window) if self.local[i] else seen

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        b, n, _ = x.shape
        q = self.linear(x, f"blk.{i}.attn_q").reshape(b, n, self.all_heads[i], -1)
        if i < self.first_shared:
            k = self.linear(x, f"blk.{i}.attn_k").reshape(b, n, self.all_kv_heads[i], -1)
            v = k
            if f"blk.{i}.attn_v.weight" in self.weights:
                v = self.linear(x, f"blk.{i}.attn_v").reshape(k.shape)
            self.stores[self.local[i]] = self.placed(k, f"blk.{i}.attn_k", i), self.unweighted(v)
        q = self.placed(q, f"blk.{i}.attn_q", i)
        return self.linear(self.attend(q, *self.stores[self.local[i]], i), f"blk.{i}.attn_output")

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        blk = f"blk.{i}"
        a = x + self.norm(self.attention(self.norm(x, f"{blk}.attn_norm"), i), f"{blk}.post_attention_norm")
        y = self.feed_forward(self.norm(a, f"{blk}.ffn_norm"), f"{blk}.ffn")
        if f"{blk}.ffn_gate_inp.weight" in self.weights:
            h = self.unweighted(a) / np.sqrt(self.hidden) * self.weights[f"{blk}.ffn_gate_inp.scale"]
            chosen, p = self.routes(self.linear(h, f"{blk}.ffn_gate_inp"), f"{blk}.ffn")
            p = p * self.weights.get(f"{blk}.ffn_down_exps.scale", 1)
            experts = self.expert_sum(self.norm(a, f"{blk}.pre_ffw_norm_2"), chosen, p, f"{blk}.ffn")
            y = self.norm(y, f"{blk}.post_ffw_norm_1") + self.norm(experts, f"{blk}.post_ffw_norm_2")
        x = a + self.norm(y, f"{blk}.post_ffw_norm")
        if self.per_layer:
            gated = self.activation(self.linear(x, f"{blk}.inp_gate")) * self.inputs[:, :, i]
            x = x + self.norm(self.linear(gated, f"{blk}.proj"), f"{blk}.post_norm")
        return x * self.weights.get(f"{blk}.layer_output_scale.weight", 1)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        fused = self.weights.get(f"{ffn}_gate_up{kind}.weight")
        if fused is None:
            return super().feed_forward(x, ffn, kind, expert)
        gate, up = np.split(x @ fused[expert].T, 2, axis=-1)
        return self.linear(self.activation(gate) * up, f"{ffn}_down{kind}", expert)


FAMILIES = {
    "llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3, "qwen3vl": Qwen3, "qwen3moe": Qwen3, "gemma2": Gemma2,
    "gemma3": Gemma3,
    "ernie4_5": Llama, "granite": Granite, "granitemoe": Granite, "smollm3": SmolLm3, "olmo2": Olmo2, "phi3": Phi3,
    "gemma4": Gemma4, "gpt-oss": GptOss, "qwen2moe": Qwen2Moe, "mistral3": Mistral3, "deepseek2": DeepSeek2,
    "glm4moe": Glm4Moe, "minimax-m2": MiniMaxM2, "hunyuan-moe": HunyuanMoe,
    "glm4": Glm4, "command-r": CommandR, "cohere2": CommandR, "starcoder2": StarCoder2, "stablelm": StableLm,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--generate", type=int, metavar="N")
    args = parser.parse_args()
    model = Model(args.model)
    if args.generate is not None:
        ids = [model.meta["tokenizer.ggml.bos_token_id"]]
        for _ in range(args.generate):
            ids.append(int(np.argmax(model.logits(np.array([ids]))[0, -1])))
        print(model.text(ids[1:]))
    elif args.out:
        np.save(args.out, model.logits(np.load(args.tokens)))
    else:
        parser.error("give TOKENS.npy and OUT.npy, or --generate N")


if __name__ == "__main__":
    main()
