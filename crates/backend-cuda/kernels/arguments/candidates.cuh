// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct PartArgs {
    const u32* step;
    // The `K` best ranks of each part of a row, in any order.
    u64* ranks;
    const float* x;
    // Offset and stride, multiples of 4; columns.
    u32 x_at, x_stride;
    u32 cols;
};

struct MergeArgs {
    const u32* step;
    // `K` ids of each row, best first, and the bits of their logits. Missing ids are 0xffffffff; all are if a logit is NaN or
    // infinity (`backend::Outputs::from_candidates`).
    u32* candidates;
    const u64* ranks;
    const float* x;
    u32 x_at, x_stride;
    // Parts of a row.
    u32 parts;
};

struct DrawArgs {
    const u32* step;
    // The token of each row, or 0xffffffff (`backend::Outputs::NO_TOKEN`).
    u32* tokens;
    const u64* ranks;
    // Parts of a row; offset of the offset of draws.
    u32 parts;
    u32 draws;
};

struct AdjustArgs {
    const u32* step;
    float* x;
    // Offset, stride, columns.
    u32 x_at, x_stride;
    u32 cols;
    // Offsets of tokens, of output rows, and of the offset of draws.
    u32 tokens;
    u32 outputs;
    u32 draws;
};
