"""What every topic is made of: turns, questions, and phrasings with a held-out part.

A topic is a module with

    WEIGHT: float                                    share of the topics drawn
    def turns(rng, split) -> list[Turn]              one exchange, or a few that belong together
    def exam(rng) -> list[Question]                  optional: questions in held-out phrasings

`split` is SEEN or HELD_OUT: which phrasings of the user's side may be used. Training text comes from
SEEN alone. Facts stand in both; only the wording is held out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

SEEN, HELD_OUT = "seen", "held_out"

ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")


class Turn(NamedTuple):
    """What the user says and what the model answers."""

    user: str
    assistant: str
    # Said exactly so: no change of case or punctuation (see `casual`).
    verbatim: bool = False


class Question(NamedTuple):
    """A question whose answer can be judged by a program."""

    topic: str
    user: str
    # Any of these is right.
    want: tuple[str, ...]
    # "word": the answer holds it as whole words; "number": the last number of the answer is it;
    # "exact": the answer is it.
    how: str = "word"

    def right(self, answer: str) -> bool:
        answer = answer.strip()
        if self.how == "exact":
            return answer in self.want
        if self.how == "number":
            numbers = re.findall(r"-?\d+", answer)
            return bool(numbers) and numbers[-1] in self.want
        return any(re.search(rf"(?<!\w){re.escape(w)}(?!\w)", answer, re.IGNORECASE) for w in self.want)


@dataclass(frozen=True)
class Phrasings:
    """Ways to say one thing: `[a|b]` is a choice (it nests, and may be empty), `{name}` is filled in."""

    seen: Sequence[str]
    held_out: Sequence[str]

    def say(self, rng: Random, split: str, **slots: object) -> str:
        return say(rng, rng.choice(self.seen if split == SEEN else self.held_out), **slots)


def say(rng: Random, template: str, **slots: object) -> str:
    """One way through the template's choices, with its slots filled."""
    while match := ALTERNATIVES.search(template):
        chosen = rng.choice(match[1].split("|"))
        template = template[: match.start()] + chosen + template[match.end() :]
    return template.format(**slots)


def one(rng: Random, templates: Sequence[str], **slots: object) -> str:
    """One of the templates, said."""
    return say(rng, rng.choice(templates), **slots)


def casual(rng: Random, text: str) -> str:
    """The text as people type it: now and then without capitals, marks or manners."""
    if rng.random() < 0.15:
        text = text.lower()
    elif rng.random() < 0.02:
        text = text.upper()
    if rng.random() < 0.2:
        text = text.rstrip("?.!")
    if rng.random() < 0.06:
        start = rng.choice(["Please, ", "Hi! ", "Hello, ", "Hey, ", "OK, ", "Well, ", "Now, ", "So, ", "Quick question: "])
        text = start + text
    elif rng.random() < 0.04:
        text = text.rstrip("?.! ") + rng.choice([" please", ", please", " please?", ", please.", ", thanks", " now"])
    return text
