"""Writes the models for the tests: the real one, the same with tokens for infilling, and an encoder and a reranker with BERT's
vocabulary and random weights.

    stand_ins.py --model STORIES --vocab FOLDER OUT
"""

import argparse
import shutil
from pathlib import Path

import numpy
from gguf import GGUFReader, GGUFValueType, GGUFWriter

WIDTH, HIDDEN, LAYERS, HEADS, TOKENS = 32, 64, 2, 4, 512


def value_of(field):
    """The type and value of a field."""
    return field.types[0], field.contents(), field.types[-1]


def copy_metadata(reader, writer, keep):
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture" and keep(field.name):
            kind, value, item = value_of(field)
            writer.add_key_value(field.name, value, kind, item if kind == GGUFValueType.ARRAY else None)


def save(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def infill(model, out):
    """The model, in whose vocabulary three bytes begin, divide and end what is to be filled in."""
    reader = GGUFReader(model)
    writer = GGUFWriter(out, "llama")
    copy_metadata(reader, writer, lambda name: True)
    for name, token in [("fim_pre", 4), ("fim_suf", 5), ("fim_mid", 6)]:
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", token)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    save(writer)


def bert(vocab, out, pooling, labels):
    random = numpy.random.default_rng(1)
    reader = GGUFReader(vocab)
    writer = GGUFWriter(out, "bert")
    copy_metadata(reader, writer, lambda name: name.startswith("tokenizer."))
    n_vocab = len(reader.fields["tokenizer.ggml.tokens"].contents())
    writer.add_context_length(TOKENS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", pooling)

    def tensor(name, *shape):
        writer.add_tensor(name, random.standard_normal(shape, dtype=numpy.float32) / 8)

    def norm(name):
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, numpy.float32))
        writer.add_tensor(f"{name}.bias", numpy.zeros(WIDTH, numpy.float32))

    def linear(name, out, into):
        tensor(f"{name}.weight", out, into)
        tensor(f"{name}.bias", out)

    tensor("token_embd.weight", n_vocab, WIDTH)
    tensor("position_embd.weight", TOKENS, WIDTH)
    tensor("token_types.weight", 2, WIDTH)
    norm("token_embd_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            linear(f"{block}.{name}", WIDTH, WIDTH)
        linear(f"{block}.ffn_up", HIDDEN, WIDTH)
        linear(f"{block}.ffn_down", WIDTH, HIDDEN)
        norm(f"{block}.attn_output_norm")
        norm(f"{block}.layer_output_norm")
    if labels:
        linear("cls", WIDTH, WIDTH)
        linear("cls.output", labels, WIDTH)
    save(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--vocab", type=Path, required=True)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    vocab = arguments.vocab / "ggml-vocab-bert-bge.gguf"
    shutil.copyfile(arguments.model, arguments.out / "stories.gguf")
    infill(arguments.model, arguments.out / "infill.gguf")
    cls, rank = 2, 4
    bert(vocab, arguments.out / "encoder.gguf", cls, 0)
    bert(vocab, arguments.out / "reranker.gguf", rank, 1)


if __name__ == "__main__":
    main()
