"""Trains small vocabularies of the kinds of tokenizers that llama.cpp's test data lack, for
tools/checks/tokenizers.py and tokenizer.py.

    python vocabularies.py FOLDER

Writes bert.gguf and bert-cased.gguf (WordPiece), t5.gguf, t5-cf.gguf and xlm-r.gguf (unigram), and gemma4.gguf (BPE of
characters), and tiny ones of each kind for goldens, tiny-*.gguf. They are trained on the project's own texts and on generated strings: the same as long as those are. Takes the
PyPI packages gguf 0.19.0, tokenizers 0.23.3, sentencepiece 0.2.3 and protobuf.
"""

import io
import random
import sys
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from strings import strings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = Path(__file__).parents[2]
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SIZE = 6000
TINY, TINY_ALPHABET = 420, 120


# Normalisation: of one, of several and of neighbouring characters, to nothing and to spaces.
RULES = {"\ufb01": "fi", "\u212b": "\xc5", "A\u030a": "\xc5", "e\u0301": "\xe9", "e\u0301\u0302": "\u1ebf", "\xad": "", "\u3000": " ", "\t": " ", "\n": " ", "\u2460": "1", "\u337f": "\u682a\u5f0f\u4f1a\u793e", "\u2026": "..."}


def hexadecimal(text: str) -> str:
    return " ".join(f"{ord(c):X}" for c in text)


def corpus() -> list[str]:
    files = [path for pattern in ("*.md", "docs/*.md", "crates/*/src/*.rs", "tools/*/*.py") for path in sorted(ROOT.glob(pattern))]
    lines = [line for path in files for line in path.read_text().splitlines() if line.strip()]
    random.Random(1).shuffle(lines)
    generated = [text for text in strings(4000, 2, []) if "\0" not in text]
    return lines[:20000] + [line for text in generated for line in text.splitlines() if line.strip()]


def save(path: Path, model: str, tokens: list[tuple[str, float, int]], **settings) -> None:
    """Tokens with scores and kinds; settings by the end of their key, `.` as `__`."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, number in {"context_length": 8, "embedding_length": 8, "block_count": 1, "feed_forward_length": 8, "attention.head_count": 1}.items():
        writer.add_uint32(f"llama.{key}", number)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_string("tokenizer.ggml.model", model)
    writer.add_array("tokenizer.ggml.tokens", [token for token, _, _ in tokens])
    writer.add_array("tokenizer.ggml.scores", [float(score) for _, score, _ in tokens])
    writer.add_array("tokenizer.ggml.token_type", [kind for _, _, kind in tokens])
    for key, value in settings.items():
        key = "tokenizer.ggml." + key.replace("__", ".")
        {bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array, bytes: writer.add_array}[type(value)](key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def trained(model, trainer, lines: list[str], normalizer=None, pre_tokenizer=None) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def wordpiece(path: Path, lines: list[str], lowercase: bool, size: int = SIZE, **options) -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False, **options)
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer = trained(models.WordPiece(unk_token="[UNK]"), trainer, lines, normalizer, pre_tokenizers.BertPreTokenizer())
    texts = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)[len(special) :]
    # As llama.cpp's converter writes them; a text that contains its space may occur twice.
    pieces = [(text, 0, NORMAL) for text in dict.fromkeys(text[2:] if text.startswith("##") else "\u2581" + text for text in texts)]
    if lowercase:
        ids = {"bos_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1, "padding_token_id": 0, "mask_token_id": 4}
        save(path, "bert", [(text, 0, CONTROL) for text in special] + pieces, **ids)
    else:
        # The ids of BERT, which are llama.cpp's defaults.
        unused = [(f"[unused{i}]", 0, NORMAL) for i in range(99)]
        first = [("[PAD]", 0, CONTROL), *unused, *((text, 0, CONTROL) for text in special[1:])]
        save(path, "bert", first + pieces, normalizer__lowercase=False)


def unigram(path: Path, lines: list[str], settings: dict, **options) -> None:
    out = io.BytesIO()
    options = {"vocab_size": SIZE, "character_coverage": 0.995, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="unigram", num_threads=1, minloglevel=2, hard_vocab_limit=False, **options,
    )  # fmt: skip
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    tokens = [(piece.piece, piece.score, piece.type) for piece in model.pieces]
    save(path, "t5", tokens, precompiled_charsmap=model.normalizer_spec.precompiled_charsmap, **settings)


def gemma4(path: Path, lines: list[str], size: int = SIZE, **options) -> None:
    trainer = trainers.BpeTrainer(vocab_size=size, max_token_length=16, show_progress=False, **options)
    tokenizer = trained(models.BPE(), trainer, [line.replace(" ", "\u2581") for line in lines])
    model = Path(tokenizer.model.save("/tmp", "gemma4")[1]).read_text().splitlines()
    merges = [line for line in model if not line.startswith("#version")]
    first = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|tool_response>", "</s>"]
    tokens = [(text, 0, UNKNOWN if text == "<unk>" else CONTROL) for text in first]
    tokens += [("[multimodal]", 0, USER), ("<h1>", 0, USER)] + [(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256)]
    tokens += [("\n" * count, 0, NORMAL) for count in range(1, 9)]
    texts = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    known = {token for token, _, _ in tokens}
    tokens += [(text, 0, NORMAL) for text in texts if text not in known]
    save(path, "gemma4", tokens, merges=merges, bos_token_id=2, eos_token_id=1, unknown_token_id=3, padding_token_id=0, add_bos_token=True)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = corpus()
    wordpiece(folder / "bert.gguf", lines, True)
    wordpiece(folder / "bert-cased.gguf", lines, False)
    t5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "user_defined_symbols": [f"<extra_id_{i}>" for i in range(9, -1, -1)]}
    unigram(folder / "t5.gguf", lines, {"add_space_prefix": True, "remove_extra_whitespaces": True}, normalization_rule_name="nmt_nfkc", **t5)
    unigram(folder / "t5-cf.gguf", lines, {"add_space_prefix": True}, normalization_rule_name="nfkc_cf", **t5)
    xlm_r = {"bos_token_id": 0, "padding_token_id": 1, "eos_token_id": 2, "unknown_token_id": 3, "add_bos_token": True, "add_eos_token": True}
    ids = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3, "control_symbols": ["<mask>"]}
    unigram(folder / "xlm-r.gguf", lines, {"remove_extra_whitespaces": True, **xlm_r}, normalization_rule_name="nmt_nfkc", **ids)
    gemma4(folder / "gemma4.gguf", lines)

    wordpiece(folder / "tiny-bert.gguf", lines, True, TINY, limit_alphabet=TINY_ALPHABET)
    gemma4(folder / "tiny-gemma4.gguf", lines, TINY, limit_alphabet=TINY_ALPHABET)
    rules = folder / "rules.tsv"
    rules.write_text("".join(f"{hexadecimal(key)}\t{hexadecimal(value)}\n" for key, value in RULES.items()))
    tiny = {"vocab_size": TINY, "character_coverage": 0.98, "normalization_rule_tsv": str(rules)}
    unigram(folder / "tiny-t5.gguf", lines[:21000], {"add_space_prefix": True}, **tiny, **t5)
    unigram(folder / "tiny-xlm-r.gguf", lines[:21000], {"add_space_prefix": True, "remove_extra_whitespaces": True, **xlm_r}, **tiny, **ids)


if __name__ == "__main__":
    main()
