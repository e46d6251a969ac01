// Flash attention (Dao 2023) for tiles of up to 64 rows of a sequence, one head per block, on tensor cores.
//
// A warp has 16 rows. Keys and values of a cache in f16 come in tiles of 64 positions by asynchronous copies; those of one in
// FP8 or Q8_0 become f16 on the way. Queries, already roped, and softmax weights are rounded to f16.
//
// A non-finite value must not reach rows that do not see its position, not even with a weight of 0. If a result is not
// finite, the tile is computed again, with non-finite values replaced by 0 and noted for the rows that see them.
#include "attention.cuh"
#include "instructions.cuh"

constexpr u32 ROWS = 64, POSITIONS = 64, FLASH_THREADS = 128;

// Byte offset of a unit of 16 bytes in a tile with rows of DIM halves, permuted by the row, against bank conflicts.
template <u32 DIM> __device__ __forceinline__ u32 unit_at(u32 row, u32 unit) {
    return row * DIM * 2 + ((unit & ~7u) | ((unit ^ row) & 7)) * 16;
}

template <u32 N> struct Columns {
    static constexpr u32 COUNT = N;
};

template <class T, u32 K, u32 V> __device__ __forceinline__ void flash(const AttentionArgs& a) {
    extern __shared__ uint4 shared[];
    __shared__ u32 nonfinite[2 * V], has_nonfinite;
    u8* queries = reinterpret_cast<u8*>(shared);
    u8* keys = queries + ROWS * K * 2;
    u8* values = keys + 2 * POSITIONS * K * 2;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    u32 head = blockIdx.x, kv_head = head / (a.heads / a.kv_heads);
    u32 first_row = a.step[a.tiles + 2 * blockIdx.y], rows = a.step[a.tiles + 2 * blockIdx.y + 1];
    u32 table = a.pages + a.step[a.tables + first_row];
    u32 k_cols = padded<T>(a.k_dim), v_cols = padded<T>(a.v_dim);
    auto visible = [&](u32 row, u32& first, u32& end) {
        row = first_row + min(row, rows - 1);
        first = 0, end = a.step[a.positions + row] + 1;
        if (a.masked) first = a.step[a.visible + 2 * row], end = a.step[a.visible + 2 * row + 1];
    };
    u32 begin, end, unused;
    visible(0, begin, unused);
    visible(rows - 1, unused, end);
    begin = begin / PAGE * PAGE;

    for (u32 i = thread; i < ROWS * K / 2; i += FLASH_THREADS) {
        u32 row = i / (K / 2), col = i % (K / 2) * 2;
        float2 x = make_float2(0, 0);
        if (row < rows) {
            const float* q = a.q + a.q_at + size_t(first_row + row) * a.q_stride + head * a.k_dim;
            if (col < a.k_dim) x.x = a.scale * q[col];
            if (col + 1 < a.k_dim) x.y = a.scale * q[col + 1];
        }
        *reinterpret_cast<u32*>(queries + unit_at<K>(row, col / 8) + col % 8 * 2) = pack_halves(x.x, x.y);
    }
    // Columns of a tile of keys or values, eight at a time.
    auto copy_columns = [&](const u8* cache, u32 cols, auto dim, u8* tile, u32 position) {
        constexpr u32 UNITS = decltype(dim)::COUNT / 8;
        for (u32 i = thread; i < POSITIONS * UNITS; i += FLASH_THREADS) {
            u32 j = i / UNITS, unit = i % UNITS, at = min(position + j, end - 1);
            size_t page_and_head = size_t(a.step[table + at / PAGE]) * a.kv_heads + kv_head;
            bool is_copied = position + j < end && unit * 8 < cols;
            u8* to = tile + unit_at<8 * UNITS>(j, unit);
            CacheRow<T> row(cache, page_and_head, at % PAGE, cols);
            if constexpr (__is_same(T, __half)) {
                copy_or_zero(shared_address(to), row.at + (is_copied ? unit * 8 : 0), is_copied);
            } else {
                float x[8] = {};
                if (is_copied) row.load(unit * 8, x);
                // Larger than f16 has.
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    if (fabsf(x[c]) < INFINITY) x[c] = fminf(fmaxf(x[c], -65504.0f), 65504.0f);
                }
                *reinterpret_cast<uint4*>(to) = make_uint4(pack_halves(x[0], x[1]), pack_halves(x[2], x[3]),
                                                           pack_halves(x[4], x[5]), pack_halves(x[6], x[7]));
            }
        }
    };
    auto copy_tile = [&](u32 position, u32 stage) {
        copy_columns(a.keys, k_cols, Columns<K>(), keys + stage * POSITIONS * K * 2, position);
        copy_columns(a.values, v_cols, Columns<V>(), values + stage * POSITIONS * V * 2, position);
        copy_commit();
    };
    __syncthreads();
    u32 q[K / 16][4];
#pragma unroll
    for (u32 k = 0; k < K / 16; k++) {
        load_matrices(q[k], shared_address(queries) + unit_at<K>(16 * warp + lane % 16, 2 * k + lane / 16));
    }
    // A lane has the rows `lane / 4` of its warp and 8 more.
    u32 own_rows[2] = {16 * warp + lane / 4, 16 * warp + lane / 4 + 8};
    u32 first_seen[2], end_seen[2];
    visible(own_rows[0], first_seen[0], end_seen[0]);
    visible(own_rows[1], first_seen[1], end_seen[1]);

    float result[V / 8][4];
    float sums[2], largest[2];
    for (u32 is_careful = 0; is_careful < 2; is_careful++) {
        if (is_careful) {
            for (u32 i = thread; i < 2 * V; i += FLASH_THREADS) nonfinite[i] = 0;
        }
#pragma unroll
        for (u32 i = 0; i < V / 8; i++) {
#pragma unroll
            for (u32 c = 0; c < 4; c++) result[i][c] = 0.0f;
        }
        sums[0] = sums[1] = 0.0f;
        largest[0] = largest[1] = LOWEST;
        copy_tile(begin, 0);
        u32 stage = 0;
        for (u32 position = begin; position < end; position += POSITIONS, stage ^= 1) {
            if (position + POSITIONS < end) {
                copy_tile(position + POSITIONS, stage ^ 1);
            } else {
                copy_commit();
            }
            copy_wait<1>();
            __syncthreads();
            if (is_careful) {
                for (u32 i = thread; i < POSITIONS * V; i += FLASH_THREADS) {
                    u32 j = i / V, col = i % V;
                    u8* at = values + stage * POSITIONS * V * 2 + unit_at<V>(j, col / 8) + col % 8 * 2;
                    unsigned short& value = *reinterpret_cast<unsigned short*>(at);
                    if ((value & 0x7c00) != 0x7c00) continue;
                    value = 0;
                    for (u32 row = 0; row < rows; row++) {
                        u32 first_of_row, end_of_row;
                        visible(row, first_of_row, end_of_row);
                        if (position + j >= first_of_row && position + j < end_of_row) {
                            atomicOr(&nonfinite[2 * col + row / 32], 1u << (row % 32));
                        }
                    }
                }
                __syncthreads();
            }
            u32 k_tile = shared_address(keys) + stage * POSITIONS * K * 2;
            u32 v_tile = shared_address(values) + stage * POSITIONS * V * 2;
            float scores[POSITIONS / 8][4] = {};
#pragma unroll
            for (u32 k = 0; k < K / 16; k++) {
#pragma unroll
                for (u32 j = 0; j < POSITIONS / 8; j += 2) {
                    u32 b[4];
                    load_matrices(b, k_tile + unit_at<K>(8 * j + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
                    multiply_matrices(scores[j], q[k], b[0], b[1]);
                    multiply_matrices(scores[j + 1], q[k], b[2], b[3]);
                }
            }
            bool is_whole = position >= max(first_seen[0], first_seen[1]) && position + POSITIONS <= min(end_seen[0], end_seen[1]);
            float now[2] = {largest[0], largest[1]};
#pragma unroll
            for (u32 j = 0; j < POSITIONS / 8; j++) {
#pragma unroll
                for (u32 c = 0; c < 4; c++) {
                    float& score = scores[j][c];
                    if (a.cap > 0.0f) score = softcap(score, a.cap);
                    u32 at = position + 8 * j + 2 * (lane % 4) + c % 2;
                    if (!is_whole && (at < first_seen[c / 2] || at >= end_seen[c / 2])) score = -INFINITY;
                    now[c / 2] = fmaxf(now[c / 2], score);
                }
            }
            float old[2];
#pragma unroll
            for (u32 r = 0; r < 2; r++) {
                now[r] = fmaxf(now[r], __shfl_xor_sync(ALL_LANES, now[r], 1));
                now[r] = fmaxf(now[r], __shfl_xor_sync(ALL_LANES, now[r], 2));
                old[r] = exp2f((largest[r] - now[r]) * LOG2_E);
                largest[r] = now[r];
                sums[r] *= old[r];
            }
#pragma unroll
            for (u32 i = 0; i < V / 8; i++) {
#pragma unroll
                for (u32 c = 0; c < 4; c++) result[i][c] *= old[c / 2];
            }
#pragma unroll
            for (u32 j = 0; j < POSITIONS / 8; j++) {
#pragma unroll
                for (u32 c = 0; c < 4; c++) {
                    scores[j][c] = exp2f((scores[j][c] - now[c / 2]) * LOG2_E);
                    sums[c / 2] += scores[j][c];
                }
            }
#pragma unroll
            for (u32 j = 0; j < POSITIONS / 16; j++) {
                u32 weights[4] = {
                    pack_halves(scores[2 * j][0], scores[2 * j][1]), pack_halves(scores[2 * j][2], scores[2 * j][3]),
                    pack_halves(scores[2 * j + 1][0], scores[2 * j + 1][1]),
                    pack_halves(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
                for (u32 i = 0; i < V / 8; i += 2) {
                    u32 b[4];
                    load_transposed(b, v_tile + unit_at<V>(16 * j + lane % 16, i + lane / 16));
                    multiply_matrices(result[i], weights, b[0], b[1]);
                    multiply_matrices(result[i + 1], weights, b[2], b[3]);
                }
            }
            // The stage is filled again.
            __syncthreads();
        }
        copy_wait<0>();
        bool is_finite = true;
#pragma unroll
        for (u32 i = 0; i < V / 8; i++) {
#pragma unroll
            for (u32 c = 0; c < 4; c++) is_finite = is_finite && isfinite(result[i][c]);
        }
        if (is_careful) break;
        has_nonfinite = 0;
        __syncthreads();
        if (!is_finite) has_nonfinite = 1;
        __syncthreads();
        if (!has_nonfinite) break;
    }
    __syncthreads();
    bool is_careful = has_nonfinite != 0;
#pragma unroll
    for (u32 r = 0; r < 2; r++) {
        sums[r] += __shfl_xor_sync(ALL_LANES, sums[r], 1);
        sums[r] += __shfl_xor_sync(ALL_LANES, sums[r], 2);
        if (a.sinks) sums[r] += sink_weight(a.sinks[head], largest[r]);
        if (own_rows[r] >= rows) continue;
        float* y = a.y + a.y_at + size_t(first_row + own_rows[r]) * a.y_stride + head * a.v_dim;
#pragma unroll
        for (u32 i = 0; i < V / 8; i++) {
#pragma unroll
            for (u32 c = 0; c < 2; c++) {
                u32 col = 8 * i + 2 * (lane % 4) + c;
                float value = result[i][2 * r + c] / sums[r];
                if (is_careful && (nonfinite[2 * col + own_rows[r] / 32] >> (own_rows[r] % 32) & 1)) value = NAN;
                if (col < a.v_dim) y[col] = value;
            }
        }
    }
}

#define FLASH(NAME, T, DIM)                                                                                            \
    extern "C" __global__ void __launch_bounds__(FLASH_THREADS) NAME(const __grid_constant__ AttentionArgs args) {     \
        flash<T, DIM, DIM>(args);                                                                                      \
    }
FLASH(flash_f16_64, __half, 64)
FLASH(flash_f16_128, __half, 128)
FLASH(flash_f16_256, __half, 256)
FLASH(flash_fp8_64, E4M3, 64)
FLASH(flash_fp8_128, E4M3, 128)
FLASH(flash_fp8_256, E4M3, 256)
FLASH(flash_q8_0_64, Q8Cache, 64)
FLASH(flash_q8_0_128, Q8Cache, 128)
FLASH(flash_q8_0_256, Q8Cache, 256)
