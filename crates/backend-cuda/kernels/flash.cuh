// What the flash attention kernels share (Dao 2022): tiles of rows, copies of the cache, softmax over positions, and results.
//
// Queries, already roped, and softmax weights are rounded to f16, keys and values that are not f16, too.
//
// A non-finite value must not reach rows that do not see its position, not even with a weight of 0. If a result is not
// finite, the tile is computed again, with non-finite values replaced by 0 and noted for the rows that see them.
#pragma once
#include "attention.cuh"

// Rows of a tile at most (`gpu::FLASH_ROWS`).
constexpr u32 ROWS = 64;

// Rows of a sequence, and the positions that they see.
struct FlashTile {
    const AttentionArgs& a;
    u32 first_row, rows, table, begin, end;

    __device__ __forceinline__ FlashTile(const AttentionArgs& args, u32 tile) : a(args) {
        first_row = a.step[a.tiles + 2 * tile], rows = a.step[a.tiles + 2 * tile + 1];
        table = a.pages + a.step[a.tables + first_row];
        u32 unused;
        visible(0, begin, unused);
        visible(rows - 1, unused, end);
        begin = begin / PAGE * PAGE;
    }
    // The positions from `first` to before `end` that a row sees; rows that the tile lacks are like the last one.
    __device__ __forceinline__ void visible(u32 row, u32& first, u32& end) const {
        row = first_row + min(row, rows - 1);
        first = 0, end = a.step[a.positions + row] + 1;
        if (a.masked) first = a.step[a.visible + 2 * row], end = a.step[a.visible + 2 * row + 1];
    }
    // The same of positions that all rows see.
    __device__ __forceinline__ void seen_by_all(u32& first, u32& end) const {
        u32 of_row[2], end_of_row[2];
#pragma unroll
        for (u32 i = 0; i < 2; i++) visible(threadIdx.x % 32 + 32 * i, of_row[i], end_of_row[i]);
        first = __reduce_max_sync(ALL_LANES, max(of_row[0], of_row[1]));
        end = ~__reduce_max_sync(ALL_LANES, ~min(end_of_row[0], end_of_row[1]));
    }
    // Two columns of a row's query, scaled, or zeros.
    __device__ __forceinline__ u32 query_pair(u32 row, u32 head, u32 col) const {
        float2 x = make_float2(0, 0);
        if (row < rows) {
            const float* q = a.q + a.q_at + size_t(first_row + row) * a.q_stride + head * a.k_dim;
            if (col < a.k_dim) x.x = a.scale * q[col];
            if (col + 1 < a.k_dim) x.y = a.scale * q[col + 1];
        }
        return pack_halves(x.x, x.y);
    }
    // Copies units of eight columns of positions from `position` on, the first of a page, to shared memory, where `at` tells
    // the place of a position and unit. Writes zeros for positions that the tile does not see. Asynchronous if the cache is in f16.
    // `cols`: columns that the cache has for a head.
    template <class T, u32 POSITIONS, u32 UNITS, u32 THREADS, class At>
    __device__ __forceinline__ void copy(const u8* cache, u32 kv_head, u32 cols, u32 position, At at) const {
        u32 thread = threadIdx.x, unit = thread % UNITS;
        bool has_unit = unit * 8 < cols;
        // Unrolled, it would need more registers than four blocks of 128 threads have.
#pragma unroll 1
        for (u32 first = 0; first < POSITIONS; first += PAGE) {
            u32 page = a.step[table + min(position + first, end - 1) / PAGE];
            size_t page_and_head = size_t(page) * a.kv_heads + kv_head;
#pragma unroll
            for (u32 j = 0; j < PAGE; j += THREADS / UNITS) {
                u32 of_page = j + thread / UNITS;
                bool is_copied = has_unit && position + first + of_page < end;
                CacheRow<T> row(cache, page_and_head, of_page, cols);
                copy_unit(at(first + of_page, unit), row, is_copied ? unit * 8 : 0, is_copied);
            }
        }
    }
    template <class T> static __device__ __forceinline__ void copy_unit(u8* to, const CacheRow<T>& row, u32 col, bool is_copied) {
        if constexpr (__is_same(T, __half)) {
            copy_or_zero(shared_address(to), row.at + col, is_copied);
        } else {
            *reinterpret_cast<uint4*>(to) = is_copied ? row.halves(col) : make_uint4(0, 0, 0, 0);
        }
    }
    // Replaces non-finite values of positions from `position` on by 0. Notes by column the rows that see them, as bits of two words.
    // `at`: where the value of a position and column is.
    template <class At> __device__ __forceinline__ void note_nonfinite(u32 position, u32 positions, u32 cols, u32* noted, At at) const {
        for (u32 i = threadIdx.x; i < positions * cols; i += blockDim.x) {
            u32 j = i / cols, col = i % cols;
            unsigned short& value = *reinterpret_cast<unsigned short*>(at(j, col));
            if ((value & 0x7c00) != 0x7c00) continue;
            value = 0;
            for (u32 row = 0; row < rows; row++) {
                u32 first_of_row, end_of_row;
                visible(row, first_of_row, end_of_row);
                if (position + j >= first_of_row && position + j < end_of_row) atomicOr(&noted[2 * col + row / 32], 1u << (row % 32));
            }
        }
    }
};

// A lane's rows of a warp's sums on tensor cores, `lane / 4` and 8 more, with columns 8 i + 2 * (`lane % 4`) and the next one: softmax over
// positions that come in tiles (Milakov and Gimelshein 2018).
struct FlashRows {
    u32 own[2], first_seen[2], end_seen[2];
    // Largest scores, times log2(e), and sums of weights over the lane's positions.
    float largest[2], sums[2];

    __device__ __forceinline__ FlashRows(const FlashTile& tile, u32 first_row_of_warp) {
#pragma unroll
        for (u32 r = 0; r < 2; r++) {
            own[r] = first_row_of_warp + threadIdx.x % 32 / 4 + 8 * r;
            tile.visible(own[r], first_seen[r], end_seen[r]);
        }
        clear();
    }
    __device__ __forceinline__ void clear() { largest[0] = largest[1] = -1e30f, sums[0] = sums[1] = 0.0f; }

    // Turns the scores of positions from `position` on into weights. `old`: the weight that results so far have now. `IS_PLAIN`: there
    // is no cap, and the rows see all of the positions. Code without branches runs beside products.
    template <bool IS_PLAIN, u32 N>
    __device__ __forceinline__ void weigh(float (&scores)[N][4], u32 position, float cap, float (&old)[2]) {
        if (!IS_PLAIN && cap > 0.0f) {
            float inverse = 2.0f * LOG2_E / cap;
#pragma unroll
            for (u32 i = 0; i < 4 * N; i++) {
                // cap * tanh(score / cap)
                float& score = scores[i / 4][i % 4];
                score = cap - __fdividef(2.0f * cap, exp2_approximate(score * inverse) + 1.0f);
            }
        }
        u32 lane_first = position + 2 * (threadIdx.x % 4);
        if (!IS_PLAIN && (position < max(first_seen[0], first_seen[1]) || position + 8 * N > min(end_seen[0], end_seen[1]))) {
#pragma unroll
            for (u32 i = 0; i < 4 * N; i++) {
                u32 at = lane_first + i / 4 * 8 + i % 2, r = i % 4 / 2;
                if (at < first_seen[r] || at >= end_seen[r]) scores[i / 4][i % 4] = -INFINITY;
            }
        }
#pragma unroll
        for (u32 r = 0; r < 2; r++) {
            // Several at a time: a warp would wait for each.
            float now[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, total[4] = {};
#pragma unroll
            for (u32 i = 0; i < 2 * N; i++) now[i % 4] = fmaxf(now[i % 4], scores[i / 2][2 * r + i % 2]);
            now[0] = fmaxf(fmaxf(now[0], now[1]), fmaxf(now[2], now[3]));
            now[0] = fmaxf(now[0], __shfl_xor_sync(ALL_LANES, now[0], 1));
            now[0] = fmaxf(now[0], __shfl_xor_sync(ALL_LANES, now[0], 2));
            now[0] = fmaxf(now[0] * LOG2_E, largest[r]);
            old[r] = exp2_approximate(largest[r] - now[0]);
            largest[r] = now[0];
#pragma unroll
            for (u32 i = 0; i < 2 * N; i++) {
                float& score = scores[i / 2][2 * r + i % 2];
                // By one instruction; its result for the largest score is not exactly 1, which matters from scores of 2^20 on.
                score = exp2_approximate(fmaf(score, LOG2_E, -now[0]));
                total[i % 4] += score;
            }
            sums[r] = sums[r] * old[r] + ((total[0] + total[1]) + (total[2] + total[3]));
        }
    }
    // Writes what `results` has of columns from `col` on. `noted`: of `note_nonfinite`, or null.
    template <u32 N>
    __device__ __forceinline__ void write(const FlashTile& tile, u32 head, u32 col, const float (&results)[N][4], const u32* noted) const {
        const AttentionArgs& a = tile.a;
#pragma unroll
        for (u32 r = 0; r < 2; r++) {
            float sum = sums[r] + __shfl_xor_sync(ALL_LANES, sums[r], 1);
            sum += __shfl_xor_sync(ALL_LANES, sum, 2);
            if (a.sinks) sum += sink_weight(a.sinks[head], largest[r] / LOG2_E);
            if (own[r] >= tile.rows) continue;
            float* y = a.y + a.y_at + size_t(tile.first_row + own[r]) * a.y_stride + head * a.v_dim;
#pragma unroll
            for (u32 i = 0; i < 2 * N; i++) {
                u32 at = col + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
                float value = results[i / 2][2 * r + i % 2] / sum;
                if (noted && (noted[2 * at + own[r] / 32] >> (own[r] % 32) & 1)) value = NAN;
                if (at < a.v_dim) y[at] = value;
            }
        }
    }
};

// The weights of 16 positions as the first operand of a product.
__device__ __forceinline__ void pack_weights(u32 (&to)[4], const float (&first)[4], const float (&second)[4]) {
    to[0] = pack_halves(first[0], first[1]), to[1] = pack_halves(first[2], first[3]);
    to[2] = pack_halves(second[0], second[1]), to[3] = pack_halves(second[2], second[3]);
}

template <u32 N> __device__ __forceinline__ void scale_rows(float (&results)[N][4], const float (&by)[2]) {
#pragma unroll
    for (u32 i = 0; i < 4 * N; i++) results[i / 4][i % 4] *= by[i % 4 / 2];
}

template <u32 N> __device__ __forceinline__ bool are_finite(const float (&results)[N][4]) {
    bool are = true;
#pragma unroll
    for (u32 i = 0; i < 4 * N; i++) are = are && isfinite(results[i / 4][i % 4]);
    return are;
}
