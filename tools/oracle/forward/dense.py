"""Families of one feed-forward network a layer, each by what it differs in from another; some also have experts."""

import numpy as np

from forward.llama import File, Llama, gelu, halves, neighbours


class Qwen2(Llama):
    """Pairs of halves; the biases of queries, keys and values are in the file."""

    columns = staticmethod(halves)


class Qwen3(Qwen2):
    """Each head of the queries and keys is normed before RoPE. With experts: Qwen3-MoE."""

    ranks_by_softmax = True

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return super().placed(self.norm(x, f"{name}_norm"), name, i)


class Gemma2(Qwen2):
    """Norms after attention and feed-forward too; caps of scores and logits; a window in every second layer."""

    activation = staticmethod(gelu)

    def __init__(self, file: File):
        super().__init__(file)
        if self.layers == 46:  # the 27B
            self.score_scale = 1 / np.sqrt(self.hidden // self.heads)
        self.score_cap = file.get("attn_logit_softcapping", 50.0)
        self.cap = file.get("final_logit_softcapping", 30.0)
        self.window = file.get("attention.sliding_window", 4096)
        self.period = file.get("attention.sliding_window_pattern", 2)

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

    def __init__(self, file: File):
        super().__init__(file)
        if self.layers == 62:  # the 27B
            self.score_scale = 1 / np.sqrt(self.hidden // self.heads)
        self.cap = file.get("final_logit_softcapping", 0.0)
        self.window = file.get("attention.sliding_window", 0)
        self.theta_local = file.get("rope.freq_base_swa", 10000.0)
        local = file.get("attention.sliding_window_pattern", 6)
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

    def __init__(self, file: File):
        super().__init__(file)
        self.embedding_scale = file.get("embedding_scale", 0.0) or 1.0
        self.residual_scale = file.get("residual_scale", 0.0) or 1.0
        self.score_scale = file.get("attention.scale", 0.0) or self.score_scale
        self.logit_divisor = file.get("logit_scale")
        self.has_positions = file.get("rope.scaling.finetuned", True)

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

    def __init__(self, file: File):
        super().__init__(file)
        self.logit_scale = file.get("logit_scale", 1.0)
        self.window = file.get("attention.sliding_window", 0)
        self.period = file.get("attention.sliding_window_pattern", 4)

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

    def __init__(self, file: File):
        super().__init__(file)
        self.window = file.get("attention.sliding_window", 0)
        self.period = file.get("attention.sliding_window_pattern", 4)

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

    def __init__(self, file: File):
        super().__init__(file)
        q, kv = self.heads * self.key_length, self.kv_heads * self.key_length
        for i in range(self.layers):
            self.take_apart(f"blk.{i}.attn_qkv", {"attn_q": q, "attn_k": kv, "attn_v": kv})
            width = len(self.weights[f"blk.{i}.ffn_up.weight"]) // 2
            self.take_apart(f"blk.{i}.ffn_up", {"ffn_gate": width, "ffn_up": width})


class Glm4(Phi3):
    """Pairs are neighbours, but halves where RoPE has coordinates of images, which are all equal for text."""

    def __init__(self, file: File):
        super().__init__(file)
        sections = file.get("rope.dimension_sections", [])
        self.columns = halves if len(sections) > 1 and sections[0] and sections[1] else neighbours


class Grown(Llama):
    """Queries grow with the position."""

    def __init__(self, file: File):
        super().__init__(file)
        self.beta = file.get("attention.temperature_scale", 0.0)
        self.interval = file.get("attention.temperature_length", self.original_context)

    def grown(self, q: np.ndarray) -> np.ndarray:
        factor = 1 + self.beta * np.log(1 + self.positions(q.shape[1]) // self.interval)
        return q * factor[:, None, None]


class Mistral3(Grown):
    """YaRN with a multiplier: both magnitudes of its paper."""

    def __init__(self, file: File):
        super().__init__(file)
        self.interval = self.original_context
        self.score_scale = file.get("attention.scale", 0.0) or self.score_scale
        multiplier = file.get("rope.scaling.yarn_log_multiplier", 0.0)
        if self.scaling == "yarn" and multiplier:
            self.magnitude /= 1 - 0.1 * multiplier * np.log(self.position_scale)

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        x = super().placed(x, name, i)
        return self.grown(x) if name.endswith("attn_q") else x
