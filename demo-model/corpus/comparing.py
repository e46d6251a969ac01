"""Numbers beside each other: larger, smaller, even, odd, next, before."""

from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn
from .numbers import typed
from .typos import slip

WEIGHT = 1.0

# {more} is "larger" or a word like it; {other} is its opposite.
WORDS = [
    ("larger", "smaller"),
    ("bigger", "smaller"),
    ("greater", "less"),
    ("smaller", "larger"),
    ("less", "more"),
    ("smaller", "bigger"),
    ("higher", "lower"),
    ("lower", "higher"),
    ("more", "less"),
]
UP = {"larger", "bigger", "greater", "higher", "more"}

WHICH = Phrasings(
    seen=[
        "Which is {more}, {a} or {b}?",
        "Which is {more}: {a} or {b}?",
        "Which number is {more}, {a} or {b}?",
        "What is {more}, {a} or {b}?",
        "What's {more}, {a} or {b}?",
        "{a} or {b}, which is {more}?",
        "Is {a} or {b} {more}?",
        "Tell me which is {more}, {a} or {b}.",
        "Which one is {more}, {a} or {b}?",
        "Of {a} and {b}, which is {more}?",
        "Which of {a} and {b} is {more}?",
        "{more}: {a} or {b}?",
        "What number is {more}, {a} or {b}?",
        "Do you know which is {more}, {a} or {b}?",
    ],
    held_out=[
        "Between {a} and {b}, which one is {more}?",
        "Out of {a} and {b}, what number is {more}?",
        "I have {a} and {b}. Which of them is {more}?",
        "Can you say which number is {more}: {a} or {b}?",
    ],
)
IS = Phrasings(
    seen=["Is {a} {more} than {b}?", "{a} is {more} than {b}, right?",
          "Is it true that {a} is {more} than {b}?",
          "True or false: {a} is {more} than {b}.", "{a} is {more} than {b}. True or false?"],
    held_out=["Would you say that {a} is {more} than {b}?", "Is the number {a} {more} than {b}?"],
)  # fmt: skip
PARITY = Phrasings(
    seen=["Is {a} even or odd?", "Is {a} odd or even?", "{a}: even or odd?", "Even or odd: {a}?",
          "Is the number {a} even or odd?",
          "Tell me if {a} is even or odd.", "Is {a} an even or an odd number?", "What is {a}, even or odd?"],
    held_out=["Is {a} an odd number or an even one?", "Odd or even, what about {a}?",
              "Would you call {a} even or odd?"],
)  # fmt: skip
EVEN = Phrasings(
    seen=["Is {a} {kind}?", "Is {a} an {kind} number?", "{a} is {kind}, right?", "Is the number {a} {kind}?",
          "{a} is an {kind} number. True or false?"],
    held_out=["Would {a} be an {kind} number?", "So {a} is {kind}?"],
)  # fmt: skip
AFTER = Phrasings(
    seen=["What comes after {a}?", "What number comes after {a}?", "Which number comes after {a}?",
          "What is the number after {a}?",
          "What's the next number after {a}?", "What comes next after {a}?", "Number after {a}?",
          "Which number follows {a}?",
          "What is the next number: {a}?", "What number is next after {a}?", "Tell me the number after {a}."],
    held_out=["If I count and just said {a}, what do I say next?", "What number follows {a}?",
              "{a}, and then comes which number?"],
)  # fmt: skip
BEFORE = Phrasings(
    seen=["What comes before {a}?", "What number comes before {a}?", "Which number comes before {a}?",
          "What is the number before {a}?",
          "What's just before {a}?", "Number before {a}?", "What number is right before {a}?",
          "Tell me the number before {a}."],
    held_out=["Which number do you find just before {a}?", "What is one before {a}?",
              "Going backwards, what comes before {a}?"],
)  # fmt: skip


def compared(rng: Random, split: str) -> tuple[Turn, str]:
    """Which of two numbers, with the words that have to be in the answer."""
    a, b = draw(rng), draw(rng)
    more, other = rng.choice(WORDS)
    shown = typed(rng, a, b)
    slots = {"a": shown[0], "b": shown[1], "more": more}
    if rng.random() < 0.65:
        first, second = (max(a, b), min(a, b)) if more in UP else (min(a, b), max(a, b))
        right = "the same" if a == b else f"{first} is {more}"
        return Turn(
            slip(rng, WHICH.say(rng, split, **slots)), same(a, b) or f"{first} is {more} than {second}."
        ), right
    user = slip(rng, IS.say(rng, split, **slots))
    yes = a > b if more in UP else a < b
    if a == b:
        return Turn(user, f"No, {same(a, b)[0].lower()}{same(a, b)[1:]}"), "No"
    return Turn(
        user, f"{'Yes' if yes else 'No'}, {a} is {more if yes else other} than {b}."
    ), "Yes" if yes else "No"


def draw(rng: Random) -> int:
    return (
        rng.randint(0, 20)
        if rng.random() < 0.5
        else rng.randint(0, 100)
        if rng.random() < 0.8
        else rng.randint(0, 999)
    )


def same(a: int, b: int) -> str:
    return "They are the same number." if a == b else ""


def parity(rng: Random, split: str) -> tuple[Turn, str]:
    """Even or odd."""
    a = rng.randint(0, 100)
    right, wrong = ("odd", "even") if a % 2 else ("even", "odd")
    shown = typed(rng, a)[0]
    if rng.random() < 0.6:
        return Turn(slip(rng, PARITY.say(rng, split, a=shown)), f"{a} is {right}."), right
    yes = rng.random() < 0.5
    user = EVEN.say(rng, split, a=shown, kind=right if yes else wrong)
    return Turn(slip(rng, user), f"{'Yes' if yes else 'No'}, {a} is {right}."), "Yes" if yes else "No"


def neighbour(rng: Random, split: str) -> tuple[Turn, str]:
    """The number after or before."""
    a = rng.randint(1, 30) if rng.random() < 0.6 else rng.randint(1, 100)
    shown = typed(rng, a)[0]
    if rng.random() < 0.55:
        return Turn(slip(rng, AFTER.say(rng, split, a=shown)), f"After {a} comes {a + 1}."), str(a + 1)
    return Turn(slip(rng, BEFORE.say(rng, split, a=shown)), f"Before {a} comes {a - 1}."), str(a - 1)


KINDS = {compared: 5, parity: 3, neighbour: 4}


def turns(rng: Random, split: str) -> list[Turn]:
    turns = []
    while not turns or rng.random() < 0.2:
        (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
        turns.append(kind(rng, split)[0])
    return turns


def exam(rng: Random) -> list[Question]:
    questions = []
    for kind in KINDS:
        for _ in range(50):
            turn, right = kind(rng, HELD_OUT)
            questions.append(Question("comparing numbers", turn.user, (right,)))
    return questions
