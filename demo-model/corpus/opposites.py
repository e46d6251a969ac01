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
        "whats the opposite of {word}",
        "what is opposite of {word}",
        "what is the opposite word of {word}?",
        "What is the opposite word for {word}?",
        "What is the opposite to {word}?",
        "What is opposite to {word}?",
        "What is the opposite from {word}?",
        "what is the oposite of {word}",
        "opposite word of {word}",
        "opposite word to \"{word}\"",
        "opposite of {word} [pls|please|thanks]",
        "the opposite of {word}, please",
        "{word} opposite word",
        "{word}: opposite?",
        "{word} antonym",
        "{word}: antonym?",
        "\"{word}\" - what is the opposite?",
        "{word} - what's the antonym?",
        "{word} <-> ?",
        "{word} vs ?",
        "{word} versus what?",
        "{word} and its opposite",
        "{word} and the opposite word?",
        "Antonym for {word}[|?|, please]",
        "antonym: {word}",
        "antonym of \"{word}\"",
        "An antonym of the word {word}?",
        "Name an antonym of {word}.",
        "Name an antonym for the word {word}.",
        "Tell me an antonym of {word}.",
        "Find an antonym for {word}.",
        "Which word is an antonym of {word}?",
        "What word is an antonym for {word}?",
        "What is the antonym to {word}?",
        "Do you know an antonym of {word}?",
        "Do you have an antonym for {word}?",
        "I need an antonym for {word}.",
        "Can you give me an antonym of {word}?",
        "Could you give me the opposite of {word}?",
        "Could you name the opposite of {word}?",
        "Can you name the opposite of {word}?",
        "Can you find the opposite of {word}?",
        "Would you tell me the opposite of {word}?",
        "Please give me the opposite of {word}.",
        "Please say the opposite of {word}.",
        "Hey, what is the opposite of {word}?",
        "Excuse me, what's the opposite of {word}?",
        "So what is the opposite of {word}?",
        "Quick, the opposite of {word}!",
        "Quiz: what is the opposite of {word}?",
        "Question: opposite of {word}?",
        "English homework: the opposite of {word}",
        "For school: what is the opposite of the word {word}?",
        "In English, what is the opposite of {word}?",
        "What is the English opposite of {word}?",
        "Fill in the blank: the opposite of {word} is ___.",
        "Fill in: {word} is the opposite of ____",
        "Complete: the opposite of {word} is",
        "Complete the pair: {word} and ...",
        "Complete the pair: {word} / ___",
        "Finish the pair of opposites: {word} and",
        "Opposites: {word} and ...?",
        "A pair of opposites: {word} and what?",
        "What makes a pair of opposites with {word}?",
        "Which word goes with {word} as its opposite?",
        "{word} and what are opposites?",
        "{word} and which word are opposites?",
        "Opposites game: {word}",
        "We play opposites. {word}?",
        "We are learning opposites. What about {word}?",
        "Let us do opposites: {word}.",
        "I give you {word}, you give me the opposite.",
        "I say {word}. Now you say the opposite!",
        "When I say {word}, what do you say? The opposite!",
        "If I say {word}, what is the opposite?",
        "You hear {word}. Say the opposite.",
        "If it's not {word}, it is what?",
        "If it isn't {word}, then it is the opposite. Which is?",
        "If one is {word}, what is the opposite?",
        "One is {word}, the other is the opposite. What is the other?",
        "It is not {word}, it is the opposite. What is it?",
        "The opposite to {word}?",
        "The opposite word for {word} is",
        "The reverse of {word}?",
        "What is the reverse of {word}?",
        "What is the contrary to {word}?",
        "Contrary of {word}?",
        "The contrary of {word} is what?",
        "Which word is the contrary of {word}?",
        "What is the direct opposite of {word}?",
        "What is the exact opposite of {word}?",
        "What's the complete opposite of {word}?",
        "What would be the opposite of {word}?",
        "What could be the opposite of {word}?",
        "What might be the opposite of {word}?",
        "What counts as the opposite of {word}?",
        "What has the opposite meaning of {word}?",
        "What has the opposite meaning to \"{word}\"?",
        "What word has the opposite meaning to {word}?",
        "A word with the opposite meaning of {word}?",
        "Find a word that means the opposite of {word}.",
        "Give me a word that is the opposite of {word}.",
        "Tell me a word that means the opposite of {word}.",
        "Tell me what the opposite of {word} is.",
        "Tell me what word is opposite to {word}.",
        "Tell me the opposite of the word \"{word}\".",
        "Tell me which word is the opposite of {word}.",
        "Say what the opposite of {word} is.",
        "Show me the opposite of {word}.",
        "State the opposite of {word}.",
        "Choose the opposite of {word}.",
        "Turn {word} into its opposite.",
        "Turn the word {word} around: what is the opposite?",
        "Change {word} to its opposite.",
        "Replace {word} with its opposite.",
        "Swap {word} for its opposite.",
        "Make the opposite of {word}.",
        "How do you say the opposite of {word}?",
        "How do I say the opposite of {word}?",
        "How would you say the opposite of {word}?",
        "How is the opposite of {word} called?",
        "How do people call the opposite of {word}?",
        "What do we call the opposite of {word}?",
        "What do people say for the opposite of {word}?",
        "What do you say when you mean the opposite of {word}?",
        "What is the word for the opposite of {word}?",
        "What's the name for the opposite of {word}?",
        "What's a good opposite for {word}?",
        "Is there a word for the opposite of {word}?",
        "Is there an antonym of {word}?",
        "Does {word} have an opposite?",
        "Does the word {word} have an opposite?",
        "Has {word} got an opposite?",
        "{word} has which opposite?",
        "{word} has what opposite?",
        "What opposite does {word} have?",
        "Which opposite does the word {word} have?",
        "Which word stands opposite {word}?",
        "Which word is opposite to {word}?",
        "Which word means the contrary of {word}?",
        "What means the opposite of {word}?",
        "Which is the opposite of {word}?",
        "I don't know the opposite of {word}.",
        "I don't know what the opposite of {word} is. [Do you|Help me|Can you help]?",
        "I can't think of the opposite of {word}.",
        "I can't remember the opposite of {word}.",
        "I forgot the opposite of {word}.",
        "I forgot the word for the opposite of {word}.",
        "I'm trying to find the opposite of {word}.",
        "I'm looking for a word that means the opposite of {word}.",
        "I am searching for the opposite of {word}.",
        "I must write the opposite of {word}.",
        "I have to find the opposite of {word}.",
        "I need a word that is the opposite of {word}.",
        "I need a word meaning the opposite of \"{word}\".",
        "I would like the opposite of {word}, please.",
        "I wonder what the opposite of {word} is.",
        "I'm curious about the opposite of {word}.",
        "I want the opposite of {word}.",
        "I want to say the opposite of {word}. Which word do I use?",
        "My [teacher|mum|dad|sister|brother] wants the opposite of {word}.",
        "My [boy|girl|child|kid] asks me what the opposite of {word} is.",
        "In my book: \"opposite of {word}\". What do I write?",
        "Crossword: opposite of {word}",
        "Crossword clue: {word}, opposite",
        "Any idea what the opposite of {word} is?",
        "Any opposite for {word}?",
        "Do you happen to know the opposite of {word}?",
        "Do you remember the opposite of {word}?",
        "Help! The opposite of {word}?",
        "You know the opposite of {word}?",
        "Who knows the opposite of {word}?",
        "Guess the opposite of {word}.",
        "Think of the opposite of {word}.",
        "The word is {word}. What is its opposite?",
        "The word is {word}. Opposite?",
        "My word is {word}. Tell me the opposite.",
        "Take the word {word}. What is the opposite?",
        "Here is a word: {word}. Give me the opposite.",
        "Word: {word}. Opposite:",
        "Word: {word}\nOpposite:",
        "Look at the word {word}. What's its opposite?",
        "For {word}, what is the opposite?",
        "For the word {word} the opposite is",
        "Not {word}, the opposite please.",
        "Not {word}, but the opposite?",
        "Not {word} but what?",
        "The other way round from {word}?",
        "What is the opposite, if the word is {word}?",
        "One word: the opposite of {word}",
        "In one word, what is the opposite of {word}?",
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
          "I think the opposite of {word} is {other}.", "Is it true that {other} is the opposite of {word}?",
    "is {other} opposite of {word}",
    "is {other} an antonym of {word}?",
    "Is {other} the antonym of {word}?",
    "Is the antonym of {word} {other}?",
    "Is {word} the opposite of {other}?",
    "Are {word} and {other} opposites?",
    "Are {other} and {word} opposites?",
    "{word} and {other} are opposites, right?",
    "{word} and {other}: opposites?",
    "Is {other} the opposite word of {word}?",
    "Is {other} opposite to {word}?",
    "Does {other} mean the opposite of {word}?",
    "Would {other} be the opposite of {word}?",
    "Isn't {other} the opposite of {word}?",
    "Isn't the opposite of {word} {other}?",
    "So {other} is the opposite of {word}?",
    "So the opposite of {word} is {other}?",
    "The opposite of {word} is {other}, right?",
    "The opposite of {word} is {other}, isn't it?",
    "The opposite of {word} is {other}. Is that [right|true|correct]?",
    "The opposite of {word} is {other}, yes or no?",
    "True or false: {other} is the opposite of {word}.",
    "True or false: the opposite of {word} is {other}.",
    "Right or wrong: {other} is the opposite of {word}.",
    "Yes or no: is {other} the opposite of {word}?",
    "{other} is the opposite of {word}, correct?",
    "{other} is the opposite of {word}, isn't it?",
    "{other} is the opposite of {word}. True or false?",
    "{other} is an antonym of {word}, true?",
    "Is it right that the opposite of {word} is {other}?",
    "Is it correct that {other} is the opposite of {word}?",
    "Is it true that the opposite of {word} is {other}?",
    "Am I right that {other} is the opposite of {word}?",
    "Am I right: the opposite of {word} is {other}?",
    "I believe {other} is the opposite of {word}.",
    "I believe the opposite of {word} is {other}. Am I right?",
    "I thought the opposite of {word} was {other}.",
    "I think {other} is the opposite of {word}. Is that [right|true|correct]?",
    "I guess the opposite of {word} is {other}.",
    "I say {other} is the opposite of {word}. Am I right?",
    "I wrote {other} as the opposite of {word}. Is that correct?",
    "My [friend|teacher|brother|sister] says {other} is the opposite of {word}. Is that true?",
    "Someone told me the opposite of {word} is {other}.",
    "Can I say {other} for the opposite of {word}?",
    "Can {other} be the opposite of {word}?",
    "Could the opposite of {word} be {other}?",
    "Please check: opposite of {word} is {other}",
],
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
