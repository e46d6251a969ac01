"""Repeat after me: the answer is the content, letter by letter, whatever it is.

Quotes around the whole content are not part of it; its final mark is. Questions are repeated, not answered.
"""

from random import Random

from . import about, arithmetic, calendar, capitals, colours, facts, invented, opposites, refusals
from . import smalltalk, stories, tasks
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
        "[P|p]arrot this: {c}",
        "[P|p]arrot {q}",
        "[M|m]irror this: {c}",
        "Mirror my [words|message|text]: {c}",
        "Mirror what I [wrote|write|typed]: {c}",
        "[S|s]ay {q} back to me.",
        "[S|s]ay this back[ to me| please|]: {c}",
        "Say back {q}",
        "Say what I say: {c}",
        "Say it like me: {c}",
        "Say it exactly like this: {c}",
        "Say the following[| words| sentence| out loud| aloud]: {c}",
        "Say {q} [for me|please|out loud|aloud|now|again|once more].",
        "Say {q} and nothing [else|more].",
        "Say nothing but {q}.",
        "Say only this: {c}",
        "say this pls: {c}",
        "pls repeat {q}",
        "plz say {q}",
        "can u say {q}",
        "can u repeat this: {c}",
        "could u repeat after me {c}",
        "u repeat: {c}",
        "Please you repeat this words: {c}",
        "Please to repeat: {c}",
        "You must say: {c}",
        "You must repeat {q}.",
        "You say: {c}",
        "You have to say {q}.",
        "Your turn to say it: {c}",
        "Now you say: {c}",
        "Now repeat {q}.",
        "Now write {q}.",
        "Repeat {q} [back to me|for me|please|exactly|word for word].",
        "Repeat back[ to me|]: {c}",
        "Repeat back {q}.",
        "Repeat it word for word: {c}",
        "Repeat exactly[| what I say| this| the same]: {c}",
        "Repeat literally: {c}",
        "Repeat my [words|sentence|message|text|line]: {c}",
        "Repeat this message[| back| to me]: {c}",
        "Repeat these words[| please| after me]: {c}",
        "Repeat with me: {c}",
        "Repeat that: {c}",
        "Repeat once: {c}",
        "Just repeat[| this| after me]: {c}",
        "Just repeat {q}.",
        "Just echo {q}.",
        "Just write {q}.",
        "Just type: {c}",
        "Simply say {q}.",
        "Simply repeat: {c}",
        "Echo {q} [back|back to me|please].",
        "Echo my [words|message|line]: {c}",
        "Echo exactly: {c}",
        "Please echo[| this]: {c}",
        "Please echo {q}.",
        "Can you echo {q}?",
        "Be an echo: {c}",
        "Be my echo[| please]: {c}",
        "You are my echo. {c}",
        "You are a parrot. Say: {c}",
        "Pretend you are a parrot: {c}",
        "Pretend to be my echo: {c}",
        "Polly, say {q}!",
        "Like a parrot: {c}",
        "Talk like a parrot, say after me: {c}",
        "Copy {q}.",
        "Copy me: {c}",
        "Copy what I [say|write|type]: {c}",
        "Copy the [words|text|sentence|line] {q}.",
        "Copy the following[| text| words| line]: {c}",
        "Copy exactly: {c}",
        "Copy these words[| please]: {c}",
        "Copy my [words|sentence|text]: {c}",
        "Please copy: {c}",
        "Can you copy this[| sentence| line]: {c}",
        "Copy and paste: {c}",
        "Paste this back: {c}",
        "Imitate me: {c}",
        "Mimic me: {c}",
        "Mimic this: {c}",
        "Reproduce[| this| the text| exactly]: {c}",
        "Reproduce {q}.",
        "Recite: {c}",
        "Recite this[| line| sentence|, please]: {c}",
        "Recite {q} for me.",
        "Restate: {c}",
        "Restate word for word: {c}",
        "Quote: {c}",
        "Quote {q}.",
        "Quote this[| back| exactly]: {c}",
        "Quote my words[| exactly]: {c}",
        "Write {q} [back|for me|please|again|exactly].",
        "Write back: {c}",
        "Write this back[| to me]: {c}",
        "Write back to me {q}.",
        "Write the [words|sentence|text|line]: {c}",
        "Write the [words|sentence|phrase] {q}.",
        "Write the following[| words| line| sentence]: {c}",
        "Write the same[| as me| thing| words]: {c}",
        "Write only {q}.",
        "Write only this: {c}",
        "Write what I write: {c}",
        "Write out {q}.",
        "Please write {q}.",
        "Please write[| this| exactly]: {c}",
        "Can you write {q}[?| for me?]",
        "Could you write this: {c}",
        "Type: {c}",
        "Type out: {c}",
        "Type back {q}.",
        "Type exactly: {c}",
        "Type {q} [for me|please|back|exactly].",
        "Type the [words|sentence|text|line] {q}.",
        "Type the following: {c}",
        "Type what I type: {c}",
        "Please type {q}.",
        "Can you type {q}?",
        "Could you type this out: {c}",
        "print {c}",
        "Print this[| text| line| exactly]: {c}",
        "Print the [words|text|line] {q}.",
        "Print out {q}.",
        "Display {q}.",
        "Display this[| text| line]: {c}",
        "Show {q}.",
        "Show this text: {c}",
        "Output {q}.",
        "output this text: {c}",
        "Return {q}.",
        "Return this[| text| unchanged]: {c}",
        "Return exactly: {c}",
        "Give back: {c}",
        "Give this back to me[| unchanged]: {c}",
        "Give me back the words {q}.",
        "Give me {q} word for word.",
        "Send {q}.",
        "Send back {q}.",
        "Send this back[| to me]: {c}",
        "Send me this[| same] text: {c}",
        "Send the same message: {c}",
        "Utter {q}.",
        "Utter these words: {c}",
        "Pronounce: {c}",
        "Speak {q}.",
        "Speak: {c}",
        "Speak the words {q}.",
        "Voice this: {c}",
        "State {q}.",
        "State exactly: {c}",
        "Shout {q}!",
        "Whisper {q}.",
        "Call out {q}.",
        "Read[| this| aloud| out loud| this out]: {c}",
        "Read {q} aloud.",
        "Read out {q}.",
        "Read out the [words|line|text]: {c}",
        "Read back {q}.",
        "Please read this back: {c}",
        "Answer: {c}",
        "Answer with exactly {q}.",
        "Answer with the [words|sentence|text] {q}.",
        "Answer just {q}.",
        "Answer me with {q}.",
        "Answer with this[| only]: {c}",
        "Answer using only these words: {c}",
        "Reply {q}.",
        "Reply: {c}",
        "Reply only with {q}.",
        "Reply just with {q}.",
        "Reply only: {c}",
        "Reply with the [words|text|sentence] {q}.",
        "Reply with the same[| words| text]: {c}",
        "Reply to me with {q}.",
        "Please reply with {q}.",
        "Respond {q}.",
        "Respond: {c}",
        "Respond with exactly {q}.",
        "Respond with the [words|text|sentence]: {c}",
        "Respond with this[| only| exactly]: {c}",
        "Please respond with {q}.",
        "Your reply should be {q}.",
        "Your [reply|answer|response] should be: {c}",
        "Your only answer is {q}.",
        "Your whole answer is: {c}",
        "Your line is: {c}",
        "Your next words are: {c}",
        "Your text: {c}",
        "Make your answer {q}.",
        "The answer I want is {q}.",
        "The only thing you say is {q}.",
        "The words to say[| are| back]: {c}",
        "The words to repeat are {q}.",
        "The text to repeat: {c}",
        "The sentence to [copy|repeat|say]: {c}",
        "Text to echo: {c}",
        "Words to repeat: {c}",
        "I want to hear {q}.",
        "I want to hear you say {q}.",
        "I want you to write {q}.",
        "I want you to echo {q}.",
        "I want you to type: {c}",
        "I would like to hear {q}.",
        "I'd like you to say {q}.",
        "I'd love to hear you say {q}.",
        "I need you to say {q}.",
        "I need you to repeat {q}.",
        "I need you to write exactly: {c}",
        "I wish you would say {q}.",
        "I'd be happy if you said {q}.",
        "I'll say it, then you: {c}",
        "I say: {c} Now you.",
        "I will say something and you repeat it: {c}",
        "I am going to say a sentence, you say it too: {c}",
        "I bet you can't say {q}.",
        "Are you able to repeat {q}?",
        "Are you able to say this: {c}",
        "Do you think you can say {q}?",
        "Will you say {q}?",
        "Will you repeat this: {c}",
        "Will you say {q} for me?",
        "Would you say {q}?",
        "Would you say {q} for me[|, please]?",
        "Would you write {q}?",
        "Would you mind repeating {q}?",
        "Would you mind saying {q}?",
        "Would you mind repeating this: {c}",
        "Would you be so kind as to say {q}?",
        "Would you kindly repeat: {c}",
        "Kindly repeat[| after me]: {c}",
        "Kindly say {q}.",
        "Be so kind and say {q}.",
        "May I hear you say {q}?",
        "Can I hear {q}?",
        "Can I get you to say {q}?",
        "Can you say this[| back| for me| too| please]: {c}",
        "Can you say {q} [back|for me|too|please|after me]?",
        "Can you say it back: {c}",
        "Can you repeat my words: {c}",
        "Can you repeat {q} [for me|please|back to me|word for word]?",
        "Could you say this[| for me| back to me]: {c}",
        "Could you say {q} [please|for me|back to me]?",
        "Could I hear {q} from you?",
        "Hey, say {q}.",
        "hey can you say {q}",
        "ok now say {q}",
        "ok repeat: {c}",
        "Okay, repeat after me: {c}",
        "All right, say {q}.",
        "Come on, say {q}!",
        "Go on, say {q}.",
        "Go ahead and say {q}.",
        "Try to say {q}.",
        "Try saying {q}.",
        "Try to repeat[| this]: {c}",
        "Try to say this: {c}",
        "Let me hear {q}.",
        "Let me hear you say: {c}",
        "Let me see you write {q}.",
        "Let us say together: {c}",
        "Let's say it together: {c}",
        "Let's repeat: {c}",
        "Let's play echo: {c}",
        "Let's play copycat: {c}",
        "Let's do an echo game. {c}",
        "Copycat game: {c}",
        "Echo game, my words: {c}",
        "Echo test: {c}",
        "Parrot game: {c}",
        "Listen and repeat: {c}",
        "Listen and say after me: {c}",
        "Read and repeat: {c}",
        "Exercise: repeat the sentence. {c}",
        "Exercise: copy the line {q}.",
        "Task: repeat {q}.",
        "Task: say this. {c}",
        "Same words as me: {c}",
        "The same as me, please: {c}",
        "Same again, please: {c}",
        "Exactly like this: {c}",
        "Word by word: {c}",
        "Word for word: {c}",
        "Literally repeat {q}.",
        "Verbatim: {c}",
        "Repeat verbatim: {c}",
        "Without any change, say {q}.",
        "Unchanged, please: {c}",
        "No more and no less than {q}, please.",
        "Nothing else, only {q}.",
        "Only repeat[| this]: {c}",
        "Only write {q}.",
        "Only echo: {c}",
        "Don't think, repeat: {c}",
        "Don't explain, just say {q}.",
        "Don't add anything, say: {c}",
        "Don't say anything but {q}.",
        "No answer needed, just repeat this: {c}",
        "Without adding anything: {c}",
        "Again with the same words: {c}",
        "Once again: {c}",
        "Once more: {c}",
        "One more time: {c}",
        "After me: {c}",
        "Follow me: {c}",
        "Follow after me: {c}",
        "Say with me: {c}",
        "Say together with me: {c}",
        "Say aloud: {c}",
        "Say to me {q}.",
        "Say to me: {c}",
        "Say me {q}.",
        "Say me this back: {c}",
        "Tell me: {c}",
        "Tell me this back: {c}",
        "Tell me exactly these words: {c}",
        "Tell back: {c}",
        "Tell it back to me: {c}",
        "Put it in the same words: {c}",
        "Put {q} in your answer, nothing else.",
        "Put down {q}.",
        "Note down {q}.",
        "This is what you should say: {c}",
        "This is the sentence you repeat: {c}",
        "This is your line: {c}",
        "Here is a sentence, repeat it: {c}",
        "Here is the text to say back: {c}",
        "Here are my words, say them back: {c}",
        "Here's what to say: {c}",
        "What I say, you say: {c}",
        "What I want you to say is {q}.",
        "What I need from you: say {q}.",
        "My words are {q}. Repeat them.",
        "My sentence is {q}. Say it back.",
        "My sentence: {c}\nRepeat it.",
        "Say this:\n{c}",
        "Repeat this:\n{c}",
        "Repeat:\n{c}",
        "Copy the text below:\n{c}",
        "Repeat the line below[|.|:]\n{c}",
        "Write this:\n{c}",
        "{c}\nRepeat that.",
        "{c}\nSay that back[| please| to me].",
        "{c}\nRepeat the line above.",
        "{c} <- say that back",
        "{c} <- repeat this",
        "{c} <- copy that",
        "{c} <-- echo",
        "{c} - now you say it",
        "{c} - repeat[| please]",
        "{c} (repeat that)",
        "{c} (say it back)",
        "{c} Repeat after me.",
        "{c} Now repeat it.",
        "{q} <- say that back",
        "{q} <- repeat",
        "{q} <- copy this",
        "{q}, say it[| back| please| now].",
        "{q}, repeat[| please| that| after me].",
        "{q}, repeat it word for word.",
        "{q} Now you.",
        "{q} Now you say it.",
        "{q} Your turn, say it.",
        "{q} Say it back[| to me].",
        "{q} Say it[| too| again| after me].",
        "{q} Copy that.",
        "{q} Echo that.",
        "{q} Echo it back[|, please].",
        "{q} Write that[| back].",
        "{q} Type that.",
        "{q} Parrot that.",
        "{q} Please repeat[| it| my words].",
        "{q} Can you repeat that?",
        "{q} Can you say that[| too| back]?",
        "{q} Could you say it back?",
        "{q} Would you repeat it?",
        "{q} is what I want you to say.",
        "{q} is what you should say.",
        "{q} should be your answer.",
        "{q} is the sentence to repeat.",
        "{q} - can you say it?",
        "{q} - say it back.",
        "{q} - copy.",
        "{q} - echo.",
        "{q}: say this.",
        "{q}: copy it[| please].",
        "{q}: your turn to say it.",
        "{q} and now you say the same.",
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


QUESTIONS = [capitals, arithmetic, opposites, colours, calendar]
ANYTHING = [*QUESTIONS, about, facts, refusals, smalltalk, stories, stories, tasks]


def of_other_topics(rng: Random, split: str) -> str:
    """What is a question, or its answer, elsewhere."""
    turn = rng.choice(rng.choice(QUESTIONS).turns(rng, split))
    return casual(rng, turn.user) if rng.random() < 0.7 else turn.assistant


def piece_of_anything(rng: Random, split: str) -> str:
    """A few words from the middle of any text, in order or not: every word of the corpus is met."""
    turn = rng.choice(rng.choice(ANYTHING).turns(rng, split))
    words = (turn.assistant if rng.random() < 0.6 else turn.user).split()
    first = rng.randrange(len(words))
    words = words[first : first + rng.randint(1, 12)]
    if rng.random() < 0.5:
        rng.shuffle(words)
    text = " ".join(words)
    return text[:1].upper() + text[1:] if rng.random() < 0.4 else text


KINDS = {
    ended_sentence: 34,
    row_of_words: 18,
    shuffled: 10,
    piece_of_anything: 34,
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
