// CUDA C++ for a C++ compiler: the types, functions and instructions that the kernels use, on the processor.
//
// `build` includes this file before each kernel source. `blocks.h` runs the threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <type_traits>

#include "blocks.h"

// In place of `instructions.cuh`.
#define EMULATED
// Kernels of the newest instructions are those that are emulated.
#define __CUDA_ARCH_FEAT_SM90_ALL

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define alignas(n) __attribute__((aligned(n)))
// Blocks that run at the same time have a thread of the operating system each.
#define __shared__ thread_local
#define __builtin_assume(condition) ((void)0)

#define threadIdx (emulated_thread->index)
#define blockIdx (emulated_thread->block->index)
#define blockDim (emulated_thread->block->size)
#define gridDim (emulated_thread->block->grid)

using std::isfinite;
using std::max;
using std::min;
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

struct alignas(2) uchar2 { uint8_t x, y; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uchar2 make_uchar2(uint8_t x, uint8_t y) { return {x, y}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulated {

template <class To, class From> inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// A value that the compiler knows nothing about.
inline float alone(float x) {
    asm("" : "+x"(x));
    return x;
}

// The lanes' values, exchanged: `choose` tells each lane whose value it gets.
template <class T, class Choose> inline T exchange(uint32_t mask, T value, Choose choose) {
    struct Lane { T value, result; uint32_t from; } lane{value, value, choose(emulated_thread->lane)};
    together(mask, &lane, [](void* const* lanes, uint32_t there) {
        for (uint32_t i = 0; i < 32; i++) {
            if (!(there >> i & 1)) continue;
            auto* own = static_cast<Lane*>(lanes[i]);
            if (own->from < 32 && there >> own->from & 1) own->result = static_cast<Lane*>(lanes[own->from])->value;
        }
    });
    return lane.result;
}

// The lanes' integers, reduced to one.
template <class Reduce> inline uint32_t reduce(uint32_t mask, uint32_t value, Reduce) {
    uint32_t lane = value;
    together(mask, &lane, [](void* const* lanes, uint32_t there) {
        uint32_t result = 0;
        bool is_first = true;
        for (uint32_t i = 0; i < 32; i++) {
            if (!(there >> i & 1)) continue;
            uint32_t own = *static_cast<uint32_t*>(lanes[i]);
            result = is_first ? own : Reduce{}(result, own);
            is_first = false;
        }
        for (uint32_t i = 0; i < 32; i++) {
            if (there >> i & 1) *static_cast<uint32_t*>(lanes[i]) = result;
        }
    });
    return lane;
}

struct Sum { uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; } };
struct Largest { uint32_t operator()(uint32_t a, uint32_t b) const { return std::max(a, b); } };
struct Union { uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; } };

} // namespace emulated

inline void __syncthreads() { emulated::sync_block(); }
inline void __syncwarp(uint32_t mask = ~0u) { emulated::together(mask, nullptr, [](void* const*, uint32_t) {}); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class T> inline T __shfl_sync(uint32_t mask, T value, uint32_t from) {
    return emulated::exchange(mask, value, [=](uint32_t) { return from % 32; });
}
template <class T> inline T __shfl_xor_sync(uint32_t mask, T value, uint32_t with) {
    return emulated::exchange(mask, value, [=](uint32_t lane) { return lane ^ with; });
}
template <class T> inline T __shfl_up_sync(uint32_t mask, T value, uint32_t by) {
    return emulated::exchange(mask, value, [=](uint32_t lane) { return lane - by; });
}
template <class T> inline T __shfl_down_sync(uint32_t mask, T value, uint32_t by) {
    return emulated::exchange(mask, value, [=](uint32_t lane) { return lane + by; });
}
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value) { return emulated::reduce(mask, value, emulated::Sum{}); }
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value) { return emulated::reduce(mask, value, emulated::Largest{}); }
inline uint32_t __ballot_sync(uint32_t mask, bool is) {
    return emulated::reduce(mask, is ? 1u << emulated_thread->lane : 0, emulated::Union{});
}
inline bool __any_sync(uint32_t mask, bool is) { return __ballot_sync(mask, is) != 0; }

template <class T> inline T atomicAdd(T* at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }
inline uint32_t atomicAdd(uint32_t* at, int value) { return __atomic_fetch_add(at, uint32_t(value), __ATOMIC_SEQ_CST); }
inline uint32_t atomicOr(uint32_t* at, uint32_t value) { return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST); }
inline uint32_t atomicMax(uint32_t* at, uint32_t value) {
    uint32_t found = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (found < value && !__atomic_compare_exchange_n(at, &found, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return found;
}
template <class T> inline T __ldcg(const T* at) { return *at; }

inline uint32_t __float_as_uint(float x) { return emulated::bits<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return emulated::bits<float>(x); }
// Of one operation, which the compiler must not contract with others.
inline float __fmul_rn(float a, float b) { return emulated::alone(a * b); }
inline float __fadd_rn(float a, float b) { return emulated::alone(a + b); }
inline float __fsub_rn(float a, float b) { return emulated::alone(a - b); }
inline float __fdiv_rn(float a, float b) { return emulated::alone(a / b); }
inline double __hiloint2double(uint32_t high, uint32_t low) { return emulated::bits<double>(uint64_t(high) << 32 | low); }
inline int __float2int_rn(float x) { return int(nearbyintf(x)); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __popcll(uint64_t x) { return __builtin_popcountll(x); }
inline int __clzll(uint64_t x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffsll(uint64_t x) { return __builtin_ffsll(int64_t(x)); }
inline int __clz(uint32_t x) { return x ? __builtin_clz(x) : 32; }
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t which) {
    uint64_t both = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t nibble = which >> 4 * i & 15, byte = both >> 8 * (nibble & 7) & 255;
        // The highest bit of a nibble asks for the byte's sign.
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
inline int __dp4a(int a, int b, int sum) {
    for (int i = 0; i < 4; i++) sum += int8_t(a >> 8 * i) * int8_t(b >> 8 * i);
    return sum;
}

#include "cuda_bf16.h"
#include "cuda_fp16.h"

// What `instructions.cuh` and `hopper.cuh` define for a card.

inline uint32_t shared_address(const void* at) { return emulated::shared_address(at); }

template <int BYTES> inline void copy_async(uint32_t to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "sizes of cp.async");
    emulated::copy_later(to, from, BYTES, BYTES);
}
template <int BYTES> inline void copy_async_if(uint32_t to, const void* from, bool is_copied) {
    if (is_copied) copy_async<BYTES>(to, from);
}
inline uint32_t once(uint32_t x) { return x; }
template <class T> inline T load_shared(uint32_t at) {
    if (at % sizeof(T) != 0) emulated::fail("reads shared memory at an address that is no multiple of the size");
    T value;
    memcpy(&value, emulated::shared_pointer(at), sizeof value);
    return value;
}
inline void copy_or_zero(uint32_t to, const void* from, bool is_copied) { emulated::copy_later(to, from, 16, is_copied ? 16 : 0); }
inline void copy_commit() { emulated::commit_copies(); }
template <int PENDING> inline void copy_wait() { emulated::wait_for_copies(PENDING); }
inline void prefetch_to_l1(const void*) {}
inline void prefetch_to_l2(const void*) {}

inline void load_matrices(uint32_t (&r)[4], uint32_t address, bool is_transposed = false) {
    emulated::Matrices lane{address, {}, is_transposed};
    emulated::together(~0u, &lane, emulated::load_matrices);
    memcpy(r, lane.r, sizeof r);
}
inline void load_transposed(uint32_t (&r)[4], uint32_t address) { load_matrices(r, address, true); }
template <class T = __half>
inline void multiply_matrices(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>, "f16 or bf16");
    emulated::Product lane{c, {a[0], a[1], a[2], a[3]}, {b0, b1}, std::is_same_v<T, __nv_bfloat16>};
    emulated::together(~0u, &lane, emulated::multiply);
}

// Products of unsigned bytes with signed ones.
inline int dot_unsigned(uint32_t a, uint32_t b, int sum) {
    for (int i = 0; i < 4; i++) sum += int(a >> 8 * i & 255) * int8_t(b >> 8 * i);
    return sum;
}
inline float max_or_nan(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::fmax(a, b); }

inline float reciprocal_approximate(float x) { return 1.0f / x; }

inline float exp2_approximate(float x) { return exp2f(x); }
inline uint32_t masked_or(uint32_t a, uint32_t mask, uint32_t bits) { return (a & mask) | bits; }

// `wgmma`: the product of a warpgroup's 64 x 16 values, in registers or in shared memory, and 16 x N in shared memory.
template <int N> struct Instruction {
    template <bool BY_COLUMN = true> static inline void add(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b) {
        emulated::multiply_later({c, N, {a[0], a[1], a[2], a[3]}, 0, b, BY_COLUMN, true});
    }
    static inline void add(float (&c)[N / 2], uint64_t a, uint64_t b, bool is_added) {
        emulated::multiply_later({c, N, {}, a, b, true, is_added});
    }
};
inline void wgmma_fence() {}
inline void wgmma_commit() { emulated::commit_products(); }
template <int PENDING> inline void wgmma_wait() { emulated::wait_for_products(PENDING); }
inline void fence_for_wgmma() {}

inline void init_barrier(uint32_t barrier) { emulated::init_barrier(barrier); }
inline void fence_barriers() {}
inline void expect_bytes(uint32_t barrier, uint32_t bytes) { emulated::expect_bytes(barrier, bytes); }
inline void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) { emulated::copy_bulk(to, from, bytes, barrier); }
inline void acquire_map(const void*) {}
inline void copy_panel(uint32_t to, const void* map, uint32_t col, uint32_t row, uint32_t barrier) {
    emulated::copy_panel(to, map, col, row, barrier);
}
inline void wait_for_copy(uint32_t barrier, uint32_t phase) { emulated::wait_for_copy(barrier, phase); }
inline void cluster_sync() { emulated::sync_cluster(); }
inline float load_of_block(uint32_t address, uint32_t rank) { return emulated::load_of_block(address, rank); }

namespace emulated {

// Calls a kernel, which takes one struct.
template <auto kernel> struct Call;
template <class Args, void (*kernel)(Args)> struct Call<kernel> {
    static constexpr size_t SIZE = sizeof(Args);
    static void call(const void* args) { kernel(*static_cast<const Args*>(args)); }
};

} // namespace emulated
