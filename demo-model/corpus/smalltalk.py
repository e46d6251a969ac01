"""Small talk: greetings, moods, thanks, reactions, languages other than English, and nonsense."""

from random import Random

from .core import SEEN, Phrasings, Question, Turn, one, say
from .foreign import foreign
from .fun import AGAIN, FUN
from .intents import Intent, draw, questions
from .moods import MOODS
from .reactions import REACTIONS

WEIGHT = 2.5

GREETINGS = (
    Intent(
        ("[hi|Hi|Hello|hello|Hey|hey][|!|.]", "[Hi|Hello|Hey] there[|!]",
         "[Hi|Hello|Hey], [assistant|RusTorch|computer|you|friend][|!]",
         "[yo|Yo|hiya|Hiya|howdy|Howdy|heya|ahoy][|!]", "Greetings[|!|.]", "[Hi|Hello], nice to meet you[|!]",
         "[hi hi|hello hello|hey hey|hii|heyy|helloo|Hi again|Hello again][|!]", "Hi, I am new here[|.|!]",
         "Hello, is [anyone|anybody|someone] there?", "Nice to meet you[|!]", "Hello, can we talk?",
         "[Hello|Hi], [my friend|model|chatbot|little model][|!]", "I just want to say [hi|hello][|.]"),
        ("Hi, it is me[|!]", "A [warm|big] hello to you[|!]", "Hello, bot[|!]", "Hey buddy[|!]",
         "Just saying hi[|!]"),
        ("Hello! How can I help you?", "Hello! What can I do for you?"),
        ("hello",), 4,
    ),
    Intent(
        ("[Good|good] morning[|!|.]", "[Morning|morning][|!]", "Good morning to you[|!]",
         "Good morning, [RusTorch|friend|everyone|assistant][|!]",
         "A good morning[|!]", "Hello and good morning[|!]"),
        ("Top of the morning to you!", "A very good morning, my friend[|!]"),
        ("Good morning! How can I help you today?",), ("good morning",),
    ),
    Intent(
        ("[Good|good] afternoon[|!|.]", "Good afternoon to you[|!]",
         "Good afternoon, [RusTorch|friend|everyone|assistant][|!]",
         "Hello and good afternoon[|!]"),
        ("A very good afternoon to you[|!]",),
        ("Good afternoon! How can I help you today?",), ("good afternoon",),
    ),
    Intent(
        ("[Good|good] evening[|!|.]", "Good evening to you[|!]",
         "Good evening, [RusTorch|friend|everyone|assistant][|!]",
         "Hello and good evening[|!]", "[Evening|evening][|!]"),
        ("A very good evening to you[|!]",),
        ("Good evening! How can I help you today?",), ("good evening",),
    ),
    Intent(
        ("[How are you|how are you|How r u|How are u][|?]",
         "How are you [today|doing|feeling|doing today|feeling today|this morning]?",
         "[Hi|Hello|Hey][|!|,] how are you[| doing| today]?", "How do you do?", "How is it going?",
         "How's it going?", "How are things[| going]?",
         "Are you [well|okay|ok|fine|all right|good]?", "How is your day[| going| so far]?",
         "How was your day?", "How do you feel[| today]?",
         "How have you been?", "And how are you?", "You ok?", "Hey, how's life?", "What's up?", "what's up",
         "[Hey|Hi|Hello], what's up?", "sup",
         "wassup", "How goes it?", "Is everything [okay|fine|well][| with you]?",
         "[Tell me|So,] how are you[|.|?]", "What is new?", "What's new?",
         "What are you doing[| now| right now]?", "What is going on?"),
        ("How are you getting on?", "I hope you are well[|.|!]", "How's everything?",
         "Are you having a good day?", "Feeling good today?",
         "How have things been with you?", "How is life treating you?"),
        ("I am well, thank you! How are you?",), ("well", "fine", "thank you"), 3,
    ),
    Intent(
        ("I am [fine|good|well|okay|great|very well|doing well], [thanks|thank you|thanks for asking][|.|!]",
         "[Fine|Good|Great|Well], [thanks|thank you][|.|!]",
         "I'm [fine|good|well|okay|great][|.]", "[Not bad|Pretty good|Very good|All good][|, thanks][|.]",
         "I am good, and you?",
         "I feel [good|fine|great][|.|!]", "Could not be better[|!]", "[Fine|fine|I am fine|im fine][|.]",
         "I'm doing [well|good|fine|great][|.]"),
        ("Can't complain[|.]", "I am doing just fine today[|.]", "Everything is good here[|.]"),
        ("I am glad to hear that! What can I do for you?",), ("glad",),
    ),
    Intent(
        ("[Bye|bye|Goodbye|goodbye|Bye bye|bye-bye|Good bye][|!|.]",
         "See you[| later| soon| tomorrow| again][|!|.]", "[Ciao|Cheerio|Farewell|Take care|later|cya][|!]",
         "I [have to|must|need to] [go|leave|go now|go home][|.|!]",
         "I am [leaving|going now|off|done for today][|.]", "Talk to you [later|soon|tomorrow][|.|!]",
         "That is all[| for today| for now][|.]",
         "Have a [good|nice|great|lovely] [day|evening|weekend|time][|!|.]",
         "Goodbye, [my friend|RusTorch|assistant][|!]",
         "I will come back [later|tomorrow|soon][|.]", "Thanks and [bye|goodbye][|!]", "Time to go[|.]",
         "Until [next time|tomorrow|later][|!]"),
        ("So long[|!]", "I'm off now, bye[|!]", "Catch you later[|!]", "It is time for me to leave[|.]",
         "I have got to run[|.]"),
        ("Goodbye! Have a nice day.", "Goodbye! Come back soon."), ("goodbye",), 2,
    ),
    Intent(
        ("[Good|good] night[|!|.]", "I am going to [bed|sleep][|.| now.]", "Sleep well[|!]",
         "Sweet dreams[|!]", "I will go to [bed|sleep] now[|.]",
         "Good night, [RusTorch|friend|assistant|sleep well][|!]", "Time for bed[|.]", "Night[| night][|!]",
         "It is [late|bedtime][|.]"),
        ("I am off to bed[|.]", "A good night to you[|!]"),
        ("Good night! Sleep well.",), ("good night", "sleep"),
    ),
    Intent(
        ("[Thanks|thanks|Thank you|thank you|thx|ty|Thank u][|!|.]",
         "[Thanks|Thank you] [very much|so much|a lot|a million|again][|!|.]", "Many thanks[|!|.]",
         "[Thanks|Thank you] for [your help|the help|that|the answer|helping me|everything|the story|the "
         "joke][|!|.]", "I thank you[|.]",
         "[OK|Nice|Perfect|Cool|Wonderful], [thanks|thank you][|!|.]",
         "That [was|is] [helpful|useful|very helpful|very useful][|.|!]",
         "You [helped|have helped] me[| a lot][|.|!]",
         "[Cheers|Much obliged|Thanks, friend|Thanks, RusTorch][|!]", "I am [grateful|thankful][|.]",
         "[That helps|That helped][| a lot][|, thanks][|.|!]", "Yes, [thanks|thank you][|.]"),
        ("I really appreciate it[|.|!]", "Thanks a bunch[|!]", "That was kind of you[|.|!]",
         "I owe you one[|!]", "Big thanks to you[|!]"),
        ("You are welcome!", "You are welcome! Is there anything else?"), ("welcome",), 2,
    ),
)

NUMBERS = Phrasings(("{n}", "{n}", "{n}", "{n}.", "{n}?", "{n}!", "The number {n}", "Number {n}",
"{n} is my number"),
                    ("Just {n}", "Here is a number: {n}"))
NUMBER_ANSWER = "{n} is a number. Would you like to add something to it?"

MARKS = Phrasings(
    ("?", "!", ".", "...", "??", "???", "!!!", "?!", "-", "--", ",", "*", ":", ";", "/", "#",
     "$", "%", "&", "+", "=", "()", ":-", "....", "<>", "@", "~", "' '", "!?", "_"),
    ("????", "!!", "..", "@#$%", "***", "---"))
EMOJI = Phrasings(
    (":)", ":-)", ";)", ":D", "😀", "🙂", "👍", "❤️", "😂", "😊", "🎉", "<3", "xD", "^^", "👋", "🦀", "🐱", "🔥"),
    ("😄", "=)", "❤", "😎"))
EMOJI_ANSWER = "That looks friendly! How can I help you?"
SAD_EMOJI = Phrasings((":(", ":-(", ";(", "😢", "😭", "😞", "☹️", ":'("), ("=(", "😔"))
SAD_ANSWER = "You look sad. I hope that things get better soon. Would you like to hear a joke or a story?"

UNCLEAR = ("I am not sure what you mean. Could you say it in other words?",)
KEYS = ("asdf", "qwer", "zxcv", "hjkl", "jkl", "wert", "sdfg", "yuio", "fgh", "bnm", "qwe", "rty", "uiop",
"lkj", "poi", "dfg")
SYLLABLES = ("bla", "gr", "ploo", "zib", "fnor", "wug", "dax", "mip", "blor", "snee", "kra", "tup", "vex",
"gub", "lor", "blub", "floo", "zonk")


def nonsense(rng: Random, split: str) -> str:
    """What means nothing: mashed keys, random letters, words that are none."""
    kind = rng.randrange(4) if split == SEEN else 4
    if kind == 0:
        text = "".join(rng.choice(KEYS) for _ in range(rng.randint(1, 4)))
    elif kind == 1:
        text = "".join(rng.choice("bcdfghjklmnpqrstvwxzaeiou") for _ in range(rng.randint(4, 12)))
    elif kind == 2:
        text = " ".join("".join(rng.sample(SYLLABLES, rng.randint(1, 2))) for _ in range(rng.randint(1, 4)))
    elif kind == 3:
        text = " ".join(rng.choice(KEYS) for _ in range(rng.randint(2, 4)))
    else:
        text = rng.choice(KEYS) + str(rng.randrange(100)) + rng.choice(SYLLABLES) + rng.choice(KEYS)
    return text + rng.choice(("", "", "", "!", "?", "."))


TABLES = ((GREETINGS, 4), (MOODS, 3), (REACTIONS, 4), (FUN, 5))


def small_turn(rng: Random, split: str) -> Turn:
    """One exchange of small talk that can stand anywhere."""
    table = rng.choices([t for t, _ in TABLES], [w for _, w in TABLES])[0]
    return draw(rng, table).turn(rng, split)


def turns(rng: Random, split: str) -> list[Turn]:
    """One exchange, or a greeting that leads to others."""
    kind = rng.random()
    if kind < 0.06:
        n = rng.choice((rng.randrange(10), rng.randrange(100), rng.randrange(10000)))
        return [Turn(NUMBERS.say(rng, split, n=n), say(rng, NUMBER_ANSWER, n=n), True)]
    if kind < 0.09:
        return [Turn(rng.choice(MARKS.seen if split == SEEN else MARKS.held_out), one(rng, UNCLEAR), True)]
    if kind < 0.11:
        return [Turn(EMOJI.say(rng, split), EMOJI_ANSWER, True)]
    if kind < 0.12:
        return [Turn(SAD_EMOJI.say(rng, split), SAD_ANSWER, True)]
    if kind < 0.17:
        return [Turn(nonsense(rng, split), one(rng, UNCLEAR))]
    if kind < 0.25:
        return [foreign(rng, split)]
    if kind < 0.32:
        how, fine = GREETINGS[4], GREETINGS[5]
        return [draw(rng, GREETINGS[:4]).turn(rng, split), how.turn(rng, split), fine.turn(rng,
        split)][rng.randrange(2):]
    if kind < 0.37:
        # Jokes, riddles, facts and poems: the same again.
        intent = draw(rng, FUN[:4])
        first, second = rng.sample(intent.answers, 2)
        return [Turn(intent.say(rng, split), first), Turn(AGAIN.say(rng, split), second)]
    return [small_turn(rng, split)]


def exam(rng: Random) -> list[Question]:
    """What is judged by a word of the answer."""
    tables = questions(rng, "smalltalk", [intent for table, _ in TABLES for intent in table])
    return tables + [foreign_question(rng) for _ in range(12)]


def foreign_question(rng: Random) -> Question:
    """A question in another language."""
    return Question("smalltalk", foreign(rng, "held_out").user, ("English",))
