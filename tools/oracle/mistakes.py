"""Typical mistakes, as changes of a family's exact pass."""

from math import erf

import numpy as np

from forward.llama import Llama as Family, gelu, halves, neighbours, silu


def norm_after_rope(family: Family) -> None:
    family.placed = lambda x, name, i: family.norm(family.rope(x, family.theta, 1.0), f"{name}_norm")


def norm_before_rope(family: Family) -> None:
    family.placed = lambda x, name, i: family.rope(family.norm(x, f"{name}_norm"), family.theta, 1.0)


def values_not_normed(family: Family) -> None:
    family.unweighted = lambda x: x


def router_not_scaled(family: Family) -> None:
    ones = np.full(family.hidden, family.hidden**0.5)
    family.weights = {name: ones if name.endswith("gate_inp.scale") else w for name, w in family.weights.items()}


def no_head_norms(family: Family) -> None:
    family.placed = lambda x, name, i: family.rope(x, family.theta, 1.0)


def no_embedding_scale(family: Family) -> None:
    family.embedding = lambda tokens: family.weights["token_embd.weight"][tokens]


def without(*tensors: str):
    """The tensors of every layer whose names end so are not used."""

    def plant(family: Family) -> None:
        family.weights = {name: w for name, w in family.weights.items() if not name.endswith(tensors)}

    return plant


def sets(**values):
    return lambda family: vars(family).update(values)


def maps(tensor: str, change):
    """The tensors of every layer whose names end so are changed."""

    def plant(family: Family) -> None:
        family.weights = {name: change(w) if name.endswith(tensor) else w for name, w in family.weights.items()}

    return plant


NO_BIAS_OF_STEP = maps("ssm_dt.bias", np.zeros_like)
KERNEL_REVERSED = maps("ssm_conv1d.weight", lambda w: w[:, ::-1])
NO_DECAY = maps("ssm_a", np.zeros_like)


def gate_before_norm(family: Family) -> None:
    family.gated = lambda y, z, norm: family.norm(y * silu(z), norm)


def norm_before_gate(family: Family) -> None:
    family.gated = lambda y, z, norm: family.norm_by_group(y, norm) * silu(z)


def one_norm_group(family: Family) -> None:
    family.gated = lambda y, z, norm: family.norm(y * silu(z), norm)
    maps("ssm_norm.weight", np.ravel)(family)


def nothing_removed(family: Family) -> None:
    """Linear attention in place of the delta rule."""
    family.kept = lambda state, k, decay: np.zeros_like(state[..., 0])


def removed_before_decay(family: Family) -> None:
    kept = family.kept
    family.kept = lambda state, k, decay: kept(state / decay[..., None, None], k, decay)


def norm_at_least(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 0.1)


def mean_of_squares(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 0.1) / 10**0.5


def step_of_one(family: Family) -> None:
    scan = family.scan
    family.scan = lambda x, write, read, step, decay: scan(x, write, read, np.ones_like(step), decay)


def exchanged(tensor: str, first: slice, second: slice):
    """Two ranges of equally many rows."""

    def change(w: np.ndarray) -> np.ndarray:
        w = w.copy()
        w[first], w[second] = w[second].copy(), w[first].copy()
        return w

    return maps(tensor, change)


def with_rope(family: Family) -> None:
    family.placed = lambda x, name, i: family.rope(x, family.theta, 1.0)


def attention_after_mamba(family: Family) -> None:
    def layer(x: np.ndarray, i: int) -> np.ndarray:
        x = x + family.recurrence(family.norm(x, f"blk.{i}.attn_norm"), f"blk.{i}")
        x = x + Family.attention(family, family.norm(x, f"blk.{i}.attn_norm"), i)
        return x + family.feed_forward(family.norm(x, f"blk.{i}.ffn_norm"), f"blk.{i}.ffn")

    family.layer = layer


def no_norm_of_keys(family: Family) -> None:
    placed = family.placed
    plain = lambda x, name, i: family.rope(x, family.theta, 1.0)  # noqa: E731
    family.placed = lambda x, name, i: (plain if name.endswith("attn_k") and (i + 1) % 4 else placed)(x, name, i)


def weights_of_outputs(family: Family) -> None:
    family.expert_sum = lambda x, chosen, p, ffn: Family.expert_sum(family, x, chosen, p, ffn)


def window_of_chunk(family: Family) -> None:
    """The last 8192 positions, of which all are near enough here."""
    family.visible = lambda query, key, i: (key <= query) & (query - key < family.chunk)


# Model -> mistake -> what plants it.
MISTAKES = {
    "llama, YaRN": {"all pairs scaled": sets(unscaled=0), "no pair scaled": sets(position_scale=1.0),
                    "no magnitude": sets(magnitude=1.0)},
    "llama, LongRoPE": {"short factors": sets(original_context=512), "no magnitude": sets(magnitude=1.0)},
    "llama": {"halves": sets(columns=halves)},
    "mixtral": {"one expert fewer": sets(experts_used=2), "one expert more": sets(experts_used=4),
                "weights not over their sum": sets(norms_routes=False)},
    "qwen2": {"neighbours": sets(columns=neighbours)},
    "llama, biases": {f"no {name}": without(f"{name}.bias") for name in
                      ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")},
    "qwen3": {"norms after RoPE": norm_after_rope, "no norms of heads": no_head_norms,
              "scale by hidden / heads": sets(score_scale=(80 // 6) ** -0.5)},
    "qwen3moe, scales": {f"no scales of {part}": without(f"ffn_{part}_exps.scale") for part in ("gate", "up", "down")},
    "qwen3moe": {"one expert fewer": sets(experts_used=1), "one expert more": sets(experts_used=3),
                 "weights not over their sum": sets(norms_routes=False), "neighbours": sets(columns=neighbours)},
    "gemma3": {"a window of 23": sets(window=23), "a window of 25": sets(window=25), "no window": sets(window=300),
               "the first layer is global": sets(local=[i % 6 != 0 for i in range(8)]),
               "all layers are local": sets(local=[True] * 8), "one base": sets(theta_local=1e6),
               "positions not scaled": sets(position_scale=1.0), "SiLU": sets(activation=silu),
               "scale by hidden / heads": sets(score_scale=(60 // 6) ** -0.5),
               "embeddings not scaled": no_embedding_scale, "neighbours": sets(columns=neighbours)},
    "gemma3, other keys": {"no cap": sets(cap=0.0), "the usual local base": sets(theta_local=1e4)},
    "gemma3, two layers": {"GELU by erf": sets(activation=lambda x: x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2)},
    "gemma2, steep gates": {"no cap of scores": sets(score_cap=0.0), "cap of 30": sets(cap=30.0), "a window of 25": sets(window=25),
                            "odd layers local": sets(period=99)},
    "command-r": {"logits divided": sets(logit_scale=2.0)},
    "cohere2": {"a window of 25": sets(window=25), "every third": sets(period=3)},
    "granite": {"scale by head": sets(score_scale=12**-0.5), "residual not scaled": sets(residual_scale=1.0),
                "embeddings not scaled": sets(embedding_scale=1.0), "logits multiplied": sets(logit_divisor=1 / 3)},
    "granite, no RoPE": {"RoPE": sets(has_positions=True)},
    "granitemoe, shared": {"no shared expert": without("ffn_gate_shexp.weight")},
    "smollm3": {"RoPE everywhere": sets(period=99), "none in every third": sets(period=3)},
    "olmo3": {"a window of 25": sets(window=25), "every fourth": sets(period=4), "no magnitude": sets(magnitude=1.0)},
    "glm4": {"halves": sets(columns=halves)},
    "glm4, coordinates": {"neighbours": sets(columns=neighbours)},
    "phi3": {"short factors": sets(original_context=512), "neighbours": sets(columns=neighbours)},
    "qwen2moe": {"weights over their sum": sets(norms_routes=True), "no shared expert": without("ffn_gate_shexp.weight"),
                 "shared expert without its gate": without("ffn_gate_inp_shexp.weight")},
    "mistral3": {"queries do not grow": sets(beta=0.0), "an interval of 64": sets(interval=64), "no magnitude squared": sets(magnitude=1.2)},
    "gpt-oss": {"no sinks": without("attn_sinks.weight"), "no limit": sets(limit=1e9), "no biases of experts": without("exps.bias"),
                "no bias of the router": without("gate_inp.bias"), "a window of 25": sets(window=25), "odd layers local": sets(period=99)},
    "glm4moe": {"no bias for the choice": without("exp_probs_b.bias"), "softmax": sets(gating="softmax"),
                "weights not over their sum": sets(norms_routes=False), "no shared expert": without("ffn_gate_shexp.weight")},
    "glm4moe, no norms": {"no scale of weights": sets(route_scale=1.0), "weights over their sum": sets(norms_routes=True)},
    "minimax-m2": {"no bias for the choice": without("exp_probs_b.bias"), "weights not over their sum": sets(norms_routes=False)},
    "hunyuan-moe": {"norms before RoPE": norm_before_rope, "no shared expert": without("ffn_gate_shexp.weight")},
    "deepseek2": {"all groups": sets(groups=(0, 0)), "one group": sets(groups=(4, 1)), "no scale of weights": sets(route_scale=1.0),
                  "no bias for the choice": without("exp_probs_b.bias"), "halves": sets(columns=halves),
                  "scale by latent": sets(score_scale=28**-0.5)},
    "deepseek2, lite": {"no magnitude in scores": sets(score_scale=18**-0.5), "sigmoid": sets(gating="sigmoid")},
    "deepseek2, grown": {"queries do not grow": sets(beta=0.0)},
    "gemma4": {"scale by head": sets(score_scale=36**-0.5), "no cap": sets(cap=0.0), "a window of 25": sets(window=25),
               "one base": sets(local_theta=1e6), "no divisors": without("rope_freqs.weight"), "values not normed": values_not_normed},
    "gemma4, E": {"no inputs of layers": sets(per_layer=0), "no scale of layers": without("layer_output_scale.weight")},
    "gemma4, experts": {"no scale of experts": without("ffn_down_exps.scale"), "weights not over their sum": sets(norms_routes=False),
                        "router without its scale": router_not_scaled},
    "gemma3, 62 layers": {"scale by head": sets(score_scale=22**-0.5)},
    "qwen35": {"key heads of neighbours": sets(key_head=np.arange(6) // 3), "no gate of attention": sets(gate=np.ones_like),
               "queries and gates exchanged": exchanged("attn_q.weight", slice(0, 14), slice(14, 28)),
               "whole heads rotated": sets(rotated=14, unscaled=0),
               "no SiLU after the convolution": sets(after_convolution=lambda x: x), "kernel reversed": KERNEL_REVERSED,
               "no bias of the step": NO_BIAS_OF_STEP, "no decay": NO_DECAY, "nothing removed": nothing_removed,
               "removed before the decay": removed_before_decay, "gate before the norm": gate_before_norm},
    "qwen35, large epsilon": {"no scale of queries": sets(query_scale=1.0),
                              "norm at least epsilon": sets(unit=norm_at_least),
                              "mean of squares": sets(unit=mean_of_squares)},
    "qwen35moe": {"no shared expert": without("ffn_gate_shexp.weight"),
                  "shared expert without its gate": without("ffn_gate_inp_shexp.weight"),
                  "weights not over their sum": sets(norms_routes=False)},
    "qwen3next": {"key heads in turn": sets(key_head=np.arange(6) % 2),
                  "beta before alpha": sets(by_key_head=lambda x, parts: np.split(x, parts, axis=-1))},
    "lfm2": {"kernel reversed": maps("shortconv.conv.weight", lambda w: w[:, ::-1]),
             "factors exchanged": exchanged("in_proj.weight", slice(0, 72), slice(72, 144)), "no norms of heads": no_head_norms,
             "factor and input exchanged": exchanged("in_proj.weight", slice(72, 144), slice(144, 216))},
    "lfm2, window": {"a window of 25": sets(window=25), "no window": sets(window=0)},
    "lfm2moe": {"softmax": sets(gating="softmax"), "no bias for the choice": without("exp_probs_b.bias"),
                "weights not over their sum": sets(norms_routes=False)},
    "mamba2": {"groups in turn": sets(group=np.arange(12) % 3), "norm before the gate": norm_before_gate,
               "one group in the norm": one_norm_group,
               "inputs do not pass": without("ssm_d"), "no bias of the convolution": without("ssm_conv1d.bias"),
               "no bias of the step": NO_BIAS_OF_STEP, "inputs without the step": step_of_one, "no decay": NO_DECAY,
               "kernel reversed": KERNEL_REVERSED,
               "gate and input exchanged": exchanged("ssm_in.weight", slice(0, 144), slice(144, 288)),
               "write and read exchanged": exchanged("ssm_in.weight", slice(288, 318), slice(318, 348))},
    "granitehybrid": {"RoPE": sets(has_positions=True), "residual not scaled": sets(residual_scale=1.0),
                      "scale by head": sets(score_scale=12**-0.5)},
    "granitehybrid, experts": {"no RoPE": sets(has_positions=False), "no shared expert": without("ffn_gate_shexp.weight")},
    "falcon-h1": {"attention after Mamba": attention_after_mamba, "neighbours": sets(columns=neighbours),
                  "no norm": without("ssm_norm.weight")},
    "nemotron_h": {"not squared": sets(activation=lambda x: np.maximum(x, 0)), "RoPE": with_rope,
                   "no biases": without("ffn_up.bias"),                   "no bias of the output": without("attn_output.bias")},
    "nemotron_h_moe": {"softmax": sets(gating="softmax"), "no scale of weights": sets(route_scale=1.0),
                       "no bias for the choice": without("exp_probs_b.bias"), "weights not over their sum": sets(norms_routes=False),
                       "not squared": sets(activation=lambda x: np.maximum(x, 0))},
    "nemotron_h_moe, latent": {"weights over their sum": sets(norms_routes=True), "all groups": sets(groups=(0, 0))},
    "llama4": {"RoPE everywhere": sets(period=99), "heads not normed": sets(norms_heads=False), "keys not normed": no_norm_of_keys,
               "weights of outputs": weights_of_outputs, "weights over their sum": sets(norms_routes=True),
               "softmax": sets(gating="softmax"), "no shared expert": without("ffn_gate_shexp.weight"), "halves": sets(columns=halves)},
    "llama4, two chunks": {"no chunks": sets(chunk=10**6), "a window": window_of_chunk, "queries do not grow": sets(beta=0.0),
                           "keys of the chunk before": sets(chunk=8193)},
    "llama4, 128 experts": {"heads normed": sets(norms_heads=True), "one base": sets(local_theta=5e5)},
}  # fmt: skip


def causal(family: Family) -> None:
    family.visible = lambda query, key, i: key <= query


def norms_first(family: Family) -> None:
    """Norms before the blocks, as in models that generate."""

    def layer(x: np.ndarray, i: int) -> np.ndarray:
        x = x + family.attention(family.norm(x, f"blk.{i}.attn_output_norm"), i)
        return x + family.feed_forward(family.norm(x, f"blk.{i}.layer_output_norm"), f"blk.{i}.ffn")

    family.layer = layer


def no_means(family: Family) -> None:
    """RMS norms in place of layer norms."""
    rms = Family.norm
    family.norm = lambda x, name: rms(family, x, name) + family.weights.get(f"{name}.bias", 0)


def no_rope(family: Family) -> None:
    family.placed = lambda x, name, i: x


def alibi_by_order(family: Family) -> None:
    family.bias = lambda query, key, head: family.slope(head) * (key - query)


def slopes_of_powers(family: Family) -> None:
    """As if heads were a power of two."""
    family.slope = lambda head: 2 ** (-family.max_bias * (head + 1) / family.heads)


HEAD = {"head: without tanh": sets(head_activation=lambda x: x), "head: without bias": without("cls.bias"),
        "head: of the last row": sets(ranks_by="last")}  # fmt: skip
HEAD_OF_MODERN = {"head: tanh": sets(head_activation=np.tanh), "head: without norm": without("cls.norm.weight")}
# Those of a classifier's head begin so, and show in the ranking only.
MISTAKES_OF_ENCODERS = {
    "bert": {"causal": causal, "norms first": norms_first, "no means": no_means, "no type of token": without("token_types.weight"),
             "no positions": without("position_embd.weight"), "RoPE": with_rope, "no bias of values": without("attn_v.bias"),
             "no biases of feed-forward": without("ffn_up.bias"), "SiLU": sets(activation=silu)},
    "bert, reranker": HEAD | {"no biases": without("attn_v.bias", "attn_q.bias", "attn_k.bias")},
    "nomic-bert": {"causal": causal, "no RoPE": no_rope, "neighbours": sets(columns=neighbours), "usual base": sets(theta=1e4),
                   "GELU": sets(activation=gelu), "no type of token": without("token_types.weight")},
    "nomic-bert-moe": {"weights over their sum": sets(norms_routes=True), "one expert fewer": sets(experts_used=1),
                       "no RoPE": no_rope, "SiLU": sets(activation=silu), "up gates itself": sets(activation=lambda x: x * gelu(x)),
                       "no biases of dense layers": without("ffn_up.bias", "ffn_down.bias")},
    "jina-bert-v2": {"no ALiBi": sets(max_bias=1e9), "signed distances": alibi_by_order, "slopes of powers": slopes_of_powers,
                     "half the slopes": sets(max_bias=4.0), "SiLU": sets(activation=silu),
                     "head: without tanh": sets(head_activation=lambda x: x), "head: of the mean": sets(ranks_by="mean")},
    "jina-bert-v2, code": {"no second norm": without("attn_norm_2.weight"), "no norms of queries": without("attn_q_norm.weight"),
                           "gate second": exchanged("ffn_up.weight", slice(0, 100), slice(100, 200))},
    "modern-bert": {"causal": causal, "a window of 22": sets(window=22), "a whole window": sets(window=48),
                    "one base": sets(local_theta=16e4),
                    "global last": sets(local=[True, True, False, True, True]), "no window": sets(local=[False] * 5),
                    "gate second": exchanged("ffn_up.weight", slice(0, 100), slice(100, 200)), "no means": no_means},
    "modern-bert, SiLU": {"GELU": sets(activation=gelu), "usual pattern": sets(local=[i % 3 != 0 for i in range(5)])},
    "modern-bert, reranker": HEAD_OF_MODERN | {"head: of the first row": sets(ranks_by="cls")},
    "modern-bert, first ranks": HEAD_OF_MODERN | {"head: of the mean": sets(ranks_by="mean")},
    "modern-bert, ReLU": {"SiLU": sets(activation=silu), "ReLU squared": sets(activation=lambda x: np.maximum(x, 0) ** 2)},
    "gemma-embedding": {"causal": causal, "a window of 22": sets(window=22), "a whole window": sets(window=48),
                        "no projections": without("dense_2.weight", "dense_3.weight"), "embeddings not scaled": no_embedding_scale},
    "qwen3, reranker": {"head: of the first row": sets(ranks_by="cls"), "head: without softmax": sets(ranks_by_softmax=False)},
}  # fmt: skip
