// Attention of rows that are each the last of their sequence, for heads of 64, 128 or 256 columns, on tensor cores: up to
// eight query heads of one K/V head, over all positions or a split of them.
//
// A warp has groups of 16 positions, whose keys and values come by asynchronous copies, and an online softmax (Milakov and
// Gimelshein 2018) of its own. Those of a cache in FP8 or Q8_0 become f16 in shared memory. Those of earlier steps are copied before the previous kernel has ended; the block whose
// positions include the row's own ropes and writes its keys and values to the cache. If rows are split, the last block of a
// row to finish merges the results of all.
//
// A matrix of 16 rows has a query's value rounded to f16, or to the type of a cache in bf16, in a head's row, and what rounding has left of it
// eight rows further. So have weights. The sum of both rows has 22 bits in f16, nearly those of f32, and 16 in bf16. Infinite keys
// or values make NaN.
#include "attention.cuh"

constexpr u32 WARPS = 4, THREADS = 32 * WARPS, GROUP = 16, STAGES = 2;

// Weights are multiplied so: many small ones beside a large one would have few bits in f16, or none.
constexpr float WEIGHT_SCALE = 32768.0f;

// Byte offset of a unit of 16 bytes in a tile with rows of DIM values of 16 bits. Pairs of units are permuted by the row, against
// bank conflicts: an asynchronous copy of 32 bytes that come apart would be two requests to L2.
template <u32 DIM> __device__ __forceinline__ u32 pair_at(u32 row, u32 unit) {
    return row * DIM * 2 + (unit ^ row % 4 * 2) * 16;
}

// Two values rounded to a type of the cache, and what rounding has left of them.
template <class T> __device__ __forceinline__ void split_pair(float x, float y, u32& rounded, u32& rest) {
    if constexpr (__is_same(T, __half)) {
        rounded = pack_halves(x, y);
        float2 back = __half22float2(*reinterpret_cast<__half2*>(&rounded));
        rest = pack_halves(x - back.x, y - back.y);
    } else {
        auto pack = [](float x, float y) {
            __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
            return *reinterpret_cast<u32*>(&pair);
        };
        rounded = pack(x, y);
        rest = pack(x - __uint_as_float(rounded << 16), y - __uint_as_float(rounded & 0xffff0000u));
    }
}

// The power of two in a number, or 1 for what has none.
__device__ __forceinline__ float power_of_two(float x) {
    u32 bits = __float_as_uint(x) & 0x7f800000u;
    return bits == 0 || bits == 0x7f800000u ? 1.0f : __uint_as_float(bits);
}

// What tensor cores multiply, how a row is stored, and whether a page has scales after its 8-bit integers.
template <class T> struct Stored {
    using Value = T;
    using Element = T;
    static constexpr bool IS_BYTES = false, HAS_SCALES = false;
};
template <> struct Stored<E4M3> {
    using Value = __half;
    using Element = E4M3;
    static constexpr bool IS_BYTES = true, HAS_SCALES = false;
};
template <> struct Stored<Q8Cache> {
    using Value = __half;
    using Element = u8;
    static constexpr bool IS_BYTES = true, HAS_SCALES = true;
};

template <class Cache, u32 D> __device__ __forceinline__ void decode(const AttentionArgs& a) {
    using S = Stored<Cache>;
    using T = typename S::Value;
    using Element = typename S::Element;
    constexpr bool IS_BYTES = S::IS_BYTES, HAS_SCALES = S::HAS_SCALES;
    constexpr u32 UNITS = D / 8, TILE = GROUP * D * sizeof(T), PITCH = D + 8;
    // Bytes of the scales of a row, and of a group's keys or values as they are stored.
    constexpr u32 SCALES = HAS_SCALES ? D / 16 : 0, RAW = GROUP * (D * sizeof(Element) + SCALES);
    // The warps' stages of keys and values as they are stored, and a tile of each in f16 if they are bytes; in the end, the
    // warps' sums of values.
    extern __shared__ uint4 shared[];
    __shared__ alignas(16) float queries[MAX_HEADS][PITCH];
    __shared__ alignas(16) Element own_rows[2][D];
    // Of the queries: a power of two that they are divided by, so that they are neither too large nor too small for f16.
    __shared__ float powers[MAX_HEADS];
    __shared__ float largest_of[WARPS][MAX_HEADS], sum_of[WARPS][MAX_HEADS];
    __shared__ u32 is_last;
    pdl_launch();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32, row = blockIdx.y;
    u32 share = a.heads / a.kv_heads, blocks = (share + MAX_HEADS - 1) / MAX_HEADS;
    u32 kv_head = blockIdx.x / blocks;
    u32 first_head = kv_head * share + blockIdx.x % blocks * MAX_HEADS;
    u32 heads = min(MAX_HEADS, share - blockIdx.x % blocks * MAX_HEADS);
    // The step inputs do not change while kernels of the step run.
    u32 own = a.step[a.positions + row], table = a.pages + a.step[a.tables + row];
    u32 splits = gridDim.z, part = a.step[a.split + 1];
    u32 first_seen = 0, end_seen = own + 1;
    if (a.masked) first_seen = a.step[a.visible + 2 * row], end_seen = a.step[a.visible + 2 * row + 1];
    u32 begin = first_seen / PAGE * PAGE + blockIdx.z * part, end = splits == 1 ? end_seen : min(end_seen, begin + part);
    Element* keys = reinterpret_cast<Element*>(a.keys);
    Element* values = reinterpret_cast<Element*>(a.values);
    // Whether an earlier kernel of the step has written the row's keys and values.
    bool is_stored = HAS_SCALES || a.k == nullptr;
    u8* ring = reinterpret_cast<u8*>(shared) + warp * (STAGES * 2 * RAW + (IS_BYTES ? 2 * TILE : 0));
    u32 ring_address = shared_address(ring);
    // What a row does not see becomes zeros: a NaN times a weight of 0 would still be NaN.
    auto copy_group = [&](u32 group, u32 stage) {
        if (group < end) {
            size_t page_and_head = size_t(a.step[table + group / PAGE]) * a.kv_heads + kv_head;
            u32 to = ring_address + stage * 2 * RAW;
            if constexpr (IS_BYTES) {
                size_t page = page_and_head * PAGE * (D + SCALES), from = page + group % PAGE * D;
#pragma unroll
                for (u32 i = 16 * lane; i < GROUP * D; i += 16 * 32) {
                    copy_async<16>(to + i, a.keys + from + i);
                    copy_async<16>(to + RAW + i, a.values + from + i);
                }
                if (HAS_SCALES && lane < D / 16) {
                    size_t of_scales = page + PAGE * D + group % PAGE * SCALES + 16 * lane;
                    copy_async<16>(to + GROUP * D + 16 * lane, a.keys + of_scales);
                    copy_async<16>(to + RAW + GROUP * D + 16 * lane, a.values + of_scales);
                }
                return copy_commit();
            }
            size_t cell = page_and_head * PAGE + group % PAGE;
#pragma unroll
            for (u32 i = lane; i < GROUP * UNITS; i += 32) {
                u32 j = i / UNITS, unit = i % UNITS, position = group + j;
                bool is_copied = position >= first_seen && position < end && (is_stored || position != own);
                size_t from = (cell + j) * D + 8 * unit;
                copy_or_zero(to + pair_at<D>(j, unit), keys + from, is_copied);
                copy_or_zero(to + TILE + pair_at<D>(j, unit), values + from, is_copied);
            }
        }
        copy_commit();
    };
    // Keys and values of a group that are bytes become f16, and zeros where the row does not see them.
    u8* tiles = ring + STAGES * 2 * RAW;
    auto convert = [&](u32 group, const u8* raw) {
#pragma unroll 4
        for (u32 i = lane; i < 2 * GROUP * UNITS; i += 32) {
            u32 which = i / (GROUP * UNITS), j = i / UNITS % GROUP, unit = i % UNITS, position = group + j;
            const u8* from = raw + which * RAW;
            uint4 eight = make_uint4(0, 0, 0, 0);
            if (position >= first_seen && position < end) {
                if constexpr (HAS_SCALES) {
                    const __half* scales = reinterpret_cast<const __half*>(from + GROUP * D) + j * (D / 32);
                    eight = CacheRow<Cache>(from + j * D, scales).halves(8 * unit);
                } else if constexpr (IS_BYTES) {
                    eight = CacheRow<Cache>(reinterpret_cast<const Element*>(from + j * D)).halves(8 * unit);
                }
            }
            *reinterpret_cast<uint4*>(tiles + which * TILE + pair_at<D>(j, unit)) = eight;
        }
    };
    u32 first_group = begin + GROUP * warp;
    if (is_stored) pdl_wait();
#pragma unroll 1
    for (u32 i = 0; i < STAGES; i++) copy_group(first_group + i * WARPS * GROUP, i);
    // How the lane's columns of a query rotate, and the thread's of the key.
    constexpr u32 OF_THREAD = (D + THREADS - 1) / THREADS;
    const float* table_of_q = reinterpret_cast<const float*>(a.step + a.cos_sin) + row * a.dims;
    const float* table_of_k = reinterpret_cast<const float*>(a.step + a.k_cos_sin) + row * a.k_dims;
    Rotation of_q[D / 32], of_k[OF_THREAD];
#pragma unroll
    for (u32 i = 0; i < D / 32; i++) of_q[i] = rotation(lane + 32 * i, a.dims, table_of_q, a.halves);
    bool writes = !is_stored && own >= begin && own < end;
    size_t own_cell = 0;
    if (writes) {
#pragma unroll
        for (u32 i = 0; i < OF_THREAD; i++) of_k[i] = rotation(thread + i * THREADS, a.k_dims, table_of_k, a.k_halves);
        own_cell = (size_t(a.step[table + own / PAGE]) * a.kv_heads + kv_head) * PAGE + own % PAGE;
    }
    if (!is_stored) pdl_wait();
    // A warp has heads WARPS apart.
    float x[MAX_HEADS / WARPS][D / 32], own_key[OF_THREAD], own_value[OF_THREAD];
#pragma unroll
    for (u32 n = 0; n < MAX_HEADS / WARPS; n++) {
        u32 h = warp + n * WARPS;
        // Heads that are not there compute with another one's query; nothing reads their results.
        const float* query = a.q + a.q_at + row * a.q_stride + (first_head + min(h, heads - 1)) * D;
#pragma unroll
        for (u32 i = 0; i < D / 32; i++) x[n][i] = a.scale * rotated(query, lane + 32 * i, of_q[i]);
    }
    if (writes) {
#pragma unroll
        for (u32 i = 0; i < OF_THREAD; i++) {
            u32 col = thread + i * THREADS;
            if (col >= D) break;
            own_key[i] = rotated(a.k + a.k_at + row * a.k_stride + kv_head * D, col, of_k[i]);
            own_value[i] = a.v[a.v_at + row * a.v_stride + kv_head * D + col];
        }
    }
#pragma unroll
    for (u32 n = 0; n < MAX_HEADS / WARPS; n++) {
        u32 h = warp + n * WARPS;
        float largest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < D / 32; i++) largest = fmaxf(largest, fabsf(x[n][i]));
        float power = power_of_two(warp_max(largest));
        if (lane == 0) powers[h] = power;
        // A power of two has an exact inverse.
#pragma unroll
        for (u32 i = 0; i < D / 32; i++) queries[h][lane + 32 * i] = x[n][i] * (1.0f / power);
    }
    if (writes) {
#pragma unroll
        for (u32 i = 0; i < OF_THREAD; i++) {
            u32 col = thread + i * THREADS;
            if (col >= D) break;
            if constexpr (!HAS_SCALES) {
                store_one(&own_rows[0][col], own_key[i]);
                store_one(&own_rows[1][col], own_value[i]);
            }
            keys[own_cell * D + col] = own_rows[0][col];
            values[own_cell * D + col] = own_rows[1][col];
        }
    }
    __syncthreads();
    // A lane has head `lane / 4`.
    u32 head = lane / 4, quarter = lane % 4;
    u32 q[D / 16][4];
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        const float* from = queries[head] + 16 * k + 2 * quarter;
        split_pair<T>(from[0], from[1], q[k][0], q[k][1]);
        split_pair<T>(from[8], from[9], q[k][2], q[k][3]);
    }
    float power = powers[head], of_distance = a.alibi > 0.0f ? slope(a.alibi, a.heads, first_head + head) : 0.0f;
    float result[UNITS][4] = {}, largest = LOWEST, sum = 0.0f;
    u32 stage = 0;
    for (u32 group = first_group; group < end; group += WARPS * GROUP) {
        copy_wait<STAGES - 1>();
        __syncwarp();
        u8* raw = ring + stage * 2 * RAW;
        if (writes && own - group < GROUP) {
            constexpr u32 OF_ROW = D * sizeof(Element) / 16;
            for (u32 i = lane; i < 2 * OF_ROW; i += 32) {
                u32 which = i / OF_ROW, unit = i % OF_ROW, row = own - group;
                u32 at = which * RAW + (IS_BYTES ? row * D + 16 * unit : pair_at<D>(row, unit));
                *reinterpret_cast<uint4*>(raw + at) =
                    *reinterpret_cast<const uint4*>(&own_rows[which][16 / sizeof(Element) * unit]);
            }
            __syncwarp();
        }
        u32 k_tile = shared_address(raw);
        if constexpr (IS_BYTES) {
            convert(group, raw);
            // The stage is filled again.
            __syncwarp();
            copy_group(group + STAGES * WARPS * GROUP, stage);
            k_tile = shared_address(tiles);
        }
        u32 v_tile = k_tile + TILE;
        float products[2][4] = {};
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
            u32 b[4];
            load_matrices(b, k_tile + pair_at<D>(lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
            multiply_matrices<T>(products[0], q[k], b[0], b[1]);
            multiply_matrices<T>(products[1], q[k], b[2], b[3]);
        }
        float weights[2][2], now = largest;
        bool is_seen[2][2];
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) {
                u32 position = group + 8 * n + 2 * quarter + c;
                float score = power * (products[n][c] + products[n][c + 2]);
                if (a.cap > 0.0f) score = softcap(score, a.cap);
                score -= of_distance * float(own - position);
                is_seen[n][c] = position >= first_seen && position < end;
                weights[n][c] = score;
                if (is_seen[n][c]) now = fmaxf(now, score);
            }
        }
        now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 1));
        now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 2));
        if (__any_sync(ALL_LANES, now != largest)) {
            float old = exp2f((largest - now) * LOG2_E);
            sum *= old;
#pragma unroll
            for (u32 i = 0; i < UNITS; i++) {
#pragma unroll
                for (u32 c = 0; c < 4; c++) result[i][c] *= old;
            }
            largest = now;
        }
        u32 w[4];
#pragma unroll
        for (u32 n = 0; n < 2; n++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) {
                weights[n][c] = is_seen[n][c] ? exp2f((weights[n][c] - now) * LOG2_E) : 0.0f;
                sum += weights[n][c];
            }
            split_pair<T>(WEIGHT_SCALE * weights[n][0], WEIGHT_SCALE * weights[n][1], w[2 * n], w[2 * n + 1]);
        }
#pragma unroll
        for (u32 i = 0; i < UNITS; i += 2) {
            u32 b[4];
            load_transposed(b, v_tile + pair_at<D>(lane % 16, i + lane / 16));
            multiply_matrices<T>(result[i], w, b[0], b[1]);
            multiply_matrices<T>(result[i + 1], w, b[2], b[3]);
        }
        // The stage, or the tile, is filled again.
        __syncwarp();
        if (!IS_BYTES) copy_group(group + STAGES * WARPS * GROUP, stage);
        stage ^= 1;
    }
    copy_wait<0>();
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    if (quarter == 0) largest_of[warp][head] = largest, sum_of[warp][head] = sum;
    __syncthreads();
    // A warp's sums, relative to the largest score of all warps.
    float of_all = LOWEST;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) of_all = fmaxf(of_all, largest_of[w][head]);
    float old = exp2f((largest - of_all) * LOG2_E) * (1.0f / WEIGHT_SCALE);
    float* sums = reinterpret_cast<float*>(shared);
#pragma unroll
    for (u32 i = 0; i < UNITS; i++) {
        float* to = sums + (warp * MAX_HEADS + head) * PITCH + 8 * i + 2 * quarter;
        to[0] = old * (result[i][0] + result[i][2]), to[1] = old * (result[i][1] + result[i][3]);
    }
    __syncthreads();
    for (u32 i = thread; i < heads * D; i += THREADS) {
        u32 h = i / D, col = i % D;
        float total = 0.0f, weight = 0.0f, top = LOWEST;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) {
            total += sums[(w * MAX_HEADS + h) * PITCH + col];
            top = fmaxf(top, largest_of[w][h]);
        }
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) weight += exp2f((largest_of[w][h] - top) * LOG2_E) * sum_of[w][h];
        if (splits == 1) {
            if (a.sinks) weight += sink_weight(a.sinks[first_head + h], top);
            a.y[a.y_at + size_t(row) * a.y_stride + (first_head + h) * D + col] = total / weight;
        } else {
            partial_values(a, row, first_head + h, splits, D)[blockIdx.z * D + col] = total;
            if (col == 0) {
                float* to = partial_weights(a, row, first_head + h, splits, D) + 2 * blockIdx.z;
                to[0] = top, to[1] = weight;
            }
        }
    }
    if (splits > 1) merge_splits<4>(a, row, splits, first_head, heads, D, is_last);
}

#define DECODE(NAME, T, D)                                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ AttentionArgs args) {           \
        decode<T, D>(args);                                                                                            \
    }
DECODE(decode_f16_64, __half, 64)
DECODE(decode_f16_128, __half, 128)
DECODE(decode_f16_256, __half, 256)
DECODE(decode_fp8_64, E4M3, 64)
DECODE(decode_fp8_128, E4M3, 128)
DECODE(decode_fp8_256, E4M3, 256)
DECODE(decode_q8_0_64, Q8Cache, 64)
DECODE(decode_q8_0_128, Q8Cache, 128)
DECODE(decode_q8_0_256, Q8Cache, 256)
DECODE(decode_bf16_64, __nv_bfloat16, 64)
DECODE(decode_bf16_128, __nv_bfloat16, 128)
DECODE(decode_bf16_256, __nv_bfloat16, 256)
