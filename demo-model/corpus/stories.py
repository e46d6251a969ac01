"""Short stories: a hero, a friend, and one of many plots, about whom the user asks for."""

import re
from dataclasses import dataclass
from random import Random

from . import names
from .core import HELD_OUT, Phrasings, Question, Turn, one, say
from .fun import AGAIN
from .plots import CLOSINGS, LOVING, LOVING_STILL, NAMELESS, OPENINGS, PLOTS, SHORT_PLOTS
from .story_words import (
    ADJECTIVES, BEINGS, FOODS, LATER, LOVES, MAN, OF_CHILDREN, PLACES, THEMES, THINGS, TIMES, TRAITS, WOMAN,
)

WEIGHT = 4.0

STORY = "[a story|a tale|a short story|a little story|a nice story]"
ANY = Phrasings(
    (f"[Tell|Tell me|Write|Give me|Write me|Make up|Invent|Read me] {STORY}[|.|!| please|, please]",
     f"[Can|Could|Will|Would] you [please |]tell [me |us |]{STORY}?",
     f"I [want|would like|want to hear|would like to hear|need] {STORY}[|.|!]",
     "[story|Story|A story|a story|story time|Story time][|!|.|, please]", "A bedtime story[|, please][|.|!]",
     "Tell me a bedtime story[|.]", "[Another|One more] story[|.|!|, please]", f"Do you know {STORY}?",
     f"Let me hear {STORY}[|.]", "Tell me another story[|.|!]", "I cannot sleep. Tell me a story[|.]",
     "Tell me something with a happy end[|.]",
     f"[Tell me|Write] {STORY} for [children|kids|my daughter|my son|my little sister][|.]",
     "Tell me a [funny|happy|beautiful|strange|new|fairy|exciting|magical] [story|tale][|.]",
     "Once upon a time[|...]", "Tell a fairy tale[|.]", "Can you write stories?", "Can you tell stories?",
     "Make a story[|.|!]", "More stories[|!|, please]", "A story would be nice[|.]",
     "Please tell me a story before I go to sleep[|.]", "Story please", "I am ready for a story[|.]",
     "What stories do you know?"),
    ("How about a story?", "Do you have a story for me?", "It is bedtime, and the children want a tale[|.]",
     "Spin me a yarn[|.|!]", "I feel like listening to a story[|.]", "Would you entertain us with a tale?",
     "Let's have story time[|.|!]", "Come up with a story, any story[|.]", "Surprise me with a tale[|.|!]"))
ABOUT = Phrasings(
    (f"[Tell|Tell me|Write|Write me|Give me|Make up|Invent] {STORY} about {{x}}[|.|!| please|, please]",
     f"[Can|Could|Will|Would] you [tell|write|make up] [me |]{STORY} about {{x}}?",
     f"I [want|would like|want to hear|would like to hear] {STORY} about {{x}}[|.]",
     "[story|Story|A story|a story|Short story|tale] about {x}[|.|, please]",
     "A bedtime story about {x}[|, please][|.]", f"Do you know {STORY} about {{x}}?",
     "Tell me about the adventures of {x}[|.]", "[Another|One more] story, [this time |]about {x}[|.]",
     "Now one about {x}[|.|, please]", "And one about {x}[|.|?]",
     "Tell me a [funny|happy|beautiful|fairy|bedtime] [story|tale] about {x}[|.]",
     f"Please write {STORY} about {{x}}[|.]", "Tell me a story with {x}[|.| in it.]",
     "Write a story [where|in which] {x} is the hero[|.]", "The hero of the story shall be {x}[|.]",
     "My [son|daughter|child] wants a story about {x}[|.]", "Story: {x}", "Tell the story of {x}[|.]",
     "Write a few sentences about {x}[| as a story|.]"),
    ("How about a story in which we meet {x}?", "I'd love a tale about {x}[|.]",
     "What adventures did {x} have?", "Let {x} be the hero of your next tale[|.]",
     "Could you come up with something about {x} for bedtime?", "Make {x} the star of a short tale[|.]",
     "My little niece would enjoy a tale of {x}[|.]", "Entertain me with the story of {x}[|.]"))
SHORT = Phrasings(
    ("[Tell me|Write|Give me|Tell] a very short story[|.|!| please]",
     "A [very short|tiny|mini] story[|, please][|.]", "Tell me a story in [two|three|a few] sentences[|.]",
     "[Can|Could] you tell me a very short story?", "A story in three sentences[|.|, please]",
     "[Tell me|Write] a [tiny|mini|really short] story[|.]", "Just a very short story[|.]",
     "A shorter story[|.|, please]", "Tell me a quick story[|.]",
     "I have no time, so make the story very short[|.]"),
    ("Tell me a tale, but keep it really brief[|.]", "I only have half a minute for a story[|.]",
     "The shortest story you know[|, please][|.]"))
SHORT_ABOUT = Phrasings(
    ("[Tell me|Write|Give me|Tell] a very short story about {x}[|.|!| please]",
     "A [very short|tiny|mini] story about {x}[|, please][|.]",
     "[Can|Could] you tell me a very short story about {x}?",
     "Tell me a story about {x} in [two|three|a few] sentences[|.]",
     "[Tell me|Write] a [tiny|mini|really short] story about {x}[|.]",
     "Just a very short story about {x}[|.]", "Tell me a quick story about {x}[|.]",
     "{x}, in a very short story[|.]"),
    ("Something really brief about {x}, as a tale[|.]",
     "In no more than three sentences, tell the tale of {x}[|.]"))
ABOUT_THEME = Phrasings(
    (f"[Tell|Tell me|Write|Write me|Give me|Make up|Invent] {STORY} about {{x}}[|.|!| please|, please]",
     f"[Can|Could|Will|Would] you [tell|write|make up] [me |]{STORY} about {{x}}?",
     "[story|Story|A story|a story|tale] about {x}[|.|, please]", "Now one about {x}[|.|, please]"),
    ("I'd love a tale about {x}[|.]", "Could you come up with something about {x} for bedtime?",
     "A tale that has to do with {x} would be lovely[|.]"))
GO_ON = Phrasings(
    ("[Continue|Go on with|Finish|Complete|Continue with] [this|the|my] story: {x}",
     "How does [this|the] story go on? {x}",
     "{x} [Go on|Continue|What happens next?|Please go on.|How does it go on?|And then?]",
     "Here is the beginning of a story: {x}", "The story begins like this: {x}", "{x}", "{x}",
     "Write the rest of this story: {x}", "My story starts so: {x} [Go on.|Continue.|]"),
    ("I have a first sentence, you do the rest: {x}", "Take this beginning and make a story of it: {x}",
     "{x} Now it is your turn."))


# A comma or full stop after a mark that ends the sentence already.
TWO_MARKS = re.compile(r"([?!])[,.]")


@dataclass
class Cast:
    """Who a story is about; what is empty is chosen freely."""

    kind: str = ""
    name: str = ""
    girl: bool | None = None
    other: str = ""
    love: str = ""
    theme: str = ""
    adjective: str = ""
    # The first sentence does not say the name.
    nameless: bool = False


def with_article(noun: str) -> str:
    """A noun with a or an; "u" as in unicorn takes a."""
    return ("an " if noun[0] in "aeiou" and not noun.startswith("uni") else "a ") + noun


def being(rng: Random) -> str:
    """What somebody is, now and then a child."""
    return rng.choice(("girl", "boy")) if rng.random() < 0.28 else rng.choice(BEINGS).replace("_", " ")


def is_girl(rng: Random, kind: str) -> bool:
    """Whether somebody of this kind is a she."""
    return kind in WOMAN or (kind not in MAN and rng.random() < 0.5)


def called(rng: Random, girl: bool) -> str:
    """A name for somebody."""
    return names.made_up(rng) if rng.random() < 0.3 else rng.choice(names.GIRLS if girl else names.BOYS)


def person(rng: Random, cast: Cast) -> dict[str, str]:
    """The words for one being: name, kind with article, pronouns."""
    kind = cast.kind or being(rng)
    girl = is_girl(rng, kind) if cast.girl is None else cast.girl
    adjective = cast.adjective or rng.choice(OF_CHILDREN if kind in ("girl", "boy") else ADJECTIVES)
    a = with_article(f"{adjective} {kind}".strip())
    he, him, his = ("she", "her", "her") if girl else ("he", "him", "his")
    return {"name": cast.name or called(rng, girl), "a": a, "A": a.capitalize(),
    "he": he, "He": he.capitalize(), "him": him,
            "his": his, "himself": him + "self"}


def story(rng: Random, cast: Cast, short: bool) -> tuple[str, str]:
    """The first sentence or two, and the rest."""
    slots = person(rng, cast)
    friend = person(rng, Cast(cast.other))
    while friend["name"] == slots["name"]:
        friend = person(rng, Cast(cast.other))
    slots |= {"f" + key: word for key, word in friend.items()} | {"friend": friend["name"]}
    later = rng.choice(LATER)
    slots |= {"place": rng.choice(PLACES), "trait": rng.choice(TRAITS), "time": rng.choice(TIMES),
    "later": later,
              "Later": later.capitalize(), "thing": rng.choice(THINGS), "food": rng.choice(FOODS)}
    slots["His"] = slots["his"].capitalize()
    opening = one(rng, NAMELESS if cast.nameless else OPENINGS, **slots)
    parts = [TWO_MARKS.sub(r"\1", one(rng, SHORT_PLOTS if short else PLOTS, **slots))]
    if cast.love:
        parts.insert(0, one(rng, LOVING, love=cast.love, **slots))
        parts.append("" if short else one(rng, LOVING_STILL, love=cast.love, **slots))
    if cast.nameless:
        parts.insert(0, say(rng, "{His} name was {name}.", **slots))
    if cast.theme:
        parts.append(f"And that is a story about {cast.theme}.")
    elif not short:
        parts.append(one(rng, CLOSINGS, **slots))
    return opening, " ".join(part for part in parts if part)


def whole(rng: Random, cast: Cast, short: bool = False) -> str:
    """The story as one text."""
    return " ".join(story(rng, cast, short))


def cast_and_subject(rng: Random) -> tuple[Cast, str]:
    """Who the story shall be about, and the user's words for it."""
    kind, love, theme, other = being(rng), rng.choice(LOVES), rng.choice(THEMES), being(rng)
    girl = is_girl(rng, kind)
    name = called(rng, girl)
    adjective = rng.choice([word for word in OF_CHILDREN if word])
    the_one = f"{rng.choice(('called', 'named', 'with the name'))} {name}"
    loves = rng.choice(("loves", "likes", "loved", "adores"))
    by_name = name if kind in ("girl", "boy") else f"{name} the {kind}"
    return rng.choice((
        (Cast(kind), with_article(kind)),
        (Cast(kind), with_article(kind)),
        (Cast(kind, adjective=adjective), with_article(f"{adjective} {kind}")),
        (Cast(kind, name, girl), f"{with_article(kind)} {the_one}"),
        (Cast(kind, name, girl, adjective=adjective), f"{with_article(f'{adjective} {kind}')} {the_one}"),
        (Cast(kind, name, girl, love=love), f"{with_article(kind)} {the_one} who {loves} {love}"),
        (Cast(kind, name, girl), by_name),
        (Cast(kind, other=other), f"{with_article(kind)} and {with_article(other)}"),
        (Cast(theme=theme), theme),
    ))


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]


def turns(rng: Random, split: str) -> list[Turn]:
    """A request and its story."""
    shape = rng.random()
    if shape < 0.05:
        return [Turn(ANY.say(rng, split), whole(rng, Cast())), Turn(AGAIN.say(rng, split),
        whole(rng, Cast()))]
    if shape < 0.25:
        return [Turn(ANY.say(rng, split), whole(rng, Cast()))]
    if shape < 0.32:
        return [Turn(SHORT.say(rng, split), whole(rng, Cast(), True))]
    cast, subject = cast_and_subject(rng)
    if shape < 0.42:
        beginning = Cast(cast.kind, cast.name, cast.girl, nameless=rng.random() < 0.4)
        opening, rest = story(rng, beginning, rng.random() < 0.2)
        return [Turn(GO_ON.say(rng, split, x=opening).strip(), rest, True)]
    if cast.theme:
        return [Turn(capital(ABOUT_THEME.say(rng, split, x=subject)), whole(rng, cast))]
    short = shape < 0.55
    asked = (SHORT_ABOUT if short else ABOUT).say(rng, split, x=subject)
    # Names mostly keep their capital, so that they can be copied.
    return [Turn(capital(asked), whole(rng, cast, short), bool(cast.name) and rng.random() < 0.8)]


def exam(rng: Random) -> list[Question]:
    """The name asked for stands in the story."""
    found = []
    while len(found) < 40:
        cast, subject = cast_and_subject(rng)
        if cast.name:
            found.append(Question("stories", capital(ABOUT.say(rng, HELD_OUT, x=subject)), (cast.name,)))
    return found
