// Activations of 8 bits: chunks of 32 integers with a scale each.
#pragma once
#include "common.cuh"

// Bits of the largest magnitude; NaN is the largest.
__device__ __forceinline__ u32 magnitude_bits(float4 v) {
    u32 a = __float_as_uint(v.x) & 0x7fffffffu, b = __float_as_uint(v.y) & 0x7fffffffu;
    u32 c = __float_as_uint(v.z) & 0x7fffffffu, d = __float_as_uint(v.w) & 0x7fffffffu;
    return max(max(a, b), max(c, d));
}

// Quantises 4 values, whose sum is added to `sum`.
__device__ __forceinline__ u32 quantize(float4 v, float inverse, int& sum) {
    int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse);
    int c = __float2int_rn(v.z * inverse), d = __float2int_rn(v.w * inverse);
    sum += a + b + c + d;
    return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
}

// Eight of a chunk's integers, which four lanes have together; its scale; and in the first lane the sums of both halves.
struct Q8Piece {
    u32 words[2];
    float scale;
    int low, high;

    __device__ __forceinline__ Q8Piece(float4 u, float4 v) {
        u32 bits = max(magnitude_bits(u), magnitude_bits(v));
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, 1));
        bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, 2));
        scale = __uint_as_float(bits) * (1.0f / 127.0f);
        // Chunks of so small values that the quotient would overflow become zeros.
        float inverse = bits > 0x06000000u ? __fdividef(1.0f, scale) : 0.0f;
        low = 0;
        words[0] = quantize(u, inverse, low), words[1] = quantize(v, inverse, low);
        low += __shfl_xor_sync(ALL_LANES, low, 1);
        high = __shfl_xor_sync(ALL_LANES, low, 2);
        if (bits >= 0x7f800000u) scale = __uint_as_float(0x7fc00000u);
    }
};

// A chunk of eight rows for `gemm_q8`: the integers of each row; then, by row, scales, sums of both halves' integers as pairs
// of 16 bits, and scales times the sums of all. The words of a row are in the order 0, 4, 1, 5, 2, 6, 3, 7.
struct Q8Chunk {
    static constexpr u32 ROWS = 8;
    static constexpr u32 SCALES = 32 * ROWS, HALVES = SCALES + 4 * ROWS, SUMS = HALVES + 4 * ROWS;
    static constexpr u32 BYTES = SUMS + 4 * ROWS;
};
