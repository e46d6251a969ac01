// Formats of weights, as chunks of 32 values, in the planes that `crates/gpu` packs.
//
// A chunk has 32 integers of 8 bits, and value i is `s[i / 16] * (q[i] - ZERO) - m[i / 16]`. `s` and `m` are f32. `fetch`
// loads the chunk with index `chunk` of a tile, and `unpack` unpacks it; `p[i]` points to plane i of the tile, in global or shared
// memory.
#pragma once
#include "instructions.cuh"

struct Chunk {
    u32 q[8];
    float s[2], m[2];
};

template <class T> __device__ __forceinline__ T read(const u8* at) {
    return *reinterpret_cast<const T*>(at);
}
template <class T> __device__ __forceinline__ T read(SharedAddress from) {
    return load_shared<T>(from.at);
}

// An address in a row of weights. Offsets add up in 32 bits.
struct RowAddress {
    const u8* row;
    int at;
    __device__ __forceinline__ RowAddress operator+(int bytes) const { return {row, at + bytes}; }
    __device__ __forceinline__ u8 operator[](int bytes) const { return row[at + bytes]; }
};
template <class T> __device__ __forceinline__ T read(RowAddress from) {
    return read<T>(from.row + from.at);
}

// Quants of 4 bits: a word has four in the low nibbles of its bytes, and the next four in the high ones.
__device__ __forceinline__ void unpack_nibbles(uint4 v, u32 (&q)[8]) {
    u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 8; j++) q[j] = (words[j / 2] >> (4 * (j % 2))) & 0x0f0f0f0fu;
}

// Scale and minimum of group `g` of a block, 6 bits each in halves of a word, from its header: d, dmin, and 12 bytes. Without
// branches: lanes differ in `g`.
__device__ __forceinline__ u32 scale_min_pair(uint4 head, int g) {
    u32 byte = g & 3;
    // Scale in the low half, minimum in the high one.
    u32 pair = __byte_perm(head.y, head.z, byte | (4 + byte) << 8) & 0x00ff00ffu;
    u32 low = __byte_perm(head.w, 0, 0x4440 + byte) * 0x1001u & 0x000f000fu;
    u32 late = (pair >> 2 & 0x00300030u) | low;
    return g >= 4 ? late : pair & 0x003f003fu;
}

// The same, multiplied by d and dmin.
__device__ __forceinline__ void scale_min(uint4 head, int g, float& s, float& m) {
    u32 pair = scale_min_pair(head, g);
    __half2 d = *reinterpret_cast<__half2*>(&head.x);
    s = __low2float(d) * float(pair & 0xffffu);
    m = __high2float(d) * float(pair >> 16);
}

// The packed chunk as loaded: its quants, then scales.
struct Raw {
    uint4 a, b, c, e;
    uint2 pairs;
    u32 bits, scale, d;
};

// `bytes(p)`: bytes of 32 chunks in plane p. `HALVES`: the two halves of a chunk differ in scale and minimum; otherwise they
// have the first. `MINS`: there are minimums. `NIBBLES`: quants are nibbles as they are stored. `HEADER`: scales and minimums
// are those of `scale_min`. Integers are signed without `ZERO` and `MINS`, and otherwise at most 127.
struct Quantised {
    static constexpr bool FLOAT = false;
    static constexpr int ZERO = 0;
    static constexpr bool HALVES = false;
    static constexpr bool MINS = false;
    static constexpr bool NIBBLES = false;
    static constexpr bool HEADER = false;
};

__device__ __forceinline__ float f16_bits(u32 bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ __forceinline__ float2 f16_pair(u32 bits) { return __half22float2(*reinterpret_cast<__half2*>(&bits)); }

// Quants of 1 bit: byte i of a word has bits of the quants i, i + 4 and so on. They become bit `at` of their byte.
__device__ __forceinline__ u32 single_bits(u32 bits, int j, int at) {
    return (j < at ? bits << (at - j) : bits >> (j - at)) & 0x01010101u << at;
}

struct Q4_0 : Quantised {
    static constexpr int PLANES = 2;
    static constexpr int ZERO = 8;
    static constexpr bool NIBBLES = true;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : 64; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.scale = read<unsigned short>(p[1] + 2 * chunk);
    }
    static __device__ __forceinline__ void unpack_scales(const Raw& r, int, Chunk& c) { c.s[0] = f16_bits(r.scale); }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
        unpack_scales(r, chunk, c);
    }
};

struct Q4_1 : Quantised {
    static constexpr int PLANES = 2;
    static constexpr bool NIBBLES = true;
    static constexpr bool MINS = true;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : 128; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.d = read<u32>(p[1] + 4 * chunk);
    }
    static __device__ __forceinline__ void unpack_scales(const Raw& r, int, Chunk& c) {
        float2 pair = f16_pair(r.d);
        c.s[0] = pair.x, c.m[0] = -pair.y;
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
        unpack_scales(r, chunk, c);
    }
};

struct Q8_0 : Quantised {
    static constexpr int PLANES = 2;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 1024 : 64; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 32 * chunk);
        r.b = read<uint4>(p[0] + 32 * chunk + 16);
        r.scale = read<unsigned short>(p[1] + 2 * chunk);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        c.q[0] = r.a.x, c.q[1] = r.a.y, c.q[2] = r.a.z, c.q[3] = r.a.w;
        c.q[4] = r.b.x, c.q[5] = r.b.y, c.q[6] = r.b.z, c.q[7] = r.b.w;
        c.s[0] = f16_bits(r.scale);
    }
};

struct Q4_K : Quantised {
    static constexpr int PLANES = 2;
    static constexpr bool HEADER = true;
    static constexpr bool NIBBLES = true;
    static constexpr bool MINS = true;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : 64; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.b = read<uint4>(p[1] + 16 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack_scales(const Raw& r, int chunk, Chunk& c) {
        scale_min(r.b, chunk % 8, c.s[0], c.m[0]);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
        unpack_scales(r, chunk, c);
    }
};

// A format of 4 bits with a fifth in a plane of its own.
template <class Low> struct FiveBits : Quantised {
    static constexpr int PLANES = 3;
    static constexpr int ZERO = 2 * Low::ZERO;
    static constexpr bool HEADER = Low::HEADER;
    static constexpr bool MINS = Low::MINS;
    __host__ __device__ static constexpr int bytes(int p) { return p < 2 ? Low::bytes(p) : 128; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        Low::fetch(p, chunk, r);
        r.bits = read<u32>(p[2] + 4 * chunk);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        Low::unpack(r, chunk, c);
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] |= single_bits(r.bits, j, 4);
    }
};

struct Q5_0 : FiveBits<Q4_0> {};
struct Q5_K : FiveBits<Q4_K> {};

// Scale, minimum and high bits are in one plane: with three planes, more registers would spill.
struct Q5_1 : FiveBits<Q4_1> {
    static constexpr int PLANES = 2;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : 256; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        uint2 head = read<uint2>(p[1] + 8 * chunk);
        r.d = head.x, r.bits = head.y;
    }
};

// Quants of 2 bits: byte i of a word has bits of the quants i, i + 4, i + 8 and i + 12. They end at bit `at` of their byte.
__device__ __forceinline__ u32 pair_bits(uint2 high, int j, int at = 0) {
    u32 word = j < 4 ? high.x : high.y;
    int left = at - 2 * (j % 4);
    return (left > 0 ? word << left : word >> -left) & 0x03030303u << at;
}

// A signed scale of 8 bits per half of a chunk in plane 2, and a factor per block in plane 3.
struct SignedScales : Quantised {
    static constexpr int PLANES = 4;
    static constexpr bool HALVES = true;
    template <class P> static __device__ __forceinline__ void fetch_scales(const P& p, int chunk, Raw& r) {
        r.scale = read<unsigned short>(p[2] + 2 * chunk);
        r.d = read<unsigned short>(p[3] + 2 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack_scales(const Raw& r, Chunk& c) {
        float d = f16_bits(r.d);
        c.s[0] = d * float(static_cast<signed char>(r.scale));
        c.s[1] = d * float(static_cast<signed char>(r.scale >> 8));
    }
};

struct Q6_K : SignedScales {
    static constexpr int ZERO = 32;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : p == 1 ? 256 : p == 2 ? 64 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.pairs = read<uint2>(p[1] + 8 * chunk);
        fetch_scales(p, chunk, r);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Chunk& c) {
        unpack_nibbles(r.a, c.q);
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] |= pair_bits(r.pairs, j, 4);
        unpack_scales(r, c);
    }
};

struct Q3_K : SignedScales {
    static constexpr int ZERO = 4;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 256 : p == 1 ? 128 : p == 2 ? 64 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.pairs = read<uint2>(p[0] + 8 * chunk);
        r.bits = read<u32>(p[1] + 4 * chunk);
        fetch_scales(p, chunk, r);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Chunk& c) {
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] = pair_bits(r.pairs, j) | single_bits(r.bits, j, 2);
        unpack_scales(r, c);
    }
};

// A byte per half of a chunk has 4 bits of a scale, then 4 of a minimum. Blocks have a factor of each.
struct Q2_K : Quantised {
    static constexpr int PLANES = 3;
    static constexpr bool HALVES = true;
    static constexpr bool MINS = true;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 256 : p == 1 ? 64 : 16; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.pairs = read<uint2>(p[0] + 8 * chunk);
        r.scale = read<unsigned short>(p[1] + 2 * chunk);
        r.d = read<u32>(p[2] + 4 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Chunk& c) {
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] = pair_bits(r.pairs, j);
        float2 factors = f16_pair(r.d);
        c.s[0] = factors.x * float(r.scale & 15), c.m[0] = factors.y * float(r.scale >> 4 & 15);
        c.s[1] = factors.x * float(r.scale >> 8 & 15), c.m[1] = factors.y * float(r.scale >> 12);
    }
};

// Looks up codes of 4 bits in a table of 16 bytes, the words A to D. A word of `v` has eight codes in their order.
template <u32 A, u32 B, u32 C, u32 D> __device__ __forceinline__ void look_up(uint4 v, u32 (&q)[8]) {
    u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 8; j++) {
        u32 codes = words[j / 2] >> (16 * (j % 2));
        // By the low 3 bits of each code a byte of each half of the table, of which the high bit selects one.
        u32 low = __byte_perm(A, B, codes & 0x7777u), high = __byte_perm(C, D, codes & 0x7777u);
        q[j] = __byte_perm(low, high, (codes >> 1 & 0x4444u) | 0x3210u);
    }
}

// Values -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113.
__device__ __forceinline__ void look_up_iq4(uint4 v, u32 (&q)[8]) {
    look_up<0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u>(v, q);
}

struct IQ4_NL : Quantised {
    static constexpr int PLANES = 2;
    __host__ __device__ static constexpr int bytes(int p) { return Q4_0::bytes(p); }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        Q4_0::fetch(p, chunk, r);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        look_up_iq4(r.a, c.q);
        Q4_0::unpack_scales(r, chunk, c);
    }
};

struct IQ4_XS : Quantised {
    static constexpr int PLANES = 3;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : p == 1 ? 32 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.scale = p[1][chunk];
        r.d = read<unsigned short>(p[2] + 2 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Chunk& c) {
        look_up_iq4(r.a, c.q);
        c.s[0] = f16_bits(r.d) * float(static_cast<signed char>(r.scale));
    }
};

// Codes become 16 plus twice the value: magnitudes 0, 1, 2, 3, 4, 6, 8 and 12, and a sign.
struct MXFP4 : Quantised {
    static constexpr int PLANES = 2;
    static constexpr int ZERO = 16;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : 32; }
    static __device__ __forceinline__ u32 integers(u32 codes) {
        u32 m = codes & 0x07070707u;
        u32 large = ((m >> 2) & 0x01010101u) * 0xffu;
        u32 seven = ((m + 0x01010101u) >> 3) & 0x01010101u;
        u32 magnitude = m + (m & 0x03030303u & large) + 2 * seven;
        u32 minus = ((codes >> 3) & 0x01010101u) * 0xffu;
        return 0x10101010u + magnitude - 2 * (magnitude & minus);
    }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        r.scale = p[1][chunk];
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] = integers(c.q[j]);
        c.s[0] = __uint_as_float(r.scale < 2 ? 0x00200000u << r.scale : (r.scale - 1) << 23);
    }
};

// Values 0 1 2 3, 4 6 8 12, and the same negated. A scale is an 8-bit float (E4M3) without its sign: in the place of an f32's
// exponent and mantissa, it is the scale divided by 2^119.
struct NVFP4 : Quantised {
    static constexpr int PLANES = 2;
    static constexpr bool HALVES = true;
    __host__ __device__ static constexpr int bytes(int p) { return Q4_0::bytes(p); }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        Q4_0::fetch(p, chunk, r);
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int, Chunk& c) {
        look_up<0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu>(r.a, c.q);
        c.s[0] = __uint_as_float((r.scale & 127) << 20) * 0x1p119f;
        c.s[1] = __uint_as_float((r.scale >> 8 & 127) << 20) * 0x1p119f;
    }
};

// Formats of a grid: two scales of 4 bits per chunk in plane AT, and a factor per block in the next one.
template <int AT> struct Grid : Quantised {
    static constexpr bool HALVES = true;
    template <class P> static __device__ __forceinline__ void fetch_scales(const P& p, int chunk, Raw& r) {
        r.scale = p[AT][chunk];
        r.d = read<unsigned short>(p[AT + 1] + 2 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack_scales(const Raw& r, float unit, Chunk& c) {
        float d = unit * f16_bits(r.d);
        c.s[0] = d * float(2 * (r.scale & 15) + 1);
        c.s[1] = d * float(2 * (r.scale >> 4) + 1);
    }
};

struct GridOfNibbles : Grid<1> {
    static constexpr int PLANES = 3;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 512 : p == 1 ? 32 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.a = read<uint4>(p[0] + 16 * chunk);
        fetch_scales(p, chunk, r);
    }
};

// Codes become 62 plus the value: `8 code - 60`, and 2 more or less at both ends.
struct IQ3_XXS : GridOfNibbles {
    static constexpr int ZERO = 62;
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            u32 last = ((c.q[j] + 0x01010101u) >> 4) & 0x01010101u;
            u32 first = ((0x10101010u - c.q[j]) >> 4) & 0x01010101u;
            c.q[j] = (c.q[j] << 3) + 0x02020202u + 2 * last - 2 * first;
        }
        unpack_scales(r, 0.25f, c);
    }
};

struct IQ3_S : GridOfNibbles {
    static constexpr int ZERO = 15;
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
        unpack_nibbles(r.a, c.q);
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] <<= 1;
        unpack_scales(r, 1.0f, c);
    }
};

// Formats of a grid whose codes have 2 bits and a sign.
struct GridOfPairs : Grid<2> {
    static constexpr int PLANES = 4;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 256 : p == 1 ? 128 : p == 2 ? 32 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.pairs = read<uint2>(p[0] + 8 * chunk);
        r.bits = read<u32>(p[1] + 4 * chunk);
        fetch_scales(p, chunk, r);
    }
};

// Codes become 64 plus the value: magnitudes 8, 25 and 43, and a sign.
struct IQ2 : GridOfPairs {
    static constexpr int ZERO = 64;
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            u32 m = pair_bits(r.pairs, j);
            u32 magnitude = 0x08080808u + m * 17 + ((m >> 1) & 0x01010101u);
            c.q[j] = 0x40404040u + magnitude - 2 * (magnitude & (((r.bits >> j) & 0x01010101u) * 0xffu));
        }
        unpack_scales(r, 0.125f, c);
    }
};

struct IQ1 : GridOfPairs {
    static constexpr int ZERO = 9;
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            c.q[j] = (pair_bits(r.pairs, j) << 3) + 0x02020202u - (((r.bits >> j) & 0x01010101u) << 1);
        }
        unpack_scales(r, 0.125f, c);
    }
};

struct Ternary : Quantised {
    static constexpr int PLANES = 2;
    static constexpr int ZERO = 1;
    __host__ __device__ static constexpr int bytes(int p) { return p == 0 ? 256 : 8; }
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        r.pairs = read<uint2>(p[0] + 8 * chunk);
        r.d = read<unsigned short>(p[1] + 2 * (chunk / 8));
    }
    static __device__ __forceinline__ void unpack(const Raw& r, int chunk, Chunk& c) {
#pragma unroll
        for (int j = 0; j < 8; j++) c.q[j] = pair_bits(r.pairs, j);
        c.s[0] = f16_bits(r.d);
    }
};

template <class F, class P> __device__ __forceinline__ Chunk load(const P& p, int chunk) {
    Raw r;
    Chunk c;
    F::fetch(p, chunk, r);
    F::unpack(r, chunk, c);
    return c;
}

// Unquantised formats have one plane of values.
struct Float {
    static constexpr bool FLOAT = true;
    static constexpr int PLANES = 1;
};

struct F32 : Float {
    __host__ __device__ static constexpr int bytes(int) { return 4096; }
    template <class P> static __device__ __forceinline__ float4 four(P at) { return read<float4>(at); }
    static constexpr int SIZE = 4;
};

struct F16 : Float {
    __host__ __device__ static constexpr int bytes(int) { return 2048; }
    template <class P> static __device__ __forceinline__ float4 four(P at) {
        uint2 v = read<uint2>(at);
        float2 a = __half22float2(*reinterpret_cast<__half2*>(&v.x));
        float2 b = __half22float2(*reinterpret_cast<__half2*>(&v.y));
        return make_float4(a.x, a.y, b.x, b.y);
    }
    static constexpr int SIZE = 2;
    template <class P> static __device__ __forceinline__ void fetch(const P& p, int chunk, Raw& r) {
        auto at = p[0] + 64 * chunk;
        r.a = read<uint4>(at), r.b = read<uint4>(at + 16), r.c = read<uint4>(at + 32), r.e = read<uint4>(at + 48);
    }
};

struct BF16 : Float {
    __host__ __device__ static constexpr int bytes(int) { return 2048; }
    template <class P> static __device__ __forceinline__ float4 four(P at) {
        uint2 v = read<uint2>(at);
        return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u), __uint_as_float(v.y << 16),
                           __uint_as_float(v.y & 0xffff0000u));
    }
    static constexpr int SIZE = 2;
};

// The 4 bytes of a word as f32, less `zero`. A byte placed in the mantissa of 2^23 needs no conversion.
__device__ __forceinline__ float byte_f32(u32 word, int i, float zero) {
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + i)) - (8388608.0f + zero);
}

// Values 4 j to 4 j + 3 of a chunk. Signed quants have been offset by 128.
template <class F> __device__ __forceinline__ float4 dequantize(const Chunk& c, int j) {
    constexpr bool is_signed = F::ZERO == 0 && !F::MINS;
    u32 word = is_signed ? c.q[j] ^ 0x80808080u : c.q[j];
    float zero = is_signed ? 128.0f : float(F::ZERO);
    float s = c.s[F::HALVES ? j / 4 : 0];
    float m = F::MINS ? c.m[F::HALVES ? j / 4 : 0] : 0.0f;
    return make_float4(s * byte_f32(word, 0, zero) - m, s * byte_f32(word, 1, zero) - m,
                       s * byte_f32(word, 2, zero) - m, s * byte_f32(word, 3, zero) - m);
}

// A weight has rows of tiles of 32 chunks (`gpu::TiledLayout`). A tile has the planes of its chunks one after the other, each of
// a multiple of 16 bytes. The last one of a row may have fewer chunks, but whole blocks of 4, unless the format has one plane. If
// all tiles are whole ones, rows of quantised formats come in pairs: a tile of the first one, the same of the second one, and so on.
constexpr u32 TILE_CHUNKS = 32, BLOCK_CHUNKS = 4, BLOCKS = TILE_CHUNKS / BLOCK_CHUNKS;

// Bytes of a plane in a tile of so many blocks.
template <class F> __host__ __device__ constexpr u32 plane_bytes(int plane, u32 blocks = BLOCKS) {
    u32 of_block = F::bytes(plane) / BLOCKS;
    return of_block % 16 == 0 ? of_block * blocks : (of_block * blocks + 15) / 16 * 16;
}

// Where a plane starts in a tile.
template <class F> __host__ __device__ constexpr u32 plane_at(int plane, u32 blocks = BLOCKS) {
    u32 at = 0;
    for (int p = 0; p < plane; p++) at += plane_bytes<F>(p, blocks);
    return at;
}

// Bytes of a whole tile.
template <class F> constexpr u32 TILE_BYTES = plane_at<F>(F::PLANES);

// The planes of a tile, which starts at `at` in its row.
template <class F> struct Tile {
    const u8* row;
    u32 at, blocks;
    __device__ __forceinline__ RowAddress operator[](int plane) const { return {row, int(at + plane_at<F>(plane, blocks))}; }
};

// Bytes from a tile of a row to the next one.
template <class F> __device__ __forceinline__ u32 tile_step(bool is_paired) {
    return F::FLOAT || !is_paired ? TILE_BYTES<F> : 2 * TILE_BYTES<F>;
}

// The first tile of a row. `pitch`: bytes of a row.
template <class F> __device__ __forceinline__ const u8* row_of(const u8* weight, size_t row, u32 pitch, bool is_paired) {
    if (F::FLOAT || !is_paired) return weight + row * pitch;
    return weight + (row & ~size_t(1)) * pitch + (row & 1) * TILE_BYTES<F>;
}

// The tile of a row of `chunks` chunks that has a chunk.
template <class F>
__device__ __forceinline__ Tile<F> tile_of(const u8* row, u32 chunks, u32 chunk, bool is_paired) {
    u32 tile = chunk / TILE_CHUNKS, blocks = (chunks + BLOCK_CHUNKS - 1) / BLOCK_CHUNKS;
    return {row, tile * tile_step<F>(is_paired), min(blocks - BLOCKS * tile, BLOCKS)};
}
