"""Words and their opposites, both ways."""

from dataclasses import replace
from random import Random

from . import invented
from .core import HELD_OUT, Phrasings, Question, Turn
from .relations import Relation
from .typos import slip

WEIGHT = 2.0

# A word in several pairs has several opposites; the first one is the usual one.
PAIRS = """
hot cold, big small, large small, long short, tall short, old young, old new, fast slow, quick slow, high
low, up down, left right, right wrong, good bad, happy sad, day night, black white, light dark, light heavy,
hard soft, hard easy, difficult easy, rich poor, strong weak, thick thin, fat thin, wide narrow, broad
narrow, deep shallow, full empty, open closed, open shut, clean dirty, wet dry, loud quiet, noisy quiet,
early late, first last, front back, top bottom, inside outside, in out, on off, over under, above below,
before after, near far, here there, come go, start stop, start finish, begin end, beginning end, win lose,
winner loser, buy sell, give take, push pull, love hate, laugh cry, live die, life death, alive dead, birth
death, sleep wake, asleep awake, sit stand, arrive leave, enter leave, remember forget, find lose, question
answer, ask answer, teach learn, teacher student, friend enemy, man woman, boy girl, brother sister, mother
father, son daughter, husband wife, king queen, uncle aunt, prince princess, summer winter, north south,
east west, morning evening, sunrise sunset, yes no, true false, always never, everything nothing, everybody
nobody, all none, many few, more less, most least, much little, same different, real fake, right left, safe
dangerous, brave cowardly, kind cruel, nice nasty, polite rude, calm nervous, free busy, lazy busy, clever
stupid, smart stupid, wise foolish, beautiful ugly, pretty ugly, cheap expensive, single married, sharp
blunt, smooth rough, straight crooked, tight loose, sweet sour, fresh stale, raw cooked, bright dim, warm
cool, boiling freezing, simple complicated, simple complex, possible impossible, visible invisible, legal
illegal, honest dishonest, correct incorrect, complete incomplete, patient impatient, perfect imperfect,
regular irregular, lucky unlucky, fair unfair, healthy sick, known unknown, important unimportant, usual
unusual, certain uncertain, able unable, comfortable uncomfortable, appear disappear, agree disagree, like
dislike, obey disobey, lock unlock, tie untie, pack unpack, dress undress, modern ancient, public private,
major minor, maximum minimum, plus minus, positive negative, increase decrease, add subtract, multiply
divide, rise fall, grow shrink, attack defend, build destroy, create destroy, accept refuse, accept reject,
allow forbid, hide show, save spend, send receive, borrow lend, catch throw, break repair, mend break, float
sink, freeze melt, pass fail, success failure, succeed fail, victory defeat, war peace, hope despair, joy
sorrow, heaven hell, sunny cloudy, floor ceiling, entrance exit, guest host, hero villain, male female,
adult child, future past, present absent, forward backward, forwards backwards, upstairs downstairs,
together apart, with without, for against, plenty scarcity, gentle rough, proud humble, generous stingy,
guilty innocent, optimist pessimist, optimistic pessimistic, serious funny, boring interesting, wild tame,
natural artificial, permanent temporary, vertical horizontal, concave convex, solid liquid, tiny huge, giant
dwarf, gigantic tiny, huge tiny, ascend descend, expand contract, import export, include exclude, inhale
exhale, internal external, interior exterior, arrival departure, domestic foreign, active passive, dawn
dusk, earth sky, even odd, extreme moderate, fiction fact, flexible rigid, frequent rare, common rare, often
rarely, greedy generous, junior senior, knowledge ignorance, landlord tenant, maximise minimise, noise
silence, offer refuse, ordinary special, praise blame, profit loss, quickly slowly, loudly quietly, well
badly, easily hardly, singular plural, superior inferior, tense relaxed, urban rural, vacant occupied,
wealth poverty, whisper shout
"""

WITHOUT_OPPOSITE = (
    "table spoon apple tree banana chair pencil window carrot giraffe guitar piano lamp bread cheese "
    "mountain bicycle elephant potato sock umbrella violin kitchen butter candle dragon purple Monday "
    "seven"
).split()

ASK = Phrasings(
    seen=[
        "What is the opposite of {word}?",
        "What is the opposite of {word}?",
        'What is the opposite of "{word}"?',
        "What's the opposite of {word}?",
        "What's the opposite of the word {word}?",
        "[The |]opposite of {word}[|?|.|:]",
        "Opposite of '{word}'?",
        "Opposite: {word}",
        "{word}, opposite?",
        "{word} - opposite",
        "Tell me the opposite of {word}.",
        "[Can|Could] you [please |]tell me the opposite of {word}?",
        "Give me the opposite of {word}.",
        "Give me the opposite of the word {word}.",
        "Name the opposite of {word}.",
        "Say the opposite of {word}.",
        "Do you know the opposite of {word}?",
        "Do you know what the opposite of {word} is?",
        "Which word is the opposite of {word}?",
        "What word is the opposite of {word}?",
        "Which word means the opposite of {word}?",
        "What word means the opposite of {word}?",
        "Find the opposite of {word}.",
        "I need the opposite of {word}.",
        "I am looking for the opposite of {word}.",
        "I'd like to know the opposite of {word}.",
        "I want to know what the opposite of {word} is.",
        "{word} is the opposite of what?",
        "{word} is the opposite of which word?",
        "The opposite of {word} is[| ...|?| what?]",
        "The opposite of {word} is called what?",
        "What is an antonym of {word}?",
        "Antonym of {word}[|?]",
        "What's the antonym of {word}?",
        "Give me an antonym for {word}.",
        "Which word has the opposite meaning of {word}?",
        "Is there an opposite of {word}?",
        "How do you call the opposite of {word}?",
        "What do you call the opposite of {word}?",
        "I was wondering what the opposite of {word} might be.",
        "What is the contrary of {word}?",
        "My [son|daughter|teacher|friend] asks for the opposite of {word}.",
        "For a crossword: the opposite of {word}",
        "If something is not {word}, what is it?",
        "Not {word} but ...?",
        "Let's play opposites: {word}",
        "Let's play opposites. I say {word}, you say?",
        "I say {word}, you say the opposite.",
        "What would you call the opposite of {word}?",
        "Help me with the opposite of {word}.",
        "Write the opposite of {word}.",
        "{word}. And the opposite?",
    ],
    held_out=[
        "What is the reverse of {word}?",
        "Which word is opposite to {word}?",
        "What word would be the opposite of {word}?",
        "If I want to say the opposite of {word}, what word do I use?",
        "Can you name the opposite of the word {word}?",
        "{word} has which opposite?",
        "What's a word that means the opposite of {word}?",
        "Could you find the opposite of {word} for me?",
        "Do you happen to know the opposite of {word}?",
        "Please give me the word opposite in meaning to {word}.",
        "{word} versus what?",
    ],
)
FOLLOW = ["And {word}?", "And of {word}?", "What about {word}?", "How about {word}?", "{word}?", "{word}",
          "Now {word}.",
          "and the opposite of {word}?", "Next: {word}"]  # fmt: skip
CHECK = Phrasings(
    seen=["Is {other} the opposite of {word}?", "{other} is the opposite of {word}, right?",
          "Is the opposite of {word} {other}?", "The opposite of {word} is {other}. True or false?",
          "I think the opposite of {word} is {other}.", "Is it true that {other} is the opposite of {word}?"],
    held_out=["Would you say {other} is the opposite of {word}?", "So {other} means the opposite of {word}?"],
)  # fmt: skip


def opposites() -> dict[str, list[str]]:
    """Each word's opposites, the usual one first."""
    found: dict[str, list[str]] = {}
    for pair in PAIRS.replace("\n", " ").split(","):
        one, other = pair.split()
        for word, opposite in ((one, other), (other, one)):
            if opposite not in found.setdefault(word, []):
                found[word].append(opposite)
    return found


OPPOSITES = opposites()
FACTS = [{"word": word, "opposite": " / ".join(others)} for word, others in OPPOSITES.items()]
RELATION = Relation(ASK, "The opposite of {word} is {opposite}.", FACTS, "opposite", FOLLOW)
# The table begins with the words that people ask for most.
COMMON = replace(RELATION, facts=FACTS[:220])


def unknown_turns(rng: Random, split: str) -> list[Turn]:
    """A word without an opposite, or no word at all."""
    word = rng.choice(WITHOUT_OPPOSITE) if rng.random() < 0.35 else unheard(rng)
    return [
        Turn(slip(rng, ASK.say(rng, split, word=word), keep=[word]), f"I do not know an opposite of {word}.")
    ]


def unheard(rng: Random) -> str:
    while (word := invented.word(rng)) in OPPOSITES:
        pass
    return word


def check_turns(rng: Random, split: str) -> list[Turn]:
    word = rng.choice(list(OPPOSITES))
    yes = rng.random() < 0.5
    other = (
        OPPOSITES[word][0]
        if yes
        else rng.choice([w for w in OPPOSITES if w not in OPPOSITES[word] and w != word])
    )
    user = CHECK.say(rng, split, word=word, other=other)
    return [
        Turn(
            slip(rng, user, keep=[word, other]),
            f"{'Yes' if yes else 'No'}, the opposite of {word} is {OPPOSITES[word][0]}.",
        )
    ]


def turns(rng: Random, split: str) -> list[Turn]:
    share = rng.random()
    if share < 0.1:
        return unknown_turns(rng, split)
    if share < 0.17:
        return check_turns(rng, split)
    return (COMMON if share < 0.6 else RELATION).turns(rng, split)


def exam(rng: Random) -> list[Question]:
    """Words with their opposites, and words that are none."""
    questions = COMMON.questions(rng, "opposites") + RELATION.questions(rng, "rarer opposites", 60)
    for _ in range(40):
        user = ASK.say(rng, HELD_OUT, word=unheard(rng))
        questions.append(Question("opposites of no words", user, ("do not know",)))
    return questions
