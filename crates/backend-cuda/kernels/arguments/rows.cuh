// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct RowsArgs {
    const u32* step;
    const float* a;
    // Or null.
    const float* b;
    float* y;
    // Offsets and strides.
    u32 a_at, a_stride;
    u32 b_at, b_stride;
    u32 y_at, y_stride;
    u32 operation;
    // Of `ACT` and `GATE`; whether a gate is limited.
    u32 act;
    u32 limited;
    // Columns of a norm's group, and of `y`.
    u32 cols;
    u32 y_cols;
    // Epsilon, factor, cap or limit.
    float scalar;
    // Columns of `b`; a norm's groups divide them.
    u32 b_cols;
    // `SLICE`: columns of a head of `a` and of `y`, first column. `JOIN`: columns of a head of `a` and of `b`.
    u32 head[3];
};

struct ArgMaxArgs {
    const u32* step;
    u32* tokens;
    const float* x;
    // By row, the best of each part, and a counter of finished parts, zero between launches.
    u64* best;
    u32* counters;
    // Offset and stride, multiples of 4; columns.
    u32 x_at, x_stride;
    u32 cols;
    // The word of the step inputs with the offset of draws, whose biases are added; or `NO_DRAWS`.
    u32 draws;
};
