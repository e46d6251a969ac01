"""transformers' values of a run, as `rustorch trace` records them.

    python transformers_trace.py MODEL --tokens 1,15043 -o TRACE.safetensors

MODEL is a folder as `save_pretrained` makes it, or a GGUF file of architecture `llama`, whose weights
go into a `LlamaForCausalLM`. It runs in float32 on the processor with eager attention and no cache:
one sequence from position 0 on, logits for all rows.

Values have the names of RusTorch's graph; hooks take them from the modules:

| module | input | output |
|---|---|---|
| embed_tokens | | embd |
| input_layernorm | | attn_norm-N |
| q_proj, k_proj, v_proj | | Qcur_pre-N, Kcur_pre-N, Vcur-N |
| the attention function | Qcur-N, Kcur-N | |
| o_proj | kqv_out-N | attn_out-N |
| post_attention_layernorm | ffn_inp-N | ffn_norm-N |
| gate_proj, up_proj | | ffn_gate-N, ffn_up-N |
| down_proj | ffn_swiglu-N | ffn_out-N |
| the layer | | l_out-N |
| norm, lm_head | | result_norm, result_output |

transformers rotates column i of a head with column i + d/2; GGUF files of architecture `llama` have
the rows of attn_q and attn_k in an order in which these are neighbours (`permute` of llama.cpp's
convert_hf_to_gguf.py). So Qcur and Kcur, before and after the rotation, are put into the order of the file.
"""

import argparse
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import AttentionInterface, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

import trace_file

ROTATING_HALVES = ("llama", "mistral")


def neighbours(x: torch.Tensor, heads: int) -> torch.Tensor:
    """The last dimension's halves of each head as pairs: the order of the GGUF file."""
    return x.unflatten(-1, (heads, 2, -1)).transpose(-1, -2).flatten(-3)


def halves(x: torch.Tensor, heads: int) -> torch.Tensor:
    """The reverse of `neighbours`."""
    return x.unflatten(-1, (heads, -1, 2)).transpose(-1, -2).flatten(-3)


def from_gguf(path: str) -> LlamaForCausalLM:
    from gguf import GGUFReader
    from gguf.quants import dequantize

    tensors, meta = {}, None
    for part in trace_file.files(path):
        reader = GGUFReader(part)
        meta = meta or {key: field.contents() for key, field in reader.fields.items()}
        tensors |= {t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
    if meta["general.architecture"] != "llama":
        raise SystemExit(f"{path}: architecture {meta['general.architecture']}, expected llama")

    def get(key: str, default=None):
        value = meta.get(f"llama.{key}", default)
        if value is None:
            raise SystemExit(f"{path}: llama.{key} is missing")
        return value

    hidden, heads = get("embedding_length"), get("attention.head_count")
    kv_heads, head_dim = get("attention.head_count_kv", heads), get("attention.key_length", hidden // heads)
    rope = {"rope_type": "default", "rope_theta": float(get("rope.freq_base", 10000.0))}
    if get("rope.scaling.type", "none") == "linear":
        rope |= {"rope_type": "linear", "factor": float(get("rope.scaling.factor"))}
    elif get("rope.scaling.type", "none") != "none":
        raise SystemExit(f"{path}: llama.rope.scaling.type {get('rope.scaling.type')} is not supported here")
    if (get("attention.value_length", head_dim), get("rope.dimension_count", head_dim)) != (head_dim, head_dim):
        raise SystemExit(f"{path}: keys, values and rotated columns must be of one width in transformers")
    vocab = tensors["token_embd.weight"].shape[0]
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=get("feed_forward_length"),
        num_hidden_layers=get("block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=head_dim, max_position_embeddings=get("context_length"),
        rms_norm_eps=get("attention.layer_norm_rms_epsilon"), rope_parameters=rope,
        tie_word_embeddings="output.weight" not in tensors,
    ))  # fmt: skip

    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
             "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj"}  # fmt: skip
    if (factors := tensors.pop("rope_freqs.weight", None)) is not None:
        model.model.rotary_emb.inv_freq /= factors
    state = {}
    for name, weight in tensors.items():
        *layer, base, _ = name.split(".")
        if base in ("attn_q", "attn_k"):
            weight = halves(weight.T, heads if base == "attn_q" else kv_heads).T
        prefix = f"model.layers.{layer[1]}." if layer else ""
        state[f"{prefix}{names[base]}.weight"] = weight
    if "lm_head.weight" not in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def tap(model: torch.nn.Module, add) -> None:
    """Hooks that give `add` each value: its name, and a tensor [1, positions, ..]."""
    heads, kv_heads = model.config.num_attention_heads, model.config.num_key_value_heads

    def output(module: torch.nn.Module, name: str, change=lambda x: x) -> None:
        module.register_forward_hook(lambda module, args, out: add(name, change(out)))

    def input_(module: torch.nn.Module, name: str) -> None:
        module.register_forward_pre_hook(lambda module, args: add(name, args[0]))

    def attention(module, query, key, *args, **kwargs):
        for name, x in [("Qcur", query), ("Kcur", key)]:  # [1, heads, positions, head_dim]
            add(f"{name}-{module.layer_idx}", neighbours(x.transpose(1, 2).flatten(-2), x.shape[1]))
        return eager_attention_forward(module, query, key, *args, **kwargs)

    AttentionInterface.register("traced", attention)
    AttentionMaskInterface.register("traced", eager_mask)
    model.set_attn_implementation("traced")

    output(model.model.embed_tokens, "embd")
    for i, layer in enumerate(model.model.layers):
        attn, mlp = layer.self_attn, layer.mlp
        output(layer.input_layernorm, f"attn_norm-{i}")
        output(attn.q_proj, f"Qcur_pre-{i}", lambda x: neighbours(x, heads))
        output(attn.k_proj, f"Kcur_pre-{i}", lambda x: neighbours(x, kv_heads))
        output(attn.v_proj, f"Vcur-{i}")
        input_(attn.o_proj, f"kqv_out-{i}")
        output(attn.o_proj, f"attn_out-{i}")
        input_(layer.post_attention_layernorm, f"ffn_inp-{i}")
        output(layer.post_attention_layernorm, f"ffn_norm-{i}")
        output(mlp.gate_proj, f"ffn_gate-{i}")
        output(mlp.up_proj, f"ffn_up-{i}")
        input_(mlp.down_proj, f"ffn_swiglu-{i}")
        output(mlp.down_proj, f"ffn_out-{i}")
        output(layer, f"l_out-{i}", lambda out: out[0] if isinstance(out, tuple) else out)
    output(model.model.norm, "result_norm")
    output(model.lm_head, "result_output")


def run(path: str, tokens: list[int], out: str) -> None:
    is_file = Path(path).suffix == ".gguf"
    model = from_gguf(path) if is_file else AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    if model.config.model_type not in ROTATING_HALVES:
        raise SystemExit(f"{path}: model type {model.config.model_type}, expected one of {ROTATING_HALVES}")
    if bad := [token for token in tokens if not 0 <= token < model.config.vocab_size]:
        raise SystemExit(f"token {bad[0]} is outside the vocabulary of {model.config.vocab_size}")
    writer = trace_file.Writer(out)

    def add(name: str, value: torch.Tensor) -> None:
        writer.add(name, value[0].numpy())

    tap(model.eval(), add)
    with torch.no_grad():
        model(torch.tensor([tokens]), use_cache=False)
    writer.finish({
        "producer": f"transformers {version('transformers')}, torch {version('torch')}",
        "backend": "transformers",
        "facts": "float32, eager attention",
        "model": path,
        "n_layer": str(model.config.num_hidden_layers),
        "types": "dequantised to float32" if is_file else "float32",
        "kv": "f32",
        "tokens": ",".join(map(str, tokens)),
    } | ({"model_digest": trace_file.digest(path)} if is_file else {}))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--tokens", type=trace_file.ids, required=True, metavar="IDS")
    parser.add_argument("-o", "--output", required=True, metavar="TRACE.safetensors")
    args = parser.parse_args()
    if not args.tokens:
        parser.error("--tokens names no token")
    run(args.model, args.tokens, args.output)


if __name__ == "__main__":
    main()
