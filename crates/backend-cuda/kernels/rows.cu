// Row-wise operations and argmax. Row `blockIdx.y`.
#include "draws.cuh"
#include "arguments/rows.cuh"

// Norms of groups of `cols` columns, with `b` times its columns, which repeat:
// - `RMS_NORM`: `y = a / sqrt(mean(a^2) + eps)`.
// - `LAYER_NORM`: the same of `a - mean(a)`.
// - `L2_NORM`: `y = a / sqrt(sum(a^2) + eps)`.
//
// Element-wise operations:
// - `ADD`: `y = a + b`; a stride of 0 adds one row to all.
// - `MUL`: `y = a * b`; the columns of `b` repeat.
// - `GATE`: `y = glu(a, b)`.
// - `GATE_OF_ROW`: the same with `a` of one column.
// - `ACT`: `y = act(a)`.
// - `SCALE`: `y = factor * a`.
// - `SCALE_ROWS`: `y = factor * a` with a factor per row; `b_at` is their offset in `step`.
// - `SOFTCAP`: `y = cap * tanh(a / cap)`.
// - `SLICE`: some columns of each head of `a`.
// - `JOIN`: each head of `a` followed by a head of `b`; the columns of `b` repeat.
// - `OUTPUT_ROWS`: gathers the output rows of `a`; `b_at` is the offset of their indices in `step`.
// - `FIRST_OF_SEQUENCE`, `MEAN_OF_SEQUENCE`: the first row of the output row's sequence, or the mean of its rows; `b_at`
//   is the offset in `step` of their first row and number.
enum Operation : u32 {
    RMS_NORM,
    LAYER_NORM,
    L2_NORM,
    ADD,
    MUL,
    GATE,
    GATE_OF_ROW,
    ACT,
    SCALE,
    SCALE_ROWS,
    SOFTCAP,
    SLICE,
    JOIN,
    OUTPUT_ROWS,
    FIRST_OF_SEQUENCE,
    MEAN_OF_SEQUENCE,
};

// Whether columns that start at a multiple of 4 can be accessed as vectors.
__device__ __forceinline__ bool is_vector(const RowsArgs& args) {
    u32 all = args.a_at | args.a_stride | args.y_at | args.y_stride | args.y_cols;
    all |= args.head[0] | args.head[1] | args.head[2];
    if (args.b != nullptr) all |= args.b_at | args.b_stride | args.b_cols;
    return all % 4 == 0;
}

// The norm of the group that starts at column `first`, by `THREADS` threads; `sum` sums over them.
template <u32 N, u32 THREADS, class Sum>
__device__ __forceinline__ void norm(const RowsArgs& args, u32 first, u32 thread, Sum sum) {
    u32 cols = args.cols;
    const float* a = args.a + args.a_at + size_t(blockIdx.y) * args.a_stride + first;
    float* y = args.y + args.y_at + size_t(blockIdx.y) * args.y_stride + first;
    float v[N], w[N];
    float center = 0.0f;
    if (args.operation == LAYER_NORM) {
        float own = 0.0f;
        for (u32 i = N * thread; i < cols; i += N * THREADS) {
            load_columns(v, a + i);
#pragma unroll
            for (u32 j = 0; j < N; j++) own += v[j];
        }
        center = sum(own) / float(cols);
    }
    float own = 0.0f;
    for (u32 i = N * thread; i < cols; i += N * THREADS) {
        load_columns(v, a + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) own += (v[j] - center) * (v[j] - center);
    }
    float squares = sum(own);
    if (args.operation != L2_NORM) squares /= float(cols);
    float scale = 1.0f / sqrtf(squares + args.scalar);
    const float* b = nullptr;
    if (args.b != nullptr) b = args.b + args.b_at + size_t(blockIdx.y) * args.b_stride + first % args.b_cols;
    for (u32 i = N * thread; i < cols; i += N * THREADS) {
        load_columns(v, a + i);
        if (b != nullptr) load_columns(w, b + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] = (v[j] - center) * scale * (b != nullptr ? w[j] : 1.0f);
        store_columns(y + i, v);
    }
}

// Groups of up to 1024 columns, a warp each: 8 groups a block of 256 threads.
extern "C" __global__ void __launch_bounds__(256) norm_warp(const __grid_constant__ RowsArgs args) {
    pdl_launch();
    pdl_wait();
    u32 first = (8 * blockIdx.x + threadIdx.x / 32) * args.cols;
    if (first >= args.y_cols) return;
    auto sum = [](float x) { return warp_sum(x); };
    if (is_vector(args) && args.cols % 4 == 0) {
        norm<4, 32>(args, first, threadIdx.x % 32, sum);
    } else {
        norm<1, 32>(args, first, threadIdx.x % 32, sum);
    }
}

// A group per block of 512 threads.
extern "C" __global__ void __launch_bounds__(512) norm_block(const __grid_constant__ RowsArgs args) {
    pdl_launch();
    pdl_wait();
    auto sum = [](float x) { return block_sum<512>(x); };
    if (is_vector(args) && args.cols % 4 == 0) {
        norm<4, 512>(args, blockIdx.x * args.cols, threadIdx.x, sum);
    } else {
        norm<1, 512>(args, blockIdx.x * args.cols, threadIdx.x, sum);
    }
}

// `N` columns of an element-wise operation, from `i` on.
template <u32 N> __device__ __forceinline__ void map(const RowsArgs& args, u32 i) {
    u32 row = blockIdx.y, from = row, operation = args.operation;
    if (operation == OUTPUT_ROWS) from = args.step[args.b_at + row];
    if (operation == FIRST_OF_SEQUENCE || operation == MEAN_OF_SEQUENCE) from = args.step[args.b_at + 2 * row];
    const float* a = args.a + args.a_at + size_t(from) * args.a_stride;
    const float* b = args.b + args.b_at + size_t(row) * args.b_stride;
    float v[N], w[N];
    switch (operation) {
    case ADD:
        load_columns(v, a + i);
        load_columns(w, b + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] += w[j];
        break;
    case MUL:
        load_columns(v, a + i);
        load_columns(w, b + i % args.b_cols);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] *= w[j];
        break;
    case GATE:
    case GATE_OF_ROW:
        load_columns(w, b + i);
        if (operation == GATE) load_columns(v, a + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) {
            float gate = operation == GATE ? v[j] : a[0];
            v[j] = glu(args.act, gate, w[j], args.scalar, args.limited != 0);
        }
        break;
    case ACT:
        load_columns(v, a + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] = activation(args.act, v[j]);
        break;
    case SCALE:
    case SCALE_ROWS: {
        float factor = operation == SCALE ? args.scalar : __uint_as_float(args.step[args.b_at + row]);
        load_columns(v, a + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] *= factor;
        break;
    }
    case SOFTCAP:
        load_columns(v, a + i);
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] = softcap(v[j], args.scalar);
        break;
    case SLICE:
        load_columns(v, a + i / args.head[1] * args.head[0] + args.head[2] + i % args.head[1]);
        break;
    case JOIN: {
        u32 width = args.head[0] + args.head[1], head = i / width, col = i % width;
        bool is_a = col < args.head[0];
        load_columns(v, is_a ? a + head * args.head[0] + col : b + head * args.head[1] % args.b_cols + col - args.head[0]);
        break;
    }
    case MEAN_OF_SEQUENCE: {
        u32 count = args.step[args.b_at + 2 * row + 1];
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] = 0.0f;
#pragma unroll 8
        for (u32 r = 0; r < count; r++) {
            load_columns(w, a + size_t(r) * args.a_stride + i);
#pragma unroll
            for (u32 j = 0; j < N; j++) v[j] += w[j];
        }
#pragma unroll
        for (u32 j = 0; j < N; j++) v[j] /= float(count);
        break;
    }
    default:
        load_columns(v, a + i);
    }
    store_columns(args.y + args.y_at + size_t(row) * args.y_stride + i, v);
}

// 1024 columns per block of 256 threads.
extern "C" __global__ void __launch_bounds__(256) rows_map(const __grid_constant__ RowsArgs args) {
    pdl_launch();
    pdl_wait();
    u32 first = 1024 * blockIdx.x;
    if (is_vector(args)) {
        u32 i = first + 4 * threadIdx.x;
        if (i < args.y_cols) map<4>(args, i);
        return;
    }
    u32 end = min(first + 1024, args.y_cols);
#pragma unroll 1
    for (u32 i = first + threadIdx.x; i < end; i += 256) map<1>(args, i);
}

constexpr u32 NO_DRAWS = ~0u;

// Argmax of each row, the lowest index among equals; a block has 4096 columns, and the last one of a row to finish merges all. NaN and
// infinity rank above everything and negative infinity never wins; a row whose maximum is one of these yields no token
// (`backend::greedy_token`). Logits stay as they are.
extern "C" __global__ void __launch_bounds__(256) arg_max(const __grid_constant__ ArgMaxArgs args) {
    constexpr u32 THREADS = 256, VECTORS = 4, PART = 4 * VECTORS * THREADS;
    __shared__ u64 of_warps[THREADS / 32];
    __shared__ u32 is_last;
    pdl_launch();
    // The step inputs do not change while kernels of the step run, but for tokens.
    u32 biases = 0;
    const u32* entries = nullptr;
    if (args.draws != NO_DRAWS) {
        const Draw& draw = own_draw(args.step, args.draws);
        biases = draw.biases, entries = args.step + draw.entries;
    }
    pdl_wait();
    u32 thread = threadIdx.x, row = blockIdx.y;
    const float* x = args.x + args.x_at + size_t(row) * args.x_stride;
    u64 own = 0;
    float v[VECTORS][4];
#pragma unroll
    for (u32 i = 0; i < VECTORS; i++) {
        u32 column = blockIdx.x * PART + 4 * (i * THREADS + thread);
#pragma unroll
        for (u32 j = 0; j < 4; j++) v[i][j] = -INFINITY;
        if (column + 4 <= args.cols) {
            load_columns(v[i], x + column);
        } else {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                if (column + j < args.cols) v[i][j] = x[column + j];
            }
        }
    }
    // A token's biases follow each other; a logit that is broken before the first one stays so.
    bool is_number = true;
    for (u32 entry = 0; entry < biases; entry++) {
        u32 id = entries[2 * entry], of_part = id - blockIdx.x * PART;
        if (id >= args.cols || of_part >= PART || of_part / 4 % THREADS != thread) continue;
        bool is_first = entry == 0 || entries[2 * entry - 2] != id;
        float bias = __uint_as_float(entries[2 * entry + 1]);
#pragma unroll
        for (u32 i = 0; i < VECTORS; i++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                if (of_part != 4 * (i * THREADS + thread) + j) continue;
                if (is_first) is_number = !is_broken(v[i][j]);
                if (is_number) v[i][j] = biased(v[i][j], bias);
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < VECTORS; i++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) own = max(own, rank(v[i][j], blockIdx.x * PART + 4 * (i * THREADS + thread) + j));
    }
    // The largest one of the block.
    auto of_block = [&](u64 rank) {
#pragma unroll
        for (u32 d = 16; d > 0; d /= 2) rank = max(rank, __shfl_xor_sync(ALL_LANES, rank, d));
        if (thread % 32 == 0) of_warps[thread / 32] = rank;
        __syncthreads();
        rank = of_warps[thread % (THREADS / 32)];
#pragma unroll
        for (u32 d = THREADS / 64; d > 0; d /= 2) rank = max(rank, __shfl_xor_sync(ALL_LANES, rank, d));
        return rank;
    };
    own = of_block(own);
    u32 parts = gridDim.x;
    if (parts > 1) {
        u64* best = args.best + size_t(row) * parts;
        if (thread == 0) best[blockIdx.x] = own;
        if (!is_last_block(args.counters + row, parts, is_last)) return;
        own = 0;
        for (u32 part = thread; part < parts; part += THREADS) own = max(own, __ldcg(best + part));
        own = of_block(own);
    }
    if (thread == 0) args.tokens[row] = own == 0 || u32(own >> 32) == BROKEN ? 0xffffffffu : ~u32(own);
}
