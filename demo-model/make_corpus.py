"""Writes the corpus: train.jsonl, held_out.jsonl and exam.jsonl; the same seed gives the same bytes everywhere."""

import argparse
import hashlib
import json
from multiprocessing import Pool
from pathlib import Path

from corpus import chats
from corpus.core import HELD_OUT, SEEN

CHUNK = 5000


def lines(job: tuple[int, str, int, int]) -> str:
    seed, split, count, first = job
    barred = frozenset(chats.plain(q.user) for q in chats.exam(seed)) if split == SEEN else frozenset()
    made = chats.chats(seed, split, count, first, barred)
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in made)


def write(path: Path, parts) -> None:
    digest, size = hashlib.sha256(), 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for part in parts:
            out.write(part)
            digest.update(part.encode())
            size += len(part.encode())
    print(f"{digest.hexdigest()}  {path.name}  {size / 1e6:.1f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chats", type=int, default=900_000, help="training documents")
    parser.add_argument("--held-out", type=int, default=400, help="held-out documents")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "build")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    questions = [question._asdict() for question in chats.exam(args.seed)]
    write(args.out / "exam.jsonl", [json.dumps(q, ensure_ascii=False) + "\n" for q in questions])
    with Pool() as pool:
        for name, split, count in [("held_out", HELD_OUT, args.held_out), ("train", SEEN, args.chats)]:
            jobs = [(args.seed, split, min(CHUNK, count - first), first) for first in range(0, count, CHUNK)]
            write(args.out / f"{name}.jsonl", pool.imap(lines, jobs))


if __name__ == "__main__":
    main()
