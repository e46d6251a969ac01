"""Small facts of many kinds: animals, words, jobs, the world and the sky."""

from random import Random

from .core import SEEN, Question, Turn
from .facts_animals import ANIMALS
from .facts_language import LANGUAGE
from .facts_world import WHYS, WORLD
from .typos import slip

WEIGHT = 2.0

RELATIONS = ANIMALS | LANGUAGE | WORLD


def why(rng: Random, split: str) -> list[Turn]:
    """A question with an answer of its own."""
    fact = rng.choice(WHYS)
    asks = fact["why" if split == SEEN else "held"].split(" / ")
    return [Turn(slip(rng, rng.choice(asks)), fact["answer"])]


def turns(rng: Random, split: str) -> list[Turn]:
    if rng.random() < 0.06:
        return why(rng, split)
    (relation,) = rng.choices(list(RELATIONS), list(RELATIONS.values()))
    return relation.turns(rng, split)


def exam(rng: Random) -> list[Question]:
    """Some facts of every relation, and the single questions."""
    questions = [question for relation in RELATIONS for question in relation.questions(rng, "facts", 14)]
    for fact in WHYS:
        questions += [Question("facts", ask, (fact["want"],)) for ask in fact["held"].split(" / ")]
    return questions
