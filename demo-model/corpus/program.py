"""What RusTorch is and how it is used."""

from .intents import Intent

PROGRAM = (
    Intent(
        ("What is RusTorch?", "what is rustorch", "What's RusTorch?",
         "[Tell me about|Explain|Describe|Define] RusTorch[|.|, please]", "RusTorch?",
         "What does RusTorch [do|mean|run]?", "[Can|Could] you [explain|tell me about|describe] RusTorch?",
         "What can RusTorch do?", "What is RusTorch [for|good for|about|used for]?", "Why RusTorch?",
         "What is special about RusTorch?", "How does RusTorch work?",
         "[I want to know|Do you know|I would like to know] what RusTorch is[|.|?]", "Do you know RusTorch?",
         "What is the program that runs you?", "What is this software?",
         "Which program runs you?", "What runs you?", "Information about RusTorch[|.]",
         "Is RusTorch [good|useful|an engine]?", "In one sentence, what is RusTorch?"),
        ("Give me a short summary of RusTorch[|.]", "I have never heard of RusTorch, what's that?",
         "Say something about RusTorch[|.]", "What would I use RusTorch for?",
         "A friend mentioned RusTorch. What kind of software is it?"),
        ("RusTorch is an engine in Rust that runs Llama-family language models from GGUF files on your "
         "processor. Its results are checked value by value against an exact reference.",), ("engine",), 4),
    Intent(
        ("How [do|can] I [use|run|load|start|try|open] [a|another|a real|a bigger|a larger|my own|a "
         "better] model?", "How do I [change|switch] [the model|models]?", "How do I [chat|talk] with a "
         "[bigger|larger|real|better|different] model?", "Can I [use|run|load] [another|a bigger|a larger|"
         "a different|my own|a real|a better] model?", "[Use|Load|Run] [another|a real|a bigger] model[|.|"
         "?]", "Where can I get a [bigger|better|real] model?", "How do I use RusTorch[| with a model| "
         "with my model]?", "How to [use|run|load] [a model|a GGUF file|a real model][|?]", "Which command "
         "runs a model?", "What do I type to run a model?", "How do I start RusTorch with [TinyLlama|Llama|"
         "Mistral|a GGUF file]?", "I want [a bigger model|a better model|better answers|to use a real "
         "model][|.]", "How do I get better answers?", "I have a GGUF file. [How do I use it|What now|How "
         "do I run it]?", "What is -m?", "What does -m do?", "How do I run [Llama|TinyLlama|Mistral]?"),
        ("You are too small for me. How do I swap you for a real model?",
         "I downloaded TinyLlama, what do I do with it?", "What's the way to start with my own GGUF?",
         "Show me the command for running a model file[|.]"),
        ("Download a Llama-family model as a GGUF file, such as TinyLlama, and type: rustorch chat -m "
         "model.gguf",), ("-m model.gguf", "rustorch chat"), 4),
    Intent(
        ("What is [a |]GGUF[| file]?", "what is gguf", "[Explain|Define|Describe] GGUF[|.]",
         "What does GGUF mean?", "GGUF?", "What is a gguf file?", "What is in a GGUF file?",
         "Tell me about GGUF[|.]", "What are GGUF files?", "Do you know what GGUF is?",
         "What is the GGUF format?", "What is a model file?"),
        ("I keep reading about GGUF. What is it?", "What's the meaning of GGUF?",
         "Could you explain the GGUF format to me?"),
        ("GGUF is a file format for language models: one file holds the weights, the tokenizer and the "
         "settings.",), ("file",), 2),
    Intent(
        ("What is a token?", "What are tokens?", "what is a token",
         "[Explain|Define|Describe] [a token|tokens|the word token][|.]", "What does token mean?", "token?",
         "Tell me what a token is[|.]", "What is a token in a language model?",
         "What is [tokenization|a tokenizer]?", "What does a tokenizer do?", "How long is a token?"),
        ("I don't get what tokens are. Can you explain?", "Everybody speaks of tokens. What's that?"),
        ("A token is a piece of text, often a word or a part of one. Language models read and write "
         "tokens.",), ("piece",), 2),
    Intent(
        ("What is Rust?", "what is rust", "[Explain|Describe|Tell me about] Rust[|.]", "Do you know Rust?",
         "What kind of language is Rust?", "What is the Rust language?", "Why Rust?",
         "In [which|what] [language|programming language] [are you|is RusTorch|is this program] written?",
         "Is RusTorch written in [Rust|C|Python|Go]?",
         "What programming language [is this|do you use|is RusTorch made in]?", "What is Rust programming?",
         "Are you written in Rust?"),
        ("What do people mean by the language Rust?",
         "Which programming language did they use for RusTorch?"),
        ("Rust is a programming language for fast and safe programs. RusTorch is written in it.",),
         ("programming language",), 2),
    Intent(
        ("[Which|What] [file types|files|formats|quantizations|tensor formats|file formats|quantized "
         "formats|weight formats] [do you|does RusTorch|can RusTorch|can you] [support|read|know|run|use|"
         "handle]?", "[Which|What] formats are supported?", "Does RusTorch [support|read|run] [Q4_K|Q8_0|"
         "Q4_0|Q5_K|Q6_K|F16|BF16|Q4_K_M|IQ4_XS|Q2_K]?", "Can [I use|RusTorch run|RusTorch read] [Q4_K_M|"
         "Q8_0|Q4_0|Q6_K|F16] [files|models]?", "Is [Q4_K_M|Q8_0|Q4_0|Q6_K] supported?", "What is [Q4_K|"
         "Q8_0|Q4_0|Q4_K_M|Q6_K]?", "What is quantization?", "What does quantized mean?", "Which "
         "quantization should I [use|take]?"),
        ("Would a Q5_K_M file work?", "Tell me the weight formats that I can load[|.]",
         "My file is Q8_0. Is that all right?"),
        ("RusTorch reads GGUF files with weights in F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K and IQ4. "
         "Q4_K and Q8_0 are good choices.",), ("Q8_0", "GGUF"), 2),
    Intent(
        ("[Which|What] models [do you|does RusTorch|can RusTorch|can I] [support|run|use|know|handle|load]?",
         "Does RusTorch [run|support] [Llama|TinyLlama|Mistral|Llama 3|Llama 2|Qwen|Gemma|Phi]?",
         "Can [RusTorch|it|I] run [Llama|TinyLlama|Mistral|Llama 3|Llama 2|any model]?",
         "[Which|What] models are supported?", "What is TinyLlama?", "What is Llama?",
         "What is a Llama model?", "Recommend [a model|me a model|a good model][|.]",
         "Which model should I [use|download|try]?", "What is Mistral?"),
        ("Could you suggest a model for RusTorch?", "Tell me the models that work with RusTorch[|.]",
         "Would Llama 3 work here?"),
        ("RusTorch runs models of the Llama family: Llama 1 to 3, TinyLlama, Mistral 7B and others of that "
         "shape.",), ("Llama",), 2),
    Intent(
        ("[Which|What] commands [are there|exist|does RusTorch have|does rustorch have|can I use|do you "
         "have]?", "What are the commands[| of RusTorch]?", "List [the|all] commands[|.]", "Commands?",
         "What commands does the program know?", "Show me the commands[|.]", "What can I type on the "
         "command line?", "What subcommands does rustorch have?", "How do I [inspect|look into] a model[| "
         "file]?", "What does rustorch [inspect|tokenize|run|logits|devices] do?", "Tell me the commands "
         "of RusTorch[|.]"),
        ("Which things can I do with the rustorch program?",
         "Name the commands that RusTorch understands[|.]"),
        ("The commands of rustorch are chat, run, inspect, tokenize, logits and devices. Add --help to any "
         "of them.",), ("inspect",), 2),
    Intent(
        ("How do I [quit|exit|leave|stop|end|close|get out of] [the chat|this chat|this|the program|"
         "RusTorch|this program|the conversation]?", "How [can|do] I [exit|quit|leave|stop]?", "How to "
         "[quit|exit|leave|stop|end the chat][|?]", "[quit|exit|Quit|Exit|QUIT|:q|logout|close][|.]", "I "
         "want to [quit|leave the chat|exit|close the program|stop the chat][|.]", "What do I type to "
         "[quit|leave|exit]?", "Is there [a command to quit|an exit]?", "Close the [chat|program][|.]",
         "End the [chat|conversation|program][|.]", "Let me out[|.|!]", "How do I get out?"),
        ("Which key ends the chat?", "I'm finished, how do I shut this down?",
         "What's the command for leaving?", "How can I terminate the program?"),
        ("Type /exit or press Ctrl-D to leave the chat.",), ("/exit",), 3),
    Intent(
        ("[Which|What] commands are there in the chat?",
         "What [can I type|commands can I type|slash commands are there|chat commands are there][| in the "
         "chat| in this chat]?", "How do I get help[| in the chat]?", "What does /help do?", "What are the "
         "chat commands?", "Is there a help command?", "How do I see [the help|all chat commands]?", "help "
         "command?"),
        ("Which slash commands does the chat understand?", "Where is the help of this chat?"),
        ("Type /help to see the chat commands, such as /clear, /save, /set and /exit.",), ("/help",), 1.5),
    Intent(
        ("How do I [clear|reset|restart|start] [the chat|the conversation|a new chat|over|again|a new "
         "conversation]?", "[Clear|Reset|Restart] [the chat|the conversation|everything][|.]", "Forget "
         "[everything|what I said|our chat][|.]", "How can I make you forget [everything|this|the "
         "conversation]?", "New chat[|.]", "Start over[|.]", "What does /clear do?", "Start a new [chat|"
         "conversation][|.]"),
        ("I'd like a fresh start[|.]", "How do I wipe this conversation?"),
        ("Type /clear, and I forget the conversation.",), ("/clear",), 1.2),
    Intent(
        ("How do I save [the chat|this chat|our conversation|the conversation]?",
         "Can I save [the chat|this|our conversation]?", "Save [the chat|this conversation][|.]",
         "How do I load a [saved |]chat?", "What does /save do?",
         "Can I [go on|continue] [later|tomorrow] with this chat?",
         "Where is [the chat|our conversation] saved?"),
        ("Could I keep a copy of this talk?", "What must I do to store our chat in a file?"),
        ("Type /save and a file name, and later /load and the same name to go on.",), ("/save",), 1.0),
    Intent(
        ("How do I [change|set] the [temperature|settings|sampling|options|seed]?",
         "What is the temperature[| setting| of a model]?", "What does /set do?",
         "How do I make you more [creative|random|exact]?", "Where are the settings?",
         "What is temperature in a language model?", "How can I see the settings?",
         "Change the temperature[|.]"),
        ("I want other sampling settings. What do I type?", "How would I lower the temperature?"),
        ("Type /set temp 0.7 or another number: 0 gives firm answers, more gives varied ones. /set alone "
         "shows all options.",), ("/set",), 1.0),
    Intent(
        ("What does /[stats|model|toggle|system|load|backend] do?", "How do I change the system message?",
         "How do I [see the speed|see statistics]?", "How do I switch models in the chat?"),
        ("What is the command /[system|stats|model] good for?",),
        ("Type /help in the chat: it says what every command does.",), ("/help",), 0.5),
    Intent(
        ("[Is RusTorch|Are you|Is it|Is this] [free|open source|open|free to use|free software]?",
         "What is [the|your|RusTorch's] licen[c|s]e?",
         "[Which|What] licen[c|s]e [do you have|does RusTorch have|is it under|does RusTorch use]?",
         "licen[c|s]e?", "How much [does RusTorch|do you|does this|does it] cost?",
         "Do I have to pay[| for this| for RusTorch]?", "May I [use|copy|change|sell|share] RusTorch?",
         "Can I use RusTorch [for free|at work|in my product|commercially]?",
         "Where is [the|your] source code?", "Can I see [your|the] [code|source code]?",
         "Is RusTorch under [MIT|Apache|GPL]?", "What does it cost?"),
        ("Am I allowed to use this in a company?", "Is any money needed for RusTorch?",
         "Under what terms is RusTorch published?", "Does the code belong to everyone?"),
        ("RusTorch is free and open source, under the licence MIT or Apache-2.0, as you like.",),
         ("open source", "MIT"), 2),
    Intent(
        ("Can RusTorch [use|run on] [a |the |my ]GPU?", "Does RusTorch [use|support|need] [a |the |]GPU[|s]?",
         "[Does it|Do you] run on [the CPU|a CPU|a GPU|CUDA]?", "CPU or GPU?",
         "What [processor|computer|hardware] does RusTorch need?",
         "How much memory does [RusTorch|a model] need?",
         "[Which|What] [computer|machine|hardware] do I need[| for RusTorch]?",
         "Can I run it on [my laptop|an old computer|a laptop]?", "Does it run on [Windows|Linux|a Mac]?"),
        ("Would my old laptop be enough?", "Is a graphics card required?"),
        ("RusTorch runs on the processor of an ordinary computer. The command rustorch inspect says how "
         "much memory a model needs.",), ("processor",), 1.5),
    Intent(
        ("How do you know that [RusTorch|it] is [right|correct|exact]?",
         "Is RusTorch [exact|correct|accurate|tested|reliable]?", "How is RusTorch [tested|checked]?",
         "What does checked value by value mean?", "Why should I trust RusTorch?", "How good is RusTorch?",
         "How exact is RusTorch?", "Is RusTorch better than llama.cpp?", "What is llama.cpp?"),
        ("Who says that RusTorch computes correctly?", "Could the numbers of RusTorch be wrong?"),
        ("The numbers of RusTorch are checked by machine: the fast code is compared value by value with an "
         "exact reference.",), ("checked", "reference"), 1),
    Intent(
        ("What is a language model?", "What are language models?",
         "[Explain|Define] [a |]language model[|s][|.]", "What is an LLM?", "What is AI?",
         "What is [artificial intelligence|a chatbot|a neural network|machine learning]?",
         "How do language models work?", "What is a model?", "What does LLM mean?", "What are parameters?",
         "What is a parameter?", "What is a weight in a model?"),
        ("Teach me what a language model is[|.]", "What do they mean by a large language model?"),
        ("A language model is a program that has learnt from text, with millions of numbers, which word "
         "comes next.",), ("program",), 1.5),
)
