// Blocks of threads on the processor.
//
// A thread of a block is a fiber. It runs until it waits for others: of its warp, its block or its cluster. Blocks of a grid run
// one after the other, those of a cluster at the same time. Asynchronous copies and products happen as late as a block may let
// them, when it waits, and in every other block at once; these run their last threads first. Shared memory that nobody has written is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

struct Index {
    uint32_t x, y, z;
};

struct Block;
struct Warp;

// What kernels see of their thread.
struct Thread {
    Index index;
    uint32_t lane;
    Block* block;
    Warp* warp;
};

struct Block {
    Index index, size, grid;
};

// A function of the lanes of a warp, with an argument of each, and a bit for each that is there.
using OfLanes = void (*)(void* const* lanes, uint32_t there);

// Waits for the lanes of `mask`; the last one calls `of` with the arguments of all.
void together(uint32_t mask, void* argument, OfLanes of);
void sync_block();
void sync_cluster();

// Whether the card's kernels copy in bulk.
bool has_bulk_copies();

// Addresses in shared memory: its dynamic part starts at 16 bytes.
uint32_t shared_address(const void* at);
void* shared_pointer(uint32_t address);
float load_of_block(uint32_t address, uint32_t rank);

// `cp.async`: copies `copied` of `bytes` bytes and writes zeros in the others.
void copy_later(uint32_t to, const void* from, uint32_t bytes, uint32_t copied);
void commit_copies();
void wait_for_copies(size_t pending);

// Ends the block with an error; its fibers stay where they are.
[[noreturn]] void fail(const char* what);
// Instructions on matrices take values of all lanes.
void need_all(uint32_t there);

// `ldmatrix`: lane i gives the address of row i % 8 of matrix i / 8, and gets two values of each matrix.
struct Matrices {
    uint32_t address, r[4];
    bool is_transposed;
};
void load_matrices(void* const* lanes, uint32_t there);

// `mma` of 16 x 8 results from 16 x 16 and 16 x 8 values of 16 bits.
struct Product {
    float* c;
    uint32_t a[4], b[2];
    bool is_bf16;
};
void multiply(void* const* lanes, uint32_t there);

// `wgmma` with `cols` columns of the second matrix. The first one is in registers, or in shared memory if it has a descriptor.
struct LaterProduct {
    float* c;
    uint32_t cols, a[4];
    uint64_t shared_a, b;
    bool is_by_column, is_added;
};
void multiply_warp(void* const* lanes, uint32_t there);
void multiply_later(const LaterProduct& product);
void commit_products();
void wait_for_products(size_t pending);

// `mbarrier` and bulk copies.
void init_barrier(uint32_t barrier);
void expect_bytes(uint32_t barrier, uint32_t bytes);
void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier);
void wait_for_copy(uint32_t barrier, uint32_t phase);

// A matrix of values of 16 bits in global memory, and what a bulk copy of it takes.
struct TensorMap {
    const unsigned char* at;
    uint64_t cols, rows, pitch;
    uint32_t box_cols, box_rows;
};
void copy_panel(uint32_t to, const void* map, uint32_t col, uint32_t row, uint32_t barrier);

// A kernel of a module.
struct Kernel {
    const char* name;
    void (*call)(const void* args);
    size_t args;
};

struct Launch {
    const Kernel* kernel;
    const void* args;
    Index grid, size;
    // Blocks of a cluster, along z; bytes of dynamic shared memory.
    uint32_t cluster, shared;
};

// Runs a launch to its end. Says on stderr what is wrong with it, and returns whether nothing was.
bool run(const Launch& launch);

} // namespace emulated

extern "C" {
extern __thread emulated::Thread* emulated_thread;
}
