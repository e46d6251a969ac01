"""Slips of the hand in what the user types."""

import unicodedata
from collections.abc import Collection
from random import Random


def slip(rng: Random, text: str, share: float = 0.04, keep: Collection[str] = ()) -> str:
    """The text, now and then with one lower-case word misspelt; names and words to keep stay."""
    words = text.split(" ")
    places = [i for i, word in enumerate(words) if misspellable(word) and word not in keep]
    if not places or rng.random() >= share:
        return text
    i = rng.choice(places)
    words[i] = misspelt(rng, words[i])
    return " ".join(words)


def misspellable(word: str) -> bool:
    return len(word) > 3 and word.isalpha() and word.islower()


def misspelt(rng: Random, word: str) -> str:
    """The word with two letters swapped, one left out or one doubled; the first letter stays."""
    at = rng.randrange(1, len(word) - 1)
    kind = rng.choice(["swap", "swap", "drop", "double"])
    if kind == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + (word[at] * 2 if kind == "double" else "") + word[at + 1 :]


def plain(text: str) -> str:
    """The text without the marks on its letters."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
