"""The model: a Llama with grouped-query attention, as small as the corpus permits.

RoPE uses interleaved pairs, as GGUF's `llama` architecture does, so weights are exported without permutation.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Row lengths are multiples of 256, so that every tensor format applies."""

    n_vocab: int = 2048
    n_ctx: int = 1024
    n_embd: int = 256
    n_layer: int = 8
    n_head: int = 8
    n_head_kv: int = 4
    n_ff: int = 768
    rope_theta: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head


def round_q4_0(w: Tensor) -> Tensor:
    """The weights rounded to Q4_0: blocks of 32 with one scale, 16 levels.

    Straight-through gradients.
    """
    blocks = w.detach().view(-1, 32)
    largest = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))
    scale = largest / -8
    inverse = torch.where(scale == 0, 0, 1 / scale)
    rounded = ((blocks * inverse).round().clamp(-8, 7) * scale).view_as(w)
    return w + (rounded - w.detach())


class Linear(nn.Linear):
    """A linear layer without bias, optionally with rounded weights."""

    rounds = False

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [.., n_in] -> [.., n_out]
        return F.linear(x, round_q4_0(self.weight) if Linear.rounds else self.weight)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [batch, heads, rows, head_dim]
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).type_as(x)


class Layer(nn.Module):
    def __init__(self, c: Config, dropout: float) -> None:
        super().__init__()
        self.c = c
        self.dropout = nn.Dropout(dropout)
        self.attn_norm = nn.RMSNorm(c.n_embd, c.eps)
        self.attn_q = Linear(c.n_embd, c.n_head * c.head_dim)
        self.attn_k = Linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.attn_v = Linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.attn_output = Linear(c.n_head * c.head_dim, c.n_embd)
        self.ffn_norm = nn.RMSNorm(c.n_embd, c.eps)
        self.ffn_gate = Linear(c.n_embd, c.n_ff)
        self.ffn_up = Linear(c.n_embd, c.n_ff)
        self.ffn_down = Linear(c.n_ff, c.n_embd)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # [batch, rows, n_embd]
        heads = lambda x: x.unflatten(-1, (-1, self.c.head_dim)).transpose(1, 2)
        h = self.attn_norm(x)
        q = rotate(heads(self.attn_q(h)), cos, sin)
        k = rotate(heads(self.attn_k(h)), cos, sin)
        v = heads(self.attn_v(h))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.dropout(self.attn_output(h.transpose(1, 2).flatten(-2)))
        h = self.ffn_norm(x)
        return x + self.dropout(self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)))


class Llama(nn.Module):
    """Token ids [batch, rows] to logits [batch, rows, n_vocab]; embeddings are tied."""

    def __init__(self, c: Config = Config(), dropout: float = 0.0) -> None:
        super().__init__()
        self.c = c
        self.token_embd = nn.Embedding(c.n_vocab, c.n_embd)
        self.dropout = nn.Dropout(dropout)
        self.blk = nn.ModuleList(Layer(c, dropout) for _ in range(c.n_layer))
        self.output_norm = nn.RMSNorm(c.n_embd, c.eps)
        frequencies = c.rope_theta ** -(torch.arange(0, c.head_dim, 2).double() / c.head_dim)
        angles = torch.outer(torch.arange(c.n_ctx).double(), frequencies)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(p, std=0.02 / (2 * c.n_layer) ** 0.5 if residual else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        rows = tokens.shape[1]
        x = self.dropout(self.token_embd(tokens))
        for layer in self.blk:
            x = layer(x, self.cos[:rows], self.sin[:rows])
        return F.linear(self.output_norm(x), self.token_embd.weight)
