"""Families with experts, each by what it differs in from another."""

import numpy as np

from forward.dense import Grown, Qwen2
from forward.llama import File, Llama, gelu, sigmoid, softmax


class Qwen2Moe(Qwen2):
    """The probabilities of the chosen experts are not renormalised."""

    def __init__(self, file: File):
        super().__init__(file)
        self.norms_routes = False


class DeepSeek2(Grown):
    """Multi-head latent attention, computed by heads of their own, whichever way the file has it."""

    def __init__(self, file: File):
        super().__init__(file)
        key = file.get("attention.key_length_mla", file.get("attention.key_length"))
        self.value = file.get("attention.value_length_mla", file.get("attention.value_length"))
        self.rank = file.get("attention.kv_lora_rank")
        self.nope = key - self.rotated
        factor = 1 / self.position_scale
        multiplier = file.get("rope.scaling.yarn_log_multiplier", 0.0)
        if self.scaling == "yarn" and multiplier:
            self.magnitude = file.get("rope.scaling.attn_factor", 1.0)
        self.score_scale = (self.magnitude * (1 + multiplier * np.log(factor))) ** 2 / np.sqrt(key)
        self.gating = {0: "softmax", 1: "softmax", 2: "sigmoid"}[file.get("expert_gating_func", 0)]
        self.norms_routes = file.get("expert_weights_norm", False)

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

    def __init__(self, file: File):
        super().__init__(file)
        self.window = file.get("attention.sliding_window")
        self.period = file.get("attention.sliding_window_pattern", 2)
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

    def __init__(self, file: File):
        super().__init__(file)
        self.gating = {0: "sigmoid", 1: "softmax", 2: "sigmoid"}[file.get("expert_gating_func", 0)]

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return super().placed(self.norm_if_any(x, f"{name}_norm"), name, i)


class Glm4Moe(BiasedRouter):
    ffn_norm = "post_attention_norm"

    def __init__(self, file: File):
        super().__init__(file)
        self.layers -= file.get("nextn_predict_layers", 0)
        self.norms_routes = file.get("expert_weights_norm", False)


class MiniMaxM2(BiasedRouter):
    """Queries and keys are normed as whole rows."""

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        rows = self.norm(x.reshape(*x.shape[:2], -1), f"{name}_norm").reshape(x.shape)
        return Qwen2.placed(self, rows, name, i)


class HunyuanMoe(Qwen2):
    """Heads are normed after RoPE."""

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return self.norm(super().placed(x, name, i), f"{name}_norm")


class Llama4(Llama):
    """Most layers see only their chunk of positions, others have no RoPE. The weights of the experts multiply their input."""

    chunk, interval, beta, first = 8192, 8192, 0.1, 1
    period = 4

    def __init__(self, file: File):
        super().__init__(file)
        local = file.get("attention.sliding_window_pattern", 4)
        self.local = local if isinstance(local, list) else [(i + 1) % local != 0 for i in range(self.layers)]
        self.local_theta = file.get("rope.freq_base_swa", self.theta)
        self.norms_heads = self.experts != 128
        self.gating, self.norms_routes, self.route_scale = "sigmoid", False, 1.0

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        """Heads are normed after RoPE. Queries without RoPE grow with the position."""
        if (i + 1) % self.period:
            x = self.rope(x, self.local_theta if self.local[i] else self.theta, self.position_scale)
            return self.unweighted(x) if self.norms_heads else x
        if name.endswith("attn_k"):
            return x
        chunks = (self.positions(x.shape[1]) + self.first) // self.interval
        return x * (1 + self.beta * np.log(1 + chunks))[:, None, None]

    def unweighted(self, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen & (key // self.chunk == query // self.chunk) if self.local[i] else seen

    def expert_sum(self, x: np.ndarray, chosen: np.ndarray, p: np.ndarray, ffn: str) -> np.ndarray:
        out = np.zeros_like(x)
        for e in range(self.experts):
            rows = chosen[..., e]
            out[rows] += self.feed_forward(p[rows, e, None] * x[rows], ffn, "_exps", e)
        return out


class Gemma4(Qwen2):
    """Heads of another width in global layers; shared keys and values; inputs per layer; experts beside a dense network."""

    activation = staticmethod(gelu)

    def __init__(self, file: File):
        super().__init__(file)
        per_layer = lambda x: x if isinstance(x, list) else [x] * self.layers  # noqa: E731
        self.all_heads, self.all_kv_heads = per_layer(self.heads), per_layer(self.kv_heads)
        self.local = file.get("attention.sliding_window_pattern")
        self.window = file.get("attention.sliding_window")
        self.local_rotated = file.get("rope.dimension_count_swa", file.get("attention.key_length_swa"))
        self.local_theta = file.get("rope.freq_base_swa", 10000.0)
        self.first_shared = self.layers - file.get("attention.shared_kv_layers", 0)
        self.per_layer = file.get("embedding_length_per_layer_input", 0)
        self.cap = file.get("final_logit_softcapping", 0.0)
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
            chosen, p = self.routes(h @ self.weights[f"{blk}.ffn_gate_inp.weight"].T, f"{blk}.ffn")
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
