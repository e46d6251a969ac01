"""Encoders: see cases.py."""

import io
import json
import re
from pathlib import Path

import sentencepiece
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from cases_hybrid import config, random, tensors

SIZE = 320
# Engines take this one for GELU. Files do not name it.
ACT = "gelu_pytorch_tanh"
BERT = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, vocab_size=SIZE, max_position_embeddings=128, pad_token_id=0, hidden_act=ACT)
ROBERTA = BERT | dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
LABELS = dict(id2label={0: "bad", 1: "fair", 2: "good"})
ONE_LABEL = dict(id2label={0: "LABEL_0"})
MODERN = BERT | dict(hidden_activation="silu", classifier_activation=ACT, num_hidden_layers=4, local_attention=16, global_attn_every_n_layers=3, norm_eps=1e-5, layer_norm_eps=1e-5, cls_token_id=0, sep_token_id=1, bos_token_id=0, eos_token_id=1, pad_token_id=2)
GEMMA = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=7, num_attention_heads=4, num_key_value_heads=1, head_dim=32, vocab_size=SIZE, max_position_embeddings=512,
    sliding_window=32, query_pre_attn_scalar=32, use_bidirectional_attention=True, bos_token_id=2, eos_token_id=1, pad_token_id=0,
)  # fmt: skip
QWEN = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=SIZE, max_position_embeddings=512)
TEXT = (Path(__file__).parent / "check.py").read_text()


def word_piece(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=special, show_progress=False))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{name[1:-1].lower()}_token": name for name in special}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"} | names))


def unigram(folder: Path) -> None:
    model = io.BytesIO()
    text = iter(re.sub("[^a-z_ .(),=]", "", TEXT).split("."))
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=text, model_writer=model, vocab_size=SIZE - 20, model_type="unigram", hard_vocab_limit=False, minloglevel=2)
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    (folder / "tokenizer.json").unlink()


def pooled(mode: str):
    """With sentence-transformers' modules, which say how tokens become one vector."""
    def change(folder: Path) -> None:
        modules = ["Transformer", "Pooling", "Normalize"]
        paths = ["", "1_Pooling", "2_Normalize"]
        listed = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(zip(modules, paths))]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        names = ["cls_token", "mean_tokens", "max_tokens", "lasttoken"]
        flags = {f"pooling_mode_{name}": name == mode for name in names}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64} | flags))

    return change


def old_norms(folder: Path) -> None:
    """Norms by the names of TensorFlow, as in the first BERT."""
    tensors(folder, lambda found: {re.sub("LayerNorm.weight$", "LayerNorm.gamma", re.sub("LayerNorm.bias$", "LayerNorm.beta", name)): tensor for name, tensor in found.items()})


def nomic(folder: Path) -> None:
    """The configuration of the model's own code."""
    keys = json.loads((folder / "config.json").read_text())
    own = dict(
        model_type="nomic_bert", architectures=["NomicBertModel"], n_embd=64, n_head=4, n_inner=96, n_layer=keys["num_hidden_layers"], n_positions=8192,
        max_trained_positions=2048, vocab_size=SIZE, type_vocab_size=2, layer_norm_epsilon=1e-12, rotary_emb_base=1000, rotary_emb_fraction=1.0,
        rotary_emb_interleaved=False, rotary_emb_scale_base=None, activation_function="swiglu", causal=False, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False,
        prenorm=False, pad_token_id=0, pad_vocab_size_multiple=64,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(own))


def nomic_moe(folder: Path) -> None:
    """Nomic Embed 2: biases, GELU, and experts in every second layer."""
    nomic(folder)
    config(
        folder, n_positions=2048, activation_function="gelu", qkv_proj_bias=True, mlp_fc1_bias=True, mlp_fc2_bias=True, moe_every_n_layers=2, moe_top_k=2,
        num_experts=4, type_vocab_size=1, rotary_emb_base=10000, layer_norm_epsilon=1e-5, pad_token_id=1,
    )  # fmt: skip

    def change(found: dict) -> dict:
        kept = {name: tensor for name, tensor in found.items() if ".mlp." not in name}
        kept["embeddings.token_type_embeddings.weight"] = random(1, 64)
        for layer in range(3):
            prefix = f"encoder.layers.{layer}."
            kept[prefix + "attn.Wqkv.bias"], kept[prefix + "attn.out_proj.bias"] = random(192), random(64)
            if layer % 2 == 1:
                kept |= {prefix + f"mlp.experts.mlp.{name}": random(4 * 96, 64) for name in ["w1", "w2"]}
                kept |= {prefix + "mlp.router.layer.weight": random(4, 64), prefix + "mlp.experts.bias": random(64)}
            else:
                kept |= {prefix + "mlp.fc1.weight": random(96, 64), prefix + "mlp.fc1.bias": random(96)}
                kept |= {prefix + "mlp.fc2.weight": random(64, 96), prefix + "mlp.fc2.bias": random(64)}
        return kept

    tensors(folder, change)


def jina(folder: Path) -> None:
    """Jina Embeddings 2, whose code is its authors': ALiBi and a gated network."""
    config(folder, architectures=["JinaBertForMaskedLM"], position_embedding_type="alibi", feed_forward_type="geglu", emb_pooler="mean")

    def change(found: dict) -> dict:
        kept = {name: tensor for name, tensor in found.items() if "position_embeddings" not in name and ".intermediate." not in name and not re.search(r"\d\.output\.", name)}
        for layer in range(3):
            prefix = f"encoder.layer.{layer}.mlp."
            kept |= {prefix + "gated_layers.weight": random(192, 64), prefix + "wo.weight": random(64, 96), prefix + "wo.bias": random(64)}
            kept |= {prefix + "layernorm.weight": random(64), prefix + "layernorm.bias": random(64)}
        return {"bert." + name: tensor for name, tensor in kept.items()}

    tensors(folder, change)


def jina_code(folder: Path) -> None:
    """Jina Embeddings 2 for code: norms of Q and K, and one more in each layer."""
    jina(folder)

    def change(found: dict) -> dict:
        new = {"layernorm": "../layer_norm_2", "gated_layers": "up_gated_layer", "wo": "down_layer"}
        kept = {}
        for name, tensor in found.items():
            for old, other in new.items():
                name = name.replace(f"mlp.{old}.", f"mlp.{other}.").replace("mlp.../", "")
            kept[name] = tensor
        for layer in range(3):
            for norm in ["attention.self.layer_norm_q", "attention.self.layer_norm_k", "layer_norm_1"]:
                kept |= {f"bert.encoder.layer.{layer}.{norm}.{part}": random(64) for part in ["weight", "bias"]}
        return kept

    tensors(folder, change)
    config(folder, architectures=["JinaBertForMaskedLM"])
    names = {"<|bos|>": "<s>", "<|eos|>": "</s>", "<|pad|>": "<pad>", "<|endoftext|>": "<unk>", "<|user|>": "<mask>"}
    for path in [folder / "tokenizer.json", folder / "tokenizer_config.json"]:
        text = path.read_text().replace("PreTrainedTokenizerFast", "RobertaTokenizer")
        for old, new in names.items():
            text = text.replace(old, new)
        path.write_text(text)


def with_answers(folder: Path) -> None:
    """The name and the answers of Qwen's rerankers."""
    config(folder, _name_or_path="Qwen/Qwen3-Reranker-0.6B")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    for word in ["yes", "no"]:
        vocabulary.setdefault(word, len(vocabulary))
    path.write_text(json.dumps(tokenizer))


ENCODERS = {
    "bert": ("BertModel", BERT, word_piece, pooled("cls_token")),
    "bert-gamma": ("BertModel", BERT, word_piece, old_norms),
    "bert-mlm": ("BertForMaskedLM", BERT, word_piece, pooled("mean_tokens")),
    "bert-classifier": ("BertForSequenceClassification", BERT | LABELS, word_piece),
    "bert-reranker": ("BertForSequenceClassification", BERT | ONE_LABEL, word_piece),
    "distilbert": ("DistilBertModel", dict(dim=64, hidden_dim=96, n_layers=3, n_heads=4, vocab_size=SIZE, max_position_embeddings=128, activation=ACT), word_piece),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta-classifier": ("RobertaForSequenceClassification", ROBERTA | LABELS),
    "xlm-roberta": ("XLMRobertaModel", ROBERTA, unigram, pooled("cls_token")),
    "xlm-roberta-reranker": ("XLMRobertaForSequenceClassification", ROBERTA | ONE_LABEL, unigram),
    "nomic-bert": ("NomicBertModel", BERT | dict(hidden_act="silu"), word_piece, nomic, pooled("mean_tokens")),
    "nomic-bert-moe": ("NomicBertModel", BERT | dict(hidden_act="silu"), word_piece, nomic_moe, pooled("mean_tokens")),
    "jina-bert-v2": ("BertModel", BERT, word_piece, jina, pooled("mean_tokens")),
    "jina-bert-v2-code": ("BertModel", BERT, jina_code),
    "modern-bert": ("ModernBertModel", MODERN, pooled("cls_token")),
    "modern-bert-mlm": ("ModernBertForMaskedLM", MODERN),
    "modern-bert-classifier": ("ModernBertForSequenceClassification", MODERN | LABELS | dict(classifier_pooling="mean")),
    "embedding-gemma": ("Gemma3TextModel", GEMMA, pooled("mean_tokens")),
    "qwen3-embedding": ("Qwen3Model", QWEN, pooled("lasttoken")),
    "qwen3-reranker": ("Qwen3ForCausalLM", QWEN, with_answers),
    "qwen3-reranker-tied": ("Qwen3ForCausalLM", QWEN | dict(tie_word_embeddings=True), with_answers),
}

# Models that only their authors' code runs, or whose output is a part of it.
NO_FORWARD = {"qwen3-reranker", "qwen3-reranker-tied", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v2-code"}

# Keys and tensors that differ from llama.cpp's on purpose, and checkpoints that it does not convert: see README.md.
MEANT = {case: {"cls.weight", "cls.bias", "general.size_label"} for case in ["bert-classifier", "bert-reranker"]} | {
    "qwen3-reranker": {"general.name"},
    "qwen3-reranker-tied": {"general.name"},
    "nemotron-h-mtp": {"blk.3.ffn_gate_inp.weight"},
    "falcon-h1-yarn": {f"falcon-h1.rope.scaling.{name}" for name in ["type", "factor", "original_context_length"]},
    "falcon-h1-linear": {f"falcon-h1.rope.scaling.{name}" for name in ["type", "factor"]},
    "glm4-moe-lite-types": {"deepseek2.expert_gating_func", "deepseek2.leading_dense_block_count"},
}
OURS = {"modern-bert-mlm"}
