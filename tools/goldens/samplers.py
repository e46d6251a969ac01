#!/usr/bin/env python3
"""Results of llama.cpp's other samplers, for crates/engine/goldens/samplers.json: top-n-sigma, XTC, dynamic temperature,
orders of samplers, DRY and Mirostat.

Needs llama-cpp-python 0.3.36 and a test model for its vocabulary. Run from the repository root:
    cargo run -p rustorch-testkit --example models -- /tmp/models
    python3 tools/goldens/samplers.py /tmp/models/F32.gguf

Logits are those of `splitmix.py`.
"""

import ctypes
import itertools
import json
import math
import pathlib
import random
import sys

import llama_cpp as llama

from splitmix import logits

N_VOCAB = 512


class Candidates:
    def __init__(self, values):
        self.data = (llama.llama_token_data * len(values))()
        for i, value in enumerate(values):
            self.data[i] = llama.llama_token_data(i, value, 0.0)
        self.array = llama.llama_token_data_array(self.data, len(values), -1, False)

    def apply(self, *samplers):
        for sampler in samplers:
            llama.llama_sampler_apply(sampler, ctypes.byref(self.array))
        return self

    def kept(self):
        """{id: logit} of those that are possible."""
        tokens = (self.array.data[i] for i in range(self.array.size))
        return {token.id: token.logit for token in tokens if token.logit > -math.inf}


cases = []


def case(seed, n, chain, **options):
    """`chain` are llama.cpp's samplers; options are the fields of `Params`."""
    values = logits(seed, n)
    kept = Candidates(values).apply(*chain).kept()
    best, total = max(kept.values()), 0.0
    for logit in kept.values():
        total += math.exp(logit - best)
    entry = {"seed": seed, "n": n, "options": options, "ids": sorted(kept)}
    entry["probabilities"] = [round(math.exp(kept[i] - best) / total, 7) for i in sorted(kept)]
    cases.append(entry)


for seed, (n, sigma) in enumerate(itertools.product([2, 40], [0.1, 0.5, 1.0, 1.5, 3.0])):
    case(seed, n, [llama.llama_sampler_init_top_n_sigma(sigma)], top_n_sigma=sigma)
for seed, (n, threshold) in enumerate(itertools.product([2, 12, 40], [0.0, 0.02, 0.05, 0.1, 0.3, 0.5])):
    xtc = llama.llama_sampler_init_xtc(1.0, threshold, 0, 1)
    case(seed, n, [xtc], **{"xtc_probability": 1.0, "xtc_threshold": threshold})
for seed, (n, temperature, spread, exponent) in enumerate(
    itertools.product([2, 40], [0.3, 1.0, 2.0], [0.2, 1.0, 4.0], [0.5, 1.0, 3.0])
):
    options = {"dynatemp_range": spread, "dynatemp_exponent": exponent}
    sampler = llama.llama_sampler_init_temp_ext(temperature, spread, exponent)
    case(seed, n, [sampler], temperature=temperature, **options)
makers = {
    "top_k": lambda: llama.llama_sampler_init_top_k(12), "top_p": lambda: llama.llama_sampler_init_top_p(0.9, 0),
    "typ_p": lambda: llama.llama_sampler_init_typical(0.8, 0), "min_p": lambda: llama.llama_sampler_init_min_p(0.08, 0),
    "temperature": lambda: llama.llama_sampler_init_temp(2.5), "xtc": lambda: llama.llama_sampler_init_xtc(1.0, 0.1, 0, 1),
    "top_n_sigma": lambda: llama.llama_sampler_init_top_n_sigma(1.2),
}  # fmt: skip
parameters = {"top_k": 12, "top_p": 0.9, "typical_p": 0.8, "min_p": 0.08, "temperature": 2.5, "xtc_probability": 1.0,
              "xtc_threshold": 0.1, "top_n_sigma": 1.2}  # fmt: skip
shuffled = random.Random(5)
for seed in range(24):
    order = shuffled.sample(sorted(makers), shuffled.randint(1, len(makers)))
    if {"top_n_sigma", "typ_p"} <= set(order):
        # llama.cpp's typ_p makes the entropy of the tokens that top_n_sigma drops NaN.
        order.remove("typ_p")
    case(seed, 60, [makers[name]() for name in order], samplers=";".join(order), **parameters)

params = llama.llama_model_default_params()
params.vocab_only = True
model = llama.llama_model_load_from_file(sys.argv[1].encode(), params)
vocabulary = llama.llama_model_get_vocab(model)
assert llama.llama_vocab_n_tokens(vocabulary) == N_VOCAB


def dry(multiplier, base, allowed, last_n, texts):
    array = (ctypes.c_char_p * max(1, len(texts)))(*[text.encode() for text in texts])
    sampler = llama.llama_sampler_init_dry
    return sampler(vocabulary, multiplier, base, allowed, last_n, array, len(texts))


def text_of(token):
    buffer = ctypes.create_string_buffer(64)
    return buffer[: llama.llama_token_to_piece(vocabulary, token, buffer, 64, 0, True)].decode(errors="replace")


for seed in range(60):
    letters = shuffled.sample(range(259, N_VOCAB), shuffled.randint(2, 4))
    history = [shuffled.choice(letters) for _ in range(shuffled.randint(1, 60))]
    multiplier, base = shuffled.choice([0.8, 5.0]), shuffled.choice([1.0, 1.75, 40.0])
    allowed, last_n = shuffled.choice([0, 1, 2, 4]), shuffled.choice([1000, 3, 20])
    texts = []
    # No breaker begins with a space, which llama.cpp takes away from SentencePiece's tokens, but not from breakers.
    if seed % 3 == 1:
        texts = [text_of(letters[0]).strip() or "x"]
    if seed % 3 == 2:
        pair = text_of(letters[0]) + text_of(letters[1])
        texts = [pair.strip()[:40] or "x", "\n"]
    sampler = dry(multiplier, base, allowed, last_n, texts)
    for token in history:
        llama.llama_sampler_accept(sampler, token)
    values = logits(seed, N_VOCAB)
    kept = Candidates(values).apply(sampler).kept()
    changed = {i: logit for i, logit in sorted(kept.items()) if logit != values[i]}
    options = {"dry_multiplier": multiplier, "dry_base": base, "dry_allowed_length": allowed,
               "dry_penalty_last_n": last_n, "dry_sequence_breakers": texts}  # fmt: skip
    cases.append({"seed": seed, "n": N_VOCAB, "options": options, "history": history, "changed": list(changed.items())})

for seed, (version, tau, eta) in enumerate(itertools.product([1, 2], [1.0, 3.0, 5.0], [0.1, 0.5])):
    sampler = (llama.llama_sampler_init_mirostat(N_VOCAB, seed, tau, eta, 100) if version == 1
               else llama.llama_sampler_init_mirostat_v2(seed, tau, eta))  # fmt: skip
    steps = []
    for step in range(20):
        # Squares make logits uneven, as those of models are.
        values = [value * abs(value) / 8 for value in logits(100 * seed + step, N_VOCAB)]
        candidates = Candidates(values).apply(sampler)
        steps.append([candidates.array.size, candidates.array.data[candidates.array.selected].id])
    options = {"mirostat": version, "mirostat_tau": tau, "mirostat_eta": eta}
    cases.append({"seed": 100 * seed, "n": N_VOCAB, "options": options, "steps": steps})

path = pathlib.Path("crates/engine/goldens/samplers.json")
lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in cases)
path.write_text(f"[\n{lines}\n]\n")
print(f"{len(cases)} cases, {path.stat().st_size} bytes; DRY changes {sum(len(c.get('changed', [])) for c in cases)} logits")
