// Quantises rows of activations to 8 bits for `gemm_q8`, one row per block. A fused RMS norm is applied first. Eight rows lie
// together, chunk by chunk (`Q8Chunk`).
#include "q8.cuh"

struct Q8RowsArgs {
    const u32* step;
    const float* x;
    u8* y;
    // Weights of the norm, or null.
    const float* g;
    u32 x_at, x_stride, cols, chunks;
    float eps;
};

constexpr u32 THREADS = 512;

// Pieces of eight values that a thread keeps; rows of more are read again.
constexpr u32 KEPT = 4;

struct Eight {
    float4 u, v;
};

extern "C" __global__ void __launch_bounds__(THREADS) q8_rows(const __grid_constant__ Q8RowsArgs a) {
    pdl_launch();
    u32 row = blockIdx.y, pieces = 4 * a.chunks;
    // Four columns at a time, if rows start at a multiple of 16 bytes.
    bool is_vector = ((a.x_at | a.x_stride | a.cols) & 3) == 0;
    auto four = [&](const float* from, u32 col) {
        if (is_vector) {
            return col < a.cols ? *reinterpret_cast<const float4*>(from + col) : make_float4(0, 0, 0, 0);
        }
        float v[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) v[i] = col + i < a.cols ? from[col + i] : 0.0f;
        return make_float4(v[0], v[1], v[2], v[3]);
    };
    auto load = [&](const float* from, u32 piece) { return Eight{four(from, 8 * piece), four(from, 8 * piece + 4)}; };
    const float* x = a.x + a.x_at + size_t(row) * a.x_stride;
    float squares = 0.0f;
    auto weighted = [&](Eight of_x, Eight g) {
        float* values = reinterpret_cast<float*>(&of_x);
        const float* weights = reinterpret_cast<const float*>(&g);
#pragma unroll
        for (u32 i = 0; i < 8; i++) squares += values[i] * values[i], values[i] *= weights[i];
        return of_x;
    };
    // Weights do not depend on the kernel before.
    Eight kept[KEPT];
    if (a.g) {
#pragma unroll
        for (u32 i = 0; i < KEPT; i++) kept[i] = load(a.g, threadIdx.x + i * THREADS);
    }
    pdl_wait();
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        Eight of_x = load(x, threadIdx.x + i * THREADS);
        kept[i] = a.g ? weighted(of_x, kept[i]) : of_x;
    }
    auto load_again = [&](u32 piece) { return a.g ? weighted(load(x, piece), load(a.g, piece)) : load(x, piece); };
    float factor = 1.0f;
    if (a.g) {
        for (u32 piece = threadIdx.x + KEPT * THREADS; piece < pieces; piece += THREADS) load_again(piece);
        factor = rsqrtf(block_sum<THREADS>(squares) / float(a.cols) + a.eps);
    }
    auto store = [&](u32 piece, Eight values) {
        Q8Piece q = {values.u, values.v};
        if (piece >= pieces) return;
        u32 quarter = piece % 4, of_row = row % Q8Chunk::ROWS;
        u8* to = a.y + (size_t(row / Q8Chunk::ROWS) * a.chunks + piece / 4) * Q8Chunk::BYTES;
        u32* words = reinterpret_cast<u32*>(to + 32 * of_row);
        // Words 2 quarter and one further.
        u32 at = quarter % 2 * 4 + quarter / 2;
        words[at] = q.words[0], words[at + 2] = q.words[1];
        if (quarter > 0) return;
        float scale = factor * q.scale;
        *reinterpret_cast<float*>(to + Q8Chunk::SCALES + 4 * of_row) = scale;
        *reinterpret_cast<u32*>(to + Q8Chunk::HALVES + 4 * of_row) = (q.low & 0xffff) | u32(q.high) << 16;
        *reinterpret_cast<float*>(to + Q8Chunk::SUMS + 4 * of_row) = scale * float(q.low + q.high);
    };
    // Whole warps, whose lanes have chunks together.
    u32 first = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        if (first + i * THREADS < pieces) store(first + i * THREADS + lane, kept[i]);
    }
    for (u32 at = first + KEPT * THREADS; at < pieces; at += THREADS) store(at + lane, load_again(at + lane));
}
