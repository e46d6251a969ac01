{#- Groups rows by the experts of their lists (`route.wgsl`), for `gemm.wgsl`; one workgroup. `groups` holds a count of
tiles; for each tile its expert, first entry and number of entries, at most {{ tile }} of one expert; then the entries, by
expert: the index of row and list entry, and the bits of the routing weight. The order within an expert varies, and
changes no result. -#}
struct Params {
    // Index of the row count in `step`; offset of the entries.
    rows: u32,
    entries: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> groups: array<u32>;
@group(0) @binding(3) var<storage, read> chosen: array<u32>;

const THREADS = 256u;
const EXPERTS = {{ experts }}u;
const USED = {{ used }}u;

// By expert: the number of entries, then the next one.
var<workgroup> next: array<atomic<u32>, {{ experts }}>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        atomicStore(&next[expert], 0u);
    }
    workgroupBarrier();
    for (var row = thread; row < step[params.rows]; row += THREADS) {
        let list = row * (1u + 2u * USED);
        for (var slot = 0u; slot < chosen[list]; slot++) {
            atomicAdd(&next[chosen[list + 1u + 2u * slot]], 1u);
        }
    }
    workgroupBarrier();
    if thread == 0u {
        var first = 0u;
        var tiles = 0u;
        for (var expert = 0u; expert < EXPERTS; expert++) {
            let end = first + atomicLoad(&next[expert]);
            atomicStore(&next[expert], first);
            for (; first < end; first = min(first + {{ tile }}u, end)) {
                groups[1u + 3u * tiles] = expert;
                groups[2u + 3u * tiles] = first;
                groups[3u + 3u * tiles] = min(end - first, {{ tile }}u);
                tiles += 1u;
            }
        }
        groups[0] = tiles;
    }
    workgroupBarrier();
    for (var row = thread; row < step[params.rows]; row += THREADS) {
        let list = row * (1u + 2u * USED);
        for (var slot = 0u; slot < chosen[list]; slot++) {
            let to = params.entries + 2u * atomicAdd(&next[chosen[list + 1u + 2u * slot]], 1u);
            groups[to] = row * USED + slot;
            groups[to + 1u] = chosen[list + 2u + 2u * slot];
        }
    }
}
