// The best candidates of each row, the tokens with the largest logits, the lower id first among equals; and a token drawn from
// them. Row `blockIdx.y`.
//
// Each block finds the best ranks of a part of the row, and then one block those of the row among these. Before, biases and
// penalties may change logits; afterwards, one warp filters the candidates and draws, if they are all that the draw considers
// (`draw.cu` has the other draws).
#include "draws.cuh"
#include "arguments/candidates.cuh"

constexpr u32 THREADS = 256;
// Ranks of a thread, and of a part.
constexpr u32 OWN = 16, PART = OWN * THREADS;

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

// Selects the best of `count` ranks of all parts of a row, as `select` does.
__device__ __forceinline__ void merge(const u64* ranks, u32 count, u64* best) {
    u32 thread = threadIdx.x;
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
}

// Where a rank is among the best of a row.
struct Place {
    u64 rank;
    u32 place;
    // Candidates of the row; none if a logit is NaN or infinity.
    u32 found;
};

// The place of the thread's own, of the first `K` threads.
__device__ __forceinline__ Place place_of(const u64* best) {
    u32 thread = threadIdx.x;
    Place own{best[thread], 0, 0};
    bool broken = false;
    for (u32 i = 0; i < K; i++) {
        u64 other = best[i];
        own.place += other > own.rank || (other == own.rank && i < thread);
        own.found += other != 0;
        broken |= u32(other >> 32) == BROKEN;
    }
    if (broken) own.found = 0;
    return own;
}

// The best of all parts of a row, in order.
extern "C" __global__ void __launch_bounds__(THREADS) candidates_of_row(const __grid_constant__ MergeArgs args) {
    __shared__ u64 best[K];
    pdl_launch();
    pdl_wait();
    u32 count = K * args.parts;
    merge(args.ranks + size_t(blockIdx.y) * count, count, best);
    if (threadIdx.x >= K) return;
    Place own = place_of(best);
    bool is_missing = own.place >= own.found;
    u32 id = ~u32(own.rank);
    const float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    u32* to = args.candidates + 2 * K * size_t(blockIdx.y) + own.place;
    to[0] = is_missing ? MISSING : id;
    to[K] = is_missing ? 0 : __float_as_uint(x[id]);
}

// Of a token that occurred `n` times. Functions of one instruction: the compiler must not contract them to multiply-adds, which the
// host does not use.
__device__ __forceinline__ void penalise(float* x, u32 cols, const Draw& by, u32 id, u32 n) {
    float logit = id < cols ? x[id] : 0.0f;
    if (id >= cols || is_broken(logit) || key(__float_as_uint(logit)) == NOTHING) return;
    logit = logit <= 0.0f ? __fmul_rn(logit, by.repeat) : __fdiv_rn(logit, by.repeat);
    logit = __fsub_rn(logit, __fadd_rn(__fmul_rn(float(n), by.frequency), by.presence));
    x[id] = fminf(fmaxf(logit, -LARGEST), LARGEST);
}

// Adds biases to the logits of a row, and then subtracts penalties, in place.
extern "C" __global__ void __launch_bounds__(THREADS) adjust_logits(const __grid_constant__ AdjustArgs args) {
    // Whether the row's own token is among those that have a count.
    __shared__ u32 is_counted;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x;
    const Draw& draw = own_draw(args.step, args.draws);
    const u32* entries = args.step + draw.entries;
    float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    if (thread == 0) is_counted = 0;
    for (u32 i = thread; i < draw.biases; i += THREADS) {
        u32 id = entries[2 * i];
        // The thread of a token's first bias adds all of them.
        if (id >= args.cols || (i > 0 && entries[2 * i - 2] == id)) continue;
        float logit = x[id];
        if (is_broken(logit)) continue;
        for (u32 j = i; j < draw.biases && entries[2 * j] == id; j++) {
            logit = biased(logit, __uint_as_float(entries[2 * j + 1]));
        }
        x[id] = logit;
    }
    if (!draw.is_penalised) return;
    __syncthreads();
    const u32* counts = entries + 2 * draw.biases;
    u32 own = args.step[args.tokens + args.step[args.outputs + blockIdx.y]];
    for (u32 i = thread; i < draw.counts; i += THREADS) {
        u32 id = counts[2 * i];
        if (id == own) is_counted = 1;
        penalise(x, args.cols, draw, id, counts[2 * i + 1] + (id == own));
    }
    __syncthreads();
    if (thread == 0 && !is_counted) penalise(x, args.cols, draw, own, 1);
}

// The candidates of a row: the first `n`, by falling logits. Those that are kept are always the first of them.
struct Kept {
    u32 ids[K];
    float logits[K];
    // Probabilities up to a common factor, and 0 beyond `n`.
    double weights[K];
};

// The candidates of which something is true, of the lane's two: bit `i` for candidate `i`.
__device__ __forceinline__ u64 which(bool first, bool second) {
    return __ballot_sync(ALL_LANES, first) | u64(__ballot_sync(ALL_LANES, second)) << 32;
}

// The sum of all weights up to each of the lane's candidates; returns that of all `n`. In the host's order: no two additions at once.
__device__ __forceinline__ double sums(const Kept& kept, u32 n, double (&up_to)[2]) {
    u32 lane = threadIdx.x;
    double sum = 0.0;
    up_to[0] = up_to[1] = 0.0;
    for (u32 first = 0; first < n; first += 8) {
#pragma unroll
        for (u32 i = first; i < first + 8; i++) {
            sum += kept.weights[i];
            if (i == lane) up_to[0] = sum;
            if (i == lane + 32) up_to[1] = sum;
        }
    }
    return sum;
}

// Puts equal logits in the order of ids: after division by a temperature, logits can be equal that were not before.
static __device__ __noinline__ void order_ties(Kept& kept, u32 n) {
    u32 lane = threadIdx.x, ids[2], places[2];
    for (u32 half = 0; half < 2; half++) {
        u32 own = lane + 32 * half;
        ids[half] = kept.ids[own], places[half] = own;
        for (u32 i = 0; own < n && i < n; i++) {
            if (kept.logits[i] != kept.logits[own]) continue;
            places[half] += i > own && kept.ids[i] < ids[half];
            places[half] -= i < own && kept.ids[i] > ids[half];
        }
    }
    __syncwarp();
    for (u32 half = 0; half < 2; half++) kept.ids[places[half]] = ids[half];
    __syncwarp();
}

// Applies a filter to the first `n`; returns how many are left.
__device__ __forceinline__ u32 filtered(Kept& kept, u32 n, u32 kind, float value) {
    u32 lane = threadIdx.x;
    float best = kept.logits[0];
    float logits[2] = {kept.logits[lane], kept.logits[lane + 32]};
    if (kind == MIN_P) {
        float least = __fadd_rn(best, value);
        return __popcll(which(lane < n && logits[0] >= least, lane + 32 < n && logits[1] >= least));
    }
    if (kind == TEMPERATURE) {
        if (n <= 1) return n;
        __syncwarp();
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            double below = double(logits[half]) - double(best);
            logits[half] = below == 0.0 ? 0.0f : float(below / double(value));
            kept.logits[lane + 32 * half] = logits[half];
        }
        __syncwarp();
        // Minus infinity is impossible.
        return __popcll(which(lane < n && logits[0] >= -LARGEST, lane + 32 < n && logits[1] >= -LARGEST));
    }
    // Top-p.
    bool swapped = false;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 own = lane + 32 * half;
        kept.weights[own] = own < n ? exp(double(logits[half]) - double(best)) : 0.0;
        swapped |= own + 1 < n && kept.logits[own + 1] == logits[half] && kept.ids[own + 1] < kept.ids[own];
    }
    __syncwarp();
    if (__any_sync(ALL_LANES, swapped)) order_ties(kept, n);
    double up_to[2];
    double enough = double(value) * sums(kept, n, up_to);
    u64 reach = which(lane < n && up_to[0] >= enough, lane + 32 < n && up_to[1] >= enough);
    // The next filter writes what other lanes have read.
    __syncwarp();
    return reach ? __ffsll(reach) : n;
}

// Draws one of the first `n`, at least one.
__device__ __forceinline__ u32 drawn(Kept& kept, u32 n, double u) {
    u32 lane = threadIdx.x, ids[2], places[2] = {};
    double best = double(kept.logits[0]), weights[2];
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 own = lane + 32 * half;
        ids[half] = kept.ids[own];
        weights[half] = own < n ? exp(double(kept.logits[own]) - best) : 0.0;
    }
    for (u32 i = 0; i < n; i++) {
        u32 id = kept.ids[i];
#pragma unroll
        for (u32 half = 0; half < 2; half++) places[half] += id < ids[half];
    }
    __syncwarp();
    // In the order of ids. Others stay where they are.
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 own = lane + 32 * half, to = own < n ? places[half] : own;
        kept.ids[to] = ids[half], kept.weights[to] = weights[half];
    }
    __syncwarp();
    double up_to[2];
    double target = u * sums(kept, n, up_to);
    u64 above = which(lane < n && up_to[0] > target, lane + 32 < n && up_to[1] > target);
    u32 last = above ? __ffsll(above) - 1 : n - 1;
    // Rounding may lead to one that is not possible.
    u64 possible = which(kept.weights[lane] > 0.0, kept.weights[lane + 32] > 0.0) & ~u64(0) >> (63 - last);
    return kept.ids[63 - __clzll(possible)];
}

// Filters the best of all parts of a row, and draws one.
extern "C" __global__ void __launch_bounds__(THREADS) draw_of_row(const __grid_constant__ DrawArgs args) {
    __shared__ u64 best[K];
    __shared__ Kept kept;
    pdl_launch();
    const Draw& draw = own_draw(args.step, args.draws);
    pdl_wait();
    if (!is_of_best(draw)) return;
    u32 count = K * args.parts, found = 0;
    merge(args.ranks + size_t(blockIdx.y) * count, count, best);
    if (threadIdx.x < K) {
        Place own = place_of(best);
        kept.ids[own.place] = ~u32(own.rank);
        kept.logits[own.place] = value(u32(own.rank >> 32));
        found = own.found;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    u32 n = found < draw.top_k ? found : draw.top_k;
    u32 token = MISSING;
    if (n > 0) {
        for (u32 i = 0; i < draw.filters; i++) n = filtered(kept, n, draw.filter[i].kind, draw.filter[i].value);
        token = drawn(kept, n, __hiloint2double(draw.u_high, draw.u_low));
    }
    if (threadIdx.x == 0) args.tokens[blockIdx.y] = token;
}
