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
        "which {more} {a} or {b}",
        "{a} or {b} {more}[|?]",
        "{a} or {b}: which one is {more}?",
        "{a} and {b}, which is {more}?",
        "{a} and {b}: which number is {more}?",
        "{a}, {b}. Which is {more}?",
        "Compare {a} and {b}: which is {more}?",
        "Which is the {more} number, {a} or {b}?",
        "Which is the {more} one, {a} or {b}?",
        "Which one of {a} and {b} is {more}?",
        "Which of the two is {more}, {a} or {b}?",
        "Which of these is {more}: {a} or {b}?",
        "Which of the numbers {a} and {b} is {more}?",
        "What is the {more} number, {a} or {b}?",
        "What is the {more} of {a} and {b}?",
        "What would be {more}, {a} or {b}?",
        "The {more} number: {a} or {b}?",
        "The {more} of {a} and {b}[|?| is ...]",
        "Between {a} and {b}, which is {more}?",
        "From {a} and {b}, which is {more}?",
        "Of the two numbers {a} and {b}, which one is {more}?",
        "Is the {more} number {a} or {b}?",
        "Say which is {more}, {a} or {b}.",
        "Tell me the {more} number: {a} or {b}.",
        "Tell me which number is {more}, {a} or {b}.",
        "Please tell me which is {more}, {a} or {b}.",
        "Can you tell me which is {more}, {a} or {b}?",
        "Could you say which is {more}, {a} or {b}?",
        "Find the {more} number: {a} or {b}.",
        "Choose the {more} number: {a} or {b}.",
        "Pick the {more} one: {a} or {b}.",
        "Give me the {more} number, {a} or {b}.",
        "I want to know which is {more}, {a} or {b}.",
        "I don't know which is {more}, {a} or {b}.",
        "I have {a} and {b}. Which is {more}?",
        "Quiz: which is {more}, {a} or {b}?",
        "What do you think is {more}, {a} or {b}?",
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
          "True or false: {a} is {more} than {b}.", "{a} is {more} than {b}. True or false?",
    "is {a} {more} than {b}",
    "{a} {more} than {b}?",
    "{a} is {more} than {b}?",
    "{a} is {more} than {b}, yes or no?",
    "{a} is {more} than {b}, isn't it?",
    "{a} is {more} than {b}, correct?",
    "{a} is {more} than {b}, is that right?",
    "Is the number {a} {more} than {b}?",
    "Is {a} really {more} than {b}?",
    "Is it right that {a} is {more} than {b}?",
    "Is it correct that {a} is {more} than {b}?",
    "Would you say {a} is {more} than {b}?",
    "Can you tell me if {a} is {more} than {b}?",
    "Could you tell me whether {a} is {more} than {b}?",
    "Tell me if {a} is {more} than {b}.",
    "Tell me whether {a} is {more} than {b}.",
    "Do you know if {a} is {more} than {b}?",
    "Do you think {a} is {more} than {b}?",
    "I think {a} is {more} than {b}. Am I right?",
    "I say {a} is {more} than {b}. Is that true?",
    "My friend says {a} is {more} than {b}. Is that right?",
    "Yes or no: is {a} {more} than {b}?",
    "Right or wrong: {a} is {more} than {b}.",
    "I want to know if {a} is {more} than {b}.",
    "Check this: {a} is {more} than {b}.",
],
    held_out=["Would you say that {a} is {more} than {b}?", "Is the number {a} {more} than {b}?"],
)  # fmt: skip
PARITY = Phrasings(
    seen=["Is {a} even or odd?", "Is {a} odd or even?", "{a}: even or odd?", "Even or odd: {a}?",
          "Is the number {a} even or odd?",
          "Tell me if {a} is even or odd.", "Is {a} an even or an odd number?", "What is {a}, even or odd?",
    "{a} even or odd",
    "{a} odd or even?",
    "{a}, is it even or odd?",
    "{a}: is that odd or even?",
    "odd or even {a}",
    "Odd or even: {a}?",
    "Is {a} an odd or an even number?",
    "Is the number {a} odd or even?",
    "Is number {a} even or odd?",
    "Is it even or odd: {a}?",
    "Which is {a}, even or odd?",
    "What is {a}, odd or even?",
    "What kind of number is {a}, even or odd?",
    "Would {a} be even or odd?",
    "The number {a}, is it odd or even?",
    "The number {a} is even or odd?",
    "Tell me whether {a} is even or odd.",
    "Tell me if {a} is odd or even.",
    "Say if {a} is even or odd.",
    "Please tell me if {a} is even or odd.",
    "Can you tell me if {a} is even or odd?",
    "Could you tell me whether {a} is odd or even?",
    "Do you know if {a} is even or odd?",
    "Do you know whether {a} is an odd or an even number?",
    "I want to know if {a} is even or odd.",
    "I don't know if {a} is odd or even.",
    "I wonder if {a} is even or odd.",
    "Decide: is {a} even or odd?",
    "Check if {a} is even or odd.",
    "Quiz: is {a} odd or even?",
],
    held_out=["Is {a} an odd number or an even one?", "Odd or even, what about {a}?",
              "Would you call {a} even or odd?"],
)  # fmt: skip
EVEN = Phrasings(
    seen=["Is {a} {kind}?", "Is {a} an {kind} number?", "{a} is {kind}, right?", "Is the number {a} {kind}?",
          "{a} is an {kind} number. True or false?",
    "is {a} {kind}",
    "{a} {kind}?",
    "{a} is {kind}?",
    "{a} is {kind}, yes or no?",
    "{a} is {kind}, isn't it?",
    "{a} is {kind}, correct?",
    "{a} is {kind}. Right or wrong?",
    "{a} is {kind}. Is that true?",
    "{a}: is it {kind}?",
    "The number {a} is {kind}, right?",
    "The number {a} is {kind}. True or false?",
    "True or false: {a} is {kind}.",
    "Right or wrong: {a} is {kind}.",
    "Yes or no: is {a} {kind}?",
    "Is number {a} {kind}?",
    "Is it true that {a} is {kind}?",
    "Is it right that {a} is {kind}?",
    "Is {a} really {kind}?",
    "Would you call {a} {kind}?",
    "Would you say {a} is {kind}?",
    "Tell me if {a} is {kind}.",
    "Tell me whether {a} is {kind}.",
    "Can you tell me if {a} is {kind}?",
    "Could you tell me if the number {a} is {kind}?",
    "Do you know if {a} is {kind}?",
    "Do you think {a} is {kind}?",
    "I think {a} is {kind}. Am I right?",
    "I want to know if {a} is {kind}.",
    "My friend says {a} is {kind}. Is it true?",
],
    held_out=["Would {a} be an {kind} number?", "So {a} is {kind}?"],
)  # fmt: skip
AFTER = Phrasings(
    seen=["What comes after {a}?", "What number comes after {a}?", "Which number comes after {a}?",
          "What is the number after {a}?",
          "What's the next number after {a}?", "What comes next after {a}?", "Number after {a}?",
          "Which number follows {a}?",
          "What is the next number: {a}?", "What number is next after {a}?", "Tell me the number after {a}.",
    "number after {a}",
    "what comes after {a}",
    "{a}, what comes next?",
    "{a}, and the next number?",
    "{a} and then? Which number comes next?",
    "{a} is followed by which number?",
    "{a} is followed by[| what|?| ...]",
    "{a}, next number?",
    "After {a} comes[| what|?| ...| which number?]",
    "After the number {a} comes?",
    "What follows {a}?",
    "What number follows {a}?",
    "What's after {a}?",
    "What's the number after {a}?",
    "What is after {a} when I count?",
    "What is next after {a}?",
    "What is the next number after {a}?",
    "What is the number right after {a}?",
    "What is the number following {a}?",
    "What do I say after {a} when counting?",
    "When I count, what comes after {a}?",
    "When counting, which number comes after {a}?",
    "If I count, what comes after {a}?",
    "I counted to {a}. What comes next?",
    "I am at {a}. What is the next number?",
    "Which number is after {a}?",
    "Which number is next after {a}?",
    "Which number comes right after {a}?",
    "Which number comes next after {a}?",
    "Which is the number after {a}?",
    "Which is the next number after {a}?",
    "The number after {a}[|?| is ...| is what?]",
    "The next number after {a}[|?| is ...]",
    "Next number after {a}?",
    "Name the number after {a}.",
    "Give me the number after {a}.",
    "Give me the next number after {a}.",
    "Say the number that comes after {a}.",
    "Tell me what comes after {a}.",
    "Tell me the next number after {a}.",
    "Tell me which number comes after {a}.",
    "Please tell me the number after {a}.",
    "Can you tell me what number comes after {a}?",
    "Could you tell me the number after {a}?",
    "Do you know what comes after {a}?",
    "Do you know the number after {a}?",
    "I want to know which number comes after {a}.",
    "Quiz: which number comes after {a}?",
],
    held_out=["If I count and just said {a}, what do I say next?", "What number follows {a}?",
              "{a}, and then comes which number?"],
)  # fmt: skip
BEFORE = Phrasings(
    seen=["What comes before {a}?", "What number comes before {a}?", "Which number comes before {a}?",
          "What is the number before {a}?",
          "What's just before {a}?", "Number before {a}?", "What number is right before {a}?",
          "Tell me the number before {a}.",
    "number before {a}",
    "what comes before {a}",
    "{a}, what comes before it?",
    "{a}, and the number before?",
    "{a} comes after which number?",
    "{a} comes right after[| what|?| ...]",
    "{a} follows which number?",
    "Before {a} comes[| what|?| ...| which number?]",
    "Before the number {a} comes?",
    "Just before {a} is[| what|?| ...| which number?]",
    "What's before {a}?",
    "What's the number before {a}?",
    "What is before {a} when I count?",
    "What is right before {a}?",
    "What is the number just before {a}?",
    "What is the number right before {a}?",
    "What is the previous number to {a}?",
    "What comes just before {a}?",
    "What comes right before {a}?",
    "What number is before {a}?",
    "What number is just before {a}?",
    "What number comes right before {a}?",
    "What number do I say before {a} when counting?",
    "What number precedes {a}?",
    "When I count, what comes before {a}?",
    "When counting, which number is just before {a}?",
    "If I count, what comes before {a}?",
    "Which number is before {a}?",
    "Which number is right before {a}?",
    "Which number comes just before {a}?",
    "Which number precedes {a}?",
    "Which is the number before {a}?",
    "The number before {a}[|?| is ...| is what?]",
    "The number just before {a}[|?| is ...]",
    "The number that comes before {a}?",
    "Name the number before {a}.",
    "Give me the number before {a}.",
    "Give me the number right before {a}.",
    "Say the number that comes before {a}.",
    "Tell me what comes before {a}.",
    "Tell me which number comes before {a}.",
    "Tell me the number right before {a}.",
    "Please tell me the number before {a}.",
    "Can you tell me what number comes before {a}?",
    "Could you tell me the number before {a}?",
    "Do you know what comes before {a}?",
    "Do you know the number before {a}?",
    "I want to know which number comes before {a}.",
    "Quiz: which number comes before {a}?",
],
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
