// GEMV of weights of two formats with the same row of activations, in one launch: the first blocks compute the outputs of FIRST,
// the others those of SECOND.
#include "gemv.cuh"

struct PairArgs {
    MatmulArgs of[2];
    // Blocks of the first.
    u32 blocks;
};

extern "C" __global__ void __launch_bounds__(1024) gemv_q8_1(const __grid_constant__ PairArgs args) {
    if (blockIdx.x < args.blocks) {
        gemv<FIRST, 1, true, true>(args.of[0], blockIdx.x, args.blocks);
    } else {
        gemv<SECOND, 1, true, true>(args.of[1], blockIdx.x - args.blocks, gridDim.x - args.blocks);
    }
}
