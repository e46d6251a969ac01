"""The small random models of the families whose layers hold a state."""

from small_model import Small, biases, dense, experts, head_norms, shared

Parts = dict[str, tuple[int, ...]]


def keyed(keys: dict) -> dict:
    return {key.replace("__", "."): value for key, value in keys.items()}


def attention(hidden: int, q: int, kv: int) -> Parts:
    rows = {"attn_q.weight": (q, hidden), "attn_k.weight": (kv, hidden), "attn_v.weight": (kv, hidden)}
    return {**rows, "attn_output.weight": (hidden, q)}


def delta_net(architecture: str, ffn: Parts, old: bool = False, drafts: bool = False, **keys) -> Small:
    """2 key heads and 6 value heads of 10; every third layer attends, with 4 heads of 14, of which 6 columns are rotated.

    A block that drafts tokens, which is not run, may come after the layers.
    """
    layers, hidden, state, key_heads, heads = 5, 84, 10, 2, 6
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": heads * state, "ssm.state_size": state, "ssm.time_step_rank": heads,
            "ssm.group_count": key_heads, "full_attention_interval": 3, "rope.dimension_count": 6, "rope.freq_base": 1e6,
            "feed_forward_length": 100} | keyed(keys)  # fmt: skip
    channels, values = (2 * key_heads + heads) * state, heads * state
    recurrent = {"ssm_conv1d.weight": (channels, 4), "ssm_dt.bias": (heads,), "ssm_a": (heads,), "ssm_norm.weight": (state,),
                 "ssm_out.weight": (hidden, values)}  # fmt: skip
    if old:
        recurrent |= {"ssm_in.weight": (channels + values, hidden)}
    else:
        recurrent |= {"attn_qkv.weight": (channels, hidden), "attn_gate.weight": (values, hidden)}
    if architecture == "qwen3next":
        recurrent |= {"ssm_ba.weight": (2 * heads, hidden)}
    else:
        recurrent |= {"ssm_beta.weight": (heads, hidden), "ssm_alpha.weight": (heads, hidden)}
        keys |= {"rope.dimension_sections": [1, 1, 1, 0]}
    whole = attention(hidden, 4 * 14, 2 * 14) | {"attn_q.weight": (2 * 4 * 14, hidden)} | head_norms(14)
    norms = {"attn_norm.weight": (hidden,), "post_attention_norm.weight": (hidden,)}
    flags = keys.get("attention.recurrent_layers", [(i + 1) % 3 != 0 for i in range(layers)])
    by_layer = tuple(norms | (recurrent if flag else whole) | ffn for flag in flags)
    if drafts:
        keys["nextn_predict_layers"] = 1
        joined = {"nextn.eh_proj.weight": (hidden, 2 * hidden), "nextn.enorm.weight": (hidden,), "nextn.hnorm.weight": (hidden,)}
        by_layer += (norms | whole | ffn | joined,)
    return Small(architecture, len(by_layer), hidden, 4, 2, 14, keys, by_layer=by_layer)


def delta_net_moe(architecture: str, old: bool = False, **keys) -> Small:
    keys |= {"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 44, "expert_shared_feed_forward_length": 60}
    ffn = experts(84, 44, 8) | shared(84, 60) | {"ffn_gate_inp_shexp.weight": (84,)}
    return delta_net(architecture, ffn, old=old, **keys)


def short_convolution(architecture: str, ffn: Parts, first: tuple[int, Parts] = (0, {}), **keys) -> Small:
    """Layers 2 and 4 attend, with 6 heads of 12."""
    kv_heads = [0, 0, 2, 0, 2]
    convolution = {"shortconv.in_proj.weight": (216, 72), "shortconv.conv.weight": (72, 3), "shortconv.out_proj.weight": (72, 72)}
    whole = attention(72, 72, 24) | head_norms(12)
    norms = {"attn_norm.weight": (72,), "ffn_norm.weight": (72,)}
    keys = {"feed_forward_length": 92, "attention.head_count_kv": kv_heads, "shortconv.l_cache": 3,
            "rope.freq_base": 1e6} | keyed(keys)  # fmt: skip
    by_layer = tuple(norms | (whole if heads else convolution) | ffn for heads in kv_heads)
    return Small(architecture, 5, 72, 6, 2, 12, keys, tied=True, by_layer=by_layer, dense=first, output_norm="token_embd_norm")


def state_space(hidden: int, inner: int, state: int, heads: int, groups: int) -> tuple[dict, Parts]:
    """Keys, and the parts of a layer."""
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": heads,
            "ssm.group_count": groups}  # fmt: skip
    channels = inner + 2 * groups * state
    parts = {"ssm_in.weight": (inner + channels + heads, hidden), "ssm_conv1d.weight": (channels, 4), "ssm_conv1d.bias": (channels,),
             "ssm_dt.bias": (heads,), "ssm_a": (heads, 1), "ssm_d": (heads, 1), "ssm_norm.weight": (groups, inner // groups),
             "ssm_out.weight": (hidden, inner)}  # fmt: skip
    return keys, parts


def mamba2() -> Small:
    keys, parts = state_space(72, 144, 10, 12, 3)
    keys |= {"attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0, "attention.key_length": None,
             "attention.value_length": None, "rope.dimension_count": None}  # fmt: skip
    by_layer = tuple({"attn_norm.weight": (72,)} | parts for _ in range(3))
    return Small("mamba2", 3, 72, 0, 0, 0, keys, tied=True, by_layer=by_layer)


def granite_hybrid(ffn: Parts, **keys) -> Small:
    """Layers 1 and 3 attend."""
    kv_heads = [0, 2, 0, 2]
    more, parts = state_space(72, 144, 10, 12, 2)
    keys = {"feed_forward_length": 52, "logit_scale": 3.0, "embedding_scale": 6.0, "residual_scale": 0.4, "attention.scale": 0.15,
            "attention.head_count_kv": kv_heads} | more | keyed(keys)  # fmt: skip
    norms = {"attn_norm.weight": (72,), "ffn_norm.weight": (72,)}
    by_layer = tuple(norms | (attention(72, 72, 24) if heads else parts) | ffn for heads in kv_heads)
    return Small("granitehybrid", 4, 72, 6, 2, 12, keys, by_layer=by_layer)


def falcon_h1(lacks: tuple[str, ...] = ()) -> Small:
    keys, parts = state_space(72, 96, 10, 8, 2)
    keys |= {"feed_forward_length": 92, "rope.freq_base": 1e6}
    parts = {"attn_norm.weight": (72,), "ffn_norm": (72,)} | attention(72, 6 * 20, 2 * 20) | parts | dense(72, 92)
    return Small("falcon-h1", 3, 72, 6, 2, 20, keys, by_layer=(parts,) * 3, lacks=lacks)


def nemotron_h(architecture: str, ffn: Parts, attention_parts: Parts | None = None, **keys) -> Small:
    """Mamba, feed-forward network, attention, Mamba, feed-forward network."""
    more, parts = state_space(72, 96, 10, 8, 2)
    keys = {"attention.head_count_kv": [0, 0, 2, 0, 0], "feed_forward_length": [0, 92, 0, 0, 92],
            "attention.layer_norm_epsilon": 1e-5} | more | keyed(keys)  # fmt: skip
    whole = attention(72, 6 * 20, 2 * 20) | (attention_parts or {})
    by_layer = tuple({"attn_norm.weight": (72,)} | block for block in (parts, ffn, whole, parts, ffn))
    return Small(architecture, 5, 72, 6, 2, 20, keys, by_layer=by_layer)


def squared_experts(width: int) -> Parts:
    """Without gates, in a space of this width."""
    return {"ffn_gate_inp.weight": (8, 72), "exp_probs_b.bias": (8,), "ffn_up_exps.weight": (8, 44, width),
            "ffn_down_exps.weight": (8, width, 44), "ffn_up_shexp.weight": (60, 72), "ffn_down_shexp.weight": (72, 60)}  # fmt: skip


ROUTES = {"expert_count": 8, "expert_used_count": 3, "expert_shared_feed_forward_length": 60}
LATENT = {"ffn_latent_down.weight": (40, 72), "ffn_latent_up.weight": (72, 40)}
SQUARED = {"ffn_up.weight": (92, 72), "ffn_down.weight": (72, 92)}
RECURRENT = {
    "qwen35": delta_net("qwen35", dense(84, 100)),
    "qwen35, large epsilon": delta_net("qwen35", dense(84, 100), attention__layer_norm_rms_epsilon=0.1),
    "qwen35, listed layers": delta_net("qwen35", dense(84, 100), attention__recurrent_layers=[False, True, True, False, True]),
    "qwen35moe": delta_net_moe("qwen35moe"),
    "qwen3next": delta_net_moe("qwen3next"),
    "qwen3next, old names": delta_net_moe("qwen3next", old=True),
    "lfm2": short_convolution("lfm2", dense(72, 92)),
    "lfm2, window": short_convolution("lfm2", dense(72, 92), attention__sliding_window=24),
    "lfm2moe": short_convolution("lfm2moe", experts(72, 44, 8) | {"exp_probs_b.bias": (8,)}, (2, dense(72, 92)), expert_count=8,
                                 expert_used_count=3, expert_feed_forward_length=44, expert_gating_func=2,
                                 leading_dense_block_count=2),
    "mamba2": mamba2(),
    "granitehybrid": granite_hybrid(dense(72, 52), rope__scaling__finetuned=False),
    "granitehybrid, experts": granite_hybrid(experts(72, 52, 7) | shared(72, 60), expert_count=7, expert_used_count=3,
                                             expert_shared_feed_forward_length=60),
    "falcon-h1": falcon_h1(),
    "falcon-h1, no norms": falcon_h1(lacks=("ssm_norm",)),
    "nemotron_h": nemotron_h("nemotron_h", SQUARED | {"ffn_up.bias": (92,), "ffn_down.bias": (72,)},
                             biases(120, 40) | {"attn_output.bias": (72,)}),
    "nemotron_h_moe": nemotron_h("nemotron_h_moe", squared_experts(72), expert_feed_forward_length=44, expert_weights_norm=True,
                                 expert_weights_scale=2.5, **ROUTES),
    "nemotron_h_moe, latent": nemotron_h("nemotron_h_moe", squared_experts(40) | LATENT, expert_feed_forward_length=44,
                                         moe_latent_size=40, expert_group_count=4, expert_group_used_count=2, **ROUTES),
}  # fmt: skip
