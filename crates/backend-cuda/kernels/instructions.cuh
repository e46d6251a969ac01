// Instructions that CUDA C++ has no functions for: asynchronous copies to shared memory, its addresses, matrices of f16, and their
// products on tensor cores (PTX ISA: cp.async, ld.shared, ldmatrix, mma). `emulator/device.h` has them for the processor.
#pragma once
#include "common.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if !defined(EMULATED)

__device__ __forceinline__ u32 shared_address(const void* at) {
    return static_cast<u32>(__cvta_generic_to_shared(at));
}

template <int BYTES> __device__ __forceinline__ void copy_async(u32 to, const void* from) {
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES));
    }
}

// A value that stays in a register. The compiler would compute it again at each use.
__device__ __forceinline__ u32 once(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Copies, if `is_copied`, without a branch.
template <int BYTES> __device__ __forceinline__ void copy_async_if(u32 to, const void* from, bool is_copied) {
    if constexpr (BYTES == 16) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(to),
                     "l"(from), "r"(u32(is_copied)));
    } else {
        asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p cp.async.ca.shared.global [%0], [%1], %3;\n}" ::"r"(to),
                     "l"(from), "r"(u32(is_copied)), "n"(BYTES));
    }
}

// Copies 16 bytes, or writes zeros.
__device__ __forceinline__ void copy_or_zero(u32 to, const void* from, bool is_copied) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_copied ? 16 : 0));
}

__device__ __forceinline__ void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Reads a value of shared memory. A pointer would become such an address at each use.
template <class T> __device__ __forceinline__ T load_shared(u32 at) {
    T value;
    if constexpr (sizeof(T) == 16) {
        u32 (&w)[4] = reinterpret_cast<u32 (&)[4]>(value);
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(at)
                     : "memory");
    } else if constexpr (sizeof(T) == 8) {
        u32 (&w)[2] = reinterpret_cast<u32 (&)[2]>(value);
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(at) : "memory");
    } else if constexpr (sizeof(T) == 4) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(reinterpret_cast<u32&>(value)) : "r"(at) : "memory");
    } else if constexpr (sizeof(T) == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(reinterpret_cast<unsigned short&>(value)) : "r"(at) : "memory");
    } else {
        u32 byte;
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(at) : "memory");
        value = T(byte);
    }
    return value;
}

// Four matrices of 8 rows of 8 values; a lane gives the address of one row.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// The same, transposed.
__device__ __forceinline__ void load_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// Adds the product of 16 x 16 and 16 x 8 values of type `T` to `c`.
template <class T = __half>
__device__ __forceinline__ void multiply_matrices(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (__is_same(T, __half)) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
                     "%1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        static_assert(__is_same(T, __nv_bfloat16), "f16 or bf16");
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
                     "%1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Adds the products of four unsigned bytes and four signed ones.
__device__ __forceinline__ int dot_unsigned(u32 a, u32 b, int sum) {
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

__device__ __forceinline__ void prefetch_to_l1(const void* at) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}

__device__ __forceinline__ void prefetch_to_l2(const void* at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// The larger one, or NaN.
__device__ __forceinline__ float max_or_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

// 1 / x, with a relative error of 2^-23, for normal x.
__device__ __forceinline__ float reciprocal_approximate(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// 2^x, with a relative error of 2^-22; results and arguments too small for a normal number become 0.
__device__ __forceinline__ float exp2_approximate(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// `(a & mask) | bits` by one instruction; the compiler takes two for constants.
__device__ __forceinline__ u32 masked_or(u32 a, u32 mask, u32 bits) {
    u32 result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(mask), "r"(bits));
    return result;
}

#endif

// An address in shared memory, which formats read from as they do from a pointer.
struct SharedAddress {
    u32 at;
    __device__ __forceinline__ SharedAddress operator+(u32 bytes) const { return {at + bytes}; }
    __device__ __forceinline__ u8 operator[](u32 bytes) const { return load_shared<u8>(at + bytes); }
};

__device__ __forceinline__ u32 pack_halves(float a, float b) {
    __half2 h = __floats2half2_rn(a, b);
    return *reinterpret_cast<u32*>(&h);
}
