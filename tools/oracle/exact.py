"""Llama's and Qwen2's forward pass in float64, written from the maths and sharing nothing with the Rust code.

    python exact.py MODEL.gguf TOKENS.npy OUT.npy    # TOKENS [sequences, positions] -> OUT [.., .., vocab]
    python exact.py MODEL.gguf --generate 200        # greedy text after BOS

No cache and no rounding: weights are the file's values, everything after is float64. Shapes in
comments: b sequences, n positions, h heads, d values a head.
"""

import argparse

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Model:
    """The file's weights as float64 and the few numbers of its metadata that the maths needs."""

    def __init__(self, path: str):
        reader = GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.architecture = self.meta["general.architecture"]
        if self.architecture not in ("llama", "qwen2"):
            raise SystemExit(f"{path}: architecture {self.architecture}, expected llama or qwen2")
        self.weights = {
            t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors
        }

        self.layers = self.get("block_count")
        self.heads = self.get("attention.head_count")
        self.kv_heads = self.get("attention.head_count_kv", self.heads)
        self.eps = self.get("attention.layer_norm_rms_epsilon")
        hidden = self.get("embedding_length")
        self.key_length = self.get("attention.key_length", hidden // self.heads)
        self.value_length = self.get("attention.value_length", hidden // self.heads)
        self.rotated = self.get("rope.dimension_count", self.key_length)
        self.theta = self.get("rope.freq_base", 10000.0)
        scaling = self.get("rope.scaling.type", "none")
        if scaling not in ("none", "linear"):
            raise SystemExit(f"{path}: rope.scaling.type {scaling} is not in this reference")
        self.position_scale = 1 / self.get("rope.scaling.factor", 1.0) if scaling == "linear" else 1.0

    def get(self, key: str, default=None):
        value = self.meta.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise SystemExit(f"{self.architecture}.{key} is missing")
        return value

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """A weight is [outputs, inputs]; each output is the dot product of its row with x."""
        return x @ self.weights[name].T

    def projected(self, x: np.ndarray, name: str, heads: int) -> np.ndarray:
        """Queries, keys or values [b, n, heads, d]; with Qwen2's biases."""
        y = self.linear(x, f"{name}.weight")
        if self.architecture == "qwen2":
            y = y + self.weights[f"{name}.bias"]
        return y.reshape(*x.shape[:2], heads, -1)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weights[name]

    def rope(self, x: np.ndarray) -> np.ndarray:
        """Turns each pair of a head by its angle: (x[2i], x[2i + 1]) of Llama, (x[i], x[i + d/2]) of Qwen2.

        x [b, n, h, d]
        """
        pair = np.arange(self.rotated // 2)
        frequency = self.theta ** (-2 * pair / self.rotated)
        frequency = frequency / self.weights.get("rope_freqs.weight", np.ones(len(pair)))
        angle = np.outer(np.arange(x.shape[1]) * self.position_scale, frequency)[:, None, :]  # [n, 1, d/2]
        if self.architecture == "qwen2":
            first, second = pair, pair + self.rotated // 2
        else:
            first, second = 2 * pair, 2 * pair + 1
        z = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)
        out = x.copy()
        out[..., first], out[..., second] = z.real, z.imag
        return out

    def attention(self, x: np.ndarray, block: str) -> np.ndarray:
        b, n, _ = x.shape
        q = self.projected(x, f"{block}.attn_q", self.heads)
        k = self.projected(x, f"{block}.attn_k", self.kv_heads)
        v = self.projected(x, f"{block}.attn_v", self.kv_heads)
        q, k = self.rope(q), self.rope(k)
        future = np.triu(np.ones((n, n), dtype=bool), 1)
        out = np.empty((b, n, self.heads, self.value_length))
        for h in range(self.heads):
            kv = h // (self.heads // self.kv_heads)
            scores = q[:, :, h] @ k[:, :, kv].transpose(0, 2, 1) / np.sqrt(self.key_length)  # [b, n, n]
            out[:, :, h] = softmax(np.where(future, -np.inf, scores)) @ v[:, :, kv]
        return self.linear(out.reshape(b, n, -1), f"{block}.attn_output.weight")

    def feed_forward(self, x: np.ndarray, block: str) -> np.ndarray:
        gate = self.linear(x, f"{block}.ffn_gate.weight")
        up = self.linear(x, f"{block}.ffn_up.weight")
        return self.linear(gate / (1 + np.exp(-gate)) * up, f"{block}.ffn_down.weight")

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """tokens [b, n] -> [b, n, vocab], every sequence from position 0."""
        x = self.weights["token_embd.weight"][tokens]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm.weight"), f"blk.{i}")
            x = x + self.feed_forward(self.norm(x, f"blk.{i}.ffn_norm.weight"), f"blk.{i}")
        output = "output.weight" if "output.weight" in self.weights else "token_embd.weight"
        return self.linear(self.norm(x, "output_norm.weight"), output)

    def text(self, tokens: list[int]) -> str:
        """SentencePiece pieces as text."""
        pieces = (self.meta["tokenizer.ggml.tokens"][t] for t in tokens)
        raw = b"".join(
            bytes([int(p[1:-1], 16)]) if p.startswith("<0x") and len(p) == 6 else p.encode() for p in pieces
        )
        return raw.decode(errors="replace").replace("\u2581", " ")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--generate", type=int, metavar="N")
    args = parser.parse_args()
    model = Model(args.model)
    if args.generate is not None:
        ids = [model.meta["tokenizer.ggml.bos_token_id"]]
        for _ in range(args.generate):
            ids.append(int(np.argmax(model.logits(np.array([ids]))[0, -1])))
        print(model.text(ids[1:]))
    elif args.out:
        np.save(args.out, model.logits(np.load(args.tokens)))
    else:
        parser.error("give TOKENS.npy and OUT.npy, or --generate N")


if __name__ == "__main__":
    main()
