{#- Merges the partial results of split attention, and the head's sink with `sinks`; one workgroup per row and head. -#}
{%- from "common.wgsl" import sinks as read_sinks -%}
struct Params {
    // Offset and stride of the result.
    y: vec2<u32>,
    heads: u32,
    // Offset of the number of splits in `step`.
    split: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> parts: array<f32>;
{%- if sinks %}{{ read_sinks(4) }}{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let splits = step[params.split];
    let first = (id.z * params.heads + id.x) * splits * {{ v_dim + 2 }}u;
    var row_max = -3.4028234e38;
    for (var s = 0u; s < splits; s++) {
        if parts[first + s * {{ v_dim + 2 }}u + {{ v_dim + 1 }}u] != 0.0 {
            row_max = max(row_max, parts[first + s * {{ v_dim + 2 }}u + {{ v_dim }}u]);
        }
    }
    for (var col = thread; col < {{ v_dim }}u; col += 64u) {
        var acc = 0.0;
        var sum = 0.0;
        for (var s = 0u; s < splits; s++) {
            let at = first + s * {{ v_dim + 2 }}u;
            let weight = exp(parts[at + {{ v_dim }}u] - row_max);
            acc += weight * parts[at + col];
            sum += weight * parts[at + {{ v_dim + 1 }}u];
        }
        {%- if sinks %}
        sum += sink_weight(id.x, row_max);
        {%- endif %}
        y[params.y.x + id.z * params.y.y + id.x * {{ v_dim }}u + col] = acc / sum;
    }
}
