// RoPE, and writing keys and values to the K/V cache.
#include "common.cuh"
#include "e4m3.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "arguments/rope.cuh"

// Types of the cache.
enum KvType : u32 { KV_F16, KV_F32, KV_BF16, KV_FP8 };

// Two columns of the cache, from element `at` on, which is even.
__device__ __forceinline__ void store_pair(u8* cache, u32 type, size_t at, float value, float next) {
    switch (type) {
    case KV_F32:
        reinterpret_cast<float2*>(cache)[at / 2] = make_float2(value, next);
        break;
    case KV_BF16:
        reinterpret_cast<__nv_bfloat162*>(cache)[at / 2] = __floats2bfloat162_rn(value, next);
        break;
    case KV_FP8:
        reinterpret_cast<unsigned short*>(cache)[at / 2] = to_e4m3(value).code | to_e4m3(next).code << 8;
        break;
    default:
        reinterpret_cast<__half2*>(cache)[at / 2] = __floats2half2_rn(value, next);
    }
}

// A thread has two adjacent columns of a head of queries, keys or values, of row `blockIdx.y`. Blocks of 256 threads;
// `blockIdx.x` counts them over `q_heads * ceil(q_dim / 2) + 4 * (k_heads * ceil(k_dim / 8) + v_heads * ceil(v_dim / 8))`
// pairs, without those of null pointers.
extern "C" __global__ void __launch_bounds__(256) rope_store(const __grid_constant__ RopeArgs args) {
    pdl_launch();
    pdl_wait();
    u32 row = blockIdx.y, item = 256 * blockIdx.x + threadIdx.x;
    const float* cos_sin = reinterpret_cast<const float*>(args.step + args.cos_sin) + size_t(row) * args.dims;
    if (args.q != nullptr) {
        u32 pairs = (args.q_dim + 1) / 2;
        if (item < args.q_heads * pairs) {
            u32 at = item / pairs * args.q_dim, col = 2 * (item % pairs);
            const float* q = args.q + args.q_at + size_t(row) * args.q_stride;
            float* y = args.q_out + args.y_at + size_t(row) * args.y_stride + at;
            y[col] = roped(q, at, col, args.dims, cos_sin, args.halves != 0);
            if (col + 1 < args.q_dim) y[col + 1] = roped(q, at, col + 1, args.dims, cos_sin, args.halves != 0);
            return;
        }
        item -= args.q_heads * pairs;
    }
    if (args.k == nullptr) return;
    u32 k_pairs = 4 * ((args.k_dim + 7) / 8), v_pairs = 4 * ((args.v_dim + 7) / 8);
    bool is_key = item < args.k_heads * k_pairs;
    if (!is_key) item -= args.k_heads * k_pairs;
    u32 heads = is_key ? args.k_heads : args.v_heads, dim = is_key ? args.k_dim : args.v_dim;
    u32 pairs = is_key ? k_pairs : v_pairs;
    if (item >= heads * pairs) return;
    u32 head = item / pairs, at = head * dim, col = 2 * (item % pairs);
    const float* x = is_key ? args.k + args.k_at + size_t(row) * args.k_stride
                            : args.v + args.v_at + size_t(row) * args.v_stride;
    u32 dims = is_key && args.ropes_keys ? args.dims : 0;
    float value = 0.0f, next = 0.0f;
    if (col < dim) value = roped(x, at, col, dims, cos_sin, args.halves != 0);
    if (col + 1 < dim) next = roped(x, at, col + 1, dims, cos_sin, args.halves != 0);
    u32 position = args.step[args.positions + row];
    // A block table may start at a later page: its offset wraps around.
    u32 page = args.step[args.pages + args.step[args.tables + row] + position / 32];
    size_t to = ((size_t(page) * heads + head) * 32 + position % 32) * (2 * pairs) + col;
    store_pair(is_key ? args.keys : args.values, is_key ? args.k_type : args.v_type, to, value, next);
}

// Writes keys and values to a cache in Q8_0: a warp has 32 columns of a head. Blocks of 256 threads; `blockIdx.x` counts warps over
// `k_heads * ceil(k_dim / 32) + v_heads * ceil(v_dim / 32)`. A value that is not finite makes its 32 columns NaN.
extern "C" __global__ void __launch_bounds__(256) store_q8_0(const __grid_constant__ RopeArgs args) {
    pdl_launch();
    pdl_wait();
    u32 row = blockIdx.y, lane = threadIdx.x % 32, item = 8 * blockIdx.x + threadIdx.x / 32;
    u32 k_blocks = (args.k_dim + 31) / 32, v_blocks = (args.v_dim + 31) / 32;
    bool is_key = item < args.k_heads * k_blocks;
    if (!is_key) item -= args.k_heads * k_blocks;
    u32 heads = is_key ? args.k_heads : args.v_heads, dim = is_key ? args.k_dim : args.v_dim;
    u32 blocks = is_key ? k_blocks : v_blocks;
    if (item >= heads * blocks) return;
    u32 head = item / blocks, block = item % blocks, col = 32 * block + lane;
    const float* x = is_key ? args.k + args.k_at + size_t(row) * args.k_stride
                            : args.v + args.v_at + size_t(row) * args.v_stride;
    const float* cos_sin = reinterpret_cast<const float*>(args.step + args.cos_sin) + size_t(row) * args.dims;
    u32 dims = is_key && args.ropes_keys ? args.dims : 0;
    float value = col < dim ? roped(x, head * dim, col, dims, cos_sin, args.halves != 0) : 0.0f;
    // The largest magnitude, or NaN.
    float largest = __uint_as_float(__reduce_max_sync(ALL_LANES, __float_as_uint(value) & 0x7fffffffu));
    float inverse = largest != 0.0f ? 127.0f / largest : 0.0f;
    u32 position = args.step[args.positions + row];
    u32 page = args.step[args.pages + args.step[args.tables + row] + position / 32];
    u32 cols = 32 * blocks;
    u8* to = (is_key ? args.keys : args.values) + (size_t(page) * heads + head) * 32 * (cols + cols / 16);
    to[position % 32 * cols + col] = u8(__float2int_rn(value * inverse));
    __half* scales = reinterpret_cast<__half*>(to + 32 * cols);
    if (lane == 0) scales[position % 32 * blocks + block] = __float2half_rn(largest / 127.0f);
}
