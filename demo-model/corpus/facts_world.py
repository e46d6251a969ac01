"""The world and the sky: languages, currencies, planets, the largest and the highest, simple science."""

from .core import Phrasings
from .numbers import ordinal
from .relations import Relation, listed, table

LANGUAGES = table("country language", """
France | French; Germany | German; Austria | German; Spain | Spanish; Mexico | Spanish; Argentina | Spanish
Peru | Spanish; Chile | Spanish; Cuba | Spanish; Colombia | Spanish; Portugal | Portuguese
Brazil | Portuguese; Angola | Portuguese; Italy | Italian; the Netherlands | Dutch; Sweden | Swedish
Norway | Norwegian; Denmark | Danish; Finland | Finnish; Iceland | Icelandic; Poland | Polish
the Czech Republic | Czech; Hungary | Hungarian; Romania | Romanian; Bulgaria | Bulgarian; Greece | Greek
Turkey | Turkish; Russia | Russian; Ukraine | Ukrainian; China | Chinese; Japan | Japanese
South Korea | Korean; North Korea | Korean; Vietnam | Vietnamese; Thailand | Thai; Egypt | Arabic
Saudi Arabia | Arabic; Iraq | Arabic; Morocco | Arabic; Iran | Persian; Israel | Hebrew
the United Kingdom | English; England | English; the United States | English; Australia | English
New Zealand | English; Jamaica | English; Croatia | Croatian; Slovenia | Slovene / Slovenian
Albania | Albanian
""")  # fmt: skip
OF_LANGUAGES = Relation(
    Phrasings(
        seen=["What language do they speak in {country}?", "What language is spoken in {country}?",
              "Which language do people speak in {country}?", "Language of {country}?",
              "What is the language of {country}?", "Which language is spoken in {country}?",
              "What do people speak in {country}?", "What language do people in {country} speak?",
              "In {country}, what language do they speak?", "Tell me the language of {country}.",
              "The language of {country} is[| ...|?]", "Which language do I need in {country}?",
        "language {country}",
        "language in {country}",
        "what language {country}",
        "{country} language?",
        "{country}: what language do people speak?",
        "{country}, which language is spoken there?",
        "In {country} people speak[| ...|?| what?]",
        "In {country} they speak which language?",
        "In {country}, which language is spoken?",
        "People in {country} speak[| ...|?| what language?]",
        "What's the language of {country}?",
        "What's the language in {country}?",
        "What is the language in {country}?",
        "What is the main language of {country}?",
        "What is spoken in {country}?",
        "What do they speak in {country}?",
        "What language is used in {country}?",
        "What language do people speak in {country}?",
        "What language do I hear in {country}?",
        "What language do I need in {country}?",
        "What language should I learn for {country}?",
        "What tongue do they speak in {country}?",
        "Which language do they speak in {country}?",
        "Which language do people in {country} speak?",
        "Which language has {country}?",
        "Which language is used in {country}?",
        "Which language should I learn to live in {country}?",
        "Which is the language of {country}?",
        "How do people talk in {country}, in which language?",
        "I travel to {country}. Which language do they speak?",
        "I am going to {country}. What language do I need?",
        "If I go to {country}, what language do I hear?",
        "Name the language of {country}.",
        "Say which language is spoken in {country}.",
        "Tell me what language they speak in {country}.",
        "Tell me which language is spoken in {country}.",
        "Please tell me the language of {country}.",
        "Can you tell me what language is spoken in {country}?",
        "Could you tell me the language of {country}?",
        "Do you know the language of {country}?",
        "Do you know what language they speak in {country}?",
        "I want to know the language of {country}.",
        "I wonder which language people speak in {country}.",
        "Quiz: the language of {country}?",
    ],
        held_out=["If I move to {country}, what language should I learn?",
                  "What's the main language in {country}?", "In which language do people talk in {country}?",
                  "What tongue is spoken in {country}?"],
    ),
    "In {country} people speak {language}.", LANGUAGES, "language", ["And in {country}?",
    "What about in {country}?"],
)  # fmt: skip
CURRENCIES = table("country money", """
the United States | dollar; Canada | dollar; Australia | dollar; New Zealand | dollar
the United Kingdom | pound; England | pound; Egypt | pound; Japan | yen; China | yuan; France | euro
Germany | euro; Spain | euro; Italy | euro; Ireland | euro; Greece | euro; Portugal | euro; Austria | euro
Finland | euro; Belgium | euro; the Netherlands | euro; Switzerland | franc; Sweden | krona; Norway | krone
Denmark | krone; Poland | zloty; Hungary | forint; Russia | rouble / ruble; India | rupee; Pakistan | rupee
Mexico | peso; Argentina | peso; Chile | peso; Brazil | real; South Africa | rand; Turkey | lira
South Korea | won; Thailand | baht; Vietnam | dong; Israel | shekel; the Philippines | peso; Nigeria | naira
Kenya | shilling; Ukraine | hryvnia; Indonesia | rupiah; the Czech Republic | koruna / crown
""")  # fmt: skip
OF_CURRENCIES = Relation(
    Phrasings(
        seen=["What is the currency of {country}?", "What's the currency of {country}?",
              "Currency of {country}?", "What money do they use in {country}?",
              "What currency is used in {country}?",
              "Which currency does {country} use?", "What do people pay with in {country}?",
              "What money is used in {country}?", "Tell me the currency of {country}.",
              "The currency of {country} is[| ...|?]", "Which currency is used in {country}?",
              "With what money do I pay in {country}?",
        "currency {country}",
        "money in {country}",
        "what money {country}",
        "{country} currency?",
        "{country}: what money do they use?",
        "{country}, which currency is used there?",
        "In {country} people pay with[| ...|?| what?]",
        "In {country} you pay with which currency?",
        "In {country}, what money do they use?",
        "In {country}, what is the currency?",
        "People in {country} pay with[| ...|?| what money?]",
        "What's the money of {country}?",
        "What's the money called in {country}?",
        "What is the money of {country} called?",
        "What is the money in {country}?",
        "What is the currency in {country}?",
        "What currency does {country} have?",
        "What currency does {country} use?",
        "What currency do they use in {country}?",
        "What currency do I need in {country}?",
        "What currency do I need for {country}?",
        "What money do I need in {country}?",
        "What money do people have in {country}?",
        "What money do you pay with in {country}?",
        "What money does {country} use?",
        "What do I pay with in {country}?",
        "What do they pay with in {country}?",
        "Which money do they use in {country}?",
        "Which money do I need in {country}?",
        "Which money is used in {country}?",
        "Which currency do people use in {country}?",
        "Which currency do I need in {country}?",
        "Which currency has {country}?",
        "Which is the currency of {country}?",
        "With what do people pay in {country}?",
        "With which money do you pay in {country}?",
        "With which currency can I pay in {country}?",
        "How do you call the money in {country}?",
        "How is the money of {country} called?",
        "I travel to {country}. Which money do I need?",
        "I go shopping in {country}. Which money do I need?",
        "If I am in {country}, what money do I use?",
        "Money of {country}?",
        "The money of {country}[|?| is ...]",
        "Name the currency of {country}.",
        "Name the money of {country}.",
        "Say which currency is used in {country}.",
        "Tell me what money they use in {country}.",
        "Tell me which currency {country} uses.",
        "Please tell me the currency of {country}.",
        "Can you tell me the currency of {country}?",
        "Could you tell me what money is used in {country}?",
        "Do you know the currency of {country}?",
        "Do you know what money they use in {country}?",
        "I want to know the currency of {country}.",
        "I need to know the money of {country}.",
        "Quiz: the currency of {country}?",
    ],
        held_out=["If I go shopping in {country}, which money do I need?",
                  "What is the money of {country} called?",
                  "What kind of currency do they have in {country}?"],
    ),
    "The currency of {country} is the {money}.", CURRENCIES, "money", ["And of {country}?", "And {country}?",
    "What about {country}?"],
)  # fmt: skip
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()
PLACES = "first second third fourth fifth sixth seventh eighth".split()
OF_PLANETS = Relation(
    Phrasings(
        seen=["What is the {place} planet from the sun?", "Which planet is the {place} from the sun?",
              "What is the {nth} planet?", "The {place} planet from the sun?", "Which planet is number {n}?",
              "Name the {place} planet.", "What's the {place} planet of the solar system?",
              "Tell me the {nth} planet from the sun.",
        "{place} planet",
        "{nth} planet from the sun",
        "planet number {n}",
        "{nth} planet?",
        "The {nth} planet is[| ...|?| which?]",
        "The {place} planet is called[| ...|?]",
        "The {place} planet of the solar system?",
        "The {nth} planet in our solar system?",
        "Planet number {n} is[| ...|?| which?]",
        "Planet {n} from the sun?",
        "What is planet number {n}?",
        "What is the {place} planet?",
        "What is the {place} planet called?",
        "What is the {nth} planet from the sun?",
        "What is the {nth} planet called?",
        "What is the name of the {place} planet?",
        "What is the name of the {nth} planet from the sun?",
        "What's the {nth} planet from the sun?",
        "What's the {place} planet?",
        "What planet is number {n} from the sun?",
        "What planet is the {place} from the sun?",
        "What planet comes {place} from the sun?",
        "Which is the {place} planet?",
        "Which is the {nth} planet from the sun?",
        "Which planet is the {place}?",
        "Which planet is the {nth} one from the sun?",
        "Which planet comes {place}, counted from the sun?",
        "Which planet is {place} from the sun?",
        "Which planet has number {n}?",
        "Counting from the sun, which planet is the {place}?",
        "Counted from the sun, what is the {nth} planet?",
        "From the sun, which planet is number {n}?",
        "Starting at the sun, which is the {place} planet?",
        "In the solar system, which planet is number {n}?",
        "Name the {nth} planet.",
        "Name the {nth} planet from the sun.",
        "Name planet number {n}.",
        "Give me the {place} planet from the sun.",
        "Say which planet is the {place} from the sun.",
        "Tell me the {place} planet.",
        "Tell me which planet is number {n}.",
        "Tell me what the {nth} planet is.",
        "Please tell me the {place} planet from the sun.",
        "Can you tell me the {nth} planet?",
        "Can you name the {place} planet?",
        "Could you tell me which planet is number {n}?",
        "Do you know the {place} planet from the sun?",
        "Do you know which planet is number {n}?",
        "I want to know the {nth} planet.",
        "I forgot which planet is the {place} from the sun.",
        "Quiz: which planet is number {n}?",
    ],
        held_out=["Counting from the sun, which planet is the {place}?",
                  "Which planet comes {place} when you start at the sun?"],
    ),
    "The {place} planet from the sun is {planet}.",
    [
        {"place": place, "nth": ordinal(i), "n": str(i), "planet": planet}
        for i, (place, planet) in enumerate(zip(PLACES, PLANETS), start=1)
    ],
    "planet",
)  # fmt: skip
# What can be asked for with "what is ..." | the answer.
SINGLE = table("what it", """
the planet with the big rings | Saturn; the red planet | Mars; the planet we live on | Earth
the star in the middle of the solar system | the sun; the star closest to the Earth | the sun
the ocean between Europe and America | the Atlantic Ocean; the king of the animals | the lion
the ship of the desert | the camel; the country with the most people | India
the river that flows through London | the Thames; the river that flows through Paris | the Seine
the river that flows through Cairo | the Nile; the frozen form of water | ice
the gas we breathe to live | oxygen; the hardest natural stone | diamond
the chemical formula of water | H2O; the symbol of gold | Au
the temperature at which water boils | 100 degrees Celsius
the temperature at which water freezes | 0 degrees Celsius
the organ that pumps blood | the heart; the direction where the sun rises | east
the direction where the sun sets | west; the author of Romeo and Juliet | William Shakespeare / Shakespeare
the painter of the Mona Lisa | Leonardo da Vinci; the city with the Eiffel Tower | Paris
the city with Big Ben | London; the city with the Colosseum | Rome
the city with the Statue of Liberty | New York; the country of the pyramids | Egypt
the country shaped like a boot | Italy; the country where pizza comes from | Italy
the country of the kangaroos | Australia; the country of the samurai | Japan
""")  # fmt: skip
OF_SINGLE = Relation(
    Phrasings(
        seen=["What is {what}?", "What is {what}?", "What's {what}?", "Which is {what}?", "Tell me {what}.",
              "Do you know {what}?", "Name {what}.", "Can you name {what}?", "Can you tell me {what}?",
              "{what}[|?|:]", "{what} is[| ...|?| what?]", "What would be {what}?", "Give me {what}.",
              "I want to know {what}.", "I'd like to know {what}.", "I forgot {what}.",
        "what is {what}",
        "whats {what}",
        "{what} pls",
        "{what}, please[|.|?]",
        "{what}, what is it?",
        "{what}, do you know it?",
        "{what} is called[| ...|?]",
        "{what} would be[| ...|?]",
        "What's {what} called?",
        "What is {what} called?",
        "What do you call {what}?",
        "What do we call {what}?",
        "What do people call {what}?",
        "What do you think is {what}?",
        "Which one is {what}?",
        "Which would be {what}?",
        "Can you say what {what} is?",
        "Can you say {what}?",
        "Can you tell me what {what} is?",
        "Can you give me {what}?",
        "Could you name {what}?",
        "Could you tell me {what}?",
        "Could you tell me what {what} is?",
        "Would you tell me {what}[|, please]?",
        "Would you name {what}?",
        "Do you happen to know {what}?",
        "Do you know what {what} is?",
        "Do you remember {what}?",
        "Have you any idea what {what} is?",
        "I ask you for {what}.",
        "I don't know {what}. Do you?",
        "I don't know what {what} is.",
        "I don't remember {what}.",
        "I can't remember {what}.",
        "I need {what} for school.",
        "I need to know {what}.",
        "I was asked for {what}.",
        "I wonder what {what} is.",
        "I'm not sure what {what} is.",
        "I'm looking for {what}.",
        "I have to name {what}.",
        "My teacher asked for {what}.",
        "My homework asks for {what}.",
        "Name me {what}.",
        "Say {what}: what is it?",
        "Say what {what} is.",
        "Tell me what {what} is.",
        "Tell me please, what is {what}?",
        "Please name {what}.",
        "Please tell me {what}.",
        "Please tell me what {what} is.",
        "Find {what}.",
        "Let me know {what}.",
        "Let me know what {what} is.",
        "Quick: what is {what}?",
        "Quiz: what is {what}?",
        "Quiz question: {what}?",
        "Question: {what}?",
        "Guess {what}.",
        "Help me: what is {what}?",
        "By the way, what is {what}?",
        "Hey, what's {what}?",
        "And what is {what}?",
        "For school: {what}?",
        "Any idea what {what} is?",
    ],
        held_out=["Do you happen to know {what}?", "Could you say what {what} is?",
                  "Remind me, what's {what}?", "I'm looking for {what}.", "So what is {what} then?"],
    ),
    "{it} is {what}.", SINGLE, "it",
)  # fmt: skip
MOST = table("most kind where it", """
largest | planet | in the solar system | Jupiter; smallest | planet | in the solar system | Mercury
hottest | planet | in the solar system | Venus; coldest | planet | in the solar system | Neptune / Uranus
nearest | planet | to the sun | Mercury; largest | ocean | in the world | the Pacific Ocean
smallest | ocean | in the world | the Arctic Ocean; deepest | ocean | in the world | the Pacific Ocean
largest | continent | in the world | Asia; smallest | continent | in the world | Australia / Oceania
coldest | continent | in the world | Antarctica; hottest | continent | in the world | Africa
largest | country | in the world | Russia; smallest | country | in the world | Vatican City
largest | country | in South America | Brazil; largest | country | in Africa | Algeria
highest | mountain | in the world | Mount Everest
highest | mountain | in Africa | Kilimanjaro / Mount Kilimanjaro; longest | river | in the world | the Nile
longest | river | in South America | the Amazon; largest | desert of sand | in the world | the Sahara
largest | animal | in the world | the blue whale; fastest | land animal | in the world | the cheetah
tallest | animal | in the world | the giraffe; largest | land animal | in the world | the elephant
largest | bird | in the world | the ostrich; slowest | animal with fur | in the world | the sloth
largest | island | in the world | Greenland; largest | cat | in the world | the tiger
largest | fish | in the sea | the whale shark; shortest | month | of the year | February
largest | rainforest | in the world | the Amazon rainforest
highest | mountain | in Europe | Mount Elbrus / Mont Blanc
fastest | bird | in the world | the peregrine falcon; smallest | bird | in the world | the hummingbird
largest | organ | of the body | the skin
""")  # fmt: skip
OF_MOST = Relation(
    Phrasings(
        seen=["What is the {most} {kind} {where}?", "What is the {most} {kind} {where}?",
              "What's the {most} {kind} {where}?", "Which is the {most} {kind} {where}?",
              "Which {kind} is the {most} {where}?", "The {most} {kind} {where}[|?|.]",
              "{most} {kind} {where}", "Name the {most} {kind} {where}.",
              "Tell me the {most} {kind} {where}.",
              "Tell me which {kind} is the {most} {where}.", "Do you know the {most} {kind} {where}?",
              "Can you tell me the {most} {kind} {where}?", "Of all, which {kind} is the {most} {where}?",
              "I want to know the {most} {kind} {where}.",
              "The {most} {kind} {where} is[| ...|?| what?| which?]",
              "For a quiz: the {most} {kind} {where}?",
        "which {kind} is {most} {where}",
        "what {kind} is the {most} {where}",
        "{most} {kind} {where} pls",
        "{kind}: the {most} {where}?",
        "What {kind} is the {most} {where}?",
        "What is the name of the {most} {kind} {where}?",
        "What is the {most} {kind} {where} called?",
        "What's the name of the {most} {kind} {where}?",
        "What do you call the {most} {kind} {where}?",
        "What would be the {most} {kind} {where}?",
        "Which {kind} is {most} {where}?",
        "Which {kind} would be the {most} {where}?",
        "Which {kind} {where} is the {most}?",
        "Which {kind} {where} is the {most} of all?",
        "Which is the {most} {kind} of all {where}?",
        "Which one is the {most} {kind} {where}?",
        "Of all the {kind} names {where}, which is the {most}?",
        "{where}, which {kind} is the {most}?",
        "{where}, what is the {most} {kind}?",
        "{where} the {most} {kind} is[| ...|?| which?]",
        "The {most} of all {where}, which {kind}?",
        "The {most} {kind} {where} is called[| ...|?]",
        "The name of the {most} {kind} {where}?",
        "Give me the {most} {kind} {where}.",
        "Give me the name of the {most} {kind} {where}.",
        "Say the {most} {kind} {where}.",
        "Say which {kind} is the {most} {where}.",
        "Find the {most} {kind} {where}.",
        "Tell me the name of the {most} {kind} {where}.",
        "Tell me what the {most} {kind} {where} is.",
        "Please tell me the {most} {kind} {where}.",
        "Please name the {most} {kind} {where}.",
        "Can you name the {most} {kind} {where}?",
        "Can you tell me which {kind} is the {most} {where}?",
        "Could you name the {most} {kind} {where}?",
        "Could you tell me the {most} {kind} {where}?",
        "Would you tell me the {most} {kind} {where}?",
        "Do you know which {kind} is the {most} {where}?",
        "Do you know what the {most} {kind} {where} is?",
        "I forgot the {most} {kind} {where}.",
        "I need the {most} {kind} {where}.",
        "I'd like to know the {most} {kind} {where}.",
        "I want to know which {kind} is the {most} {where}.",
        "I wonder which {kind} is the {most} {where}.",
        "I don't know the {most} {kind} {where}.",
        "I am looking for the {most} {kind} {where}.",
        "My teacher asked for the {most} {kind} {where}.",
        "Quiz: which {kind} is the {most} {where}?",
        "Any idea which {kind} is the {most} {where}?",
    ],
        held_out=["Do you happen to know the {most} {kind} {where}?", "What {kind} is the {most} {where}?",
                  "Can you name the {most} {kind} {where}?",
                  "What would be the {most} {kind} {where}?", "I forgot which {kind} is the {most} {where}."],
    ),
    "The {most} {kind} {where} is {it}.",
    MOST
    + [f | {"most": "biggest"} for f in MOST if f["most"] == "largest"]
    + [f | {"most": "closest"} for f in MOST if f["most"] == "nearest"],
    "it",
)  # fmt: skip
COUNTS = table("things where n", """
continents | in the world | seven / 7; oceans | in the world | five / 5
planets | in the solar system | eight / 8; colours | in the rainbow | seven / 7
players | in a football team | eleven / 11; strings | on a guitar | six / 6
strings | on a violin | four / 4; fingers | on a hand | five / 5; fingers | on two hands | ten / 10
toes | on a foot | five / 5; wheels | on a bicycle | two / 2; wheels | on a car | four / 4
wheels | on a tricycle | three / 3; squares | on a chessboard | 64; eggs | in a dozen | twelve / 12
players | in a chess game | two / 2; metres | in a kilometre | 1000; grams | in a kilogram | 1000
centimetres | in a metre | 100; millimetres | in a centimetre | 10; cents | in a dollar | 100
cents | in a euro | 100; pence | in a pound | 100; inches | in a foot | twelve / 12
feet | in a yard | three / 3; vowels | in the alphabet | five / 5
states | in the United States | 50; stars | on the flag of the United States | 50
teeth | in the mouth of an adult | 32; senses | in the human body | five / 5; eyes | in a face | two / 2
sides | on a coin | two / 2; cards | in a deck of cards | 52; keys | on a piano | 88
bones | in the body of an adult | 206; dwarfs | in the tale of Snow White | seven / 7
wings | on a bird | two / 2; corners | in a room | four / 4; moons | around the Earth | one / 1
faces | on a cube | six / 6; zeros | in a million | six / 6
""")  # fmt: skip
OF_COUNTS = Relation(
    Phrasings(
        seen=["How many {things} are there {where}?", "How many {things} are there {where}?",
              "How many {things} are {where}?", "How many {things} {where}?", "{things} {where}?",
              "Tell me how many {things} there are {where}.", "What is the number of {things} {where}?",
              "Do you know how many {things} are {where}?", "Number of {things} {where}?",
              "Can you tell me how many {things} there are {where}?",
        "how many {things} {where}",
        "how much {things} are {where}",
        "number of {things} {where}",
        "{things} {where}, how many?",
        "{things} {where}: how many are there?",
        "{where}, how many {things} are there?",
        "{where} there are how many {things}?",
        "There are how many {things} {where}?",
        "There are[| ...] how many {things} {where} in all?",
        "How many {things} do we have {where}?",
        "How many {things} do you count {where}?",
        "How many {things} can I count {where}?",
        "How many {things} can you find {where}?",
        "How many {things} exist {where}?",
        "How many {things} are there {where} in total?",
        "How many {things} are there altogether {where}?",
        "What number of {things} is there {where}?",
        "What's the number of {things} {where}?",
        "What is the total number of {things} {where}?",
        "The number of {things} {where}[|?| is ...| is what?]",
        "Count the {things} {where}.",
        "Count how many {things} there are {where}.",
        "Give me the number of {things} {where}.",
        "Say how many {things} there are {where}.",
        "Tell me how many {things} are {where}.",
        "Tell me the number of {things} {where}.",
        "Please tell me how many {things} there are {where}.",
        "Please tell me the number of {things} {where}.",
        "Can you say how many {things} are {where}?",
        "Can you tell me the number of {things} {where}?",
        "Could you tell me how many {things} are {where}?",
        "Would you tell me how many {things} there are {where}?",
        "Do you know how many {things} there are {where}?",
        "Do you know the number of {things} {where}?",
        "I want to know how many {things} there are {where}.",
        "I'd like to know how many {things} are {where}.",
        "I wonder how many {things} there are {where}.",
        "I forgot how many {things} there are {where}.",
        "I don't know how many {things} are {where}.",
        "My child asks how many {things} there are {where}.",
        "Quiz: how many {things} are there {where}?",
        "Any idea how many {things} are {where}?",
    ],
        held_out=["How many {things} do I find {where}?",
                  "If I count the {things} {where}, how many do I get?",
                  "How many {things} would there be {where}?"],
    ),
    "The number of {things} {where} is {n}.", COUNTS, "n",
)  # fmt: skip
LISTS = table("what list", f"""
planets | The planets are {listed(PLANETS)}
oceans | The oceans are the Pacific, the Atlantic, the Indian, the Southern and the Arctic Ocean
continents | The continents are Africa, Antarctica, Asia, Europe, North America, Oceania and South America
senses | The five senses are sight, hearing, smell, taste and touch
four directions | The four directions are north, east, south and west
primary colours | The primary colours are red, yellow and blue
fingers of the hand | The fingers are the thumb, the index, the middle, the ring and the little finger
states of matter | The states of matter are solid, liquid and gas
even numbers up to 10 | The even numbers up to 10 are 2, 4, 6, 8 and 10
odd numbers up to 10 | The odd numbers up to 10 are 1, 3, 5, 7 and 9
meals of the day | The meals of the day are breakfast, lunch and dinner
""")  # fmt: skip
OF_LISTS = Relation(
    Phrasings(
        seen=["What are the {what}?", "Name the {what}.", "List the {what}.", "Which are the {what}?",
              "Tell me the {what}.", "Can you list the {what}?", "Can you name the {what}?",
              "Do you know the {what}?", "{what}[|?|:]", "Name all the {what}.", "What {what} are there?",
        "list the {what}",
        "name {what}",
        "{what}, please[|.|?]",
        "{what} - list them.",
        "{what}: name them all.",
        "{what}: which are they?",
        "{what}: what are they?",
        "The {what}[|?|, please.| are ...]",
        "The {what} are[| ...|?| which?]",
        "All the {what}[|?|, please.]",
        "All {what}, please.",
        "A list of the {what}[|?|, please.]",
        "What are all the {what}?",
        "What are the names of the {what}?",
        "What are the {what} called?",
        "What are the different {what}?",
        "Which {what} are there?",
        "Which {what} do you know?",
        "Which {what} do we have?",
        "What {what} do we have?",
        "What {what} exist?",
        "How are the {what} called?",
        "How do you call the {what}?",
        "Say the {what}.",
        "Say all the {what}.",
        "Say the names of the {what}.",
        "Recite the {what}.",
        "Give me the {what}.",
        "Give me all the {what}.",
        "Give me a list of the {what}.",
        "Give me the names of the {what}.",
        "Show me the {what}.",
        "Show me a list of the {what}.",
        "Write the {what}.",
        "Write down the {what}.",
        "Make a list of the {what}.",
        "List all the {what}.",
        "List all {what} for me[|, please].",
        "Name me the {what}.",
        "Name all {what}.",
        "Name the {what} for me[|, please].",
        "Tell me all the {what}.",
        "Tell me the names of the {what}.",
        "Tell me which {what} there are.",
        "Please list the {what}.",
        "Please name the {what}.",
        "Please tell me the {what}.",
        "Can you give me the {what}?",
        "Can you tell me the {what}?",
        "Can you say all the {what}?",
        "Could you list the {what}?",
        "Could you name the {what}[|, please]?",
        "Would you list all the {what}?",
        "Would you tell me the {what}?",
        "Do you know all the {what}?",
        "Do you know the names of the {what}?",
        "I want to know the {what}.",
        "I want to learn the {what}.",
        "I'd like to know the {what}.",
        "I need a list of the {what}.",
        "I need to know all the {what}.",
        "I forgot the {what}. Which are they?",
        "I have to learn the {what}. Which are they?",
        "My child is learning the {what}. Can you list them?",
        "Teach me the {what}.",
        "Let me hear the {what}.",
        "Quiz: name the {what}.",
    ],
        held_out=["Could you tell me all the {what}?", "Give me a list of the {what}.",
                  "I have to learn the {what}. What are they?"],
    ),
    "{list}.", LISTS, "list",
)  # fmt: skip
WORLD = {
    OF_LANGUAGES: 4,
    OF_CURRENCIES: 3,
    OF_PLANETS: 2,
    OF_SINGLE: 4,
    OF_MOST: 5,
    OF_COUNTS: 4,
    OF_LISTS: 2,
}
