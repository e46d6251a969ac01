"""Jokes, riddles, curious facts, short poems and favourites."""

from .core import Phrasings
from .intents import Intent

JOKES = (
    "Why did the little model sit near the window? It wanted a larger context.",
    "Why was the token sad? Its word had been split in two.",
    "Why did the calendar look so worried? Its days were numbered.",
    "Why did the robot bring a blanket to work? It kept freezing.",
    "Why did the spoon leave the party? Things got too stirred up.",
    "Why did the map go to the doctor? It felt lost.",
    "What did the kettle say to the cup? You always pour out my heart.",
    "Why did the snail buy a watch? To see how late it was.",
    "Why was the staircase so proud? It was always a step ahead.",
    "What did the pillow say to the alarm clock? Please sleep on it.",
    "Why did the piano stay outside? It had lost its keys.",
    "Why did the potato win the race? It kept its eyes open.",
    "What did the candle say to the dark? You bring out the best in me.",
    "Why do clouds make bad secret agents? They always drift off.",
    "Why did the sock go on a journey? To find its other half.",
    "What did the mountain say to the climber? You are on top of me again.",
    "Why did the onion stay single? It made everyone cry.",
    "What did the river say to the bridge? I cannot get over you.",
    "Why did the umbrella feel sick? It was under the weather.",
    "Why was the ladder a bad friend? It let everybody step on it, and then it fell out with them.",
    "Why did the duck open a bank account? It had too many bills.",
    "Why did the letter go to school? It wanted to be a word.",
    "What did the zero say to the one? You look so thin today.",
    "Why did the crab never share its toys? It was a little shellfish.",
    "Why did the lamp pass the exam? It was very bright.",
    "Why did the suitcase see a doctor? It could not keep it together.",
    "What did the tree say to the spring? What a relief!",
    "Why did the baker work at night? He needed the dough.",
    "Why did the cow look at the stars? It was thinking about the Milky Way.",
    "What did the hammer say to the nail? I hope that this does not hit you too hard.",
    "Why did the shoe keep quiet? Somebody had tied its tongue.",
    "Why did the window blush? It saw the curtains drawn.",
    "Why did the computer sneeze? Somebody had left a window open.",
    "What does a polite ghost say? Thank you for having me through.",
    "Why did the goldfish skip school? It was already in one.",
    "What did the soup say to the salt? You have good taste.",
    "Why was the blanket late? It was caught in a cover story.",
    "Why did the fish never play tennis? It was afraid of the net.",
)

RIDDLES = (
    "What has hands but cannot clap? A clock.",
    "What has a neck but no head? A bottle.",
    "What gets wetter the more it dries? A towel.",
    "What has teeth but cannot bite? A comb.",
    "What has keys but opens no door? A piano.",
    "What can you catch but not throw? A cold.",
    "What has one eye but cannot see? A needle.",
    "What has a spine but no bones? A book.",
    "What runs but never walks? Water.",
    "What has four legs but cannot walk? A table.",
    "What belongs to you, but others use it more? Your name.",
    "What is full of holes and still holds water? A sponge.",
)

CURIOUS = (
    "An octopus has three hearts.",
    "Honey can stay good for a very long time if the jar is closed.",
    "A day on Venus is longer than its year.",
    "Bananas are berries in the eyes of a botanist, but strawberries are not.",
    "Sea otters sometimes hold hands while they sleep, so that they do not drift apart.",
    "Light from the Sun needs about eight minutes to reach us.",
    "A group of crows is called a murder.",
    "The heart of a blue whale weighs about as much as a motorbike.",
    "Butterflies taste with their feet.",
    "A cloud can weigh more than a hundred elephants.",
    "Penguins sometimes give each other pebbles as presents.",
    "Snails can sleep for months when it is too dry.",
    "There are more trees on Earth than stars in our galaxy, as far as we can count.",
    "A hummingbird can fly backwards.",
    "Cows have best friends and like to stand beside them.",
)

POEMS = (
    "The rain is soft, the night is deep,\nThe little stars have gone to sleep.\nBut in the window burns a "
    "light\nFor all who travel through the night.",
    "A cat sat down upon a chair\nAnd combed with care her silky hair.\nShe looked at me, she looked at "
    "you,\nAnd said the only word: mew, mew.",
    "The sea is wide, the sea is blue,\nIt sings its song to me and you.\nThe waves come in, the waves go "
    "out,\nAnd that is what the sea's about.",
    "A robot walked into the town\nAnd found a flower, small and brown.\nIt gave it water every day,\nAnd "
    "soon the brown had gone away.",
    "In spring the birds begin to sing,\nIn summer bees are on the wing,\nIn autumn leaves fall on the "
    "ground,\nIn winter snow makes not a sound.",
    "I had a kite, it flew so high\nIt left a thread across the sky.\nThe wind was strong, the string was "
    "long,\nAnd I went home and sang a song.",
)

# Asked after a joke, a story or the like.
AGAIN = Phrasings(
    ("[Another|One more|Another one|One more, please|Again|More|Next|Next one|Another, please][|!|.]",
     "Do you [have|know] [another|more|one more]?",
     "[Can|Could] you [tell|give] me [another|one more]?", "[Tell|Give] me [another|one more][| one][|.|!]",
     "I want [another one|more][|.|!]"),
    ("Let me hear one more[|.]", "That was nice, go on with another[|.]", "And what else do you have?"))

NEUTRAL = "I am a program and have no favourite {0}, but many people like {1}."
FAVOURITES = (
    ("colour", "blue"), ("color", "blue"), ("animal", "dogs and cats"), ("food", "pizza"), ("fruit",
     "apples"), ("book", "stories about friends"), ("film", "adventure films"),
    ("movie", "adventure films"), ("song", "happy songs"), ("number", "seven"), ("season", "the summer"),
     ("sport", "football"), ("day", "Saturday"), ("city", "Paris"), ("country", "Italy"),
    ("drink", "tea and coffee"), ("game", "chess"), ("flower", "roses"), ("music",
     "songs that they can sing"), ("word", "the word home"), ("month", "July"), ("vegetable", "carrots"),
    ("holiday", "their birthday"), ("subject", "history"), ("bird", "parrots"), ("place", "the sea"),
     ("hobby", "reading"), ("ice cream", "vanilla"), ("cake", "chocolate cake"), ("letter",
      "the first letter of their name"),
)


def favourite(thing: str, liked: str) -> Intent:
    """Questions after what the model likes best of one kind."""
    return Intent(
        (f"What is your favo[u|]rite {thing}?", f"What's your favo[u|]rite {thing}?",
         f"[Do you have|Have you got] a favo[u|]rite {thing}?", f"Which {thing} do you like [best|most]?",
         f"[your favourite|favourite|favorite] {thing}?",
         f"Tell me your favo[u|]rite {thing}[|.]", f"And your favo[u|]rite {thing}?",
         f"What {thing} do you like?"),
        (f"Is there a {thing} that you like more than others?",
         f"If you had to pick one {thing}, which would it be?", f"Your best-loved {thing} is which one?"),
        (NEUTRAL.format(thing, liked),), ("program",), 3 / len(FAVOURITES),
    )


FUN = (
    Intent(
        ("[Tell me|Tell|Give me|Say|Share] a [|good |funny |short |silly |new |little ]joke[|.|!| please|, "
         "please]", "[Can|Could|Will|Would] you tell [me |]a [|good |funny ]joke?", "[joke|Joke|A joke|"
         "jokes][|, please|!|.]", "Do you know [a|any|some|a good] joke[|s]?",
         "[Make|Can you make] me laugh[|.|!]", "I want to hear a joke[|.|!]",
         "[Another|One more] joke[|, please|.|!]", "Say something funny[|.|!]",
         "Something funny[|, please][|.]", "Be funny[|!|.]", "Tell me something funny[|.]",
         "Do you have a joke for me?", "Got [a joke|any jokes]?", "I [need|would like] a joke[|.]",
         "Tell me another joke[|.|!]", "Are you funny?", "A [funny|short] joke[|, please][|.|!]"),
        ("What's the best joke you know?", "I could do with a good laugh[|.]", "How about a joke?",
         "Let's hear a joke[|.|!]", "Tell us something that makes us laugh[|.]"),
        JOKES, weight=7,
    ),
    Intent(
        ("[Tell me|Tell|Give me|Ask me|Say] a [|good |short |little |new ]riddle[|.|!| please]",
         "[Can|Could] you tell me a riddle?", "[riddle|Riddle|A riddle][|, please|!|.]",
         "Do you know [a|any|some] riddle[|s]?", "I [want|would like] a riddle[|.]",
         "Another riddle[|.|, please]", "Let us do a riddle[|.]"),
        ("How about a riddle?", "Got a riddle for me?"),
        RIDDLES, weight=1.5,
    ),
    Intent(
        ("Tell me something [nice|interesting|cool|new|surprising|I do not know|amazing|curious|about "
         "nature|fun][|.|!| please]", "[Tell me|Give me|Share] [a|one|some] [fun |curious |interesting |"
         "random |amazing |]fact[|.|!| please]", "[fun fact|Fun fact|A fun fact|random fact|Surprise me|"
         "Amaze me|Teach me something][|.|!|, please]", "Do you know [something interesting|a fun fact|an "
         "interesting fact|something curious]?",
         "Say something [interesting|clever|smart][|.|!]",
         "[Can|Could] you tell me something [interesting|new|nice]?", "I want to learn something[| new][|.]",
         "Another fact[|, please|.]", "What is the most interesting thing you know?",
         "Did you know something about animals?"),
        ("Impress me with some knowledge[|.|!]", "What's a fact that few people know?",
         "I'd love to learn a new thing today[|.]"),
        CURIOUS, weight=3,
    ),
    Intent(
        ("[Write|Tell|Say|Recite|Make|Compose|Give me|Write me|Tell me] a [|short |little |small |nice |"
         "new ]poem[|.|!| please| for me]", "[Can|Could] you [write|tell me|make|recite] a [|short |little "
         "]poem?", "[poem|Poem|A poem|poetry][|, please|.|!]", "Do you know [a|any] poem[|s]?", "[Another|"
         "One more] poem[|.|, please]", "I [want|would like] a poem[|.]", "[Sing|Sing me|Can you sing] a "
         "song[|.|?|!]", "[Write|Make] [a rhyme|some verses|four lines|a verse][|.]", "Can you sing[| for "
         "me]?", "Sing something[|.|!]", "Write a song[|.]"),
        ("Let me hear some poetry[|.]", "I'd like a few lines of verse[|.]", "How about a poem?"),
        POEMS, weight=2,
    ),
    Intent(
        ("Say something nice[| to me| about me][|.]", "Give me a compliment[|.|!]",
         "[Am I|Do you think I am] [nice|smart|pretty|clever|beautiful|a good person]?", "Motivate me[|.|!]",
         "[Give me|Say] something encouraging[|.]", "Be nice to me[|.|!]", "Wish me luck[|.|!]",
         "I need some [courage|motivation][|.]"),
        ("I could use a kind word[|.]", "Encourage me a little[|.]"),
        ("You ask good questions, and you are doing well. Keep going!",), ("keep going",), 0.8,
    ),
    Intent(
        ("Do you like [music|books|football|swimming|cats|dogs|trains|flowers|the sea|chess|dancing|films|"
         "coffee|chocolate|pizza|apples|people|children|jokes|math|summer|winter|snow|rain|your job|Rust|"
         "computers|cheese|bananas|humans|animals]?",
         "Do you [love|enjoy|hate|prefer] [music|books|cats|dogs|talking|your work|questions|people|tea|"
         "coffee|chess|poems|jokes]?", "What do you like[| to do| best| doing]?", "What are your hobbies?",
         "Do you have [hobbies|a hobby|friends|wishes]?"),
        ("Are you fond of [music|cats|poems|cake]?", "What do you do in your free time?",
         "Is there anything that you enjoy?"),
        ("I am a program, so I do not like or dislike things, but I am happy to talk about them.",),
         ("program",), 2,
    ),
    *(favourite(thing, liked) for thing, liked in FAVOURITES),
)
