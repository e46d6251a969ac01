"""Trains small tokenizers in the layouts of Hugging Face checkpoints, for crates/convert and tools/checks/hf_tokenizers.py.

    python hf_folders.py FOLDER

Makes a folder per layout, with the files of a checkpoint besides its weights. They are trained on the project's own texts.
Takes the packages of tools/checks/hf_requirements.txt.
"""

import io
import json
import sys
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from vocabularies import RULES, corpus, hexadecimal

SIZE = 340
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"


def write(folder: Path, name: str, value) -> None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)


def byte_level(lines: list[str], pattern: str | None, special: list[str], size: int = SIZE, normalizer=None) -> Tokenizer:
    """BPE of bytes; without a pattern it splits like GPT-2."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    split = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False))
    return tokenizer


def with_template(tokenizer: Tokenizer, single: str, pair: str, texts: list[str]) -> None:
    ids = [(text, tokenizer.token_to_id(text)) for text in texts]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def added(tokenizer: Tokenizer) -> dict:
    """`added_tokens_decoder` of a tokenizer's configuration."""
    tokens = json.loads(tokenizer.to_str())["added_tokens"]
    return {str(token.pop("id")): token for token in tokens}


def trained(lines: list[str], **options) -> bytes:
    out = io.BytesIO()
    options = {"num_threads": 1, "minloglevel": 2, "hard_vocab_limit": False, "vocab_size": SIZE, "character_coverage": 0.98, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **options)
    return out.getvalue()


def byte_fallback(model: bytes, special: list[str]) -> Tokenizer:
    """`tokenizer.json` of a SentencePiece BPE, as `transformers` converts it."""
    pieces = sentencepiece_model_pb2.ModelProto.FromString(model).pieces
    vocab = {piece.piece: i for i, piece in enumerate(pieces)}
    scores = {piece.piece: -piece.score for piece in pieces if piece.type == 1}
    merges = []
    for text, score in scores.items():
        merges += [(score, text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in vocab and text[i:] in vocab]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[(a, b) for _, a, b in sorted(merges)], fuse_unk=True, byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    return tokenizer


def make(root: Path) -> None:
    lines = corpus()[:4000]

    qwen = byte_level(lines, QWEN, [], normalizer=normalizers.NFC())
    qwen.add_tokens([AddedToken("<|endoftext|>", special=True), AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    qwen.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<|box|>", normalized=False), AddedToken("a\u2581b"), AddedToken(" x", normalized=False)])
    folder = root / "qwen2"
    write(folder, "tokenizer.json", qwen.to_str())
    config = {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False}
    write(folder, "tokenizer_config.json", {**config, "added_tokens_decoder": added(qwen), "chat_template": TEMPLATE, "image_token": "<|image|>"})
    write(folder, "config.json", {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": SIZE + 20, "bos_token_id": SIZE, "eos_token_id": SIZE + 1})
    write(folder, "generation_config.json", {"eos_token_id": [SIZE + 2, SIZE]})

    llama3 = byte_level(lines, LLAMA_3, [])
    llama3.model.ignore_merges = True
    llama3.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    with_template(llama3, "<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", ["<|begin_of_text|>"])
    folder = root / "llama3"
    write(folder, "tokenizer.json", llama3.to_str())
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})
    write(folder, "chat_template.jinja", TEMPLATE)
    write(folder, "additional_chat_templates/tool-use.jinja", "tools")
    write(folder, "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": SIZE + 3, "bos_token_id": SIZE, "eos_token_id": [SIZE + 1, SIZE + 2]})

    gpt2 = byte_level(lines, None, ["<|endoftext|>"])
    folder = root / "gpt2-files"
    folder.mkdir(parents=True, exist_ok=True)
    gpt2.model.save(str(folder))
    write(folder, "added_tokens.json", {"<extra>": SIZE, "<|more|>": SIZE + 1})
    write(folder, "special_tokens_map.json", {"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>", "lstrip": False, "rstrip": False, "normalized": True, "single_word": False}, "unk_token": "<|endoftext|>"})
    write(folder, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "chat_template": [{"name": "default", "template": TEMPLATE}, {"name": "rag", "template": "rag"}]})
    write(folder, "config.json", {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "vocab_size": SIZE + 8, "bos_token_id": 0, "eos_token_id": 0})

    roberta = byte_level(lines, None, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    folder = root / "roberta"
    write(folder, "tokenizer.json", roberta.to_str())
    write(folder, "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False, "__type": "AddedToken"}})
    write(folder, "config.json", {"architectures": ["RobertaModel"], "model_type": "roberta", "vocab_size": SIZE, "pad_token_id": 1})

    modern = byte_level(lines, None, [])
    modern.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    with_template(modern, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ["[CLS]", "[SEP]"])
    folder = root / "modern-bert"
    write(folder, "tokenizer.json", modern.to_str())
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names, "added_tokens_decoder": added(modern)})
    write(folder, "config.json", {"architectures": ["ModernBertModel"], "model_type": "modernbert", "vocab_size": SIZE + 11})

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for cased in (False, True):
        bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        bert.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        bert.decoder = decoders.WordPiece()
        bert.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=SIZE, limit_alphabet=100, special_tokens=special, show_progress=False))
        folder = root / ("bert-cased" if cased else "bert")
        write(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": not cased, **names})
        write(folder, "config.json", {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": SIZE, "pad_token_id": 0})
        if cased:
            bert.model.save(str(folder))
        else:
            with_template(bert, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ["[CLS]", "[SEP]"])
            write(folder, "tokenizer.json", bert.to_str())

    llama = {"model_type": "bpe", "byte_fallback": True, "split_digits": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True}
    model = trained(lines, **llama, user_defined_symbols=["<user>", "  "], control_symbols=["<ctrl>"], vocab_size=SIZE)
    count = len(sentencepiece_model_pb2.ModelProto.FromString(model).pieces)
    folder = root / "llama"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model)
    write(folder, "added_tokens.json", {"<pad>": count, "<extra>": count + 1})
    tokens = {"0": "<unk>", "1": "<s>", "2": "</s>", str(count): "<pad>", str(count + 2): "<|end|>", str(count + 3): "\u2581y", str(count + 100): "far"}
    decoder = {i: {"content": text, "lstrip": False, "normalized": False, "rstrip": i == str(count + 2), "single_word": False, "special": int(i) < 3} for i, text in tokens.items()}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "add_prefix_space": True, "legacy": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": decoder})
    write(folder, "chat_template.json", {"chat_template": TEMPLATE})
    write(folder, "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": count + 6, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 999999})

    model = trained(lines, **llama, vocab_size=SIZE)
    fallback = byte_fallback(model, ["<unk>", "<s>", "</s>", "<pad>"])
    fallback.add_tokens([AddedToken("<extra>"), AddedToken("<|tool_call>", special=True)])
    with_template(fallback, "<s> $A", "<s> $A <s>:1 $B:1", ["<s>"])
    folder = root / "llama-json"
    write(folder, "tokenizer.json", fallback.to_str())
    write(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}, "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "chat_template": TEMPLATE})
    write(folder, "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": fallback.get_vocab_size(), "bos_token_id": 1, "eos_token_id": 2})

    folder = root / "phi3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model)
    count = len(sentencepiece_model_pb2.ModelProto.FromString(model).pieces)
    write(folder, "tokenizer.json", fallback.to_str())
    decoder = {str(count + 2): {"content": "<|end|>", "special": False}, str(count + 3): {"content": "\u2581y", "special": True}}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "added_tokens_decoder": decoder})
    write(folder, "config.json", {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "vocab_size": count + 8, "bos_token_id": 1, "eos_token_id": 2})

    rules = root / "rules.tsv"
    rules.write_text("".join(f"{hexadecimal(key)}\t{hexadecimal(value)}\n" for key, value in RULES.items()))
    unigram = trained(lines, model_type="unigram", normalization_rule_tsv=str(rules))
    rules.unlink()
    folder = root / "xlm-r"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(unigram)
    config = {"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "vocab_size": SIZE + 2, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    write(folder, "config.json", config)
    write(folder, "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
    proto = sentencepiece_model_pb2.ModelProto.FromString(unigram)
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece.piece, piece.score) for piece in proto.pieces[3:]), ("<mask>", 0.0)]
    xlm_r = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    xlm_r.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    xlm_r.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    xlm_r.decoder = decoders.Metaspace()
    xlm_r.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    with_template(xlm_r, "<s> $A </s>", "<s> $A </s> </s> $B </s>", ["<s>", "</s>"])
    folder = root / "xlm-r-json"
    write(folder, "tokenizer.json", xlm_r.to_str())
    write(folder, "config.json", config)
    names = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer", "clean_up_tokenization_spaces": True, **names})

    glm = byte_level(lines, LLAMA_3, [])
    glm.add_special_tokens(["<|endoftext|>", "[MASK]", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>"])
    with_template(glm, "[gMASK] <sop> $A", "[gMASK] <sop> $A $B:1", ["[gMASK]", "<sop>"])
    folder = root / "glm4"
    write(folder, "tokenizer.json", glm.to_str())
    write(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "added_tokens_decoder": added(glm)})
    write(folder, "config.json", {"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "vocab_size": SIZE + 12, "eos_token_id": [SIZE, SIZE + 4], "pad_token_id": SIZE})


if __name__ == "__main__":
    make(Path(sys.argv[1]))
