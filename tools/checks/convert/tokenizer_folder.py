"""Small tokenizers for random checkpoints: SentencePiece where llama.cpp's converter asks for it, else byte-level BPE."""

import io
import json
import re
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = (Path(__file__).parents[3] / "LICENSE-APACHE").read_text()


# GLM's converter looks for these.
OF_GLM = ["<|endoftext|>", "<|user|>", "<|observation|>", "[gMASK]", "<sop>"]
SENTENCE_PIECE = {"gemma2", "gemma3", "phi3", "phi3-long", "ernie4_5"}


def write_tokenizer(folder: Path, case: str, size: int) -> None:
    if case in SENTENCE_PIECE:
        return write_sentence_piece(folder, size)
    if case.startswith("gemma4"):
        return write_characters(folder, size)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 4, special_tokens=["<|bos|>", "<|eos|>", "<|pad|>", *OF_GLM], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ messages[0].content }}"} | special
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_sentence_piece(folder: Path, size: int) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(re.sub("[^a-z_ .(),=]", "", TEXT).split(".")), model_writer=model, vocab_size=size - 4, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, pad_id=3,
    )  # fmt: skip
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}))


def write_characters(folder: Path, size: int) -> None:
    """BPE of characters, with tokens for bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<|channel>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        [re.sub("[^a-z_ .(),=]", "", TEXT)], trainers.BpeTrainer(vocab_size=size, special_tokens=tokens, show_progress=False)
    )
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if not token["content"].startswith("<0x")]
    (folder / "tokenizer.json").write_text(json.dumps(described))
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | special))
