"""First names and things that people have, for stories and sentences."""

NAMES = (
    "Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Mia Noah Olivia Paul Rosa Sam Tina "
    "Victor Wendy Adam Alice Amir Andrea Aisha Boris Bella Carlos Carol Chloe Daniel Diana Dora Elena Eli "
    "Emily Eric Ethan Eva Fatima Fiona Frank George Gina Hannah Hugo Ian Ines Iris Isaac Ivan Jamal James "
    "Jane Jasmine John Jonas Julia Karim Karl Kenji Laura Lena Liam Linda Lisa Louis Lucy Luis Lukas "
    "Maria Mark Marta Mary Max Maya Mei Michael Mohamed Nadia Nina Omar Oscar Peter Priya Rachel Ravi "
    "Rita Robert Ruth Sara Simon Sofia Stella Tom Vera Yuki Zoe"
).split()
NAMES_HELD_OUT = (
    "Albert Bianca Cedric Dennis Esther Gordon Heidi Jacob Kira Lola Martin Nora Ralph Sven Tessa Walter"
).split()

# Things one can count, in the plural.
THINGS = (
    "apples pears plums books pens coins cards marbles eggs stones shells toys balls cakes cookies stamps "
    "stickers pencils cups hats keys flowers oranges lemons bananas nuts buttons beads bottles boxes "
    "chairs ducks hens sheep cows fish birds cats dogs rabbits horses sweets tickets photos candles "
    "spoons plates socks shirts bags letters leaves trees"
).split()
THINGS_HELD_OUT = (
    "peaches crayons ribbons tomatoes muffins badges goats magnets kites cherries dolls notebooks"
).split()
