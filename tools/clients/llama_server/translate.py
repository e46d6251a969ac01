"""Starts `rustorch serve` with a command line of llama-server.

    translate.py MODELS RUSTORCH FLAG…

Most flags are the same. A context is shared by the slots there, and is each request's own here. Models of the hub are files in MODELS.
"""

import os
import sys

# Flags that change how llama-server computes, and no answer.
SILENT = {"--offline": 0, "--ubatch-size": 1, "--swa-full": 0, "--verbose": 0, "--backend_sampling": 0}
FILES = {
    "ggml-org/test-model-stories260K": "stories.gguf",
    "ggml-org/test-model-stories260K-infill": "infill.gguf",
    "bert-bge-small/ggml-model-f16.gguf": "encoder.gguf",
    "jina-reranker-v1-tiny-en/ggml-model-f16.gguf": "reranker.gguf",
}
# As in llama-server: slots, and flags with the values that they have if they are not given. The models have no template.
SLOTS, DEFAULTS = 4, {"--chat-template": "chatml", "--cors-origins": "*"}
# llama.cpp rounds the context of a slot up to a multiple of this.
ROUND = 256


def translated(models, flags):
    flags, command = list(flags), []
    slots, tokens, is_unified = SLOTS, None, False
    while flags:
        flag = flags.pop(0)
        if flag in SILENT:
            del flags[: SILENT[flag]]
        elif flag in ("--hf-repo", "--hf-file"):
            if file := FILES.get(flags.pop(0)):
                command += ["--model", f"{models}/{file}"]
        elif flag == "--alias":
            # Clients of llama-server may name any model.
            command += [flag, f"{flags.pop(0)},*"]
        elif flag == "--parallel":
            slots = int(flags.pop(0))
        elif flag == "--ctx-size":
            tokens = int(flags.pop(0))
        else:
            is_unified |= flag == "--kv-unified"
            command.append(flag)
    if tokens:
        of_slot = tokens if is_unified else -(-(tokens // slots) // ROUND) * ROUND
        command += ["--ctx-size", of_slot, "--cache-tokens", max(tokens, of_slot * slots)]
    given = {flag.removesuffix("-file") for flag in map(str, command)}
    for flag, value in DEFAULTS.items():
        command += [] if flag in given else [flag, value]
    return [*map(str, command), "--parallel", str(slots)]


if __name__ == "__main__":
    _, models, rustorch, *flags = sys.argv
    os.execv(rustorch, [rustorch, "serve", *translated(models, flags)])
