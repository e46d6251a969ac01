"""Days, months, seasons and units of time."""

from .core import Phrasings
from .numbers import in_words, ordinal
from .relations import Fact, Relation, listed, table

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
SEASONS = {
    "spring": MONTHS[2:5],
    "summer": MONTHS[5:8],
    "autumn": MONTHS[8:11],
    "winter": [MONTHS[11], *MONTHS[:2]],
}
PLACES = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()


def steps() -> tuple[list[Fact], list[Fact]]:
    """The neighbours after and before each day, month and season."""
    after, before = [], []
    for kind, names in (("day", DAYS), ("month", MONTHS), ("season", list(SEASONS))):
        for a, b in zip(names, names[1:] + names[:1]):
            after.append({"kind": kind, "a": a, "b": b})
            before.append({"kind": kind, "a": b, "b": a})
    after.append({"kind": "season", "a": "fall", "b": "winter"})
    before.append({"kind": "season", "a": "fall", "b": "summer"})
    return after, before


AFTER, BEFORE = steps()
FOLLOW_STEP = ["And {a}?", "What about {a}?", "and after {a}?", "How about {a}?"]
OF_AFTER = Relation(
    Phrasings(
        seen=["What {kind} comes after {a}?", "Which {kind} comes after {a}?", "What comes after {a}?",
              "What is the {kind} after {a}?",
              "What's after {a}?", "The {kind} after {a}[|?|.]", "{kind} after {a}",
              "Which {kind} follows {a}?", "What {kind} is after {a}?",
              "What is the next {kind} after {a}?", "After {a} comes[| ...|?| what?| which {kind}?]",
              "Tell me the {kind} after {a}.",
              "{a} is followed by which {kind}?", "{a} comes before which {kind}?",
              "Name the {kind} after {a}.",
              "Can you tell me which {kind} comes after {a}?", "Do you know what comes after {a}?",
              "What {kind} is next after {a}?",
              "{a}, and then?", "If it is {a}, what {kind} comes next?", "Next {kind} after {a}?"],
        held_out=["What {kind} follows {a}?", "It is {a}. Which {kind} is next?",
                  "Which {kind} do we have after {a}?",
                  "When {a} is over, what {kind} begins?", "{a} ends. What comes then?",
                  "Say the {kind} that comes right after {a}."],
    ),
    "After {a} comes {b}.", AFTER, "b", FOLLOW_STEP,
)  # fmt: skip
OF_BEFORE = Relation(
    Phrasings(
        seen=["What {kind} comes before {a}?", "Which {kind} comes before {a}?", "What comes before {a}?",
              "What is the {kind} before {a}?",
              "What's before {a}?", "The {kind} before {a}[|?|.]", "{kind} before {a}",
              "What {kind} is before {a}?",
              "Before {a} comes[| ...|?| what?| which {kind}?]", "Tell me the {kind} before {a}.",
              "{a} comes after which {kind}?",
              "Name the {kind} before {a}.", "Can you tell me which {kind} comes before {a}?",
              "Which {kind} is just before {a}?",
              "Do you know what comes before {a}?", "{a} follows which {kind}?",
              "What {kind} was it before {a}?"],
        held_out=["Which {kind} precedes {a}?", "What {kind} do we have right before {a}?",
                  "It is {a}. Which {kind} was just over?",
                  "Going back from {a}, which {kind} is it?", "Say the {kind} that comes right before {a}."],
    ),
    "Before {a} comes {b}.", BEFORE, "b", ["And {a}?", "What about {a}?", "and before {a}?",
    "How about {a}?"],
)  # fmt: skip


def shifts() -> list[Fact]:
    """A day some days on or back, and a month some months on or back."""
    facts = []
    for kind, names in (("day", DAYS), ("month", MONTHS)):
        for i, a in enumerate(names):
            for n in range(2, 7):
                for way, sign in (("after", 1), ("before", -1)):
                    b = names[(i + sign * n) % len(names)]
                    for number in (str(n), in_words(n)):
                        facts.append({"kind": kind, "n": number, "way": way, "a": a, "b": b})
    return facts


OF_SHIFTS = Relation(
    Phrasings(
        seen=["What {kind} is {n} {kind}s {way} {a}?", "Which {kind} is {n} {kind}s {way} {a}?",
              "{n} {kind}s {way} {a}[|?| is]",
              "What {kind} comes {n} {kind}s {way} {a}?", "What is {n} {kind}s {way} {a}?",
              "Tell me the {kind} {n} {kind}s {way} {a}.",
              "Which {kind} is it {n} {kind}s {way} {a}?"],
        held_out=["Which {kind} do I get {n} {kind}s {way} {a}?",
                  "If I go {n} {kind}s {way} {a}, what {kind} is it?"],
    ),
    "{n} {kind}s {way} {a} is {b}.", shifts(), "b", ["And {n} {kind}s {way} {a}?"],
)  # fmt: skip

IF_TODAY = [
    {"told": told, "ask": ask, "want": want, "a": DAYS[i], "b": DAYS[(i + step) % 7]}
    for told, ask, want, step in (
        ("today is", "what day is tomorrow", "tomorrow is", 1),
        ("today is", "what day was yesterday", "yesterday was", -1),
        ("it is", "what day is tomorrow", "tomorrow is", 1),
        ("tomorrow is", "what day is today", "today is", -1),
        ("yesterday was", "what day is today", "today is", 1),
        ("yesterday was", "what day is tomorrow", "tomorrow is", 2),
        ("tomorrow is", "what day was yesterday", "yesterday was", -2),
        ("today is", "what day is the day after tomorrow", "the day after tomorrow is", 2),
        ("today is", "what day was the day before yesterday", "the day before yesterday was", -2),
    )
    for i in range(7)
]
OF_TODAY = Relation(
    Phrasings(
        seen=["If {told} {a}, {ask}?", "If {told} {a}, {ask}?", "{told} {a}, {ask}?", "{told} {a}, so {ask}?",
              "When {told} {a}, {ask}?",
              "If {told} {a}, {want}[| ...|?| what?]", "{told} {a}, so {want}[| ...|?| what?]",
              "{told} {a}, then {want} which day?",
              "{told} {a}, can you tell me {ask}?", "I know that {told} {a}, but {ask}?",
              "{ask} if {told} {a}?", "{ask} when {told} {a}?"],
        held_out=["Given that {told} {a}, {ask}?", "Suppose {told} {a}, {ask} then?",
                  "Let's say {told} {a}. Then {want} which day?",
                  "I think {told} {a}. Tell me then, {ask}?"],
    ),
    "If {told} {a}, {want} {b}.", IF_TODAY, "b",
)  # fmt: skip
PLACE_FACTS = [
    {"kind": kind, "whole": whole, "place": place, "nth": ordinal(i + 1), "name": name}
    for kind, whole, names in (("day", "week", DAYS), ("month", "year", MONTHS))
    for i, (place, name) in enumerate(zip(PLACES, names))
]  # fmt: skip
LAST_FACTS = [
    {"kind": "day", "whole": "week", "place": "last", "nth": "last", "name": "Sunday"},
    {"kind": "month", "whole": "year", "place": "last", "nth": "last", "name": "December"},
]
OF_PLACES = Relation(
    Phrasings(
        seen=["What is the {place} {kind} of the {whole}?", "Which {kind} is the {place} of the {whole}?",
              "What is the {nth} {kind} of the {whole}?",
              "Which is the {place} {kind} of the {whole}?", "The {place} {kind} of the {whole}[|?|.]",
              "{place} {kind} of the {whole}",
              "What's the {place} {kind} of the {whole}?", "Which {kind} is the {nth} {kind} of the {whole}?",
              "Tell me the {place} {kind} of the {whole}.",
              "Name the {nth} {kind} of the {whole}.", "What {kind} is the {nth} of the {whole}?",
              "What is the {place} {kind}?"],
        held_out=["Which {kind} comes {place} in the {whole}?",
                  "What do we call the {place} {kind} of the {whole}?",
                  "In the {whole}, which {kind} is the {nth} one?"],
    ),
    "The {place} {kind} of the {whole} is {name}.", PLACE_FACTS + LAST_FACTS, "name",
)  # fmt: skip
OF_NUMBERS = Relation(
    Phrasings(
        seen=["Which number is {name}?", "What number is {name}?", "What number is the {kind} {name}?",
              "{name} is which {kind} of the {whole}?",
              "Which {kind} of the {whole} is {name}?", "What number {kind} is {name}?",
              "Tell me the number of {name} in the {whole}.", "In the {whole}, what number is {name}?"],
        held_out=["What place does {name} have in the {whole}?",
                  "Is {name} the first, second, third or which {kind}?"],
    ),
    "{name} is the {place} {kind} of the {whole}.", PLACE_FACTS, "place",
)  # fmt: skip
LENGTH_FACTS = [
    {"month": month, "n": str(n), "also": ", or 29 in a leap year" if n == 28 else ""}
    for month, n in zip(MONTHS, LENGTHS)
]
OF_LENGTHS = Relation(
    Phrasings(
        seen=["How many days does {month} have?", "How many days are in {month}?",
              "How many days are there in {month}?", "How long is {month}?",
              "Days in {month}[|?]", "{month} has how many days?", "Number of days in {month}?",
              "Tell me how many days {month} has.",
              "How many days has {month} got?", "{month}: how many days?",
              "What is the number of days in {month}?",
              "Does {month} have 30 or 31 days?", "Do you know how many days {month} has?"],
        held_out=["How many days make up {month}?", "For how many days does {month} last?",
                  "{month} lasts how many days?",
                  "I need the number of days in {month}.", "Count of days in the month of {month}?"],
    ),
    "{month} has {n} days{also}.", LENGTH_FACTS, "n", ["And {month}?", "What about {month}?",
    "How about {month}?", "{month}?"],
)  # fmt: skip
SEASON_FACTS = [{"month": month, "season": season} for season, months in SEASONS.items() for month in months]
OF_SEASONS = Relation(
    Phrasings(
        seen=["Which season is {month} in?", "What season is {month} in?", "What season is it in {month}?",
              "In which season is {month}?",
              "{month} is in which season?", "Season of {month}?", "Which season is it in {month}?",
              "What season does {month} belong to?",
              "Is {month} in spring, summer, autumn or winter?", "Tell me the season of {month}."],
        held_out=["To which season does {month} belong?", "{month} falls in what season?",
                  "What time of year is {month}, which season?"],
    ),
    "In the north, {month} is in {season}.", SEASON_FACTS, "season", ["And {month}?", "What about {month}?",
    "{month}?"],
)  # fmt: skip
UNITS = table("n unit big", """
60 | seconds | a minute; 60 | minutes | an hour; 24 | hours | a day; 7 | days | a week; 12 | months | a year
52 | weeks | a year; 365 | days | a year; 366 | days | a leap year; 10 | years | a decade
100 | years | a century; 1000 | years | a millennium; 4 | seasons | a year; 30 | minutes | half an hour
15 | minutes | a quarter of an hour; 3600 | seconds | an hour; 48 | hours | two days; 14 | days | two weeks
2 | days | a weekend; 1440 | minutes | a day; 168 | hours | a week; 3 | months | a season
4 | quarters | a year; 30 | seconds | half a minute; 6 | months | half a year; 12 | hours | half a day
120 | minutes | two hours; 120 | seconds | two minutes; 24 | months | two years; 21 | days | three weeks
""")  # fmt: skip
OF_UNITS = Relation(
    Phrasings(
        seen=["How many {unit} are in {big}?", "How many {unit} are there in {big}?",
              "How many {unit} does {big} have?", "How many {unit} in {big}[|?]",
              "{unit} in {big}[|?]", "{big} has how many {unit}?", "How many {unit} make {big}?",
              "Number of {unit} in {big}?",
              "Tell me how many {unit} {big} has.", "{big} is how many {unit}?",
              "How many {unit} has {big} got?",
              "Do you know how many {unit} are in {big}?", "How long is {big} in {unit}?"],
        held_out=["How many {unit} make up {big}?", "What's the number of {unit} in {big}?",
                  "If I count the {unit} in {big}, how many are there?",
                  "How many {unit} do we have in {big}?", "{big} consists of how many {unit}?"],
    ),
    "There are {n} {unit} in {big}.", UNITS, "n", ["And {unit} in {big}?", "And how many {unit} in {big}?"],
)  # fmt: skip
LISTS = table("what list", f"""
days of the week | The days of the week are {listed(DAYS)}
months of the year | The months of the year are {listed(MONTHS)}
seasons | The four seasons are {listed(list(SEASONS))}
days of the weekend | The days of the weekend are Saturday and Sunday
weekdays | The weekdays are {listed(DAYS[:5])}
months with 30 days | April, June, September and November have 30 days
months with 31 days | January, March, May, July, August, October and December have 31 days
summer months | The summer months in the north are June, July and August
winter months | The winter months in the north are December, January and February
spring months | The spring months in the north are March, April and May
autumn months | The autumn months in the north are September, October and November
""")  # fmt: skip
OF_LISTS = Relation(
    Phrasings(
        seen=["What are the {what}?", "List the {what}.", "Name the {what}.", "Tell me the {what}.",
              "{what}[|?|:]", "Which are the {what}?",
              "Can you list the {what}?", "Can you name all the {what}?", "Do you know the {what}?",
              "Say the {what}.", "The {what}, please.",
              "I want to learn the {what}.", "Give me the {what} in order.", "Write down the {what}."],
        held_out=["Could you recite the {what}?", "Teach me the {what}.", "I need a list of the {what}.",
                  "How do the {what} go?"],
    ),
    "{list}.", LISTS, "list",
)  # fmt: skip
