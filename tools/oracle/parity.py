"""RusTorch beside llama.cpp, value by value and by perplexity: makes docs/parity.md.

    cargo build --release
    cargo run -p rustorch-testkit --example models -- MODELS
    python ../../demo-model/make_formats.py --out MODELS q8_0 q5_k_m q4_k_m q4_0
    python parity.py MODELS [--rustorch PROGRAM]       # about ten minutes on two cores

Exits 1 where a value does not line up, an operation is beyond its limit, or a perplexity is.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import jinja2
import numpy as np

import trace_file
from demo import DEMO, OUT, messages
from perplexity import beside, llama_logits, log_softmax, perplexity, tokenize, vocabulary, windows

from corpus import chats  # isort: skip, demo.py says where it is
from corpus.core import HELD_OUT  # isort: skip
from template import CHAT_TEMPLATE  # isort: skip

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/parity.md"
POSITIONS, N_CTX, DOCUMENTS = 32, 512, 200
DEMO_FORMATS = ["f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"]
SCORED_FORMATS = ["f16", "q8_0", "q6_k", "q4_k_m", "q4_0"]
# Values that llama.cpp has no name for, as llama_cpp_trace.py says, and the output of the watched program.
OURS_ALONE = {"l_inp_wanted", "kqv_out_wanted", "result_output.tapped"}
# A product that llama.cpp names in the graphs of some architectures and not in others, such as qwen2's.
UNNAMED = "attn_out-"
# Largest relative difference of perplexities in F16; of quantised models, paired standard errors.
MOST_F16, MOST_ERRORS = 1e-3, 2.0
INTRODUCTION = """\
# Parity with llama.cpp

This page is written by `tools/oracle/parity.py`, which fails where something here is beyond its limit. In
its folder:

{doc}
It was made with {versions}.

- llama.cpp: {theirs}
- RusTorch: {ours}

## Value by value

Both programs run the first {positions} tokens of a sequence: of a held-out chat for the demo model, of
random ones for the random models of `crates/testkit`, which have all formats. Every value that either of
them names is recorded, K and V in F16, and `rustorch compare` computes each operation again on the
reference backend (sums in float64) from the inputs that were recorded. What it finds is an operation's
*local* error, NMSE = Σ(a−b)² / Σa² with a the reference; what comes with the inputs does not count.

Limits are {limits}.
They hold for the value as a whole and, wider, for each of its rows, columns and numbers. Both programs round the inputs of a product with quantised weights to 8 bits; llama.cpp rounds
them to F16 or BF16 where weights are in these. What that must cost follows from the recorded input and the
weights, and up to twice as much is no fault even where it is beyond the limit: such a value bears a `*`.
What strays to one side, a gain or an offset, is a fault even within the limit.

*Worst local error* is that nearest to or furthest beyond its limit. *Logits* is the accumulated error of
the output against the reference backend's run. In RusTorch alone are
{alone}, and of qwen2 `attn_out`, which llama.cpp's graph gives no name there: llama.cpp
takes the rows whose logits are wanted after the product `attn_out`, RusTorch before it, and the last is
the output while values are watched, where fused programs may differ.
"""
PERPLEXITY = """
## Perplexity

The demo model on {documents} held-out chats, as its template writes them: {tokens:,} tokens
(the text's SHA-256 begins with {digest}), in windows of {n_ctx}, of which the second half is scored. `rustorch perplexity` and `perplexity.py` on llama.cpp's
logits get the same token ids. The difference is that of the mean negative log-likelihoods, in nats a
token, RusTorch's less llama.cpp's, with its paired standard error over {scored:,} scored tokens. The limit
is {most_f16:.1%} of the perplexity in F16 and {most_errors:g} standard errors in quantised formats.
"""


class Program:
    """RusTorch, by its command line."""

    def __init__(self, command: str):
        self.command = command

    def run(self, *args: str | Path, allowed: tuple[int, ...] = (0,), stdin: str | None = None) -> str:
        done = subprocess.run([self.command, *map(str, args)], input=stdin, capture_output=True, text=True)
        if done.returncode not in allowed:
            raise SystemExit(f"rustorch {args[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def compare(self, trace: Path, reference: Path, model: Path) -> dict:
        """Exit status 1 says that they differ, as the report does."""
        return json.loads(self.run("compare", trace, reference, "-m", model, "--json", allowed=(0, 1)))


def table(*columns: str) -> str:
    return "\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n"


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


class Values:
    """The table of values, and what is wrong in it."""

    def __init__(self, rustorch: Program):
        self.rustorch, self.limits, self.facts = rustorch, set(), {}
        self.wrong: list[str] = []
        self.text = table("model", "in both", "RusTorch alone", "llama.cpp alone", "worst local error, llama.cpp",
                          "RusTorch", "logits, llama.cpp", "RusTorch", "verdict")  # fmt: skip

    def add(self, name: str, model: Path, tokens: np.ndarray) -> None:
        ids = ",".join(map(str, tokens))
        with tempfile.TemporaryDirectory() as folder:
            traces = {who: Path(folder, who) for who in ("llama.cpp", "cpu", "reference")}
            script = [sys.executable, HERE / "llama_cpp_trace.py", model, "--tokens", ids, "-o", traces["llama.cpp"]]
            subprocess.run(script, check=True)
            for backend in ("cpu", "reference"):
                self.rustorch.run("trace", "-m", model, "--tokens", ids, "--backend", backend, "-o", traces[backend])
            shapes = {}
            for who in ("llama.cpp", "cpu"):
                meta, values = trace_file.read(str(traces[who]))
                self.facts[who] = meta["facts"]
                shapes[who] = {value: data.shape for value, data in values.items()}
            theirs, ours = (
                self.rustorch.compare(traces[who], traces["reference"], model) for who in ("llama.cpp", "cpu")
            )
        alone = [shapes["cpu"].keys() - shapes["llama.cpp"], shapes["llama.cpp"].keys() - shapes["cpu"]]
        both = shapes["cpu"].keys() & shapes["llama.cpp"]
        expected = OURS_ALONE
        if not any(value.startswith(UNNAMED) for value in shapes["llama.cpp"]):
            expected = expected | {value for value in shapes["cpu"] if value.startswith(UNNAMED)}
        faults = [f"{value} is in one alone" for value in (alone[0] ^ expected) | alone[1]]
        faults += [f"{value} has two shapes" for value in both if shapes["cpu"][value] != shapes["llama.cpp"][value]]
        for who, report in (("llama.cpp", theirs), ("RusTorch", ours)):
            assert report["method"] == "replay" and report["positions"] == POSITIONS
            faults += [f"{v['name']} of {who}: {v['verdict']}" for v in report["values"] if v["verdict"] != "right"]
            faults += [] if report["alike"] else [f"{who} differs, first in {report['first']['name']}"]
            self.limits |= {value["limit"] for value in report["values"] if value["limit"] is not None}
        self.wrong += [f"{name}: {fault}" for fault in faults]
        logits = [f"{accumulated(report, 'result_output'):.1e}" for report in (theirs, ours)]
        self.text += line(name, len(both), len(alone[0]), len(alone[1]), worst(theirs), worst(ours), *logits,
                          "differ" if faults else "alike")  # fmt: skip
        print(name, faults, flush=True)


def accumulated(report: dict, name: str) -> float:
    return next(value for value in report["values"] if value["name"] == name)["accumulated"]["nmse"]


def worst(report: dict) -> str:
    judged = [value for value in report["values"] if value["local"]]
    value = max(judged, key=lambda value: value["local"]["nmse"] / value["limit"])
    nmse, limit = value["local"]["nmse"], value["limit"]
    return f"{nmse:.1e} of {limit:.0e}{'*' if nmse > limit else ''} at `{value['name']}`"


class Perplexities:
    """The table of perplexities, and what is wrong in it."""

    def __init__(self, rustorch: Program):
        self.rustorch, self.wrong = rustorch, []
        documents = list(chats.chats(1, HELD_OUT, DOCUMENTS, 0, frozenset()))
        render = jinja2.Environment(keep_trailing_newline=True).from_string(CHAT_TEMPLATE).render
        # As in training: BOS before each document, which the tokenizer puts before the first.
        text = "<s>".join(
            d["text"] + "</s>" if "text" in d else render(messages=messages(d), eos_token="</s>") for d in documents
        )
        self.documents, self.written = len(documents), text.removesuffix("\n")
        self.tokens = self.scored = 0
        self.text = table("demo model", "RusTorch", "llama.cpp", "ratio less 1", "difference", "in standard errors",
                          "verdict")  # fmt: skip

    def add(self, form: str, model: Path) -> None:
        vocab, bos = vocabulary(model)
        tokens = tokenize(vocab, self.written, True)
        ids = self.rustorch.run("tokenize", "-m", model, "--parse-special", "--json", stdin=self.written)
        if json.loads(ids)["ids"] != tokens:
            self.wrong.append(f"{form}: other token ids than llama.cpp's")
        said = self.rustorch.run("perplexity", "-m", model, "-f", "-", "--parse-special", "-c", str(N_CTX), "--json",
                                 "--backend", "cpu", stdin=self.written)  # fmt: skip
        ours = json.loads(said)
        logits, following = llama_logits(model, windows(tokens, N_CTX), bos)
        log_probs = log_softmax(logits)
        theirs, apart = perplexity(log_probs, following), beside(log_probs, following, ours)
        ratio, errors = apart["perplexity_ratio_less_1"], apart["standard_errors"]
        right = abs(ratio) <= MOST_F16 if form == "f16" else errors <= MOST_ERRORS
        if not right:
            self.wrong.append(f"{form}: perplexity {ratio:+.3%}, {errors:.2f} standard errors")
        difference = apart["nll_difference"]
        self.tokens, self.scored = len(tokens), theirs["scored_tokens"]
        self.text += line(form.upper(), *(f"{found['perplexity']['value']:.5f}" for found in (ours, theirs)),
                          f"{ratio:+.4%}", f"{difference['value']:+.1e} ± {difference['standard_error']:.1e}",
                          f"{errors:.2f}", "alike" if right else "differ")  # fmt: skip
        print(form, f"{ratio:+.5%}", errors, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, metavar="MODELS")
    parser.add_argument("--rustorch", default=str(HERE.parents[1] / "target/release/rustorch"))
    args = parser.parse_args()
    rustorch = Program(args.rustorch)
    random = sorted(path for path in args.models.glob("*.gguf") if "demo" not in path.stem)
    committed = {form: DEMO / f"rustorch-demo-{form}.gguf" for form in DEMO_FORMATS}
    demo = {form: path if path.exists() else args.models / path.name for form, path in committed.items()}
    random_tokens, demo_tokens = (np.load(OUT / f"{name}.npy")[0, :POSITIONS] for name in ("tokens", "demo.tokens"))

    values = Values(rustorch)
    for form, path in demo.items():
        values.add(f"demo, {form.upper()}", path, demo_tokens)
    for path in random:
        values.add(f"random, {path.stem}", path, random_tokens)
    scores = Perplexities(rustorch)
    for form in SCORED_FORMATS:
        scores.add(form, demo[form])

    packages = ", ".join(f"{name} {version(name)}" for name in ("llama-cpp-python", "gguf", "numpy"))
    kind = {1e-6: "1e-6 for what is done in f32", 5e-4: "5e-4 for products with quantised weights",
            1e-5: "1e-5 for attention over K and V in F16"}  # fmt: skip
    limits = ", ".join(kind.get(limit, f"{limit:.0e}") for limit in sorted(values.limits))
    steps = "".join(f"{step}\n" for step in __doc__.splitlines() if step.startswith("    "))
    page = INTRODUCTION.format(
        doc=steps, versions=f"{rustorch.run('--version').strip()} and {packages}", positions=POSITIONS, limits=limits,
        theirs=values.facts["llama.cpp"].strip(" |"), ours=values.facts["cpu"],
        alone=", ".join(f"`{name}`" for name in sorted(OURS_ALONE)),
    )  # fmt: skip
    page += values.text + PERPLEXITY.format(
        documents=scores.documents, tokens=scores.tokens, n_ctx=N_CTX, scored=scores.scored, most_f16=MOST_F16,
        most_errors=MOST_ERRORS, digest=hashlib.sha256(scores.written.encode()).hexdigest()[:16],
    )  # fmt: skip
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page + scores.text, encoding="utf-8")
    sys.exit("\n".join(values.wrong + scores.wrong) or 0)


if __name__ == "__main__":
    main()
