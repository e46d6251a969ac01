"""Perplexity of a text and divergence from a base, from llama.cpp's or exact logits, in NumPy.

    python perplexity.py score MODEL.gguf TEXT [-c N] [--save BASE] [--beside JSON]   # llama.cpp's perplexity
    python perplexity.py compare MODEL.gguf BASE                      # llama.cpp's distance from a base
    python perplexity.py goldens MODELS                               # makes crates/eval/goldens/perplexity

The definitions and the file's layout are those of llama.cpp's tools/perplexity/perplexity.cpp: windows of
N tokens, BOS in the first place of each where the tokenizer adds one, tokens scored in the second half.
How far RusTorch is from llama.cpp on the same file, with a paired standard error (a base would not do:
it does not tell apart what is more than 16 below the highest log-probability):

    rustorch perplexity -m MODEL.gguf -f TEXT --json > /tmp/ours.json
    python perplexity.py score MODEL.gguf TEXT --beside /tmp/ours.json
"""

import argparse
import ctypes
import json
import struct
from pathlib import Path

import llama_cpp as lib
import numpy as np

from exact import Model
from llama import Llama

HERE = Path(__file__).parent
GOLDENS = HERE.parents[1] / "crates/eval/goldens/perplexity"


def tokenize(vocab, text: str, parse_special: bool = False) -> list[int]:
    """llama.cpp's ids of a prompt, with BOS where the file asks for it."""
    data = text.encode()
    ids = (lib.llama_token * (len(data) + 8))()
    count = lib.llama_tokenize(vocab, data, len(data), ids, len(ids), True, parse_special)
    if count < 0:
        raise SystemExit("llama_tokenize wants more room")
    return list(ids[:count])


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8").removesuffix("\n")


def windows(tokens, n_ctx: int) -> np.ndarray:
    """[windows, n_ctx]"""
    if len(tokens) < 2 * n_ctx:
        raise SystemExit(f"{len(tokens)} tokens; {2 * n_ctx} are needed")
    count = len(tokens) // n_ctx
    return np.array(tokens[: count * n_ctx], dtype="<i4").reshape(count, n_ctx)


def with_bos(text: np.ndarray, bos: int | None) -> np.ndarray:
    """The input of the model."""
    text = text.copy()
    if bos is not None:
        text[:, 0] = bos
    return text


def scored(text: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logits of scored positions [n, vocab] and the tokens after them [n]."""
    n_ctx = text.shape[1]
    first = n_ctx // 2
    return logits[:, first : n_ctx - 1].reshape(-1, logits.shape[-1]), text[:, first + 1 :].reshape(-1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def mean_and_error(x: np.ndarray) -> dict:
    error = x.std() / np.sqrt(len(x) - 1) if len(x) > 1 else 0.0
    return {"value": float(x.mean()), "standard_error": float(error)}


def times(estimate: dict, factor: float) -> dict:
    return {"value": factor, "standard_error": factor * estimate["standard_error"]}


def perplexity(log_probs: np.ndarray, following: np.ndarray) -> dict:
    nll = mean_and_error(-log_probs[np.arange(len(following)), following])
    return {"scored_tokens": len(following), "nll": nll, "perplexity": times(nll, float(np.exp(nll["value"])))}


def beside(log_probs: np.ndarray, following: np.ndarray, ours: dict) -> dict:
    """How far our negative log-likelihoods are from llama.cpp's, token by token."""
    theirs = -log_probs[np.arange(len(following)), following]
    if len(theirs) != len(ours["token_nll"]):
        raise SystemExit("other windows: give both the same text and -c")
    difference = mean_and_error(np.array(ours["token_nll"]) - theirs)
    ratio = float(np.expm1(difference["value"]))
    errors = abs(difference["value"]) / difference["standard_error"]
    return {"nll_difference": difference, "perplexity_ratio_less_1": ratio, "standard_errors": errors}


def write_base(path: Path, text: np.ndarray, logits: np.ndarray) -> None:
    """`logits` [scored positions, vocab]; rows are rounded in float32, as llama.cpp does it."""
    rows = logits.astype(np.float32)
    high = rows.max(axis=-1, keepdims=True)
    low = np.maximum(rows.min(axis=-1, keepdims=True), high - np.float32(16))
    total = np.log(np.exp((rows - high).astype(np.float64)).sum(axis=-1, keepdims=True)).astype(np.float32)
    scale = (high - low) / np.float32(65535)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(scale > 0, np.rint(np.float32(1) / scale * (rows - low)), 0)
    quants = np.where(rows > low, steps, 0).astype("<u2")
    if quants.shape[1] % 2:
        quants = np.pad(quants, [(0, 0), (0, 1)])
    numbers = np.concatenate([scale, low - high - total], axis=1).astype("<f4")
    with open(path, "wb") as out:
        out.write(b"_logits_" + struct.pack("<Iii", text.shape[1], rows.shape[1], text.shape[0]))
        out.write(text.astype("<i4").tobytes())
        out.write(np.concatenate([numbers.view("u1"), quants.view("u1")], axis=1).tobytes())


def read_base(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The text [windows, n_ctx] and log-probabilities [scored positions, vocab]."""
    data = path.read_bytes()
    magic, n_ctx, n_vocab, count = struct.unpack_from("<8sIii", data)
    if magic != b"_logits_":
        raise SystemExit(f"{path} is no base")
    text = np.frombuffer(data, "<i4", count * n_ctx, 20).reshape(count, n_ctx)
    positions = count * (n_ctx - 1 - n_ctx // 2)
    row = 8 + 4 * ((n_vocab + 1) // 2)
    rows = np.frombuffer(data, "u1", offset=20 + text.nbytes).reshape(positions, row)
    numbers = rows[:, :8].copy().view("<f4")
    quants = rows[:, 8 : 8 + 2 * n_vocab].copy().view("<u2").astype(np.float32)
    return text, numbers[:, :1] * quants + numbers[:, 1:]


def divergence(log_probs: np.ndarray, base: np.ndarray, following: np.ndarray) -> dict:
    """All figures of `rustorch perplexity --kl-base FILE --json`, by NumPy's own functions."""
    at = np.arange(len(following)), following
    nll, base_nll = -log_probs[at], -base[at].astype(np.float64)
    mean, base_mean = mean_and_error(nll), mean_and_error(base_nll)
    ppl, base_ppl = float(np.exp(mean["value"])), float(np.exp(base_mean["value"]))
    ratio = mean_and_error(nll - base_nll)
    weights = np.where(base > -16, np.exp(base.astype(np.float64)), 0)
    kl = (weights * (base - log_probs)).sum(axis=-1)
    p_diff = np.exp(-nll) - np.exp(-base_nll)
    rms = float(np.sqrt((p_diff**2).mean()))
    # The error of a difference of exponentials, to first order.
    difference = mean_and_error(ppl * nll - base_ppl * base_nll)
    names = {"maximum": 100, "p99_9": 99.9, "p99": 99, "p95": 95, "p90": 90, "p75": 75, "median": 50, "p25": 25}
    names |= {"p10": 10, "p5": 5, "p1": 1, "p0_1": 0.1, "minimum": 0}
    spread = lambda x: {name: float(np.percentile(x, percent)) for name, percent in names.items()}
    return {
        "perplexity": times(mean, ppl),
        "base_perplexity": times(base_mean, base_ppl),
        "correlation": float(np.corrcoef(nll, base_nll)[0, 1]),
        "log_ratio": ratio,
        "ratio": times(ratio, float(np.exp(ratio["value"]))),
        "difference": {"value": ppl - base_ppl, "standard_error": difference["standard_error"]},
        "kl": mean_and_error(kl),
        "kl_spread": spread(kl),
        "p_diff": mean_and_error(p_diff),
        "p_diff_rms": {"value": rms, "standard_error": mean_and_error(p_diff**2)["standard_error"] / (2 * rms)},
        "p_diff_spread": spread(p_diff),
        "same_top": mean_and_error((log_probs.argmax(axis=-1) == base.argmax(axis=-1)).astype(np.float64)),
    }


def vocabulary(path: Path):
    """llama.cpp's vocabulary of a file, and its BOS where prompts get one."""
    lib.llama_log_set(QUIET, ctypes.c_void_p(0))
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise SystemExit(f"llama.cpp refuses {path}")
    vocab = lib.llama_model_get_vocab(model)
    return vocab, lib.llama_vocab_bos(vocab) if lib.llama_vocab_get_add_bos(vocab) else None


QUIET = lib.llama_log_callback(lambda level, text, data: None)


def llama_logits(path: Path, text: np.ndarray, bos: int | None) -> tuple[np.ndarray, np.ndarray]:
    """llama.cpp's logits of scored positions and the tokens after them; a window's others are dropped."""
    llama = Llama(str(path), text.shape[1])
    parts = [scored(row[None], llama.sequence(with_bos(row[None], bos)[0])[None]) for row in text]
    llama.close()
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def goldens(models: Path) -> None:
    """Exact logits of the F32 test model; the base is made of them, colder and with noise."""
    path, n_ctx = models / "F32.gguf", 24
    vocab, bos = vocabulary(path)
    tokens = tokenize(vocab, read_text(GOLDENS / "text.txt"))
    exact = Model(str(path))
    text = windows(tokens, n_ctx)
    rows, following = scored(text, exact.logits(with_bos(text, bos)))
    short, short_following = rows[:66], following[:66]  # six windows
    noise = np.random.default_rng(1).normal(size=short.shape)
    write_base(GOLDENS / "base.bin", text[:6], 0.8 * short + 0.5 * noise)
    _, base = read_base(GOLDENS / "base.bin")
    figures = {
        "tokens": len(tokens),
        "whole": perplexity(log_softmax(rows), following),
        "divergence": divergence(log_softmax(short), base, short_following),
    }
    (GOLDENS / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")

    # A vocabulary of odd size, a row beyond the depth of 16 and one without any difference.
    text = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    odd = np.array([[1.5, -2.25, 0.125, 3.0, -30.0], [0.5, 0.5, 0.5, 0.5, 0.5]], dtype=np.float32)
    write_base(GOLDENS / "odd.bin", text, odd)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    score = commands.add_parser("score")
    score.add_argument("model", type=Path)
    score.add_argument("text", type=Path)
    score.add_argument("-c", "--ctx-size", type=int, default=512)
    score.add_argument("--parse-special", action="store_true", help="text of special tokens is these tokens")
    score.add_argument("--save", type=Path, help="write the logits as a base")
    score.add_argument("--beside", type=Path, help="what `rustorch perplexity --json` printed")
    compare = commands.add_parser("compare")
    compare.add_argument("model", type=Path)
    compare.add_argument("base", type=Path)
    commands.add_parser("goldens").add_argument("models", type=Path)
    args = parser.parse_args()
    if args.command == "goldens":
        return goldens(args.models)
    vocab, bos = vocabulary(args.model)
    if args.command == "score":
        text = windows(tokenize(vocab, read_text(args.text), args.parse_special), args.ctx_size)
        rows, following = llama_logits(args.model, text, bos)
        if args.save:
            write_base(args.save, text, rows)
        figures = perplexity(log_softmax(rows), following)
        if args.beside:
            figures["beside"] = beside(log_softmax(rows), following, json.loads(args.beside.read_text()))
        print(json.dumps(figures, indent=1))
    else:
        text, base = read_base(args.base)
        rows, following = llama_logits(args.model, text, bos)
        print(json.dumps(divergence(log_softmax(rows), base, following), indent=1))


if __name__ == "__main__":
    main()
