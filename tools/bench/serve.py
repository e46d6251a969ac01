"""RusTorch's server beside llama-server on the same model, alternating; writes a section of ../../docs/benchmarks.md.

    cargo build --release
    python serve.py LLAMA_SERVER               # all of it; --help lists the options
    python serve.py LLAMA_SERVER --clients 16  # one number of clients

LLAMA_SERVER is the program of llama.cpp, which the source archive of llama-cpp-python contains:

    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36 && tar xf llama_cpp_python-0.3.36.tar.gz
    cmake -S llama_cpp_python-0.3.36/vendor/llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_UI=OFF
    cmake --build build --target llama-server

Both servers run all the time; one works while the other waits. The order is reversed every round. Each test asks a server
in the protocol that both have (`/v1/completions`, streams, prompts as token ids), greedily and beyond the end token:

- throughput: so many clients at once, each with a prompt of its own that is not cached.
- stall: clients generate while a long prompt arrives; their longest gap between tokens, in median gaps.
- shared: clients at once whose prompts have a common prefix that is not cached; how many prompt tokens were computed.

Each measurement is a line of the file of results; --render writes the section from it again.
"""

import argparse
import http.client
import itertools
import json
import platform
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import render

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = ("RusTorch", "llama-server")
CONTEXT = 4096


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    add = parser.add_argument
    add("llama_server", type=Path)
    add("--rustorch", type=Path, default=ROOT / "target/release/rustorch")
    add("--model", type=Path, default=ROOT / "target/bench/tinyllama-1.1b-q4_k_m.gguf")
    add("--shape", default="tinyllama-1.1b", help="of a model that is not there, as `rustorch synth` names it")
    add("--type", default="Q4_K_M", help="of a model that is not there")
    add("--tests", type=lambda text: text.split(","), default=["throughput", "stall", "shared"])
    add("--clients", type=numbers, default=[1, 4, 16, 64])
    add("--prompt", type=int, default=256, help="tokens of a prompt")
    add("--new", type=int, default=64, help="tokens to generate")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=3)
    add("--results", type=Path, default=ROOT / "target/bench/serve.jsonl", help="a line for each measurement")
    add("--render", action="store_true", help="measure nothing")
    add("--doc", type=Path, default=ROOT / "docs/benchmarks.md")
    return parser.parse_args()


class Server:
    """A server that runs on a free port."""

    def __init__(self, name: str, command: list, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.name = name
        self.process = subprocess.Popen([*map(str, command), "--port", str(self.port)], stdout=log.open("w"), stderr=subprocess.STDOUT)
        while not self.is_ready():
            if self.process.poll() is not None:
                sys.exit(f"{name} ended:\n{log.read_text()}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


# In Llama's vocabulary, special tokens, and bytes, which are parts of characters: models with random weights write them, and
# a server has no text to send then.
WITHOUT_TEXT = {str(token): -100 for token in range(259)}


class Client(threading.Thread):
    """One request, from its beginning to its end."""

    def __init__(self, server: Server, prompt: list[int], new: int) -> None:
        super().__init__()
        self.server, self.prompt, self.new = server, prompt, new
        self.started = self.ended = 0.0
        # When each piece of the answer came.
        self.times: list[float] = []
        self.usage: dict = {}
        self.error = ""

    def run(self) -> None:
        call = {"prompt": self.prompt, "max_tokens": self.new, "temperature": 0, "ignore_eos": True, "stream": True}
        call |= {"stream_options": {"include_usage": True}, "logit_bias": WITHOUT_TEXT}
        self.started = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=900)
        connection.request("POST", "/v1/completions", json.dumps(call), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            self.error = f"{response.status} {response.read().decode()}"
            return
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and event["choices"][0].get("finish_reason") is None:
                self.times.append(time.monotonic())
            self.usage = event.get("usage") or self.usage
        self.ended = time.monotonic()

    @property
    def first(self) -> float:
        """Seconds until the first piece of the answer."""
        return self.times[0] - self.started


def together(clients: list[Client]) -> list[Client]:
    for client in clients:
        client.start()
    return joined(clients)


def joined(clients: list[Client]) -> list[Client]:
    for client in clients:
        client.join()
        counted = client.usage.get("completion_tokens")
        if client.error or counted != client.new:
            sys.exit(f"{client.server.name}: {client.error or f'{counted} tokens instead of {client.new}'}")
    return clients


def ids(args, count: int) -> list[int]:
    return [args.random.randrange(1000, 30000) for _ in range(count)]


def throughput(args, server: Server, count: int) -> dict:
    """Tokens per second and times to the first token. Few clients ask several times."""
    batches = max(1, 4 // count)
    ended, seconds = [], 0.0
    for _ in range(batches):
        clients = together([Client(server, ids(args, args.prompt), args.new) for _ in range(count)])
        seconds += max(client.ended for client in clients) - min(client.started for client in clients)
        ended += clients
    firsts = sorted(client.first for client in ended)
    return {
        "tokens_per_second": sum(client.new for client in ended) / seconds,
        "first_p50": statistics.median(firsts),
        "first_p99": firsts[min(len(firsts) - 1, int(len(firsts) * 0.99))],
    }


def stall(args, server: Server, count: int) -> dict:
    """The longest gap of clients that generate while a prompt of 2,000 tokens arrives."""
    # Long enough that the slower server still generates when the prompt is done.
    clients = [Client(server, ids(args, 32), 512) for _ in range(count)]
    for client in clients:
        client.start()
    while any(len(client.times) < 24 for client in clients):
        time.sleep(0.01)
    before = [gap for client in clients for gap in gaps(client.times[8:])]
    [long] = together([Client(server, ids(args, 2000), 8)])
    during = [(time for time in client.times if long.started <= time <= long.times[0]) for client in clients]
    longest = max((gap for times in during for gap in gaps(times)), default=long.first)
    joined(clients)
    return {"gap": statistics.median(before), "longest": longest, "first_p50": long.first}


def gaps(times) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def shared(args, server: Server, count: int) -> dict:
    """Prompt tokens that were computed of clients with a common prefix of 1,000."""
    prefix = ids(args, 1000)
    clients = together([Client(server, prefix + ids(args, 24), 8) for _ in range(count)])
    cached = sum((client.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for client in clients)
    total = sum(client.usage["prompt_tokens"] for client in clients)
    seconds = max(client.ended for client in clients) - min(client.started for client in clients)
    return {"computed": total - cached, "prompts": total, "seconds": seconds}


def measure(args, write) -> None:
    args.random = random.Random(time.time_ns())
    if not args.model.exists():
        args.model.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([args.rustorch, "synth", args.shape, args.model, args.type], check=True)
    most = max(args.clients)
    tokens = max(most * (args.prompt + args.new), 2 * CONTEXT)
    commands = (
        [args.rustorch, "serve", args.model, "-t", args.threads, "-np", most, "-c", CONTEXT, "--cache-tokens", 2 * tokens],
        [args.llama_server, "-m", args.model, "-t", args.threads, "-tb", args.threads, "-np", most, "-c", 2 * tokens, "--kv-unified", "--cache-ram", 0],
    )
    logs = [args.results.with_name(f"serve-{name}.log") for name in NAMES]
    servers = [Server(name, command, log) for name, command, log in zip(NAMES, commands, logs)]
    write({"machine": machine(args)})
    tests = {"throughput": (throughput, args.clients), "stall": (stall, [4]), "shared": (shared, [4])}
    try:
        for server in servers:
            together([Client(server, ids(args, 64), 8)])
        for test in args.tests:
            measured, counts = tests[test]
            for number, count in itertools.product(range(args.rounds), counts):
                for server in servers if number % 2 == 0 else servers[::-1]:
                    line = {"test": test, "clients": count, "round": number, "server": server.name, **measured(args, server, count)}
                    write(line)
                    print(json.dumps(line), file=sys.stderr)
    finally:
        for server in servers:
            server.stop()


def machine(args) -> dict:
    said = lambda command: subprocess.run(list(map(str, command)), capture_output=True, text=True)  # noqa: E731
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    version = said([args.llama_server, "--version"])
    return {
        "processor": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "cores": len(names),
        "kernel": f"{platform.system()} {platform.release()}",
        "rustorch": ", ".join(" ".join(line.split()) for line in said([args.rustorch, "--version"]).stdout.splitlines()[:2]),
        "llama_server": next(line for line in (version.stderr + version.stdout).splitlines() if line.startswith("version")),
        "model": f"{args.model.name}, {args.threads} threads, prompts of {args.prompt} tokens, answers of {args.new}",
        "date": time.strftime("%Y-%m-%d"),
    }


INTRODUCTION = """`tools/bench/serve.py` writes this section. Both servers load the same file with random weights; one works while the other
waits. A figure is the median over the rounds, and a ratio is the median of the rounds' ratios. Tokens per second are generated tokens
divided by the whole time, prompts included. TTFT is the time to the first token.
"""


def section(lines: list[dict]) -> str:
    about = [line["machine"] for line in lines if "machine" in line][-1]
    tests = [line for line in lines if "test" in line]

    def values(test: str, count: int, name: str) -> tuple[dict, dict]:
        """By round: RusTorch's and llama-server's."""
        chosen = [line for line in tests if line["test"] == test and line["clients"] == count]
        sides = [{line["round"]: line[name] for line in chosen if line["server"] == server} for server in NAMES]
        both = sides[0].keys() & sides[1].keys()
        return tuple({number: side[number] for number in sorted(both)} for side in sides)

    def cells(test: str, count: int, name: str, show: str) -> list[str]:
        ours, theirs = values(test, count, name)
        ratio = statistics.median(ours[number] / theirs[number] for number in ours)
        return [*(show.format(statistics.median(side.values())) for side in (ours, theirs)), f"{ratio:.2f}"]

    counts = lambda test: sorted({line["clients"] for line in tests if line["test"] == test})  # noqa: E731
    text = [INTRODUCTION, f"- Machine: {about['processor']}, {about['cores']} cores, {about['kernel']}; {about['date']}."]
    text += [f"- {about['rustorch']}; llama-server {about['llama_server']}.", f"- {about['model']}.", ""]
    rows = []
    for count in counts("throughput"):
        for name, what, show, target in (
            ("tokens_per_second", "tokens/s", "{:.1f}", "≥ 1.5"),
            ("first_p50", "TTFT p50, s", "{:.2f}", "≤ 0.6" if count == 16 else ""),
            ("first_p99", "TTFT p99, s", "{:.2f}", "≤ 0.6" if count == 16 else ""),
        ):
            rounds = len(values("throughput", count, name)[0])
            rows.append([str(count), what, *cells("throughput", count, name, show), target, str(rounds)])
    if rows:
        text += render.table(["clients", "measure", "RusTorch", "llama-server", "ratio", "target", "rounds"], rows)
    if counts("stall"):
        text += ["", "Four clients generate while a prompt of 2,000 tokens arrives:", ""]
        rows = []
        for name, what in (("gap", "gap between tokens before, ms"), ("longest", "longest gap meanwhile, ms"), ("first_p50", "TTFT of the prompt, ms")):
            sides = [statistics.median(side.values()) * 1000 for side in values("stall", 4, name)]
            rows.append([what, "", *(f"{value:.0f}" for value in sides)])
        steps = [
            statistics.median(longest[number] / gap[number] for number in gap)
            for gap, longest in zip(values("stall", 4, "gap"), values("stall", 4, "longest"))
        ]
        rows.append(["longest gap meanwhile ÷ gap before", "≤ 4", *(f"{value:.1f}" for value in steps)])
        text += render.table(["measure", "target", *NAMES], rows)
    if counts("shared"):
        ours, theirs = values("shared", 4, "computed")
        total = statistics.median(values("shared", 4, "prompts")[0].values())
        seconds = [statistics.median(side.values()) for side in values("shared", 4, "seconds")]
        text += ["", "Four clients send prompts at once. The prompts share their first 1,000 tokens, which are not cached yet, and each ends with 24 tokens of its own:", ""]
        rows = [["prompt tokens computed", f"{total:.0f}", *(f"{statistics.median(side.values()):.0f}" for side in (ours, theirs))]]
        rows += [["time of all four, s", "", *(f"{value:.2f}" for value in seconds)]]
        text += render.table(["measure", "of", *NAMES], rows)
    return "\n".join(text)


def main() -> None:
    args = arguments()
    if not args.render:
        args.results.parent.mkdir(parents=True, exist_ok=True)
        with args.results.open("w") as file:
            measure(args, lambda line: print(json.dumps(line), file=file, flush=True))
    lines = [json.loads(line) for line in args.results.read_text().splitlines()]
    text = section(lines)
    args.doc.write_text(render.page(args.doc.read_text(), {"Server": text}))
    print(text)


if __name__ == "__main__":
    main()
