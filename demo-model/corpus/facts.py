"""Small facts of many kinds: animals, words, jobs, the world and the sky."""

from random import Random

from .core import SEEN, Question, Turn
from .facts_animals import ANIMALS
from .facts_language import LANGUAGE
from .facts_why import WHYS
from .facts_world import WORLD
from .typos import slip

WEIGHT = 2.0

RELATIONS = ANIMALS | LANGUAGE | WORLD


def why(rng: Random, split: str) -> list[Turn]:
    """A question with an answer of its own."""
    fact = rng.choice(WHYS)
    return [Turn(slip(rng, rng.choice(fact.seen) if split == SEEN else fact.held_out), fact.answer)]


def turns(rng: Random, split: str) -> list[Turn]:
    if rng.random() < 0.06:
        return why(rng, split)
    (relation,) = rng.choices(list(RELATIONS), list(RELATIONS.values()))
    return relation.turns(rng, split)


def exam(rng: Random) -> list[Question]:
    """Some facts of every relation, and the single questions."""
    questions = [question for relation in RELATIONS for question in relation.questions(rng, "facts", 14)]
    return questions + [Question("facts", fact.held_out, (fact.want,)) for fact in WHYS]
