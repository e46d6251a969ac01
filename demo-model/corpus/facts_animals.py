"""What a child's book says of animals."""

from .core import Phrasings
from .relations import Relation, table

AND = ["And {a}?", "What about {a}?", "How about {a}?", "{a}?"]

LEGS = table("a n", """
a dog | 4; a cat | 4; a horse | 4; a cow | 4; a pig | 4; a sheep | 4; a goat | 4; a lion | 4; a tiger | 4
a bear | 4; an elephant | 4; a mouse | 4; a rabbit | 4; a fox | 4; a wolf | 4; a frog | 4; a giraffe | 4
a zebra | 4; a camel | 4; a donkey | 4; a turtle | 4; a crocodile | 4; a lizard | 4; a hippo | 4
a monkey | 4; a squirrel | 4; a hedgehog | 4; a deer | 4; a bird | 2; a chicken | 2; a hen | 2; a duck | 2
an owl | 2; a penguin | 2; a parrot | 2; an ostrich | 2; a goose | 2; a human | 2; a spider | 8
a scorpion | 8; a tick | 8; an ant | 6; a bee | 6; a fly | 6; a beetle | 6; a butterfly | 6; a wasp | 6
a ladybird | 6; a mosquito | 6; an insect | 6; a grasshopper | 6; a crab | 10; a snake | no; a fish | no
a worm | no; a whale | no; a dolphin | no; a shark | no; a snail | no; a kangaroo | 4; a table | 4
a chair | 4
""")  # fmt: skip
OF_LEGS = Relation(
    Phrasings(
        seen=["How many legs does {a} have?", "How many legs does {a} have?", "How many legs has {a} got?",
              "How many legs has {a}?",
              "{a} has how many legs?", "Number of legs of {a}?", "Legs of {a}?",
              "Tell me how many legs {a} has.", "{a}: how many legs?",
              "Do you know how many legs {a} has?", "Can you tell me how many legs {a} has?",
              "What number of legs does {a} have?",
              "How many legs are there on {a}?"],
        held_out=["On how many legs does {a} walk?", "If I see {a}, how many legs can I count?",
                  "Count the legs of {a}.",
                  "I want to draw {a}. How many legs do I need?"],
    ),
    "{a} has {n} legs.", LEGS, "n", AND,
)  # fmt: skip
SOUNDS = table("a sound say", """
a dog | barks | woof; a cat | meows | meow; a cow | moos | moo; a sheep | bleats | baa; a pig | oinks | oink
a duck | quacks | quack; a horse | neighs | neigh; a donkey | brays | hee-haw; a hen | clucks | cluck
a rooster | crows | cock-a-doodle-doo; a lion | roars | roar; a tiger | roars | roar; a bear | growls | grr
a wolf | howls | awoo; a snake | hisses | hiss; a bee | buzzes | buzz; a fly | buzzes | bzz
a frog | croaks | ribbit; an owl | hoots | hoo; a mouse | squeaks | squeak; a goat | bleats | meh
a crow | caws | caw; a bird | chirps | tweet; a pigeon | coos | coo; a turkey | gobbles | gobble
an elephant | trumpets | toot; a goose | honks | honk; a chick | peeps | peep; a mosquito | buzzes | bzz
a parrot | talks | hello
""")  # fmt: skip
OF_SOUNDS = Relation(
    Phrasings(
        seen=["What sound does {a} make?", "What noise does {a} make?", "Which sound does {a} make?",
              "What does {a} say?", "How does {a} sound?",
              "How does {a} go?", "Sound of {a}?", "What is the sound of {a}?",
              "Tell me the sound {a} makes.", "What sound do you hear from {a}?",
              "Make the sound of {a}.", "What does {a} do when it is loud?",
              "Do you know what sound {a} makes?"],
        held_out=["If {a} wants to be heard, what sound comes out?", "Which noise comes from {a}?",
                  "What would {a} say?",
                  "Can you sound like {a}?"],
    ),
    "{a} {sound}: {say}!", [f | {"want": f"{f['sound']} / {f['say']}"} for f in SOUNDS], "want", AND,
)  # fmt: skip
YOUNG = table("a young", """
a cat | kitten; a dog | puppy; a cow | calf; a horse | foal; a sheep | lamb; a pig | piglet; a goat | kid
a hen | chick; a duck | duckling; a bear | cub; a lion | cub; a tiger | cub; a fox | cub / kit
a deer | fawn; a frog | tadpole; a goose | gosling; a swan | cygnet; a kangaroo | joey; an elephant | calf
a whale | calf; an owl | owlet; a butterfly | caterpillar; a wolf | cub / pup; a seal | pup; a bird | chick
a rabbit | kitten / bunny; a giraffe | calf; a human | baby; an eagle | eaglet; a chicken | chick
""")  # fmt: skip
OF_YOUNG = Relation(
    Phrasings(
        seen=["What is the young of {a} called?", "What is a baby of {a} called?",
              "What do you call the young of {a}?", "What do you call the baby of {a}?",
              "What is the baby of {a}?", "How is the young of {a} called?", "Young of {a}?", "Baby of {a}?",
              "The child of {a} is called[| ...|?| what?]",
              "Name the young of {a}.", "What is the word for the young of {a}?",
              "Tell me what the baby of {a} is called.",
              "What is the name for the baby of {a}?"],
        held_out=["If {a} has a baby, what do we call it?", "Which word do we use for the little one of {a}?",
                  "{a} has young ones. What are they named?"],
    ),
    "The young of {a} is called {an} {young}.",
    [f | {"an": "an" if f["young"].startswith(("ow", "ea")) else "a"} for f in YOUNG],
    "young", AND,
)  # fmt: skip
KINDS = [
    {"a": name.strip(), "kind": kind}
    for kind, names in {
        "a mammal": "a dog,a cat,a horse,a cow,a whale,a dolphin,a bat,a human,a mouse,an elephant,"
        "a lion,a seal,a monkey,a bear,a kangaroo,a camel",
        "a bird": "a parrot,a penguin,an ostrich,an eagle,a duck,a hen,an owl,a crow,a swan,"
        "a pigeon,a sparrow,a flamingo,a peacock,a robin,a stork",
        "a fish": "a shark,a salmon,a tuna,a trout,a goldfish,a herring,a cod,a carp,an eel,a piranha",
        "an insect": "an ant,a bee,a butterfly,a beetle,a fly,a mosquito,a wasp,a grasshopper,"
        "a ladybird,a moth,a cricket",
        "a reptile": "a snake,a crocodile,a lizard,a turtle,an alligator,a gecko,a chameleon",
        "an amphibian": "a frog,a toad,a newt,a salamander",
        "a fruit": "an apple,a banana,a pear,a cherry,a grape,an orange,a plum,a peach,a mango,a kiwi",
        "a vegetable": "a carrot,an onion,a cabbage,a turnip,a leek,a radish",
        "a flower": "a rose,a tulip,a daisy,a sunflower,a lily,a daffodil",
        "a tree": "an oak,a birch,a willow,a fir,a pine,a maple",
        "a musical instrument": "a piano,a guitar,a violin,a flute,a trumpet,a drum,a harp,a cello",
        "a tool": "a hammer,a saw,a screwdriver,a spade,an axe",
        "a vehicle": "a car,a bus,a lorry,a bicycle,a motorbike",
        "a piece of furniture": "a chair,a table,a bed,a sofa,a wardrobe",
    }.items()
    for name in names.split(",")
]
OF_KINDS = Relation(
    Phrasings(
        seen=["What is {a}?", "What is {a}?", "What's {a}?", "What kind of thing is {a}?", "{a} is what?",
              "Tell me what {a} is.", "Do you know what {a} is?",
              "Can you tell me what {a} is?", "What do you know about {a}?", "Explain what {a} is.",
              "What sort of thing is {a}?", "{a} is a kind of what?",
              "Tell me about {a}.", "I don't know what {a} is."],
        held_out=["What exactly is {a}?", "To which group does {a} belong?", "How would you classify {a}?",
                  "If someone says {a}, what is meant?"],
    ),
    "{a} is {kind}.", KINDS, "kind", AND,
)  # fmt: skip
FOODS = table("who food", """
cows | grass; horses | grass and hay; sheep | grass; pandas | bamboo; rabbits | grass and carrots
monkeys | fruit; cats | mice and fish; lions | meat; tigers | meat; wolves | meat; squirrels | nuts
bees | nectar; frogs | insects; spiders | insects; caterpillars | leaves; giraffes | leaves; koalas | leaves
sharks | fish; penguins | fish; seals | fish; owls | mice; mosquitoes | blood; dogs | meat and bones
mice | seeds and cheese; hens | grain; eagles | small animals; goats | grass; camels | grass and leaves
anteaters | ants; bats | insects and fruit
""")  # fmt: skip
OF_FOODS = Relation(
    Phrasings(
        seen=["What do {who} eat?", "What do {who} eat?", "What food do {who} eat?",
              "What is the food of {who}?", "Food of {who}?", "What do {who} like to eat?",
              "What do {who} live on?", "{who} eat what?", "Tell me what {who} eat.",
              "What should I feed {who}?", "Do you know what {who} eat?",
              "{who} eat[| ...|?]"],
        held_out=["What is on the menu of {who}?", "On what do {who} feed?",
                  "If {who} are hungry, what do they look for?", "Which food do {who} need?"],
    ),
    "{who} eat {food}.", FOODS, "food", ["And {who}?", "What about {who}?", "How about {who}?"],
)  # fmt: skip
HOMES = table("who home", """
bees | in a hive; birds | in a nest; fish | in water; a spider | in a web; dogs | in a kennel
horses | in a stable; cows | in a barn; pigs | in a sty; rabbits | in a burrow; bears | in a cave
lions | in Africa; kangaroos | in Australia; penguins | in Antarctica; polar bears | in the Arctic
camels | in the desert; whales | in the ocean; ants | in an anthill; owls | in trees
moles | under the ground; pandas | in China; koalas | in Australia; hens | in a henhouse
squirrels | in trees; sharks | in the sea; tigers | in Asia
""")  # fmt: skip
OF_HOMES = Relation(
    Phrasings(
        seen=["Where {do} {who} live?", "Where {do} {who} live?", "Where is the home of {who}?",
              "Where can I find {who}?", "Where {do} {who} sleep?",
              "Tell me where {who} {live}.", "The home of {who} is[| ...|?| where?]",
              "Do you know where {who} {live}?", "Home of {who}?",
              "In what place {do} {who} live?"],
        held_out=["Where must I go to see {who} at home?", "Where {do} {who} have their home?",
                  "In which place would I meet {who}?"],
    ),
    "{who} {live} {home}.",
    [
        f | ({"do": "does", "live": "lives"} if f["who"].startswith("a ") else {"do": "do", "live": "live"})
        for f in HOMES
    ],
    "home", ["And {who}?", "What about {who}?"],
)  # fmt: skip
SOURCES = table("what from", """
milk | cows; wool | sheep; honey | bees; eggs | hens; silk | silkworms; bacon | pigs; wine | grapes
bread | flour; flour | wheat; cheese | milk; butter | milk; chocolate | cocoa beans; paper | wood
glass | sand; raisins | grapes; chips | potatoes; rain | clouds; wood | trees; apples | apple trees
light | the sun; leather | animal skin; ketchup | tomatoes; yoghurt | milk; cotton | a plant; tea | leaves
coffee | beans; ice | water; feathers | birds; acorns | oak trees; juice | fruit; steel | iron
popcorn | corn
""")  # fmt: skip
OF_SOURCES = Relation(
    Phrasings(
        seen=["Where does {what} come from?", "What does {what} come from?", "What is {what} made from?",
              "What is {what} made of?", "Where do we get {what} from?",
              "What gives us {what}?", "Who gives us {what}?", "{what} comes from[| ...|?| what?| where?]",
              "Tell me where {what} comes from.",
              "Do you know where {what} comes from?", "How do we get {what}?", "From what is {what} made?"],
        held_out=["What do we need to get {what}?", "{what}: where is it from?",
                  "What is the source of {what}?"],
    ),
    "{what} {come} from {from}.",
    [f | {"come": "come" if f["what"].endswith("s") and f["what"] != "glass" else "comes"} for f in SOURCES],
    "from", ["And {what}?", "What about {what}?"],
)  # fmt: skip
ANIMALS = {OF_LEGS: 4, OF_SOUNDS: 3, OF_YOUNG: 3, OF_KINDS: 5, OF_FOODS: 3, OF_HOMES: 2, OF_SOURCES: 3}
