"""Conversations for chat templates: {"messages": …}, and where they apply "tools" and "variables".

Messages have OpenAI's form and the chat crate's order of fields.
"""

import json


def turns(*contents, system=None):
    messages = [] if system is None else [{"role": "system", "content": system}]
    return messages + [{"role": ["user", "assistant"][i % 2], "content": c} for i, c in enumerate(contents)]


def tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def calls(*functions, content="", **more):
    """An answer that calls functions: names and arguments."""
    # Mistral's templates want ids of nine characters.
    made = [
        {"id": f"call{i:05}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(functions)
    ]
    return {"role": "assistant", "content": content, **more, "tool_calls": made}


def result(content, i=0, name=None):
    return {"role": "tool", "content": content, "tool_call_id": f"call{i:05}"} | ({"name": name} if name else {})


def user(text):
    return {"role": "user", "content": text}


def answer(text, reasoning=None):
    return {"role": "assistant", "content": text} | ({"reasoning_content": reasoning} if reasoning is not None else {})


def text_parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


WEATHER = tool(
    "get_weather",
    "The weather in a place",
    city={"type": "string", "description": "Name of the city, as in \"São Paulo\""},
    unit={"type": "string", "enum": ["°C", "°F"]},
    days={"type": "integer", "minimum": 1, "default": 3},
)
SEARCH = tool(
    "search",
    "Finds <pages> & 'papers'",
    query={"type": "string"},
    filter={
        "type": "object",
        "description": "What to leave out",
        "properties": {"lang": {"type": "array", "items": {"type": "string"}}, "from": {"type": ["number", "null"]}},
    },
)
TIME = tool("now", "The time")
TOOLS = [WEATHER, SEARCH]
PARIS = {"city": "Paris", "unit": "°C"}
NESTED = {"query": "a \"b\" <c> 日本", "filter": {"lang": ["de", "fr"], "from": 1.5}, "deep": [1, None, True, {"x": []}]}
THOUGHT = "Okay, let me see.\nA second line."

PLAIN = [
    turns("1"),
    turns("Hello", system="You are helpful."),
    turns("Hello", "Hi!", "How are you?"),
    turns("Hello", "Hi!", "How are you?", "Fine.", system="Be brief."),
    turns("  spaces around \n", "\n\n answer \n", "\tx"),
    turns("a\n\nb  c", "", ""),
    turns("", system=""),
    turns("Ünïcödé 日本語 😀 \"quoted\" 'single' <b>&amp;</b> \\n {{ x }} {% y %}", "ok"),
    turns("q", "<think>\nlong thought\n</think>\n\nanswer", "again"),
    turns("q", "<think>\nlong thought\n</think>\n\nanswer"),
    turns("q", system="Think. /no_think please /think"),
    turns("<tool_response>x</tool_response>", "y", "z"),
    [user("a"), user("b")],
    [answer("a")],
    [{"role": "system", "content": "only"}],
    [{"role": "tool", "content": "a result"}],
    [user("a"), {"role": "unknown", "content": "b"}],
    [],
    # Reasoning.
    [user("q"), answer("It is 4.", THOUGHT)],
    [user("q"), answer("It is 4.", THOUGHT), user("And?")],
    [user("q"), answer("It is 4.", ""), user("And?"), answer("Five.", THOUGHT + "\n\n"), user("Why?")],
    [{"role": "system", "content": "s"}, user("q"), answer("", THOUGHT)],
    # Contents in parts.
    [{"role": "user", "content": text_parts("The first part.", "The second part.")}],
    [
        {"role": "system", "content": text_parts("System in a part.")},
        {"role": "user", "content": text_parts("User in a part.")},
        {"role": "assistant", "content": text_parts("Answer in a part.")},
        {"role": "user", "content": "A plain text."},
    ],
    # Names.
    [user("hi") | {"name": "Ann"}, answer("Hello Ann"), user("hi") | {"name": "Bob"}],
]

WITH_TOOLS = [
    turns("Hello"),
    turns("Hello", system="Be brief."),
    turns("Hello", "Hi!", "What is the weather?", system="Be brief."),
    [user("Paris?"), calls(("get_weather", PARIS))],
    [user("Paris?"), calls(("get_weather", PARIS)), result("21 °C, <sunny>", name="get_weather")],
    [user("Paris?"), calls(("get_weather", PARIS)), result('{"temperature": 21}'), answer("It is 21 °C.")],
    [
        {"role": "system", "content": "Use tools."},
        user("Paris?"),
        calls(("get_weather", json.dumps(PARIS, ensure_ascii=False)), content="Let me look."),
        result("21", name="get_weather"),
        answer("21."),
        user("And papers?"),
    ],
    [
        user("Both?"),
        calls(("get_weather", PARIS), ("search", NESTED)),
        result("21", name="get_weather"),
        result("none", i=1, name="search"),
        answer("Neither."),
    ],
    [user("Both?"), calls(("search", NESTED), ("now", {}), reasoning_content=THOUGHT), result("none"), result("12:00", i=1)],
    [
        user("Paris?"),
        calls(("get_weather", PARIS), reasoning_content=THOUGHT),
        result("21", name="get_weather"),
        answer("21.", "That was easy."),
        user("Thanks!"),
        answer("Welcome.", "Polite."),
    ],
    [user("Twice?"), calls(("now", {})), result("1"), calls(("now", {}), reasoning_content=THOUGHT), result("2"), answer("1, 2")],
    [user("Paris?"), calls(("get_weather", PARIS)), result(text_parts("It is 21 °C."))],
]

VARIABLES = [
    {"enable_thinking": True},
    {"enable_thinking": False},
    {"thinking": True, "preserve_thinking": True},
    {"clear_thinking": False, "enable_thinking": True},
    {"reasoning_effort": "high", "custom": {"a": [1, "ü"]}},
]
WITH_VARIABLES = [PLAIN[1], PLAIN[2], PLAIN[19], PLAIN[20]]

CONVERSATIONS = (
    [{"messages": messages} for messages in PLAIN]
    + [{"messages": messages, "tools": TOOLS} for messages in WITH_TOOLS]
    + [{"messages": WITH_TOOLS[7]}, {"messages": WITH_TOOLS[0], "tools": [TIME]}]
    + [{"messages": messages, "variables": values} for messages in WITH_VARIABLES for values in VARIABLES]
    + [{"messages": WITH_TOOLS[9], "tools": TOOLS, "variables": values} for values in VARIABLES]
)
