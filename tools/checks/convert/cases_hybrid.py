"""Recurrent and hybrid models, and encoders: see cases.py. A third item changes the folder after transformers wrote it."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

SMALL = dict(
    hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, vocab_size=320, max_position_embeddings=512,
    bos_token_id=0, eos_token_id=1, pad_token_id=2,
)  # fmt: skip
MOE = dict(moe_intermediate_size=48, num_experts=4, num_experts_per_tok=2)
SHARED = MOE | dict(shared_expert_intermediate_size=80)
MAMBA = dict(mamba_d_conv=4, mamba_d_state=16, mamba_n_groups=2, mamba_n_heads=8, mamba_d_head=16, mamba_expand=2)
DELTA = dict(
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
    head_dim=32, layer_types=["linear_attention", "full_attention", "linear_attention"],
)  # fmt: skip
ROPE = dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25)
MROPE = ROPE | dict(mrope_section=[2, 1, 1], mrope_interleaved=True)
VISION = dict(hidden_size=32, intermediate_size=48, depth=1, num_heads=2, out_hidden_size=64, num_position_embeddings=16)
MULTIPLIERS = dict(
    attention_in_multiplier=0.8, attention_out_multiplier=0.9375, ssm_in_multiplier=1.25, ssm_out_multiplier=0.2357,
    mlp_multipliers=[0.88, 0.3], ssm_multipliers=[0.35, 0.25, 0.17, 0.5, 0.31], key_multiplier=0.39,
    embedding_multiplier=5.65, lm_head_multiplier=0.039,
)  # fmt: skip
GRANITE = dict(attention_multiplier=0.015625, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0, position_embedding_type="nope")
NEMOTRON = dict(
    head_dim=16, ssm_state_size=16, n_groups=2, mamba_num_heads=8, mamba_head_dim=16, conv_kernel=4,
    moe_intermediate_size=48, moe_shared_expert_intermediate_size=80, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
    n_group=2, topk_group=1, routed_scaling_factor=2.5,
)  # fmt: skip
LFM2 = dict(conv_L_cache=3, block_multiple_of=16, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True)


def tensors(folder: Path, change) -> None:
    """Replaces the checkpoint's tensors by what `change` makes of them."""
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        found |= load_file(path)
        path.unlink()
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in change(found).items()}, folder / "model.safetensors")


def config(folder: Path, **keys) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def random(*shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 1.3 / shape[-1] ** 0.5).to(torch.bfloat16)


def with_mtp(folder: Path) -> None:
    """Adds a block of multi-token prediction, a copy of the last layer with attention, as Qwen's checkpoints have it."""
    def change(found: dict) -> dict:
        layer = next(name for name in found if "self_attn.q_proj" in name).split(".self_attn")[0] + "."
        copies = {"mtp.layers.0." + name.removeprefix(layer): tensor * 0.5 for name, tensor in found.items() if name.startswith(layer)}
        norms = {f"mtp.{name}.weight": random(64) for name in ["norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"]}
        return found | copies | norms | {"mtp.fc.weight": random(64, 128)}

    tensors(folder, change)
    path = folder / "config.json"
    values = json.loads(path.read_text())
    if values["model_type"] != "qwen3_next":
        values.get("text_config", values)["mtp_num_hidden_layers"] = 1
    path.write_text(json.dumps(values))


def with_letters(folder: Path) -> None:
    """The configuration as NVIDIA's, without keys of experts in dense models."""
    path = folder / "config.json"
    values = json.loads(path.read_text())
    letters = dict(linear_attention="M", full_attention="*", mlp="-", moe="E")
    kinds = values.pop("layers_block_type")
    values["hybrid_override_pattern"] = "".join(letters[kind] for kind in kinds)
    values |= dict(num_hidden_layers=len(kinds), rope_theta=10000.0, partial_rotary_factor=1.0)
    if "moe" not in kinds:
        values = {key: value for key, value in values.items() if not any(part in key for part in ["expert", "moe", "topk", "n_group", "routed"]) or key == "n_groups"}
    path.write_text(json.dumps(values))


def with_old_types(folder: Path) -> None:
    """The kinds of layers as IBM's files have them."""
    names = dict(linear_attention="mamba", full_attention="attention")
    types = json.loads((folder / "config.json").read_text())["layer_types"]
    config(folder, layer_types=[names[kind] for kind in types])


def with_nemotron_mtp(folder: Path) -> None:
    """Adds a block of multi-token prediction: attention, then experts, as NVIDIA's checkpoints have it."""
    def change(found: dict) -> dict:
        kinds = {"mtp.layers.0.": "mixer.q_proj", "mtp.layers.1.": "mixer.gate.weight"}
        for new, part in kinds.items():
            layer = next(name for name in found if part in name).split("mixer")[0]
            found |= {new + name.removeprefix(layer): tensor * 0.5 for name, tensor in found.items() if name.startswith(layer)}
        norms = {f"mtp.layers.{name}.weight": random(64) for name in ["0.enorm", "0.hnorm", "1.final_layernorm"]}
        return found | norms | {"mtp.layers.0.eh_proj.weight": random(64, 128)}

    tensors(folder, change)
    config(folder, num_nextn_predict_layers=1)


def with_glm_mtp(folder: Path) -> None:
    """Adds a block of multi-token prediction, a copy of the last layer with its own embeddings and output, as Zhipu's checkpoints have it."""
    count = json.loads((folder / "config.json").read_text())["num_hidden_layers"]

    def change(found: dict) -> dict:
        last, new = f"model.layers.{count - 1}.", f"model.layers.{count}."
        copies = {new + name.removeprefix(last): tensor * 0.5 for name, tensor in found.items() if name.startswith(last)}
        norms = {f"{new}{name}.weight": random(64) for name in ["enorm", "hnorm", "shared_head.norm"]}
        outer = {f"{new}{name}.weight": random(320, 64) for name in ["embed_tokens", "shared_head.head"]}
        return found | copies | norms | outer | {f"{new}eh_proj.weight": random(64, 128)}

    tensors(folder, change)
    config(folder, num_nextn_predict_layers=1)


HYBRID = {
    "mamba2": ("Mamba2ForCausalLM", dict(bos_token_id=0, eos_token_id=1, pad_token_id=2, hidden_size=64, num_hidden_layers=2, vocab_size=320, num_heads=8, head_dim=16, expand=2, n_groups=2, state_size=16, conv_kernel=4, tie_word_embeddings=False)),
    "granite-hybrid": ("GraniteMoeHybridForCausalLM", SMALL | MAMBA | GRANITE | dict(num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], shared_intermediate_size=96, num_local_experts=0, num_experts_per_tok=0), with_old_types),
    "granite-hybrid-moe": ("GraniteMoeHybridForCausalLM", SMALL | MAMBA | GRANITE | dict(num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], shared_intermediate_size=80, num_local_experts=4, num_experts_per_tok=2), with_old_types),
    "granite-hybrid-attention": ("GraniteMoeHybridForCausalLM", SMALL | MAMBA | GRANITE | dict(num_hidden_layers=2, layer_types=["attention", "attention"], shared_intermediate_size=96, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope"), with_old_types),
    "falcon-h1": ("FalconH1ForCausalLM", SMALL | MAMBA | MULTIPLIERS | dict(num_hidden_layers=2, mamba_d_ssm=128, head_dim=16, mamba_rms_norm=True, mamba_norm_before_gate=False)),
    "falcon-h1-no-norm": ("FalconH1ForCausalLM", SMALL | MAMBA | MULTIPLIERS | dict(num_hidden_layers=2, mamba_d_ssm=128, head_dim=16, mamba_rms_norm=False)),
    "falcon-h1-yarn": ("FalconH1ForCausalLM", SMALL | MAMBA | MULTIPLIERS | dict(num_hidden_layers=2, mamba_d_ssm=128, head_dim=16, mamba_rms_norm=False, rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=128))),
    "falcon-h1-linear": ("FalconH1ForCausalLM", SMALL | MAMBA | MULTIPLIERS | dict(num_hidden_layers=2, mamba_d_ssm=128, head_dim=16, mamba_rms_norm=False, rope_parameters=dict(rope_type="linear", rope_theta=1e5, factor=2.0))),
    "nemotron-h": ("NemotronHForCausalLM", SMALL | NEMOTRON | dict(layers_block_type=["mamba", "mlp", "attention"], head_dim=24), with_letters),
    "nemotron-h-moe": ("NemotronHForCausalLM", SMALL | NEMOTRON | dict(layers_block_type=["mamba", "moe", "attention", "moe"])),
    "nemotron-h-mtp": ("NemotronHForCausalLM", SMALL | NEMOTRON | dict(layers_block_type=["mamba", "attention", "moe"]), with_nemotron_mtp),
    "nemotron-h-latent": ("NemotronHForCausalLM", SMALL | NEMOTRON | dict(layers_block_type=["mamba", "moe", "attention"], moe_latent_size=32)),
    "lfm2": ("Lfm2ForCausalLM", SMALL | LFM2 | dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"])),
    "lfm2-moe": ("Lfm2MoeForCausalLM", SMALL | MOE | dict(conv_L_cache=3, num_dense_layers=1, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"])),
    "qwen3-next": ("Qwen3NextForCausalLM", SMALL | SHARED | DELTA | dict(num_hidden_layers=3, rope_parameters=ROPE), with_mtp),
    "qwen3.5": ("Qwen3_5ForCausalLM", SMALL | DELTA | dict(num_hidden_layers=3, rope_parameters=MROPE), with_mtp),
    "qwen3.5-moe": ("Qwen3_5MoeForCausalLM", SMALL | SHARED | DELTA | dict(num_hidden_layers=3, rope_parameters=MROPE), with_mtp),
    "qwen3.5-vision": ("Qwen3_5ForConditionalGeneration", dict(text_config=SMALL | DELTA | dict(num_hidden_layers=3, rope_parameters=MROPE), vision_config=VISION), with_mtp),
    "qwen3.5-moe-vision": ("Qwen3_5MoeForConditionalGeneration", dict(text_config=SMALL | SHARED | DELTA | dict(num_hidden_layers=3, rope_parameters=MROPE), vision_config=VISION), with_mtp),
}
