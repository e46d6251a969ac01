// What kernels share that choose tokens: ranks of tokens, and how a row's token is drawn (`backend::Draw`).
#pragma once

#include "keys.cuh"

// `backend::MAX_CANDIDATES`.
constexpr u32 K = 64;
// The id of no token.
constexpr u32 MISSING = 0xffffffffu;
constexpr float LARGEST = 3.402823466e+38f;

// The logit of a key that is neither NOTHING nor BROKEN; -0 has become 0.
__device__ __forceinline__ float value(u32 key) {
    return __uint_as_float(key >= 0x80000000u ? key & 0x7fffffffu : 0x80000000u | (0x80000000u - key));
}

// Logits that are NaN or infinity must stay what they are, so that the row has no token.
__device__ __forceinline__ bool is_broken(float logit) {
    return key(__float_as_uint(logit)) == BROKEN;
}

// A logit with a bias. The compiler must not contract the addition with others, which the host does not.
__device__ __forceinline__ float biased(float logit, float bias) {
    return fminf(__fadd_rn(logit, bias), LARGEST);
}

// How a row's token is drawn (`gpu::draws`).
struct Draw {
    u32 u_low, u_high;
    // 0 for all tokens.
    u32 top_k;
    u32 filters;
    // Offset in the step inputs; biases, then counts of tokens.
    u32 entries, biases, counts, is_penalised;
    float repeat, frequency, presence;
    u32 unused;
    struct {
        u32 kind;
        float value;
    } filter[6];
};

enum Filter : u32 { TOP_P, MIN_P, TEMPERATURE };

__device__ __forceinline__ const Draw& own_draw(const u32* step, u32 draws) {
    return reinterpret_cast<const Draw*>(step + step[draws])[blockIdx.y];
}

// Whether the best `K` tokens are all that a draw considers.
__device__ __forceinline__ bool is_of_best(const Draw& draw) {
    return draw.top_k >= 1 && draw.top_k <= K;
}
