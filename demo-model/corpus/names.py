"""Names of people, animals and places, common and made up."""

from random import Random

GIRLS = """
Ada Agnes Aisha Alba Alice Alma Amara Amelia Amina Amy Ana Anita Anna Anya Astrid Aya Bea Bella Beth Betty
Bianca Birgit Carla Carmen Carol Celia Chiara Chloe Clara Cora Daisy Dalia Dana Daria Dina Dora Edith Elena
Elisa Ella Elsa Emily Emma Erika Esther Eva Fatima Fay Fiona Flora Freya Gemma Gina Grace Greta Hana Hanna
Hazel Heidi Helen Hilda Ida Ilse Ines Inga Iris Isla Ivy Jade Jana Jane Jasmine Jill Joan Judy Julia June
Karin Kate Katya Keiko Kim Lara Laura Leila Lena Lily Lina Lisa Lola Lotte Lucia Lucy Luna Mabel Maja Mara
Maria Marta Mary May Maya Meera Mia Mila Mina Mira Molly Nadia Naomi Nelly Nina Nora Olga Olive Olivia Paula
Pearl Petra Pia Polly Priya Rachel Rita Robin Rosa Rose Ruby Ruth Sadie Sally Sara Selma Sofia Sonja Stella
Sue Susan Tamara Tanya Tara Tessa Thea Tilda Tina Uma Vera Viola Wanda Wilma Xenia Yara Yasmin Yoko Zara Zoe
""".split()

BOYS = """
Aaron Abdul Adam Ahmed Akira Alan Albert Alex Ali Amir Andre Andy Anton Arjun Arne Arthur Axel Ben Bill Björn
Bob Boris Brian Bruno Carl Carlos Cedric Chen Chris Cyril Dan Daniel David Dennis Diego Dmitri Dylan Ed Edgar
Eli Elias Emil Enzo Erik Ernest Ethan Evan Felix Finn Frank Fred Fritz Gabriel Gary George Gino Glen Gus Hans
Harry Hassan Henry Hugo Ian Ibrahim Igor Isaac Ivan Jack Jacob Jakob James Jan Jaro Javier Jim Joe Joel John
Jonas Jorge José Juan Kai Karim Karl Ken Kenji Kofi Kurt Kwame Lars Leo Leon Levi Liam Louis Luca Lukas Luis
Malik Marco Mario Mark Martin Mateo Max Michael Miguel Milo Mohamed Nick Nico Niels Noah Oleg Oliver Omar
Oscar Otto Owen Pablo Pascal Paul Pedro Peter Phil Piotr Quentin Rafael Raj Ralph Ravi Ray Rene Rico Robert
Roman Rolf Ron Sam Samir Samuel Sandro Scott Sean Simon Stefan Steve Sven Taro Ted Theo Thomas Tim Tobias Tom
Tony Umar Victor Vikram Walter Wei Will Yannis Yusuf Zack
""".split()

PETS = """
Rex Bella Max Luna Charlie Milo Rocky Coco Daisy Buddy Oscar Simba Felix Tiger Snowy Socks Pepper Ginger
Biscuit Muffin Cookie Shadow Lucky Bruno Nala Pip Patch Smokey Waffles Noodle Pickles Peanut Whiskers Fluffy
Spot Ziggy Toffee Maple Hazel Mochi Olive Pumpkin Sunny Bandit Dusty Bubbles
""".split()

TOWNS = """
Amsterdam Athens Austin Bangkok Barcelona Basel Berlin Bogota Bologna Bordeaux Boston Brighton Bristol Cairo
Calgary Chicago Cologne Dallas Denver Dresden Dublin Geneva Genoa Ghent Glasgow Graz Hamburg Hanoi Helsinki
Istanbul Jakarta Karachi Krakow Kyoto Lagos Leeds Lima Linz Lisbon Liverpool London Lyon Madrid Manila
Marseille Melbourne Miami Milan Montreal Mumbai Munich Nairobi Naples Nice Osaka Oslo Oxford Paris Perth Pisa
Porto Prague Quito Riga Rome Rotterdam Salzburg Santiago Seattle Seoul Seville Shanghai Sofia Stockholm
Stuttgart Sydney Tallinn Tokyo Toronto Turin Utrecht Valencia Venice Vienna Vilnius Warsaw York Zagreb Zurich
""".split()

TOWNS_OF_WORDS = ("New York", "San Francisco", "Los Angeles", "Cape Town", "Mexico City", "Hong Kong",
                  "Quebec City")

STARTS = "B Br C Ch D Dr F Fl G Gr H J K L M N P Qu R S Sh T Tr V W Z Th Kr Sl".split()
VOWELS = "a e i o u a e i o ia ee ai oo".split()
MIDDLES = "l n r m d b v t z k rr ll nn nd lt mb rk st".split()
ENDINGS = ["", "", "n", "s", "r", "l", "k", "x", "m"]
TOWN_ENDINGS = ["ville", "ton", "burg", "stad", "ford", "field", "port", "dale", "bury", "wick", "heim"]


def made_up(rng: Random) -> str:
    """A name that nobody has, so that names have to be copied."""
    middle = "".join(rng.choice(VOWELS) + rng.choice(MIDDLES) for _ in range(rng.choice((1, 1, 2))))
    return rng.choice(STARTS) + middle + rng.choice(VOWELS) + rng.choice(ENDINGS)


def person(rng: Random) -> str:
    """The first name of somebody."""
    return made_up(rng) if rng.random() < 0.3 else rng.choice(rng.choice((GIRLS, BOYS)))


def pet(rng: Random) -> str:
    """What an animal is called."""
    return made_up(rng) if rng.random() < 0.4 else rng.choice(PETS)


def town(rng: Random) -> str:
    """A town, real or not."""
    if rng.random() < 0.3:
        return rng.choice(STARTS) + rng.choice(VOWELS) + rng.choice(MIDDLES) + rng.choice(TOWN_ENDINGS)
    return rng.choice(TOWNS_OF_WORDS) if rng.random() < 0.07 else rng.choice(TOWNS)
