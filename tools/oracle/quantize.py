"""`rustorch quantize` beside llama.cpp's quantisation: makes docs/quantize.md and the goldens.

    cargo build --release
    python quantize.py [--rustorch PROGRAM]      # about ten minutes on two cores
    python quantize.py --goldens                 # only crates/{quant,quantize}/goldens

Exits 1 where tensors have other formats than llama.cpp's, where the squared error of a format is more than
1.01 times llama.cpp's, or where llama.cpp does not run the file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np

import imatrix_file
import llama_quantize
import small_llama
from llama import Llama
from quantize_goldens import make as make_goldens
from squared_error import FLOATS, squared_errors

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DEMO = ROOT / "demo-model"
PAGE = ROOT / "docs/quantize.md"
MOST = 1.01
SHAPE = small_llama.Shape(layers=8, width=512, heads=8, kv_heads=2, feed_forward=1536)
TOKENS = np.arange(3, 67, dtype=np.uint32)[None]
INTRODUCTION = """\
# Quantisation beside llama.cpp's

This page is written by `tools/oracle/quantize.py`, which fails where something here is beyond its limit. In
its folder:

{doc}
It was made with {versions}.

Both programs quantise the same files: a Llama of random weights ({shape}) and the demo model's F16 file,
each with and without an imatrix of random importance (of the former a `.dat`, of the latter a GGUF file).

*Formats*: whether every tensor has the format that llama.cpp gives it. *Error*: RusTorch's squared error over
llama.cpp's, summed over the tensors of a format; where a type has tensors of several formats, that of the
format in which it is largest. *Weighted* is with the weights that llama.cpp's search minimises by, *plain* with
none. Below 1 is better, the limit is {most}; logits and capitals have none. *Logits*: NMSE of the logits of
64 tokens and those of the file that was quantised, llama.cpp running either program's file. *Capitals*:
right answers of the demo model to the exam's questions for capitals, at temperature 0, of {questions}; only
without imatrix.
"""


class Ours:
    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, *args: str) -> str:
        done = subprocess.run([self.program, *args], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"rustorch {' '.join(args)}: {done.stderr}")
        return done.stdout


def tensors(path: Path) -> dict[str, gguf.ReaderTensor]:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def values(tensor: gguf.ReaderTensor) -> np.ndarray:
    """float32 [rows, columns]"""
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(-1, int(tensor.shape[0]))


def compare(source: Path, ours: Path, theirs: Path, importance: dict[str, np.ndarray]) -> tuple[bool, float, float]:
    """Whether formats are the same, and the largest ratio of weighted and of plain errors by format."""
    exact, left, right = tensors(source), tensors(ours), tensors(theirs)
    same = {name: t.tensor_type for name, t in left.items()} == {name: t.tensor_type for name, t in right.items()}
    sums: dict[str, np.ndarray] = {}
    for name, tensor in exact.items():
        kind = right[name].tensor_type
        if len(tensor.shape) < 2 or kind.name in FLOATS:
            continue
        x, columns = values(tensor), importance.get(name)
        errors = [squared_errors(kind.name, x, values(side[name]), columns) for side in (left, right)]
        # Tensors whose numbers are larger shall not outweigh the others.
        sums[kind.name] = sums.get(kind.name, 0.0) + np.array(errors) / (x.astype(np.float64) ** 2).mean()
    ratios = [ours / theirs for ours, theirs in sums.values()] or [np.ones(2)]
    weighted, plain = np.max(ratios, axis=0)
    return same, weighted, plain


def logits(path: Path) -> np.ndarray:
    llama = Llama(str(path), TOKENS.shape[1])
    found = llama.logits(TOKENS).astype(np.float64)
    llama.close()
    return found


def nmse(exact: np.ndarray, other: np.ndarray) -> float:
    return float(((exact - other) ** 2).sum() / (exact**2).sum())


def capitals(program: str, model: Path) -> int:
    """Right answers."""
    from exam import answer

    command = [program, "run", "--json", "--temp", "0", "-t", "1", "-n", "64", "-m", str(model)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda question: answer(command, question), questions())
        return sum(question.right(text) for question, (text, _) in zip(questions(), said))


def questions() -> list:
    from corpus import chats

    return [question for question in chats.exam(1) if question.topic == "capitals"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rustorch", default=str(ROOT / "target/release/rustorch"))
    parser.add_argument("--goldens", action="store_true", help="make only the goldens")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.goldens:
            make_goldens(ROOT, Path(folder))
            return
        sys.path.insert(0, str(DEMO))
        ours = Ours(args.rustorch)
        folder = Path(folder)
        random = folder / "random.gguf"
        small_llama.write(random, SHAPE, seed=1)
        page, fine = [], True
        for title, source in {"Random weights": random, "The demo model": DEMO / "rustorch-demo-f16.gguf"}.items():
            table, passed = one_source(ours, title, source, folder)
            page.append(table)
            fine &= passed
    shape = f"{SHAPE.layers} layers, {SHAPE.width} wide, {SHAPE.heads} heads that share {SHAPE.kv_heads} of keys and values"
    packages = ", ".join(f"{name} {version(name)}" for name in ("llama-cpp-python", "gguf", "numpy"))
    usage = "".join(f"{line}\n" for line in __doc__.splitlines() if line.startswith("    "))
    head = INTRODUCTION.format(
        doc=usage,
        versions=f"{ours.run('--version').strip()} and {packages}",
        shape=shape,
        most=MOST,
        questions=len(questions()),
    )
    PAGE.write_text(head + "".join(page))
    sys.exit(0 if fine else 1)


def one_source(ours: Ours, title: str, source: Path, folder: Path) -> tuple[str, bool]:
    """A section of the page, and whether all is within its limits."""
    rng = np.random.default_rng(2)
    matrices = {name: tensor for name, tensor in tensors(source).items() if len(tensor.shape) > 1}
    importance = {
        name: np.exp(rng.standard_normal(int(tensor.shape[0]))).astype(np.float32) for name, tensor in matrices.items()
    }
    is_demo = source.parent == DEMO
    matrix = folder / ("imatrix.gguf" if is_demo else "imatrix.dat")
    (imatrix_file.write_gguf if is_demo else imatrix_file.write_dat)(matrix, importance)
    exact = logits(source)
    asked = " capitals |" if is_demo else ""
    lines = [
        f"\n## {title}\n",
        f"| type | imatrix | formats | weighted error | plain error | logits, RusTorch | logits, llama.cpp |{asked}",
        "|---|---|---|---|---|---|---|" + ("---|" if is_demo else ""),
    ]
    fine = True
    for type_ in llama_quantize.TYPES:
        for known in (None, importance):
            mine, theirs = folder / "ours.gguf", folder / "theirs.gguf"
            with_matrix = ["--imatrix", str(matrix)] if known else []
            ours.run("quantize", str(source), str(mine), type_.lower(), *with_matrix)
            llama_quantize.quantize(source, theirs, type_, known)
            same, weighted, plain = compare(source, mine, theirs, known or {})
            mine_off, theirs_off = nmse(exact, logits(mine)), nmse(exact, logits(theirs))
            passed = same and max(weighted, plain) <= MOST and np.isfinite(mine_off)
            fine &= bool(passed)
            line = (
                f"| {type_} | {'yes' if known else 'no'} | {'equal' if same else '**other**'} "
                f"| {weighted:.3f} | {plain:.3f} | {mine_off:.1e} | {theirs_off:.1e} |"
            )
            if is_demo:
                line += f" {capitals(ours.program, mine)} |" if not known else " |"
            lines.append(line)
            print(title, line, "" if passed else "BEYOND THE LIMIT", flush=True)
    return "\n".join(lines) + "\n", fine


if __name__ == "__main__":
    main()
