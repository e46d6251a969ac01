"""Writes crates/convert/src/defaults.json: what transformers takes for a key that config.json lacks.

    pip install -r ../oracle/requirements-transformers.txt
    python config_defaults.py
"""

import dataclasses
import json
from pathlib import Path

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

TYPES = """
    llama mistral mixtral mistral3 ministral3 llama4 llama4_text qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next qwen3_5 qwen3_5_text
    qwen3_5_moe qwen3_5_moe_text qwen3_vl qwen3_vl_text gemma2 gemma3 gemma3_text gemma4 gemma4_text ernie4_5 glm4 granite granitemoe
    granitemoeshared granitemoehybrid bamba olmo2 olmo3 phi3 smollm3 cohere cohere2 starcoder2 stablelm gpt_oss deepseek_v2
    deepseek_v3 glm4_moe glm4_moe_lite minimax_m2 hunyuan_v1_moe lfm2 lfm2_moe mamba2 falcon_h1 nemotron_h bert roberta
    xlm-roberta distilbert modernbert
"""

# Classes whose models say nothing of positions.
ROPE = {"rope_theta": "theta"}

# Fields that a model of any type has, or that do not affect the computation.
LEFT_OUT = set("""
    architectures _name_or_path model_type transformers_version dtype torch_dtype output_hidden_states output_attentions
    return_dict use_cache id2label label2id problem_type chunk_size_feed_forward is_encoder_decoder initializer_range
    bos_token_id eos_token_id pad_token_id output_router_logits router_aux_loss_coef pretraining_tp experts_implementation
    vision_config audio_config image_token_id image_token_index video_token_id vision_start_token_id vision_end_token_id
    boi_token_id eoi_token_id boa_token_id eoa_token_id audio_token_id eoa_token_index tie_word_embeddings
""".split())


def defaults(name: str) -> dict:
    """Those of the class, before it computes any from others."""
    kind = CONFIG_MAPPING[name]
    if "text_config" in kind.sub_configs:
        kind = kind.sub_configs["text_config"]
    if not isinstance(kind, type) or kind.__name__ == "AutoConfig":
        return {}
    found = {field.name: field.default for field in dataclasses.fields(kind)}
    found |= {key: value for key in ROPE if "rope_parameters" in found and (value := getattr(kind, "default_" + ROPE[key], None)) is not None}
    kept = {key for key, value in found.items() if key not in LEFT_OUT and "dropout" not in key and plain(value)}
    return {key: found[key] for key in sorted(kept)}


def plain(value) -> bool:
    return isinstance(value, int | float | str)


if __name__ == "__main__":
    folder = Path(__file__).parents[2] / "crates" / "convert" / "src"
    lines = [f"{json.dumps(name)}: {json.dumps(defaults(name))}" for name in sorted(TYPES.split())]
    (folder / "defaults.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
