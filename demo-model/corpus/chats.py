"""Chats: topics drawn by weight and joined, as a user would wander from one to the next."""

from collections.abc import Iterator
from importlib import import_module
from random import Random

from .core import HELD_OUT, SEEN, Question, Turn, casual

TOPICS = [
    import_module(f"corpus.{name}")
    for name in (
        "capitals", "arithmetic", "opposites", "colours", "calendar", "counting", "spelling", "repeat", "facts",
        "comparing", "smalltalk", "memory", "about", "refusals", "stories", "tasks",
    )
]  # fmt: skip
STORIES = next(topic for topic in TOPICS if topic.__name__ == "corpus.stories")

# What people set; the model answers as it does without.
SYSTEM = [
    "You are a helpful assistant.", "You are a friendly assistant.", "Answer briefly.", "Be kind and brief.",
    "You are a small model that answers simple questions.", "Answer the questions of the user.",
    "You are RusTorch's demonstration model.", "Help the user.", "Keep your answers short.",
]  # fmt: skip

# Fits the context of 1,024 tokens with room to spare.
MOST_CHARACTERS = 2600


def plain(text: str) -> str:
    """The text without case, marks and extra spaces: two texts with the same one are the same question."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def chat(rng: Random, split: str, barred: frozenset[str] = frozenset()) -> dict:
    """One document: `{"turns": [[user, assistant], ..]}` with an optional "system", or `{"text": ..}`.

    No turn whose user's side is one of `barred` (as `plain` text) is in it.
    """
    if rng.random() < 0.02:
        return {"text": STORIES.turns(rng, split)[-1].assistant}
    items = 1 if rng.random() < 0.4 else rng.randint(2, 9)
    turns: list[Turn] = []
    once: list = []
    while items > 0:
        topic = rng.choices(TOPICS, [topic.WEIGHT for topic in TOPICS])[0]
        drawn = topic.turns(rng, split)
        if topic in once or any(plain(turn.user) in barred for turn in drawn):
            continue
        if getattr(topic, "ONCE_A_CHAT", False):
            once.append(topic)
        if turns and size(turns) + size(drawn) > MOST_CHARACTERS:
            break
        turns += drawn
        items -= 1
    document: dict = {"turns": [[t.user if t.verbatim else casual(rng, t.user), t.assistant] for t in turns]}
    if rng.random() < 0.03:
        document["system"] = rng.choice(SYSTEM)
    return document


def size(turns: list[Turn]) -> int:
    return sum(len(turn.user) + len(turn.assistant) for turn in turns)


def exam(seed: int) -> list[Question]:
    """Every topic's questions, in held-out phrasings; the same for the same seed."""
    return [
        question
        for topic in TOPICS
        if hasattr(topic, "exam")
        for question in topic.exam(Random(f"{seed} exam {topic.__name__}"))
    ]


def chats(seed: int, split: str, count: int, first: int, barred: frozenset[str]) -> Iterator[dict]:
    """Documents `first..first + count`, each from a generator of its own, so that any range can be made alone."""
    assert split in (SEEN, HELD_OUT)
    for index in range(first, first + count):
        yield chat(Random(f"{seed} {split} {index}"), split, barred)
