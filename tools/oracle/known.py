"""What llama.cpp says at temperature 0: how the answers in crates/cli/src/verify/known.rs come about.

    python known.py MODEL.gguf --tokens 1,15043 -n 5                            # the ids that follow, and their text
    python known.py MODEL.gguf --tokens 1,15043 --logits 13,0                   # the logits of ids after them
    python known.py MODEL.gguf --text "Hello" -n 12                             # a text as it is
    python known.py MODEL.gguf --chat "What is the capital of France?" -n 40    # through the file's template
    python known.py MODEL.gguf --row 29896                                      # a row of the embedding, by `gguf`
"""

import argparse
import ctypes

import jinja2
import llama_cpp as lib
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from llama import Llama
from perplexity import tokenize

POSITIONS = 256


def greedy(llama: Llama, prompt: list[int], most: int) -> list[int]:
    """The most probable tokens, one after the other, up to the first that ends an answer."""
    vocab = lib.llama_model_get_vocab(llama.model)
    tokens = list(prompt)
    while len(tokens) < len(prompt) + most:
        tokens.append(int(llama.sequence(np.array(tokens))[-1].argmax()))
        if lib.llama_vocab_is_eog(vocab, tokens[-1]):
            break
    return tokens[len(prompt) :]


def text(llama: Llama, tokens: list[int]) -> str:
    vocab = lib.llama_model_get_vocab(llama.model)
    raw = b""
    for token in tokens:
        piece = ctypes.create_string_buffer(256)
        length = lib.llama_token_to_piece(vocab, token, piece, len(piece), 0, False)
        raw += piece.raw[:length]
    return raw.decode(errors="replace")


def chat(meta: dict, question: str) -> str:
    """The prompt that the file's template makes, as transformers renders it."""
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(meta["tokenizer.chat_template"])
    pieces = meta["tokenizer.ggml.tokens"]
    special = {f"{name}_token": pieces[meta[f"tokenizer.ggml.{name}_token_id"]] for name in ("bos", "eos")}
    said = [{"role": "user", "content": question}]
    return template.render(messages=said, add_generation_prompt=True, **special)


def show_row(reader: GGUFReader, row: int) -> None:
    table = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    values = dequantize(table.data[row : row + 1], table.tensor_type)[0]
    rms = np.sqrt(np.mean(values.astype(np.float64) ** 2))
    print(", ".join(f"{value:.9f}" for value in values[:5]), f"RMS {rms:.9f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    said = parser.add_mutually_exclusive_group(required=True)
    said.add_argument("--tokens", type=lambda ids: [int(id) for id in ids.split(",")])
    said.add_argument("--text")
    said.add_argument("--chat")
    said.add_argument("--row", type=int)
    parser.add_argument("--logits", type=lambda ids: [int(id) for id in ids.split(",")])
    parser.add_argument("-n", type=int, default=5)
    args = parser.parse_args()
    reader = GGUFReader(args.model)
    if args.row is not None:
        return show_row(reader, args.row)
    llama = Llama(args.model, POSITIONS)
    vocab = lib.llama_model_get_vocab(llama.model)
    prompt = args.tokens
    if args.text is not None:
        prompt = tokenize(vocab, args.text)
    elif args.chat is not None:
        meta = {key: field.contents() for key, field in reader.fields.items()}
        prompt = tokenize(vocab, chat(meta, args.chat), parse_special=True)
    if args.logits:
        logits = llama.sequence(np.array(prompt))[-1]
        print({id: float(logits[id]) for id in args.logits})
    else:
        tokens = greedy(llama, prompt, args.n)
        print(tokens, repr(text(llama, tokens)))
    llama.close()


if __name__ == "__main__":
    main()
