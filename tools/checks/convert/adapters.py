"""Compares adapters with llama.cpp's convert_lora_to_gguf.py.

    python adapters.py FOLDER --llama-cpp SOURCE --convert COMMAND [CASE…]

FOLDER, SOURCE and COMMAND are those of check.py, which makes the checkpoints. Each gets an adapter of random factors for its matrices,
as PEFT saves them. COMMAND takes a fourth argument: the folder of the model.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from check import differences, read, report

CASES = [
    "llama", "mixtral", "qwen2", "qwen3", "gemma3", "phi3", "granite", "glm4", "olmo2", "starcoder2", "stablelm", "smollm3", "command-r",
    "nemotron-h-moe", "lfm2", "qwen3.5", "bert", "roberta",
]  # fmt: skip
# Parts of the names of matrices that have factors; convolutions and such have none.
TARGETS = ["_proj.", ".w1.", ".w2.", ".w3.", ".dense.", ".query.", ".key.", ".value.", ".c_fc.", ".c_proj."]
RANK = 4
TYPES = ["f32", "bf16", "q8_0"]


def make(checkpoint: Path, adapter: Path) -> None:
    adapter.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    found = {}
    for shard in sorted(checkpoint.glob("model*.safetensors")):
        for name, tensor in load_file(shard).items():
            if tensor.ndim == 2 and name.endswith(".weight") and any(target in name for target in TARGETS):
                stem = "base_model.model." + name.removesuffix("weight")
                found[stem + "lora_A.weight"] = torch.randn(RANK, tensor.shape[1])
                found[stem + "lora_B.weight"] = torch.randn(tensor.shape[0], RANK)
            if checkpoint.name == "llama" and "embed_tokens" in name:
                stem = "base_model.model." + name.removesuffix("weight")
                found[stem + "lora_embedding_A"] = torch.randn(RANK, tensor.shape[0])
                found[stem + "lora_embedding_B"] = torch.randn(tensor.shape[1], RANK)
            if checkpoint.name == "llama" and "input_layernorm" in name:
                found["base_model.model." + name] = torch.randn_like(tensor.float())
    save_file(found, adapter / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 16, "base_model_name_or_path": str(checkpoint)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))


def check(folder: Path, case: str, source: Path, convert: list[str]) -> bool:
    checkpoint, adapter = folder / case, folder / "adapters" / case
    make(checkpoint, adapter)
    notes = []
    for file_type in TYPES:
        ours, theirs = adapter / f"{file_type}.gguf", adapter / f"{file_type}.llama-cpp.gguf"
        result = subprocess.run([*convert, str(adapter), str(ours), file_type, str(checkpoint)], capture_output=True, text=True)
        if result.returncode:
            notes.append(f"{file_type}: {result.stderr.strip()[-600:]}")
            break
        command = [sys.executable, str(source / "convert_lora_to_gguf.py"), "--base", str(checkpoint), "--outfile", str(theirs), "--outtype", file_type, str(adapter)]
        result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TQDM_DISABLE": "1"})
        if result.returncode:
            notes.append(f"llama.cpp: {result.stderr.strip().splitlines()[-1][-300:]}")
            break
        exact = read(adapter / "f32.llama-cpp.gguf")[1] if file_type == "q8_0" else None
        notes += [f"{file_type}: {what}" for what in differences(ours, theirs, set(), {"general.name"}, exact)]
    return report(case, notes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--llama-cpp", type=Path, required=True)
    parser.add_argument("--convert", nargs="+", required=True)
    parser.add_argument("cases", nargs="*", default=[])
    options = parser.parse_args()
    sys.path.insert(0, str(options.llama_cpp / "gguf-py"))
    results = [check(options.folder, case, options.llama_cpp.resolve(), options.convert) for case in options.cases or CASES]
    sys.exit(0 if all(results) else 1)
