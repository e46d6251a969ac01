// Whether compute-sanitizer's synccheck follows barriers in clusters beyond eight blocks: each warp waits for a copy before it
// starts the next one to the same place, as attention does (`decode_bulk.cu`).
//
//     nvcc -arch=sm_90a -o cluster_barriers tools/checks/cluster_barriers.cu
//     ./cluster_barriers 16 4            # blocks of a cluster, copies of a warp's tile
//     compute-sanitizer --tool synccheck --num-cuda-barriers 256 ./cluster_barriers 16 4
#include <cstdio>
#include <cstdlib>

typedef unsigned u32;
constexpr u32 WARPS = 4, TILE = 512, CLUSTERS = 8;

__device__ void start_copy(u32 to, const uint4* from, u32 barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "n"(TILE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "n"(TILE), "r"(barrier)
                 : "memory");
}

__global__ void copies(const uint4* from, u32* to, u32 rounds) {
    __shared__ alignas(128) uint4 tiles[WARPS][2][TILE / 16];
    __shared__ alignas(8) unsigned long long barriers[WARPS][2];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    u32 barrier = u32(__cvta_generic_to_shared(barriers[warp])), tile = u32(__cvta_generic_to_shared(tiles[warp]));
    if (lane == 0) {
        for (u32 i = 0; i < 2; i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier + 8 * i) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (u32 i = 0; i < 2; i++) start_copy(tile + TILE * i, from + TILE / 16 * i, barrier + 8 * i);
    }
    __syncwarp();
    for (u32 round = 0; round < rounds; round++) {
        for (u32 i = 0; i < 2; i++) {
            asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
                             barrier + 8 * i),
                         "r"(round & 1)
                         : "memory");
            sum += tiles[warp][i][lane].x;
            __syncwarp();
            if (lane == 0 && round + 1 < rounds) start_copy(tile + TILE * i, from + TILE / 16 * i, barrier + 8 * i);
        }
    }
    to[(blockIdx.z * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = sum;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

int main(int count, char** words) {
    if (count != 3) return fprintf(stderr, "usage: cluster_barriers BLOCKS ROUNDS\n"), 2;
    u32 blocks = atoi(words[1]), rounds = atoi(words[2]), sums = CLUSTERS * blocks * WARPS * 32, last = 0;
    uint4* from;
    u32* to;
    cudaMalloc(&from, 2 * TILE), cudaMalloc(&to, sums * sizeof(u32)), cudaMemset(from, 1, 2 * TILE);
    cudaMemset(to, 0, sums * sizeof(u32));
    cudaFuncSetAttribute(copies, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(CLUSTERS, 1, blocks), config.blockDim = WARPS * 32;
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension, cluster.val.clusterDim = {1, 1, blocks};
    config.attrs = &cluster, config.numAttrs = 1;
    cudaError_t error = cudaSuccess;
    for (u32 i = 0; i < 20 && error == cudaSuccess; i++) {
        error = cudaLaunchKernelEx(&config, copies, (const uint4*)from, to, rounds);
    }
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    cudaMemcpy(&last, to + sums - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("%s; %u, expected %u\n", cudaGetErrorString(error), last, 0x01010101u * 2 * rounds);
    return error != cudaSuccess || last != 0x01010101u * 2 * rounds;
}
