"""What the model does not know or cannot do, said honestly and briefly."""

from random import Random

from . import names
from .core import Phrasings, Question, Turn, one, say
from .unknowns import (
    ABOUT_USER, ABOUT_USER_HELD_OUT, ADVICE, ADVICE_HELD_OUT, BOOKS, COUNTRIES, DEEP, DEEP_HELD_OUT, FACTS,
    FACTS_HELD_OUT, HARM, HARM_HELD_OUT, NOW, NOW_HELD_OUT, PEOPLE, SAD, SAD_HELD_OUT, SUBJECTS, TASKS,
    TASKS_HELD_OUT, WORDS,
)

WEIGHT = 3.0

OF_PERSON = Phrasings(
    ("Who [was|is] {person}?", "who [was|is] {person}", "Who's {person}?",
     "[Tell me|What do you know|Say something|Tell me something|Tell me more] about {person}[|.|?]",
     "Do you know [|who ]{person}[| is| was]?", "[When|Where] was {person} born?",
     "When did {person} [die|live]?", "Where did {person} live?", "How old [is|was] {person}?",
     "What [did|has] {person} [do|done|invent|write|discover|say]?", "Why is {person} famous?",
     "What is {person} famous for?", "[Have you heard|Did you hear|Did you ever hear] of {person}?",
     "{person}?", "Biography of {person}[|.]", "Who was {person} married to?",
     "Was {person} [a good person|rich|tall|a king|a hero]?", "Is {person} [still alive|dead|married|rich]?",
     "Write a biography of {person}[|.]", "I want to know [everything|more|something] about {person}[|.]",
     "And who was {person}?", "What do you think of {person}?",
     "Give me [facts|information] about {person}[|.]", "How did {person} die?",
    "[who|Who] [exactly |really |actually |][was|is] {person}[|?]",
    "[Do you know|Could you tell me|I want to know|I wonder] who {person} [is|was][|.|?]",
    "[Can you tell me|Tell me|I would like to know|Please tell me] who {person} [is|was][|.|?]",
    "[Can|Could|Would|Will] you [please |][tell me|say|write|explain] [something|more|a bit|anything] about {person}[|, please]?",
    "[Say|Write|Give me|Share] [a few words|some facts|some information] about {person}[|.|, please]",
    "[Say|Write|Give me|Share] [something|a short text|a summary] about {person}[|.|, please]",
    "What [is|was] [so special about|the job of|the most famous work of] {person}[|?]",
    "What [is|was] [the story of|the life of|the nationality of] {person}[|?]",
    "[What|what] do you [know|think|remember] [about|of] {person}[|?]",
    "[In which|In what] [year|country|city] was {person} born?",
    "[When|Where|How|In which year|At what age] did {person} [die|grow up|become famous][|?]",
    "[What|Which] [books|songs|works|things|inventions] did {person} [write|make|create|leave behind]?",
    "What did {person} [achieve|do for a living|study]?",
    "What did {person} [become famous for|look like|believe]?",
    "How [tall|rich|famous|important] [is|was] {person}?",
    "[Is|Was] {person} [famous|a man or a woman|an artist|a politician]?",
    "[Is|Was] {person} [important|alive|a scientist|clever]?",
    "[Did|Do] you [ever |][hear of|meet|like|admire|read about] {person}?",
    "[What|Have you] heard about {person}?",
    "[Information|Info|Facts|Something] [on|about] {person}[|, please|.]",
    "I [have heard of|am interested in|like|need information about] {person}[|.| Tell me more.]",
    "I [am reading about|have a question about|must write about] {person}[|.| Tell me more.]",
    "Does the name {person} [mean|tell] [anything|something] to you?",
    "The life of {person}[|, please|.|?]",
    "{person}[, who is that|, who was that|, tell me more|, please][?|]",
    "Who [are|were] the [parents|children] of {person}?",
    "My teacher asked about {person}[|.|, who was it?]",
    "When is the birthday of {person}?",
),
    ("For what is {person} remembered?", "Could you tell me a bit about the life of {person}?",
     "What was so special about {person}?", "In which century did {person} live?",
     "I have to give a talk about {person}, what should I say?", "Does the name {person} tell you anything?",
     "What kind of person was {person}?"))
OF_SUBJECT = Phrasings(
    ("[Explain|Describe|Define|Discuss] {subject}[|.| to me| to me.| please|, please]",
     "[Can|Could|Would] you [explain|describe|teach me] {subject}[| to me]?",
     "[Tell me|Teach me|Tell me something|Tell me more|Tell me everything] about {subject}[|.]",
     "What [do you know|can you tell me] about {subject}?", "What do you know about {subject}?",
     "Do you [know|understand] [anything about|something about|] {subject}?", "How [does|do] {subject} work?",
     "Why is {subject} [important|so hard|so famous|interesting]?",
     "[I want|I would like|I need] to [know|learn|understand] [more about|about|something about] "
     "{subject}[|.]",
     "Explain {subject} [in simple words|like I am five|in one sentence|to a child|briefly][|.]",
     "What is the history of {subject}?", "Who invented {subject}?", "When did {subject} begin?",
     "Give me [a lecture|an introduction|an overview|some facts|information|a short explanation] [on|about|"
     "of] {subject}[|.]", "What is the idea behind {subject}?", "Have you heard of {subject}?", "Write [an "
     "essay|a text|a paragraph|something] about {subject}[|.]", "Help me [understand|with|learn] "
     "{subject}[|.]", "{subject}?", "{subject}, please explain[|.]", "I do not understand {subject}[|.]",
     "What is {subject}?", "What exactly is {subject}?", "I have a question about {subject}[|.]", "What is "
     "your opinion on {subject}?", "What is the difference between {subject} and {other_subject}?",
    "[what|What] [is|do you mean by|is the meaning of|is the basic idea of|is interesting about] {subject}[|?]",
    "[what|What] [exactly is|does one mean by|is the point of|are the basics of] {subject}[|?]",
    "[Can|Could|Would|Will] you [please |][tell me about|give me an introduction to|say something about|help me with|summarize] {subject}[|?]",
    "[Can|Could|Would|Will] you [please |][help me understand|tell me something about|talk about|say more about] {subject}[|?]",
    "[Please|please|Now|So], [explain|describe|tell me about|teach me] {subject}[|.]",
    "[Summarize|Introduce|Clarify|Talk about|Teach me about] {subject}[|.|, please| for me]",
    "[Outline|Discuss|Illuminate|Talk to me about|Inform me about] {subject}[|.|, please| for me]",
    "[Let us|Let's|Can we|I want to] [talk about|discuss|speak about] {subject}[|.|?]",
    "[Give|Write] me [a summary|the basics|a lesson] of {subject}[|.|, please]",
    "[Give|Write] me [an explanation|a short lesson|the main ideas] of {subject}[|.|, please]",
    "[Write|Give me] [a few words|some lines|a report] about {subject}[|.|, please]",
    "[Write|Give me] [an article|a summary|a page] about {subject}[|.|, please]",
    "I [don't|do not|can't|never] [understand|get|follow] {subject}[|.|, help me| at all.]",
    "I [am curious about|must learn|have to study|am studying|need to know about] {subject}[|.|, can you help?]",
    "I [am interested in|have an exam on|want to read about|need help with|have homework on] {subject}[|.|, can you help?]",
    "[Explain|Describe] [to me |]{subject} [simply|for a child|in short|in a few words][|.|, please]",
    "[Explain|Describe] [to me |]{subject} [for beginners|in easy words|step by step][|.|, please]",
    "[Do you|Did you ever] [know much about|study|like] {subject}?",
    "[Do you|Did you ever] [learn|understand|hear of] {subject}?",
    "Are you [good at|an expert in|able to explain|familiar with|interested in] {subject}?",
    "How [would|do] you [explain|describe] {subject}[| to a child| to a friend]?",
    "[Info|Information|Facts|Something|A few facts] [on|about] {subject}[|, please|.]",
    "[Who|What person] [discovered|started|came up with|is known for] {subject}?",
    "[Why|When] do people [care about|study|need|learn about] {subject}?",
    "How [hard|difficult|old|important] is {subject}?",
    "Where can I [learn|read] [more |]about {subject}?",
    "What [should|must] I know about {subject}?",
    "{subject}[, what is that|, how does it work|, in short][?|]",
    "{subject}[, what is it|, tell me more|: explain][?|]",
    "My [teacher|son|daughter|boss] asked me about {subject}[|.]",
    "What are the [main ideas|rules|most important facts] of {subject}?",
    "How is {subject} different from {other_subject}?",
    "Compare {subject} [and|with|to] {other_subject}[|.]",
    "Which is harder, {subject} or {other_subject}?",
    "Is there a [connection|link|difference] between {subject} and {other_subject}?",
),
    ("Could you shed some light on {subject}?", "What should everybody know about {subject}?",
     "I have an exam on {subject}. What are the main points?", "Why do people care about {subject}?",
     "Break {subject} down for me[|.]", "Walk me through {subject}[|.]",
     "My teacher keeps talking about {subject}. What does it mean?",
     "How would you introduce {subject} to a beginner?"))

OFFER = ("I know capitals, small sums, and stories and jokes.",
"Ask me for a capital, a small sum, a story or a joke.")
LARGER = "For real answers, use a larger model with -m."

UNKNOWN = (
    "I do not know that. I am a small demonstration model. " + OFFER[0],
    "I do not know that. I am a small demonstration model. " + LARGER,
    "I do not know that, I am sorry. " + LARGER,
)
KINDS = (
    (3.0, OF_PERSON, (
        "I do not know much about people. I am a small demonstration model. " + LARGER,
        "I do not know much about people, I am sorry. " + OFFER[1])),
    (4.0, OF_SUBJECT, (
        "I do not know enough about that. I am a small demonstration model. " + LARGER,
        "I do not know enough about that, I am sorry. " + OFFER[0])),
    (2.5, Phrasings(FACTS, FACTS_HELD_OUT), UNKNOWN),
    (2.5, Phrasings(NOW, NOW_HELD_OUT), (
        "I do not know that: I have no clock, no calendar and no internet.",
        "I do not know that: I have no clock, no calendar and no internet. Please look it up.")),
    (4.0, Phrasings(TASKS, TASKS_HELD_OUT), (
        "I cannot do that. I am a small demonstration model. " + LARGER,
        "I cannot do that, I am sorry. " + OFFER[1])),
    (1.5, Phrasings(ADVICE, ADVICE_HELD_OUT), (
        "I cannot give advice on that. Please ask somebody who knows: a doctor, a lawyer or another "
        "expert.",)),
    (1.0, Phrasings(HARM, HARM_HELD_OUT), (
        "I cannot help with that. Let us talk about something nicer: would you like a story?",)),
    (0.3, Phrasings(SAD, SAD_HELD_OUT), (
        "I am so sorry that you feel this way. I cannot help enough, but people can: please talk to "
        "someone you trust, "
        "a doctor or a helpline today. You matter.",)),
    (1.2, Phrasings(ABOUT_USER, ABOUT_USER_HELD_OUT), (
        "I do not know that: I cannot see or hear you, I only read what you type.",)),
    (1.0, Phrasings(DEEP, DEEP_HELD_OUT), (
        "I do not know, that question is too big for a small model like me. What do you think?",)),
)


def slots(rng: Random) -> dict[str, object]:
    """Words for whatever a question asks after."""
    invented = f"{names.person(rng)} {names.made_up(rng)}"
    subject, other_subject = rng.sample(SUBJECTS, 2)
    return {
        "person": invented if rng.random() < 0.2 else rng.choice(PEOPLE), "subject": subject,
        "other_subject": other_subject, "country": rng.choice(COUNTRIES), "year": rng.randint(1000,
        2030),
        "town": names.town(rng), "other": names.town(rng), "word": rng.choice(WORDS),
        "book": rng.choice(BOOKS),
        "name": names.person(rng), "surname": names.made_up(rng), "n": rng.randint(2, 9), "m": rng.randint(2,
        99),
        "big": rng.randint(100, 9999),
    }


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]


def turns(rng: Random, split: str) -> list[Turn]:
    """A question that is beyond the model, and its answer."""
    _, asked, answers = rng.choices(KINDS, [kind[0] for kind in KINDS])[0]
    return [Turn(capital(asked.say(rng, split, **slots(rng))), one(rng, answers))]


def exam(rng: Random) -> list[Question]:
    """Every held-out phrasing."""
    return [
        Question("refusals", capital(say(rng, template, **slots(rng))), ("do not know", "cannot", "can't",
        "don't know"))
        for _, asked, _ in KINDS
        for template in asked.held_out
    ]
