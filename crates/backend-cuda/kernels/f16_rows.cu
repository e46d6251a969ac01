// Converts rows of activations to f16 for `gemm` and `wgmma`, one row per block. A row is scaled by the power of two that brings its
// largest magnitude near 2^13: nothing overflows, and only relatively small values lose bits. A fused RMS norm is applied
// first. The columns up to `y_stride` are zeros.
//
// `wgmma` has the columns of a window of 128 in another order. Unless its rows are of groups, they come in tiles: in each
// panel of 64 columns one row after the other, whose units of 8 columns are permuted by the row, as they lie in shared memory.
#include "common.cuh"
#include <cuda_fp16.h>
#include "arguments/f16_rows.cuh"

constexpr u32 THREADS = 512;

// KEPT: vectors of four columns that a thread keeps, all of which it loads at once; those of longer rows are read again.
template <u32 KEPT> __device__ __forceinline__ void f16_rows(const F16RowsArgs& a) {
    __shared__ u32 largest[THREADS / 32];
    __shared__ float sums[THREADS / 32];
    pdl_launch();
    // Four columns at a time, if rows start at a multiple of 16 bytes.
    bool is_vector = ((a.x_at | a.x_stride | a.cols) & 3) == 0;
    auto load_from = [&](const float* from, u32 col) {
        float v[4];
        if (is_vector) {
            return col < a.cols ? *reinterpret_cast<const float4*>(from + col) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) v[i] = col + i < a.cols ? from[col + i] : 0.0f;
        return make_float4(v[0], v[1], v[2], v[3]);
    };
    // Weights do not depend on the kernel before.
    float4 kept[KEPT];
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        u32 col = 4 * (threadIdx.x + i * THREADS);
        kept[i] = a.g && col < a.cols ? load_from(a.g, col) : make_float4(1, 1, 1, 1);
    }
    pdl_wait();
    u32 row = blockIdx.y;
    if (a.chosen) {
        u32 slot = row % a.used;
        if (slot >= a.chosen[size_t(row / a.used) * (1 + 2 * a.used)]) return;
    }
    const float* x = a.x + a.x_at + size_t(row) * a.x_stride;
    float sum = 0.0f;
    u32 bits = 0;
    auto weighted = [&](float4 v, float4 g) {
        if (!a.g) return v;
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        return make_float4(v.x * g.x, v.y * g.y, v.z * g.z, v.w * g.w);
    };
    auto take_largest = [&](float4 v) {
        bits = max(bits, max(__float_as_uint(v.x) & 0x7fffffffu, __float_as_uint(v.y) & 0x7fffffffu));
        bits = max(bits, max(__float_as_uint(v.z) & 0x7fffffffu, __float_as_uint(v.w) & 0x7fffffffu));
    };
    auto load = [&](u32 col) {
        return weighted(load_from(x, col), a.g ? load_from(a.g, col) : make_float4(1, 1, 1, 1));
    };
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        u32 col = 4 * (threadIdx.x + i * THREADS);
        kept[i] = col < a.cols ? weighted(load_from(x, col), kept[i]) : make_float4(0, 0, 0, 0);
        take_largest(kept[i]);
    }
    for (u32 col = 4 * (threadIdx.x + KEPT * THREADS); col < a.cols; col += 4 * THREADS) take_largest(load(col));
    bits = __reduce_max_sync(ALL_LANES, bits);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = bits, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    u32 lane = threadIdx.x % 32;
    bits = __reduce_max_sync(ALL_LANES, lane < THREADS / 32 ? largest[lane] : 0);
    float squares = warp_sum(lane < THREADS / 32 ? sums[lane] : 0.0f);
    float factor = a.g ? rsqrtf(squares / float(a.cols) + a.eps) : 1.0f;
    // The exponent of the largest value, so that scale and its reciprocal are normal.
    u32 exponent = __float_as_uint(__uint_as_float(bits) * factor) >> 23 & 255;
    exponent = min(max(exponent, 16u), 253u);
    float scale = __uint_as_float((267 - exponent) << 23);
    __half* y = a.y + size_t(row) * a.y_stride;
    auto store = [&](u32 col, float4 v) {
        // Chunk c of the window gives its values 4 k and on to product k: the first and third from column 2 c on, the others 8
        // further.
        if (a.tile > 0) v = make_float4(v.x, v.z, v.y, v.w);
        __half2 first = __floats2half2_rn(v.x * factor * scale, v.y * factor * scale);
        __half2 second = __floats2half2_rn(v.z * factor * scale, v.w * factor * scale);
        u32 to = (col & ~127u) | col % 32 / 4 * 16 | col % 128 / 32 * 2;
        if (a.tile > 1) {
            size_t panel = size_t(row / a.tile) * (a.y_stride / 64) + to / 64;
            __half* of_row = a.y + (panel * a.tile + row % a.tile) * 64;
            u32 unit = to % 64 / 8;
            *reinterpret_cast<__half2*>(of_row + ((unit ^ row) & 7) * 8 + to % 8) = first;
            *reinterpret_cast<__half2*>(of_row + (((unit + 1) ^ row) & 7) * 8 + to % 8) = second;
        } else if (a.tile == 1) {
            *reinterpret_cast<__half2*>(y + to) = first, *reinterpret_cast<__half2*>(y + to + 8) = second;
        } else {
            uint2 both = make_uint2(*reinterpret_cast<u32*>(&first), *reinterpret_cast<u32*>(&second));
            *reinterpret_cast<uint2*>(y + col) = both;
        }
    };
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        u32 col = 4 * (threadIdx.x + i * THREADS);
        if (col < a.y_stride) store(col, kept[i]);
    }
    for (u32 col = 4 * (threadIdx.x + KEPT * THREADS); col < a.y_stride; col += 4 * THREADS) store(col, load(col));
    if (threadIdx.x == 0) a.scales[row] = 1.0f / scale;
}

#define F16_ROWS(NAME, KEPT)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ F16RowsArgs args) {             \
        f16_rows<KEPT>(args);                                                                                          \
    }

F16_ROWS(f16_rows_2, 2)
F16_ROWS(f16_rows_4, 4)
F16_ROWS(f16_rows_8, 8)
