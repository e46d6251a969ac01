// Decode attention of all cards and caches.
//
// A warp has groups of 16 positions, whose keys and values come by asynchronous copies. Those of a cache in FP8 or Q8_0 become f16
// in shared memory. Those of earlier steps are copied before the previous kernel has ended.
#include "decode.cuh"

constexpr u32 GROUP = 16, STAGES = 2;

// A tile with rows of DIM values of 16 bits. Pairs of units of 16 bytes are permuted by the row, against bank conflicts: an
// asynchronous copy of 32 bytes that come apart would be two requests to L2.
template <u32 DIM> struct Rows {
    static constexpr u32 ROW = 2 * DIM, EIGHT = 128;
    static __device__ __forceinline__ u32 at(u32 row, u32 unit) { return row * ROW + (unit ^ row % 4 * 2) * 16; }
};

template <class Cache, u32 D> __device__ __forceinline__ void decode(const AttentionArgs& a) {
    using S = Stored<Cache>;
    using T = typename S::Value;
    using Element = typename S::Element;
    constexpr bool IS_BYTES = S::IS_BYTES, HAS_SCALES = S::HAS_SCALES;
    constexpr u32 UNITS = D / 8, TILE = GROUP * D * sizeof(T);
    // Bytes of the scales of a row, and of a group's keys or values as they are stored.
    constexpr u32 SCALES = HAS_SCALES ? D / 16 : 0, RAW = GROUP * (D * sizeof(Element) + SCALES);
    // A warp's stages, and a tile of keys and of values in f16 if they are bytes.
    constexpr u32 OF_WARP = STAGES * 2 * RAW + (IS_BYTES ? 2 * TILE : 0);
    // The warps' stages of keys and values as they are stored, and a tile of each in f16 if they are bytes; in the end, the
    // warps' sums of values.
    extern __shared__ uint4 shared[];
    __shared__ DecodeShared<Cache, D> fixed;
    pdl_launch();
    Decode<Cache, D> block(a, fixed);
    u32 lane = block.lane, own = block.own, first_seen = block.first_seen, part = a.step[a.split + 1];
    u32 begin = block.first_page() + blockIdx.z * part;
    u32 end = block.splits == 1 ? block.end_seen : min(block.end_seen, begin + part);
    const Element* keys = reinterpret_cast<const Element*>(a.keys);
    const Element* values = reinterpret_cast<const Element*>(a.values);
    u8* ring = reinterpret_cast<u8*>(shared) + block.warp * OF_WARP;
    u32 ring_address = shared_address(ring);
    // What a row does not see becomes zeros: a NaN times a weight of 0 would still be NaN.
    auto copy_group = [&](u32 group, u32 stage) {
        if (group < end) {
            size_t page_and_head = block.page_and_head(group);
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
                bool is_copied = position >= first_seen && position < end && (block.is_stored || position != own);
                size_t from = (cell + j) * D + 8 * unit;
                copy_or_zero(to + Rows<D>::at(j, unit), keys + from, is_copied);
                copy_or_zero(to + TILE + Rows<D>::at(j, unit), values + from, is_copied);
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
            *reinterpret_cast<uint4*>(tiles + which * TILE + Rows<D>::at(j, unit)) = eight;
        }
    };
    u32 first_group = begin + GROUP * block.warp;
    if (block.is_stored) pdl_wait();
#pragma unroll 1
    for (u32 i = 0; i < STAGES; i++) copy_group(first_group + i * WARPS * GROUP, i);
    bool writes = !block.is_stored && own >= begin && own < end;
    block.prepare(writes);
    u32 stage = 0;
    for (u32 group = first_group; group < end; group += WARPS * GROUP) {
        copy_wait<STAGES - 1>();
        __syncwarp();
        u8* raw = ring + stage * 2 * RAW;
        if (writes && own - group < GROUP) {
            block.place_own(own - group, [&](u32 which, u32 row, u32 unit) {
                return raw + which * RAW + (IS_BYTES ? row * D + 16 * unit : Rows<D>::at(row, unit));
            });
            __syncwarp();
        }
        u32 tile = shared_address(raw);
        if constexpr (IS_BYTES) {
            convert(group, raw);
            // The stage is filled again.
            __syncwarp();
            copy_group(group + STAGES * WARPS * GROUP, stage);
            tile = shared_address(tiles);
        }
        float products[GROUP / 8][4] = {};
        u32 weights[GROUP / 16][4];
        block.template multiply_keys<Rows<D>>(products, tile);
        block.weigh(products, group, end, weights);
        block.template add_values<Rows<D>>(weights, tile + TILE);
        // The stage, or the tile, is filled again.
        __syncwarp();
        if (!IS_BYTES) copy_group(group + STAGES * WARPS * GROUP, stage);
        stage ^= 1;
    }
    copy_wait<0>();
    block.template finish<OF_WARP>(reinterpret_cast<u8*>(shared));
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
