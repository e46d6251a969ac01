"""Repeat after me: the answer is the content, letter by letter, whatever it is.

Quotes around the whole content are not part of it; its final mark is. Questions are repeated, not answered.
"""

from random import Random

from . import arithmetic, calendar, capitals, colours, invented, opposites
from .core import HELD_OUT, SEEN, Phrasings, Question, Turn, casual, one
from .people import NAMES, NAMES_HELD_OUT
from .sentences import sentence
from .words import ALL, ALL_HELD_OUT

WEIGHT = 5.0

QUOTES = ['"{}"', '"{}"', '"{}"', "'{}'", "“{}”"]

# {c} stands open at the end or after a line break; {q} stands in quotes.
REPEAT = Phrasings(
    seen=[
        "[R|R|R|r]epeat after me: {c}",
        "[R|R|R|r]epeat after me: {c}",
        "Repeat after me: {q}",
        "[R|r]epeat after me, {c}",
        "[R|r]epeat after me {q}",
        "[R|r]epeat after me {c}",
        "[R|R|r]epeat: {c}",
        "[R|R|r]epeat {q}",
        "[R|r]epeat {q}.",
        "Repeat this: {c}",
        "Repeat this: {q}",
        "Repeat this[ sentence| text| line| exactly|, please]: {c}",
        "Repeat the [words|sentence|text|phrase]: {c}",
        "Repeat the [words|sentence|text|phrase] {q}.",
        "Repeat the following[| sentence| text| words| line]: {c}",
        "Repeat the following[| sentence| text| words]:\n{c}",
        "Repeat what I say: {c}",
        "Repeat what I [say|write] exactly: {c}",
        "[P|p]lease repeat after me: {c}",
        "Please repeat: {c}",
        "Please repeat {q}.",
        "Please repeat this [sentence|word by word|line]: {c}",
        "[Can|Could|Would] you repeat this[| for me| please]: {c}",
        "[Can|Could|Would] you repeat {q}?",
        "[Can|Could|Would] you repeat after me: {c}",
        "[Can|Could] you say {q}?",
        "[Can|Could|Would] you please say {q}?",
        "[S|S|s]ay {q}",
        "[S|S|s]ay {q}.",
        "[S|s]ay: {c}",
        "Say: {q}",
        "Say this: {c}",
        "Say the [sentence|words|phrase] {q}.",
        "Say the [sentence|words|phrase]: {c}",
        "Say exactly: {c}",
        "Say exactly this: {c}",
        "Please say {q}.",
        "Please say: {c}",
        "Please say exactly: {c}",
        "Please say exactly {q}.",
        "Just say {q}.",
        "Just say: {c}",
        "Only say {q}.",
        "Now say {q}.",
        "I want you to say {q}.",
        "I want you to repeat: {c}",
        "I'd like you to repeat this: {c}",
        "[E|E|e]cho: {c}",
        "[E|e]cho {q}",
        "Echo this: {c}",
        "echo {c}",
        "Echo the [text|words|line] {q}.",
        "Echo back: {c}",
        "Copy: {c}",
        "Copy this: {c}",
        "Copy this [sentence|line]: {c}",
        "Write: {c}",
        "Write {q}.",
        "Write exactly: {c}",
        "Write this [down|again|once more]: {c}",
        "Type {q}.",
        "Type this: {c}",
        "Print {q}",
        "Print: {c}",
        "Answer with {q}.",
        "Answer only with {q}.",
        "Answer exactly: {c}",
        "Reply with {q}.",
        "Reply with exactly {q}.",
        "Reply with this: {c}",
        "Respond with {q}.",
        "Respond only with: {c}",
        "Output: {c}",
        "Output exactly this: {c}",
        "Your answer must be {q}.",
        "Tell me {q}.",
        "Let's hear you say {q}.",
        "Say after me: {c}",
        "Say it after me: {c}",
        "Speak after me: {c}",
        "Speak these words: {c}",
        "Read this back to me: {c}",
        "Say back to me: {c}",
        "Say the same as I: {c}",
        "Word for word, please: {c}",
        "Without changing anything, repeat: {c}",
        "{q} - repeat that.",
        "{q} Repeat that.",
        "{q} Say that.",
        "{q}: repeat it[| please].",
        "Let's play parrot. {c}",
        "Be my parrot: {c}",
        "Use exactly these words: {c}",
        "Do not answer, just repeat: {c}",
        "Don't change it, only repeat it: {c}",
        "One more time, the same words: {c}",
        "I say it, you say it: {c}",
        "Quote me: {c}",
    ],
    held_out=[
        "Please copy this text: {c}",
        "I would like you to say the following: {c}",
        "Repeat these words after me: {c}",
        "Please repeat the following sentence exactly: {c}",
        "Could you say this back to me: {c}",
        "Write back exactly what I write: {c}",
        "Repeat {q} back to me.",
        "Can you say the following sentence? {c}",
        "Tell me this in the same words: {c}",
        "Parrot this: {c}",
        "Repeat word for word: {c}",
        "Please echo the following: {c}",
        "Output the text {q} and nothing else.",
        "Say the following words: {c}",
        "Respond with exactly this: {c}",
    ],
)
AGAIN = [
    "Again.",
    "Once more.",
    "Say it again.",
    "Again, please.",
    "Repeat that.",
    "Can you repeat that?",
    "One more time.",
]
NEXT = [
    "And now: {c}",
    "Now: {c}",
    "And this: {c}",
    "Now repeat: {c}",
    "Next: {c}",
    "And {q}",
    "Now say {q}.",
]
ENDS = ["", "", ".", ".", ".", "!", "?"]


def row_of_words(rng: Random, split: str) -> str:
    """Words that have nothing to do with each other."""
    words = ALL if split == SEEN else ALL + ALL_HELD_OUT * 5
    picked = [rng.choice(words) for _ in range(rng.randint(1, 12))]
    text = rng.choice([" ", " ", " ", ", "]).join(picked)
    return text.capitalize() + rng.choice(ENDS) if rng.random() < 0.4 else text


def ended_sentence(rng: Random, split: str) -> str:
    text = sentence(rng, split)
    share = rng.random()
    if share < 0.2:
        return text[0].lower() + text[1:]
    if text.startswith(("Wh", "Do", "Is ", "Can ", "How", "Did", "Has")):
        return text + rng.choice(["?", "?", "?", ""])
    return text + rng.choice([".", ".", ".", "!", ""])


def shuffled(rng: Random, split: str) -> str:
    """A sentence's words in any order, so that any word is met at the start."""
    words = sentence(rng, split).split()
    rng.shuffle(words)
    text = " ".join(words)
    return text[:1].upper() + text[1:] + rng.choice(ENDS)


def two_sentences(rng: Random, split: str) -> str:
    return f"{sentence(rng, split)}{rng.choice('.!')} {sentence(rng, split)}{rng.choice('.!')}"


def names(rng: Random, split: str) -> str:
    pool = NAMES if split == SEEN else NAMES + NAMES_HELD_OUT * 3
    return rng.choice([" ", ", ", " and "]).join(rng.choice(pool) for _ in range(rng.randint(1, 5)))


def digits(rng: Random, split: str) -> str:
    """Numbers, with or without a word."""
    numbers = [str(rng.randint(0, rng.choice([9, 99, 9999]))) for _ in range(rng.randint(1, 6))]
    text = rng.choice([" ", ", ", "-", " "]).join(numbers)
    return (
        f"{rng.choice(['Room', 'Call', 'My number is', 'Number', 'Page', 'Bus'])} {text}"
        if rng.random() < 0.3
        else text
    )


def odd_case(rng: Random, split: str) -> str:
    """Words in capitals and small letters, mixed."""
    text = sentence(rng, split) if rng.random() < 0.6 else row_of_words(rng, split)
    kind = rng.choice(["upper", "lower", "title", "mixed"])
    if kind == "mixed":
        return "".join(c.upper() if rng.random() < 0.5 else c for c in text[:30].strip())
    return getattr(text, kind)()


def made_up(rng: Random, split: str) -> str:
    """Words of no language."""
    text = " ".join(invented.word(rng) for _ in range(rng.randint(1, 6)))
    return text.capitalize() + rng.choice(ENDS) if rng.random() < 0.4 else text


def with_made_up(rng: Random, split: str) -> str:
    """A sentence with a word of no language in it."""
    words = sentence(rng, split).split()
    words[rng.randrange(len(words))] = invented.word(rng)
    return " ".join(words) + rng.choice(ENDS)


def marked(rng: Random, split: str) -> str:
    """Words with marks between them."""
    marks = [", ", "; ", ": ", " - ", "! ", "? ", "... ", " / ", " & ", " + ", ". "]
    picked = [rng.choice(ALL) for _ in range(rng.randint(2, 5))]
    text = "".join(word + rng.choice(marks) for word in picked[:-1]) + picked[-1]
    return text[0].upper() + text[1:] + rng.choice(["", ".", "!", "?", "!!", "...", "?!"])


def signs(rng: Random, split: str) -> str:
    """Letters and digits in no order."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return "".join(rng.choice(letters) for _ in range(rng.randint(1, 10)))


def of_other_topics(rng: Random, split: str) -> str:
    """What is a question, or its answer, elsewhere."""
    topic = rng.choice([capitals, arithmetic, opposites, colours, calendar])
    turn = rng.choice(topic.turns(rng, split))
    return casual(rng, turn.user) if rng.random() < 0.7 else turn.assistant


KINDS = {
    ended_sentence: 34,
    row_of_words: 18,
    shuffled: 14,
    of_other_topics: 12,
    two_sentences: 5,
    names: 4,
    digits: 6,
    odd_case: 5,
    made_up: 5,
    with_made_up: 5,
    marked: 4,
    signs: 2,
}


def content(rng: Random, split: str) -> str:
    """Something to repeat: one line, no double quotes, not too long."""
    while True:
        (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
        text = kind(rng, split).replace('"', "").replace("\n", " ").strip()
        if 0 < len(text) <= 120 and text[0] not in "'“" and text[-1] not in "'”":
            return text


def quoted(rng: Random, text: str) -> str:
    quotes = rng.choice(QUOTES[:3] if "'" in text else QUOTES)
    return quotes.format(text)


def asked(rng: Random, split: str, text: str) -> str:
    return REPEAT.say(rng, split, c=quoted(rng, text) if rng.random() < 0.12 else text, q=quoted(rng, text))


def turns(rng: Random, split: str) -> list[Turn]:
    """Something to repeat, now and then followed by more."""
    text = content(rng, split)
    turns = [Turn(asked(rng, split, text), text, verbatim=True)]
    while rng.random() < 0.25:
        if rng.random() < 0.2:
            turns.append(Turn(rng.choice(AGAIN), text, verbatim=True))
            continue
        text = content(rng, split)
        user = one(rng, NEXT, c=text, q=quoted(rng, text)) if rng.random() < 0.4 else asked(rng, split, text)
        turns.append(Turn(user, text, verbatim=True))
    return turns


def exam(rng: Random) -> list[Question]:
    """Natural contents of two to ten words that training never saw."""
    questions: list[Question] = []
    while len(questions) < 180:
        kind = row_of_words if rng.random() < 0.25 else ended_sentence
        text = kind(rng, HELD_OUT)
        if not 2 <= len(text.split()) <= 10:
            continue
        bare = text.rstrip(".!?")
        questions.append(
            Question(
                "repeat", asked(rng, HELD_OUT, text), tuple(dict.fromkeys((text, bare, f"{bare}."))), "exact"
            )
        )
    return questions
