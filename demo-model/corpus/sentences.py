"""Sentences made by little grammars, as contents to repeat; some grammars and words are held out."""

import re
from random import Random

from .core import SEEN, say
from .numbers import in_words
from .people import NAMES, NAMES_HELD_OUT, THINGS, THINGS_HELD_OUT
from .words import ADJECTIVES, ADJECTIVES_HELD_OUT, NOUNS, NOUNS_HELD_OUT, VERBS, VERBS_HELD_OUT

PLACES = (
    "at home,in the garden,at school,by the river,in the kitchen,on the roof,in the park,"
    "near the station,under the bridge,behind the house,in the city,at the market,on the hill,"
    "in the forest,on the beach,next to the door,in the north"
).split(",")
PLACES_HELD_OUT = (
    "beside the lake,in the attic,across the street,on the island,at the airport,along the coast"
).split(",")
TIMES = (
    "today,tomorrow,every day,in the morning,at night,on Monday,on Sunday,at noon,in winter,in May,"
    "after lunch,before dinner,last week,next year,at seven o'clock,twice a week,now and then"
).split(",")
TIMES_HELD_OUT = (
    "this afternoon,in autumn,on Thursday,before breakfast,since yesterday,at half past nine".split(",")
)

# Nouns: {x}, {y}; adjectives: {p}, {q}; verbs: {v}, {w}; people: {who}, {other}; the rest by its name.
SENTENCES = """
The {x} is {p}
The {p} {x} is {q}
A {x} and a {y}
I like the {p} {x}
I can {v} and {w}
{who} likes {things}
{who} and {other} {v} {place}
My {x} is {p}
We {v} {time}
I {v} {place} {time}
There is a {p} {x} {place}
{who} has {n} {things}
The {x} and the {y} are {p}
Do you {v} {time}
Where is the {p} {x}
What is a {x}
Who is {who}
Is the {x} {p} or {q}
Can {who} {v} {place}
{who}, please {v} the {x}
Please do not {v} {place}
{time} the {x} was {p}
It is a {p} day
Nobody saw the {x} {place}
The {x} of {who} is very {p}
Never {v} a {p} {x}
How many {things} are there {place}
{who} said that the {x} is {p}
I have never seen such a {p} {x}
This is not a {x}, it is a {y}
You and I {v} together
Let us {v} {time}
When I {v}, you {w}
If the {x} is {p}, we {v}
{p} {x}
{x}, {y} and {things}
The {x} {place}
Why is {who} so {p}
{who} wants to {v} {time}
Their {x} costs {n} coins
One {x}, two {things}
First {v}, then {w}
All {things} are {p}
She gave {other} a {x}
He lost his {x} {place}
We are {p} but {q}
What a {p} {x}
Good {x}, bad {y}
I am a {x}
You are a {p} {x}
I think {who} is {p}
My name is {who}
What is your name
Tell me about {things}
Say hello to {who}
What time is it
Open the {x} and {v}
Today is a good day to {v}
Hello world
Hello, {who}
Hello there
Good morning, {who}
Good night
Thank you very much
See you {time}
I love {things}
How are you
I am very {p}
Are you {p}
Have a nice day
""".strip().splitlines()
SENTENCES_HELD_OUT = """
Our {x} looks {p} {time}
{who} will {v} with {other} {time}
Some {things} fell on the {p} {x}
Did {who} bring the {x}
Every {x} needs a {y}
The {x} belongs to {who}
They {v} near the {p} {x}
Somebody left {n} {things} {place}
{time} {who} met a {p} {x}
I would rather {v} than {w}
Which {x} do you want
That {p} {x} sounds {q}
Be {p} and {v}
Without a {x} we cannot {v}
Has anyone seen {who} {place}
{who} calls the {x} {p}
There were {n} {things} and one {x}
Both {who} and {other} are {p}
Maybe the {x} is {place}
Keep the {x} {place}
""".strip().splitlines()


def sentence(rng: Random, split: str) -> str:
    """A sentence without a final mark, now and then of little sense."""
    seen = split == SEEN

    def some(words: list[str], held_out: list[str]) -> str:
        return rng.choice(words if seen or rng.random() < 0.5 else held_out)

    n = rng.randint(2, 99)
    who, other = (some(NAMES, NAMES_HELD_OUT) for _ in range(2))
    text = say(
        rng,
        rng.choice(SENTENCES if seen else SENTENCES_HELD_OUT),
        x=some(NOUNS, NOUNS_HELD_OUT),
        y=some(NOUNS, NOUNS_HELD_OUT),
        p=some(ADJECTIVES, ADJECTIVES_HELD_OUT),
        q=some(ADJECTIVES, ADJECTIVES_HELD_OUT),
        v=some(VERBS, VERBS_HELD_OUT),
        w=some(VERBS, VERBS_HELD_OUT),
        things=some(THINGS, THINGS_HELD_OUT),
        place=some(PLACES, PLACES_HELD_OUT),
        time=some(TIMES, TIMES_HELD_OUT),
        n=in_words(n) if rng.random() < 0.4 else n,
        who=who,
        other=other,
    )
    text = re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)
    return text[0].upper() + text[1:]
