"""Forms of words: plurals and past tenses; and what shapes, jobs, tools and senses are for."""

from .core import Phrasings
from .relations import Relation, table

PLURALS = table("one many", """
child | children; mouse | mice; man | men; woman | women; foot | feet; tooth | teeth; goose | geese
sheep | sheep; fish | fish; ox | oxen; person | people; leaf | leaves; knife | knives; wife | wives
wolf | wolves; life | lives; half | halves; loaf | loaves; thief | thieves; shelf | shelves; baby | babies
city | cities; lady | ladies; fly | flies; story | stories; party | parties; country | countries
family | families; box | boxes; bus | buses; church | churches; dish | dishes; glass | glasses; fox | foxes
watch | watches; brush | brushes; potato | potatoes; tomato | tomatoes; hero | heroes; cat | cats
dog | dogs; house | houses; tree | trees; car | cars; boy | boys; girl | girls; day | days; key | keys
toy | toys; book | books; apple | apples; egg | eggs; bird | birds; cow | cows; horse | horses
friend | friends; flower | flowers; word | words; piano | pianos; photo | photos; deer | deer
cactus | cacti / cactuses; monkey | monkeys; cherry | cherries; calf | calves; scarf | scarves; louse | lice
""")  # fmt: skip
OF_PLURALS = Relation(
    Phrasings(
        seen=["What is the plural of {one}?", "What is the plural of {one}?", "What's the plural of {one}?",
              "Plural of {one}[|?|:]", "The plural of {one}[|?| is ...]",
              'What is the plural of the word "{one}"?',
              "Give me the plural of {one}.", "Tell me the plural of {one}.",
              "One {one}, two ...?", "One {one}, two what?",
              "One {one}, many ...?", "How do you say {one} in the plural?",
              "What do you call more than one {one}?", "Do you know the plural of {one}?",
              "{one}, plural?", "Make {one} plural.", "What's the plural form of {one}?",
              "I need the plural of {one}."],
        held_out=["If there is more than one {one}, what do I say?", "Put {one} into the plural.",
                  "I have one {one}, you have three ...?",
                  "Which word is the plural of {one}?"],
    ),
    "The plural of {one} is {many}.", PLURALS, "many", ["And of {one}?", "And {one}?", "What about {one}?",
    "{one}?"],
)  # fmt: skip
PASTS = table("now then", """
go | went; come | came; see | saw; eat | ate; drink | drank; run | ran; sing | sang; swim | swam
give | gave; take | took; make | made; have | had; do | did; say | said; get | got; find | found
think | thought; buy | bought; bring | brought; catch | caught; teach | taught; write | wrote; ride | rode
drive | drove; speak | spoke; break | broke; wear | wore; sleep | slept; keep | kept; feel | felt
leave | left; meet | met; read | read; know | knew; grow | grew; fly | flew; draw | drew; throw | threw
blow | blew; sit | sat; stand | stood; win | won; lose | lost; sell | sold; tell | told; hear | heard
build | built; send | sent; spend | spent; cut | cut; put | put; begin | began; forget | forgot
choose | chose; fall | fell; hide | hid; bite | bit; walk | walked; play | played; jump | jumped
talk | talked; look | looked; work | worked; love | loved; dance | danced; stop | stopped; cry | cried
""")  # fmt: skip
OF_PASTS = Relation(
    Phrasings(
        seen=["What is the past tense of {now}?", "What's the past tense of {now}?",
              "Past tense of {now}[|?]", "What is the past of {now}?", "The past tense of {now}[|?| is ...]",
              "Give me the past tense of {now}.", "Tell me the past tense of {now}.",
              "Today I {now}, yesterday I ...?", "Today I {now}, yesterday I what?",
              "How do you say {now} in the past?", "What is the past form of {now}?", "{now}, past tense?",
              "Do you know the past tense of {now}?"],
        held_out=["Put {now} into the past tense.", "I {now} now. Yesterday I ...?",
                  "Which form does {now} take in the past?"],
    ),
    "The past tense of {now} is {then}.", PASTS, "then", ["And of {now}?", "And {now}?", "What about {now}?"],
)  # fmt: skip
SHAPES = table("a n", """
a triangle | 3; a square | 4; a rectangle | 4; a rhombus | 4; a pentagon | 5; a hexagon | 6; a heptagon | 7
an octagon | 8; a nonagon | 9; a decagon | 10; a circle | no
""")  # fmt: skip
OF_SHAPES = Relation(
    Phrasings(
        seen=["How many {part} does {a} have?", "How many {part} has {a}?", "How many {part} has {a} got?",
              "{a} has how many {part}?", "Number of {part} of {a}?",
              "Tell me how many {part} {a} has.", "{part} of {a}?", "What is the number of {part} of {a}?",
              "How many {part} are there in {a}?", "{a}: how many {part}?"],
        held_out=["If I draw {a}, how many {part} are there?", "With how many {part} is {a} drawn?",
                  "Count the {part} of {a}."],
    ),
    "{a} has {n} {part}.", [f | {"part": part} for f in SHAPES for part in ("sides",
    "corners")], "n", ["And {a}?", "What about {a}?"],
)  # fmt: skip
JOBS = table("who does", """
a baker | bakes bread; a teacher | teaches children; a doctor | helps sick people; a farmer | grows food
a pilot | flies planes; a cook | cooks food; a butcher | sells meat; a tailor | makes clothes
a barber | cuts hair; a dentist | looks after teeth; a firefighter | puts out fires
a painter | paints pictures; a singer | sings songs; a writer | writes books; a fisherman | catches fish
a gardener | works in gardens; a nurse | cares for sick people; a carpenter | makes things of wood
a mechanic | repairs cars; a postman | brings letters; a vet | helps sick animals
a shepherd | looks after sheep; a judge | works in a court; a librarian | looks after books
a plumber | repairs pipes; a sailor | works on a ship; a dancer | dances; a miner | works in a mine
a waiter | serves food; an actor | plays in films and plays; an astronaut | travels into space
an architect | plans houses; a photographer | takes photos
""")  # fmt: skip
OF_JOBS = Relation(
    Phrasings(
        seen=["What does {who} do?", "What does {who} do?", "What is the job of {who}?",
              "What is the work of {who}?", "What does {who} do all day?", "Job of {who}?",
              "Tell me what {who} does.", "Do you know what {who} does?", "What work does {who} do?",
              "What does {who} do at work?", "{who} does what?", "Who is {who}?"],
        held_out=["How does {who} earn money?", "Explain the job of {who}.",
                  "I want to be {who}. What would I do?"],
    ),
    "{who} {does}.", JOBS, "does", ["And {who}?", "What about {who}?"],
)  # fmt: skip
OF_WORKERS = Relation(
    Phrasings(
        seen=["Who {does}?", "Who {does}?", "Which person {does}?", "What do you call someone who {does}?",
              "What do you call a person who {does}?", "A person who {does} is[| ...|?| what?]",
              "What is a person who {does} called?", "Somebody who {does} is called what?"],
        held_out=["Which job has a person who {does}?", "What's the name for someone who {does}?"],
    ),
    "{who} {does}.", [fact | {"bare": fact["who"].split(" ", 1)[1]} for fact in JOBS], "bare",
)  # fmt: skip
USES = table("to with", """
cut paper | scissors; write | a pen; hit a nail | a hammer; eat soup | a spoon; cut bread | a knife
tell the time | a clock; open a lock | a key; sweep the floor | a broom; brush your teeth | a toothbrush
dig a hole | a spade; draw | a pencil; sew | a needle; see far away | a telescope
see tiny things | a microscope; cross a river | a bridge; fly | a plane; stay dry in the rain | an umbrella
comb your hair | a comb; dry your hands | a towel; wash your hands | soap; light a dark room | a lamp
take photos | a camera; call a friend | a phone; measure temperature | a thermometer; cut wood | a saw
climb a roof | a ladder; boil water | a kettle; find north | a compass; measure a line | a ruler
keep food cold | a fridge; bake a cake | an oven; see | eyes; hear | ears; smell | a nose; taste | a tongue
walk | legs; think | a brain; touch | hands; bite | teeth; breathe | lungs; pump blood | a heart
""")  # fmt: skip
OF_USES = Relation(
    Phrasings(
        seen=["What do you use to {to}?", "What do you need to {to}?", "What do I need to {to}?",
              "What do I use to {to}?", "What do we use to {to}?", "With what do you {to}?",
              "What do people use to {to}?", "Which thing do I need to {to}?",
              "To {to}, I need[| ...|?| what?]", "I want to {to}. What do I need?", "What do we {to} with?",
              "Tell me what I need to {to}.", "What is used to {to}?"],
        held_out=["What helps you to {to}?", "If I want to {to}, what should I take?",
                  "What would one need in order to {to}?", "Which thing is made to {to}?"],
    ),
    "To {to}, you need {with}.", USES, "with", ["And to {to}?", "And what to {to}?"],
)  # fmt: skip
LANGUAGE = {OF_PLURALS: 4, OF_PASTS: 3, OF_SHAPES: 2, OF_JOBS: 2, OF_WORKERS: 2, OF_USES: 3}
