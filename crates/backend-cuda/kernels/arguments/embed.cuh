// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once

struct EmbedArgs {
    const u32* step;
    // With tokens: the step inputs, to be written, and the tokens of the output rows of the step before.
    u32* inputs;
    const u32* before;
    const u8* table;
    float* y;
    // Offset of the rows' indices in `step`, and of the number of rows.
    u32 indices;
    u32 rows;
    u32 y_at, y_stride;
    u32 cols;
    u32 table_rows;
    // Bytes of a row of the table, and whether rows come in pairs (`formats.cuh`).
    u32 pitch;
    u32 is_paired;
};
