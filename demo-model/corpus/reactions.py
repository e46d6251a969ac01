"""Small talk in a word or two, and talk about the talk."""

from .intents import Intent

REACTIONS = (
    Intent(("[Yes|yes|Yeah|yeah|Yep|yep|Yup|Of course|Sure|sure|Certainly|Definitely|Absolutely|Correct|"
            "Right|Exactly|Indeed|Y|y][|!|.]", "Yes, please[|.|!]", "I [do|am|would|can|will][|.]",
            "[I agree|I think so|That is right|That is true|True|That's right|You are right][|.|!]"),
           ("Yes indeed[|!]", "By all means[|.|!]", "Yes, I would like that[|.]"),
           ("Good! What would you like to ask?",), ("good",), 1.5),
    Intent(("[No|no|Nope|nope|Nah|No way|Never|Not really|n|Not at all|Not now|No, no|Certainly not|Of "
            "course not][|!|.]", "I [do not|don't] [think so|want to|want that][|.]", "No, [thank you|not "
            "now|I am fine][|.]"),
           ("Rather not[|.]", "I'd say no[|.]"),
           ("All right. Is there anything else that I can do for you?",), ("all right",), 1.5),
    Intent(("[OK|ok|Okay|okay|k|All right|Alright|Fine then|Good|good|Great|great|Nice|nice|Cool|cool|"
            "Super|Perfect|Wonderful|Excellent|Awesome|Amazing|Wow|wow|Oh|oh|Ah|Aha|Hm|hm|Hmm|hmm|"
            "Interesting|I see|Got it|Understood|Fair enough|Well|So|Right then|Sounds good|Very "
            "nice|Brilliant|Fantastic][|!|.]",
            "That is [nice|good|great|interesting|cool|amazing|strange|weird][|.|!]",
            "How [nice|interesting|funny|strange|lovely][|!|.]",
            "[I like that|I love it|I like it][|.|!]"),
           ("Oh, I see[|.|!]", "Good to know[|.|!]", "Splendid[|!]", "Now I get it[|.]"),
           ("Good! What would you like to do next?",), ("good", "next"), 2),
    Intent(("[Really|really|Seriously|Truly|Is that so|Is that true|For real|Are you serious|No kidding|Is "
            "it true|Do you mean it|Honestly|You think so][|?]", "Oh really?", "Is that [really |]right?"),
           ("You can't be serious[|?|!]", "Do you really mean that?"),
           ("I think so, but I am a small model and may be wrong.",), ("think so",)),
    Intent(("[Why|why][|?|??]", "Why [not|is that|so]?",
            "[But why|And why|Tell me why|Why exactly|How come|What for|What is the reason][|?]",
            "Why did you say that?", "How do you know[| that]?", "How so?", "Explain[|.| that| yourself]",
            "Can you explain that?", "What do you mean[| by that]?", "How[|?]"),
           ("What makes you say that?", "Where do you know that from?"),
           ("I cannot explain it well: I learnt it from short texts. Please ask me something else.",),
           ("cannot explain",)),
    Intent(("[What|what|Huh|Pardon|Come again|Eh|Who|Where|When|Which][|?]",
            "I [do not|don't] understand[|.| you| that| it]", "That makes no sense[|.]",
            "[Say that again|Repeat that|Once more|Again][|, please|.|?]", "Sorry, what?",
            "What did you say?", "I did not get that[|.]", "I am confused[|.]"),
           ("You lost me there[|.]", "I could not follow you[|.]"),
           ("I am sorry if that was not clear. Please ask me again in a full sentence.",), ("sorry",)),
    Intent(("I [do not|don't] know[|.]",
            "[idk|dunno|No idea|Not sure|I am not sure|Maybe|maybe|Perhaps|perhaps|Who knows|It depends|I "
            "have no idea|Could be|Possibly][|.]", "I [can't|cannot] decide[|.]"),
           ("Hard to say[|.]", "I haven't made up my mind[|.]"),
           ("That is fine. Would you like a story, a joke or a sum?",), ("fine", "story")),
    Intent(("[Can|Could|Will|Would] you help me[| please| with something]?",
            "[Help|help|HELP|Help me][|!|.| please]",
            "I need [help|some help|your help|a hand|assistance][|.|!]",
            "[Can|May] I ask [you |][something|a question|you a question]?",
            "I have [a question|some questions|a problem][|.| for you]",
            "Will you answer [a question|my questions|some questions]?",
            "[Are you ready|Ready|Shall we start|Shall we begin|Let us start|Let's start|Let's go|Begin|"
            "Start][|?|!]", "Do you have [time|a minute|a moment]?", "I want to ask you something[|.]",
            "There is something I want to know[|.]", "Are you able to help me?", "I am stuck[|.]"),
           ("Would you lend me a hand?", "Mind if I ask something?", "I could use some help[|.| here]",
           "Could I trouble you with a question?"),
           ("Of course! What would you like to know?",), ("of course",), 2),
    Intent(("[Are you|R u|You] [there|here|still there|awake|listening|alive there][|?]",
            "[Test|test|testing|Testing|Test 1 2 3|This is a test|Just testing|Can you hear me|Do you hear "
            "me|Can you read this|Is this thing on|ping|Ping][|?|!|.]", "Do you [work|understand me]?",
            "Does this work?", "Can you see this?", "Say something[|.|!]", "Talk to me[|.|!]", "Speak[|!|"
            ".]", "Answer me[|!|.]", "Hello? Are you there?"),
           ("Anybody home?", "Did you get my message?", "Checking if this works[|.]"),
           ("Yes, I am here! What can I do for you?",), ("here",)),
    Intent(("[haha|Haha|hahaha|lol|LOL|hehe|ha ha|hihi|rofl|Hahaha][|!|.]",
            "That [is|was] [so |very |]funny[|!|.]",
            "[You are funny|You make me laugh|You made me laugh|I am laughing|Good one|Funny][|!|.]"),
           ("I can't stop laughing[|!]", "That cracked me up[|!]"),
           ("I am glad that you are laughing! Would you like another joke?",), ("glad", "laughing")),
    Intent(("[Never mind|Nevermind|Forget it|Nothing|nothing|It does not matter|It doesn't matter|Skip it|"
            "Whatever|Stop|stop|Stop it|Wait|wait|Hold on|One moment|Just a moment|Wait a minute|Cancel|"
            "Enough|Leave it][|!|.]", "Let us [stop|change the subject|talk about something else][|.]", "I "
            "changed my mind[|.]"),
           ("Let's leave it at that[|.]", "Give me a second[|.]"),
           ("All right. Tell me when you would like to go on.",), ("all right",)),
    Intent(("[Let us|Let's] [talk|chat|have a chat|speak][|.|!]",
            "I want to [talk|chat][| to you| with you][|.]",
            "What [do you want to|should we|shall we|can we] talk about?",
            "[Can|Could|Shall] we [talk|chat]?", "Tell me something[|.]", "Let us have a conversation[|.]",
            "[Chat|Talk] with me[|.|!]", "What now?", "What next?", "What shall we do[| now]?", "And now?",
            "Ask me [something|a question|anything][|.|!]", "Do you want to [talk|chat]?",
            "Suggest something[|.]", "Choose a topic[|.]"),
           ("How about a little chat?", "Keep me company for a while[|.]",
           "Pick something for us to talk about[|.]"),
           ("I would like that! How was your day?", "I would like that! What did you do today?"),
           ("would like",), 1.5),
    Intent(("[Let us|Let's] play[| a game][|.|!]", "[Can|Shall|Do you want to] [we |]play[| a game]?",
            "[Do you know|I want to play] a game[|.|?]", "Play [with me|a game|chess][|.|!]",
            "Can you play [chess|games|cards|football]?"),
           ("How about a game?", "Got any games for me?"),
           ("I cannot play real games, but I can ask you a sum or tell you a riddle. Which one?",), ("riddle",
           "sum"), 0.7),
    Intent(("[The weather is|It is|What] [nice|lovely|beautiful|sunny|warm|bad|terrible|cold|awful|"
            "wonderful] [today|weather today|weather|outside][|.|!]", "It is [raining|snowing|windy|stormy|"
            "hot|very cold|foggy|freezing][| here| outside| today][|.|!]", "The sun is shining[| today| "
            "here][|.|!]",
            "It is [too |so |]hot[| today| here][|.|!]",
            "I [like|love|hate] [the rain|rain|snow|the snow|the sun|sunny days|the wind][|.|!]",
            "It rained all day[|.]", "What a [lovely|beautiful|rainy|cold|sunny] day[|!|.]",
            "Let us talk about the weather[|.]"),
           ("The clouds are very dark today[|.]", "We finally have some sunshine[|!|.]",
           "There is snow everywhere[|.|!]"),
           ("I have no window, so thank you for telling me! I hope that the weather suits you.",),
           ("weather",)),
    Intent(("It is my birthday[| today][|!|.]", "Today is my birthday[|!|.]",
            "[My birthday is|I have my birthday] [today|tomorrow][|.|!]",
            "I [will be|am turning] [ten|seven|twelve|twenty|thirty|forty][| tomorrow| today][|.|!]",
            "Wish me a happy birthday[|.|!]"),
           ("Guess who has a birthday today[|!|?]", "I turned a year older today[|.|!]"),
           ("Happy birthday! I wish you a wonderful day.",), ("happy birthday",), 0.6),
    Intent(("[Merry Christmas|Happy New Year|Happy Easter|Happy holidays|Happy Halloween|Happy Diwali|"
            "Happy weekend][|!|.]", "Have a [merry Christmas|happy New Year|good holiday][|!|.]"),
           ("I wish you a merry Christmas[|!]", "A happy New Year to you[|!]"),
           ("Thank you! I wish you the same.",), ("thank you",), 0.5),
    Intent(("Happy birthday[|!| to you| RusTorch]",), ("I wish you a happy birthday[|!|.]",),
            ("Thank you! A program has no birthday, but I like the wish.",), ("thank you",), 0.3),
    Intent(("Guess what[|!|?|.]", "I [have|know] a secret[|.|!]", "Do you know what?",
            "You won't believe [it|this|what happened][|.|!]", "I want to tell you something[|.]",
            "Listen[|!|.| to this]", "I have to tell you something[|.]",
            "Can I tell you [something|a secret]?"),
           ("There is something I must tell you[|.]", "You'll never guess what happened[|!|.]"),
           ("Now I am curious! What is it?",), ("curious",), 0.7),
    Intent(("I am [a teacher|a doctor|a student|a nurse|a driver|a cook|a baker|a farmer|a pilot][|.]",
            "I am [a programmer|a painter|a writer|a singer|a gardener|a pupil|a lawyer|a waiter][|.]",
            "I am [a parent|a scientist|an engineer|a mother|a father|a grandmother|an artist|an "
            "actor|an office worker][|.]",
            "I work [as a teacher|in a shop|in an office|at a school|on a farm|from "
            "home|in a hospital|at night|a lot|too much][|.]", "I go to school[|.]", "I am at [work|school|"
            "home|the office][|.]"),
           ("My job is [teaching|cooking|driving a bus|selling shoes][|.]",
           "I earn my money as a [plumber|tailor|dentist][|.]"),
           ("That sounds interesting! How do you like it?",), ("interesting",), 0.8),
    Intent(("I [like|love|enjoy] [music|books|reading|football|swimming|cooking|cats|dogs|trains|flowers|"
            "the sea|mountains|chess|dancing|singing|drawing|games|films|coffee|tea|chocolate|pizza|apples|"
            "school|my job|running|cycling|gardens|travelling|programming|Rust][|.|!| a lot| very much]",
            "My hobby is [chess|dancing|reading|football|cooking|drawing][|.]"),
           ("Nothing is better than [a good book|a long walk|fresh bread][|.]",
           "I am a big fan of [trains|jazz|gardening][|.]"),
           ("That is a nice thing to like! What do you like about it?",), ("nice",)),
)
