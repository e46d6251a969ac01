// The kernels of one format, whose type is FORMAT.
#include "gemm.cuh"
#include "wgmma.cuh"
#include "gemv.cuh"
#include "arguments/embed.cuh"

GEMV(gemv_f32_1, FORMAT, 1, false, true)
GEMV(gemv_f32_4, FORMAT, 4, false, true)
GEMV(gemv_f32_experts, FORMAT, 1, false, false)
GEMV(gemv_f32_heads, FORMAT, 4, false, false)
GEMM_F32(gemm_f32, FORMAT)
#if !defined(IS_FLOAT)
GEMV(gemv_q8_1, FORMAT, 1, true, true)
GEMV(gemv_q8_2, FORMAT, 2, true, true)
GEMV(gemv_q8_4, FORMAT, 4, true, true)
GEMV(gemv_q8_8, FORMAT, 8, true, true)
GEMV(gemv_q8_experts, FORMAT, 1, true, false)
#endif
#if !defined(IS_FLOAT) || defined(FITS_F16)
GEMM(gemm_32, FORMAT, 128, 32, 2)
GEMM(gemm_64, FORMAT, 128, 64, 2)
GEMM(gemm_128, FORMAT, 128, 128, 4)
GEMM(gemm_256, FORMAT, 128, 256, 4)
WGMMA(wgmma_8, FORMAT, 8, false)
WGMMA(wgmma_16, FORMAT, 16, false)
WGMMA(wgmma_32, FORMAT, 32, false)
WGMMA(wgmma_64, FORMAT, 64, false)
WGMMA(wgmma_128, FORMAT, 128, false)
WGMMA(wgmma_groups, FORMAT, 32, true)
#endif

// `gpu::FOLLOWS`.
constexpr u32 FOLLOWS = 1u << 31;

// Looks up rows of a table: a thread has 4 values. A row that follows an output row of the step before takes its token, which
// replaces the row's in the step inputs; one that has none takes 0: its results are not used.
extern "C" __global__ void __launch_bounds__(256) embed(const __grid_constant__ EmbedArgs a) {
    pdl_launch();
    pdl_wait();
    u32 col = 4 * (blockIdx.x * 256 + threadIdx.x), row = blockIdx.y;
    if (col >= a.cols || row >= a.step[a.rows]) return;
    u32 index = a.step[a.indices + row];
    if (a.before && (index & FOLLOWS)) {
        index = a.before[index & ~FOLLOWS];
        if (index == 0xffffffffu) index = 0;
        // Other blocks find either.
        if (col == 0) a.inputs[a.indices + row] = index;
    }
    index = min(index, a.table_rows - 1);
    const u8* from = row_of<FORMAT>(a.table, index, a.pitch, a.is_paired);
    float4 v;
#if defined(IS_FLOAT)
    v = FORMAT::four(from + col * FORMAT::SIZE);
#else
    Chunk c = load<FORMAT>(tile_of<FORMAT>(from, a.cols / 32, col / 32, a.is_paired), col / 32 % TILE_CHUNKS);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        if (col / 4 % 8 == j) v = dequantize<FORMAT>(c, j);
    }
#endif
    float* y = a.y + a.y_at + size_t(row) * a.y_stride + col;
    float values[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4 && col + i < a.cols; i++) y[i] = values[i];
}
