// Routing of mixtures of experts: the experts of each row, rows grouped by experts, and the sum of their outputs.
#include "common.cuh"
#include "arguments/route.cuh"

// A row's list of experts holds a count, then for each expert its index and the bits of its weight, by rank; at most
// `used`. Experts of weight 0 are left out.

// The softmax over the logits of the chosen experts or over all, or the sigmoid of each logit, in the order of
// `graph::Gating`.
enum Gating : u32 { CHOSEN_SOFTMAX, SOFTMAX, SIGMOIDS };

// The order keys of NaN, positive and negative infinity. No number has the key 0.
constexpr u32 NAN_KEY = 0xffffffffu;
constexpr u32 INFINITY_KEY = 0xff800000u;
constexpr u32 NEGATIVE_INFINITY_KEY = 0x007fffffu;

// An integer in the order of the numbers. NaN of either sign is the largest.
__device__ __forceinline__ u32 key_of(float value) {
    u32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return NAN_KEY;
    return bits >= 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float number_of(u32 key) {
    return __uint_as_float(key >= 0x80000000u ? key & 0x7fffffffu : ~key);
}

// The weight of a logit, or its exponential relative to the logit `top`.
__device__ __forceinline__ float weight_of(u32 gating, float logit, float top) {
    return gating == SIGMOIDS ? 1.0f / (1.0f + expf(-logit)) : expf(logit - top);
}

constexpr u32 ROUTE_THREADS = 256;

// Selects the `used` experts with the largest weights, the lower index first among equals, and writes their weights to
// `y`, with zeros for the other experts. NaN of either sign is the largest; if the largest logit is NaN or infinite, all
// weights are NaN. Without biases the order of the weights is that of the logits. A block of 256 threads per row.
//
// Dynamic shared memory: `4 * (round_up(experts, 4) + 2 * used + groups)` bytes.
extern "C" __global__ void __launch_bounds__(ROUTE_THREADS) route(const __grid_constant__ RouteArgs args) {
    extern __shared__ __align__(16) u32 shared[];
    __shared__ u32 largest;
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, count = args.experts, used = args.used, gating = args.gating;
    u32 padded = (count + 3) / 4 * 4;
    // By expert: the key of what the selection is made by; 0 if its group is not used, and past the last expert.
    u32* order = shared;
    // By rank.
    u32* experts = order + padded;
    float* weights = reinterpret_cast<float*>(experts + used);
    // By group: the key of its rank.
    u32* sums = experts + 2 * used;
    const float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    float* y = args.y + args.y_at + size_t(blockIdx.y) * args.y_stride;
    u32* list = args.chosen + size_t(blockIdx.y) * (1 + 2 * used);

    if (thread == 0) largest = 0;
    __syncthreads();
    u32 most = 0;
    for (u32 i = thread; i < count; i += ROUTE_THREADS) most = max(most, key_of(x[i]));
    most = __reduce_max_sync(ALL_LANES, most);
    if (thread % 32 == 0) atomicMax(&largest, most);
    __syncthreads();
    most = largest;
    bool is_broken = most == NAN_KEY || most == INFINITY_KEY || most == NEGATIVE_INFINITY_KEY;
    float top = number_of(most), total = 1.0f;
    if (gating == SOFTMAX) {
        float own = 0.0f;
        for (u32 i = thread; i < count; i += ROUTE_THREADS) own += weight_of(gating, x[i], top);
        total = block_sum<ROUTE_THREADS>(own);
    }

    bool by_logits = gating == CHOSEN_SOFTMAX || (args.bias == nullptr && args.groups == 0);
    for (u32 i = thread; i < padded; i += ROUTE_THREADS) {
        u32 key = 0;
        if (i < count) {
            float logit = x[i];
            float weight = by_logits ? logit : weight_of(gating, logit, top) / total;
            if (args.bias != nullptr) weight += args.bias[i];
            key = key_of(logit) == NAN_KEY ? NAN_KEY : key_of(weight);
        }
        order[i] = key;
    }
    __syncthreads();

    if (args.groups > 0) {
        u32 size = count / args.groups;
        for (u32 group = thread; group < args.groups; group += ROUTE_THREADS) {
            u32 first = 0, second = 0;
            for (u32 i = group * size; i < (group + 1) * size; i++) {
                second = max(second, min(first, order[i]));
                first = max(first, order[i]);
            }
            u32 sum = first;
            if (size > 1 && first != NAN_KEY) sum = key_of(number_of(first) + number_of(second));
            sums[group] = sum;
        }
        __syncthreads();
        for (u32 group = thread; group < args.groups; group += ROUTE_THREADS) {
            u32 own = sums[group], rank = 0;
            for (u32 other = 0; other < args.groups; other++) {
                rank += sums[other] > own || (sums[other] == own && other < group);
            }
            if (rank >= args.used_groups) {
                for (u32 i = group * size; i < (group + 1) * size; i++) order[i] = 0;
            }
        }
        __syncthreads();
    }

    for (u32 i = thread; i < count; i += ROUTE_THREADS) {
        u32 own = order[i], rank = 0;
        for (u32 j = 0; j < padded; j += 4) {
            uint4 four = *reinterpret_cast<const uint4*>(order + j);
            rank += four.x > own || (four.x == own && j < i);
            rank += four.y > own || (four.y == own && j + 1 < i);
            rank += four.z > own || (four.z == own && j + 2 < i);
            rank += four.w > own || (four.w == own && j + 3 < i);
        }
        if (rank < used) {
            experts[rank] = i;
            weights[rank] = gating == CHOSEN_SOFTMAX ? x[i] : weight_of(gating, x[i], top);
        } else {
            y[i] = 0.0f;
        }
    }
    __syncthreads();

    if (gating == CHOSEN_SOFTMAX) {
        top = weights[0];
        for (u32 rank = 1; rank < used; rank++) top = fmaxf(top, weights[rank]);
        total = 0.0f;
        for (u32 rank = 0; rank < used; rank++) total += weight_of(gating, weights[rank], top);
    } else if (args.renormalises) {
        float sum = 0.0f;
        for (u32 rank = 0; rank < used; rank++) sum += weights[rank];
        total *= fmaxf(sum / total, 0.00006103515625f);
    }
    __syncthreads();
    for (u32 rank = thread; rank < used; rank += ROUTE_THREADS) {
        float weight = weights[rank];
        if (gating == CHOSEN_SOFTMAX) weight = weight_of(gating, weight, top);
        weight = is_broken ? __uint_as_float(0x7fc00000u) : args.scale * (weight / total);
        weights[rank] = weight;
        y[experts[rank]] = weight;
    }
    __syncthreads();
    for (u32 rank = thread; rank <= used; rank += ROUTE_THREADS) {
        u32 place = 0;
        for (u32 other = 0; other < rank; other++) place += weights[other] != 0.0f;
        if (rank == used) {
            list[0] = place;
        } else if (weights[rank] != 0.0f) {
            list[1 + 2 * place] = experts[rank];
            list[2 + 2 * place] = __float_as_uint(weights[rank]);
        }
    }
}

// Lists the experts of routing weights `x` that are not 0, in order; a warp per row.
extern "C" __global__ void __launch_bounds__(32) route_list(const __grid_constant__ RouteArgs args) {
    pdl_launch();
    pdl_wait();
    u32 lane = threadIdx.x, place = 0;
    const float* x = args.x + args.x_at + size_t(blockIdx.y) * args.x_stride;
    u32* list = args.chosen + size_t(blockIdx.y) * (1 + 2 * args.used);
    for (u32 first = 0; first < args.experts; first += 32) {
        u32 i = first + lane;
        float weight = i < args.experts ? x[i] : 0.0f;
        u32 lanes = __ballot_sync(ALL_LANES, weight != 0.0f);
        if (weight != 0.0f) {
            u32 own = place + __popc(lanes & ((1u << lane) - 1));
            list[1 + 2 * own] = i;
            list[2 + 2 * own] = __float_as_uint(weight);
        }
        place += __popc(lanes);
    }
    if (lane == 0) list[0] = place;
}

constexpr u32 GROUPS_THREADS = 1024;

// The sum of `x` over the threads before, and over all.
__device__ __forceinline__ u64 sum_before(u64 x, u64& all) {
    constexpr u32 WARPS = GROUPS_THREADS / 32;
    __shared__ u64 of_warps[WARPS];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = x;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        u64 below = __shfl_up_sync(ALL_LANES, sum, d);
        if (lane >= d) sum += below;
    }
    // The sums before may still be read.
    __syncthreads();
    if (lane == 31) of_warps[warp] = sum;
    __syncthreads();
    all = 0;
    u64 before = sum - x;
    for (u32 w = 0; w < WARPS; w++) {
        if (w < warp) before += of_warps[w];
        all += of_warps[w];
    }
    return before;
}

// Groups rows by the experts of their lists, for a GEMM over each expert's rows; one block of 1024 threads.
//
// Dynamic shared memory: `4 * experts` bytes.
extern "C" __global__ void __launch_bounds__(GROUPS_THREADS) groups(const __grid_constant__ GroupsArgs args) {
    // By expert: the number of entries, then the next one.
    extern __shared__ __align__(16) u32 shared[];
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x, items = args.step[args.rows] * args.used;
    for (u32 expert = thread; expert < args.experts; expert += GROUPS_THREADS) shared[expert] = 0;
    __syncthreads();
    // Item `row * used + slot`.
    for (u32 item = thread; item < items; item += GROUPS_THREADS) {
        u32 row = item / args.used, slot = item % args.used;
        const u32* list = args.chosen + size_t(row) * (1 + 2 * args.used);
        if (slot < list[0]) atomicAdd(&shared[list[1 + 2 * slot]], 1);
    }
    __syncthreads();
    // Entries in the low half, tiles in the high half.
    u64 done = 0;
    for (u32 base = 0; base < args.experts; base += GROUPS_THREADS) {
        u32 expert = base + thread;
        u32 count = expert < args.experts ? shared[expert] : 0;
        u64 all, before = done + sum_before(u64((count + args.tile - 1) / args.tile) << 32 | count, all);
        done += all;
        u32 first = u32(before), end = first + count;
        if (expert < args.experts) shared[expert] = first;
        for (u32* to = args.groups + 1 + 3 * size_t(before >> 32); first < end; to += 3) {
            u32 rows = min(end - first, args.tile);
            to[0] = expert;
            to[1] = first;
            to[2] = rows;
            first += rows;
        }
    }
    if (thread == 0) args.groups[0] = u32(done >> 32);
    __syncthreads();
    for (u32 item = thread; item < items; item += GROUPS_THREADS) {
        u32 row = item / args.used, slot = item % args.used;
        const u32* list = args.chosen + size_t(row) * (1 + 2 * args.used);
        if (slot < list[0]) {
            u32 entry = atomicAdd(&shared[list[1 + 2 * slot]], 1);
            u32* to = args.groups + args.entries + 2 * size_t(entry);
            to[0] = item;
            to[1] = list[2 + 2 * slot];
        }
    }
}

template <u32 N> __device__ __forceinline__ void mix_columns(const MixArgs& args, u32 i) {
    u32 row = blockIdx.y, count = args.chosen[size_t(row) * (1 + 2 * args.used)];
    const float* x = args.x + size_t(row) * args.used * args.cols + i;
    float sum[N], v[N];
#pragma unroll
    for (u32 j = 0; j < N; j++) sum[j] = 0.0f;
    if (args.r != nullptr) load_columns(sum, args.r + args.r_at + size_t(row) * args.r_stride + i);
#pragma unroll 4
    for (u32 slot = 0; slot < count; slot++) {
        load_columns(v, x + size_t(slot) * args.cols);
#pragma unroll
        for (u32 j = 0; j < N; j++) sum[j] += v[j];
    }
    store_columns(args.y + args.y_at + size_t(row) * args.y_stride + i, sum);
}

// Sums the outputs of each row's experts, and the residual; 1024 columns of row `blockIdx.y` per block of 256 threads.
extern "C" __global__ void __launch_bounds__(256) mix(const __grid_constant__ MixArgs args) {
    pdl_launch();
    pdl_wait();
    u32 first = 1024 * blockIdx.x, all = args.y_at | args.y_stride | args.cols;
    if (args.r != nullptr) all |= args.r_at | args.r_stride;
    if (all % 4 == 0) {
        u32 i = first + 4 * threadIdx.x;
        if (i < args.cols) mix_columns<4>(args, i);
        return;
    }
    u32 end = min(first + 1024, args.cols);
#pragma unroll 1
    for (u32 i = first + threadIdx.x; i < end; i += 256) mix_columns<1>(args, i);
}
