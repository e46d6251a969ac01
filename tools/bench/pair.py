"""RusTorch's speed beside llama.cpp's on the same file, in turn, as medians and their ratio.

    cargo build --release
    python pair.py MODEL.gguf [ROUNDS] [PROMPT_TOKENS] [NEW_TOKENS] [THREADS]     # default 5 512 64 2

Both prefill the same ids in one batch and then decode greedily. Needs the packages of
../oracle/requirements.txt.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RUSTORCH = HERE.parents[1] / "target/release/rustorch"


def ours(model: str, prompt: int, new: int, threads: int) -> dict[str, float]:
    ids = ",".join(str(1 + i * 7 % 30000) for i in range(prompt))
    command = [RUSTORCH, "run", "-m", model, "--tokens", ids, "-n", new, "--temp", 0, "--ignore-eos", "--json"]
    command += ["-c", prompt + new, "-b", prompt, "-t", threads]
    timings = json.loads(subprocess.check_output(list(map(str, command))))["timings"]
    return {name: timings[f"{name}_tokens_per_second"] for name in ("prefill", "decode")}


def theirs(model: str, *sizes: int) -> dict[str, float]:
    return json.loads(subprocess.check_output([sys.executable, HERE / "speed.py", model, *map(str, sizes)]))


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    model, given = sys.argv[1], [int(number) for number in sys.argv[2:]]
    rounds, *sizes = [*given, *(5, 512, 64, 2)[len(given) :]]
    pairs = []
    for number in range(rounds):
        pairs.append((ours(model, *sizes), theirs(model, *sizes)))
        print(f"round {number + 1}: {pairs[-1]}", file=sys.stderr)
    for name in ("prefill", "decode"):
        we, they = (statistics.median(pair[side][name] for pair in pairs) for side in (0, 1))
        ratio = statistics.median(a[name] / b[name] for a, b in pairs)
        print(f"{name:8} {we:7.1f} tokens/s, llama.cpp {they:7.1f}, ratio {ratio:.2f} (medians of {rounds})")


if __name__ == "__main__":
    main()
