// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct F16RowsArgs {
    const u32* step;
    const float* x;
    __half* y;
    // The factor that undoes the scaling, per row.
    float* scales;
    // Weights of the norm, or null.
    const float* g;
    // Lists of experts: a row is an entry of a list, and entries past its end are skipped; or null.
    const u32* chosen;
    u32 x_at, x_stride;
    u32 cols;
    u32 y_stride;
    u32 used;
    float eps;
    // Rows of a tile; 1: rows of groups; 0: rows of `gemm`.
    u32 tile;
};
