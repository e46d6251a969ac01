"""Small checkpoints with random weights, one for each class of models that can be converted."""

SMALL = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=320,
    max_position_embeddings=512,
)  # fmt: skip
MOE = dict(moe_intermediate_size=48, num_experts=4, num_experts_per_tok=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=128)

# Name: the class, and keys of its configuration.
CASES = {
    "llama": ("LlamaForCausalLM", SMALL),
    "llama-3": ("LlamaForCausalLM", SMALL | dict(rope_parameters=LLAMA3, head_dim=32, num_key_value_heads=1, max_position_embeddings=1024)),
    "llama-bias": ("LlamaForCausalLM", SMALL | dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "mistral": ("MistralForCausalLM", SMALL | dict(sliding_window=None)),
    "mixtral": ("MixtralForCausalLM", SMALL | dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "qwen2": ("Qwen2ForCausalLM", SMALL | dict(rope_parameters=YARN)),
    "qwen2-moe": ("Qwen2MoeForCausalLM", SMALL | MOE | dict(shared_expert_intermediate_size=80)),
    "qwen3": ("Qwen3ForCausalLM", SMALL | dict(head_dim=24)),
    "qwen3-moe": ("Qwen3MoeForCausalLM", SMALL | MOE | dict(head_dim=16)),
}
