"""Results of llama.cpp's built-in chat templates, for the tests of the chat crate.

    python builtin_templates.py

Writes crates/chat/goldens/builtin.json: [name, conversation, add_generation_prompt, text] for every template of
`llama_chat_builtin_templates`. Takes tools/requirements.txt.
"""

import ctypes
import json
from pathlib import Path

import llama_cpp
from conversations import turns

OUT = Path(__file__).parents[2] / "crates/chat/goldens/builtin.json"
CONVERSATIONS = [
    turns("Hello"),
    turns("Hello", system="  Be brief.\n"),
    turns(" a \n", "\n b ", "c ü", "d", system="Sys"),
    turns("a", "b"),
    [{"role": "system", "content": "one"}, {"role": "system", "content": "two"}, *turns("a", "b", "c")],
    [*turns("a", "b"), {"role": "tool", "content": " t "}, {"role": "assistant_tool_call", "content": "c"}],
]


def apply(name, messages, add_generation_prompt):
    chat = (llama_cpp.llama_chat_message * len(messages))()
    for slot, message in zip(chat, messages):
        slot.role, slot.content = message["role"].encode(), message["content"].encode()
    out = ctypes.create_string_buffer(1 << 16)
    size = llama_cpp.llama_chat_apply_template(name.encode(), chat, len(messages), add_generation_prompt, out, len(out))
    assert 0 <= size < len(out), (name, size)
    return out.raw[:size].decode()


count = llama_cpp.llama_chat_builtin_templates(None, 0)
names = (ctypes.c_char_p * count)()
llama_cpp.llama_chat_builtin_templates(names, count)
cases = [
    [name.decode(), i, add, apply(name.decode(), messages, add)]
    for name in names
    for i, messages in enumerate(CONVERSATIONS)
    for add in (False, True)
]
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
conversations = ",\n".join(json.dumps(c, ensure_ascii=False) for c in CONVERSATIONS)
OUT.write_text(f'{{"conversations": [\n{conversations}\n],\n"cases": [\n{lines}\n]}}\n')
