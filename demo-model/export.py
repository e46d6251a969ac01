"""Writes build/model.pt and the tokenizer as a GGUF file in F16, the source of all other formats."""

import argparse
from pathlib import Path

import gguf
import sentencepiece
import torch

from model import Config, Llama
from template import CHAT_TEMPLATE


def tokenizer_fields(writer: gguf.GGUFWriter, path: Path) -> None:
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    kinds = [
        (tokenizer.is_unknown, gguf.TokenType.UNKNOWN),
        (tokenizer.is_control, gguf.TokenType.CONTROL),
        (tokenizer.is_byte, gguf.TokenType.BYTE),
        (lambda _: True, gguf.TokenType.NORMAL),
    ]
    ids = range(tokenizer.vocab_size())
    writer.add_tokenizer_model("llama")
    writer.add_token_list([tokenizer.id_to_piece(i) for i in ids])
    writer.add_token_scores([tokenizer.get_score(i) for i in ids])
    writer.add_token_types([next(kind for test, kind in kinds if test(i)) for i in ids])
    writer.add_bos_token_id(tokenizer.bos_id())
    writer.add_eos_token_id(tokenizer.eos_id())
    writer.add_unk_token_id(tokenizer.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=here / "build")
    parser.add_argument("--out", type=Path, default=here / "rustorch-demo-f16.gguf")
    args = parser.parse_args()
    config = Config()
    model = Llama(config)
    model.load_state_dict(torch.load(args.build / "model.pt", map_location="cpu", weights_only=True))

    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name("RusTorch demo")
    writer.add_description("Small model trained from scratch on generated text, embedded in RusTorch")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.n_vocab)
    writer.add_context_length(config.n_ctx)
    writer.add_embedding_length(config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_feed_forward_length(config.n_ff)
    writer.add_head_count(config.n_head)
    writer.add_head_count_kv(config.n_head_kv)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.eps)
    tokenizer_fields(writer, args.build / "tokenizer.model")
    # Parameters have the names of GGUF tensors.
    for name, weight in model.state_dict().items():
        weight = weight.float().numpy()
        writer.add_tensor(name, weight.astype("float16") if weight.ndim == 2 else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.out.name}  {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
