"""Little tasks: lists of things, which kind a thing is, sequences, the alphabet, picking one of several."""

from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn

WEIGHT = 2.0

# The first word is one of them, the second many; then the members, likeliest first.
KINDS = """
fruit fruits: apple, banana, orange, pear, cherry, plum, peach, grape, mango, lemon
vegetable vegetables: carrot, potato, onion, cabbage, pea, bean, spinach, leek, broccoli, radish
animal animals: dog, cat, horse, cow, lion, elephant, bear, sheep, tiger, rabbit
bird birds: sparrow, eagle, owl, robin, duck, crow, pigeon, swan, parrot, gull
fish fish: salmon, trout, tuna, shark, cod, herring, carp, pike, eel, sardine
insect insects: ant, bee, fly, beetle, butterfly, wasp, mosquito, moth, cricket, grasshopper
colour colours: red, blue, green, yellow, black, white, brown, pink, purple, grey
tree trees: oak, pine, birch, maple, willow, beech, fir, elm, ash, poplar
flower flowers: rose, tulip, daisy, lily, violet, sunflower, poppy, daffodil, orchid, carnation
drink drinks: water, milk, tea, coffee, juice, lemonade, cocoa, beer, wine, cider
metal metals: iron, gold, silver, copper, tin, lead, zinc, aluminium, nickel, steel
tool tools: hammer, saw, drill, screwdriver, pliers, axe, wrench, file, chisel, spade
sport sports: football, tennis, swimming, basketball, hockey, running, golf, rugby, cycling, volleyball
month months: January, February, March, April, May, June, July, August, September, October
day days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday
country countries: France, Italy, Spain, Japan, Brazil, Canada, Egypt, India, Germany, Kenya
city cities: Paris, London, Rome, Tokyo, Madrid, Berlin, Cairo, Vienna, Sydney, Chicago
planet planets: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune
shape shapes: circle, square, triangle, rectangle, oval, star, pentagon, hexagon, diamond, cube
garment clothes: shirt, trousers, coat, dress, skirt, jacket, sock, hat, scarf, sweater
instrument instruments: piano, violin, guitar, drum, flute, trumpet, harp, cello, clarinet, organ
vehicle vehicles: car, bus, train, bicycle, truck, boat, plane, tram, motorcycle, ship
job jobs: teacher, doctor, baker, farmer, nurse, cook, pilot, painter, driver, gardener
language languages: English, Spanish, French, German, Italian, Chinese, Russian, Arabic, Hindi, Japanese
season seasons: spring, summer, autumn, winter
continent continents: Africa, Asia, Europe, North America, South America, Australia, Antarctica
vowel vowels: a, e, i, o, u
toy toys: doll, ball, kite, puzzle, teddy bear, train set, yo-yo, building blocks, top, balloon
room rooms: kitchen, bedroom, bathroom, living room, hall, cellar, attic, study, dining room, pantry
"""


def kinds_of(text: str) -> tuple[tuple[str, str, list[str]], ...]:
    """One of a kind, many of it, and its members, line by line."""
    lines = (line.split(": ") for line in text.strip().splitlines())
    return tuple((*head.split(" "), members.split(", ")) for head, members in lines)


LISTS = kinds_of(KINDS)
# What these are is not a matter of opinion, and none is in two of them.
PLAIN = tuple(kind for kind in LISTS if kind[0] in (
    "fruit", "vegetable", "animal", "bird", "fish", "insect", "colour", "tree", "flower", "metal", "tool",
    "drink",
    "month", "day", "country", "planet", "garment", "instrument", "vehicle", "job", "sport", "season",
    "language"))
AMBIGUOUS = ("orange", "violet", "lead", "Mercury", "March", "May", "pink", "running", "swimming", "cycling",
"train",
             "plane", "Earth", "spring", "driver", "fly", "duck", "cricket", "juice", "trousers", "pliers",
             "ash", "file",
             "pike", "saw")
WORDS = ("one", "two", "three", "four", "five")

LIST = Phrasings(
    ("[Name|List|Tell me|Give me|Say|Write|Write down] {n} {many}[|.|, please| please]",
     "[Can|Could] you [name|list|tell me|give me|say] [me |]{n} {many}?",
     "[Make|Write|Give me] a list of {n} {many}[|.]", "{n} {many}[|, please|?|.]", "What are {n} {many}?",
     "I need {n} {many}[|.]", "List of {n} {many}",
     "Tell me the names of {n} {many}[|.]", "I want {n} examples of {many}[|.]",
     "Give me {n} examples of {many}[|.]", "Do you know {n} {many}?", "[Which|What] {n} {many} do you know?",
     "Mention {n} {many}[|.]", "Think of {n} {many}[|.]", "[Now|Then|And now] name {n} {many}[|.]",
     "And {n} {many}?", "Tell me {n} kinds of {many}[|.]", "Write the names of {n} {many}[|.]",
     "Please list {n} {many} for me[|.]", "Find {n} {many}[|.]"),
    ("I am looking for {n} {many}[|.]", "Would you come up with {n} {many}?",
     "Which {n} {many} come to your mind?", "For a game I have to write down {n} {many}. Help me[|.|!]",
     "Enumerate {n} {many}[|.]", "Let me have {n} {many}[|.]", "Help me to think of {n} {many}[|.]"))
LIST_ONE = Phrasings(
    ("[Name|Tell me|Give me|Say|Write] [a|one|any] {one}[|.|, please]", "[Can|Could] you name [a|one] {one}?",
     "An example of a {one}[|, please|.|?]", "Give me an example of a {one}[|.]",
     "What is an example of a {one}?", "Do you know a {one}?", "Think of a {one}[|.]",
     "Which {one} do you know?", "Just one {one}[|.|, please]"),
    ("Come up with a {one}[|.]", "Let me hear a {one}[|.]", "I am looking for a {one}[|.]"))
EITHER = Phrasings(
    ("Is {x} {a} or {b}?", "is {x} {a} or {b}", "What is {x}, {a} or {b}?", "{x}: {a} or {b}?",
     "Would you say {x} is {a} or {b}?", "Is {x} {a}, or is it {b}?", "Tell me, is {x} {a} or {b}?",
     "Do you think {x} is {a} or {b}?", "Decide: is {x} {a} or {b}?", "{x} is {a} or {b}?",
     "Which is it, is {x} {a} or {b}?", "{a} or {b}: what is {x}?"),
    ("Should I call {x} {a} or {b}?", "Does {x} count as {a} or as {b}?",
     "If you think of {x}, is that {a} or {b}?", "My friend says {x} is {a}. Is that right, or is it {b}?"))
YES_NO = Phrasings(
    ("Is {x} {a}?", "is {x} {a}", "Is {x} really {a}?", "{x} is {a}, right?",
     "Would you say that {x} is {a}?", "True or false: {x} is {a}[|.]", "Is it true that {x} is {a}?",
     "Do you think that {x} is {a}?", "Tell me if {x} is {a}[|.]", "Can you tell me whether {x} is {a}?",
     "Yes or no: is {x} {a}?", "Is {x} {a} or not?", "{x} is {a}. Is that right?",
     "Am I right that {x} is {a}?"),
    ("Does {x} count as {a}?", "I think {x} is {a}. Do you agree?", "Would it be right to call {x} {a}?",
     "Could {x} be {a}?"))
WHICH = Phrasings(
    ("Which of these is {a}: {items}?", "[Which|What] [one |]is {a}: {items}?",
     "Which of the following is {a}: {items}?", "Which of these words is {a}? {items}",
     "Find the {one}: {items}[|.]", "Pick the {one}: {items}[|.]", "Choose the {one}: {items}[|.]",
     "Which word is {a}: {items}?", "{items}: which [one |]is {a}?", "{items}. Which of them is {a}?",
     "Which one is the {one}: {items}?", "Here are some words: {items}. Which is {a}?",
     "Tell me which of these is {a}: {items}[|.]", "One of these is {a}: {items}. Which one?",
     "Select the {one}: {items}[|.]"),
    ("Only one of these words is {a}: {items}. Which?", "Look at these words: {items}. Where is the {one}?",
     "There is {a} among these: {items}. Tell me which[|.]", "Spot the {one}: {items}[|.]"))
ODD = Phrasings(
    ("Which [word|one] does not [belong|fit]: {items}?", "Find the odd one out: {items}[|.]",
     "[What|Which] is the odd one out: {items}?", "Which of these does not [belong|fit]: {items}?",
     "Odd one out: {items}", "{items}: which does not [fit|belong]?", "Which one is different: {items}?",
     "What does not belong here: {items}?", "One word does not fit: {items}. Which one?"),
    ("Which of these is not like the others: {items}?", "Spot the intruder: {items}[|.]",
     "Three of these belong together: {items}. Which one does not?"))
NEXT = Phrasings(
    ("{s}", "{s} ...", "{s}, ?", "What comes next: {s}?", "What comes next? {s}", "What is next: {s}?",
     "Continue: {s}", "Continue the sequence[|:|.] {s}", "Continue this sequence: {s}",
     "[Finish|Complete] [the|this] [sequence|series]: {s}", "{s}, what comes next?", "{s}, what is next?",
     "{s} and then?", "Next one after {s}?", "How does it go on: {s}?", "What follows: {s}?",
     "Which [number|letter|one] comes [next|after]: {s}?", "{s}. What is the next one?", "Go on: {s}",
     "I say {s}, and you say?"),
    ("How would you carry on with {s}?", "Someone counts {s}. What would they say now?",
     "The row is {s}. What do you put behind it?", "Guess the next one: {s}", "Extend this row by one: {s}"))
PICK = Phrasings(
    ("[Pick|Choose|Select|Take] one: {x} or {y}[|?|.]", "{x} or {y}?", "[What|Which] is better, {x} or {y}?",
     "Would you [rather have|take|choose|prefer] {x} or {y}?",
     "Should I [take|choose|buy|have|get] {x} or {y}?", "I cannot decide between {x} and {y}[|.]",
     "Which one, {x} or {y}?", "Which do you like more, {x} or {y}?", "Decide for me: {x} or {y}[|?|.]",
     "[Help me choose|Help me decide]: {x} or {y}?", "Choose between {x} and {y}[|.]"),
    ("If you had the choice, {x} or {y}?", "Make the decision for me, {x} or {y}?",
     "I could have {x} or {y}. What do you say?", "Toss a coin for me: {x} or {y}[|?|.]"))
FLIP = Phrasings(
    ("[Flip|Toss|Throw] a coin[|.|!| for me]", "Heads or tails?",
     "[Can|Could] you [flip|toss] a coin[| for me]?"), ("Please let a coin decide[|.]",
     "I need a coin toss[|.]"))
NUMBER = Phrasings(
    ("[Roll|Throw] [a die|a dice|the dice][|.|!]",
     "[Pick|Choose|Give me|Tell me|Say|Think of] a [random |]number [from|between] 1 [to|and] [6|10|100][|"
     ".|!]", "[Give me|Tell me|Say|Pick|Choose] a [random |]number[|.|, please]", "Random number[|, please|"
     ".]", "Any number[|, please]", "Think of a number[|.]"), ("I need a random number[|.]", "Any number "
     "will do, just say one[|.]"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
BARE = ("drink", "metal", "sport", "colour", "month", "day", "country", "planet", "season", "language")


def article(word: str) -> str:
    """The word with a or an."""
    return ("an " if word[0] in "aeiou" and not word.startswith("uni") else "a ") + word


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]


def enumeration(words: list[str]) -> str:
    """Words with commas, and `and` before the last."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def listing(rng: Random, split: str) -> Turn:
    """So many of a kind."""
    kind, many, members = rng.choice(LISTS)
    if rng.random() < 0.2:
        asked = LIST_ONE.say(rng, split, one=kind).replace(f" a {kind}", f" {article(kind)}")
        return Turn(asked, capital(members[0]) + ".")
    n = rng.randint(2, min(5, len(members)))
    asked = LIST.say(rng, split, n=rng.choice((n, WORDS[n - 1])), many=many)
    return Turn(capital(asked), capital(enumeration(members[:n])) + ".")


def share(a: str, b: str) -> bool:
    """Whether something may be of both kinds: birds, fish and insects are animals."""
    return a == b or {a, b} <= {"animal", "bird", "fish", "insect"}


def two_kinds(rng: Random) -> list[tuple[str, str, list[str]]]:
    """Two kinds that share nothing."""
    kinds = rng.sample(PLAIN, 2)
    while share(kinds[0][0], kinds[1][0]):
        kinds = rng.sample(PLAIN, 2)
    return kinds


def member(rng: Random, kind: tuple[str, str, list[str]]) -> str:
    """One of the kind that is of no other kind."""
    return rng.choice([word for word in kind[2] if word not in AMBIGUOUS])


def noun(kind: str, word: str) -> str:
    """The word as a sentence has it, with an article where it needs one."""
    return word if kind in BARE or word in ("spinach", "broccoli") else article(word)


def is_a(kind: str, word: str) -> str:
    """That the word is of the kind."""
    return f"{noun(kind, word)} is {article(kind)}"


def either(rng: Random, split: str) -> Turn:
    """Which of two kinds a thing is."""
    kinds = two_kinds(rng)
    kind = rng.choice(kinds)
    word = member(rng, kind)
    a, b = (article(each[0]) for each in kinds)
    asked = EITHER.say(rng, split, x=rng.choice((word, noun(kind[0], word))), a=a, b=b)
    return Turn(capital(asked), capital(is_a(kind[0], word)) + ".")


def yes_no(rng: Random, split: str) -> Turn:
    """Whether a thing is of a kind."""
    kind, other = two_kinds(rng)
    word, yes = member(rng, kind), rng.random() < 0.5
    asked = YES_NO.say(rng, split, x=noun(kind[0], word), a=article((kind if yes else other)[0]))
    said = is_a(kind[0], word)
    return Turn(capital(asked), f"Yes, {said}." if yes else f"No, {said}, not {article(other[0])}.")


def which(rng: Random, split: str) -> Turn:
    """The one of a kind among others."""
    kind = rng.choice(PLAIN)
    word = member(rng, kind)
    others = [each for each in PLAIN if not share(each[0], kind[0])]
    items = [word] + [member(rng, each) for each in rng.sample(others, rng.randint(1, 3))]
    rng.shuffle(items)
    said = rng.choice((", ".join(items), ", ".join(items[:-1]) + " or " + items[-1]))
    asked = WHICH.say(rng, split, a=article(kind[0]), one=kind[0], items=said)
    return Turn(capital(asked), capital(is_a(kind[0], word)) + ".")


def odd(rng: Random, split: str) -> Turn:
    """The one that is of another kind than the others."""
    kind, other = two_kinds(rng)
    word = member(rng, other)
    items = rng.sample([each for each in kind[2] if each not in AMBIGUOUS], 3) + [word]
    rng.shuffle(items)
    asked = ODD.say(rng, split, items=", ".join(items))
    return Turn(capital(asked), f"{capital(word)} does not belong here: the others are {kind[1]}.")


def row(rng: Random) -> list[str]:
    """A sequence with its next member last."""
    n = rng.randint(3, 5)
    shape = rng.randrange(6)
    if shape == 0:
        start = rng.randrange(26 - n)
        letters = LETTERS[start: start + n + 1]
        return list(rng.choice((letters, letters.upper())))
    if shape == 1:
        drawn = rng.choice(("day", "month"))
        words = next(members for kind, _, members in LISTS if kind == drawn)
        start = rng.randrange(len(words) - 3)
        return words[start: start + 4]
    if shape == 2:
        start = rng.randint(1, 6)
        return [str(start * 2**i) for i in range(n + 1)]
    step = rng.choice((1, 2, 3, 4, 5, 10, 1, 2, 5, 10, 6, 7, 8, 9, 20, 100))
    start = rng.choice((step, step, rng.randint(0, 60)))
    numbers = [str(start + step * i) for i in range(n + 1)]
    return numbers[::-1] if rng.random() < 0.15 else numbers


def next_one(rng: Random, split: str) -> Turn:
    """What follows in a sequence."""
    *shown, last = row(rng)
    return Turn(NEXT.say(rng, split, s=rng.choice((", ", " ", ", ")).join(shown)), f"Next comes {last}.",
    True)


def pick(rng: Random, split: str) -> Turn:
    """One of two, as the user likes to have it."""
    kind = rng.choice(LISTS)
    x, y = rng.sample(kind[2], 2)
    return Turn(capital(PICK.say(rng, split, x=x, y=y)), f"I would take {x}, but the choice is yours.")


def chance(rng: Random, split: str) -> Turn:
    """Coins, dice and numbers."""
    asked, answer = rng.choice((
        (FLIP, rng.choice(("Heads!", "Tails!"))),
        (NUMBER, f"{rng.choice((3, 4, 5))}."),
    ))
    return Turn(asked.say(rng, split), answer)


TASKS = ((listing, 5), (either, 3), (yes_no, 3), (which, 3), (odd, 1.5), (next_one, 3),
(pick, 1), (chance, 0.6))


def turns(rng: Random, split: str) -> list[Turn]:
    """One task, or two of the same sort."""
    task = rng.choices([task for task, _ in TASKS], [share for _, share in TASKS])[0]
    return [task(rng, split) for _ in range(1 if rng.random() < 0.85 else 2)]


def exam(rng: Random) -> list[Question]:
    """Tasks whose answer is one word or a row of words."""
    found = []
    for task in (either, yes_no, which, next_one, odd):
        for _ in range(10):
            user, answer, _ = task(rng, HELD_OUT)
            found.append(Question("tasks", user, (wanted(task, answer),)))
    for _ in range(15):
        kind, many, members = rng.choice(LISTS)
        found.append(Question("tasks", capital(LIST.say(rng, HELD_OUT, n="two", many=many)), tuple(members)))
    return found


def wanted(task: object, answer: str) -> str:
    """The deciding words of an answer."""
    if task is yes_no:
        return answer.split(",")[0]
    if task is odd:
        return answer.split(" does not")[0]
    if task is next_one:
        return answer.removeprefix("Next comes ").rstrip(".")
    return answer.rstrip(".")
