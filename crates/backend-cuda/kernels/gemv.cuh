// GEMV: multiplies up to COLS rows of activations with the rows of one to three weights of one format.
//
// A warp computes two outputs at a time, neighbours; with experts and a GLU, a gate and its up projection. It streams both weight
// rows through a ring of stages in shared memory (`weight_stream.cuh`), by copies that run several stages ahead, beyond the end of
// the rows, and that start before the previous kernel has ended. A stage holds 32 chunks of each row, one per lane. The stages of a
// block's outputs are divided equally among its warps, whose sums go to shared memory; in the end, each thread writes an output, the
// sum of all warps that had a part of it. With Q8, the block quantises the activations to 8 bits per chunk once, and multiplies
// integers; otherwise it reads f32 activations from global memory. PLAIN streams have neither experts nor heads.
//
// These kernels run for some microseconds, of which the instructions of a warp are a part: what does not depend on the kernel
// before is computed before the wait, rare code is in functions of its own (`rare_activation`), and outputs are written in one place.
//
// A fused RMS norm multiplies the activations by its weights first, and the outputs by its factor at the end.
#pragma once
#include "q8_rows.cuh"
#include "weight_stream.cuh"

// The norm's factor of a row, the same in all lanes.
__device__ __forceinline__ float norm_factor(const MatmulArgs& a, const float* partial, u32 lane) {
    float sum = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
    return rsqrtf(__fdividef(sum, float(a.cols)) + a.eps);
}

// Multiplies four weights of two rows, from column `col` on, with f32 activations.
template <int COLS>
__device__ __forceinline__ void multiply(const MatmulArgs& a, float4 (&w)[2], u32 first_row, u32 rows, u32 segment, u32 col,
                                         float (&sum)[2][COLS]) {
    if (a.g) {
        float4 g = g_four(a, col);
        w[0] = times(w[0], g), w[1] = times(w[1], g);
    }
#pragma unroll
    for (int i = 0; i < COLS; i++) {
        float4 x = x_four(a, min(first_row + i, rows - 1), segment, col);
#pragma unroll
        for (int r = 0; r < 2; r++) sum[r][i] += w[r].x * x.x + w[r].y * x.y + w[r].z * x.z + w[r].w * x.w;
    }
}

// Sums over a warp: of `a` in its first half, of `b` in its second.
__device__ __forceinline__ float warp_sums(float a, float b, int lane) {
    float x = (lane < 16 ? a : b) + __shfl_xor_sync(ALL_LANES, lane < 16 ? b : a, 16);
#pragma unroll
    for (u32 d = 8; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}

// What a block has in shared memory for each pair of outputs (`sums_bytes` in `shared_memory.rs`).
template <int COLS> struct PairSums {
    // Its two outputs' sums of each column, from the warp that begins it.
    float sums[2 * COLS];
    // The first warp that begins behind its first stage, and the first one that begins behind its last stage.
    alignas(4) uchar2 later_warps;
};

// Writes an output of experts or heads, or with a GLU that of both sums.
__device__ __forceinline__ void write_sum(const MatmulArgs& a, const Shape& shape, const Pair& pair, u32 row, u32 which,
                                          float value, float up) {
    u32 output = pair.output + which;
    Target to = {row, 0, 0, 1.0f};
    if (a.mode == INTO_HIDDEN) {
        to.slot = pair.group;
        to.expert = expert_of(shape.list, to.slot);
        to.weight = __uint_as_float(shape.list[2 + 2 * to.slot]);
    } else if (a.mode == PER_HEAD) {
        output += pair.group * a.outputs[1];
    }
    write_output(a, to, 0, output, value, up);
}

template <class S, int COLS, bool Q8> __device__ __forceinline__ void gemv(const MatmulArgs& a) {
    using F = typename S::Format;
    constexpr bool PLAIN = S::PLAIN;
    constexpr u32 RING = S::STAGES * S::STAGE;
    static_assert(COLS <= 16, "half a warp has the columns' sums");
    __shared__ float partial[COLS][32], factors[COLS];
    // The sums of the pair that a warp begins inside of.
    __shared__ float heads[32][2 * COLS];
    // Of single rows.
    u32 side_by_side = Q8 && PLAIN && COLS == 1 ? a.flags & (FIRST | SECOND) : 0;
    if (!(side_by_side & FIRST)) pdl_launch();
    // The compiler sees that all lanes have the same warp, and thus the same loops, and computes addresses once for all.
    int lane = threadIdx.x % 32, warp = __shfl_sync(ALL_LANES, int(threadIdx.x / 32), 0);
    u32 warps = blockDim.x / 32;
    Q8Rows<F, COLS> q8 = {a.x_segments * a.chunks};
    // Dynamic shared memory has the activations, the warps' rings, and the pairs' sums.
    u32 base = once(shared_address(shared)), rings = Q8 ? q8.bytes() : 0, ring = once(base + rings + warp * RING);
    PairSums<COLS>* pairs_sums = reinterpret_cast<PairSums<COLS>*>(reinterpret_cast<u8*>(shared) + rings + warps * RING);
    Shape shape;
    shape.chunks = a.chunks;
    shape.stages = (a.chunks + 31) / 32;
    shape.segments = 1;
    shape.list = nullptr;
    auto pairs = [](u32 outputs) { return (outputs + 1) / 2; };
    shape.per_group = !PLAIN && a.glu ? a.outputs[0] : pairs(!PLAIN && a.mode == PER_HEAD ? a.outputs[1] : a.outputs[0]);
    shape.units = shape.per_group;
    if (PLAIN && !a.glu) shape.units += pairs(a.outputs[1]) + pairs(a.outputs[2]);
    if (!PLAIN && a.mode == PER_HEAD) shape.units *= a.outputs[0] / a.outputs[1];
    u32 first_row = blockIdx.y * COLS;
    // The block's pairs; their stages, and where those of each warp begin.
    u32 first_unit, units, of_unit, stages, of_warp;
    auto begin_of = [&](u32 warp) { return stages * warp / warps; };
    S stream(ring, lane);
    // Fills stages of the ring.
    auto fill = [&](u32 from, u32 until) {
#pragma unroll 1
        for (u32 i = from; i < until; i++) stream.copy(a, shape, ring + i * S::STAGE, lane);
    };
    // Experts are known once the kernel before has ended.
    bool has_list = !PLAIN && a.mode != PER_HEAD;
    auto fill_ring = [&] {
        units = shape.units / gridDim.x;
        u32 longer = shape.units - units * gridDim.x;
        first_unit = units * blockIdx.x + min(blockIdx.x, longer);
        if (blockIdx.x < longer) units++;
        of_unit = shape.segments * shape.stages;
        shape.first = first_unit, shape.gates = units;
        stages = (PLAIN && a.glu ? 2 : 1) * units * of_unit;
        of_warp = stream.left = begin_of(warp + 1) - begin_of(warp);
        stream.position = Position<PLAIN>::at(shape, first_unit, begin_of(warp));
        if (of_warp > 0) stream.find_rows(a, shape, lane);
        for (u32 i = 0; i < S::EARLY; i++) {
            fill(i, i + 1);
            if (S::IS_PACED && !has_list && i + 1 < S::EARLY && i < of_warp) S::wait(ring + i * S::STAGE, 0);
        }
        if (lane < 2 * COLS) heads[warp][lane] = 0.0f;
        for (u32 at = threadIdx.x * of_unit, unit = threadIdx.x; at < stages; unit += blockDim.x, at = unit * of_unit) {
            auto first_from = [&](u32 stage) { return u8((stage * warps + stages - 1) / stages); };
            pairs_sums[unit].later_warps = make_uchar2(first_from(at + 1), first_from(at + of_unit));
        }
    };
    if (!has_list) fill_ring();
    // The step inputs do not change while kernels of the step run, but for tokens (`embed`).
    u32 rows = a.step[a.rows];
    const float* own = a.x + x_offset(a, first_row, 0);
    if (Q8 && COLS == 1 && a.g) fetch_norm(a);
    if (side_by_side & SECOND) {
        // L1 may have what was there before the activations.
        __threadfence();
    } else {
        pdl_wait();
    }
    if (side_by_side & FIRST) pdl_launch();
    if (first_row >= rows) {
        if (!has_list) S::wait_for_early(ring, of_warp);
        if (side_by_side & SECOND) pdl_wait();
        return;
    }
    if (has_list) {
        shape.list = a.chosen + size_t(first_row) * (1 + 2 * a.used);
        u32 used = shape.list[0];
        if (a.mode == INTO_HIDDEN) {
            shape.units *= used;
        } else {
            shape.segments = used;
            // Without experts there are no weights, only residual and biases.
            if (used == 0) {
                u32 threads = gridDim.x * blockDim.x;
                for (u32 output = blockIdx.x * blockDim.x + threadIdx.x; output < a.outputs[0]; output += threads) {
                    write_output(a, {first_row, 0, 0, 1.0f}, 0, output, 0.0f, 0.0f);
                }
                return;
            }
        }
        fill_ring();
    }
    float squares[COLS];
    if constexpr (Q8) {
        quantize_rows<COLS, PLAIN>(a, own, first_row, rows - 1, q8, squares);
    } else if (a.g) {
        for (int col = 0; col < COLS; col++) {
            squares[col] = 0.0f;
            u32 row = min(first_row + col, rows - 1);
            for (u32 i = 4 * threadIdx.x; i < a.cols; i += 4 * blockDim.x) squares[col] += square(x_four(a, row, 0, i));
        }
    }
    fill(S::EARLY, S::STAGES);
    if (a.g) {
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            float sum = warp_sum(squares[col]);
            if (lane == 0) partial[col][warp] = sum;
        }
    }
    __syncthreads();
    Position<PLAIN> position = Position<PLAIN>::at(shape, first_unit, begin_of(warp));
    auto sums_of = [&](u32 unit) { return pairs_sums[unit - first_unit].sums; };
    // The sums of a pair that the warp begins inside of are apart from those of the warp before.
    float* to = position.is_inside(shape) ? heads[warp] : sums_of(position.unit);
    float sum[2][COLS] = {};
    u32 slot = 0, round = 0;
#pragma unroll 1
    for (u32 left = of_warp; left > 0;) {
        // The stages of a weight row.
        u32 x_segment = 0, of_row = min(left, (position.rest + 31) / 32), chunk = shape.chunks - position.rest + lane;
        if (!PLAIN && a.mode == OUT_OF_HIDDEN) x_segment = position.segment;
        if (!PLAIN && a.mode == PER_HEAD) x_segment = position.unit / shape.per_group;
        left -= of_row;
#pragma unroll 1
        for (; of_row > 0; of_row--, chunk += 32) {
            u32 stage = ring + slot;
            S::wait(stage, round);
            if constexpr (F::FLOAT) {
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    u32 col = 32 * (chunk - lane) + 128 * k + 4 * lane;
                    if (col < a.cols) {
                        float4 w[2];
                        for (int r = 0; r < 2; r++) w[r] = F::four(Stage<F>{stage, r}[0] + (128 * k + 4 * lane) * F::SIZE);
                        multiply<COLS>(a, w, first_row, rows, x_segment, col, sum);
                    }
                }
            } else if (chunk < shape.chunks) {
                u32 x_chunk = PLAIN ? chunk : x_segment * a.chunks + chunk;
                if constexpr (Q8) {
                    Chunk c[2] = {load_integers<F>(Stage<F>{stage, 0}, lane), load_integers<F>(Stage<F>{stage, 1}, lane)};
                    q8.dot(c, base, x_chunk, sum);
                } else {
                    Chunk c[2] = {load<F>(Stage<F>{stage, 0}, lane), load<F>(Stage<F>{stage, 1}, lane)};
#pragma unroll
                    for (int k = 0; k < 8; k++) {
                        float4 w[2] = {dequantize<F>(c[0], k), dequantize<F>(c[1], k)};
                        multiply<COLS>(a, w, first_row, rows, x_segment, 32 * chunk + 4 * k, sum);
                    }
                }
            }
            // All lanes have read the stage.
            __syncwarp();
            stream.copy(a, shape, stage, lane);
            slot += S::STAGE;
            if (slot == RING) slot = 0, round ^= 1;
        }
        position.next_row(shape);
        if (!PLAIN && position.segment > 0 && left > 0) continue;
        // In lane `col` the first output, and 16 lanes on the second.
        float value = 0.0f;
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            float of_col = warp_sums(sum[0][col], sum[1][col], lane);
            if (lane % 16 == col) value = of_col;
            sum[0][col] = sum[1][col] = 0.0f;
        }
        if (lane % 16 < COLS) to[lane / 16 * COLS + lane % 16] = value;
        to = sums_of(position.unit);
    }
    for (u32 col = warp; a.g && col < COLS; col += warps) {
        float factor = norm_factor(a, partial[col], lane);
        if (lane == 0) factors[col] = factor;
    }
    // A thread's output: its column, pair, and which one of the pair it is. What does not depend on sums is computed while warps
    // wait for each other.
    bool is_pair = PLAIN || !a.glu;
    u32 outputs = units * (is_pair ? 2 : 1) * COLS;
    // The first warp comes last: it has the norm's factor to compute.
    u32 first_index = threadIdx.x < 32 ? threadIdx.x + blockDim.x - 32 : threadIdx.x - 32;
#pragma unroll 1
    for (u32 index = first_index, round = 0; round == 0 || index < outputs; index += blockDim.x, round++) {
        u32 col = index % COLS, row = first_row + col, of_column = index / COLS;
        u32 unit = is_pair ? of_column / 2 : of_column, which = is_pair ? of_column % 2 : 0;
        // Where its up projection is.
        u32 up_unit = PLAIN ? unit + units : unit, up_at = COLS * (PLAIN ? which : 1) + col;
        Pair pair = pair_of<PLAIN>(a, shape, first_unit + unit);
        bool is_written = index < outputs && row < rows && which <= pair.next;
        u32 at = select3(pair.group, a.y_at[0], a.y_at[1], a.y_at[2]) + pair.output + which;
        float* to = a.y + size_t(row) * a.y_stride + at;
        float addend = 0.0f;
        uchar2 others = make_uchar2(0, 0), others_up = others;
        if (is_written) {
            if (PLAIN && a.r) addend = a.r[a.r_at + size_t(row) * a.r_stride + at - a.y_at[0]];
            others = pairs_sums[unit].later_warps;
            if (a.glu) others_up = pairs_sums[up_unit].later_warps;
        }
        if (round == 0) __syncthreads();
        if (!is_written) continue;
        float total = pairs_sums[unit].sums[COLS * which + col], up = a.glu ? pairs_sums[up_unit].sums[up_at] : 0.0f;
#pragma unroll 1
        for (u32 other = others.x; other < others.y; other++) total += heads[other][COLS * which + col];
#pragma unroll 1
        for (u32 other = others_up.x; other < others_up.y; other++) up += heads[other][up_at];
        float factor = a.g ? factors[col] : 1.0f;
        if (PLAIN) {
            *to = activate(a, factor * total, factor * up) + addend;
        } else {
            write_sum(a, shape, pair, row, which, factor * total, factor * up);
        }
    }
    if (side_by_side & SECOND) pdl_wait();
}

#if defined(EMULATED)
#define GEMV_WITH(F, COLS, Q8, PLAIN)                                                                                  \
    emulated::has_bulk_copies() ? gemv<BulkStream<F, PLAIN>, COLS, Q8>(args) : gemv<AsyncStream<F, PLAIN>, COLS, Q8>(args);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GEMV_WITH(F, COLS, Q8, PLAIN) gemv<BulkStream<F, PLAIN>, COLS, Q8>(args);
#else
#define GEMV_WITH(F, COLS, Q8, PLAIN) gemv<AsyncStream<F, PLAIN>, COLS, Q8>(args);
#endif
// Threads for which there are registers: 64 each with one column or two, 80 with four, 128 with eight.
#define GEMV(NAME, F, COLS, Q8, PLAIN)                                                                                 \
    extern "C" __global__ void __launch_bounds__(COLS <= 2 ? 1024 : COLS == 4 ? 704 : 512)                            \
        NAME(const __grid_constant__ MatmulArgs args) {                                                               \
        GEMV_WITH(F, COLS, Q8, PLAIN)                                                                                  \
    }
