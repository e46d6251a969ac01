"""Compares `rustorch tokenize` with llama.cpp on generated strings.

    python tokenizers.py VOCABULARY.gguf PROGRAM [--strings 20000] [--seed 1] [--pre NAME ...]

The vocabulary must be byte-level BPE. It is tried with every pre-tokenizer that the program knows, or with those
named. Prints, for each, how many strings differ and the first three of them, and exits with 1 if any does. Takes the
packages of tools/requirements.txt.
"""

import argparse
import ctypes
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp

sys.path.append(str(Path(__file__).parents[1] / "goldens"))
from tokenizer import TEXTS  # noqa: E402

CLASSES = [
    "abcdefgXYZQRS", "0123456789", " ", "    ", "\n\r\t ", "'’", "sStTmMdDreRElLvV", "!?.,;:-_()<>|/\\[]{}$+=^~`@#%&*\"",
    "éüñßøÅǅʰª", "日本語中文龥", "ひらがなカタカナー", "한국어ㄱㆎ", "абвгдЖ", "אבגד", "عربي٣", "\u0301\u0302\u200d\ufe0f\u0900\u093e", "😀👍🏽🦙",
    "\u00a0\u3000\u2003\u0085", "½²Ⅷ٣①", "\x00\x01\x7f", "▁", "€£©→∑", "，。！…“”", "ㄅㄆ︰", "𝕳𐐀𐐨", "हिन्दी", "ไทย",
]  # fmt: skip
WORDS = ["it's", "I'LL", "don't", "camelCase", "HTTPServer", "x1y2", "3.14", "https://a.b/c?d=e", "\n\n", "  ", "1234567", "def f(x):\n    return"]


def strings(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)

    def one() -> str:
        kinds = rng.sample(CLASSES, rng.randint(1, 5))
        parts = [rng.choice(WORDS) if rng.random() < 0.08 else rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, 32))]
        return "".join(parts)

    return TEXTS + [one() for _ in range(count - len(TEXTS))]


def with_pre(source: Path, out: Path, pre: str) -> None:
    """The vocabulary `source` with another pre-tokenizer."""
    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(out), "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "tokenizer.ggml.pre"):
            continue
        kind = field.types[0]
        sub_type = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub_type)
    writer.add_tokenizer_pre(pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


class Theirs:
    def __init__(self, path: Path):
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = self.model and llama_cpp.llama_model_get_vocab(self.model)

    def encode(self, text: str) -> list[int]:
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), False, False)
        return list(ids[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--strings", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pre", nargs="*")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write llama.cpp's ids of 60 of the strings, as goldens")
    args = parser.parse_args()
    texts = strings(args.strings, args.seed)
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    differ, goldens = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        tokenize = [args.program, "tokenize", "-m", path, "--no-bos", "--jsonl"]
        names = args.pre
        if not names:
            with_pre(args.vocabulary, path, "nothing")
            said = subprocess.run(tokenize, input="", capture_output=True, text=True).stderr
            names = re.search(r"supported values: (.*)", said)[1].split(", ")
        for name in names:
            with_pre(args.vocabulary, path, name)
            theirs = Theirs(path)
            if not theirs.model:
                print(f"{name:24} this llama.cpp does not know it", flush=True)
                continue
            ours = subprocess.run(tokenize, input=lines, capture_output=True, text=True)
            if ours.returncode:
                raise SystemExit(f"{name}: {ours.stderr}")
            found = [json.loads(line) for line in ours.stdout.splitlines()]
            wrong = [text for text, ids in zip(texts, found, strict=True) if ids != theirs.encode(text)]
            print(f"{name:24} {len(wrong)} of {len(texts)} differ", *map(ascii, wrong[:3]), sep="\n    " if wrong else "", flush=True)
            differ += len(wrong)
            goldens[name] = [[text, theirs.encode(text)] for text in texts[-60:]]
    if args.write:
        args.write.write_text(json.dumps(goldens, ensure_ascii=True, separators=(",", ":")) + "\n")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
