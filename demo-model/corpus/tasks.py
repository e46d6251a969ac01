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
     "Please list {n} {many} for me[|.]", "Find {n} {many}[|.]",
    "[name|say|Enumerate|Come up with] {n} {many}[| please| pls]",
    "[name|say|Enumerate|Come up with] {n} {many}[.|, please| for me]",
    "[tell me|show me|Present|Count up] {n} {many}[| please| pls]",
    "[tell me|show me|Present|Count up] {n} {many}[.|, please| for me]",
    "[list|write|Show me|Suggest] {n} {many}[| please| pls]",
    "[list|write|Show me|Suggest] {n} {many}[.|, please| for me]",
    "[give me|enumerate|Provide|Recite] {n} {many}[| please| pls]",
    "[give me|enumerate|Provide|Recite] {n} {many}[.|, please| for me]",
    "[Can|Could|Would|Will] you [please |][name|say|mention] [me |]{n} {many}[|, please| for me]?",
    "[Can|Could|Would|Will] you [please |][tell|show|write down] [me |]{n} {many}[|, please| for me]?",
    "[Can|Could|Would|Will] you [please |][list|give|write|think of|find] [me |]{n} {many}[|, please| for me]?",
    "[Are you able|Is it possible for you] to [name|list|tell me] {n} {many}?",
    "[I want|I'd like|Let me have|We need|I want to hear] [|a list of |the names of |examples of ]{n} {many}[|.|, please]",
    "[I would like|I need|I am looking for|I wish to know|I would like to know] [|a list of |the names of |examples of ]{n} {many}[|.|, please]",
    "[Make|Give me|Create|I need] a [short |little |]list [of|with] {n} {many}[|.|, please]",
    "[Write|Show me|Prepare] a [short |little |]list [of|with] {n} {many}[|.|, please]",
    "[A|a] list [of|with] {n} {many}[|, please|.]",
    "[What|Which] are {n} [examples of |typical |well-known |common |]{many}[|?]",
    "[Which|What] {n} {many} [can you name|can you think of|are there|could you tell me]?",
    "[Which|What] {n} {many} [can you list|come to your mind|do you like]?",
    "[Do you|Can you] [know|remember|think of] {n} [different |]{many}?",
    "[Tell|Give] me {n} [different|common|typical|random|well-known] {many}[|.|, please]",
    "[Name|List] {n} [different|typical|well-known] {many}[|.|, please]",
    "[Name|List] {n} [common|random|of the] {many}[|.|, please]",
    "{n} [examples of|different|random|names of] {many}[|, please|.|?]",
    "[Now|Next|So,|And] [list|tell me|give me] {n} {many}[|.|, please]",
    "[Then|Ok,|Well,] [list|tell me|give me] {n} {many}[|.|, please]",
    "For my homework I need {n} {many}[|.]",
    "My teacher wants {n} {many}[|.|, can you help?]",
    "Help me [find|name|list|think of] {n} {many}[|.|, please]",
    "Just {n} {many}[|, please|.]",
    "Only {n} {many}[|, please|.]",
    "[Please|please] [name|tell me|say] {n} {many}[|.|!]",
    "[Please|please] [give me|list|write] {n} {many}[|.|!]",
    "Let me hear {n} {many}[|.]",
    "Let us see if you know {n} {many}[|.]",
    "Quiz: name {n} {many}[|.|!]",
    "I bet you cannot name {n} {many}[|.|!]",
    "List for me {n} {many}[|.]",
    "Try to name {n} {many}[|.]",
),
    ("I am looking for {n} {many}[|.]", "Would you come up with {n} {many}?",
     "Which {n} {many} come to your mind?", "For a game I have to write down {n} {many}. Help me[|.|!]",
     "Enumerate {n} {many}[|.]", "Let me have {n} {many}[|.]", "Help me to think of {n} {many}[|.]"))
LIST_ONE = Phrasings(
    ("[Name|Tell me|Give me|Say|Write] [a|one|any] {one}[|.|, please]", "[Can|Could] you name [a|one] {one}?",
     "An example of a {one}[|, please|.|?]", "Give me an example of a {one}[|.]",
     "What is an example of a {one}?", "Do you know a {one}?", "Think of a {one}[|.]",
     "Which {one} do you know?", "Just one {one}[|.|, please]",
    "[name|write|Suggest|Choose] [a|one|any|some] {one}[|.|, please| please| for me]",
    "[give me|mention|Find] [a|one|any|some] {one}[|.|, please| please| for me]",
    "[tell me|list|Show me] [a|one|any|some] {one}[|.|, please| please| for me]",
    "[say|Mention|Pick] [a|one|any|some] {one}[|.|, please| please| for me]",
    "[Can|Could|Would|Will] you [please |][tell me|say|think of|list|name me] [a|one|any|some] {one}[|, please| for me]?",
    "[Can|Could|Would|Will] you [please |][give me|mention|suggest|find] [a|one|any|some] {one}[|, please| for me]?",
    "[I want|I need|I would like|I am looking for] [one|an example of a|the name of a|the name of one] {one}[|.|, please]",
    "[Give|Tell|Show] me [one|an example of one|an example of some|the name of a|the name of any] {one}[|.|, please]",
    "[Do you know|Can you think of|Know] [one|any|some] {one}?",
    "What is [one|the name of a|the name of one|an example for a] {one}?",
    "[Which|What] {one} [can you name|comes to your mind|do you think of|can you think of|comes to mind first]?",
    "[one|any|some] {one}[|, please|?]",
    "[An|One|Any] example of [one|some] {one}[|, please|.]",
    "For example, which {one}?",
    "[Please|Now|So], [name|tell me|say] [one|any|some] {one}[|.]",
    "Help me think of [one|some|a] {one}[|.]",
    "The name of a {one}[|, please|.]",
    "Say the name of a {one}[|.|, please]",
),
    ("Come up with a {one}[|.]", "Let me hear a {one}[|.]", "I am looking for a {one}[|.]"))
EITHER = Phrasings(
    ("Is {x} {a} or {b}?", "is {x} {a} or {b}", "What is {x}, {a} or {b}?", "{x}: {a} or {b}?",
     "Would you say {x} is {a} or {b}?", "Is {x} {a}, or is it {b}?", "Tell me, is {x} {a} or {b}?",
     "Do you think {x} is {a} or {b}?", "Decide: is {x} {a} or {b}?", "{x} is {a} or {b}?",
     "Which is it, is {x} {a} or {b}?", "{a} or {b}: what is {x}?",
    "[is|Is] {x} [rather |more like |actually |really |]{a} or {b}[|?|??]",
    "[what|What] [is|would be|do you call] {x}[,|:|?|] {a} or {b}[|?]",
    "[Can|Could] you [tell me|say|decide] [if|whether] {x} is {a} or {b}?",
    "[Tell|Say] [me |][if|whether] {x} is {a} or {b}[|.|, please]",
    "I [wonder|want to know|don't know|am not sure|would like to know] [if|whether] {x} is {a} or {b}[|.]",
    "Do you know [if|whether] {x} is {a} or {b}?",
    "{x}[,| -| =|?|...] {a} or {b}[|?]",
    "[Would|Do|Should] you [call|consider] {x} {a} or {b}?",
    "[Should|Can|Do] I call {x} {a} or {b}?",
    "Quiz: is {x} {a} or {b}?",
    "[Ok|Now|Hey|Quick], is {x} {a} or {b}?",
    "[So|And|Please], is {x} {a} or {b}?",
    "[Choose|Pick|Which one]: {x} is {a} or {b}[|?]",
    "{a} or {b}, [which is|what would you call|what is] {x}?",
    "Which is {x}, {a} or {b}?",
    "Which is right: {x} is {a} or {x} is {b}?",
    "Does {x} count as {a} or as {b}?",
    "My son asks if {x} is {a} or {b}[|.]",
    "Is it {a} or {b}: {x}?",
    "Is {x} {a}? Or is it {b}?",
),
    ("Should I call {x} {a} or {b}?", "Does {x} count as {a} or as {b}?",
     "If you think of {x}, is that {a} or {b}?", "My friend says {x} is {a}. Is that right, or is it {b}?"))
YES_NO = Phrasings(
    ("Is {x} {a}?", "is {x} {a}", "Is {x} really {a}?", "{x} is {a}, right?",
     "Would you say that {x} is {a}?", "True or false: {x} is {a}[|.]", "Is it true that {x} is {a}?",
     "Do you think that {x} is {a}?", "Tell me if {x} is {a}[|.]", "Can you tell me whether {x} is {a}?",
     "Yes or no: is {x} {a}?", "Is {x} {a} or not?", "{x} is {a}. Is that right?",
     "Am I right that {x} is {a}?",
    "[is|Is] {x} [actually |truly |in fact |also |]{a}[|?|??]",
    "[Is|is] {x} {a}[, yes or no|, true or false|, do you think|, what do you say|, please][?|]",
    "[Can|Could|Would] you [say|tell me|confirm] [if|whether] {x} is {a}?",
    "[Tell|Say] [me |][whether|if] {x} is {a}[|.|, please]",
    "I [wonder|want to know|don't know|am not sure|would like to know] [if|whether] {x} is {a}[|.]",
    "Do you know [if|whether] {x} is {a}?",
    "{x} is {a}[, isn't it|, true or false|, or not|, is that so][?|]",
    "{x} is {a}[, correct|, yes or no|, yes|, true][?|]",
    "[Would|Do|Can] you [call|consider|count] {x} {a}?",
    "[Can|Could|May] [I|we|one] [call|say that|consider] {x} [is |]{a}?",
    "[Is it|Would it be] [right|correct|false|wrong|fair] to [say|claim] that {x} is {a}?",
    "[Is it|Is it really] [correct|right|so|a fact] that {x} is {a}?",
    "[True|Right|Correct] or [false|wrong]? {x} is {a}[|.]",
    "[So|Now|Hey|Quick question], is {x} {a}?",
    "[And|Ok|Please|Quiz], is {x} {a}?",
    "I [think|believe|say|heard|read] [that |]{x} is {a}. [Is that right|True|Am I right]?",
    "I [think|believe|say|heard|read] [that |]{x} is {a}. [Right|Is it true|Is that correct]?",
    "[My teacher|My friend|My son|Someone] says {x} is {a}. [Is that right|Is that true|Is it so|True]?",
    "Does {x} count as {a}?",
    "Do you agree that {x} is {a}?",
    "Do you believe that {x} is {a}?",
    "yes or no: {x} is {a}[|?]",
    "Could {x} be {a}?",
    "{x}, is [it|that] {a}?",
),
    ("Does {x} count as {a}?", "I think {x} is {a}. Do you agree?", "Would it be right to call {x} {a}?",
     "Could {x} be {a}?"))
WHICH = Phrasings(
    ("Which of these is {a}: {items}?", "[Which|What] [one |]is {a}: {items}?",
     "Which of the following is {a}: {items}?", "Which of these words is {a}? {items}",
     "Find the {one}: {items}[|.]", "Pick the {one}: {items}[|.]", "Choose the {one}: {items}[|.]",
     "Which word is {a}: {items}?", "{items}: which [one |]is {a}?", "{items}. Which of them is {a}?",
     "Which one is the {one}: {items}?", "Here are some words: {items}. Which is {a}?",
     "Tell me which of these is {a}: {items}[|.]", "One of these is {a}: {items}. Which one?",
     "Select the {one}: {items}[|.]",
    "[which|what|Which|What] [one |of them |thing ]is {a}[:|?|,|...] {items}[|?]",
    "[which|what|Which|What] [word |of these |]is {a}[:|?|,|...] {items}[|?]",
    "[Which|What] [one |word |]of these is {a}[:|?|,] {items}[|?]",
    "[which|what|Which|What] one among these is {a}: {items}?",
    "[Pick|Name|Give me|choose] the {one}[:|.|,|] {items}[|.|, please]",
    "[Select|Point out|pick] the {one}[:|.|,|] {items}[|.|, please]",
    "[Choose|Show me|Say] the {one}[:|.|,|] {items}[|.|, please]",
    "[Take|Spot|find] the {one}[:|.|,|] {items}[|.|, please]",
    "[Pick|Choose|Find|Take] the {one} from [this list|these|these words|the list]: {items}[|.]",
    "[Can|Could] you [find|spot|tell me] the {one}[:|?] {items}[|?]",
    "[Can|Could] you [pick|choose|name] the {one}[:|?] {items}[|?]",
    "[Tell|Show] me [which|which one|which word|what] is {a}: {items}[|.|, please]",
    "[I have|Given|My words are][:|] {items}. [Which|Which one|Which of them|Which word] is {a}?",
    "[Here are|These are the words|Look at this][:|] {items}. [Which|Which one|Which of them|Which word] is {a}?",
    "{items}[.|:|?| -|,] [which|which one|what|Which word|Which of these] is {a}?",
    "{items}[.|:| -] [Pick|Choose|Where is] the {one}[|.|?]",
    "{items}[.|:| -] [Find|Name|What is] the {one}[|.|?]",
    "[Only one|One word|Just one|Only one word] [of these |here |]is {a}[:|. Which?|, which one:] {items}[|?]",
    "[Where is|Who is|Which is|What is] the {one}[:| here:| in this list:| among these:] {items}[|?]",
    "There is a {one} [hidden here|in this list|among these words]: {items}[|.|?]",
    "Do you see the {one}: {items}?",
    "Quiz: [which|which one|which word] is {a}: {items}?",
    "Which is the {one}, {items}?",
    "From these words, which is {a}: {items}?",
),
    ("Only one of these words is {a}: {items}. Which?", "Look at these words: {items}. Where is the {one}?",
     "There is {a} among these: {items}. Tell me which[|.]", "Spot the {one}: {items}[|.]"))
ODD = Phrasings(
    ("Which [word|one] does not [belong|fit]: {items}?", "Find the odd one out: {items}[|.]",
     "[What|Which] is the odd one out: {items}?", "Which of these does not [belong|fit]: {items}?",
     "Odd one out: {items}", "{items}: which does not [fit|belong]?", "Which one is different: {items}?",
     "What does not belong here: {items}?", "One word does not fit: {items}. Which one?",
    "[which|what|Which|What] [word|one|thing|of these words|item] [does not|doesn't|dont] [belong|belong here|match|belong to the others][:|?|,] {items}[|?]",
    "[which|what|Which|What] [word|one|thing|of these words|item] [does not|doesn't|dont] [fit|fit in|go with the others|fit the others][:|?|,] {items}[|?]",
    "[Find|Name|Spot|Show me|What's] the [odd one out|one that does not fit|word that does not fit|odd one][:|,] {items}[|.|?]",
    "[Find|Name|Spot|Show me|What's] the [odd word|one that does not belong|word that does not belong][:|,] {items}[|.|?]",
    "[Pick|Tell me|Choose|find|Say] the [odd one out|odd word|one that does not fit|one that does not belong|word that does not fit|word that does not belong|odd one][:|,] {items}[|.|?]",
    "[Which|What] [word|one|of these] is [the odd one|different from the others|wrong here|out of place][:|?] {items}[|?]",
    "[Which|What] [word|one|of these] is [different|not like the others|the intruder|the stranger][:|?] {items}[|?]",
    "[odd one out|the odd one out|Odd one|Which is odd|Odd word out][:|?|,] {items}[|?]",
    "{items}[.|:|?| -] [Which|What|Which one|Which word] [does not belong|doesn't fit|does not fit in|is the odd one out|is different|is not like the others]?",
    "{items}[.|:| -] [Find|Name|Pick] the odd one out[|.]",
    "[Can|Could] you [find|spot|tell me|name] the [odd one out|word that does not fit|one that does not belong][:|?] {items}[|?]",
    "[One|One of these|One word|One thing] [does not|doesn't] [belong|fit|match][:|. Which?|, which one?|, find it:] {items}",
    "[Tell|Show] me which [one|word] does not [fit|belong]: {items}[|.]",
    "[Here are|These are|I have] [some |]words: {items}. Which one does not [fit|belong]?",
    "[Remove|Cross out|Strike out|Leave out] the word that does not [fit|belong]: {items}[|.]",
    "Who is the odd one out: {items}?",
    "Quiz: which one does not [fit|belong]: {items}?",
    "Three are alike, one is not: {items}. Which one?",
),
    ("Which of these is not like the others: {items}?", "Spot the intruder: {items}[|.]",
     "Three of these belong together: {items}. Which one does not?"))
NEXT = Phrasings(
    ("{s}", "{s} ...", "{s}, ?", "What comes next: {s}?", "What comes next? {s}", "What is next: {s}?",
     "Continue: {s}", "Continue the sequence[|:|.] {s}", "Continue this sequence: {s}",
     "[Finish|Complete] [the|this] [sequence|series]: {s}", "{s}, what comes next?", "{s}, what is next?",
     "{s} and then?", "Next one after {s}?", "How does it go on: {s}?", "What follows: {s}?",
     "Which [number|letter|one] comes [next|after]: {s}?", "{s}. What is the next one?", "Go on: {s}",
     "I say {s}, and you say?",
    "{s}[,|] [...|and then|and now|continue][|?]",
    "{s}[,|] [??|what next|and next][|?]",
    "{s}[,|] [?|next|go on|then what][|?]",
    "{s}[,|] [and|now what|and so on][|?]",
    "[what|What] [comes|follows|would be|will be] [next|then|after that|now][:|?|...|,| in] {s}[|?| ...]",
    "[what|What] [is|goes|should be|must be] [next|then|after that|now][:|?|...|,| in] {s}[|?| ...]",
    "[what|What] [comes|is|follows] after {s}[|?]",
    "[continue|Continue the pattern|Finish it|Next one][:|.|,|...] {s}[| ...|, ...]",
    "[Keep going|Complete the row|Give the next one][:|.|,|...] {s}[| ...|, ...]",
    "[Go on with|Extend the sequence|Follow the pattern][:|.|,|...] {s}[| ...|, ...]",
    "[Continue the row|Complete it|Say the next one][:|.|,|...] {s}[| ...|, ...]",
    "[Carry on|Continue the list|Finish the row|next][:|.|,|...] {s}[| ...|, ...]",
    "[Continue please|Complete|Find the next one][:|.|,|...] {s}[| ...|, ...]",
    "[go on|Complete the pattern|Add the next one][:|.|,|...] {s}[| ...|, ...]",
    "[Continue the series|Finish the pattern|Next please][:|.|,|...] {s}[| ...|, ...]",
    "[Can|Could|Would] you [continue|complete this|tell me what comes next|continue the sequence][:|?] {s}[|?]",
    "[Can|Could|Would] you [go on|finish this|tell me the next one|complete the sequence][:|?] {s}[|?]",
    "[Tell|Show] me [what comes next|the next one|what follows|how it goes on|what is next][:|.|,] {s}",
    "[Which|What] [number|letter|one|word|thing] [follows|comes then|should follow][:|?|,] {s}[|?]",
    "[Which|What] [number|letter|one|word|thing] [is next|would be next|is the next][:|?|,] {s}[|?]",
    "{s}[.|,|:| -|...] [What comes next|What comes now|And what comes then|Go on|Next][|?|.]",
    "{s}[.|,|:| -|...] [What follows|How does it continue|Continue the sequence|Please continue][|?|.]",
    "{s}[.|,|:| -|...] [What is next|How does it go on|What would be next|Please go on][|?|.]",
    "{s}[.|,|:| -|...] [Which one is next|Which one comes next|Continue|Your turn][|?|.]",
    "How does [this|the sequence|the row|the series|it] [go on|continue][:|?] {s}[|?]",
    "[Guess|Do you know] [the next one|what comes next|how it goes on][:|?|.] {s}",
    "I [count|say|write|start|begin with][:|] {s}[,|.] [and you|you go on|what comes next|what is next|go on][|?]",
    "[Here is|This is|Look at|Given] [a sequence|a series|a row|my sequence|the sequence][:|] {s}. [What is next|What comes next|Continue|Go on][|?|.]",
    "The next one after {s} is?",
    "After {s} comes [what|which one|...][|?]",
    "{s}, [fill in the next one|the next one, please|next one please|what goes here]",
    "{s} _",
    "{s} ___",
),
    ("How would you carry on with {s}?", "Someone counts {s}. What would they say now?",
     "The row is {s}. What do you put behind it?", "Guess the next one: {s}", "Extend this row by one: {s}"))
PICK = Phrasings(
    ("[Pick|Choose|Select|Take] one: {x} or {y}[|?|.]", "{x} or {y}?", "[What|Which] is better, {x} or {y}?",
     "Would you [rather have|take|choose|prefer] {x} or {y}?",
     "Should I [take|choose|buy|have|get] {x} or {y}?", "I cannot decide between {x} and {y}[|.]",
     "Which one, {x} or {y}?", "Which do you like more, {x} or {y}?", "Decide for me: {x} or {y}[|?|.]",
     "[Help me choose|Help me decide]: {x} or {y}?", "Choose between {x} and {y}[|.]",
    "[pick|Decide|Say|Choose one|This or that][:|,] {x} or {y}[|?|.]",
    "[Choose for me|Select|Your choice|Take your pick][:|,] {x} or {y}[|?|.]",
    "[choose|Pick for me|decide|Tell me|Vote|Your pick|One of these|this or that][:|,] {x} or {y}[|?|.]",
    "{x} or [rather |maybe |better |]{y}[|??|, which one?|, what do you think?|, you decide]",
    "{x} or [rather |maybe |better |]{y}[?|, what do you say?|, please choose|, help me choose]",
    "[what|which|What|Which] [do you prefer|do you pick|should I take|would be better|one would you pick][,|:|?] {x} or {y}[|?]",
    "[what|which|What|Which] [would you take|would you choose|do you recommend|do you like best][,|:|?] {x} or {y}[|?]",
    "[what|which|What|Which] [is nicer|do you choose|one do you like|is your choice|should I choose|one is better|do you like better|one should I get][,|:|?] {x} or {y}[|?]",
    "[Would|Do|Will|Can] you [prefer|pick|like|choose|want|rather take|rather choose|recommend] {x} or {y}[|?]",
    "[Should|Shall|Could|Do] I [rather |][take|choose|buy|have|get|pick|go for|prefer|select] {x} or {y}[|?]",
    "[Shall|Should] we [take|choose|have|get|go for] {x} or {y}?",
    "I [can't|cannot|could not|don't know how to|am unable to] [choose|decide] [between|if I want] {x} [and|or] {y}[|.|, help me]",
    "I [don't|do not] know [if|whether] [I want|to take|I should take|to choose] {x} or {y}[|.]",
    "[Help|Please help] me [choose|decide|pick] between {x} and {y}[|.|, please]",
    "I have to [choose|decide|pick] between {x} and {y}[|.|, help me]",
    "Is {x} better than {y}?",
    "Do you like {x} more than {y}?",
    "Do you like {x} or {y} [better|more]?",
    "[Make|Take] a [choice|decision][:|,] {x} or {y}[|?|.]",
    "[If you could choose|If you had the choice], {x} or {y}?",
    "Between {x} and {y}, [what|which] [do you choose|would you take|is better|do you pick]?",
    "Rather {x} or {y}?",
),
    ("If you had the choice, {x} or {y}?", "Make the decision for me, {x} or {y}?",
     "I could have {x} or {y}. What do you say?", "Toss a coin for me: {x} or {y}[|?|.]"))
FLIP = Phrasings(
    ("[Flip|Toss|Throw] a coin[|.|!| for me]", "Heads or tails?",
     "[Can|Could] you [flip|toss] a coin[| for me]?",
    "[flip|toss|throw|Spin|Please flip|Please toss|Please throw] [a|the|one|me a] coin[|.|!| for me| please|, please| now]",
    "[Can|Could|Would|Will] you [please |][flip|toss|throw|spin] [a|the|one] coin[|, please| for me| for us]?",
    "[heads or tails|head or tail|Head or tails|Heads, or tails|heads or tails please|tails or heads|Tails or heads|heads/tails][|?|!]",
    "[coin flip|coin toss|Coin flip|Coin toss|flip coin|toss coin|Flip it, heads or tails|A coin toss|A coin flip][|, please|!|.|?]",
    "I [want|need|would like] [you to flip a coin|a coin flip|a coin toss|to flip a coin|to toss a coin][|.|, please]",
    "[Let us|Let's|We should] [flip|toss|throw] a coin[|.|!]",
    "Is it heads or tails?",
    "[Do|Make] a coin [flip|toss][|.|, please]",
    "Say heads or tails[|.|, please]",
    "Choose heads or tails[|.|, please]",
    "I have no coin, [flip|toss|throw] one for me[|.|, please]",
    "Throw a coin [and tell me the result|in the air|up][|.]",
    "Decide with a coin[|.|!]",
), ("Please let a coin decide[|.]",
     "I need a coin toss[|.]"))
NUMBER = Phrasings(
    ("[Roll|Throw] [a die|a dice|the dice][|.|!]",
     "[Pick|Choose|Give me|Tell me|Say|Think of] a [random |]number [from|between] 1 [to|and] [6|10|100][|"
     ".|!]", "[Give me|Tell me|Say|Pick|Choose] a [random |]number[|.|, please]", "Random number[|, please|"
     ".]", "Any number[|, please]", "Think of a number[|.]",
    "[roll|throw|Roll|Throw|Please roll|Please throw|Cast|Toss] [a die|a dice|the dice|the die|one die|dice|one dice][|.|!| for me| please|, please]",
    "[Can|Could|Would|Will] you [please |][roll|throw] [a die|a dice|the dice|one dice][| for me|, please]?",
    "[dice roll|Dice roll|dice|Dice|roll|A roll of the dice|A dice roll|die roll][|, please|!|.]",
    "[pick|choose|give me|tell me|say|think of|Name|Write|Generate|Draw|Suggest|Guess] [a|any|some|one] [random |]number [from|between] 1 [to|and] [6|10|100][|.|!|, please]",
    "[Can|Could|Would|Will] you [please |][pick|choose|give me|tell me|say|think of|name|generate] [a|any|some] [random |]number[| from 1 to 10| from 1 to 100| between 1 and 6| between 1 and 10| between 1 and 100][|, please]?",
    "[pick|choose|Name|Write|Generate|Draw|Suggest|give me|say] [a|any|some] [random |]number[|.|!|, please| for me]",
    "[I need|I want|I would like] a [random |]number[| from 1 to 10| from 1 to 100| between 1 and 10][|.|, please]",
    "[random number|Random number please|any number|some number|Some number|a number|A number|A random number|number please|Number please|A number for me|A lucky number][|, please|.|!]",
    "Think of [any|some] number[|.|!|, please]",
    "A number [from|between] 1 [to|and] [6|10|100][|, please|.]",
    "[Let us|Let's] roll [a die|the dice|dice][|.|!]",
    "I have no dice, [roll|throw] one for me[|.|, please]",
    "What is my lucky number?",
    "[Which|What] number do you [choose|pick|take]?",
), ("I need a random number[|.]", "Any number "
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
