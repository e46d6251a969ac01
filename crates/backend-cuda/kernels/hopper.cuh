// Instructions of compute capability 9.0: products of a warpgroup, bulk copies and clusters (PTX ISA: wgmma, cp.async.bulk,
// mbarrier, barrier.cluster).
#pragma once
#include "common.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(EMULATED)

// The sums of a thread as operands: 4 to 64 registers.
#define REGISTERS_4 "%0, %1, %2, %3"
#define REGISTERS_8 REGISTERS_4 ", %4, %5, %6, %7"
#define REGISTERS_16 REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_32 REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_64                                                                                                   \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50"     \
                 ", %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUMS_8(c, i) SUMS_4(c, i), SUMS_4(c, i + 4)
#define SUMS_16(c, i) SUMS_8(c, i), SUMS_8(c, i + 8)
#define SUMS_32(c, i) SUMS_16(c, i), SUMS_16(c, i + 16)
#define SUMS_64(c, i) SUMS_32(c, i), SUMS_32(c, i + 32)

// `wgmma` with N columns of the second matrix. `A0` to `A5`: the numbers of the operands after the sums.
template <int N> struct Instruction;
#define INSTRUCTION(N, COUNT, A0, A1, A2, A3, A4, A5)                                                                  \
    template <> struct Instruction<N> {                                                                                \
        /* Adds the product of 64 x 16 values of a warpgroup and 16 x N in shared memory, whose columns are contiguous if */ \
        /* `BY_COLUMN`, otherwise its rows. */                                                                           \
        template <bool BY_COLUMN = true>                                                                               \
        static __device__ __forceinline__ void add(float (&c)[COUNT], const u32 (&a)[4], u64 b) {                      \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                         "k16.f32.f16.f16 {" REGISTERS_##COUNT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #A4      \
                         ", p, 1, 1, %" #A5 ";\n}"                                                                     \
                         : SUMS_##COUNT(c, 0)                                                                          \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(BY_COLUMN ? 0 : 1));                \
        }                                                                                                              \
        /* The same with both in shared memory, rows of the first one and columns of the second one contiguous. The */   \
        /* product replaces the sums if not `is_added`. */                                                               \
        static __device__ __forceinline__ void add(float (&c)[COUNT], u64 a, u64 b, bool is_added) {                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %" #A2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N        \
                         "k16.f32.f16.f16 {" REGISTERS_##COUNT "}, %" #A0 ", %" #A1 ", p, 1, 1, 0, 0;\n}"              \
                         : SUMS_##COUNT(c, 0)                                                                          \
                         : "l"(a), "l"(b), "r"(u32(is_added)));                                                        \
        }                                                                                                              \
    };
INSTRUCTION(8, 4, 4, 5, 6, 7, 8, 9)
INSTRUCTION(16, 8, 8, 9, 10, 11, 12, 13)
INSTRUCTION(32, 16, 16, 17, 18, 19, 20, 21)
INSTRUCTION(64, 32, 32, 33, 34, 35, 36, 37)
INSTRUCTION(128, 64, 64, 65, 66, 67, 68, 69)

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// What threads have written to shared memory, or copied, becomes visible to `wgmma`. It waits for all loads of the thread.
__device__ __forceinline__ void fence_for_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier at an address in shared memory, for bulk copies that one thread starts.
__device__ __forceinline__ void init_barrier(u32 barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

// Initialised barriers become visible to copies.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// The barrier waits for so many bytes.
__device__ __forceinline__ void expect_bytes(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Copies `bytes` bytes by one instruction; both sides start at a multiple of 16 bytes.
__device__ __forceinline__ void copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Before the first use of a tensor map in global memory: the host may have written another one there before.
__device__ __forceinline__ void acquire_map(const void* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}

// Copies 64 columns from `col` on of 32 rows from `row` on of a matrix, with the permutation of `panel_descriptor`, by one
// instruction (tensor memory access). `map`: of `Device::tensor_map` on the host, in global memory, and acquired. Columns that the
// matrix lacks become zeros.
__device__ __forceinline__ void copy_panel(u32 to, const void* map, u32 col, u32 row, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(col), "r"(row), "r"(barrier)
                 : "memory");
}

// Waits for the copy number `phase` of a barrier, modulo 2.
__device__ __forceinline__ void wait_for_copy(u32 barrier, u32 phase) {
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

__device__ __forceinline__ void cluster_sync() {
    // Lanes may come from loops of different length.
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A word of the shared memory of block `rank` of the cluster, at the address that it has in this block.
__device__ __forceinline__ float load_of_block(u32 address, u32 rank) {
    float value;
    asm volatile("{\n.reg .u32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}"
                 : "=f"(value)
                 : "r"(address), "r"(rank));
    return value;
}

#endif

// A matrix in shared memory in panels of rows of 64 values, whose units of 16 bytes are permuted by the row (128-byte swizzle): 8
// rows have 1,024 bytes. `panel`: bytes from one panel to the next, where a matrix is read across panels.
__device__ __forceinline__ u64 panel_descriptor(u32 address, u32 panel = 16) {
    return u64((address & 0x3ffff) >> 4) | u64(panel >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}
