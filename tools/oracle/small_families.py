"""The small random models of the families whose layers have attention."""

from small_model import VOCABULARY, Small, biases, dense, experts, head_norms, more_biases, norms_after, shared
from small_recurrent import RECURRENT, delta_net


def gemma3(layers: int = 8, steep: bool = False, **keys) -> Small:
    after = {"post_attention_norm.weight": (60,), "post_ffw_norm.weight": (60,)}
    keys = {key.replace("__", "."): value for key, value in keys.items()}
    keys |= {"feed_forward_length": 104, "rope.freq_base": 1e6}
    return Small("gemma3", layers, 60, 6, 2, 22, keys, head_norms(22) | after | dense(60, 104), True, steep)


GOOGLE = {"attention__sliding_window": 24, "rope__scaling__type": "linear", "rope__scaling__factor": 8.0}


def llama(rope_freqs: bool = False, longrope: bool = False, **keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()} | {"feed_forward_length": 100}
    return Small("llama", 3, 72, 6, 2, 20, keys, dense(72, 100), rope_freqs=rope_freqs, longrope=longrope)


def qwen(architecture: str, parts: dict, **keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()} | {"feed_forward_length": 100}
    return Small(architecture, 3, 84, 6, 2, 14, keys, parts | dense(84, 100))


def granite(architecture: str, parts: dict, **keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()}
    keys = {"feed_forward_length": 52, "logit_scale": 3.0, "embedding_scale": 6.0, "residual_scale": 0.4,
            "attention.scale": 0.15} | keys  # fmt: skip
    return Small(architecture, 3, 72, 6, 2, 12, keys, parts)


def olmo(**keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()} | {"feed_forward_length": 92}
    rows = {"attn_q_norm.weight": (72,), "attn_k_norm.weight": (24,)}
    return Small("olmo2", 4, 72, 6, 2, 12, keys, rows | norms_after(72) | dense(72, 92), lacks=("attn_norm", "ffn_norm"))


def fused(architecture: str, key_length: int, parts: dict, lacks: tuple[str, ...] = (), longrope: bool = False, **keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()} | {"feed_forward_length": 92}
    parts = parts | {"ffn_up.weight": (184, 72), "ffn_down.weight": (72, 92)}
    return Small(architecture, 3, 72, 6, 2, key_length, keys, parts, lacks=lacks, longrope=longrope)


def layer_norms(architecture: str, parts: dict, lacks: tuple[str, ...] = (), biased: bool = True, **keys) -> Small:
    keys = {key.replace("__", "."): value for key, value in keys.items()}
    keys |= {"feed_forward_length": 92, "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": None}
    norms = ["attn_norm"] + ["ffn_norm"] * ("ffn_norm" not in lacks)
    parts = parts | ({f"{norm}.bias": (72,) for norm in norms} if biased else {})
    return Small(architecture, 4, 72, 6, 2, 12, keys, parts, lacks=lacks, output_bias=biased)


def expert_biases(hidden: int, width: int, count: int) -> dict[str, tuple[int, ...]]:
    wide = {f"ffn_{part}_exps.bias": (count, width) for part in ("gate", "up")}
    return {"ffn_gate_inp.bias": (count,), **wide, "ffn_down_exps.bias": (count, hidden)}


def moe_after_dense(architecture: str, parts: dict, **keys) -> Small:
    """The first layer has a dense network, the others experts."""
    keys = {key.replace("__", "."): value for key, value in keys.items()}
    keys = {"feed_forward_length": 92, "expert_feed_forward_length": 44, "expert_count": 8, "expert_used_count": 3,
            "expert_shared_count": 1, "leading_dense_block_count": 1, "rope.dimension_count": 6} | keys  # fmt: skip
    parts = parts | {"post_attention_norm.weight": (72,), "exp_probs_b.bias": (8,)} | experts(72, 44, 8) | shared(72, 44)
    return Small(architecture, 4, 72, 6, 2, 12, keys, parts, lacks=("ffn_norm",), dense=(1, dense(72, 92)))


def latent(q_rank: int, absorbed: bool, yarn_log: float = 0.1, bias: bool = False, **keys) -> Small:
    """llama.cpp takes 26 layers for a sign that queries are of one matrix."""
    heads, rank, nope, pe, value = 6, 20, 10, 8, 14
    keys = {key.replace("__", "."): value for key, value in (YARN | keys).items()}
    keys |= {"feed_forward_length": 92, "expert_feed_forward_length": 44, "expert_count": 8, "expert_used_count": 3,
             "expert_shared_count": 2, "leading_dense_block_count": 1, "rope.dimension_count": pe,
             "attention.kv_lora_rank": rank, "rope.scaling.yarn_log_multiplier": yarn_log}  # fmt: skip
    parts = {"attn_kv_a_mqa.weight": (rank + pe, 72), "attn_kv_a_norm.weight": (rank,), "attn_output.weight": (72, heads * value)}
    if q_rank:
        keys["attention.q_lora_rank"] = q_rank
        parts |= {"attn_q_a.weight": (q_rank, 72), "attn_q_a_norm.weight": (q_rank,), "attn_q_b.weight": (heads * (nope + pe), q_rank)}
    else:
        parts |= {"attn_q.weight": (heads * (nope + pe), 72)}
    if absorbed:
        keys |= {"attention.key_length": rank + pe, "attention.value_length": rank, "attention.head_count_kv": 1,
                 "attention.key_length_mla": nope + pe, "attention.value_length_mla": value}  # fmt: skip
        parts |= {"attn_k_b.weight": (heads, rank, nope), "attn_v_b.weight": (heads, value, rank)}
    else:
        keys |= {"attention.key_length": nope + pe, "attention.value_length": value, "attention.head_count_kv": heads}
        parts |= {"attn_kv_b.weight": (heads * (nope + value), rank)}
    if bias:
        parts["exp_probs_b.bias"] = (8,)
    parts |= experts(72, 44, 8) | shared(72, 88)
    lacks = ("attn_k", "attn_v") + (("attn_q",) if q_rank else ())
    return Small("deepseek2", 4 if q_rank else 26, 72, heads, heads, nope + pe, keys, parts, lacks=lacks, dense=(1, dense(72, 92)))


def gemma4(shared: int = 0, per_layer: int = 0, experts: bool = False, fused: bool = False, scales: bool = False,
           values: bool = False, down_scale: bool = True) -> Small:  # fmt: skip
    """Six layers, the third and the sixth global; 4 KV heads of 20 in local ones, 2 of 36 in global ones."""
    local = [True, True, False, True, True, False] if not shared else [True, True, False, True, True, False]
    keys = {"feed_forward_length": [104] * 3 + [88] * 3, "attention.head_count_kv": [4 if is_local else 2 for is_local in local],
            "attention.key_length_swa": 20, "attention.value_length_swa": 20, "attention.sliding_window": 24,
            "attention.sliding_window_pattern": local, "rope.freq_base": 1e6, "rope.dimension_count_swa": 20,
            "final_logit_softcapping": 4.0, "attention.shared_kv_layers": shared,
            "embedding_length_per_layer_input": per_layer}  # fmt: skip
    layers, extra = [], {"rope_freqs.weight": (18,)}
    if per_layer:
        extra |= {"per_layer_token_embd.weight": (VOCABULARY, 6 * per_layer), "per_layer_model_proj.weight": (6 * per_layer, 60),
                  "per_layer_proj_norm.weight": (per_layer,)}  # fmt: skip
    if experts:
        keys |= {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 44}
    for i, is_local in enumerate(local):
        width, kv = (20, 4) if is_local else (36, 2)
        ffn = keys["feed_forward_length"][i]
        parts = {"attn_norm.weight": (60,), "attn_q.weight": (8 * width, 60), "attn_output.weight": (60, 8 * width),
                 "attn_q_norm.weight": (width,), "ffn_norm.weight": (60,)} | norms_after(60) | dense(60, ffn)  # fmt: skip
        if i < 6 - shared:
            parts |= {"attn_k.weight": (kv * width, 60), "attn_k_norm.weight": (width,)}
            if is_local or values:
                parts |= {"attn_v.weight": (kv * width, 60)}
        if scales:
            parts |= {"layer_output_scale.weight": (1,)}
        if per_layer:
            parts |= {"inp_gate.weight": (per_layer, 60), "proj.weight": (60, per_layer), "post_norm.weight": (60,)}
        if experts:
            parts |= {"ffn_gate_inp.weight": (8, 60), "ffn_gate_inp.scale": (60,), "ffn_down_exps.weight": (8, 60, 44)}
            parts |= {f"{name}.weight": (60,) for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")}
            if down_scale:
                parts |= {"ffn_down_exps.scale": (8,)}
            if fused:
                parts |= {"ffn_gate_up_exps.weight": (8, 88, 60)}
            else:
                parts |= {"ffn_gate_exps.weight": (8, 44, 60), "ffn_up_exps.weight": (8, 44, 60)}
        layers.append(parts)
    return Small("gemma4", 6, 60, 8, 2, 36, keys, {}, True, by_layer=tuple(layers), extra=extra)


def llama4(count: int, first_position: int = 0, rope_freqs: bool = False, **keys) -> Small:
    """Every second layer has experts, every fourth is global and has no RoPE."""
    keys = {key.replace("__", "."): value for key, value in keys.items()}
    keys = {"feed_forward_length": 92, "expert_feed_forward_length": 44, "expert_count": count, "expert_used_count": 1,
            "interleave_moe_layer_step": 2, "rope.freq_base": 5e5} | keys  # fmt: skip
    step, kv = keys["interleave_moe_layer_step"], {"attn_k.weight": (40, 72), "attn_v.weight": (40, 72)}
    block = {"attn_norm.weight": (72,), "attn_q.weight": (120, 72), **kv, "attn_output.weight": (72, 120), "ffn_norm.weight": (72,)}
    mixture = experts(72, 44, count) | shared(72, 44)
    by_layer = tuple(block | (dense(72, 92) if (i + 1) % step else mixture) for i in range(5))
    return Small("llama4", 5, 72, 6, 2, 20, keys, rope_freqs=rope_freqs, by_layer=by_layer, first_position=first_position)


YARN = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 128}
LONG = {"rope__scaling__type": "longrope", "rope__scaling__attn_factor": 1.2}
MODELS = {
    "llama": llama(rope_freqs=True),
    "mixtral": Small("llama", 3, 72, 6, 2, 20,
                     {"feed_forward_length": 52, "expert_count": 7, "expert_used_count": 3, "rope.freq_base": 1e6},
                     experts(72, 52, 7)),
    "qwen2": qwen("qwen2", biases(84, 28)),
    "qwen3": Small("qwen3", 4, 80, 6, 3, 24, {"feed_forward_length": 108, "rope.freq_base": 1e6},
                   head_norms(24) | dense(80, 108), tied=True),
    "qwen3moe": Small("qwen3moe", 3, 88, 6, 2, 18,
                      {"feed_forward_length": 132, "expert_feed_forward_length": 44, "expert_count": 8,
                       "expert_used_count": 2, "rope.freq_base": 1e6},
                      head_norms(18) | experts(88, 44, 8)),
    "gemma3": gemma3(**GOOGLE),
    "gemma3, other keys": gemma3(attention__sliding_window=24, rope__freq_base_swa=3000.0,
                                 final_logit_softcapping=4.0,
                                 attention__sliding_window_pattern=[i in (0, 3, 4, 6) for i in range(8)]),
    "gemma3, every third": gemma3(attention__sliding_window=17, attention__sliding_window_pattern=3),
    "gemma3, no window": gemma3(rope__scaling__factor=8.0),
    "gemma3, two layers": gemma3(layers=2, attention__sliding_window=24, attention__sliding_window_pattern=2),
    "gemma3, steep gates": gemma3(steep=True, **GOOGLE),
    "gemma3, 62 layers": gemma3(layers=62, steep=True, **GOOGLE),
    "llama, biases": Small("llama", 3, 72, 6, 2, 20, {"feed_forward_length": 100},
                           dense(72, 100) | biases(120, 40) | more_biases(72, 100)),
    "qwen2, no biases": qwen("qwen2", {}),
    "llama, YaRN": llama(**YARN),
    "llama, YaRN, factors": llama(rope_freqs=True, rope__scaling__attn_factor=1.3, **YARN),
    "llama, linear, attn_factor": llama(rope__scaling__factor=4.0, rope__scaling__attn_factor=1.3),
    "qwen2, YaRN": qwen("qwen2", biases(84, 28), **YARN),
    "qwen3, YaRN": qwen("qwen3", head_norms(14), **YARN | {"rope__scaling__original_context_length": 2048}),
    "llama, LongRoPE": llama(longrope=True, rope__scaling__original_context_length=128, **LONG),
    "llama, LongRoPE, short": llama(longrope=True, rope__scaling__original_context_length=512, **LONG),
    "ernie4_5": Small("ernie4_5", 3, 72, 6, 2, 20, {"feed_forward_length": 100, "rope.freq_base": 5e5}, dense(72, 100), tied=True),
    "qwen3vl": Small("qwen3vl", 3, 80, 6, 3, 24,
                     {"feed_forward_length": 108, "rope.freq_base": 5e6, "rope.dimension_sections": [5, 4, 3, 0],
                      "n_deepstack_layers": 3}, head_norms(24) | dense(80, 108), tied=True),
    "granite": granite("granite", dense(72, 52)),
    "granite, no RoPE": granite("granite", dense(72, 52), rope__scaling__finetuned=False),
    "granite, no factors": granite("granite", dense(72, 52), embedding_scale=0.0, residual_scale=0.0, attention__scale=0.0),
    "granitemoe": granite("granitemoe", experts(72, 52, 7), expert_count=7, expert_used_count=3),
    "granitemoe, shared": granite("granitemoe", experts(72, 52, 7) | shared(72, 60), expert_count=7, expert_used_count=3,
                                  expert_shared_feed_forward_length=60),
    "smollm3": Small("smollm3", 5, 72, 6, 2, 12, {"feed_forward_length": 100, "rope.freq_base": 5e4}, dense(72, 100), tied=True),
    "olmo2": olmo(rope__freq_base=5e5),
    "olmo3": olmo(attention__sliding_window=24, attention__sliding_window_pattern=3, **YARN),
    "qwen2moe": Small("qwen2moe", 3, 84, 6, 2, 14,
                      {"feed_forward_length": 96, "expert_feed_forward_length": 44, "expert_count": 8, "expert_used_count": 3,
                       "expert_shared_feed_forward_length": 60},
                      biases(84, 28) | experts(84, 44, 8) | shared(84, 60) | {"ffn_gate_inp_shexp.weight": (84,)}),
    "mistral3": Small("mistral3", 3, 72, 6, 2, 20,
                      {"feed_forward_length": 100, "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.1}
                      | {key.replace("__", "."): value for key, value in YARN.items()}, dense(72, 100)),
    "gpt-oss": Small("gpt-oss", 4, 72, 6, 2, 20,
                     {"feed_forward_length": 52, "expert_feed_forward_length": 52, "expert_count": 7, "expert_used_count": 3,
                      "attention.sliding_window": 24, "rope.freq_base": 15e4}
                     | {key.replace("__", "."): value for key, value in YARN.items()},
                     biases(120, 40) | {"attn_output.bias": (72,), "attn_sinks.weight": (6,), "post_attention_norm.weight": (72,)}
                     | experts(72, 52, 7) | expert_biases(72, 52, 7), lacks=("ffn_norm",)),
    "glm4moe": moe_after_dense("glm4moe", head_norms(12) | biases(72, 24), expert_weights_norm=True, nextn_predict_layers=1),
    "glm4moe, no norms": moe_after_dense("glm4moe", {}, expert_weights_norm=False, expert_weights_scale=1.5),
    "minimax-m2": Small("minimax-m2", 3, 72, 6, 2, 20,
                        {"feed_forward_length": 44, "expert_feed_forward_length": 44, "expert_count": 8, "expert_used_count": 3,
                         "expert_gating_func": 2, "rope.dimension_count": 10},
                        {"attn_q_norm.weight": (120,), "attn_k_norm.weight": (40,), "exp_probs_b.bias": (8,)} | experts(72, 44, 8)),
    "hunyuan-moe": Small("hunyuan-moe", 3, 72, 6, 2, 12,
                         {"feed_forward_length": 44, "expert_feed_forward_length": 44, "expert_count": 8, "expert_used_count": 3,
                          "expert_shared_feed_forward_length": 60},
                         head_norms(12) | experts(72, 44, 8) | shared(72, 60), tied=True),
    "deepseek2": latent(q_rank=40, absorbed=True, expert_gating_func=2, expert_weights_norm=True, expert_weights_scale=2.5,
                        expert_group_count=4, expert_group_used_count=2, bias=True),
    "deepseek2, old names": latent(q_rank=40, absorbed=False, expert_gating_func=2, expert_weights_norm=True, bias=True),
    "deepseek2, lite": latent(q_rank=0, absorbed=True, yarn_log=0.0707, expert_weights_scale=1.3),
    "deepseek2, grown": latent(q_rank=40, absorbed=True, attention__temperature_scale=0.1, attention__temperature_length=64),
    "gemma4": gemma4(),
    "gemma4, E": gemma4(shared=3, per_layer=16, scales=True, values=True),
    "gemma4, experts": gemma4(experts=True, scales=True, fused=True),
    "gemma4, split experts": gemma4(experts=True, scales=False, fused=False, down_scale=False),
    "glm4": fused("glm4", 20, norms_after(72) | biases(120, 40), rope__dimension_count=10),
    "glm4, coordinates": fused("glm4", 20, norms_after(72), rope__dimension_count=12, rope__dimension_sections=[2, 2, 2, 0]),
    "gemma2": Small("gemma2", 4, 60, 6, 2, 22,
                    {"feed_forward_length": 104, "attention.sliding_window": 24, "attn_logit_softcapping": 3.0,
                     "final_logit_softcapping": 4.0}, norms_after(60) | dense(60, 104), True),
    "gemma2, steep gates": Small("gemma2", 4, 60, 6, 2, 22,
                                 {"feed_forward_length": 104, "attention.sliding_window": 24, "attn_logit_softcapping": 3.0,
                                  "final_logit_softcapping": 4.0}, norms_after(60) | dense(60, 104), True, True),
    "command-r": layer_norms("command-r", dense(72, 92), ("ffn_norm", "output"), False, logit_scale=0.5),
    "cohere2": layer_norms("cohere2", dense(72, 92), ("ffn_norm", "output"), False, logit_scale=0.5, attention__sliding_window=24,
                           rope__freq_base=5e4),
    "starcoder2": layer_norms("starcoder2", {"ffn_up.weight": (92, 72), "ffn_down.weight": (72, 92), "attn_output.bias": (72,),
                                             "ffn_up.bias": (92,), "ffn_down.bias": (72,)} | biases(72, 24)),
    "stablelm": layer_norms("stablelm", dense(72, 92), rope__dimension_count=4, use_parallel_residual=False),
    "stablelm, parallel": layer_norms("stablelm", dense(72, 92) | biases(72, 24), ("ffn_norm",), rope__dimension_count=4,
                                      use_parallel_residual=True),
    "phi3": fused("phi3", 12, {"attn_qkv.weight": (120, 72)}, lacks=("attn_q", "attn_k", "attn_v"), longrope=True,
                  rope__scaling__original_context_length=128, **LONG),
    "phi3, window": fused("phi3", 12, {}, attention__sliding_window=33, rope__dimension_count=8),
}  # fmt: skip
MODELS |= RECURRENT
MODELS |= {
    "llama4": llama4(count=8),
    "llama4, two chunks": llama4(count=8, first_position=8042, expert_used_count=2),
    "llama4, 128 experts": llama4(count=128, rope_freqs=True, interleave_moe_layer_step=1, rope__freq_base_swa=3e4,
                                  attention__sliding_window_pattern=[True, False, True, False, True]),
    "qwen35, draft block": delta_net("qwen35", dense(84, 100), drafts=True),
    "qwen3moe, scales": Small("qwen3moe", 3, 88, 6, 2, 18,
                              {"feed_forward_length": 132, "expert_feed_forward_length": 44, "expert_count": 8,
                               "expert_used_count": 2, "rope.freq_base": 1e6},
                              head_norms(18) | experts(88, 44, 8) | {f"ffn_{part}_exps.scale": (8,) for part in ("gate", "up", "down")}),
}  # fmt: skip
