"""Questions about days, months, seasons and units of time."""

from random import Random

from .calendar_facts import (
    OF_AFTER,
    OF_BEFORE,
    OF_LENGTHS,
    OF_LISTS,
    OF_NUMBERS,
    OF_PLACES,
    OF_SEASONS,
    OF_SHIFTS,
    OF_TODAY,
    OF_UNITS,
)
from .core import Question, Turn

WEIGHT = 2.5

# The relations by how often they are asked.
SHARES = {
    OF_AFTER: 24,
    OF_BEFORE: 18,
    OF_SHIFTS: 10,
    OF_TODAY: 10,
    OF_PLACES: 8,
    OF_NUMBERS: 4,
    OF_LENGTHS: 8,
    OF_SEASONS: 6,
    OF_UNITS: 10,
    OF_LISTS: 5,
}


def turns(rng: Random, split: str) -> list[Turn]:
    (relation,) = rng.choices(list(SHARES), list(SHARES.values()))
    return relation.turns(rng, split)


def exam(rng: Random) -> list[Question]:
    """Every relation, the large ones in part."""
    return [question for relation in SHARES for question in relation.questions(rng, "calendar", 40)]
