"""Counting: to a number, from one to another, backwards, in steps."""

from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn
from .numbers import in_words, typed
from .typos import slip

WEIGHT = 1.0

MOST = 50
TOO_FAR = f"That is too far for me. I can count to {MOST}."

TO = Phrasings(
    seen=["Count to {b}.", "Count to {b}", "Count up to {b}.", "Can you count to {b}?",
          "[Can|Could] you count up to {b}?",
          "Count to {b} for me.", "Please count to {b}.", "Please count up to {b}.", "Count from 1 to {b}.",
          "Count from one to {b}.",
          "I want you to count to {b}.", "Let's count to {b}.", "Show me how you count to {b}.",
          "Count till {b}.", "1 to {b}",
          "Say the numbers from 1 to {b}.", "List the numbers from 1 to {b}.",
          "Tell me the numbers [up |]to {b}.",
          "Write the numbers from 1 to {b}.", "Do you know how to count to {b}?",
          "Count until you reach {b}.",
          "Start at 1 and count to {b}.", "Would you count to {b}?", "I bet you can't count to {b}.",
          "Counting to {b}, please."],
    held_out=["Start with one and go on until {b}.", "Try to count up until {b}.",
              "What are the numbers from 1 up to {b}?",
              "Show that you can count as far as {b}.", "Give me all numbers from 1 through {b}."],
)  # fmt: skip
FROM = Phrasings(
    seen=["Count from {a} to {b}.", "Count from {a} to {b}", "Count from {a} up to {b}.",
          "Can you count from {a} to {b}?",
          "Please count from {a} to {b}.", "Start at {a} and count to {b}.",
          "List the numbers from {a} to {b}.",
          "Say the numbers from {a} to {b}.", "{a} to {b}, count.", "Write the numbers from {a} to {b}.",
          "Begin at {a} and count up to {b}.", "I want you to count from {a} to {b}.",
          "Numbers from {a} to {b}?"],
    held_out=["Start with {a} and go on until {b}.", "What are the numbers from {a} up to {b}?",
              "Give me all numbers from {a} through {b}.",
              "Starting from {a}, count till you get to {b}."],
)  # fmt: skip
BACK = Phrasings(
    seen=["Count backwards from {a}.", "Count backwards from {a} to {b}.", "Count down from {a}.",
          "Count down from {a} to {b}.",
          "Count back from {a} to {b}.", "Can you count backwards from {a}?", "Can you count down from {a}?",
          "Countdown from {a}.",
          "Please count down from {a} to {b}.", "Start at {a} and count backwards.",
          "Start a countdown from {a}.",
          "Count from {a} down to {b}.", "List the numbers from {a} down to {b}.",
          "Count in reverse from {a} to {b}."],
    held_out=["Say the numbers backwards, starting with {a}.", "Do a countdown that starts at {a}.",
              "Let the rocket start: count from {a} downwards.",
              "Go down from {a} to {b}, number by number."],
)  # fmt: skip
STEPS = Phrasings(
    seen=["Count by {steps} to {b}.", "Count in {steps} to {b}.", "Count by {steps} up to {b}.",
          "Can you count by {steps} to {b}?",
          "Please count in {steps} up to {b}.", "Count to {b} by {steps}.", "Count to {b} in {steps}.",
          "Skip count by {steps} to {b}.",
          "Count in steps of {n} to {b}.", "Count up to {b} in steps of {n}."],
    held_out=["Going by {steps}, count as far as {b}.", "What is counting by {steps} up to {b}?",
              "Starting at {n}, go up by {steps} to {b}."],
)  # fmt: skip
STEP_NAMES = {2: ["twos", "2s"], 3: ["threes", "3s"], 5: ["fives", "5s"], 10: ["tens", "10s"]}


def row(a: int, b: int, step: int = 1) -> str:
    """The numbers from `a` to `b`, as the model says them."""
    return ", ".join(str(n) for n in range(a, b + (1 if step > 0 else -1), step)) + "."


def counted(rng: Random, split: str) -> tuple[str, str]:
    """Something to count and the row of numbers."""
    kind = rng.choices(["to", "from", "back", "steps", "words", "far"], [40, 22, 18, 10, 4, 6])[0]
    if kind == "to" or kind == "words":
        b = rng.randint(2, 20) if rng.random() < 0.7 else rng.randint(21, 30) if rng.random() < 0.7 else MOST
        if kind == "words":
            b = min(b, 20)
            user = TO.say(rng, split, b=in_words(b)).rstrip(".?") + " in words."
            return user, ", ".join(in_words(n) for n in range(1, b + 1)).capitalize() + "."
        return TO.say(rng, split, b=typed(rng, b)[0]), row(1, b)
    if kind == "from":
        a = rng.randint(0, 30) if rng.random() < 0.7 else rng.randint(0, 88)
        b = a + rng.randint(2, 12)
        first, last = typed(rng, a, b)
        return FROM.say(rng, split, a=first, b=last), row(a, b)
    if kind == "back":
        a = rng.randint(3, 20)
        shown, one = typed(rng, a, 1)
        return BACK.say(rng, split, a=shown, b=one), row(a, 1, -1)
    if kind == "steps":
        n = rng.choice(list(STEP_NAMES))
        b = n * rng.randint(3, 10)
        return STEPS.say(rng, split, steps=rng.choice(STEP_NAMES[n]), n=n, b=typed(rng, b)[0]), row(n, b, n)
    return TO.say(
        rng,
        split,
        b=rng.choice([100, 200, 500, 1000, 10000, "a million", "a thousand", rng.randint(60, 5000)]),
    ), TOO_FAR


def turns(rng: Random, split: str) -> list[Turn]:
    turns = []
    while not turns or rng.random() < 0.15:
        user, answer = counted(rng, split)
        turns.append(Turn(slip(rng, user, 0.02), answer))
    return turns


def exam(rng: Random) -> list[Question]:
    questions = []
    for _ in range(150):
        user, answer = counted(rng, HELD_OUT)
        questions.append(Question("counting", user, (answer, answer[:-1]), "exact"))
    return questions
