// Rows of activations in 8 bits, which GEMV kernels quantise to shared memory: an integer per value and a scale per chunk.
//
// A kernel waits for the activations, and then for this: loads come first, and instructions are few.
#pragma once
#include "matmul.cuh"

// Two rows' weights against a chunk of activations. NIBBLES: words of low nibbles and of high ones, the latter in place.
template <class F, class P> __device__ __forceinline__ Chunk load_integers(const P& p, int chunk) {
    if constexpr (F::NIBBLES) {
        Raw r;
        Chunk c;
        F::fetch(p, chunk, r);
        u32 words[4] = {r.a.x, r.a.y, r.a.z, r.a.w};
#pragma unroll
        for (int j = 0; j < 4; j++) c.q[2 * j] = words[j] & 0x0f0f0f0fu, c.q[2 * j + 1] = words[j] & 0xf0f0f0f0u;
        F::unpack_scales(r, chunk, c);
        return c;
    } else {
        return load<F>(p, chunk);
    }
}

// Where the 8-bit activations are in shared memory: by half of a chunk, column and chunk 16 integers; then by column and
// chunk a scale, and sums of the integers as the format needs them.
template <class F, int COLS> struct Q8Rows {
    u32 chunks;

    __device__ __forceinline__ u32 half_at(u32 half, u32 col, u32 chunk) const {
        return ((half * COLS + col) * chunks + chunk) * 16;
    }
    __device__ __forceinline__ u32 scale_at(u32 col, u32 chunk) const {
        return 2 * COLS * chunks * 16 + (col * chunks + chunk) * 8;
    }
    __device__ __forceinline__ u32 bytes() const { return (COLS * chunks * 40 + 15) / 16 * 16; }

    // The second word beside a scale.
    static __device__ __forceinline__ u32 sums(float scale, int low, int high) {
        if (F::HALVES) return (low & 0xffff) | high << 16;
        return F::MINS ? __float_as_uint(scale * float(low + high)) : low + high;
    }

    static __device__ __forceinline__ float product(const Chunk& c, const u32 (&x)[8], u32 sums) {
        // Two sums, for shorter chains of dependent instructions.
        int a = 0, b = 0;
        if constexpr (F::NIBBLES) {
            if (F::ZERO) a = -F::ZERO * int(sums);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                a = __dp4a(int(c.q[2 * j]), int(x[2 * j]), a);
                b = dot_unsigned(c.q[2 * j + 1], x[2 * j + 1], b);
            }
            return c.s[0] * float(a + (b >> 4));
        } else {
            int low = short(sums & 0xffff), high = int(sums) >> 16;
            if (F::HALVES) {
                a = -F::ZERO * low, b = -F::ZERO * high;
            } else if (F::ZERO) {
                a = -F::ZERO * int(sums);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                a = __dp4a(int(c.q[j]), int(x[j]), a);
                b = __dp4a(int(c.q[4 + j]), int(x[4 + j]), b);
            }
            if (!F::HALVES) return c.s[0] * float(a + b);
            float product = c.s[0] * float(a) + c.s[1] * float(b);
            if (F::MINS) product -= c.m[0] * float(low) + c.m[1] * float(high);
            return product;
        }
    }

    // Multiplies chunks of two rows of weights with chunk `chunk` of each row of activations.
    // `base`: the address of dynamic shared memory.
    __device__ __forceinline__ void dot(const Chunk (&c)[2], u32 base, u32 chunk, float (&sum)[2][COLS]) const {
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            u32 half = base + half_at(0, col, chunk);
            uint4 low = load_shared<uint4>(half);
            uint4 high = load_shared<uint4>(half + COLS * chunks * 16);
            uint2 scale = load_shared<uint2>(base + scale_at(col, chunk));
            u32 x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int r = 0; r < 2; r++) {
                sum[r][col] += __uint_as_float(scale.x) * product(c[r], x, scale.y);
                if (F::MINS && !F::HALVES) sum[r][col] -= c[r].m[0] * __uint_as_float(scale.y);
            }
        }
    }
};

// The largest magnitude, or NaN.
__device__ __forceinline__ float largest_of(float4 a, float4 b) {
    auto pair = [](float x, float y) { return max_or_nan(fabsf(x), fabsf(y)); };
    return max_or_nan(max_or_nan(pair(a.x, a.y), pair(a.z, a.w)), max_or_nan(pair(b.x, b.y), pair(b.z, b.w)));
}

// Four values of at most 127 times the scale, rounded. Adding 1.5 * 2^23 leaves an integer in the low bits of the sum.
__device__ __forceinline__ u32 quantize(float4 v, float inverse) {
    auto rounded = [&](float x) { return __float_as_uint(fmaf(x, inverse, 12582912.0f)); };
    u32 low = __byte_perm(rounded(v.x), rounded(v.y), 0x0040), high = __byte_perm(rounded(v.z), rounded(v.w), 0x0040);
    return __byte_perm(low, high, 0x5410);
}

// Rows of quantised weights have a multiple of 32 columns, and activations start at a multiple of 16 bytes.
__device__ __forceinline__ void load_piece(const float* from, float4 (&to)[2]) {
    const float4* at = reinterpret_cast<const float4*>(from);
    to[0] = at[0], to[1] = at[1];
}

// Fetches the norm's weights of the thread's first two pieces of a single row to L1. They do not depend on kernels before.
__device__ __forceinline__ void fetch_norm(const MatmulArgs& a) {
    for (u32 at = 8 * threadIdx.x, n = 0; n < 2 && at < a.cols; n++, at += 8 * blockDim.x) prefetch_to_l1(a.g + at);
}

// Quantises N pieces of 8 values, the thread's next ones from `first` on, side by side: each step of one piece waits for the
// step before. Four lanes have a chunk. `own`: the row's first value, if there is a single row and segment.
template <int N, int COLS, bool PLAIN, class Rows>
__device__ __forceinline__ void quantize_pieces(const MatmulArgs& a, const float* own, u32 first, u32 first_row, u32 last_row,
                                                const Rows& rows, float (&squares)[COLS]) {
    u32 pieces = rows.chunks * 4;
    float4 x[N][2];
    u32 cols[N];
    auto number = [&](int i) { return first + i * blockDim.x; };
    auto is_piece = [&](int i) { return number(i) < COLS * pieces; };
#pragma unroll
    for (int i = 0; i < N; i++) {
        cols[i] = COLS == 1 ? 0 : number(i) / pieces;
        x[i][0] = x[i][1] = make_float4(0, 0, 0, 0);
        if (!is_piece(i)) continue;
        if (COLS == 1 && PLAIN) {
            load_piece(own + 8 * number(i), x[i]);
        } else {
            u32 of_row = number(i) - cols[i] * pieces, chunk = of_row / 4, row = min(first_row + cols[i], last_row);
            u32 segment = PLAIN || a.x_segments == 1 ? 0 : chunk / a.chunks;
            load_piece(a.x + x_offset(a, row, segment) + 8 * of_row - 32 * segment * a.chunks, x[i]);
        }
    }
    if (N == 2 && COLS == 1 && PLAIN) {
        for (int i = 2; i < 4; i++) {
            if (is_piece(i)) prefetch_to_l1(own + 8 * number(i));
        }
    }
    if (a.g) {
        // All loads come before the first use of one: instructions are executed in order. There is one segment.
        float4 g[N][2];
#pragma unroll
        for (int i = 0; i < N; i++) {
            g[i][0] = g[i][1] = make_float4(0, 0, 0, 0);
            if (is_piece(i)) load_piece(a.g + 8 * (number(i) - cols[i] * pieces), g[i]);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            float sum = square(x[i][0]) + square(x[i][1]);
#pragma unroll
            for (int c = 0; c < COLS; c++) squares[c] += c == cols[i] ? sum : 0.0f;
            x[i][0] = times(x[i][0], g[i][0]), x[i][1] = times(x[i][1], g[i][1]);
        }
    }
    float scales[N];
#pragma unroll
    for (int i = 0; i < N; i++) scales[i] = largest_of(x[i][0], x[i][1]);
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
#pragma unroll
        for (int i = 0; i < N; i++) scales[i] = max_or_nan(scales[i], __shfl_xor_sync(ALL_LANES, scales[i], lanes));
    }
    u32 low[N], high[N];
    int sums[N], others[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        float largest = scales[i];
        scales[i] = largest < __uint_as_float(0x7f800000u) ? largest * (1.0f / 127.0f) : __uint_as_float(0x7fc00000u);
        // Rows of so small values that the quotient would overflow become zeros.
        float inverse = largest > 2.4e-35f ? reciprocal_approximate(scales[i]) : 0.0f;
        low[i] = quantize(x[i][0], inverse), high[i] = quantize(x[i][1], inverse);
        sums[i] = __dp4a(int(low[i]), 0x01010101, __dp4a(int(high[i]), 0x01010101, 0));
    }
#pragma unroll
    for (int i = 0; i < N; i++) sums[i] += __shfl_xor_sync(ALL_LANES, sums[i], 1);
#pragma unroll
    for (int i = 0; i < N; i++) others[i] = __shfl_xor_sync(ALL_LANES, sums[i], 2);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (!is_piece(i)) continue;
        u8* bytes = reinterpret_cast<u8*>(shared);
        u32 of_row = number(i) - cols[i] * pieces, chunk = of_row / 4, quarter = of_row % 4;
        u32 to = rows.half_at(quarter / 2, cols[i], chunk) + quarter % 2 * 8;
        *reinterpret_cast<uint2*>(bytes + to) = make_uint2(low[i], high[i]);
        if (quarter == 0) {
            *reinterpret_cast<uint2*>(bytes + rows.scale_at(cols[i], chunk)) =
                make_uint2(__float_as_uint(scales[i]), rows.sums(scales[i], sums[i], others[i]));
        }
    }
}

template <int COLS, bool PLAIN, class Rows>
__device__ __forceinline__ void quantize_rows(const MatmulArgs& a, const float* own, u32 first_row, u32 last_row, const Rows& rows,
                                              float (&squares)[COLS]) {
    u32 pieces = COLS * rows.chunks * 4, threads = blockDim.x;
#pragma unroll
    for (int col = 0; col < COLS; col++) squares[col] = 0.0f;
    // Whole warps compute, so that a chunk's four lanes are always together.
    u32 first = threadIdx.x, of_warp = first - first % 32;
#pragma unroll 1
    for (; of_warp < pieces; first += 2 * threads, of_warp += 2 * threads) {
        if (of_warp + threads < pieces) {
            quantize_pieces<2, COLS, PLAIN>(a, own, first, first_row, last_row, rows, squares);
        } else {
            quantize_pieces<1, COLS, PLAIN>(a, own, first, first_row, last_row, rows, squares);
        }
    }
}
