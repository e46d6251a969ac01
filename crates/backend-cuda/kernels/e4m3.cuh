// E4M3, the 8-bit floats of a K/V cache in FP8, as `quant::E4M3`. Integer arithmetic, since cards before 8.9 have no instructions
// for them.
#pragma once
#include "common.cuh"
#include <cuda_fp16.h>

struct E4M3 {
    u8 code;
};

// Rounds to the nearest value, ties to even, saturating at 448. What is not finite becomes NaN.
__device__ __forceinline__ E4M3 to_e4m3(float x) {
    u32 magnitude = __float_as_uint(x) & 0x7fffffffu;
    float saturated = fminf(__uint_as_float(magnitude), 448.0f);
    u32 bits = __float_as_uint(saturated);
    // Below the smallest normal value, 2^-6, values are multiples of 2^-9, which is the last bit of 16384.
    u32 subnormal = __float_as_uint(saturated + 16384.0f) - __float_as_uint(16384.0f);
    // Exponents have a bias of 7 instead of 127.
    u32 normal = ((bits + 0x7ffffu + (bits >> 20 & 1)) >> 20) - (120u << 3);
    u32 code = saturated < 0.015625f ? subnormal : normal;
    if (magnitude >= 0x7f800000u) code = 0x7f;
    return {u8(code | (__float_as_uint(x) >> 24 & 0x80u))};
}

// The values of two codes, each in the upper byte of a half of `codes`. With exponent and mantissa a place further down, a code is
// an f16 of 2^-8 times its value.
__device__ __forceinline__ __half2 from_e4m3(u32 codes) {
    u32 magnitudes = codes & 0x7f007f00u;
    // The codes of NaN get an f16's exponent of NaN.
    u32 nan = (magnitudes + 0x01000100u) & 0x80008000u;
    u32 scaled = (codes & 0x80008000u) | (magnitudes | nan) >> 1;
    return __hmul2(*reinterpret_cast<const __half2*>(&scaled), __float2half2_rn(256.0f));
}
