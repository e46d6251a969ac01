// Decode attention on cards of 9.0 over a cache in f16, whose pages come by bulk copies. By 16 bytes of each lane, copies take more
// instructions than a multiprocessor has time for: 2.1 instead of 2.7 TB/s.
//
// A warp has a page at a time: while tensor cores multiply its values, the keys of the warp's next page are copied. Pages are dealt
// to splits in turn, a page for each warp, so that blocks read neighbouring memory at the same time. IN_CLUSTER: the splits of a row
// are a cluster, whose blocks merge their results without a way through global memory. One kernel with both merges would be slower.
#include "decode.cuh"
#include "hopper.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A tile in panels of 64 columns, whose units of 16 bytes are permuted by the row.
struct Panels {
    static constexpr u32 ROW = 128, EIGHT = PAGE * ROW;
    static __device__ __forceinline__ u32 at(u32 row, u32 unit) {
        return unit / 8 * EIGHT + row * ROW + ((unit ^ row) & 7) * 16;
    }
};

// Blocks of a cluster at most (`gpu::inputs`).
constexpr u32 MAX_CLUSTER = 16;

// Merges the results that the blocks of a cluster have at `sums` in their shared memory. A warp has 32 columns of a head at a time.
template <u32 D> __device__ __forceinline__ void merge_in_cluster(const Decode<__half, D>& block, u32 sums) {
    constexpr u32 OF_HEAD = D / 32;
    const AttentionArgs& a = block.a;
    u32 blocks = block.splits, lane = block.lane;
    cluster_sync();
    for (u32 unit = blockIdx.z + blocks * block.warp; unit < block.heads * OF_HEAD; unit += blocks * WARPS) {
        u32 h = unit / OF_HEAD, col = unit % OF_HEAD * 32 + lane, head = block.first_head + h;
        u32 results = sums + h * block.PITCH * sizeof(float);
        // A lane has the largest score and the sum of weights of a block.
        float largest = LOWEST, weight = 0.0f, values[MAX_CLUSTER];
        if (lane < blocks) {
            largest = load_of_block(results + D * sizeof(float), lane);
            weight = load_of_block(results + (D + 1) * sizeof(float), lane);
        }
#pragma unroll
        for (u32 i = 0; i < MAX_CLUSTER; i++) values[i] = load_of_block(results + col * sizeof(float), min(i, blocks - 1));
        float top = warp_max(weight != 0.0f ? largest : LOWEST);
        float share = weight != 0.0f ? expf(largest - top) : 0.0f, all = warp_sum(share * weight), total = 0.0f;
        if (a.sinks) all += sink_weight(a.sinks[head], top);
        share /= all;
#pragma unroll
        for (u32 i = 0; i < MAX_CLUSTER; i++) total += __shfl_sync(ALL_LANES, share, i) * values[i];
        a.y[a.y_at + size_t(block.row) * a.y_stride + head * D + col] = total;
    }
    // A block's shared memory is there until all have read it.
    cluster_sync();
}

template <u32 D, bool IN_CLUSTER> __device__ __forceinline__ void decode_bulk(const AttentionArgs& a) {
    constexpr u32 UNITS = D / 8, TILE = PAGE * D * sizeof(__half), PANEL = Panels::EIGHT, CHUNK = WARPS * PAGE;
    // Positions at a time: heads of 256 columns leave registers for half of a page.
    constexpr u32 GROUP = D == 256 ? PAGE / 2 : PAGE;
    // A tile of keys and one of values for each warp, in panels of 64 columns; in the end, the warps' sums of values.
    extern __shared__ uint4 shared[];
    __shared__ DecodeShared<__half, D> fixed;
    // Of the warps' copies of keys, and of values.
    __shared__ alignas(8) u64 barriers[WARPS][2];
    pdl_launch();
    Decode<__half, D> block(a, fixed);
    u32 lane = block.lane, step = block.splits * CHUNK, begin = block.first_page() + blockIdx.z * CHUNK;
    // Panels start at multiples of 1 KiB.
    u8* tiles = reinterpret_cast<u8*>(shared) + (0u - shared_address(shared)) % 1024 + block.warp * 2 * TILE;
    u32 keys = shared_address(tiles), values = keys + TILE, barrier = shared_address(barriers[block.warp]), phases = 0;
    if (lane == 0) {
        init_barrier(barrier), init_barrier(barrier + 8);
        fence_barriers();
        acquire_map(a.tensor_maps), acquire_map(a.tensor_maps + 128);
    }
    // Copies keys (0) or values (1) of a page, once all lanes have read those before.
    auto copy_page = [&](u32 which, u32 page) {
        __syncwarp();
        if (page >= block.end_seen || lane != 0) return;
        u32 row = u32(block.page_and_head(page)) * PAGE;
        expect_bytes(barrier + 8 * which, TILE);
#pragma unroll
        for (u32 i = 0; i < D / 64; i++) {
            copy_panel(keys + which * TILE + i * PANEL, a.tensor_maps + 128 * which, 64 * i, row, barrier + 8 * which);
        }
    };
    auto wait = [&](u32 which) {
        wait_for_copy(barrier + 8 * which, phases >> which & 1);
        phases ^= 1 << which;
    };
    u32 first = begin + PAGE * block.warp;
    if (block.is_stored) pdl_wait();
    copy_page(0, first), copy_page(1, first);
    bool writes = !block.is_stored && block.sees(block.own) && block.own >= begin && (block.own - begin) % step < CHUNK;
    block.prepare(writes);
    for (u32 page = first; page < block.end_seen; page += step) {
        bool has_own = writes && block.own - page < PAGE;
        // What was copied changes if the page has the row's own position, or positions that the row does not see.
        bool is_changed = has_own || page < block.first_seen || page + PAGE > block.end_seen;
        wait(0);
        if (is_changed) {
            wait(1);
            // A NaN times a weight of 0 would still be NaN. Scores of such keys count for nothing.
            if (!block.sees(page + lane)) {
                u8* values_row = tiles + TILE + lane * Panels::ROW;
#pragma unroll
                for (u32 unit = 0; unit < UNITS; unit++) {
                    *reinterpret_cast<uint4*>(values_row + unit / 8 * PANEL + unit % 8 * 16) = make_uint4(0, 0, 0, 0);
                }
            }
            if (has_own) {
                block.place_own(block.own - page, [&](u32 which, u32 row, u32 unit) {
                    return tiles + which * TILE + Panels::at(row, unit);
                });
            }
            // The next copies come after these writes.
            if (page + step < block.end_seen) fence_for_wgmma();
            __syncwarp();
        }
#pragma unroll 1
        for (u32 at = 0; at < PAGE; at += GROUP) {
            float products[GROUP / 8][4] = {};
            block.template multiply_keys<Panels>(products, keys + at * Panels::ROW);
            if (at + GROUP == PAGE) copy_page(0, page + step);
            u32 weights[GROUP / 16][4];
            block.weigh(products, page + at, block.end_seen, weights);
            if (at == 0 && !is_changed) wait(1);
            block.template add_values<Panels>(weights, values + at * Panels::ROW);
        }
        copy_page(1, page + step);
    }
    u8* sums = tiles - block.warp * 2 * TILE;
    block.template finish<2 * TILE, IN_CLUSTER>(sums);
    if (IN_CLUSTER && block.splits > 1) merge_in_cluster<D>(block, shared_address(sums));
}

#define DECODE_BULK(NAME, D)                                                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ AttentionArgs args) {           \
        decode_bulk<D, false>(args);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_cluster(const __grid_constant__ AttentionArgs args) { \
        decode_bulk<D, true>(args);                                                                                    \
    }
#else
// Never launched on other architectures.
#define DECODE_BULK(NAME, D)                                                                                           \
    extern "C" __global__ void NAME(const __grid_constant__ AttentionArgs) {}                                          \
    extern "C" __global__ void NAME##_cluster(const __grid_constant__ AttentionArgs) {}
#endif

DECODE_BULK(decode_f16_64, 64)
DECODE_BULK(decode_f16_128, 128)
DECODE_BULK(decode_f16_256, 256)
