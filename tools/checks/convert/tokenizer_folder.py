"""A small byte-level BPE tokenizer for a random checkpoint."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = Path(__file__).read_text() + (Path(__file__).parent / "check.py").read_text()


def write_tokenizer(folder: Path, case: str, size: int) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - 4, special_tokens=["<|bos|>", "<|eos|>", "<|pad|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ messages[0].content }}"} | special
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
