// Flash attention (Dao 2023) for tiles of up to 64 rows of a sequence, one head per block, on tensor cores.
//
// A warp has 16 rows. Keys and values come in tiles of 64 positions, two at a time.
#include "flash.cuh"

constexpr u32 POSITIONS = 64, FLASH_THREADS = 128;

// Byte offset of a unit of 16 bytes in a tile with rows of DIM halves, permuted by the row, against bank conflicts.
template <u32 DIM> __device__ __forceinline__ u32 unit_at(u32 row, u32 unit) {
    return row * DIM * 2 + ((unit & ~7u) | ((unit ^ row) & 7)) * 16;
}

template <class T, u32 DIM> __device__ __forceinline__ void flash(const AttentionArgs& a) {
    constexpr u32 UNITS = DIM / 8, TILE = POSITIONS * DIM * 2;
    extern __shared__ uint4 shared[];
    __shared__ u32 noted[2 * DIM], has_nonfinite;
    u8* queries = reinterpret_cast<u8*>(shared);
    u8* keys = queries + ROWS * DIM * 2;
    u8* values = keys + 2 * TILE;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    u32 head = blockIdx.x, kv_head = head / (a.heads / a.kv_heads);
    FlashTile tile(a, blockIdx.y);

    for (u32 i = thread; i < ROWS * DIM / 2; i += FLASH_THREADS) {
        u32 row = i / (DIM / 2), col = i % (DIM / 2) * 2;
        *reinterpret_cast<u32*>(queries + unit_at<DIM>(row, col / 8) + col % 8 * 2) = tile.query_pair(row, head, col);
    }
    auto copy_columns = [&](const u8* cache, u32 cols, u8* to, u32 position) {
        tile.copy<T, POSITIONS, UNITS, FLASH_THREADS>(cache, kv_head, cols, position,
                                                      [&](u32 j, u32 unit) { return to + unit_at<DIM>(j, unit); });
    };
    auto copy_tile = [&](u32 position, u32 stage) {
        copy_columns(a.keys, padded<T>(a.k_dim), keys + stage * TILE, position);
        copy_columns(a.values, padded<T>(a.v_dim), values + stage * TILE, position);
        copy_commit();
    };
    __syncthreads();
    u32 q[DIM / 16][4];
#pragma unroll
    for (u32 k = 0; k < DIM / 16; k++) {
        load_matrices(q[k], shared_address(queries) + unit_at<DIM>(16 * warp + lane % 16, 2 * k + lane / 16));
    }
    FlashRows rows(tile, 16 * warp);
    float result[DIM / 8][4];
    for (u32 is_careful = 0; is_careful < 2; is_careful++) {
        if (is_careful) {
            for (u32 i = thread; i < 2 * DIM; i += FLASH_THREADS) noted[i] = 0;
        }
#pragma unroll
        for (u32 i = 0; i < DIM / 2; i++) result[i / 4][i % 4] = 0.0f;
        rows.clear();
        copy_tile(tile.begin, 0);
        u32 stage = 0;
        for (u32 position = tile.begin; position < tile.end; position += POSITIONS, stage ^= 1) {
            if (position + POSITIONS < tile.end) {
                copy_tile(position + POSITIONS, stage ^ 1);
            } else {
                copy_commit();
            }
            copy_wait<1>();
            __syncthreads();
            if (is_careful) {
                tile.note_nonfinite(position, POSITIONS, DIM, noted, [&](u32 j, u32 col) {
                    return values + stage * TILE + unit_at<DIM>(j, col / 8) + col % 8 * 2;
                });
                __syncthreads();
            }
            u32 k_tile = shared_address(keys) + stage * TILE, v_tile = shared_address(values) + stage * TILE;
            float scores[POSITIONS / 8][4] = {};
#pragma unroll
            for (u32 k = 0; k < DIM / 16; k++) {
#pragma unroll
                for (u32 j = 0; j < POSITIONS / 8; j += 2) {
                    u32 b[4];
                    load_matrices(b, k_tile + unit_at<DIM>(8 * j + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
                    multiply_matrices(scores[j], q[k], b[0], b[1]);
                    multiply_matrices(scores[j + 1], q[k], b[2], b[3]);
                }
            }
            float old[2];
            rows.weigh<false>(scores, position, a.cap, old);
            scale_rows(result, old);
#pragma unroll
            for (u32 j = 0; j < POSITIONS / 16; j++) {
                u32 weights[4];
                pack_weights(weights, scores[2 * j], scores[2 * j + 1]);
#pragma unroll
                for (u32 i = 0; i < DIM / 8; i += 2) {
                    u32 b[4];
                    load_transposed(b, v_tile + unit_at<DIM>(16 * j + lane % 16, i + lane / 16));
                    multiply_matrices(result[i], weights, b[0], b[1]);
                    multiply_matrices(result[i + 1], weights, b[2], b[3]);
                }
            }
            // The stage is filled again.
            __syncthreads();
        }
        copy_wait<0>();
        if (is_careful) break;
        has_nonfinite = 0;
        __syncthreads();
        if (!are_finite(result)) has_nonfinite = 1;
        __syncthreads();
        if (!has_nonfinite) break;
    }
    __syncthreads();
    rows.write(tile, head, 0, result, has_nonfinite ? noted : nullptr);
}

#define FLASH(NAME, T, DIM)                                                                                            \
    extern "C" __global__ void __launch_bounds__(FLASH_THREADS) NAME(const __grid_constant__ AttentionArgs args) {     \
        flash<T, DIM>(args);                                                                                           \
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
