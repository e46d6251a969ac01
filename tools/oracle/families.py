"""How far llama.cpp and RusTorch are from `exact.py` on small random models.

    python families.py DIR        # makes the models in DIR, and prints two tables for README.md; half a minute
    python families.py DIR --mistakes    # how far off mistakes would be, planted in the exact pass
    python families.py DIR --rustorch PROGRAM    # writes RusTorch's distances into docs/parity.md; ten minutes

llama.cpp has K and V in F32 and no flash attention; it takes all tokens at once, and one by one.
Embeddings are compared by every pooling, with all tokens at once. llama.cpp's GELU is a table of F16
results for arguments rounded to F16. Two things show that nothing else is of less than F32: the distance
from an exact pass with that function (in the last column; how one layer rounds depends on the errors of
those before, so it is shown best by two layers), and models with gates so steep that nearly all are
beyond the table, where GELU is x or 0.
"""

import argparse
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from exact import Model
from forward.encoders import POOLINGS
from forward.llama import Llama as Family, gelu
from llama import Llama
from mistakes import MISTAKES, MISTAKES_OF_ENCODERS
from small_encoders import ENCODERS
from small_families import MODELS
from small_model import POSITIONS, VOCABULARY, Small, write


def gelu_of_llama_cpp(x: np.ndarray) -> np.ndarray:
    argument = np.clip(x, -10, 10).astype(np.float16).astype(np.float64)
    looked_up = gelu(argument).astype(np.float16).astype(np.float64)
    return np.where(np.abs(x) < 10, looked_up, np.maximum(x, 0))


def with_its_gelu(model: Model) -> Model:
    for name in ("activation", "head_activation"):
        if getattr(model.family, name) is gelu:
            setattr(model.family, name, gelu_of_llama_cpp)
    return model


def nmse(exact: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum((exact - other) ** 2) / np.sum(exact**2))


def placed(path: Path, name: str) -> Model:
    model = Model(str(path))
    model.family.first_position = MODELS[name].first_position
    return model


def show_distances(path: Path, name: str, tokens: np.ndarray) -> None:
    model = placed(path, name)
    exact = model.logits(tokens)
    theirs = []
    for batch in (POSITIONS, 1):
        llama = Llama(str(path), POSITIONS, threads=1, f32=True, batch=batch)
        theirs.append(llama.logits(tokens, model.family.first_position))
        llama.close()
    found = [nmse(exact, logits) for logits in theirs]
    if model.family.activation is gelu:
        found.append(nmse(with_its_gelu(model).logits(tokens), theirs[0]))
    found += [None] * (3 - len(found))
    show_row(f"{name} | {exact.std():.2f}", found)


def poolings(family: Family) -> list[str]:
    """Those that make sense: only some models can rank."""
    ranks = "cls.weight" in family.weights or "cls.output.weight" in family.weights
    return [pooling for pooling in POOLINGS if pooling != "rank" or ranks]


def show_distances_of_embeddings(path: Path, name: str, tokens: np.ndarray) -> None:
    """NMSE by each pooling, the largest 1 - cosine of all, and the largest NMSE with its GELU."""
    model, looked_up = Model(str(path)), with_its_gelu(Model(str(path)))
    found, corrected, farthest = {}, {}, 0.0
    for pooling in poolings(model.family):
        llama = Llama(str(path), POSITIONS, threads=1, f32=True, pooling=pooling)
        theirs = llama.embedding(tokens[0]).astype(np.float64)
        llama.close()
        exact = model.embedding(tokens, pooling)[0]
        found[pooling] = nmse(exact, theirs)
        farthest = max(farthest, angle(exact, theirs))
        if model.family.activation is gelu:
            corrected[pooling] = nmse(looked_up.embedding(tokens, pooling)[0], theirs)
    cells = [*(found.get(pooling) for pooling in POOLINGS), farthest, max(corrected.values(), default=None)]
    show_row(name, cells)


def show_row(name: str, cells: list[float | None]) -> None:
    print(f"| {name} | " + " | ".join("" if value is None else f"{value:.2e}" for value in cells) + " |", flush=True)


def show_mistakes(path: Path, name: str, tokens: np.ndarray) -> None:
    exact = placed(path, name).logits(tokens)
    for mistake, plant in MISTAKES.get(name, {}).items():
        model = placed(path, name)
        plant(model.family)
        print(f"{name:26} {mistake:32} {nmse(exact, model.logits(tokens)):.1e}", flush=True)


def show_mistakes_of_embeddings(path: Path, name: str, tokens: np.ndarray) -> None:
    """By the pooling that changes most."""
    right = Model(str(path))
    for mistake, plant in MISTAKES_OF_ENCODERS.get(name, {}).items():
        model = Model(str(path))
        plant(model.family)
        of_head = mistake.startswith("head: ")
        by = ["rank"] if of_head else [pooling for pooling in POOLINGS if pooling != "rank"]
        found = max(nmse(right.embedding(tokens, pooling), model.embedding(tokens, pooling)) for pooling in by)
        print(f"{name:32} {mistake:38} {found:.1e}", flush=True)


# RusTorch's runs: column, options, and the largest distance from the exact pass.
RUNS = [
    ("reference", ["--backend", "reference"], 1e-9),
    ("CPU", ["--backend", "cpu"], 1e-5),
    ("in steps of 37", ["--backend", "cpu", "-b", "37"], 1e-5),
    ("Vulkan", ["--backend", "vulkan"], 1e-5),
]
# Encoders take all tokens in one step.
RUNS_OF_ENCODERS = [run for run in RUNS if "-b" not in run[1]]
# The run that is compared with llama.cpp, the tokens that it generates, and the largest 1 - cosine of its embeddings.
CPU, GENERATED, LARGEST_ANGLE = 1, 64, 1e-6
PAGE = Path(__file__).parents[2] / "docs/parity.md"
HEADING = "## Families"


@dataclass(frozen=True)
class Row:
    """A line of a table; `cells` is empty if the model is refused. `notes` say what differs from llama.cpp, and why."""

    name: str
    cells: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def in_ids(tokens: np.ndarray | list[int]) -> str:
    return ",".join(str(token) for token in tokens)


def of_logits(program: Path, name: str, path: Path, tokens: np.ndarray) -> Row:
    """The NMSE of each run's logits, and how much greedy text is llama.cpp's."""
    run = [program, "logits", "-m", path, "--tokens", in_ids(tokens[0]), "--cache-type", "f32", "-c", str(POSITIONS)]
    exact = Model(str(path)).logits(tokens)[0]
    found = results(run, exact.shape, path, RUNS)
    if not found:
        return Row(name)
    text, notes = greedy(program, name, path, tokens[0])
    cell = f"{GENERATED - len(notes)} of {GENERATED}, {len(set(text))}"
    return Row(name, [*distances(name, exact, found, RUNS), cell], notes)


def greedy(program: Path, name: str, path: Path, prompt: np.ndarray) -> tuple[list[int], list[str]]:
    """The tokens after a prompt, and which are not llama.cpp's. Where they are not, RusTorch's must be the exact pass's, which
    is then part of the prompt of both."""
    llama = Llama(str(path), POSITIONS + GENERATED, threads=1, f32=True, batch=POSITIONS)
    text, notes = [int(token) for token in prompt], []
    while (rest := POSITIONS + GENERATED - len(text)) > 0:
        run = [program, "run", "-m", path, "--tokens", in_ids(text), "--temperature", "0", "--ignore-eos", "--json", "-n", str(rest),
               "-c", str(POSITIONS + GENERATED), "--cache-type", "f32", *RUNS[CPU][1]]  # fmt: skip
        ours = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)["ids"]
        theirs = llama.greedy(text, rest)
        assert len(ours) == len(theirs) == rest
        same = next((i for i in range(rest) if ours[i] != theirs[i]), rest)
        text += ours[:same]
        if same < rest:
            notes.append(parting(name, path, text, llama, ours[same], theirs[same]))
            text.append(ours[same])
    llama.close()
    return text[POSITIONS:], notes


def parting(name: str, path: Path, text: list[int], llama: Llama, ours: int, theirs: int) -> str:
    """Says how near two tokens come, of which RusTorch's must be the exact pass's."""
    exact = Model(str(path)).logits(np.array([text]))[0, -1]
    last = llama.sequence(np.array(text), 0)[-1].astype(np.float64)
    gap, error = exact[ours] - exact[theirs], np.abs(last - exact).max()
    what = (f"{name}: token {len(text) - POSITIONS + 1} is {ours}, llama.cpp's {theirs}. Their exact logits are {gap:.1e} apart, "
            f"llama.cpp's error is up to {error:.1e}")  # fmt: skip
    exact[llama.ends] = -np.inf
    if exact.argmax() != ours or gap > 2 * error:
        raise SystemExit(f"{what}; the exact pass has {exact.argmax()}")
    return what + "."


def of_embeddings(program: Path, name: str, path: Path, tokens: np.ndarray) -> Row:
    """The largest NMSE of each run's embeddings by all poolings, and the largest 1 - cosine to llama.cpp's."""
    model, largest, angles, notes = Model(str(path)), [], [], []
    for pooling in poolings(model.family):
        run = [program, "embed", "-m", path, "--tokens", in_ids(tokens[0]), "--pooling", pooling, "--normalize", "-1"]
        exact = model.embedding(tokens, pooling)[0]
        found = results(run, exact.shape, path, RUNS_OF_ENCODERS)
        if not found:
            return Row(name)
        largest.append([nmse(exact, values) for values in found])
        distances(name, exact, found, RUNS_OF_ENCODERS)
        llama = Llama(str(path), POSITIONS, threads=1, f32=True, pooling=pooling)
        theirs = llama.embedding(tokens[0]).astype(np.float64)
        llama.close()
        angles.append(angle(found[CPU], theirs))
        if angles[-1] > LARGEST_ANGLE:
            looked_up = with_its_gelu(Model(str(path))).embedding(tokens, pooling)[0]
            notes.append(f"{name}, pooling `{pooling}`: 1 − cosine of llama.cpp's embedding is {angles[-1]:.1e} to RusTorch's and "
                         f"{angle(exact, theirs):.1e} to the exact pass's. It is {angle(looked_up, theirs):.1e} to that of an exact pass "
                         "with llama.cpp's GELU.")  # fmt: skip
            if angle(looked_up, theirs) > LARGEST_ANGLE or model.family.activation is not gelu:
                raise SystemExit(notes[-1])
    return Row(name, [*(f"{max(column):.1e}" for column in zip(*largest)), f"{max(angles):.1e}"], notes)


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """The largest 1 - cosine of two rows."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return float(np.max(1 - np.sum(a * b, axis=-1) / lengths))


def results(run: list, shape: tuple[int, ...], path: Path, runs: list) -> list[np.ndarray]:
    """The results of each run; none if the model is refused."""
    out, found = path.with_suffix(".npy"), []
    for _, options, _ in runs:
        ran = subprocess.run([*run, *options, "-o", out], capture_output=True, text=True)
        if ran.returncode:
            if "is not supported" not in ran.stderr:
                raise SystemExit(ran.stderr)
            print(ran.stderr.strip())
            return []
        found.append(np.load(out).reshape(shape))
    return found


def distances(name: str, exact: np.ndarray, found: list[np.ndarray], runs: list) -> list[str]:
    """The NMSE of each run, none of which may exceed its limit."""
    far = [nmse(exact, values) for values in found]
    for value, (column, _, limit) in zip(far, runs):
        if value > limit:
            raise SystemExit(f"{name}, {column}: NMSE {value:.2e}, the limit is {limit:.0e}")
    return [f"{value:.1e}" for value in far]


def table(columns: list[str], rows: list[Row]) -> str:
    lines = [["model", *columns], ["---"] * (len(columns) + 1)]
    lines += [[row.name, *(row.cells or ["refused"] * len(columns))] for row in rows]
    notes = "".join(f"- {note}\n" for row in rows for note in row.notes)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{notes}" if notes else "")


def write_page(rows: list[Row], embeddings: list[Row]) -> None:
    """The tables of all families, which are the end of the page."""
    limits = ", ".join(f"{limit:.0e} ({column})" for column, _, limit in RUNS)
    text = f"""{HEADING}

`tools/oracle/families.py DIR --rustorch PROGRAM` writes this section. The first columns are the NMSE of the logits against an exact
forward pass in float64, on small random F32 models, over {POSITIONS} tokens, with K and V in F32.
*In steps of 37* is the CPU backend with at most 37 tokens per step. The limits are {limits}.

*Greedy* continues the text by {GENERATED} tokens, each the most probable one that does not end the text. The column says how many of
them are llama.cpp's, and how many different tokens there are. If two tokens are equally probable to llama.cpp's precision, it may
choose another one than the exact pass; a note then says so, and both programs continue with the token of the exact pass. RusTorch must
always choose the token of the exact pass.

{table([*(column for column, _, _ in RUNS), "greedy"], rows)}
The next table is about embeddings. The first columns are the largest NMSE over all poolings (none, mean, first, last, and rank where the
model has it). *1 − cosine* is the largest one between RusTorch's embeddings or scores on the CPU and llama.cpp's; the limit is
{LARGEST_ANGLE:.0e}. If it is larger because llama.cpp looks up GELU in a table in F16, a note says so.

{table([*(column for column, _, _ in RUNS_OF_ENCODERS), "1 − cosine"], embeddings)}"""
    PAGE.write_text(PAGE.read_text(encoding="utf-8").split(HEADING)[0].rstrip() + "\n\n" + text, encoding="utf-8")


def made(folder: Path, models: dict[str, Small], first_seed: int = 0):
    """Names and files."""
    for seed, (name, small) in enumerate(models.items(), first_seed):
        path = folder / f"{name.replace(', ', '-').replace(' ', '-')}.gguf"
        write(path, small, seed)
        yield name, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--mistakes", action="store_true")
    parser.add_argument("--rustorch", metavar="PROGRAM", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    tokens = np.random.default_rng(20240229).integers(VOCABULARY, size=(1, POSITIONS))
    models, encoders = made(args.folder, MODELS), made(args.folder, ENCODERS, 1000)
    if args.rustorch:  # whose command begins at position 0
        models = ((name, path) for name, path in models if not MODELS[name].first_position)
        write_page(*(of_all(args.rustorch, found, tokens, run) for found, run in ((models, of_logits), (encoders, of_embeddings))))
        return
    if not args.mistakes:
        print("| model | standard deviation of the logits | NMSE, all tokens at once | one by one | with llama.cpp's GELU |")
        print("|---|---|---|---|---|")
    for name, path in models:
        (show_mistakes if args.mistakes else show_distances)(path, name, tokens)
    if not args.mistakes:
        print(f"\n| model | NMSE, {' | '.join(POOLINGS)} | largest 1 − cosine | largest NMSE with llama.cpp's GELU |")
        print("|---" * (len(POOLINGS) + 3) + "|")
    for name, path in encoders:
        (show_mistakes_of_embeddings if args.mistakes else show_distances_of_embeddings)(path, name, tokens)


def of_all(program: Path, models, tokens: np.ndarray, measure) -> list[Row]:
    rows = []
    for name, path in models:
        rows.append(measure(program, name, path, tokens))
        print(f"{name:32} " + "  ".join(rows[-1].cells), *rows[-1].notes, sep="\n    ", flush=True)
    return rows


if __name__ == "__main__":
    main()
