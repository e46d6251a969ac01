"""Sums, differences, products and quotients of small numbers, and what is beyond them."""

from random import Random

from .arithmetic_said import ADD, ANY, DIFFERENCE, DIVIDE, DOUBLE, FOLLOW, HALF, MULTIPLY, SUBTRACT
from .arithmetic_stories import story
from .core import HELD_OUT, Phrasings, Question, Turn, one
from .numbers import typed
from .typos import slip

WEIGHT = 4.0

# How the signs are typed and named; the first sign is the one of the answers.
SIGNS = {"+": ["+"], "-": ["-"], "*": ["*", "*", "x", "x", "×"], "/": ["/", "/", ":", "÷"]}
WORDS = {
    "+": ["plus", "plus", "plus", "and", "added to"],
    "-": ["minus", "minus", "minus", "take away"],
    "*": ["times", "times", "times", "multiplied by"],
    "/": ["divided by", "divided by", "over"],
}
SPECIAL = {"+": [ADD], "-": [SUBTRACT, SUBTRACT, DIFFERENCE], "*": [MULTIPLY], "/": [DIVIDE]}

TOO_BIG = "That is too big for me. I can only work with small numbers."
NOT_KNOWN = "I do not know how to do that. I can only add, subtract, multiply and divide."
WHOLE = "I can only work with whole numbers."

OTHER = Phrasings(
    seen=[
        "What is the [square |cube ]root of {n}?",
        "square root of {n}",
        "sqrt({n})",
        "What is {n} percent of {m}?",
        "{n}% of {m}",
        "What is {n} to the power of {m}?",
        "{n}^{m}",
        "{n} ** {m}",
        "What is the logarithm of {n}?",
        "What is the sine of {n}?",
        "{n}!",
        "What is {n} factorial?",
        "What is {n} cubed?",
        "Solve x + {n} = {m} for x.",
        "What is pi times {n}?",
        "Integrate x from {n} to {m}.",
    ],
    held_out=[
        "Take the root of {n}.",
        "Raise {n} to the power {m}.",
        "How many percent of {m} is {n}?",
        "log({n})",
    ],
)
DECIMALS = [
    "What is {a} {op} {b}?",
    "{a} {op} {b}",
    "{a}{op}{b}",
    "How much is {a} {op} {b}?",
    "Calculate {a} {op} {b}.",
]
THREE = [
    "What is {a} + {b} + {c}?",
    "{a}+{b}+{c}",
    "{a} + {b} + {c}",
    "{a} plus {b} plus {c}",
    "Add {a}, {b} and {c}.",
    "How much is {a} + {b} + {c}?",
    "What is {a} plus {b} plus {c}?",
    "What is the sum of {a}, {b} and {c}?",
]
SQUARE = [
    "What is {a} squared?",
    "{a} squared",
    "{a} squared?",
    "What is the square of {a}?",
    "Square {a}.",
    "{a}^2",
    "{a}²",
]


def result(a: int, op: str, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[op]


def answer(a: int, op: str, b: int) -> str:
    """The sum with its result, or why there is none."""
    if op == "/" and b == 0:
        return "You cannot divide by 0."
    rest = a % b if op == "/" else 0
    return f"{a} {op} {b} = {result(a, op, b)}{f' remainder {rest}' if rest else ''}."


def operands(rng: Random, op: str) -> tuple[int, int]:
    """Two numbers, small ones above all."""
    if op in "+-":
        share = rng.random()
        if share < 0.04:
            return rng.randint(-10, -1), rng.randint(0, 20)
        if share < 0.68:
            return rng.randint(0, 20), rng.randint(0, 20)
        if share < 0.75:
            return rng.randint(0, 20), rng.randint(0, 100)
        if share < 0.82:
            return rng.randint(0, 100), rng.randint(0, 20)
        return rng.randint(0, 100), rng.randint(0, 100)
    most = 12 if rng.random() < 0.7 else 20
    a, b = rng.randint(0, most), rng.randint(0, most)
    if op == "*":
        return a, b
    share = rng.random()
    if share < 0.04:
        return a, 0
    if share < 0.12:
        return rng.randint(0, 50), rng.randint(2, 10)
    b = max(b, 1)
    return a * b, b


def asked(rng: Random, split: str, a: int, op: str, b: int, words: float = 0.2) -> str:
    """The sum as a question."""
    phrasings = rng.choice(SPECIAL[op]) if rng.random() < 0.3 else ANY
    if phrasings is DIFFERENCE and a < b:
        phrasings = SUBTRACT
    if phrasings is SUBTRACT and a < 0:
        phrasings = ANY
    shown = typed(rng, a, b, words=words)
    user = phrasings.say(
        rng, split, a=shown[0], b=shown[1], op=rng.choice(SIGNS[op]), word=rng.choice(WORDS[op])
    )
    return slip(rng, user[0].upper() + user[1:] if rng.random() < 0.5 else user)


def followed(rng: Random, a: int, op: str, b: int) -> str:
    shown = typed(rng, a, b)
    return one(rng, FOLLOW, a=shown[0], b=shown[1], op=rng.choice(SIGNS[op]), word=rng.choice(WORDS[op]))


def sum_turns(rng: Random, split: str) -> list[Turn]:
    """A sum, and perhaps a few more."""
    op = draw_op(rng)
    a, b = operands(rng, op)
    turns = [Turn(asked(rng, split, a, op, b), answer(a, op, b))]
    while rng.random() < 0.35:
        op = draw_op(rng)
        a, b = operands(rng, op)
        user = followed(rng, a, op, b) if rng.random() < 0.6 else asked(rng, split, a, op, b)
        turns.append(Turn(user, answer(a, op, b)))
    return turns


def draw_op(rng: Random) -> str:
    return rng.choices("+-*/", [42, 32, 18, 8])[0]


def double_turns(rng: Random, split: str) -> list[Turn]:
    """Double, half or square."""
    a = rng.randint(0, 20) if rng.random() < 0.7 else rng.randint(0, 50)
    kind = rng.choices(["double", "half", "square"], [4, 4, 1])[0]
    if kind == "square":
        a = rng.randint(0, 20)
        return [Turn(one(rng, SQUARE, a=a), answer(a, "*", a))]
    if kind == "half":
        a = 2 * a if rng.random() < 0.9 else 2 * a + 1
    phrasings, reply = (DOUBLE, answer(2, "*", a)) if kind == "double" else (HALF, answer(a, "/", 2))
    return [Turn(slip(rng, phrasings.say(rng, split, a=typed(rng, a)[0])), reply)]


def beyond_turns(rng: Random, split: str) -> list[Turn]:
    """What the model cannot do."""
    kind = rng.choices(["big", "other", "decimals"], [10, 3, 2])[0]
    if kind == "other":
        return [Turn(OTHER.say(rng, split, n=rng.randint(2, 200), m=rng.randint(2, 200)), NOT_KNOWN)]
    if kind == "decimals":
        a, b = (f"{rng.randint(0, 30)}.{rng.randint(1, 99)}", str(rng.randint(1, 30)))
        if rng.random() < 0.5:
            a, b = b, a
        return [Turn(one(rng, DECIMALS, a=a, b=b, op=rng.choice("+-*/")), WHOLE)]
    op, a, b = big(rng)
    return [Turn(asked(rng, split, a, op, b, words=0.0), TOO_BIG)]


def big(rng: Random) -> tuple[str, int, int]:
    """A sum with a number of three digits and more, or a product with one of two digits above twenty."""
    op = draw_op(rng) if rng.random() < 0.5 else "*"
    least = 21 if op == "*" and rng.random() < 0.4 else 101
    a = rng.randint(least, rng.choice([99 if least < 100 else 999, 999, 9999, 999999]))
    b = rng.randint(least if rng.random() < 0.6 else 3, rng.choice([99 if least < 100 else 999, 9999]))
    if op == "/":
        return op, max(a * rng.randint(2, 9), 500), max(b % 1000, 3)
    return (op, a, b) if rng.random() < 0.6 else (op, b, a)


def three_turns(rng: Random, split: str) -> list[Turn]:
    """Three small numbers added up."""
    a, b, c = (rng.randint(0, 10) for _ in range(3))
    shown = typed(rng, a, b, c)
    return [Turn(one(rng, THREE, a=shown[0], b=shown[1], c=shown[2]), f"{a} + {b} + {c} = {a + b + c}.")]


def story_turns(rng: Random, split: str) -> list[Turn]:
    return [story(rng, split)[0]]


KINDS = {sum_turns: 72, story_turns: 9, double_turns: 7, beyond_turns: 10, three_turns: 2}


def turns(rng: Random, split: str) -> list[Turn]:
    (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
    return kind(rng, split)


def question(rng: Random, topic: str, a: int, op: str, b: int) -> Question:
    return Question(topic, asked(rng, HELD_OUT, a, op, b), (str(result(a, op, b)),), "number")


def exam(rng: Random) -> list[Question]:
    """Sums with numbers up to twenty, some up to a hundred, stories, and what is too big."""
    questions = []
    for op, count in {"+": 130, "-": 110, "*": 60, "/": 30}.items():
        for _ in range(count):
            a, b = rng.randint(0, 20), rng.randint(0, 20)
            if op == "/":
                a, b = a * max(b, 1), max(b, 1)
            questions.append(question(rng, "arithmetic", a, op, b))
    for _ in range(100):
        a, b = sorted((rng.randint(21, 100), rng.randint(0, 100)), reverse=True)
        questions.append(question(rng, "arithmetic to 100", a, rng.choice("+-"), b))
    for _ in range(60):
        turn, right = story(rng, HELD_OUT)
        questions.append(Question("arithmetic stories", turn.user, (str(right),), "number"))
    for _ in range(60):
        op, a, b = big(rng)
        user = asked(rng, HELD_OUT, a, op, b, words=0.0)
        questions.append(Question("arithmetic too big", user, ("too big",)))
    return questions
