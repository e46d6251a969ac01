"""Colours of things, colours mixed, and the rainbow."""

from random import Random

from .core import HELD_OUT, Phrasings, Question, Turn
from .relations import Relation, listed, table
from .typos import slip

WEIGHT = 1.5

# A thing and many of them, with the colour.
THINGS = """
a banana | bananas | yellow; a lemon | lemons | yellow; a ripe tomato | tomatoes | red
a strawberry | strawberries | red; a cherry | cherries | red; a carrot | carrots | orange
a pumpkin | pumpkins | orange; an orange | oranges | orange; a cucumber | cucumbers | green
a pea | peas | green; a leaf | leaves | green; a frog | frogs | green; a lime | limes | green
a crow | crows | black; a raven | ravens | black; a swan | swans | white; a polar bear | polar bears | white
a sheep | most sheep | white; a cactus | cactuses | green; a flamingo | flamingos | pink
a pig | pigs | pink; an elephant | elephants | grey / gray; a mouse | mice | grey / gray
a rhino | rhinos | grey / gray; a dolphin | dolphins | grey / gray; a lion | lions | yellow
a chick | chicks | yellow; a sunflower | sunflowers | yellow; a fire engine | fire engines | red
a ladybird | ladybirds | red; a raspberry | raspberries | red; a brown bear | brown bears | brown
a potato | potatoes | brown; a walnut | walnuts | brown; a coconut | coconuts | brown
an aubergine | aubergines | purple; a plum | plums | purple; a blueberry | blueberries | blue
a crocodile | crocodiles | green; a grasshopper | grasshoppers | green; a cloud | clouds | white
a snowflake | snowflakes | white; a snowman | snowmen | white; a tooth | teeth | white
a bone | bones | white; a chestnut | chestnuts | brown; a violet | violets | purple; a fox | foxes | orange
a canary | canaries | yellow; a lettuce | lettuces | green; a tyre | tyres | black
a daffodil | daffodils | yellow; a stop sign | stop signs | red; a poppy | poppies | red
a tree trunk | tree trunks | brown; a ghost | ghosts | white
"""
SINGLE = """
grass | green; the sky | blue; the clear sky | blue; blood | red; snow | white; milk | white; coal | black
chocolate | brown; the sun | yellow; the sea | blue; the ocean | blue; salt | white; sugar | white
butter | yellow; gold | yellow; silver | grey / gray; ash | grey / gray; the night sky | black
the night | black; ketchup | red; mustard | yellow; spinach | green; rice | white; flour | white
coffee | brown; wood | brown; soil | brown; honey | yellow; sand | yellow; cotton | white; ink | blue
soot | black; tar | black; ivory | white; cream | white; an emerald | green; broccoli | green; a ruby | red
a sapphire | blue; lavender | purple; moss | green; rust | brown; the moon | white; Mars | red
the planet Mars | red; the inside of a watermelon | red; the yolk of an egg | yellow; an egg yolk | yellow
egg white | white; concrete | grey / gray; paper | white; a school bus in America | yellow; fire | orange
a flame | orange; lava | orange; salmon | pink; the top light of a traffic light | red
the bottom light of a traffic light | green; the cross on the flag of Switzerland | white
"""

COLOUR = Phrasings(
    seen=[
        "What [colour|color] {be} {thing}?",
        "What [colour|color] {be} {thing}?",
        "Which [colour|color] {be} {thing}?",
        "What is the [colour|color] of {thing}?",
        "What's the [colour|color] of {thing}?",
        "[The |][colour|color] of {thing}[|?|:]",
        "{thing}: what [colour|color]?",
        "{thing} [colour|color]?",
        "Tell me the [colour|color] of {thing}.",
        "Tell me what [colour|color] {thing} {be}.",
        "[Can|Could] you tell me the [colour|color] of {thing}?",
        "Can you tell me what [colour|color] {thing} {be}?",
        "Do you know the [colour|color] of {thing}?",
        "Do you know what [colour|color] {thing} {be}?",
        "{thing} {be} what [colour|color]?",
        "{thing} {be} which [colour|color]?",
        "What [colour|color] {do} {thing} have?",
        "Which [colour|color] {do} {thing} have?",
        "Name the [colour|color] of {thing}.",
        "What [colour|color] {be} {thing} usually?",
        "What [colour|color] {be} {thing} normally?",
        "In what [colour|color] do I paint {thing}?",
        "I am drawing {thing}. What [colour|color] do I need?",
        "I want to paint {thing}. Which [colour|color] should I use?",
        "I wonder what [colour|color] {thing} {be}.",
        "I forgot what [colour|color] {thing} {be}.",
        "If I look at {thing}, what [colour|color] do I see?",
        "A quiz: what [colour|color] {be} {thing}?",
        "My child asks what [colour|color] {thing} {be}.",
        "The [colour|color] of {thing} is[| ...|?| what?]",
        "{thing} {be} ... what [colour|color]?",
    ],
    held_out=[
        "Which [colour|color] would you say {thing} {be}?",
        "Say which [colour|color] {thing} {be}.",
        "What [colour|color] should {thing} be in my drawing?",
        "What's the usual [colour|color] of {thing}?",
        "Think of {thing}. What [colour|color] comes to mind?",
        "Describe the [colour|color] of {thing}.",
        "What [colour|color] do you see when you look at {thing}?",
        "So what [colour|color] {be} {thing}, then?",
    ],
)
MIXES = """
red | yellow | orange; blue | yellow | green; red | blue | purple; red | white | pink
black | white | grey / gray; red | green | brown; blue | white | light blue; black | blue | dark blue
orange | blue | brown; purple | yellow | brown; green | white | light green; black | green | dark green
black | red | dark red
"""
MIX = Phrasings(
    seen=[
        "What do you get when you mix {a} and {b}?",
        "What do I get if I mix {a} and {b}?",
        "What do I get when I mix {a} with {b}?",
        "What [colour|color] do {a} and {b} make?",
        "What [colour|color] do you get from {a} and {b}?",
        "What [colour|color] is {a} mixed with {b}?",
        "Which [colour|color] do {a} and {b} make?",
        "{a} and {b} make[| ...|?| what?| what [colour|color]?]",
        "{a} + {b} = which [colour|color]?",
        "{a} and {b} mixed",
        "Mix {a} and {b}.",
        "Mix {a} with {b}. What [colour|color] is it?",
        "If I mix {a} and {b}, what [colour|color] do I get?",
        "What happens when I mix {a} and {b} [paint|paints]?",
        "{a} paint and {b} paint, mixed, give what?",
        "Mixing {a} and {b} gives which [colour|color]?",
    ],
    held_out=[
        "I stir {a} and {b} paint together. What [colour|color] comes out?",
        "What's the result of mixing {a} with {b}?",
        "Which [colour|color] is made from {a} and {b}?",
        "When {a} and {b} are mixed, which [colour|color] appears?",
    ],
)
NEEDS = Phrasings(
    seen=["How do I make {c}?", "How do you mix {c}?", "How can I make the [colour|color] {c}?",
          "How do I get {c} paint?",
          "Which [colours|colors] make {c}?", "What [colours|colors] make {c}?", "What do I mix to get {c}?",
          "Which [colours|colors] do I need for {c}?"],
    held_out=["What two [colours|colors] give {c}?", "I need {c} paint. What should I mix?"],
)  # fmt: skip
RAINBOW = ["red", "orange", "yellow", "green", "blue", "indigo", "violet"]
RAINBOW_ALL = Phrasings(
    seen=["What are the [colours|colors] of the rainbow?", "What [colours|colors] are in a rainbow?",
          "[Colours|Colors] of the rainbow",
          "List the [colours|colors] of the rainbow.", "Name the [colours|colors] of the rainbow.",
          "Which [colours|colors] does a rainbow have?",
          "Tell me the [colours|colors] of the rainbow in order.", "What [colour|color] is a rainbow?"],
    held_out=["Which [colours|colors] can I see in a rainbow?", "Give me all the rainbow [colours|colors]."],
)  # fmt: skip
RAINBOW_NEXT = Phrasings(
    seen=["What comes after {a} in the rainbow?", "Which [colour|color] comes after {a} in the rainbow?",
          "In the rainbow, what comes after {a}?", "What is the next [colour|color] after {a} in a rainbow?"],
    held_out=["Which rainbow [colour|color] follows {a}?",
              "In a rainbow, which [colour|color] is next to {a}, below it?"],
)  # fmt: skip


def things() -> list[dict[str, str]]:
    """The things of both tables with the verbs they take."""
    found = []
    for fact in table("one many colour", THINGS):
        found.append({"thing": fact["one"], "be": "is", "do": "does", "colour": fact["colour"]})
        found.append({"thing": fact["many"], "be": "are", "do": "do", "colour": fact["colour"]})
    single = table("thing colour", SINGLE)
    return found + [fact | {"be": "is", "do": "does"} for fact in single]


FOLLOW = [
    "And {thing}?",
    "What about {thing}?",
    "How about {thing}?",
    "{thing}?",
    "And what [colour|color] {be} {thing}?",
]
OF_THINGS = Relation(COLOUR, "{thing} {be} {colour}.", things(), "colour", FOLLOW)
MIXED = [
    {"a": x, "b": y, "c": mix["c"]}
    for mix in table("a b c", MIXES)
    for x, y in ((mix["a"], mix["b"]), (mix["b"], mix["a"]))
]
OF_MIXES = Relation(MIX, "{a} and {b} make {c}.", MIXED, "c", ["And {a} and {b}?", "What about {a} and {b}?"])
OF_NEEDS = Relation(NEEDS, "Mix {a} and {b} to get {c}.", table("a b c", MIXES)[:5], "a")
OF_RAINBOW = Relation(
    RAINBOW_NEXT,
    "After {a} comes {b}.",
    [{"a": a, "b": b} for a, b in zip(RAINBOW, RAINBOW[1:])],
    "b",
    ["And after {a}?"],
)


def turns(rng: Random, split: str) -> list[Turn]:
    share = rng.random()
    if share < 0.04:
        answer = f"The colours of the rainbow are {listed(RAINBOW)}."
        return [Turn(slip(rng, RAINBOW_ALL.say(rng, split)), answer)]
    if share < 0.08:
        return OF_RAINBOW.turns(rng, split)
    if share < 0.13:
        return OF_NEEDS.turns(rng, split)
    return (OF_MIXES if share < 0.3 else OF_THINGS).turns(rng, split)


def exam(rng: Random) -> list[Question]:
    """Every thing, every mixture and the rainbow."""
    questions = OF_THINGS.questions(rng, "colours", 130) + OF_MIXES.questions(rng, "colours mixed")
    questions += OF_RAINBOW.questions(rng, "rainbow")
    questions.append(Question("rainbow", RAINBOW_ALL.say(rng, HELD_OUT), (listed(RAINBOW),)))
    return questions
