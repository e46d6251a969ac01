// Attention of one row and up to HEADS query heads of one K/V head, over all positions or a split of them.
//
// Positions are processed in tiles of 64. Scores: a group of lanes has a position, each lane some columns of the keys.
// An online softmax (Milakov and Gimelshein 2018) runs over the tiles. Values: a thread has eight columns of some of the
// positions. If rows are split, the last block of a row to finish merges the results of all.
//
// With `k`, every row is the last of its sequence: the block whose positions include the row's own first writes its keys
// and values to the cache, unless that is in Q8_0.
#include "attention.cuh"

constexpr u32 THREADS = 256, TILE = 64;

template <class T, u32 HEADS> __device__ __forceinline__ void attention(const AttentionArgs& a) {
    extern __shared__ float shared[];
    __shared__ float scores[HEADS][TILE], tile_max[HEADS], old_weight[HEADS], row_sum[HEADS];
    __shared__ u32 pages[TILE / PAGE], is_last;
    u32 k_cols = padded<T>(a.k_dim), v_cols = padded<T>(a.v_dim);
    // Queries, then the values that slices of positions have summed.
    float* queries = shared;
    float* sums = shared + HEADS * k_cols;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, row = blockIdx.y;
    u32 share = a.heads / a.kv_heads, blocks = (share + HEADS - 1) / HEADS;
    u32 kv_head = blockIdx.x / blocks;
    u32 first_head = kv_head * share + blockIdx.x % blocks * HEADS;
    u32 heads = min(HEADS, share - blockIdx.x % blocks * HEADS);
    u32 own = a.step[a.positions + row], table = a.pages + a.step[a.tables + row];
    u32 splits = gridDim.z, part = a.step[a.split + 1];
    u32 first_seen = 0, end_seen = own + 1;
    if (a.masked) first_seen = a.step[a.visible + 2 * row], end_seen = a.step[a.visible + 2 * row + 1];
    u32 begin = first_seen / PAGE * PAGE + blockIdx.z * part, end = splits == 1 ? end_seen : min(end_seen, begin + part);

    const float* table_of_q = reinterpret_cast<const float*>(a.step + a.cos_sin) + row * a.dims;
    for (u32 i = thread; i < HEADS * k_cols; i += THREADS) {
        u32 head = min(i / k_cols, heads - 1), col = i % k_cols;
        u32 at = a.q_at + row * a.q_stride + (first_head + head) * a.k_dim;
        queries[i] = col < a.k_dim ? a.scale * roped(a.q, at, col, a.dims, table_of_q, a.halves) : 0.0f;
    }
    if constexpr (!__is_same(T, Q8Cache)) {
        if (a.k && own >= begin && own < end) {
            size_t cell = (size_t(a.step[table + own / PAGE]) * a.kv_heads + kv_head) * PAGE + own % PAGE;
            const float* table_of_k = reinterpret_cast<const float*>(a.step + a.k_cos_sin) + row * a.k_dims;
            for (u32 col = thread; col < k_cols; col += THREADS) {
                u32 at = a.k_at + row * a.k_stride + kv_head * a.k_dim;
                float x = col < a.k_dim ? roped(a.k, at, col, a.k_dims, table_of_k, a.k_halves) : 0.0f;
                store_one(reinterpret_cast<T*>(a.keys) + cell * k_cols + col, x);
            }
            for (u32 col = thread; col < v_cols; col += THREADS) {
                float x = col < a.v_dim ? a.v[a.v_at + row * a.v_stride + kv_head * a.v_dim + col] : 0.0f;
                store_one(reinterpret_cast<T*>(a.values) + cell * v_cols + col, x);
            }
        }
    }
    __syncthreads();

    // Lanes per position, a power of two.
    u32 lanes = 32;
    while (lanes > 1 && lanes / 2 * 8 >= k_cols) lanes /= 2;
    u32 vectors = v_cols / 8, slices = THREADS / vectors;
    u32 slice = thread / vectors, vector = thread % vectors;
    float acc[HEADS][8] = {};
    for (u32 tile = begin; tile < end; tile += TILE) {
        u32 count = min(end - tile, TILE);
        if (thread < TILE / PAGE) pages[thread] = a.step[table + min(tile / PAGE + thread, (end - 1) / PAGE)];
        __syncthreads();
        for (u32 j = thread / lanes; j < TILE; j += THREADS / lanes) {
            u32 position = tile + j, lane = thread % lanes;
            bool is_seen = j < count && position >= first_seen;
            float dots[HEADS] = {};
            if (is_seen) {
                CacheRow<T> key(a.keys, size_t(pages[j / PAGE]) * a.kv_heads + kv_head, j % PAGE, k_cols);
                for (u32 col = 8 * lane; col < k_cols; col += 8 * lanes) {
                    float k[8];
                    key.load(col, k);
#pragma unroll
                    for (u32 h = 0; h < HEADS; h++) {
                        const float4* q = reinterpret_cast<const float4*>(queries + h * k_cols + col);
                        float4 u = q[0], v = q[1];
                        dots[h] += u.x * k[0] + u.y * k[1] + u.z * k[2] + u.w * k[3];
                        dots[h] += v.x * k[4] + v.y * k[5] + v.z * k[6] + v.w * k[7];
                    }
                }
            }
#pragma unroll
            for (u32 h = 0; h < HEADS; h++) {
                for (u32 d = lanes / 2; d > 0; d /= 2) dots[h] += __shfl_xor_sync(ALL_LANES, dots[h], d);
            }
            if (lane == 0) {
#pragma unroll
                for (u32 h = 0; h < HEADS; h++) {
                    float score = dots[h];
                    if (a.cap > 0.0f) score = softcap(score, a.cap);
                    if (a.alibi > 0.0f) {
                        float distance = float(position > own ? position - own : own - position);
                        score -= slope(a.alibi, a.heads, first_head + h) * distance;
                    }
                    scores[h][j] = is_seen ? score : LOWEST;
                }
            }
        }
        __syncthreads();
        // A warp has the softmax of a head.
        u32 warp = thread / 32, lane = thread % 32;
        for (u32 h = warp; h < HEADS; h += THREADS / 32) {
            float s0 = scores[h][lane], s1 = scores[h][lane + 32];
            float before = tile == begin ? LOWEST : tile_max[h];
            float now = fmaxf(before, warp_max(fmaxf(s0, s1)));
            float w0 = lane < count && tile + lane >= first_seen ? expf(s0 - now) : 0.0f;
            float w1 = lane + 32 < count && tile + lane + 32 >= first_seen ? expf(s1 - now) : 0.0f;
            scores[h][lane] = w0, scores[h][lane + 32] = w1;
            float total = warp_sum(w0 + w1);
            // All lanes have read the maximum before.
            __syncwarp();
            if (lane == 0) {
                float old = expf(before - now);
                row_sum[h] = (tile == begin ? 0.0f : row_sum[h] * old) + total;
                tile_max[h] = now, old_weight[h] = old;
            }
        }
        __syncthreads();
        if (slice < slices) {
#pragma unroll
            for (u32 h = 0; h < HEADS; h++) {
                float old = old_weight[h];
#pragma unroll
                for (u32 c = 0; c < 8; c++) acc[h][c] *= old;
            }
            // Positions before the visible ones are skipped: a NaN times a weight of 0 would still be NaN.
            u32 skipped = first_seen > tile ? first_seen - tile : 0;
            for (u32 j = skipped + slice; j < count; j += slices) {
                CacheRow<T> value(a.values, size_t(pages[j / PAGE]) * a.kv_heads + kv_head, j % PAGE, v_cols);
                float v[8];
                value.load(8 * vector, v);
#pragma unroll
                for (u32 h = 0; h < HEADS; h++) {
                    float weight = scores[h][j];
#pragma unroll
                    for (u32 c = 0; c < 8; c++) acc[h][c] += weight * v[c];
                }
            }
        }
        __syncthreads();
    }

    // The slices' sums, merged.
    for (u32 h = 0; h < HEADS; h++) {
        if (slice < slices) {
#pragma unroll
            for (u32 c = 0; c < 8; c++) {
#pragma unroll
                for (u32 g = 0; g < HEADS; g++) {
                    if (g == h) sums[slice * v_cols + 8 * vector + c] = acc[g][c];
                }
            }
        }
        __syncthreads();
        if (h < heads) {
            for (u32 col = thread; col < a.v_dim; col += THREADS) {
                float total = 0.0f;
                for (u32 s = 0; s < slices; s++) total += sums[s * v_cols + col];
                u32 head = first_head + h;
                if (splits == 1) {
                    float weights = row_sum[h];
                    if (a.sinks) weights += sink_weight(a.sinks[head], tile_max[h]);
                    a.y[a.y_at + size_t(row) * a.y_stride + head * a.v_dim + col] = total / weights;
                } else {
                    float* to = partial_values(a, row, head, splits, a.v_dim) + blockIdx.z * a.v_dim;
                    to[col] = begin < end ? total : 0.0f;
                    if (col == 0) {
                        float* weights = partial_weights(a, row, head, splits, a.v_dim) + 2 * blockIdx.z;
                        weights[0] = begin < end ? tile_max[h] : LOWEST, weights[1] = begin < end ? row_sum[h] : 0.0f;
                    }
                }
            }
        }
        __syncthreads();
    }
    if (splits > 1) merge_splits<1>(a, row, splits, first_head, heads, a.v_dim, is_last);
}

#define ATTENTION(NAME, T, HEADS)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ AttentionArgs args) {           \
        attention<T, HEADS>(args);                                                                                     \
    }
ATTENTION(attention_f16_1, __half, 1)
ATTENTION(attention_f16_4, __half, 4)
ATTENTION(attention_f16_8, __half, 8)
ATTENTION(attention_bf16_1, __nv_bfloat16, 1)
ATTENTION(attention_bf16_4, __nv_bfloat16, 4)
ATTENTION(attention_bf16_8, __nv_bfloat16, 8)
ATTENTION(attention_f32_1, float, 1)
ATTENTION(attention_f32_4, float, 4)
ATTENTION(attention_f32_8, float, 8)
ATTENTION(attention_fp8_1, E4M3, 1)
ATTENTION(attention_fp8_4, E4M3, 4)
ATTENTION(attention_fp8_8, E4M3, 8)
ATTENTION(attention_q8_0_1, Q8Cache, 1)
ATTENTION(attention_q8_0_4, Q8Cache, 4)
ATTENTION(attention_q8_0_8, Q8Cache, 8)
