// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct MatmulArgs {
    const u32* step;
    const float* x;
    float* y;
    const u8* w[3];
    // Weights of a fused norm, or null.
    const float* g;
    // Residual or biases, or null.
    const float* r;
    // Lists of experts, or null.
    const u32* chosen;
    // Biases and factors of experts, or null.
    const float* biases;
    // GEMM: activations as f16 with a factor per row (`f16_rows.cu`); rows grouped by experts, or null.
    const __half* x16;
    const float* x16_scales;
    const u32* groups;
    // Activations: offset, stride, columns. A row can have `x_segments` segments of `cols` columns, `x_segment` apart.
    u32 x_at, x_stride;
    u32 cols;
    u32 chunks;
    u32 x_segments;
    u32 x_segment;
    // Index of the row count in `step`.
    u32 rows;
    // Outputs of each weight, and their column offset in `y`; stride of `y`.
    u32 outputs[3];
    u32 y_at[3];
    u32 y_stride;
    u32 r_at, r_stride;
    float eps;
    // A gated linear unit of the first weight's outputs and the second's.
    u32 glu;
    u32 act;
    u32 limited;
    float limit;
    // Bytes of a weight row.
    u32 pitch;
    // Experts: 0 none, 1 into hidden values, 2 out of them, summed; 3: a matrix per head.
    u32 mode;
    // Maximum experts per row; matrices per expert, and which is the up projection; number of experts.
    u32 used;
    u32 per_expert;
    u32 up;
    u32 experts;
    u32 weighs_inputs;
    // Biases: whether there are any, and the offset of those of the up projection. Offset of the factors, or ~0.
    u32 has_biases;
    u32 up_biases;
    u32 factors;
    // GEMM: columns of a row of `x16`; offset of the entries in `groups`.
    u32 x16_stride;
    u32 entries;
    // FIRST, SECOND, PAIRED.
    u32 flags;
};
