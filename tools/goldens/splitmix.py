"""Logits that the tests make, too: multiples of 2^-20 drawn with SplitMix64, without rounding."""

import itertools

MASK = (1 << 64) - 1


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def logits(seed, n):
    return [(z >> 40) / 2**20 - 8.0 for z in itertools.islice(splitmix64(seed), n)]
