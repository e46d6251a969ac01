"""Words and names that do not exist, made of syllables."""

from random import Random

from .core import SEEN

ONSETS = (
    "b c d f g h j k l m n p r s t v w z bl br cl cr dr fl fr gl gr kr pl pr sk sl sn sp st str tr th sh "
    "ch qu"
).split()
VOWELS = "a e i o u a e i o u ai ea oo ou".split()
CODAS = [
    "",
    "",
    "",
    "b",
    "d",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "x",
    "nd",
    "nt",
    "rk",
    "lm",
    "mp",
    "sh",
    "ck",
]

COUNTRY_ENDS = "ia ia ia land stan istan ovia onia ania aria ora esia avia olia mark oria ar os".split()
COUNTRY_ENDS_HELD_OUT = "ia land istan avia onia enia ilia ea um orra".split()


def word(rng: Random, most: int = 3) -> str:
    """A word of one to `most` syllables that is in no dictionary, or nearly none."""
    syllables = rng.randint(2, max(most, 2)) if rng.random() < 0.85 else 1
    made = "".join(
        rng.choice(ONSETS) + rng.choice(VOWELS) + (rng.choice(CODAS) if i else "") for i in range(syllables)
    )
    return (
        made + rng.choice(["b", "d", "f", "g", "k", "mp", "p", "rf", "sk", "x", "zz"])
        if syllables == 1
        else made
    )


def country(rng: Random, split: str) -> str:
    """The name of a country that is on no map."""
    stem = "".join(
        rng.choice(ONSETS) + rng.choice(VOWELS[:10]) for _ in range(1 if rng.random() < 0.5 else 2)
    ) + rng.choice(["", "b", "d", "g", "k", "l", "m", "n", "r", "rt", "nd", "v", "z", "x"])
    end = rng.choice(COUNTRY_ENDS if split == SEEN else COUNTRY_ENDS_HELD_OUT)
    if stem[-1] in "aeiou" and end[0] in "aeiou":
        stem += rng.choice("bdglmnrvz")
    name = (stem + end).capitalize()
    if rng.random() < 0.12:
        name = rng.choice(["North ", "South ", "New ", "Upper ", "East ", "Saint ", "Great "]) + name
    return name
