#!/usr/bin/env python3
"""The tokens that llama.cpp's samplers keep, for crates/engine/goldens/sampling.json.

Needs llama-cpp-python 0.3.36. Run from the repository root:
    python3 tools/goldens/sampling.py

Logits are those of `splitmix.py`.
"""

import bisect
import ctypes
import itertools
import json
import math
import pathlib

import llama_cpp as llama

from splitmix import logits, splitmix64


def bias_sampler(n, biases):
    array = (llama.llama_logit_bias * len(biases))(*[llama.llama_logit_bias(t, b) for t, b in biases])
    return llama.llama_sampler_init_logit_bias(n, len(biases), array)


def apply(values, samplers, history=()):
    """Applies samplers in turn; returns {id: logit} of what is kept."""
    data = (llama.llama_token_data * len(values))()
    for i, value in enumerate(values):
        data[i] = llama.llama_token_data(i, value, 0.0)
    array = llama.llama_token_data_array(data, len(values), -1, False)
    for sampler in samplers:
        for token in history:
            llama.llama_sampler_accept(sampler, token)
        llama.llama_sampler_apply(sampler, ctypes.byref(array))
        llama.llama_sampler_free(sampler)
    return {array.data[i].id: array.data[i].logit for i in range(array.size)}


cases = []


def case(seed, n, history=(), **options):
    """One chain in llama.cpp's default order; options are the fields of `Params`."""
    values = logits(seed, n)
    samplers = []
    if biases := options.get("logit_bias"):
        samplers.append(bias_sampler(n, biases))
    penalties = [options.get(name, off) for name, off in PENALTIES.items()]
    if penalties[1:] != [1.0, 0.0, 0.0]:
        samplers.append(llama.llama_sampler_init_penalties(n, *penalties))
    if k := options.get("top_k"):
        samplers.append(llama.llama_sampler_init_top_k(k))
    for name in ["typical_p", "top_p", "min_p"]:
        if name in options:
            make = {"typical_p": llama.llama_sampler_init_typical}.get(name) or getattr(llama, f"llama_sampler_init_{name}")
            samplers.append(make(options[name], 1))
    kept = apply(values, samplers, history)
    ids = sorted(kept)
    changed = {i: kept[i] for i in ids if kept[i] != values[i]}
    entry = {"seed": seed, "n": n, "options": options, "kept": "all" if len(ids) == n else ids}
    if history:
        entry["history"] = list(history)
    if changed:
        entry["changed"] = sorted(changed.items())
    cases.append(entry)


PENALTIES = {"repeat_last_n": 64, "repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}

for seed, (n, k) in enumerate(itertools.product([5, 64, 1000], [1, 4, 40, 200])):
    case(seed, n, top_k=k)
for seed, (n, p) in enumerate(itertools.product([5, 64, 1000], [0.0, 0.1, 0.5, 0.9, 0.95, 0.99])):
    case(seed, n, top_p=p)
    case(seed, n, typical_p=max(p, 0.05))
    case(seed, n, min_p=max(1.0 - p, 0.02))
history = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]
for last_n, repeat, frequency, presence in itertools.product([0, 4, 64], [1.0, 1.3], [0.0, 0.5], [0.0, 0.25]):
    options = dict(zip(PENALTIES, [last_n, repeat, frequency, presence]))
    case(last_n, 12, history, **options)
case(1, 12, logit_bias=[[3, 5.0], [4, -2.5]])
for seed in range(8):
    case(seed, 1000, history, logit_bias=[[7, 9.0], [8, 8.5]], repeat_last_n=8, repeat_penalty=1.2,
         frequency_penalty=0.25, top_k=100, typical_p=0.9, top_p=0.9, min_p=0.1)

# The draws of seed 42 under the default parameters: llama.cpp filters, the draw is ours (by id).
kept = apply(logits(3, 1000), [
    llama.llama_sampler_init_top_k(40), llama.llama_sampler_init_top_p(0.95, 1),
    llama.llama_sampler_init_min_p(0.05, 1), llama.llama_sampler_init_temp(0.8),
])
ids = sorted(kept)
sums = list(itertools.accumulate(math.exp(kept[i] - max(kept.values())) for i in ids))
draws = [(z >> 11) / 2**53 * sums[-1] for z in itertools.islice(splitmix64(42), 8)]
print("FOR_EVER =", [ids[bisect.bisect_right(sums, draw)] for draw in draws])

path = pathlib.Path("crates/engine/goldens/sampling.json")
lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in cases)
path.write_text(f"[\n{lines}\n]\n")
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
