"""Forward passes in float64, written from the maths and sharing nothing with the Rust code.

    python exact.py MODEL.gguf TOKENS.npy OUT.npy    # TOKENS [sequences, positions] -> OUT [.., .., vocab]
    python exact.py MODEL.gguf TOKENS.npy OUT.npy --pooling mean    # embeddings: none, mean, cls, last, rank
    python exact.py MODEL.gguf --generate 200        # greedy text after BOS

`forward.llama` is the whole pass. Each other family is a class that says in what it differs from another.
`FAMILIES` has the architectures.

No cache and no rounding: weights are the file's values, everything after is float64.
"""

import argparse

import numpy as np

from forward.dense import Qwen2, Qwen3, Gemma2, Gemma3, Granite, CommandR, StarCoder2, StableLm, SmolLm3, Olmo2, Phi3, Glm4, Mistral3
from forward.encoders import POOLINGS, Bert, GemmaEmbedding, JinaBert2, ModernBert, NomicBert, NomicBertMoe, pooled
from forward.experts import Qwen2Moe, DeepSeek2, GptOss, Glm4Moe, MiniMaxM2, HunyuanMoe, Gemma4, Llama4
from forward.llama import File, Llama
from forward.recurrent import FalconH1, GraniteHybrid, Lfm2, Mamba2, NemotronH, Qwen3Next, Qwen35

FAMILIES = {
    "llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3, "qwen3vl": Qwen3, "qwen3moe": Qwen3, "gemma2": Gemma2,
    "gemma3": Gemma3,
    "ernie4_5": Llama, "granite": Granite, "granitemoe": Granite, "smollm3": SmolLm3, "olmo2": Olmo2, "phi3": Phi3,
    "gemma4": Gemma4, "gpt-oss": GptOss, "qwen2moe": Qwen2Moe, "mistral3": Mistral3, "deepseek2": DeepSeek2,
    "glm4moe": Glm4Moe, "minimax-m2": MiniMaxM2, "hunyuan-moe": HunyuanMoe,
    "glm4": Glm4, "command-r": CommandR, "cohere2": CommandR, "starcoder2": StarCoder2, "stablelm": StableLm,
    "qwen35": Qwen35, "qwen35moe": Qwen35, "qwen3next": Qwen3Next, "lfm2": Lfm2, "lfm2moe": Lfm2, "mamba2": Mamba2,
    "granitehybrid": GraniteHybrid, "falcon-h1": FalconH1, "nemotron_h": NemotronH, "nemotron_h_moe": NemotronH,
    "llama4": Llama4,
    "bert": Bert, "nomic-bert": NomicBert, "nomic-bert-moe": NomicBertMoe, "jina-bert-v2": JinaBert2,
    "modern-bert": ModernBert, "gemma-embedding": GemmaEmbedding,
}  # fmt: skip


class Model(File):
    """A file and the forward pass of its family."""

    def __init__(self, path: str):
        super().__init__(path)
        if self.architecture not in FAMILIES:
            raise SystemExit(f"{path}: architecture {self.architecture}, expected {' or '.join(FAMILIES)}")
        self.family = FAMILIES[self.architecture](self)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """tokens [b, n] -> [b, n, vocab], every sequence from position 0."""
        return self.family.logits(tokens)

    def embedding(self, tokens: np.ndarray, pooling: str) -> np.ndarray:
        """tokens [b, n] -> [b, n, hidden] for pooling none, else [b, hidden] or, for rank, [b, classes]."""
        return pooled(self.family, self.family.rows(tokens), pooling)

    def text(self, tokens: list[int]) -> str:
        """SentencePiece pieces as text."""
        pieces = (self.meta["tokenizer.ggml.tokens"][t] for t in tokens)
        raw = b"".join(
            bytes([int(p[1:-1], 16)]) if p.startswith("<0x") and len(p) == 6 else p.encode() for p in pieces
        )
        return raw.decode(errors="replace").replace("\u2581", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--generate", type=int, metavar="N")
    parser.add_argument("--pooling", choices=POOLINGS)
    args = parser.parse_args()
    model = Model(args.model)
    if args.generate is not None:
        ids = [model.meta["tokenizer.ggml.bos_token_id"]]
        for _ in range(args.generate):
            ids.append(int(np.argmax(model.logits(np.array([ids]))[0, -1])))
        print(model.text(ids[1:]))
    elif args.out:
        tokens = np.load(args.tokens)
        np.save(args.out, model.embedding(tokens, args.pooling) if args.pooling else model.logits(tokens))
    else:
        parser.error("give TOKENS.npy and OUT.npy, or --generate N")


if __name__ == "__main__":
    main()
