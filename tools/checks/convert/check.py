"""Compares `rustorch convert` with llama.cpp's converter, and its logits with transformers'.

    pip install -r ../../oracle/requirements-transformers.txt sentencepiece protobuf
    python check.py FOLDER --llama-cpp SOURCE --rustorch PROGRAM [CASE…]

FOLDER gets small random checkpoints and both files of each. SOURCE is a checkout of llama.cpp, such as `vendor/llama.cpp` of
llama-cpp-python's source distribution. For each case: keys, tensors bit by bit, in F32, F16, BF16 and Q8_0, and the logits of
the F32 file on the reference backend beside transformers in float64.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

import quantized
from cases import CASES, MEANT, NO_FORWARD, OURS
from tokenizer_folder import write_tokenizer

# Keys that say what a model is, not how it computes; see README.md.
DESCRIPTIVE = {"general.basename", "general.finetune", "general.version", "general.organization"}
TYPES = ["f32", "f16", "bf16", "q8_0"]
TOKENS = 48


def make(folder: Path, case: str) -> None:
    """The checkpoint: random weights, none of them trivial."""
    class_name, keys = CASES[case][:2]
    torch.manual_seed(list(CASES).index(case))
    kind = getattr(transformers, class_name)
    config = kind.config_class(**keys)
    model = kind(config).to(torch.float32)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if weight.is_floating_point():
                spread = 0.3 if weight.ndim < 2 else 1.3 / weight.shape[-1] ** 0.5
                centre = 1.0 if ("norm" in name or "scal" in name) and "bias" not in name else 0.0
                weight.copy_(torch.randn_like(weight) * spread + centre)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="300KB")
    write_tokenizer(folder, case, keys.get("text_config", keys)["vocab_size"])
    for change in CASES[case][2:]:
        quantized.METHODS.get(change, change)(folder)


def load_hparams(load):
    """The input of the converter with its pinned version of transformers, 4.57, which knows neither Nemotron-H nor Nomic's BERT."""
    def wrapped(folder: Path, is_mistral_format: bool) -> dict:
        keys = json.loads((Path(folder) / "config.json").read_text())
        return keys if keys["model_type"] in ("nemotron_h", "nomic_bert") else load(folder, is_mistral_format)

    return wrapped


class Converter:
    """llama.cpp's, in this process."""

    def __init__(self, source: Path):
        sys.path.insert(0, str(source))
        sys.path.insert(1, str(source / "gguf-py"))
        import convert_hf_to_gguf
        from conversion import base, hunyuan

        self.main = convert_hf_to_gguf.main
        # The pre-tokenizer of a random vocabulary has no known hash.
        base.TextModel.get_vocab_base_pre = lambda *_: "gpt-2"
        base.ModelBase.load_hparams = staticmethod(load_hparams(base.ModelBase.load_hparams))
        # It asks for a tokenizer that only its authors have.
        def hunyuan_vocabulary(model):
            model._set_vocab_gpt2()
            model.gguf_writer.add_bos_token_id(127959)

        hunyuan.HunYuanMoEModel.set_vocab = hunyuan_vocabulary

    def convert(self, folder: Path, out: Path, file_type: str) -> None:
        arguments, sys.argv = sys.argv, ["", str(folder), "--outfile", str(out), "--outtype", file_type]
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                self.main()
        finally:
            sys.argv = arguments


def read(path: Path) -> tuple[dict, dict]:
    from gguf import GGUFReader

    reader = GGUFReader(path)
    keys = {name: (field.types, field.contents()) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return keys, {tensor.name: (tensor.tensor_type.name, tuple(tensor.shape), tensor.data) for tensor in reader.tensors}


def error(tensor: tuple, exact: np.ndarray) -> float:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    values = dequantize(tensor[2], GGMLQuantizationType[tensor[0]])
    return float(np.sum((values.ravel() - exact.ravel()) ** 2))


def differences(ours: Path, theirs: Path, ignored: set[str], meant: set[str], exact: dict | None) -> list[str]:
    """Unintended differences; in Q8_0, only where our error is larger: we round by the scale that is stored."""
    (our_keys, our_tensors), (their_keys, their_tensors) = read(ours), read(theirs)
    found = []
    for key in sorted(our_keys.keys() | their_keys.keys()):
        if key in DESCRIPTIVE | meant or any(key.startswith(prefix) for prefix in ignored):
            continue
        if our_keys.get(key) != their_keys.get(key):
            found.append(f"{key}: {short(our_keys.get(key))}, llama.cpp {short(their_keys.get(key))}")
    for name in sorted((our_tensors.keys() | their_tensors.keys()) - meant):
        a, b = our_tensors.get(name), their_tensors.get(name)
        if a is None or b is None:
            found.append(f"{name}: only {'llama.cpp' if a is None else 'we'} write it")
        elif a[:2] != b[:2]:
            found.append(f"{name}: {a[:2]}, llama.cpp {b[:2]}")
        elif a[2].tobytes() != b[2].tobytes():
            if a[0] == "Q8_0" and exact is not None and error(a, exact[name][2]) <= error(b, exact[name][2]):
                continue
            x, y = a[2].ravel(), b[2].ravel()
            found.append(f"{name}: {np.count_nonzero(x != y)} of {x.size} elements differ, by at most {np.abs(x.astype(float) - y.astype(float)).max():.3g}")
    return found


def short(value) -> str:
    text = str(value)
    return text if len(text) < 120 else text[:120] + "…"


def outputs_of_transformers(folder: Path, case: str, tokens: list[int]) -> np.ndarray:
    """The logits of each token, the scores of a classifier, or the last layer's rows."""
    class_name, keys, *changes = CASES[case]
    kind = getattr(transformers, class_name)
    if any(change in quantized.METHODS for change in changes):
        folder, config = quantized.dense(folder), None
    else:
        config = kind.config_class(**keys)
    with contextlib.redirect_stderr(io.StringIO()):
        model = kind.from_pretrained(folder, config=config, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    model = model.base_model if "MaskedLM" in class_name else model
    with torch.no_grad():
        outputs = model(torch.tensor([tokens]))
    return (outputs.logits if "logits" in outputs else outputs.last_hidden_state)[0].numpy()


def outputs_of_rustorch(program: str, model: Path, class_name: str, tokens: list[int]) -> np.ndarray:
    out = model.parent / "outputs.npy"
    command = [program, "embed", "--normalize", "-1", "--pooling", "rank" if "Classification" in class_name else "none"]
    if "ForCausalLM" in class_name or "ForConditional" in class_name:
        command = [program, "logits", "-c", "64"]
    command += ["-m", str(model), "--backend", "reference", "-o", str(out), "--tokens", ",".join(map(str, tokens))]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr.strip()[-600:])
    return np.load(out)


def command(convert: list[str], checkpoint: Path, out: Path, file_type: str) -> list[str]:
    """The command of the program, or of the example `convert`."""
    if convert[-1] == "convert":
        return [*convert, str(checkpoint), str(out), "--type", file_type, "--pre-tokenizer", "gpt-2"]
    return [*convert, str(checkpoint), str(out), file_type, "gpt-2"]


def check(folder: Path, case: str, converter: Converter, rustorch: list[str], program: str | None, ignored: set[str]) -> bool:
    checkpoint = folder / case
    if not list(checkpoint.glob("tokenizer*")):
        shutil.rmtree(checkpoint, ignore_errors=True)
        for path in folder.glob(f"{case}.*.gguf"):
            path.unlink()
        make(checkpoint, case)
    notes = []
    for file_type in TYPES:
        ours, theirs = folder / f"{case}.{file_type}.gguf", folder / f"{case}.{file_type}.llama-cpp.gguf"
        result = subprocess.run(command(rustorch, checkpoint, ours, file_type), capture_output=True, text=True)
        if result.returncode:
            notes.append(f"{file_type}: {result.stderr.strip()[-600:]}")
            break
        if case in OURS:
            continue
        if not theirs.exists():
            converter.convert(checkpoint, theirs, file_type)
        notes += [f"{file_type}: {what}" for what in differences(ours, theirs, ignored, MEANT.get(case, set()), read(theirs.with_name(f"{case}.f32.llama-cpp.gguf"))[1] if file_type == "q8_0" else None)]
        if len(notes) > 12:
            break
    if program and not notes and case not in NO_FORWARD:
        tokens = np.random.default_rng(7).integers(3, CASES[case][1].get("text_config", CASES[case][1])["vocab_size"], TOKENS).tolist()
        exact = outputs_of_transformers(checkpoint, case, tokens)
        # The tokenizer's keys may be missing in ours.
        model = folder / f"{case}.f32{'.llama-cpp' if 'tokenizer.' in ignored and case not in MEANT else ''}.gguf"
        found = outputs_of_rustorch(program, model, CASES[case][0], tokens).reshape(exact.shape)
        nmse = float(np.sum((exact - found) ** 2) / np.sum(exact**2))
        print(f"{case}: NMSE {nmse:.1e}", end="  ")
        if not nmse < 1e-9:
            notes.append(f"outputs: NMSE {nmse:.1e}")
    return report(case, notes)


def report(case: str, notes: list[str]) -> bool:
    print(f"{case}: {'ok' if not notes else 'DIFFERS'}", flush=True)
    for note in notes[:30]:
        print("   ", note)
    return not notes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--llama-cpp", type=Path, required=True)
    parser.add_argument("--convert", nargs="+", required=True, help="the command that takes a folder, a file and a type")
    parser.add_argument("--rustorch", help="the program, for logits")
    parser.add_argument("--ignore", nargs="*", default=[], help="keys with these beginnings")
    parser.add_argument("cases", nargs="*", default=[])
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    os.environ["TQDM_DISABLE"] = "1"
    options.folder.mkdir(parents=True, exist_ok=True)
    converter = Converter(options.llama_cpp.resolve())
    results = []
    for case in options.cases or CASES:
        try:
            results.append(check(options.folder, case, converter, options.convert, options.rustorch, set(options.ignore)))
        except Exception as why:
            print(f"{case}: {type(why).__name__}: {why}")
            results.append(False)
    sys.exit(0 if all(results) else 1)
