"""The cost of quantisation in RusTorch and llama.cpp: greedy answers, and KL divergence from exact logits.

For each file: both programs' answers to the capital questions, and the mean KL divergence of their logits over held-out
chats from the reference backend on the same file (float64 accumulation, K and V in F32). Prints the table. Exits with 1
if RusTorch's divergence exceeds 1.1 times llama.cpp's, if their answers differ, or if the answers of a file differ from
those of the first.
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

# Minimum number of positions; documents are complete.
POSITIONS = 16_384
N_CTX = 1024
EOS = 2
SYSTEM, USER, ASSISTANT = CONTROLS


class Program:
    """The rustorch program."""

    def __init__(self, command: str) -> None:
        self.command = command

    def run(self, *args: str, stdin: str | None = None) -> bytes:
        done = subprocess.run([self.command, *args], input=stdin and stdin.encode(), capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"rustorch {' '.join(args)}: {done.stderr.decode()}")
        return done.stdout

    def tokenize(self, model: str, text: str) -> list[int]:
        """Token ids of the rendered chat, with BOS."""
        return json.loads(self.run("tokenize", "-m", model, "--parse-special", "--json", text))["ids"]

    def logits(self, model: str, tokens: list[int], *options: str) -> np.ndarray:
        ids = ",".join(map(str, tokens))
        return np.load(io.BytesIO(self.run("logits", "-m", model, "--tokens", ids, "-o", "-", *options)))

    def answer(self, model: str, question: str) -> str:
        out = self.run("run", "-m", model, "--json", "--temp", "0", "-t", "1", "-n", "64", f"--prompt={question}")
        return json.loads(out)["text"]


def rendered(document: dict) -> str:
    """The document in the format of the model's template."""
    if text := document.get("text"):
        return text
    said = [(SYSTEM, document["system"])] if "system" in document else []
    said += [said for turn in document["turns"] for said in zip((USER, ASSISTANT), turn)]
    return "".join(f"{role}\n{text}</s>\n" for role, text in said)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def kl(exact: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL divergence of `other` from `exact`, per position."""
    p, q = log_softmax(exact), log_softmax(other)
    return (np.exp(p) * (p - q)).sum(-1)


def greedy(llama: Llama, prompt: list[int]) -> list[int]:
    """llama.cpp's answer; recomputes the whole sequence for each token, which is fast enough here."""
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
    print("| file | correct | same as llama.cpp | same as the first file | mean KL, RusTorch | llama.cpp | ratio |")
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
