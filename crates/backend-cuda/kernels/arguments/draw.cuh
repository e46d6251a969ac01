// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct VocabularyArgs {
    const u32* step;
    // The token of each row, or 0xffffffff (`backend::Outputs::NO_TOKEN`).
    u32* tokens;
    // Logits, which change.
    float* x;
    // Offset and stride, multiples of 4; columns; offset of the offset of draws.
    u32 x_at, x_stride;
    u32 cols;
    u32 draws;
};
