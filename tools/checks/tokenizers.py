"""Compares `rustorch tokenize` with llama.cpp on generated strings.

    python tokenizers.py PROGRAM VOCABULARY.gguf ... [--strings 20000] [--seed 1] [--pre [NAME ...]] [--write FILE]

Encodes each string with and without special tokens. With --pre the vocabularies must be byte-level BPE, and each is
tried with every pre-tokenizer that the program knows, or with those named. Prints how many strings differ and the first
of them, and exits with 1 if one does for another reason than those below. tools/goldens/vocabularies.py makes vocabularies
of other kinds. Takes the packages of tools/requirements.txt.

Differences that are meant, and counted apart:
- special: without --parse-special, llama.cpp merges the text of a control token to this token. Here text never becomes
  a control token.
- overlap: where texts of special tokens overlap, llama.cpp takes the longest, here the first is taken, as in Hugging
  Face's tokenizers.
- digits: std::regex, with which llama.cpp is built on Linux, sees no character before a look-ahead, so that `\\b` in
  that of tiny_aya is wrong in the first number of a text.
- prefix: in unigram, llama.cpp keeps what a user-defined token begins with as it is, so that it does not combine with a
  mark after it. Here, as in SentencePiece, only whole tokens are kept.
"""

import argparse
import ctypes
import json
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import gguf
import llama_cpp

sys.path.append(str(Path(__file__).parents[1] / "goldens"))
from gguf_vocabulary import with_pre  # noqa: E402
from strings import strings  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4


@dataclass
class Vocabulary:
    model: str
    tokens: list[str]
    kinds: list[int]
    # Of unknown and control tokens, some of which llama.cpp knows by their texts.
    special: set[int] = field(default_factory=set)

    @staticmethod
    def read(path: Path) -> "Vocabulary":
        fields = gguf.GGUFReader(str(path)).fields
        tokens = fields["tokenizer.ggml.tokens"].contents()
        kinds = fields.get("tokenizer.ggml.token_type")
        return Vocabulary(fields["tokenizer.ggml.model"].contents(), tokens, kinds.contents() if kinds else [NORMAL] * len(tokens))

    def of_kinds(self, *kinds: int) -> list[str]:
        return [token for token, kind in zip(self.tokens, self.kinds, strict=True) if kind in kinds and token]

    def written(self) -> list[str]:
        """A sample of the tokens, with spaces as in text."""
        return [token.replace("\u2581", " ").replace("\u0120", " ") for token in self.of_kinds(NORMAL)[::7]]

    def reason(self, text: str, pre: str | None, parse: bool, ours: list[int], theirs: list[int]) -> str | None:
        """Why the ids differ, if that is meant."""
        if self.model == "t5":
            starts = {token[:end] for token in self.of_kinds(USER) for end in range(1, len(token))}
            after = [text[m.end()] for start in starts for m in re.finditer(re.escape(start), text[:-1])]
            return "prefix" if any(map(unicodedata.combining, after)) else None
        more = [self.tokens[i] for i in set(theirs) - set(ours) if i in self.special]
        if not parse and any(token in text for token in more):
            return "special"
        kinds = (USER, CONTROL, UNKNOWN) if parse else (USER,)
        places = [(m.start(), m.start() + len(token)) for token in self.of_kinds(*kinds) if token in text for m in re.finditer(f"(?={re.escape(token)})", text)]
        if any(a < c < b for a, b in places for c, d in places if d > b):
            return "overlap"
        if pre in ("tiny_aya", "cohere2moe") and re.search("[0-9]", text):
            return "digits"
        return None


class Theirs:
    def __init__(self, path: Path):
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = self.model and llama_cpp.llama_model_get_vocab(self.model)
        self.ids = (llama_cpp.llama_token * (1 << 18))()

    def encode(self, text: str, parse: bool) -> list[int]:
        data = text.encode()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), self.ids, len(self.ids), False, parse)
        assert count >= 0
        return self.ids[:count]


def compare(program: Path, source: Path, pre: str | None, count: int, seed: int) -> tuple[str, int, list]:
    """A report, the number of differences without reason, and goldens. Runs in a process of its own: llama.cpp slows
    down with the number of vocabularies that it has seen."""
    vocabulary = Vocabulary.read(source)
    texts = strings(count, seed, vocabulary.written(), vocabulary.of_kinds(UNKNOWN, CONTROL, USER))
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        path = source
        if pre:
            path = Path(folder) / "vocabulary.gguf"
            with_pre(source, path, pre)
        theirs = Theirs(path)
        if not theirs.model:
            return "this llama.cpp does not know it", 0, []
        attributes = [llama_cpp.llama_vocab_get_attr(theirs.vocab, i) for i in range(len(vocabulary.tokens))]
        special = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
        vocabulary.special = {i for i, attribute in enumerate(attributes) if attribute & special}
        reasons: Counter = Counter()
        examples, meant = [], set()
        for parse in (False, True):
            tokenize = [program, "tokenize", "-m", path, "--no-bos", "--jsonl", *["--parse-special"] * parse]
            ours = subprocess.run(tokenize, input=lines, capture_output=True, text=True)
            if ours.returncode:
                raise SystemExit(f"{source} {pre}: {ours.stderr}")
            for text, line in zip(texts, ours.stdout.splitlines(), strict=True):
                found, expected = json.loads(line), theirs.encode(text, parse)
                if found != expected:
                    reason = vocabulary.reason(text, pre, parse, found, expected)
                    reasons[reason or "unexplained"] += 1
                    meant |= {text} if reason else set()
                    if not reason and len(examples) < 3:
                        examples.append(f"{text!a} parse {parse}\n    ours   {found}\n    theirs {expected}")
        counts = ", ".join(f"{number} {reason}" for reason, number in reasons.items()) or "none"
        report = "\n    ".join([f"{2 * len(texts)} encodings, differences: {counts}", *examples])
        return report, reasons["unexplained"], [[text, theirs.encode(text, False)] for text in texts[-60:] if text not in meant]


def names(program: Path) -> list[str]:
    """The pre-tokenizers that the program knows."""
    said = subprocess.run([program, "tokenize", "--pre-tokenizer", "?", "a"], capture_output=True, text=True).stderr
    return re.search(r"possible values: ([^\]]*)", said)[1].split(", ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: Path(path).resolve())
    parser.add_argument("vocabulary", type=Path, nargs="+")
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pre", nargs="*")
    parser.add_argument("--write", metavar="FILE", type=Path, help="add llama.cpp's ids of 60 of the strings to these goldens")
    args = parser.parse_args()
    pres = [None] if args.pre is None else args.pre or names(args.program)
    unexplained, goldens = 0, {}
    with get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        for vocabulary in args.vocabulary:
            for pre in pres:
                report, count, cases = processes.apply(compare, (args.program, vocabulary, pre, args.strings, args.seed))
                print(f"{pre or vocabulary.stem:24} {report}", flush=True)
                unexplained += count
                goldens[pre or vocabulary.stem] = cases
    if args.write:
        goldens = {**(json.loads(args.write.read_text()) if args.write.exists() else {}), **goldens}
        args.write.write_text(json.dumps(goldens, ensure_ascii=True, separators=(",", ":")) + "\n")
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
