// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct RopeArgs {
    const u32* step;
    // Heads that are roped into `q_out`; both null if there are none.
    const float* q;
    float* q_out;
    // Heads that are written to the cache; null if there are none.
    const float* k;
    const float* v;
    // The cache, as in `attention.cuh`. The padding is 0.
    u8* keys;
    u8* values;
    // Offset, stride, heads, head dimension.
    u32 q_at, q_stride, q_heads, q_dim;
    u32 k_at, k_stride, k_heads, k_dim;
    u32 v_at, v_stride, v_heads, v_dim;
    // Offset and stride of `q_out`.
    u32 y_at, y_stride;
    // Roped columns; offset of the cos/sin table in `step`.
    u32 dims;
    u32 cos_sin;
    // Offsets in `step`: positions, block table offsets, pages.
    u32 positions;
    u32 tables;
    u32 pages;
    // Whether keys are roped; whether column i pairs with i + dims / 2, otherwise with the one beside it.
    u32 ropes_keys;
    u32 halves;
    u32 k_type;
    u32 v_type;
};
