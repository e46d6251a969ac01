"""Compiles the grammars of tool calls with llguidance, and checks what they accept.

    python tool_grammars.py

Runs a test of the chat crate, which writes a grammar for each answer of crates/chat/goldens/tool_calls.json: with and
without special tokens, for each choice of tools. From its trigger on, a grammar must accept the calls that the template
writes, but neither a tool nor an argument that there is not, nor a second call where only one is asked for. Takes
llguidance 1.9.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

EOS = 256
WITHIN = "</tool_call> ü"
# Templates write these unlike the grammars: Python's objects, JSON within Python, ASCII only, an empty line.
OTHERWISE = {
    "{'a': [1, True], 'b': {'c': 'd'}}": '{"a": [1, true], "b": {"c": "d"}}',
    'options={"a": [1, true], "b": {"c": "d"}}': 'options={"a": [1, True], "b": {"c": "d"}}',
    "city='Sa\"o\n": "city='Sa\"o\\n",
    "\\u00fc": "ü",
    '">\n\n</｜DSML｜invoke>': '">\n</｜DSML｜invoke>',
}


class Bytes:
    """A vocabulary of bytes and special tokens."""

    def __init__(self, special):
        self.eos_token_id, self.bos_token_id = EOS, None
        self.special = {id: text for id, text in special}
        self.tokens = [bytes([i]) for i in range(256)] + [b"<eos>"]
        while len(self.tokens) < max(self.special, default=0) + 1:
            self.tokens.append(self.special.get(len(self.tokens), f"<unused{len(self.tokens)}>").encode())
        self.special_token_ids = list(range(256, len(self.tokens)))

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())

    def encode(self, text):
        ids = []
        while text:
            token = max((t for t in self.special.items() if text.startswith(t[1])), key=lambda t: len(t[1]), default=None)
            # The mark in an argument is text.
            token = None if text.startswith(WITHIN) else token
            ids += [token[0]] if token else list(text[0].encode())
            text = text[len(token[1]) if token else 1 :]
        return ids

    def decode(self, ids):
        return b"".join(self.tokens[i] for i in ids).decode(errors="replace")


def consumed(vocabulary, lark, text):
    """The text that the grammar takes, and its longest part that is complete."""
    matcher = LLMatcher(LLTokenizer(TokenizerWrapper(vocabulary)), LLMatcher.grammar_from_lark(lark), log_level=0)
    if matcher.is_error():
        sys.exit(f"{matcher.get_error()}\n{lark}")
    ids = vocabulary.encode(text)
    taken, end = 0, None
    for id in ids:
        if matcher.is_stopped() or not matcher.try_consume_tokens([id]):
            break
        taken += 1
        if matcher.is_accepting():
            end = vocabulary.decode(ids[:taken])
    return vocabulary.decode(ids[:taken]), end


def start(grammar, last=False):
    """Where the first trigger is, or the last one."""
    text = grammar["answer"]
    find = text.rfind if last else text.find
    found = [find(trigger) for trigger, at_start in grammar["triggers"] if not at_start]
    first = len(text) - len(text.lstrip())
    for trigger, at_start in grammar["triggers"]:
        found += [at for at in (0, first) if at_start and text[at:].startswith(trigger)]
    return min((at for at in found if at >= 0), default=None)


def check(grammars):
    wrong, count, at = 0, 0, None
    for grammar in grammars:
        if grammar["choice"] == "Auto" or grammar["file"] == "reasoning":
            at = start(grammar)
        # From a trigger on, a grammar is about one section: where several calls are expected, the last one is looked at.
        is_last = grammar["choice"] == "Auto" and grammar["parallel"]
        section = start(grammar, last=True) if is_last else at
        vocabulary, lark, text = Bytes(grammar["tokens"]), grammar["lark"], grammar["answer"][section:]
        for written, meant in OTHERWISE.items():
            text = text.replace(written, meant)
        last = "get_time" if grammar["calls"] else "0123"

        def expect(text, holds, what):
            nonlocal wrong, count
            count += 1
            taken, end = consumed(vocabulary, lark, text)
            if not holds(taken, end or ""):
                wrong += 1
                print(f"{grammar['file']} ({grammar['format']}, {grammar['choice']}, parallel {grammar['parallel']}): {what}")
                print(f"  took {taken!r}, complete: {end!r}\n  of {text!r}\n{lark}")

        if at is None:
            wrong += 1
            print(f"{grammar['file']} ({grammar['format']}): no trigger of {grammar['triggers']} in {text!r}")
            continue
        if grammar["choice"].startswith("Named"):
            expect(text, lambda taken, _: "get_weather" not in taken, "another tool")
            continue
        if grammar["parallel"]:
            expect(text, lambda _, end: last in end, "refuses its calls")
        else:
            is_one = (lambda taken, _: "get_time" not in taken) if grammar["calls"] else (lambda _, end: last in end)
            expect(text, is_one, "not one call")
        expect(text.replace("get_weather", "get_moon"), lambda taken, _: "get_moon" not in taken, "an unknown tool")
        for key in ("days", '"days'):
            expect(text.replace(key, key + "x"), lambda taken, _: "daysx" not in taken, "an unknown argument")
    print(f"{len(grammars)} grammars, {count} texts, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        test = ["cargo", "test", "-q", "-p", "rustorch-chat", "--test", "chat", "every_format_has_grammars"]
        wanted = os.environ | {"RUSTORCH_GRAMMARS": file.name}
        subprocess.run(test, env=wanted, cwd=Path(__file__).parents[2], check=True)
        sys.exit(check(json.load(file)) > 0)
