"""The small random models of encoders, and of models for embeddings and rerankers."""

from small_model import Small, biases, dense, head_norms, norms_after
from small_recurrent import Parts, attention, keyed

NO_RMS = {"attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": None, "attention.causal": False}
# The classes of classifiers.
LABELS = ["no", "perhaps", "yes"]


def with_biases(parts: Parts) -> Parts:
    return parts | {name.replace(".weight", ".bias"): shape[:1] for name, shape in parts.items()}


def fused_attention(hidden: int) -> Parts:
    return {"attn_qkv.weight": (3 * hidden, hidden), "attn_output.weight": (hidden, hidden)}


def up_down(hidden: int, width: int, up: int | None = None) -> Parts:
    return {"ffn_up.weight": (up or width, hidden), "ffn_down.weight": (hidden, width)}


def bert(architecture: str, parts: Parts, extra: Parts, heads: int = 6, **keys) -> Small:
    """Heads of 12."""
    hidden = 12 * heads
    norms = with_biases({"attn_output_norm.weight": (hidden,), "layer_output_norm.weight": (hidden,)})
    keys = NO_RMS | {"feed_forward_length": 100, "tokenizer.ggml.token_type_count": 2} | keyed(keys)
    extra = with_biases({"token_embd_norm.weight": (hidden,)}) | {"token_types.weight": (2, hidden)} | extra
    by_layer = tuple(parts | norms for _ in range(4))
    return Small(architecture, 4, hidden, heads, heads, 12, keys, tied=True, by_layer=by_layer, extra=extra, lacks=("output_norm",))


def nomic_moe() -> Small:
    small = bert("nomic-bert-moe", {}, {}, moe_every_n_layers=2, expert_count=7, expert_used_count=2, rope__freq_base=3e4)
    experts = {"ffn_gate_inp.weight": (7, 72), "ffn_up_exps.weight": (7, 100, 72), "ffn_down_exps.weight": (7, 72, 100)}
    block = with_biases(fused_attention(72))
    by_layer = tuple(
        parts | block | (experts if i % 2 == 1 else with_biases(up_down(72, 100))) for i, parts in enumerate(small.by_layer)
    )
    return Small(**vars(small) | {"by_layer": by_layer})


def modern(extra: Parts, **keys) -> Small:
    """The first of three layers is global, the others see 12 positions to each side. The first has no norm before attention."""
    keys = NO_RMS | {"feed_forward_length": 100, "attention.sliding_window": 24, "rope.freq_base": 16e4} | keyed(keys)
    parts = {"attn_norm.weight": (72,), "ffn_norm.weight": (72,)} | fused_attention(72) | up_down(72, 100, 200)
    first = {name: shape for name, shape in parts.items() if name != "attn_norm.weight"}
    extra = {"token_embd_norm.weight": (72,)} | extra
    return Small("modern-bert", 5, 72, 6, 6, 12, keys, tied=True, by_layer=(first,) + (parts,) * 4, extra=extra)


def gemma(extra: Parts, **keys) -> Small:
    """As Gemma 3, with the third layer global."""
    keys = {"feed_forward_length": 104, "rope.freq_base": 1e6, "attention.sliding_window": 24,
            "attention.sliding_window_pattern": 3} | keyed(keys)  # fmt: skip
    parts = head_norms(22) | norms_after(60) | dense(60, 104)
    return Small("gemma-embedding", 5, 60, 6, 2, 22, keys, parts, tied=True, extra=extra)


def qwen3(extra: Parts, **keys) -> Small:
    keys = {"feed_forward_length": 108, "rope.freq_base": 1e6} | keyed(keys)
    return Small("qwen3", 4, 80, 6, 3, 24, keys, head_norms(24) | dense(80, 108), tied=True, extra=extra)


HEAD = with_biases({"cls.weight": (72, 72), "cls.output.weight": (3, 72)})
MODERN_HEAD = {"cls.weight": (72, 72), "cls.norm.weight": (72,), "cls.output.weight": (3, 72), "cls.output.bias": (3,)}
SECOND_NORM = {"attn_norm_2.weight": (72,)}
POSITIONS = {"position_embd.weight": (512, 72)}
SEPARATE = attention(72, 72, 72) | biases(72, 72) | {"attn_output.bias": (72,)}
JINA_FFN = up_down(72, 100) | {"ffn_gate.weight": (100, 72), "ffn_down.bias": (72,)}
ENCODERS = {
    "bert": bert("bert", SEPARATE | with_biases(up_down(72, 100)), POSITIONS, pooling_type=2, attention__causal=None),
    "bert, reranker": bert("bert", with_biases(fused_attention(72)) | with_biases(up_down(72, 100)), POSITIONS | HEAD,
                           pooling_type=4, classifier__output_labels=LABELS),
    "nomic-bert": bert("nomic-bert", fused_attention(72) | dense(72, 100), {}, pooling_type=1, rope__freq_base=1000.0),
    "nomic-bert, biases": bert("nomic-bert", with_biases(fused_attention(72)) | dense(72, 100) | with_biases(up_down(72, 100)), {},
                               rope__freq_base=1000.0),
    "nomic-bert-moe": nomic_moe(),
    "jina-bert-v2": bert("jina-bert-v2", SEPARATE | JINA_FFN, {"cls.weight": (1, 72), "cls.bias": (1,)}, pooling_type=1),
    "jina-bert-v2, code": bert("jina-bert-v2", SEPARATE | with_biases(up_down(72, 100, 200) | head_norms(72) | SECOND_NORM), {}),
    "modern-bert": modern({}, pooling_type=2),
    "modern-bert, SiLU": modern({}, hidden_activation="silu", rope__freq_base_swa=3e3,
                                attention__sliding_window_pattern=[i not in (1, 4) for i in range(5)]),
    "modern-bert, reranker": modern(MODERN_HEAD, pooling_type=4, classifier__output_labels=LABELS),
    "modern-bert, first ranks": modern(MODERN_HEAD, pooling_type=4, classifier__pooling_type=2, classifier__output_labels=LABELS),
    "gemma-embedding": gemma({"dense_2.weight": (100, 60), "dense_3.weight": (60, 100)}, pooling_type=1, dense_2_feat_in=60,
                             dense_2_feat_out=100, dense_3_feat_in=100, dense_3_feat_out=60),
    "gemma-embedding, no projections": gemma({}, pooling_type=1, rope__freq_base_swa=3e3),
    "qwen3, embedding": qwen3({}, pooling_type=3),
    "qwen3, reranker": qwen3({"cls.output.weight": (2, 80)}, pooling_type=4, classifier__output_labels=["yes", "no"]),
    "modern-bert, ReLU": modern({}, hidden_activation="reglu"),
}  # fmt: skip
