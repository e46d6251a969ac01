// What all kernels share.
//
// A kernel takes one struct: pointers, the first of them to the step inputs, then words. An optional operand is a null
// pointer. Buffers start at multiples of 16 bytes. Offsets and strides count values.
#pragma once

using u8 = unsigned char;
using u32 = unsigned;
using u64 = unsigned long long;

constexpr u32 ALL_LANES = 0xffffffffu;

// Lets the next kernel start before this one has finished (programmatic dependent launch).
__device__ __forceinline__ void pdl_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernels before this one have finished. A kernel that skips it may finish before them, and the kernels
// after it would not wait for them either.
__device__ __forceinline__ void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Adds one to a counter, and returns what it was. What the thread knows to be written before is visible to all that find the counter
// raised.
__device__ __forceinline__ u32 count_up(u32* counter) {
#if defined(EMULATED)
    return atomicAdd(counter, 1);
#else
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
#endif
}

// Whether this block is the last of `blocks` to come here: then its threads see what the others have written before. The counter is
// zero between launches; `flag` is in shared memory.
__device__ __forceinline__ bool is_last_block(u32* counter, u32 blocks, u32& flag) {
    __syncthreads();
    if (threadIdx.x == 0) flag = count_up(counter) == blocks - 1;
    __syncthreads();
    if (flag && threadIdx.x == 0) *counter = 0;
    return flag;
}

// Activation functions, in the order of `graph::Activation`.
enum Act : u32 { SILU, GELU_TANH, GELU_SIGMOID, SIGMOID, SOFTPLUS, RELU, RELU_SQUARED, IDENTITY };

// Rare code is a function of its own (`__noinline__`): kernels that run for microseconds wait for their instructions.
static __device__ __noinline__ float rare_activation(u32 act, float x) {
    switch (act) {
    case GELU_TANH:
        // x / 2 * (1 + tanh(z)) = x / (1 + exp(-2 z)); the constant is 2 sqrt(2 / pi).
        return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    case GELU_SIGMOID:
        return x / (1.0f + expf(-1.702f * x));
    case SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case SOFTPLUS:
        // ln(1 + exp(x)) without overflow.
        return (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x)));
    case RELU:
        return x < 0.0f ? 0.0f : x;
    case RELU_SQUARED:
        return x < 0.0f ? 0.0f : x * x;
    default:
        return x;
    }
}

// If an intermediate value overflows, the result is still 0 or x. NaN stays NaN: `fmaxf` and `fminf` would drop it.
__device__ __forceinline__ float activation(u32 act, float x) {
    return act == SILU ? __fdividef(x, 1.0f + __expf(-x)) : rare_activation(act, x);
}

// A gated linear unit; `limited`: gate and up are at most `limit`, up at least `-limit`, and 1 is added to it. NaN stays NaN.
__device__ __forceinline__ float glu(u32 act, float gate, float up, float limit, bool limited) {
    if (!limited) return activation(act, gate) * up;
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
    return activation(act, gate) * (up + 1.0f);
}

// `cap * tanh(x / cap)`.
static __device__ __noinline__ float softcap(float x, float cap) {
    return cap * tanhf(x * (1.0f / cap));
}

// Weight of a sink, relative to a score of `row_max`. A weight of e^80 leaves nothing of the values.
static __device__ __noinline__ float sink_weight(float sink, float row_max) {
    float above = sink - row_max;
    return expf(above > 80.0f ? 80.0f : above);
}

// How RoPE makes a column of a head, from itself and another one.
struct Rotation {
    u32 other;
    float cosine, sine;
};

// That of column `col` by the row's cos/sin table, a pair of numbers per pair of columns. The first `dims` columns rotate.
// `halves`: column i pairs with i + dims / 2, otherwise with the one beside it.
__device__ __forceinline__ Rotation rotation(u32 col, u32 dims, const float* cos_sin_row, bool halves) {
    if (col >= dims) return {col, 1.0f, 0.0f};
    u32 half = dims / 2;
    bool first = halves ? col < half : col % 2 == 0;
    u32 distance = halves ? half : 1;
    u32 pair = halves ? col - (first ? 0 : half) : col / 2;
    float sine = cos_sin_row[2 * pair + 1];
    return {first ? col + distance : col - distance, cos_sin_row[2 * pair], first ? -sine : sine};
}

// Column `col` of a head, rotated. It loads both columns, whether it needs them or not: behind a branch, each column would wait for
// the one before.
__device__ __forceinline__ float rotated(const float* head, u32 col, const Rotation& by) {
    float own = head[col], other = head[by.other];
    return by.other == col ? own : own * by.cosine + other * by.sine;
}

// Column `col` of the head at `x[at]`, roped.
__device__ __forceinline__ float roped(const float* x, u32 at, u32 col, u32 dims, const float* cos_sin_row, bool halves) {
    return rotated(x + at, col, rotation(col, dims, cos_sin_row, halves));
}

// Sum over a warp, the same in all lanes.
template <class T> __device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (u32 d = 16; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

// Maximum over a warp, the same in all lanes. NaN is dropped if there are numbers.
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (u32 d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

// Sum over a block of `THREADS` threads in one dimension, the same in all of them.
template <u32 THREADS> __device__ __forceinline__ float block_sum(float x) {
    static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps");
    __shared__ float partial[THREADS / 32];
    u32 lane = threadIdx.x % 32;
    x = warp_sum(x);
    // The sum before may still be read.
    __syncthreads();
    if (lane == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(lane < THREADS / 32 ? partial[lane] : 0.0f);
}

// `N` columns, 1 or 4; four start at a multiple of 16 bytes.
template <u32 N> __device__ __forceinline__ void load_columns(float (&to)[N], const float* from) {
    static_assert(N == 1 || N == 4, "a scalar or a vector");
    if constexpr (N == 4) {
        float4 v = *reinterpret_cast<const float4*>(from);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else {
        to[0] = *from;
    }
}

template <u32 N> __device__ __forceinline__ void store_columns(float* to, const float (&from)[N]) {
    static_assert(N == 1 || N == 4, "a scalar or a vector");
    if constexpr (N == 4) {
        *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
    } else {
        *to = from[0];
    }
}
