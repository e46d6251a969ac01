"""llama.cpp's speed, run alternately with RusTorch's by versus.py.

    python speed.py MODEL.gguf TEST... [--no-repack]     # such as 1:pp512 2:tg64, threads before the colon

Prints one JSON object with the tokens a second of each test. A prompt is one batch; generation is greedy,
one token after the other, from an empty cache. llama.cpp repacks weights for the processor where it can
(`use_extra_bufts` of its model parameters), unless it is told not to.
"""

import argparse
import ctypes
import json
import re
import time

import llama_cpp as lib
import numpy as np


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--no-repack", action="store_true")
    return parser.parse_args()


def load(path: str, repack: bool):
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = repack
    model = lib.llama_model_load_from_file(path.encode(), params)
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    return model


class Runner:
    """A context for so many tokens, on up to so many threads; warm."""

    def __init__(self, model, threads: int, tokens: int) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = tokens + 8, tokens, tokens
        params.n_threads = params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(model, params)
        self.n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self.batch = lib.llama_batch_init(tokens, 0, 1)
        # The weights are in memory, the threads are up, the buffers have been touched.
        self.step([1 + i * 7 for i in range(tokens)], 0)

    def step(self, tokens: list[int], past: int) -> int:
        """Runs tokens and returns the most probable one after them."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token % self.n_vocab, past + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i == len(tokens) - 1
        if lib.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        row = lib.llama_get_logits_ith(self.context, len(tokens) - 1)
        return int(np.ctypeslib.as_array(row, shape=(self.n_vocab,)).argmax())

    def tokens_per_second(self, threads: int, kind: str, tokens: int) -> float:
        lib.llama_set_n_threads(self.context, threads, threads)
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        self.step([1, 2, 3, 4], 0)
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        start = time.perf_counter()
        if kind == "pp":
            self.step([1 + i * 7 for i in range(tokens)], 0)
        else:
            token = 1
            for i in range(tokens):
                token = self.step([token], i)
        return tokens / (time.perf_counter() - start)


def main() -> None:
    args = arguments()
    log = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(log, ctypes.c_void_p(0))
    model = load(args.model, not args.no_repack)
    tests = []
    for given in args.tests:
        match = re.fullmatch(r"(\d+):(pp|tg)(\d+)", given)
        if match is None:
            raise SystemExit(f"{given!r} is no test, such as 2:pp512")
        tests.append((int(match[1]), match[2], int(match[3])))
    runner = Runner(model, max(threads for threads, _, _ in tests), max(8, *(tokens for _, _, tokens in tests)))
    rows = []
    for threads, kind, tokens in tests:
        speed = runner.tokens_per_second(threads, kind, tokens)
        rows.append({"threads": threads, "test": f"{kind}{tokens}", "tokens_per_second": speed})
    system = lib.llama_print_system_info().decode()
    print(json.dumps({"rows": rows, "version": lib.__version__, "system": " ".join(system.split())}))


if __name__ == "__main__":
    main()
