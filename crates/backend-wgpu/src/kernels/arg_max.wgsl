{#- Argmax of each row, the lowest index among equals; one workgroup per row. Values are compared as integers in the
same order. NaN and infinity rank above everything and negative infinity never wins; a row whose maximum is one of
these yields no token (`backend::greedy_token`). -#}
struct Params {
    // Offset and stride in vectors; columns.
    x: vec2<u32>,
    cols: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<vec4<u32>>;

const THREADS = 256u;
var<workgroup> keys: array<u32, 256>;
var<workgroup> columns: array<u32, 256>;

const NOTHING = 0u;
const BROKEN = 0xffffffffu;

/// NOTHING for negative infinity, BROKEN for NaN and infinity, otherwise an integer in the order of the values.
fn key(bits: u32) -> u32 {
    let size = bits & 0x7fffffffu;
    // -0 equals +0.
    let rising = select(0x80000000u | size, 0x80000000u - size, bits > 0x80000000u);
    let finite = select(rising, NOTHING, bits == 0xff800000u);
    return select(finite, BROKEN, size > 0x7f800000u || bits == 0x7f800000u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    let vectors = (params.cols + 3u) / 4u;
    var best = 0u;
    var column = 0u;
    for (var first = thread; first < vectors; first += {{ ahead }}u * THREADS) {
        {%- for u in range(ahead) %}
        let four{{ u }} = x[at + min(first + {{ u }}u * THREADS, vectors - 1u)];
        {%- endfor %}
        {%- for u in range(ahead) %}
        {%- for i in range(4) %}
        {
            let own = 4u * (first + {{ u }}u * THREADS) + {{ i }}u;
            let found = key(four{{ u }}[{{ i }}]);
            if own < params.cols && found > best {
                best = found;
                column = own;
            }
        }
        {%- endfor %}
        {%- endfor %}
    }
    keys[thread] = best;
    columns[thread] = column;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread < width {
            let other = keys[thread + width];
            let is_earlier = columns[thread + width] < columns[thread];
            if other > keys[thread] || other == keys[thread] && is_earlier {
                keys[thread] = other;
                columns[thread] = columns[thread + width];
            }
        }
        workgroupBarrier();
    }
    if thread == 0u {
        let is_none = keys[0] == NOTHING || keys[0] == BROKEN;
        tokens[id.z] = select(columns[0], 0xffffffffu, is_none);
    }
}
