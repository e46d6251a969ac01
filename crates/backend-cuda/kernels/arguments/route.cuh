// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct RouteArgs {
    const u32* step;
    // The lists.
    u32* chosen;
    // Logits; routing weights for `route_list`.
    const float* x;
    // Routing weights; null for `route_list`.
    float* y;
    // Added to the weights for the selection only; or null.
    const float* bias;
    // Offsets and strides.
    u32 x_at, x_stride;
    u32 y_at, y_stride;
    // Factor of the weights.
    float scale;
    u32 experts;
    u32 used;
    u32 gating;
    // Whether the weights are divided by their sum, at least 2^-14.
    u32 renormalises;
    // Experts are selected among the `used_groups` groups whose two largest weights, biases included, have the largest
    // sum; 0 groups for no such limit.
    u32 groups;
    u32 used_groups;
};

struct GroupsArgs {
    const u32* step;
    // A count of tiles; for each tile its expert, first entry and number of entries, at most `tile` of one expert; then,
    // at `entries`, the entries by expert: the index of row and list entry, `row * used + slot`, and the bits of the
    // routing weight. The order within an expert varies, and changes no result.
    u32* groups;
    // The lists.
    const u32* chosen;
    // Index of the row count in `step`.
    u32 rows;
    u32 entries;
    u32 experts;
    u32 used;
    u32 tile;
};

struct MixArgs {
    const u32* step;
    float* y;
    // Outputs of the experts, weighted: `[row * used + slot][cols]`.
    const float* x;
    // The lists.
    const u32* chosen;
    // Residual, or null.
    const float* r;
    // Offsets and strides.
    u32 y_at, y_stride;
    u32 r_at, r_stride;
    u32 cols;
    // Maximum experts per row.
    u32 used;
};
