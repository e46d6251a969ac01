"""What a user may mean, the ways to say it, and what is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn, one


@dataclass(frozen=True)
class Intent(Phrasings):
    """Phrasings of one meaning with the answers to it."""

    answers: Sequence[str]
    # Words of which one stands in every right answer.
    words: tuple[str, ...] = ()
    # How often it is drawn beside its neighbours in a table.
    weight: float = 1.0

    def turn(self, rng: Random, split: str) -> Turn:
        """One exchange."""
        return Turn(self.say(rng, split), one(rng, self.answers))


def draw(rng: Random, table: Sequence[Intent]) -> Intent:
    """One of the table, by weight."""
    return rng.choices(table, [intent.weight for intent in table])[0]


def questions(rng: Random, topic: str, table: Sequence[Intent]) -> list[Question]:
    """Every held-out phrasing of what can be judged by words."""
    return [
        Question(topic, Phrasings((), (template,)).say(rng, HELD_OUT), intent.words)
        for intent in table
        if intent.words
        for template in intent.held_out
    ]
