"""Small tokenizers for random checkpoints: SentencePiece where llama.cpp's converter asks for it, else byte-level BPE."""

import io
import json
import re
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = Path(__file__).read_text() + (Path(__file__).parent / "check.py").read_text()


# GLM's converter looks for these.
OF_GLM = ["<|endoftext|>", "<|user|>", "<|observation|>", "[gMASK]", "<sop>"]
SENTENCE_PIECE = {"gemma2", "gemma3", "phi3", "phi3-long", "ernie4_5"}


def write_tokenizer(folder: Path, case: str, size: int) -> None:
    if case in SENTENCE_PIECE:
        return write_sentence_piece(folder, size)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size if "gemma" in case else size - 4, special_tokens=["<|bos|>", "<|eos|>", "<|pad|>", *OF_GLM], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
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
