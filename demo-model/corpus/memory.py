"""What the user tells of themselves and asks for later in the same conversation.

At most once in a chat (`ONCE_A_CHAT`): what was told in one conversation would belie "You have not told me"
of the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import names
from .core import Phrasings, Turn, say
from .smalltalk import small_turn

WEIGHT = 2.0
ONCE_A_CHAT = True


@dataclass(frozen=True)
class Fact:
    """Something that a user tells of themselves; `{a}` and `{b}` are its words."""

    draw: Callable[[Random], dict[str, object]]
    told: Phrasings
    reply: str
    asked: Phrasings
    answer: str
    unknown: str


COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "grey",
"silver", "gold",
           "turquoise", "violet", "beige", "dark blue", "light green", "crimson", "lilac")
KINDS = ("dog", "cat", "rabbit", "hamster", "parrot", "horse", "pony", "goldfish", "turtle", "mouse", "snake",
"goat", "duck", "guinea pig")
FOODS = ("pizza", "soup", "pasta", "rice", "apple pie", "pancakes", "chocolate", "bread", "cheese",
"ice cream", "salad", "noodles", "potatoes",
         "strawberries", "curry", "sushi", "tacos", "waffles", "cherries", "lentils", "honey", "porridge",
         "dumplings", "mushrooms")
JOBS = ("teacher", "doctor", "nurse", "baker", "farmer", "pilot", "painter", "writer", "singer", "gardener",
"lawyer", "cook", "driver", "dentist",
        "programmer", "carpenter", "plumber", "librarian", "tailor", "student", "waiter", "photographer",
        "dancer", "judge")
WORDS = ("banana", "lamp", "river", "seven", "cloud", "orange", "table", "castle", "music", "garden",
"pencil", "window", "tiger", "mountain", "bridge",
         "spoon", "yellow", "robot", "candle", "island", "pepper", "ticket", "mirror", "winter", "button",
         "rocket", "feather", "anchor", "bottle")

FACTS = (
    Fact(
        lambda rng: {"a": names.person(rng)},
        Phrasings(
            ("My name is {a}[|.]", "[Hi|Hello|Hey][|,|!] my name is {a}[|.]", "I am {a}[|.]", "I'm {a}[|.]",
            "[Hi|Hello|Hey], I am {a}[|.]", "[Hi|Hello|Hey], I'm {a}[|.]",
            "[Call me|You can call me|Please call me] {a}[|.]",
             "People call me {a}[|.]", "[They|My friends] call me {a}[|.]", "The name is {a}[|.]",
             "My first name is {a}[|.]", "This is {a}[|.|!]", "[Hi|Hello], this is {a}[|.]",
             "[Hello|Hi], {a} here[|.|!]", "My name's {a}[|.]", "I want to tell you my name: {a}[|.]"),
            ("{a} is my name[|.]", "I go by {a}[|.]", "I was named {a}[|.]", "Everyone knows me as {a}[|.]")),
        "Nice to meet you, {a}!",
        Phrasings(
            ("What is my name?", "What's my name?", "whats my name", "Do you [know|remember] my name?",
            "Who am I?", "What am I called?", "Can you tell me my name?", "My name is what?",
            "Say my name[|.]", "Tell me my name[|.]", "What did I say my name was?",
             "And what is my name?", "Do you still know my name?", "What was my name[| again]?",
             "Do you know who I am?", "my name?"),
            ("Which name did I give you?", "Have you forgotten what I am called?",
            "By what name do you know me?", "How am I called?", "Could you remind me of my name?")),
        "Your name is {a}.", "You have not told me your name."),
    Fact(
        lambda rng: {"a": rng.choice(COLOURS)},
        Phrasings(
            ("My favo[u|]rite colo[u|]r is {a}[|.]", "I like the colo[u|]r {a}[| best| most][|.]",
            "{a} is my favo[u|]rite colo[u|]r[|.]", "I love [|the colour ]{a}[|.]",
            "The colour that I like [best|most] is {a}[|.]", "My colour is {a}[|.]"),
            ("Of all colours I like {a} best[|.]", "For me, nothing beats the colour {a}[|.]",
            "I prefer {a} to all other colours[|.]")),
        "{a} is a lovely colour!",
        Phrasings(
            ("What is my favo[u|]rite colo[u|]r?", "What's my favo[u|]rite colo[u|]r?",
            "Which colo[u|]r do I like [best|most]?", "Do you [know|remember] my favo[u|]rite colo[u|]r?",
            "What colo[u|]r do I like?", "my favourite colour?", "Tell me my favo[u|]rite colo[u|]r[|.]",
            "And my favo[u|]rite colo[u|]r?"),
            ("Which colour did I say is my favourite?", "Can you recall the colour I love?",
            "What was the colour that I like so much?")),
        "Your favourite colour is {a}.", "You have not told me your favourite colour."),
    Fact(
        lambda rng: {"a": rng.randint(4, 99)},
        Phrasings(
            ("I am {a} years old[|.]", "I'm {a} years old[|.]", "I am {a}[|.]", "My age is {a}[|.]",
            "I turned {a} [last week|yesterday|this year|in May][|.]", "I have just turned {a}[|.]",
            "I'm {a}[|.]"),
            ("I celebrated birthday number {a} last month[|.]", "I have lived for {a} years now[|.]",
             "Age: {a}[|.]")),
        "You are {a} years old. Thank you for telling me!",
        Phrasings(
            ("How old am I?", "What is my age?", "What's my age?", "Do you [know|remember] how old I am?",
            "Tell me my age[|.]", "my age?", "And how old am I?", "Do you know my age?",
            "Can you tell me how old I am?"),
            ("How many years old did I say I am?", "What age am I?", "Can you remember my age?")),
        "You are {a} years old.", "You have not told me your age."),
    Fact(
        lambda rng: {"a": names.town(rng)},
        Phrasings(
            ("I live in {a}[|.]", "I am from {a}[|.]", "I'm from {a}[|.]", "My home town is {a}[|.]",
            "I come from {a}[|.]", "I am living in {a}[| now|.]", "My home is in {a}[|.]",
            "We live in {a}[|.]", "I moved to {a}[|.| last year]"),
            ("{a} is where I live[|.]", "My house stands in {a}[|.]", "The town I call home is {a}[|.]")),
        "{a} must be a nice place to live!",
        Phrasings(
            ("Where do I live?", "Where am I from?", "What is my home town?",
            "Do you [know|remember] where I live?", "Where do I come from?",
            "In which [town|city] do I live?", "Where is my home?", "Which city am I from?",
            "And where do I live?", "where do i live"),
            ("Can you recall where I live?", "Which town did I say I live in?",
            "What's the name of my town?")),
        "You live in {a}.", "You have not told me where you live."),
    Fact(
        lambda rng: {"a": rng.choice(KINDS), "b": names.pet(rng)},
        Phrasings(
            ("I have a {a} called {b}[|.]", "I have a {a} named {b}[|.]", "My {a} is called {b}[|.]",
            "My {a}'s name is {b}[|.]", "I have a {a}. [His|Her|Its] name is {b}[|.]",
            "I've got a {a} called {b}[|.]", "The name of my {a} is {b}[|.]", "We have a {a}, {b}[|.]",
            "My pet is a {a} called {b}[|.]"),
            ("At home, a {a} with the name {b} waits for me[|.]", "{b} is my {a}[|.]",
            "I own a {a} and call it {b}[|.]")),
        "{b} is a good name for a {a}!",
        Phrasings(
            ("What is my {a} called?", "What is the name of my {a}?", "What's my {a}'s name?",
            "What is my {a}'s name?",
            "Do you [know|remember] [my {a}'s name|the name of my {a}|what my {a} is called]?",
            "How is my {a} called?", "What do I call my {a}?", "And what is my {a} called?",
            "Tell me the name of my {a}[|.]"),
            ("Which name does my {a} have?", "What was my {a} called again?",
            "Can you recall what I call my {a}?")),
        "Your {a} is called {b}.", "You have not told me the name of your {a}."),
    Fact(
        lambda rng: {"a": rng.choice(FOODS)},
        Phrasings(
            ("My favo[u|]rite food is {a}[|.]", "I like to eat {a}[|.]", "I love {a}[|.]",
            "The food I like [best|most] is {a}[|.]", "I could eat {a} every day[|.]"),
            ("Nothing tastes better to me than {a}[|.]", "Of all things to eat, I like {a} best[|.]")),
        "That sounds tasty! Enjoy your {a}.",
        Phrasings(
            ("What is my favo[u|]rite food?", "What's my favo[u|]rite food?", "What do I like to eat?",
            "Which food do I like [best|most]?", "Do you [know|remember] my favo[u|]rite food?",
            "my favourite food?", "What food do I love?"),
            ("What did I say I like to eat?", "Can you recall the food I love?")),
        "Your favourite food is {a}.", "You have not told me your favourite food."),
    Fact(
        lambda rng: {"a": rng.choice(JOBS)},
        Phrasings(
            ("I work as a {a}[|.]", "My job is {a}[|.]", "I am a {a} by profession[|.]",
            "My profession is {a}[|.]", "I earn my living as a {a}[|.]", "I have a job as a {a}[|.]"),
            ("By trade I am a {a}[|.]", "They pay me to be a {a}[|.]")),
        "To be a {a} sounds interesting!",
        Phrasings(
            ("What is my job?", "What's my job?", "What do I do for a living?", "What do I work as?",
            "Do you [know|remember] my job?", "What is my profession?", "my job?", "And what is my job?"),
            ("Which job do I have?", "What was my job again?", "How do I earn my money?")),
        "You are a {a}.", "You have not told me your job."),
    Fact(
        lambda rng: {"a": rng.choice((rng.choice(WORDS), names.made_up(rng).lower(), rng.randint(0, 999)))},
        Phrasings(
            ("[Remember|Please remember|Can you remember|Keep in mind|Do not forget] [this|the secret|the "
             "code|my] word: {a}[|.]", "[The secret|My secret|The secret word|The code|The password] is "
             "{a}[|.]", "Remember {a}[|.]", "[Remember|Keep in mind] the [word|code] {a}[|.]", "Do not "
             "forget the [word|code] {a}[|.]"),
            ("I want you to memorise the word {a}[|.]", "Store this for later: {a}[|.]")),
        "I will remember it: {a}.",
        Phrasings(
            ("What is the [secret|secret word|code|password|word]?",
            "What was the [secret|secret word|code|password|word]?", "Which word should you remember?",
            "What should you remember?", "What did I ask you to remember?",
            "Tell me the [secret|code|password|word][|.]", "Do you remember the [secret|code|word|password]?",
            "Say the [secret|secret word|code][|.]"),
            ("Can you recall the [secret|code|word]?", "What were you told to remember?")),
        "It is {a}.", "You have not told me a word to remember."),
)

TOGETHER = Phrasings(
    ("My name is {a} and I live in {b}[|.]", "I am {a} from {b}[|.]",
     "[Hi|Hello], I am {a} and I come from {b}[|.]", "I'm {a}, I live in {b}[|.]",
     "My name is {a}. I am from {b}[|.]"),
    ("I go by {a} and {b} is my home[|.]",))
NEW_NAME = Phrasings(
    ("[No|Actually|Sorry], my name is {a}[|.]", "I am not {b}, I am {a}[|.]", "Now call me {a}[|.]",
     "From now on my name is {a}[|.]", "My name is not {b} but {a}[|.]"),
    ("I was joking, in truth I am called {a}[|.]",))
SAID = Phrasings(
    ("What did I [just |]say?", "What did I [just |]write?", "What was my last message?",
     "Repeat what I [said|wrote][|.]", "What have I just said?"),
    ("Which words did I write a moment ago?", "Can you give me my last message again?"))


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def told(rng: Random, split: str, fact: Fact, words: dict[str, object]) -> Turn:
    """The user tells it."""
    user = capital(fact.told.say(rng, split, **words))
    if rng.random() < 0.12:
        user = user.lower()
    return Turn(user, capital(say(rng, fact.reply, **words)), True)


def asked(rng: Random, split: str, fact: Fact, words: dict[str, object], known: bool) -> Turn:
    """The user asks for it."""
    return Turn(fact.asked.say(rng, split, **words),
    say(rng, fact.answer if known else fact.unknown, **words))


def between(rng: Random, split: str) -> list[Turn]:
    """Other talk, none to three turns."""
    return [small_turn(rng, split) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]


def turns(rng: Random, split: str) -> list[Turn]:
    """A conversation in which something is told, or is not, and asked for."""
    kind = rng.random()
    if kind < 0.1:
        name, town = names.person(rng), names.town(rng)
        talk = [Turn(TOGETHER.say(rng, split, a=name, b=town),
        f"Nice to meet you, {name}! I hope that {town} is a nice place.", True)]
        later = [asked(rng, split, FACTS[0], {"a": name}, True),
        asked(rng, split, FACTS[3], {"a": town}, True)]
        return talk + between(rng, split) + rng.sample(later, rng.randint(1, 2))
    if kind < 0.15:
        old, new = names.person(rng), names.person(rng)
        talk = [told(rng, split, FACTS[0], {"a": old}), Turn(NEW_NAME.say(rng, split, a=new, b=old),
        f"Nice to meet you, {new}!", True)]
        return talk + between(rng, split) + [asked(rng, split, FACTS[0], {"a": new}, True)]
    if kind < 0.2:
        last = small_turn(rng, split)
        return [last._replace(verbatim=True), Turn(SAID.say(rng, split), f"You said: {last.user}")]
    if kind < 0.28:
        unknown = rng.choice(FACTS)
        return [asked(rng, split, unknown, unknown.draw(rng), False)]
    facts = rng.sample(FACTS, rng.choice((1, 1, 2, 2, 3)))
    if rng.random() < 0.4 and FACTS[0] not in facts:
        facts[0] = FACTS[0]
    known = [(fact, fact.draw(rng)) for fact in facts]
    talk = []
    for fact, words in known:
        talk += [told(rng, split, fact, words)] + between(rng, split)
    for fact, words in rng.sample(known, rng.randint(1, len(known))):
        talk.append(asked(rng, split, fact, words, True))
    if rng.random() < 0.25:
        other = rng.choice([fact for fact in FACTS if fact not in facts])
        talk.insert(rng.randint(0, len(talk)), asked(rng, split, other, other.draw(rng), False))
    return talk
