// Flash attention on the tensor cores of compute capability 9.0 (Shah et al. 2024; PTX ISA: wgmma), for tiles of up to 64 rows of a
// sequence and, if several query heads share keys and values, two of them.
//
// A warpgroup has the rows of one head. While tensor cores multiply the weights of a tile of positions with its values, the scores
// of the next tile become weights. Keys are thus one tile ahead of values, with two stages of each. A cache in f16 is copied in
// panels of a page, by instructions of one thread for each.
#include "flash.cuh"
#include "hopper.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Positions of a tile of keys and values, as `flash_wgmma_bytes` in `shared_memory.rs` counts them: fewer of 256 columns, whose sums
// take twice the registers, and of 128 columns for one head, so that two blocks fit beside each other.
__host__ __device__ constexpr u32 positions_of_tile(u32 dim, u32 heads) { return dim == 256 || (dim == 128 && heads == 1) ? 64 : 128; }

template <bool IS> struct Constant {
    static constexpr bool VALUE = IS;
};

template <class T, u32 DIM, u32 HEADS> __device__ __forceinline__ void flash_wgmma(const AttentionArgs& a) {
    constexpr u32 THREADS = 128 * HEADS, POSITIONS = positions_of_tile(DIM, HEADS), UNITS = DIM / 8;
    // Columns of values that an instruction multiplies.
    constexpr u32 COLS = DIM < 128 ? DIM : 128;
    // Bytes of panels of 64 columns and of tiles: queries of a head, keys or values.
    constexpr u32 Q_PANEL = ROWS * 128, PANEL = POSITIONS * 128, Q_TILE = DIM / 64 * Q_PANEL, TILE = DIM / 64 * PANEL;
    constexpr bool IS_BULK = __is_same(T, __half);
    using OfKeys = Instruction<int(POSITIONS)>;
    using OfValues = Instruction<int(COLS)>;
    using Scores = float[POSITIONS / 2];
    using Results = float[COLS / 2];
    extern __shared__ uint4 shared[];
    __shared__ u32 noted[2 * DIM], has_nonfinite;
    // Of the stages of keys, then of those of values.
    __shared__ alignas(8) u64 barriers[4];
    pdl_launch();
    u32 thread = threadIdx.x, group = HEADS > 1 ? thread / 128 : 0;
    // Panels start at multiples of 1 KiB.
    u32 start = shared_address(shared), queries = (start + 1023) & ~1023u, keys = queries + HEADS * Q_TILE, values = keys + 2 * TILE;
    u8* all = reinterpret_cast<u8*>(shared) - start;
    if (IS_BULK && thread == 0) {
        for (u32 i = 0; i < 4; i++) init_barrier(shared_address(barriers + i));
        fence_barriers();
    }
    __syncthreads();
    pdl_wait();
    if (IS_BULK && thread < POSITIONS / PAGE) acquire_map(a.tensor_maps), acquire_map(a.tensor_maps + 128);
    u32 share = a.heads / a.kv_heads, blocks = (share + HEADS - 1) / HEADS, kv_head = blockIdx.x / blocks;
    u32 of_share = blockIdx.x % blocks * HEADS + group, head = kv_head * share + min(of_share, share - 1);
    // The last rows see most positions: they start first.
    FlashTile tile(a, gridDim.y - 1 - blockIdx.y);
    auto unit_at = [](u32 row, u32 unit, u32 panel) { return unit / 8 * panel + row * 128 + ((unit ^ row) & 7) * 16; };

    // Copies a tile of keys (0) or values (1) to a stage.
    auto copy = [&](u32 which, u32 position, u32 stage) {
        if (position >= tile.end) return;
        u32 to = (which ? values : keys) + stage * TILE, barrier = shared_address(barriers + 2 * which + stage);
        if constexpr (IS_BULK) {
            if (thread == 0) expect_bytes(barrier, TILE);
            if (thread >= POSITIONS / PAGE) return;
            // Pages after the last one would leave values in shared memory that may not be finite.
            u32 page = a.step[tile.table + min(position / PAGE + thread, (tile.end - 1) / PAGE)];
#pragma unroll
            for (u32 i = 0; i < DIM / 64; i++) {
                copy_panel(to + i * PANEL + thread * PAGE * 128, a.tensor_maps + 128 * which, 64 * i, (page * a.kv_heads + kv_head) * PAGE, barrier);
            }
        } else {
            tile.copy<T, POSITIONS, UNITS, THREADS>(which ? a.values : a.keys, kv_head, padded<T>(which ? a.v_dim : a.k_dim), position,
                                                    [&](u32 j, u32 unit) { return all + to + unit_at(j, unit, PANEL); });
            fence_for_wgmma();
        }
    };
    // Waits for a copy to a stage. Other copies are ordered by `__syncthreads`.
    u32 phases = 0;
    auto wait = [&](u32 which, u32 stage) {
        if constexpr (IS_BULK) {
            u32 i = 2 * which + stage;
            wait_for_copy(shared_address(barriers + i), phases >> i & 1);
            phases ^= 1 << i;
        }
    };
    u64 of_queries = panel_descriptor(queries + group * Q_TILE);
    FlashRows rows(tile, thread % 128 / 32 * 16);
    float scores[POSITIONS / 8][4], result[DIM / COLS][COLS / 8][4], old[2];
    u32 weights[POSITIONS / 16][4];
    auto multiply_keys = [&](u32 stage) {
        u64 of_keys = panel_descriptor(keys + stage * TILE);
        wgmma_fence();
#pragma unroll
        for (u32 k = 0; k < DIM / 16; k++) {
            OfKeys::add(reinterpret_cast<Scores&>(scores), of_queries + (k / 4 * Q_PANEL + k % 4 * 32) / 16,
                        of_keys + (k / 4 * PANEL + k % 4 * 32) / 16, k > 0);
        }
        wgmma_commit();
    };
    auto multiply_values = [&](u32 stage) {
        u64 of_values = panel_descriptor(values + stage * TILE, PANEL);
        wgmma_fence();
#pragma unroll
        for (u32 j = 0; j < POSITIONS / 16; j++) {
#pragma unroll
            for (u32 i = 0; i < DIM / COLS; i++) {
                OfValues::template add<false>(reinterpret_cast<Results&>(result[i]), weights[j],
                                              of_values + (i * COLS / 64 * PANEL + j * 16 * 128) / 16);
            }
        }
        wgmma_commit();
    };
    auto pack = [&] {
#pragma unroll
        for (u32 j = 0; j < POSITIONS / 16; j++) pack_weights(weights[j], scores[2 * j], scores[2 * j + 1]);
    };
    u32 first_of_all, end_of_all;
    tile.seen_by_all(first_of_all, end_of_all);
    for (u32 is_careful = 0; is_careful < 2; is_careful++) {
        copy(0, tile.begin, 0);
        copy(0, tile.begin + POSITIONS, 1);
        copy(1, tile.begin, 0);
        if (is_careful) {
            for (u32 i = thread; i < 2 * DIM; i += THREADS) noted[i] = 0;
        } else {
            for (u32 i = thread % 128; i < ROWS * DIM / 2; i += 128) {
                u32 row = i / (DIM / 2), col = i % (DIM / 2) * 2;
                u8* to = all + queries + group * Q_TILE + unit_at(row, col / 8, Q_PANEL) + col % 8 * 2;
                *reinterpret_cast<u32*>(to) = tile.query_pair(row, head, col);
            }
            fence_for_wgmma();
        }
        // Waits for the values of a tile.
        auto wait_for_values = [&](u32 position, u32 stage) {
            wait(1, stage);
            if (!is_careful) return;
            tile.note_nonfinite(position, POSITIONS, DIM, noted, [&](u32 j, u32 col) {
                return all + values + stage * TILE + unit_at(j, col / 8, PANEL) + col % 8 * 2;
            });
            fence_for_wgmma();
            __syncthreads();
        };
#pragma unroll
        for (u32 i = 0; i < DIM / 2; i++) result[i / (COLS / 2)][i % (COLS / 2) / 4][i % 4] = 0.0f;
        rows.clear();
        __syncthreads();
        wait(0, 0);
        multiply_keys(0);
        wgmma_wait<0>();
        rows.template weigh<false>(scores, tile.begin, a.cap, old);
        pack();
        u32 position = tile.begin, stage = 0;
        auto turn = [&](auto is_plain) {
            // The keys of this tile and the values of the one before have been read.
            __syncthreads();
            wait(0, stage ^ 1);
            multiply_keys(stage ^ 1);
            copy(0, position + 2 * POSITIONS, stage);
            copy(1, position + POSITIONS, stage ^ 1);
            wait_for_values(position, stage);
            wgmma_wait<0>();
            multiply_values(stage);
            rows.template weigh<decltype(is_plain)::VALUE>(scores, position + POSITIONS, a.cap, old);
            wgmma_wait<0>();
#pragma unroll
            for (u32 i = 0; i < DIM / COLS; i++) scale_rows(result[i], old);
            pack();
        };
        for (; position + POSITIONS < tile.end; position += POSITIONS, stage ^= 1) {
            if (a.cap == 0.0f && position + POSITIONS >= first_of_all && position + 2 * POSITIONS <= end_of_all) {
                turn(Constant<true>());
            } else {
                turn(Constant<false>());
            }
        }
        __syncthreads();
        wait_for_values(position, stage);
        multiply_values(stage);
        wgmma_wait<0>();
        if (is_careful) break;
        has_nonfinite = 0;
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < DIM / COLS; i++) {
            if (!are_finite(result[i])) has_nonfinite = 1;
        }
        __syncthreads();
        if (!has_nonfinite) break;
    }
    __syncthreads();
    if (of_share >= share) return;
#pragma unroll
    for (u32 i = 0; i < DIM / COLS; i++) rows.write(tile, head, i * COLS, result[i], has_nonfinite ? noted : nullptr);
}

#define FLASH_WGMMA(NAME, T, DIM, HEADS)                                                                               \
    extern "C" __global__ void __launch_bounds__(128 * HEADS) NAME(const __grid_constant__ AttentionArgs args) {       \
        flash_wgmma<T, DIM, HEADS>(args);                                                                              \
    }
#else
// Never launched on other architectures.
#define FLASH_WGMMA(NAME, T, DIM, HEADS)                                                                               \
    extern "C" __global__ void NAME(const __grid_constant__ AttentionArgs) {}
#endif

FLASH_WGMMA(flash_f16_64_1, __half, 64, 1)
FLASH_WGMMA(flash_f16_64_2, __half, 64, 2)
FLASH_WGMMA(flash_f16_128_1, __half, 128, 1)
FLASH_WGMMA(flash_f16_128_2, __half, 128, 2)
FLASH_WGMMA(flash_f16_256_1, __half, 256, 1)
FLASH_WGMMA(flash_f16_256_2, __half, 256, 2)
FLASH_WGMMA(flash_fp8_64_1, E4M3, 64, 1)
FLASH_WGMMA(flash_fp8_64_2, E4M3, 64, 2)
FLASH_WGMMA(flash_fp8_128_1, E4M3, 128, 1)
FLASH_WGMMA(flash_fp8_128_2, E4M3, 128, 2)
FLASH_WGMMA(flash_fp8_256_1, E4M3, 256, 1)
FLASH_WGMMA(flash_fp8_256_2, E4M3, 256, 2)
FLASH_WGMMA(flash_q8_0_64_1, Q8Cache, 64, 1)
FLASH_WGMMA(flash_q8_0_64_2, Q8Cache, 64, 2)
FLASH_WGMMA(flash_q8_0_128_1, Q8Cache, 128, 1)
FLASH_WGMMA(flash_q8_0_128_2, Q8Cache, 128, 2)
FLASH_WGMMA(flash_q8_0_256_1, Q8Cache, 256, 1)
FLASH_WGMMA(flash_q8_0_256_2, Q8Cache, 256, 2)
