"""RusTorch's GPU backend beside llama.cpp's on the same card and files, alternating; prints tables in Markdown.

    python gpu.py --llama-bench PATH 1b-q4_k_m.gguf 8b-q4_k_m.gguf     # --help lists the options

A round runs both programs once on each model, in a process of its own: RusTorch first, then the other way round.
llama.cpp's is a `llama-bench` built with Vulkan, Metal or CUDA; it has to report a device, since without one it
computes on the CPU and says nothing in its table. Times are those that the programs report: each warms up before, and
repeats a test as often as `--repetitions` says. Numbers are medians over rounds of the medians of a run. With `--parallel`,
sequences also generate side by side, in `llama-batched-bench`, which lies beside `llama-bench` and has no repetitions.
Afterwards RusTorch runs alone with `--kernels`, whose table follows. Needs Python alone.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--llama-bench", type=Path, help="left out, RusTorch runs alone")
    parser.add_argument("--rustorch", type=Path, default=ROOT / "target/release/rustorch")
    parser.add_argument("--backend", default="vulkan")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--depth", type=int, default=0, help="tokens in the KV cache before each test")
    parser.add_argument("--parallel", type=numbers, default=[], help="sequences that generate side by side, such as 8,16")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=5)
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    """Numbers above 1: a single sequence is always measured."""
    return [number for number in map(int, text.split(",")) if number > 1]


def output(command: list[str]) -> tuple[str, str]:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return ran.stdout, ran.stderr


def of_rustorch(args: argparse.Namespace, model: Path) -> dict[str, float]:
    command = [str(args.rustorch), "bench", "-m", str(model), "--backend", args.backend, "--gpu-layers", "all"]
    command += ["-p", str(args.prompt), "-n", str(args.new), "-r", str(args.repetitions)]
    command += ["-d", str(args.depth)]
    if args.parallel:
        command += ["--n-parallel", ",".join(map(str, [1, *args.parallel]))]
    rows = json.loads(output([*command, "--no-ceilings", "-o", "json"])[0])
    return {row["test"]: row["tokens_per_second"] for row in rows}


def of_llama(args: argparse.Namespace, model: Path) -> dict[str, float]:
    command = [str(args.llama_bench), "-m", str(model), "-ngl", "99", "-o", "json"]
    command += ["-p", str(args.prompt), "-n", str(args.new), "-r", str(args.repetitions), "-d", str(args.depth)]
    rows, said = output(command)
    if not re.search(r"[Ff]ound [1-9]\d* (Vulkan|Metal|CUDA) device", said):
        sys.exit(f"llama-bench found no device:\n{said}")
    tests = {}
    for row in json.loads(rows):
        name = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
        tests[name + of_depth(args)] = statistics.median(row["samples_ts"])
    if args.parallel:
        tests |= of_batches(args, model)
    return tests


def of_batches(args: argparse.Namespace, model: Path) -> dict[str, float]:
    longest = max(args.parallel)
    # RusTorch's prompts are one token, too, but for the depth, which all share.
    prompt = max(args.depth, 1)
    context = longest * (prompt + args.new)
    command = [str(args.llama_bench.with_name("llama-batched-bench")), "-m", str(model), "-ngl", "99", "-c", str(context)]
    command += ["-npp", str(prompt), "-ntg", str(args.new), "-npl", ",".join(map(str, args.parallel)), "--output-format", "jsonl"]
    if args.depth:
        command.append("-pps")
    rows = [json.loads(line) for line in output(command)[0].splitlines() if line.startswith("{")]
    return {f"{row['pl']} x tg{row['tg']}{of_depth(args)}": row["speed_tg"] for row in rows}


def of_depth(args: argparse.Namespace) -> str:
    return f" @ d{args.depth}" if args.depth else ""


def main() -> None:
    args = arguments()
    programs = {"RusTorch": of_rustorch}
    if args.llama_bench:
        programs["llama.cpp"] = of_llama
    found: dict[tuple[Path, str, str], list[float]] = {}
    for turn in range(args.rounds):
        for model in args.models:
            for name in list(programs) if turn % 2 == 0 else reversed(programs):
                for test, speed in programs[name](args, model).items():
                    found.setdefault((model, test, name), []).append(speed)
                print(f"round {turn + 1}, {model.name}, {name}", file=sys.stderr)
    print("| model | test |" + "".join(f" {name} |" for name in programs) + " ratio |")
    print("| --- | --- |" + " ---: |" * (len(programs) + 1))
    for model in args.models:
        tests = [f"{kind}{n}" for kind, n in (("pp", args.prompt), ("tg", args.new)) if n]
        tests += [f"{n} x tg{args.new}" for n in args.parallel]
        for test in (test + of_depth(args) for test in tests):
            speeds = {name: found[model, test, name] for name in programs}
            medians = [statistics.median(speeds[name]) for name in programs]
            ratio = ""
            if len(medians) == 2:
                ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
                ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"| {model.stem} | {test} |" + "".join(f" {median:.1f} |" for median in medians) + f" {ratio} |")
    for model in args.models:
        command = [str(args.rustorch), "bench", "-m", str(model), "--backend", args.backend, "--kernels"]
        command += ["-p", str(args.prompt), "-n", str(args.new), "-r", "3", "--no-ceilings"]
        command += ["-d", str(args.depth)]
        print(f"\n{model.stem}:\n\n{output(command)[0]}")


if __name__ == "__main__":
    main()
