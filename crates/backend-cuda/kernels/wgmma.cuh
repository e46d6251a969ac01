// GEMM on the tensor cores of compute capability 9.0, whose instructions multiply weights in registers with activations in
// shared memory (PTX ISA: wgmma).
//
// A block has 128 outputs of two warpgroups and N rows. It reads windows of 128 columns: weights into registers or, if N is small
// and they are quantised, those of two windows by way of shared memory. A lane has chunk `lane % 4` of two weight rows: it unpacks
// the four values that it contributes to each of the window's eight products from a word of quants. That permutes the columns of a
// window, and `f16_rows` permutes those of the activations alike, and writes them in tiles, so that a window is one bulk copy. Rows
// of groups are copied one by one. Blocks of a cluster divide the windows, and add their sums at the end.
#pragma once
#include "gemm.cuh"
#include "hopper.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int WINDOW = 128, WGMMA_OUTPUTS = 128;

// Windows whose weights are fetched to L2 before they are read into registers, in tiles of up to this many rows; larger ones are
// limited by instructions.
constexpr int PREFETCH = 4, PREFETCH_ROWS = 64;

template <int N> struct Wgmma {
    static constexpr int STAGES = N > 64 ? 3 : 4;
    // Products between waits.
    static constexpr int BATCH = N > 64 ? 1 : 2;
    static constexpr int PANEL = N * TILE_ROW;
    static constexpr int STAGE = 2 * PANEL;
    // Floats between the rows of the sums.
    static constexpr int PITCH = WGMMA_OUTPUTS + 4;
};

// Values of a chunk as f16, times SCALE, against values too small for f16. An integer placed in the mantissa of 2^10 needs no
// conversion, and subtracting 2^10 and the zero point is exact. Scale and minimum are rounded to f16.
template <class F> struct Halves {
    static constexpr float SCALE = 64.0f;
    static constexpr bool IS_SIGNED = F::ZERO == 0 && !F::MINS;
    u32 q[8];
    __half2 s[2], m[2];

    __device__ __forceinline__ Halves(const Raw& raw, u32 chunk) {
        __builtin_assume(int(chunk) >= 0);
        Chunk c;
        F::unpack(raw, chunk, c);
#pragma unroll
        for (int i = 0; i < 8; i++) q[i] = c.q[i];
        if constexpr (F::NIBBLES) q[0] = raw.a.x, q[1] = raw.a.y, q[2] = raw.a.z, q[3] = raw.a.w;
        if constexpr (F::HEADER) {
            // Rounded once, as a product in f32 is. Where f16 could overflow, `Model::fits_f16` does not let this kernel run.
            u32 pair = scale_min_pair(raw.b, chunk % 8) | 0x64006400u, head = raw.b.x;
            __half2 integers = __hsub2(*reinterpret_cast<__half2*>(&pair), __float2half2_rn(1024.0f));
            __half2 both = __hmul2(__hmul2(*reinterpret_cast<__half2*>(&head), __float2half2_rn(SCALE)), integers);
            s[0] = __low2half2(both), m[0] = __hneg2(__high2half2(both));
        } else {
            s[0] = __float2half2_rn(SCALE * c.s[0]);
            if (F::HALVES) s[1] = __float2half2_rn(SCALE * c.s[1]);
            if (F::MINS) m[0] = __float2half2_rn(-SCALE * c.m[0]);
            if (F::MINS && F::HALVES) m[1] = __float2half2_rn(-SCALE * c.m[1]);
        }
    }
    // Two integers in the mantissas of 2^10, 16 times too large if `is_high`.
    __device__ __forceinline__ u32 two(u32 bits, bool is_high, int half) const {
        constexpr float zero = IS_SIGNED ? 128 : F::ZERO;
        __half2 v = *reinterpret_cast<__half2*>(&bits);
        if (is_high) {
            v = __hfma2(v, __float2half2_rn(1.0f / 16), __float2half2_rn(-(64 + zero)));
        } else {
            v = __hsub2(v, __float2half2_rn(1024 + zero));
        }
        v = F::MINS ? __hfma2(v, s[half], m[half]) : __hmul2(v, s[half]);
        return *reinterpret_cast<u32*>(&v);
    }
    // Of the values 4 k to 4 k + 3, the first and the third, then the others.
    __device__ __forceinline__ void four(int k, u32& first, u32& second) const {
        int half = F::HALVES ? k / 4 : 0;
        if constexpr (F::NIBBLES) {
            u32 word = q[k / 2], mask = k % 2 ? 0x00f000f0u : 0x000f000fu;
            first = two(masked_or(word, mask, 0x64006400u), k % 2, half);
            second = two(masked_or(word >> 8, mask, 0x64006400u), k % 2, half);
        } else {
            u32 word = IS_SIGNED ? q[k] ^ 0x80808080u : q[k];
            first = two(__byte_perm(word, 0x64646464u, 0x4240), false, half);
            second = two(__byte_perm(word, 0x64646464u, 0x4341), false, half);
        }
    }
    // All values become zeros.
    __device__ __forceinline__ void clear() { s[0] = s[1] = m[0] = m[1] = __float2half2_rn(0.0f); }
};

template <> struct Halves<F16> {
    static constexpr float SCALE = 1.0f;
    Raw r;
    __device__ __forceinline__ Halves(const Raw& raw, u32) : r(raw) {}
    __device__ __forceinline__ void four(int k, u32& first, u32& second) const {
        uint4 v = k / 2 == 0 ? r.a : k / 2 == 1 ? r.b : k / 2 == 2 ? r.c : r.e;
        u32 low = k % 2 ? v.z : v.x, high = k % 2 ? v.w : v.y;
        first = __byte_perm(low, high, 0x5410), second = __byte_perm(low, high, 0x7632);
    }
    __device__ __forceinline__ void clear() { r.a = r.b = r.c = r.e = make_uint4(0, 0, 0, 0); }
};

// Tiles of few rows: quantised weights of two windows, copied to shared memory. Most formats have a line of 128 bytes of a row
// there. Reading half a line into registers at a time would be limited by L2. In each plane, a row has its part of the first window,
// then, after those of all rows, that of the second one; or a unit of 16 bytes if it has no more of both.
template <class F, int N> struct Staged {
    static constexpr bool IS_USED = N <= 32 && !F::FLOAT;
    // Bytes of a row of plane p in two windows, and its units of 16 bytes.
    __host__ __device__ static constexpr int bytes(int p) { return F::bytes(p) / 4; }
    __host__ __device__ static constexpr int units(int p) { return bytes(p) <= 16 ? 1 : bytes(p) / 16; }
    __host__ __device__ static constexpr int plane_at(int plane) {
        int sum = 0;
        for (int p = 0; p < plane; p++) sum += WGMMA_OUTPUTS * 16 * units(p);
        return sum;
    }
    // Planes with one unit before a plane: half of the threads copy those of a plane.
    __host__ __device__ static constexpr int single_before(int plane) {
        int count = 0;
        for (int p = 0; p < plane; p++) count += units(p) == 1;
        return count;
    }
    // Activations, then weights.
    static constexpr int ACTIVATIONS = 2 * Wgmma<N>::STAGE;
    static constexpr int STAGE = ACTIVATIONS + plane_at(F::PLANES);
    // Three, if two blocks of a multiprocessor have room for them.
    static constexpr int STAGES = !IS_USED ? 1 : 3 * STAGE <= 110 * 1024 ? 3 : 2;

    // A lane's weight row in a stage, for chunks of both windows that count from 0.
    struct Row {
        u32 at, row, window, both;
        __device__ __forceinline__ const u8* operator[](int p) const {
            u32 half = bytes(p) / 2;
            u32 in_plane = units(p) == 1 ? 16 * row + (both % 4 * bytes(p) & 15) : (window * WGMMA_OUTPUTS + row) * half;
            return shared_bytes(at + ACTIVATIONS + plane_at(p) + in_plane) - (units(p) == 1 ? 0 : window * half);
        }
    };
};

// Adds the products of all windows of the block, with weights by way of shared memory.
template <class F, int N, class Multiply>
__device__ __forceinline__ void multiply_staged(const MatmulArgs& a, const WeightTile& tile, const RowTile& rows, const __half* x,
                                                u32 base, u32 barrier, u32 windows, Multiply multiply) {
    using W = Wgmma<N>;
    using S = Staged<F, N>;
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    // Two windows at a time.
    u32 all = (windows + 1) / 2, first = all * blockIdx.z / gridDim.z, last = all * (blockIdx.z + 1) / gridDim.z;
    // What the thread copies of each plane: a unit of some rows. Half of the threads are enough for a plane of one unit.
    constexpr int THREADS = 256, MOST = 8;
    static_assert(THREADS == 2 * WGMMA_OUTPUTS, "two threads per row");
    const u8* from[F::PLANES][MOST];
#pragma unroll
    for (int p = 0; p < F::PLANES; p++) {
        int units = S::units(p);
#pragma unroll
        for (int j = 0; j < MOST; j++) {
            if (j >= (units + 1) / 2) break;
            u32 row = units == 1 ? thread % WGMMA_OUTPUTS : thread / units + j * (THREADS / units);
            from[p][j] = tile_row<F>(a, tile, rows, row) + (units == 1 ? 0 : thread % units * 16);
        }
    }
    auto copy_weights = [&](u32 both, u32 stage) {
        u32 to = base + stage * S::STAGE + S::ACTIVATIONS;
        if (both < last) {
            // A window has a block of a tile.
            u32 blocks = min(windows - both / 4 * BLOCKS, BLOCKS), at_tile = both / 4 * tile_step<F>(is_paired(a));
#pragma unroll
            for (int p = 0; p < F::PLANES; p++) {
                u32 units = S::units(p), at = both % 4 * S::bytes(p), to_plane = to + S::plane_at(p);
                u32 at_plane = at_tile + plane_at<F>(p, blocks);
                if (units == 1) {
                    if (thread / WGMMA_OUTPUTS == S::single_before(p) % 2) {
                        copy_async<16>(to_plane + thread % WGMMA_OUTPUTS * 16, from[p][0] + (at_plane + (at & ~15u)));
                    }
                    continue;
                }
                u32 unit = thread % units, half = units / 2;
                // The last window may be alone.
                bool is_copied = at + unit * 16 < plane_bytes<F>(p, blocks);
#pragma unroll
                for (int j = 0; j < MOST; j++) {
                    if (j >= half) break;
                    u32 row = thread / units + j * (THREADS / units);
                    u32 in_plane = ((unit / half * WGMMA_OUTPUTS + row) * half + unit % half) * 16;
                    if (is_copied) copy_async<16>(to_plane + in_plane, from[p][j] + (at_plane + at));
                }
            }
        }
        copy_commit();
    };
    auto copy_x = [&](u32 both, u32 stage) {
        if (thread == 0 && both < last) {
            u32 bytes = min(windows - 2 * both, 2) * W::STAGE;
            expect_bytes(barrier + 8 * stage, bytes);
            copy_bulk(base + stage * S::STAGE, x + size_t(both) * 2 * WINDOW * N, bytes, barrier + 8 * stage);
        }
    };
    // Weights do not depend on the kernel before.
#pragma unroll
    for (int i = 0; i < S::STAGES - 1; i++) copy_weights(first + i, i);
    pdl_wait();
#pragma unroll
    for (int i = 0; i < S::STAGES - 1; i++) copy_x(first + i, i);
    u32 stage = 0, phase = 0, output = warp * 16 + lane / 4, offset = base - shared_address(shared);
    for (u32 both = first; both < last; both++) {
        wait_for_copy(barrier + 8 * stage, phase);
        copy_wait<S::STAGES - 2>();
        // All have multiplied the windows before, whose stage is filled again.
        __syncthreads();
        u32 free_stage = stage == 0 ? S::STAGES - 1 : stage - 1;
        copy_weights(both + S::STAGES - 1, free_stage);
        copy_x(both + S::STAGES - 1, free_stage);
        Raw raw[2][2];
#pragma unroll
        for (u32 window = 0; window < 2; window++) {
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                typename S::Row row = {offset + stage * S::STAGE, output + 8 * i, window, both};
                F::fetch(row, int(4 * window + lane % 4), raw[window][i]);
            }
        }
#pragma unroll
        for (u32 window = 0; window < 2; window++) {
            u32 chunk = 8 * both + 4 * window + lane % 4;
            if (2 * both + window >= windows) break;
            Halves<F> values[2] = {Halves<F>(raw[window][0], chunk), Halves<F>(raw[window][1], chunk)};
            // The last window may have fewer chunks.
            if (chunk >= a.chunks) values[0].clear(), values[1].clear();
            multiply(values, base + stage * S::STAGE + window * W::STAGE);
        }
        wgmma_wait<0>();
        if (++stage == S::STAGES) stage = 0, phase ^= 1;
    }
}

// Adds the products of all windows of the block, with weights that each lane reads into registers.
template <class F, int N, bool GROUPS, class Multiply>
__device__ __forceinline__ void multiply_from_registers(const MatmulArgs& a, const WeightTile& tile, const RowTile& rows,
                                                        const __half* x, const u32* x_rows, u32 base, u32 barrier, u32 windows,
                                                        Multiply multiply) {
    using W = Wgmma<N>;
    // Units of 16 bytes that a thread copies of a window's rows of groups.
    constexpr int COPIES = (N * 16 + 255) / 256;
    u32 thread = threadIdx.x, lane = thread % 32, output = thread / 32 * 16 + lane / 4;
    u32 first = windows * blockIdx.z / gridDim.z, last = windows * (blockIdx.z + 1) / gridDim.z;
    // The lane's weight rows are 8 apart.
    const u8* p[2] = {tile_row<F>(a, tile, rows, output), tile_row<F>(a, tile, rows, output + 8)};
    // The compiler would add up the parts of the addresses in each window.
    asm("" : "+l"(p[0]), "+l"(p[1]));
    __builtin_assume(__isGlobal(p[0]) && __isGlobal(p[1]));
    Raw raw[2];
    // The last window again instead of none: loads without a branch stay in place.
    auto fetch = [&](u32 window) {
        u32 chunk = 4 * min(window, last - 1), of_lane = chunk % TILE_CHUNKS + lane % 4;
        // Formats of several planes have whole blocks, padded with zeros.
        if (F::PLANES == 1) of_lane = min(of_lane, a.chunks - 1 - chunk / TILE_CHUNKS * TILE_CHUNKS);
#pragma unroll
        for (u32 i = 0; i < 2; i++) F::fetch(tile_of<F>(p[i], a.chunks, chunk, is_paired(a)), int(of_lane), raw[i]);
    };
    // Loads into registers alone would leave too few bytes on the way from memory. Of four lanes, two fetch the first plane
    // of their rows, and the others the rest in turn.
    constexpr u32 REST = F::PLANES > 1 ? F::PLANES - 1 : 1;
    auto prefetch = [&](u32 window) {
        u32 plane = lane % 4 < 2 || F::PLANES == 1 ? 0 : 1 + window % REST, at = 0;
        Tile<F> of_window = tile_of<F>(lane % 2 ? p[1] : p[0], a.chunks, 4 * window, is_paired(a));
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) {
            if (plane == i) at = plane_at<F>(i, of_window.blocks) + window % 8 * (F::bytes(i) / 8);
        }
        if (window < last) prefetch_to_l2(of_window.row + (of_window.at + at));
    };
    if (N <= PREFETCH_ROWS) {
        for (u32 i = 0; i < PREFETCH; i++) prefetch(first + i);
    }
    fetch(first);
    if (!GROUPS) pdl_wait();
    auto copy_x = [&](u32 window, u32 stage) {
        u32 to = base + stage * W::STAGE;
        if constexpr (GROUPS) {
            if (window < last) {
                // A thread copies the same 16 bytes of rows 16 apart.
                to += thread % 16 / 8 * W::PANEL + tile_at(thread / 16, thread % 8);
#pragma unroll
                for (int i = 0; i < COPIES; i++) {
                    const __half* row = x + size_t(x_rows[thread / 16 + 16 * i]) * a.x16_stride;
                    copy_async<16>(to + 16 * i * TILE_ROW, row + window * WINDOW + thread % 16 * 8);
                }
            }
            copy_commit();
        } else if (thread == 0 && window < last) {
            expect_bytes(barrier + 8 * stage, W::STAGE);
            copy_bulk(to, x + size_t(window) * WINDOW * N, W::STAGE, barrier + 8 * stage);
        }
    };
#pragma unroll
    for (int i = 0; i < W::STAGES - 1; i++) copy_x(first + i, i);
    u32 stage = 0, phase = 0;
    for (u32 window = first; window < last; window++) {
        if constexpr (GROUPS) {
            copy_wait<W::STAGES - 2>();
            fence_for_wgmma();
        } else {
            wait_for_copy(barrier + 8 * stage, phase);
        }
        // All have multiplied the window before, whose stage is filled again.
        __syncthreads();
        copy_x(window + W::STAGES - 1, stage == 0 ? W::STAGES - 1 : stage - 1);
        u32 chunk = 4 * window + lane % 4;
        Halves<F> values[2] = {Halves<F>(raw[0], chunk), Halves<F>(raw[1], chunk)};
        // The last window may have fewer chunks.
        if (chunk >= a.chunks) values[0].clear(), values[1].clear();
        fetch(window + 1);
        if (N <= PREFETCH_ROWS) prefetch(window + PREFETCH);
        multiply(values, base + stage * W::STAGE);
        wgmma_wait<0>();
        if (++stage == W::STAGES) stage = 0, phase ^= 1;
    }
    if (GROUPS) copy_wait<0>();
}

template <class F, int N, bool GROUPS> __device__ __forceinline__ void wgmma(const MatmulArgs& a) {
    using W = Wgmma<N>;
    using S = Staged<F, N>;
    constexpr bool STAGED = S::IS_USED && !GROUPS;
    constexpr int STAGES = STAGED ? S::STAGES : W::STAGES;
    __shared__ u32 x_rows[N];
    __shared__ alignas(8) u64 barriers[STAGES];
    u32 base = (shared_address(shared) + 1023) & ~1023u, barrier = shared_address(barriers);
    pdl_launch();
    u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    // Groups are of the kernel before, weights are not.
    if (GROUPS) pdl_wait();
    // Blocks that run at the same time share weights.
    u32 index = blockIdx.y * gridDim.x + blockIdx.x;
    RowTile rows;
    if (!row_tile(a, N, index % gridDim.y, rows)) return GROUPS ? void() : pdl_wait();
    WeightTile tile = weight_tile(a, WGMMA_OUTPUTS, index / gridDim.y);
    if (GROUPS) {
        for (u32 i = thread; i < N; i += 256) target_of(a, rows, min(i, rows.count - 1), x_rows[i]);
    } else if (thread == 0) {
        for (u32 i = 0; i < STAGES; i++) init_barrier(barrier + 8 * i);
        fence_barriers();
    }
    __syncthreads();

    u32 windows = (a.chunks + 3) / 4;
    u32 output = warp * 16 + lane / 4;
    float sums[N / 2] = {};
    // Multiplies the weights of a window with a stage of activations.
    auto multiply = [&](const Halves<F> (&values)[2], u32 activations) {
        u64 panel = panel_descriptor(activations);
        u32 w[2][W::BATCH][4];
#pragma unroll
        for (int k = 0; k < 8; k += W::BATCH) {
            auto& of_batch = w[k / W::BATCH % 2];
#pragma unroll
            for (int i = 0; i < W::BATCH; i++) {
                values[0].four(k + i, of_batch[i][0], of_batch[i][2]);
                values[1].four(k + i, of_batch[i][1], of_batch[i][3]);
                // Before the fence.
                asm volatile("" : "+r"(of_batch[i][0]), "+r"(of_batch[i][1]), "+r"(of_batch[i][2]), "+r"(of_batch[i][3]));
            }
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < W::BATCH; i++) {
                Instruction<N>::add(sums, of_batch[i], panel + ((k + i) / 4 * W::PANEL + (k + i) % 4 * 32) / 16);
            }
            wgmma_commit();
            // The registers of the batch before are free.
            wgmma_wait<1>();
        }
    };
    // Activations of the tile, or of the head.
    const __half* x = a.x16 + size_t(tile.head) * a.cols * (GROUPS ? 1 : N);
    if (!GROUPS) x += size_t(rows.first / N) * a.x16_stride * N;
    if constexpr (STAGED) {
        multiply_staged<F, N>(a, tile, rows, x, base, barrier, windows, multiply);
    } else {
        multiply_from_registers<F, N, GROUPS>(a, tile, rows, x, x_rows, base, barrier, windows, multiply);
    }
    __syncthreads();
    // Sums by row, in the memory of the stages.
    float* tile_sums = reinterpret_cast<float*>(reinterpret_cast<u8*>(shared) + (base - shared_address(shared)));
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        u32 row = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        tile_sums[row * W::PITCH + output + i / 2 % 2 * 8] = sums[i];
    }
    u32 blocks = gridDim.z;
    if (blocks > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
    auto sum_of = [&](u32 row, u32 output) {
        u32 at = row * W::PITCH + output;
        if (blocks == 1) return tile_sums[at];
        float sum = 0.0f;
        for (u32 rank = 0; rank < blocks; rank++) sum += load_of_block(base + 4 * at, rank);
        return sum;
    };
    // A warp has a row at a time, of which a block of the cluster has its share.
    for (u32 row = warp * blocks + blockIdx.z; row < rows.count; row += 8 * blocks) {
        u32 x_row;
        Target to = target_of(a, rows, row, x_row);
        float scale = a.x16_scales[x_row] * (1.0f / Halves<F>::SCALE);
        u32 head = tile.head * a.outputs[1];
        for (u32 i = lane; i < tile.count; i += 32) {
            u32 at = a.glu ? i / 8 * 16 + i % 8 : i;
            float value = scale * sum_of(row, at), up = a.glu ? scale * sum_of(row, at + 8) : 0.0f;
            write_output(a, to, tile.part, head + tile.first + i, value, up);
        }
    }
    // Other blocks read this one's sums.
    if (blocks > 1) cluster_sync();
}

#define WGMMA(NAME, F, N, GROUPS)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME(const __grid_constant__ MatmulArgs args) {              \
        wgmma<F, N, GROUPS>(args);                                                                                 \
    }
#else
// Never launched on other architectures.
#define WGMMA(NAME, F, N, GROUPS)                                                                                  \
    extern "C" __global__ void NAME(const __grid_constant__ MatmulArgs) {}
#endif
