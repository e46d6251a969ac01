"""How far llama.cpp and RusTorch are from `exact.py` on the models of `small_families.py`.

    python families.py DIR        # makes the models in DIR, and prints a table; a few seconds
    python families.py DIR --mistakes    # how far off mistakes would be, planted in the exact pass
    python families.py DIR --rustorch PROGRAM    # writes RusTorch's distances into docs/parity.md; a minute

llama.cpp has K and V in F32 and no flash attention; it takes all tokens at once, and one by
one. Its GELU is a table of F16 results for arguments rounded to F16. Two things show that nothing
else is of less than F32: the distance from an exact pass with that function (in the last column;
how one layer rounds depends on the errors of those before, so it is shown best by two layers), and
models with gates so steep that nearly all are beyond the table, where GELU is x or 0.
"""

import argparse
import subprocess
from math import erf
from pathlib import Path

import numpy as np

from compare import distance
from exact import Model
from forward.llama import Llama as Family, gelu, halves, neighbours, silu
from llama import Llama
from small_families import MODELS
from small_model import POSITIONS, VOCABULARY, write


def gelu_of_llama_cpp(x: np.ndarray) -> np.ndarray:
    argument = np.clip(x, -10, 10).astype(np.float16).astype(np.float64)
    looked_up = gelu(argument).astype(np.float16).astype(np.float64)
    return np.where(np.abs(x) < 10, looked_up, np.maximum(x, 0))


def norm_after_rope(family: Family) -> None:
    family.placed = lambda x, name, i: family.norm(family.rope(x, family.theta, 1.0), f"{name}_norm")


def norm_before_rope(family: Family) -> None:
    family.placed = lambda x, name, i: family.rope(family.norm(x, f"{name}_norm"), family.theta, 1.0)


def values_not_normed(family: Family) -> None:
    family.unweighted = lambda x: x


def router_not_scaled(family: Family) -> None:
    ones = np.full(family.hidden, family.hidden**0.5)
    family.weights = {name: ones if name.endswith("gate_inp.scale") else w for name, w in family.weights.items()}


def no_head_norms(family: Family) -> None:
    family.placed = lambda x, name, i: family.rope(x, family.theta, 1.0)


def no_embedding_scale(family: Family) -> None:
    family.embedding = lambda tokens: family.weights["token_embd.weight"][tokens]


def without(*tensors: str):
    """The tensors of every layer whose names end so are not used."""

    def plant(family: Family) -> None:
        family.weights = {name: w for name, w in family.weights.items() if not name.endswith(tensors)}

    return plant


def sets(**values):
    return lambda family: vars(family).update(values)


MISTAKES = {
    "llama, YaRN": {"all pairs scaled": sets(unscaled=0), "no pair scaled": sets(position_scale=1.0),
                    "no magnitude": sets(magnitude=1.0)},
    "llama, LongRoPE": {"short factors": sets(original_context=512), "no magnitude": sets(magnitude=1.0)},
    "llama": {"halves": sets(columns=halves)},
    "mixtral": {"one expert fewer": sets(experts_used=2), "one expert more": sets(experts_used=4),
                "weights not over their sum": sets(norms_routes=False)},
    "qwen2": {"neighbours": sets(columns=neighbours)},
    "llama, biases": {f"no {name}": without(f"{name}.bias") for name in
                      ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")},
    "qwen3": {"norms after RoPE": norm_after_rope, "no norms of heads": no_head_norms,
              "scale by hidden / heads": sets(score_scale=(80 // 6) ** -0.5)},
    "qwen3moe": {"one expert fewer": sets(experts_used=1), "one expert more": sets(experts_used=3),
                 "weights not over their sum": sets(norms_routes=False), "neighbours": sets(columns=neighbours)},
    "gemma3": {"a window of 23": sets(window=23), "a window of 25": sets(window=25), "no window": sets(window=300),
               "the first layer is global": sets(local=[i % 6 != 0 for i in range(8)]),
               "all layers are local": sets(local=[True] * 8), "one base": sets(theta_local=1e6),
               "positions not scaled": sets(position_scale=1.0), "SiLU": sets(activation=silu),
               "scale by hidden / heads": sets(score_scale=(60 // 6) ** -0.5),
               "embeddings not scaled": no_embedding_scale, "neighbours": sets(columns=neighbours)},
    "gemma3, other keys": {"no cap": sets(cap=0.0), "the usual local base": sets(theta_local=1e4)},
    "gemma3, two layers": {"GELU by erf": sets(activation=lambda x: x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2)},
    "gemma2, steep gates": {"no cap of scores": sets(score_cap=0.0), "cap of 30": sets(cap=30.0), "a window of 25": sets(window=25),
                            "odd layers local": sets(period=99)},
    "command-r": {"logits divided": sets(logit_scale=2.0)},
    "cohere2": {"a window of 25": sets(window=25), "every third": sets(period=3)},
    "granite": {"scale by head": sets(score_scale=12**-0.5), "residual not scaled": sets(residual_scale=1.0),
                "embeddings not scaled": sets(embedding_scale=1.0), "logits multiplied": sets(logit_divisor=1 / 3)},
    "granite, no RoPE": {"RoPE": sets(has_positions=True)},
    "granitemoe, shared": {"no shared expert": without("ffn_gate_shexp.weight")},
    "smollm3": {"RoPE everywhere": sets(period=99), "none in every third": sets(period=3)},
    "olmo3": {"a window of 25": sets(window=25), "every fourth": sets(period=4), "no magnitude": sets(magnitude=1.0)},
    "glm4": {"halves": sets(columns=halves)},
    "glm4, coordinates": {"neighbours": sets(columns=neighbours)},
    "phi3": {"short factors": sets(original_context=512), "neighbours": sets(columns=neighbours)},
    "qwen2moe": {"weights over their sum": sets(norms_routes=True), "no shared expert": without("ffn_gate_shexp.weight"),
                 "shared expert without its gate": without("ffn_gate_inp_shexp.weight")},
    "mistral3": {"queries do not grow": sets(beta=0.0), "an interval of 64": sets(interval=64), "no magnitude squared": sets(magnitude=1.2)},
    "gpt-oss": {"no sinks": without("attn_sinks.weight"), "no limit": sets(limit=1e9), "no biases of experts": without("exps.bias"),
                "no bias of the router": without("gate_inp.bias"), "a window of 25": sets(window=25), "odd layers local": sets(period=99)},
    "glm4moe": {"no bias for the choice": without("exp_probs_b.bias"), "softmax": sets(gating="softmax"),
                "weights not over their sum": sets(norms_routes=False), "no shared expert": without("ffn_gate_shexp.weight")},
    "glm4moe, no norms": {"no scale of weights": sets(route_scale=1.0), "weights over their sum": sets(norms_routes=True)},
    "minimax-m2": {"no bias for the choice": without("exp_probs_b.bias"), "weights not over their sum": sets(norms_routes=False)},
    "hunyuan-moe": {"norms before RoPE": norm_before_rope, "no shared expert": without("ffn_gate_shexp.weight")},
    "deepseek2": {"all groups": sets(groups=(0, 0)), "one group": sets(groups=(4, 1)), "no scale of weights": sets(route_scale=1.0),
                  "no bias for the choice": without("exp_probs_b.bias"), "halves": sets(columns=halves),
                  "scale by latent": sets(score_scale=28**-0.5)},
    "deepseek2, lite": {"no magnitude in scores": sets(score_scale=18**-0.5), "sigmoid": sets(gating="sigmoid")},
    "deepseek2, grown": {"queries do not grow": sets(beta=0.0)},
    "gemma4": {"scale by head": sets(score_scale=36**-0.5), "no cap": sets(cap=0.0), "a window of 25": sets(window=25),
               "one base": sets(local_theta=1e6), "no divisors": without("rope_freqs.weight"), "values not normed": values_not_normed},
    "gemma4, E": {"no inputs of layers": sets(per_layer=0), "no scale of layers": without("layer_output_scale.weight")},
    "gemma4, experts": {"no scale of experts": without("ffn_down_exps.scale"), "weights not over their sum": sets(norms_routes=False),
                        "router without its scale": router_not_scaled},
    "gemma3, 62 layers": {"scale by head": sets(score_scale=22**-0.5)},
}  # fmt: skip


def show_distances(path: Path, name: str, tokens: np.ndarray) -> None:
    model = Model(str(path))
    exact = model.logits(tokens)
    theirs = []
    for batch in (POSITIONS, 1):
        llama = Llama(str(path), POSITIONS, threads=1, f32=True, batch=batch)
        theirs.append(llama.logits(tokens))
        llama.close()
    found = [distance(exact, logits).nmse for logits in theirs]
    if model.family.activation is gelu:
        model.family.activation = gelu_of_llama_cpp
        found.append(distance(model.logits(tokens), theirs[0]).nmse)
    print(f"{name:26} {exact.std():9.2f}   " + "    ".join(f"{nmse:.2e}" for nmse in found), flush=True)


def show_mistakes(path: Path, name: str, tokens: np.ndarray) -> None:
    exact = Model(str(path)).logits(tokens)
    for mistake, plant in MISTAKES.get(name, {}).items():
        model = Model(str(path))
        plant(model.family)
        print(f"{name:26} {mistake:28} {distance(exact, model.logits(tokens)).nmse:.1e}", flush=True)


# RusTorch's runs: column, options, and the largest distance from the exact pass.
RUNS = [
    ("reference", ["--backend", "reference"], 1e-9),
    ("CPU", ["--backend", "cpu"], 1e-5),
    ("in steps of 37", ["--backend", "cpu", "-b", "37"], 1e-5),
    ("Vulkan", ["--backend", "vulkan"], 1e-5),
]
PAGE = Path(__file__).parents[2] / "docs/parity.md"
HEADING = "## Families"


def ours(program: Path, path: Path, tokens: np.ndarray) -> list[float] | None:
    """The NMSE of each run; none if the model is refused."""
    exact = Model(str(path)).logits(tokens)[0]
    ids, out = ",".join(str(token) for token in tokens[0]), path.with_suffix(".npy")
    found = []
    for column, options, limit in RUNS:
        run = [program, "logits", "-m", path, "--tokens", ids, "--cache-type", "f32", "-c", str(POSITIONS), "-o", out]
        ran = subprocess.run([*run, *options], capture_output=True, text=True)
        if ran.returncode:
            if "is not supported" not in ran.stderr:
                raise SystemExit(ran.stderr)
            print(ran.stderr.strip())
            return None
        found.append(float(np.sum((exact - np.load(out)) ** 2) / np.sum(exact**2)))
        if found[-1] > limit:
            raise SystemExit(f"{path.stem}, {column}: NMSE {found[-1]:.2e}, the limit is {limit:.0e}")
    return found


def write_page(rows: list[tuple[str, list[float]]]) -> None:
    """The table of all families, which is the end of the page."""
    limits = ", ".join(f"{limit:.0e} for {column}" for column, _, limit in RUNS)
    columns = [column for column, _, _ in RUNS]
    table = [["model", *columns], ["---"] * (len(columns) + 1)]
    figures = lambda found: [f"{nmse:.1e}" for nmse in found] or ["refused"] * len(columns)  # noqa: E731
    table += [[name, *figures(found)] for name, found in rows]
    text = f"""{HEADING}

Generated by `tools/oracle/families.py DIR --rustorch PROGRAM`: NMSE of the logits against an exact pass in float64, on
small random F32 models, over {POSITIONS} tokens, with K and V in F32. The limits are {limits}.

"""
    text += "".join(f"| {' | '.join(row)} |\n" for row in table)
    PAGE.write_text(PAGE.read_text(encoding="utf-8").split(HEADING)[0].rstrip() + "\n\n" + text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--mistakes", action="store_true")
    parser.add_argument("--rustorch", metavar="PROGRAM", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    tokens = np.random.default_rng(20240229).integers(VOCABULARY, size=(1, POSITIONS))
    if not args.mistakes and not args.rustorch:
        print(f"{'':26} deviation   at once     one by one  with its GELU")
    rows = []
    for seed, (name, small) in enumerate(MODELS.items()):
        path = args.folder / f"{name.replace(', ', '-').replace(' ', '-')}.gguf"
        write(path, small, seed)
        if args.rustorch:
            rows.append((name, ours(args.rustorch, path, tokens) or []))
            print(f"{name:26} " + "  ".join(f"{nmse:.2e}" for nmse in rows[-1][1]), flush=True)
        else:
            (show_mistakes if args.mistakes else show_distances)(path, name, tokens)
    if rows:
        write_page(rows)


if __name__ == "__main__":
    main()
