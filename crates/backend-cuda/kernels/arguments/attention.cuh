// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct AttentionArgs {
    const u32* step;
    // Queries, and the row's own keys and values where the kernel writes them to the cache, or null.
    const float* q;
    const float* k;
    const float* v;
    float* y;
    u8* keys;
    u8* values;
    // A logit per head that only enters the denominator of the softmax, or null.
    const float* sinks;
    // Partial results of split attention, and a counter per row and block of heads, zero between launches.
    float* parts;
    u32* counters;
    // The tensor maps of keys and of values, 128 bytes each, for `flash_wgmma` and `decode_bulk` with a cache in f16; or null.
    const u8* tensor_maps;
    // Offsets and strides.
    u32 q_at, q_stride;
    u32 k_at, k_stride;
    u32 v_at, v_stride;
    u32 y_at, y_stride;
    // Query heads, K/V heads; columns of a head.
    u32 heads;
    u32 kv_heads;
    u32 k_dim;
    u32 v_dim;
    float scale;
    // Roped columns, 0 for none, and the offset of the cos/sin table in `step`; whether columns i and i + dims / 2 pair.
    u32 dims;
    u32 cos_sin;
    u32 halves;
    // The same for keys.
    u32 k_dims;
    u32 k_cos_sin;
    u32 k_halves;
    // Offsets in `step`: positions, block table offsets, pages; number of splits and positions per split; first visible
    // position and end of these per row; tiles.
    u32 positions;
    u32 tables;
    u32 pages;
    u32 split;
    u32 visible;
    u32 tiles;
    // Whether `visible` differs from all positions up to the row's own.
    u32 masked;
    // Cap of scores, or 0; largest bias of ALiBi, or 0.
    float cap;
    float alibi;
};
