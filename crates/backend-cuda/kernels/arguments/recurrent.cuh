// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct ConvArgs {
    const u32* step;
    float* y;
    const float* x;
    // Slots of the last `taps - 1` inputs, `[taps - 1][cols]`.
    float* state;
    // `[cols][taps]`.
    const float* weight;
    // Or null.
    const float* bias;
    // Offsets and strides.
    u32 x_at, x_stride;
    u32 y_at, y_stride;
    u32 cols;
    u32 taps;
    u32 sequences;
};

struct LinearAttentionArgs {
    const u32* step;
    float* y;
    const float* q;
    const float* k;
    const float* v;
    const float* decay;
    const float* beta;
    // Slots of the heads' states, `[heads][k_dim][v_dim]`.
    float* state;
    // The heads' factors of values, or null.
    const float* skip;
    // Offsets and strides.
    u32 q_at, q_stride;
    u32 k_at, k_stride;
    u32 v_at, v_stride;
    u32 decay_at, decay_stride;
    u32 beta_at, beta_stride;
    u32 y_at, y_stride;
    u32 heads;
    u32 k_heads;
    float scale;
    u32 sequences;
    // Columns of a head of keys and of values.
    u32 k_dim;
    u32 v_dim;
    // Whether it follows the delta rule.
    u32 is_delta;
    // Whether value head `h` reads key head `h mod k_heads`, otherwise `h / (heads / k_heads)`.
    u32 is_tiled;
};
