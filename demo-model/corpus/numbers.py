"""Numbers in words and digits."""

from random import Random

UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(n: int) -> str:
    """A number from -99 to 100 in words."""
    if n < 0:
        return f"minus {in_words(-n)}"
    if n == 100:
        return "one hundred"
    if n < 20:
        return UNITS[n]
    tens = TENS[n // 10 - 2]
    return f"{tens}-{UNITS[n % 10]}" if n % 10 else tens


def ordinal(n: int) -> str:
    """A number as a place in a row: 1st, 2nd, 11th."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{n}{'th' if n % 100 in (11, 12, 13) else ends.get(n % 10, 'th')}"


def typed(rng: Random, *numbers: int, words: float = 0.2) -> list[str]:
    """The numbers as the user types them: all of them in digits, or now and then in words."""
    if rng.random() < words and all(abs(n) <= 100 for n in numbers):
        return [in_words(n) for n in numbers]
    return [str(n) for n in numbers]
