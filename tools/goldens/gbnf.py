#!/usr/bin/env python3
"""Texts that llama.cpp accepts under GBNF grammars, for crates/grammar/goldens/gbnf.json.

Takes tools/requirements.txt. Run from the repository root:
    python3 tools/goldens/gbnf.py

The vocabulary has a token for each byte, so that a verdict does not depend on tokens. Grammars and the texts that they accept are
written by hand; further texts are made from them by small changes. A text is accepted if each of its bytes may follow, and the
end of generation at last.
"""

import ctypes
import json
import pathlib
import random
import tempfile

import gguf
import llama_cpp as llama

JSON = r'''
# JSON, with white space anywhere.
root ::= ws value
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (member ("," ws member)*)? "}" ws
member ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]*
'''

GRAMMARS = [
    (JSON, ['{}', ' [1, 2.5e-3, "a\\u00e4b"]', '{"a": {"b": [true, null]}}', '"x y"', '-0.5', '[[[]]]', '"漢字 ä"', '{"a":1 ,"b":"\\\\"}']),
    ('root ::= expr\nexpr ::= term ([-+] ws term)*\nterm ::= factor ([*/] ws factor)*\nfactor ::= num | "(" ws expr ")" ws\nnum ::= [0-9]+ ws\nws ::= " "*\n',
     ["1", "1+2*3", "(1 + 2) *3", "((7))", "12 / 4-5 "]),
    ('root ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"\n', ["- a\n", "- a b\n- c\n", "- ä - b\n"]),
    ('root ::= ("1. " move " " move "\\n" ([1-9] [0-9]? ". " move " " move "\\n")*)\nmove ::= (pawn | piece | castle) [+#]?\n'
     'pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBRQ])?\npiece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]\ncastle ::= "O-O" "-O"?\n',
     ["1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n", "1. exd5 Qxd5+\n10. O-O-O O-O#\n", "1. R1a3 h8=Q\n"]),
    # Where the longest lexeme is wrong.
    ('root ::= a "x" | "(" root ")"\na ::= [a-z]+\n', ["abx", "(xx)", "((bx))", "axxx"]),
    ('root ::= "ab" "c" | "a" "bd" | "[" root "]"\n', ["abc", "abd", "[abd]", "[[abc]]"]),
    ('root ::= item ("," item)* | "<" root ">"\nitem ::= "a"* | "aab"\n', ["a,aab", ",", "", "<aa,aab,>", "aab"]),
    ('root ::= s "\\"" | "{" root "}"\ns ::= "\\"" [^"]* "\\""\n', ['"a""', '{"b c""}', '"""']),
    ('root ::= "{" root? "}" "a"{2} "b"{1,} "c"{0,2} "d"{2,3}\n', ["{}aabdd", "{{}aabbccddd}aabdd", "{}aabcdd"]),
    ('root ::= [\\u3041-\\u309f]{1,3} | "\\U0001F600" | "\\x41" root\n', ["ぁ", "ゟあい", "😀", "A😀", "AAあ"]),
    ('root ::= [^a-c\\]]+ "]" | [-x]  [\\-^] "[" root\n', ["d]", "ää\n]", "x^[d]", "--[x]"]),
    ('root ::= .{2} "!" | "(" root ")"\n', ["ab!", "(\n漢!)", "!!!"]),
    ('# a comment\nroot ::= # another\n  ( "a" # inner\n    | "b"\n  ) rest |\n  "c"\nrest ::= "" | "d" rest\n', ["a", "bdd", "c"]),
    ('root ::= A-b1? "." B\nA-b1 ::= [0-9]+\nB ::= [0-9]*\n', [".", "1.", "12.34"]),
    ('root ::= ("a" | "b"? "c")* "d" root?\n', ["d", "acbcd", "dadd"]),
    ('root ::= (("x" ","?)+ ";"){2}\n', ["x;x;", "xx,;x,x;"]),
    ('root ::= "if" ws name | "iffy" | "(" root ")"\nws ::= " "+\nname ::= [a-z]+\n', ["if  a", "iffy", "(if if)"]),
]  # fmt: skip


def vocabulary(folder):
    path = pathlib.Path(folder) / "bytes.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    special = ["<unk>", "<s>", "</s>"]
    writer.add_token_list(special + [f"<0x{byte:02X}>" for byte in range(256)])
    writer.add_token_scores([0.0] * 259)
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(str(path).encode(), params)
    assert model
    return llama.llama_model_get_vocab(model)


def may_follow(sampler, token):
    data = (llama.llama_token_data * 1)(llama.llama_token_data(id=token, logit=0.0, p=0.0))
    array = llama.llama_token_data_array(data=data, size=1, selected=-1, sorted=False)
    llama.llama_sampler_apply(sampler, ctypes.byref(array))
    return data[0].logit == 0.0


def is_accepted(vocab, grammar, text):
    sampler = llama.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
    assert sampler, grammar
    try:
        for byte in text.encode():
            if not may_follow(sampler, byte + 3):
                return False
            llama.llama_sampler_accept(sampler, byte + 3)
        return may_follow(sampler, 2)
    finally:
        llama.llama_sampler_free(sampler)


def changed(text, rng):
    letters = sorted(set(text)) or ["a"]
    at = rng.randrange(len(text) + 1)
    roll = rng.randrange(4)
    if roll == 0:
        return text[:at] + rng.choice(letters) + text[at:]
    if roll == 1:
        return text[:at] + text[at + 1 :]
    if roll == 2:
        return text[:at]
    return text[:at] + rng.choice(letters) + text[at + 1 :]


def main():
    log = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(log, ctypes.c_void_p(0))
    rng = random.Random(7)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        vocab = vocabulary(folder)
        for grammar, texts in GRAMMARS:
            assert all(is_accepted(vocab, grammar, text) for text in texts), (grammar, texts)
            every = list(dict.fromkeys(texts + [changed(changed(text, rng) if rng.random() < 0.3 else text, rng) for text in texts for _ in range(12)]))
            cases.append([grammar, [[text, is_accepted(vocab, grammar, text)] for text in every]])
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    pathlib.Path("crates/grammar/goldens/gbnf.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    verdicts = [accepted for _, texts in cases for _, accepted in texts]
    print(f"{len(cases)} grammars, {len(verdicts)} texts, {sum(verdicts)} accepted")


if __name__ == "__main__":
    main()
