"""How far llama.cpp and RusTorch are from `exact.py` on small random models.

    python families.py DIR        # makes the models in DIR, and prints two tables for README.md; half a minute
    python families.py DIR --mistakes    # how far off mistakes would be, planted in the exact pass
    python families.py DIR --rustorch PROGRAM    # writes RusTorch's distances into docs/parity.md; a minute

llama.cpp has K and V in F32 and no flash attention; it takes all tokens at once, and one by one.
Embeddings are compared by every pooling, with all tokens at once. llama.cpp's GELU is a table of F16
results for arguments rounded to F16. Two things show that nothing else is of less than F32: the distance
from an exact pass with that function (in the last column; how one layer rounds depends on the errors of
those before, so it is shown best by two layers), and models with gates so steep that nearly all are
beyond the table, where GELU is x or 0.
"""

import argparse
import subprocess
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
        lengths = np.linalg.norm(exact, axis=-1) * np.linalg.norm(theirs, axis=-1)
        farthest = max(farthest, float(np.max(1 - np.sum(exact * theirs, axis=-1) / lengths)))
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
PAGE = Path(__file__).parents[2] / "docs/parity.md"
HEADING = "## Families"


def ours(program: Path, path: Path, tokens: np.ndarray) -> list[float] | None:
    """The NMSE of each run's logits; none if the model is refused."""
    ids = ",".join(str(token) for token in tokens[0])
    run = [program, "logits", "-m", path, "--tokens", ids, "--cache-type", "f32", "-c", str(POSITIONS)]
    return distances(run, Model(str(path)).logits(tokens)[0], path, RUNS)


def our_embeddings(program: Path, path: Path, tokens: np.ndarray) -> list[float] | None:
    """The largest NMSE of each run's embeddings by all poolings."""
    model, found = Model(str(path)), []
    ids = ",".join(str(token) for token in tokens[0])
    for pooling in poolings(model.family):
        run = [program, "embed", "-m", path, "--tokens", ids, "--pooling", pooling, "--normalize", "-1"]
        row = distances(run, model.embedding(tokens, pooling)[0], path, RUNS_OF_ENCODERS)
        if row is None:
            return None
        found.append(row)
    return [max(column) for column in zip(*found)]


def distances(run: list, exact: np.ndarray, path: Path, runs: list) -> list[float] | None:
    out, found = path.with_suffix(".npy"), []
    for column, options, limit in runs:
        ran = subprocess.run([*run, *options, "-o", out], capture_output=True, text=True)
        if ran.returncode:
            if "is not supported" not in ran.stderr:
                raise SystemExit(ran.stderr)
            print(ran.stderr.strip())
            return None
        found.append(nmse(exact, np.load(out).reshape(exact.shape)))
        if found[-1] > limit:
            raise SystemExit(f"{path.stem}, {column}: NMSE {found[-1]:.2e}, the limit is {limit:.0e}")
    return found


def table(runs: list, rows: list[tuple[str, list[float]]]) -> str:
    columns = [column for column, _, _ in runs]
    lines = [["model", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *([f"{value:.1e}" for value in found] or ["refused"] * len(columns))] for name, found in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_page(rows: list[tuple[str, list[float]]], embeddings: list[tuple[str, list[float]]]) -> None:
    """The tables of all families, which are the end of the page."""
    limits = ", ".join(f"{limit:.0e} for {column}" for column, _, limit in RUNS)
    text = f"""{HEADING}

Generated by `tools/oracle/families.py DIR --rustorch PROGRAM`: NMSE of the logits against an exact pass in float64, on
small random F32 models, over {POSITIONS} tokens, with K and V in F32. The limits are {limits}.

{table(RUNS, rows)}
The same for embeddings: the largest NMSE of all poolings (none, mean, first, last, and rank where the model can).

{table(RUNS_OF_ENCODERS, embeddings)}"""
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
        write_page(*(of_all(args.rustorch, found, tokens, run) for found, run in ((models, ours), (encoders, our_embeddings))))
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


def of_all(program: Path, models, tokens: np.ndarray, run) -> list[tuple[str, list[float]]]:
    rows = []
    for name, path in models:
        rows.append((name, run(program, path, tokens) or []))
        print(f"{name:32} " + "  ".join(f"{value:.2e}" for value in rows[-1][1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
