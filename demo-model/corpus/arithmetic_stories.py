"""Little stories with a sum in them."""

from random import Random
from typing import NamedTuple

from .core import SEEN, Turn
from .numbers import typed
from .people import NAMES, NAMES_HELD_OUT, THINGS, THINGS_HELD_OUT


class Story(NamedTuple):
    """{a} and {b} are numbers, {c} the result; {who} and {other} people; {things} what is counted."""

    user: str
    end: str


HAS = "{who} has {c} {things}."
ADD = [
    Story("{who} has {a} {things} and gets {b} more. How many {things} does {who} have now?", HAS),
    Story("{who} has {a} {things}. {other} gives {who} {b} more. How many does {who} have?", HAS),
    Story("{who} has {a} {things} and buys {b} more. How many is that?", HAS),
    Story(
        "{who} found {a} {things} today and {b} yesterday. How many in total?", "{who} found {c} {things}."
    ),
    Story(
        "{who} has {a} {things} and {other} has {b}. How many do they have together?",
        "Together they have {c} {things}.",
    ),
    Story(
        "There are {a} {things} on the table. {who} puts {b} more there. How many are there?",
        "There are {c} {things}.",
    ),
    Story("I have {a} {things} and you give me {b}. How many do I have?", "You have {c} {things}."),
    Story("I had {a} {things} and got {b} more. How many now?", "You have {c} {things}."),
    Story("{a} {things} and {b} {things}, how many {things} is that?", "That is {c} {things}."),
    Story(
        "In one box there are {a} {things}, in another {b}. How many altogether?", "There are {c} {things}."
    ),
]
ADD += [
    Story("{who} has {a} {things} and " + gains + " {b}" + more + ". " + asks, HAS)
    for gains in ("finds", "receives", "collects", "is given", "picks up", "wins", "makes", "brings", "adds", "borrows")
    for more in (" more", " others", "")
    for asks in ("How many {things} is that?", "How many now?", "How many does {who} have in the end?")
]
ADD_HELD_OUT = [
    Story(
        "{who} owns {a} {things}. For a birthday {other} adds {b}. What is the number of {things} now?", HAS
    ),
    Story(
        "I picked {a} {things} in the morning and {b} in the evening. What is the total?",
        "You have {c} {things}.",
    ),
    Story(
        "If there are {a} {things} here and {b} there, how many are there in all?", "There are {c} {things}."
    ),
]
SUBTRACT = [
    Story("{who} has {a} {things} and gives {b} to {other}. How many {things} does {who} have left?", HAS),
    Story("{who} has {a} {things} and loses {b}. How many are left?", HAS),
    Story("{who} had {a} {things} and sold {b}. How many does {who} have now?", HAS),
    Story("There are {a} {things}. {who} takes {b} away. How many are left?", "There are {c} {things}."),
    Story(
        "There were {a} {things} in the bag and {b} fell out. How many are in the bag?",
        "There are {c} {things}.",
    ),
    Story("I have {a} {things} and give you {b}. How many do I have left?", "You have {c} {things}."),
    Story("I had {a} {things}, but lost {b}. How many do I have?", "You have {c} {things}."),
    Story("{a} {things}, {b} of them are gone. How many are left?", "There are {c} {things}."),
]
SUBTRACT += [
    Story("{who} " + has + " {a} {things} and " + loses + " {b}" + of_them + ". " + asks, HAS)
    for has in ("has", "gets", "carries", "takes along", "buys")
    for loses in ("drops", "uses", "hands out", "forgets", "returns", "lends", "spends", "eats", "hides", "spoils")
    for of_them in ("", " of them")
    for asks in ("How many are left?", "How many remain?", "How many does {who} still have?", "What is left?")
]
SUBTRACT_HELD_OUT = [
    Story("Out of {a} {things}, {who} breaks {b}. How many are still fine?", "There are {c} {things}."),
    Story("{who} starts the day with {a} {things} and ends it with {b} fewer. How many is that?", HAS),
    Story("I bought {a} {things} and then threw {b} away. What remains?", "You have {c} {things}."),
]
MULTIPLY = [
    Story("{who} has {a} boxes with {b} {things} each. How many {things} is that?", HAS),
    Story(
        "There are {a} bags with {b} {things} in each. How many {things} are there?",
        "There are {c} {things}.",
    ),
    Story(
        "{a} people have {b} {things} each. How many {things} do they have together?",
        "Together they have {c} {things}.",
    ),
    Story("I buy {a} packs of {b} {things}. How many {things} do I get?", "You have {c} {things}."),
]
MULTIPLY += [
    Story(start + " {a} " + holders + " with {b} {things} " + each + ". How many {things} " + asks, "That is {c} {things}.")
    for start in ("There are", "I see", "We have", "{who} buys")
    for holders in ("boxes", "shelves", "plates", "rows", "tables", "baskets", "bags", "rooms", "jars")
    for each in ("each", "in each", "on every one")
    for asks in ("is that?", "in total?", "are there altogether?", "together?")
] + [
    Story("{who} " + does + " {b} {things} every " + time + ". How many in {a} " + time + "s?", "That is {c} {things}.")
    for does in ("makes", "sells", "reads", "paints", "needs", "buys", "finds")
    for time in ("day", "week", "hour", "month", "year")
]
MULTIPLY_HELD_OUT = [
    Story("Each of {a} baskets holds {b} {things}. How many {things} in all?", "There are {c} {things}."),
    Story("{who} collects {b} {things} a day for {a} days. How many is that?", HAS),
]
STORIES = {"+": (ADD, ADD_HELD_OUT), "-": (SUBTRACT, SUBTRACT_HELD_OUT), "*": (MULTIPLY, MULTIPLY_HELD_OUT)}


def story(rng: Random, split: str) -> tuple[Turn, int]:
    """A story with its answer, and the number that is right."""
    seen = split == SEEN
    op = rng.choices(list(STORIES), [5, 5, 2])[0]
    a, b, c = operands(rng, op)
    who, other = rng.sample(NAMES if seen else NAMES_HELD_OUT, 2)
    things = rng.choice(THINGS if seen else THINGS_HELD_OUT)
    chosen = rng.choice(STORIES[op][0 if seen else 1])
    shown = typed(rng, a, b)
    user = chosen.user.format(a=shown[0], b=shown[1], who=who, other=other, things=things)
    end = chosen.end.format(c=c, who=who, things=things)
    return Turn(user[0].upper() + user[1:], f"{a} {op} {b} = {c}. {end}"), c


def operands(rng: Random, op: str) -> tuple[int, int, int]:
    """Two numbers above one for a story, and the result, which is above one as well."""
    if op == "+":
        a, b = rng.randint(2, 20), rng.randint(2, 20)
        return a, b, a + b
    if op == "-":
        c, b = rng.randint(2, 15), rng.randint(2, 12)
        return c + b, b, c
    a, b = rng.randint(2, 10), rng.randint(2, 10)
    return a, b, a * b
