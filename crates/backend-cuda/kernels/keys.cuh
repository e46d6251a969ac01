// Logits as integers in the same order.
#pragma once

#include "common.cuh"

constexpr u32 NOTHING = 0;
constexpr u32 BROKEN = 0xffffffffu;

// NOTHING for negative infinity, BROKEN for NaN and infinity, otherwise an integer in the order of the values.
__device__ __forceinline__ u32 key(u32 bits) {
    u32 size = bits & 0x7fffffffu;
    if (size > 0x7f800000u || bits == 0x7f800000u) return BROKEN;
    if (bits == 0xff800000u) return NOTHING;
    // -0 equals +0.
    return bits > 0x80000000u ? 0x80000000u - size : 0x80000000u | size;
}

// The larger, the better: an integer of a token's key and then of its id, the lower the better. 0 is no candidate.
__device__ __forceinline__ u64 rank(float logit, u32 id) {
    u32 found = key(__float_as_uint(logit));
    return found == NOTHING ? 0 : u64(found) << 32 | ~id;
}
