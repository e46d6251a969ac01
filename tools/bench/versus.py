"""RusTorch's speed beside llama.cpp's on the same files, alternating; writes ../../docs/benchmarks.md.

    cargo build --release
    python versus.py                              # all of it; --help lists the options
    python versus.py --types Q8_0 --resume        # one format, what is missing of it
    python versus.py --parts experts --rounds 5   # one section of the page
    python versus.py --render                     # only the document, from what was measured before

A round runs each program once on each format, in a process of its own: RusTorch first, then the other way
round (ABBA). llama.cpp runs with and without repacked weights in the first three rounds; the better setting
of each test is what RusTorch is held against, and runs alone in the rounds after. Each run is a line of
the file of results, so that a run that was broken off goes on with --resume. Ceilings are measured beside
RusTorch's first and last round.

--parts chooses what is measured; the page keeps the sections of the others:
- versus: the formats of --types, every number of threads.
- depth: RusTorch alone, with tokens before.
- avx2: beside `--isa avx2`, where --avx2-python names an interpreter whose llama.cpp was built without AVX-512.
- formats: the other formats, on the most threads.
- experts: mixtures of experts, SHAPE/LAYERS:TYPE, on the most threads.

Models that are not there are made by `rustorch synth`. Needs the packages of ../oracle/requirements.txt.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import render

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUSTORCH = ROOT / "target/release/rustorch"
FLOATS = ("F16", "BF16")
TYPES = ("Q4_K_M", "Q8_0", "Q4_0", "Q5_K_M", "Q6_K", *FLOATS)
FORMATS = ("IQ4_XS", "IQ4_NL", "IQ3_S", "IQ3_XXS", "IQ2_M", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0")
EXPERTS = ("qwen3-30b-a3b/12:Q4_K_M", "gpt-oss-20b/12:MXFP4", "mixtral-8x7b/8:Q4_K_M")
PARTS = ("versus", "depth", "avx2", "formats", "experts")
# Rounds in which llama.cpp runs both ways.
BOTH_WAYS = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: [name.strip() for name in text.split(",")]  # noqa: E731
    upper = lambda text: names(text.upper())  # noqa: E731
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    add = parser.add_argument
    add("--parts", type=names, default=list(PARTS), help="what to measure, such as depth,experts [default: all]")
    add("--types", type=upper, default=list(TYPES), help="formats, such as Q8_0,F16 [default: all]")
    add("--formats", type=upper, default=list(FORMATS), help="of the part of this name [default: all]")
    add("--experts", type=names, default=list(EXPERTS), help="models of the part of this name [default: all]")
    add("--shape", default="tinyllama-1.1b", help="of the models without experts, as `rustorch synth` names it")
    add("--models", default=str(ROOT / "target/bench/{shape}-{type}.gguf"), help="path of the model files")
    add("--threads", type=numbers, default=[1, 2])
    add("--prompt", type=int, default=512, help="tokens of a prompt")
    add("--new", type=int, default=64, help="tokens to generate")
    add("--rounds", type=int, default=10)
    add("--depth", type=int, default=4096, help="tokens before, where RusTorch runs alone")
    add("--depth-rounds", type=int, default=2)
    add("--avx2-python", help="interpreter with a llama.cpp without AVX-512")
    add("--avx2-types", type=upper, default=["Q4_K_M", "Q8_0"])
    add("--results", type=Path, default=ROOT / "target/bench/versus.jsonl", help="a line for each run")
    add("--resume", action="store_true", help="keep what is in the file of results")
    add("--render", action="store_true", help="measure nothing")
    add("--doc", type=Path, default=ROOT / "docs/benchmarks.md")
    add("--notes", type=Path, default=ROOT / "docs/benchmarks.notes.md", help="text that the document ends with")
    args = parser.parse_args()
    for given, known in ((args.parts, PARTS), ([*args.types, *args.avx2_types], TYPES), (args.formats, FORMATS)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"{', '.join(unknown)}: there are {', '.join(known)}")
    return args


@dataclass(frozen=True)
class Run:
    """One process. `type` names the model: its format, or SHAPE/LAYERS:TYPE. `repack` is llama.cpp's setting; None is
    RusTorch."""

    part: str
    type: str
    round: int
    repack: bool | None


class Results:
    """The lines of the file of results."""

    def __init__(self, path: Path, keep: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not keep and path.exists():
            path.rename(path.with_name(path.name + ".old"))
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, line: dict) -> None:
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def runs(self) -> set[Run]:
        return {Run(*(line[name] for name in ("part", "type", "round", "repack"))) for line in self.lines if "part" in line}


def output(command: list) -> str:
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{ran.stderr}")
    return ran.stdout


def ours(args, model: Path, *, threads: list[int], new: int, depth: int = 0, rounds: int = 1, ceilings: bool, isa: str | None) -> dict:
    command = [RUSTORCH, "bench", "-m", model, "-p", args.prompt, "-n", new, "-d", depth, "-r", rounds, "-o", "json"]
    command += ["--backend", "cpu", "-t", ",".join(map(str, threads))]
    command += [] if ceilings else ["--no-ceilings"]
    command += ["--isa", isa] if isa else []
    rows = json.loads(output(command))
    if any(row["no_repack"] for row in rows):
        sys.exit("RUSTORCH_NO_REPACK or the configuration file leaves weights where they are; unset it")
    return {"rows": rows}


def theirs(python: str, model: Path, tests: list[str], repack: bool) -> dict:
    command = [python, HERE / "speed.py", model, *tests]
    return json.loads(output(command if repack else [*command, "--no-repack"]))


def model_of(args, kind: str) -> Path:
    """The file of a format, or of SHAPE/LAYERS:TYPE."""
    shape, _, kind = kind.rpartition(":")
    name, _, layers = (shape or args.shape).partition("/")
    path = Path(args.models.format(shape=f"{name}-{layers}" if layers else name, type=kind.lower()))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {path}", file=sys.stderr)
        output([RUSTORCH, "synth", name, path, kind, *(["--layers", layers] if layers else [])])
    return path


def side_by_side(args, results: Results, part: str, kind: str, python: str, isa: str | None) -> None:
    """The rounds of one format."""
    model = model_of(args, kind)
    new = 0 if kind in FLOATS else args.new
    names = [f"pp{args.prompt}"] + [f"tg{new}"] * bool(new)
    threads = [max(args.threads)] if part in ("formats", "experts") else args.threads
    tests = [f"{count}:{name}" for count in threads for name in names]
    for number in range(args.rounds):
        ways = {False: tests, True: tests}
        if number >= BOTH_WAYS:
            better = render.better_ways(results.lines, part, kind)
            ways = {way: [test for test in tests if better.get(test, True) == way] for way in (False, True)}
        order = [None, *(way for way in (True, False) if ways[way])]
        for way in order if number % 2 == 0 else order[::-1]:
            run = Run(part, kind, number, way)
            if run in results.runs():
                continue
            start = time.monotonic()
            if way is None:
                ceilings = number in (0, args.rounds - 1)
                line = ours(args, model, threads=threads, new=new, ceilings=ceilings, isa=isa)
            else:
                line = theirs(python, model, ways[way], way)
            seconds = time.monotonic() - start
            results.add({**vars(run), "seconds": seconds, **line})
            speeds = " ".join(f"{row['tokens_per_second']:.1f}" for row in line["rows"])
            name = "RusTorch" if way is None else "llama.cpp" + ("" if way else ", not repacked")
            print(f"{part} {kind}, round {number + 1}, {name}: {speeds} ({seconds:.0f} s)", file=sys.stderr)


def deep(args, results: Results, kind: str) -> None:
    """RusTorch alone, after tokens that are there already."""
    run = Run("depth", kind, 0, None)
    if run in results.runs():
        return
    sizes = {"threads": args.threads, "new": 0 if kind in FLOATS else args.new, "depth": args.depth}
    line = ours(args, model_of(args, kind), **sizes, rounds=args.depth_rounds, ceilings=True, isa=None)
    results.add({**vars(run), **line})
    speeds = " ".join(f"{row['tokens_per_second']:.1f}" for row in line["rows"])
    print(f"depth {args.depth} {kind}: {speeds}", file=sys.stderr)


def library(python: str) -> dict:
    """What llama.cpp says of itself."""
    script = (
        "import ctypes, json, llama_cpp, pathlib\n"
        "base = ctypes.CDLL(str(next((pathlib.Path(llama_cpp.__file__).parent / 'lib').glob('libggml-base.*'))))\n"
        "base.ggml_version.restype = base.ggml_commit.restype = ctypes.c_char_p\n"
        "print(json.dumps({'package': llama_cpp.__version__, 'ggml': base.ggml_version().decode(),"
        " 'commit': base.ggml_commit().decode(), 'system': llama_cpp.llama_print_system_info().decode()}))"
    )
    return json.loads(output([python, "-c", script]))


def sizes(args) -> dict:
    """What must be the same in all runs of a file of results."""
    return {name: getattr(args, name) for name in ("shape", "models", "prompt", "new", "depth", "threads")}


def machine(args) -> dict:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")] if cpuinfo.exists() else []
    changed = output(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"])
    return {
        "processor": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "cores": len(names),
        "kernel": f"{platform.system()} {platform.release()}",
        "rustorch": output([RUSTORCH, "--version"]).strip(),
        "commit": output(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]).strip() + (" and changes" if changed else ""),
        "llama_cpp": library(sys.executable),
        "llama_cpp_avx2": library(args.avx2_python) if args.avx2_python else None,
        "shape": args.shape,
        "sizes": sizes(args),
        "date": time.strftime("%Y-%m-%d"),
        "command": "python tools/bench/versus.py",
    }


def main() -> None:
    args = arguments()
    results = Results(args.results, args.resume or args.render)
    if not args.render:
        if any(line["machine"]["sizes"] != sizes(args) for line in results.lines if "machine" in line):
            raise SystemExit(f"{args.results} is of other sizes or models; leave out --resume or name another file")
        results.add({"machine": machine(args)})
        here = sys.executable
        kinds = {"versus": args.types, "formats": args.formats, "experts": args.experts}
        for part in args.parts:
            for kind in kinds.get(part, []):
                side_by_side(args, results, part, kind, here, None)
            for kind in args.types if part == "depth" else []:
                deep(args, results, kind)
            for kind in args.avx2_types if part == "avx2" and args.avx2_python else []:
                side_by_side(args, results, part, kind, args.avx2_python, "avx2")
    old = args.doc.read_text() if args.doc.exists() else ""
    text = render.document(results.lines, TYPES, old, args.notes.read_text() if args.notes.exists() else "")
    args.doc.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
