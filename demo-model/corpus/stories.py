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
     "What stories do you know?",
    "[tell|give|make up|gimme|create] [me |us |][a|one|some|your best|your favourite] [|short |little |nice |new |good |funny |bedtime ]story[| pls| please| now| for me]",
    "[write|read|invent|say|share] [me |us |][a|one|some|your best|your favourite] [|short |little |nice |new |good |funny |bedtime ]story[| pls| please| now| for me]",
    "[I'd|I would|We would] [like|love] [to hear a story|a story|you to tell me a story|a little story|to listen to a story|to read a story][|.|, please|!]",
    "I [feel like|am waiting for|long for|wish for|want you to write|want to read] a [|nice |little |short |good ]story[|.|!]",
    "I [am in the mood for|love|could use|want you to tell me|would like to listen to|want to listen to] a [|nice |little |short |good ]story[|.|!]",
    "[Can|Could|Will|Would|May|Shall] [I|we] [hear|have|get|read|listen to] a [|nice |little |short |good |new ]story[|, please]?",
    "[Would|Do] you mind telling me a story?",
    "[Could|Can|Would|Will] you [kindly |please |][read|give|invent|make up|create|share|think up|write] [me |us |]a [|nice |little |short |good |new |sweet ]story[| for me]?",
    "[story pls|storytime|stories|Fairy tale, please|Story!][|.|!]",
    "[a story pls|tell a story|bedtime story|A tale|good night story][|.|!]",
    "[story please|tell story|Stories please|a tale|story for me][|.|!]",
    "[a story please|tell stories|fairy tale|Story now|A good night story][|.|!]",
    "[A|One] [nice|little|new|happy|cute] [story|tale][|, please|.|!| for me]",
    "[A|One] [short|good|funny|sweet] [story|tale][|, please|.|!| for me]",
    "[Do you have|Have you got|Do you know|Got|Know] [any|some|a|a good|any good|a nice] [story|stories|tale|tales][| for me| to tell]?",
    "[How|What] about a [|nice |little |short ]story?",
    "[Let me|Let us|I want to] [hear|read] [a story|a tale|one of your stories|some story][|.]",
    "[Entertain me|Surprise me|Cheer me up|Send me to sleep] with a [story|tale][|.|!]",
    "[Spin|Tell|Weave] [me |]a [yarn|tale][|.|!]",
    "[Please|please][,|] [a story|tell a story|tell me a story|tell me a tale|one story|write a story][|.|!]",
    "[Now|Come on|Hey|Ok|Well|So|Bot|Hi|Hello], [tell me a story|a story, please|tell a story|write a story|make up a story][|.|!]",
    "My [son|daughter|friend|child|little brother|grandson] [wants|would like] [a story|to hear a story|a bedtime story][|.]",
    "My [kids|children|girls|boys] [want|need|would like] a [|bedtime |little ]story[|.]",
    "[Time|It is time|Now it is time] for a [|bedtime |little ]story[|.|!]",
    "Tell me a story [to fall asleep|for tonight|with a good end|you like|I do not know|to cheer me up|like my grandma did][|.|, please]",
    "Tell me a story [before bed|that makes me happy|about anything|that you know|of your choice|to read aloud][|.|, please]",
    "[Make up|Invent|Create|Think up|Come up with] [a|some|any] [story|tale|little story|fairy tale|short story][|.|!| for me]",
    "I [need|want|would like] [a bedtime story|a fairy tale|a tale|something to read|a story for my children|a story to fall asleep][|.|, please]",
    "[Another|One more|A new|A different|The next|A second] [story|tale|fairy tale][|.|!|, please]",
    "[Tell|Write|Give] me [one more|a second|a different|the next|a new] [story|tale][|.|, please]",
    "[Can|Could] you tell [another|one more] story?",
    "You tell me story[|.|, please]",
    "Story about [anything|something|whatever you like][|.|, please]",
    "Write [a text like a fairy tale|a little tale|something with a happy end|a story of your own|any story][|.|, please]",
    "Are you [able to|good at] [telling|tell] stories?",
    "Are you a storyteller?",
    "Be my storyteller[|.|!]",
    "Do you [tell|write] stories?",
    "I love stories, tell me one[|.|!]",
    "I am in bed and [want|need] a story[|.]",
    "Read me a [bedtime |fairy ]tale[|.|, please]",
    "Sit down and tell me a story[|.]",
    "Once upon a time there [was|lived]...",
    "It was once upon a time...",
    "I am listening, tell me a story[|.]",
    "Use your fantasy and tell a story[|.]",
    "Show me that you can [tell|write] a story[|.]",
    "I am bored, tell me a story[|.]",
    "I am sad, tell me a story[|.]",
    "Will there be a story[| today| tonight]?",
),
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
     "Write a few sentences about {x}[| as a story|.]",
    "[tell|give|make up|gimme|create] [me |us |][a|one] [|little |new |funny ]story about {x}[| pls| please| now| for me]",
    "[tell|give|make up|gimme|create] [me |us |][a|one] [short |nice |good |bedtime ]story about {x}[| pls| please| now| for me]",
    "[write|read|invent|say] [me |us |][a|one] [|little |new |funny ]story about {x}[| pls| please| now| for me]",
    "[write|read|invent|say] [me |us |][a|one] [short |nice |good |bedtime ]story about {x}[| pls| please| now| for me]",
    "[I'd|I would|We would] [like|love] [to hear a story|a story|you to tell me a story|a little story|a tale] about {x}[|.|, please|!]",
    "I [feel like|am in the mood for|want you to tell me|want you to write|could use|want to read|want to listen to] a [|nice |little |short ]story about {x}[|.|!]",
    "[Can|Could|May|Shall] [I|we] [hear|have|get|read] a [|nice |little |short ]story about {x}[|, please]?",
    "[Could|Can|Would|Will] you [kindly |please |][read|give|invent|create|tell|think up|write] [me |us |]a [|nice |little |short |sweet ][story|tale] about {x}[| for me]?",
    "[story|a tale|A short story|Fairy tale] about {x}[| pls| please|!|.]",
    "[tale|A tale|a little story|bedtime story] about {x}[| pls| please|!|.]",
    "[A|One] [nice|little|new|happy] [story|tale] about {x}[|, please|.|!]",
    "[A|One] [short|good|funny|cute] [story|tale] about {x}[|, please|.|!]",
    "[Do you have|Have you got|Do you know|Got|Know] [any|some|a] [story|tale] about {x}?",
    "[How|What] about a story about {x}?",
    "[Let me|I want to] [hear|read] a [story|tale] about {x}[|.]",
    "[Make up|Invent|Create|Think up|Come up with] [a|some] [story|tale|fairy tale|short story] about {x}[|.|!| for me]",
    "[Please|Now|So|Hey|Ok], [a|tell me a|write a|tell a] story about {x}[|.|!]",
    "My [kids|children|little brother and I] want a story about {x}[|.]",
    "My [grandson|niece|nephew|friend] would like [a story|to hear a story|a tale] about {x}[|.]",
    "I [need|want] [a bedtime story|a tale|a fairy tale|something to read aloud] about {x}[|.|, please]",
    "Tell me a story in which {x} is the main character[|.]",
    "The story [should|must|shall] be about {x}[|.]",
    "The main character [is|should be|shall be] {x}, [tell me the story|write the story][|.]",
    "A story with {x}[| in it][|.|, please]",
    "A tale [of|with] {x}[|.|, please]",
    "Tell a story, it is about {x}[|.]",
    "Write a tale, and the hero is {x}[|.]",
    "This time [|a story ]about {x}[|.|, please]",
    "The next story [should be|please] about {x}[|.]",
    "And now a story about {x}[|.|, please]",
    "Another [tale|one] about {x}[|.|, please]",
    "What happened to {x}? Tell me the story[|.]",
    "Tell me [the tale|an adventure] of {x}[|.]",
    "Write an adventure [of|about|with] {x}[|.]",
    "Write [me |]some lines about {x} as a [story|tale][|.]",
    "Story topic: {x}",
    "topic of the story: {x}",
    "I want to hear what {x} [did|does], in a story[|.]",
),
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
     "I have no time, so make the story very short[|.]",
    "[tell|write|give|make up|invent] [me |us |]a [very short|mini|really short|very quick] [story|tale][| please|.]",
    "[tell|write|give|make up|invent] [me |us |]a [very short|mini|really short|very quick] [story|tale][ pls|, please|!]",
    "[tell|write|give|make up|invent] [me |us |]a [tiny|super short|very brief] [story|tale][| please|.]",
    "[tell|write|give|make up|invent] [me |us |]a [tiny|super short|very brief] [story|tale][ pls|, please|!]",
    "[I'd|I would] like a [very short|tiny|really short|mini] story[|.|, please]",
    "I [want|need] a [very short|tiny|really short|mini|super short] story[|.|, please]",
    "[Can|Could|Would] you [write|give me|make up|tell] a [very short|tiny|really short|mini] story?",
    "[very short story|mini story|shortest story|a two sentence story][|, please|.| pls|!]",
    "[tiny story|Super short story|a three sentence story|micro story][|, please|.| pls|!]",
    "[Write|Make up|Give me] a story in [two|three|a few|very few] sentences[|.|, please]",
    "[A|One] story in [two|a few|very few] sentences[|.|, please|!]",
    "A story of [two|three|only a few] sentences[|.|, please]",
    "Only a [tiny|very short|mini] story[|.|, please]",
    "The [shortest|quickest] story you know[|.|, please]",
    "Tell me the shortest story you [know|can][|.]",
    "Make it a very short story[|.|, please]",
    "I only have a minute, tell me a very short story[|.]",
    "Keep the story very short[|.|, please]",
    "Now a very short one[|.|, please]",
    "A quick story[|.|, please]",
),
    ("Tell me a tale, but keep it really brief[|.]", "I only have half a minute for a story[|.]",
     "The shortest story you know[|, please][|.]"))
SHORT_ABOUT = Phrasings(
    ("[Tell me|Write|Give me|Tell] a very short story about {x}[|.|!| please]",
     "A [very short|tiny|mini] story about {x}[|, please][|.]",
     "[Can|Could] you tell me a very short story about {x}?",
     "Tell me a story about {x} in [two|three|a few] sentences[|.]",
     "[Tell me|Write] a [tiny|mini|really short] story about {x}[|.]",
     "Just a very short story about {x}[|.]", "Tell me a quick story about {x}[|.]",
     "{x}, in a very short story[|.]",
    "[tell|write|give|make up|invent] [me |us |]a [very short|mini|really short|very quick] [story|tale] about {x}[| pls| please|.|!]",
    "[tell|write|give|make up|invent] [me |us |]a [tiny|super short|very brief] [story|tale] about {x}[| pls| please|.|!]",
    "[I'd|I would] like a [very short|tiny|really short|mini] story about {x}[|.|, please]",
    "I [want|need] a [very short|tiny|really short|mini] story about {x}[|.|, please]",
    "[Can|Could|Would] you [write|give me|make up] a [very short|tiny|really short|mini] story about {x}?",
    "[very short story|tiny story|mini story|Super short story|micro story] about {x}[|, please|.| pls]",
    "[Write|Make up|Give me] a story about {x} in [two|three|a few] sentences[|.|, please]",
    "In [two|three|a few] sentences, a story about {x}[|.|, please]",
    "A story of [two|three|a few] sentences about {x}[|.|, please]",
    "Only a [tiny|very short|mini] story about {x}[|.|, please]",
    "The shortest story about {x}[| that you know|.]",
    "Make it a very short story about {x}[|.|, please]",
    "I only have a minute, tell me a very short story about {x}[|.]",
    "Now a very short one about {x}[|.|, please]",
    "A quick story about {x}[|.|, please]",
),
    ("Something really brief about {x}, as a tale[|.]",
     "In no more than three sentences, tell the tale of {x}[|.]"))
ABOUT_THEME = Phrasings(
    (f"[Tell|Tell me|Write|Write me|Give me|Make up|Invent] {STORY} about {{x}}[|.|!| please|, please]",
     f"[Can|Could|Will|Would] you [tell|write|make up] [me |]{STORY} about {{x}}?",
     "[story|Story|A story|a story|tale] about {x}[|.|, please]", "Now one about {x}[|.|, please]",
    "[tell|write|give|make up|read] [me |us |]a [|short |little |nice |new |good ]story about {x}[| pls| please| for me]",
    "[I'd|I would] [like|love] [to hear a story|a story|a little story|a tale] about {x}[|.|, please|!]",
    "I [want|need] a [|nice |little |short ][story|tale] about {x}[|.|!]",
    "[Can|Could|May] I [hear|have|read] a story about {x}[|, please]?",
    "[A|One] [nice|short|little|good|new] story about {x}[|, please|.|!]",
    "Do you know a [story|tale] about {x}?",
    "[How|What] about a story about {x}?",
    "[Let me|I want to] hear a story about {x}[|.]",
    "[Make up|Invent|Create|Think up] a [story|tale|fairy tale] about {x}[|.|!]",
    "[Please|Now|So|Ok], tell me a story about {x}[|.|!]",
    "My children want a story about {x}[|.]",
    "The story should be about {x}[|.]",
    "The topic of the story is {x}[|.]",
    "A story that is about {x}[|.|, please]",
    "Story about {x}, please",
),
    ("I'd love a tale about {x}[|.]", "Could you come up with something about {x} for bedtime?",
     "A tale that has to do with {x} would be lovely[|.]"))
GO_ON = Phrasings(
    ("[Continue|Go on with|Finish|Complete|Continue with] [this|the|my] story: {x}",
     "How does [this|the] story go on? {x}",
     "{x} [Go on|Continue|What happens next?|Please go on.|How does it go on?|And then?]",
     "Here is the beginning of a story: {x}", "The story begins like this: {x}", "{x}", "{x}",
     "Write the rest of this story: {x}", "My story starts so: {x} [Go on.|Continue.|]",
    "[continue|finish|extend|Keep on telling|Extend] [this|the|my] [story|tale]: {x}",
    "[go on with|complete|carry on with|Carry on with] [this|the|my] [story|tale]: {x}",
    "[Can|Could] you [continue|finish|go on with|complete] [this|my] story? {x}",
    "What happens next? {x}",
    "What happens next in this story: {x}",
    "{x} [What comes next?|Then what?|Your turn.]",
    "{x} [How does it end?|Please continue.|What happened next?]",
    "{x} [Tell me the rest.|Carry on.|Go on, please.]",
    "{x} [And what happened then?|Now you.|Write the rest.]",
    "My story [begins|starts] like this: {x}",
    "This is how my story begins: {x}",
    "Here [is|comes] the start of my story: {x}",
    "I [wrote|have] the beginning of a story: {x} [Go on.|Continue it.|Please finish it.|What next?]",
    "Once I began a story: {x} [Continue.|Can you go on?|]",
    "The first sentence [is|of my story is]: {x}",
    "Finish what I began: {x}",
    "Tell the rest of this story: {x}",
    "Tell me how this [goes on|ends]: {x}",
),
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
