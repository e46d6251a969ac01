// What the kernels of decode attention share: attention of rows that are each the last of their sequence, for heads of 64, 128 or
// 256 columns, on tensor cores. A block has up to eight query heads of one K/V head, and all positions or a split of them.
//
// A warp has an online softmax (Milakov and Gimelshein 2018) of its own. The block whose positions include the row's own ropes and
// writes its keys and values to the cache. If rows are split, the last block of a row to finish merges the results of all, or the
// blocks are a cluster, and each merges some columns.
//
// A matrix of 16 rows has a query's value rounded to f16, or to the type of a cache in bf16, in a head's row, and what rounding has
// left of it eight rows further. So have weights. The sum of both rows has 22 bits in f16, nearly those of f32, and 16 in bf16.
// Infinite keys or values make NaN.
#pragma once
#include "attention.cuh"

constexpr u32 WARPS = 4, THREADS = 32 * WARPS;

// Weights are multiplied by 2^15: many small ones beside a large one would have few bits in f16, or none.
constexpr float LOG2_SCALE = 15.0f;

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

// Exponent bits of the power of two in a number, or of 1 for what has none.
__device__ __forceinline__ u32 power_of_two(float x) {
    u32 bits = __float_as_uint(x) & 0x7f800000u;
    // The inverse of 2^127 is no normal number.
    return bits == 0 || bits == 0x7f800000u ? 127u << 23 : min(bits, 253u << 23);
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

// Static shared memory of a block.
template <class Cache, u32 D> struct DecodeShared {
    // Queries, rounded, and what rounding has left of them.
    alignas(16) typename Stored<Cache>::Value queries[2][MAX_HEADS][D + 8];
    // The row's own keys and values, as they are stored.
    alignas(16) typename Stored<Cache>::Element own_rows[2][D];
    // Of the queries: a power of two that they are divided by, so that they are neither too large nor too small for f16.
    float powers[MAX_HEADS];
    // By head and warp, the largest score, and the sum of weights.
    alignas(16) float largest_of[MAX_HEADS][WARPS], sum_of[MAX_HEADS][WARPS];
    u32 is_last;
};

// A block's row and heads, and a warp's queries and sums. A lane has query head `head` of the block.
template <class Cache, u32 D> struct Decode {
    using T = typename Stored<Cache>::Value;
    using Element = typename Stored<Cache>::Element;
    static constexpr u32 UNITS = D / 8, PITCH = D + 8;
    static constexpr bool HAS_SCALES = Stored<Cache>::HAS_SCALES;

    const AttentionArgs& a;
    DecodeShared<Cache, D>& shared;
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32, head = lane / 4, quarter = lane % 4;
    u32 row = blockIdx.y, splits = gridDim.z, kv_head, first_head, heads;
    // The row's own position, where its block table starts, and the positions that it sees.
    u32 own, table, first_seen = 0, end_seen;
    // Whether an earlier kernel of the step has written the row's keys and values.
    bool is_stored = HAS_SCALES || a.k == nullptr;
    u32 q[D / 16][4];
    float power, of_distance;
    // Sums of values by unit of eight columns, those of what rounding has left of weights after the others; the largest score,
    // and the sum of weights.
    float result[UNITS][4] = {}, largest = LOWEST, sum = 0.0f;

    __device__ __forceinline__ Decode(const AttentionArgs& a, DecodeShared<Cache, D>& shared) : a(a), shared(shared) {
        u32 share = a.heads / a.kv_heads, blocks = (share + MAX_HEADS - 1) / MAX_HEADS;
        kv_head = blockIdx.x / blocks;
        first_head = kv_head * share + blockIdx.x % blocks * MAX_HEADS;
        heads = min(MAX_HEADS, share - blockIdx.x % blocks * MAX_HEADS);
        // The step inputs do not change while kernels of the step run, but for tokens.
        own = a.step[a.positions + row], table = a.pages + a.step[a.tables + row], end_seen = own + 1;
        if (a.masked) first_seen = a.step[a.visible + 2 * row], end_seen = a.step[a.visible + 2 * row + 1];
    }

    // The first position of the first page that the row sees.
    __device__ __forceinline__ u32 first_page() const { return first_seen / PAGE * PAGE; }

    // Index in the cache of the page and head that have a position.
    __device__ __forceinline__ size_t page_and_head(u32 position) const {
        return size_t(a.step[table + position / PAGE]) * a.kv_heads + kv_head;
    }

    __device__ __forceinline__ bool sees(u32 position) const { return position >= first_seen && position < end_seen; }

    // Loads and ropes the queries, and, if the block `writes` them, the row's own keys and values: to the cache and to `own_rows`.
    // Waits for the kernel before, unless the caller has (`is_stored`).
    __device__ __forceinline__ void prepare(bool writes) {
        // How the lane's columns of a query rotate, and the thread's of the key.
        constexpr u32 OF_THREAD = (D + THREADS - 1) / THREADS;
        const float* table_of_q = reinterpret_cast<const float*>(a.step + a.cos_sin) + row * a.dims;
        const float* table_of_k = reinterpret_cast<const float*>(a.step + a.k_cos_sin) + row * a.k_dims;
        Rotation of_q[D / 32], of_k[OF_THREAD];
#pragma unroll
        for (u32 i = 0; i < D / 32; i++) of_q[i] = rotation(lane + 32 * i, a.dims, table_of_q, a.halves);
        size_t own_cell = 0;
        if (writes) {
#pragma unroll
            for (u32 i = 0; i < OF_THREAD; i++) of_k[i] = rotation(thread + i * THREADS, a.k_dims, table_of_k, a.k_halves);
            own_cell = page_and_head(own) * PAGE + own % PAGE;
        }
        if (!is_stored) pdl_wait();
        // A warp has heads WARPS apart. Those that are not there are zeros.
        float x[MAX_HEADS / WARPS][D / 32] = {}, own_key[OF_THREAD], own_value[OF_THREAD];
#pragma unroll
        for (u32 n = 0; n < MAX_HEADS / WARPS; n++) {
            u32 h = warp + n * WARPS;
            if (h >= heads) break;
            const float* query = a.q + a.q_at + row * a.q_stride + (first_head + h) * D;
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
            float most = 0.0f;
#pragma unroll
            for (u32 i = 0; i < D / 32; i++) most = fmaxf(most, fabsf(x[n][i]));
            u32 power = power_of_two(warp_max(most));
            if (lane == 0) shared.powers[h] = __uint_as_float(power);
            // A power of two has an exact inverse.
            float inverse = __uint_as_float((254u << 23) - power);
#pragma unroll
            for (u32 i = 0; i < D / 32; i++) {
                u32 col = lane + 32 * i;
                T rounded, rest;
                store_one(&rounded, x[n][i] * inverse);
                store_one(&rest, x[n][i] * inverse - as_float(rounded));
                shared.queries[0][h][col] = rounded, shared.queries[1][h][col] = rest;
            }
        }
        if (writes) {
            Element* keys = reinterpret_cast<Element*>(a.keys);
            Element* values = reinterpret_cast<Element*>(a.values);
#pragma unroll
            for (u32 i = 0; i < OF_THREAD; i++) {
                u32 col = thread + i * THREADS;
                if (col >= D) break;
                if constexpr (!HAS_SCALES) {
                    store_one(&shared.own_rows[0][col], own_key[i]);
                    store_one(&shared.own_rows[1][col], own_value[i]);
                }
                keys[own_cell * D + col] = shared.own_rows[0][col];
                values[own_cell * D + col] = shared.own_rows[1][col];
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
            // Four matrices of 8 heads and 8 columns: both of the first columns, then of the second ones.
            load_matrices(q[k], shared_address(&shared.queries[lane / 8 % 2][lane % 8][16 * k + lane / 16 * 8]));
        }
        power = shared.powers[head], of_distance = a.alibi > 0.0f ? slope(a.alibi, a.heads, first_head + head) : 0.0f;
    }

    // The row's own key and value replace row `at` of the warp's tiles. `unit_of(which, row, unit)`: where 16 bytes are.
    template <class Of> __device__ __forceinline__ void place_own(u32 at, Of unit_of) {
        constexpr u32 OF_ROW = D * sizeof(Element) / 16;
        for (u32 i = lane; i < 2 * OF_ROW; i += 32) {
            u32 which = i / OF_ROW, unit = i % OF_ROW;
            *reinterpret_cast<uint4*>(unit_of(which, at, unit)) =
                *reinterpret_cast<const uint4*>(&shared.own_rows[which][16 / sizeof(Element) * unit]);
        }
    }

    // Addresses for `ldmatrix` of the lane's row in a tile, for the first four pairs of units of 16 bytes. The pattern repeats every
    // eight units (`Tile::EIGHT` bytes) and every eight rows (8 `Tile::ROW`).
    template <class Tile> static __device__ __forceinline__ void find_units(u32 (&at)[4], u32 tile, u32 row, u32 unit) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) at[i] = tile + Tile::at(row, 2 * i + unit);
    }

    // Products of the queries and a tile of keys of 8 N positions.
    template <class Tile, u32 N> __device__ __forceinline__ void multiply_keys(float (&products)[N][4], u32 tile) {
        u32 at[4];
        find_units<Tile>(at, tile, lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
            for (u32 n = 0; n < N; n += 2) {
                u32 b[4];
                load_matrices(b, at[k % 4] + k / 4 * Tile::EIGHT + 8 * n * Tile::ROW);
                multiply_matrices<T>(products[n], q[k], b[0], b[1]);
                multiply_matrices<T>(products[n + 1], q[k], b[2], b[3]);
            }
        }
    }

    // Products of positions from `group` to `end` become weights, as operands, relative to the largest score so far. `end` is not
    // before `first_seen`: a row sees some position, and splits end where pages do, or with what it sees.
    template <u32 N> __device__ __forceinline__ void weigh(const float (&products)[N][4], u32 group, u32 end, u32 (&w)[N / 2][4]) {
        float scores[N][2], now = largest;
#pragma unroll
        for (u32 n = 0; n < N; n++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) scores[n][c] = power * (products[n][c] + products[n][c + 2]);
        }
        u32 first = group + 2 * quarter;
        if (a.cap > 0.0f || a.alibi > 0.0f) {
#pragma unroll
            for (u32 n = 0; n < N; n++) {
#pragma unroll
                for (u32 c = 0; c < 2; c++) {
                    if (a.cap > 0.0f) scores[n][c] = softcap(scores[n][c], a.cap);
                    scores[n][c] -= of_distance * float(own - (first + 8 * n + c));
                }
            }
        }
#pragma unroll
        for (u32 n = 0; n < N; n++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) {
                // The exponential of -inf is zero.
                if (first + 8 * n + c - first_seen >= end - first_seen) scores[n][c] = -INFINITY;
                now = fmaxf(now, scores[n][c]);
            }
        }
        now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 1));
        now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 2));
        // Before the first positions there are no sums.
        if (__any_sync(ALL_LANES, now != largest && largest != LOWEST)) {
            float old = exp2_approximate((largest - now) * LOG2_E);
            sum *= old;
#pragma unroll
            for (u32 i = 0; i < UNITS; i++) {
#pragma unroll
                for (u32 c = 0; c < 4; c++) result[i][c] *= old;
            }
        }
        largest = now;
#pragma unroll
        for (u32 n = 0; n < N; n++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) {
                scores[n][c] = exp2_approximate(fmaf(scores[n][c] - now, LOG2_E, LOG2_SCALE));
                sum += scores[n][c];
            }
            split_pair<T>(scores[n][0], scores[n][1], w[n / 2][n % 2 * 2], w[n / 2][n % 2 * 2 + 1]);
        }
    }

    // Adds the products of weights and a tile of values.
    template <class Tile, u32 N> __device__ __forceinline__ void add_values(const u32 (&w)[N][4], u32 tile) {
        u32 at[4];
        find_units<Tile>(at, tile, lane % 16, lane / 16);
#pragma unroll
        for (u32 n = 0; n < N; n++) {
#pragma unroll
            for (u32 i = 0; i < UNITS; i += 2) {
                u32 b[4];
                load_transposed(b, at[i / 2 % 4] + i / 8 * Tile::EIGHT + 16 * n * Tile::ROW);
                multiply_matrices<T>(result[i], w[n], b[0], b[1]);
                multiply_matrices<T>(result[i + 1], w[n], b[2], b[3]);
            }
        }
    }

    // Where a warp's sums of a head are, in dynamic shared memory, `BYTES` from those of the warp before.
    template <u32 BYTES> static __device__ __forceinline__ float* sums_of(u8* sums, u32 warp, u32 head) {
        static_assert(BYTES >= MAX_HEADS * PITCH * sizeof(float), "a warp's sums");
        return reinterpret_cast<float*>(sums + warp * BYTES) + head * PITCH;
    }

    // Merges the warps' sums, where nothing is copied any more and no other warp reads before the barrier, then the results of all
    // splits. In a cluster, those of a block stay where its first warp's were: sums of values, and after them the largest score and
    // the sum of weights.
    template <u32 BYTES, bool IN_CLUSTER = false> __device__ __forceinline__ void finish(u8* sums) {
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        if (quarter == 0) shared.largest_of[head][warp] = largest, shared.sum_of[head][warp] = sum;
        float* own_sums = sums_of<BYTES>(sums, warp, head) + 2 * quarter;
#pragma unroll
        for (u32 i = 0; i < UNITS; i++) {
            *reinterpret_cast<float2*>(own_sums + 8 * i) =
                make_float2(result[i][0] + result[i][2], result[i][1] + result[i][3]);
        }
        __syncthreads();
        // A warp has heads WARPS apart, and a lane columns side by side.
        constexpr u32 OF_LANE = D / 32;
        for (u32 h = warp; h < heads; h += WARPS) {
            float factors[WARPS], top = LOWEST, weight = 0.0f, total[OF_LANE] = {};
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) top = fmaxf(top, shared.largest_of[h][w]);
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) {
                factors[w] = exp2_approximate(fmaf(shared.largest_of[h][w] - top, LOG2_E, -LOG2_SCALE));
                weight += factors[w] * shared.sum_of[h][w];
                const float* from = sums_of<BYTES>(sums, w, h) + OF_LANE * lane;
#pragma unroll
                for (u32 c = 0; c < OF_LANE; c++) total[c] += factors[w] * from[c];
            }
            if (splits == 1) {
                if (a.sinks) weight += sink_weight(a.sinks[first_head + h], top);
                float* to = a.y + a.y_at + size_t(row) * a.y_stride + (first_head + h) * D + OF_LANE * lane;
#pragma unroll
                for (u32 c = 0; c < OF_LANE; c++) to[c] = __fdividef(total[c], weight);
                continue;
            }
            float *to = sums_of<BYTES>(sums, 0, h), *weights = to + D;
            if constexpr (!IN_CLUSTER) {
                to = partial_values(a, row, first_head + h, splits, D) + blockIdx.z * D;
                weights = partial_weights(a, row, first_head + h, splits, D) + 2 * blockIdx.z;
            }
#pragma unroll
            for (u32 c = 0; c < OF_LANE; c++) to[OF_LANE * lane + c] = total[c];
            if (lane == 0) weights[0] = top, weights[1] = weight;
        }
        if constexpr (!IN_CLUSTER) {
            if (splits > 1) merge_splits<D == 64 ? 2 : 4>(a, row, splits, first_head, heads, D, shared.is_last);
        }
    }
};
