"""Who and what stories are about."""

BEINGS = """
dragon robot cat dog fox bear mouse rabbit wolf lion tiger frog owl pony horse unicorn giant dwarf witch
wizard pirate princess prince king queen knight farmer baker sailor fisherman gardener teacher doctor
painter clown ghost monster mermaid fairy troll elephant giraffe monkey penguin whale dolphin turtle
duckling duck goose hen sheep goat cow pig donkey squirrel hedgehog badger beaver otter raccoon kangaroo
camel parrot crow raven swan sparrow spider beetle butterfly bee snail worm crab fish shark seal crocodile
snake lizard dinosaur astronaut inventor detective shepherd postman cook tailor musician singer scarecrow
snowman puppet teddy_bear goblin kitten puppy hamster mole bat deer moose panda koala tree cloud star lamp
teapot kite boat train car bicycle clock book pencil shoe stone leaf flower raindrop snowflake bridge
lighthouse balloon umbrella mirror candle spoon sock button violin drum
""".split()

MAN = ("boy", "wizard", "prince", "king", "pirate", "fisherman", "postman", "shepherd")
WOMAN = ("girl", "witch", "princess", "queen", "mermaid", "fairy", "hen", "cow")

TRAITS = ("brave", "curious", "shy", "clever", "kind", "gentle", "cheerful", "quiet", "stubborn", "patient",
"proud", "careful", "lively",
          "dreamy", "friendly", "funny", "honest", "polite", "bold", "merry")
ADJECTIVES = ("small", "little", "young", "old", "tiny", "brave", "shy", "clever", "kind", "lonely",
"cheerful", "curious", "quiet", "funny",
              "friendly", "sleepy", "lively", "gentle", "grey", "green", "blue", "round", "very small",
              "rather old", "")
OF_CHILDREN = ("small", "little", "young", "tiny", "brave", "shy", "clever", "kind", "lonely", "cheerful",
               "curious", "quiet", "funny", "friendly", "sleepy", "lively", "gentle", "bold", "")
PLACES = (
    "in a small village by the sea", "in a quiet valley", "in a wide green forest",
    "in a town with crooked houses", "in a house with a red door", "in an old mill",
    "near a little harbour", "in the mountains of the north",
    "in a garden full of roses", "in a busy city", "on a farm with a blue gate", "on an island in a lake",
    "in a castle on a hill", "in a street with tall trees", "in a land of snow and ice",
    "at the edge of a great desert", "in a village where it always rained",
    "in a wooden hut in the hills",
    "in a town on the river", "near a meadow full of poppies", "in a cave behind a waterfall",
    "near a lighthouse on the cliffs", "in a big old library", "in the last house of the village",
    "beside a sleepy railway station", "in an orchard of plum trees", "on a windy coast", "in a market town",
    "in a village of clockmakers", "in a park with a pond", "under the roof of a school",
    "behind the old bakery",
    "at the end of a long road", "at the foot of a blue mountain", "in a tower without stairs",
)
TIMES = ("One morning", "One evening", "One day", "One fine day", "One spring morning", "On a hot summer day",
"On a windy autumn day",
         "One cold winter night", "One Sunday", "One rainy afternoon", "On the first day of May",
         "Late one evening", "Early one Monday",
         "On a grey November day", "One night in June", "A few days later", "On the last day of summer",
         "One foggy morning")
LATER = ("one day", "after a month", "in the third week", "one morning", "when spring came",
"after a long time")
THINGS = ("silver bell", "blue button", "golden ring", "wooden flute", "red scarf", "small key", "music box",
"glass marble", "tin whistle",
          "pocket watch", "green hat", "round mirror", "leather bag", "paper kite", "white feather",
          "brass lantern", "silk ribbon", "lucky coin",
          "picture book", "striped sock", "toy boat", "pearl necklace", "copper cup", "wool blanket",
          "purple umbrella", "snow globe")
FOODS = ("honey cakes", "apple pies", "warm rolls", "pancakes", "plum dumplings", "cherry tarts",
"ginger biscuits", "nut cookies", "cheese sandwiches",
         "berry muffins", "cinnamon buns", "carrot cakes")
LOVES = ("the sea", "the stars", "music", "books", "the rain", "flowers", "the moon", "apples", "trains",
"the snow", "mountains", "dancing", "singing",
         "honey", "cheese", "old maps", "the wind", "painting", "football", "swimming", "the forest", "cakes",
         "riddles", "boats", "balloons", "chess",
         "birds", "pancakes", "drums", "clouds", "kites", "puzzles", "numbers", "strawberries", "lanterns",
         "stories")
THEMES = ("friendship", "courage", "honesty", "kindness", "patience", "hope", "love", "sharing", "peace",
"trust", "luck", "home", "adventure", "winter",
          "summer", "a journey", "a treasure", "magic", "family", "happiness")
