"""Quantises the weights of a saved checkpoint as its users find them."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BLOCK = 32


def rewrite(folder: Path, change, config: dict) -> None:
    for shard in folder.glob("*.safetensors"):
        tensors = {}
        for name, tensor in load_file(shard).items():
            tensors |= change(name, tensor)
        save_file(tensors, shard, {"format": "pt"})
    # The names have changed, so the list is written anew.
    shards = sorted(folder.glob("*.safetensors"))
    weights = {name: shard.name for shard in shards for name in load_file(shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": config}))


def fp8(folder: Path) -> None:
    """Blocks of 32 times 32, as DeepSeek and Qwen have them of 128 times 128."""

    def change(name: str, tensor: torch.Tensor) -> dict:
        if tensor.ndim != 2 or "embed" in name or "lm_head" in name:
            return {name: tensor}
        rows, columns = (-(-length // BLOCK) for length in tensor.shape)
        padded = torch.zeros(rows * BLOCK, columns * BLOCK)
        padded[: tensor.shape[0], : tensor.shape[1]] = tensor.float()
        blocks = padded.view(rows, BLOCK, columns, BLOCK)
        scale = blocks.abs().amax((1, 3)) / 448
        values = (blocks / scale[:, None, :, None]).view(padded.shape)[: tensor.shape[0], : tensor.shape[1]]
        return {name: values.to(torch.float8_e4m3fn).contiguous(), f"{name}_scale_inv": scale}

    config = {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK], "activation_scheme": "dynamic", "fmt": "e4m3"}
    rewrite(folder, change, config)


def mxfp4(folder: Path) -> None:
    """Experts as gpt-oss has them: outputs, then blocks of 16 bytes; random, as all bits are a number."""
    torch.manual_seed(5)

    def change(name: str, tensor: torch.Tensor) -> dict:
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            return {name: tensor}
        experts, inputs, outputs = tensor.shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        scales = torch.randint(118, 124, (experts, outputs, inputs // 32), dtype=torch.uint8)
        return {f"{name}_blocks": blocks, f"{name}_scales": scales}

    rewrite(folder, change, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})


# The values of 4 bits: sign, two bits of exponent, one of mantissa.
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def dense(folder: Path) -> Path:
    """A copy of the checkpoint with the values of its weights in F32."""
    out = folder.with_name(folder.name + ".dense")
    out.mkdir(exist_ok=True)
    tensors = {name: tensor for shard in folder.glob("*.safetensors") for name, tensor in load_file(shard).items()}
    values = {}
    for name, tensor in tensors.items():
        if name.endswith(("_scale_inv", "_scales")):
            continue
        if (scale := tensors.get(f"{name}_scale_inv")) is not None:
            rows, columns = tensor.shape
            scale = scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:rows, :columns]
            values[name] = tensor.float() * scale
        elif name.endswith("_blocks"):
            name = name.removesuffix("_blocks")
            pairs = torch.stack([VALUES[(tensor & 15).long()], VALUES[(tensor >> 4).long()]], -1).flatten(-2)
            pairs = pairs * 2.0 ** (tensors[f"{name}_scales"].float()[..., None] - 127)
            values[name] = pairs.flatten(-2).transpose(1, 2).contiguous()
        else:
            values[name] = tensor.float()
    save_file(values, out / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config")
    (out / "config.json").write_text(json.dumps(config))
    return out


METHODS = {"fp8": fp8, "mxfp4": mxfp4}
