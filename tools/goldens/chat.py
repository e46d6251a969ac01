"""Chat templates rendered by Jinja2 in Hugging Face's environment, for the tests of the chat crate.

    python chat.py TEMPLATES

TEMPLATES is a folder of *.jinja chat templates. Writes what they render to crates/chat/goldens/shared.json
(without the templates), and the templates of crates/chat/goldens/templates to own.json. Takes
tools/requirements.txt.

The environment is that of transformers' `_compile_jinja_template` (utils/chat_template_utils.py), with llama.cpp's
filter `from_json`. A case is [conversation, add_generation_prompt, result]; a result is the text, for a long text
{"bytes": its length, "fnv": its FNV-1a hash}, {"raised": message} where the template refused, {"failed": message}, or
{"left_out": true} where it writes no system message. Where it writes none but that of users, system messages are merged
into these, as llama.cpp does.
"""

import copy
import json
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
from conversations import CONVERSATIONS

OUT = Path(__file__).parents[2] / "crates/chat/goldens"
NOW = datetime(2024, 7, 26, 9, 5, 3)
BOS, EOS = "<s>", "</s>"
LONGEST = 600
SAMPLE = "SampleText"


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def jinja(template, messages, add_generation_prompt, tools=None, variables=None):
    """Jinja2's result for `messages` in the template's form."""
    variables = dict(
        messages=messages, add_generation_prompt=add_generation_prompt, bos_token=BOS, eos_token=EOS, **(variables or {})
    )
    if tools:
        variables["tools"] = tools
    try:
        try:
            return template.render(**{"tools": None, "documents": None, **variables})
        except Exception as error:
            if type(error) is jinja2.exceptions.TemplateError:  # raise_exception
                return {"raised": str(error)}
            return template.render(**variables)  # some templates loop over the tools without asking
    except Exception as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"failed": str(error)}


def with_arguments(messages, convert):
    messages = copy.deepcopy(messages)
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = convert(call["function"]["arguments"])
    return messages


def as_objects(messages):
    return with_arguments(messages, lambda a: json.loads(a) if isinstance(a, str) else a)


def as_texts(messages):
    return with_arguments(messages, lambda a: a if isinstance(a, str) else json.dumps(a, ensure_ascii=False))


def with_reasoning(messages, field):
    """`messages` with reasoning in this field, or as a part of the content."""

    def convert(message):
        reasoning = message.get("reasoning_content")
        if reasoning is None:
            return message
        if field:
            return {field if name == "reasoning_content" else name: value for name, value in message.items()}
        [message] = as_parts([message])
        message.pop("reasoning_content")
        return message | {"content": [{"type": "thinking", "thinking": reasoning}] + message["content"]}

    return [convert(message) for message in messages]


def as_parts(messages):
    def parts(content):
        return ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else content

    return [message | {"content": parts(message["content"])} for message in messages]


def flat(messages):
    def text(content):
        return content if isinstance(content, str) else "\n".join(part["text"] for part in content if part["type"] == "text")

    return [message | {"content": text(message["content"])} for message in messages]


def form(template):
    """The form of messages that the template wants: one that makes it write a sample."""

    def writes(messages, quotes="'"):
        text = jinja(template, messages, False)
        return isinstance(text, str) and SAMPLE in text and not any(f"{q}{SAMPLE}{q}" in text for q in quotes)

    steps = []
    said = [{"role": "user", "content": SAMPLE}]
    if not writes(said) and writes(as_parts(said), "'\""):
        steps.append(as_parts)
    call = {"id": "abcdef123", "type": "function", "function": {"name": "f", "arguments": {SAMPLE: SAMPLE}}}
    called = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdef123", "content": "1"},
    ]

    def formed(messages):
        for step in steps:
            messages = step(messages)
        return messages

    steps.append(as_texts if not writes(formed(called)) and writes(formed(as_texts(called))) else as_objects)
    thought = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": SAMPLE}]
    fields = ["reasoning_content", "thinking", "reasoning", None]
    quotes = {None: "'\""}
    field = next((f for f in fields if writes(formed(with_reasoning(thought, f)), quotes.get(f, "'"))), fields[0])
    steps.append(lambda messages: with_reasoning(messages, field))
    return formed, as_parts in steps


def merged(messages):
    """`messages` with system messages merged into the next user's, the last ones into one of their own."""
    out, system = [], []

    def content():
        if any(isinstance(text, list) for text in system):
            return [part for text in system for part in as_parts([{"content": text}])[0]["content"]]
        return "\n".join(system)

    for message in messages:
        if message["role"] == "system":
            system.append(message["content"])
        elif message["role"] == "user":
            system.append(message["content"])
            out.append(message | {"content": content()})
            system = []
        else:
            out.append(message)
    return out + ([{"role": "user", "content": content()}] if system else [])


def render(template, conversation, add_generation_prompt):
    """Jinja2's result for a conversation, with system messages merged if the template does not write them."""
    formed, parts_only = form(template)
    more = [add_generation_prompt, conversation.get("tools"), conversation.get("variables")]

    def in_form(messages):
        """With contents in parts if the template knows them."""
        parts = [part["text"] for m in messages if isinstance(m["content"], list) for part in m["content"]]
        if parts and not parts_only:
            text = jinja(template, formed(messages), *more)
            if isinstance(text, str) and all(written(part, text) for part in parts):
                return text
            messages = flat(messages)
        return jinja(template, formed(messages), *more)

    def written(part, text):
        return part in text and f"'{part}'" not in text and f'"{part}"' not in text

    def writes_system(change):
        marked = [m | {"content": mark(m["content"])} if m["role"] == "system" else m for m in messages]
        text = in_form(change(marked))
        return isinstance(text, str) and text.count(SAMPLE) >= sum(m["role"] == "system" for m in messages)

    def mark(content):
        return content + SAMPLE if isinstance(content, str) else content + [{"type": "text", "text": SAMPLE}]

    messages = conversation["messages"]
    result = in_form(messages)
    if not any(m["role"] == "system" for m in messages) or isinstance(result, str) and writes_system(lambda m: m):
        return result
    other = in_form(merged(messages))
    if isinstance(other, dict):
        return result if isinstance(result, dict) else other
    if isinstance(result, str) and not writes_system(merged):
        return {"left_out": True}
    return other


def fnv(text):
    hash = 0xCBF29CE484222325
    for byte in text.encode():
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return {"bytes": len(text.encode()), "fnv": f"{hash:016x}"}


def lines(path):
    """Renders each line of `path` as a template of its own; a line in double quotes is a JSON string."""
    results = []
    for line in path.read_text().split("\n"):
        if line and not line.startswith("##"):
            source = json.loads(line) if line.startswith('"') else line
            try:
                template = environment().from_string(source)
            except jinja2.exceptions.TemplateSyntaxError as error:
                results.append([source, {"failed": str(error)}])
                continue
            results.append([source, jinja(template, CONVERSATIONS[2]["messages"], True)])
    (OUT / "lines.json").write_text(json.dumps(results, ensure_ascii=False, indent=0) + "\n")


def results(paths, longest=LONGEST):
    """The cases of every template."""

    def short(result):
        return fnv(result) if isinstance(result, str) and len(result) > longest else result

    cases = [(i, add) for i in range(len(CONVERSATIONS)) for add in (False, True)]
    rendered = {}
    for path in sorted(paths):
        template = environment().from_string(path.read_text())
        rendered[path.name] = [[i, add, short(render(template, CONVERSATIONS[i], add))] for i, add in cases]
    return {"conversations": CONVERSATIONS, "results": rendered}


def dumps(value):
    """JSON with a line for each conversation and case."""
    conversations = ",\n".join(json.dumps(c, ensure_ascii=False) for c in value["conversations"])
    templates = ",\n".join(
        json.dumps(name) + ": [\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
        for name, cases in value["results"].items()
    )
    return f'{{"conversations": [\n{conversations}\n],\n"results": {{\n{templates}\n}}}}\n'


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "shared.json").write_text(dumps(results(Path(sys.argv[1]).glob("*.jinja"))))
    (OUT / "own.json").write_text(dumps(results((OUT / "templates").glob("*.jinja"))))
    lines(OUT / "lines.jinja")
