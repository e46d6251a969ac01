"""Pictures of terminal sessions: runs a program in a pseudo-terminal and draws its last screen as an SVG.

    pip install -r requirements.txt
    cargo build --release
    python terminal.py chat       # docs/pictures/chat.svg: a chat with the embedded model
    python terminal.py compare    # docs/pictures/compare.svg: builds a program with a planted mistake and finds it
"""

import argparse
import html
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"

CHARACTER, LINE, MARGIN = 8.4, 19, 14
BACKGROUND, FOREGROUND = "#16181d", "#d7dae0"
COLOURS = {
    "black": "#5c6370",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": FOREGROUND,
}

# A planted mistake: RoPE pairs neighbouring columns as if they were halves, or the other way round.
MISTAKE = "rope-halves.patch"


class Session:
    """A program in a pseudo-terminal and what its screen shows."""

    def __init__(self, command: list[str], rows: int, columns: int = 100) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "HOME": tempfile.mkdtemp()}
            os.execvpe(command[0], command, environment)
        ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, quiet: float = 1.5, limit: float = 600) -> None:
        """Reads until nothing has come for `quiet` seconds or the program has ended."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not select.select([self.terminal], [], [], quiet)[0]:
                return
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return
            if not data:
                return
            self.stream.feed(data)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def runs(line: dict, columns: int):
    """Neighbouring characters of one style: (column, text, colour, bold)."""
    start, text, style = 0, "", None
    for column in range(columns):
        cell = line[column]
        colour = COLOURS.get(cell.fg, FOREGROUND if cell.fg == "default" else f"#{cell.fg}")
        new = (colour, cell.bold)
        if new != style and text:
            yield start, text, *style
            start, text = column, ""
        style = new
        text += cell.data
    if text:
        yield start, text, *style


def svg(screen: pyte.Screen, title: str, rows: int) -> str:
    """The lines of a screen that are not empty, up to `rows`, as a picture."""
    used = [number for number, line in enumerate(screen.display[:rows]) if line.strip()]
    rows = used[-1] + 1 if used else 1
    width, height = screen.columns * CHARACTER + 2 * MARGIN, rows * LINE + 2 * MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for row in range(rows):
        y = MARGIN + row * LINE + 14
        for column, text, colour, bold in runs(screen.buffer[row], screen.columns):
            shown = text.rstrip()
            if not shown:
                continue
            x, weight = MARGIN + column * CHARACTER, ' font-weight="bold"' if bold else ""
            out.append(
                f'<text x="{x:.1f}" y="{y}" fill="{colour}"{weight} xml:space="preserve" '
                f'textLength="{len(shown) * CHARACTER:.1f}">{html.escape(shown)}</text>'
            )
    out.append("</svg>\n")
    return "\n".join(out)


def write(name: str, screen: pyte.Screen, title: str, rows: int = 1000) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / name).write_text(svg(screen, title, rows))
    print(f"docs/pictures/{name}", file=sys.stderr)


def prompt_line(screen: pyte.Screen, command: str) -> None:
    """Shows the command as a shell would."""
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[1m$ {command}\x1b[0m\r\n".encode())


def chat(program: Path) -> None:
    session = Session([str(program), "chat", "--temp", "0"], 40)
    prompt_line(session.screen, "rustorch")
    session.read()
    for question in ("What is the capital of France?", "And of Italy?", "Tell me a very short story about a cat."):
        session.type(question + "\r")
        session.read()
    write("chat.svg", session.screen, "A chat with the embedded model")
    session.type("\x04")
    session.close()


def compare(program: Path) -> None:
    """Records a trace with a build that has a mistake, and compares it with the program."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tree)], check=True)
        patch = ROOT / "tools" / "faults" / "compare" / MISTAKE
        subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True)
        subprocess.run(
            ["cargo", "build", "--quiet", "--bin", "rustorch", "--target-dir", str(ROOT / "target" / "pictures")],
            cwd=tree,
            check=True,
        )
        faulty = ROOT / "target" / "pictures" / "debug" / "rustorch"
        trace = Path(folder) / "mine.safetensors"
        record = [str(faulty), "trace", "-p", "Hello", "-o", str(trace), "--backend", "cpu"]
        subprocess.run(record, check=True, stdout=subprocess.DEVNULL)
        os.chdir(folder)
        command = ["compare", trace.name, "--b", "reference"]
        session = Session([str(program), *command], 200, 128)
        prompt_line(session.screen, f"rustorch {' '.join(command)}")
        session.read(quiet=10)
        write("compare.svg", session.screen, "compare names the first wrong value and its likely cause", 20)
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=["chat", "compare"])
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "rustorch")
    arguments = parser.parse_args()
    if shutil.which("git") is None:
        sys.exit("git is missing")
    {"chat": chat, "compare": compare}[arguments.picture](arguments.program.resolve())


if __name__ == "__main__":
    main()
