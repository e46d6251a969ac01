"""What every topic is made of: turns, questions, and phrasings with a held-out part.

A topic is a module with

    WEIGHT: float                                    share of the topics drawn
    def turns(rng, split) -> list[Turn]              one exchange, or a few that belong together
    def exam(rng) -> list[Question]                  optional: questions in held-out phrasings
    ONCE_A_CHAT: bool                                optional: drawn at most once in a chat

`split` is SEEN or HELD_OUT: which phrasings of the user's side may be used. Training text comes from
SEEN alone. Facts stand in both; only the wording is held out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
    """Ways to say one thing: `[a|b]` is a choice (it nests, and may be empty), `{name}` is filled in.

    What no split but HELD_OUT may say is kept apart by shape: a seen wording that comes out as a held-out one
    of any topic, but for marks, capitals and what fills the slots, is not said.
    """

    seen: Sequence[str]
    held_out: Sequence[str]

    def __post_init__(self) -> None:
        EVERY.append(self)

    def say(self, rng: Random, split: str, **slots: object) -> str:
        if split == HELD_OUT:
            return say(rng, rng.choice(self.held_out), **slots)
        for _ in range(1000):
            wording = choose(rng, rng.choice(self.seen))
            shape = shape_of(wording)
            if shape not in own_shapes(self) and (shape.count(" ") < 2 or shape not in held_out_shapes()):
                return wording.format(**slots)
        raise ValueError(f"nearly all of {self.seen} is held out")


# All phrasings there are.
EVERY: list[Phrasings] = []


def shape_of(wording: str) -> str:
    """The wording without marks and capitals, its slots all alike."""
    words = re.sub(r"\{\w+\}", " \N{SECTION SIGN} ", wording.lower())
    return " ".join("".join(c if c.isalnum() or c == "\N{SECTION SIGN}" else " " for c in words).split())


def shapes(phrasings: Phrasings) -> frozenset[str]:
    """All that the held-out templates can come to."""
    found, open_ = set(), list(phrasings.held_out)
    while open_:
        template = open_.pop()
        if match := ALTERNATIVES.search(template):
            before, after = template[: match.start()], template[match.end() :]
            open_ += [before + choice + after for choice in dict.fromkeys(match[1].split("|"))]
        else:
            found.add(shape_of(template))
    return frozenset(found)


OWN: dict[int, frozenset[str]] = {}


def own_shapes(phrasings: Phrasings) -> frozenset[str]:
    """The held-out shapes of these phrasings."""
    if id(phrasings) not in OWN:
        OWN[id(phrasings)] = shapes(phrasings)
    return OWN[id(phrasings)]


@cache
def held_out_shapes() -> frozenset[str]:
    """The held-out shapes of every topic."""
    return frozenset().union(*(own_shapes(phrasings) for phrasings in EVERY))


def choose(rng: Random, template: str) -> str:
    """One way through the template's choices."""
    while match := ALTERNATIVES.search(template):
        chosen = rng.choice(match[1].split("|"))
        template = template[: match.start()] + chosen + template[match.end() :]
    return template


def say(rng: Random, template: str, **slots: object) -> str:
    """One way through the template's choices, with its slots filled."""
    return choose(rng, template).format(**slots)


def one(rng: Random, templates: Sequence[str], **slots: object) -> str:
    """One of the templates, said."""
    return say(rng, rng.choice(templates), **slots)


# Words that carry a question but not its subject: what `jumble` may drop, or put in their place.
FRAME = (
    "the a an is are do does you know me please tell what which of in for to it i my can could would want need say "
    "give so just really that this there how be with at about have get let us your was will should"
).split()
FILLERS = FRAME + (
    "actually maybe then perhaps quickly kindly exactly simply surely friend anyway though once also again here well "
    "like basically honestly okay right usually called word thing answer now by as from"
).split()

OPENINGS = (
    "Please, |Hi! |Hello, |Hey, |OK, |Well, |Now, |So, |Quick question: |Hi there, |Good day. |One more: |"
    "Listen, |Hmm, |Sorry, |Excuse me, |My question: |Question: |I wonder: |By the way, |And now: |Next: "
).split("|")
CLOSINGS = (
    " please|, please|, thanks| now|, thank you| if you can| for me|, I wonder|, I ask you|, friend|, quickly| again|"
    ", do you know?|, can you say?"
).split("|")


def casual(rng: Random, text: str) -> str:
    """The text as people type it: now and then without capitals, marks or care, with a word before or after."""
    share = rng.random()
    if share < 0.18:
        for _ in range(rng.choice([1, 1, 2])):
            text = jumble(rng, text)
    elif share < 0.26:
        opening = rng.choice(OPENINGS)
        text = opening + (text if opening[-2] in ".!:" or text.startswith("I ") else text[:1].lower() + text[1:])
    elif share < 0.31:
        text = text.rstrip("?.! ") + rng.choice(CLOSINGS)
    if rng.random() < 0.15:
        text = text.lower()
    elif rng.random() < 0.02:
        text = text.upper()
    if rng.random() < 0.2:
        text = text.rstrip("?.!")
    return text


def jumble(rng: Random, text: str) -> str:
    """The text with one of its small words dropped or another one in its place, or one more."""
    words = text.split(" ")
    small = [i for i, word in enumerate(words) if word.lower() in FRAME]
    share = rng.random()
    if not small or share < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(FILLERS))
    elif share < 0.75 and len(words) > 3:
        del words[rng.choice(small)]
    else:
        words[rng.choice(small)] = rng.choice(FILLERS)
    return " ".join(words)
