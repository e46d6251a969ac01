"""Families whose layers hold a state in place of keys and values, each by what it differs in from another.

Recurrences run over positions one by one, from a state of zeros.
"""

import numpy as np

from forward.dense import Granite, Qwen2, Qwen3
from forward.llama import File, Llama, sigmoid, silu


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Each column of x [b, n, c] by its kernel in w [c, taps], of which the last is for the row itself."""
    taps = w.shape[1]
    before = np.concatenate([np.zeros((x.shape[0], taps - 1, x.shape[2])), x], axis=1)
    return sum(before[:, tap : tap + x.shape[1]] * w[:, tap] for tap in range(taps))


class Hybrid(Llama):
    """Layers of different kinds; the number of KV heads may differ too, and is 0 where a layer has no attention."""

    def __init__(self, file: File):
        super().__init__(file)
        self.layers -= file.get("nextn_predict_layers", 0)
        kv_heads = self.kv_heads
        self.all_kv_heads = kv_heads if isinstance(kv_heads, list) else [kv_heads] * self.layers

    def is_recurrent(self, i: int) -> bool:
        return self.all_kv_heads[i] == 0

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        if self.is_recurrent(i):
            return self.recurrence(x, f"blk.{i}")
        self.kv_heads = self.all_kv_heads[i]
        return super().attention(x, i)

    def recurrence(self, x: np.ndarray, blk: str) -> np.ndarray:
        raise NotImplementedError


class Qwen35(Hybrid, Qwen3):
    """Gated delta net (Yang et al. 2024) in most layers, gated attention in the others. With experts: Qwen3.5-MoE."""

    ffn_norm = "post_attention_norm"

    def __init__(self, file: File):
        super().__init__(file)
        self.interval = file.get("full_attention_interval", 4)
        self.recurrent = file.get("attention.recurrent_layers", [])
        self.state = file.get("ssm.state_size")
        self.key_heads, self.value_heads = file.get("ssm.group_count"), file.get("ssm.time_step_rank")
        # The key head of each value head.
        self.key_head = np.arange(self.value_heads) % self.key_heads
        self.query_scale = self.state**-0.5

    def is_recurrent(self, i: int) -> bool:
        return bool(self.recurrent[i]) if self.recurrent else (i + 1) % self.interval != 0

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        """The rows of a head in attn_q are its query's, then its gate's."""
        if self.is_recurrent(i):
            return self.recurrence(x, f"blk.{i}")
        b, n, _ = x.shape
        q, gate = np.split(self.linear(x, f"blk.{i}.attn_q").reshape(b, n, self.heads, -1), 2, axis=-1)
        k = self.linear(x, f"blk.{i}.attn_k").reshape(b, n, self.kv_heads, -1)
        v = self.linear(x, f"blk.{i}.attn_v").reshape(b, n, self.kv_heads, -1)
        q, k = self.placed(q, f"blk.{i}.attn_q", i), self.placed(k, f"blk.{i}.attn_k", i)
        return self.linear(self.attend(q, k, v, i) * self.gate(gate.reshape(b, n, -1)), f"blk.{i}.attn_output")

    gate = staticmethod(sigmoid)

    def recurrence(self, x: np.ndarray, blk: str) -> np.ndarray:
        b, n, _ = x.shape
        mixed, z, beta, alpha = self.inputs(x, blk)
        mixed = self.after_convolution(convolution(mixed, self.weights[f"{blk}.ssm_conv1d.weight"]))
        keys = self.key_heads * self.state
        q, k, v = (part.reshape(b, n, -1, self.state) for part in np.split(mixed, [keys, 2 * keys], axis=-1))
        q, k = self.unit(q)[:, :, self.key_head] * self.query_scale, self.unit(k)[:, :, self.key_head]
        decay = np.exp(softplus(alpha + self.weights[f"{blk}.ssm_dt.bias"]) * self.weights[f"{blk}.ssm_a"])
        y = self.delta_rule(q, k, v, decay, sigmoid(beta))
        y = self.gated(y, z.reshape(y.shape), f"{blk}.ssm_norm")
        return self.linear(y.reshape(b, n, -1), f"{blk}.ssm_out")

    def gated(self, y: np.ndarray, z: np.ndarray, norm: str) -> np.ndarray:
        """The norm comes before the gate, and is by head."""
        return self.norm(y, norm) * silu(z)

    after_convolution = staticmethod(silu)

    def inputs(self, x: np.ndarray, blk: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The input of the convolution, the output's gate, and by value head how much is written and forgotten."""
        return tuple(self.linear(x, f"{blk}.{name}") for name in ("attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha"))

    def unit(self, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + self.eps)

    def delta_rule(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, decay: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """The result of the state for a key is replaced by its value, in part. q, k, v [b, n, h, d]; decay, beta [b, n, h]."""
        state = np.zeros((*v[:, 0].shape, self.state))  # [b, h, value, key]
        out = np.empty_like(v)
        for t in range(v.shape[1]):
            state = state * decay[:, t, :, None, None]
            written = beta[:, t, :, None] * (v[:, t] - self.kept(state, k[:, t], decay[:, t]))
            state = state + written[..., None] * k[:, t, :, None]
            out[:, t] = np.einsum("bhvk,bhk->bhv", state, q[:, t])
        return out

    @staticmethod
    def kept(state: np.ndarray, k: np.ndarray, decay: np.ndarray) -> np.ndarray:
        """The result of the decayed state for a key."""
        return np.einsum("bhvk,bhk->bhv", state, k)


class Qwen3Next(Qwen35):
    """Neighbouring value heads share a key head. Rows of weights are by key head, in older files of all inputs."""

    def __init__(self, file: File):
        super().__init__(file)
        self.key_head = np.arange(self.value_heads) // (self.value_heads // self.key_heads)

    def inputs(self, x: np.ndarray, blk: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        b, n, _ = x.shape
        beta, alpha = self.by_key_head(self.linear(x, f"{blk}.ssm_ba"), 2)
        if f"{blk}.ssm_in.weight" not in self.weights:
            return self.linear(x, f"{blk}.attn_qkv"), self.linear(x, f"{blk}.attn_gate"), beta, alpha
        values = self.value_heads // self.key_heads * self.state
        rows = self.linear(x, f"{blk}.ssm_in").reshape(b, n, self.key_heads, -1)
        q, k, v, z = np.split(rows, np.cumsum([self.state, self.state, values]), axis=-1)
        return np.concatenate([part.reshape(b, n, -1) for part in (q, k, v)], axis=-1), z, beta, alpha

    def by_key_head(self, x: np.ndarray, parts: int) -> list[np.ndarray]:
        split = np.split(x.reshape(*x.shape[:2], self.key_heads, -1), parts, axis=-1)
        return [part.reshape(*x.shape[:2], -1) for part in split]


class Lfm2(Hybrid, Qwen3):
    """Gated short convolutions in most layers. With experts: LFM2-MoE."""

    output_norm = "token_embd_norm"

    def __init__(self, file: File):
        super().__init__(file)
        self.window = file.get("attention.sliding_window", 0)
        self.gating = {0: "softmax", 1: "softmax", 2: "sigmoid"}[file.get("expert_gating_func", 0)]
        self.route_scale = 1.0

    def visible(self, query: np.ndarray, key: np.ndarray, i: int) -> np.ndarray:
        seen = super().visible(query, key, i)
        return seen & (query - key < self.window) if self.window else seen

    def recurrence(self, x: np.ndarray, blk: str) -> np.ndarray:
        before, after, x = np.split(self.linear(x, f"{blk}.shortconv.in_proj"), 3, axis=-1)
        y = after * convolution(before * x, self.weights[f"{blk}.shortconv.conv.weight"])
        return self.linear(y, f"{blk}.shortconv.out_proj")


class Mamba2(Hybrid):
    """State-space layers with one decay a head (Dao and Gu 2024), and nothing else."""

    def __init__(self, file: File):
        super().__init__(file)
        self.state, self.inner = file.get("ssm.state_size"), file.get("ssm.inner_size")
        self.state_heads, self.state_groups = file.get("ssm.time_step_rank"), file.get("ssm.group_count")
        # The group of each head.
        self.group = np.arange(self.state_heads) // (self.state_heads // self.state_groups)

    def is_recurrent(self, i: int) -> bool:
        return True

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        return x + self.recurrence(self.norm(x, f"blk.{i}.attn_norm"), f"blk.{i}")

    def recurrence(self, x: np.ndarray, blk: str) -> np.ndarray:
        b, n, _ = x.shape
        groups = self.state_groups * self.state
        rows = np.cumsum([self.inner, self.inner + 2 * groups])
        z, mixed, dt = np.split(self.linear(x, f"{blk}.ssm_in"), rows, axis=-1)
        mixed = convolution(mixed, self.weights[f"{blk}.ssm_conv1d.weight"])
        mixed = silu(mixed + self.weights.get(f"{blk}.ssm_conv1d.bias", 0))
        x, write, read = np.split(mixed, [self.inner, self.inner + groups], axis=-1)
        x = x.reshape(b, n, self.state_heads, -1)
        write, read = (part.reshape(b, n, -1, self.state)[:, :, self.group] for part in (write, read))
        step = self.step(dt + self.weights.get(f"{blk}.ssm_dt.bias", 0))
        y = self.scan(x, write, read, step, np.exp(step * self.weights[f"{blk}.ssm_a"][:, 0]))
        y = y + x * self.weights.get(f"{blk}.ssm_d", 0)
        return self.linear(self.gated(y.reshape(b, n, -1), z, f"{blk}.ssm_norm"), f"{blk}.ssm_out")

    step = staticmethod(softplus)

    def scan(self, x: np.ndarray, write: np.ndarray, read: np.ndarray, step: np.ndarray, decay: np.ndarray) -> np.ndarray:
        """x [b, n, h, d], write and read [b, n, h, state], step and decay [b, n, h]."""
        state = np.zeros((*x[:, 0].shape, self.state))
        out = np.empty_like(x)
        for t in range(x.shape[1]):
            state = state * decay[:, t, :, None, None]
            state = state + (step[:, t, :, None] * x[:, t])[..., None] * write[:, t, :, None]
            out[:, t] = np.einsum("bhds,bhs->bhd", state, read[:, t])
        return out

    def gated(self, y: np.ndarray, z: np.ndarray, norm: str) -> np.ndarray:
        """The gate comes before the norm, which is by group."""
        return self.norm_by_group(y * silu(z), norm)

    def norm_by_group(self, x: np.ndarray, name: str) -> np.ndarray:
        by_group = (*x.shape[:-1], self.state_groups, -1)
        return self.norm_if_any(x.reshape(by_group), name).reshape(x.shape)


class GraniteHybrid(Mamba2, Granite):
    """Mamba 2 in place of attention in the layers without KV heads."""

    is_recurrent = Hybrid.is_recurrent
    layer = Llama.layer


class FalconH1(Mamba2, Qwen2):
    """Attention and Mamba 2 side by side in every layer."""

    def __init__(self, file: File):
        super().__init__(file)
        # The converter writes the name without the suffix.
        self.weights = {name + ".weight" * name.endswith("ffn_norm"): w for name, w in self.weights.items()}

    layer = Llama.layer

    def attention(self, x: np.ndarray, i: int) -> np.ndarray:
        return Llama.attention(self, x, i) + self.recurrence(x, f"blk.{i}")


class NemotronH(Mamba2):
    """A layer is one of Mamba 2, attention without RoPE, and a feed-forward network. With experts: Nemotron-H-MoE."""

    def __init__(self, file: File):
        if not file.get("attention.layer_norm_rms_epsilon", 0.0):
            self.eps_key = "attention.layer_norm_epsilon"
        super().__init__(file)
        widths = file.get("feed_forward_length")
        self.widths = widths if isinstance(widths, list) else [widths] * self.layers
        used = self.experts_used
        self.all_used = used if isinstance(used, list) else [used] * self.layers
        self.gating, self.norms_routes = "sigmoid", file.get("expert_weights_norm", False)

    def is_recurrent(self, i: int) -> bool:
        return self.all_kv_heads[i] == 0 and self.widths[i] == 0

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        h = self.norm(x, f"blk.{i}.attn_norm")
        if self.widths[i] == 0:
            return x + self.attention(h, i)
        self.experts_used = self.all_used[i]
        return x + (self.mixture if self.experts else self.feed_forward)(h, f"blk.{i}.ffn")

    def placed(self, x: np.ndarray, name: str, i: int) -> np.ndarray:
        return x

    activation = staticmethod(lambda x: np.maximum(x, 0) ** 2)

    def feed_forward(self, x: np.ndarray, ffn: str, kind: str = "", expert=...) -> np.ndarray:
        return self.linear(self.activation(self.linear(x, f"{ffn}_up{kind}", expert)), f"{ffn}_down{kind}", expert)

    def mixture(self, x: np.ndarray, ffn: str) -> np.ndarray:
        """Experts may work in a narrower space, the router and the shared expert do not."""
        chosen, p = self.routes(self.linear(x, f"{ffn}_gate_inp"), ffn)
        if f"{ffn}_latent_down.weight" in self.weights:
            y = self.expert_sum(self.linear(x, f"{ffn}_latent_down"), chosen, p, ffn)
            y = self.linear(y, f"{ffn}_latent_up")
        else:
            y = self.expert_sum(x, chosen, p, ffn)
        return y + self.feed_forward(x, ffn, "_shexp")
