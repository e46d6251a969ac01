// GEMM of up to N rows of 8-bit activations on the tensor cores of compute capability 9.0, for steps of few rows.
//
// A block computes tiles of 32 outputs, one after the other. Their weights stream through a ring of stages in shared memory, as
// they are stored; a stage has 16 chunks of each row. Four warps divide the chunks of 16 outputs. A product of integers takes
// 16 weight rows, one chunk and eight rows of activations; scales are applied to its sums. The activations of the block's
// columns stay in shared memory (`q8_rows` makes them). Blocks of a cluster divide the columns, and add their sums at the end.
#pragma once
#include "q8.cuh"
#include "wgmma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Words j and 4 + j of a chunk's integers, in `q`, and its scales. Planes begin with the stage.
template <class F, class P>
__device__ __forceinline__ void load_words(const P& p, u32 chunk, u32 j, u32 (&q)[2], Chunk& c) {
    Raw r;
    F::fetch(p, chunk, r);
    F::unpack(r, chunk, c);
    if constexpr (F::NIBBLES || F::HIGH > 0) {
        const u8* at = p[0] + 16 * chunk + 4 * (j / 2);
        u32 shift = 4 * (j % 2);
        q[0] = read<u32>(at) >> shift & 0x0f0f0f0fu, q[1] = read<u32>(at + 8) >> shift & 0x0f0f0f0fu;
        if (F::HIGH == 1) q[0] |= (r.bits >> j & 0x01010101u) << 4, q[1] |= (r.bits >> (4 + j) & 0x01010101u) << 4;
        if (F::HIGH == 2) q[0] |= (r.pairs.x >> 2 * j & 0x03030303u) << 4, q[1] |= (r.pairs.y >> 2 * j & 0x03030303u) << 4;
    } else if constexpr (__is_same(F, Q8_0)) {
        const u8* at = p[0] + 32 * chunk + 4 * j;
        q[0] = read<u32>(at), q[1] = read<u32>(at + 16);
    } else {
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 even = j < 2 ? c.q[4 * half] : c.q[4 * half + 2], odd = j < 2 ? c.q[4 * half + 1] : c.q[4 * half + 3];
            q[half] = j % 2 ? odd : even;
        }
    }
}

// The products of 16 weight rows of 32 integers and eight rows of activations.
template <bool SIGNED> __device__ __forceinline__ void multiply_chunk(int (&c)[4], const u32 (&a)[4], uint2 b) {
    if constexpr (SIGNED) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(0));
    } else {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(0));
    }
}

// The same of half a chunk.
template <bool SIGNED> __device__ __forceinline__ void multiply_half(int (&c)[4], u32 a0, u32 a1, u32 b) {
    if constexpr (SIGNED) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a0), "r"(a1), "r"(b), "r"(0));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                     : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                     : "r"(a0), "r"(a1), "r"(b), "r"(0));
    }
}

constexpr int Q8_OUTPUTS = 32, STAGE_CHUNKS = 16;

template <class F> struct Q8Ring {
    // Bytes of a plane in a row of a stage, and from row to row: against bank conflicts.
    __host__ __device__ static constexpr int bytes(int plane) { return F::bytes(plane) * STAGE_CHUNKS / 32; }
    __host__ __device__ static constexpr int pitch(int plane) { return bytes(plane) < 32 ? bytes(plane) : bytes(plane) + 16; }
    __host__ __device__ static constexpr int plane_at(int plane) {
        int at = 0;
        for (int p = 0; p < plane; p++) at += Q8_OUTPUTS * pitch(p);
        return at;
    }
    static constexpr int STAGE = plane_at(F::PLANES);
    static constexpr int STAGES = STAGE > 12288 ? 3 : 4;
};

// A row of a stage in shared memory.
template <class F> struct Q8Stage {
    const u8* at;
    u32 row;
    __device__ __forceinline__ const u8* operator[](int plane) const {
        return at + Q8Ring<F>::plane_at(plane) + row * Q8Ring<F>::pitch(plane);
    }
};

template <class F, int N> __device__ __forceinline__ void gemm_q8(const MatmulArgs& a) {
    using R = Q8Ring<F>;
    constexpr int GROUPS = N / Q8Chunk::ROWS, QUARTERS = 4, SUM_PITCH = Q8_OUTPUTS + 4;
    // Of the last tile and the one before.
    __shared__ float partial[2][QUARTERS][N][SUM_PITCH];
    __shared__ alignas(8) u64 barrier_of_x;
    pdl_launch();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32, barrier = shared_address(&barrier_of_x);
    u32 rank = blockIdx.z, blocks = gridDim.z;
    u32 all = (a.chunks + STAGE_CHUNKS - 1) / STAGE_CHUNKS;
    u32 first_stage = all * rank / blocks, stages = all * (rank + 1) / blocks - first_stage;
    u32 first_chunk = first_stage * STAGE_CHUNKS, chunks = min(a.chunks - first_chunk, stages * STAGE_CHUNKS);
    u8* ring = reinterpret_cast<u8*>(shared);
    u8* x = ring + R::STAGES * R::STAGE;
    // Sums of the block's tiles, if others of the cluster have more of them.
    float* sums = reinterpret_cast<float*>(x + GROUPS * chunks * Q8Chunk::BYTES);
    u32 tiles = 0;
    if (a.glu) {
        tiles = (a.outputs[0] + Q8_OUTPUTS / 2 - 1) / (Q8_OUTPUTS / 2);
    } else {
#pragma unroll
        for (int i = 0; i < 3; i++) tiles += (a.outputs[i] + Q8_OUTPUTS - 1) / Q8_OUTPUTS;
    }
    u32 first_tile = tiles * blockIdx.x / gridDim.x, of_block = tiles * (blockIdx.x + 1) / gridDim.x - first_tile;
    if (thread == 0) init_barrier(barrier), fence_for_wgmma();

    // Eight threads copy a row.
    u32 left = of_block * stages, next_stage = 0, next_tile = first_tile, slot_to_fill = 0;
    const u8* from[4];
    auto copy = [&] {
        if (left > 0) {
            left--;
            if (next_stage == 0) tile_row<F>(a, weight_tile(a, Q8_OUTPUTS, next_tile), {0, 1, 0}, thread / 8, from);
            u32 chunk = (first_stage + next_stage) * STAGE_CHUNKS, to = shared_address(ring) + slot_to_fill * R::STAGE;
#pragma unroll
            for (int p = 0; p < F::PLANES; p++) {
                constexpr int VECTOR = 16;
                const int bytes = R::bytes(p), unit = bytes < VECTOR ? bytes : VECTOR, units = bytes / unit;
#pragma unroll
                for (int k = 0; k < units; k += 8) {
                    int i = k + thread % 8;
                    if (i < units && chunk + i * STAGE_CHUNKS / units < a.chunks) {
                        u32 at = to + R::plane_at(p) + thread / 8 * R::pitch(p) + i * unit;
                        const u8* source = from[p] + size_t(chunk) * F::bytes(p) / 32 + i * unit;
                        if (unit == 16) copy_async<16>(at, source);
                        if (unit == 8) copy_async<8>(at, source);
                        if (unit == 4) copy_async<4>(at, source);
                    }
                }
            }
            if (++next_stage == stages) next_stage = 0, next_tile++;
            slot_to_fill = slot_to_fill + 1 == R::STAGES ? 0 : slot_to_fill + 1;
        }
        copy_commit();
    };
    for (int i = 0; i < R::STAGES - 1; i++) copy();
    pdl_wait();
    if (thread == 0) {
        const u8* rows = reinterpret_cast<const u8*>(a.x16);
        u32 bytes = chunks * Q8Chunk::BYTES;
        expect_bytes(barrier, GROUPS * bytes);
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            const u8* of_group = rows + (size_t(i) * a.chunks + first_chunk) * Q8Chunk::BYTES;
            copy_bulk(shared_address(x) + i * bytes, of_group, bytes, barrier);
        }
    }
    u32 rows = a.step[a.rows];

    auto sum_of = [&](u32 parity, u32 row, u32 output) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < QUARTERS; i++) sum += partial[parity][i][row][output];
        return sum;
    };
    // Writes the outputs of a tile, whose sums `sum` gives by row and output. A thread starts at index `first`, `step` apart.
    auto write_tile = [&](u32 index, u32 first, u32 step, auto sum) {
        WeightTile tile = weight_tile(a, Q8_OUTPUTS, first_tile + index);
        u32 outputs = a.glu ? Q8_OUTPUTS / 2 : Q8_OUTPUTS;
        for (u32 i = first; i < N * outputs; i += step) {
            u32 row = i / outputs, output = i % outputs, at = a.glu ? output / 8 * 16 + output % 8 : output;
            if (row >= rows || output >= tile.count) continue;
            float value = sum(row, at), up = a.glu ? sum(row, at + 8) : 0.0f;
            write_plain(a, row, tile.part, tile.first + output, value, up);
        }
    };
    auto finish = [&](u32 index) {
        u32 parity = index % 2;
        if (blocks == 1) {
            write_tile(index, thread, 256, [&](u32 row, u32 output) { return sum_of(parity, row, output); });
        } else {
            for (u32 i = thread; i < N * Q8_OUTPUTS; i += 256) {
                sums[index * N * Q8_OUTPUTS + i] = sum_of(parity, i / Q8_OUTPUTS, i % Q8_OUTPUTS);
            }
        }
    };

    // A lane has rows `lane / 4` and 8 further of 16 outputs, and two rows of activations of each eight.
    u32 half = warp / QUARTERS, quarter = warp % QUARTERS, g = lane / 4, j = lane % 4;
    float acc[2][GROUPS][2] = {};
    u32 stage = 0, slot = 0, index = 0;
    for (u32 i = 0; i < of_block * stages; i++) {
        copy_wait<R::STAGES - 2>();
        __syncthreads();
        if (i == 0) wait_for_copy(barrier, 0);
        if (stage == 0 && index > 0) finish(index - 1);
        copy();
        const u8* of_stage = ring + slot * R::STAGE;
        slot = slot + 1 == R::STAGES ? 0 : slot + 1;
        constexpr u32 OF_WARP = STAGE_CHUNKS / QUARTERS;
#pragma unroll
        for (u32 k = 0; k < OF_WARP; k++) {
            u32 of_row = OF_WARP * quarter + k, chunk = STAGE_CHUNKS * stage + of_row;
            if (chunk >= chunks) break;
            u32 words[2][2];
            Chunk c[2];
#pragma unroll
            for (u32 r = 0; r < 2; r++) {
                load_words<F>(Q8Stage<F>{of_stage, 16 * half + 8 * r + g}, of_row, j, words[r], c[r]);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                const u8* of_x = x + (group * chunks + chunk) * Q8Chunk::BYTES;
                uint2 b = read<uint2>(of_x + 32 * g + 8 * j);
                float2 scales = read<float2>(of_x + Q8Chunk::SCALES + 8 * j);
                uint2 halves = read<uint2>(of_x + Q8Chunk::HALVES + 8 * j);
                float2 weighted = read<float2>(of_x + Q8Chunk::SUMS + 8 * j);
                float scale[2] = {scales.x, scales.y}, sum[2] = {weighted.x, weighted.y};
                int low[2] = {short(halves.x & 0xffff), short(halves.y & 0xffff)};
                int high[2] = {int(halves.x) >> 16, int(halves.y) >> 16};
                int first[4], second[4];
                constexpr bool is_signed = F::ZERO == 0 && !F::MINS;
                if constexpr (F::HALVES) {
                    multiply_half<is_signed>(first, words[0][0], words[1][0], b.x);
                    multiply_half<is_signed>(second, words[0][1], words[1][1], b.y);
                } else {
                    u32 four[4] = {words[0][0], words[1][0], words[0][1], words[1][1]};
                    multiply_chunk<is_signed>(first, four, b);
                }
#pragma unroll
                for (u32 r = 0; r < 2; r++) {
#pragma unroll
                    for (u32 n = 0; n < 2; n++) {
                        float& to = acc[r][group][n];
                        if constexpr (F::HALVES) {
                            float value = c[r].s[0] * float(first[2 * r + n] - F::ZERO * low[n]) +
                                          c[r].s[1] * float(second[2 * r + n] - F::ZERO * high[n]);
                            if (F::MINS) value -= c[r].m[0] * float(low[n]) + c[r].m[1] * float(high[n]);
                            to += scale[n] * value;
                        } else {
                            to += scale[n] * c[r].s[0] * float(first[2 * r + n] - F::ZERO * (low[n] + high[n]));
                            if (F::MINS) to -= c[r].m[0] * sum[n];
                        }
                    }
                }
            }
        }
        if (++stage == stages) {
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
#pragma unroll
                for (u32 n = 0; n < 2; n++) {
                    float* to = &partial[index % 2][quarter][8 * group + 2 * j + n][16 * half + g];
                    to[0] = acc[0][group][n], to[8] = acc[1][group][n];
                    acc[0][group][n] = acc[1][group][n] = 0.0f;
                }
            }
            stage = 0, index++;
        }
    }
    copy_wait<0>();
    __syncthreads();
    if (index > 0) finish(index - 1);
    if (blocks == 1) return;
    cluster_sync();
    u32 base = shared_address(sums);
    for (u32 i = 0; i < of_block; i++) {
        write_tile(i, thread + 256 * rank, 256 * blocks, [&](u32 row, u32 output) {
            float sum = 0.0f;
            u32 at = base + 4 * (i * N * Q8_OUTPUTS + row * Q8_OUTPUTS + output);
            for (u32 other = 0; other < blocks; other++) sum += load_of_block(at, other);
            return sum;
        });
    }
    // Other blocks read this one's sums.
    cluster_sync();
}

#define GEMM_Q8(NAME, F, N)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME(const __grid_constant__ MatmulArgs args) {               \
        gemm_q8<F, N>(args);                                                                                           \
    }
#else
// Never launched on other architectures.
#define GEMM_Q8(NAME, F, N)                                                                                            \
    extern "C" __global__ void NAME(const __grid_constant__ MatmulArgs) {}
#endif
