"""Asks the model the held-out questions with the program at temperature 0, and prints the table.

Several files can be compared: `exam.py FILE FILE ..`.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corpus import chats
from corpus.core import Question

# Required share of correct answers, in percent.
LEAST = {
    "capitals": 95,
    "arithmetic": 90,
    "opposites": 90,
    "colours": 90,
    "calendar": 90,
    "repeat": 80,
}


def answer(command: list[str], question: Question) -> tuple[str, bool]:
    """The model's answer, and whether it ended with EOS."""
    done = subprocess.run(
        [*command, f"--prompt={question.user}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    report = json.loads(done.stdout)
    return report["text"], report["stop_reason"] == "end_of_generation"


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rustorch", default=str(here.parent / "target/release/rustorch"))
    parser.add_argument("--topic", help="only questions of this topic")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus, as given to make_corpus.py")
    parser.add_argument("--wrong", action="store_true", help="print every incorrect answer")
    parser.add_argument("models", nargs="*", help="GGUF files [default: the embedded model]")
    args = parser.parse_args()
    questions = [q for q in chats.exam(args.seed) if args.topic in (None, q.topic)]
    failed = False
    for model in args.models or [None]:
        command = [args.rustorch, "run", "--json", "--temp", "0", "-t", "1", "-n", "400"]
        command += ["-m", model] if model else []
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda question: answer(command, question), questions))
        table = defaultdict(list)
        for question, (text, ended) in zip(questions, answers):
            table[question.topic].append((question.right(text), ended))
            if args.wrong and not (question.right(text) and ended):
                print(f"  {question.topic}: {question.user!r} -> {text!r}, expected {question.want}")
        print(f"{model or 'the embedded model'}\n\n| topic | questions | correct | required | ended with EOS |\n|---|---|---|---|---|")
        for topic, results in table.items():
            n = len(results)
            right, ended = (100 * sum(column) / n for column in zip(*results))
            least = LEAST.get(topic)
            failed |= ended < 100 or (least is not None and right < least)
            print(f"| {topic} | {n} | {right:.1f} % | {f'≥ {least} %' if least else ''} | {ended:.1f} % |")
        print(flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
