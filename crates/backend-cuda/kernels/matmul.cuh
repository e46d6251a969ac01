// What all matmul kernels share: their arguments, and how outputs are written.
#pragma once
#include "formats.cuh"
#include "instructions.cuh"
#include "arguments/matmul.cuh"

extern __shared__ uint4 shared[];

__device__ __forceinline__ const u8* shared_bytes(u32 at) {
    return reinterpret_cast<const u8*>(shared) + at;
}

// Launches that run side by side since they read the same activations. FIRST: the next launch may start when the activations are
// complete, and no sooner. SECOND: they are complete when it starts, so that it waits for the launch before it only at its own end.
constexpr u32 FIRST = 1, SECOND = 2;

// Weight rows come in pairs (`formats.cuh`).
constexpr u32 PAIRED = 4;

__device__ __forceinline__ bool is_paired(const MatmulArgs& a) {
    return a.flags & PAIRED;
}

constexpr u32 INTO_HIDDEN = 1, OUT_OF_HIDDEN = 2, PER_HEAD = 3;

// The index of expert `slot` of a row's list.
__device__ __forceinline__ u32 expert_of(const u32* list, u32 slot) {
    return list[1 + 2 * slot];
}

// What an output belongs to: a row of activations and, with experts, an entry of its list.
struct Target {
    u32 row, slot, expert;
    float weight;
};

// Splits the index of an output into a weight and one of its outputs.
__device__ __forceinline__ u32 part_of(const MatmulArgs& a, u32& output) {
    u32 part = 0;
    if (a.glu || a.mode != 0) return 0;
    if (output >= a.outputs[0]) output -= a.outputs[0], part = 1;
    if (part == 1 && output >= a.outputs[1]) output -= a.outputs[1], part = 2;
    return part;
}

template <class T> __device__ __forceinline__ T select3(u32 i, T a, T b, T c) {
    return i == 0 ? a : i == 1 ? b : c;
}

// A weight row of a part. Parts have equal columns, and thus equal pitches.
template <class F> __device__ __forceinline__ const u8* weight_row(const MatmulArgs& a, u32 part, size_t row) {
    return row_of<F>(select3(part, a.w[0], a.w[1], a.w[2]), row, a.pitch, is_paired(a));
}

// The activation of an output, or the gated linear unit of `value` and `up`.
__device__ __forceinline__ float activate(const MatmulArgs& a, float value, float up) {
    if (a.glu) return glu(a.act, value, up, a.limit, a.limited);
    return a.act == IDENTITY ? value : activation(a.act, value);
}

// Writes an output without experts: `value`, and with a GLU also `up`.
__device__ __forceinline__ void write_plain(const MatmulArgs& a, u32 row, u32 part, u32 output, float value, float up) {
    u32 col = select3(part, a.y_at[0], a.y_at[1], a.y_at[2]) + output;
    value = activate(a, value, up);
    if (a.r) value += a.r[a.r_at + size_t(row) * a.r_stride + (col - a.y_at[0])];
    a.y[size_t(row) * a.y_stride + col] = value;
}

// Writes an output: `value`, and with a GLU also `up`.
__device__ __forceinline__ void write_output(const MatmulArgs& a, const Target& to, u32 part, u32 output, float value,
                                             float up) {
    if (a.mode == INTO_HIDDEN) {
        if (a.weighs_inputs) value *= to.weight, up *= to.weight;
        if (a.factors != ~0u) {
            value *= a.biases[a.factors + to.expert];
            if (a.glu) up *= a.biases[a.factors + a.experts + to.expert];
        }
        if (a.has_biases) {
            value += a.biases[to.expert * a.outputs[0] + output];
            if (a.glu) up += a.biases[a.up_biases + to.expert * a.outputs[0] + output];
        }
    }
    if (a.mode != INTO_HIDDEN && a.mode != OUT_OF_HIDDEN) return write_plain(a, to.row, part, output, value, up);
    value = activate(a, value, up);
    if (a.mode == INTO_HIDDEN) {
        if (a.factors != ~0u) value *= a.biases[a.factors + (a.glu ? 2 : 1) * a.experts + to.expert];
        a.y[(size_t(to.row) * a.used + to.slot) * a.y_stride + output] = a.weighs_inputs ? value : to.weight * value;
        return;
    }
    u32 col = a.y_at[0] + output;
    if (a.groups) {
        if (a.has_biases) value += (a.weighs_inputs ? 1.0f : to.weight) * a.biases[to.expert * a.outputs[0] + output];
        a.y[(size_t(to.row) * a.used + to.slot) * a.y_stride + col] = value;
        return;
    }
    if (a.r) value += a.r[a.r_at + size_t(to.row) * a.r_stride + output];
    if (a.has_biases) {
        const u32* list = a.chosen + size_t(to.row) * (1 + 2 * a.used);
        for (u32 s = 0; s < list[0]; s++) {
            float bias = a.biases[expert_of(list, s) * a.outputs[0] + output];
            value += a.weighs_inputs ? bias : __uint_as_float(list[2 + 2 * s]) * bias;
        }
    }
    a.y[size_t(to.row) * a.y_stride + col] = value;
}

// Values of a row, or of a vector, from column `col` on; zeros past its end.
static __device__ __noinline__ float4 load_some(const float* row, u32 col, u32 cols) {
    float v[4];
    for (u32 i = 0; i < 4; i++) v[i] = col + i < cols ? row[col + i] : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

__device__ __forceinline__ bool is_aligned(const float* row) {
    return (reinterpret_cast<u64>(row) & 15) == 0;
}

__device__ __forceinline__ float4 load_four(const float* row, u32 col, u32 cols) {
    if (col + 4 <= cols && is_aligned(row)) return *reinterpret_cast<const float4*>(row + col);
    return load_some(row, col, cols);
}

// Where a row of activations, or a segment of it, begins in `x`.
__device__ __forceinline__ size_t x_offset(const MatmulArgs& a, u32 row, u32 segment) {
    return a.x_at + size_t(row) * a.x_stride + size_t(segment) * a.x_segment;
}

__device__ __forceinline__ float4 x_four(const MatmulArgs& a, u32 row, u32 segment, u32 col) {
    return load_four(a.x + x_offset(a, row, segment), col, a.cols);
}

__device__ __forceinline__ float4 g_four(const MatmulArgs& a, u32 col) {
    return load_four(a.g, col, a.cols);
}

__device__ __forceinline__ float square(float4 v) {
    return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

__device__ __forceinline__ float4 times(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

