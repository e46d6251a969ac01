"""Trains the model on the corpus and writes build/model.pt."""

import argparse
import json
import math
import time
from itertools import chain
from multiprocessing import Pool
from pathlib import Path

import numpy
import sentencepiece
import torch
import torch.nn.functional as F

from model import Config, Linear, Llama
from template import ASSISTANT, SYSTEM, USER

# Loss weight of user tokens; assistant tokens have 1.
USER_WEIGHT = 0.1
# The rows of a batch are padded to the next of these lengths.
LENGTHS = [32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024]


def encode(tokenizer: sentencepiece.SentencePieceProcessor, document: dict) -> tuple[list[int], list[bool]]:
    """The tokens of a document in the format of template.py, and whether each is an assistant token."""
    bos, eos = tokenizer.bos_id(), tokenizer.eos_id()
    newline = tokenizer.encode("\n")
    if text := document.get("text"):
        ids = [bos, *tokenizer.encode(text), eos]
        return ids, [True] * len(ids)
    said = [(SYSTEM, document["system"])] if "system" in document else []
    said += chain(*([(USER, user), (ASSISTANT, assistant)] for user, assistant in document["turns"]))
    ids, ours = [bos], [False]
    for role, text in said:
        head = [tokenizer.piece_to_id(role), *newline]
        body = [*tokenizer.encode(text), eos]
        ids += [*head, *body, *newline]
        ours += [False] * len(head) + [role == ASSISTANT] * len(body) + [False] * len(newline)
    return ids, ours


def encode_lines(job: tuple[str, list[str]]) -> tuple[list[numpy.ndarray], list[numpy.ndarray]]:
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=job[0])
    pairs = [encode(tokenizer, json.loads(line)) for line in job[1]]
    return [numpy.array(ids, numpy.int16) for ids, _ in pairs], [numpy.array(ours, bool) for _, ours in pairs]


class Corpus:
    """The concatenated tokens of all documents on the device, and the documents by padded length."""

    def __init__(self, build: Path, name: str, device: str) -> None:
        lines = (build / name).read_text(encoding="utf-8").splitlines()
        jobs = [(str(build / "tokenizer.model"), lines[i : i + 4000]) for i in range(0, len(lines), 4000)]
        with Pool() as pool:
            done = pool.map(encode_lines, jobs)
        ids = list(chain(*(ids for ids, _ in done)))
        ours = list(chain(*(ours for _, ours in done)))
        lengths = numpy.array([len(i) for i in ids])
        self.dropped = int((lengths > Config.n_ctx).sum())
        self.n_tokens = int(lengths.sum())
        self.starts = torch.tensor(numpy.cumsum(lengths) - lengths, device=device)
        self.lengths = torch.tensor(lengths, device=device)
        padding = numpy.zeros(Config.n_ctx, numpy.int16)
        self.ids = torch.tensor(numpy.concatenate([*ids, padding]), device=device)
        self.ours = torch.tensor(numpy.concatenate([*ours, padding.astype(bool)]), device=device)
        edges = [0, *LENGTHS]
        self.buckets = [numpy.flatnonzero((lengths > a) & (lengths <= b)) for a, b in zip(edges, LENGTHS)]

    def batches(self, rng: numpy.random.Generator, tokens: int):
        """One epoch: the documents of every batch, and their padded length."""
        plan = []
        for length, bucket in zip(LENGTHS, self.buckets):
            order = rng.permutation(bucket)
            rows = max(1, tokens // length)
            plan += [(length, order[i : i + rows]) for i in range(0, len(order), rows)]
        for i in rng.permutation(len(plan)):
            yield plan[i]

    def rows(self, length: int, documents: numpy.ndarray):
        """Token ids and loss weights, [documents, length]."""
        which = torch.as_tensor(documents, device=self.starts.device)
        column = torch.arange(length, device=which.device)
        at = self.starts[which, None] + column
        inside = column < self.lengths[which, None]
        weight = torch.where(self.ours[at], 1.0, USER_WEIGHT) * inside
        return torch.where(inside, self.ids[at].long(), 0), weight


def loss_of(model: Llama, ids: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted sum of the losses of all tokens but the first, and the sum of the weights."""
    with torch.autocast(ids.device.type, torch.bfloat16):
        logits = model(ids[:, :-1])
    losses = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weight = weight[:, 1:].flatten()
    return (losses * weight).sum(), weight.sum()


@torch.no_grad()
def held_out_loss(model: Llama, corpus: Corpus, rounds: bool) -> float:
    """Mean loss of assistant tokens in held-out chats, in nats; optionally with rounded weights."""
    Linear.rounds = rounds
    model.eval()
    total = weights = 0.0
    for length, documents in corpus.batches(numpy.random.default_rng(0), 1 << 15):
        ids, weight = corpus.rows(length, documents)
        loss, sum_ = loss_of(model, ids, (weight == 1.0).float())
        total, weights = total + loss.item(), weights + sum_.item()
    model.train()
    return total / weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path(__file__).parent / "build")
    parser.add_argument("--steps", type=int, default=6400)
    parser.add_argument("--tokens", type=int, default=1 << 17, help="tokens per batch, including padding")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    rng = numpy.random.default_rng(args.seed)

    began = time.time()
    train, held_out = (Corpus(args.build, name, device) for name in ("train.jsonl", "held_out.jsonl"))
    print(f"{train.n_tokens:,} tokens of training, {train.dropped} documents too long, {time.time() - began:.0f} s")

    model = Llama(dropout=args.dropout).to(device)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {device}")
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.98), fused=device == "cuda",
    )  # fmt: skip
    began, passes, plan = time.time(), 0, iter(())
    for step in range(args.steps):
        batch = next(plan, None)
        if batch is None:
            plan, passes = train.batches(rng, args.tokens), passes + 1
            batch = next(plan)
        done = step / args.steps
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1.0, (step + 1) / 300) * 0.5 * (1 + math.cos(math.pi * done))
        # In the second half, every other step uses 4-bit weights, so that formats down to Q4_0 answer alike.
        Linear.rounds = done > 0.5 and step % 2 == 1
        loss, weights = loss_of(model, *train.rows(*batch))
        (loss / weights).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 250 == 0 or step + 1 == args.steps:
            seconds = time.time() - began
            plain, rounded = (held_out_loss(model, held_out, rounds) for rounds in (False, True))
            losses = f"loss {(loss / weights).item():.4f}, held out {plain:.4f}, in Q4_0 {rounded:.4f}"
            print(f"step {step}, pass {passes}: {losses}, {seconds:.0f} s", flush=True)
    torch.save({name: weight.half() for name, weight in model.state_dict().items()}, args.build / "model.pt")


if __name__ == "__main__":
    main()
