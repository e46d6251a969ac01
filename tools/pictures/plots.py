"""Plots for README.md and docs/benchmarks.md from measured data: speed and KL divergence beside llama.cpp.

    cargo test -p rustorch-backend-cpu --test whole_model -- --ignored --nocapture | python plots.py kl
    python plots.py        # docs/pictures/{speed,kl}.svg from docs/benchmarks.md and kl.json

Speed is read from the tables of docs/benchmarks.md. `kl` stores the divergences that the test prints in kl.json:
both programs compute the same files, 4,096 positions each, and the reference backend is the truth.
"""

import json
import math
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PICTURES = ROOT / "docs" / "pictures"

OURS, THEIRS, INK, FAINT = "#c2410c", "#94a3b8", "#1f2937", "#e5e7eb"
FONT = 'font-family="system-ui, -apple-system, Segoe UI, sans-serif"'


def text(x: float, y: float, content: str, size: int = 13, anchor: str = "start", colour: str = INK, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{extra}>{content}</text>'


def picture(name: str, width: int, height: int, title: str, parts: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    body = "\n".join(parts)
    (PICTURES / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {FONT}>\n'
        f"<title>{title}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def legend(x: float, y: float) -> list[str]:
    out = []
    for label, colour, at in (("RusTorch", OURS, x), ("llama.cpp", THEIRS, x + 100)):
        out += [f'<rect x="{at}" y="{y - 10}" width="12" height="12" rx="2" fill="{colour}"/>', text(at + 18, y, label)]
    return out


def benchmarks() -> tuple[dict[str, list[tuple[str, float, float, float]]], str, str]:
    """By test, (format, RusTorch, llama.cpp, median ratio) in tokens a second on the most threads; machine and commit."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    section = page.split("## RusTorch and llama.cpp", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    header, rows = rows[0], rows[2:]
    at = {name: header.index(name) for name in ("format", "test", "threads", "RusTorch, t/s", "llama.cpp, t/s", "ratio")}
    most = max(int(row[at["threads"]]) for row in rows)
    tests: dict[str, list[tuple[str, float, float, float]]] = {}
    for row in rows:
        if int(row[at["threads"]]) == most:
            values = (float(row[at[name]]) for name in ("RusTorch, t/s", "llama.cpp, t/s", "ratio"))
            tests.setdefault(row[at["test"]], []).append((row[at["format"]], *values))
    machine = re.search(r"^- Machine: (.*?), \d+ cores", page, re.M)
    commit = re.search(r"commit (\w+)", page)
    return tests, f"{machine[1]}, {most} threads" if machine else "", commit[1][:9] if commit else ""


def speed() -> None:
    tests, machine, commit = benchmarks()
    names = {"pp": "Prompt", "tg": "Generation"}
    bar, gap, left, panel, top = 11, 14, 74, 360, 78
    parts = [text(20, 30, "Tokens per second, 1.1B model", 16, extra=' font-weight="600"'), *legend(560, 30)]
    height = top
    for number, (test, rows) in enumerate(tests.items()):
        x, most = 20 + number * (panel + 20), max(max(ours, theirs) for _, ours, theirs, _ in rows)
        parts.append(text(x + left, top - 14, f"{names[test[:2]]} ({test})", 13, extra=' font-weight="600"'))
        for index, (kind, ours, theirs, ratio) in enumerate(rows):
            y = top + index * (2 * bar + gap)
            parts.append(text(x + left - 10, y + bar + 4, kind, 13, "end"))
            for line, (value, colour) in enumerate(((ours, OURS), (theirs, THEIRS))):
                length = value / most * (panel - left - 90)
                at = y + line * (bar + 1)
                parts.append(f'<rect x="{x + left}" y="{at}" width="{length:.1f}" height="{bar}" rx="2" fill="{colour}"/>')
                label = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
                label += f"  ({ratio:.1f}×)" if line == 0 else ""
                parts.append(text(x + left + length + 6, at + bar - 1, label, 11))
            height = max(height, y + 2 * bar + gap)
    parts.append(text(20, height + 16, f"{machine}; commit {commit}; docs/benchmarks.md has method and intervals", 11, colour="#6b7280"))
    picture("speed.svg", 800, height + 32, "Tokens per second beside llama.cpp", parts)


def kl() -> None:
    data = json.loads((HERE / "kl.json").read_text())
    rows = sorted(data["models"].items(), key=lambda item: item[1]["rustorch"])
    values = [value for _, row in rows for value in (row["rustorch"], row["llama.cpp"]) if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    left, right, top, line = 90, 760, 84, 24
    x = lambda value: left + (math.log10(value) - low) / (high - low) * (right - left)  # noqa: E731
    bottom = top + len(rows) * line
    parts = [text(20, 30, "Mean KL divergence from exact computation of the same file, nats", 16, extra=' font-weight="600"')]
    parts += legend(560, 56)
    for power in range(low, high + 1):
        at = x(10**power)
        parts.append(f'<line x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{bottom}" stroke="{FAINT}"/>')
        parts.append(text(at, bottom + 16, f"1e{power}", 11, "middle", "#6b7280"))
    for index, (name, row) in enumerate(rows):
        y = top + index * line + 8
        parts.append(text(left - 12, y + 4, name, 13, "end"))
        ours, theirs = x(row["rustorch"]), x(row["llama.cpp"])
        parts.append(f'<line x1="{ours:.1f}" y1="{y}" x2="{theirs:.1f}" y2="{y}" stroke="{FAINT}" stroke-width="3"/>')
        parts.append(f'<circle cx="{theirs:.1f}" cy="{y}" r="6" fill="{THEIRS}"/>')
        parts.append(f'<circle cx="{ours:.1f}" cy="{y}" r="4.5" fill="{OURS}"/>')
    note = f"random-weight models, 4,096 positions each, {data['kernels']} kernels, 8-bit activations with quantised weights"
    parts.append(text(20, bottom + 42, note, 11, colour="#6b7280"))
    picture("kl.svg", 800, bottom + 58, "Mean KL divergence beside llama.cpp", parts)


def store_kl(lines: list[str]) -> None:
    """Keeps what the test prints of plain formats with the last kernel set that it names."""
    line_of = re.compile(r"^(\S+) (\w+): NMSE \S+, mean KL (\S+), (\S+) times llama\.cpp's")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for match in filter(None, map(line_of.match, lines)):
        name, kernels, ours, ratio = match[1], match[2], float(match[3]), float(match[4])
        if "-" not in name and not name.startswith("F32"):
            found.setdefault(kernels, {})[name] = {"rustorch": ours, "llama.cpp": ours / ratio}
    if not found:
        sys.exit("no divergences on standard input: run the test with --nocapture")
    best = [kernels for kernels in ("avx512", "avx2", "scalar") if kernels in found][0]
    (HERE / "kl.json").write_text(json.dumps({"kernels": best, "models": found[best]}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["kl"]:
        store_kl(sys.stdin.readlines())
    speed()
    if (HERE / "kl.json").exists():
        kl()
