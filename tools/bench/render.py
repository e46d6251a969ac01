"""Renders the measurements of versus.py as a page."""

from collections import defaultdict
from math import comb
from statistics import median

# RusTorch's speed over llama.cpp's: prompt, generation.
RATIOS = {
    "Q4_K_M": (2.1, 2.0),
    "Q8_0": (6.0, 1.75),
    "Q4_0": (4.3, 2.2),
    "Q5_K_M": (2.1, 2.1),
    "Q6_K": (2.5, 1.8),
    "F16": (1.5, None),
    "BF16": (1.5, None),
}
# Of the other parts: prompt, generation.
PART_RATIOS = {"avx2": (1.2, 1.2), "experts": (2.0, 1.5), "formats": (None, None)}
# Formats without minimums take fewer instructions.
WITHOUT_MINIMUMS = ("Q4_0", "Q8_0", "Q6_K")


def ratio_target(part: str, kind: str, test: str) -> float | None:
    return PART_RATIOS.get(part, RATIOS.get(kind))[0 if test.startswith("pp") else 1]


def share_target(kind: str, test: str) -> float | None:
    if kind not in RATIOS:
        return None
    if test.startswith("tg"):
        return 0.85
    return 0.6 if kind in WITHOUT_MINIMUMS else 0.55


def interval(values: list[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """An interval of order statistics that holds the median with `confidence` at least; None of too few.

    The k-th smallest of n values is above the median as often as fewer than k of n coins are heads.
    """
    values, n = sorted(values), len(values)
    tail = lambda k: sum(comb(n, i) for i in range(k)) / 2**n  # noqa: E731
    k = max((k for k in range(1, n // 2 + 1) if 1 - 2 * tail(k) >= confidence), default=0)
    return (values[k - 1], values[n - k]) if k else None


def rows_of(lines: list[dict], part: str, kind: str, ours: bool):
    """Line and row of each test that ran: RusTorch's or llama.cpp's."""
    for line in lines:
        if line.get("part") == part and line["type"] == kind and (line["repack"] is None) == ours:
            yield from ((line, row) for row in line["rows"])


def better_ways(lines: list[dict], part: str, kind: str) -> dict[str, bool]:
    """Whether repacked weights are faster in the rounds that ran both ways, by test, such as `2:pp512`."""
    speeds = defaultdict(lambda: defaultdict(list))
    for line, row in rows_of(lines, part, kind, ours=False):
        if line["round"] < 3:
            speeds[f"{row['threads']}:{row['test']}"][line["repack"]].append(row["tokens_per_second"])
    both = {test: ways for test, ways in speeds.items() if len(ways) == 2}
    return {test: median(ways[True]) >= median(ways[False]) for test, ways in both.items()}


def speeds(lines: list[dict], part: str, kind: str) -> dict[tuple[int, str], dict]:
    """By threads and test: RusTorch's and llama.cpp's speed by round, the ceiling, which way llama.cpp ran."""
    better = better_ways(lines, part, kind)
    found = defaultdict(lambda: {"ours": {}, "theirs": {}, "ceiling": None, "repack": None})
    for line, row in rows_of(lines, part, kind, ours=True):
        cell = found[row["threads"], row["test"]]
        cell["ours"][line["round"]] = row["tokens_per_second"]
        cell["ceiling"] = max(filter(None, (cell["ceiling"], row["ceiling"])), default=None)
    for line, row in rows_of(lines, part, kind, ours=False):
        way = better.get(f"{row['threads']}:{row['test']}", True)
        if line["repack"] == way:
            cell = found[row["threads"], row["test"]]
            cell["theirs"][line["round"]] = row["tokens_per_second"]
            cell["repack"] = way
    return dict(sorted(found.items()))


def table(heading: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---"] * 2 + ["---:"] * (len(heading) - 2)
    return ["| " + " | ".join(cells) + " |" for cells in (heading, rule, *rows)] if rows else ["Not measured."]


def judged(value: float, target: float | None, show: str) -> list[str]:
    if target is None:
        return [show.format(value), ""]
    return [show.format(value), show.format(target)]


def ratio_rows(lines: list[dict], part: str, types) -> list[list[str]]:
    rows = []
    for kind in types:
        for (threads, test), cell in speeds(lines, part, kind).items():
            rounds = sorted(cell["ours"].keys() & cell["theirs"].keys())
            if not rounds:
                continue
            ratios = [cell["ours"][number] / cell["theirs"][number] for number in rounds]
            between = interval(ratios)
            row = [kind, test, str(threads), *(f"{median(cell[side].values()):.1f}" for side in ("ours", "theirs"))]
            row += ["yes" if cell["repack"] else "no"]
            value, target = judged(median(ratios), ratio_target(part, kind, test), "{:.2f}")
            row += [value, f"{between[0]:.2f} to {between[1]:.2f}" if between else "", str(len(ratios)), target]
            rows.append(row + (share_cells(cell, kind, test) if part != "avx2" else []))
    return rows


def share_cells(cell: dict, kind: str, test: str) -> list[str]:
    """The share of the peak, and its target."""
    if cell["ceiling"] is None:
        return ["", ""]
    return judged(median(cell["ours"].values()) / cell["ceiling"], share_target(kind, test), "{:.1%}")


def share_rows(lines: list[dict], part: str, types) -> list[list[str]]:
    rows = []
    for kind in types:
        for (threads, test), cell in speeds(lines, part, kind).items():
            rows.append([kind, test, str(threads), f"{median(cell['ours'].values()):.1f}", *share_cells(cell, kind, test)])
    return rows


def load_rows(lines: list[dict], types) -> list[list[str]]:
    """File, time to load and memory, on the most threads."""
    rows = []
    for kind in types:
        found = [row for _, row in rows_of(lines, "versus", kind, ours=True)]
        found = [row for row in found if row["threads"] == max(row["threads"] for row in found)]
        if found:
            peaks = [row["peak_memory_bytes"] for row in found if row["peak_memory_bytes"]]
            size, seconds = found[0]["size_bytes"] / 1e6, median(row["load_seconds"] for row in found)
            peak = f"{max(peaks) / 1e6:.0f} MB" if peaks else "?"
            rows.append([kind, f"{found[0]['parameters']:,}", f"{size:.0f} MB", f"{seconds:.2f} s", peak])
    return rows


def machine_of(lines: list[dict]) -> list[str]:
    """What was measured on which machine, each once and as it was last."""
    machines = [line["machine"] for line in lines if "machine" in line]
    if not machines:
        return []
    last = machines[-1]
    commits = sorted({machine["commit"] for machine in machines})
    rates = defaultdict(float)
    for line in lines:
        for row in line.get("rows", []) if line.get("part") != "avx2" else []:
            for name, rate in (row.get("machine") or {}).items():
                rates[row["threads"], name] = max(rates[row["threads"], name], rate or 0.0)
    facts = [
        f"- Machine: {last['processor']}, {last['cores']} cores, {last['kernel']}; {last['date']}.",
        f"- {last['rustorch']}, commit {', '.join(commits)}.",
    ]
    for name, what in (("llama_cpp", "llama.cpp"), ("llama_cpp_avx2", "llama.cpp without AVX-512")):
        known = next((machine[name] for machine in reversed(machines) if machine.get(name)), None)
        if known:
            system = " ".join(known["system"].split()).removesuffix("|").strip()
            facts.append(f"- {what}: llama-cpp-python {known['package']}, ggml {known['ggml']} ({known['commit']}); {system}.")
    for threads in sorted({threads for threads, _ in rates}):
        int8, f32, read = (rates[threads, f"{name}_per_second"] / 1e9 for name in ("int8_macs", "f32_macs", "read_bytes"))
        facts.append(
            f"- Peak on {threads} thread{'s' * (threads > 1)}: {int8:.0f} G int8 multiply-adds/s, {f32:.0f} G f32 multiply-adds/s, "
            f"{read:.1f} GB/s read."
        )
    return facts


INTRODUCTION = """# CPU benchmarks

This page compares RusTorch with llama.cpp on the same machine and the same files. The files have random weights in the shape
{shape}, because speed does not depend on the values. Each measurement is a process of its own. The programs run in turn, and
every round reverses their order.

- `pp512` is a prompt of 512 tokens. llama.cpp computes it in one batch, RusTorch in its default steps.
- `tg16` is greedy generation of 16 tokens. `@ d4096` means after 4,096 tokens in the cache.
- `ratio` is RusTorch's speed divided by llama.cpp's, the median over the rounds; `95 %` is its confidence interval from order
  statistics.
- `repacked` says whether llama.cpp repacked the weights (`use_extra_bufts`). The first three rounds run llama.cpp with and
  without repacking; each test is then compared with the faster setting.
- `share` is RusTorch's speed as a share of the machine's peak. Prompts are limited by the multiply-add rate, generation by
  reading weights, K and V. Both peaks are measured in the same run (`crates/backend-cpu/src/ceilings.rs`).
- `target` is the ratio or share that this project aims for.
"""

REACHED = "- `target` is the ratio or share that this project aims for"

FORMATS = """This section has the other formats, in the shape that the top of this page names. A name such as `IQ2_XS` is the name of
llama.cpp's mix, which keeps some tensors in other formats.
"""

EXPERTS = """SHAPE/LAYERS:TYPE names a shape of `rustorch synth` with this number of layers. The peak of generation is the speed at which the machine
could read the chosen experts and all other weights once per token.
"""


def sections_of(page: str) -> dict[str, str]:
    """The text below each heading; the beginning has the heading ``."""
    parts = ("\n" + page).split("\n## ")
    return {"": parts[0].strip()} | {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in parts[1:]}


MAIN, DEPTH, NOTES = "RusTorch and llama.cpp", "After 4,096 tokens", "Known limits"
ORDER = ("", MAIN, DEPTH, "AVX2", "Server", "Experts", "Formats", "Loading", NOTES)
PICTURE = ["![Tokens per second beside llama.cpp](pictures/speed.svg)", ""]


def targets_reached(text: str) -> list[bool]:
    """Whether each ratio or share in the tables of `text` reaches the target in the next such column, such as `0.85` or `≤ 1`."""
    reached, header = [], []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if "target" in cells or not cells:
            header = cells
        if cells == header or len(cells) != len(header) or cells[-1].startswith("---"):
            continue
        for name, cell in zip(header, cells, strict=True):
            if name in ("ratio", "share"):
                value = cell
            elif name == "target" and cell:
                found, target = (float(number.strip("≥≤ ").split("%")[0]) for number in (value, cell))
                reached.append(found <= target if cell.startswith("≤") else found >= target)
    return reached


def page(old: str, new: dict[str, str]) -> str:
    """The page `old` with these sections in place of its own, and the number of targets that are reached."""
    sections = sections_of(old) | {heading: text.strip() for heading, text in new.items()}
    reached = targets_reached("\n\n".join(sections.values()))
    count = f"{REACHED}: {sum(reached)} of {len(reached)} reach it."
    sections[""] = "\n".join(count if line.startswith(REACHED) else line for line in sections[""].splitlines())
    texts = [f"## {heading}\n\n{sections[heading]}\n" if heading else sections[""] + "\n" for heading in ORDER if heading in sections]
    return "\n".join(texts)


def document(lines: list[dict], types, old: str, notes: str) -> str:
    """The page. Sections of which `lines` has nothing are those of the page `old`."""
    head = ["format", "test", "threads"]
    ratio = [*head, "RusTorch, t/s", "llama.cpp, t/s", "repacked", "ratio", "95 %", "rounds", "target"]
    share = ["share", "target"]
    load = ["format", "parameters", "tensors", "load time", "peak memory"]
    kinds = lambda part: list(dict.fromkeys(line["type"] for line in lines if line.get("part") == part))  # noqa: E731
    measured = {}
    if kinds("versus"):
        shape = next((line["machine"]["shape"] for line in reversed(lines) if "machine" in line), "?")
        measured[""] = [INTRODUCTION.format(shape=shape).rstrip(), "", *machine_of(lines), "", "    cargo build --release"]
        measured[""] += ["    python tools/bench/versus.py     # writes this page; --help: formats, rounds, resuming"]
        measured[MAIN] = [*PICTURE, *table([*ratio, *share], ratio_rows(lines, "versus", types))]
        measured["Loading"] = table(load, load_rows(lines, types))
    if kinds("depth"):
        measured[DEPTH] = table([*head, "t/s", *share], share_rows(lines, "depth", types))
    if kinds("avx2"):
        measured["AVX2"] = table(ratio, ratio_rows(lines, "avx2", types))
    for part, heading, text in (("formats", "Formats", FORMATS), ("experts", "Experts", EXPERTS)):
        if kinds(part):
            measured[heading] = [text, *machine_of(lines), "", *table(["model", *ratio[1:], *share], ratio_rows(lines, part, kinds(part)))]
    if notes.strip():
        measured[NOTES] = [notes.strip()]
    return page(old, {heading: "\n".join(text) for heading, text in measured.items()})
