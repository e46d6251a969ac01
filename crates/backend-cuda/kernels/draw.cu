// Draws a row's token from the whole vocabulary (`backend::Draw` without top-k, or with one above `K`). Row `blockIdx.y`, a block
// each.
//
// Filters keep the best tokens, by falling ranks: all that are kept have at least a certain rank. A temperature writes new logits in
// place, minus infinity for tokens that have been dropped. Which rank is the last that top-k or top-p keep is found by sums over
// tokens of at least a rank, for several ranks at a time, until few tokens are left, which are sorted.
//
// Sums are f64 and of a fixed order, but not that of the host.
#include "draws.cuh"
#include "arguments/draw.cuh"

constexpr u32 THREADS = 1024, WARPS = THREADS / 32;
// Columns that a warp reads at once.
constexpr u32 SPAN = 128;
// Ranks that are tried at a time.
constexpr u32 TRIED = 8;

struct Row {
    float* x;
    u32 cols;
    // The largest logit.
    float best;
    // Tokens of lower ranks have been dropped.
    u64 least;

    // Four logits from column `id` on; those beyond the row are minus infinity.
    __device__ __forceinline__ void load(float (&v)[4], u32 id) const {
        if (id + 4 <= cols) {
            load_columns(v, x + id);
        } else {
#pragma unroll
            for (u32 j = 0; j < 4; j++) v[j] = id + j < cols ? x[id + j] : __uint_as_float(0xff800000u);
        }
    }

    // Probability of a logit up to a common factor.
    __device__ __forceinline__ double weight(float logit) const { return exp(double(logit) - double(best)); }
};

// The sum up to each lane.
__device__ __forceinline__ double sums_of_warp(double x) {
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        double before = __shfl_up_sync(ALL_LANES, x, d);
        if (threadIdx.x % 32 >= d) x += before;
    }
    return x;
}

// The sum up to each thread.
static __device__ __noinline__ double sums_of_block(double x) {
    __shared__ double of_warps[WARPS];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = sums_of_warp(x);
    // The sums before may still be read.
    __syncthreads();
    if (lane == 31) of_warps[warp] = x;
    __syncthreads();
    double up_to = sums_of_warp(of_warps[lane]), before = __shfl_sync(ALL_LANES, up_to, warp == 0 ? 0 : warp - 1);
    return warp == 0 ? x : before + x;
}

// The first thread of those that reach something, otherwise the last one that is possible.
static __device__ __noinline__ u32 first_of_block(bool reaches, bool possible) {
    __shared__ u32 reach[WARPS], can[WARPS];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 own_reach = __ballot_sync(ALL_LANES, reaches && possible), own_can = __ballot_sync(ALL_LANES, possible);
    // What was found before may still be read.
    __syncthreads();
    if (lane == 0) reach[warp] = own_reach, can[warp] = own_can;
    __syncthreads();
    u32 warps = __ballot_sync(ALL_LANES, reach[lane] != 0);
    if (warps != 0) {
        warp = __ffsll(warps) - 1;
        return 32 * warp + __ffsll(reach[warp]) - 1;
    }
    warps = __ballot_sync(ALL_LANES, can[lane] != 0);
    if (warps == 0) return 0;
    warp = 31 - __clz(warps);
    return 32 * warp + 31 - __clz(can[warp]);
}

// The key of the row's largest logit.
__device__ __forceinline__ u32 largest_key(const Row& row) {
    __shared__ u32 of_warps[WARPS];
    u32 found = NOTHING;
#pragma unroll 4
    for (u32 id = 4 * threadIdx.x; id < row.cols; id += 4 * THREADS) {
        float v[4];
        row.load(v, id);
#pragma unroll
        for (u32 j = 0; j < 4; j++) found = max(found, key(__float_as_uint(v[j])));
    }
    found = __reduce_max_sync(ALL_LANES, found);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = found;
    __syncthreads();
    return __reduce_max_sync(ALL_LANES, of_warps[threadIdx.x % 32]);
}

// Sorts the `n` ranks of the list, the largest first (bitonic sort); zeros follow. Returns the thread's own.
__device__ __forceinline__ u64 sorted(u64* list, u32 n) {
    u32 thread = threadIdx.x;
    u64 own = thread < n ? list[thread] : 0;
    for (u32 size = 2; size < 2 * n; size *= 2) {
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            list[thread] = own;
            __syncthreads();
            u64 other = list[thread ^ distance];
            bool is_first = (thread & distance) == 0, falls = (thread & size) == 0;
            own = is_first == falls ? max(own, other) : min(own, other);
        }
    }
    return own;
}

// What is known about the last rank: it is at least `low`, tokens from `high` on are not enough, and how much they are.
struct Range {
    u64 low, high;
    double above;
};

// A rank to try.
__device__ __forceinline__ u64 tried(const Row& row, const Range& range, u32 round, u32 i) {
    // At first the largest logit minus 1, 2, 4 to 64: where the most probable tokens are.
    if (round == 0) {
        return i == 0 ? range.low : u64(key(__float_as_uint(row.best - float(1u << (i - 1))))) << 32;
    }
    // Then in equal distances, of logits and of ranks in turn: few values may be far from all others.
    u64 width = range.high - range.low;
    if (round % 2 == 1 && width >> 40 != 0) {
        float low = value(u32(range.low >> 32)), high = value(u32(range.high >> 32));
        return u64(key(__float_as_uint(low + (high - low) * (float(i + 1) / (TRIED + 1))))) << 32;
    }
    return range.low + width / (TRIED + 1) * (i + 1);
}

// The rank of the last token of the best ones that together reach `share`: of their number, or of the sum of all weights.
static __device__ __noinline__ u64 last_rank(const Row& row, bool counts, double share) {
    __shared__ u64 list[THREADS];
    __shared__ u64 ranks[TRIED];
    __shared__ double of_warps[TRIED][WARPS], of_block[TRIED];
    __shared__ u32 listed;
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    // From the least finite logit to beyond the largest one.
    constexpr u64 LEAST = u64(0x80000000u - 0x7f7fffffu) << 32;
    Range range{max(row.least, LEAST), u64(key(__float_as_uint(row.best)) + 1) << 32, 0.0};
    double enough = 1.0;
    u32 n = 0;
    for (u32 round = 0;; round++) {
        // What the round before has written may still be read.
        __syncthreads();
        if (thread == 0) listed = 0;
        if (thread < TRIED) ranks[thread] = tried(row, range, round, thread);
        __syncthreads();
        // Many are left at first.
        bool lists = round > 0 || row.cols <= THREADS;
        double sums[TRIED] = {};
        for (u32 id = 4 * thread; id < row.cols; id += 4 * THREADS) {
            float v[4];
            row.load(v, id);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u64 own = rank(v[j], id + j);
                if (own < range.low || own >= range.high) continue;
                double mass = counts ? 1.0 : row.weight(v[j]);
#pragma unroll
                for (u32 i = 0; i < TRIED; i++) {
                    if (own >= ranks[i]) sums[i] += mass;
                }
                if (lists) {
                    u32 at = atomicAdd(&listed, 1);
                    if (at < THREADS) list[at] = own;
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < TRIED; i++) {
            double sum = warp_sum(sums[i]);
            if (lane == 0) of_warps[i][warp] = sum;
        }
        __syncthreads();
        if (warp < TRIED) {
            double sum = warp_sum(of_warps[warp][lane]);
            if (lane == 0) of_block[warp] = sum;
        }
        __syncthreads();
        if (round == 0) {
            // At least the best token, whose weight is 1.
            enough = max(1.0, counts ? share : share * of_block[0]);
            if (of_block[0] < enough) return row.least;
        }
        n = listed;
        if (lists && n <= THREADS) break;
        double above = range.above;
#pragma unroll
        for (u32 i = 0; i < TRIED; i++) {
            double sum = above + of_block[i];
            if (sum >= enough) {
                range.low = max(range.low, ranks[i]);
            } else if (ranks[i] < range.high) {
                range.high = ranks[i], range.above = sum;
            }
        }
    }
    u64 own = sorted(list, n);
    double mass = thread >= n ? 0.0 : counts ? 1.0 : row.weight(value(u32(own >> 32)));
    double sum = range.above + sums_of_block(mass);
    u32 last = first_of_block(sum >= enough, thread < n);
    if (thread == last) ranks[0] = own;
    __syncthreads();
    return n == 0 ? range.low : ranks[0];
}

// Subtracts the largest logit, and divides by the temperature.
static __device__ __noinline__ void heat(Row& row, float temperature) {
    for (u32 id = 4 * threadIdx.x; id < row.cols; id += 4 * THREADS) {
        float v[4];
        row.load(v, id);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            double below = double(v[j]) - double(row.best);
            bool is_kept = rank(v[j], id + j) >= row.least && rank(v[j], id + j) != 0;
            v[j] = !is_kept ? __uint_as_float(0xff800000u) : below == 0.0 ? 0.0f : float(below / double(temperature));
        }
        if (id + 4 <= row.cols) {
            store_columns(row.x + id, v);
        } else {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                if (id + j < row.cols) row.x[id + j] = v[j];
            }
        }
    }
    row.best = 0.0f, row.least = 0;
    // The draw divides columns among threads in another way.
    __syncthreads();
}

// Weights of four tokens from `id` on, 0 for those that have been dropped.
__device__ __forceinline__ void weigh(double (&weights)[4], const Row& row, u32 id) {
    float v[4];
    row.load(v, id);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        u64 own = rank(v[j], id + j);
        weights[j] = own != 0 && own >= row.least ? row.weight(v[j]) : 0.0;
    }
}

// Draws one of those that are left. Each thread has the sum of a part of the row; a warp finds the token in the part that reaches it.
__device__ __forceinline__ u32 drawn(const Row& row, double u) {
    __shared__ double sums[THREADS];
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    u32 part = (row.cols + SPAN * THREADS - 1) / (SPAN * THREADS) * SPAN;
    for (u32 i = warp; i < THREADS; i += WARPS) {
        double sum = 0.0;
        for (u32 id = i * part; id < (i + 1) * part && id < row.cols; id += SPAN) {
            double weights[4];
            weigh(weights, row, id + 4 * lane);
            sum += (weights[0] + weights[1]) + (weights[2] + weights[3]);
        }
        sum = warp_sum(sum);
        if (lane == 0) sums[i] = sum;
    }
    __syncthreads();
    double own = sums[thread], up_to = sums_of_block(own);
    // Every thread has read its own.
    sums[thread] = up_to;
    __syncthreads();
    double target = u * sums[THREADS - 1];
    u32 found = first_of_block(up_to > target, own > 0.0), token = MISSING;
    double before = found == 0 ? 0.0 : sums[found - 1];
    for (u32 id = found * part; id < (found + 1) * part && id < row.cols; id += SPAN) {
        double weights[4];
        weigh(weights, row, id + 4 * lane);
        double of_lane = (weights[0] + weights[1]) + (weights[2] + weights[3]), of_lanes = sums_of_warp(of_lane);
        double below = __shfl_up_sync(ALL_LANES, of_lanes, 1), sum = before + (lane == 0 ? 0.0 : below);
        // The lane's first token that reaches the target, or its last one that is possible.
        u32 of = MISSING;
        bool reaches = false;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            sum += weights[j];
            if (reaches || weights[j] <= 0.0) continue;
            of = id + 4 * lane + j, reaches = sum > target;
        }
        u32 reach = __ballot_sync(ALL_LANES, reaches), can = __ballot_sync(ALL_LANES, of != MISSING);
        if (can != 0) token = __shfl_sync(ALL_LANES, of, reach != 0 ? __ffsll(reach) - 1 : 31 - __clz(can));
        if (reach != 0) break;
        before += __shfl_sync(ALL_LANES, of_lanes, 31);
    }
    return token;
}

extern "C" __global__ void __launch_bounds__(THREADS) draw_of_vocabulary(const __grid_constant__ VocabularyArgs args) {
    pdl_launch();
    const Draw& draw = own_draw(args.step, args.draws);
    pdl_wait();
    if (is_of_best(draw)) return;
    Row row{args.x + args.x_at + size_t(blockIdx.y) * args.x_stride, args.cols, 0.0f, 0};
    u32 best = largest_key(row), token = MISSING;
    if (best != NOTHING && best != BROKEN) {
        row.best = value(best);
        if (draw.top_k > 0) row.least = last_rank(row, true, double(draw.top_k));
        for (u32 i = 0; i < draw.filters; i++) {
            float by = draw.filter[i].value;
            switch (draw.filter[i].kind) {
            case TOP_P:
                row.least = last_rank(row, false, double(by));
                break;
            case MIN_P:
                row.least = max(row.least, u64(key(__float_as_uint(__fadd_rn(row.best, by)))) << 32);
                break;
            default:
                heat(row, by);
            }
        }
        token = drawn(row, __hiloint2double(draw.u_high, draw.u_low));
    }
    if (threadIdx.x == 0) args.tokens[blockIdx.y] = token;
}
