"""Small checkpoints with random weights, one for each class of models that can be converted."""

from cases_encoders import ENCODERS, MEANT, NO_FORWARD, OURS  # noqa: F401
from cases_hybrid import HYBRID, VISION, with_glm_mtp

SMALL = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=320,
    max_position_embeddings=512, bos_token_id=0, eos_token_id=1, pad_token_id=2,
)  # fmt: skip
MOE = dict(moe_intermediate_size=48, num_experts=4, num_experts_per_tok=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
MLA = dict(kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=48, first_k_dense_replace=1)
YARN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=128)

# Name: the class, keys of its configuration, and what is done to the checkpoint: the weights quantised, or files changed.
CASES = HYBRID | ENCODERS | {
    "llama": ("LlamaForCausalLM", SMALL),
    "llama-3": ("LlamaForCausalLM", SMALL | dict(rope_parameters=LLAMA3, head_dim=32, num_key_value_heads=1, max_position_embeddings=1024)),
    "llama-bias": ("LlamaForCausalLM", SMALL | dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "mistral": ("MistralForCausalLM", SMALL | dict(sliding_window=None)),
    "mixtral": ("MixtralForCausalLM", SMALL | dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "qwen2": ("Qwen2ForCausalLM", SMALL | dict(rope_parameters=YARN)),
    "qwen2-moe": ("Qwen2MoeForCausalLM", SMALL | MOE | dict(shared_expert_intermediate_size=80)),
    "qwen3": ("Qwen3ForCausalLM", SMALL | dict(head_dim=24)),
    "qwen3-moe": ("Qwen3MoeForCausalLM", SMALL | MOE | dict(head_dim=16, norm_topk_prob=True)),
    "qwen3-vl": ("Qwen3VLForConditionalGeneration", dict(text_config=SMALL | dict(head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_interleaved=True, mrope_section=[4, 2, 2])), vision_config=VISION | dict(deepstack_visual_indexes=[0]))),
    "qwen3-fp8": ("Qwen3ForCausalLM", SMALL | dict(head_dim=24), "fp8"),
    "smollm3": ("SmolLM3ForCausalLM", SMALL | dict(num_hidden_layers=4)),
    "ministral3": ("Ministral3ForCausalLM", SMALL | dict(head_dim=24, rope_parameters=YARN | dict(mscale_all_dim=1.0, mscale=1.0, beta_fast=32.0, beta_slow=1.0, llama_4_scaling_beta=0.1))),
    "llama4": ("Llama4ForCausalLM", SMALL | dict(num_hidden_layers=4, intermediate_size=48, intermediate_size_mlp=96, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, head_dim=16)),
    "gemma2": ("Gemma2ForCausalLM", SMALL | dict(head_dim=24, sliding_window=32, query_pre_attn_scalar=24)),
    "gemma3": ("Gemma3ForCausalLM", SMALL | dict(num_hidden_layers=7, head_dim=24, sliding_window=32, query_pre_attn_scalar=24)),
    "gemma4": ("Gemma4ForCausalLM", SMALL | dict(vocab_size=400, num_hidden_layers=6, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, sliding_window=32, num_kv_shared_layers=0, hidden_size_per_layer_input=0, vocab_size_per_layer_input=400)),
    "gemma4-e": ("Gemma4ForCausalLM", SMALL | dict(vocab_size=400, num_hidden_layers=12, head_dim=16, global_head_dim=32, sliding_window=32, num_kv_shared_layers=6, hidden_size_per_layer_input=16, vocab_size_per_layer_input=400, use_double_wide_mlp=True)),
    "gemma4-moe": ("Gemma4ForCausalLM", SMALL | dict(vocab_size=400, num_hidden_layers=6, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, sliding_window=32, num_kv_shared_layers=0, hidden_size_per_layer_input=0, vocab_size_per_layer_input=400, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=48)),
    "granite": ("GraniteForCausalLM", SMALL | dict(attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0)),
    "granite-moe": ("GraniteMoeForCausalLM", SMALL | dict(num_local_experts=4, num_experts_per_tok=2, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.0)),
    "granite-moe-shared": ("GraniteMoeSharedForCausalLM", SMALL | dict(num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=80, logits_scaling=2.0)),
    "phi3": ("Phi3ForCausalLM", SMALL | dict(sliding_window=None, original_max_position_embeddings=512)),
    "phi3-long": ("Phi3ForCausalLM", SMALL | dict(sliding_window=100, original_max_position_embeddings=128, rope_parameters=dict(rope_type="longrope", rope_theta=1e4, partial_rotary_factor=1.0, short_factor=[1.0 + 0.01 * i for i in range(8)], long_factor=[2.0 + 0.3 * i for i in range(8)], original_max_position_embeddings=128))),
    "glm4": ("Glm4ForCausalLM", SMALL | dict(head_dim=24)),
    "glm4-moe": ("Glm4MoeForCausalLM", SMALL | dict(head_dim=24, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=48, first_k_dense_replace=1, use_qk_norm=True, num_nextn_predict_layers=0)),
    "glm4-moe-lite": ("Glm4MoeLiteForCausalLM", SMALL | MLA | dict(q_lora_rank=40, num_key_value_heads=4, scoring_func="sigmoid"), with_glm_mtp),
    "glm4-moe-lite-types": ("Glm4MoeLiteForCausalLM", SMALL | MLA | dict(num_hidden_layers=4, q_lora_rank=None, num_key_value_heads=4, first_k_dense_replace=None, mlp_layer_types=["dense", "dense", "sparse", "sparse"])),
    "command-r": ("CohereForCausalLM", SMALL | dict(use_qk_norm=True)),
    "cohere2": ("Cohere2ForCausalLM", SMALL | dict(rotary_pct=1.0, num_hidden_layers=4, head_dim=16, sliding_window=32)),
    "olmo2": ("Olmo2ForCausalLM", SMALL),
    "olmo3": ("Olmo3ForCausalLM", SMALL | dict(num_hidden_layers=4, sliding_window=32)),
    "starcoder2": ("Starcoder2ForCausalLM", SMALL | dict(sliding_window=None)),
    "stablelm": ("StableLmForCausalLM", SMALL | dict(use_qkv_bias=True)),
    "stablelm-norms": ("StableLmForCausalLM", SMALL | dict(qk_layernorm=True, use_parallel_residual=True)),
    "ernie4_5": ("Ernie4_5ForCausalLM", SMALL | dict(head_dim=16)),
    "gpt-oss": ("GptOssForCausalLM", SMALL | dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=32, intermediate_size=64, rope_parameters=YARN | dict(beta_fast=32.0, beta_slow=1.0, truncate=True))),
    "gpt-oss-mxfp4": ("GptOssForCausalLM", SMALL | dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=32, intermediate_size=64, rope_parameters=dict(rope_type="default", rope_theta=1.5e5)), "mxfp4"),
    "deepseek-v2": ("DeepseekV2ForCausalLM", SMALL | MLA | dict(q_lora_rank=40, num_key_value_heads=4, n_group=1, topk_group=1)),
    "deepseek-v2-lite": ("DeepseekV2ForCausalLM", SMALL | MLA | dict(q_lora_rank=None, num_key_value_heads=4)),
    "deepseek-v3": ("DeepseekV3ForCausalLM", SMALL | MLA | dict(q_lora_rank=40, num_key_value_heads=4, n_group=2, topk_group=1, scoring_func="sigmoid", topk_method="noaux_tc", rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=1.0))),
    "minimax-m2": ("MiniMaxM2ForCausalLM", SMALL | dict(head_dim=16, rotary_dim=8, num_local_experts=4, num_experts_per_tok=2, intermediate_size=48, scoring_func="sigmoid")),
    "hunyuan-moe": ("HunYuanMoEV1ForCausalLM", SMALL | dict(head_dim=16, num_experts=4, moe_topk=[2] * 3, num_shared_expert=[1] * 3, moe_intermediate_size=[96] * 3)),
}
