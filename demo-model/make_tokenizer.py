"""Trains the SentencePiece tokenizer on the first documents of the corpus."""

import argparse
import hashlib
import itertools
import json
from pathlib import Path

import sentencepiece

from model import Config
from template import CONTROLS

# Enough to cover every word; more documents only take longer.
DOCUMENTS = 100_000


def texts(corpus: Path):
    with corpus.open(encoding="utf-8") as documents:
        for line in itertools.islice(documents, DOCUMENTS):
            document = json.loads(line)
            for text in [document.get("text", ""), *itertools.chain(*document.get("turns", []))]:
                yield from text.split("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path(__file__).parent / "build")
    args = parser.parse_args()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts(args.build / "train.jsonl"),
        model_prefix=str(args.build / "tokenizer"),
        model_type="bpe",
        vocab_size=Config.n_vocab,
        byte_fallback=True,
        split_digits=True,
        # No normalisation: no space prefix, no whitespace removal, no character folding.
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        character_coverage=0.99995,
        control_symbols=CONTROLS,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        input_sentence_size=0,
        num_threads=1,
        minloglevel=1,
    )  # fmt: skip
    # The model file also records the trainer's options, so the digest covers only the pieces.
    pieces = (args.build / "tokenizer.vocab").read_bytes()
    print(f"{hashlib.sha256(pieces).hexdigest()}  tokenizer.vocab")


if __name__ == "__main__":
    main()
