// Attention of rows that are each the last of their sequence, for heads of 64, 128 or 256 columns: up to HEADS query heads
// of one K/V head, over all positions or a split of them.
//
// Keys and values come in tiles of 64 positions by asynchronous copies. Those of earlier steps are copied before the
// previous kernel has ended; the block whose positions include the row's own ropes and writes its keys and values to the
// cache. A group of lanes has a position, each lane 8 columns. An online softmax (Milakov and Gimelshein 2018) runs over
// the tiles. If rows are split, the last block of a row to finish merges the results of all.
#include "attention.cuh"
#include "instructions.cuh"

constexpr u32 THREADS = 256, TILE = 64, WARPS = THREADS / 32, STAGES = 2;

template <class T, u32 D, u32 HEADS> __device__ __forceinline__ void decode(const AttentionArgs& a) {
    constexpr u32 LANES = D / 8, GROUPS = THREADS / LANES;
    // Keys and values of a stage; in the end, the sums of the warps.
    extern __shared__ uint4 shared[];
    __shared__ float queries[HEADS][D], scores[HEADS][TILE], tile_max[HEADS], old_weight[HEADS], row_sum[HEADS];
    __shared__ u32 is_last;
    T* tiles = reinterpret_cast<T*>(shared);
    pdl_launch();
    u32 thread = threadIdx.x, lane = thread % LANES, group = thread / LANES, row = blockIdx.y;
    u32 share = a.heads / a.kv_heads, blocks = (share + HEADS - 1) / HEADS;
    u32 kv_head = blockIdx.x / blocks;
    u32 first_head = kv_head * share + blockIdx.x % blocks * HEADS;
    u32 heads = min(HEADS, share - blockIdx.x % blocks * HEADS);
    // The step inputs do not change while kernels of the step run.
    u32 own = a.step[a.positions + row], table = a.pages + a.step[a.tables + row];
    u32 splits = gridDim.z, part = a.step[a.split + 1];
    u32 first_seen = 0, end_seen = own + 1;
    if (a.masked) first_seen = a.step[a.visible + 2 * row], end_seen = a.step[a.visible + 2 * row + 1];
    u32 begin = first_seen / PAGE * PAGE + blockIdx.z * part, end = splits == 1 ? end_seen : min(end_seen, begin + part);
    T* keys = reinterpret_cast<T*>(a.keys);
    T* values = reinterpret_cast<T*>(a.values);
    // Whether an earlier kernel of the step has written the row's keys and values.
    bool is_stored = a.k == nullptr;
    auto copy_tile = [&](u32 tile, u32 stage) {
        if (tile < end) {
            u32 last_page = (end - 1) / PAGE;
            u32 pages[TILE / PAGE];
#pragma unroll
            for (u32 i = 0; i < TILE / PAGE; i++) pages[i] = a.step[table + min(tile / PAGE + i, last_page)];
            u32 to = shared_address(tiles) + stage * 2 * TILE * D * sizeof(T);
#pragma unroll 2
            for (u32 j = group; j < TILE; j += GROUPS) {
                u32 position = tile + j;
                if (position < end && (is_stored || position != own)) {
                    size_t cell = (size_t(pages[j / PAGE]) * a.kv_heads + kv_head) * PAGE + j % PAGE;
#pragma unroll
                    for (u32 i = 0; i < sizeof(T) / 2; i++) {
                        u32 at = 8 * lane + 8 / (sizeof(T) / 2) * i;
                        copy_async<16>(to + (j * D + at) * sizeof(T), keys + cell * D + at);
                        copy_async<16>(to + ((TILE + j) * D + at) * sizeof(T), values + cell * D + at);
                    }
                }
            }
        }
        copy_commit();
    };
    auto fill = [&] {
#pragma unroll
        for (u32 i = 0; i < STAGES; i++) copy_tile(begin + i * TILE, i);
    };
    if (!is_stored) fill();
    pdl_wait();
    if (is_stored) fill();
    const float* table_of_q = reinterpret_cast<const float*>(a.step + a.cos_sin) + row * a.dims;
    for (u32 i = thread; i < HEADS * D; i += THREADS) {
        u32 head = min(i / D, heads - 1), col = i % D;
        queries[i / D][col] =
            a.scale * roped(a.q, a.q_at + row * a.q_stride + (first_head + head) * D, col, a.dims, table_of_q, a.halves);
    }
    T own_key[D / THREADS + 1], own_value[D / THREADS + 1];
    bool writes = !is_stored && own >= begin && own < end;
    if (writes) {
        size_t cell = (size_t(a.step[table + own / PAGE]) * a.kv_heads + kv_head) * PAGE + own % PAGE;
        const float* table_of_k = reinterpret_cast<const float*>(a.step + a.k_cos_sin) + row * a.k_dims;
#pragma unroll
        for (u32 i = 0; i < (D + THREADS - 1) / THREADS; i++) {
            u32 col = thread + i * THREADS;
            if (D % THREADS == 0 || col < D) {
                u32 at = a.k_at + row * a.k_stride + kv_head * D;
                store_one(&own_key[i], roped(a.k, at, col, a.k_dims, table_of_k, a.k_halves));
                store_one(&own_value[i], a.v[a.v_at + row * a.v_stride + kv_head * D + col]);
                keys[cell * D + col] = own_key[i];
                values[cell * D + col] = own_value[i];
            }
        }
    }
    __syncthreads();
    float q[HEADS][8], acc[HEADS][8];
#pragma unroll
    for (u32 h = 0; h < HEADS; h++) {
        load_eight(&queries[h][8 * lane], q[h]);
#pragma unroll
        for (u32 c = 0; c < 8; c++) acc[h][c] = 0.0f;
    }
    u32 stage = 0;
    for (u32 tile = begin; tile < end; tile += TILE) {
        copy_wait<STAGES - 1>();
        T* tile_keys = tiles + stage * 2 * TILE * D;
        T* tile_values = tile_keys + TILE * D;
        if (writes && own >= tile && own < tile + TILE) {
#pragma unroll
            for (u32 i = 0; i < (D + THREADS - 1) / THREADS; i++) {
                u32 col = thread + i * THREADS;
                if (D % THREADS == 0 || col < D) {
                    tile_keys[(own - tile) * D + col] = own_key[i];
                    tile_values[(own - tile) * D + col] = own_value[i];
                }
            }
        }
        __syncthreads();
        u32 count = min(end - tile, TILE);
        u32 skipped = first_seen > tile ? first_seen - tile : 0;
#pragma unroll 2
        for (u32 j = group; j - group < count; j += GROUPS) {
            float dots[HEADS];
#pragma unroll
            for (u32 h = 0; h < HEADS; h++) dots[h] = 0.0f;
            bool is_seen = j < count && j >= skipped;
            if (is_seen) {
                float k[8];
                load_eight(tile_keys + j * D + 8 * lane, k);
#pragma unroll
                for (u32 h = 0; h < HEADS; h++) {
#pragma unroll
                    for (u32 c = 0; c < 8; c++) dots[h] += q[h][c] * k[c];
                }
            }
#pragma unroll
            for (u32 h = 0; h < HEADS; h++) {
#pragma unroll
                for (u32 d = LANES / 2; d > 0; d /= 2) dots[h] += __shfl_xor_sync(ALL_LANES, dots[h], d);
                if (lane == h) scores[h][j] = dots[h];
            }
        }
        __syncthreads();
        // A warp has the softmax of a head.
        u32 warp = thread / 32, of_warp = thread % 32;
        for (u32 h = warp; h < HEADS; h += WARPS) {
            float s[2] = {scores[h][of_warp], scores[h][of_warp + 32]};
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                u32 j = of_warp + 32 * i;
                if (a.cap > 0.0f) s[i] = softcap(s[i], a.cap);
                if (a.alibi > 0.0f) s[i] -= slope(a.alibi, a.heads, first_head + h) * float(own - tile - j);
                if (j >= count || j < skipped) s[i] = LOWEST;
            }
            float before = tile == begin ? LOWEST : tile_max[h];
            float now = fmaxf(before, warp_max(fmaxf(s[0], s[1])));
            float w0 = of_warp < count && of_warp >= skipped ? expf(s[0] - now) : 0.0f;
            float w1 = of_warp + 32 < count && of_warp + 32 >= skipped ? expf(s[1] - now) : 0.0f;
            scores[h][of_warp] = w0, scores[h][of_warp + 32] = w1;
            float total = warp_sum(w0 + w1);
            // All lanes have read the maximum before.
            __syncwarp();
            if (of_warp == 0) {
                float old = expf(before - now);
                row_sum[h] = (tile == begin ? 0.0f : row_sum[h] * old) + total;
                tile_max[h] = now, old_weight[h] = old;
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 h = 0; h < HEADS; h++) {
            float old = old_weight[h];
#pragma unroll
            for (u32 c = 0; c < 8; c++) acc[h][c] *= old;
        }
#pragma unroll 2
        for (u32 j = group; j < count; j += GROUPS) {
            if (j >= skipped) {
                float v[8];
                load_eight(tile_values + j * D + 8 * lane, v);
#pragma unroll
                for (u32 h = 0; h < HEADS; h++) {
                    float weight = scores[h][j];
#pragma unroll
                    for (u32 c = 0; c < 8; c++) acc[h][c] += weight * v[c];
                }
            }
        }
        // The stage is filled again, and so are the scores.
        __syncthreads();
        copy_tile(tile + STAGES * TILE, stage);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();

    // Sums over the groups of a warp, then over warps.
    float* sums = reinterpret_cast<float*>(shared);
    u32 warp = thread / 32;
#pragma unroll
    for (u32 h = 0; h < HEADS; h++) {
#pragma unroll
        for (u32 c = 0; c < 8; c++) {
#pragma unroll
            for (u32 d = LANES; d < 32; d *= 2) acc[h][c] += __shfl_xor_sync(ALL_LANES, acc[h][c], d);
        }
        if (thread % 32 < LANES) {
            float* to = sums + (warp * HEADS + h) * D + 8 * lane;
            reinterpret_cast<float4*>(to)[0] = make_float4(acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
            reinterpret_cast<float4*>(to)[1] = make_float4(acc[h][4], acc[h][5], acc[h][6], acc[h][7]);
        }
    }
    __syncthreads();
    for (u32 i = thread; i < heads * D; i += THREADS) {
        u32 h = i / D, col = i % D, head = first_head + h;
        float total = 0.0f;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) total += sums[w * HEADS * D + i];
        if (splits == 1) {
            float weights = row_sum[h];
            if (a.sinks) weights += sink_weight(a.sinks[head], tile_max[h]);
            a.y[a.y_at + size_t(row) * a.y_stride + head * D + col] = total / weights;
        } else {
            float* to = a.parts + ((size_t(row) * a.heads + head) * splits + blockIdx.z) * (D + 2);
            to[col] = begin < end ? total : 0.0f;
            if (col == 0) {
                to[D] = begin < end ? tile_max[h] : LOWEST;
                to[D + 1] = begin < end ? row_sum[h] : 0.0f;
            }
        }
    }
    if (splits > 1) merge_splits(a, row, splits, first_head, heads, D, THREADS, is_last);
}

#define DECODE(NAME, T, D, HEADS)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ AttentionArgs args) {           \
        decode<T, D, HEADS>(args);                                                                                     \
    }
#define DECODE_OF(TYPE, T)                                                                                             \
    DECODE(decode_##TYPE##_64_1, T, 64, 1)                                                                             \
    DECODE(decode_##TYPE##_64_4, T, 64, 4)                                                                             \
    DECODE(decode_##TYPE##_64_8, T, 64, 8)                                                                             \
    DECODE(decode_##TYPE##_128_1, T, 128, 1)                                                                           \
    DECODE(decode_##TYPE##_128_4, T, 128, 4)                                                                           \
    DECODE(decode_##TYPE##_128_8, T, 128, 8)                                                                           \
    DECODE(decode_##TYPE##_256_1, T, 256, 1)                                                                           \
    DECODE(decode_##TYPE##_256_4, T, 256, 4)                                                                           \
    DECODE(decode_##TYPE##_256_8, T, 256, 8)
DECODE_OF(f16, __half)
DECODE_OF(bf16, __nv_bfloat16)
