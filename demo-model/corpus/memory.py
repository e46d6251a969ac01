"""What the user tells of themselves and asks for later in the same conversation.

At most once in a chat (`ONCE_A_CHAT`): what was told in one conversation would belie "You have not told me"
of the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import names
from .core import Phrasings, Turn, say
from .smalltalk import small_turn

WEIGHT = 2.0
ONCE_A_CHAT = True


@dataclass(frozen=True)
class Fact:
    """Something that a user tells of themselves; `{a}` and `{b}` are its words."""

    draw: Callable[[Random], dict[str, object]]
    told: Phrasings
    reply: str
    asked: Phrasings
    answer: str
    unknown: str


COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "grey",
"silver", "gold",
           "turquoise", "violet", "beige", "dark blue", "light green", "crimson", "lilac")
KINDS = ("dog", "cat", "rabbit", "hamster", "parrot", "horse", "pony", "goldfish", "turtle", "mouse", "snake",
"goat", "duck", "guinea pig")
FOODS = ("pizza", "soup", "pasta", "rice", "apple pie", "pancakes", "chocolate", "bread", "cheese",
"ice cream", "salad", "noodles", "potatoes",
         "strawberries", "curry", "sushi", "tacos", "waffles", "cherries", "lentils", "honey", "porridge",
         "dumplings", "mushrooms")
JOBS = ("teacher", "doctor", "nurse", "baker", "farmer", "pilot", "painter", "writer", "singer", "gardener",
"lawyer", "cook", "driver", "dentist",
        "programmer", "carpenter", "plumber", "librarian", "tailor", "student", "waiter", "photographer",
        "dancer", "judge")
WORDS = ("banana", "lamp", "river", "seven", "cloud", "orange", "table", "castle", "music", "garden",
"pencil", "window", "tiger", "mountain", "bridge",
         "spoon", "yellow", "robot", "candle", "island", "pepper", "ticket", "mirror", "winter", "button",
         "rocket", "feather", "anchor", "bottle")

FACTS = (
    Fact(
        lambda rng: {"a": names.person(rng)},
        Phrasings(
            ("My name is {a}[|.]", "[Hi|Hello|Hey][|,|!] my name is {a}[|.]", "I am {a}[|.]", "I'm {a}[|.]",
            "[Hi|Hello|Hey], I am {a}[|.]", "[Hi|Hello|Hey], I'm {a}[|.]",
            "[Call me|You can call me|Please call me] {a}[|.]",
             "People call me {a}[|.]", "[They|My friends] call me {a}[|.]", "The name is {a}[|.]",
             "My first name is {a}[|.]", "This is {a}[|.|!]", "[Hi|Hello], this is {a}[|.]",
             "[Hello|Hi], {a} here[|.|!]", "My name's {a}[|.]", "I want to tell you my name: {a}[|.]",
            "[my|My|And my|So my|Well, my] name is {a}[|.|!]",
            "[I am|I'm|i am|im|Im] [called|named] {a}[|.|!]",
            "[They named|My mother called|Everybody calls|The people call] me {a}[|.]",
            "[My parents named|Everyone calls|My family calls|People usually call] me {a}[|.]",
            "[Just call|You may call|Feel free to call|Do call] me {a}[|.|!]",
            "[Please, call|You should call|call|I want you to call] me {a}[|.|!]",
            "[Let me introduce myself|May I introduce myself|Nice to meet you]: [I am|my name is|I'm] {a}[|.]",
            "[Allow me to introduce myself|I will introduce myself|To introduce myself]: [I am|my name is|I'm] {a}[|.]",
            "[Nice|Pleased|Good] to meet you, [I am|my name is|I'm] {a}[|.|!]",
            "[Good morning|Good day|Hello there|hey], [I am|my name is|I'm|this is] {a}[|.|!]",
            "[Good evening|Greetings|hi|Hi there], [I am|my name is|I'm|this is] {a}[|.|!]",
            "I go by [|the name of |the name ]{a}[|.]",
            "[You are talking to|You are speaking with|You are chatting with] {a}[|.]",
            "My [given name|nickname|full name|name, by the way,|own name] is {a}[|.]",
            "[By the way|Btw|Please remember], my name is {a}[|.]",
            "[FYI|Remember|Just so you know], my name is {a}[|.]",
            "{a} is my name[|.|!]",
            "{a} is [what they call me|how I am called|the name][|.]",
            "My name: {a}",
            "name: {a}",
            "It is {a}, [that is my name|my name][|.]",
            "I was given the name {a}[|.]",
            "Me, I am {a}[|.]",
            "I would like you to know my name, it is {a}[|.]",
            "[I have|My parents gave me] the name {a}[|.]",
        ),
            ("{a} is my name[|.]", "I go by {a}[|.]", "I was named {a}[|.]", "Everyone knows me as {a}[|.]")),
        "Nice to meet you, {a}!",
        Phrasings(
            ("What is my name?", "What's my name?", "whats my name", "Do you [know|remember] my name?",
            "Who am I?", "What am I called?", "Can you tell me my name?", "My name is what?",
            "Say my name[|.]", "Tell me my name[|.]", "What did I say my name was?",
             "And what is my name?", "Do you still know my name?", "What was my name[| again]?",
             "Do you know who I am?", "my name?",
            "[what|What] [is|was] my name[| now|, please|, friend][|?|??]",
            "[what|What] [is|was] my name[ again| please|, bot|, do you know][|?|??]",
            "[whats|wats|Whats|what's|wat is] my name[| again| bot][|?]",
            "[do you|do u|Do you] [know|remember|recall|still have|still remember] my name[| still| yet| now| by the way][|?]",
            "[Can|Could|Would|Will] you [please |still |][tell me|repeat|remember|guess] my name[|, please]?",
            "[Can|Could|Would|Will] you [please |still |][say|recall|name] my name[|, please]?",
            "[Tell|tell|Remind] me [what my name is|my own name|how I am called|the name I told you][|.|, please]",
            "[Tell|tell|Remind] me [who I am|of my name|what I am called|what I am named][|.|, please]",
            "[Say|Repeat|Write|Name] my name[|.|!|, please| please]",
            "[say|Recall|Type|Spell out] my name[|.|!|, please| please]",
            "[How|By what name] [am I called|did I introduce myself|am I named|should you call me]?",
            "[How|By what name] [do you call me|would you call me|was I called]?",
            "[What|Which] name did I [give you|tell you|say|mention|give|use]?",
            "What [do|would|should|did] [you|people|they] call me?",
            "What did I [tell you|say] [my name is|was my name|about my name|I am called|I was called]?",
            "[And|Now|Hey|But], [what is my name|who am I|do you know my name|what am I called|what was my name|tell me my name][|?]",
            "[So|Ok|Well], [what is my name|who am I|do you know my name|what am I called|what was my name|tell me my name][|?]",
            "[who am i|Who I am|Who is writing to you|To whom are you talking][|?]",
            "[who am I again|Remember me, who am I|With whom are you talking][|?]",
            "[who i am|Who am I, do you know|whoami|Who is talking to you|Who is it you are talking to|Who are you talking to][|?]",
            "[My name|my name|The name of me|My name, please|My name again][|?]",
            "My name [was|is] [what|which|how|called what][| again]?",
            "I [forgot|don't remember|would like to hear|bet you forgot] my name[|.|, what is it?]",
            "I [have forgotten|want to know|wonder if you know|hope you remember] my name[|.|, what is it?]",
            "I told you my name, [what is it|what was it|do you remember it|can you say it][|?]",
            "I [said|told you|mentioned] my name [before|earlier|a moment ago], what [is|was] it?",
            "[Do|Can|Could] you [remember|tell me|say|still know|still tell me|know] [who I am|what I am called|what my name is|what my name was|how I am called|what I said my name was|the name I gave you]?",
            "You know my name[, right|, don't you|, do you|]?",
            "You [still |]remember my name[, right|, don't you|]?",
            "Test: what is my name?",
            "Quick question, what is my name?",
            "Let us see if you remember my name[|.]",
            "Is my name known to you?",
            "Am I known to you by name?",
            "Please [say|tell me|repeat] [my name|what my name is|who I am][|.]",
            "What's the name [I told you|of your user|I gave you]?",
            "I am who?",
            "I am called [what|how]?",
            "[Did you|Can you] [forget|recall|remember|notice|memorize] my name[| already][|?]",
            "Have you [forgotten|noticed|learned|memorized] my name[| already]?",
        ),
            ("Which name did I give you?", "Have you forgotten what I am called?",
            "By what name do you know me?", "How am I called?", "Could you remind me of my name?")),
        "Your name is {a}.", "You have not told me your name."),
    Fact(
        lambda rng: {"a": rng.choice(COLOURS)},
        Phrasings(
            ("My favo[u|]rite colo[u|]r is {a}[|.]", "I like the colo[u|]r {a}[| best| most][|.]",
            "{a} is my favo[u|]rite colo[u|]r[|.]", "I love [|the colour ]{a}[|.]",
            "The colour that I like [best|most] is {a}[|.]", "My colour is {a}[|.]",
            "[my|My|And my|By the way, my|Well, my] favo[u|]rite colo[u|]r is {a}[|.|!| of course| by the way]",
            "[My|The] [best|most beloved|top|preferred] colo[u|]r [for me |]is {a}[|.]",
            "I [really |][like|love|prefer|adore|enjoy] the colo[u|]r {a}[|.|!| the most| very much| more than all others]",
            "I [like|love] {a} more than any other colo[u|]r[|.]",
            "Of all colo[u|]rs I [like|love|prefer] {a}[| most| best][|.]",
            "{a} is [the colour I like best|the colour I like most|the colour for me|the best colour|my colour|the prettiest colour, I think|my favourite][|.|!]",
            "The colo[u|]r I [love|like best|like most|love most|prefer|adore] is {a}[|.]",
            "For me the [nicest|most beautiful|best] colo[u|]r is {a}[|.]",
            "My favo[u|]rite colo[u|]r? {a}[|.|!]",
            "favourite colour: {a}",
            "I would say my favo[u|]rite colo[u|]r is {a}[|.]",
            "I am a fan of the colo[u|]r {a}[|.]",
            "I want you to know that my favo[u|]rite colo[u|]r is {a}[|.]",
        ),
            ("Of all colours I like {a} best[|.]", "For me, nothing beats the colour {a}[|.]",
            "I prefer {a} to all other colours[|.]")),
        "{a} is a lovely colour!",
        Phrasings(
            ("What is my favo[u|]rite colo[u|]r?", "What's my favo[u|]rite colo[u|]r?",
            "Which colo[u|]r do I like [best|most]?", "Do you [know|remember] my favo[u|]rite colo[u|]r?",
            "What colo[u|]r do I like?", "my favourite colour?", "Tell me my favo[u|]rite colo[u|]r[|.]",
            "And my favo[u|]rite colo[u|]r?",
            "[what|What] [is|was] my [favo[u|]rite|best|preferred|most loved] colo[u|]r[| again| now| please|, please][|?]",
            "[whats|wats|what's] my fav[|ourite|orite] colo[u|]r[|?]",
            "[Which|What] colo[u|]r do I [love|like best|like the most|adore][|?]",
            "[Which|What] colo[u|]r do I [prefer|like most|love most|like][|?]",
            "[Which|What] colo[u|]r is my favo[u|]rite[| one]?",
            "[Which|What] colo[u|]r did I [tell you|say] [I like|I love|is my favourite|is my favorite|I like best]?",
            "[Do you|do u|Can you|Could you] [know|remember|tell me|recall|say] [my favo[u|]rite colo[u|]r|which colo[u|]r I like|what colo[u|]r I like best|which colo[u|]r I love][|?]",
            "[Tell|Remind] me [which colour I like|what my favourite colour is|of my favourite colour|the colour I like][|.|, please]",
            "[And|So|Now], what is my favo[u|]rite colo[u|]r?",
            "[my favorite color|my favourite colour|my fav color|My favourite colour|My colour][|, please|?]",
            "Say my favo[u|]rite colo[u|]r[|.|, please]",
            "I told you my favo[u|]rite colo[u|]r, [what is it|what was it|which was it]?",
            "What did I say about my favo[u|]rite colo[u|]r?",
            "The colour I like best is which?",
        ),
            ("Which colour did I say is my favourite?", "Can you recall the colour I love?",
            "What was the colour that I like so much?")),
        "Your favourite colour is {a}.", "You have not told me your favourite colour."),
    Fact(
        lambda rng: {"a": rng.randint(4, 99)},
        Phrasings(
            ("I am {a} years old[|.]", "I'm {a} years old[|.]", "I am {a}[|.]", "My age is {a}[|.]",
            "I turned {a} [last week|yesterday|this year|in May][|.]", "I have just turned {a}[|.]",
            "I'm {a}[|.]",
            "[I am|I'm|i am|im|Im] {a} years [old|of age|old now|old today|young][|.|!]",
            "[My age|my age|Age|age][ is|:| now is] {a}[|.]",
            "I am {a} years[|.]",
            "I [became|turned|just turned|recently turned] {a}[| years old][|.]",
            "I turned {a} [last month|in March|a week ago|in summer|on Sunday|this week][|.]",
            "I have {a} years[|.]",
            "[I am|I'm] [now|already|only|just] {a} years old[|.]",
            "My mother says I am {a} years old[|.]",
            "I [have lived|was born] {a} years [|ago][|.]",
            "[By the way|Remember], I am {a} years old[|.]",
            "Just so you know, I am {a} years old[|.]",
            "My [birthday was yesterday|birthday was last week], I am {a} [now|years old][|.]",
            "{a} years old, that is [me|my age][|.]",
            "I reached the age of {a}[|.]",
            "You should know that I am {a} years old[|.]",
        ),
            ("I celebrated birthday number {a} last month[|.]", "I have lived for {a} years now[|.]",
             "Age: {a}[|.]")),
        "You are {a} years old. Thank you for telling me!",
        Phrasings(
            ("How old am I?", "What is my age?", "What's my age?", "Do you [know|remember] how old I am?",
            "Tell me my age[|.]", "my age?", "And how old am I?", "Do you know my age?",
            "Can you tell me how old I am?",
            "[how old|what age] am [i|I][| now| please|, do you know][|?]",
            "[how old|what age] am [i|I][ again| bot|, please][|?]",
            "[what|What] [is|was] my age[| again| please|, please| now][|?]",
            "[Do|Can|Could] you [remember|still know|say|guess] [my age|what my age is|how many years I am][|?]",
            "[Do|Can|Could] you [remember|still know|say|guess] [how old I am|which age I have|the age I told you][|?]",
            "[Do|Can|Could] you [recall|tell me|know] [my age|what my age is|how many years I am][|?]",
            "[Do|Can|Could] you [recall|tell me|know] [how old I am|which age I have|the age I told you][|?]",
            "[Tell|Remind] me [how old I am|of my age|what my age is|my age again][|.|, please]",
            "[And|So|Now|Ok], [how old am I|what is my age|do you know my age]?",
            "[my age|Age of me|How old I am][|?]",
            "[My age|My age, please|how old me][|?]",
            "How many years [old am I|do I have|am I|have I lived]?",
            "What age [did I tell you|did I say|do I have|did I give you]?",
            "How old did I say I [am|was]?",
            "I told you my age, [what is it|what was it|do you remember it]?",
            "Say [my age|how old I am][|.|, please]",
            "You know how old I am[, right|, don't you|]?",
            "I forgot how old I am[|.|, tell me]",
        ),
            ("How many years old did I say I am?", "What age am I?", "Can you remember my age?")),
        "You are {a} years old.", "You have not told me your age."),
    Fact(
        lambda rng: {"a": names.town(rng)},
        Phrasings(
            ("I live in {a}[|.]", "I am from {a}[|.]", "I'm from {a}[|.]", "My home town is {a}[|.]",
            "I come from {a}[|.]", "I am living in {a}[| now|.]", "My home is in {a}[|.]",
            "We live in {a}[|.]", "I moved to {a}[|.| last year]",
            "[I|i] live [in|over in|in the town of] {a}[|.|!]",
            "[I|i] live [here in|near the centre of|in the city of] {a}[|.|!]",
            "[I am|I'm|im] [from|a resident of|at home in|living here in] {a}[|.|!]",
            "[I am|I'm|im] [living in|based in|originally from|born in] {a}[|.|!]",
            "[My home|My house|My flat|My apartment|My place] is in {a}[|.]",
            "My [home town|hometown|city|town|home city|home] is {a}[|.]",
            "I [grew up|have a house|reside|settled|have always lived] in {a}[|.]",
            "I [was born|stay|dwell|have lived for years] in {a}[|.]",
            "I [come|came|hail] from {a}[|.| originally]",
            "[My family and I|We|My wife and I|My parents and I] [live|are living] in {a}[|.| now]",
            "[By the way|Remember|Just so you know], I [live in|am from|come from] {a}[|.]",
            "{a} is [my home|my home town|where I live|where I come from|the town I live in|the place where I live][|.|!]",
            "The [city|town|place] I live in is {a}[|.]",
            "The [city|town|place] where I live is {a}[|.]",
            "I [have |just |recently |]moved to {a}[| last month| this summer| last week|.]",
            "Greetings from {a}, I live here[|.]",
            "Where I live? In {a}[|.]",
            "My address is in {a}[|.]",
        ),
            ("{a} is where I live[|.]", "My house stands in {a}[|.]", "The town I call home is {a}[|.]")),
        "{a} must be a nice place to live!",
        Phrasings(
            ("Where do I live?", "Where am I from?", "What is my home town?",
            "Do you [know|remember] where I live?", "Where do I come from?",
            "In which [town|city] do I live?", "Where is my home?", "Which city am I from?",
            "And where do I live?", "where do i live",
            "[where|Where] do [i|I] [live|stay|live now|have my home][|?|, please?| again?]",
            "[where|Where] do [i|I] [come from|reside|live again][|?|, please?| again?]",
            "[where|Where] am [i|I] [from|at home|based][|?]",
            "[where|Where] am [i|I] [living|from again|living now][|?]",
            "[what|What] is my [home town|home city|town|home][|?]",
            "[what|What] is my [hometown|city|place of residence][|?]",
            "[Which|What] [town|city|place] [do I live in|do I come from|am I living in|did I mention]?",
            "[Which|What] [town|city|place] [am I from|is my home|did I say I live in]?",
            "[In|From] [which|what] [town|city|place] [do I live|am I living|do I come|is my house|am I]?",
            "[Do|Can|Could] you [remember|recall|still know|tell me|say|know] [where I live|where I come from|which city I live in|my city]?",
            "[Do|Can|Could] you [remember|recall|still know|tell me|say|know] [where I am from|my home town|where my home is]?",
            "[Tell|Remind] me [where I live|where I am from|where I come from|my home town|which city I live in|where my home is][|.|, please]",
            "[And|So|Now|Ok], where [do I live|am I from|do I come from|is my home]?",
            "[my home town|my city|my home|My town|where I live|where I from][|?]",
            "Where [did I say|did I tell you] [that |]I [live|come from]?",
            "Where is my [house|flat|home town|place]?",
            "What did I say about where I live?",
            "I told you where I live, [where is it|do you remember]?",
            "I forgot where I live[|.|, tell me]",
            "Say where I [live|come from][|.|, please]",
        ),
            ("Can you recall where I live?", "Which town did I say I live in?",
            "What's the name of my town?")),
        "You live in {a}.", "You have not told me where you live."),
    Fact(
        lambda rng: {"a": rng.choice(KINDS), "b": names.pet(rng)},
        Phrasings(
            ("I have a {a} called {b}[|.]", "I have a {a} named {b}[|.]", "My {a} is called {b}[|.]",
            "My {a}'s name is {b}[|.]", "I have a {a}. [His|Her|Its] name is {b}[|.]",
            "I've got a {a} called {b}[|.]", "The name of my {a} is {b}[|.]", "We have a {a}, {b}[|.]",
            "My pet is a {a} called {b}[|.]",
            "I [have|keep|have got|recently got|take care of] a {a} [called|by the name of|whose name is|that is called] {b}[|.|!]",
            "I [have|keep|have got|recently got|take care of] a {a} [named|with the name|and I call it] {b}[|.|!]",
            "I [own|got|live with|just got] a {a} [called|named|by the name of|with the name|whose name is|and I call it|that is called] {b}[|.|!]",
            "[We|My family and I|My children] [have|own|got|keep] a {a} [called|named|whose name is] {b}[|.|!]",
            "[my|My|Our] {a} [is called|is named|has the name|goes by the name of|listens to the name] {b}[|.|!]",
            "[my|My|Our] {a}'s name is {b}[|.|!]",
            "[My|Our] {a}[ answers to|, we call it] {b}[|.]",
            "I [named|called|call] my {a} {b}[|.]",
            "We [named|called|call] our {a} {b}[|.]",
            "There is a {a} in my home, [its name is|it is called] {b}[|.]",
            "{b} is [my {a}|the name of my {a}|what I call my {a}|our {a}][|.|!]",
            "At home I have a {a}, [its name is |called |named ]{b}[|.]",
            "[By the way|Remember|Just so you know], my {a} is called {b}[|.]",
            "I [have|got] a {a} and [its name is|it is called|the name is] {b}[|.]",
            "The {a} I have is called {b}[|.]",
            "The name of [our|the] {a} is {b}[|.| I have one.]",
            "I have a pet, a {a}[,| called|, its name is] {b}[|.]",
            "My [lovely|little|dear|old|sweet] {a} is called {b}[|.]",
        ),
            ("At home, a {a} with the name {b} waits for me[|.]", "{b} is my {a}[|.]",
            "I own a {a} and call it {b}[|.]")),
        "{b} is a good name for a {a}!",
        Phrasings(
            ("What is my {a} called?", "What is the name of my {a}?", "What's my {a}'s name?",
            "What is my {a}'s name?",
            "Do you [know|remember] [my {a}'s name|the name of my {a}|what my {a} is called]?",
            "How is my {a} called?", "What do I call my {a}?", "And what is my {a} called?",
            "Tell me the name of my {a}[|.]",
            "[what|What] [is|was] my {a} [called|named][| again][|?]",
            "[whats|what's|What is|what was|What was] [my {a}'s name|the name of my {a}|my {a} called|the name I gave my {a}][| again][|?]",
            "[Do|Can|Could] you [remember|still know|say] [my {a}'s name|what my {a} is called|what I call my {a}]?",
            "[Do|Can|Could] you [remember|still know|say] [the name of my {a}|how my {a} is called|what name my {a} has]?",
            "[Do|Can|Could] you [recall|tell me|know] [my {a}'s name|what my {a} is called|what I call my {a}]?",
            "[Do|Can|Could] you [recall|tell me|know] [the name of my {a}|how my {a} is called|what name my {a} has]?",
            "[Tell|Remind] me [my {a}'s name|of my {a}'s name|what my {a} is called|what my {a}'s name is|of the name of my {a}][|.|, please]",
            "[And|So|Now|Ok], what is [my {a}'s name|the name of my {a}|my {a} called]?",
            "[My|my] {a}'s name[|, please|?| again?]",
            "[the name of my|name of my] {a}[|?]",
            "[What|Which] name does my {a} have?",
            "What did I [name|call] my {a}?",
            "What name did I [give|tell you for|mention for] my {a}?",
            "How do I call my {a}?",
            "Say [my {a}'s name|the name of my {a}][|.|, please]",
            "I told you about my {a}, what is [its|the] name?",
            "I have a {a}, what is it called?",
        ),
            ("Which name does my {a} have?", "What was my {a} called again?",
            "Can you recall what I call my {a}?")),
        "Your {a} is called {b}.", "You have not told me the name of your {a}."),
    Fact(
        lambda rng: {"a": rng.choice(FOODS)},
        Phrasings(
            ("My favo[u|]rite food is {a}[|.]", "I like to eat {a}[|.]", "I love {a}[|.]",
            "The food I like [best|most] is {a}[|.]", "I could eat {a} every day[|.]",
            "[my|My|And my|By the way, my] [favo[u|]rite|best loved|most loved|preferred] [food|dish|meal] is {a}[|.|!]",
            "I [really |][like|love|enjoy|adore] [to eat |eating ]{a}[|.|!| very much| most of all| more than anything]",
            "I [like|love] {a} [best|most] of all food[|.]",
            "{a} is [my favourite food|my favorite food|the food I like best|what I like to eat|what I love to eat|the best food|my favourite dish][|.|!]",
            "The [food|dish|meal] I [love|like best|like most|prefer|enjoy most] is {a}[|.]",
            "I could [always eat {a}|eat {a} all day|live on {a}|eat {a} all the time|eat {a} for breakfast][|.|!]",
            "When I am hungry I like to eat {a}[|.]",
            "What I like to eat is {a}[|.]",
            "My favo[u|]rite food? {a}[|.|!]",
            "favourite food: {a}",
            "Nothing tastes better than {a}[|.|!]",
            "I am a fan of {a}, it is my favo[u|]rite food[|.]",
            "The best thing to eat is {a}[|.|!]",
        ),
            ("Nothing tastes better to me than {a}[|.]", "Of all things to eat, I like {a} best[|.]")),
        "That sounds tasty! Enjoy your {a}.",
        Phrasings(
            ("What is my favo[u|]rite food?", "What's my favo[u|]rite food?", "What do I like to eat?",
            "Which food do I like [best|most]?", "Do you [know|remember] my favo[u|]rite food?",
            "my favourite food?", "What food do I love?",
            "[what|What] [is|was] my [favo[u|]rite|best|preferred|most loved] [food|dish|meal][| again| now| please|, please][|?]",
            "[whats|wats|what's] my fav[|ourite|orite] food[|?]",
            "[Which|What] [food|dish|meal] do I [love|like best|like the most|like]?",
            "[Which|What] [food|dish|meal] do I [prefer|like most|enjoy]?",
            "[Which|What] [food|dish|meal] is my favo[u|]rite?",
            "[Which|What] food did I [tell you|say] [I like|I love|is my favourite|I like best]?",
            "What do I [love to eat|like to eat most|enjoy eating]?",
            "What do I [like eating|like to eat best|prefer to eat]?",
            "[Do you|Can you|Could you] [know|remember|tell me|recall|say] [my favo[u|]rite food|what I like to eat|which food I like|what food I love|my favo[u|]rite dish]?",
            "[Tell|Remind] me [which food I like|what my favourite food is|of my favourite food|what I like to eat][|.|, please]",
            "[And|So|Now], what is my favo[u|]rite food?",
            "[my favorite food|my fav food|My favourite food|My favourite dish][|, please|?]",
            "Say my favo[u|]rite food[|.|, please]",
            "I told you my favo[u|]rite food, [what is it|what was it]?",
        ),
            ("What did I say I like to eat?", "Can you recall the food I love?")),
        "Your favourite food is {a}.", "You have not told me your favourite food."),
    Fact(
        lambda rng: {"a": rng.choice(JOBS)},
        Phrasings(
            ("I work as a {a}[|.]", "My job is {a}[|.]", "I am a {a} by profession[|.]",
            "My profession is {a}[|.]", "I earn my living as a {a}[|.]", "I have a job as a {a}[|.]",
            "[my|My] [job|profession|occupation|trade|work] is [|that of a |being a ]{a}[|.]",
            "[I am|I'm|im] [working|employed] as a {a}[|.]",
            "I [work|earn my money|make my living|make a living|make my money|have worked for years|spend my days] as a {a}[|.|!]",
            "[I am|I'm] a {a} [by trade|by occupation|for a living|by profession|and that is my job][|.]",
            "I am a {a}, that is my [job|profession|work][|.]",
            "For a living I [am|work as] a {a}[|.]",
            "As for my job, I am a {a}[|.]",
            "By profession I am a {a}[|.]",
            "My job? I am a {a}[|.]",
            "I have the [job|profession] of a {a}[|.]",
            "I found [work|a job] as a {a}[|.]",
            "[By the way|Remember|Just so you know], I work as a {a}[|.]",
            "job: {a}",
            "I got a job as a {a}[|.]",
        ),
            ("By trade I am a {a}[|.]", "They pay me to be a {a}[|.]")),
        "To be a {a} sounds interesting!",
        Phrasings(
            ("What is my job?", "What's my job?", "What do I do for a living?", "What do I work as?",
            "Do you [know|remember] my job?", "What is my profession?", "my job?", "And what is my job?",
            "[what|What] [is|was] my [job|profession|occupation|work|trade][| again| please|, please][|?]",
            "[whats|wats|what's] my [job|work|profession][|?]",
            "What do I do [for work|for a job|all day at work|to make money][|?]",
            "What do I do [for a living|as a job|to earn money|for my living][|?]",
            "[What|As what] do I [work as|earn my money with|work]?",
            "[Which|What] [job|profession|occupation] do I have?",
            "[Do|Can|Could] you [remember|still know|say] [my job|what I do for a living|which job I have]?",
            "[Do|Can|Could] you [remember|still know|say] [my profession|what I work as|what my job is]?",
            "[Do|Can|Could] you [recall|tell me|know] [my job|my profession|what I do for a living|what I work as|which job I have|what my job is]?",
            "[Tell|Remind] me [my job|what my job is|what I do for a living|of my job|my profession][|.|, please]",
            "[And|So|Now|Ok], what [is my job|do I work as|is my profession]?",
            "[my job|my profession|My work|My job, please][|?]",
            "What did I say [my job is|I work as|I do for a living|about my job]?",
            "How do I [earn my living|make my living|earn my money]?",
            "I told you my job, [what is it|what was it]?",
            "Say what my job is[|.]",
        ),
            ("Which job do I have?", "What was my job again?", "How do I earn my money?")),
        "You are a {a}.", "You have not told me your job."),
    Fact(
        lambda rng: {"a": rng.choice((rng.choice(WORDS), names.made_up(rng).lower(), rng.randint(0, 999)))},
        Phrasings(
            ("[Remember|Please remember|Can you remember|Keep in mind|Do not forget] [this|the secret|the "
             "code|my] word: {a}[|.]", "[The secret|My secret|The secret word|The code|The password] is "
             "{a}[|.]", "Remember {a}[|.]", "[Remember|Keep in mind] the [word|code] {a}[|.]", "Do not "
             "forget the [word|code] {a}[|.]",
            "[Remember|remember|Memorize|Keep|Store|Save|Note|Learn|Please memorize|Please note|Please keep|Try to remember|Do remember] [this|the secret|the code|my|the] word: {a}[|.]",
            "[Remember|remember|Memorize|Keep in mind|Note|Bear in mind|Do not forget|Don't forget|Learn] the [word|code|secret|secret word|code word|password][|:] {a}[|.]",
            "[The|My|Our] [secret word|secret code|code|code word|password|secret|magic word] is {a}[|.| Remember it.| Do not forget it.| Keep it in mind.|, remember that]",
            "[Can|Could|Will|Would] you [please |][remember|memorize|keep in mind] the [word|code|secret word|password] {a}[|, please]?",
            "I want you to remember [the word |the code |]{a}[|.]",
            "You [must|should] remember [the word|the code|the secret] {a}[|.]",
            "Here is a [secret|code|secret word|word to remember|password]: {a}[|.]",
            "Here is the [secret|code|word|password]: {a}[|.| Remember it.]",
            "I [tell|give] you [a secret|a code|the password|a secret word|a word to remember]: {a}[|.]",
            "{a} is the [secret word|secret|code|password|word to remember][|.| Remember it.]",
            "The word [to remember|you must remember|to keep in mind|I want you to keep] is {a}[|.]",
            "remember {a}[|.| please| for me|, please| for later]",
            "Keep {a} in mind[|.|, please]",
            "Hold on to the word {a}[|.]",
        ),
            ("I want you to memorise the word {a}[|.]", "Store this for later: {a}[|.]")),
        "I will remember it: {a}.",
        Phrasings(
            ("What is the [secret|secret word|code|password|word]?",
            "What was the [secret|secret word|code|password|word]?", "Which word should you remember?",
            "What should you remember?", "What did I ask you to remember?",
            "Tell me the [secret|code|password|word][|.]", "Do you remember the [secret|code|word|password]?",
            "Say the [secret|secret word|code][|.]",
            "[what|What] [is|was] [the|our|my] [secret|code|password|secret code|word I told you][| again|, please][|?]",
            "[what|What] [is|was] [the|our|my] [secret word|code word|magic word|word to remember][| again|, please][|?]",
            "[whats|wats|what's] the [secret|code|password|word|secret word][|?]",
            "[Which|What] [word|code|secret|password] [did I tell you|did you memorize|should you keep in mind|was it]?",
            "[Which|What] [word|code|secret|password] [did I give you|do you remember|did you have to remember|did I ask you to remember]?",
            "What [did I tell you to remember|do you have to remember|did you memorize|should you not forget|did I want you to remember]?",
            "What [did you have to remember|were you supposed to remember|must you not forget|should you keep in mind]?",
            "[Tell|Remind] me [the secret word again|the secret|the password|of the secret|of the code|the word you remember|the code word][|.|, please| again]",
            "[Can|Could|Do|Will] you [still |][remember|recall|tell me|say|know|repeat|name] the [secret|secret word|code|password|word|code word][|?]",
            "[Say|Repeat|Recall|Write|Name|Reveal] the [secret|secret word|code|password|word|code word][|.|!|, please]",
            "[the secret|the password|The code|Password][|, please|?]",
            "[the code|the secret word|Secret word|code word][|, please|?]",
            "[And|So|Now|Ok], [what is|what was|tell me] the [secret|code|password|secret word][|?]",
            "I told you a [secret|code|word|password], what [is|was] it?",
            "I forgot the [code|secret|password|word][|.|, what is it?|, tell me.]",
            "Did you [keep|remember] the [secret|code|password|word]?",
        ),
            ("Can you recall the [secret|code|word]?", "What were you told to remember?")),
        "It is {a}.", "You have not told me a word to remember."),
)

TOGETHER = Phrasings(
    ("My name is {a} and I live in {b}[|.]", "I am {a} from {b}[|.]",
     "[Hi|Hello], I am {a} and I come from {b}[|.]", "I'm {a}, I live in {b}[|.]",
     "My name is {a}. I am from {b}[|.]",
    "[my name is|my name's|My name's|Hello, my name is|Hi, my name is|Hey, my name is] {a} and [I live in|I am from|I come from|I'm from|my home is in|I am living in] {b}[|.]",
    "[I am|I'm|im|I am called|They call me] {a} and [I live in|I am from|I come from|I'm from|my home is in] {b}[|.]",
    "[I am|I'm|im] {a}[,|.|] [I am from|I'm from|I come from|I live in|from|living in] {b}[|.]",
    "[Hello|Hi|Hey], [I am|I'm|this is] {a} from {b}[|.|!]",
    "[this is|This is|It's] {a} from {b}[|.|!]",
    "{a} from {b} here[|.|!]",
    "I live in {b} and my name is {a}[|.]",
    "I am from {b} and my name is {a}[|.]",
    "My name is {a}, [home town|from|living in|and I come from] {b}[|.]",
    "I come from {b}, [call me|they call me|people call me|my name is] {a}[|.]",
    "You can call me {a}, I live in {b}[|.]",
    "name: {a}, town: {b}",
    "People call me {a} and I live in {b}[|.]",
    "Let me introduce myself: I am {a} and I live in {b}[|.]",
),
    ("I go by {a} and {b} is my home[|.]",))
NEW_NAME = Phrasings(
    ("[No|Actually|Sorry], my name is {a}[|.]", "I am not {b}, I am {a}[|.]", "Now call me {a}[|.]",
     "From now on my name is {a}[|.]", "My name is not {b} but {a}[|.]",
    "[Now|From now on|From today on|Please|Better], call me {a}[|.|, please]",
    "From now on [call me|I am|I am called] {a}[|.]",
    "[No|Actually|Sorry|Wait|Oh|Well|Correction|Oops], [I am|I'm|call me|my name's|my real name is|I am called] {a}[|.]",
    "[I am|I'm] {a}, not {b}[|.|!]",
    "My name is {a}, not {b}[|.|!]",
    "[Not|No,] {b}[, but|, it's|. It is] {a}[|.|!]",
    "Don't call me {b}, call me {a}[|.]",
    "I changed my name[, it is now| to|, now it is] {a}[|.]",
    "I was joking, my name is {a}[|.]",
    "I lied, my name is {a}[|.]",
    "My [new|real|true|correct] name is {a}[|.]",
    "I have a new name[:|, it is] {a}[|.]",
    "Now my name is {a}[|.]",
    "I made a mistake, my name is {a}[|.]",
    "It is not {b}, it is {a}[|.]",
    "Please change my name to {a}[|.]",
),
    ("I was joking, in truth I am called {a}[|.]",))
SAID = Phrasings(
    ("What did I [just |]say?", "What did I [just |]write?", "What was my last message?",
     "Repeat what I [said|wrote][|.]", "What have I just said?",
    "[what|What] did [i|I] [just |][say|write|type|tell you|send|send you|enter][| before| to you| last| a moment ago][|?]",
    "[What|Which] was [the last thing I said|the last thing I wrote|my previous message|my last sentence|my last text|the message I just sent|the last message from me|my message before this]?",
    "[Repeat|Recall|Quote|Say] [my last message|what I just said|what I just wrote|my message|my words|my last sentence|what I told you][|.|, please]",
    "[Can|Could|Will] you [repeat|say|tell me|recall|quote] [what I said|what I wrote|my last message|what I just said|what I just wrote|my words]?",
    "What have I [just |][written|told you|typed|said][|?]",
    "[Tell|Remind] me [what I said|what I wrote|what I just said|my last message|of what I said][|.|, please]",
    "[my last message|my previous message|last message|what did i say][|?]",
    "What did my last message say?",
    "What were my last words?",
    "What was it that I [just |][said|wrote]?",
    "Say again what I [said|wrote][|.|, please]",
    "[Do|Did] you [remember|know|recall] [what I said|what I just said|what I wrote|my last message]?",
),
    ("Which words did I write a moment ago?", "Can you give me my last message again?"))


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def told(rng: Random, split: str, fact: Fact, words: dict[str, object]) -> Turn:
    """The user tells it."""
    user = capital(fact.told.say(rng, split, **words))
    if rng.random() < 0.12:
        user = user.lower()
    return Turn(user, capital(say(rng, fact.reply, **words)), True)


def asked(rng: Random, split: str, fact: Fact, words: dict[str, object], known: bool) -> Turn:
    """The user asks for it."""
    return Turn(fact.asked.say(rng, split, **words),
    say(rng, fact.answer if known else fact.unknown, **words))


def between(rng: Random, split: str) -> list[Turn]:
    """Other talk, none to three turns."""
    return [small_turn(rng, split) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]


def turns(rng: Random, split: str) -> list[Turn]:
    """A conversation in which something is told, or is not, and asked for."""
    kind = rng.random()
    if kind < 0.1:
        name, town = names.person(rng), names.town(rng)
        talk = [Turn(TOGETHER.say(rng, split, a=name, b=town),
        f"Nice to meet you, {name}! I hope that {town} is a nice place.", True)]
        later = [asked(rng, split, FACTS[0], {"a": name}, True),
        asked(rng, split, FACTS[3], {"a": town}, True)]
        return talk + between(rng, split) + rng.sample(later, rng.randint(1, 2))
    if kind < 0.15:
        old, new = names.person(rng), names.person(rng)
        talk = [told(rng, split, FACTS[0], {"a": old}), Turn(NEW_NAME.say(rng, split, a=new, b=old),
        f"Nice to meet you, {new}!", True)]
        return talk + between(rng, split) + [asked(rng, split, FACTS[0], {"a": new}, True)]
    if kind < 0.2:
        last = small_turn(rng, split)
        return [last._replace(verbatim=True), Turn(SAID.say(rng, split), f"You said: {last.user}")]
    if kind < 0.28:
        unknown = rng.choice(FACTS)
        return [asked(rng, split, unknown, unknown.draw(rng), False)]
    facts = rng.sample(FACTS, rng.choice((1, 1, 2, 2, 3)))
    if rng.random() < 0.4 and FACTS[0] not in facts:
        facts[0] = FACTS[0]
    known = [(fact, fact.draw(rng)) for fact in facts]
    talk = []
    for fact, words in known:
        talk += [told(rng, split, fact, words)] + between(rng, split)
    for fact, words in rng.sample(known, rng.randint(1, len(known))):
        talk.append(asked(rng, split, fact, words, True))
    if rng.random() < 0.25:
        other = rng.choice([fact for fact in FACTS if fact not in facts])
        talk.insert(rng.randint(0, len(talk)), asked(rng, split, other, other.draw(rng), False))
    return talk
