// GEMV: multiplies up to COLS rows of activations with the rows of one to three weights of one format.
//
// A warp computes one output at a time. It streams the weight's row through a ring of stages in shared memory, filled
// by asynchronous copies that run several stages ahead, beyond the end of a row, and that start before the previous
// kernel has ended. A stage holds 32 chunks, one per lane. With Q8, the block quantises the activations to 8 bits per
// chunk once, and multiplies integers; otherwise it reads f32 activations from global memory. PLAIN kernels have neither
// experts nor heads.
//
// A fused RMS norm multiplies the activations by its weights first, and the outputs by its factor at the end.
#pragma once
#include "matmul.cuh"

extern __shared__ uint4 shared[];

__device__ __forceinline__ const u8* shared_bytes(u32 at) {
    return reinterpret_cast<const u8*>(shared) + at;
}

// Where plane p begins in a stage, and where the stage ends.
template <class F> __host__ __device__ constexpr int stage_at(int plane) {
    int bytes = 0;
    for (int p = 0; p < plane; p++) bytes += F::bytes(p);
    return bytes;
}

// Warps per block and stages per warp: as much in flight as fits beside a second block.
template <class F, int CHUNKS> struct Ring {
    static constexpr int STAGE = (CHUNKS / 32 * stage_at<F>(F::PLANES) + 15) / 16 * 16;
    static constexpr int WARPS = CHUNKS == 32 && STAGE > 1200 ? 8 : 16;
    static constexpr int STAGES = CHUNKS == 64 ? 4 : STAGE > 2048 ? 3 : STAGE > 1200 ? 4 : 5;
    static constexpr int THREADS = 32 * WARPS;
    static constexpr int OF_WARP = STAGES * STAGE;
    static constexpr int BYTES = WARPS * OF_WARP;
};

// A stage of 32 or 64 chunks in shared memory, from byte `at` on.
template <class F, int CHUNKS> struct Stage {
    u32 at;
    __device__ __forceinline__ const u8* operator[](int plane) const {
        return shared_bytes(at + CHUNKS / 32 * stage_at<F>(plane));
    }
};

// Outputs, weight rows per output, and stages per weight row; with experts, the row's list.
struct Shape {
    u32 units, segments, stages;
    const u32* list;
};

// The weight rows of a warp as a stream of stages. A lane copies 16 bytes at a time.
template <class F, int CHUNKS, bool PLAIN> struct Source {
    // The lane's next bytes in each plane of the weight row.
    const u8* at[F::PLANES];
    u32 unit, segment, left;
    // First output past the part.
    u32 part_end;
    // Bit 4 i + k: whether the lane has a piece k of plane i, in a whole stage and in the last one of a row.
    u32 in_stage, in_last;

    __device__ __forceinline__ void find_row(const MatmulArgs& a, const Shape& shape, int lane) {
        u32 output = unit, part = 0;
        if (a.glu) {
            part = segment;
        } else if (PLAIN) {
            part = part_of(a, output);
            part_end = unit - output + select3(part, a.outputs[0], a.outputs[1], a.outputs[2]);
        }
        size_t row = output;
        if (!PLAIN) {
            if (a.mode == INTO_HIDDEN) {
                u32 slot = unit / a.outputs[0];
                u32 matrix = expert_of(shape.list, slot) * a.per_expert + (segment ? a.up : 0);
                row = size_t(matrix) * a.outputs[0] + (unit - slot * a.outputs[0]);
            } else if (a.mode == OUT_OF_HIDDEN) {
                row += size_t(expert_of(shape.list, segment)) * a.outputs[0];
            }
        }
        Planes planes;
        const u8* weight = part_planes(a, part, planes);
        const u8* p[4];
        row_planes<F>(weight, planes, row, p);
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) at[i] = p[i] + 16 * lane;
    }

    __device__ __forceinline__ void start(const MatmulArgs& a, const Shape& shape, u32 first, int lane) {
        unit = first, segment = 0, left = shape.stages;
        in_stage = in_last = 0;
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) {
            const int bytes = CHUNKS / 32 * F::bytes(i);
            u32 end = a.planes[0].pitches[i] - (shape.stages - 1) * bytes;
#pragma unroll
            for (int k = 0; k < (bytes + 511) / 512; k++) {
                // Stages of 8 bytes are copied by lane 0.
                u32 from = 512 * k + 16 * lane;
                if (from < bytes) in_stage |= 1u << (4 * i + k);
                if (from < bytes && from < end) in_last |= 1u << (4 * i + k);
            }
        }
        if (unit < shape.units) find_row(a, shape, lane);
    }

    // Copies the next stage to `to`, where the lane's bytes go, if there is one.
    __device__ __forceinline__ void copy(const MatmulArgs& a, const Shape& shape, u32 to, u32 warps, int lane) {
        if (unit < shape.units) {
            u32 in = left == 1 ? in_last : in_stage;
#pragma unroll
            for (int i = 0; i < F::PLANES; i++) {
                const int bytes = CHUNKS / 32 * F::bytes(i);
#pragma unroll
                for (int k = 0; k < (bytes + 511) / 512; k++) {
                    if (in >> (4 * i + k) & 1) {
                        u32 at_stage = to + CHUNKS / 32 * stage_at<F>(i) + 512 * k;
                        if (bytes == 8) {
                            copy_async<8>(at_stage, at[i]);
                        } else {
                            copy_async<16>(at_stage, at[i] + 512 * k);
                        }
                    }
                }
                at[i] += bytes;
            }
            if (--left == 0) {
                left = shape.stages;
                bool is_next_unit = ++segment == shape.segments;
                if (is_next_unit) segment = 0, unit += warps;
                if (PLAIN && !a.glu && unit < part_end) {
                    // The row `warps` rows on.
#pragma unroll
                    for (int i = 0; i < F::PLANES; i++) {
                        at[i] += size_t(warps) * a.planes[0].pitches[i] - shape.stages * (CHUNKS / 32 * F::bytes(i));
                    }
                } else if (PLAIN && a.glu && unit < shape.units) {
                    // From a gate's row to the up projection's, or from there to the next gate's.
#pragma unroll
                    for (int i = 0; i < F::PLANES; i++) {
                        u32 gate = i == 0 ? 0 : a.planes[0].offsets[i - 1], up = i == 0 ? 0 : a.planes[1].offsets[i - 1];
                        ptrdiff_t to_up = (a.w[1] + size_t(up) * 16) - (a.w[0] + size_t(gate) * 16);
                        ptrdiff_t step = is_next_unit ? ptrdiff_t(warps) * a.planes[0].pitches[i] - to_up : to_up;
                        at[i] += step - ptrdiff_t(shape.stages * (CHUNKS / 32 * F::bytes(i)));
                    }
                } else if (unit < shape.units) {
                    find_row(a, shape, lane);
                }
            }
        }
        copy_commit();
    }
};

// Where the 8-bit activations are: by half of a chunk, column and chunk 16 integers; then by column and chunk a scale,
// and sums of the integers as the format needs them.
template <class F, int COLS, u32 AT> struct Q8Rows {
    u32 chunks;

    __device__ __forceinline__ u32 half_at(u32 half, u32 col, u32 chunk) const {
        return AT + ((half * COLS + col) * chunks + chunk) * 16;
    }
    __device__ __forceinline__ u32 scale_at(u32 col, u32 chunk) const {
        return AT + 2 * COLS * chunks * 16 + (col * chunks + chunk) * 8;
    }

    // The second word beside a scale.
    static __device__ __forceinline__ u32 sums(float scale, int low, int high) {
        if (F::MINS) return __float_as_uint(scale * float(low + high));
        return F::HALVES ? (low & 0xffff) | high << 16 : low + high;
    }

    // Multiplies a chunk of weights with chunk `chunk` of each row.
    __device__ __forceinline__ void dot(const Chunk& c, u32 chunk, float (&sum)[COLS]) const {
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            u32 half = AT + (col * chunks + chunk) * 16;
            uint4 low = read<uint4>(shared_bytes(half));
            uint4 high = read<uint4>(shared_bytes(half + COLS * chunks * 16));
            uint2 scale = read<uint2>(shared_bytes(scale_at(col, chunk)));
            // Two sums, for shorter chains of dependent instructions.
            int a = 0, b = 0;
            if (F::HALVES) {
                a = -F::ZERO * int(short(scale.y & 0xffff)), b = -F::ZERO * (int(scale.y) >> 16);
            } else if (F::ZERO) {
                a = -F::ZERO * int(scale.y);
            }
            a = __dp4a(int(c.q[0]), int(low.x), a);
            b = __dp4a(int(c.q[4]), int(high.x), b);
            a = __dp4a(int(c.q[1]), int(low.y), a);
            b = __dp4a(int(c.q[5]), int(high.y), b);
            a = __dp4a(int(c.q[2]), int(low.z), a);
            b = __dp4a(int(c.q[6]), int(high.z), b);
            a = __dp4a(int(c.q[3]), int(low.w), a);
            b = __dp4a(int(c.q[7]), int(high.w), b);
            float product = F::HALVES ? c.s[0] * float(a) + c.s[1] * float(b) : c.s[0] * float(a + b);
            sum[col] += __uint_as_float(scale.x) * product;
            if (F::MINS) sum[col] -= c.m * __uint_as_float(scale.y);
        }
    }
};

// Bits of the largest magnitude; NaN is the largest.
__device__ __forceinline__ u32 magnitude_bits(float4 v) {
    u32 a = __float_as_uint(v.x) & 0x7fffffffu, b = __float_as_uint(v.y) & 0x7fffffffu;
    u32 c = __float_as_uint(v.z) & 0x7fffffffu, d = __float_as_uint(v.w) & 0x7fffffffu;
    return max(max(a, b), max(c, d));
}

// Quantises 4 values, whose sum is added to `sum`.
__device__ __forceinline__ u32 quantize(float4 v, float inverse, int& sum) {
    int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse);
    int c = __float2int_rn(v.z * inverse), d = __float2int_rn(v.w * inverse);
    sum += a + b + c + d;
    return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
}

// Quantises rows of activations to 8 bits in shared memory. Four lanes have a chunk, 8 values each. Returns the sum of
// squares of the thread's part of each row.
template <u32 THREADS, int COLS, class Rows>
__device__ __forceinline__ void quantize_rows(const MatmulArgs& a, u32 first_row, u32 last_row, const Rows& rows,
                                              float (&squares)[COLS]) {
    u8* bytes = reinterpret_cast<u8*>(shared);
    u32 chunks = rows.chunks, pieces = chunks * 4;
#pragma unroll
    for (int col = 0; col < COLS; col++) {
        u32 row = min(first_row + col, last_row);
        squares[col] = 0.0f;
        for (u32 base = 0; base < pieces; base += THREADS) {
            u32 piece = base + threadIdx.x;
            u32 chunk = min(piece / 4, chunks - 1), quarter = piece % 4;
            u32 segment = a.x_segments == 1 ? 0 : chunk / a.chunks;
            u32 at = 32 * (chunk - segment * a.chunks) + 8 * quarter;
            float4 u = x_four(a, row, segment, at), v = x_four(a, row, segment, at + 4);
            if (a.g) {
                if (piece < pieces) squares[col] += square(u) + square(v);
                u = times(u, g_four(a, at));
                v = times(v, g_four(a, at + 4));
            }
            u32 bits = max(magnitude_bits(u), magnitude_bits(v));
            bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, 1));
            bits = max(bits, __shfl_xor_sync(ALL_LANES, bits, 2));
            float largest = __uint_as_float(bits);
            // Rows of so small values that the quotient would overflow become zeros.
            float scale = largest * (1.0f / 127.0f);
            float inverse = bits > 0x06000000u ? __fdividef(1.0f, scale) : 0.0f;
            int sum = 0;
            u32 low = quantize(u, inverse, sum), high = quantize(v, inverse, sum);
            sum += __shfl_xor_sync(ALL_LANES, sum, 1);
            int other = __shfl_xor_sync(ALL_LANES, sum, 2);
            if (piece < pieces) {
                u32 to = rows.half_at(quarter / 2, col, chunk) + quarter % 2 * 8;
                *reinterpret_cast<uint2*>(bytes + to) = make_uint2(low, high);
                if (quarter == 0) {
                    if (bits >= 0x7f800000u) scale = __uint_as_float(0x7fc00000u);
                    *reinterpret_cast<uint2*>(bytes + rows.scale_at(col, chunk)) =
                        make_uint2(__float_as_uint(scale), rows.sums(scale, sum, other));
                }
            }
        }
    }
}

// The norm's factor of each row, in shared memory.
template <int COLS, int WARPS, class Sync>
__device__ __forceinline__ void norm_factors(const MatmulArgs& a, float (&squares)[COLS], float* partial, float* factors, Sync sync) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int col = 0; col < COLS; col++) {
        float sum = warp_sum(squares[col]);
        if (lane == 0) partial[col * WARPS + warp] = sum;
    }
    sync();
    if (threadIdx.x < COLS) {
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++) sum += partial[threadIdx.x * WARPS + w];
        factors[threadIdx.x] = rsqrtf(sum / float(a.cols) + a.eps);
    }
}

// Multiplies four weights of a row, from column `col` on, with f32 activations.
template <int COLS>
__device__ __forceinline__ void multiply(const MatmulArgs& a, float4 w, u32 first_row, u32 rows, u32 segment, u32 col,
                                         float (&sum)[COLS]) {
    if (a.g) w = times(w, g_four(a, col));
#pragma unroll
    for (int i = 0; i < COLS; i++) {
        float4 x = x_four(a, min(first_row + i, rows - 1), segment, col);
        sum[i] += w.x * x.x + w.y * x.y + w.z * x.z + w.w * x.w;
    }
}

template <class F, int COLS, int CHUNKS, bool Q8, bool PLAIN> __device__ __forceinline__ void gemv(const MatmulArgs& a) {
    using R = Ring<F, CHUNKS>;
    __shared__ float partial[COLS * R::WARPS], factors[COLS];
    pdl_launch();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 ring = warp * R::OF_WARP, ring_address = shared_address(shared) + ring + 16 * lane;
    u32 warps = gridDim.x * R::WARPS;
    Shape shape;
    shape.stages = (a.chunks + CHUNKS - 1) / CHUNKS;
    shape.segments = a.glu ? 2 : 1;
    shape.units = !PLAIN || a.glu ? a.outputs[0] : a.outputs[0] + a.outputs[1] + a.outputs[2];
    shape.list = nullptr;
    u32 first_row = blockIdx.y * COLS;
    // Neighbouring outputs are computed by neighbouring blocks, so that all have equally many.
    u32 first_unit = warp * gridDim.x + blockIdx.x;
    Source<F, CHUNKS, PLAIN> source;
    auto fill_ring = [&] {
        source.start(a, shape, first_unit, lane);
        for (int i = 0; i < R::STAGES - 1; i++) source.copy(a, shape, ring_address + i * R::STAGE, warps, lane);
    };
    bool has_list = !PLAIN && a.mode != PER_HEAD;
    if (!has_list) fill_ring();
    pdl_wait();
    u32 rows = a.step[a.rows];
    if (first_row >= rows) {
        copy_wait<0>();
        return;
    }
    if (has_list) {
        shape.list = a.chosen + size_t(first_row) * (1 + 2 * a.used);
        u32 used = shape.list[0];
        if (a.mode == INTO_HIDDEN) {
            shape.units = used * a.outputs[0];
        } else {
            shape.segments = used;
            // Without experts there are no weights, only residual and biases.
            if (used == 0) {
                for (u32 unit = first_unit; unit < shape.units; unit += warps) {
                    if (lane == 0) write_output(a, {first_row, 0, 0, 1.0f}, 0, unit, 0.0f, 0.0f);
                }
                return;
            }
        }
        fill_ring();
    }
    float squares[COLS];
    Q8Rows<F, COLS, R::BYTES> q8 = {a.x_segments * a.chunks};
    if constexpr (Q8) {
        quantize_rows<R::THREADS, COLS>(a, first_row, rows - 1, q8, squares);
    } else if (a.g) {
        for (int col = 0; col < COLS; col++) {
            squares[col] = 0.0f;
            u32 row = min(first_row + col, rows - 1);
            for (u32 i = 4 * threadIdx.x; i < a.cols; i += 4 * R::THREADS) squares[col] += square(x_four(a, row, 0, i));
        }
    }
    if (a.g) norm_factors<COLS, R::WARPS>(a, squares, partial, factors, [] { __syncthreads(); });
    __syncthreads();

    u32 slot = 0;
    for (u32 unit = first_unit; unit < shape.units; unit += warps) {
        float gate[COLS], sum[COLS];
#pragma unroll
        for (int col = 0; col < COLS; col++) gate[col] = sum[col] = 0.0f;
        for (u32 segment = 0; segment < shape.segments; segment++) {
            if (a.glu && segment == 1) {
#pragma unroll
                for (int col = 0; col < COLS; col++) gate[col] = sum[col], sum[col] = 0.0f;
            }
            u32 x_segment = 0;
            if (!PLAIN && a.mode == OUT_OF_HIDDEN) x_segment = segment;
            if (!PLAIN && a.mode == PER_HEAD) x_segment = unit / a.outputs[1];
            for (u32 first = 0; first < a.chunks; first += CHUNKS) {
                copy_wait<R::STAGES - 2>();
                __syncwarp();
                source.copy(a, shape, ring_address + (slot == 0 ? R::OF_WARP : slot) - R::STAGE, warps, lane);
                u32 stage = ring + slot;
                slot = slot + R::STAGE == R::OF_WARP ? 0 : slot + R::STAGE;
                if constexpr (F::FLOAT) {
#pragma unroll
                    for (int k = 0; k < 8; k++) {
                        u32 col = 32 * first + 128 * k + 4 * lane;
                        if (col < a.cols) {
                            float4 w = F::four(shared_bytes(stage + (128 * k + 4 * lane) * F::SIZE));
                            multiply<COLS>(a, w, first_row, rows, x_segment, col, sum);
                        }
                    }
                } else {
                    // Without conditions in whole stages, so that instructions of all chunks mix.
                    bool is_whole = Q8 && first + CHUNKS <= a.chunks;
                    if constexpr (Q8) {
                        if (is_whole) {
                            u32 at = PLAIN ? first + lane : x_segment * a.chunks + first + lane;
                            Chunk c[CHUNKS / 32];
#pragma unroll
                            for (int i = 0; i < CHUNKS / 32; i++) c[i] = load<F>(Stage<F, CHUNKS>{stage}, 32 * i + lane);
#pragma unroll
                            for (int i = 0; i < CHUNKS / 32; i++) q8.dot(c[i], at + 32 * i, sum);
                        }
                    }
#pragma unroll 1
                    for (int i = 0; i < CHUNKS && !is_whole; i += 32) {
                        u32 chunk = first + i + lane;
                        if (chunk >= a.chunks) break;
                        Chunk c = load<F>(Stage<F, CHUNKS>{stage}, i + lane);
                        if constexpr (Q8) {
                            q8.dot(c, PLAIN ? chunk : x_segment * a.chunks + chunk, sum);
                        } else {
#pragma unroll
                            for (int k = 0; k < 8; k++) {
                                multiply<COLS>(a, dequantize<F>(c, k), first_row, rows, x_segment, 32 * chunk + 4 * k, sum);
                            }
                        }
                    }
                }
            }
        }
        float value = 0.0f, up = 0.0f;
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            float of_col = warp_sum(a.glu ? gate[col] : sum[col]);
            if (lane == col) value = of_col;
            if (a.glu) {
                of_col = warp_sum(sum[col]);
                if (lane == col) up = of_col;
            }
        }
        if (lane < COLS && first_row + lane < rows) {
            Target to = {first_row + lane, 0, 0, 1.0f};
            float factor = a.g ? factors[lane] : 1.0f;
            u32 output = unit;
            if (PLAIN) {
                u32 part = part_of(a, output);
                write_plain(a, to.row, part, output, factor * value, factor * up);
            } else {
                if (a.mode == INTO_HIDDEN) {
                    to.slot = unit / a.outputs[0];
                    output = unit - to.slot * a.outputs[0];
                    to.expert = expert_of(shape.list, to.slot);
                    to.weight = __uint_as_float(shape.list[2 + 2 * to.slot]);
                }
                write_output(a, to, 0, output, factor * value, factor * up);
            }
        }
    }
    copy_wait<0>();
}

// Where a block may have much shared memory, stages have 64 chunks: it takes fewer instructions to fill them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr int Q8_CHUNKS = 64;
#else
constexpr int Q8_CHUNKS = 32;
#endif

#define GEMV_Q8(NAME, F, COLS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(Ring<F, Q8_CHUNKS>::THREADS, Q8_CHUNKS == 32 ? 2 : 1)                \
        NAME(const __grid_constant__ MatmulArgs args) {                                                               \
        gemv<F, COLS, Q8_CHUNKS, true, true>(args);                                                                    \
    }

#define GEMV(NAME, F, COLS, Q8, PLAIN)                                                                                 \
    extern "C" __global__ void __launch_bounds__(Ring<F, 32>::THREADS, Ring<F, 32>::THREADS == 512 ? 2 : 3)           \
        NAME(const __grid_constant__ MatmulArgs args) {                                                               \
        gemv<F, COLS, 32, Q8, PLAIN>(args);                                                                                \
    }
