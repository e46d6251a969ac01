"""Compares `rustorch quantize` with llama.cpp's quantiser; writes docs/quantize.md and the goldens.

    cargo build --release
    python quantize.py [--rustorch PROGRAM]      # about ten minutes on two cores
    python quantize.py --goldens                 # only crates/{quant,convert}/goldens

Exits with 1 if the formats of tensors differ from llama.cpp's, if the squared error of a format exceeds 1.01 times
llama.cpp's, or if llama.cpp cannot run the file.
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
# The search of grids minimises the weighted error, which is far below llama.cpp's; the unweighted one may be a little above.
MOST_PLAIN_OF_GRIDS = 1.07
SHAPE = small_llama.Shape(layers=8, width=512, heads=8, kv_heads=2, feed_forward=1536)
TOKENS = np.arange(3, 67, dtype=np.uint32)[None]
INTRODUCTION = """\
# Quantisation compared with llama.cpp

This page compares the files of `rustorch quantize` with those of llama.cpp's quantiser. `tools/oracle/quantize.py` writes it and
fails if a result exceeds its limit. Run it in its folder:

{doc}
Measured with {versions}.

Both programs quantise the same two files, with and without an imatrix of random importance: a Llama with random weights ({shape};
the imatrix is a `.dat` file) and the demo model in F16 (the imatrix is a GGUF file).

| column | meaning | limit |
|---|---|---|
| formats | whether every tensor has the same format as in llama.cpp's file | equal |
| weighted error | RusTorch's squared error divided by llama.cpp's, with the error weights of llama.cpp's search; below 1 is better | {most} |
| unweighted error | the same without weights | {most}; {most_plain} for IQ1 to IQ3 |
| logits | NMSE of the logits over 64 tokens against the unquantised file; llama.cpp runs both programs' files | none |
| capitals | correct answers of the demo model to {questions} questions about capitals, at temperature 0, without imatrix | none |

Errors are summed over the tensors of a format. For a type that mixes formats, the format with the largest ratio counts.
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
    """Whether all formats match, and the largest ratios of weighted and unweighted errors over formats."""
    exact, left, right = tensors(source), tensors(ours), tensors(theirs)
    same = {name: t.tensor_type for name, t in left.items()} == {name: t.tensor_type for name, t in right.items()}
    sums: dict[str, np.ndarray] = {}
    for name, tensor in exact.items():
        kind = right[name].tensor_type
        if len(tensor.shape) < 2 or kind.name in FLOATS:
            continue
        x, columns = values(tensor), importance.get(name)
        errors = [squared_errors(kind.name, x, values(side[name]), columns) for side in (left, right)]
        # Normalised, so that tensors with larger values do not dominate.
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
    """Number of correct answers."""
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
    parser.add_argument("--goldens", action="store_true", help="write only the goldens")
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
    shape = f"{SHAPE.layers} layers, hidden size {SHAPE.width}, {SHAPE.heads} heads, {SHAPE.kv_heads} KV heads"
    packages = ", ".join(f"{name} {version(name)}" for name in ("llama-cpp-python", "gguf", "numpy"))
    usage = "".join(f"{line}\n" for line in __doc__.splitlines() if line.startswith("    "))
    head = INTRODUCTION.format(
        doc=usage,
        versions=f"{ours.run('--version').strip()} and {packages}",
        shape=shape,
        most=MOST,
        most_plain=MOST_PLAIN_OF_GRIDS,
        questions=len(questions()),
    )
    PAGE.write_text(head + "".join(page))
    sys.exit(0 if fine else 1)


def one_source(ours: Ours, title: str, source: Path, folder: Path) -> tuple[str, bool]:
    """A section of the page, and whether all results are within their limits."""
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
        f"| type | imatrix | formats | weighted error | unweighted error | logits, RusTorch | logits, llama.cpp |{asked}",
        "|---|---|---|---|---|---|---|" + ("---|" if is_demo else ""),
    ]
    fine = True
    for type_ in llama_quantize.TYPES:
        for known in (None, importance):
            if known is None and type_ in llama_quantize.NEED_IMATRIX:
                continue
            mine, theirs = folder / "ours.gguf", folder / "theirs.gguf"
            with_matrix = ["--imatrix", str(matrix)] if known else []
            ours.run("quantize", str(source), str(mine), type_.lower(), *with_matrix)
            llama_quantize.quantize(source, theirs, type_, known)
            same, weighted, plain = compare(source, mine, theirs, known or {})
            mine_off, theirs_off = nmse(exact, logits(mine)), nmse(exact, logits(theirs))
            is_grid = type_.startswith(("IQ1", "IQ2", "IQ3"))
            most_plain = MOST_PLAIN_OF_GRIDS if is_grid else MOST
            passed = same and weighted <= MOST and plain <= most_plain and np.isfinite(mine_off)
            fine &= bool(passed)
            line = (
                f"| {type_} | {'yes' if known else 'no'} | {'equal' if same else '**different**'} "
                f"| {weighted:.3f} | {plain:.3f} | {mine_off:.1e} | {theirs_off:.1e} |"
            )
            if is_demo:
                line += f" {capitals(ours.program, mine)} |" if not known else " |"
            lines.append(line)
            print(title, line, "" if passed else "BEYOND THE LIMIT", flush=True)
    return "\n".join(lines) + "\n", fine


if __name__ == "__main__":
    main()
