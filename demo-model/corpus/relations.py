"""Facts in tables: one relation is a way to ask, a form of answer and the facts that fill both."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn, one
from .typos import slip

Fact = dict[str, str]


@dataclass(frozen=True, eq=False)
class Relation:
    """What is asked of the slots of each fact, and how it is answered."""

    ask: Phrasings
    answer: str
    facts: Sequence[Fact]
    # The slot that a right answer holds; " / " stands between forms that are as good.
    want: str
    # How to ask for one more fact after the first.
    follow: Sequence[str] = ()

    def turn(self, rng: Random, split: str, fact: Fact) -> Turn:
        user = upper_first(self.ask.say(rng, split, **fact))
        return Turn(slip(rng, user, keep=" ".join(fact.values()).split()), self.told(fact))

    def turns(self, rng: Random, split: str, more: float = 0.25) -> list[Turn]:
        """One fact, and perhaps more of the same kind."""
        turns = [self.turn(rng, split, rng.choice(self.facts))]
        while self.follow and rng.random() < more:
            fact = rng.choice(self.facts)
            turns.append(Turn(one(rng, self.follow, **fact), self.told(fact)))
        return turns

    def told(self, fact: Fact) -> str:
        """The answer in its first form."""
        said = self.answer.format(**{slot: text.split(" / ")[0] for slot, text in fact.items()})
        return upper_first(said)

    def questions(self, rng: Random, topic: str, most: int = 1000) -> list[Question]:
        """Every fact, or `most` of them, in a held-out phrasing."""
        facts = rng.sample(self.facts, min(most, len(self.facts)))
        return [
            Question(
                topic, upper_first(self.ask.say(rng, HELD_OUT, **fact)), tuple(fact[self.want].split(" / "))
            )
            for fact in facts
        ]


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def table(slots: str, text: str) -> list[Fact]:
    """Facts from lines of fields with "|" between them; or, in one line, with ";" between the facts."""
    names = slots.split()
    lines = [line for part in text.strip().splitlines() for line in part.split(";") if line.strip()]
    return [dict(zip(names, (field.strip() for field in line.split("|")), strict=True)) for line in lines]


def listed(items: Sequence[str]) -> str:
    """The items as a sentence names them: with commas and an "and"."""
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else items[0]
