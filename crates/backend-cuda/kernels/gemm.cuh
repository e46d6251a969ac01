// GEMM: multiplies tiles of activation rows with tiles of weight rows.
//
// `gemm` uses tensor cores. Weights are unpacked to f16 in shared memory, and activations are f16 with a factor per row
// (`f16_rows`). `gemm_f32` computes in f32, for weights whose values may not be finite in f16, and when f32 activations
// are asked for. With `groups`, a tile is rows of one expert.
#pragma once
#include "matmul.cuh"

// The rows of a tile: `first` and `count` of them, or of entries in the list of groups.
struct RowTile {
    u32 first, count, expert;
};

// `false` if there are fewer tiles.
__device__ __forceinline__ bool row_tile(const MatmulArgs& a, u32 size, u32 index, RowTile& tile) {
    if (a.groups) {
        if (index >= a.groups[0]) return false;
        const u32* at = a.groups + 1 + 3 * index;
        tile = {at[1], at[2], at[0]};
        return true;
    }
    u32 rows = a.step[a.rows];
    tile.first = index * size;
    if (tile.first >= rows) return false;
    tile.count = min(size, rows - tile.first);
    tile.expert = 0;
    return true;
}

// What row `i` of a tile is, and the row of activations that it reads.
__device__ __forceinline__ Target target_of(const MatmulArgs& a, const RowTile& tile, u32 i, u32& x_row) {
    if (!a.groups) {
        x_row = tile.first + i;
        return {x_row, 0, 0, 1.0f};
    }
    const u32* entry = a.groups + a.entries + 2 * (tile.first + i);
    u32 row = entry[0] / a.used;
    x_row = a.mode == INTO_HIDDEN ? row : entry[0];
    return {row, entry[0] - row * a.used, tile.expert, __uint_as_float(entry[1])};
}

// The weight rows of a tile: `size` rows of one part, from output `first` on. In a GLU the gate's and the up
// projection's rows alternate, 8 at a time.
struct WeightTile {
    u32 part, first, count, head;
};

__device__ __forceinline__ WeightTile weight_tile(const MatmulArgs& a, u32 size, u32 tile) {
    if (a.glu) {
        u32 first = tile * (size / 2);
        return {0, first, min(size / 2, a.outputs[0] - first), 0};
    }
    if (a.mode == PER_HEAD) {
        u32 per_head = (a.outputs[1] + size - 1) / size;
        u32 head = tile / per_head, first = (tile - head * per_head) * size;
        return {0, first, min(size, a.outputs[1] - first), head};
    }
    u32 part = 0;
    for (; part < 2; part++) {
        u32 tiles = (select3(part, a.outputs[0], a.outputs[1], a.outputs[2]) + size - 1) / size;
        if (tile < tiles) break;
        tile -= tiles;
    }
    u32 outputs = select3(part, a.outputs[0], a.outputs[1], a.outputs[2]);
    return {part, tile * size, min(size, outputs - tile * size), 0};
}

// Row `i` of a weight tile; rows past the last repeat it.
template <class F>
__device__ __forceinline__ const u8* tile_row(const MatmulArgs& a, const WeightTile& tile, const RowTile& rows, u32 i) {
    u32 part = tile.part, output = i;
    bool is_up = false;
    if (a.glu) {
        is_up = i / 8 % 2;
        output = i / 16 * 8 + i % 8;
        part = is_up;
    }
    size_t row = tile.first + min(output, tile.count - 1);
    if (a.mode == INTO_HIDDEN) {
        row += size_t(rows.expert * a.per_expert + (is_up ? a.up : 0)) * a.outputs[0];
    } else if (a.mode == OUT_OF_HIDDEN) {
        row += size_t(rows.expert) * a.outputs[0];
    } else if (a.mode == PER_HEAD) {
        row += size_t(tile.head) * a.outputs[1];
    }
    return weight_row<F>(a, part, row);
}

// Values 8 i to 8 i + 7 of a chunk as f16. An integer placed in the mantissa of 2^15 needs no conversion, and one
// multiply-add both removes 2^15 and scales: its error is far below that of f16.
template <class F> struct Unpacked {
    Chunk c;
    float offsets[2];
    static constexpr bool IS_SIGNED = F::ZERO == 0 && !F::MINS;

    __device__ __forceinline__ Unpacked(const Raw& r, int chunk) {
        F::unpack(r, chunk, c);
        constexpr float zero = 32768.0f + (IS_SIGNED ? 128 : F::ZERO);
#pragma unroll
        for (int h = 0; h < (F::HALVES ? 2 : 1); h++) offsets[h] = -(zero * c.s[h] + (F::MINS ? c.m[h] : 0.0f));
    }
    __device__ __forceinline__ float value(int i) const {
        u32 word = IS_SIGNED ? c.q[i / 4] ^ 0x80808080u : c.q[i / 4];
        int h = F::HALVES ? i / 16 : 0;
        return __uint_as_float(__byte_perm(word, 0x47000000u, 0x7404 + (i % 4 << 4))) * c.s[h] + offsets[h];
    }
    __device__ __forceinline__ uint4 eight(int i) const {
        i *= 8;
        return make_uint4(pack_halves(value(i), value(i + 1)), pack_halves(value(i + 2), value(i + 3)),
                          pack_halves(value(i + 4), value(i + 5)), pack_halves(value(i + 6), value(i + 7)));
    }
};

template <> struct Unpacked<F16> {
    Raw r;
    __device__ __forceinline__ Unpacked(const Raw& raw, int) : r(raw) {}
    __device__ __forceinline__ uint4 eight(int i) const { return i == 0 ? r.a : i == 1 ? r.b : i == 2 ? r.c : r.e; }
};

// Values of a K step: two chunks.
constexpr int STEP = 64;
// Bytes of a row of a tile in shared memory. Units of 16 bytes are permuted by the row, against bank conflicts.
constexpr int TILE_ROW = STEP * 2;

__device__ __forceinline__ u32 tile_at(u32 row, u32 unit) {
    return row * TILE_ROW + ((unit ^ row) & 7) * 16;
}

// A call: inlined for each value of a tile it would take minutes to compile.
__device__ __noinline__ void write_tile_output(const MatmulArgs& a, const Target& to, u32 part, u32 output, float value,
                                               float up) {
    write_output(a, to, part, output, value, up);
}

// M outputs and N rows per block of 256 threads; WARPS_N of the 8 warps divide the rows.
template <class F, int M, int N, int WARPS_N> __device__ __forceinline__ void gemm(const MatmulArgs& a) {
    constexpr int WARPS_M = 8 / WARPS_N;
    constexpr int TILES_M = M / WARPS_M / 16, TILES_N = N / WARPS_N / 8;
    constexpr int X_STAGES = 3;
    // Chunks of weights that a thread unpacks per step.
    constexpr int CHUNKS = M * 2 / 256;
    static_assert(X_STAGES == 3 && N % 32 == 0, "copies are whole");
    static_assert(TILES_M >= 1 && TILES_N >= 2 && TILES_N % 2 == 0 && CHUNKS >= 1, "warps have whole tiles");
    __shared__ u32 x_rows[N];
    u8* weights = reinterpret_cast<u8*>(shared);
    u8* activations = weights + 2 * M * TILE_ROW;
    pdl_launch();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    pdl_wait();
    RowTile rows;
    if (!row_tile(a, N, blockIdx.y, rows)) return;
    WeightTile tile = weight_tile(a, M, blockIdx.x);
    for (u32 i = thread; i < N; i += 256) target_of(a, rows, min(i, rows.count - 1), x_rows[i]);
    __syncthreads();

    const u8* p[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) p[i] = tile_row<F>(a, tile, rows, (thread + 256 * i) / 2);
    u32 steps = (a.chunks + 1) / 2;
    // A thread copies the same 16 bytes of rows 32 apart, which are permuted alike.
    constexpr int COPIES = (N * 8 + 255) / 256;
    const __half* x[COPIES];
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        x[i] = a.x16 + size_t(tile.head) * a.cols + size_t(x_rows[thread / 8 + 32 * i]) * a.x16_stride + thread % 8 * 8;
    }
    u32 x_to = shared_address(activations) + tile_at(thread / 8, thread % 8);
    auto copy_x = [&](u32 step, u32 stage) {
        if (step < steps) {
#pragma unroll
            for (int i = 0; i < COPIES; i++) {
                copy_async<16>(x_to + stage * N * TILE_ROW + i * 32 * TILE_ROW, x[i] + step * STEP);
            }
        }
        copy_commit();
    };
    Raw raw[CHUNKS];
    auto fetch = [&](u32 step) {
        u32 chunk = min(2 * step + thread % 2, a.chunks - 1);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) F::fetch(tile_of<F>(p[i], a.chunks, chunk, is_paired(a)), chunk % TILE_CHUNKS, raw[i]);
    };
    auto store = [&](u32 step) {
        u8* to = weights + (step % 2) * M * TILE_ROW + thread / 2 * TILE_ROW;
        u32 chunk = min(2 * step + thread % 2, a.chunks - 1);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            Unpacked<F> values(raw[i], chunk);
            // The last step may have one chunk, beside which activations are not zeros if there are more heads.
            bool is_chunk = 2 * step + thread % 2 < a.chunks;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint4 eight = is_chunk ? values.eight(k) : make_uint4(0, 0, 0, 0);
                *reinterpret_cast<uint4*>(to + i * 128 * TILE_ROW + ((4 * (thread % 2) + k) ^ (thread / 2 % 8)) * 16) = eight;
            }
        }
    };
    float sums[TILES_M][TILES_N][4] = {};
    u32 warp_m = warp / WARPS_N * TILES_M * 16, warp_n = warp % WARPS_N * TILES_N * 8;
    // Where a lane's rows of matrices start; their units of 16 bytes are permuted by the lane alone.
    u32 w_at = shared_address(weights) + (warp_m + lane % 16) * TILE_ROW;
    u32 x_at = shared_address(activations) + (warp_n + lane % 8 + lane / 16 * 8) * TILE_ROW;
    u32 w_units[STEP / 16], x_units[STEP / 16];
#pragma unroll
    for (u32 k = 0; k < STEP / 16; k++) {
        w_units[k] = ((2 * k + lane / 16) ^ lane % 8) * 16;
        x_units[k] = ((2 * k + lane / 8 % 2) ^ lane % 8) * 16;
    }
    copy_x(0, 0);
    copy_x(1, 1);
    fetch(0);
    store(0);
    u32 stage = 0;
    for (u32 step = 0; step < steps; step++) {
        copy_wait<X_STAGES - 2>();
        __syncthreads();
        copy_x(step + 2, stage == 0 ? 2 : stage - 1);
        if (step + 1 < steps) fetch(step + 1);
        u32 w_tile = w_at + step % 2 * (M * TILE_ROW), x_tile = x_at + stage * (N * TILE_ROW);
        stage = stage == X_STAGES - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < STEP / 16; k++) {
            u32 w[TILES_M][4];
#pragma unroll
            for (int i = 0; i < TILES_M; i++) load_matrices(w[i], w_tile + w_units[k] + i * 16 * TILE_ROW);
#pragma unroll
            for (int j = 0; j < TILES_N; j += 2) {
                u32 b[4];
                load_matrices(b, x_tile + x_units[k] + j * 8 * TILE_ROW);
#pragma unroll
                for (int i = 0; i < TILES_M; i++) {
                    multiply_matrices(sums[i][j], w[i], b[0], b[1]);
                    multiply_matrices(sums[i][j + 1], w[i], b[2], b[3]);
                }
            }
        }
        if (step + 1 < steps) store(step + 1);
    }
    copy_wait<0>();
    // A lane has outputs `lane / 4` and 8 more, of rows `2 (lane % 4)` and the next one.
#pragma unroll
    for (int j = 0; j < TILES_N; j++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            u32 row = warp_n + 8 * j + 2 * (lane % 4) + c;
            if (row >= rows.count) continue;
            u32 x_row;
            Target to = target_of(a, rows, row, x_row);
            float scale = a.x16_scales[x_row];
#pragma unroll
            for (int i = 0; i < TILES_M; i++) {
                float first = scale * sums[i][j][c], second = scale * sums[i][j][c + 2];
                u32 output = warp_m + 16 * i + lane / 4;
                if (a.glu) {
                    output = output / 16 * 8 + lane / 4;
                    if (output < tile.count) write_tile_output(a, to, 0, tile.first + output, first, second);
                } else {
                    u32 head = tile.head * a.outputs[1];
                    if (output < tile.count) write_tile_output(a, to, tile.part, head + tile.first + output, first, 0.0f);
                    output += 8;
                    if (output < tile.count) write_tile_output(a, to, tile.part, head + tile.first + output, second, 0.0f);
                }
            }
        }
    }
}

constexpr int F32_OUTPUTS = 64, F32_ROWS = 32;

// 64 outputs and 32 rows per block of 256 threads, a chunk at a time. A thread has 4 outputs of 2 rows.
template <class F> __device__ __forceinline__ void multiply_f32(const MatmulArgs& a) {
    __shared__ float weights[32][F32_OUTPUTS + 4], activations[32][F32_ROWS + 2];
    __shared__ float factors[F32_ROWS];
    __shared__ u32 x_rows[F32_ROWS];
    pdl_launch();
    pdl_wait();
    u32 thread = threadIdx.x;
    RowTile rows;
    if (!row_tile(a, F32_ROWS, blockIdx.y, rows)) return;
    WeightTile tile = weight_tile(a, F32_OUTPUTS, blockIdx.x);
    if (thread < F32_ROWS) {
        target_of(a, rows, min(thread, rows.count - 1), x_rows[thread]);
        factors[thread] = 1.0f;
    }
    __syncthreads();
    if (a.g) {
        // 8 threads per row.
        float sum = 0.0f;
        for (u32 col = thread % 8 * 4; col < a.cols; col += 32) sum += square(x_four(a, x_rows[thread / 8], 0, col));
        for (int i = 1; i < 8; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
        if (thread % 8 == 0) factors[thread / 8] = rsqrtf(sum / float(a.cols) + a.eps);
        __syncthreads();
    }
    // A thread loads 8 values of a weight row's chunk, and 4 of an activation row's.
    const u8* row_at = tile_row<F>(a, tile, rows, thread / 4);
    // Hidden values are rows of their own, heads are parts of a row.
    u32 segment = a.mode == PER_HEAD ? tile.head : 0;
    float sums[4][2] = {};
    for (u32 chunk = 0; chunk < a.chunks; chunk++) {
        u32 k = thread % 4 * 8;
        float4 u, v;
        if constexpr (F::FLOAT) {
            u = F::four(row_at + (32 * chunk + k) * F::SIZE);
            v = F::four(row_at + (32 * chunk + k + 4) * F::SIZE);
        } else {
            Chunk c = load<F>(tile_of<F>(row_at, a.chunks, chunk, is_paired(a)), chunk % TILE_CHUNKS);
            // The index must be known at compile time.
            switch (thread % 4) {
            case 0: u = dequantize<F>(c, 0), v = dequantize<F>(c, 1); break;
            case 1: u = dequantize<F>(c, 2), v = dequantize<F>(c, 3); break;
            case 2: u = dequantize<F>(c, 4), v = dequantize<F>(c, 5); break;
            default: u = dequantize<F>(c, 6), v = dequantize<F>(c, 7); break;
            }
        }
        u32 row = thread / 4;
        weights[k][row] = u.x, weights[k + 1][row] = u.y, weights[k + 2][row] = u.z, weights[k + 3][row] = u.w;
        weights[k + 4][row] = v.x, weights[k + 5][row] = v.y, weights[k + 6][row] = v.z, weights[k + 7][row] = v.w;
        k = thread % 8 * 4, row = thread / 8;
        float4 x = x_four(a, x_rows[row], segment, 32 * chunk + k);
        if (a.g) x = times(x, g_four(a, 32 * chunk + k));
        activations[k][row] = x.x, activations[k + 1][row] = x.y, activations[k + 2][row] = x.z;
        activations[k + 3][row] = x.w;
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < 32; i++) {
            float2 xs = *reinterpret_cast<const float2*>(&activations[i][thread / 16 * 2]);
            float4 ws = *reinterpret_cast<const float4*>(&weights[i][thread % 16 * 4]);
            sums[0][0] += ws.x * xs.x, sums[1][0] += ws.y * xs.x, sums[2][0] += ws.z * xs.x, sums[3][0] += ws.w * xs.x;
            sums[0][1] += ws.x * xs.y, sums[1][1] += ws.y * xs.y, sums[2][1] += ws.z * xs.y, sums[3][1] += ws.w * xs.y;
        }
        __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
        u32 row = thread / 16 * 2 + c, x_row;
        float values[4], ups[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[i] = factors[row] * sums[i][c];
            // In a GLU the up projection's value is 8 weight rows, and thus 2 threads, away.
            ups[i] = __shfl_down_sync(~0u, values[i], 2);
        }
        u32 output = thread % 16 * 4;
        bool is_up = a.glu && output / 8 % 2;
        if (row >= rows.count || is_up) continue;
        if (a.glu) output = output / 16 * 8 + output % 8;
        Target to = target_of(a, rows, row, x_row);
        u32 head = a.mode == PER_HEAD ? tile.head * a.outputs[1] : 0;
        for (int i = 0; i < 4; i++) {
            if (output + i < tile.count) {
                write_tile_output(a, to, tile.part, head + tile.first + output + i, values[i], ups[i]);
            }
        }
    }
}

#define GEMM(NAME, F, M, N, WARPS_N)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256, N > 128 ? 1 : 2) NAME(const __grid_constant__ MatmulArgs args) {               \
        gemm<F, M, N, WARPS_N>(args);                                                                                  \
    }
#define GEMM_F32(NAME, F)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ MatmulArgs args) {                  \
        multiply_f32<F>(args);                                                                                         \
    }
