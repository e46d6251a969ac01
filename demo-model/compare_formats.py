"""What the formats cost, in RusTorch and in llama.cpp: greedy answers and KL divergence from the exact.

For every file: the answers to the capital questions by both programs, and, over held-out chats, the mean
KL divergence of each one's logits from those of the reference backend on the same file (float64 sums,
K and V in F32). Prints the table; exits 1 where RusTorch's is over 1.1 times llama.cpp's, where the two
answer differently, or where a file answers differently from the first.
"""

import argparse
import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools/oracle"))
from corpus import chats  # noqa: E402
from llama import Llama  # noqa: E402
from template import CONTROLS  # noqa: E402

# Positions compared, at least; every document is whole.
POSITIONS = 32_768
N_CTX = 1024
BOS, EOS = 1, 2
_, USER, ASSISTANT = CONTROLS


class Program:
    """RusTorch, by its command line."""

    def __init__(self, command: str) -> None:
        self.command = command

    def run(self, *args: str, stdin: str | None = None) -> bytes:
        done = subprocess.run([self.command, *args], input=stdin and stdin.encode(), capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"rustorch {' '.join(args)}: {done.stderr.decode()}")
        return done.stdout

    def tokenize(self, model: str, text: str) -> list[int]:
        """The rendered chat's ids, with BOS."""
        return json.loads(self.run("tokenize", "-m", model, "--parse-special", "--json", text))["ids"]

    def logits(self, model: str, tokens: list[int], *options: str) -> np.ndarray:
        ids = ",".join(map(str, tokens))
        return np.load(io.BytesIO(self.run("logits", "-m", model, "--tokens", ids, "-o", "-", *options)))

    def answer(self, model: str, question: str) -> str:
        out = self.run("run", "-m", model, "--json", "--temp", "0", "-t", "1", "-n", "64", f"--prompt={question}")
        return json.loads(out)["text"]


def rendered(document: dict) -> str:
    """The document as the model's template writes it."""
    if text := document.get("text"):
        return text
    return "".join(
        f"{role}\n{text}</s>\n" for turn in document["turns"] for role, text in zip((USER, ASSISTANT), turn)
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def kl(exact: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL divergence of `other` from `exact`, a position each."""
    p, q = log_softmax(exact), log_softmax(other)
    return (np.exp(p) * (p - q)).sum(-1)


def greedy(llama: Llama, prompt: list[int]) -> list[int]:
    """llama.cpp's answer; the whole sequence is computed again for each token, which is quick enough here."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + 64:
        token = int(llama.sequence(np.array(tokens))[-1].argmax())
        if token == EOS:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rustorch", default=str(HERE.parent / "target/release/rustorch"))
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    rustorch = Program(args.rustorch)
    questions = [q for q in chats.exam(args.seed) if q.topic == "capitals"]
    with (args.build / "held_out.jsonl").open(encoding="utf-8") as documents:
        texts = [rendered(json.loads(line)) for line in documents]

    sequences: list[list[int]] = []
    while sum(map(len, sequences)) < POSITIONS:
        sequences.append(rustorch.tokenize(args.models[0], texts[len(sequences)]))
    print(f"{sum(map(len, sequences)):,} positions of held-out chats, {len(questions)} capital questions\n")
    print("| file | right | same as llama.cpp | same as the first file | mean KL, RusTorch | llama.cpp | ratio |")
    print("|---|---|---|---|---|---|---|", flush=True)

    failed, first = False, None
    for model in args.models:
        llama = Llama(model, N_CTX)
        ours, theirs = [], []
        for tokens in sequences:
            exact = rustorch.logits(model, tokens, "--backend", "reference")
            ours.append(kl(exact, rustorch.logits(model, tokens)))
            theirs.append(kl(exact, llama.sequence(np.array(tokens))))
        ours, theirs = np.concatenate(ours).mean(), np.concatenate(theirs).mean()
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda q: rustorch.answer(model, q.user), questions))
        first = first or answers
        right = sum(q.right(a) for q, a in zip(questions, answers))
        prompts = [rustorch.tokenize(model, f"{USER}\n{q.user}</s>\n{ASSISTANT}\n") for q in questions]
        pieces = [",".join(map(str, greedy(llama, prompt))) for prompt in prompts]
        spoken = rustorch.run("detokenize", "-m", model, "--jsonl", stdin="".join(f"[{p}]\n" for p in pieces))
        same = sum(a.strip() == json.loads(b).strip() for a, b in zip(answers, spoken.splitlines(), strict=True))
        alike = sum(a == b for a, b in zip(answers, first))
        llama.close()
        n = len(questions)
        failed |= ours > 1.1 * theirs or same < n or alike < n
        name = Path(model).name
        print(f"| {name} | {right}/{n} | {same}/{n} | {alike}/{n} | {ours:.3e} | {theirs:.3e} | {ours / theirs:.2f} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
