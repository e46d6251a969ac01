// What the attention kernels share: arguments, masks and elements of the K/V cache.
//
// The cache has `[page][K/V head][32 positions][columns, padded to a multiple of 8]` for keys and for values. In Q8_0 columns are
// padded to a multiple of 32, and the positions of a page and head have 8-bit integers, followed by an f16 scale per 32 columns.
#pragma once
#include "common.cuh"
#include "e4m3.cuh"
#include "instructions.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "arguments/attention.cuh"

// Query heads of a block at most, as `attend.rs` counts blocks, and splits of a row's positions (`gpu::inputs`).
constexpr u32 MAX_HEADS = 8, MAX_SPLITS = 64;

// Positions per page.
constexpr u32 PAGE = 32;
constexpr float LOWEST = -3.402823466e38f;
constexpr float LOG2_E = 1.4426950408889634f;

// The type of a cache in Q8_0.
struct Q8Cache;

// Columns of a head in a cache of type `T`.
template <class T> __device__ constexpr u32 padded(u32 dim) {
    constexpr u32 UNIT = __is_same(T, Q8Cache) ? 32 : 8;
    return (dim + UNIT - 1) / UNIT * UNIT;
}

// Eight elements of the cache.
__device__ __forceinline__ void load_eight(const __half* at, float (&to)[8]) {
    uint4 v = *reinterpret_cast<const uint4*>(at);
    const __half2* h = reinterpret_cast<const __half2*>(&v);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(h[i]);
        to[2 * i] = f.x, to[2 * i + 1] = f.y;
    }
}

__device__ __forceinline__ void load_eight(const __nv_bfloat16* at, float (&to)[8]) {
    uint4 v = *reinterpret_cast<const uint4*>(at);
    u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = __uint_as_float(w[i] << 16), to[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

__device__ __forceinline__ void load_eight(const float* at, float (&to)[8]) {
    float4 a = *reinterpret_cast<const float4*>(at), b = *reinterpret_cast<const float4*>(at + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

__device__ __forceinline__ void load_eight(const E4M3* at, float (&to)[8]) {
    uint2 v = *reinterpret_cast<const uint2*>(at);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(from_e4m3(__byte_perm(i < 2 ? v.x : v.y, 0, i % 2 ? 0x3424 : 0x1404)));
        to[2 * i] = f.x, to[2 * i + 1] = f.y;
    }
}

// A position of a page and head, of `cols` columns.
template <class T> struct CacheRow {
    const T* at;
    __device__ __forceinline__ CacheRow(const u8* cache, size_t page_and_head, u32 position, u32 cols)
        : at(reinterpret_cast<const T*>(cache) + (page_and_head * PAGE + position) * cols) {}
    explicit __device__ __forceinline__ CacheRow(const T* row) : at(row) {}
    __device__ __forceinline__ void load(u32 col, float (&to)[8]) const { load_eight(at + col, to); }
    // Eight columns as f16, which has all values of FP8.
    __device__ __forceinline__ uint4 halves(u32 col) const {
        static_assert(__is_same(T, E4M3), "a cache in FP8");
        uint2 v = *reinterpret_cast<const uint2*>(at + col);
        uint4 to;
        __half2* h = reinterpret_cast<__half2*>(&to);
#pragma unroll
        for (int i = 0; i < 4; i++) h[i] = from_e4m3(__byte_perm(i < 2 ? v.x : v.y, 0, i % 2 ? 0x3424 : 0x1404));
        return to;
    }
};

template <> struct CacheRow<Q8Cache> {
    const u8* values;
    const __half* scales;
    __device__ __forceinline__ CacheRow(const u8* cache, size_t page_and_head, u32 position, u32 cols) {
        const u8* page = cache + page_and_head * PAGE * (cols + cols / 16);
        values = page + position * cols;
        scales = reinterpret_cast<const __half*>(page + PAGE * cols) + position * (cols / 32);
    }
    __device__ __forceinline__ CacheRow(const u8* values, const __half* scales) : values(values), scales(scales) {}
    // Eight columns as f16, rounded. Larger values than f16 has become its largest.
    __device__ __forceinline__ uint4 halves(u32 col) const {
        uint2 v = *reinterpret_cast<const uint2*>(values + col);
        __half2 scale = __half2half2(scales[col / 32]);
        uint4 to;
        __half2* h = reinterpret_cast<__half2*>(&to);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            // 1152 more, as the mantissa of 2^10.
            u32 bits = __byte_perm((i < 2 ? v.x : v.y) ^ 0x80808080u, 0x64646464u, i % 2 ? 0x4342 : 0x4140);
            h[i] = __hmul2(__hsub2(*reinterpret_cast<__half2*>(&bits), __float2half2_rn(1152.0f)), scale);
        }
        if (fabsf(__low2float(scale)) > 515.0f) saturate(col, to);
        return to;
    }
    __device__ __noinline__ void saturate(u32 col, uint4& to) const {
        float x[8];
        load(col, x);
#pragma unroll
        for (int c = 0; c < 8; c++) {
            if (fabsf(x[c]) < INFINITY) x[c] = fminf(fmaxf(x[c], -65504.0f), 65504.0f);
        }
        to = make_uint4(pack_halves(x[0], x[1]), pack_halves(x[2], x[3]), pack_halves(x[4], x[5]), pack_halves(x[6], x[7]));
    }
    __device__ __forceinline__ void load(u32 col, float (&to)[8]) const {
        uint2 v = *reinterpret_cast<const uint2*>(values + col);
        float scale = __half2float(scales[col / 32]);
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = scale * float(int((i < 4 ? v.x : v.y) << (24 - i % 4 * 8)) >> 24);
    }
};

__device__ __forceinline__ void store_one(__half* at, float x) { *at = __float2half_rn(x); }
__device__ __forceinline__ void store_one(__nv_bfloat16* at, float x) { *at = __float2bfloat16_rn(x); }
__device__ __forceinline__ void store_one(float* at, float x) { *at = x; }
__device__ __forceinline__ void store_one(E4M3* at, float x) { *at = to_e4m3(x); }

__device__ __forceinline__ float as_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// The ALiBi slope of a head.
static __device__ __noinline__ float slope(float alibi, u32 heads, u32 head) {
    u32 m = 1u << (31 - __clz(heads));
    float power = head < m ? float(head + 1) / float(m) : float(2 * (head - m) + 1) / float(2 * m);
    return exp2f(-alibi * power);
}

// Partial results of a row and head: by split, `v_dim` sums of values; after those of all rows, by split, the maximum of scores
// and the sum of weights.
__device__ __forceinline__ float* partial_values(const AttentionArgs& a, u32 row, u32 head, u32 splits, u32 v_dim) {
    return a.parts + (size_t(row) * a.heads + head) * splits * v_dim;
}

__device__ __forceinline__ float* partial_weights(const AttentionArgs& a, u32 row, u32 head, u32 splits, u32 v_dim) {
    return a.parts + size_t(gridDim.y) * a.heads * splits * v_dim + (size_t(row) * a.heads + head) * splits * 2;
}

// Merges the results of all splits, if this block is the last of the row and its heads to write its own. A warp has a head at a
// time, and a lane `VECTOR` columns.
template <u32 VECTOR>
static __device__ __noinline__ void merge_splits(const AttentionArgs& a, u32 row, u32 splits, u32 first_head, u32 heads, u32 v_dim,
                                                 u32& is_last) {
    static_assert(MAX_SPLITS <= 64, "a lane has the shares of two splits");
    // Splits whose values are loaded at a time.
    constexpr u32 AHEAD = 24;
    u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    if (!is_last_block(a.counters + row * gridDim.x + blockIdx.x, splits, is_last)) return;
    for (u32 h = threadIdx.x / 32; h < heads; h += warps) {
        // The shares of splits in the result: of this one and of the 32nd one after it.
        float share[2];
        auto weigh = [&] {
            const float* of_splits = partial_weights(a, row, first_head + h, splits, v_dim);
            float largest[2], sum[2], weights = 0.0f;
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                u32 s = lane + 32 * i;
                bool is_split = s < splits;
                largest[i] = is_split ? __ldcg(of_splits + 2 * s) : LOWEST;
                sum[i] = is_split ? __ldcg(of_splits + 2 * s + 1) : 0.0f;
            }
#pragma unroll
            for (u32 i = 0; i < 2; i++) largest[i] = sum[i] != 0.0f ? largest[i] : LOWEST;
            float top = warp_max(fmaxf(largest[0], largest[1]));
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                share[i] = expf(largest[i] - top);
                weights += share[i] * sum[i];
            }
            weights = warp_sum(weights);
            if (a.sinks) weights += sink_weight(a.sinks[first_head + h], top);
#pragma unroll
            for (u32 i = 0; i < 2; i++) share[i] = lane + 32 * i < splits ? share[i] / weights : 0.0f;
        };
        const float* values = partial_values(a, row, first_head + h, splits, v_dim);
#pragma unroll 1
        for (u32 base = 0; base < v_dim; base += 32 * VECTOR) {
            u32 col = base + VECTOR * lane;
            float total[VECTOR] = {};
#pragma unroll 1
            for (u32 first = 0; first < splits; first += AHEAD) {
                float v[AHEAD][VECTOR] = {};
#pragma unroll
                for (u32 i = 0; i < AHEAD; i++) {
                    if (first + i >= splits || col >= v_dim) continue;
                    const float* from = values + (first + i) * v_dim + col;
                    if constexpr (VECTOR == 4) {
                        float4 four = __ldcg(reinterpret_cast<const float4*>(from));
                        v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
                    } else if constexpr (VECTOR == 2) {
                        float2 two = __ldcg(reinterpret_cast<const float2*>(from));
                        v[i][0] = two.x, v[i][1] = two.y;
                    } else {
                        v[i][0] = __ldcg(from);
                    }
                }
                // While the first values come.
                if (base == 0 && first == 0) weigh();
#pragma unroll
                for (u32 i = 0; i < AHEAD; i++) {
                    u32 s = first + i;
                    float of_split = __shfl_sync(ALL_LANES, s < 32 ? share[0] : share[1], s % 32);
#pragma unroll
                    for (u32 c = 0; c < VECTOR; c++) total[c] += of_split * v[i][c];
                }
            }
            if (col >= v_dim) continue;
            float* y = a.y + a.y_at + size_t(row) * a.y_stride + (first_head + h) * v_dim + col;
#pragma unroll
            for (u32 c = 0; c < VECTOR; c++) y[c] = total[c];
        }
    }
}
