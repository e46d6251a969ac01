"""Countries, their capitals and continents, both ways; and what is no country."""

from random import Random

from . import invented
from .capitals_said import (
    ABOUT,
    CAPITAL,
    CAPITAL_FOLLOW,
    CHECK,
    CITY,
    CONTINENT,
    FOLLOW,
    REVERSED,
    REVERSED_FOLLOW,
    THEN_CAPITAL,
    THEN_CONTINENT,
)
from .core import HELD_OUT, SEEN, Phrasings, Question, Turn, one
from .countries import (
    CITIES,
    CONTINENTS,
    COUNTRIES,
    REGIONS,
    STORY_COUNTRIES,
    STORY_COUNTRIES_HELD_OUT,
    Country,
)
from .typos import plain, slip

WEIGHT = 5.0


def typed(rng: Random, name: str) -> str:
    """A name as people type it: often without the marks on its letters."""
    return plain(name) if rng.random() < 0.6 else name


def whose(name: str) -> str:
    """The name in the genitive."""
    return name + ("'" if name.endswith("s") else "'s")


def naming(rng: Random, name: str) -> dict[str, str]:
    """The slots of the user's templates that name a country; the article may be forgotten."""
    name = typed(rng, name)
    bare = name.removeprefix("the ")
    said = bare if rng.random() < 0.15 else name
    return {"country": said, "bare": bare, "whose": whose(said)}


def called(rng: Random, country: Country) -> str:
    """One of the country's names, the first one more often."""
    return country.names[0] if rng.random() < 0.5 else rng.choice(country.names)


def sentence(text: str) -> str:
    """The text with a capital letter at its start and a full stop at its end."""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def capital_answer(country: Country, name: str) -> str:
    answer = sentence(f"The capital of {name} is {country.capitals[0]}")
    return f"{answer} {country.note}" if country.note else answer


def reversed_answer(country: Country) -> str:
    return sentence(f"{country.capitals[0]} is the capital of {country.names[0]}")


def continent_answer(country: Country, name: str) -> str:
    return sentence(f"{name} is in {country.continents[0]}")


def ask(rng: Random, phrasings: Phrasings, split: str, **slots: str) -> str:
    return slip(rng, sentence_start(phrasings.say(rng, split, **slots)))


def sentence_start(text: str) -> str:
    """A text that starts with the article starts with a capital, as people write it."""
    return "T" + text[1:] if text.startswith("the ") else text


def capital_turns(rng: Random, split: str) -> list[Turn]:
    """One country's capital, and perhaps a few more."""
    country = rng.choice(COUNTRIES)
    name = called(rng, country)
    turns = [Turn(ask(rng, CAPITAL, split, **naming(rng, name)), capital_answer(country, name))]
    if rng.random() < 0.1:
        turns.append(Turn(rng.choice(THEN_CONTINENT), continent_answer(country, name)))
    else:
        while rng.random() < 0.3:
            country = rng.choice(COUNTRIES)
            name = called(rng, country)
            turns.append(
                Turn(ask(rng, CAPITAL_FOLLOW, split, **naming(rng, name)), capital_answer(country, name))
            )
    if rng.random() < 0.04:
        name = unheard(rng, split)
        turns.append(Turn(ask(rng, CAPITAL_FOLLOW, split, **naming(rng, name)), unknown_answer(name)))
    return turns


def reversed_turns(rng: Random, split: str) -> list[Turn]:
    """A capital's country, and perhaps more of them."""
    country = rng.choice(COUNTRIES)
    city = typed(rng, rng.choice(country.capitals))
    turns = [Turn(ask(rng, REVERSED, split, city=city), reversed_answer(country))]
    while rng.random() < 0.25:
        country = rng.choice(COUNTRIES)
        user = one(rng, REVERSED_FOLLOW, city=typed(rng, country.capitals[0]))
        turns.append(Turn(user, reversed_answer(country)))
    return turns


def wrong_city(rng: Random, country: Country) -> str:
    """A city that is not the country's capital, most often a big one of its own."""
    own = CITIES.get(country.names[0], ())
    if own and rng.random() < 0.7:
        return rng.choice(own)
    other = rng.choice([c for c in COUNTRIES if not set(c.capitals) & set(country.capitals)])
    return other.capitals[0]


def check_turns(rng: Random, split: str) -> list[Turn]:
    """Is this city the capital of that country?"""
    country = rng.choice(COUNTRIES)
    if rng.random() < 0.3:
        country = rng.choice([c for c in COUNTRIES if c.names[0] in CITIES])
    name = called(rng, country)
    yes = rng.random() < 0.45
    city = country.capitals[0] if yes else wrong_city(rng, country)
    user = ask(rng, CHECK, split, city=typed(rng, city), **naming(rng, name))
    # The fact first: what follows can then be read off it.
    fact = f"The capital of {name} is {country.capitals[0]}"
    return [Turn(user, f"{fact}, so {'yes' if yes else 'no'}.")]


def continent_turns(rng: Random, split: str) -> list[Turn]:
    """The continent a country is on, and perhaps its capital."""
    country = rng.choice(COUNTRIES)
    name = called(rng, country)
    turns = [Turn(ask(rng, CONTINENT, split, **naming(rng, name)), continent_answer(country, name))]
    if rng.random() < 0.2:
        turns.append(Turn(rng.choice(THEN_CAPITAL), capital_answer(country, name)))
    else:
        while rng.random() < 0.2:
            country = rng.choice(COUNTRIES)
            user = one(rng, FOLLOW, **naming(rng, country.names[0]))
            turns.append(Turn(user, continent_answer(country, country.names[0])))
    return turns


def unheard(rng: Random, split: str) -> str:
    """A country of a story, or one that nobody has heard of."""
    known = {name for country in COUNTRIES for name in country.names}
    if rng.random() < 0.25:
        return rng.choice(STORY_COUNTRIES if split == SEEN else STORY_COUNTRIES_HELD_OUT)
    while (name := invented.country(rng, split)) in known:
        pass
    return name


def unknown_answer(name: str) -> str:
    return f"I do not know a country called {name}."


def unknown_turns(rng: Random, split: str) -> list[Turn]:
    """What is no country, asked for its capital or continent."""
    if rng.random() < 0.15:
        region = rng.choice(REGIONS)
        answer = f"{region} is not a country, and I only know the capitals of countries."
        return [Turn(ask(rng, CAPITAL, split, **naming(rng, region)), answer)]
    if rng.random() < 0.08:
        continent = rng.choice(CONTINENTS)
        answer = f"{continent} is a continent, not a country. It has no capital."
        return [Turn(ask(rng, CAPITAL, split, **naming(rng, continent)), answer)]
    name = unheard(rng, split)
    phrasings = CAPITAL if rng.random() < 0.75 else rng.choice([CONTINENT, ABOUT])
    turns = [Turn(ask(rng, phrasings, split, **naming(rng, name)), unknown_answer(name))]
    if rng.random() < 0.2:
        country = rng.choice(COUNTRIES)
        if phrasings is CAPITAL:
            user = ask(rng, CAPITAL_FOLLOW, split, **naming(rng, country.names[0]))
            turns.append(Turn(user, capital_answer(country, country.names[0])))
    return turns


def about_turns(rng: Random, split: str) -> list[Turn]:
    """A country in two facts."""
    country = rng.choice(COUNTRIES)
    name = called(rng, country)
    answer = (
        sentence(f"{name} is a country in {country.continents[0]}")
        + " "
        + sentence(f"Its capital is {country.capitals[0]}")
    )
    return [Turn(ask(rng, ABOUT, split, **naming(rng, name)), answer)]


def city_turns(rng: Random, split: str) -> list[Turn]:
    """A city that is no capital."""
    name, cities = rng.choice(list(CITIES.items()))
    city = rng.choice(cities)
    phrasings = REVERSED if rng.random() < 0.3 else CITY
    user = ask(rng, phrasings, split, city=typed(rng, city))
    return [Turn(user, f"{city} is a city in {name}, but not its capital.")]


KINDS = {
    capital_turns: 58,
    reversed_turns: 14,
    check_turns: 8,
    continent_turns: 7,
    unknown_turns: 8,
    about_turns: 2,
    city_turns: 3,
}


def turns(rng: Random, split: str) -> list[Turn]:
    (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
    return kind(rng, split)


def exam(rng: Random) -> list[Question]:
    """Every country both ways, its continent, and some that do not exist."""
    questions = []
    for country in COUNTRIES:
        slots = naming(rng, country.names[0])
        questions.append(Question("capitals", CAPITAL.say(rng, HELD_OUT, **slots), country.capitals))
        city = typed(rng, country.capitals[0])
        questions.append(
            Question("capitals reversed", REVERSED.say(rng, HELD_OUT, city=city), names_in(country))
        )
        questions.append(Question("continents", CONTINENT.say(rng, HELD_OUT, **slots), country.continents))
    for _ in range(100):
        name = unheard(rng, HELD_OUT)
        user = CAPITAL.say(rng, HELD_OUT, **naming(rng, name))
        questions.append(Question("countries that do not exist", user, ("do not know",)))
    for country in rng.sample(COUNTRIES, 100):
        yes = rng.random() < 0.5
        city = country.capitals[0] if yes else wrong_city(rng, country)
        user = CHECK.say(rng, HELD_OUT, city=city, **naming(rng, country.names[0]))
        questions.append(Question("capitals checked", user, ("Yes",) if yes else ("No",)))
    return questions


def names_in(country: Country) -> tuple[str, ...]:
    """The country's names without the article, as an answer may hold them."""
    return tuple(name.removeprefix("the ") for name in country.names)
