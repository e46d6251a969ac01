// Converts rows of activations to f16 for `gemm`, one row per block. A row is scaled by the power of two that brings its
// largest magnitude near 2^13: nothing overflows, and only relatively small values lose bits. A fused RMS norm is applied
// first. The columns up to `y_stride` are zeros.
#include "common.cuh"
#include <cuda_fp16.h>

struct F16RowsArgs {
    const u32* step;
    const float* x;
    __half* y;
    // The factor that undoes the scaling, per row.
    float* scales;
    // Weights of the norm, or null.
    const float* g;
    // Lists of experts: a row is an entry of a list, and entries past its end are skipped; or null.
    const u32* chosen;
    u32 x_at, x_stride, cols, y_stride, used;
    float eps;
};

extern "C" __global__ void __launch_bounds__(256) f16_rows(const __grid_constant__ F16RowsArgs a) {
    __shared__ u32 largest[8];
    pdl_launch();
    pdl_wait();
    u32 row = blockIdx.y;
    if (a.chosen) {
        u32 slot = row % a.used;
        if (slot >= a.chosen[size_t(row / a.used) * (1 + 2 * a.used)]) return;
    }
    const float* x = a.x + a.x_at + size_t(row) * a.x_stride;
    // Four columns at a time, if rows start at a multiple of 16 bytes.
    bool is_vector = ((a.x_at | a.x_stride | a.cols) & 3) == 0;
    auto load = [&](u32 col) {
        float v[4];
        if (is_vector) {
            float4 four = col < a.cols ? *reinterpret_cast<const float4*>(x + col) : make_float4(0, 0, 0, 0);
            v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        } else {
#pragma unroll
            for (u32 i = 0; i < 4; i++) v[i] = col + i < a.cols ? x[col + i] : 0.0f;
        }
        return make_float4(v[0], v[1], v[2], v[3]);
    };
    auto weights = [&](u32 col) {
        float v[4];
        if (is_vector) {
            float4 four = col < a.cols ? *reinterpret_cast<const float4*>(a.g + col) : make_float4(0, 0, 0, 0);
            v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        } else {
#pragma unroll
            for (u32 i = 0; i < 4; i++) v[i] = col + i < a.cols ? a.g[col + i] : 0.0f;
        }
        return make_float4(v[0], v[1], v[2], v[3]);
    };
    float sum = 0.0f;
    u32 bits = 0;
    for (u32 col = 4 * threadIdx.x; col < a.cols; col += 1024) {
        float4 v = load(col);
        if (a.g) {
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
            float4 g = weights(col);
            v = make_float4(v.x * g.x, v.y * g.y, v.z * g.z, v.w * g.w);
        }
        bits = max(bits, max(__float_as_uint(v.x) & 0x7fffffffu, __float_as_uint(v.y) & 0x7fffffffu));
        bits = max(bits, max(__float_as_uint(v.z) & 0x7fffffffu, __float_as_uint(v.w) & 0x7fffffffu));
    }
    for (u32 d = 16; d > 0; d /= 2) bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, d));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = bits;
    __syncthreads();
    for (u32 i = 0; i < 8; i++) bits = max(bits, largest[i]);
    float factor = a.g ? rsqrtf(block_sum<256>(sum) / float(a.cols) + a.eps) : 1.0f;
    // The exponent of the largest value, so that scale and its reciprocal are normal.
    u32 exponent = __float_as_uint(__uint_as_float(bits) * factor) >> 23 & 255;
    exponent = min(max(exponent, 16u), 253u);
    float scale = __uint_as_float((267 - exponent) << 23);
    __half* y = a.y + size_t(row) * a.y_stride;
    for (u32 col = 4 * threadIdx.x; col < a.y_stride; col += 1024) {
        float4 v = load(col);
        if (a.g) {
            float4 g = weights(col);
            v = make_float4(v.x * g.x * factor, v.y * g.y * factor, v.z * g.z * factor, v.w * g.w * factor);
        }
        __half2 first = __floats2half2_rn(v.x * scale, v.y * scale), second = __floats2half2_rn(v.z * scale, v.w * scale);
        *reinterpret_cast<uint2*>(y + col) =
            make_uint2(*reinterpret_cast<u32*>(&first), *reinterpret_cast<u32*>(&second));
    }
    if (threadIdx.x == 0) a.scales[row] = 1.0f / scale;
}
