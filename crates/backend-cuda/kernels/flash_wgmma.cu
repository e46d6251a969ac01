// Flash attention on the tensor cores of compute capability 9.0 (Shah et al. 2024; PTX ISA: wgmma), for tiles of up to 64 rows of a
// sequence and, if several query heads share keys and values, two of them.
//
// A warpgroup has the rows of one head. While tensor cores multiply for one, the other one turns scores into weights. A turn of the
// tensor cores multiplies queries with a tile of keys, and the weights of the tile before with its values. Keys are thus one tile
// ahead of values, with two stages of each.
#include "flash.cuh"
#include "hopper.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Positions of a tile of keys and values, as `flash_wgmma_bytes` in `shared_memory.rs` counts them: fewer for one head, so that two
// blocks fit beside each other.
__host__ __device__ constexpr u32 positions_of_tile(u32 dim, u32 heads) { return dim == 256 || (dim == 128 && heads == 1) ? 64 : 128; }

template <class T, u32 DIM, u32 HEADS> __device__ __forceinline__ void flash_wgmma(const AttentionArgs& a) {
    constexpr u32 THREADS = 128 * HEADS, POSITIONS = positions_of_tile(DIM, HEADS), UNITS = DIM / 8;
    // Columns of values that an instruction multiplies.
    constexpr u32 COLS = DIM < 128 ? DIM : 128;
    // Bytes of panels of 64 columns and of tiles: queries of a head, keys or values.
    constexpr u32 Q_PANEL = ROWS * 128, PANEL = POSITIONS * 128, Q_TILE = DIM / 64 * Q_PANEL, TILE = DIM / 64 * PANEL;
    using OfKeys = Instruction<int(POSITIONS)>;
    using OfValues = Instruction<int(COLS)>;
    using Scores = float[POSITIONS / 2];
    using Results = float[COLS / 2];
    extern __shared__ uint4 shared[];
    __shared__ u32 noted[2 * DIM], has_nonfinite;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, group = HEADS > 1 ? thread / 128 : 0;
    // Panels start at multiples of 1 KiB.
    u32 start = shared_address(shared), queries = (start + 1023) & ~1023u, keys = queries + HEADS * Q_TILE, values = keys + 2 * TILE;
    u8* all = reinterpret_cast<u8*>(shared) - start;
    u32 share = a.heads / a.kv_heads, blocks = (share + HEADS - 1) / HEADS, kv_head = blockIdx.x / blocks;
    u32 of_share = blockIdx.x % blocks * HEADS + group, head = kv_head * share + min(of_share, share - 1);
    // The last rows see most positions: they start first.
    FlashTile tile(a, gridDim.y - 1 - blockIdx.y);
    auto unit_at = [](u32 row, u32 unit, u32 panel) { return unit / 8 * panel + row * 128 + ((unit ^ row) & 7) * 16; };

    auto copy = [&](const u8* cache, u32 cols, u32 to, u32 position) {
        if (position >= tile.end) return;
        tile.copy<T, POSITIONS, UNITS, THREADS>(cache, kv_head, cols, position,
                                                [&](u32 j, u32 unit) { return all + to + unit_at(j, unit, PANEL); });
    };
    auto copy_keys = [&](u32 position, u32 stage) { copy(a.keys, padded<T>(a.k_dim), keys + stage * TILE, position); };
    auto copy_values = [&](u32 position, u32 stage) { copy(a.values, padded<T>(a.v_dim), values + stage * TILE, position); };

    for (u32 i = thread % 128; i < ROWS * DIM / 2; i += 128) {
        u32 row = i / (DIM / 2), col = i % (DIM / 2) * 2;
        u8* to = all + queries + group * Q_TILE + unit_at(row, col / 8, Q_PANEL) + col % 8 * 2;
        *reinterpret_cast<u32*>(to) = tile.query_pair(row, head, col);
    }
    u64 of_queries = panel_descriptor(queries + group * Q_TILE);
    FlashRows rows(tile, thread % 128 / 32 * 16);
    float scores[POSITIONS / 8][4], result[DIM / COLS][COLS / 8][4], old[2];
    u32 weights[POSITIONS / 16][4];
    auto multiply_keys = [&](u32 stage) {
        u64 of_keys = panel_descriptor(keys + stage * TILE);
#pragma unroll
        for (u32 k = 0; k < DIM / 16; k++) {
            OfKeys::add(reinterpret_cast<Scores&>(scores), of_queries + (k / 4 * Q_PANEL + k % 4 * 32) / 16,
                        of_keys + (k / 4 * PANEL + k % 4 * 32) / 16, k > 0);
        }
        wgmma_commit();
    };
    auto multiply_values = [&](u32 stage) {
        u64 of_values = panel_descriptor(values + stage * TILE, PANEL);
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
    auto weigh = [&](u32 position) {
        rows.weigh(scores, position, a.cap, old);
#pragma unroll
        for (u32 i = 0; i < DIM / COLS; i++) scale_rows(result[i], old);
#pragma unroll
        for (u32 j = 0; j < POSITIONS / 16; j++) pack_weights(weights[j], scores[2 * j], scores[2 * j + 1]);
    };
    for (u32 is_careful = 0; is_careful < 2; is_careful++) {
        if (is_careful) {
            for (u32 i = thread; i < 2 * DIM; i += THREADS) noted[i] = 0;
        }
        // Waits for the keys of the next tile and for the values of this one.
        auto wait = [&](u32 position, u32 stage) {
            copy_wait<0>();
            fence_for_wgmma();
            __syncthreads();
            if (!is_careful) return;
            tile.note_nonfinite(position, POSITIONS, DIM, noted, [&](u32 j, u32 col) {
                return all + values + stage * TILE + unit_at(j, col / 8, PANEL) + col % 8 * 2;
            });
            fence_for_wgmma();
            __syncthreads();
        };
        copy_keys(tile.begin, 0);
        copy_commit();
        copy_keys(tile.begin + POSITIONS, 1);
        copy_values(tile.begin, 0);
        copy_commit();
#pragma unroll
        for (u32 i = 0; i < DIM / 2; i++) result[i / (COLS / 2)][i % (COLS / 2) / 4][i % 4] = 0.0f;
        rows.clear();
        copy_wait<1>();
        fence_for_wgmma();
        __syncthreads();
        wgmma_fence();
        multiply_keys(0);
        wgmma_wait<0>();
        if (group == 0) weigh(tile.begin);
        u32 position = tile.begin, stage = 0;
        for (; position + POSITIONS < tile.end; position += POSITIONS, stage ^= 1) {
            auto copy_next = [&] {
                copy_keys(position + 2 * POSITIONS, stage);
                copy_values(position + POSITIONS, stage ^ 1);
                copy_commit();
            };
            wait(position, stage);
            if (group == 0) {
                wgmma_fence();
                multiply_keys(stage ^ 1);
                multiply_values(stage);
                copy_next();
                wgmma_wait<0>();
            } else {
                copy_next();
                weigh(position);
            }
            if (HEADS > 1) __syncthreads();
            if (group == 0) {
                weigh(position + POSITIONS);
            } else {
                wgmma_fence();
                multiply_keys(stage ^ 1);
                multiply_values(stage);
                wgmma_wait<0>();
            }
        }
        wait(position, stage);
        if (group > 0) weigh(position);
        wgmma_fence();
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
FLASH_WGMMA(flash_q8_0_64_1, Q8Cache, 64, 1)
FLASH_WGMMA(flash_q8_0_64_2, Q8Cache, 64, 2)
FLASH_WGMMA(flash_q8_0_128_1, Q8Cache, 128, 1)
FLASH_WGMMA(flash_q8_0_128_2, Q8Cache, 128, 2)
FLASH_WGMMA(flash_q8_0_256_1, Q8Cache, 256, 1)
FLASH_WGMMA(flash_q8_0_256_2, Q8Cache, 256, 2)
