{#- Embedding lookup: one thread per chunk. Of a sharded table, each launch writes the rows of its shard. -#}
{%- from "formats.wgsl" import shared, chunk -%}
struct Params {
    w0: vec4<u32>,
    // The shard's rows: first, end.
    rows: vec4<u32>,
    // `y`: offset, stride, columns, all in vectors; offset of the tokens in `step`.
    y: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> w0: array<vec4<u32>>;
{{ shared() }}
{{ chunk("w0", format) }}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z;
    let token = step[params.y.w + row];
    if id.x >= params.w0.x || row >= step[0] || token < params.rows.x || token >= params.rows.y {
        return;
    }
    let packed = w0_load(token - params.rows.x, id.x);
    {%- for j in range(8) %}
    if 8u * id.x + {{ j }}u < params.y.z {
        y[params.y.x + row * params.y.y + 8u * id.x + {{ j }}u] = w0_value{{ j }}(packed);
    }
    {%- endfor %}
}
