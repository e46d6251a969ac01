"""Letters: spelling words, counting letters, the alphabet."""

from random import Random
from string import ascii_uppercase

from . import invented
from .core import HELD_OUT, Phrasings, Question, Turn, one
from .people import NAMES
from .relations import Relation
from .typos import slip
from .words import ALL, ALL_HELD_OUT

WEIGHT = 1.5

SPELL = Phrasings(
    seen=["Spell {word}.", "Spell {word}", "Spell the word {word}.", 'Spell "{word}".',
          "Can you spell {word}?", "How do you spell {word}?",
          "How is {word} spelled?", "How do I spell {word}?", "Please spell {word}.",
          "Please spell the word {word}.", "[Could|Can] you spell the word {word}?",
          "How do you write {word}?", "How is the word {word} written?", "What is the spelling of {word}?",
          "Tell me how to spell {word}.",
          "I don't know how to spell {word}.", "Spelling of {word}?", "Give me the spelling of {word}.",
          "Spell out {word}.",
          "Spell out the word {word}.", "Spell {word} letter by letter.", "Say the letters of {word}.",
          "Do you know how to spell {word}?",
          "What are the letters of {word}?", "What letters are in {word}?", "Which letters does {word} have?",
          "{word}: spell it.",
          "Spell this word: {word}", "Help me spell {word}.", "My teacher wants me to spell {word}."],
    held_out=["Could you tell me the letters in {word}, one by one?", "How would you spell the word {word}?",
              "What's the right spelling of {word}?",
              "List the letters of the word {word}.", "Break {word} into its letters.",
              "I need to know how {word} is spelled.",
              "Let me hear how {word} is spelled."],
)  # fmt: skip
BACKWARDS = Phrasings(
    seen=["Spell {word} backwards.", "How do you spell {word} backwards?", "What is {word} backwards?",
          "Can you spell {word} in reverse?",
          "{word} backwards?", "Say the letters of {word} backwards."],
    held_out=["Reverse the letters of {word}.", "Spell {word} from the end to the start."],
)  # fmt: skip
HOW_MANY = Phrasings(
    seen=["How many letters are in {word}?", "How many letters does {word} have?",
          "How many letters are there in {word}?",
          "How many letters are in the word {word}?", 'How many letters does the word "{word}" have?',
          "Count the letters in {word}.",
          "Number of letters in {word}?", "How long is the word {word}?", "Letters in {word}?",
          "{word} has how many letters?",
          "Tell me how many letters {word} has.", "Can you count the letters of {word}?",
          "What is the number of letters in {word}?",
          "Do you know how many letters are in {word}?"],
    held_out=["Of how many letters is {word} made?", "What's the length of the word {word}?",
              "How many letters make up {word}?",
              "If I write {word}, how many letters do I write?"],
)  # fmt: skip
FIRST = Phrasings(
    seen=["What is the first letter of {word}?", "What's the first letter in {word}?",
          "Which letter does {word} start with?",
          "What letter does {word} begin with?", "First letter of {word}?",
          "{word} starts with which letter?", "Tell me the first letter of {word}.",
          "What does {word} start with?", "With what letter does {word} begin?",
          "Which letter is the first in {word}?"],
    held_out=["At the start of {word}, which letter is there?", "Name the letter that {word} begins with.",
              "The word {word} has which first letter?"],
)  # fmt: skip
LAST = Phrasings(
    seen=["What is the last letter of {word}?", "What's the last letter in {word}?",
          "Which letter does {word} end with?",
          "What letter does {word} end in?", "Last letter of {word}?", "{word} ends with which letter?",
          "Tell me the last letter of {word}.",
          "What does {word} end with?", "With what letter does {word} end?",
          "Which letter is the last in {word}?"],
    held_out=["At the end of {word}, which letter is there?", "Name the letter that {word} ends with.",
              "The word {word} has which last letter?"],
)  # fmt: skip
ALPHABET = Phrasings(
    seen=["Say the alphabet.", "What is the alphabet?", "List the letters of the alphabet.",
          "Alphabet, please.", "Can you say the alphabet?",
          "Do you know the alphabet?", "Write the alphabet.", "Tell me the ABC.",
          "What are the letters of the alphabet?"],
    held_out=["Recite the alphabet.", "Give me all letters from A to Z."],
)  # fmt: skip
PLAIN_FACTS = [
    (
        [
            "How many letters are in the alphabet?",
            "How many letters does the alphabet have?",
            "How many letters are there in English?",
        ],
        "The alphabet has 26 letters.",
    ),
    (
        ["What are the vowels?", "Which letters are vowels?", "Name the vowels.", "List the vowels."],
        "The vowels are A, E, I, O and U.",
    ),
    (
        ["What is the first letter of the alphabet?", "First letter of the alphabet?"],
        "The first letter of the alphabet is A.",
    ),
    (
        ["What is the last letter of the alphabet?", "Last letter of the alphabet?"],
        "The last letter of the alphabet is Z.",
    ),
]
PAIRS = [{"a": a, "b": b} for a, b in zip(ascii_uppercase, ascii_uppercase[1:])]
NEXT = Relation(
    Phrasings(
        seen=["What letter comes after {a}?", "Which letter comes after {a}?",
              "What is the letter after {a}?", "The letter after {a}?",
              "What comes after the letter {a}?", "Which letter follows {a} in the alphabet?",
              "What's the next letter after {a}?"],
        held_out=["In the alphabet, what letter do I find after {a}?",
                  "Which letter is next to {a}, after it?"],
    ),
    "After {a} comes {b}.", PAIRS, "b", ["And after {a}?", "And {a}?"],
)  # fmt: skip
PREVIOUS = Relation(
    Phrasings(
        seen=["What letter comes before {b}?", "Which letter comes before {b}?",
              "What is the letter before {b}?", "The letter before {b}?",
              "What comes before the letter {b}?", "Which letter is before {b} in the alphabet?"],
        held_out=["In the alphabet, what letter do I find before {b}?", "Which letter precedes {b}?"],
    ),
    "Before {b} comes {a}.", PAIRS, "a", ["And before {b}?", "And {b}?"],
)  # fmt: skip


def spelled(word: str) -> str:
    return "-".join(word.upper())


def lettered(rng: Random, split: str, word: str) -> tuple[str, str, str]:
    """A question about the word's letters, the answer, and what has to be in it."""
    kind = rng.choices(["spell", "many", "first", "last", "backwards"], [52, 20, 12, 12, 4])[0]
    if kind == "spell":
        return SPELL.say(rng, split, word=word), f"{spelled(word)}.", spelled(word)
    if kind == "many":
        end = "letter" if len(word) == 1 else "letters"
        return (
            HOW_MANY.say(rng, split, word=word),
            f"{spelled(word)}. That is {len(word)} {end}.",
            f"{len(word)} {end}",
        )
    if kind == "first":
        return (
            FIRST.say(rng, split, word=word),
            f"The first letter of {word} is {word[0].upper()}.",
            f"is {word[0].upper()}",
        )
    if kind == "last":
        return (
            LAST.say(rng, split, word=word),
            f"{spelled(word)}. The last letter is {word[-1].upper()}.",
            f"is {word[-1].upper()}",
        )
    return BACKWARDS.say(rng, split, word=word), f"{spelled(word[::-1])}.", spelled(word[::-1])


def draw(rng: Random) -> str:
    share = rng.random()
    return (
        rng.choice(ALL + ALL_HELD_OUT)
        if share < 0.88
        else rng.choice(NAMES)
        if share < 0.95
        else invented.word(rng)
    )


def turns(rng: Random, split: str) -> list[Turn]:
    share = rng.random()
    if share < 0.02:
        return [Turn(ALPHABET.say(rng, split), ", ".join(ascii_uppercase) + ".")]
    if share < 0.05:
        asks, answer = rng.choice(PLAIN_FACTS)
        return [Turn(rng.choice(asks), answer)]
    if share < 0.13:
        return rng.choice([NEXT, NEXT, PREVIOUS]).turns(rng, split)
    turns: list[Turn] = []
    last = ""
    while not turns or rng.random() < 0.3:
        word = draw(rng)
        if last and turns[-1].assistant == f"{spelled(last)}." and rng.random() < 0.6:
            turns.append(
                Turn(
                    one(
                        rng, ["And {w}?", "What about {w}?", "{w}?", "And the word {w}?", "Now {w}."], w=word
                    ),
                    f"{spelled(word)}.",
                )
            )
        else:
            user, answer, _ = lettered(rng, split, word)
            turns.append(Turn(slip(rng, user, keep=[word]), answer))
        last = word
    return turns


def exam(rng: Random) -> list[Question]:
    """Words that are also spelled in training, and the neighbours in the alphabet."""
    questions = []
    for word in rng.sample(ALL, 180):
        user, _, right = lettered(rng, HELD_OUT, word)
        questions.append(Question("spelling", user, (right,)))
    return questions + NEXT.questions(rng, "alphabet", 15) + PREVIOUS.questions(rng, "alphabet", 15)
