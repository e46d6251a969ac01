"""Questions of a child with an answer of their own."""

from typing import NamedTuple


class Why(NamedTuple):
    """How it is asked in training and in exams, the answer, and what a right one holds."""

    seen: tuple[str, ...]
    held_out: str
    answer: str
    want: str


WHYS = [
    Why(
        (
            "Why is the sky blue?",
            "What makes the sky blue?",
        ),
        "How come the sky is blue?",
        "The air scatters blue light more than the other colours.",
        "blue light",
    ),
    Why(
        (
            "Why does it rain?",
            "How does rain form?",
        ),
        "Where does the rain come from, and why?",
        "Water drops in the clouds grow heavy and fall down.",
        "clouds",
    ),
    Why(
        (
            "Why do leaves fall in autumn?",
            "Why do trees lose their leaves?",
        ),
        "For what reason do trees drop their leaves?",
        "Trees drop their leaves to save water in the cold.",
        "water",
    ),
    Why(
        (
            "Why is it dark at night?",
            "What makes the night dark?",
        ),
        "How come it gets dark at night?",
        "At night our side of the Earth is turned away from the sun.",
        "away from the sun",
    ),
    Why(
        (
            "Why do we sleep?",
            "What is sleep for?",
        ),
        "What do people need sleep for?",
        "Sleep gives the body and the brain rest.",
        "rest",
    ),
    Why(
        (
            "Why do birds have wings?",
            "What are wings for?",
        ),
        "For what do birds use their wings?",
        "Birds have wings to fly.",
        "fly",
    ),
    Why(
        (
            "Why is the sea salty?",
            "What makes the sea salty?",
        ),
        "How come sea water tastes of salt?",
        "Rivers wash salt out of the rocks into the sea.",
        "rivers",
    ),
    Why(
        (
            "What do plants need to grow?",
            "What does a plant need?",
        ),
        "Which things must a plant have to grow?",
        "Plants need light, water, air and soil.",
        "light",
    ),
    Why(
        (
            "What is fire?",
            "How does fire burn?",
        ),
        "How would you explain fire?",
        "Fire is something burning with oxygen, which gives light and heat.",
        "oxygen",
    ),
    Why(
        (
            "What is a rainbow?",
            "How is a rainbow made?",
        ),
        "How does a rainbow appear?",
        "A rainbow is sunlight split into colours by drops of rain.",
        "sunlight",
    ),
    Why(
        (
            "What is the moon?",
            "Tell me about the moon.",
        ),
        "What can you tell me about the moon?",
        "The moon is a ball of rock that goes round the Earth.",
        "rock",
    ),
    Why(
        (
            "What is the sun?",
            "Tell me about the sun.",
        ),
        "What can you tell me about the sun?",
        "The sun is a star, a ball of hot gas.",
        "star",
    ),
    Why(
        (
            "What is a volcano?",
            "Tell me about volcanoes.",
        ),
        "How would you explain a volcano?",
        "A volcano is a mountain from which hot lava can come.",
        "lava",
    ),
    Why(
        (
            "What is snow?",
            "What is snow made of?",
        ),
        "How would you explain snow?",
        "Snow is frozen water that falls from clouds.",
        "frozen water",
    ),
    Why(
        (
            "What is wind?",
            "Where does wind come from?",
        ),
        "How would you explain wind?",
        "Wind is moving air.",
        "moving air",
    ),
    Why(
        (
            "What is a desert?",
            "Tell me what a desert is.",
        ),
        "How would you explain a desert?",
        "A desert is a dry land with very little rain.",
        "dry",
    ),
    Why(
        (
            "What is an island?",
            "Tell me what an island is.",
        ),
        "How would you explain an island?",
        "An island is land with water all around it.",
        "water",
    ),
    Why(
        (
            "Does the Earth go round the sun?",
            "What does the Earth move around?",
        ),
        "Around what does the Earth travel?",
        "The Earth goes round the sun once a year.",
        "sun",
    ),
    Why(
        (
            "Is the Earth flat?",
            "Is the Earth flat or round?",
            "What shape is the Earth?",
        ),
        "Which shape does the Earth have?",
        "The Earth is round, like a ball.",
        "round",
    ),
    Why(
        (
            "Do fish sleep?",
            "Can fish sleep?",
        ),
        "Is it true that fish sleep?",
        "Yes, fish sleep, but with open eyes.",
        "yes",
    ),
    Why(
        (
            "Can penguins fly?",
            "Do penguins fly?",
        ),
        "Are penguins able to fly?",
        "No, penguins cannot fly, but they swim well.",
        "no",
    ),
    Why(
        (
            "Can pigs fly?",
            "Do pigs fly?",
        ),
        "Are pigs able to fly?",
        "No, pigs cannot fly.",
        "no",
    ),
    Why(
        (
            "Is a tomato a fruit?",
            "Is a tomato a fruit or a vegetable?",
        ),
        "Would you call a tomato a fruit?",
        "A tomato is a fruit, though we cook it like a vegetable.",
        "fruit",
    ),
    Why(
        (
            "Is a whale a fish?",
            "Are whales fish?",
        ),
        "Would you call a whale a fish?",
        "No, a whale is a mammal.",
        "mammal",
    ),
    Why(
        (
            "Is a spider an insect?",
            "Are spiders insects?",
        ),
        "Would you call a spider an insect?",
        "No, a spider is not an insect. It has eight legs.",
        "no",
    ),
]
