"""llama.cpp's logits of every position, on the CPU.

    python llama.py MODEL.gguf TOKENS.npy OUT.npy    # TOKENS [sequences, positions] -> OUT [.., .., vocab]

All choices are llama.cpp's defaults (K and V in F16, flash attention where it thinks it fit,
repacked weights) but: no GPU, two threads, and a sequence is one batch with logits for all rows.
`Llama(.., f32=True)` has K and V in F32 and no flash attention; `batch=1` gives it one token at a time.
"""

import ctypes
import sys

import llama_cpp as lib
import numpy as np


POOLINGS = {
    "none": lib.LLAMA_POOLING_TYPE_NONE, "mean": lib.LLAMA_POOLING_TYPE_MEAN, "cls": lib.LLAMA_POOLING_TYPE_CLS,
    "last": lib.LLAMA_POOLING_TYPE_LAST, "rank": lib.LLAMA_POOLING_TYPE_RANK,
}  # fmt: skip


class Llama:
    """One loaded model and a context of `positions` positions, which takes them `batch` at a time."""

    def __init__(
        self, path: str, positions: int, threads: int = 2, f32: bool = False, batch: int | None = None, pooling: str | None = None
    ):
        self.log = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.log, ctypes.c_void_p(0))
        model_params = lib.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            raise SystemExit(f"llama.cpp refuses {path}")
        vocab = lib.llama_model_get_vocab(self.model)
        self.vocab = lib.llama_vocab_n_tokens(vocab)
        self.ends = [token for token in range(self.vocab) if lib.llama_vocab_is_eog(vocab, token)]
        params = lib.llama_context_default_params()
        params.n_ctx = positions
        params.n_batch = params.n_ubatch = self.size = batch or positions
        if f32:
            params.type_k = params.type_v = lib.GGML_TYPE_F32
            params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if pooling:
            params.embeddings, params.pooling_type = True, POOLINGS[pooling]
        self.pooling = pooling
        params.n_threads = params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp makes no context for {path}")
        self.batch = lib.llama_batch_init(self.size, 0, 1)

    def logits(self, tokens: np.ndarray, first_position: int = 0) -> np.ndarray:
        """tokens [sequences, positions] -> float32 [sequences, positions, vocab]"""
        return np.stack([self.sequence(row, first_position) for row in tokens])

    def sequence(self, tokens: np.ndarray, first_position: int) -> np.ndarray:
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        starts = range(0, len(tokens), self.size)
        return np.concatenate([self.decode(tokens[start : start + self.size], first_position + start) for start in starts])

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """The `count` tokens with the largest logits after a prompt, but none that ends the text."""
        tokens, row = [], self.sequence(np.array(prompt), 0)[-1]
        while len(tokens) < count:
            row[self.ends] = -np.inf
            tokens.append(int(row.argmax()))
            if len(tokens) < count:
                row = self.decode(np.array(tokens[-1:]), len(prompt) + len(tokens) - 1)[0]
        return tokens

    def embedding(self, tokens: np.ndarray) -> np.ndarray:
        """tokens [positions], as one batch -> float32 [positions, hidden], or pooled as the context was made for."""
        self.run(tokens, 0)
        if self.pooling == "none":
            shape = (len(tokens), lib.llama_model_n_embd_out(self.model))
            return np.ctypeslib.as_array(lib.llama_get_embeddings(self.context), shape=shape).copy()
        count = lib.llama_model_n_cls_out(self.model) if self.pooling == "rank" else lib.llama_model_n_embd_out(self.model)
        return np.ctypeslib.as_array(lib.llama_get_embeddings_seq(self.context, 0), shape=(count,)).copy()

    def decode(self, tokens: np.ndarray, start: int) -> np.ndarray:
        """Logits [tokens, vocab] of tokens that stand at `start` and after."""
        self.run(tokens, start)
        rows = lib.llama_get_logits(self.context)
        return np.ctypeslib.as_array(rows, shape=(len(tokens), self.vocab)).copy()

    def run(self, tokens: np.ndarray, start: int) -> None:
        self.batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            self.batch.token[i] = int(token)
            self.batch.pos[i] = start + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = 0
            self.batch.logits[i] = 1
        status = lib.llama_decode(self.context, self.batch)
        if status != 0:
            raise SystemExit(f"llama_decode returned {status}")

    def close(self) -> None:
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)


def main() -> None:
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    model, tokens, out = sys.argv[1], np.load(sys.argv[2]), sys.argv[3]
    llama = Llama(model, tokens.shape[1])
    np.save(out, llama.logits(tokens))
    llama.close()


if __name__ == "__main__":
    main()
