// The best candidates of each row: the tokens with the largest logits, the lower id first among equals. Row `blockIdx.y`.
//
// A token's rank is an integer of its key and then of its id, the larger the better; 0 is no candidate. Each block finds the
// best ranks of a part of the row, and then one block those of the row among these.
#include "keys.cuh"

// `backend::MAX_CANDIDATES`.
constexpr u32 K = 64;
constexpr u32 THREADS = 256;
// Ranks of a thread, and of a part.
constexpr u32 OWN = 16, PART = OWN * THREADS;

struct PartArgs {
    const u32* step;
    // The `K` best ranks of each part of a row, in any order.
    u64* ranks;
    const float* x;
    // Offset and stride, multiples of 4; columns.
    u32 x_at, x_stride, cols;
};

struct MergeArgs {
    const u32* step;
    // `K` ids of each row, best first, and the bits of their logits. Missing ids are 0xffffffff; all are if a logit is NaN or
    // infinity (`backend::Outputs::from_candidates`).
    u32* candidates;
    const u64* ranks;
    const float* x;
    u32 x_at, x_stride;
    // Parts of a row.
    u32 parts;
};

// Selects the `K` largest of the ranks that the threads of the block own. They are unique, but for zeros. Writes them to `best`
// in any order, zeros for those that are missing. Every thread may read them then.
template <u32 N> __device__ __forceinline__ void select(const u64 (&own)[N], u64* best) {
    constexpr u32 WARPS = THREADS / 32;
    // Two, so that one can be written while the one before is read.
    __shared__ u32 counts[2][WARPS];
    __shared__ u32 filled;
    u32 thread = threadIdx.x, turn = 0;
    // The number of ranks that are at least `least`.
    auto count = [&](u64 least) {
        u32 found = 0;
#pragma unroll
        for (u32 i = 0; i < N; i++) found += own[i] >= least;
        found = __reduce_add_sync(ALL_LANES, found);
        turn ^= 1;
        if (thread % 32 == 0) counts[turn][thread / 32] = found;
        __syncthreads();
        found = 0;
#pragma unroll
        for (u32 warp = 0; warp < WARPS; warp++) found += counts[turn][warp];
        return found;
    };
    u64 least = 1;
    u32 found = count(least);
    if (found > K) {
        // Bit by bit, the largest number that at least `K` ranks reach. One that exactly `K` reach selects the same.
        least = 0;
        for (u64 bit = u64(1) << 63; bit != 0 && found != K; bit >>= 1) {
            u32 reach = count(least | bit);
            if (reach >= K) least |= bit, found = reach;
        }
    }
    // What a thread needs of the `best` before, it has read before it counted.
    if (thread < K) best[thread] = 0;
    if (thread == 0) filled = 0;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        if (own[i] >= least) best[atomicAdd(&filled, 1)] = own[i];
    }
    __syncthreads();
}

__device__ __forceinline__ u64 rank(float logit, u32 id) {
    u32 found = key(__float_as_uint(logit));
    return found == NOTHING ? 0 : u64(found) << 32 | ~id;
}

// The best of part `blockIdx.x`.
extern "C" __global__ void __launch_bounds__(THREADS) candidates_of_parts(const __grid_constant__ PartArgs args) {
    __shared__ u64 best[K];
    pdl_launch();
    pdl_wait();
    const float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    u64 own[OWN];
#pragma unroll
    for (u32 i = 0; i < OWN; i += 4) {
        u32 id = PART * blockIdx.x + i * THREADS + 4 * threadIdx.x;
        float v[4] = {};
        // The stride is a multiple of 4, but the last columns of a vector may be others'.
        if (id + 4 <= args.cols) {
            load_columns(v, x + id);
        } else {
#pragma unroll
            for (u32 j = 0; j < 3; j++) {
                if (id + j < args.cols) v[j] = x[id + j];
            }
        }
#pragma unroll
        for (u32 j = 0; j < 4; j++) own[i + j] = id + j < args.cols ? rank(v[j], id + j) : 0;
    }
    select(own, best);
    u64* ranks = args.ranks + K * (size_t(blockIdx.y) * gridDim.x + blockIdx.x);
    if (threadIdx.x < K) ranks[threadIdx.x] = best[threadIdx.x];
}

// The best of all parts of a row, in order.
extern "C" __global__ void __launch_bounds__(THREADS) candidates_of_row(const __grid_constant__ MergeArgs args) {
    __shared__ u64 best[K];
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, count = K * args.parts;
    const u64* ranks = args.ranks + size_t(blockIdx.y) * count;
    // The best so far, in the first threads.
    u64 own[OWN + 1] = {};
    for (u32 first = 0; first < count; first += PART) {
#pragma unroll
        for (u32 i = 0; i < OWN; i++) {
            u32 at = first + i * THREADS + thread;
            own[i] = at < count ? ranks[at] : 0;
        }
        select(own, best);
        own[OWN] = thread < K ? best[thread] : 0;
    }
    if (thread >= K) return;
    u64 mine = own[OWN];
    u32 place = 0;
    bool broken = false;
    for (u32 i = 0; i < K; i++) {
        u64 other = best[i];
        place += other > mine || (other == mine && i < thread);
        broken |= u32(other >> 32) == BROKEN;
    }
    u32 id = mine == 0 || broken ? 0xffffffffu : ~u32(mine);
    const float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    u32* to = args.candidates + 2 * K * size_t(blockIdx.y) + place;
    to[0] = id;
    to[K] = id == 0xffffffffu ? 0 : __float_as_uint(x[id]);
}
