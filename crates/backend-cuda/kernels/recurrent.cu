// Recurrent operations: causal convolution and linear attention. Sequence `blockIdx.y`.
//
// Eight words of `step` per sequence, from `sequences` on: first row, rows, whether there is a state, slots to read and to
// write, checkpoint and its slot, 0. The state after row `checkpoint - 1` of the sequence goes to the checkpoint's slot.
#include "common.cuh"
#include "arguments/recurrent.cuh"

// Columns of a block, and parts that the rows of a sequence are split into.
constexpr u32 CONV_COLS = 32, CONV_PARTS = 8;

// A warp computes 32 columns of a part of the rows: the inputs before it come from `x` or, before the first row, from the
// state. A thread holds the last inputs of its column, right-aligned; with many taps as a ring in local memory.
template <u32 TAPS> __device__ __forceinline__ void conv(const ConvArgs& args) {
    constexpr bool RING = TAPS > 16;
    constexpr u32 UNROLL = RING ? 1 : TAPS;
    // Rows that are loaded at a time.
    constexpr u32 AHEAD = 8;
    pdl_launch();
    pdl_wait();
    u32 col = CONV_COLS * blockIdx.x + threadIdx.x % CONV_COLS, part = threadIdx.x / CONV_COLS;
    bool is_column = col < args.cols;
    const u32* sequence = args.step + args.sequences + 8 * blockIdx.y;
    u32 first_row = sequence[0], rows = sequence[1], checkpoint = sequence[5];
    u32 each = (rows + CONV_PARTS - 1) / CONV_PARTS;
    u32 begin = min(part * each, rows), end = min(begin + each, rows);
    is_column = is_column && begin < end;
    u32 before = args.taps - 1, skip = TAPS - args.taps;
    const float* x = args.x + args.x_at + size_t(first_row) * args.x_stride + col;
    float* y = args.y + args.y_at + size_t(first_row) * args.y_stride + col;
    const float* weight = args.weight + size_t(col) * args.taps;
    float weights[RING ? 1 : TAPS], inputs[RING ? TAPS : TAPS - 1];
    // Where a ring starts.
    u32 start = 0;
    auto input = [&](u32 j) -> float& { return inputs[RING ? (start + j) % TAPS : j]; };
    auto slot = [&](u32 word) { return args.state + size_t(sequence[word]) * before * args.cols + col; };
    if (!RING) {
#pragma unroll
        for (u32 j = 0; j < TAPS; j++) weights[RING ? 0 : j] = is_column && j >= skip ? weight[j - skip] : 0.0f;
    }
#pragma unroll UNROLL
    for (u32 j = RING ? skip : 0; j < TAPS - 1; j++) {
        float value = 0.0f;
        if (is_column && j >= skip) {
            // Index among the state and the rows after it.
            u32 at = begin + j - skip;
            if (at >= before) {
                value = x[size_t(at - before) * args.x_stride];
            } else if (sequence[2] != 0) {
                value = slot(3)[size_t(at) * args.cols];
            }
        }
        input(j) = value;
    }
    // The slot that is read may be written.
    __syncthreads();
    if (!is_column) return;
    auto save = [&](float* to) {
#pragma unroll UNROLL
        for (u32 j = RING ? skip : 0; j < TAPS - 1; j++) {
            if (j >= skip) to[size_t(j - skip) * args.cols] = input(j);
        }
    };
    float bias = args.bias != nullptr ? args.bias[col] : 0.0f;
    for (u32 row = begin; row < end; row += AHEAD) {
        float next[AHEAD];
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) next[u] = x[size_t(min(row + u, end - 1)) * args.x_stride];
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (row + u >= end) break;
            float sum = bias;
#pragma unroll UNROLL
            for (u32 j = RING ? skip : 0; j < TAPS - 1; j++) {
                if (j >= skip) sum += (RING ? weight[j - skip] : weights[RING ? 0 : j]) * input(j);
            }
            sum += (RING ? weight[before] : weights[RING ? 0 : TAPS - 1]) * next[u];
            y[size_t(row + u) * args.y_stride] = sum;
            if (RING) {
                input(TAPS - 1) = next[u];
                start++;
            } else {
#pragma unroll
                for (u32 j = 1; j < TAPS - 1; j++) inputs[j - 1] = inputs[j];
                inputs[TAPS - 2] = next[u];
            }
            if (row + u + 1 == checkpoint) save(slot(6));
        }
    }
    if (end == rows) save(slot(4));
}

// Up to 4, 8, 16 and 512 taps; blocks of 256 threads have 32 columns.
extern "C" __global__ void __launch_bounds__(256) conv_4(const __grid_constant__ ConvArgs args) {
    conv<4>(args);
}

extern "C" __global__ void __launch_bounds__(256) conv_8(const __grid_constant__ ConvArgs args) {
    conv<8>(args);
}

extern "C" __global__ void __launch_bounds__(256) conv_16(const __grid_constant__ ConvArgs args) {
    conv<16>(args);
}

extern "C" __global__ void __launch_bounds__(256) conv_512(const __grid_constant__ ConvArgs args) {
    conv<512>(args);
}

constexpr u32 LINEAR_THREADS = 128;

// A block computes 32 columns of a head, row by row; `blockIdx.x` counts the columns of a head, then heads. Four lanes of
// a warp have a column, each a quarter of its state, which stays in registers.
template <u32 QUARTER> __device__ __forceinline__ void linear_attention(const LinearAttentionArgs& args) {
    // Keys and queries, filled up with 0. Quarters are four words apart, so that they are in different banks.
    constexpr u32 PITCH = QUARTER + 4, EACH = (4 * QUARTER + LINEAR_THREADS - 1) / LINEAR_THREADS;
    __shared__ __align__(16) float keys[2][4 * PITCH], queries[2][4 * PITCH];
    pdl_launch();
    pdl_wait();
    u32 k_dim = args.k_dim, v_dim = args.v_dim, blocks = (v_dim + 31) / 32;
    u32 thread = threadIdx.x, lane = thread % 32;
    u32 head = blockIdx.x / blocks;
    u32 k_head = args.is_tiled ? head % args.k_heads : head / (args.heads / args.k_heads);
    u32 column = blockIdx.x % blocks * 32 + thread / 32 * 8 + lane % 8, part = lane / 8 * QUARTER;
    bool is_column = column < v_dim;
    const u32* sequence = args.step + args.sequences + 8 * blockIdx.y;
    u32 first = sequence[0], end = first + sequence[1], checkpoint = first + sequence[5];
    auto slot = [&](u32 word) {
        size_t of_slot = size_t(sequence[word]) * args.heads * k_dim * v_dim;
        return args.state + of_slot + (size_t(head) * k_dim + part) * v_dim + column;
    };
    float own[QUARTER];
#pragma unroll
    for (u32 i = 0; i < QUARTER; i++) {
        own[i] = 0.0f;
        if (is_column && part + i < k_dim && sequence[2] != 0) own[i] = slot(3)[size_t(i) * v_dim];
    }
    auto save = [&](float* to) {
#pragma unroll
        for (u32 i = 0; i < QUARTER; i++) {
            if (is_column && part + i < k_dim) to[size_t(i) * v_dim] = own[i];
        }
    };
    const float* q = args.q + args.q_at + k_head * k_dim;
    const float* k = args.k + args.k_at + k_head * k_dim;
    const float* v = args.v + args.v_at + head * v_dim + column;
    const float* decay = args.decay + args.decay_at + head;
    const float* beta = args.beta + args.beta_at + head;
    float skip = args.skip != nullptr ? args.skip[head] : 0.0f;
    // The next row, loaded while the last one is computed.
    float next_q[EACH], next_k[EACH], next_v, next_decay, next_beta;
    auto fetch = [&](u32 row) {
#pragma unroll
        for (u32 u = 0; u < EACH; u++) {
            u32 i = thread + u * LINEAR_THREADS;
            next_q[u] = i < k_dim ? q[size_t(row) * args.q_stride + i] : 0.0f;
            next_k[u] = i < k_dim ? k[size_t(row) * args.k_stride + i] : 0.0f;
        }
        next_v = is_column ? v[size_t(row) * args.v_stride] : 0.0f;
        next_decay = decay[size_t(row) * args.decay_stride];
        next_beta = beta[size_t(row) * args.beta_stride];
    };
    // The sum over the lanes of a column.
    auto column_sum = [](float x) {
        x += __shfl_xor_sync(ALL_LANES, x, 8);
        return x + __shfl_xor_sync(ALL_LANES, x, 16);
    };
    if (first < end) fetch(first);
    for (u32 row = first; row < end; row++) {
        float *key = keys[row % 2], *query = queries[row % 2];
#pragma unroll
        for (u32 u = 0; u < EACH; u++) {
            u32 i = thread + u * LINEAR_THREADS;
            if (i < 4 * QUARTER) {
                key[i / QUARTER * PITCH + i % QUARTER] = next_k[u];
                query[i / QUARTER * PITCH + i % QUARTER] = next_q[u];
            }
        }
        float value = next_v, factor = expf(next_decay), weight = next_beta;
        // One barrier per row: a buffer is written again only after the next row's.
        __syncthreads();
        if (row + 1 < end) fetch(row + 1);
        const float4* key_fours = reinterpret_cast<const float4*>(key + lane / 8 * PITCH);
        const float4* query_fours = reinterpret_cast<const float4*>(query + lane / 8 * PITCH);
        float added = value;
        if (args.is_delta) {
            float4 known = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
            for (u32 i = 0; i < QUARTER; i += 4) {
                float4 four = key_fours[i / 4];
                own[i] *= factor, own[i + 1] *= factor, own[i + 2] *= factor, own[i + 3] *= factor;
                known.x += four.x * own[i], known.y += four.y * own[i + 1];
                known.z += four.z * own[i + 2], known.w += four.w * own[i + 3];
            }
            added -= column_sum((known.x + known.y) + (known.z + known.w));
        } else {
#pragma unroll
            for (u32 i = 0; i < QUARTER; i++) own[i] *= factor;
        }
        added *= weight;
        float4 result = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (u32 i = 0; i < QUARTER; i += 4) {
            float4 four = key_fours[i / 4], by = query_fours[i / 4];
            own[i] += four.x * added, own[i + 1] += four.y * added;
            own[i + 2] += four.z * added, own[i + 3] += four.w * added;
            result.x += by.x * own[i], result.y += by.y * own[i + 1];
            result.z += by.z * own[i + 2], result.w += by.w * own[i + 3];
        }
        float sum = args.scale * column_sum((result.x + result.y) + (result.z + result.w));
        if (args.skip != nullptr) sum += skip * value;
        if (is_column && part == 0) args.y[args.y_at + size_t(row) * args.y_stride + head * v_dim + column] = sum;
        if (row + 1 == checkpoint) save(slot(6));
    }
    save(slot(4));
}

// Keys of up to 4 * 16, 32, 64 and 128 columns; blocks of 128 threads.
extern "C" __global__ void __launch_bounds__(LINEAR_THREADS)
    linear_attention_16(const __grid_constant__ LinearAttentionArgs args) {
    linear_attention<16>(args);
}

extern "C" __global__ void __launch_bounds__(LINEAR_THREADS)
    linear_attention_32(const __grid_constant__ LinearAttentionArgs args) {
    linear_attention<32>(args);
}

extern "C" __global__ void __launch_bounds__(LINEAR_THREADS)
    linear_attention_64(const __grid_constant__ LinearAttentionArgs args) {
    linear_attention<64>(args);
}

extern "C" __global__ void __launch_bounds__(LINEAR_THREADS)
    linear_attention_128(const __grid_constant__ LinearAttentionArgs args) {
    linear_attention<128>(args);
}
