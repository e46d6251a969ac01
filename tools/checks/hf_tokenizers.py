"""Compares the tokenizers of Hugging Face checkpoints and of GGUF files with llama.cpp's converter and with `tokenizers`.

    python hf_tokenizers.py convert LLAMA_CPP EXAMPLE FOLDERS [--write GOLDENS.json]
    python hf_tokenizers.py export LLAMA_CPP EXAMPLE PROGRAM VOCABULARY.gguf ... [--strings 20000] [--seed 1]

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
import subprocess
import sys
import tempfile
import types
from pathlib import Path

# llama.cpp's own package: its converter needs names that the last release lacks. Not this folder, whose tokenizers.py
# hides the package of that name.
LLAMA_CPP = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else Path()
sys.path[:1] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]
import gguf  # noqa: E402

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
            goldens.setdefault(name, {"files": {}, "kinds": {}})["kinds"][kind] = expected
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            try:
                text = {"text": data.decode()}
            except UnicodeDecodeError:
                text = {"base64": base64.b64encode(data).decode()}
            goldens[name]["files"][str(path.relative_to(folder))] = text
    if args.write:
        args.write.write_text(json.dumps(goldens, ensure_ascii=True, separators=(",", ":")) + "\n")
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
    args = parser.parse_args()
    sys.exit(args.run(args) > 0)


if __name__ == "__main__":
    main()
