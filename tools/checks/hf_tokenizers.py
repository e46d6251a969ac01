"""Compares the tokenizers of Hugging Face checkpoints and of GGUF files with llama.cpp's converter and with `tokenizers`.

    python hf_tokenizers.py convert LLAMA_CPP EXAMPLE FOLDERS [--write GOLDENS.json]
    python hf_tokenizers.py export LLAMA_CPP EXAMPLE PROGRAM VOCABULARY.gguf ... [--strings 20000] [--seed 1] [--pre]

LLAMA_CPP is a checkout of llama.cpp, whose folder `conversion` is the reference, EXAMPLE is the built
crates/convert/examples/read_tokenizer.rs, and tools/goldens/hf_folders.py makes FOLDERS. Takes the packages of
hf_requirements.txt.

`convert` reads the tokenizer of each folder in each way that fits, and compares all keys.

`export` writes each vocabulary in Hugging Face's format and compares, on generated strings, the ids of `tokenizers` and of
`transformers` with ours; then it converts the folder with both converters and compares the keys with the vocabulary's.
"""

import argparse
import base64
import importlib
import json
import logging
import re
import subprocess
import sys
import tempfile
import types
import unicodedata
from pathlib import Path

# llama.cpp's own package: its converter needs names that the last release lacks. Not this folder, whose tokenizers.py
# hides the package of that name.
LLAMA_CPP = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else Path()
sys.path[:1] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]
sys.path.append(str(Path(__file__).parents[1] / "goldens"))
import gguf  # noqa: E402
import tokenizers  # noqa: E402
import transformers  # noqa: E402
from gguf_vocabulary import with_pre  # noqa: E402
from strings import strings  # noqa: E402

# What a folder may be, by its name: ways of llama.cpp's converter, as class and kind of crates/convert.
LLAMA = [("llama.LlamaModel", "Llama")]
SENTENCEPIECE = [*LLAMA, ("gemma.Gemma2Model", "Gemma2"), ("gemma.Gemma3Model", "Gemma3"), ("ernie.Ernie4_5Model", "Ernie"), ("mamba.Mamba2Model", "Mamba2"), ("qwen.Qwen2Model", "SentencePieceOrBpe")]
BPE = [("olmo.Olmo2Model", "Bpe"), ("qwen.Qwen2Model", "SentencePieceOrBpe"), ("mamba.Mamba2Model", "Mamba2"), ("nemotron.NemotronHModel", "PaddedBpe")]
WAYS = {
    "qwen2": [*BPE, *LLAMA],
    "llama3": [*BPE, *LLAMA, ("gemma.Gemma3Model", "Gemma3")],
    "gpt2-files": [("olmo.Olmo2Model", "Bpe"), ("qwen.Qwen2Model", "SentencePieceOrBpe"), ("phi.Phi3MiniModel", "Phi3")],
    "roberta": [("bert.RobertaModel", "Roberta")],
    "modern-bert": [("bert.ModernBertModel", "ModernBert")],
    "bert": [("bert.BertModel", "WordPiece"), ("bert.NomicBertModel", "NomicBert"), ("bert.JinaBertV2Model", "JinaBertV2")],
    "bert-cased": [("bert.BertModel", "WordPiece"), ("bert.RobertaModel", "Roberta")],
    "llama": SENTENCEPIECE,
    "phi3": [("phi.Phi3MiniModel", "Phi3")],
    "llama-json": [*LLAMA, ("gemma.Gemma4Model", "Gemma4")],
    "xlm-r": [("bert.XLMRobertaModel", "Unigram")],
    "xlm-r-json": [("bert.XLMRobertaModel", "Unigram"), ("bert.NomicBertModel", "NomicBert")],
    "glm4": [("glm.Glm4Model", "Glm4"), ("glm.Glm4MoeModel", "Glm4Moe")],
}  # fmt: skip


def theirs(folder: Path, way: str, pre: str | None) -> dict:
    """The keys of llama.cpp's converter. `pre` is what it writes for a pre-tokenizer that it does not know."""
    logging.disable(logging.ERROR)
    module, name = way.split(".")
    kind = getattr(importlib.import_module(f"conversion.{module}"), name)
    model = object.__new__(kind)
    config = json.loads((folder / "config.json").read_text())
    model.dir_model, model.hparams, model.is_mistral_format = folder, {**config, **config.get("text_config", {})}, False
    model.hf_arch = model.origin_hf_arch = config["architectures"][0]
    model.gguf_writer = gguf.GGUFWriter(None, "llama")
    model.model_arch = gguf.MODEL_ARCH.BERT if module == "bert" else getattr(kind, "model_arch", None)
    if name == "NomicBertModel":
        model._tokenizer_is_xlmroberta = model._is_tokenizer_xlmroberta()
    known = model.get_vocab_base_pre

    def get_vocab_base_pre(self, tokenizer):
        try:
            return known(tokenizer)
        except NotImplementedError:
            return pre

    model.get_vocab_base_pre = types.MethodType(get_vocab_base_pre, model)
    model.set_vocab()
    keys = {}
    for key, value in model.gguf_writer.kv_data[0].items():
        if key.startswith("tokenizer.") and not key.endswith(".token_type_count"):
            value = value.value
            if isinstance(value, bytes):
                value = list(value)
            elif isinstance(value, list):
                value = [item.decode() if isinstance(item, bytes) else int(item) if isinstance(item, int) else item for item in value]
            keys[key] = value
    return keys


def keys_of(path: Path) -> dict:
    fields = gguf.GGUFReader(str(path)).fields
    return {name: field.contents() for name, field in fields.items() if name.startswith("tokenizer.")}


def ours(example: Path, folder: Path, kind: str) -> dict:
    with tempfile.TemporaryDirectory() as out:
        path = Path(out) / "out.gguf"
        done = subprocess.run([example, folder, kind, path], capture_output=True, text=True)
        return {"error": done.stderr.strip()} if done.returncode else keys_of(path)


def same(a, b) -> bool:
    if isinstance(a, list) and a and isinstance(a[0], float):
        return len(a) == len(b) and all(abs(x - y) <= 1e-6 * max(1, abs(x)) for x, y in zip(a, b))
    return sorted(a) == sorted(b) if isinstance(a, set) else a == b


def differences(found: dict, expected: dict) -> list[str]:
    lines = []
    for key in sorted(found.keys() | expected.keys()):
        a, b = found.get(key), expected.get(key)
        if key not in found or key not in expected or not same(a, b):
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None) if isinstance(a, list) and isinstance(b, list) else None
            lines.append(f"{key}: ours {str(a if at is None else (len(a), at, a[at]))[:200]}, theirs {str(b if at is None else (len(b), at, b[at]))[:200]}")
    return lines


def convert(args) -> int:
    failures, goldens = 0, {}
    for name, ways in WAYS.items():
        folder = args.folders / name
        for way, kind in ways:
            found = ours(args.example, folder, kind)
            try:
                expected = theirs(folder, way, found.get("tokenizer.ggml.pre"))
            except Exception as error:  # noqa: BLE001
                expected = {"error": repr(error)}
            lines = differences(found, expected) if "error" not in found.keys() | expected.keys() else [f"ours {found.get('error')}", f"theirs {expected.get('error')}"]
            print(f"{name:14} {kind:20} {'same' if not lines else 'DIFFERENT'}", *lines, sep="\n    ")
            failures += bool(lines)
            golden = goldens.setdefault(name, {"files": {}, "keys": expected, "kinds": {}})
            # What differs from the first way; null is absent.
            golden["kinds"][kind] = {key: expected.get(key) for key in expected.keys() | golden["keys"].keys() if expected.get(key) != golden["keys"].get(key)}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            try:
                text = {"text": data.decode()}
            except UnicodeDecodeError:
                text = {"base64": base64.b64encode(data).decode()}
            goldens[name]["files"][str(path.relative_to(folder))] = text
    if args.write:
        args.write.write_text(json.dumps(goldens, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n")
    return failures


# The way back of a vocabulary whose architecture no kind of crates/convert is for.
BACK = {
    "llama": ("llama.LlamaModel", "Llama"), "phi3": ("phi.Phi3MiniModel", "Phi3"), "gemma4": ("gemma.Gemma4Model", "Gemma4"),
    "bert": ("bert.BertModel", "WordPiece"), "t5": ("bert.XLMRobertaModel", "Unigram"), "gpt2": ("olmo.Olmo2Model", "Bpe"),
}  # fmt: skip


def way_back(keys: dict, architecture: str) -> tuple[str, str]:
    model = keys["tokenizer.ggml.model"]
    if model == "llama":
        return BACK.get(architecture if architecture == "phi3" else "llama")
    return BACK[model] if model != "gpt2" or architecture != "llama" else BACK["llama"]


def is_meant(keys: dict, text: str, ids: list[int], other: list[int]) -> bool:
    """Whether the packages treat the text in another way, as the export says."""
    if keys["tokenizer.ggml.model"] == "t5":
        # Equal sums of scores; characters with marks, and whatever normalises over the ends of characters; white space
        # beside tokens that drop it.
        return sorted(ids) == sorted(other) or any(c.isspace() and not c.isascii() or unicodedata.combining(c) or unicodedata.category(c) in ("Mc", "Me", "Mn", "Cf", "Lo", "Lm", "So", "Sk") for c in text)
    if keys["tokenizer.ggml.model"] == "bert":
        return "\u2581" in text
    if "Phi" in keys.get("general.name", ""):
        return any(c.isspace() and c not in " \t\n\v\f\r" for c in text)
    return False


def export_one(args, source: Path, label: str) -> int:
    fields = gguf.GGUFReader(str(source)).fields
    keys = {name: field.contents() for name, field in fields.items() if name.startswith(("tokenizer.", "general."))}
    special = [token for token, kind in zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]) if kind in (2, 3, 4) and token]
    words = [token.replace("\u2581", " ").replace("\u0120", " ") for token, kind in zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]) if kind == 1]
    texts = strings(args.strings, args.seed, words[::7], special)
    inp = Path(f"{source}.inp")
    if inp.exists():
        texts = inp.read_text().split("\n__ggml_vocab_test__\n") + texts
    with tempfile.TemporaryDirectory() as out:
        folder = Path(out) / "folder"
        done = subprocess.run([*args.export, source, folder], capture_output=True, text=True)
        if done.returncode:
            print(f"{label:26} refused: {done.stderr.strip()}")
            return 0
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        ours_ids = subprocess.run([args.program, "tokenize", "-m", source, "--no-bos", "--jsonl", "--parse-special"], input=lines, capture_output=True, text=True, check=True)
        ours_ids = [json.loads(line) for line in ours_ids.stdout.splitlines()]
        theirs_ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        found, meant, examples = 0, 0, []
        for text, ids in zip(texts, ours_ids, strict=True):
            other = theirs_ids.encode(text, add_special_tokens=False).ids
            if ids != other:
                if is_meant(keys, text, ids, other):
                    meant += 1
                else:
                    found += 1
                    examples.append(f"{text!a}\n        ours   {ids}\n        theirs {other}")
        auto, tried = 0, 0
        if args.pre is None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            for text, ids in list(zip(texts, ours_ids))[:2000]:
                # Qwen2Tokenizer, which AutoTokenizer insists on, normalises.
                if unicodedata.is_normalized("NFC", text):
                    tried += 1
                    other = tokenizer.encode(text, add_special_tokens=False)
                    auto += other != ids and not is_meant(keys, text, ids, other)
        print(f"{label:26} {len(texts)} strings, different: {found}, meant: {meant}; AutoTokenizer: {auto} of {tried} ({type(tokenizer).__name__ if args.pre is None else 'not tried'})")
        examples.sort(key=len)
        for example in examples[:2]:
            print(f"    {example}")
        if args.pre is not None:
            return found
        architecture = keys["general.architecture"]
        way, kind = way_back(keys, architecture)
        back = ours(args.example, folder, kind)
        if "error" in back:
            print("    converting back:", back["error"])
            return found + auto + 1
        original = {key: value for key, value in keys.items() if key.startswith("tokenizer.")}
        for line in differences(back, original):
            print(f"    back: {line}")
        try:
            (folder / "config.json").write_text(json.dumps({"architectures": ["None"], **json.loads((folder / "config.json").read_text())}))
            lines = differences(back, theirs(folder, way, back.get("tokenizer.ggml.pre")))
        except Exception as error:  # noqa: BLE001
            lines = [repr(error)]
        for line in lines:
            print(f"    llama.cpp: {line}")
        return found + auto + len(lines)


def export(args) -> int:
    failures = 0
    for source in args.vocabulary:
        if args.pre is None:
            failures += export_one(args, source, source.stem)
            continue
        said = "" if args.pre else subprocess.run([args.program, "tokenize", "--pre-tokenizer", "?", "a"], capture_output=True, text=True).stderr
        for pre in args.pre or re.search(r"possible values: ([^\]]*)", said)[1].split(", "):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "vocabulary.gguf"
                with_pre(source, path, pre)
                failures += export_one(args, path, pre)
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("convert")
    command.set_defaults(run=convert)
    command.add_argument("llama_cpp", type=lambda path: Path(path).resolve())
    command.add_argument("example", type=lambda path: Path(path).resolve())
    command.add_argument("folders", type=Path)
    command.add_argument("--write", metavar="FILE", type=Path)
    command = commands.add_parser("export")
    command.set_defaults(run=export)
    command.add_argument("llama_cpp", type=lambda path: Path(path).resolve())
    command.add_argument("example", type=lambda path: Path(path).resolve())
    command.add_argument("program", type=lambda path: Path(path).resolve())
    command.add_argument("vocabulary", type=Path, nargs="+")
    command.add_argument("--export", type=str.split, help="command that exports [default: that of PROGRAM]")
    command.add_argument("--strings", type=int, default=20000)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--pre", nargs="*", help="try each vocabulary with these pre-tokenizers, or with every one, and only compare ids")
    args = parser.parse_args()
    if getattr(args, "program", None) and not args.export:
        args.export = [args.program, "export-tokenizer"]
    sys.exit(args.run(args) > 0)


if __name__ == "__main__":
    main()
