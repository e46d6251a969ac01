"""Token ids by llama.cpp, for the tests of the tokenizer crate.

    python tools/goldens/tokenizer.py VOCABULARIES TRAINED

VOCABULARIES is a folder with the ggml-vocab-*.gguf files of llama.cpp, TRAINED one with those of vocabularies.py.
Writes crates/tokenizer/goldens/<vocabulary>.json for the former, and made-<name>.json for tiny vocabularies made
here and in TRAINED (these hold their metadata too). Takes tools/requirements.txt.

A case is [text, [ids...], decoded]: the ids for (add_special, parse_special) = (false, false),
(true, false), (false, true), (true, true), null where the same as the first; `decoded` is
llama_detokenize of the third without special tokens for SentencePiece and unigram, and the pieces one after the
other for BPE and WordPiece (llama_detokenize cleans up spaces there, generation does not), null where it is the text.
"""

import ctypes
import json
import random
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp
from texts import TEXTS

OUT = Path(__file__).parents[2] / "crates/tokenizer/goldens"

def random_texts(count):
    """Texts of random characters from classes that split differently, always the same ones."""
    rng = random.Random(20240605)
    classes = ["abcXYZ", "0123456789", "    ", "\n\r\t ", "'’", "sStTmMdDreRElLvV", "!?.,;:-_()<>|", "éüñßøÅ", "日本語中文한국", "абвгд", "אבגד", "عربي",
               "\u0301\u0302\u200d\ufe0f", "😀👍🏽🦙", "\u00a0\u3000\u2003\u0085", "½²Ⅷ٣", "\x00\x01\x7f", "▁"]
    return ["".join(rng.choice(rng.choice(classes)) for _ in range(rng.randint(2, 24))) for _ in range(count)]


class Vocabulary:
    def __init__(self, path):
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.cleans_up = llama_cpp.llama_vocab_type(self.vocab) in (llama_cpp.LLAMA_VOCAB_TYPE_BPE, llama_cpp.LLAMA_VOCAB_TYPE_WPM)

    def encode(self, text, add_special, parse_special):
        data = text.encode()
        room = len(data) + 8
        ids = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, room, add_special, parse_special)
        assert n >= 0
        return list(ids[:n])

    def decode(self, ids):
        if self.cleans_up:
            out = b""
            for i in ids:
                piece = ctypes.create_string_buffer(4096)
                n = llama_cpp.llama_token_to_piece(self.vocab, i, piece, 4096, 0, False)
                assert n >= 0
                out += piece.raw[:n]
        else:
            piece = ctypes.create_string_buffer(1 << 16)
            tokens = (llama_cpp.llama_token * max(len(ids), 1))(*ids)
            n = llama_cpp.llama_detokenize(self.vocab, tokens, len(ids), piece, 1 << 16, False, False)
            assert n >= 0
            out = piece.raw[:n]
        return out.decode(errors="replace")

    def case(self, text):
        variants = [self.encode(text, add, parse) for add, parse in [(False, False), (True, False), (False, True), (True, True)]]
        decoded = self.decode(variants[2])
        variants = variants[:1] + [None if v == variants[0] else v for v in variants[1:]]
        return [text, variants, None if decoded == text else decoded]

    def goldens(self, texts):
        n = llama_cpp.llama_vocab_n_tokens(self.vocab)
        ids = {name: getattr(llama_cpp, f"llama_vocab_{name}")(self.vocab) for name in ["bos", "eos", "eot", "sep", "pad"]}
        return {
            "ids": {name: None if id < 0 else id for name, id in ids.items()},
            "end_of_generation": [i for i in range(n) if llama_cpp.llama_vocab_is_eog(self.vocab, i)],
            "add_bos": bool(llama_cpp.llama_vocab_get_add_bos(self.vocab)),
            "add_eos": bool(llama_cpp.llama_vocab_get_add_eos(self.vocab)),
            "add_sep": bool(llama_cpp.llama_vocab_get_add_sep(self.vocab)),
            "cases": [self.case(text) for text in texts],
        }


def save(name, goldens):
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in goldens.pop("cases")]
    head = json.dumps(goldens, ensure_ascii=False, separators=(",", ":"))[:-1]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(head + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n")


NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def made_spm(**settings):
    """Scores that pull in different directions, ties, a user-defined and a control token, all bytes."""
    tokens = [("<unk>", 0, UNKNOWN), ("<s>", 0, CONTROL), ("</s>", 0, CONTROL)]
    tokens += [(f"<0x{b:02X}>", 0, BYTE) for b in range(256)]
    pieces = ["▁", "a", "b", "c", "1", "é", "ab", "bc", "abc", "▁a", "▁ab", "▁▁", "▁▁▁▁", "aa", "aaaa", "c▁a", "本本", "x|"]
    scores = [-9, -9, -9, -9, -9, -9, -2, -1, -3, -2, -2.5, -4, -5, -1, -0.5, -0.25, -6, -7]
    tokens += [(piece, score, NORMAL) for piece, score in zip(pieces, scores, strict=True)]
    tokens += [("<|im_end|>", 0, CONTROL), ("<|endoftext|>", 0, CONTROL), ("[tool]", 0, USER), ("[tool]b", 0, USER), ("unused", -1, UNUSED), ("zz", -3, NORMAL)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [t for t, _, _ in tokens],
        "tokenizer.ggml.scores": [float(s) for _, s, _ in tokens],
        "tokenizer.ggml.token_type": [k for _, _, k in tokens],
        **settings,
    }


def made_bpe(pre, **settings):
    """The byte alphabet without `z`, some merges, a token no merge makes, a merge whose result is no token."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    alphabet = [chr(b) if b in printable else chr(next(others)) for b in range(256)]
    merges = ["a b", "b c", "ab c", "Ġ a", "Ġa b", "1 2", "12 3", "Ġ Ġ", "Ċ Ċ", "Ã ©", "x y", "xy x", "d e", "e d", "' s"]
    results = ["".join(m.split()) for m in merges if m != "x y"]
    tokens = [(c, NORMAL) for c in alphabet if c != "z"] + [(r, NORMAL) for r in results] + [("abcabc", NORMAL), ("123123", NORMAL)]
    tokens += [("<|endoftext|>", CONTROL), ("<|eot_id|>", CONTROL), ("[tool]", USER), ("<|fim_pad|>", NORMAL)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [t for t, _ in tokens],
        "tokenizer.ggml.token_type": [k for _, k in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": [t for t, _ in tokens].index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": [t for t, _ in tokens].index("<|endoftext|>"),
        **settings,
    }


MADE = {
    "spm": made_spm(),
    "spm-no-prefix-eos": made_spm(**{"tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.add_bos_token": False}),
    "spm-phi3": made_spm(**{"general.name": "My Phi3 Tune"}),
    "bpe-gpt-2": made_bpe("gpt-2"),
    "bpe-llama-bpe": made_bpe("llama-bpe"),
    "bpe-deepseek-coder": made_bpe("deepseek-coder"),
    "bpe-qwen2": made_bpe("qwen2", **{"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}),
}

MADE_TEXTS = [
    "", " ", "  ", "     ", "a", " a", "ab", "abc", " abc", "abcabc", " abcabc", "aaa", "aaaaa", "aaaaaaa", "bcbc", "abab", "c a", "abc abc", "ca", "本", "本本", "本本本",
    "1", "12", "123", "1234", "123123", "1231231", "\n", "\n\n", "\n\n\n", "a\n\nb", "a's 's", "A'S", "é", "éé", "e\u0301", "😀", "x", "xy", "xyx", "xyxy", "dede", "eded", "ded", "z", "az", "zz", "▁", "a▁b",
    "<s>", "</s>", "<unk>", "a<s>b", "a <s> b", "<s>\n b", "<unk> b", "</s>  b", "<0x41>", "<|im_end|>", "a<|im_end|> b", "<|im_end|>\n\n b", "[tool]", "a[tool]b", "[tool] b", "[tool]bc", "a [tool]a", "[too", "<|endoftext|>",
    "a<|endoftext|>b", "<|eot_id|>", " <|eot_id|> ", "<|fim_pad|>", "unused", "x|", "<|im_ab|>", "\x00", "\x7f", "\u00a0", "  a  b  ", "a \n b",
]


def save_llama_excerpt(path):
    """The tokens of Llama's vocabulary that occur in a few texts, so that these can be tested anywhere."""
    texts = ["1", " 1", "\n", "\t", "\r", "Hello", "Hello world\n", "<|user|>\n1<|assistant|>", "<|user|>\n1</s>\n<|assistant|>\n", "a  b\t c\r\n"]
    joined = "\0".join("\u2581" + text.replace(" ", "\u2581") for text in texts)
    fields = gguf.GGUFReader(path).fields
    tokens, scores, kinds = (fields[f"tokenizer.ggml.{name}"].contents() for name in ["tokens", "scores", "token_type"])
    keep = [i for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind != NORMAL or token in joined]
    excerpt = {"vocab_size": len(tokens), "tokens": [[i, tokens[i], scores[i], kinds[i]] for i in keep]}
    save("llama-excerpt", {**excerpt, "cases": [Vocabulary(path).case(text) for text in texts]})


def save_trained(path):
    fields = gguf.GGUFReader(path).fields.items()
    metadata = {key: field.contents() for key, field in fields if key.startswith("tokenizer.")}
    save(f"made-{path.stem}", {"metadata": metadata, **Vocabulary(path).goldens(TEXTS + random_texts(60))})


def main():
    folder = Path(sys.argv[1])
    for path in sorted(Path(sys.argv[2]).glob("tiny-*.gguf")):
        save_trained(path)
    save_llama_excerpt(folder / "ggml-vocab-llama-spm.gguf")
    for name in ["llama-spm", "phi-3", "llama-bpe", "qwen2", "gpt-2", "deepseek-coder"]:
        save(name, Vocabulary(folder / f"ggml-vocab-{name}.gguf").goldens(TEXTS + random_texts(60)))
    for name, metadata in MADE.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vocab.gguf"
            writer = gguf.GGUFWriter(path, "llama")
            for key, number in {"context_length": 8, "embedding_length": 8, "block_count": 1, "feed_forward_length": 8, "attention.head_count": 1}.items():
                writer.add_uint32(f"llama.{key}", number)
            writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
            for key, value in metadata.items():
                {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}[type(value)](key, value)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.close()
            save(f"made-{name}", {"metadata": metadata, **Vocabulary(path).goldens(MADE_TEXTS)})


if __name__ == "__main__":
    main()
