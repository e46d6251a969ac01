{#- Rows of a table that tokens name: a thread for each chunk. Of a table in several buffers each has its own rows. -#}
{%- from "formats.wgsl" import shared, chunk -%}
struct Params {
    w0: vec4<u32>,
    // The first row and the row after the last.
    rows: vec4<u32>,
    // Of `y` where it begins, its stride and its columns, in vectors; where `step` has tokens.
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
    let numbers = w0_load(token - params.rows.x, id.x);
    {%- for j in range(8) %}
    if 8u * id.x + {{ j }}u < params.y.z {
        y[params.y.x + row * params.y.y + 8u * id.x + {{ j }}u] = w0_value{{ j }}(numbers);
    }
    {%- endfor %}
}
