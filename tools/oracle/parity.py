"""Compares RusTorch with llama.cpp, by value and by perplexity; writes docs/parity.md.

    cargo build --release
    cargo run -p rustorch-testkit --example models -- MODELS
    python ../../demo-model/make_formats.py --out MODELS q8_0 q5_k_m q4_k_m q4_0
    python parity.py MODELS [--rustorch PROGRAM]       # about ten minutes on two cores

Exits with 1 if values do not correspond, or if an operation or a perplexity exceeds its limit.
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
from families import HEADING
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
# Values without a counterpart in llama.cpp (see llama_cpp_trace.py), and the output of the program with taps.
OURS_ALONE = {"l_inp_outputs", "kqv_out_outputs", "result_output.tapped"}
# A matmul that llama.cpp names in the graphs of some architectures only; qwen2's has no name.
UNNAMED = "attn_out-"
# Limits: relative difference of perplexities for F16, paired standard errors for quantised models.
MOST_F16, MOST_ERRORS = 1e-3, 2.0
INTRODUCTION = """\
# Parity with llama.cpp

This page compares the values, the perplexity and the text of RusTorch with llama.cpp's, and its logits with an exact forward pass.
`tools/oracle/parity.py` writes it and fails if a result exceeds its limit. Run it in its folder:

{doc}
Measured with {versions}.

- llama.cpp: {theirs}
- RusTorch: {ours}

## Values

Both programs run the first {positions} tokens of a sequence and record all named values, with K and V in F16. The demo model runs
a held-out chat. The random models of `crates/testkit`, which cover all formats, run random tokens. `rustorch compare` then
recomputes each operation on the reference backend (f64 accumulation) from its recorded inputs. The difference is the *own error* of
the operation: NMSE = Σ(a−b)² / Σa², where `a` is the reference. Errors of the inputs do not count.

- **Limits**: {limits}. They apply to the whole value and, with a wider margin, to each row, column and element.
- **Rounding**: both programs quantise the inputs of matmuls with quantised weights to 8 bits; llama.cpp also rounds them to F16 or
  BF16 if the weights have that format. The expected rounding error follows from the recorded inputs and the weights. An error
  beyond the limit passes, too, if it is at most twice the expected rounding error; it is marked `*`. A systematic error, such as a
  gain or an offset, fails even within the limit.
- **Worst own error** is the largest one relative to its limit. **Logits** is the accumulated error of the output against a run of
  the reference backend.
- **RusTorch alone** has {alone}, and for qwen2 `attn_out`, which llama.cpp's graph of that architecture does not name. llama.cpp
  gathers the output rows after the `attn_out` matmul, RusTorch before it. `result_output.tapped` is the output of the run with taps,
  in which other operations may be fused.
"""
PERPLEXITY = """
## Perplexity

The text is {documents} held-out chats in the format of the demo model's template: {tokens:,} tokens (SHA-256 of the text:
{digest}…) in windows of {n_ctx}, of which the second half is scored. `rustorch perplexity`, and `perplexity.py` on llama.cpp's logits,
use the same token ids. *Difference* is RusTorch's mean negative log-likelihood minus llama.cpp's, in nats per token, with its paired
standard error over {scored:,} scored tokens. The limit is {most_f16:.1%} of the perplexity for F16 and {most_errors:g} standard errors for
quantised formats.
"""


class Program:
    """The rustorch program."""

    def __init__(self, command: str):
        self.command = command

    def run(self, *args: str | Path, allowed: tuple[int, ...] = (0,), stdin: str | None = None) -> str:
        done = subprocess.run([self.command, *map(str, args)], input=stdin, capture_output=True, text=True)
        if done.returncode not in allowed:
            raise SystemExit(f"rustorch {args[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def compare(self, trace: Path, reference: Path, model: Path) -> dict:
        """Exit status 1 means that the traces differ; the report says how."""
        return json.loads(self.run("compare", trace, reference, "-m", model, "--json", allowed=(0, 1)))


def table(*columns: str) -> str:
    return "\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n"


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


class Values:
    """The table of values and its failures."""

    def __init__(self, rustorch: Program):
        self.rustorch, self.limits, self.facts = rustorch, set(), {}
        self.wrong: list[str] = []
        self.text = table("model", "in both", "RusTorch alone", "llama.cpp alone", "worst own error, llama.cpp",
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
        faults = [f"{value} is in one trace only" for value in (alone[0] ^ expected) | alone[1]]
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
    judged = [value for value in report["values"] if value["own"]]
    value = max(judged, key=lambda value: value["own"]["nmse"] / value["limit"])
    nmse, limit = value["own"]["nmse"], value["limit"]
    return f"{nmse:.1e} of {limit:.0e}{'*' if nmse > limit else ''} at `{value['name']}`"


class Perplexities:
    """The table of perplexities and its failures."""

    def __init__(self, rustorch: Program):
        self.rustorch, self.wrong = rustorch, []
        documents = list(chats.chats(1, HELD_OUT, DOCUMENTS, 0, frozenset()))
        render = jinja2.Environment(keep_trailing_newline=True).from_string(CHAT_TEMPLATE).render
        # As in training, each document starts with BOS; the tokenizer adds it to the first.
        text = "<s>".join(
            d["text"] + "</s>" if "text" in d else render(messages=messages(d), eos_token="</s>") for d in documents
        )
        self.documents, self.written = len(documents), text.removesuffix("\n")
        self.tokens = self.scored = 0
        self.text = table("demo model", "RusTorch", "llama.cpp", "ratio − 1", "difference", "in standard errors",
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
    kind = {1e-6: "1e-6 for f32 operations", 5e-4: "5e-4 for matmuls with quantised weights",
            1e-5: "1e-5 for attention with K and V in F16"}  # fmt: skip
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
    families = PAGE.read_text(encoding="utf-8").partition(HEADING) if PAGE.exists() else ("", "", "")
    PAGE.write_text(page + scores.text + "\n" + "".join(families[1:]), encoding="utf-8")
    sys.exit("\n".join(values.wrong + scores.wrong) or 0)


if __name__ == "__main__":
    main()
