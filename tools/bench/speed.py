"""llama.cpp's prefill and decode speed, to be run in turn with RusTorch's.

    python speed.py MODEL.gguf [PROMPT_TOKENS] [NEW_TOKENS] [THREADS]     # default 512 64 2

Prints one JSON object: tokens a second. The prompt is one batch; decoding follows it, greedy.
"""

import ctypes
import json
import sys
import time

import llama_cpp as lib
import numpy as np


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    prompt, new, threads = [*map(int, sys.argv[2:]), *(512, 64, 2)[len(sys.argv) - 2 :]]
    log = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(log, ctypes.c_void_p(0))
    model_params = lib.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(sys.argv[1].encode(), model_params)
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = prompt + new, prompt, prompt
    params.n_threads = params.n_threads_batch = threads
    context = lib.llama_init_from_model(model, params)
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    batch = lib.llama_batch_init(prompt, 0, 1)

    def run(tokens: list[int], past: int) -> int:
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, past + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i == len(tokens) - 1
        if lib.llama_decode(context, batch) != 0:
            raise SystemExit("llama_decode failed")
        logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, len(tokens) - 1), shape=(n_vocab,))
        return int(logits.argmax())

    run([1, 2, 3, 4], 0)  # the weights are in memory, the threads are up
    lib.llama_memory_clear(lib.llama_get_memory(context), True)
    start = time.perf_counter()
    token = run([1 + i * 7 % 30000 for i in range(prompt)], 0)
    middle = time.perf_counter()
    for i in range(new):
        token = run([token], prompt + i)
    end = time.perf_counter()
    print(json.dumps({"prefill": prompt / (middle - start), "decode": new / (end - middle)}))


if __name__ == "__main__":
    main()
