"""Tool calls as chat templates write them, for the tests of the chat crate.

    python tool_calls.py TEMPLATES

TEMPLATES is a folder of *.jinja chat templates, such as models/templates of llama.cpp. Writes
crates/chat/goldens/tool_calls.json: for each template its hash, and for one call and for two what Jinja2 writes after the
prompt, up to the next message. Templates that write no calls have an empty list. Takes tools/requirements.txt.
"""

import hashlib
import json
import sys
from pathlib import Path

import jinja2
from chat import BOS, EOS, environment

OUT = Path(__file__).parents[2] / "crates/chat/goldens/tool_calls.json"
NEXT = "NextUserMessage"


def parameters(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)[:1]}


def tool(name, **properties):
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters(**properties)}}


TOOLS = [
    tool(
        "get_weather",
        city={"type": "string", "description": "A city"},
        days={"type": "integer", "description": "A number"},
        options={"type": "object", "description": "More"},
        zip={"type": "string", "description": "A code"},
    ),
    tool("get_time"),
]
# Formats without escapes confuse these: quotes, a line break, marks, a string that looks like a number.
WEATHER = {"city": 'Sa"o\n<b> </tool_call> ü', "days": 3, "options": {"a": [1, True], "b": {"c": "d"}}, "zip": "0123"}
CALLS = [[("get_weather", WEATHER)], [("get_weather", WEATHER), ("get_time", {})]]


def messages(calls, as_text):
    made = [
        {"id": f"call0000{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(a, ensure_ascii=False) if as_text else a}}
        for i, (name, a) in enumerate(calls)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": NEXT} for call in made
    ]
    return [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": made}, *results]


def rendered(source, calls):
    """The template's text of an answer with calls, and the error if it fails."""
    why = None
    for as_text in (False, True):
        for sandboxed in (True, False):
            env = environment()
            env.is_safe_attribute = env.is_safe_attribute if sandboxed else lambda *_: True
            render = lambda m, **more: env.from_string(source).render(
                messages=m, tools=TOOLS, bos_token=BOS, eos_token=EOS, documents=None, **more
            )
            try:
                conversation = messages(calls, as_text)
                prompt = render(conversation[:1], add_generation_prompt=True)
                text = render(conversation, add_generation_prompt=False)
            except (jinja2.exceptions.TemplateError, TypeError) as error:
                why = str(error)
                continue
            same = next((i for i, (a, b) in enumerate(zip(prompt, text)) if a != b), min(len(prompt), len(text)))
            # Not within a mark.
            mark = prompt[:same].rfind("<")
            same = mark if mark > prompt[:same].rfind(">") else same
            answer = text[same:].split(NEXT)[0]
            # Quoted arguments are those of a template that wants objects.
            if all(name in answer for name, _ in calls) and '\\"city' not in answer:
                return answer, prompt[:same][-24:], None
    return None, None, why


if __name__ == "__main__":
    goldens = {"tools": TOOLS, "calls": CALLS, "templates": {}}
    for path in sorted(Path(sys.argv[1]).glob("*.jinja")):
        source = path.read_text()
        answers = []
        for number, calls in enumerate(CALLS):
            answer, prompt, why = rendered(source, calls)
            if answer is None:
                print(f"{path.name}: no text for {len(calls)} calls: {why or 'it writes none'}")
            else:
                answers.append([number, prompt, answer])
        goldens["templates"][path.name] = {"sha256": hashlib.sha256(source.encode()).hexdigest(), "answers": answers}
    OUT.write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n")
