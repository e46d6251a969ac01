"""Chat templates rendered by Jinja2 in Hugging Face's environment, for the tests of the chat crate.

    python tools/goldens/chat.py TEMPLATES

TEMPLATES is a folder of *.jinja chat templates. Writes what they render to crates/chat/goldens/shared.json
(without the templates), and the templates of crates/chat/goldens/templates to own.json. Takes
tools/requirements.txt.

The environment is that of transformers' `_compile_jinja_template` (utils/chat_template_utils.py).
A case is [conversation, add_generation_prompt, result]; a result is the text, {"raised": message} where
the template refused, or {"failed": message}.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

OUT = Path(__file__).parents[2] / "crates/chat/goldens"
NOW = datetime(2024, 7, 26, 9, 5, 3)
BOS, EOS = "<s>", "</s>"


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
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def turns(*contents, system=None):
    messages = [] if system is None else [{"role": "system", "content": system}]
    return messages + [{"role": ["user", "assistant"][i % 2], "content": c} for i, c in enumerate(contents)]


CONVERSATIONS = [
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
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "assistant", "content": "a"}],
    [{"role": "system", "content": "only"}],
    [{"role": "tool", "content": "a result"}],
    [{"role": "user", "content": "a"}, {"role": "unknown", "content": "b"}],
    [],
]


def render(template, messages, add_generation_prompt):
    variables = dict(messages=messages, add_generation_prompt=add_generation_prompt, bos_token=BOS, eos_token=EOS)
    try:
        try:
            return template.render(**variables, tools=None, documents=None)
        except Exception as error:
            if type(error) is jinja2.exceptions.TemplateError:  # raise_exception
                return {"raised": str(error)}
            return template.render(**variables)  # some templates loop over the tools without asking
    except Exception as error:
        return {"failed": str(error)}


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
            results.append([source, render(template, CONVERSATIONS[2], True)])
    (OUT / "lines.json").write_text(json.dumps(results, ensure_ascii=False, indent=0) + "\n")


def save(name, paths):
    results = {}
    for path in sorted(paths):
        template = environment().from_string(path.read_text())
        results[path.name] = [[i, add, render(template, m, add)] for i, m in enumerate(CONVERSATIONS) for add in (False, True)]
    (OUT / name).write_text(json.dumps({"conversations": CONVERSATIONS, "results": results}, ensure_ascii=False, indent=0) + "\n")


OUT.mkdir(parents=True, exist_ok=True)
save("shared.json", Path(sys.argv[1]).glob("*.jinja"))
save("own.json", (OUT / "templates").glob("*.jinja"))
lines(OUT / "lines.jinja")
